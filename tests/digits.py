"""Analyses multiply float32 numbers in all their digits, on every backend.

Matrix units of GPUs and TPUs cut operands to 10 or 7 bits where a product does not ask for more, so
that a number which a CPU gives to six digits has two or three there. Every product that a test of
`tests/analysis` meets in code of `cgjax.analysis` is looked at; those of a caller's own function
are its own.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import pytest
from jax import lax

ROOT = str(pathlib.Path(__file__).parents[1])
ANALYSIS = f"{ROOT}/cgjax/analysis/"
# What JAX does with a product that it has met before, when it was written.
REPEATED = ("eval_jaxpr", "backward_pass", "backward_pass3")
PRODUCTS = (lax.dot_general_p, lax.conv_general_dilated_p)


@pytest.fixture(autouse=True)
def all_digits(request, monkeypatch):
    if pathlib.Path(request.path).parent.name != "analysis":
        yield
        return
    cut = set()

    def looked_at(bind):
        def bound(*operands, **params):
            if jnp.float32 in [jax.typeof(x).dtype for x in operands] and not _is_full(params):
                if place := _place(sys._getframe(1)):
                    cut.add(place)
            return bind(*operands, **params)

        return bound

    for product in PRODUCTS:
        monkeypatch.setattr(product, "bind", looked_at(product.bind), raising=False)
    yield
    assert not cut, f"products in fewer digits on a GPU: {sorted(cut)}"


def _is_full(params):
    stated = params["precision"]
    both = stated if isinstance(stated, tuple) else (stated,)
    return all(one == lax.Precision.HIGHEST for one in both)


def _place(frame):
    """The line of an analysis that wrote the product; none where the caller of one did."""
    while frame is not None:
        name = frame.f_code.co_filename
        if frame.f_code.co_name in REPEATED:
            return None
        if name.startswith(ROOT):
            is_ours = name.startswith(ANALYSIS)
            return f"{name.removeprefix(ROOT)}:{frame.f_lineno}" if is_ours else None
        frame = frame.f_back
    return None
