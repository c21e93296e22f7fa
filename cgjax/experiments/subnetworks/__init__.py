"""Structural compositionality: are the parts of a rule parts of the network? (NeurIPS 2023)"""
