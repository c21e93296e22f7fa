"""Tasks of the kernel theory against the reference, and their stated sizes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import quick_key

from cgjax.core.errors import BadInput
from cgjax.data import sources
from cgjax.experiments.kernels import inputs, tasks

CASES = {
    "add_extrap_S30": "addition_extrapolation",
    "add_extrap_S45": "addition_extrapolation",
    "add_both_S35": "addition_both",
    "add_interp_S25": "addition_interpolation",
    "add_asym_S40": "addition_asymmetric",
    "add_asym_S40_k0_0.5": "addition_asymmetric",
    "add_dispersed_seed1_S40": "addition_dispersed_1",
    "add_dispersed_seed3_S20": "addition_dispersed_3",
    "cd1_rep1": "cd_1",
    "cd1_rep2": "cd_1",
    "cd2_rep1": "cd_2",
    "cd2_rep2": "cd_2",
    "cd3_rep1": "cd_3",
    "cd3_rep2": "cd_3",
    "cd_stimulus_composition_2": "stimulus_composition_2",
    "cd_context_substitution": "context_substitution",
    "te_2_2": "te_2_2",
    "te_5_5_items4": "te_5_5_hubs_4",
    "to_7": "to_7",
}


def test_golden(golden):
    arrays = golden("kernels/task_kernel_predictions")
    assert set(CASES) == set(arrays["case_names"])
    for case, name in CASES.items():
        task = tasks.make(name)
        for field in ("x", "y", "is_train"):
            np.testing.assert_array_equal(getattr(task, field), arrays[f"{case}/{field}"], case)
        assert task.sizes == tuple(arrays[f"{case}/x"].max(0) + 1) and task.name == name


@pytest.mark.parametrize(
    "name, n_train, n_test",
    [
        ("addition_extrapolation", 17, 64),
        ("addition_asymmetric", 17, 64),
        ("addition_interpolation", 32, 49),
        ("addition_both", 32, 49),
        ("addition_extrapolation_4", 56, 25),
        ("addition_dispersed_0", 18, 63),
        ("invariance", 2, 2),
        ("partial_exposure", 3, 1),
        ("cd_1", 70, 2),
        ("cd_2", 64, 8),
        ("cd_3", 54, 18),
        ("stimulus_composition", 6, 2),
        ("te_2_2", 12, 4),
        ("te_3_3", 20, 16),
        ("te_5_5_hubs_1", 36, 64),
        ("te_5_5_hubs_4", 96, 4),
        ("to_7", 12, 30),
    ],
)
def test_counts(name, n_train, n_test):
    task = tasks.make(name)
    assert (task.is_train.sum(), (~task.is_train).sum()) == (n_train, n_test)


def test_anchors_average_to_zero_where_they_should():
    for name, anchors in tasks.ANCHORS.items():
        mean = np.mean([tasks.VALUES[i] for i in anchors])
        assert mean == (-4 if name == "asymmetric" else 0)


def test_mean_squared_targets():
    expected = {
        "extrapolation": (7.06, 15.0),
        "interpolation": (21.5, 8.0),
        "both": (11.0, 14.9),
        "asymmetric": (20.2, 11.5),
    }
    for name, values in expected.items():
        task = tasks.make(f"addition_{name}")
        squares = [np.mean(task.y[rows] ** 2) for rows in (task.is_train, ~task.is_train)]
        np.testing.assert_allclose(squares, values, atol=0.05)


def test_dispersed_uses_every_item_as_often():
    for seed, per_item in ((0, 2), (5, 3)):
        task = tasks.addition_dispersed(seed, per_item=per_item)
        trained = task.is_train.reshape(9, 9)
        assert (trained.sum(0) == per_item).all() and (trained.sum(1) == per_item).all()
    seeds = [tasks.addition_dispersed(seed).is_train for seed in (0, 1)]
    assert not np.array_equal(*seeds)


def test_two_by_two():
    # Order of the grid: (-1, -1), (-1, 1), (1, -1), (1, 1).
    np.testing.assert_array_equal(tasks.invariance().y, [-1, -1, 1, 1])
    np.testing.assert_array_equal(tasks.invariance().is_train, [True, False, True, False])
    np.testing.assert_array_equal(tasks.partial_exposure().is_train, [True, True, True, False])


def test_addition_of_three_components_and_other_values():
    task = tasks.addition((1,), values=(0.5, 1.5, 4.0), n_components=3)
    assert task.sizes == (3, 3, 3) and task.is_train.sum() == 27 - 8
    row = int(np.flatnonzero((task.x == [0, 2, 1]).all(1))[0])
    assert task.y[row] == 6.0 and task.is_train[row]


def test_features_of_unequal_size():
    task = tasks.context_dependence(
        (2, 3), (1, 0, 1), ((-1, 1), (-1, 1, 1)), ({0: (2,), 1: (0,)},), "uneven"
    )
    assert task.sizes == (3, 2, 3) and (~task.is_train).sum() == 3
    by_x = {tuple(x): y for x, y in zip(task.x, task.y)}
    assert by_x[0, 0, 2] == 1 and by_x[1, 0, 2] == -1 and by_x[2, 1, 0] == -1


def test_ordering_with_an_exception():
    task = tasks.transitive_ordering(6, exceptions=[(1, 4), (4, 1)])
    rows = {tuple(x): (y, t) for x, y, t in zip(task.x, task.y, task.is_train)}
    assert rows[1, 4] == (-1, True) and rows[4, 1] == (1, True)
    assert rows[2, 3] == (1, True)  # trained, though enclosed
    assert (1, 3) not in rows and (4, 2) not in rows  # enclosed and untrained
    assert rows[0, 4] == (1, False) and rows[5, 1] == (-1, False)
    assert len(rows) == 30 - 4  # (1, 3), (2, 4) and their mirrors


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: tasks.make("addition_extrapolate"), "did you mean 'addition_extrapolation'"),
        (lambda: tasks.addition((9,)), "anchors must be indices of the 9 values, 0 to 8"),
        (lambda: tasks.addition(()), "anchors must be indices"),
        (lambda: tasks.addition_dispersed(0, per_item=0), "per_item must lie between 1 and"),
        (lambda: tasks.cd(4), "there is no CD-4"),
        (lambda: tasks.transitive_equivalence((2, 2), (3, 1)), "at most the class sizes"),
        (lambda: tasks.transitive_ordering(4, exceptions=[(0, 4)]), "distinct items below 4"),
        (
            lambda: tasks.context_dependence((2,), (0,), ((1, -1, 1),), ()),
            "one entry per value of each feature",
        ),
        (
            lambda: tasks.context_dependence((2,), (1,), ((1, -1),), ()),
            "contexts must map to features 0 to 0",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(BadInput, match=message):
        call()


# --- inputs ---------------------------------------------------------------------------------------
# Symbolic and image inputs of the kernel theory's tasks.


def test_one_hot(golden):
    task = tasks.addition((2,), values=range(-2, 3))
    np.testing.assert_array_equal(
        inputs.one_hot(task.x, task.sizes), golden("kernels/networks")["dense/x"]
    )
    np.testing.assert_array_equal(task.y, golden("kernels/networks")["dense/y"])
    widths = {"addition_both": 18, "cd_1": 14, "te_2_2": 8}
    for name, width in widths.items():
        task = tasks.make(name)
        code = inputs.one_hot(task.x, task.sizes)
        assert code.shape == (len(task.x), width)
        overlap = (task.x[:, None] == task.x).sum(-1)
        np.testing.assert_array_equal(code @ code.T, overlap)


@pytest.mark.parametrize(
    "name, n_total, n_each",
    [
        ("addition_extrapolation", 20000, 1176),
        ("addition_interpolation", 20000, 625),
        ("addition_dispersed_0", 20000, 1111),
        ("cd_3", 30000, 555),
        ("cd_2", 30000, 468),
        ("cd_1", 30000, 428),
        ("te_5_5_hubs_4", 20000, 208),
        ("te_5_5_hubs_1", 20000, 555),
        ("addition_asymmetric", 40000, 2352),
        ("addition_both", 40000, 1250),
        ("cd_3", 40000, 740),
        ("cd_2", 40000, 625),
        ("cd_1", 40000, 571),
    ],
)
def test_samples_per_combination(name, n_total, n_each):
    assert inputs.samples_per_combination(tasks.make(name), n_total) == n_each


@pytest.mark.parametrize("name", ["addition_both", "cd_3"])
def test_image_sets(name):
    labels = sources.synthetic("mnist", 600)["label"]
    labels = np.concatenate([labels, np.full(37, 3)])  # classes of unequal size
    task, n_pool, n_val = tasks.make(name), 20, 7
    sets = inputs.image_sets(task, labels, seed=3, n_pool=n_pool, n_total=2000, n_val=n_val)
    n_each = inputs.samples_per_combination(task, 2000)
    n_train = task.is_train.sum()
    assert sets.train.images.shape == (n_each * n_train, len(task.sizes))
    assert (
        sets.val_1.images.shape == sets.val_2.images.shape == (n_val * len(task.x), task.x.shape[1])
    )
    assert sets.train.images.dtype == sets.train.combination.dtype == np.int32
    np.testing.assert_array_equal(
        sets.train.combination.reshape(-1, n_each)[:, 0], np.flatnonzero(task.is_train)
    )
    for c, size in enumerate(task.sizes):
        # Every value of a component is one class, in all splits, and all classes are used.
        shown = {}
        for split in sets:
            for value, label in zip(task.x[split.combination, c], labels[split.images[:, c]]):
                shown.setdefault(int(value), set()).add(int(label))
        assert all(len(classes) == 1 for classes in shown.values())
        assert set.union(*shown.values()) == set(range(size))
        # Both training splits share a pool; the unseen pool is the rest.
        known = set(sets.train.images[:, c]) | set(sets.val_1.images[:, c])
        assert len(known) <= n_pool * size and not known & set(sets.val_2.images[:, c])
        assert len(set(sets.train.images[:, c])) > 0.9 * n_pool * size
    # Each component has its own pool.
    first, last = (set(sets.train.images[:, c]) for c in (1 if name == "cd_3" else 0, -1))
    assert first != last


def test_image_sets_depend_on_the_seed_alone():
    labels = sources.synthetic("mnist", 300)["label"]
    task = tasks.make("te_2_2")
    first, again, other = (inputs.image_sets(task, labels, s, 5, 60, 2) for s in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not np.array_equal(first.train.images, other.train.images)
    assert jax.tree.map(np.shape, first) == jax.tree.map(np.shape, other)


def test_too_small_data_are_refused():
    labels = sources.synthetic("mnist", 300)["label"]
    task = tasks.make("te_2_2")
    with pytest.raises(BadInput, match="a training pool of 30 images per class leaves none unseen"):
        inputs.image_sets(task, labels, 0, 30, 60)
    with pytest.raises(BadInput, match="has 0 images"):
        inputs.image_sets(tasks.addition((0,), range(12)), labels, 0, 5, 600)
    with pytest.raises(BadInput, match="11 samples do not cover the 12 training combinations"):
        inputs.image_sets(task, labels, 0, 5, 11)


def test_compose_golden(golden):
    arrays = golden("kernels/networks")
    images = np.moveaxis(arrays["compose/images"], 1, -1)  # [3, H, W, 1]
    for n in (2, 3):
        for distance in (0, 2, 5):
            expected = np.moveaxis(arrays[f"compose/C{n}_d{distance}"], 0, -1)
            batch = np.stack([images[:n], images[:n][::-1]])
            composed = inputs.compose(jnp.asarray(batch), distance)
            np.testing.assert_allclose(composed[0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_network_input(name):
    images = jnp.asarray(sources.synthetic(name, 20)["image"])
    indices = jnp.array([[3, 7, 7], [0, 1, 2]])
    pixels = jax.jit(inputs.network_input, static_argnums=(2, 3))(images, indices, name, 5)
    mean, std = (np.array(v) for v in inputs.NORMALISATION[name])
    each = (np.asarray(images, float) / 255 - mean) / std
    size, channels = images.shape[1], images.shape[-1]
    assert pixels.shape == (2, size, size + 10, 3 * channels) and pixels.dtype == jnp.float32
    # Normalised first, as the reference does.
    expected = inputs.compose(jnp.asarray(each[np.asarray(indices)]), 5)
    np.testing.assert_allclose(pixels, expected, atol=1e-5)
    middle = pixels[1, :, 5 : 5 + size, channels : 2 * channels]
    np.testing.assert_allclose(middle, each[1], atol=1e-5)


def test_augmentation_crops_and_mirrors():
    images = jnp.asarray(sources.synthetic("cifar10", 40)["image"]).reshape(20, 2, 32, 32, 3)
    key = quick_key(0)
    augmented = np.asarray(jax.jit(inputs.augment)(key, images))
    assert augmented.shape == images.shape and augmented.dtype == np.uint8
    padded = np.pad(np.asarray(images), ((0, 0), (0, 0), (4, 4), (4, 4), (0, 0)))
    seen = set()
    for i, j in np.ndindex(20, 2):
        matches = [
            (top, left, mirrored)
            for top, left, mirrored in itertools.product(range(9), range(9), (False, True))
            for window in [padded[i, j, top : top + 32, left : left + 32]]
            if np.array_equal(window[:, ::-1] if mirrored else window, augmented[i, j])
        ]
        assert len(matches) == 1
        seen.add(matches[0])
    tops, lefts, mirrored = (set(values) for values in zip(*seen))
    assert len(seen) > 30 and len(tops) > 6 and len(lefts) > 6 and len(mirrored) == 2
    assert {0, 8} & tops and {0, 8} & lefts
    whole = jax.jit(inputs.network_input, static_argnums=(2, 3))
    flat, indices = images.reshape(40, 32, 32, 3), jnp.arange(40).reshape(20, 2)
    given = whole(flat, indices, "cifar10", 0, key)
    second = (augmented[:, 1] / 255 - [0.4914, 0.4822, 0.4465]) / [0.2023, 0.1994, 0.2010]
    np.testing.assert_allclose(given[..., 3:], second, atol=1e-5)
