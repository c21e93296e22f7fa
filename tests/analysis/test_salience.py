"""Compositional kernels: inversions, spectra and layer maps against matrices and stored arrays."""

import itertools
import json
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgjax.analysis import checks
from cgjax.analysis import salience as sal

FIGURES = pathlib.Path(__file__).parents[1] / "golden" / "kernels" / "paper_figures.json"
# Our names of the layer maps, in the stored arrays.
STORED = {
    "step": "step",
    "relu": "relu",
    "leaky_relu": "leaky_relu_0.1",
    "rectified_quadratic": "rect_quad",
    "gaussian": "gaussian_A1",
}
examples = settings(max_examples=25, deadline=None, derandomize=True, database=None)
number = st.floats(-1, 1, allow_subnormal=False)


def compiled(function, *static):
    """One program for each shape: operation by operation they take longer to compile."""
    options = {"xla_backend_optimization_level": 0}
    program = jax.jit(function, static_argnames=static, compiler_options=options)

    def run(*arguments):
        with jax.enable_x64(True):
            return np.asarray(program(*arguments))

    return run


features = compiled(sal.features, "sizes")
subset_kernel = compiled(sal.subset_kernel)


def grid(sizes):
    return np.array(list(itertools.product(*(range(size) for size in sizes))))


@st.composite
def tables(draw):
    """Sizes of the components and any kernel by subset; few shapes, since each is compiled."""
    sizes = draw(st.sampled_from([(4,), (3, 4), (2, 3, 1)]))
    count = 2 ** len(sizes)
    return sizes, np.array(draw(st.lists(number, min_size=count, max_size=count)))


# --- salience and its inverse ---------------------------------------------------------------------


def test_salience_of_two_and_three_components():
    np.testing.assert_allclose(sal.salience([0.5, 0.9, 1.5]), [0.4, 0.2], atol=1e-15)
    one, two = 0.2, 0.55
    expected = [one, two - 2 * one, 1 - 3 * two + 3 * one]
    np.testing.assert_allclose(sal.salience([0, one, two, 1]), expected, atol=1e-15)
    np.testing.assert_allclose(sal.complete([[0.2, 0.1], [0, 0]]), [[0.2, 0.1, 0.1], [0, 0, 1]])
    for n_components in range(1, 6):  # a linear readout of the one-hot code
        linear = sal.salience(np.arange(n_components + 1))
        np.testing.assert_allclose(linear, np.eye(n_components)[0] / n_components, atol=1e-14)


@examples
@given(st.integers(1, 5), st.data())
def test_kappa_inverts_salience(n_components, data):
    inner = data.draw(st.lists(number, min_size=n_components - 1, max_size=n_components - 1))
    kappa = np.array([-0.3, *inner, 1.2])
    found = sal.kappa(sal.salience(kappa))
    assert found[0] == 0
    np.testing.assert_allclose(found, (kappa + 0.3) / 1.5, atol=1e-12)
    free = sal.salience(kappa)[:-1]
    np.testing.assert_allclose(sal.complete(free), sal.salience(kappa), atol=1e-12)


@examples
@given(tables())
def test_moebius_inversion(table):
    sizes, kappa = table
    weights = sal.moebius(kappa)
    np.testing.assert_allclose(sal.moebius_inverse(weights), kappa, atol=1e-12)
    members = sal.subsets(len(sizes))
    for total, member in zip(kappa, members):
        inside = np.all(members <= member, axis=1)
        np.testing.assert_allclose(weights[inside].sum(), total, atol=1e-12)


def test_equal_components_are_a_case_of_unequal_ones():
    kappa = np.array([0.1, 0.3, 0.4, 1.1])
    by_count = sal.salience(kappa)
    by_subset = sal.subset_salience(sal.by_subset(kappa))
    sizes = sal.subsets(3).sum(axis=1)[1:]
    np.testing.assert_allclose(by_subset, by_count[sizes - 1], atol=1e-14)
    np.testing.assert_allclose(by_subset.sum(), 1, atol=1e-14)
    x = grid((2, 3, 2))
    by_subset = sal.subset_kernel(x, x, sal.by_subset(kappa))
    np.testing.assert_array_equal(sal.overlap_kernel(x, x, kappa), by_subset)


# --- kernels --------------------------------------------------------------------------------------


def test_kernels_of_stored_tasks(golden):
    arrays = golden("kernels/task_kernel_predictions")
    for case in ("add_asym_S40_k0_0.5", "cd3_rep1", "cd1_rep2", "te_2_2"):
        x, kappa = arrays[f"{case}/x"], arrays[f"{case}/kappa"]
        np.testing.assert_array_equal(sal.overlap_kernel(x, x, kappa), arrays[f"{case}/K"])


def test_subset_kernel_reads_which_components_are_shared():
    x1, x2 = np.array([[0, 1]]), np.array([[2, 2], [0, 2], [2, 1], [0, 1]])
    np.testing.assert_array_equal(sal.subset_kernel(x1, x2, [1, 2, 3, 4]), [[1, 2, 3, 4]])


@examples
@given(tables())
def test_features_have_the_kernel(table):
    sizes, weights = table[0], np.abs(table[1])
    x = grid(sizes)
    phi = features(x, sizes, weights)
    assert phi.shape[1] == np.prod(np.array(sizes) + 1)
    kernel = subset_kernel(x, x, sal.moebius_inverse(weights))
    np.testing.assert_allclose(phi @ phi.T, kernel, atol=1e-12)


@examples
@given(tables())
def test_spectrum_is_that_of_the_matrix(table):
    sizes, kappa = table
    x = grid(sizes)
    eigenvalues, multiplicity = sal.spectrum(kappa, sizes)
    expected = np.linalg.eigvalsh(subset_kernel(x, x, kappa))
    np.testing.assert_allclose(np.sort(np.repeat(eigenvalues, multiplicity)), expected, atol=1e-12)
    for tolerance, scale in itertools.product((1e-8, 0.1), (1, 1e-9, 1e9)):
        least = -tolerance * np.abs(expected).max()
        if abs(expected[0] - least) > 1e-9:
            assert sal.is_psd(scale * kappa, sizes, tolerance) == (expected[0] >= least)


def test_psd_kernels_of_the_phase_map(golden):
    """kappa(2) and kappa(1) / kappa(2) on 50 x 50 points: 1,728 kernels are left, as stored."""
    two, rho = np.meshgrid(np.linspace(0, 2 / 3, 50), np.linspace(0, 1 / 2, 50))
    kappa = np.stack([0 * two, rho * two, two, 0 * two + 1], axis=-1)
    keep = sal.is_psd(kappa, (2, 6, 6))
    stored = golden("kernels/cd_phase_and_dispersed")
    stored = stored["cd_phase_S1_S2_svcAccCD1_CD2_CD3_regAccCD1_CD2_CD3"][:, :2]
    found = sal.salience(kappa[keep])[:, :2]
    assert keep.sum() == len(stored) == 1728
    order = [np.lexsort(np.round(rows, 9).T) for rows in (found, stored)]
    np.testing.assert_allclose(found[order[0]], stored[order[1]], atol=1e-12)


# --- layer maps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sal.LAYER_MAPS)
def test_layer_maps(golden, name):
    arrays = golden("kernels/layer_salience")
    layer_map, stored = sal.LAYER_MAPS[name], STORED[name]
    for n_components in (2, 3, 4):
        tables = sal.layers(np.arange(n_components + 1) / n_components, layer_map, 20)
        expected = arrays[f"{stored}_C{n_components}"]
        np.testing.assert_allclose(sal.salience(tables), expected, atol=1e-10)
    for share in (0.1, 0.3, 0.4, 0.5):
        tables = sal.layers([0, share, 1 - share, 1], layer_map, 20)
        expected = arrays[f"{stored}_unequal_{share}"]
        np.testing.assert_allclose(sal.subset_salience(tables), expected, atol=1e-10)


def test_trajectories_of_the_paper():
    drawn = json.loads(FIGURES.read_text())
    drawn = drawn["fig3d_random_net_salience_trajectories_S1_S2_order_as_drawn"]
    names = {stored: name for name, stored in STORED.items()}
    compared = 0
    for stored, points in drawn.items():
        if stored in names:
            tables = sal.layers(np.arange(4) / 3, sal.LAYER_MAPS[names[stored]], 10)
            expected = sal.salience(tables)[:0:-1, :2]
            np.testing.assert_allclose(points, expected, atol=2e-3)
            compared += 1
    assert compared >= 3


def test_deep_networks_become_look_up_tables_where_the_slope_at_one_allows():
    start = np.arange(4) / 3
    full = {}
    for name, layer_map in sal.LAYER_MAPS.items():
        full[name] = sal.salience(sal.layers(start, layer_map, 60))[-1, -1]
    assert full["step"] > 1 - 1e-8 and full["rectified_quadratic"] > 1 - 1e-8
    assert 0.7 < full["leaky_relu"] < full["relu"] < 1  # slowly: their slope is just one
    np.testing.assert_allclose(full["gaussian"], 0.66, atol=1e-2)


# --- precision and arguments ----------------------------------------------------------------------


def test_float64_whatever_is_set():
    tiny = np.array([0, 0.3 + 1e-12, 1])
    off = sal.salience(tiny)
    assert isinstance(off, np.ndarray) and off.dtype == np.float64
    np.testing.assert_allclose(off[0] - 0.3, 1e-12, rtol=1e-3)
    batch = np.stack([tiny, tiny])
    np.testing.assert_array_equal(jax.vmap(sal.salience)(batch), np.stack([off, off]))
    with jax.enable_x64(True):
        on = sal.salience(jnp.asarray(tiny))
        assert isinstance(on, jax.Array) and on.dtype == jnp.float64
        np.testing.assert_array_equal(jax.jit(sal.salience)(tiny), on)


def test_derivatives_through_the_layers_are_finite():
    def first(share):
        kappa = jnp.array([0, 1.0, 1.0, 1.0]).at[1].set(share).at[2].set(1 - share)
        return sal.subset_salience(sal.layers(kappa, sal.relu, 3))[-1, 0]

    with jax.enable_x64(True):
        value_and_slope = jax.jit(jax.value_and_grad(first))
        low, high = (value_and_slope(0.3 + shift)[0] for shift in (-1e-6, 1e-6))
        np.testing.assert_allclose(value_and_slope(0.3)[1], (high - low) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: sal.kappa([0.3, 0.3]), "sum to 0.9"),
        (lambda: sal.salience([1.0]), "entries>=2"),
        (lambda: sal.moebius(np.ones(3)), "2\\^C entries, got 3"),
        (lambda: sal.overlap_kernel(np.zeros((4, 2), int), np.zeros((4, 2), int), [0, 1]), "0..C"),
        (
            lambda: sal.overlap_kernel(np.zeros(4, int), np.zeros((4, 2), int), [0, 1]),
            r"x1 must be \[n1, C\]",
        ),
        (lambda: sal.spectrum([0, 0.2, 1], (2, 3, 4)), "kappa has 3 entries: 3 sizes"),
        (lambda: sal.features([[0]], (1,), [0.5, -0.5]), "weights must be in"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_binomials_of_as_many_components_as_are_allowed_are_exact():
    most = checks.MOST_COMPONENTS
    assert math.comb(most, most // 2) < 2**53 < math.comb(most + 1, most // 2)
    assert sal.salience(np.linspace(0, 1, most + 1)).shape == (most,)
