"""Paired MNIST: two digits side by side; the left digit is the target.

Y_1 is uniform, Y_2 = Y_1 + offset (mod 10). A *law* [10] is the distribution of the offset, so that
settings, doses and widths can differ between replicas. Images are on the device once, as uint8; a
sample is two indices into them. The same key gives the same left digits under every law. Digits are
side by side or, with `overlaid`, on the same pixels.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.data import sources

N_CLASSES = 10


def law(width: float = 2, rho: float = 1.0) -> jax.Array:
    """Offsets uniform on {0, ..., width - 1} with weight rho, on all ten otherwise: [10].

    width 2 is training setting A; width 10 or rho 0 is setting B. Both may be traced.
    """
    near = (jnp.arange(N_CLASSES) < width) / width
    return rho * near + (1 - rho) / N_CLASSES


def _uniform(offsets):
    return offsets.astype(np.float32) / offsets.sum()


# Setting A: Y_2 in {Y, Y + 1}. B: any label, so that X_2 has no information about the target. The
# test: all pairs that never occur in A.
_OFFSET = np.arange(N_CLASSES)
LAWS = {"A": _uniform(_OFFSET < 2), "B": _uniform(_OFFSET >= 0), "test": _uniform(_OFFSET >= 2)}


class Digits(NamedTuple):
    """Images, and the indices of the images of each class."""

    images: jax.Array  # uint8 [M, 28, 28]
    table: jax.Array  # int32 [10, most]: indices into images, repeated to fill a row
    counts: jax.Array  # int32 [10]


class Pairs(NamedTuple):
    """n samples: indices of their images, and labels; the target is y1."""

    left: jax.Array  # int32 [n]
    right: jax.Array  # -1: no digit
    y1: jax.Array  # int32 [n]
    y2: jax.Array


def digits(images, labels) -> Digits:
    """From images uint8 [M, 28, 28(, 1)] and labels [M], NumPy arrays with all classes."""
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim == 4:
        images = images[..., 0]
    members = [np.flatnonzero(labels == k).astype(np.int32) for k in range(N_CLASSES)]
    counts = np.array([len(indices) for indices in members], np.int32)
    if images.ndim != 3 or len(images) != len(labels) or counts.min() == 0:
        raise BadInput(
            f"pairs need images [M, 28, 28] of all {N_CLASSES} classes, got {images.shape} with "
            f"{counts.tolist()} of each"
        )
    table = np.stack([np.resize(indices, counts.max()) for indices in members])
    return Digits(images, table, counts)


def load(part: str, n_synthetic: int = 0) -> Digits:
    """MNIST's "train" or "test" images; n_synthetic > 0: that many synthetic images instead."""
    if n_synthetic:
        seed = {"train": 0, "test": 1}[part]
        dataset = sources.synthetic("mnist", n_synthetic, seed)
    else:
        dataset = sources.load("mnist", part)
    return digits(dataset["image"], dataset["label"])


def draw(key: jax.Array, digits: Digits, law: jax.Array, n: int) -> Pairs:
    """n samples whose labels follow a law [10]."""
    y_key, offset_key, left_key, right_key = jax.random.split(key, 4)
    y1 = jax.random.randint(y_key, (n,), 0, N_CLASSES)
    # Inverse distribution function, so that all settings of a seed use the same random numbers.
    edges = jnp.cumsum(law)[:-1]
    at = jax.random.uniform(offset_key, (n,))
    # Rounding must not give an offset beyond the last one of positive probability.
    last = N_CLASSES - 1 - jnp.argmax(law[::-1] > 0)
    offset = jnp.minimum(jnp.sum(at[:, None] >= edges[None], axis=1), last)
    y2 = (y1 + offset) % N_CLASSES
    return Pairs(_image(left_key, digits, y1), _image(right_key, digits, y2), y1, y2)


def without_right(key: jax.Array, pairs: Pairs, share: jax.Array) -> Pairs:
    """The same samples; a share of them has no right digit."""
    is_absent = jax.random.uniform(key, pairs.y1.shape) < share
    return pairs._replace(right=jnp.where(is_absent, -1, pairs.right))


def redraw_right(key: jax.Array, digits: Digits, pairs: Pairs) -> Pairs:
    """The same left digits; right digits are redrawn with uniform labels."""
    label_key, image_key = jax.random.split(key)
    y2 = jax.random.randint(label_key, pairs.y1.shape, 0, N_CLASSES)
    return pairs._replace(right=_image(image_key, digits, y2), y2=y2)


def _image(key, digits, labels):
    """One image index per label [n], uniform over the images of its class."""
    counts = digits.counts[labels]
    # Not uniform * counts, which may round up to counts in float32.
    place = jax.random.randint(key, labels.shape, 0, counts)
    return digits.table[labels, place]


def network_input(images: jax.Array, pairs: Pairs) -> jax.Array:
    """uint8 [M, 28, 28] -> float32 [n, 28, 56, 1] in [0, 1], X_1 on the left."""
    right = jnp.where(pairs.right[:, None, None] < 0, 0, images[pairs.right])
    both = jnp.concatenate([images[pairs.left], right], axis=2)
    return both[..., None].astype(jnp.float32) / 255


def overlaid(x: jax.Array) -> jax.Array:
    """[n, 28, 56, 1] -> [n, 28, 28, 1]: X_1, and X_2 mirrored at its diagonal, on the same pixels.

    Only their orientation tells the digits apart. A pixel is dark if it is dark in both.
    """
    left, right = jnp.split(x, 2, axis=2)
    return 1 - (1 - left) * (1 - right.swapaxes(1, 2))


def suggested(y2: jax.Array) -> jax.Array:
    """The two targets that X_2 suggests in setting A, Y_2 and Y_2 - 1: [n, 2]."""
    return jnp.stack([y2, (y2 - 1) % N_CLASSES], axis=1)
