"""Network inputs for combinations (Lippl and Stachenfeld 2025): symbols or images.

Images: an image of one category shows each value of a component. A sample is C indices into a data
set. The data set is on the device once, as uint8; images are composed there, batch by batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.experiments.kernels.tasks import Task

# --- symbols --------------------------------------------------------------------------------------


def one_hot(x: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """One one-hot vector per component, side by side: float32 [N, sum(sizes)]."""
    x = np.asarray(x)
    codes = [np.eye(n, dtype=np.float32)[x[:, c]] for c, n in enumerate(sizes)]
    return np.concatenate(codes, axis=1)


# --- which images ---------------------------------------------------------------------------------


class Samples(NamedTuple):
    """Samples of a split, grouped by combination: `images` are C indices into the data set."""

    images: np.ndarray  # int32 [n, C]
    combination: np.ndarray  # int32 [n]: row of task.x


class ImageSets(NamedTuple):
    """Samples of one seed. Their counts are equal for all seeds, so seeds can be stacked.

    train: training combinations only. val_1 and val_2: all combinations, val_1 with images from the
    training pool, val_2 with images from the unseen pool.
    """

    train: Samples
    val_1: Samples
    val_2: Samples


def samples_per_combination(task: Task, n_total: int) -> int:
    """Samples of each training combination out of n_total, rounded down."""
    return n_total // np.count_nonzero(task.is_train)


def image_sets(
    task: Task, labels: np.ndarray, seed: int, n_pool: int, n_total: int, n_val: int = 100
) -> ImageSets:
    """Images that show each combination, drawn with replacement from the pools of a seed.

    labels [M]: classes of the data set's images. The first n_c classes, in random order, show the
    n_c values of component c. For each component, the images of each class are shuffled: the first
    n_pool are the training pool, the others the unseen pool.
    """
    n_each = samples_per_combination(task, n_total)
    if n_each < 1 or n_val < 1:
        raise BadInput(
            f"{n_total} samples do not cover the {np.count_nonzero(task.is_train)} training "
            f"combinations of {task.name}, or n_val={n_val} is not positive"
        )
    classes = np.random.default_rng(seed)
    categories = [classes.permutation(n) for n in task.sizes]
    rng = np.random.default_rng([seed, 1])  # a stream separate from that of the permutations
    known, unseen = _pools(task.sizes, np.asarray(labels), n_pool, rng)

    def draw(pools, rows, n):
        shown = np.stack([order[task.x[rows, c]] for c, order in enumerate(categories)], axis=1)
        columns = [_draw(rng, pool, shown[:, c], n) for c, pool in enumerate(pools)]
        images = np.stack(columns, axis=-1).reshape(-1, len(pools))
        return Samples(images.astype(np.int32), np.repeat(rows, n).astype(np.int32))

    everything = np.arange(len(task.x))
    return ImageSets(
        train=draw(known, np.flatnonzero(task.is_train), n_each),
        val_1=draw(known, everything, n_val),
        val_2=draw(unseen, everything, n_val),
    )


def _pools(sizes, labels, n_pool, rng):
    """Training and unseen images of each component's classes: two lists [component][class]."""
    counts = np.bincount(labels, minlength=max(sizes))[: max(sizes)]
    if n_pool < 1 or counts.min() <= n_pool:
        raise BadInput(
            f"a training pool of {n_pool} images per class leaves none unseen: the smallest of the "
            f"first {max(sizes)} classes has {counts.min()} images"
        )
    known, unseen = [], []
    for n_classes in sizes:
        orders = [rng.permutation(np.flatnonzero(labels == k)) for k in range(n_classes)]
        known.append([order[:n_pool] for order in orders])
        unseen.append([order[n_pool:] for order in orders])
    return known, unseen


def _draw(rng, pool, classes, n):
    """n images of each of the given classes [m], with replacement: [m, n]."""
    lengths = np.array([len(members) for members in pool])
    padded = np.stack([np.resize(members, lengths.max()) for members in pool])
    place = rng.integers(lengths[classes][:, None], size=(len(classes), n))
    return padded[classes[:, None], place]


# --- images on the device -------------------------------------------------------------------------

# Mean and standard deviation of each channel, on the scale from 0 to 1.
NORMALISATION = {
    "mnist": ((0.1307,), (0.3081,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
}


def network_input(
    images: jax.Array, indices: jax.Array, name: str, distance: int = 0, augment_key=None
) -> jax.Array:
    """Samples [B, C] of the data set `name`, uint8 [M, H, W, c] -> float32 [B, H, W', C c].

    augment_key: key of random crops and flips of every image, used in training on CIFAR-10.
    """
    parts = images[indices]
    if augment_key is not None:
        parts = augment(augment_key, parts)
    # Normalising the composed image equals composing normalised images, and uses fewer arrays.
    return normalise(compose(parts, distance), name)


def compose(parts: jax.Array, distance: int = 0) -> jax.Array:
    """C images [..., C, H, W, c] as one image [..., H, W + (C - 1) distance, C c].

    Image k is shifted by k * distance pixels to the right; its edge columns are repeated on both
    sides. Then the images are stacked along the channels.
    """
    n = parts.shape[-4]
    lead = [(0, 0)] * (parts.ndim - 3)  # after taking one part: leading axes and H
    padded = [
        jnp.pad(
            parts[..., k, :, :, :],
            [*lead, (k * distance, (n - 1 - k) * distance), (0, 0)],
            mode="edge",
        )
        for k in range(n)
    ]
    return jnp.concatenate(padded, axis=-1)


def normalise(images: jax.Array, name: str) -> jax.Array:
    """uint8 [..., C c] -> float32, by the data set's mean and deviation of each channel."""
    mean, std = (np.array(values, np.float32) for values in NORMALISATION[name])
    repeats = images.shape[-1] // len(mean)
    shape = (1,) * (images.ndim - 1) + (-1,)
    scale = np.tile(1 / (255 * std), repeats).reshape(shape)
    shift = np.tile(mean / std, repeats).reshape(shape)
    return images.astype(jnp.float32) * scale - shift


def augment(key: jax.Array, images: jax.Array, padding: int = 4) -> jax.Array:
    """A random crop of each image [..., H, W, c] padded with black, mirrored half of the time."""
    *lead, height, width, channels = images.shape
    flat = images.reshape(-1, height, width, channels)
    n = len(flat)
    crop_key, flip_key = jax.random.split(key)
    top, left = jax.random.randint(crop_key, (2, n, 1), -padding, padding + 1)
    mirrored = jax.random.bernoulli(flip_key, 0.5, (n, 1))
    columns = jnp.arange(width)[None]
    rows = top + jnp.arange(height)[None]
    columns = left + jnp.where(mirrored, width - 1 - columns, columns)
    inside = ((rows >= 0) & (rows < height))[:, :, None]
    inside &= ((columns >= 0) & (columns < width))[:, None, :]
    sample = jnp.arange(n)[:, None, None]
    # Clipped first, because a negative index counts from the other end.
    rows, columns = jnp.clip(rows, 0, height - 1), jnp.clip(columns, 0, width - 1)
    picked = flat[sample, rows[:, :, None], columns[:, None, :]]
    return jnp.where(inside[..., None], picked, 0).astype(images.dtype).reshape(images.shape)
