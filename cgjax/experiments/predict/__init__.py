"""Which theory predicts what composes? A benchmark of predictors on models of every family.

This package imports every family; no family imports it.
"""
