"""Benchmarks: one harness, one file a family; `python -m cgjax.bench <family>`."""
