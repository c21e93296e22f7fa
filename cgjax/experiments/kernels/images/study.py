"""Studies of image networks: scores, additivity, salience, and the networks' kernels.

Every task and distance of a row is trained in its own folder. Metrics are named
"<task>, d=<distance>: <metric>".
"""

import functools
import itertools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import additivity, machines, ntk, salience
from cgjax.core import checkpoint, program, rng, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.experiments.kernels import tasks
from cgjax.experiments.kernels.images import networks
from cgjax.experiments.kernels.scores import (
    as_array,
    closed_form,
    entry,
    scores_of,
    short,
    slope,
    type_shares,
)

N_SAMPLES = 11  # of each combination in similarities, as in the paper
# Estimates of similarity: the paper's, and one that leaves out products of samples with themselves.
ESTIMATES = {"": True, ", no self-products": False}


def study(config, workdir: pathlib.Path):
    """Trains every task at every distance; metrics {name: (values, seeds)} and arrays."""
    metrics, arrays = {}, {"row": np.array(config.row)}
    for task in config.data.tasks:
        for distance in config.data.distances:
            name = f"{task}-d{distance}"
            images = networks.load(config, task, distance)
            trained = networks.run(config, images, pathlib.Path(workdir) / name, name)
            scores, saved = analyse(config, trained)
            seeds = list(config.train.seeds)
            for key, value in scores.items():
                metrics[f"{short(task)}, d={distance}: {key}"] = entry(value, seeds)
            arrays |= {f"{name}/{k}": as_array(v) for k, v in (saved | scores).items()}
            for metric in ("slope", "comp accuracy"):
                if metric in scores:
                    say(f"{name}: {metric} {np.mean(scores[metric]):.3f}")
    return metrics | pooled(config, metrics), arrays


def pooled(config, metrics: dict) -> dict:
    """Accuracy on transitive equivalence, averaged over both numbers of hubs as in Fig. 5e."""
    hubs = [task for task in config.data.tasks if task.startswith("te_")]
    if len(hubs) < 2:
        return {}
    averaged = {}
    for distance, split in itertools.product(config.data.distances, ("train", "in", "comp")):
        by_task = [metrics[f"{task}, d={distance}: {split} accuracy"] for task in hubs]
        mean = np.mean([values for values, _ in by_task], axis=0)
        averaged[f"all hubs, d={distance}: {split} accuracy"] = (mean, by_task[0][1])
    return averaged


def check(config) -> None:
    """Checks the tasks, the network and its layers, before any image is read."""
    for task in map(tasks.make, config.data.tasks):
        if len(task.sizes) == 3 and task.sizes[0] > len(tasks.RELEVANT):
            raise BadInput(f"data.tasks: {task.name} has {task.sizes[0]} contexts, not two")
    networks.check(config, (*config.eval.layers, config.eval.layer))


def check_untrained(config) -> None:
    """Checks the images, the network and its layer."""
    n, n_val = max(config.eval.n_images), config.data.n_val
    if n > n_val:
        raise BadInput(f"eval.n_images={n} must not exceed data.n_val={n_val}")
    networks.check(config, (config.eval.layer,))


def plan(config) -> dict:
    """Size of the training of each task at each distance; the data set is not read."""
    sizes = {}
    for task, distance in itertools.product(config.data.tasks, config.data.distances):
        images = networks.load(config, task, distance, labels_only=True)
        settings = networks.settings(config, images)
        sizes[f"{task}-d{distance}"] = program.training_size(
            networks.build(settings, images), settings
        )
    return sizes


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks of "<task>-d<distance>"; `predict(params, images [n, H, W, c])` -> [n].

    params: leading axis seeds; batch statistics are included.
    """
    names = [f"{task}-d{d}" for task in config.data.tasks for d in config.data.distances]
    name = checkpoint.choose(part, names, workdir)
    seeds = [f"seed {seed}" for seed in config.train.seeds]
    params, extra, steps = checkpoint.read_trained(pathlib.Path(workdir) / name, seeds, step)
    model = networks.network(config)
    return checkpoint.Loaded(model.apply, {"params": params, **extra}, config, steps)


def analyse(config, trained: networks.Trained) -> tuple[dict, dict]:
    """Metrics [seeds] of one task at one distance, and arrays for figures."""
    task = trained.images.task
    reported = ("accuracy", "margin") if tasks.is_classification(task) else ("mse",)
    metrics = {k: v for k, v in trained.scores.items() if k.split()[-1] in reported}
    arrays = {f"outputs/{name}": means for name, means in trained.outputs.items()}
    arrays |= {f"history/{k}": v for k, v in trained.history["eval"].items()}
    fit = fit_additive(task, trained.outputs)
    arrays |= {"labels": fit.labels, "coefficients": fit.coefficients}
    metrics["additivity"] = fit.r2[:, list(fit.splits).index("comp")]
    metrics["mean additivity"] = fit.r2.mean(axis=1)  # the paper's numbers agree with this mean
    metrics |= values(task, fit, arrays)
    arrays |= kernels(config, trained)
    layer = config.eval.layer
    estimated = [f"{key}{which}" for key in ("salience", "predicted slope") for which in ESTIMATES]
    for key in (*estimated, "readout slope", "readout accuracy", "readout additivity"):
        if f"before/layer {layer}/{key}" in arrays:
            metrics[key] = arrays[f"before/layer {layer}/{key}"]
    if config.eval.ntk:
        scores = tangent(config, trained)
        arrays |= {f"ntk/{key}": value for key, value in scores.items()}
        metrics |= {f"NTK {key}": value for key, value in scores.items() if value.ndim == 1}
    return metrics, arrays


def fit_additive(task: tasks.Task, outputs: dict) -> additivity.SplitAdditivity:
    """Additivity of mean outputs; the split "comp" holds new combinations of unseen images."""
    x, f, splits = [], [], []
    for name, means in outputs.items():
        rows = np.flatnonzero(np.isfinite(means[0]))
        x.append(task.x[rows])
        f.append(means[:, rows])
        new = name == "val_2"
        splits.append(np.where(task.is_train[rows], name, "comp" if new else f"{name} comp"))
    x, f, splits = np.concatenate(x), np.concatenate(f, axis=1), np.concatenate(splits)
    return additivity.additivity_by_split(x, f, splits, task.x[task.is_train])


def values(task: tasks.Task, fit: additivity.SplitAdditivity, arrays: dict) -> dict:
    """Slope of unseen items' values (addition), or magnitudes by type (context dependence)."""
    if len(task.sizes) == 3:
        shares = type_shares(fit.labels, fit.coefficients)
        return {f"magnitude {name}": share for name, share in shares.items()}
    if tasks.is_classification(task):
        return {}
    items, worth = zip(*(additivity.item_values(fit.labels, fit.coefficients, c) for c in (0, 1)))
    worth = np.mean(worth, axis=0)  # [seeds, items], mean of both components
    arrays |= {"items": items[0], "item values": worth}
    arrays["is_anchor"] = tasks.anchors(task)
    unseen = ~arrays["is_anchor"]
    v = np.asarray(tasks.VALUES, float)[unseen]
    m = slope(v, worth[:, unseen])
    return {"slope": m, "value at 0": worth[:, unseen].mean(axis=1) - m * v.mean()}


# --- kernels of networks --------------------------------------------------------------------------


def samples(task: tasks.Task, sets, n: int = N_SAMPLES):
    """The first n samples of each combination: indices of images, rows of task.x, is_train.

    Training samples of trained combinations come first, then unseen images of all combinations.
    """
    picked, rows = [], []
    for name in ("train", "val_2"):
        available = getattr(sets, name)
        place = np.concatenate(
            [np.flatnonzero(available.combination == r)[:n] for r in range(len(task.x))]
        )
        picked.append(available.images[place])
        rows.append(available.combination[place])
    is_train = np.repeat([True, False], [len(p) for p in picked])
    return np.concatenate(picked), np.concatenate(rows), is_train


def kernels(config, trained: networks.Trained) -> dict:
    """Salience, spread and a readout of each layer in `eval.layers`, before and after training.

    The readout is the frozen-feature control: a kernel machine on the layer's dot products.
    """
    task, model = trained.images.task, networks.network(config)
    pixels = jnp.asarray(trained.images.pixels)
    layers = tuple(sorted({*config.eval.layers, config.eval.layer}))
    grams = jax.jit(functools.partial(_grams, model, trained.images, layers))
    scores = {}
    for when, states in (("before", trained.initial), ("after", (trained.params, trained.extra))):
        per_seed = {layer: [] for layer in layers}
        for i, sets in enumerate(trained.images.sets):
            picked, rows, is_train = samples(task, sets)
            products = grams(*tree.take(states, i), pixels, picked)
            for layer, gram in zip(layers, products):
                gram = np.asarray(gram, np.float64)
                per_seed[layer].append(of_gram(task, gram, rows, is_train))
        for layer, by_seed in per_seed.items():
            for key in by_seed[0]:
                scores[f"{when}/layer {layer}/{key}"] = np.stack([row[key] for row in by_seed])
    return scores


def _grams(model, shown, layers, params, extra, pixels, picked):
    """Dot products [n, n] of the samples in every layer."""
    outputs = networks.outputs(model, shown, params, extra, pixels, picked, layers)
    flat = [features.reshape(len(picked), -1).astype(jnp.float32) for features in outputs]
    return [jnp.matmul(features, features.T, precision="highest") for features in flat]


def of_gram(task: tasks.Task, gram: np.ndarray, rows: np.ndarray, is_train: np.ndarray) -> dict:
    """Salience, spread, predicted slope and kernel machine of a kernel [n, n] between samples."""
    new, old = np.flatnonzero(~is_train), np.flatnonzero(is_train)
    scores = {}
    for which, with_self in ESTIMATES.items():
        estimate = structure(task, gram[np.ix_(new, new)], rows[new], N_SAMPLES, with_self)
        scores |= {f"{key}{which}": value for key, value in estimate.items()}
    # The size that rounding of float32 products gives to zero eigenvalues.
    penalty = 1e-6 * np.trace(gram[np.ix_(old, old)]) / len(old)
    f = machines.ridge(gram[np.ix_(old, old)], task.y[rows[old]], gram[np.ix_(new, old)], penalty)
    means = np.bincount(rows[new], np.asarray(f), len(task.x)) / np.bincount(rows[new])
    scores["readout"] = means
    scores["readout additivity"] = additivity.additivity(task.x, means, task.is_train).r2_test
    return scores | {f"readout {k}": v[0] for k, v in scores_of(task, means[None]).items()}


def structure(task: tasks.Task, gram: np.ndarray, rows: np.ndarray, n: int, with_self) -> dict:
    """Similarity by overlap from n samples of each combination, salience and predicted slope."""
    if np.unique(rows, return_counts=True)[1].max() == 1:
        with_self = None  # a single sample has no pair
    similar = additivity.similarity_of_gram(task.x[rows], gram, n_samples=n, with_self=with_self)
    kappa, spread, _ = additivity.structure(similar)
    scores = {"kappa": kappa, "spread": spread, "salience": np.array(np.nan)}
    # Without self-products an estimate may be no kernel's: the salience is nan, or beyond 1/2.
    is_largest = kappa[-1] > kappa[0] and kappa[-1] >= np.abs(kappa).max()
    if is_largest:
        scores["salience"] = np.asarray(salience.salience(kappa))[0]
    if not tasks.is_classification(task) and tasks.anchors(task).any():  # else no closed form
        scores["predicted slope"] = np.array(np.nan)
        if is_largest:
            bounded = np.array([*kappa[:-2], min(kappa[-2], (kappa[0] + kappa[-1]) / 2), kappa[-1]])
            scores["predicted slope"] = np.asarray(closed_form(bounded, task).slope)
    return scores


def untrained(config) -> tuple[dict, dict]:
    """Salience of a layer before training and the slope that it predicts, by estimate.

    The networks and images are those of the rows that train: each seed has its own.
    """
    model, seeds, metrics = networks.network(config), list(config.train.seeds), {}
    for name, distance in itertools.product(config.data.tasks, config.data.distances):
        images = networks.load(config, name, distance)
        apply = jax.jit(functools.partial(model.apply, tap=config.eval.layer))
        estimates = {}
        for seed, sets in zip(seeds, images.sets):
            params, extra = networks.init(model, images, rng.stream(jax.random.key(seed), "init"))
            rows, n = sets.val_2.combination, max(config.eval.n_images)
            picked = np.concatenate([np.flatnonzero(rows == r)[:n] for r in np.unique(rows)])
            features = []
            for chunk in np.split(picked, np.arange(networks.CHUNK, len(picked), networks.CHUNK)):
                x = networks.show(images, images.pixels, sets.val_2.images[chunk])
                features.append(apply({"params": params, **extra}, x).reshape(len(chunk), -1))
            features = jnp.concatenate(features).astype(jnp.float32)
            gram = np.asarray(jnp.matmul(features, features.T, precision="highest"), np.float64)
            for n, which in itertools.product(config.eval.n_images, ESTIMATES):
                values = structure(images.task, gram, rows[picked], n, ESTIMATES[which])
                for key in ("salience", "predicted slope"):
                    estimates.setdefault(f"{key}, {n} images{which}", []).append(values[key])
        for key, values in estimates.items():
            metrics[f"{short(name)}, d={distance}: {key}"] = (np.array(values), seeds)
    return metrics, {name: values for name, (values, _) in metrics.items()}


def tangent(config, trained: networks.Trained) -> dict:
    """Kernel regression with the tangent kernel of each network, its drift and its alignment."""
    task, model = trained.images.task, networks.network(config)
    pixels = jnp.asarray(trained.images.pixels)
    f = functools.partial(_scalar, model)  # one program for all networks
    per_seed = []
    for i, sets in enumerate(trained.images.sets):
        picked, rows, is_train = samples(task, sets, config.eval.ntk)
        x = networks.show(trained.images, pixels, jnp.asarray(picked))
        grams = []
        for variables in (trained.initial, (trained.params, trained.extra)):
            kernel = ntk.empirical(f, tree.take(variables, i), x, form="mean_trace")
            grams.append(np.asarray(kernel, np.float64))
        scores = {f"{k} before": v for k, v in of_gram(task, grams[0], rows, is_train).items()}
        scores |= {f"{k} after": v for k, v in of_gram(task, grams[1], rows, is_train).items()}
        scores["drift"] = np.asarray(ntk.drift(*grams))
        for when, gram in zip(("before", "after"), grams):
            scores[f"alignment {when}"] = np.asarray(ntk.target_alignment(gram, task.y[rows]))
        per_seed.append(scores)
    return {key: np.stack([scores[key] for scores in per_seed]) for key in per_seed[0]}


def _scalar(model, variables, x):
    params, extra = variables
    # Batch statistics are not parameters, so they must not contribute to the kernel.
    return model.apply({"params": params, **jax.lax.stop_gradient(extra)}, x)[:, None]
