"""Docstrings: examples run, and every function of the library says what it returns."""

import doctest
import importlib
import inspect
import os
import pathlib

import pytest

import cgjax

PACKAGE = pathlib.Path(cgjax.__file__).parent
WITH_EXAMPLES = sorted(p for p in PACKAGE.rglob("*.py") if ">>> " in p.read_text())
SOURCES = PACKAGE / "data" / "sources.py"  # its example loads MNIST


def test_there_are_examples():
    assert len(WITH_EXAMPLES) > 15


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_examples(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    if path == SOURCES and not os.environ.get("CGJAX_RAW_DIR"):
        pytest.skip("CGJAX_RAW_DIR is not set: no real data here")
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=options).failed == 0


# The library: faces of packages are read, their other modules are not.
LIBRARY = [
    PACKAGE / "__init__.py",
    *sorted((PACKAGE / "analysis").glob("*.py")),
    *sorted((PACKAGE / "analysis").glob("*/__init__.py")),
    *sorted((PACKAGE / "plots").glob("*.py")),
    PACKAGE / "core" / "metrics.py",
    PACKAGE / "data" / "supports.py",
]


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_functions_of_the_library_describe_what_they_return(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    for name, fn in inspect.getmembers(module, inspect.isfunction):
        if fn.__module__ == module.__name__ and not name.startswith("_"):
            assert inspect.getdoc(fn), f"{name} has no docstring"
            assert "return" in fn.__annotations__, f"{name} does not say what it returns"
