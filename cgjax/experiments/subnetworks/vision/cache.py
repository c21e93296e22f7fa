"""Problems as files: drawn in chunks, by several processes, each chunk once and for good.

A chunk is a function of its recipe and its place alone, so it does not matter who draws it. Every
process walks over the missing chunks from a place of its own and leaves out those that are there by
now; a file appears whole or not at all. So a killed run goes on with what is missing, and two
runs that want the same set share the work.
"""

import contextlib
import json
import logging
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cgjax.core.errors import BadInput, first_line, shown
from cgjax.data import sources
from cgjax.experiments.subnetworks.vision import draws, rendering, rules

log = logging.getLogger("cgjax")

VERSION = 1  # of the drawing: a change of any pixel makes the files of before worthless
SPLITS = ("train", "val", "test")
CHUNK = 250  # problems of a file
_BLOCK = 125  # problems drawn together
_SAY_EVERY = 15.0  # seconds


class Recipe(NamedTuple):
    """All that problem i of a set depends on, besides i."""

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
        words = (self.rule, self.which, self.split, f"{self.image_size}px", f"seed{self.seed}")
        return "-".join((*words, *options, f"v{VERSION}"))


def recipe(rule, split, which, image_size, seed, options=rules.PAPER) -> Recipe:
    """A recipe that can be drawn, or one line that says what is wrong with it."""
    which = rules.set_name(rule, which)
    if split not in SPLITS:
        raise BadInput(f"unknown split '{split}' of {rule}: one of {', '.join(SPLITS)}")
    if not 32 <= image_size <= 1024:
        raise BadInput(f"images of {rule} have 32 to 1024 pixels a side, not {shown(image_size)}")
    if not 0 <= seed < 2**31:
        raise BadInput(f"the seed of {rule} must be a whole number from 0 on, not {shown(seed)}")
    return Recipe(rule, split, which, int(image_size), int(seed), *map(bool, options))


def keys(recipe: Recipe, start: int, stop: int) -> np.ndarray:
    """The keys uint64 [n] of problems start to stop; images of every size share them."""
    found = np.zeros(stop - start, np.uint64)
    places = (
        recipe.seed,
        list(rules.RULES).index(recipe.rule),
        SPLITS.index(recipe.split),
        list(rules.SETS).index(recipe.which),
    )
    for word in places:
        found = draws.fold(found, word)
    return draws.fold(found, np.arange(start, stop))


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
    colours = draws.fold(draws.fold(keys, rules.COLOUR)[:, None], np.arange(rules.IMAGES))
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
    """The arrays of a chunk, from its file or that of a longer one; None where there is none.

    A file that does not hold what was written is told, and taken away.
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
        except Exception as error:  # whatever zipfile and numpy make of a damaged file
            log.warning("'%s' is damaged (%s): it is drawn again", path, first_line(error))
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            continue
        return {name: values[: span[1] - span[0]] for name, values in arrays.items()}
    return None


def _signature(recipe, start, arrays):
    return sources.fingerprint(arrays | {"recipe": np.array(f"{recipe.name} {start}")})


def _write(recipe, folder, span):
    """Draws a chunk and keeps it, unless somebody else has done so."""
    path = _path(folder, span)
    if not path.exists():
        arrays = draw(recipe, *span)
        signature = np.array(_signature(recipe, span[0], arrays))
        sources.save(path, arrays | {"sha256": signature}, compressed=True)


# --- several processes ----------------------------------------------------------------------------


def make(
    recipe: Recipe, folder: pathlib.Path, missing: list, processes: int, say: Callable
) -> None:
    """Draws and keeps the missing chunks; `say` takes a line on how far it is, now and then."""
    started, helpers = time.monotonic(), []
    said = started
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mine, *others = (_walk(missing, i, processes) for i in range(processes))
        helpers = [_helper(recipe, folder, spans) for spans in others]
        for span in mine:
            _write(recipe, folder, span)
            if time.monotonic() - said > _SAY_EVERY:
                said = time.monotonic()
                done = sum(b - a for a, b in missing if _path(folder, (a, b)).exists())
                total = sum(b - a for a, b in missing)
                rate = done / (said - started)
                say(f"{recipe.name}: {done:,}/{total:,} problems, {rate:.0f} a second")
        for helper in helpers:  # each at most in the middle of one more chunk
            helper.wait()
    except OSError as error:
        reason = error.strerror or first_line(error)
        log.warning("no cache at '%s' (%s): problems are drawn anew each time", folder, reason)
    finally:
        for helper in helpers:
            if helper.poll() is None:
                helper.terminate()


def _walk(missing, i, processes):
    """All missing chunks, from where the i-th process starts; other runs start elsewhere."""
    first = (os.getpid() + i * len(missing) // processes) % len(missing)
    return missing[first:] + missing[:first]


def _helper(recipe, folder, missing):
    """One more process on the same chunks: it talks to nobody but through the files."""
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
    """What a helper does, until all is there or the process that asked for it is gone."""
    recipe, folder = Recipe(*task["recipe"]), pathlib.Path(task["folder"])
    for span in task["missing"]:
        if os.getppid() != task["parent"]:
            return
        try:
            _write(recipe, folder, tuple(span))
        except OSError:  # the process that asked meets it too, and tells
            return


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        _help(json.load(sys.stdin))
