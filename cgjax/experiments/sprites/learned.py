"""Compositions with parameters: trained together with the components, or scheduled.

The theory of Wiedemer et al. 2023 takes C as known. Here C is a pixel-wise network, an occlusion
with a trained sharpness, an attention over slots, or an occlusion that hardens on a schedule.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import tree
from cgjax.experiments.sprites import scenes
from cgjax.experiments.sprites.compositions import COMPOSITIONS, channels, occlude
from cgjax.nets.mlp import MLP

_PIXEL_MLP = MLP(out_shape=(3,), hidden=32, n_layers=3, activation="elu")


class Composition(NamedTuple):
    """`compose(params, slots)`, slots a sequence of [..., channels], front first -> [..., 3]."""

    compose: Callable
    channels: int = 3
    has_parameters: bool = True  # stored as params["composition"], beside params["components"]
    init: Callable = lambda key, n_slots: {}  # the trained ones among them


def _init_mlp(key, n_slots):
    return _PIXEL_MLP.init(key, jnp.zeros((1, 3 * n_slots)))["params"]


def _mlp(params, slots):
    """A network 3 K -> 32 -> 32 -> 3 on the colours of all slots at one pixel."""
    pixels = jnp.concatenate(list(slots), axis=-1)
    colours = _PIXEL_MLP.apply({"params": params}, pixels.reshape(-1, pixels.shape[-1]))
    return colours.reshape(*pixels.shape[:-1], 3)


def _sharpness(params, slots):
    """Sigmoid occlusion with a sharpness parameter, stored as its logarithm to stay positive."""
    return occlude("sigmoid", sharpness=jnp.exp(params["log_sharpness"]))(slots)


def _attention(params, slots):
    """Slots [..., RGB + score] weighted by a softmax of their scores: slots have no order."""
    slots = jnp.stack(list(slots))
    return jnp.sum(jax.nn.softmax(slots[..., 3:], axis=0) * slots[..., :3], axis=0)


LEARNED = {
    "learned_mlp": Composition(_mlp, init=_init_mlp),
    "learned_sharpness": Composition(
        _sharpness, init=lambda key, n_slots: {"log_sharpness": jnp.zeros(())}
    ),
    # Each component draws its score as one more channel: C itself has no parameters.
    "learned_attention": Composition(_attention, channels=4, has_parameters=False),
    # Its sharpness is a function of the step (`annealed`) and is not trained.
    "annealed_sharpness": Composition(_sharpness),
}

NAMES = (*COMPOSITIONS, *LEARNED)


def composition(name: str) -> Composition:
    """The composition `name`, known (without parameters) or learned."""
    if name in LEARNED:
        return LEARNED[name]
    fixed = COMPOSITIONS[name]
    return Composition(lambda params, slots: fixed(slots), channels(name), has_parameters=False)


def sharpness(params) -> dict:
    """`{"sharpness": value}` if the model's parameters have one, else {}."""
    of_composition = params.get("composition", {})
    if "log_sharpness" not in of_composition:
        return {}
    return {"sharpness": jnp.exp(of_composition["log_sharpness"])}


def annealed(step, steps: int, first: float, last: float) -> dict:
    """Parameters of `annealed_sharpness`: geometric from `first` to `last` over `steps`."""
    along = jnp.asarray(step, jnp.float32) / max(1, steps - 1)
    return {"log_sharpness": (1 - along) * math.log(first) + along * math.log(last)}


# --- component recovery ---------------------------------------------------------------------------


def recovery(slots_fn: Callable, params, rows: dict, batch: int) -> np.ndarray:
    """R2 of the best affine map from what each component draws to its true sprite: [R, K].

    slots_fn: params, scaled latents [n, 5 K] -> [K, n, H, W, 3 or more]; params with a leading axis
    of R seeds; rows: scenes as `describe` returns them. One map per slot, colour [3] -> colour [3],
    over all pixels that no sprite in front covers, dark ones included. A learned C may apply any
    map to the components, so a score of 1 means recovery up to an affine map.
    """

    @jax.jit
    def moments_fn(params, chunk):
        return _moments(slots_fn(params, chunk["latents"]), chunk)

    n = len(rows["latents"])
    scores = []
    for seed in range(len(jax.tree.leaves(params)[0])):
        seed_params = tree.take(params, seed)
        chunks = [tree.take(rows, slice(i, i + batch)) for i in range(0, n, batch)]
        moments = [jax.tree.map(np.float64, moments_fn(seed_params, chunk)) for chunk in chunks]
        scores.append(_affine_r2(*map(np.stack, zip(*moments))))
    return np.array(scores)


def _moments(drawn, rows):
    """Of (drawn, true) over each slot's visible pixels: count [K], mean [K, 6], scatter [K, 6, 6].

    The scatter is about the batch mean: an empty front pixel is a large negative colour, and a
    difference of large sums loses precision in float32.
    """
    moments, hidden = [], False
    for k in range(rows["colours"].shape[1]):
        sprite = scenes.paint(rows["spans"][:, k], rows["colours"][:, k], alpha=True)
        visible = jnp.where(hidden, 0.0, jnp.ones_like(sprite[..., :1])).reshape(-1, 1)
        values = jnp.concatenate([drawn[k, ..., :3], sprite[..., :3]], axis=-1).reshape(-1, 6)
        count = jnp.sum(visible)
        mean = jnp.sum(values * visible, axis=0) / count
        centred = (values - mean[None]) * visible
        moments.append((count, mean, jnp.matmul(centred.T, centred, precision="highest")))
        hidden = hidden | (sprite[..., 3:] > 0)
    return tuple(map(jnp.stack, zip(*moments)))


def _affine_r2(count, mean, scatter) -> list[float]:
    """Explained share of the true colours' variance by slot; arguments have a leading batch axis.

    A component that draws a single colour has directions without variance, so the inverse is a
    pseudo-inverse.
    """
    whole = np.einsum("bk,bki->ki", count, mean) / count.sum(0)[:, None]
    offset = mean - whole
    scatter = scatter.sum(0) + np.einsum("bk,bki,bkj->kij", count, offset, offset)
    shares = []
    for s in scatter:
        if not np.isfinite(s).all():
            shares.append(np.nan)
            continue
        inverse = np.linalg.pinv(s[:3, :3], rcond=1e-6, hermitian=True)
        shares.append(np.trace(s[3:, :3] @ inverse @ s[:3, 3:]) / np.trace(s[3:, 3:]))
    return shares
