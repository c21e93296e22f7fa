"""Held-out regions of the grid of centres, by name."""

import numpy as np

from cgjax.core.errors import BadInput, one_of

REGIONS = ("donut", "cross", "corner")


def region(
    name: str, n: int, lb: int | None = None, ub: int | None = None, corner: int | None = None
) -> np.ndarray:
    """Mask [y, x] of the held-out centres of an n x n grid.

    "donut": lb <= x <= ub and lb <= y <= ub. "cross": lb <= x < ub or lb <= y < ub; some values of
    x and y never occur in training, so composing is impossible. "corner": x >= corner and
    y >= corner.
    """
    one_of("region", name, REGIONS)
    y, x = np.indices((n, n))
    if name == "corner":
        if corner is None or not 0 < corner < n:
            raise BadInput(f"region 'corner' needs a corner from 1 to {n - 1}, got {corner}")
        return _held_out(name, x, y, corner)
    if lb is None or ub is None or not 0 <= lb <= ub < n:
        raise BadInput(f"region '{name}' needs 0 <= lb <= ub < {n}, got lb {lb} and ub {ub}")
    held_out = _held_out(name, x, y, lb, ub)
    if held_out.all() or not held_out.any():
        raise BadInput(f"region '{name}' from {lb} to {ub} leaves nothing on one side")
    return held_out


def _held_out(name, x, y, *numbers):
    if name == "corner":
        (corner,) = numbers
        return (x >= corner) & (y >= corner)
    lb, ub = numbers
    if name == "cross":
        return ((x >= lb) & (x < ub)) | ((y >= lb) & (y < ub))
    return (x >= lb) & (x <= ub) & (y >= lb) & (y <= ub)


def holds(region_name: str, xy: np.ndarray) -> np.ndarray:
    """Whether centres xy [k, 2] between pixels are held out: bool [k]. Names as in `parse`.

    "wide" has no such mask: it depends on the width, too.
    """
    if region_name == "whole":
        return np.zeros(len(xy), bool)
    name, *numbers = region_name.split("_")
    one_of("region", name, REGIONS)
    return _held_out(name, *np.asarray(xy).T, *map(int, numbers))


def parse(region_name: str, n: int, n_widths: int = 1) -> np.ndarray:
    """Mask [n_widths, n, n] of the held-out points, rows before columns.

    "donut_<lb>_<ub>", "cross_<lb>_<ub>" and "corner_<corner>" apply at every width.
    "wide_<lb>_<ub>" is the donut at the larger half of the widths only, so that every pair of
    factors is trained. "whole" holds nothing out.
    """
    if region_name == "whole":
        return np.zeros((n_widths, n, n), bool)
    name, *numbers = region_name.split("_")
    values = [int(number) for number in numbers]
    if name == "corner":
        (corner,) = values
        held_out = region(name, n, corner=corner)
    else:
        lb, ub = values
        held_out = region("donut" if name == "wide" else name, n, lb, ub)
    widths = np.arange(n_widths) >= (-(-n_widths // 2) if name == "wide" else 0)
    if not widths.any():
        raise BadInput(
            f"region '{region_name}' needs several widths: set more than one of data.sigmas"
        )
    return widths[:, None, None] & held_out


def is_region(region_name: str) -> bool:
    """Whether `region_name` is a valid name of a region in a large enough image."""
    try:
        parse(region_name, 2**10, 2)
    except (BadInput, ValueError):  # unknown name, or wrong or missing numbers
        return False
    return True
