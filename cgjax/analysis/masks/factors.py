"""Which weights serve which factor? A short search for a subnetwork of each (Lepori et al. 2023).

The subroutine of factor c is its main effect on the outputs, a_c(z_c) of `effects.additive_fit`.
Continuous sparsification searches for few weights that compute this effect alone; then they are
removed. If a model has a part for each factor, the subnetwork of a factor has its own effect and
not the others', and the network without it has the others' effects and not its own. The null is the
removal of the same number of random weights. A short search does not find the smallest mask, so
overlaps are those of the masks found, not of the weights needed.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cgjax.analysis import checks, masks
from cgjax.analysis.effects import additive_fit
from cgjax.core import tree

N_STEPS = 300
S0, LEARNING_RATE, BETA_MAX = 0.05, 3e-2, 200.0
PENALTY = 0.1  # cost of keeping all weights, in units of the cost of missing the whole effect
N_DRAWS = 8
# A factor has a main effect if its share of the outputs' variance is above this.
LEAST_SHARE = 1e-3


class Subnetworks(NamedTuple):
    """A subnetwork for each of K factors, and its ablation."""

    factors: np.ndarray  # [K] those with a main effect
    masks: Any  # tree like params, leaves [K, ...] of 0 and 1; None where not selected
    kept: np.ndarray  # [K] share of the selected weights
    alone: np.ndarray  # [K, K] R2 of the main effect of factor k (column) in subnetwork j (row)
    without: np.ndarray  # [K, K] the same in the network without subnetwork j
    sub_diff: float  # own minus other effects in subnetworks, R2 cut to [0, 1]: 1 at best
    abl_diff: float  # the same in the networks without them: -1 at best
    abl_diff_random: np.ndarray  # [draws] for the removal of the same number of random weights
    overlap: np.ndarray  # [K, K] intersection over union of the masks
    overlap_random: np.ndarray  # [K, K] of random masks that keep as many weights of each leaf
    n_passes: int  # forward and backward passes of all samples, the cost of the search


def main_effects(factors: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The factors [K] with a main effect on outputs [n, D], and the effects a_c(z_c) [K, n, D]."""
    terms = additive_fit(factors, outputs).terms
    outputs = np.asarray(outputs, np.float64)
    varies = np.ptp(outputs, axis=0) > 0  # the variance of a constant is rounding
    total = np.var(outputs[:, varies], axis=0).sum() * len(outputs)
    share = np.sum(terms[..., varies] ** 2, axis=(1, 2)) / (total or 1.0)
    chosen = np.flatnonzero(share > LEAST_SHARE)
    return chosen, terms[chosen]


def subnetworks(
    f: Callable,
    params,
    x,
    factors: np.ndarray,
    where: masks.Where,
    n_steps: int = N_STEPS,
    key: jax.Array | None = None,
) -> Subnetworks:
    """A mask for each factor that has a main effect: n_steps of Adam on scores, all at once.

    f(params, x): x [n, ...] -> [n, ...]. factors: integers [n, C]. where: the leaves to mask, as in
    `masks.selected`. key: draws the random removals.
    """
    checks.integer("n_steps", n_steps, 1)
    checks.finite_leaves(params=params, x=x)
    checks.samples(x=x)
    scores = masks.init(params, where, S0)
    outputs_full = np.asarray(_called(f, params, x), np.float64)
    chosen, effects = main_effects(factors, outputs_full)
    if len(chosen) < 2:
        raise ValueError(f"factors: {len(chosen)} have a main effect on the outputs, need two")
    # Squares of small and large outputs leave float32; a power of two changes no digit.
    unit = 2.0 ** np.frexp(np.max(np.abs(effects)))[1]
    scaled = jnp.asarray(effects / unit, jnp.float32)
    hard_masks = _search(f, params, x, scores, scaled, jnp.float32(1 / unit), n_steps)
    hard_masks = jax.tree.map(np.asarray, hard_masks)
    kept, overlap, overlap_random = _overlaps(hard_masks, len(chosen))
    keys = jax.random.split(jax.random.key(0) if key is None else key, N_DRAWS)
    alone, without, at_random = _outcomes(f, params, x, hard_masks, keys)

    def scored(outputs):
        return _scores(factors, outputs, chosen, effects)

    alone, without = scored(alone), scored(without)
    return Subnetworks(
        factors=chosen,
        masks=hard_masks,
        kept=kept,
        alone=alone,
        without=without,
        sub_diff=_difference(alone),
        abl_diff=_difference(without),
        abl_diff_random=np.array([_difference(scored(draw)) for draw in at_random]),
        overlap=overlap,
        overlap_random=overlap_random,
        n_passes=n_steps * len(chosen),
    )


@functools.partial(jax.jit, static_argnames="f")
def _called(f, params, x):
    out = f(params, x)
    return out.reshape(len(out), -1)


@functools.partial(jax.jit, static_argnames=("f", "n_steps"))
def _search(f, params, x, scores, effects, scale, n_steps):
    """Hard masks, leaves [K, ...], one for each effect [K, n, D] of scale times the outputs."""

    def search(effect):
        def loss(s, step, beta):
            mask = masks.soft(s, beta)
            out = scale * _called(f, masks.apply(params, mask), x)
            missed = jnp.sum((out - jnp.mean(out, axis=0, keepdims=True) - effect) ** 2)
            return missed / jnp.sum(effect**2) + PENALTY * masks.kept(mask)

        s, _ = masks.learn(loss, scores, n_steps, LEARNING_RATE, beta_max=BETA_MAX)
        return masks.hard(s)

    return jax.vmap(search)(effects)


@functools.partial(jax.jit, static_argnames="f")
def _outcomes(f, params, x, hard_masks, keys):
    """Outputs of subnetworks [K, n, D], without them, and without random ones [draws, K, n, D]."""

    def alone(mask):
        return _called(f, masks.apply(params, mask), x)

    def without(mask):
        return _called(f, masks.ablate(params, mask), x)

    def at_random(key):
        return jax.vmap(lambda mask: without(_shuffled(key, mask)))(hard_masks)

    return jax.vmap(alone)(hard_masks), jax.vmap(without)(hard_masks), jax.vmap(at_random)(keys)


def _shuffled(key, mask):
    """A mask with as many weights, drawn from all leaves: one leaf may be one factor's part."""
    vector, back = ravel_pytree(mask)
    return back(jax.random.permutation(key, vector))


def _overlaps(hard_masks, n):
    """Shares kept [K], and overlaps [K, K] of masks [K, ...]: observed and by chance."""
    single_masks = [tree.take(hard_masks, k) for k in range(n)]
    overlaps = np.ones((2, n, n))
    for i, j in itertools.combinations(range(n), 2):
        overlaps[:, i, j] = overlaps[:, j, i] = _overlap(single_masks[i], single_masks[j])
    counts = [sum(leaf.sum() for leaf in jax.tree.leaves(mask)) for mask in single_masks]
    return np.array(counts, float) / tree.size(single_masks[0]), *overlaps


@jax.jit
def _overlap(a, b):
    overlap = masks.overlap([a, b])
    return jnp.stack([overlap.total, overlap.expected_total])


def _scores(factors, outputs, chosen, effects):
    """R2 [K, K] of main effects [K, n, D] (columns), predicted by those of outputs (rows)."""
    rows = []
    for outputs_j in np.asarray(outputs, np.float64):
        terms = additive_fit(factors, outputs_j).terms[chosen]
        missed = np.sum((terms - effects) ** 2, axis=(1, 2))
        rows.append(1 - missed / np.sum(effects**2, axis=(1, 2)))
    return np.stack(rows)


def _difference(r2):
    """Own effects minus others, of R2 [K, K] cut to [0, 1]."""
    r2 = np.clip(r2, 0, 1)
    is_own = np.eye(len(r2), dtype=bool)
    return float(r2[is_own].mean() - r2[~is_own].mean())
