"""Slot tuples of P' and Q as callers give them: [m, p, K, ...], or a function of the index."""

import numpy as np

from cgjax.analysis import checks

CONDITIONS = ("sum", "stack", "relaxed")
_SAME = 1e-3  # how far the component's own slot in P' may be from the value that is tested


def points(name, given, i, component, value):
    """The slot tuples of P' for value i: K arrays [p, ...] in float64."""
    points = given(i) if callable(given) else given[i]
    if not isinstance(points, tuple | list):
        points = [points[:, k] for k in range(points.shape[1])]
    if not isinstance(component, int | np.integer) or not 0 <= component < len(points):
        raise ValueError(f"component {component}: {name} hold slots 0 to {len(points) - 1}")
    if points[component].shape[1:] != value.shape:
        raise ValueError(
            f"values are {value.shape}, but slot {component} of their {name} is "
            f"{points[component].shape[1:]}: {name} are [m, points, slots, ...]"
        )
    if len({len(slot) for slot in points}) > 1:
        raise ValueError(f"{name}: slots have {[len(slot) for slot in points]} points, not as many")
    for slot in points if callable(given) else ():
        checks.finite(**{name: slot})
    points = tuple(np.asarray(slot, np.float64) for slot in points)
    off = np.max(np.abs(points[component] - value), initial=0)
    if off > _SAME * max(1, np.max(np.abs(value), initial=0)):
        raise ValueError(
            f"{name} of value {i} hold another value in slot {component}, off by {off:.2g}: P' is "
            "points in which the component has the value tested"
        )
    return points


def check_arguments(slots, partners, where, pixelwise, condition, unseen):
    if slots.ndim < 1 + pixelwise or slots.size == 0:
        raise ValueError(f"no values to test: slots is empty or no [m, ...]: {slots.shape}")
    if condition not in CONDITIONS:
        raise ValueError(f"unknown condition '{condition}': one of {', '.join(CONDITIONS)}")
    if condition == "relaxed" and unseen is None:
        raise ValueError("the relaxed condition compares P' with Q: pass unseen, tuples of Q")
    if where is not None:
        checks.positions(where, slots.shape, pixelwise)
    for name, given in (("partners", partners), ("unseen", unseen)):
        if given is None or callable(given):
            continue
        if len(given) != len(slots):
            raise ValueError(f"{name} is for {len(given)} values, slots holds {len(slots)}")
        for points in given:
            for slot in points if isinstance(points, tuple | list) else (points,):
                checks.finite(**{name: slot})


def check_components(slots, partners, each):
    """Entries for every component, and for all of them."""
    for name, value in {"slots": slots, "partners": partners, **each}.items():
        is_each = isinstance(value, tuple | list) or np.ndim(value) > 0
        if not is_each or len(value) != len(slots):
            raise ValueError(f"{name} has one entry for each of {len(slots)} components")
    if not len(slots):
        raise ValueError("slots is empty: there is no component to audit")
    for given in partners:
        first = given(0) if callable(given) else given[0]
        n_slots = len(first) if isinstance(first, tuple | list) else first.shape[1]
        if n_slots != len(slots):
            raise ValueError(f"slots are of {len(slots)} components, partners of {n_slots}")
