"""ConvNet, ResNet and ViT on composed images (Lippl and Stachenfeld 2025).

Seeds are replicas. Each seed has its own network, its own assignment of image classes to values,
and its own images. The data set is on the device once, as uint8; a replica holds indices into it.
"""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.config import cached_by
from cgjax.core import optim, parallel, program, train, tree
from cgjax.core.errors import BadInput, first_line
from cgjax.core.replicas import with_numbers
from cgjax.data import arrays, sources
from cgjax.experiments.kernels import inputs, tasks
from cgjax.experiments.kernels.scores import LOSSES
from cgjax.nets.conv import ConvNet
from cgjax.nets.resnet import ResNet
from cgjax.nets.vit import ViT

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
    scores: dict  # "comp mse" -> [seeds], after training
    history: dict
    params: dict  # leaves [seeds, ...]
    extra: dict
    initial: tuple  # (params, extra) before training


def load(config, task: str, distance: int, labels_only: bool = False) -> Images:
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


def check(config, layers) -> None:
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
        raise BadInput(f"eval.layers, eval.layer: there is no layer {layer}") from None
    except (ArithmeticError, TypeError, ValueError) as error:
        raise BadInput(f"this network cannot be built: {first_line(error)}") from None


def run(config, images: Images, workdir, name: str) -> Trained:
    """Trains one network per seed on one task at one distance."""
    in_steps = settings(config, images)
    experiment = build(in_steps, images)
    state, history = train.fit(experiment, in_steps, workdir, name)
    start = train.initial(experiment, in_steps)
    initial = parallel.fetch((start.params, start.extra))
    params, extra = parallel.fetch((state.params, state.extra))
    outputs = averages(network(config), images, params, extra)
    scores = {k: v[-1] for k, v in history["eval"].items() if k != "step"}
    return Trained(images, outputs, scores, history, params, extra, initial)


def settings(config, images: Images):
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
            f = outputs(model, images, params, extra, data["pixels"], replica[name][in_split])
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


def outputs(model, images: Images, params, extra, pixels, samples, taps=(None,)):
    """Outputs [n] of the network in evaluation mode for samples [n, C], or its layers `taps`."""
    n = len(samples)
    padded = jnp.pad(samples, ((0, -n % CHUNK), (0, 0))).reshape(-1, CHUNK, samples.shape[1])

    def apply_chunk(samples):
        x = show(images, pixels, samples)
        return [model.apply({"params": params, **extra}, x, tap=tap) for tap in taps]

    layers = [f.reshape(-1, *f.shape[2:])[:n] for f in jax.lax.map(apply_chunk, padded)]
    return layers[0] if taps == (None,) else layers


def averages(model, images: Images, params, extra) -> dict:
    """Mean output by sample set: [seeds, N], nan where a combination has no samples."""
    n_combinations = len(images.task.x)
    pixels = jnp.asarray(images.pixels)
    compiled = jax.jit(functools.partial(outputs, model, images))
    by_set = {}
    for name in inputs.ImageSets._fields:
        rows = getattr(images.sets[0], name).combination
        counts = np.bincount(rows, minlength=n_combinations)
        means = []
        for i, sets in enumerate(images.sets):
            f = compiled(*tree.take((params, extra), i), pixels, getattr(sets, name).images)
            total = np.bincount(rows, np.asarray(f, np.float64), n_combinations)
            means.append(total / np.where(counts, counts, np.nan))
        by_set[name] = np.stack(means)
    return by_set
