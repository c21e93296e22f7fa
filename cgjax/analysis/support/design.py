"""Support design: points that make a component identifiable, chosen greedily or by exact search.

What the theorem asks of a support (Wiedemer et al. 2023, Def. 3) can be turned around: given places
where the other components could be held still, which of them have to be in the training set?
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, choice, finite, integer, number
from cgjax.analysis.support import jacobians

LARGEST = 20_000  # sets of candidates that an exact search looks at


class Design(NamedTuple):
    """The chosen candidates, in order, and how the condition came to hold."""

    chosen: tuple[int, ...]
    sigma_min: np.ndarray  # [steps] smallest singular value over values and positions
    n_failing: np.ndarray  # [steps] mean number of failing positions (directions) per value
    share: np.ndarray  # [steps] of values that pass
    holds: bool
    verdict: str


@checked
def design(
    composition: Callable,
    slots: finite("m *slot"),
    component: integer(0, below="K"),
    candidates: finite("c K *slot"),
    most: integer(1) = 8,
    pixelwise: bool = True,
    condition: choice("sum", "stack") = "sum",
    rtol: number("[0, 1)") = 1e-5,
    atol: number("[0, inf)") = 1e-3,
    where: jax.Array | None = None,
    exact: bool = False,
) -> Design:
    """Adds the candidate that leaves the fewest positions unidentified, until none is.

    This is greedy: fewer candidates may suffice. exact: looks at every set, the small ones first,
    and returns one of the smallest in which each value has points that identify it; refused where
    there are too many sets to look at.
    slots: m values of the component. candidates: slot tuples; the entry of
    `component` is replaced by each value in turn, so a candidate is a plane of the support: one
    component varies, the others stay. Ties go to the larger smallest singular value.
    condition, where, rtol, atol: as in `support.audit`.
    """
    most = min(most, len(candidates))
    slots, candidates = np.asarray(slots), np.asarray(candidates)
    judged = checks.positions(where, slots.shape, pixelwise)
    with jax.enable_x64(True):
        others = tuple(
            jnp.asarray(candidates[:, k], jnp.float64) for k in range(candidates.shape[1])
        )
        values = jnp.asarray(slots, jnp.float64)
        if pixelwise:
            own = jnp.broadcast_to(values[0], others[component].shape)
            some = tuple(own if k == component else slot for k, slot in enumerate(others))
            jacobians.check_pixelwise(composition, some, component)

        def trial(chosen):
            """n_failing [m, c] and smallest sigma [m, c] of these with each candidate more."""
            totals = []
            for value, is_judged in zip(values, judged):
                given = (composition, value, others, jnp.array(chosen, int), component, pixelwise)
                sigma = np.asarray(_trials(*given, condition == "stack"))[:, is_judged]
                jacobians.check_finite(sigma, "candidates")
                is_hidden = sigma <= jacobians.least(sigma, rtol, atol)
                n_failing = jacobians.n_lacking(is_hidden, pixelwise)
                totals.append((n_failing, sigma.min(axis=(1, 2), initial=np.inf)))
            return tuple(np.stack(column) for column in zip(*totals))

        chosen, curve = (_exact if exact else _greedy)(trial, len(candidates), most)
    columns = (np.array(column) for column in zip(*curve))
    return _answer(tuple(chosen), *columns, n_candidates=len(candidates), exact=exact)


def _greedy(trial, n_candidates, most):
    """The chosen candidates in order, and (smallest sigma, mean n_failing, share) after each."""
    chosen, curve = [], []
    while len(chosen) < most:
        n_failing, smallest = trial(chosen)
        free = np.setdiff1d(np.arange(n_candidates), chosen)
        order = np.lexsort((-smallest.min(0)[free], n_failing.sum(0)[free]))
        best = int(free[order[0]])
        chosen.append(best)
        curve.append(
            (smallest.min(0)[best], n_failing.mean(0)[best], np.mean(n_failing[:, best] == 0))
        )
        if curve[-1][2] == 1:
            break
    return chosen, curve


def _exact(trial, n_candidates, most):
    """The same for the first set, by size, in which every value passes with some of its points."""
    known = {(): (None, None, False)}  # set: n_failing [m], smallest sigma [m], identified [m]
    looked_at, best = 0, ()
    for size in range(1, most + 1):
        looked_at += math.comb(n_candidates, size)
        if looked_at > LARGEST:
            raise ValueError(
                f"exact search up to {size} of {n_candidates} candidates looks at {looked_at:,} "
                f"sets, more than {LARGEST:,}: pass fewer candidates, or most={size - 1}"
            )
        for first in itertools.combinations(range(n_candidates), size - 1):
            n_failing, smallest = trial(first)
            for last in range(first[-1] + 1 if first else 0, n_candidates):
                chosen = (*first, last)
                # A sum may cancel: with more points, fewer may still be taken as P'.
                parts = (chosen[:i] + chosen[i + 1 :] for i in range(size))
                seen = np.any([known[part][2] | (n_failing[:, last] == 0) for part in parts], 0)
                known[chosen] = n_failing[:, last], smallest[:, last], seen
        sets = [chosen for chosen in known if len(chosen) == size]
        best = max(sets, key=lambda chosen: (known[chosen][2].mean(), known[chosen][1].min()))
        if known[best][2].all():
            break
    prefixes = (known[best[: i + 1]] for i in range(len(best)))
    return best, [(least.min(), fails.mean(), seen.mean()) for fails, least, seen in prefixes]


@functools.partial(jax.jit, static_argnames=("composition", "component", "pixelwise", "stacked"))
def _trials(composition, value, others, chosen, component, pixelwise, stacked):
    """Singular values [c, blocks, M] of the chosen candidates together with each one more."""
    values = jnp.broadcast_to(value, others[component].shape)
    points = tuple(values if k == component else slot for k, slot in enumerate(others))
    blocks = jacobians.blocks(composition, points, component, pixelwise)  # [c, blocks, rows, M]
    base = list(blocks[chosen])
    with_each = jax.vmap(lambda block: jacobians.together([*base, block], stacked))(blocks)
    return jacobians.singular_values(with_each)


def _answer(chosen, sigma_min, n_failing, share, n_candidates, exact):
    holds = bool(share[-1] == 1)
    if holds:
        fewer = "no fewer do" if exact else "chosen greedily, fewer may"
        verdict = (
            f"{len(chosen)} of {n_candidates} candidates suffice ({fewer}), smallest singular "
            f"value {sigma_min[-1]:.3g}"
        )
    else:
        looked = "all sets looked at" if exact else "chosen greedily"
        verdict = (
            f"no {len(chosen)} of {n_candidates} candidates found that suffice ({looked}): "
            f"{share[-1]:.0%} of the values pass, {n_failing[-1]:.1f} positions fail on average"
        )
    return Design(chosen, sigma_min, n_failing, share, holds, verdict)
