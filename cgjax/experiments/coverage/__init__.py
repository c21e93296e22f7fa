"""How many combinations must be seen before a network composes, and which ones?

This package imports tasks of other families; no family imports it.
"""
