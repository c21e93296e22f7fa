"""Additivity, conjunction types and similarity: stored analyses, machines, small cases by hand."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgjax.analysis import additivity, machines, salience

examples = settings(max_examples=15, deadline=None, derandomize=True, database=None)


def grid(*sizes):
    return np.array(list(itertools.product(*(range(size) for size in sizes))))


# --- additivity -----------------------------------------------------------------------------------


def test_stored_additivity(golden):
    arrays = golden("kernels/task_kernel_predictions")
    for name in arrays["case_names"]:
        stored = {key: arrays[f"{name}/{key}"] for key in ("x", "is_train", "additivity_of")}
        yhat = arrays[f"{name}/{stored['additivity_of']}"]
        fit = additivity.additivity(stored["x"], yhat, stored["is_train"])
        expected = arrays[f"{name}/additivity_r2_test_train"]
        np.testing.assert_allclose((fit.r2_test, fit.r2_train), expected, atol=1e-8)
        np.testing.assert_array_equal(fit.labels, arrays[f"{name}/additivity_labels"])
        # These were solved by normal equations, which lose half the digits.
        atol = 1e-3 if name.startswith(("add", "to")) else 1e-6
        expected = arrays[f"{name}/additivity_coefs"]
        np.testing.assert_allclose(fit.coefficients, expected, atol=atol, err_msg=name)


def test_stored_additivity_of_several_samples(golden):
    arrays = golden("kernels/analyses")
    x_train = arrays["x_grid"][arrays["train_mask_of_specs"]]
    fit = additivity.additivity_by_split(arrays["specs"], arrays["yhat"], arrays["splits"], x_train)
    np.testing.assert_array_equal(fit.splits, arrays["add_split"])
    np.testing.assert_allclose(fit.r2, arrays["add_r2"], atol=1e-8)
    np.testing.assert_array_equal(fit.labels, arrays["add_labels"])
    np.testing.assert_allclose(fit.coefficients, arrays["add_coefs"], atol=2e-6)
    two = additivity.additivity(arrays["specs"], arrays["yhat"], arrays["splits"] == "task=train")
    np.testing.assert_allclose((two.r2_test, two.r2_train), fit.r2, atol=1e-14)


@examples
@given(
    st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
    st.sets(st.integers(0, 11), min_size=6, max_size=10),
    st.integers(0, 2**32 - 1),
)
def test_kernel_machines_are_additive(weights, trained, seed):
    """On any task, for any kernel and training set, with regression and with support vectors."""
    x = grid(2, 3, 2)
    saliences = np.array(weights) / np.dot(weights, (3, 3, 1))
    kernel = salience.overlap_kernel(x, x, salience.kappa(saliences) + 0.3)
    is_train = np.isin(np.arange(12), list(trained))
    y = np.random.default_rng(seed).choice([-1.0, 1.0], (6, 12))
    y[:, min(trained)], y[:, max(trained)] = -1, 1
    kernels = np.broadcast_to(kernel, (6, 12, 12))
    f = [
        machines.ridgeless(kernels, y, kernels, mask=is_train),
        machines.svc(kernels, y, kernels, 1e10, mask=is_train),
    ]
    found = additivity.additivity(x, np.stack(f), is_train)
    assert found.r2_test.shape == (2, 6)
    assert np.all(found.r2_test > 1 - 1e-8) and np.all(found.r2_train > 1 - 1e-8)


def test_what_is_not_additive_is_told_so():
    """A product of two signs, of which the test has all four combinations."""
    x = grid(4, 4)
    signs = np.where(x < 2, -1.0, 1.0)
    is_train = np.isin(x, (0, 3)).any(axis=1)
    fit = additivity.additivity(x, np.stack([signs.prod(axis=1), signs.sum(axis=1)]), is_train)
    np.testing.assert_allclose(fit.r2_test, (0, 1), atol=1e-9)
    np.testing.assert_allclose(fit.r2_train, (1, 1), atol=1e-9)
    constant = additivity.additivity(x, np.full(16, 2.5), is_train)
    assert constant.r2_test == constant.r2_train == 1
    np.testing.assert_allclose(constant.coefficients, np.append(0 * fit.coefficients[0, :-1], 2.5))


def test_unseen_conjunctions_have_no_column():
    labels = additivity.conjunctions(np.array([[0, 1], [2, 1], [0, 3], [0, 1]]))
    assert labels.tolist() == [
        ["0", "all"],
        ["2", "all"],
        ["all", "1"],
        ["all", "3"],
        ["0", "1"],
        ["2", "1"],
        ["0", "3"],
        ["all", "all"],
    ]


def test_item_values_of_a_sum():
    x = grid(5, 5)
    values = np.array([-2.0, -1, 0, 1, 3])
    is_train = (x == 2).any(axis=1)
    target = values[x].sum(axis=1)
    kernel = salience.overlap_kernel(x, x, [0, 0.4, 1])
    f = kernel[:, is_train] @ np.linalg.solve(kernel[is_train][:, is_train], target[is_train])
    found = additivity.additivity(x, np.stack([f, target]), is_train)
    items, worth = additivity.item_values(found.labels, found.coefficients, component=1)
    np.testing.assert_array_equal(items, np.arange(5))
    assert worth.shape == (2, 5)
    unseen = items != 2  # the anchor shares its value with its pairs
    np.testing.assert_allclose(worth[1, unseen], values[unseen], atol=1e-9)
    slope = np.polyfit(values[unseen], worth[0, unseen], 1)[0]
    np.testing.assert_allclose(slope, 0.4 / 0.6, atol=1e-6)  # p = 1: S / (1 - S)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda x, y: additivity.additivity(x, y[:3], y > 0),
            r"yhat must be .* with n = 4 as in x",
        ),
        (lambda x, y: additivity.additivity(1.0 * x, y, y > 0), "integers"),
        (lambda x, y: additivity.similarity(x, y[:3]), "features must be .* with n = 4 as in x"),
        (
            lambda x, y: additivity.type_magnitudes([["0", "1", "all"]], y[:1], (1, 2), "mean"),
            "one of sum, max",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(grid(2, 2), np.arange(4.0))


# --- conjunction types ----------------------------------------------------------------------------


def test_conjunction_types_of_context_dependence():
    labels = [
        ["0", "all", "all"],
        ["0", "4", "all"],
        ["1", "4", "all"],
        ["0", "all", "4"],
        ["1", "all", "4"],
        ["all", "4", "all"],
        ["all", "4", "4"],
        ["1", "4", "4"],
        ["all", "all", "all"],
    ]
    types = additivity.conjunction_types(labels, relevant=(1, 2)).tolist()
    assert types[:5] == ["context", "right", "wrong", "wrong", "right"]
    assert types[5:] == ["sensory", "sensory", "memorization", "intercept"]


# Recomputed with the published settings: right, wrong, sensory, context only, memorization.
@pytest.mark.parametrize(
    "case, expected",
    [
        ("cd3_rep1", (0.399, 0.074, 0.150, 0.214, 0.181)),
        ("cd2_rep1", (0.512, 0.227, 0.117, 0.051, 0.148)),
        ("cd3_rep2", (0.378, 0.068, 0.197, 0.409, 0.089)),
    ],
)
def test_magnitudes_of_conjunction_types(golden, case, expected):
    arrays = golden("kernels/task_kernel_predictions")
    labels, values = (arrays[f"{case}/additivity_{key}"] for key in ("labels", "coefs"))
    magnitudes = additivity.type_magnitudes(labels, values, (1, 2))
    np.testing.assert_allclose(list(magnitudes.values()), expected, atol=1e-3)
    values = values.copy()
    values[-1] = 0.5
    for relative_to, with_intercept in itertools.product(("sum", "max"), (False, True)):
        relative = additivity.type_magnitudes(labels, values, (1, 2), relative_to, with_intercept)
        scale = {"sum": sum, "max": max}[relative_to]
        absolute = [*magnitudes.values(), 0.5] if with_intercept else [*magnitudes.values()]
        np.testing.assert_allclose(relative["right"] * scale(absolute), magnitudes["right"])
        np.testing.assert_allclose(scale(relative.values()), 1)


# --- similarity -----------------------------------------------------------------------------------


def test_stored_similarity(golden):
    arrays = golden("kernels/analyses")
    samples = arrays["specs"], arrays["features"], arrays["splits"]
    similar = additivity.similarity(*samples, n_samples=11, with_self=True)  # as in the paper
    groups = {(split, tuple(x)): i for i, (split, x) in enumerate(zip(similar.splits, similar.x))}

    def group(k, row):
        numbers = re.findall(r"\((\d+)\)", arrays[f"sim_spec{k}"][row])
        return groups[arrays[f"sim_split{k}"][row], tuple(int(number) for number in numbers)]

    assert len(groups) ** 2 == len(arrays["sim_value"])
    for row, value in enumerate(arrays["sim_value"]):
        np.testing.assert_allclose(similar.values[group(0, row), group(1, row)], value, atol=1e-12)
    structure = additivity.structure(similar)
    np.testing.assert_allclose(structure.kappa, arrays["mean_sim_by_overlap"], atol=1e-12)
    first = salience.salience(structure.kappa)[0]
    np.testing.assert_allclose(first, arrays["salience_1_2"], atol=1e-12)


def test_a_structured_representation_is_recognised():
    """Features made for unequal components have exactly their kernel, and a spread by overlap."""
    x = grid(3, 3)
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    found = additivity.similarity(x, salience.features(x, (3, 3), weights))
    structure = additivity.structure(found)
    kappa = salience.moebius_inverse(weights)
    np.testing.assert_allclose(structure.kappa_by_subset, kappa, atol=1e-14)
    np.testing.assert_allclose(structure.kappa[1], kappa[1:3].mean(), atol=1e-14)
    np.testing.assert_allclose(structure.spread, (0, 0.05, 0), atol=1e-14)
    few = additivity.structure(additivity.similarity(np.array([[0, 0], [1, 1]]), np.eye(2)))
    assert np.isnan(few.kappa[1]) and few.kappa[0] == 0 and few.kappa[2] == 1


def test_samples_that_enter():
    """The first n_samples of each group, with and without their products with themselves."""
    rng = np.random.default_rng(0)
    x = np.repeat(grid(2, 2), 15, axis=0)
    features = rng.normal(size=(60, 2, 3))
    order = rng.permutation(60)
    flat = features[order].reshape(60, -1)
    members = [np.flatnonzero(np.all(x[order] == row, axis=1)) for row in grid(2, 2)]
    for n_samples, with_self in itertools.product((11, 4, None), (True, False)):
        similar = additivity.similarity(
            x[order], features[order], n_samples=n_samples, with_self=with_self
        )
        for i, j in itertools.product(range(4), repeat=2):
            products = flat[members[i][:n_samples]] @ flat[members[j][:n_samples]].T
            if i == j and not with_self:
                products = products[~np.eye(len(products), dtype=bool)]
            np.testing.assert_allclose(similar.values[i, j], products.mean(), atol=1e-12)
    default = additivity.similarity(x[order], features[order])
    explicit = additivity.similarity_of_gram(x[order], flat @ flat.T, with_self=False)
    np.testing.assert_array_equal(default.values, explicit.values)
    alone = additivity.similarity(grid(2, 2), np.eye(4), with_self=False)
    assert np.all(np.isnan(np.diag(alone.values)))
    np.testing.assert_array_equal(additivity.similarity(grid(2, 2), np.eye(4)).values, np.eye(4))


@pytest.mark.parametrize("n_per_group, with_self", [(1, None), (1, False), (3, None), (3, True)])
def test_many_kernels_at_once_are_measured_as_each_alone(n_per_group, with_self):
    rng = np.random.default_rng(0)
    x = rng.permutation(np.repeat(grid(3, 3), n_per_group, axis=0))
    features = rng.normal(size=(2, 5, len(x), 4))
    grams = features @ features.swapaxes(-2, -1)
    together = additivity.similarity_of_gram(x, grams, with_self=with_self)
    structures = additivity.structure(together)
    for i, j in itertools.product(range(2), range(5)):
        alone = additivity.similarity_of_gram(x, grams[i, j], with_self=with_self)
        np.testing.assert_allclose(together.values[i, j], alone.values, rtol=1e-12)
        for many, one in zip(structures, additivity.structure(alone), strict=True):
            np.testing.assert_allclose(many[i, j], one, rtol=1e-12)
    values = additivity.similarity(x, features[0, 0], with_self=with_self).values
    np.testing.assert_allclose(values, together.values[0, 0], rtol=1e-10)
    if n_per_group == 1:
        group = np.lexsort(x.T[::-1])
        expected = grams[0, 0][np.ix_(group, group)]
        np.testing.assert_array_equal(together.values[0, 0][0, 1:], expected[0, 1:])
        assert np.isnan(together.values[0, 0, 0, 0]) == (with_self is False)


def test_salience_does_not_depend_on_the_number_of_samples_unless_self_products_count():
    """Noisy samples of features with S(1;2) = 0.4; a combination with one sample has no pair."""
    rng = np.random.default_rng(0)
    x = np.repeat(grid(3, 3), 200, axis=0)
    features = salience.features(x, (3, 3), salience.moebius(np.array([0, 0.4, 0.4, 1.0])))
    features = np.concatenate([features, rng.normal(size=(len(x), 400)) / 20], axis=1)

    def single(rows, **options):
        found = additivity.similarity(x[rows], features[rows], **options)
        return salience.salience(additivity.structure(found).kappa)[0]

    few = np.arange(len(x)) % 200 < 4
    fewer = few & (np.arange(len(x)) > 2)  # the first combination has one sample
    for rows in (slice(None), few, fewer):
        assert single(rows) == pytest.approx(0.4, abs=0.01)
    assert single(few, with_self=True) == pytest.approx(0.4 / 1.25, abs=0.01)
    assert single(slice(None), with_self=True) == pytest.approx(0.4, abs=0.01)


def test_the_wanted_shape_of_outputs_is_named():
    x = np.indices((3, 3)).reshape(2, -1).T
    with pytest.raises(ValueError, match="n = 9 as in x"):
        additivity.additivity(x, np.ones((9, 1)), np.arange(9) < 5)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64])
def test_combinations_of_any_integer_dtype(dtype):
    x = np.indices((3, 3)).reshape(2, -1).T
    found = additivity.additivity(x.astype(dtype), 2.0 * x[:, 0] - x[:, 1], x.sum(axis=1) < 4)
    assert found.r2_train == pytest.approx(1)
    large = x.astype(np.uint64) + np.uint64(2**63)  # float64 would merge them
    assert len(additivity.similarity(large, np.eye(9)).x) == 9
