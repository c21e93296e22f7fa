"""Across papers: numbers of five theories before training, against the error after it.

This package imports every family; no family imports it.
"""
