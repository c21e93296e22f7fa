"""Masks of frozen networks: their training, ablations, the table of runs, further studies."""
