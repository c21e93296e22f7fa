"""Five theories, one number each, of the network at initialisation; larger means larger errors.

    support        share of component values without a theorem's guarantee: the Jacobian-rank audit
                   of the split where the model has the data's composition, 1 where it has another
                   (0 where the split holds nothing out)
    tangent        error on new inputs of the network linearised at initialisation and trained to
                   the end
    factorization  1 - F of the representation over a grid of two factors
    dependence     share of the first update's derivatives with respect to inputs of another part
    masks          overlap of the weights to which each routine's loss is most sensitive

Every function maps (pair, parameters of each seed, config) to a number for each seed, or a reason.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence, factorization, masks
from cgjax.analysis.ntk import linearised
from cgjax.core import tree
from cgjax.experiments.across.pair import Pair, Reason

CHUNK = 64  # inputs per batch of derivatives


def support(pair: Pair, starts: list, config) -> list | Reason:
    """Wiedemer et al.; depends only on split and kind of model, so that all seeds share it."""
    if isinstance(pair.support, Reason):
        return pair.support
    return [pair.support()] * len(starts)


def tangent(pair: Pair, starts: list, config) -> list:
    """Lippl and Stachenfeld: error of the kernel machine of the initial network."""
    errors = []
    for params, look in zip(starts, pair.looks):
        fit = linearised.linearised_fit(
            pair.f, params, look.x, look.y, look.x_new, most_iterations=config.eval.iterations
        )
        errors.append(pair.error(look.y_new, fit.predictions.reshape(look.y_new.shape)))
    return errors


def factor(pair: Pair, starts: list, config) -> list | Reason:
    """Liang et al.: how far two factors move the representation along the same directions."""
    if isinstance(pair.layer, Reason):
        return pair.layer
    layer = jax.jit(pair.layer)

    def unfactorized(params, look):
        activations = np.asarray(layer(params, look.grid), float)
        grids = activations.reshape(-1, *pair.shape[-2:], activations[0].size)
        return 1 - np.mean([factorization.metric(grid) for grid in grids])

    return [unfactorized(params, look) for params, look in zip(starts, pair.looks)]


def depend(pair: Pair, starts: list, config) -> list | Reason:
    """The resistance study: which inputs the first gradient step makes each part depend on."""
    if isinstance(pair.parts, Reason):
        return pair.parts
    parts, f = pair.parts, pair.f

    @jax.jit
    def matrix(params, look):
        update = jax.grad(lambda p: -pair.loss(look.y, f(p, look.x)))(params)

        def added(params, x):
            """The first-order change of the network's outputs by the step."""
            return parts.read(jax.jvp(lambda p: f(p, x), (params,), (update,))[1])

        return dependence.gradient_dependence(
            added,
            params,
            look.x,
            parts.inputs,
            parts.outputs,
            centred=parts.centred,
            chunk=min(CHUNK, len(look.x)),
        )

    matrices = [np.asarray(matrix(params, look), float) for params, look in zip(starts, pair.looks)]
    return [1 - np.trace(shares) / shares.sum() for shares in matrices]


def overlap(pair: Pair, starts: list, config) -> list | Reason:
    """Lepori et al.: do the routines need the same weights? Masks by |w dL/dw| at the start.

    The paper learns masks of trained networks and ablates them. An initial network has nothing to
    ablate, but each routine's loss is more sensitive to some weights than to others.
    """
    if isinstance(pair.routines, Reason):
        return pair.routines

    @jax.jit
    def mean_overlap(params, look):
        matrices = {name for name, leaf in tree.flat(params).items() if leaf.ndim > 1}
        routine_masks = []
        for loss in pair.routines.values():
            slopes = jax.grad(loss)(params, look)
            sensitive = jax.tree.map(lambda w, slope: w * slope, params, slopes)
            mask = masks.magnitude(sensitive, matrices.__contains__, config.masks.keep, "global")
            # Masks exclude weights of zero sensitivity, even if they then have fewer weights.
            routine_masks.append(_without_zeros(mask, sensitive))
        overlaps = [
            masks.overlap(list(two)).total for two in itertools.combinations(routine_masks, 2)
        ]
        return jnp.mean(jnp.stack(overlaps))

    return [mean_overlap(params, look) for params, look in zip(starts, pair.looks)]


def _without_zeros(mask, sensitive):
    return jax.tree.map(
        lambda m, s: m if m is None else m * (s != 0), mask, sensitive, is_leaf=lambda m: m is None
    )


THEORIES = {
    "support": support,
    "tangent": tangent,
    "factorization": factor,
    "dependence": depend,
    "masks": overlap,
}
