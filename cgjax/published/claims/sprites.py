"""Claims in words of Wiedemer et al. 2023; literals only."""

_ = None
STATED = {}
