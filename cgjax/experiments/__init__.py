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

from cgjax.config import look_here, missing_keys
from cgjax.core.errors import BadInput, first_line

FAMILIES = {
    "sprites": "cgjax.experiments.sprites.run",
    "support": "cgjax.experiments.sprites.support.run",
    "vectors": "cgjax.experiments.vectors.run",
    "kernels": "cgjax.experiments.kernels.run",
    "bumps": "cgjax.experiments.bumps.run",
    "resistance": "cgjax.experiments.resistance.run",
    "subnetworks": "cgjax.experiments.subnetworks.run",
    # These two import the others; no family imports them.
    "coverage": "cgjax.experiments.coverage.run",
    "predict": "cgjax.experiments.predict.run",
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
