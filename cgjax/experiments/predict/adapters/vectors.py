"""Latents from stacked parts: one network for all parts, or one for each."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence
from cgjax.analysis import support as theory
from cgjax.experiments.across.pair import Look, Pair, Parts, share_missed, some, squared
from cgjax.experiments.vectors import models, parts, run

GRID = 8  # samples of each of two parts


def pair(config, settings) -> Pair:
    """The row's single model on its single support, trained on the largest set."""
    (kind,), (support,) = settings.model.kinds, settings.data.supports
    data, model = parts.make(settings), models.build(settings, kind)
    experiment = run.experiment(settings, kind, data)
    rows = np.arange(np.prod(run.axes(settings))).reshape(run.axes(settings))[:, 0, -1]
    n, size = settings.data.n_parts, settings.data.part_size
    chosen = some(settings.data.sizes[-1], config.eval.n_train)
    looks = []
    for row in rows:
        place = int(experiment.replicas["generator"][row])
        seen = {name: leaf[place, 0][chosen] for name, leaf in data["train"].items()}
        new = {name: leaf[place, : config.eval.n_new] for name, leaf in data["all"].items()}
        looks.append(
            Look(seen["x"], seen["z"], new["x"], new["z"], recombined(new["x"][:GRID], size))
        )

    def loss(params, look, k):
        latents = model.predict(params, look.x).reshape(len(look.x), n, -1)
        return jnp.mean((latents - look.y.reshape(latents.shape))[:, k] ** 2)

    return Pair(
        experiment=experiment,
        settings=settings,
        rows=tuple(rows.tolist()),
        f=model.predict,
        looks=tuple(looks),
        error=share_missed,
        loss=squared,
        support=lambda: unidentified(settings, support, kind),
        layer=model.predict,  # the outputs are latents, so they are the representation
        shape=(GRID, GRID),
        parts=Parts(
            dependence.parts((n * size,), n, 0),
            dependence.parts((n * settings.data.n_latents,), n, 0),
        ),
        routines={f"part {k}": functools.partial(loss, k=k) for k in range(n)},
    )


def recombined(x, size: int):
    """The first part of every sample with the second part of every other: [n * n, inputs]."""
    n = len(x)
    rest = jnp.broadcast_to(x[:1, 2 * size :], (n * n, x.shape[1] - 2 * size))
    first, second = jnp.repeat(x[:, :size], n, axis=0), jnp.tile(x[:, size : 2 * size], (n, 1))
    return jnp.concatenate([first, second, rest], axis=1)


def unidentified(settings, support: str, kind: str) -> float:
    """Share of a part's latent values that the stack of parts does not identify on this support.

    1 for one network of all parts, except on the random support, which holds nothing out.
    """
    if kind != "compositional":
        return float(support != "random")
    data, keys = settings.data, jax.random.split(jax.random.key(settings.data.seed))
    p, q = (
        parts.sample(key, 300, name, data.n_parts, data.n_latents).reshape(300, -1)
        for key, name in zip(keys, (support, "random"))
    )
    verdict = theory.audit_latents(
        lambda slots: jnp.concatenate(slots, axis=-1),
        [lambda z: z] * data.n_parts,
        p,
        q,
        sizes=(data.n_latents,) * data.n_parts,
        n_values=16,
        n_partners=16,
        pixelwise=False,
    )
    return 1 - float(np.mean([component.share for component in verdict.components]))
