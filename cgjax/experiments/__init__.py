"""The families: a literal table from name to entry module; a module is imported on first use.

The entry module has `run(config, workdir, figures) -> (metrics, arrays, extra)` and
`load(config, workdir, part, step)`. It may have `check(config)`, which raises BadInput before
anything is written; `plan(config)` for `--dry_run`, {part: core.program.training_size(...), or a
sentence}; and, in this package, `tables(record)` for the report, whose page also shows the title,
the lead and the figures of the README.md beside the entry module. A config may name a module
outside this package as its family; README.md beside this file has an example.
"""

import importlib
import importlib.util
import json
import pathlib

import numpy as np

from cgjax.config import look_here, missing_keys
from cgjax.core.errors import BadInput, first_line
from cgjax.published.results import is_entry

FAMILIES = {
    "sprites": "cgjax.experiments.sprites.run",
    "support": "cgjax.experiments.sprites.support.run",
    "vectors": "cgjax.experiments.vectors.run",
    "kernels": "cgjax.experiments.kernels.run",
    "bumps": "cgjax.experiments.bumps.run",
    "resistance": "cgjax.experiments.resistance.run",
    "subnetworks": "cgjax.experiments.subnetworks.run",
    "across": "cgjax.experiments.across.run",  # imports the others; no family imports it
}


def family(name: str):
    """The entry module of a family."""
    look_here()
    if name not in FAMILIES and not _is_module(name):
        raise BadInput(
            f"unknown family '{name}': families are {', '.join(FAMILIES)}; there is no module "
            f"{name} in the current folder or on Python's path"
        )
    try:
        module = importlib.import_module(FAMILIES.get(name, name))
    except (Exception, SystemExit) as error:
        if name in FAMILIES:
            raise
        cause = f"{type(error).__name__}: {first_line(error)}"
        raise BadInput(f"cannot import the family '{name}': {cause}") from None
    if missing := [fn for fn in ("run", "load") if not callable(getattr(module, fn, None))]:
        raise BadInput(f"the family '{name}' has no function {' and no '.join(missing)}")
    return module


def _is_module(name: str) -> bool:
    try:
        return "." in name or (name.isidentifier() and bool(importlib.util.find_spec(name)))
    except ValueError:  # "__main__"
        return False


def check(module, config) -> None:
    """Runs the family's own check of a config, if it has one."""
    if hasattr(module, "check"):
        with missing_keys(config):
            module.check(config)


def checked_results(config, returned) -> tuple[dict, dict, dict]:
    """The values that a family's `run` returned; BadInput if they break the contract."""
    who, wanted = f"family '{config.family}'", "(metrics, arrays, extra)"
    if not isinstance(returned, tuple) or len(returned) != 3:
        got = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise BadInput(f"run of {who} returned {got}: it must return {wanted}")
    if not all(isinstance(part, dict) for part in returned):
        raise BadInput(f"run of {who} must return three dicts, {wanted}")
    metrics, arrays, extra = returned
    for name, entry in metrics.items():
        if not is_entry(entry):
            raise BadInput(
                f"metric '{name}' of {who} is not an entry of results.json: make it with "
                "cgjax.published.results.summary(values, seeds, published)"
            )
    try:
        json.dumps([metrics, extra])
    except (TypeError, ValueError) as error:
        raise BadInput(f"metrics or extra of {who} are not json: {first_line(error)}") from None
    files = extra.get("files", [])
    if not isinstance(files, list) or not all(_is_inside(name) for name in files):
        raise BadInput(f"extra['files'] of {who} must list names of files in the workdir")
    for name, values in arrays.items():
        if not isinstance(name, str) or np.asarray(values).dtype == object:
            raise BadInput(f"'{name}' among the arrays of {who} is not an array of numbers or text")
    return metrics, arrays, extra


def _is_inside(name) -> bool:
    """Whether it is a relative path that does not leave its folder."""
    parts = pathlib.PurePath(name).parts if isinstance(name, str) else ("..",)
    return ".." not in parts and not pathlib.PurePath(name).is_absolute()
