"""The rank condition on sprites: renders values and draws their partners from the support."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import ml_collections
import numpy as np

from cgjax.analysis import support as theory
from cgjax.core import rng
from cgjax.experiments.sprites import scenes, sets
from cgjax.experiments.sprites.compositions import COMPOSITIONS, channels


class Points(NamedTuple):
    """Values of one component to test, with scenes that contain them."""

    raw: jax.Array  # [m, 5]
    images: np.ndarray  # [m, H, W, C]
    covered: np.ndarray  # [m, H, W] which pixels the sprite covers
    partners: Callable  # i -> K arrays [p, H, W, C]: P' of value i
    unseen: Callable  # i -> K arrays [q, H, W, C]: the same value among partners from all of Q


def points(data, component, key, n_values, n_partners, n_unseen=1, alpha=False, draw=None):
    """Uniform values of a component and their P' under the support that `data` describes.

    draw: scaled latents [n, 5] -> slots [n, H, W, C] instead of the true sprites, e.g. a trained
        component.
    """
    values_key, partners_key, unseen_key = jax.random.split(key, 3)
    raw = rng.drawn(jax.random.uniform, values_key, (n_values, 5))
    # A numpy array: it is indexed once per value, and each index of a JAX array is a dispatch.
    others = np.asarray(sets.partners(data, component, raw, partners_key, n_partners))
    everywhere = rng.drawn(jax.random.uniform, unseen_key, (n_unseen, 5 * (data.n_slots - 1)))

    def render(latents):
        # Padded to a multiple of n_values: few shapes, few programs.
        flat = np.asarray(latents).reshape(-1, 5)
        n = len(flat)
        flat = scenes.scale_latents(np.pad(flat, ((0, -n % n_values), (0, 0))))
        images = draw(flat) if draw else scenes.render(flat, data.image_size, alpha)
        return np.asarray(images)[:n].reshape(*latents.shape[:-1], *images.shape[1:])

    images = render(raw)

    def scene(i, latents):
        """K slots [p, ...] with value i as the component; latents [p, 5 (K - 1)]."""
        if not len(latents):
            return (np.zeros((0, *images.shape[1:])),) * data.n_slots
        slots = list(np.moveaxis(render(latents.reshape(-1, data.n_slots - 1, 5)), 1, 0))
        value = np.broadcast_to(images[i], (len(latents), *images[i].shape))
        return (*slots[:component], value, *slots[component:])

    def partners(i):
        # Missing partners are drawn too and then dropped: all values have one shape, one program.
        is_missing = np.isnan(others[i]).any(axis=1)
        return tuple(slot[~is_missing] for slot in scene(i, np.nan_to_num(others[i])))

    sprites = np.asarray(scenes.render(scenes.scale_latents(raw), data.image_size))
    return Points(raw, images, sprites.sum(-1) > 0, partners, lambda i: scene(i, everywhere))


def audit(
    data, composition, component, key, only_covered=False, condition="sum", draw=None, **sizes
):
    """`analysis.support.audit` of one slot; only_covered: test only pixels that the sprite covers.

    Returns the audit and the points that it tests; sizes: n_values, n_partners, n_unseen.
    """
    has_alpha = channels(composition) == 4
    tested = points(data, component, key, alpha=has_alpha, draw=draw, **sizes)
    result = theory.audit(
        COMPOSITIONS[composition],
        tested.images,
        component,
        tested.partners,
        where=tested.covered if only_covered else None,
        condition=condition,
        unseen=tested.unseen if condition == "relaxed" else None,
    )
    return result, tested


def own_failing(result: theory.Audit, tested: Points) -> np.ndarray:
    """Failing pixels among those the sprite itself covers, [m]."""
    return np.sum(result.where & tested.covered, axis=(1, 2))


def support_data(config, **keys) -> ml_collections.ConfigDict:
    """The keys of a sprites `config.data` for one support, at this study's image size."""
    defaults = {
        "image_size": config.data.image_size,
        "n_slots": 2,
        "planes": (),
        "gaps": (),
        "delta": 0.1,
        "distribution": "uniform",
        "mean": 0.5,
        "std": 1.0,
    }
    return ml_collections.ConfigDict({**defaults, **keys})


def sizes(config) -> dict:
    """How many values, partners and points of Q an audit takes."""
    names = ("n_values", "n_partners", "n_unseen")  # n_unseen: only in rows that test points of Q
    return {name: config.data[name] for name in names if name in config.data}
