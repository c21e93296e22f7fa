"""Studies of image networks: scores, additivity, salience, and the networks' kernels.

Every task and distance of a row is trained in its own folder. Metrics are named
"<task>, d=<distance>: <metric>".
"""

import functools
import itertools
import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.analysis import additivity, machines, ntk, salience
from cgjax.config import cached_by
from cgjax.core import checkpoint, optim, parallel, program, rng, train, tree
from cgjax.core.errors import BadInput, first_line
from cgjax.core.logging import say
from cgjax.core.replicas import with_numbers
from cgjax.data import arrays, sources
from cgjax.experiments.kernels import inputs, tasks
from cgjax.experiments.kernels.scores import (
    LOSSES,
    as_array,
    closed_form,
    entry,
    scores_of,
    short,
    slope,
    type_shares,
)
from cgjax.nets.conv import ConvNet
from cgjax.nets.resnet import ResNet
from cgjax.nets.vit import ViT

# --- networks -------------------------------------------------------------------------------------
# ConvNet, ResNet and ViT on composed images (Lippl and Stachenfeld 2025).
#
# Seeds are replicas. Each seed has its own network, its own assignment of image classes to values,
# and its own images. The data set is on the device once, as uint8; a replica holds indices into it.


NETS = {"convnet": ConvNet, "resnet": ResNet, "vit": ViT}
OPTIMISERS = {"sgd": "momentum", "adam": "adam"}  # the paper's names
SMALLEST = {"mnist": 5421, "cifar10": 5000}  # training images of the smallest class
CHUNK = 256  # samples of one forward pass, as in the paper's evaluations
# Reported splits: (whether the combinations are trained, sample set).
SPLITS = {"train": (True, "train"), "in": (True, "val_2"), "comp": (False, "val_2")}


class Images(NamedTuple):
    """A task shown as images: all inputs of training except the networks."""

    task: tasks.Task
    name: str  # of the data set
    pixels: np.ndarray  # uint8 [M, H, W, c]
    sets: tuple[inputs.ImageSets, ...]  # one per seed
    distance: int


class Trained(NamedTuple):
    """Results of the networks of all seeds on one task at one distance; N combinations."""

    images: Images
    outputs: dict  # sample set -> mean output [seeds, N], nan where a combination has no samples
    halves: dict  # the same, of the first half of each combination's samples
    scores: dict  # "comp mse" -> [seeds], after training
    history: dict
    params: dict  # leaves [seeds, ...]
    extra: dict
    initial: tuple  # (params, extra) before training


def load_images(config, task: str, distance: int, labels_only: bool = False) -> Images:
    """The samples of every seed of one task; labels_only: synthetic labels and one blank image."""
    data = config.data
    if labels_only:
        labels = np.arange(20 * data.n_pool) % sources.N_CLASSES
        dataset = {"image": np.zeros((1, *sources.SHAPES[data.images]), np.uint8), "label": labels}
    elif data.synthetic:
        dataset = sources.synthetic(data.images, n=data.synthetic)
    else:
        dataset = sources.load(data.images, "train")
    made = tasks.make(task)
    sets = tuple(
        inputs.image_sets(made, dataset["label"], seed, data.n_pool, data.n_total, data.n_val)
        for seed in config.train.seeds
    )
    return Images(made, data.images, dataset["image"], sets, distance)


def network(config):
    """The row's network; `config.model.<net>` holds its sizes."""
    sizes = config.model[config.model.net]
    return NETS[config.model.net](**sizes, dtype=jnp.dtype(config.model.dtype))


def check_networks(config, layers) -> None:
    """Checks that there are enough images and that the network accepts them, by shapes alone.

    layers: the network must have them.
    """
    data = config.data
    smallest = data.synthetic // sources.N_CLASSES if data.synthetic else SMALLEST[data.images]
    if data.n_pool >= smallest:
        raise BadInput(
            f"data.n_pool={data.n_pool} leaves no image unseen: some classes have {smallest}"
        )
    row_tasks = [tasks.make(name) for name in data.tasks]
    for task in row_tasks:
        if not inputs.samples_per_combination(task, data.n_total):
            raise BadInput(
                f"data.n_total={data.n_total} does not cover the {np.count_nonzero(task.is_train)} "
                f"training combinations of {task.name}"
            )
    _check_networks(config, max(layers))


@cached_by("model.", "data.tasks", "data.distances", "data.images")
def _check_networks(config, last: int) -> None:
    row_tasks, distances = [tasks.make(name) for name in config.data.tasks], config.data.distances
    by_count = {len(task.sizes): task for task in row_tasks}  # one task per number of images
    for task, distance in itertools.product(by_count.values(), distances):
        _check_network(config, task, distance, None)
    _check_network(config, row_tasks[0], distances[0], last)


def _check_network(config, task: tasks.Task, distance: int, layer: int | None) -> None:
    blank = np.zeros((1, *sources.SHAPES[config.data.images]), np.uint8)
    images = Images(task, config.data.images, blank, (), distance)

    def build(key, pixels):
        samples = jnp.zeros((1, len(task.sizes)), jnp.int32)
        return network(config).init(key, show(images, pixels, samples), tap=layer)

    try:
        jax.eval_shape(build, jax.random.key(0), blank)
    except IndexError:
        raise BadInput(f"eval.layers, eval.layer: the network has no layer {layer}") from None
    except (ArithmeticError, TypeError, ValueError) as error:
        raise BadInput(f"this network cannot be built: {first_line(error)}") from None


def run(config, images: Images, workdir, name: str) -> Trained:
    """Trains one network per seed on one task at one distance."""
    settings = in_steps(config, images)
    experiment = build(settings, images)
    state, history = train.fit(experiment, settings, workdir, name)
    start = train.initial(experiment, settings)
    initial = parallel.fetch((start.params, start.extra))
    params, extra = parallel.fetch((state.params, state.extra))
    outputs, halves = averages(network(config), images, params, extra)
    scores = {k: v[-1] for k, v in history["eval"].items() if k != "step"}
    return Trained(images, outputs, halves, scores, history, params, extra, initial)


def in_steps(config, images: Images):
    """The config with epochs converted to steps, for the training loop."""
    n_train = len(images.sets[0].train.images)
    return configs.in_steps(config, arrays.n_batches(n_train, config.data.batch))


def by_kernels(config) -> bool:
    """Whether networks are trained with the package's own GPU kernels.

    These are faster for one ResNet and for four ConvNets at once, in both precisions. Where they
    cannot run, the compiler's forms are the fallback. Analyses always use the compiler's forms,
    which have all derivatives.
    """
    several = len(config.train.seeds) > 1 and config.train.at_once != 1
    return config.model.net == "resnet" or (config.model.net == "convnet" and several)


def init(model, images: Images, key) -> tuple[dict, dict]:
    """(params, extra) before training."""
    blank = jnp.zeros((1, *images.pixels.shape[1:]), jnp.uint8)
    samples = jnp.zeros((1, len(images.task.sizes)), jnp.int32)
    variables = model.init(key, show(images, blank, samples))
    return variables.pop("params"), variables


def build(config, images: Images) -> program.Experiment:
    """Mini-batch training of all seeds, each on its own images."""
    model, value = network(config), LOSSES[config.optim.loss]
    if by_kernels(config):
        model = model.clone(form="kernel")
    task, first = images.task, images.sets[0]
    targets = jnp.asarray(task.y, jnp.float32)

    def loss(params, extra, batch, key, step, replica):
        crop_key, drop_key = jax.random.split(key)
        crop_key = crop_key if config.data.augment else None
        x = show(images, batch["pixels"], replica["train"][batch["rows"]], crop_key)
        f, extra = model.apply(
            {"params": params, **extra},
            x,
            train=True,
            mask=batch["mask"],
            mutable=list(extra),
            rngs={"dropout": drop_key},
        )
        losses = value(batch["y"], f) * batch["mask"]
        return jnp.sum(losses) / jnp.sum(batch["mask"]), (extra, {})

    def evaluate(params, extra, data, key, replica):
        scores = {}
        for split, (trained, name) in SPLITS.items():
            rows = getattr(first, name).combination  # the same for every seed
            in_split = np.flatnonzero(task.is_train[rows] == trained)
            f = tapped_outputs(
                model, images, params, extra, data["pixels"], replica[name][in_split]
            )
            y = targets[rows[in_split]]
            scores |= {
                f"{split} loss": jnp.mean(value(y, f)),
                f"{split} mse": jnp.mean(jnp.square(f - y)),
                f"{split} accuracy": jnp.mean(jnp.sign(f) == jnp.sign(y)),
                f"{split} margin": jnp.mean(y * f),
            }
        return scores, {}

    replicas = with_numbers({"seed": np.array(config.train.seeds)}, lr=config.optim.lr)
    for name in ("train", "val_2"):
        replicas[name] = np.stack([getattr(sets, name).images for sets in images.sets])
    return program.Experiment(
        data={"pixels": images.pixels, "y": targets[first.train.combination]},
        replicas=replicas,
        init=lambda key, replica: init(model, images, key),
        plan=arrays.epochs(len(first.train.images), config.data.batch),
        batch=lambda data, rows, key, step: {
            "pixels": data["pixels"],
            "rows": rows,
            "y": data["y"][rows],
        },
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.by_name(OPTIMISERS[config.optim.optimiser], replica["lr"]),
        headline=("train loss", "min"),
    )


# --- inputs and outputs of networks ---------------------------------------------------------------


def show(images: Images, pixels, samples, augment_key=None) -> jax.Array:
    """Samples [n, C] of the data set's pixels as network input [n, H, W', C c]."""
    return inputs.network_input(pixels, samples, images.name, images.distance, augment_key)


def tapped_outputs(model, images: Images, params, extra, pixels, samples, taps=(None,)):
    """Outputs [n] of the network in evaluation mode for samples [n, C], or its layers `taps`."""
    n = len(samples)
    padded = jnp.pad(samples, ((0, -n % CHUNK), (0, 0))).reshape(-1, CHUNK, samples.shape[1])

    def apply_chunk(samples):
        x = show(images, pixels, samples)
        return [model.apply({"params": params, **extra}, x, tap=tap) for tap in taps]

    layers = [f.reshape(-1, *f.shape[2:])[:n] for f in jax.lax.map(apply_chunk, padded)]
    return layers[0] if taps == (None,) else layers


def averages(model, images: Images, params, extra) -> tuple[dict, dict]:
    """Mean outputs of all samples, and of the first half of each combination's samples.

    Both by sample set: [seeds, N], nan where a combination has no samples.
    """
    n_combinations = len(images.task.x)
    pixels = jnp.asarray(images.pixels)
    compiled = jax.jit(functools.partial(tapped_outputs, model, images))
    of_all, of_half = {}, {}
    for name in inputs.ImageSets._fields:
        rows = getattr(images.sets[0], name).combination  # the same for every seed
        f = np.stack([
            compiled(*tree.take((params, extra), i), pixels, getattr(sets, name).images)
            for i, sets in enumerate(images.sets)
        ])  # fmt: skip
        in_half = np.zeros(len(rows), bool)
        for combination in np.unique(rows):
            place = np.flatnonzero(rows == combination)
            in_half[place[: -(-len(place) // 2)]] = True
        of_all[name] = means_of_groups(f, rows, n_combinations)
        of_half[name] = means_of_groups(f[:, in_half], rows[in_half], n_combinations)
    return of_all, of_half


def means_of_groups(values: np.ndarray, group: np.ndarray, n_groups: int) -> np.ndarray:
    """Means [..., n_groups] of values [..., n] by group [n], in float64; nan for empty groups."""
    counts = np.bincount(group, minlength=n_groups)
    total = [np.bincount(group, np.asarray(row, np.float64), n_groups) for row in values]
    return np.stack(total) / np.where(counts, counts, np.nan)


N_SAMPLES = 11  # of each combination in similarities, as in the paper
# Estimates of similarity: the paper's, and one that leaves out products of samples with themselves.
ESTIMATES = {"": True, ", no self-products": False}


def study(config, workdir: pathlib.Path):
    """Trains every task at every distance; metrics {name: (values, seeds)} and arrays."""
    metrics, arrays = {}, {"row": np.array(config.row)}
    for task in config.data.tasks:
        for distance in config.data.distances:
            name = f"{task}-d{distance}"
            images = load_images(config, task, distance)
            trained = run(config, images, pathlib.Path(workdir) / name, name)
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
    check_networks(config, (*config.eval.layers, config.eval.layer))


def check_untrained(config) -> None:
    """Checks the images, the network and its layer."""
    n, n_val = max(config.eval.n_images), config.data.n_val
    if n > n_val:
        raise BadInput(f"eval.n_images={n} must not exceed data.n_val={n_val}")
    check_networks(config, (config.eval.layer,))


def plan(config) -> dict:
    """Size of the training of each task at each distance; the data set is not read."""
    sizes = {}
    for task, distance in itertools.product(config.data.tasks, config.data.distances):
        images = load_images(config, task, distance, labels_only=True)
        settings = in_steps(config, images)
        sizes[f"{task}-d{distance}"] = program.training_size(build(settings, images), settings)
    return sizes


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks of "<task>-d<distance>"; `predict(params, images [n, H, W, c])` -> [n].

    params: leading axis seeds; batch statistics are included.
    """
    names = [f"{task}-d{d}" for task in config.data.tasks for d in config.data.distances]
    name = checkpoint.choose(part, names, workdir)
    seeds = [f"seed {seed}" for seed in config.train.seeds]
    params, extra, steps = checkpoint.read_trained(pathlib.Path(workdir) / name, seeds, step)
    model = network(config)
    return checkpoint.Loaded(model.apply, {"params": params, **extra}, config, steps)


def analyse(config, trained: Trained) -> tuple[dict, dict]:
    """Metrics [seeds] of one task at one distance, and arrays for figures."""
    task = trained.images.task
    reported = ("accuracy", "margin") if tasks.is_classification(task) else ("mse",)
    metrics = {k: v for k, v in trained.scores.items() if k.split()[-1] in reported}
    arrays = {f"outputs/{name}": means for name, means in trained.outputs.items()}
    arrays |= {f"history/{k}": v for k, v in trained.history["eval"].items()}
    fit = fit_additive(task, trained.outputs)
    arrays |= {"labels": fit.labels, "coefficients": fit.coefficients}
    metrics["additivity"] = fit.r2[:, list(fit.splits).index("comp")]
    metrics["mean additivity"] = fit.r2.mean(axis=1)  # our reading of the paper's figure
    # Measures how much of the rest is noise: means over half of the images have twice as much.
    half = fit_additive(task, trained.halves)
    metrics["mean additivity, half of the images"] = half.r2.mean(axis=1)
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


def kernels(config, trained: Trained) -> dict:
    """Salience, spread and a readout of each layer in `eval.layers`, before and after training.

    The readout is the frozen-feature control: a kernel machine on the layer's dot products.
    """
    task, model = trained.images.task, network(config)
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
    outputs = tapped_outputs(model, shown, params, extra, pixels, picked, layers)
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
    model, seeds, metrics = network(config), list(config.train.seeds), {}
    for name, distance in itertools.product(config.data.tasks, config.data.distances):
        images = load_images(config, name, distance)
        apply = jax.jit(functools.partial(model.apply, tap=config.eval.layer))
        estimates = {}
        for seed, sets in zip(seeds, images.sets):
            params, extra = init(model, images, rng.stream(jax.random.key(seed), "init"))
            rows, n = sets.val_2.combination, max(config.eval.n_images)
            picked = np.concatenate([np.flatnonzero(rows == r)[:n] for r in np.unique(rows)])
            features = []
            for chunk in np.split(picked, np.arange(CHUNK, len(picked), CHUNK)):
                x = show(images, images.pixels, sets.val_2.images[chunk])
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


def tangent(config, trained: Trained) -> dict:
    """Kernel regression with the tangent kernel of each network, its drift and its alignment."""
    task, model = trained.images.task, network(config)
    pixels = jnp.asarray(trained.images.pixels)
    f = functools.partial(_scalar, model)  # one program for all networks
    per_seed = []
    for i, sets in enumerate(trained.images.sets):
        picked, rows, is_train = samples(task, sets, config.eval.ntk)
        x = show(trained.images, pixels, jnp.asarray(picked))
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
