"""Figures of the bumps family, from saved arrays."""

DRAW = {}


def decoders(arrays, folder):
    """Nothing yet."""


for _name in ("decoders", "continuous", "table", "needed", "phase", "percolation"):
    DRAW[_name] = decoders
