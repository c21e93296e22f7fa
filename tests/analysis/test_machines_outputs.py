"""Regression on many outputs at once, and the kernels of pairs of factors: stored predictions."""

import functools
import json
import math
import pathlib
import re

import jax
import numpy as np
import pytest

from cgjax.analysis import factorization, machines

VALUES = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden" / "bumps" / "values.json").read_text()
)
N, SIDE = VALUES["N"], VALUES["heldout"][1] - VALUES["heldout"][0] + 1


@functools.cache
def quick(machine, **options):
    """The machine of arrays in float64, compiled in half the time."""
    level = {"xla_backend_optimization_level": 0}
    program = jax.jit(functools.partial(machine, **options), compiler_options=level)

    def solved(*arrays, **more):
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, program(*arrays, **more))

    return solved


def test_outputs_are_machines_of_their_own():
    """Two kernels on 7 points, one of them singular, some points masked, 7 outputs."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2, 7, 9))
    points[1, 4:] = points[1, :3]
    kernels = points @ points.swapaxes(1, 2)
    y, k_test = rng.normal(size=(2, 7, 7)), rng.normal(size=(2, 4, 7))
    mask = np.arange(7) < np.array([[7], [6]])
    penalty = np.array([0.3, 0.0])
    one, many = (quick(machines.solve_ridge, bias=True, outputs=o) for o in (False, True))
    each = one(kernels, np.moveaxis(y, -1, 0), penalty, mask=mask)
    together = many(kernels, y, penalty, mask=mask)
    for name in ("dual", "bias", "residual"):
        expected = np.moveaxis(getattr(each, name), 0, -1)
        np.testing.assert_allclose(getattr(together, name), expected, atol=1e-9, err_msg=name)
    expected = np.moveaxis(machines.predict(each, k_test), 0, -1)
    predicted = machines.predict(together, k_test, outputs=True)
    np.testing.assert_allclose(predicted, expected, atol=1e-9)
    assert np.all(expected != 0) and np.all(together.bias != 0)


def test_the_kernel_is_factorised_once():
    with jax.enable_x64(True):
        kernel, y = np.eye(5) + 1, np.ones((5, 64))
        program = jax.make_jaxpr(lambda k, y: machines.solve_ridge(k, y, outputs=True))(kernel, y)
    factors = re.findall(r"f64\[([\d,]+)\] = cholesky", str(program))
    assert {math.prod(map(int, shape.split(","))) for shape in factors} == {25}


@pytest.fixture(scope="module")
def donut(golden):
    """Centres and images of the frame and of the hole, in row-major order."""
    stored = golden("bumps/kernels")
    bell = np.exp(-((np.arange(N)[:, None] - np.arange(N)) ** 2) / 2)

    def images(xy):
        return np.einsum("kv,ku->kvu", bell[xy[:, 1]], bell[xy[:, 0]]).reshape(len(xy), -1)

    frame, hole = stored["id_xy"], stored["ood_xy"]
    return frame, images(frame), hole, images(hole)


def test_stored_kernels(golden, donut):
    stored, first = golden("bumps/kernels"), donut[0][:10]
    np.testing.assert_array_equal(factorization.binary(first, first), stored["K_first10"])
    found = factorization.factorised(first, first, 1.0, 2.0)
    np.testing.assert_allclose(found, stored["rbf_1_2_first10"], rtol=1e-12)
    radial = factorization.radial(first, donut[2], 3.0)
    distance = np.linalg.norm(first[:, None] - donut[2][None], axis=-1)
    np.testing.assert_allclose(radial, np.exp(-(distance**2) / 18), rtol=1e-12)
    np.testing.assert_array_equal(radial, factorization.factorised(first, donut[2], 3.0, 3.0))
    x, y = (
        np.exp(-((first[:, i, None] - first[None, :, i]) ** 2) / 2 / w) for i, w in ((0, 1), (1, 4))
    )
    np.testing.assert_allclose(factorization.additive(first, first, 1.0, 2.0), x + y, rtol=1e-12)


def predicted(donut, kernel_fn, penalty):
    """Training residual, predictions in the hole and their error."""
    frame, y, hole, truth = donut
    both = kernel_fn(np.concatenate([frame, hole]))
    solve = quick(machines.ridge, outputs=True)
    f = solve(both[: len(frame)], y, both, np.float64(penalty))
    residual, found = np.max(np.abs(f[: len(frame)] - y)), f[len(frame) :]
    return residual, found, np.mean((found - truth) ** 2)


@pytest.mark.parametrize("setting", VALUES["binary_kernel_regression"], ids=lambda s: f"{s['k2']}")
def test_stored_binary_kernel_regression(golden, donut, setting):
    """It interpolates; in the hole it predicts a(x) + b(y), which is worse than nothing."""
    k1, k2 = setting["k1"], setting["k2"]
    residual, predictions, error = predicted(
        donut, lambda z: factorization.binary(z, donut[0], k1, k2), setting["ridge"]
    )
    assert residual**2 < 1e-12
    np.testing.assert_allclose(error, setting["ood_mse"], rtol=1e-10)
    assert error > VALUES["blank_mse"]["ood"]
    share = factorization.additive_share(predictions.reshape(SIDE, SIDE, -1))
    np.testing.assert_allclose(share, 1, atol=1e-12)
    if k2 == 1:
        stored = golden("bumps/kernels")
        some = predictions[stored["selected_ood"]].reshape(-1, N, N)
        expected = stored["binary_kernel_prediction_k1_1_k2_1"]
        np.testing.assert_allclose(some, expected, atol=1e-12)


# A second each: one by default.
@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(
            s, marks=[pytest.mark.slow] if s["lx"] > 0.5 else [], id=f"{s['lx']}-{s['ly']}"
        )
        for s in VALUES["rbf_kernel_regression"]
    ],
)
def test_stored_rbf_regression(donut, setting):
    lengths = setting["lx"], setting["ly"]
    _, _, error = predicted(
        donut, lambda z: factorization.factorised(z, donut[0], *lengths), setting["ridge"]
    )
    np.testing.assert_allclose(error, setting["ood_mse"], rtol=1e-10)
