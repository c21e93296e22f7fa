"""Examples in docstrings are true: each runs as a doctest."""

import doctest
import importlib
import pathlib

import pytest

import cgjax

PACKAGE = pathlib.Path(cgjax.__file__).parent
WITH_EXAMPLES = sorted(p for p in PACKAGE.rglob("*.py") if ">>> " in p.read_text())


def test_there_are_examples():
    assert len(WITH_EXAMPLES) > 15


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_examples(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=options).failed == 0
