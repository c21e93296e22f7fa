"""Factorisation of representations: stored values, closed forms, what each measure cannot see."""

import json
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis import factorization, geometry

VALUES = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden" / "bumps" / "values.json").read_text()
)
N = VALUES["N"]
HOLE = slice(VALUES["heldout"][0], VALUES["heldout"][1] + 1)


def representations(golden):
    """The stored ones, by name: [N, N, D], first axis y."""
    u, v = np.meshgrid(np.arange(N) / (N - 1), np.arange(N) / (N - 1))
    bell = np.exp(-((np.arange(N)[:, None] - np.arange(N)[None]) ** 2) / 2)
    stored = golden("bumps/factorization")
    hidden = np.stack([u, v], axis=-1) @ stored["relu_random_W"] + stored["relu_random_b"]
    np.testing.assert_allclose(np.maximum(0, hidden), stored["relu_random"], atol=1e-14)
    return {
        "coords": np.stack([u, v], axis=-1),
        "rotated": np.stack([u + v, u - v], axis=-1),
        "sum_only": (u + v)[..., None],
        "product": (u * v)[..., None],
        "relu_random": stored["relu_random"],
        "onehot_sum": beside(np.eye(N)),
        "bump_encoding": beside(bell),
        "true_images": np.einsum("yv,xu->yxvu", bell, bell),
    }


def beside(code):
    """e(x) beside e(y), for every pair of values."""
    x, y = np.broadcast_to(code[None], (N, N, N)), np.broadcast_to(code[:, None], (N, N, N))
    return np.concatenate([x, y], axis=-1)


# --- F and the metric tensor ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_stored_metric_and_volume(golden, dtype, rtol):
    for name, activations in representations(golden).items():
        activations = activations.astype(dtype)
        tensor = geometry.grid_tensor(activations)
        stored = VALUES["factorization_metric"][name]
        # The stored values have 1e-9 in the denominator, which makes them depend on the scale.
        along = np.mean(tensor[..., 0, 0] + tensor[..., 1, 1])
        stored = 1 - (1 - stored) * (along + 1e-9) / along
        np.testing.assert_allclose(
            factorization.metric(activations), stored, rtol=rtol, err_msg=name
        )
        volume = np.mean(geometry.volume_element(tensor))
        stored = VALUES["mean_volume"][name]
        if name in ("sum_only", "product"):  # one line has no area: what is stored is rounding
            assert stored < 1e-11 and volume < 1e-8, name
        else:
            np.testing.assert_allclose(volume, stored, rtol=rtol, err_msg=name)


def test_stored_volume_elements(golden):
    stored, found = golden("bumps/factorization"), representations(golden)
    for name in ("relu_random", "bump_encoding"):
        volume = geometry.volume_element(geometry.grid_tensor(found[name]))
        # Where a ReLU folds the plane into a line, what is stored is rounding again.
        np.testing.assert_allclose(volume, stored[f"volume_{name}"], rtol=1e-10, atol=1e-11)


def test_metric_on_some_of_the_points():
    """Right angles in the hole, one line around it: F is 1 there and 1/2 elsewhere."""
    y, x = np.meshgrid(np.arange(12.0), np.arange(12.0), indexing="ij")
    inside = (np.abs(x - 5.5) < 3) & (np.abs(y - 5.5) < 3)
    # Beyond the hole both units see the sum alone.
    plane = np.stack([x + y, np.where(inside, x - y, 0)], axis=-1)
    deep = (np.abs(x - 5.5) < 2) & (np.abs(y - 5.5) < 2)
    far = (np.abs(x - 5.5) > 4) | (np.abs(y - 5.5) > 4)
    np.testing.assert_allclose(factorization.metric(plane, deep), 1, atol=1e-6)
    np.testing.assert_allclose(factorization.metric(plane, far), 0.5, atol=1e-6)
    assert 0.5 < factorization.metric(plane) < 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_metric_does_not_depend_on_the_scale(golden, dtype, scale):
    for name, activations in representations(golden).items():
        activations = activations.astype(dtype)
        expected = factorization.metric(activations)
        scaled = factorization.metric(activations * dtype(scale))
        np.testing.assert_allclose(scaled, expected, rtol=1e-5, err_msg=name)


def test_metric_of_the_smallest_and_largest_numbers():
    y, x = np.meshgrid(np.arange(5.0), np.arange(6.0), indexing="ij")
    plane = np.stack([x + y, x - 0.5 * y], axis=-1)
    expected = factorization.metric(plane)
    for scale in (1e-200, 1e200):
        assert factorization.metric(scale * plane) == pytest.approx(expected)
    for dtype in (np.float16, jnp.bfloat16):
        assert factorization.metric(plane.astype(dtype)) == pytest.approx(expected)


@pytest.mark.parametrize("value", [0, 0.1, 1e-6, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_measures_of_constant_activations_are_undefined(value, dtype):
    """Also if they are constant up to rounding, whatever their size."""
    rng = np.random.default_rng(0)
    constant = np.full((5, 6, 3), value, dtype)
    rounded = constant * (1 + np.finfo(dtype).eps * rng.integers(-1, 2, constant.shape))
    for activations in (constant, rounded.astype(dtype)):
        with pytest.warns(RuntimeWarning, match="constant"):
            assert np.isnan(factorization.metric(activations))
        assert np.isnan(factorization.additive_share(activations))
        assert np.isnan(factorization.selective_share(activations))


def test_metric_is_undefined_where_activations_are_constant():
    y, x = np.meshgrid(np.arange(9.0), np.arange(9.0), indexing="ij")
    ramp = np.stack([np.maximum(x - 4, 0), np.maximum(x - 4, 0) * y], axis=-1)
    with pytest.warns(RuntimeWarning, match="constant"):
        assert np.isnan(factorization.metric(ramp, x < 3))
    assert 0.5 < factorization.metric(ramp) < 1


# --- F_K ------------------------------------------------------------------------------------------


def points(n=6):
    """Every pair of n values, x the slow index."""
    return np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2)


def test_stored_schmidt_fractions():
    z = points()
    kernels = {
        "rbf_product": factorization.factorised(z, z, 1.0, 2.0),
        "additive": factorization.binary(z, z, 1, 0),
        "additive_plus_conj": factorization.binary(z, z, 1, 1),
        "linear_coords": z @ z.T,
    }
    for name, stored in VALUES["kernel_schmidt_fraction_n6"].items():
        found = factorization.operator_schmidt(kernels[name], 6, 6)
        np.testing.assert_allclose(found, stored, rtol=1e-10, err_msg=name)


def test_schmidt_values_of_a_sum_of_products():
    """Two terms K_x K_y that are orthogonal: their norms are the singular values."""
    first, second = np.diag([1.0, 1, 0, 0]), np.diag([0, 0, 2.0, 2])
    of_y = (np.diag([3.0, 0, 0]), np.diag([0, 0, 1.0]))
    kernel = np.kron(first, of_y[0]) + np.kron(second, of_y[1])
    norms = np.array([3 * np.sqrt(2), 2 * np.sqrt(2)])
    found = factorization.schmidt_values(kernel, 4, 3)
    assert found.shape == (9,)
    np.testing.assert_allclose(found[:2], norms / np.linalg.norm(norms), atol=1e-12)
    np.testing.assert_allclose(found[2:], 0, atol=1e-12)
    np.testing.assert_allclose(factorization.operator_schmidt(kernel, 4, 3), 9 / 13)


def test_kernel_of_images_is_a_product_and_of_codes_is_a_sum(golden):
    found = representations(golden)
    some = {name: found[name][:5, :7] for name in ("true_images", "onehot_sum", "bump_encoding")}
    for cosine in (False, True):
        kernel = factorization.grid_kernel(some["true_images"], cosine)
        np.testing.assert_allclose(factorization.operator_schmidt(kernel, 7, 5), 1, atol=1e-12)
    np.testing.assert_allclose(np.diagonal(kernel), 1)
    # x is the slow index: the second point is one step along y.
    kernel = factorization.grid_kernel(some["onehot_sum"])
    z = np.stack(np.meshgrid(np.arange(7), np.arange(5), indexing="ij"), axis=-1).reshape(-1, 2)
    np.testing.assert_array_equal(kernel, factorization.binary(z, z, 1, 0))
    assert factorization.operator_schmidt(kernel, 7, 5) < 0.9
    dark = np.zeros((2, 2, 3))
    dark[0, 1] = (3, 4, 0)
    found = factorization.grid_kernel(dark, True)
    np.testing.assert_allclose(found, np.diag([0.0, 0, 1, 0]), rtol=1e-15)


# --- sums -----------------------------------------------------------------------------------------


def test_additive_shares(golden):
    """The spec's numbers: codes are sums; a third of the true images in the hole is."""
    codes = representations(golden)
    for name in ("coords", "rotated", "onehot_sum", "bump_encoding"):
        np.testing.assert_allclose(factorization.additive_share(codes[name]), 1, atol=1e-12)
    inside = np.zeros((N, N), bool)
    inside[HOLE, HOLE] = True
    images = codes["true_images"]
    in_hole = factorization.additive_share(images[HOLE, HOLE])
    np.testing.assert_allclose(in_hole, 0.33, atol=0.005)
    np.testing.assert_allclose(factorization.additive_share(images, inside), in_hole, rtol=1e-9)


def test_two_way_adds_up():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(1, 4, 3)), rng.normal(size=(5, 1, 3))
    rest = rng.normal(size=(5, 4, 3))
    rest = rest - rest.mean(axis=0) - rest.mean(axis=1, keepdims=True) + rest.mean(axis=(0, 1))
    sums = factorization.two_way(a + b + rest)
    np.testing.assert_allclose(sums.x, 5 * np.sum((a - a.mean(axis=1)) ** 2, axis=(0, 1)))
    np.testing.assert_allclose(sums.y, 4 * np.sum((b - b.mean(axis=0)) ** 2, axis=(0, 1)))
    np.testing.assert_allclose(sums.interaction, np.sum(rest**2, axis=(0, 1)))
    share = factorization.additive_share(a + b + rest)
    np.testing.assert_allclose(share, sum(map(np.sum, sums[:2])) / sum(map(np.sum, sums)))
    fitted = factorization.additive_part(a + b + rest)
    np.testing.assert_allclose(fitted, a + b, atol=1e-12)


def test_additive_part_of_some_points_is_least_squares():
    """On a set of points that is not a rectangle; one row and one column are empty."""
    rng = np.random.default_rng(1)
    values, inside = rng.normal(size=(5, 6, 2)), rng.random((5, 6)) < 0.6
    inside[1], inside[:, 2] = False, False
    rows, columns = np.nonzero(inside)
    design = np.concatenate([np.eye(5)[rows], np.eye(6)[columns]], axis=1)
    expected = design @ np.linalg.lstsq(design, values[inside], rcond=None)[0]
    found = factorization.additive_part(values, inside)
    np.testing.assert_allclose(found[inside], expected, atol=1e-12)
    assert np.all(found[~inside] == 0)
    left = np.sum((values[inside] - expected) ** 2)
    total = np.sum((values[inside] - values[inside].mean(axis=0)) ** 2)
    share = factorization.additive_share(values, inside)
    np.testing.assert_allclose(share, 1 - left / total)


def test_selective_units():
    y, x = np.meshgrid(np.arange(6.0), np.arange(7.0), indexing="ij")
    units = np.stack([x, y**2, x + y, x * y, np.full_like(x, 0.3)], axis=-1)
    assert factorization.selective_share(units) == 0.5  # two of the four that vary
    assert np.isnan(factorization.selective_share(units[..., 4:]))


# --- superposition --------------------------------------------------------------------------------


def test_stored_superposition(golden):
    stored, example = golden("bumps/superposition"), VALUES["superposition_example"]
    arrays = representations(golden)
    is_train = np.ones((N, N), bool)
    is_train[HOLE, HOLE] = False
    x, y = int(stored["x"]), int(stored["y"])
    total = factorization.shared_sum(arrays["true_images"], is_train)[y, x]
    count = factorization.shared_sum(np.ones((N, N, 1)), is_train)[y, x, 0]
    codes = arrays["bump_encoding"]
    only_x, only_y = factorization.isolated(codes[y, x][None], codes[is_train], N)
    np.testing.assert_allclose(total, stored["sum_image"], rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(np.max(total), example["sum_max"], rtol=1e-10)
    assert count == example["n_id_sharing"] and (x, y) == (example["x"], example["y"])
    np.testing.assert_allclose(only_x[0, N:], stored["avg_y_encoding"], rtol=1e-10)
    np.testing.assert_allclose(only_y[0, :N], stored["avg_x_encoding"], rtol=1e-10)
    np.testing.assert_array_equal(only_x[0, :N], codes[y, x, :N])
    np.testing.assert_array_equal(only_y[0, N:], codes[y, x, N:])


def test_a_training_point_counts_once():
    is_train = np.array([[True, True], [True, False]])
    outputs = np.array([[1.0, 10], [100, 1000]])[..., None]
    found = factorization.shared_sum(outputs, is_train)[..., 0]
    np.testing.assert_array_equal(found, [[111, 11], [101, 110]])


def test_three_accounts():
    """A superposer, and a model that is right, over a 6 x 6 hole of a product."""
    rng = np.random.default_rng(2)
    truth = np.einsum("yd,xd->yxd", rng.normal(size=(6, 9)), rng.normal(size=(6, 9)))
    added = rng.normal(size=(6, 1, 9)) + rng.normal(size=(1, 6, 9))
    memorised = factorization.superposition(added, truth, added)
    np.testing.assert_allclose(memorised[:2], 1)
    assert memorised.truth < 0.1 and memorised.composition < 0.1
    composed = factorization.superposition(truth, truth, added)
    np.testing.assert_allclose(composed[2:], 1)
    assert composed.additive < 0.7 and composed.kernel < 0.1
    # A fixed factor: 1 - (1/2)^2 / 1 of the truth's variance, 1 - (1/2)^2 / (1/2)^2 of its own.
    centred = truth - truth.mean(axis=(0, 1))
    faint = factorization.superposition(centred / 2, centred, added)
    np.testing.assert_allclose([faint.composition, faint.truth], [0.75, 0], atol=1e-12)


# --- any number of factors ------------------------------------------------------------------------


def test_more_factors_are_looked_at_two_at_a_time():
    factors = np.indices((2, 3, 4)).reshape(3, -1).T
    grids = factorization.grids(np.repeat(factors, 2, axis=0))
    assert sorted(grid.shape for grid in grids) == [(3, 2)] * 4 + [(4, 2)] * 3 + [(4, 3)] * 2
    for grid in grids:
        assert len(np.unique(factors[grid].reshape(-1, 3), axis=0)) == grid.size
    codes = np.concatenate([np.eye(4)[column] for column in factors.T], axis=1)
    assert factorization.on_grids(codes, factors).additive == pytest.approx(1)
    spot = np.einsum("na,nb,nc->nabc", *(np.eye(4)[column] for column in factors.T))
    assert factorization.on_grids(spot, factors).schmidt == pytest.approx(1)
    assert factorization.on_grids(spot, factors).additive < 0.7


def test_on_grids_is_the_measures_of_a_single_grid():
    values = np.random.default_rng(0).normal(size=(5, 4, 3))  # [n_y, n_x, D]
    factors = np.stack(np.indices((5, 4))[::-1], axis=-1).reshape(-1, 2)
    scores = factorization.on_grids(values.reshape(-1, 3), factors)
    kernel = factorization.grid_kernel(values)
    assert scores.metric == pytest.approx(factorization.metric(values))
    assert scores.schmidt == pytest.approx(factorization.operator_schmidt(kernel, 4, 5))
    assert scores.additive == pytest.approx(factorization.additive_share(values))
    assert np.isnan(factorization.on_grids(np.ones((20, 2)), factors)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_grids_with_constant_activations_do_not_count(dtype):
    factors = np.indices((2, 3, 4)).reshape(3, -1).T
    rng = np.random.default_rng(0)
    values = rng.normal(size=(24, 2)).astype(dtype)
    eps = np.finfo(dtype).eps
    # Constant up to rounding wherever the first factor is 1.
    values[factors[:, 0] == 1] = 0.3 * (1 + eps * rng.integers(-1, 2, (12, 2)))
    grids = [rows for rows in factorization.grids(factors) if rows.min() < 12]
    assert len(grids) == len(factorization.grids(factors)) - 1
    means = values.astype(np.float64)
    wanted = np.mean([factorization.additive_share(means[rows]) for rows in grids])
    scores = factorization.on_grids(values, factors)
    assert np.isfinite(scores).all() and scores.additive == pytest.approx(wanted)


def test_an_offset_is_not_constancy():
    factors = np.indices((5, 4)).reshape(2, -1).T
    values = np.random.default_rng(0).normal(size=(20, 3))
    wanted = factorization.on_grids(values, factors)
    scores = factorization.on_grids(values + 1e7, factors)
    assert scores.metric == pytest.approx(wanted.metric, rel=1e-6)
    assert scores.additive == pytest.approx(wanted.additive, rel=1e-6)
