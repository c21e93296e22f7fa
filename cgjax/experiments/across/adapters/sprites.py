"""Two sprites in a scene: a renderer for each and their composition, or one for both."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.experiments.across.pair import Look, Pair, share_missed, some, squared
from cgjax.experiments.sprites import audits, models, run, scenes, sets

GRID = 5  # places of each sprite
N_VALUES, N_PARTNERS = 24, 48  # behind the theorem's verdict
SHARED = "sprites share their pixels: no part of the image belongs to one of them"


def pair(config, settings) -> Pair:
    """The one model of a row on its support; new scenes are anywhere."""
    (kind,) = settings.model.kinds
    data, model = sets.make(settings), models.build(settings, kind)
    chosen = some(settings.data.n_train, config.eval.n_train)

    def shown(rows, which):
        own = jax.tree.map(lambda leaf: leaf[which], rows)
        return own, sets.images(own, settings.data.composition).reshape(len(own["latents"]), -1)

    own, images = shown(data["train"], chosen)
    new, new_images = shown(data["all"], slice(config.eval.n_new))
    look = Look(own["latents"], images, new["latents"], new_images, places())

    def f(params, z):
        return model.predict(params, z).reshape(len(z), -1)

    def layer(params, z):
        """What the components draw, before they are composed."""
        return jnp.moveaxis(model.slots(params, z), 0, 1).reshape(len(z), -1)

    def loss(params, look, k):
        """The error on the pixels of one sprite, hidden or not."""
        sprite = scenes.render(look.x[:, 5 * k : 5 * k + 5], settings.data.image_size, alpha=True)
        errors = (f(params, look.x) - look.y) ** 2
        return jnp.sum(errors.reshape(*sprite.shape[:-1], -1) * sprite[..., 3:])

    return Pair(
        experiment=run.experiment(settings, model, data),
        settings=settings,
        rows=tuple(range(len(settings.train.seeds))),
        f=f,
        looks=(look,) * len(settings.train.seeds),
        error=share_missed,
        loss=squared,
        support=lambda: 1.0 if kind == "monolithic" else unidentified(settings.data),
        layer=layer,
        shape=(GRID, GRID),
        parts=SHARED,
        routines={f"sprite {k}": functools.partial(loss, k=k) for k in range(2)},
        join=models.join,
    )


def places():
    """Both sprites along x, all else in the middle: scaled latents [n * n, 10]."""
    line = np.linspace(0, 1, GRID)
    raw = np.full((GRID * GRID, 10), 0.5)
    raw[:, 0], raw[:, 5] = np.repeat(line, GRID), np.tile(line, GRID)
    return scenes.scale_latents(raw)


def unidentified(data) -> float:
    """Sprites that the support does not identify, under hard occlusion as in the family's audit."""
    shares = []
    for component in range(data.n_slots):
        found, _ = audits.audit(
            data, "occlude_step", component, jax.random.fold_in(jax.random.key(11), component),
            own=component < data.n_slots - 1, n_values=N_VALUES, n_partners=N_PARTNERS,
        )  # fmt: skip
        shares.append(found.share)
    return 1 - float(np.mean(shares))
