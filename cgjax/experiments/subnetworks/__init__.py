"""Structural compositionality: are the parts of a rule parts of the network? (NeurIPS 2023)"""

import importlib

# Short names of modules in folders, for notebooks and scripts; each is imported on first use.
_SHORT = {"searches": "search.training", "table": "search.table"}


def __getattr__(name: str):
    if name not in _SHORT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{_SHORT[name]}")
