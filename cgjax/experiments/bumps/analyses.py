"""What is computed of trained decoders beside their scores, each asked for by a key of `eval`.

Every analysis maps (config, trained, number of a cell) to metrics {name: values of the seeds, or of
the first ones}, and arrays for figures, which are of the first seed.
"""

import jax.numpy as jnp
import numpy as np

from cgjax.analysis import factorization
from cgjax.core import tree
from cgjax.experiments.bumps import accounts, layers, scenes, scores, sets, training

# Where examples are shown, as shares of the side: of 28 pixels these are the paper's.
EXAMPLES = ((11 / 28, 14 / 28), (12 / 28, 18 / 28), (17 / 28, 12 / 28), (17 / 28, 17 / 28))

# What stands for compositionality, factorization, disentanglement and modularity.
WORDS = {
    "compositionality (OOD R2)": "OOD R2",
    "factorization (F)": "F",
    "factorization (F_K)": "F_K",
    "disentanglement (probe R2 in the hole)": "probe R2 hole",
    "disentanglement (units of one factor)": "selective share",
    "modularity (share without interaction)": "additive share",
}


def examples(shown: sets.Scenes, one: sets.Set) -> np.ndarray:
    """Four held-out points [4] (of all, where none is) near the places the paper shows."""
    held_out = np.flatnonzero(one.is_ood if one.is_ood.any() else one.is_id)
    side = shown.images.shape[-1]
    away = [np.linalg.norm(shown.xy[held_out] - side * np.array(at), axis=1) for at in EXAMPLES]
    return np.array([held_out[np.argmin(distance)] for distance in away])


def superpositions(config, trained, c):
    """The R2 of section 7.4: how far the images in the hole are sums, a kernel's, or right."""
    found, kernels = [], {}
    for s in range(len(config.train.seeds)):
        one = trained.set_of(config, s, c)
        if id(one) not in kernels:  # seeds may share their set
            kernels[id(one)] = {k2: accounts.binary(trained.scenes, one, k2) for k2 in accounts.K2S}
        painted = trained.painted[s, c]
        found.append(accounts.superposition(trained.scenes, one, painted, kernels[id(one)]))
    first = trained.set_of(config, 0, c)
    picked = examples(trained.scenes, first)
    return _by_name(found), {"binary": kernels[id(first)][1.0][picked]}


def kernels(config, trained, c):
    """Kernels fitted to each network's own images (7.2), similarities (7.3), superposed images."""
    shown, found, arrays = trained.scenes, [], {}
    for s in range(len(config.train.seeds)):
        one, painted = trained.set_of(config, s, c), trained.painted[s, c]
        fits = accounts.kernel_fits(shown, one, painted)
        found.append(
            {
                f"{kind} kernel, {part} error": getattr(fit, part)
                for kind, fit in fits.items()
                for part in ("total", "id", "ood")
            }
        )
        if s == 0:
            arrays = _beside(config, shown, one, painted, fits)
            if shown.codes.shape[1] > 2:  # a code of units, of which some can be averaged away
                arrays["isolated"] = _isolated(config, trained, c, one)
    return _by_name(found), arrays


def _beside(config, shown, one, painted, fits) -> dict:
    """Errors and examples of fitted kernels, likeness of all images, sums of training images."""
    n, picked = config.data.n, examples(shown, one)
    arrays = {}
    for kind, fit in fits.items():
        arrays[f"{kind}/lengths"] = np.array(fit.lengths)
        arrays[f"{kind}/errors"] = np.mean((fit.predicted - painted) ** 2, axis=(1, 2))
        arrays[f"{kind}/examples"] = fit.predicted[picked]
    order = np.concatenate([np.flatnonzero(one.is_id), np.flatnonzero(one.is_ood)])
    images = jnp.asarray(painted[order])
    arrays["cosine"] = np.asarray(scores.cosine(images))
    arrays["distance"] = np.asarray(scores.distance(images))
    arrays["overlap"] = np.asarray(scores.pixel_overlap(images if shown.inverted else 1 - images))
    is_trained = np.isin(shown.points, one.rows).reshape(n, n)
    # Above the background: a sum of backgrounds is no image.
    spots = (1 - painted if shown.inverted else painted).reshape(n, n, n, n)
    sums = factorization.shared_sum(spots, is_trained).reshape(-1, n, n)[picked]
    arrays["shared_sum"] = _over_maximum(sums)
    return arrays


def _over_maximum(images):
    return images / np.abs(images).max(axis=(1, 2), keepdims=True)


def _isolated(config, trained, c, one) -> np.ndarray:
    """Images [3, 4, n, n] of x alone, of y alone, and their sum over its maximum."""
    codes, half = trained.scenes.codes, trained.scenes.codes.shape[1] // 2
    picked = trained.scenes.points[examples(trained.scenes, one)]
    model, (params, extra) = training.network(config), training.one(trained, 0, c)
    x, y = (
        np.asarray(training.paint_all(model, params, extra, jnp.asarray(code, jnp.float32)))
        for code in factorization.isolated(codes[picked], codes[one.rows], half)
    )
    if trained.scenes.inverted:
        x, y = 1 - x, 1 - y
    return np.stack([x, y, _over_maximum(x + y)])


def tangent(config, trained, c):
    """Networks beside their own tangent kernels at initialisation."""
    shown, n, found, arrays = trained.scenes, config.data.n, [], {}
    start, model = training.start(config, shown), training.network(config)

    def f(params, codes):
        return model.apply({"params": params}, codes)[0].reshape(len(codes), -1)

    for s in range(len(config.train.seeds)):
        one = trained.set_of(config, s, c)
        params = tree.take(start, s * len(trained.cells) + c)
        kernel = accounts.tangent(f, params, shown, one)
        grid, where = trained.painted[s, c].reshape(n, n, -1), one.is_ood.reshape(n, n)
        numbers = {f"tangent kernel {name}": kernel[name] for name in ("residual", "iterations")}
        for how in ("all outputs", "mean over pixels"):
            predicted = kernel[how].reshape(n, n, -1)
            r2 = factorization.explained(grid, predicted, where)
            numbers[f"tangent kernel R2, {how}"] = r2
        found.append(numbers)
        if s == 0:
            arrays["examples"] = kernel["mean over pixels"][examples(shown, one)]
    return _by_name(found), arrays


def by_layer(config, trained, c):
    """Factorization, probes and ranks; metrics are of the last hidden layer and of the image."""
    tables, arrays = [], {}
    for s in range(len(config.train.seeds)):
        params, extra = training.one(trained, s, c)
        every = layers.activations(training.network(config), params, extra, trained.scenes)
        one = trained.set_of(config, s, c)
        found = [layers.measures(layer, one) for layer in every]
        tables.append([[measured[name] for name in layers.SCORES] for measured in found])
        if s == 0:
            arrays["volume"] = layers.volume_maps(every)
            if config.data.encoding != "onehot":  # which has no derivative
                xy = trained.scenes.xy
                arrays["image_rank"] = layers.exact_ranks(config, params, extra, xy)
    arrays["scores"] = np.array(tables)  # [seeds, layers, SCORES]
    numbers = {}
    for i, name in enumerate(layers.SCORES):
        numbers[f"{name}, last hidden layer"] = arrays["scores"][:, -2, i]
        numbers[f"{name}, image"] = arrays["scores"][:, -1, i]
    return numbers, arrays


def words(config, trained, c):
    """The numbers behind four words, of the first seed's last hidden layer (section 15)."""
    shown, n, one = trained.scenes, config.data.n, trained.set_of(config, 0, c)
    every = layers.activations(training.network(config), *training.one(trained, 0, c), shown)
    found = layers.measures(every[-2], one)
    truth, painted = (grid.reshape(n, n, -1) for grid in (shown.truth, trained.painted[0, c]))
    found["OOD R2"] = factorization.explained(truth, painted, one.is_ood.reshape(n, n))
    return {word: [found[score]] for word, score in WORDS.items()}, {}


def between_pixels(config, trained, c):
    """Scores at real-valued centres in [0, n - 1]^2, `eval.centres` along each side."""
    data, shown, side = config.data, trained.scenes, config.eval.centres
    line = np.linspace(0, data.n - 1, side)
    xy = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    truth = scenes.bump(xy, data.n, data.sigmas[0], shown.inverted, data.pixel_grid)
    codes = training.encode(config, xy)
    lb, ub = (int(word) for word in trained.cells[c].combination[0].split("_")[1:])
    held_out = np.all((xy >= lb) & (xy <= ub), axis=1)
    model, found = training.network(config), []
    for s in range(len(config.train.seeds)):
        painted = training.paint_all(model, *training.one(trained, s, c), codes)
        numbers = {}
        for region, where in (("id", ~held_out), ("ood", held_out)):
            place = xy * shown.spacing
            every = scores.all_scores(truth, painted, place, shown.inverted, where)
            for name, value in every.items():
                numbers[f"{region} {name.replace('_', ' ')}, between pixels"] = value
        found.append(numbers)
    return _by_name(found), {}


def _by_name(found: list[dict]) -> dict:
    """{name: values [seeds]}"""
    return {name: np.array([one[name] for one in found], float) for name in found[0]}


# key of `eval` -> analysis
ANALYSES = {
    "accounts": superpositions,
    "kernels": kernels,
    "tangent": tangent,
    "layers": by_layer,
    "words": words,
    "centres": between_pixels,
}
