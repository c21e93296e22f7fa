"""The study's supports by name, and the sets of scenes drawn from them (Wiedemer et al. 2023)."""

import jax
import jax.numpy as jnp

from cgjax.core import rng
from cgjax.core.errors import BadInput
from cgjax.data import supports
from cgjax.experiments.sprites import scenes
from cgjax.experiments.sprites.compositions import COMPOSITIONS
from cgjax.experiments.sprites.options import SUPPORT_KEYS

_O, _A, _H, _A7, _H3 = (scenes.PLANES[name] for name in ("O", "A", "H", "A7", "H3"))
_ORTHOGONAL = ((0, _A), (1, _O), (1, _H))

# The same with the front sprite's second place at x = 0.95, beside every gap from 0.05 to 0.85.
PLANES_BESIDE_GAPS = ((0, _A), (1, _O), (1, (0.95, *_H[1:])))

# Keys of `config.data` for each support. Plane (i, coords): slot i varies, the other is at coords.
SUPPORTS = {
    "random": {"support": "random"},
    "orthogonal": {"support": "orthogonal", "planes": _ORTHOGONAL},
    "orthogonal_normal": {
        "support": "orthogonal",
        "planes": _ORTHOGONAL,
        "distribution": "normal",
        "std": 1.0,
    },
    "orthogonal_concentrated": {
        "support": "orthogonal",
        "planes": _ORTHOGONAL,
        "distribution": "normal",
        "std": 0.4,
    },
    "orthogonal_broad": {
        "support": "orthogonal",
        "planes": ((0, _A), (0, _A7), (1, _O), (1, _H3)),
    },
    "orthogonal_star": {"support": "orthogonal", "planes": ((0, _A), (1, _O))},
    "orthogonal_gap": {
        "support": "orthogonal_gap",
        "planes": _ORTHOGONAL,
        "gaps": ((0, 0.05, 0.45),),
    },
    "diagonal": {"support": "diagonal", "delta": 0.1},
    "diagonal_broad": {"support": "diagonal", "delta": 0.2},
    "diagonal_narrow": {"support": "diagonal", "delta": 0.05},
    # Sprites that never overlap: slot 0 keeps to the left, slot 1 to the right.
    "half": {"support": "random_gap", "gaps": ((0, 0.35, 1.0), (5, 0.0, 0.65))},
}


def is_plane(plane) -> bool:
    """Whether `(slot, coordinates)` has the form of a plane; `supports` checks it against K."""
    slot, coords = plane
    return type(slot) is int and slot >= 0 and all(0 <= c <= 1 for c in coords)


def is_gap(gap) -> bool:
    """Whether `(latent, from, to)` is a band of one latent."""
    latent, start, stop = gap
    return type(latent) is int and latent >= 0 and 0 <= start <= stop <= 1


def orthogonal_planes(n_slots: int) -> tuple:
    """The orthogonal support for K slots, 2 K - 1 planes; for two slots the published three.

    Slot k is hidden by the slots in front of it. On its first plane they all stand at O, on its
    second at H: the two places do not overlap, so each of its pixels is seen on one of them. The
    slots behind it hide nothing and stay at A. The front slot needs one plane.
    """
    planes = [(0, _A * (n_slots - 1))]
    for k in range(1, n_slots):
        planes += [(k, front * k + _A * (n_slots - 1 - k)) for front in (_O, _H)]
    return tuple(planes)


def sample(data, key: jax.Array, n: int) -> jax.Array:
    """n raw latents [n, 5 K] from the training support that `config.data` describes."""
    parameters = {name: data[name] for name in SUPPORT_KEYS[data.support]}
    if parameters.get("distribution") == "normal":
        parameters |= {"mean": data.mean, "std": data.std}
    try:
        return supports.sample(key, n, data.support, slots=(5,) * data.n_slots, **parameters)
    except ValueError as error:
        raise BadInput(f"data.support: {error}") from None


def sample_everywhere(data, key: jax.Array, n: int) -> jax.Array:
    """n raw latents from the whole cube: the distribution Q of the evaluation set "all"."""
    return supports.sample(key, n, "random", slots=(5,) * data.n_slots)


def make(config) -> dict:
    """`{"train", "id", "all"}`, each `{"latents", "spans", "colours"}`: a few bytes per image row.

    With the random support ID and all are the same scenes, as in the paper. Where the support has
    gaps, "all" holds `in_gap` too: which of its scenes lie in one.
    """
    data = config.data
    key = rng.stream(jax.random.key(data.seed), "data")
    train_key, id_key, all_key = jax.random.split(key, 3)
    raw = sample_everywhere(data, all_key, config.eval.n)
    everything = scenes.describe(raw, data.image_size)
    familiar = everything
    if data.support != "random":
        familiar = scenes.describe(sample(data, id_key, config.eval.n), data.image_size)
    return {
        "train": scenes.describe(sample(data, train_key, data.n_train), data.image_size),
        "id": familiar,
        "all": everything | ({"in_gap": in_gap(data, raw)} if has_gaps(data) else {}),
    }


def has_gaps(data) -> bool:
    """Whether bands of some latents are missing from the support."""
    return data.support.endswith("gap") and bool(data.gaps)


def in_gap(data, raw: jax.Array) -> jax.Array:
    """Which raw latents [n, 5 K] have a coordinate inside a gap: boolean [n]."""
    inside = [(raw[:, dim] >= start) & (raw[:, dim] <= stop) for dim, start, stop in data.gaps]
    return jnp.any(jnp.stack(inside), axis=0)


def images(rows: dict, composition: str) -> jax.Array:
    """Target images [n, size, size, 3] of described scenes, composed on the device."""
    return scenes.scene_images(rows["spans"], rows["colours"], COMPOSITIONS[composition])


def partners(data, component: int, values: jax.Array, key: jax.Array, n: int) -> jax.Array:
    """P'(z_k*): raw latents of the other slots that the support pairs with each value [m, 5].

    Returns [m, p, 5 (K - 1)], the slots in order; p = 0 where the support excludes the value
    altogether is marked by NaN rows, since a value inside a gap has no partner at all.
    """
    m, others = len(values), data.n_slots - 1
    if data.support.startswith("orthogonal"):
        coords = jnp.array([c for slot, c in data.planes if slot == component], jnp.float32)
        found = jnp.broadcast_to(coords, (m, *coords.shape))
    elif data.support == "diagonal":
        reach = 2**0.5 * data.delta
        near = jnp.tile(values, (1, others))
        low, high = jnp.maximum(near - reach, 0.0), jnp.minimum(near + reach, 1.0)
        u = jax.random.uniform(key, (m, n, 5 * others))
        found = low[:, None] + u * (high - low)[:, None]
    else:
        found = jax.random.uniform(key, (m, n, 5 * others))
    if data.support.endswith("gap"):
        for dim, start, stop in data.gaps:
            slot, latent = divmod(dim, 5)
            if slot == component:
                inside = (values[:, latent] >= start) & (values[:, latent] <= stop)
                found = jnp.where(inside[:, None, None], jnp.nan, found)
    return found
