"""The data sets of the vision rules, and their pixels on the device.

Sets are named as in the paper's procedure: compositional, mask_a, mask_b, test_a, test_b,
odd_breaks_both; a and b are the subroutines in `rules.RULES`. Names such as `mask_inside` are
accepted too. The odd image of a problem is the last one.
"""

import contextlib
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput, first_line, shown
from cgjax.core.logging import say
from cgjax.data import sources
from cgjax.experiments.subnetworks.vision import rendering, rules
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
    recipe = recipe_of(rule, split, which, image_size, seed, options)
    n = N_PROBLEMS[split] if n is None else n
    if not 1 <= n <= 10**6:
        raise BadInput(f"problems of {rule}: 1 to a million, not {shown(n)}")
    folder = sources.cache_folder(cache_dir) / "subnetworks" / recipe.name
    problems = Problems(
        np.empty((n, IMAGES, image_size, image_size), np.uint8),
        np.empty((n, IMAGES, RULES[rule].n_objects + 1, 3), np.uint8),
    )

    def is_read(span):
        return _put(problems, span, read(recipe, folder, span))

    missing = [span for span in spans(n) if not is_read(span)]
    if missing:
        processes = _n_processors() if processes is None else processes
        make(recipe, folder, missing, max(1, min(processes, len(missing))), say)
    for span in missing:
        if not is_read(span):  # the cache is not writable
            _put(problems, span, draw(recipe, *span))
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
    recipe = recipe_of(rule, "train", "compositional", image_size, 0)
    n_drawn, started = min(n, 250), time.process_time()
    draw(recipe, 0, n_drawn)
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


# --- cache ----------------------------------------------------------------------------------------
# A file cache of problems: several processes draw them in chunks, each chunk once.
#
# A chunk is a function of its recipe and position only, so any process can draw it. Every process
# iterates over the missing chunks from a different start and skips those that already exist; files
# are written atomically. A restarted run therefore draws only the missing chunks, and two runs that
# need the same set share the work.


log = logging.getLogger("cgjax")

VERSION = (
    1  # version of the generator: increase it if any pixel changes, so that old files are not used
)
SPLITS = ("train", "val", "test")
CHUNK = 250  # problems per file
_BLOCK = 125  # problems drawn together
_SAY_EVERY = 15.0  # seconds


class Recipe(NamedTuple):
    """Everything except i that determines problem i of a set."""

    rule: str
    split: str
    which: str
    image_size: int
    seed: int
    balanced: bool = False
    resample: bool = False

    @property
    def name(self) -> str:
        options = [name for name in rules.Options._fields if getattr(self, name)]
        fields = (self.rule, self.which, self.split, f"{self.image_size}px", f"seed{self.seed}")
        return "-".join((*fields, *options, f"v{VERSION}"))


def recipe_of(rule, split, which, image_size, seed, options=rules.PAPER) -> Recipe:
    """A valid recipe; raises BadInput with one line that names the invalid value."""
    which = rules.set_name(rule, which)
    if split not in SPLITS:
        raise BadInput(f"unknown split '{split}' of {rule}: one of {', '.join(SPLITS)}")
    if not 32 <= image_size <= 1024:
        raise BadInput(f"images of {rule} have 32 to 1024 pixels a side, not {shown(image_size)}")
    if not 0 <= seed < 2**31:
        raise BadInput(f"the seed of {rule} must be a whole number from 0 on, not {shown(seed)}")
    return Recipe(rule, split, which, int(image_size), int(seed), *map(bool, options))


def keys(recipe: Recipe, start: int, stop: int) -> np.ndarray:
    """The keys uint64 [n] of problems start to stop; they do not depend on the image size."""
    folded = np.zeros(stop - start, np.uint64)
    places = (
        recipe.seed,
        list(rules.RULES).index(recipe.rule),
        SPLITS.index(recipe.split),
        list(rules.SETS).index(recipe.which),
    )
    for place in places:
        folded = rendering.fold(folded, place)
    return rendering.fold(folded, np.arange(start, stop))


def draw(recipe: Recipe, start: int, stop: int) -> dict:
    """Problems start to stop: maps uint8 [n, 4, H, W], palettes uint8 [n, 4, objects + 1, 3]."""
    blocks = [
        _draw(recipe, keys(recipe, i, min(i + _BLOCK, stop))) for i in range(start, stop, _BLOCK)
    ]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _draw(recipe, keys):
    rule, size = rules.RULES[recipe.rule], recipe.image_size
    options = rules.Options(recipe.balanced, recipe.resample)
    objects = rule.scenes(keys, *rules.cases(keys, recipe.which), options, size)
    maps = rendering.maps(objects, rules.IMAGES * len(keys), size)
    colours = rendering.fold(rendering.fold(keys, rules.COLOUR)[:, None], np.arange(rules.IMAGES))
    return {
        "maps": maps.reshape(len(keys), rules.IMAGES, size, size),
        "palettes": rendering.palettes(colours, rule.n_objects),
    }


# --- files ----------------------------------------------------------------------------------------


def spans(n: int) -> list[tuple[int, int]]:
    """The chunks (start, stop) of the first n problems."""
    return [(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK)]


def _path(folder, span):
    return folder / f"{span[0]:06d}-{span[1]:06d}.npz"


def read(recipe: Recipe, folder: pathlib.Path, span: tuple[int, int]) -> dict | None:
    """Reads a chunk's arrays from its own file or from the whole chunk's; None without a file.

    A damaged file is deleted with a warning.
    """
    whole = (span[0], span[0] + CHUNK)
    for path in {_path(folder, span), _path(folder, whole)}:
        if not path.exists():
            continue
        try:
            with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
                arrays = dict(file)
            if arrays.pop("sha256").item() != _signature(recipe, span[0], arrays):
                raise ValueError("wrong sha256")
        except Exception as error:  # zipfile and numpy raise many types for a damaged file
            log.warning("'%s' is damaged (%s): it is drawn again", path, first_line(error))
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            continue
        return {name: values[: span[1] - span[0]] for name, values in arrays.items()}
    return None


def _signature(recipe, start, arrays):
    return sources.fingerprint(arrays | {"recipe": np.array(f"{recipe.name} {start}")})


def _write(recipe, folder, span):
    """Draws a chunk and writes it, unless its file exists."""
    path = _path(folder, span)
    if not path.exists():
        arrays = draw(recipe, *span)
        signature = np.array(_signature(recipe, span[0], arrays))
        sources.save(path, arrays | {"sha256": signature}, compressed=True)


# --- several processes ----------------------------------------------------------------------------


def make(
    recipe: Recipe, folder: pathlib.Path, missing: list, processes: int, say: Callable
) -> None:
    """Draws and writes the missing chunks; prints progress with `say` every _SAY_EVERY seconds."""
    started, helpers = time.monotonic(), []
    reported = started
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mine, *others = (_walk(missing, i, processes) for i in range(processes))
        helpers = [_helper(recipe, folder, spans) for spans in others]
        for span in mine:
            _write(recipe, folder, span)
            if time.monotonic() - reported > _SAY_EVERY:
                reported = time.monotonic()
                done = sum(b - a for a, b in missing if _path(folder, (a, b)).exists())
                total = sum(b - a for a, b in missing)
                rate = done / (reported - started)
                say(f"{recipe.name}: {done:,}/{total:,} problems, {rate:.0f} a second")
        for helper in helpers:  # each helper has at most one unfinished chunk
            helper.wait()
    except OSError as error:
        reason = error.strerror or first_line(error)
        log.warning("no cache at '%s' (%s): problems are drawn anew each time", folder, reason)
    finally:
        for helper in helpers:
            if helper.poll() is None:
                helper.terminate()


def _walk(missing, i, processes):
    """All missing chunks in the order of the i-th process; runs start at different chunks."""
    first = (os.getpid() + i * len(missing) // processes) % len(missing)
    return missing[first:] + missing[:first]


def _helper(recipe, folder, missing):
    """Starts another process on the same chunks; it communicates through the files only."""
    task = {"recipe": recipe, "folder": str(folder), "missing": missing}
    package = str(pathlib.Path(__file__).parents[4])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    helper = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path},
        text=True,
    )
    with contextlib.suppress(BrokenPipeError), helper.stdin as pipe:
        json.dump(task | {"parent": os.getpid()}, pipe)
    return helper


def _help(task):
    """The loop of a helper process: ends when no chunk is missing or the parent has exited."""
    recipe, folder = Recipe(*task["recipe"]), pathlib.Path(task["folder"])
    for span in task["missing"]:
        if os.getppid() != task["parent"]:
            return
        try:
            _write(recipe, folder, tuple(span))
        except OSError:  # the parent gets the same error and reports it
            return


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        _help(json.load(sys.stdin))
