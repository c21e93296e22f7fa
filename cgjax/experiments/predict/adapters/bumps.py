"""Bumps: decoders on a grid of positions, part of which is held out."""

import jax.numpy as jnp
import numpy as np

from cgjax.experiments.bumps import models, sets, training
from cgjax.experiments.predict.model import (
    Contents,
    Data,
    Parts,
    Program,
    Subject,
    left_open,
    r2,
    some,
)

LOOKED_UP = "fields are looked up by a value's number: the output has no derivative by the code"


def program(config, settings) -> Program:
    """One decoder, every region, with and without stripes and penalties."""
    shown = sets.make(settings)
    cells, model = training.cells(settings, shown.axes), training.network(settings)
    experiment = training.experiment(settings, shown)

    def make():
        codes = jnp.asarray(shown.codes)
        images = jnp.asarray(shown.images).reshape(len(codes), -1)
        words, n = training.set_words(shown.axes), settings.data.n

        def f(params, codes):
            return model.apply({"params": params}, codes)[0].reshape(len(codes), -1)

        def layer(params, codes):
            """The last layer before the image; for models with fields, the fields."""
            return model.apply({"params": params}, codes)[1][-2].reshape(len(codes), -1)

        parts = Parts(
            np.repeat([0, 1], codes.shape[1] // 2),
            np.repeat([0, 1], n),
            lambda outputs: profiles(outputs, n),
        )
        penalties = training.penalties(settings)
        replicas = np.arange(len(settings.train.seeds) * len(cells)).reshape(-1, len(cells))
        subjects = []
        for i, cell in enumerate(cells):
            seed_sets = [shown.of(seed, cell.combination) for seed in settings.train.seeds]
            weights = [f"{name}_{w:g}" for name, w in penalties[cell.penalty].items() if w]
            subjects.append(
                Subject(
                    task=words[cell.combination]
                    .removesuffix(", share 1")
                    .replace(", ", "_")
                    .replace(" ", "_"),
                    model="_".join([name_of(settings), *weights]),
                    rows=tuple(replicas[:, i].tolist()),
                    f=f,
                    layer=layer,
                    data=tuple(_data(config, shown, each, codes, images) for each in seed_sets),
                    score=r2,
                    parts=LOOKED_UP if settings.model.name in models.WITH_FIELDS else parts,
                    unknown=composition_of(settings, seed_sets[0], shown),
                )
            )
        return Contents(experiment, tuple(subjects))

    return Program(experiment, settings, make)


def name_of(settings) -> str:
    """The network, with its code where networks differ in it."""
    name = settings.model.name
    if name == "product":
        return "profiles" if settings.model.product.stripes else "product"
    return name if name in models.WITH_FIELDS else f"{name}_{settings.data.encoding}"


def _data(config, shown, seed_set, codes, images) -> Data:
    rows = np.unique(seed_set.rows)
    fitted = rows[some(len(rows), config.eval.n_train)]
    # Stripes and the blank image show at most one factor, so they are not combinations.
    known = fitted[shown.labels.shown[fitted].all(axis=1)]
    new = shown.points[seed_set.is_ood]
    asked = shown.labels.xy[new].astype(int)
    tested = new[some(len(new), config.eval.n_new)]
    return Data(
        codes[fitted],
        images[fitted],
        shown.labels.xy[known].astype(int),
        codes[known],
        images[known],
        asked,
        codes[tested],
        images[tested],
    )


def profiles(flat, n: int):
    """Means [B, 2n] over rows, which depend on x alone, and over columns, which depend on y."""
    image = flat.reshape(-1, n, n)
    return jnp.concatenate([image.mean(axis=1), image.mean(axis=2)], axis=1)


def composition_of(settings, seed_set, shown):
    """`left_open` of a product of fields; None where the model is not that product.

    With stripes the data also have a blank image, which is not the product of two absent factors'
    fields: the model's composition is not that of the data.
    """
    model, data = settings.model, settings.data
    is_product = model.name == "product" and model.product.combine == "product"
    has_stripes = not shown.labels.shown[np.unique(seed_set.rows)].all()
    if not is_product or has_stripes:
        return None
    values = np.arange(data.n)
    bells = np.exp(-((values[:, None] - values) ** 2) / (2 * data.sigmas[0] ** 2))
    fields = [bells[:, None, :, None], bells[:, :, None, None]]
    if not model.product.stripes:
        fields = [np.broadcast_to(field, (data.n, data.n, data.n, 1)) for field in fields]
    return left_open(lambda slots: slots[0] * slots[1], fields)
