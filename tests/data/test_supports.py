"""Supports: distributions against stored draws, invariants exactly, errors by name."""

import jax
import numpy as np
import pytest
from scipy import stats

from cgjax.data import supports

ORIGIN = (0.0,) * 5
A = (1.0, 1.0, 1.0, 0.0, 1.0)
H = (0.5, 0.5, 0.5, 0.0, 0.5)
A7 = (0.7, 0.7, 0.7, 0.0, 0.7)
H3 = (0.3, 0.3, 0.3, 0.0, 0.3)
PLANES = ((0, A), (1, ORIGIN), (1, H))
BROAD = ((0, A), (0, A7), (1, ORIGIN), (1, H3))
NORMAL = {"planes": PLANES, "distribution": "normal", "mean": 0.5}
CASES = {
    "random": ("random", {}),
    "random_gap": ("random_gap", {"gaps": ((0, 0.35, 0.8), (5, 0.1, 0.4))}),
    "orthogonal_default": ("orthogonal", {}),
    "orthogonal": ("orthogonal", {"planes": PLANES}),
    "orthogonal_star": ("orthogonal", {"planes": PLANES[:2]}),
    "orthogonal_broad": ("orthogonal", {"planes": BROAD}),
    "orthogonal_normal_std1": ("orthogonal", {**NORMAL, "std": 1.0}),
    "orthogonal_normal_std04": ("orthogonal", {**NORMAL, "std": 0.4}),
    "orthogonal_gap": ("orthogonal_gap", {"planes": PLANES, "gaps": ((0, 0.05, 0.45),)}),
    "diagonal_005": ("diagonal", {"delta": 0.05}),
    "diagonal_01": ("diagonal", {"delta": 0.1}),
    "diagonal_02": ("diagonal", {"delta": 0.2}),
    "grid10": ("grid", {"g": 10}),
    "grid17": ("grid", {"g": 17}),
}


@pytest.fixture(scope="module")
def drawn():
    """3,000 raw latents of every stored support, [n, 10] each."""
    key = jax.random.key(1)
    return {
        case: np.asarray(supports.sample(key, 3000, name, **parameters))
        for case, (name, parameters) in CASES.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_distribution_of_each_latent_and_of_differences(golden, drawn, case):
    reference, latents = golden("sprites/samplers")[case], drawn[case]
    assert latents.shape == (3000, 10) and latents.dtype == np.float32
    assert latents.min() >= 0 and latents.max() <= 1
    for array in (lambda z: z, lambda z: z[:, :5] - z[:, 5:], lambda z: z[:, :5] + z[:, 5:]):
        for ours, theirs in zip(array(latents).T, array(reference).T):
            assert stats.ks_2samp(ours, theirs).pvalue > 1e-3


def plane_of(points, planes):
    """Index of the plane each point lies on exactly, -1 if none."""
    plane = np.full(len(points), -1)
    for index, (slot, coords) in enumerate(planes):
        other = points[:, 5:] if slot == 0 else points[:, :5]
        plane[np.all(other == np.float32(coords), axis=1)] = index
    return plane


@pytest.mark.parametrize(
    "case, planes",
    [("orthogonal", PLANES), ("orthogonal_broad", BROAD), ("orthogonal_gap", PLANES)],
)
def test_planes_hold_exactly_and_weigh_the_same_before_rejection(drawn, case, planes):
    plane = plane_of(drawn[case], planes)
    assert plane.min() == 0
    kept = np.ones(len(planes))
    if case == "orthogonal_gap":
        kept[0] = 0.6  # of the plane that varies the latent with the gap
    counts = np.bincount(plane, minlength=len(planes))
    assert stats.chisquare(counts, 3000 * kept / kept.sum()).pvalue > 1e-3
    # Shuffled: the first half looks like the second.
    table = [np.bincount(half, minlength=len(planes)) for half in (plane[:1500], plane[1500:])]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_gaps_are_empty(drawn):
    for case, gaps in (
        ("random_gap", CASES["random_gap"][1]["gaps"]),
        ("orthogonal_gap", CASES["orthogonal_gap"][1]["gaps"]),
    ):
        for dim, start, stop in gaps:
            latent = drawn[case][:, dim]
            assert not np.any((latent >= np.float32(start)) & (latent <= np.float32(stop)))
            assert np.any(latent < start) and np.any(latent > stop)


def test_a_plane_fixed_inside_a_gap_disappears():
    points = np.asarray(
        supports.sample(
            jax.random.key(0), 3000, "orthogonal_gap", planes=PLANES, gaps=((0, 0.45, 0.55),)
        )
    )
    assert set(plane_of(points, PLANES)) == {0, 1}


@pytest.mark.parametrize("case, delta", [("diagonal_005", 0.05), ("diagonal_02", 0.2)])
def test_diagonal_band_has_its_width(drawn, case, delta):
    apart = np.abs(drawn[case][:, :5] - drawn[case][:, 5:])
    assert apart.max() <= np.sqrt(2) * delta + 1e-6
    # Rejection thins the cube's border, where sprites far apart are lost first.
    assert 0.4 * np.sqrt(2) * delta < apart.mean() < 0.5 * np.sqrt(2) * delta


def test_diagonal_of_three_slots():
    points = supports.sample(jax.random.key(2), 3000, "diagonal", slots=(5, 5, 5), delta=0.2)
    z = np.asarray(points).reshape(-1, 3, 5)
    radius = np.linalg.norm(z - z.mean(axis=1, keepdims=True), axis=1)
    assert radius.max() <= 0.2 + 1e-6
    # Uniform on a disc around the diagonal, where the disc lies within the cube.
    centre = z.mean(axis=1)
    inner = radius[(centre > 0.2) & (centre < 0.8)]
    assert stats.kstest((inner / 0.2) ** 2, "uniform").pvalue > 1e-3


def test_grid_values(drawn):
    for g in (10, 17):
        values = np.unique(drawn[f"grid{g}"])
        np.testing.assert_allclose(values, np.linspace(0, 1, g), atol=1e-6)


def test_slots_of_different_sizes():
    points = np.asarray(supports.sample(jax.random.key(0), 3000, "orthogonal", slots=(5, 1)))
    varies_0, varies_1 = points[:, 5] == 0, np.all(points[:, :5] == 0, axis=1)
    assert points.shape == (3000, 6) and np.all(varies_0 ^ varies_1)


def test_a_sample_is_a_function_of_the_key():
    def draw(seed):
        return supports.sample(jax.random.key(seed), 3000, "diagonal", delta=0.1)

    np.testing.assert_array_equal(draw(0), draw(0))
    assert not np.any(draw(0) == draw(1))


def test_rare_points_are_found_in_further_rounds(monkeypatch):
    monkeypatch.setattr(supports, "_MIN_ROUND", 3000)  # a size that is compiled already
    gaps = tuple((dim, 0.1, 0.9) for dim in range(3))  # keeps 8 in 1000
    points = np.asarray(supports.sample(jax.random.key(0), 40, "random_gap", gaps=gaps))
    assert points.shape == (40, 10)
    assert np.all((points[:, :3] < 0.1) | (points[:, :3] > 0.9))


def test_grids_are_those_of_the_reference(golden):
    reference = golden("sprites/samplers")
    np.testing.assert_array_equal(supports.full_grid(3, 3), reference["full_grid_D21_g3"])
    np.testing.assert_array_equal(
        supports.face_grid(4, (0, 3), 4), reference["face_grid_D22_g4_dims_0_3"]
    )


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("diagnal", {"delta": 0.1}, "did you mean 'diagonal'"),
        ("random", {"n": 0}, "at least one sample"),
        ("random", {"slots": (5, 0)}, "positive sizes"),
        ("random", {"delta": 0.1}, "no parameter 'delta'"),
        ("diagonal", {}, "needs the parameter 'delta'"),
        ("diagonal", {"delta": 0.8}, "delta must lie between"),
        ("diagonal", {"delta": 0.1, "slots": (5, 4)}, "slots of one size"),
        ("orthogonal", {"planes": ((0, (1.0, 1.0)),)}, "needs 5 coordinates"),
        ("orthogonal", {"planes": ((2, ORIGIN),)}, "slots are 0 to 1"),
        ("orthogonal", {"planes": ((0, (2.0,) * 5),)}, r"raw latents in \[0, 1\]"),
        ("orthogonal", {"planes": ()}, "planes is empty"),
        ("orthogonal", {"distribution": "gauss"}, "'uniform' or 'normal'"),
        ("orthogonal", {"distribution": "normal", "mean": 9.0}, "move it inside"),
        ("orthogonal", {"distribution": "normal", "std": 0.0}, "std must be positive"),
        ("random_gap", {"gaps": ((10, 0.0, 0.5),)}, "latents are 0 to 9"),
        ("random_gap", {"gaps": ((0, 0.6, 0.5),)}, "after its end"),
        ("random_gap", {"gaps": ((0, 0.0, 1.0),), "n": 3000}, "nearly nothing"),
        ("grid", {"g": 1}, "two or more values"),
        ("grid", {"g": 2.5}, "a whole number"),
    ],
)
def test_bad_input_is_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        supports.sample(jax.random.key(0), options.pop("n", 10), name, **options)


@pytest.mark.parametrize(
    "name, slots, parameters",
    [
        ("random", (2, 3), {}),
        ("random_gap", (2, 2), {"gaps": ((0, 0.2, 0.6), (3, 0.0, 0.5))}),
        ("orthogonal", (2, 3), {"planes": ((0, (0.1, 0.2, 0.3)), (1, (0.5, 0.7)))}),
        ("orthogonal_gap", (2, 2), {"gaps": ((0, 0.3, 0.9),)}),
        ("diagonal", (2, 2, 2), {"delta": 0.1}),
        ("grid", (1, 2), {"g": 4}),
    ],
)
def test_samples_are_in_their_support_and_others_are_not(name, slots, parameters):
    points = supports.sample(jax.random.key(0), 300, name, slots, **parameters)
    assert supports.contains(points, name, slots, **parameters).all()
    elsewhere = np.asarray(jax.random.uniform(jax.random.key(1), (300, sum(slots))))
    inside = supports.contains(elsewhere, name, slots, **parameters)
    if name == "random":
        assert inside.all() and not supports.contains(elsewhere + 1, name, slots).any()
    elif name == "random_gap":
        outside = (elsewhere[:, 0] < 0.2) | (elsewhere[:, 0] > 0.6)
        np.testing.assert_array_equal(inside, outside & (elsewhere[:, 3] > 0.5))
    elif name == "diagonal":
        each = elsewhere.reshape(300, 3, 2)
        spread = np.sqrt(np.sum((each - each.mean(1, keepdims=True)) ** 2, axis=1)).max(1)
        np.testing.assert_array_equal(inside, spread <= 0.1)
    else:
        assert not inside.any()


@pytest.mark.parametrize("call", [supports.sample, supports.contains])
def test_an_unknown_support_names_the_nearest(call):
    first = (jax.random.key(0), 3) if call is supports.sample else (np.zeros((3, 10)),)
    with pytest.raises(ValueError, match="unknown support 'diagnoal': did you mean 'diagonal'?"):
        call(*first, "diagnoal", delta=0.1)
