"""Tests named golden also run on a GPU (marker gpu), with float32 products and with TF32 products.

With float32 products ("highest") the errors that a test states apply unchanged. Products at the
default precision round both operands to TF32, a relative error of at most TF32 / 2 each. The error
stated for them is MANY times TF32, relative to the largest value of an array: it is the error of
sums of such products through the layers of these networks.
"""

import jax
import numpy as np
import pytest

TF32, MANY = 2**-10, 4


def pytest_generate_tests(metafunc):
    if "golden" in metafunc.function.__name__:
        gpu = [pytest.param(name, marks=pytest.mark.gpu) for name in ("highest", "default")]
        metafunc.parametrize("products", ["stated", *gpu], indirect=True)


@pytest.fixture(autouse=True)
def products(request, monkeypatch):
    """The precision of products; at the default on a GPU the stated error replaces the test's."""
    precision = getattr(request, "param", "stated")
    if precision == "stated":
        yield
        return
    if precision == "default":
        monkeypatch.setattr(np.testing, "assert_allclose", assert_near)
    with jax.default_matmul_precision(precision):
        yield


def assert_near(ours, wanted, **_):
    ours, wanted = np.asarray(ours), np.asarray(wanted)
    assert ours.shape == wanted.shape and np.isfinite(ours).all()
    assert np.abs(ours - wanted).max() <= MANY * TF32 * np.abs(wanted).max()
