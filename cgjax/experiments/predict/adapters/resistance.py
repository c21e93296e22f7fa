"""The plane: does the network use X_2, which predicts the target only in training?"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import support as theory
from cgjax.core import tree
from cgjax.experiments.across.pair import Look, Pair, Parts, error_rate, signs, some
from cgjax.experiments.resistance import models, plane
from cgjax.experiments.resistance.training import plane as of_plane

GRID = 9
ONE_TARGET = "one target: there are no routines to tell apart"


def pair(config, settings) -> Pair:
    """One network on setting A or its control; the square that training never shows is new."""
    settings_in_steps = of_plane.in_steps(settings)
    experiment = of_plane.experiment(settings)
    f, heads = of_plane.predictor(settings), settings.model.heads
    data = jax.tree.map(np.asarray, experiment.data)
    looks = []
    for s in range(len(settings.train.seeds)):
        points, new = (tree.take(data[name], s) for name in ("train", "test"))
        chosen = some(len(points.x), config.eval.n_train)
        x_new, y_new = new.x[: config.eval.n_new], new.y[: config.eval.n_new]
        looks.append(
            Look(
                points.x[chosen],
                targets(settings, points.y[chosen]),
                x_new,
                targets(settings, y_new),
                jnp.asarray(plane.grid(GRID)).reshape(-1, 2),
            )
        )

    def error(y, outputs):
        return error_rate(*(a if a.ndim == 2 else a[:, 0] for a in (y, outputs)))

    def loss(y, outputs):
        losses = models.LOSSES[settings.optim.loss](outputs, jnp.argmax(y, axis=-1))
        return jnp.mean(jnp.sum(losses.reshape(len(losses), -1), axis=1))

    def of_head(params, look, h):
        return loss(look.y[:, h], f(params, look.x)[:, h])

    return Pair(
        experiment=experiment,
        settings=settings_in_steps,
        rows=tuple(range(len(settings.train.seeds))),
        f=f,
        looks=tuple(looks),
        error=error,
        loss=loss,
        support=lambda: unidentified(settings, looks[0].x),
        layer=lambda params, x: hidden(settings, params, x),
        shape=(GRID, GRID),
        # Each of two heads needs its own coordinate; with one head the target needs X_1.
        parts=Parts(of_plane.INPUTS, of_plane.outputs_of(heads, 2), centred=True),
        routines=ONE_TARGET
        if heads == 1
        else {f"head {h}": functools.partial(of_head, h=h) for h in range(heads)},
    )


def targets(settings, y):
    """Targets of logits: [n, 2] for one head, else [n, heads, 2]."""
    return signs(y[:, 0] if settings.model.heads == 1 else y, 2)


def hidden(settings, params, x):
    """Activations [n, units] of the last hidden layer; those of two towers are concatenated."""
    last = f"dense_{settings.model.n_hidden - 1}"
    _, captured = of_plane.network(settings).apply(
        {"params": params},
        x,
        mutable="intermediates",
        capture_intermediates=lambda module, _: module.name == last,
    )
    return nn.relu(jnp.concatenate(jax.tree.leaves(captured), axis=-1))


def unidentified(settings, x) -> float:
    """Share of X_1 and X_2 values that a sum f(X_1) + g(X_2) does not identify on these points.

    1 for a network of both inputs, except on the control, whose points cover the whole square.
    """
    if not settings.model.towers:
        return float(settings.data.settings != ("control",))
    everywhere = jax.random.uniform(jax.random.key(0), (500, 2), minval=-1)
    verdict = theory.audit_latents(
        lambda slots: slots[0] + slots[1], [lambda z: z] * 2, x, everywhere, pixelwise=False
    )
    return 1 - float(np.mean([component.share for component in verdict.components]))
