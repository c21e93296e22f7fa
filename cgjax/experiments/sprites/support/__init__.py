"""Support theory on sprites: does a training support identify every component?"""
