"""Figures of the resistance family, from saved arrays."""


def draw(row, study, arrays, folder):
    """Draws."""
