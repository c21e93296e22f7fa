"""Which weights serve which factor? A short search for a subnetwork of each (Lepori et al. 2023).

The subroutine of factor c is its main effect on the outputs, a_c(z_c) of `effects.additive_fit`.
Continuous sparsification looks for few weights that give it alone; then they are removed. Where a
model has a part for each factor, the subnetwork of a factor has its effect and not the others',
and what is left without it has the others' and not its own. Removals of as many weights at random
are the null. A short search finds no smallest mask: overlaps are what it left, not what is needed.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from cgjax.analysis import checks, masks
from cgjax.analysis.effects import additive_fit
from cgjax.core import tree

N_STEPS = 300
S0, LEARNING_RATE, BETA_MAX = 0.05, 3e-2, 200.0
PENALTY = 0.1  # what keeping all weights costs, where missing the whole effect costs 1
N_DRAWS = 8
# A factor has an effect of its own from this share of the outputs' variance on.
LEAST_SHARE = 1e-3


class Subnetworks(NamedTuple):
    """A subnetwork for each of K factors, and what is left without it."""

    factors: np.ndarray  # [K] those with a main effect of their own
    masks: Any  # tree like params, leaves [K, ...] of 0 and 1; None where not selected
    kept: np.ndarray  # [K] share of the selected weights
    alone: np.ndarray  # [K, K] R2 of the main effect of factor k (column) in subnetwork j (row)
    without: np.ndarray  # [K, K] the same in the network without subnetwork j
    sub_diff: float  # own minus other effects in subnetworks, R2 cut to [0, 1]: 1 at best
    abl_diff: float  # the same in what is left: -1 at best
    abl_diff_random: np.ndarray  # [draws] of removals of as many weights, drawn at random
    overlap: np.ndarray  # [K, K] intersection over union of the masks
    overlap_random: np.ndarray  # [K, K] of random masks that keep as many of each leaf
    n_passes: int  # of all samples through the network and back, which is what it costs


def main_effects(factors: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The factors [K] that move outputs [n, D] by themselves, and how: a_c(z_c) [K, n, D]."""
    terms = additive_fit(factors, outputs).terms
    share = np.sum(terms**2, axis=(1, 2)) / max(np.var(outputs, axis=0).sum() * len(outputs), 1e-30)
    found = np.flatnonzero(share > LEAST_SHARE)
    return found, terms[found]


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
    scores = masks.init(params, where, S0)
    full = _outputs(f, params, x)
    chosen, effects = main_effects(factors, full)
    if len(chosen) < 2:
        raise ValueError(f"factors: {len(chosen)} move the outputs by themselves, two are needed")
    found = _search(f, params, x, scores, jnp.asarray(effects, jnp.float32), n_steps)
    found = jax.tree.map(np.asarray, found)
    kept, overlap, overlap_random = _overlaps(found, len(chosen))
    keys = jax.random.split(jax.random.key(0) if key is None else key, N_DRAWS)
    alone, without, at_random = _outcomes(f, params, x, found, keys)

    def scored(outputs):
        return _scores(factors, outputs, chosen, effects)

    alone, without = scored(alone), scored(without)
    return Subnetworks(
        factors=chosen,
        masks=found,
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


def _outputs(f, params, x):
    return np.asarray(_called(f, params, x), np.float64)


@functools.partial(jax.jit, static_argnames="f")
def _called(f, params, x):
    found = f(params, x)
    return found.reshape(len(found), -1)


@functools.partial(jax.jit, static_argnames=("f", "n_steps"))
def _search(f, params, x, scores, effects, n_steps):
    """Hard masks, leaves [K, ...], one for each effect [K, n, D]."""
    tx = optax.adam(LEARNING_RATE)

    def search(effect):
        def loss(s, beta):
            mask = masks.soft(s, beta)
            found = _called(f, masks.apply(params, mask), x)
            missed = jnp.sum((found - jnp.mean(found, axis=0, keepdims=True) - effect) ** 2)
            return missed / jnp.sum(effect**2) + PENALTY * masks.kept(mask)

        def step(state, i):
            s, inner = state
            slopes = jax.grad(loss)(s, masks.beta_schedule(i + 1, n_steps, BETA_MAX))
            moves, inner = tx.update(slopes, inner)
            return (optax.apply_updates(s, moves), inner), None

        (s, _), _ = jax.lax.scan(step, (scores, tx.init(scores)), jnp.arange(n_steps))
        return masks.hard(s)

    return jax.vmap(search)(effects)


@functools.partial(jax.jit, static_argnames="f")
def _outcomes(f, params, x, found, keys):
    """Outputs of subnetworks [K, n, D], without them, and without random ones [draws, K, n, D]."""

    def alone(mask):
        return _called(f, masks.apply(params, mask), x)

    def without(mask):
        return _called(f, masks.ablate(params, mask), x)

    def at_random(key):
        return jax.vmap(lambda mask: without(_shuffled(key, mask)))(found)

    return jax.vmap(alone)(found), jax.vmap(without)(found), jax.vmap(at_random)(keys)


def _shuffled(key, mask):
    """As many weights, drawn from all that were selected: leaves may be parts of their own."""
    vector, back = ravel_pytree(mask)
    return back(jax.random.permutation(key, vector))


def _overlaps(found, n):
    """Shares kept [K], and overlaps [K, K] of masks with leaves [K, ...]: theirs, by chance."""
    each = [tree.take(found, k) for k in range(n)]
    overlaps = np.ones((2, n, n))
    for i, j in itertools.combinations(range(n), 2):
        overlaps[:, i, j] = overlaps[:, j, i] = _overlap(each[i], each[j])
    kept = [sum(leaf.sum() for leaf in jax.tree.leaves(mask)) for mask in each]
    return np.array(kept, float) / tree.size(each[0]), *overlaps


@jax.jit
def _overlap(a, b):
    found = masks.overlap([a, b])
    return jnp.stack([found.total, found.expected_total])


def _scores(factors, outputs, chosen, effects):
    """R2 [K, K] of main effects [K, n, D] (columns) by those of outputs [K, n, D] (rows)."""
    rows = []
    for each in np.asarray(outputs, np.float64):
        terms = additive_fit(factors, each).terms[chosen]
        missed = np.sum((terms - effects) ** 2, axis=(1, 2))
        rows.append(1 - missed / np.sum(effects**2, axis=(1, 2)))
    return np.stack(rows)


def _difference(r2):
    """Own effects minus others, of R2 [K, K] cut to [0, 1]."""
    r2 = np.clip(r2, 0, 1)
    own = np.eye(len(r2), dtype=bool)
    return float(r2[own].mean() - r2[~own].mean())
