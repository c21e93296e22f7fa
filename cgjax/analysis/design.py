"""Support design: the fewest points that make a component identifiable, chosen greedily.

What the theorem asks of a support (Wiedemer et al. 2023, Def. 3) can be turned around: given places
where the other components could be held still, which of them have to be in the training set?
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, jacobians


class Design(NamedTuple):
    """The chosen candidates, in order, and how the condition came to hold."""

    chosen: tuple[int, ...]
    sigma_min: np.ndarray  # [steps] smallest singular value over values and positions
    n_failing: np.ndarray  # [steps] mean number of failing positions (directions) per value
    share: np.ndarray  # [steps] of values that pass
    holds: bool
    verdict: str


def design(
    composition: Callable,
    slots: jax.Array,
    component: int,
    candidates: jax.Array,
    most: int = 8,
    pixelwise: bool = True,
    condition: str = "sum",
    rtol: float = 1e-5,
    atol: float = 1e-3,
    where: jax.Array | None = None,
) -> Design:
    """Greedily adds the candidate that leaves the fewest positions unidentified, until none is.

    slots: m values of the component, [m, ...]. candidates: slot tuples [c, K, ...]; the entry of
    `component` is replaced by each value in turn, so a candidate is a plane of the support: one
    component varies, the others stay. Ties go to the larger smallest singular value.
    condition, where, rtol, atol: as in `support.audit` ("sum" or "stack").
    """
    checks.tolerances(rtol, atol)
    checks.finite(slots=slots, candidates=candidates)
    checks.integer("most", most, 1)
    slots, candidates = np.asarray(slots), np.asarray(candidates)
    _check(slots, component, candidates, condition)
    if where is not None:
        checks.positions(where, slots.shape, pixelwise)
    chosen, curve = [], []
    with jax.enable_x64(True):
        others = tuple(
            jnp.asarray(candidates[:, k], jnp.float64) for k in range(candidates.shape[1])
        )
        values = jnp.asarray(slots, jnp.float64)
        if pixelwise:
            own = jnp.broadcast_to(values[0], others[component].shape)
            some = tuple(own if k == component else slot for k, slot in enumerate(others))
            jacobians.check_pixelwise(composition, some, component)
        while len(chosen) < min(most, len(candidates)):
            totals = []
            for i in range(len(values)):
                judged = slice(None) if where is None else np.asarray(where[i], bool).ravel()
                sigma = np.asarray(
                    _trials(
                        composition, values[i], others, jnp.array(chosen, int),
                        component, pixelwise, condition == "stack",
                    )
                )[:, judged]  # fmt: skip
                totals.append(_score(sigma, rtol, atol, pixelwise))
            n_failing, smallest = (np.stack(column) for column in zip(*totals))  # [m, c]
            free = np.setdiff1d(np.arange(len(candidates)), chosen)
            order = np.lexsort((-smallest.min(0)[free], n_failing.sum(0)[free]))
            best = int(free[order[0]])
            chosen.append(best)
            curve.append(
                (smallest.min(0)[best], n_failing.mean(0)[best], np.mean(n_failing[:, best] == 0))
            )
            if curve[-1][2] == 1:
                break
    columns = (np.array(column) for column in zip(*curve))
    return _answer(tuple(chosen), *columns, n_candidates=len(candidates))


@functools.partial(jax.jit, static_argnames=("composition", "component", "pixelwise", "stacked"))
def _trials(composition, value, others, chosen, component, pixelwise, stacked):
    """Singular values [c, blocks, M] of the chosen candidates together with each one more."""
    own = jnp.broadcast_to(value, others[component].shape)
    points = tuple(own if k == component else slot for k, slot in enumerate(others))
    found = jacobians.blocks(composition, points, component, pixelwise)  # [c, blocks, rows, M]
    base = found[chosen]
    if not stacked:
        return jacobians.singular_values(found + jnp.sum(base, axis=0)[None])
    base = jnp.moveaxis(base, 0, 1).reshape(found.shape[1], -1, found.shape[-1])
    base = jnp.broadcast_to(base, (len(found), *base.shape))
    return jacobians.singular_values(jacobians.triangular(jnp.concatenate([base, found], axis=2)))


def _score(sigma, rtol, atol, pixelwise):
    """Failing positions (or directions) [c] and smallest singular value [c] of one value."""
    if not np.all(np.isfinite(sigma)):
        raise ValueError("the Jacobian is not finite: composition is not differentiable there")
    largest = sigma.max(axis=(1, 2), keepdims=True, initial=0)
    lacking = sigma <= np.maximum(rtol * largest, atol)
    lacking = lacking.any(axis=2) if pixelwise else lacking.reshape(len(sigma), -1)
    return lacking.sum(axis=1), sigma.min(axis=(1, 2), initial=np.inf)


def _check(slots, component, candidates, condition):
    if condition not in ("sum", "stack"):
        raise ValueError(f"design works with the condition 'sum' or 'stack', not '{condition}'")
    if len(slots) == 0 or len(candidates) == 0:
        raise ValueError("design needs at least one value (slots) and one candidate")
    if candidates.ndim < 3 or not 0 <= component < candidates.shape[1]:
        raise ValueError(
            f"candidates are slot tuples [c, K, ...] and component one of the K: got shape "
            f"{candidates.shape}, component {component}"
        )
    if candidates.shape[2:] != slots.shape[1:]:
        raise ValueError(f"values are {slots.shape[1:]}, candidates' slots {candidates.shape[2:]}")


def _answer(chosen, sigma_min, n_failing, share, n_candidates):
    holds = bool(share[-1] == 1)
    if holds:
        verdict = (
            f"{len(chosen)} of {n_candidates} candidates suffice, smallest singular value "
            f"{sigma_min[-1]:.3g}"
        )
    else:
        verdict = (
            f"no {len(chosen)} of {n_candidates} candidates found that suffice: {share[-1]:.0%} of "
            f"the values pass, {n_failing[-1]:.1f} positions fail on average"
        )
    return Design(chosen, sigma_min, n_failing, share, holds, verdict)
