"""The theories, each as functions of `f(params, x)`, arrays or a parameter tree."""
