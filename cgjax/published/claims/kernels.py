"""Claims."""

STATED = {}
