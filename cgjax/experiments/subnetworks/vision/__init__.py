"""Odd-one-out problems of drawn shapes: three rules, each the conjunction of two subroutines.

The entry point is `sets.load`. `draws` has random numbers by name, `contours` random outlines,
`placement` their positions, `rules` the scenes of each rule, `rendering` the pixels, `cache` the
files.
"""
