"""Benchmarks: a shared harness and one file per family; `python -m cgjax.bench <family>`."""
