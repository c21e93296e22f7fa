"""Many runs of one command: rows x overrides, a workdir each; `python -m cgjax.sweep --help`."""
