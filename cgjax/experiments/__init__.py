"""The families: a literal table, each module imported when asked for."""

import importlib

from cgjax.core.errors import BadInput

FAMILIES = {
    "support": "cgjax.experiments.sprites.support",
    "kernels": "cgjax.experiments.kernels.run",
    "sprites": "cgjax.experiments.sprites.run",
    "vectors": "cgjax.experiments.sprites.vectors",
}


def family(name: str):
    """The module with `run(config, workdir)` and `load(config, workdir, part)` of a family."""
    if name not in FAMILIES:
        raise BadInput(f"unknown family '{name}': families are {', '.join(FAMILIES)}")
    return importlib.import_module(FAMILIES[name])
