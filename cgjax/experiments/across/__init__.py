"""Across papers: what five theories say of a network before training, beside what it then does.

The one room that imports every family; nothing imports it.
"""
