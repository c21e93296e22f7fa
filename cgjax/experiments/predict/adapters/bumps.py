"""Bumps: decoders on a grid of positions, part of which is held out."""

import functools

import jax.numpy as jnp
import numpy as np

from cgjax.analysis import support as theory
from cgjax.core.errors import BadInput
from cgjax.experiments.across.pair import Look, Pair, Parts, share_missed, some, squared
from cgjax.experiments.bumps import models, training
from cgjax.experiments.bumps.data import sets

LOOKED_UP = "fields are looked up by a value's number: the output has no derivative by the code"


def pair(config, settings) -> Pair:
    """One decoder on one region, with stripes or without; the held-out positions are new."""
    shown = sets.make(settings)
    cells = training.cells(settings, shown.axes)
    if len(cells) > 1:
        raise BadInput(f"a pair is one cell of a table, not {len(cells)}: give one value per key")
    seeds, model = settings.train.seeds, training.network(settings)
    sets_of = [shown.of(seed, cells[0].combination) for seed in seeds]
    codes = jnp.asarray(shown.codes)
    images = jnp.asarray(shown.images).reshape(len(codes), -1)
    looks = [_look(config, shown, seed_set, codes, images) for seed_set in sets_of]

    def f(params, codes):
        return model.apply({"params": params}, codes)[0].reshape(len(codes), -1)

    def layer(params, codes):
        """The last layer before the image; for models with fields, the fields."""
        return model.apply({"params": params}, codes)[1][-2].reshape(len(codes), -1)

    n = settings.data.n

    def loss(params, look, half):
        difference = profiles(f(params, look.x), n) - profiles(look.y, n)
        return jnp.mean(difference[:, half] ** 2)

    return Pair(
        experiment=training.experiment(settings, shown),
        settings=settings,
        rows=tuple(range(len(seeds))),
        f=f,
        looks=tuple(looks),
        error=share_missed,
        loss=squared,
        support=lambda: unidentified(settings, shown, sets_of[0]),
        layer=layer,
        shape=(n, n),
        parts=LOOKED_UP
        if settings.model.name in models.WITH_FIELDS
        else Parts(
            np.repeat([0, 1], codes.shape[1] // 2),
            np.repeat([0, 1], n),
            lambda outputs: profiles(outputs, n),
        ),
        routines={
            "x": functools.partial(loss, half=slice(n)),
            "y": functools.partial(loss, half=slice(n, None)),
        },
    )


def _look(config, shown, seed_set, codes, images) -> Look:
    rows = np.unique(seed_set.rows)
    rows = rows[some(len(rows), config.eval.n_train)]
    new = shown.points[seed_set.is_ood]
    new = new[some(len(new), config.eval.n_new)]
    return Look(codes[rows], images[rows], codes[new], images[new], codes[shown.points])


def profiles(flat, n: int):
    """Means [B, 2n] over rows, which depend on x alone, and over columns, which depend on y."""
    image = flat.reshape(-1, n, n)
    return jnp.concatenate([image.mean(axis=1), image.mean(axis=2)], axis=1)


def unidentified(settings, shown: sets.Scenes, seed_set: sets.Set) -> float:
    """Share of x and y values whose field the split does not identify; 1 where no fields multiply.

    With stripes the data also have a blank image, which is not the product of two absent factors'
    fields: the model's composition is not that of the data.
    """
    model, data = settings.model, settings.data
    is_product = model.name == "product" and model.product.combine == "product"
    if not is_product or data.stripes != "none":
        return 1.0
    values, xy = np.arange(data.n), shown.labels.xy[np.unique(seed_set.rows)]
    bells = np.exp(-((values[:, None] - values) ** 2) / (2 * data.sigmas[0] ** 2))

    def field(value, k):
        """A profile along the axis of x (0) or y (1); an image if fields are not profiles."""
        bell = bells[value][:, None, :] if k == 0 else bells[value][:, :, None]
        if not model.product.stripes:
            bell = np.broadcast_to(bell, (len(bell), data.n, data.n))
        return bell[..., None]

    def audit(k):
        def partners(i):
            seen = xy[xy[:, k] == i]
            return [field(seen[:, j], j) for j in (0, 1)]

        return theory.audit(
            lambda slots: slots[0] * slots[1],
            field(values, k),
            k,
            partners,
            pixelwise=not model.product.stripes,
        )

    return 1 - float(np.mean([audit(k).share for k in (0, 1)]))
