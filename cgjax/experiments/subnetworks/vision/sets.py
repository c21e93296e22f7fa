"""The data sets of the vision rules, and their pixels on the device.

Sets are named as in the paper's procedure: compositional, mask_a, mask_b, test_a, test_b,
odd_breaks_both; a and b are the subroutines in `rules.RULES`. Names such as `mask_inside` are
accepted too. The odd image of a problem is the last one until `shuffled` permutes them.
"""

import os
import tempfile
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput, shown
from cgjax.core.logging import say
from cgjax.data import sources
from cgjax.experiments.subnetworks.vision import cache
from cgjax.experiments.subnetworks.vision.rules import IMAGES, PAPER, RULES, Options

N_PROBLEMS = {"train": 10_000, "val": 500, "test": 1_000}  # as in the paper
MEAN, SCALE = 0.9, 0.1  # normalised pixels are (pixel - MEAN) / SCALE


class Problems(NamedTuple):
    """The 4 images of n problems: maps of object indices, and the colours of objects."""

    maps: np.ndarray  # uint8 [n, 4, H, W]; 0 is the background
    palettes: np.ndarray  # uint8 [n, 4, objects + 1, 3]; the first colour is white


def load(
    rule: str,
    split: str,
    which: str,
    n: int | None = None,
    image_size: int = 128,
    seed: int = 0,
    cache_dir=None,
    options: Options = PAPER,
    processes: int | None = None,
) -> Problems:
    """The first n problems of a set (default: the paper's number), drawn once and then cached.

    split: train, val or test, which are independent streams. cache_dir: default as in
    `cgjax.data.sources`. options: departures from the paper's data. processes: by default one per
    processor; the problems do not depend on it.

    >>> load("inside-contact", "val", "mask_inside", n=8, image_size=64).maps.shape
    (8, 4, 64, 64)
    """
    recipe = cache.recipe(rule, split, which, image_size, seed, options)
    n = N_PROBLEMS[split] if n is None else n
    if not 1 <= n <= 10**6:
        raise BadInput(f"problems of {rule}: 1 to a million, not {shown(n)}")
    folder = sources.cache_folder(cache_dir) / "subnetworks" / recipe.name
    problems = Problems(
        np.empty((n, IMAGES, image_size, image_size), np.uint8),
        np.empty((n, IMAGES, RULES[rule].n_objects + 1, 3), np.uint8),
    )

    def is_read(span):
        return _put(problems, span, cache.read(recipe, folder, span))

    missing = [span for span in cache.spans(n) if not is_read(span)]
    if missing:
        processes = _n_processors() if processes is None else processes
        cache.make(recipe, folder, missing, max(1, min(processes, len(missing))), say)
    for span in missing:
        if not is_read(span):  # the cache is not writable
            _put(problems, span, cache.draw(recipe, *span))
    return problems


def _put(problems, span, arrays):
    if arrays is not None:
        for name, values in arrays.items():
            getattr(problems, name)[slice(*span)] = values
    return arrays is not None


def images(maps: jax.Array, palettes: jax.Array) -> jax.Array:
    """Normalised pixels float32 [..., H, W, 3] of maps [..., H, W] and palettes [..., k, 3]."""
    return normalised(pixels(maps, palettes))


def pixels(maps: jax.Array, palettes: jax.Array) -> jax.Array:
    """Pixels in [0, 1], float32 [..., H, W, 3], of maps [..., H, W] and palettes [..., k, 3]."""
    colours = jnp.asarray(palettes, jnp.float32) / 255
    flat = jnp.reshape(maps, (-1, *maps.shape[-2:]))
    rendered = jax.vmap(lambda index_map, colour: colour[index_map])(
        flat, colours.reshape(-1, *colours.shape[-2:])
    )
    return rendered.reshape(*maps.shape, 3)


def normalised(pixels: jax.Array) -> jax.Array:
    """Normalised pixels, the input of networks, from pixels in [0, 1]."""
    return (pixels - MEAN) / SCALE


def shuffled(
    key: jax.Array, maps: jax.Array, palettes: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The images of each problem in a random order, and the position [n] of the odd one."""
    order = jnp.argsort(jax.random.uniform(key, maps.shape[:2]), axis=1)
    rows = jnp.arange(maps.shape[0])[:, None]
    return maps[rows, order], palettes[rows, order], jnp.argmax(order == IMAGES - 1, axis=1)


# --- speed ----------------------------------------------------------------------------------------


class Speed(NamedTuple):
    """Speed of generation; on a busy machine, rates per CPU second are more informative."""

    per_second: float  # drawn, written and read again, by all processes
    per_cpu_second: float  # the same, in the processor time of all processes together
    drawn_per_cpu_second: float  # drawn only, by this process
    processes: int


def problems_per_second(
    rule: str, n: int = 4_000, image_size: int = 128, processes: int | None = None
) -> Speed:
    """Measures `load` of n compositional problems with an empty cache, and drawing alone."""
    processes = _n_processors() if processes is None else processes
    recipe = cache.recipe(rule, "train", "compositional", image_size, 0)
    n_drawn, started = min(n, 250), time.process_time()
    cache.draw(recipe, 0, n_drawn)
    drawn_per_cpu_second = n_drawn / (time.process_time() - started)
    options = {"image_size": image_size, "processes": processes}
    with tempfile.TemporaryDirectory() as folder:
        started, cpu = time.perf_counter(), _cpu_seconds()
        load(rule, "train", "compositional", n, cache_dir=folder, **options)
        seconds, cpu = time.perf_counter() - started, _cpu_seconds() - cpu
    return Speed(n / seconds, n / cpu, drawn_per_cpu_second, processes)


def _n_processors():
    """Number of processors that this process may use, if the system reports it; else all."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def _cpu_seconds():
    """CPU time of this process and of its finished child processes."""
    return sum(os.times()[:4])
