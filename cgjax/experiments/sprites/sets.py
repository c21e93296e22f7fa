"""Sets of scenes drawn from the study's supports (Wiedemer et al. 2023)."""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import rng
from cgjax.core.errors import BadInput
from cgjax.data import supports
from cgjax.experiments.sprites import scenes
from cgjax.experiments.sprites.compositions import COMPOSITIONS
from cgjax.experiments.sprites.options import SUPPORT_KEYS
from cgjax.experiments.sprites.options import SUPPORTS as SUPPORTS

_ROUNDS = 50  # of drawing partners at most; after them, values may have fewer than n
_FIRST = 10  # rounds after which drawing stops if no incomplete value has a partner


def sample(data, key: jax.Array, n: int) -> jax.Array:
    """n raw latents [n, 5 K] from the training support that `config.data` describes."""
    try:
        return supports.sample(key, n, data.support, slots=(5,) * data.n_slots, **_parameters(data))
    except ValueError as error:
        raise BadInput(f"data.support: {error}") from None


def definition(data) -> dict:
    """The keys of a `config.data`, also of a recorded one, that define its support."""
    names = ("support", *SUPPORT_KEYS[data["support"]])
    if "distribution" in names and data["distribution"] == "normal":
        names += ("mean", "std")
    return {name: data[name] for name in names}


def _parameters(data) -> dict:
    """The keys of `config.data` that the sampler of `data.support` takes."""
    return {name: value for name, value in definition(data).items() if name != "support"}


def sample_everywhere(data, key: jax.Array, n: int) -> jax.Array:
    """n raw latents from the whole cube: the distribution Q of the evaluation set "all"."""
    return supports.sample(key, n, "random", slots=(5,) * data.n_slots)


def make(config) -> dict:
    """`{"train", "id", "all"}`, each `{"latents", "spans", "colours"}`: a few bytes per image row.

    With the random support "id" and "all" are the same scenes, as in the paper. If the support has
    gaps, these two also have `in_gap`: which of their scenes lie in a gap.
    """
    data = config.data
    key = rng.stream(jax.random.key(data.seed), "data")
    train_key, id_key, all_key = jax.random.split(key, 3)
    everything = sample_everywhere(data, all_key, config.eval.n)
    familiar = everything if data.support == "random" else sample(data, id_key, config.eval.n)
    return described(config, sample(data, train_key, data.n_train), familiar, everything)


def described(config, train, familiar, everything) -> dict:
    """The sets of `make` from raw latents [n, 5 K]; it can be traced."""
    data, ends = config.data, (len(train), len(train) + len(familiar))
    # One call for all scenes: one program to compile.
    rows = scenes.describe(jnp.concatenate([train, familiar, everything]), data.image_size)
    parts = jax.tree.map(lambda leaf: jnp.split(leaf, ends), rows)
    sets = {
        name: {key: leaves[i] for key, leaves in parts.items()}
        for i, name in enumerate(("train", "id", "all"))
    }
    if has_gaps(data):
        sets["id"]["in_gap"], sets["all"]["in_gap"] = (
            in_gap(data, familiar),
            in_gap(data, everything),
        )
    return sets


def shapes(config) -> dict:
    """The shapes of `make`: enough to compile the programs that read the sets."""
    sizes = (config.data.n_train, config.eval.n, config.eval.n)
    raw = [jax.ShapeDtypeStruct((n, 5 * config.data.n_slots), np.float32) for n in sizes]
    return jax.eval_shape(lambda *raw: described(config, *raw), *raw)


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


def contains(data, raw) -> np.ndarray:
    """Which raw latents [n, 5 K] lie in the training support: boolean [n]."""
    return supports.contains(raw, data.support, (5,) * data.n_slots, **_parameters(data))


def partners(data, component: int, values: jax.Array, key: jax.Array, n: int) -> np.ndarray:
    """P'(z_k*): raw latents of the other slots that the support pairs with each value [m, 5].

    Returns [m, p, 5 (K - 1)], the slots in order; NaN stands for a missing partner. p is the number
    of planes on which the component varies, or n if the support has no planes. The membership test
    of the support decides; a value inside a gap has no partner.
    """
    values = np.asarray(values)
    columns = slice(5 * component, 5 * component + 5)
    accepted = np.full((len(values), n, 5 * (data.n_slots - 1)), np.nan, np.float32)
    if data.support.startswith("orthogonal"):
        coords = np.array([c for slot, c in data.planes if slot == component], np.float32)
        accepted = np.full((len(values), *coords.shape), np.nan, np.float32)
    count = np.zeros(len(values), int)
    for i in range(_ROUNDS):
        drawn = _candidates(data, component, values, jax.random.fold_in(key, i) if i else key, n)
        m, p, width = drawn.shape
        raw = np.empty((m, p, width + 5), np.float32)
        raw[..., columns] = values[:, None]
        raw[..., : columns.start], raw[..., columns.stop :] = np.split(
            drawn, [columns.start], axis=2
        )
        inside = contains(data, raw.reshape(m * p, -1)).reshape(m, p)
        for j in np.flatnonzero(inside.any(axis=1)):
            new = drawn[j, inside[j]][: accepted.shape[1] - count[j]]
            accepted[j, count[j] : count[j] + len(new)] = new
            count[j] += len(new)
        missing = count < accepted.shape[1]
        if data.support.startswith("orthogonal") or not missing.any():  # planes are fixed
            break
        if i + 1 >= _FIRST and not count[missing].any():
            break
    return accepted


def _candidates(data, component, values, key, n) -> np.ndarray:
    """Candidate partners of each value: [m, p, 5 (K - 1)], before the membership test."""
    m, others = len(values), data.n_slots - 1
    if data.support.startswith("orthogonal"):
        coords = np.array([c for slot, c in data.planes if slot == component], np.float32)
        return np.broadcast_to(coords, (m, *coords.shape))
    if data.support == "diagonal":  # the band is inside this box; for two slots it is the box
        reach = 2**0.5 * data.delta
        near = jnp.tile(values, (1, others))
        low, high = jnp.maximum(near - reach, 0.0), jnp.minimum(near + reach, 1.0)
        u = jax.random.uniform(key, (m, n, 5 * others))
        return np.asarray(low[:, None] + u * (high - low)[:, None])
    return np.asarray(jax.random.uniform(key, (m, n, 5 * others)))
