"""Symbolic and image inputs of the kernel theory's tasks."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import quick_key

from cgjax.core.errors import BadInput
from cgjax.data import sources
from cgjax.experiments.kernels import inputs, tasks


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
