"""Odd-one-out problems of drawn shapes: three rules, each the conjunction of two subroutines.

`sets.load` is the front door. `draws` gives random numbers by name, `contours` the random outlines,
`placement` where they may lie, `rules` the scenes of each rule, `rendering` the pixels, `cache` the
files.
"""
