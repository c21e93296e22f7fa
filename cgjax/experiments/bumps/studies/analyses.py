"""Analyses of trained decoders beyond their scores; a key of `eval` switches each of them on.

Every analysis maps (config, trained, index of a cell) to metrics {name: one value per seed, or for
the first seeds only} and to arrays for figures, which hold the first seed.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import factorization, geometry, machines, ntk
from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.experiments.bumps import regions, scenes, scores, sets, training

# Places of the examples, as shares of the side. With 28 pixels they are the paper's places.
EXAMPLES = ((11 / 28, 14 / 28), (12 / 28, 18 / 28), (17 / 28, 12 / 28), (17 / 28, 17 / 28))

# Scores that measure compositionality, factorization, disentanglement and modularity.
WORDS = {
    "compositionality (OOD R2)": "OOD R2",
    "factorization (F)": "F",
    "factorization (F_K)": "F_K",
    "disentanglement (probe R2 in the hole)": "probe R2 hole",
    "disentanglement (units of one factor)": "selective share",
    "modularity (share without interaction)": "additive share",
}


def examples(shown: sets.Scenes, train_set: sets.Set) -> np.ndarray:
    """Indices [4] of held-out points nearest to the paper's examples; of all points if none is."""
    held_out = np.flatnonzero(train_set.is_ood if train_set.is_ood.any() else train_set.is_id)
    side = shown.images.shape[-1]
    away = [np.linalg.norm(shown.xy[held_out] - side * np.array(at), axis=1) for at in EXAMPLES]
    return np.array([held_out[np.argmin(distance)] for distance in away])


# --- accounts of the images in the hole -----------------------------------------------------------
#
# The binary factorised kernel is fitted to the training images, like the network. All other kernels
# are fitted to the network's own images at its training points, as in the paper.

K2S = (0.1, 0.3, 1.0, 3.0, 10.0)  # values of k2 for the binary kernel; k1 = 1

LENGTHS = (0.5, 1.0, 2.0, 4.0)  # length scales of the smooth kernels

PENALTY = 1e-6  # added to the diagonal: smooth kernels are nearly singular


def superpositions(config, trained, c):
    """R2 of images in the hole: explained by sums, by the binary kernel and by the truth."""
    per_seed, kernels = [], {}
    for s in range(len(config.train.seeds)):
        train_set = trained.set_of(config, s, c)
        if id(train_set) not in kernels:  # seeds may share their set
            kernels[id(train_set)] = {k2: binary(trained.scenes, train_set, k2) for k2 in K2S}
        painted = trained.painted[s, c]
        per_seed.append(superposition(trained.scenes, train_set, painted, kernels[id(train_set)]))
    first = trained.set_of(config, 0, c)
    picked = examples(trained.scenes, first)
    return _by_name(per_seed), {"binary": kernels[id(first)][1.0][picked]}


def superposition(
    shown: sets.Scenes, train_set: sets.Set, painted: np.ndarray, kernels: dict[float, np.ndarray]
) -> dict:
    """R2 with which sums, binary kernels and the truth explain a network's images in the hole.

    painted: [P, n, n]. kernels: {k2: predictions of `binary`}; k2 = 1 must be among them.
    """
    grid, where = (
        values.reshape(_side(shown), _side(shown), *values.shape[1:])
        for values in (painted, train_set.is_ood)
    )
    truth = shown.truth.reshape(grid.shape)
    by_k2 = {
        k2: factorization.explained(grid, predicted.reshape(grid.shape), where)
        for k2, predicted in kernels.items()
    }
    r2 = factorization.superposition(grid, truth, kernels[1.0].reshape(grid.shape), where)
    best = max(by_k2, key=by_k2.get)
    return {
        "additive R2": r2.additive,
        "binary kernel R2": r2.kernel,
        "binary kernel R2, best k2": by_k2[best],
        "best k2": best,
        "truth R2": r2.truth,
        "composition R2": r2.composition,
    }


def binary(shown: sets.Scenes, train_set: sets.Set, k2: float = 1.0) -> np.ndarray:
    """Images [P, n, n] that the binary factorised kernel predicts at every point.

    The kernel is fitted to the set's images. An absent factor matches nothing: its code is zero.
    """
    rows = np.unique(train_set.rows)
    k_train, k_points = (_matches(shown, some, rows, k2) for some in (rows, shown.points))
    background = float(shown.inverted)
    y = shown.images[rows].reshape(len(rows), -1) - background
    predicted = _regression(k_train, y, k_points, 0.0)
    return predicted.reshape(-1, *shown.images.shape[1:]) + background


def _matches(shown, rows, others, k2):
    """The binary kernel [x = x'] + [y = y'] + k2 [x = x'][y = y'] between labels."""
    xy, is_coded = shown.labels.xy, shown.labels.shown | (not shown.has_absent)
    same = (xy[rows][:, None] == xy[others][None]) & is_coded[rows][:, None] & is_coded[others]
    return same.sum(axis=-1) + k2 * same.all(axis=-1)


def _regression(k_train, y, k_test, penalty=PENALTY):
    return np.asarray(machines.ridge(k_train, y, k_test, penalty, outputs=True))


def _side(shown: sets.Scenes) -> int:
    """Number of points along a side of the grid."""
    return shown.images.shape[-1]


def kernels(config, trained, c):
    """Kernels fitted to the images of each network; similarities; sums of training images."""
    shown, per_seed, arrays = trained.scenes, [], {}
    for s in range(len(config.train.seeds)):
        train_set, painted = trained.set_of(config, s, c), trained.painted[s, c]
        fits = kernel_fits(shown, train_set, painted)
        per_seed.append(
            {
                f"{kind} kernel, {part} error": getattr(fit, part)
                for kind, fit in fits.items()
                for part in ("total", "id", "ood")
            }
        )
        if s == 0:
            arrays = _beside(config, shown, train_set, painted, fits)
            if (
                shown.codes.shape[1] > 2
            ):  # codes of several units per factor: one factor can be averaged out
                arrays["isolated"] = _isolated(config, trained, c, train_set)
    return _by_name(per_seed), arrays


class Fit(NamedTuple):
    """A kernel fitted to a network's images; errors compare the kernel with the network."""

    lengths: tuple  # lx, ly
    total: float
    id: float
    ood: float
    predicted: np.ndarray  # [P, n, n]


def kernel_fits(shown: sets.Scenes, train_set: sets.Set, painted: np.ndarray) -> dict[str, Fit]:
    """For each kind of kernel, the fit whose lengths (or k2) give the least error at all points.

    With lx = ly the factorised kernel equals the radial one, so by construction it is never worse.
    The background is subtracted before the fit, because smooth kernels decay to zero far from
    training points.
    """
    is_trained = np.isin(shown.points, train_set.rows)
    background = float(shown.inverted)
    z, images = shown.xy, painted.reshape(len(painted), -1) - background
    pairs = [(lx, ly) for lx in LENGTHS for ly in LENGTHS]
    kinds = {
        "factorised": (factorization.factorised, pairs),
        "radial": (factorization.radial, [(length,) for length in LENGTHS]),
        "additive": (factorization.additive, pairs),
        "binary": (lambda a, b, k2: factorization.binary(a, b, 1.0, k2), [(k2,) for k2 in K2S]),
    }
    fits = {}
    for name, (kernel, settings) in kinds.items():
        for setting in settings:
            k = kernel(z, z[is_trained], *setting)
            predicted = _regression(k[is_trained], images[is_trained], k)
            errors = np.mean((predicted - images) ** 2, axis=1)
            parts = [np.mean(errors[w]) for w in (slice(None), train_set.is_id, train_set.is_ood)]
            if name not in fits or parts[0] < fits[name].total:
                predicted = predicted.reshape(painted.shape) + background
                fits[name] = Fit(setting, *parts, predicted)
    return fits


def _beside(config, shown, train_set, painted, fits) -> dict:
    """Errors and examples of fitted kernels, similarity of all images, sums of training images."""
    n, picked = config.data.n, examples(shown, train_set)
    arrays = {}
    for kind, fit in fits.items():
        arrays[f"{kind}/lengths"] = np.array(fit.lengths)
        arrays[f"{kind}/errors"] = np.mean((fit.predicted - painted) ** 2, axis=(1, 2))
        arrays[f"{kind}/examples"] = fit.predicted[picked]
    order = np.concatenate([np.flatnonzero(train_set.is_id), np.flatnonzero(train_set.is_ood)])
    images = jnp.asarray(painted[order])
    arrays["cosine"] = np.asarray(scores.cosine(images))
    arrays["distance"] = np.asarray(scores.distance(images))
    arrays["overlap"] = np.asarray(scores.pixel_overlap(images if shown.inverted else 1 - images))
    is_trained = np.isin(shown.points, train_set.rows).reshape(n, n)
    # The background is removed: a sum of backgrounds is not an image.
    spots = (1 - painted if shown.inverted else painted).reshape(n, n, n, n)
    sums = factorization.shared_sum(spots, is_trained).reshape(-1, n, n)[picked]
    arrays["shared_sum"] = _over_maximum(sums)
    return arrays


def _over_maximum(images):
    return images / np.abs(images).max(axis=(1, 2), keepdims=True)


def _isolated(config, trained, c, train_set) -> np.ndarray:
    """Images [3, 4, n, n]: x alone, y alone, and their sum divided by its maximum."""
    codes, half = trained.scenes.codes, trained.scenes.codes.shape[1] // 2
    picked = trained.scenes.points[examples(trained.scenes, train_set)]
    model, (params, extra) = training.network(config), training.variables_of(trained, 0, c)
    x, y = (
        np.asarray(training.paint_all(model, params, extra, jnp.asarray(code, jnp.float32)))
        for code in factorization.isolated(codes[picked], codes[train_set.rows], half)
    )
    if trained.scenes.inverted:
        x, y = 1 - x, 1 - y
    return np.stack([x, y, _over_maximum(x + y)])


# --- the network's own tangent kernel -------------------------------------------------------------


def tangent(config, trained, c):
    """R2 of networks' images predicted by their own tangent kernels at initialisation."""
    shown, n, per_seed, arrays = trained.scenes, config.data.n, [], {}
    start, model = training.start(config, shown), training.network(config)

    def f(params, codes):
        return model.apply({"params": params}, codes)[0].reshape(len(codes), -1)

    for s in range(len(config.train.seeds)):
        train_set = trained.set_of(config, s, c)
        params = tree.take(start, s * len(trained.cells) + c)
        kernel = tangent_predictions(f, params, shown, train_set)
        grid, where = trained.painted[s, c].reshape(n, n, -1), train_set.is_ood.reshape(n, n)
        numbers = {f"tangent kernel {name}": kernel[name] for name in ("residual", "iterations")}
        for how in ("all outputs", "mean over pixels"):
            predicted = kernel[how].reshape(n, n, -1)
            r2 = factorization.explained(grid, predicted, where)
            numbers[f"tangent kernel R2, {how}"] = r2
        per_seed.append(numbers)
        if s == 0:
            arrays["examples"] = kernel["mean over pixels"][examples(shown, train_set)]
    return _by_name(per_seed), arrays


def tangent_predictions(
    f, params, shown: sets.Scenes, train_set: sets.Set, most_iterations: int = 500
) -> dict:
    """Images at all points predicted by the tangent kernel of f(params, codes) -> [B, n * n].

    Two solutions: "all outputs" solves for all pixels jointly by conjugate gradients, which stop
    early and report their residual; "mean over pixels" solves every pixel exactly with the kernel
    averaged over pixels.
    """
    rows = np.unique(train_set.rows)
    x, x_points = jnp.asarray(shown.codes[rows]), jnp.asarray(shown.codes[shown.points])
    y = shown.images[rows].reshape(len(rows), -1)
    fit = ntk.linearised_fit(f, params, x, y, x_points, most_iterations=most_iterations)
    both = jnp.concatenate([x, x_points])
    kernel = np.asarray(ntk.empirical(f, params, both, form="mean_trace"), float)
    start = np.asarray(f(params, both), float)
    n = len(rows)
    # The size to which float32 rounding perturbs eigenvalues that are zero.
    penalty = 1e-6 * np.trace(kernel[:n, :n]) / n
    change = _regression(kernel[:n, :n], y - start[:n], kernel[n:, :n], penalty)
    shape = (len(shown.points), *shown.images.shape[1:])
    return {
        "all outputs": np.asarray(fit.predictions).reshape(shape),
        "residual": fit.residual,
        "iterations": fit.n_iterations,
        "mean over pixels": (start[n:] + change).reshape(shape),
    }


# --- layers, definitions, real-valued centres -----------------------------------------------------


def by_layer(config, trained, c):
    """Factorization, probes and ranks; metrics cover the last hidden layer and the image."""
    tables, arrays = [], {}
    for s in range(len(config.train.seeds)):
        params, extra = training.variables_of(trained, s, c)
        activations = layer_activations(training.network(config), params, extra, trained.scenes)
        train_set = trained.set_of(config, s, c)
        measures = [layer_measures(layer, train_set) for layer in activations]
        tables.append([[measured[name] for name in SCORES] for measured in measures])
        if s == 0:
            arrays["volume"] = volume_maps(activations)
            if config.data.encoding != "onehot":  # a one-hot code has no derivative
                xy = trained.scenes.xy
                arrays["image_rank"] = exact_ranks(config, params, extra, xy)
    arrays["scores"] = np.array(tables)  # [seeds, layers, SCORES]
    numbers = {}
    for i, name in enumerate(SCORES):
        numbers[f"{name}, last hidden layer"] = arrays["scores"][:, -2, i]
        numbers[f"{name}, image"] = arrays["scores"][:, -1, i]
    return numbers, arrays


def words(config, trained, c):
    """The scores in WORDS for the first seed, at its last hidden layer."""
    shown, n, train_set = trained.scenes, config.data.n, trained.set_of(config, 0, c)
    every = layer_activations(
        training.network(config), *training.variables_of(trained, 0, c), shown
    )
    numbers = layer_measures(every[-2], train_set)
    truth, painted = (grid.reshape(n, n, -1) for grid in (shown.truth, trained.painted[0, c]))
    numbers["OOD R2"] = factorization.explained(truth, painted, train_set.is_ood.reshape(n, n))
    return {label: [numbers[score]] for label, score in WORDS.items()}, {}


def between_pixels(config, trained, c):
    """Scores at real-valued centres in [0, n - 1]^2, `eval.centres` along each side."""
    data, shown, side = config.data, trained.scenes, config.eval.centres
    line = np.linspace(0, data.n - 1, side)
    xy = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    truth = scenes.bump(xy, data.n, data.sigmas[0], shown.inverted, data.pixel_grid)
    codes = training.encode(config, xy)
    held_out = regions.holds(trained.cells[c].combination[0], xy)
    model, per_seed = training.network(config), []
    for s in range(len(config.train.seeds)):
        painted = training.paint_all(model, *training.variables_of(trained, s, c), codes)
        numbers = {}
        for region, where in (("id", ~held_out), ("ood", held_out)):
            place = shown.to_pixels(xy)
            every = scores.all_scores(truth, painted, place, shown.inverted, where)
            for name, value in every.items():
                numbers[f"{region} {name.replace('_', ' ')}, between pixels"] = value
        per_seed.append(numbers)
    return _by_name(per_seed), {}


def _by_name(per_seed: list[dict]) -> dict:
    """{name: values [seeds]}"""
    return {name: np.array([numbers[name] for numbers in per_seed], float) for name in per_seed[0]}


# Analyses that compare the images of held-out points with others.
OF_HELD_OUT = ("accounts", "tangent", "words")


def check(config) -> None:
    """Raises an error for an analysis that the part's images or points do not allow."""
    data = config.data
    for key in (key for key in ANALYSES if config.eval.get(key)):
        if len(data.sigmas) > 1:
            raise BadInput(
                f"eval.{key} needs one width: data.sigmas={data.sigmas} are a third factor"
            )
        if key in OF_HELD_OUT and "whole" in data.regions:
            raise BadInput(f"eval.{key} needs held-out points: data.regions={data.regions}")
    if config.eval.get("centres") and data.encoding == "onehot":
        raise BadInput("eval.centres needs a code of real-valued centres, not data.encoding=onehot")


# key of `eval` -> analysis
ANALYSES = {
    "accounts": superpositions,
    "kernels": kernels,
    "tangent": tangent,
    "layers": by_layer,
    "words": words,
    "centres": between_pixels,
}


# --- factorization of each layer ------------------------------------------------------------------
# Activations [n, n, units] cover all points of the grid; the first axis is y. Layer 0 is the code.


MOST_UNITS = 4096  # units per layer that are stored, so that all points fit in memory
UNITS = 1500  # units that probes and ranks use, as published
SCORES = (
    "F", "F hole", "F frame", "F_K", "F_K hole", "F_K frame", "additive share", "selective share",
    "probe R2", "probe R2 hole", "rank", "components",
)  # fmt: skip


def layer_activations(model, params, extra, shown: sets.Scenes) -> list[np.ndarray]:
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


def layer_measures(layer: np.ndarray, train_set: sets.Set) -> dict:
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
