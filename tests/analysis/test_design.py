"""Greedy support design against exhaustive search, and on sprites."""

import itertools

import jax
import numpy as np
import pytest

from cgjax.analysis import support
from cgjax.analysis.support.design import design
from cgjax.experiments.sprites import scenes
from cgjax.experiments.sprites.compositions import COMPOSITIONS

SIZE = 16


@pytest.fixture(scope="module")
def images():
    """Six values; then small front sprites on the named planes, and one that hides what O hides."""
    fronts = [*scenes.PLANES.values(), (0.02, 0.02, 0.0, 0.0, 0.3)]
    raw = np.concatenate([jax.random.uniform(jax.random.key(0), (6, 5)), fronts])
    return np.asarray(scenes.render(scenes.scale_latents(raw), SIZE))


@pytest.fixture(scope="module")
def values(images):
    return images[:6]


@pytest.fixture(scope="module")
def candidates(images):
    fronts = images[6:]
    return np.stack([fronts, np.zeros_like(fronts)], axis=1)  # slot 1 is replaced by each value


def holds(values, candidates, chosen):
    tuples = np.stack([candidates[list(chosen)]] * len(values))
    tuples[:, :, 1] = values[:, None]
    return support.audit(COMPOSITIONS["occlude_step"], values, 1, tuples).share == 1


def test_greedy_finds_as_few_planes_as_exhaustive_search(values, candidates):
    greedy = design(COMPOSITIONS["occlude_step"], values, 1, candidates)
    assert greedy.holds and holds(values, candidates, greedy.chosen)
    fewest = next(
        n
        for n in range(1, 4)
        if any(
            holds(values, candidates, chosen)
            for chosen in itertools.combinations(range(len(candidates)), n)
        )
    )
    assert len(greedy.chosen) == fewest == 2
    assert greedy.sigma_min[0] == 0 and greedy.sigma_min[-1] == 1
    assert greedy.share[0] == 0 and greedy.n_failing[0] > 0 == greedy.n_failing[-1]
    assert greedy.verdict.startswith("2 of 6 candidates suffice")


def test_a_front_sprite_needs_one_plane_at_its_own_pixels(values, candidates):
    found = design(COMPOSITIONS["occlude_step"], values, 0, candidates, where=values.sum(-1) > 0)
    assert found.holds and len(found.chosen) == 1


def test_what_cannot_be_reached_is_said(values, candidates):
    overlapping = candidates[[list(scenes.PLANES).index("O"), 5]]
    found = design(COMPOSITIONS["occlude_step"], values, 1, overlapping)
    assert not found.holds and len(found.chosen) == 2
    assert "found that suffice (chosen greedily): 0% of the values pass" in found.verdict


def product(slots):
    return slots[0] * slots[1]


def test_greedy_can_take_more_than_needed_and_exact_search_does_not():
    """Six positions: the largest candidate shows four of them, the two others three each."""
    shown = np.array([[1, 1, 1, 1, 0, 0], [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1.0]])
    candidates = np.stack([np.ones_like(shown), shown], axis=1)[..., None]  # [3, 2, 6, 1]
    value = np.full((1, 6, 1), 0.5)
    greedy = design(product, value, 0, candidates)
    assert greedy.holds and greedy.chosen[0] == 0 and len(greedy.chosen) == 3
    assert "chosen greedily, fewer may" in greedy.verdict
    found = design(product, value, 0, candidates, exact=True)
    assert found.holds and found.chosen == (1, 2) and "no fewer do" in found.verdict
    np.testing.assert_array_equal(found.n_failing, [3, 0])


def test_exact_search_takes_some_of_the_points_for_each_value():
    """Partners +1 and -1: together they cancel, each alone is enough."""
    candidates = np.array([[[0.0], [1.0]], [[0.0], [-1.0]]])
    found = design(product, np.array([[1.0], [2.0]]), 0, candidates, exact=True)
    assert found.holds and len(found.chosen) == 1


def test_exact_search_refuses_too_many_sets():
    candidates = np.zeros((40, 2, 1))
    with pytest.raises(ValueError, match="pass fewer candidates, or most=3"):
        design(product, np.ones((1, 1)), 0, candidates, exact=True)
    assert not design(product, np.ones((1, 1)), 0, candidates[:5], exact=True, most=2).holds


def test_stacks_need_fewer_points_where_sums_cancel():
    """C = a b: with b = 2 and b = -2 the sum of Jacobians is zero, their stack is not."""
    value, tuples = np.ones((1, 1)), np.array([[[0.0], [0.0]], [[0.0], [-2.0]]])
    found = design(product, value, 0, tuples, condition="stack")
    assert found.chosen == (1,) and found.sigma_min[0] == 2
    dense = design(product, value, 0, tuples, condition="stack", pixelwise=False)
    assert dense.chosen == found.chosen and dense.holds


@pytest.mark.parametrize(
    "change, message",
    [
        ({"condition": "relaxed"}, "one of sum, stack"),
        ({"candidates": np.zeros((0, 2, 3))}, "without an empty axis"),
        ({"component": 2}, "component must be 0 to 1"),
        ({"candidates": np.zeros((1, 2, 4))}, "slot = \\(3,\\) as in slots"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"slots": np.zeros((1, 3)), "component": 0, "candidates": np.zeros((1, 2, 3))}
    with pytest.raises(ValueError, match=message):
        design(COMPOSITIONS["add"], **(arguments | change))
