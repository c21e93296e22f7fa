"""ConvNet, ResNet and ViT on composed images (Lippl and Stachenfeld 2025).

Seeds are replicas: each has its own network, its own assignment of image classes to values, and its
own images. The data set is on the device once, as uint8; a replica carries indices into it.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cgjax.core import parallel, train, tree
from cgjax.core.errors import BadInput
from cgjax.data import arrays, sources
from cgjax.experiments.kernels import inputs, tasks
from cgjax.experiments.kernels.dense import LOSSES
from cgjax.nets.conv import ConvNet
from cgjax.nets.resnet import ResNet
from cgjax.nets.vit import ViT

NETS = {"convnet": ConvNet, "resnet": ResNet, "vit": ViT}
OPTIMISERS = {"sgd": functools.partial(optax.sgd, momentum=0.9), "adam": optax.adam}
CHUNK = 256  # samples of one forward pass, as in the paper's evaluations
# (whether the combinations are trained, which samples): the splits that are reported
SPLITS = {"train": (True, "train"), "in": (True, "val_2"), "comp": (False, "val_2")}


class Images(NamedTuple):
    """A task shown as images: everything but the networks."""

    task: tasks.Task
    name: str  # of the data set
    pixels: np.ndarray  # uint8 [M, H, W, c]
    sets: tuple[inputs.ImageSets, ...]  # one per seed
    distance: int


class Trained(NamedTuple):
    """What a group of networks gives back; N combinations."""

    images: Images
    outputs: dict  # sample set -> mean output [seeds, N], nan where a combination has no samples
    scores: dict  # "comp mse" -> [seeds], after training
    history: dict
    params: dict  # leaves [seeds, ...]
    extra: dict
    initial: tuple  # (params, extra) before training


def load(config, task: str, distance: int) -> Images:
    """The samples of every seed of one task."""
    data = config.data
    if data.synthetic:
        found = sources.synthetic(data.images, n=data.synthetic)
    else:
        found = sources.load(data.images, "train")
    made = tasks.make(task)
    sets = tuple(
        inputs.image_sets(made, found["label"], seed, data.n_pool, data.n_total, data.n_val)
        for seed in config.train.seeds
    )
    return Images(made, data.images, found["image"], sets, distance)


def network(config):
    """The row's network; `config.model.<net>` holds its sizes."""
    if config.model.net not in NETS:
        raise BadInput(f"unknown model.net '{config.model.net}': one of {', '.join(NETS)}")
    sizes = config.model[config.model.net].to_dict()
    return NETS[config.model.net](**sizes, dtype=jnp.dtype(config.model.dtype))


def run(config, images: Images, workdir, name: str) -> Trained:
    """Trains one network per seed on one task at one distance."""
    for chosen, known in ((config.optim.loss, LOSSES), (config.optim.optimiser, OPTIMISERS)):
        if chosen not in known:
            raise BadInput(f"unknown '{chosen}' in optim: one of {', '.join(known)}")
    settings = periods(config, images)
    experiment = build(settings, images)
    state, history = train.fit(experiment, settings, workdir, name)
    start = train.SetUp(experiment, settings).init()
    initial = parallel.fetch((start.params, start.extra))
    params, extra = parallel.fetch((state.params, state.extra))
    outputs = averages(network(config), images, params, extra)
    scores = {k: v[-1] for k, v in history["eval"].items() if k != "step"}
    return Trained(images, outputs, scores, history, params, extra, initial)


def periods(config, images: Images):
    """The config with its epochs as steps: a call is one epoch."""
    n_train = len(images.sets[0].train.images)
    epoch = arrays.n_batches(n_train, config.data.batch)
    settings = config.copy_and_resolve_references()
    settings.data.n_train = n_train
    settings.train.update({"steps": config.train.epochs * epoch, "steps_per_call": epoch})
    settings.train.log_every = epoch
    settings.eval.every = epoch * min(config.eval.epochs, config.train.epochs)
    settings.checkpoint.every = epoch * min(config.checkpoint.epochs, config.train.epochs)
    return settings


def build(config, images: Images) -> train.Experiment:
    """Mini-batch training of all seeds, each on its own images."""
    model, value = network(config), LOSSES[config.optim.loss]
    task, first = images.task, images.sets[0]
    targets = jnp.asarray(task.y, jnp.float32)

    def init(key, replica):
        blank = jnp.zeros((1, *images.pixels.shape[1:]), jnp.uint8)
        samples = jnp.zeros((1, len(task.sizes)), jnp.int32)
        found = model.init(key, show(images, blank, samples))
        return found.pop("params"), found

    def loss(params, extra, batch, key, step, replica):
        crop_key, drop_key = jax.random.split(key)
        crop_key = crop_key if config.data.augment else None
        x = show(images, batch["pixels"], replica["train"][batch["rows"]], crop_key)
        f, extra = model.apply(
            {"params": params, **extra}, x, train=True, mask=batch["mask"],
            mutable=list(extra), rngs={"dropout": drop_key},
        )  # fmt: skip
        losses = value(batch["y"], f) * batch["mask"]
        return jnp.sum(losses) / jnp.sum(batch["mask"]), (extra, {})

    def evaluate(params, extra, data, key, replica):
        scores = {}
        for split, (trained, name) in SPLITS.items():
            rows = getattr(first, name).combination  # the same for every seed
            kept = np.flatnonzero(task.is_train[rows] == trained)
            f = outputs(model, images, params, extra, data["pixels"], replica[name][kept])
            y = targets[rows[kept]]
            scores |= {
                f"{split} loss": jnp.mean(value(y, f)),
                f"{split} mse": jnp.mean(jnp.square(f - y)),
                f"{split} accuracy": jnp.mean(jnp.sign(f) == jnp.sign(y)),
                f"{split} margin": jnp.mean(y * f),
            }
        return scores, {}

    replicas = {"seed": np.array(config.train.seeds)}
    for name in ("train", "val_2"):
        replicas[name] = np.stack([getattr(one, name).images for one in images.sets])
    optimiser = OPTIMISERS[config.optim.optimiser](config.optim.lr)
    return train.Experiment(
        data={"pixels": images.pixels, "y": targets[first.train.combination]},
        replicas=replicas,
        init=init,
        plan=arrays.epochs(len(first.train.images), config.data.batch),
        batch=lambda data, rows, key, step: {
            "pixels": data["pixels"], "rows": rows, "y": data["y"][rows]
        },
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optax.flatten(optimiser),
        headline=("train loss", "min"),
    )  # fmt: skip


# --- what networks see and say --------------------------------------------------------------------


def show(images: Images, pixels, samples, augment_key=None) -> jax.Array:
    """Samples [n, C] of the data set's pixels as network input [n, H, W', C c]."""
    return inputs.network_input(pixels, samples, images.name, images.distance, augment_key)


def outputs(model, images: Images, params, extra, pixels, samples, taps=(None,)):
    """What the network, in evaluation mode, says to samples [n, C]: [n]; or its layers `taps`."""
    n = len(samples)
    padded = jnp.pad(samples, ((0, -n % CHUNK), (0, 0))).reshape(-1, CHUNK, samples.shape[1])

    def chunk(samples):
        x = show(images, pixels, samples)
        return [model.apply({"params": params, **extra}, x, tap=tap) for tap in taps]

    found = [f.reshape(-1, *f.shape[2:])[:n] for f in jax.lax.map(chunk, padded)]
    return found[0] if taps == (None,) else found


def averages(model, images: Images, params, extra) -> dict:
    """Mean output for each combination and sample set: [seeds, N], nan where it has no samples."""
    n_combinations = len(images.task.x)
    pixels = jnp.asarray(images.pixels)
    compiled = jax.jit(functools.partial(outputs, model, images))
    found = {}
    for name in inputs.ImageSets._fields:
        rows = getattr(images.sets[0], name).combination
        counts = np.bincount(rows, minlength=n_combinations)
        means = []
        for i, one in enumerate(images.sets):
            f = compiled(*tree.take((params, extra), i), pixels, getattr(one, name).images)
            total = np.bincount(rows, np.asarray(f, np.float64), n_combinations)
            means.append(total / np.where(counts, counts, np.nan))
        found[name] = np.stack(means)
    return found
