"""Measures of factorization for each layer of a decoder.

Activations [n, n, units] cover all points of the grid; the first axis is y. Layer 0 is the code.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import factorization, geometry
from cgjax.experiments.bumps import training
from cgjax.experiments.bumps.data import sets

MOST_UNITS = 4096  # units per layer that are stored, so that all points fit in memory
UNITS = 1500  # units that probes and ranks use, as published
SCORES = (
    "F", "F hole", "F frame", "F_K", "F_K hole", "F_K frame", "additive share", "selective share",
    "probe R2", "probe R2 hole", "rank", "components",
)  # fmt: skip


def activations(model, params, extra, shown: sets.Scenes) -> list[np.ndarray]:
    """The code and every layer of one network, each [n, n, units]; the image is the last.

    Layers with more than MOST_UNITS units are subsampled at random, with the same units at every
    point. The image has its background removed, because the background would dominate its kernel.
    """
    codes, n = jnp.asarray(shown.codes[shown.points]), shown.images.shape[-1]
    shapes = jax.eval_shape(lambda: training.paint(model, params, extra, codes[:1])[1])
    rng = np.random.default_rng(0)
    picked = [
        np.sort(rng.choice(layer.size, min(layer.size, MOST_UNITS), replace=False))
        for layer in shapes
    ]
    *outputs, image = _some_units(model, params, extra, codes, picked)
    outputs.append(1 - image if shown.inverted else image)
    return [np.asarray(layer).reshape(n, n, -1) for layer in (codes, *outputs)]


@functools.partial(jax.jit, static_argnames="model")
def _some_units(model, params, extra, codes, picked):
    def picked_units(code):
        layers = training.paint(model, params, extra, code[None])[1]
        return [layer.reshape(-1)[units] for layer, units in zip(layers, picked)]

    return jax.lax.map(picked_units, codes, batch_size=training.CHUNK)


def measures(layer: np.ndarray, train_set: sets.Set) -> dict:
    """Every score in SCORES for one layer [n, n, units]; "hole" and "frame" are parts of the grid.

    The kernel's share F_K needs a full grid. On the frame it uses the rows that are trained at
    every column; it is NaN if there are fewer than two. A probe predicts x and y from the layer (R2
    is the mean of both); it is fitted once on the frame and once on all points.
    """
    n = len(layer)
    hole = train_set.is_ood.reshape(n, n)
    y, x = np.indices((n, n))
    targets = np.stack([x.reshape(-1), y.reshape(-1)], axis=1)
    rng = np.random.default_rng(0)
    flat = layer.reshape(n * n, -1)
    some = flat[:, rng.choice(flat.shape[1], min(UNITS, flat.shape[1]), replace=False)]
    everywhere = geometry.probe(some, targets)
    held_out = geometry.probe(some, targets, ~hole.reshape(-1))
    rank = geometry.effective_rank(some)
    inside, outside = _blocks(hole)
    return {
        "F": factorization.metric(layer),
        "F hole": factorization.metric(layer, hole) if hole.any() else np.nan,
        "F frame": factorization.metric(layer, ~hole),
        "F_K": schmidt(layer),
        "F_K hole": schmidt(layer[inside]) if inside else np.nan,
        "F_K frame": schmidt(layer[outside]) if outside else np.nan,
        "additive share": factorization.additive_share(layer),
        "selective share": factorization.selective_share(layer),
        "probe R2": np.mean(everywhere.r2),
        "probe R2 hole": np.mean(held_out.r2_held_out),
        "rank": rank.n_above,
        "components": rank.n_components,
    }


def schmidt(layer: np.ndarray) -> float:
    """F_K of the dot products of a layer [n_y, n_x, units]; NaN if the layer is zero everywhere."""
    if not np.any(layer):
        return np.nan
    kernel = factorization.grid_kernel(layer)
    return factorization.operator_schmidt(kernel, layer.shape[1], layer.shape[0])


def _blocks(hole):
    """Indices of the held-out block, and of the block of fully trained rows; None if absent."""
    rows, columns = np.flatnonzero(hole.any(axis=1)), np.flatnonzero(hole.any(axis=0))
    inside = np.ix_(rows, columns) if hole[np.ix_(rows, columns)].all() else None
    whole = np.flatnonzero(~hole.any(axis=1))
    outside = np.ix_(whole, np.arange(len(hole))) if len(whole) > 1 else None
    return inside, outside


def volume_maps(layers: list[np.ndarray]) -> np.ndarray:
    """log10 of the volume element [layers, n, n], by finite differences."""
    elements = [geometry.volume_element(geometry.grid_tensor(layer)) for layer in layers]
    return np.log10(np.stack(elements) + 1e-12)


def exact_ranks(config, params, extra, xy: np.ndarray) -> np.ndarray:
    """Rank [P] of d image / d (x, y) by forward derivatives; one-hot codes have no derivative."""
    model = training.network(config)

    @jax.jit
    def ranks(params, extra, z):
        def image(point):
            code = training.encode(config, point[None])
            return training.paint(model, params, extra, code)[0].reshape(-1)

        return geometry.rank_map(image, z)

    return np.asarray(ranks(params, extra, jnp.asarray(xy, jnp.float32)))
