"""Slots against latents: maps and permutations that are known."""

import itertools

import numpy as np
import pytest

from cgjax.analysis import slots


def scenes(n, n_slots=2, n_latents=3, size=4, seed=0):
    """Latents [n, K, l], and slots that are affine in them, in a random order in each image."""
    rng = np.random.default_rng(seed)
    latents = rng.uniform(size=(n, n_slots, n_latents))
    order = rng.permuted(np.tile(np.arange(n_slots), (n, 1)), axis=1)
    objects = np.take_along_axis(latents, order[:, :, None], axis=1)
    maps = rng.normal(size=(n_slots, n_latents, size))
    return np.einsum("nkl,kld->nkd", objects, maps) + rng.normal(size=size), latents, order


@pytest.mark.parametrize("n_slots", (2, 3))
def test_maps_and_orders_are_found(n_slots):
    codes, latents, order = scenes(240, n_slots)
    maps = slots.fit(codes[:160], latents[:160])
    assert slots.r2(maps, codes[160:], latents[160:]).min() > 0.99
    assert np.mean(slots.assign(maps, codes, latents)[0] == order) > 0.99


def test_the_chosen_permutation_is_the_best_of_all():
    rng = np.random.default_rng(1)
    codes, latents = rng.normal(size=(6, 3, 2)), rng.normal(size=(6, 3, 2))
    maps = slots.SlotMaps(rng.normal(size=(3, 3, 2)), np.ones(2))
    order, error = slots.assign(maps, codes, latents)
    total = 0.0
    for i in range(6):
        predicted = [np.append(codes[i, k], 1) @ maps.weights[k] for k in range(3)]
        errors = {
            p: np.mean([(predicted[k] - latents[i, p[k]]) ** 2 for k in range(3)])
            for p in itertools.permutations(range(3))
        }
        assert tuple(order[i]) == min(errors, key=errors.get)
        total += min(errors.values()) / 6
    assert error == pytest.approx(total)


def test_slots_of_other_images_and_mixed_slots_score_low():
    codes, latents, _ = scenes(400)
    shuffled = np.random.default_rng(2).permutation(codes)
    chance = slots.fit(shuffled[:200], latents[:200])
    # A mean is not a slot: both objects in one code tell neither.
    mixed = np.repeat(codes.mean(1, keepdims=True), 2, axis=1)[..., :3]
    both = slots.fit(mixed[:200], latents[:200])
    assert slots.r2(chance, shuffled[200:], latents[200:]).mean() < 0.3
    assert slots.r2(both, mixed[200:], latents[200:]).mean() < 0.8


@pytest.mark.parametrize("value", (0.0, 0.3, 1e6 / 3))
def test_a_constant_latent_has_no_r2_and_leaves_the_others(value):
    codes, latents, order = scenes(80)
    wanted = slots.r2(slots.fit(codes, latents[..., :2]), codes, latents[..., :2])
    latents[..., 2] = value
    maps = slots.fit(codes, latents)
    scores = slots.r2(maps, codes, latents)
    assert np.isnan(scores[2])
    np.testing.assert_allclose(scores[:2], wanted, atol=1e-6)
    chosen, error = slots.assign(maps, codes, latents)
    assert np.mean(chosen == order) > 0.95 and error < 0.05


def test_units_of_slots_and_latents_do_not_matter():
    codes, latents, _ = scenes(80)
    wanted = slots.r2(slots.fit(codes, latents), codes, latents)
    for unit in (1e-14, 1e-7, 1e7):
        for scores in (
            slots.r2(slots.fit(unit * codes, latents), unit * codes, latents),
            slots.r2(slots.fit(codes, unit * latents), codes, unit * latents),
        ):
            np.testing.assert_allclose(scores, wanted, atol=1e-6)


def test_a_constant_slot_tells_nothing():
    codes, latents, _ = scenes(80, n_slots=1)
    codes[:] = 1e6 / 3
    maps = slots.fit(codes[:40], latents[:40])
    assert np.all(np.abs(maps.weights[0, :-1]) < 1e-6)
    np.testing.assert_allclose(
        np.append(codes[0, 0], 1) @ maps.weights[0], latents[:40, 0].mean(0), atol=1e-9
    )


def test_bad_arguments():
    with pytest.raises(ValueError, match="n = 3 as in slots"):
        slots.fit(np.zeros((3, 2, 1)), np.zeros((3, 1, 1)))
    with pytest.raises(ValueError, match="slots"):
        slots.fit(np.full((3, 2, 1), np.nan), np.zeros((3, 2, 1)))


def test_scores_do_not_depend_on_units():
    rng = np.random.default_rng(0)
    latents = rng.uniform(size=(30, 2, 2))
    given = latents[:, ::-1] + 0.3 * rng.normal(size=(30, 2, 2))
    score = slots.r2(slots.fit(given, latents), given, latents)
    for unit in (1e-9, 1e9):
        same = slots.r2(slots.fit(unit * given, latents), unit * given, latents)
        np.testing.assert_allclose(same, score)
        same = slots.r2(slots.fit(given, unit**2 * latents), given, unit**2 * latents)
        np.testing.assert_allclose(same, score)


def test_a_constant_latent_has_no_score():
    latents = np.random.default_rng(0).uniform(size=(30, 2, 2))
    given = latents.copy()
    latents[..., 1] = 0.1  # its variance is rounding: its mean is not 0.1
    assert latents[..., 1].var() > 0
    score = slots.r2(slots.fit(given, latents), given, latents)
    assert score[0] > 0.99 and np.isnan(score[1])
