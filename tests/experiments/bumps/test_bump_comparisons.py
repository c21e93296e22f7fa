"""Analyses over all networks of a row: shares that are bounds, penalties at equal ID errors."""

import functools

import jax
import numpy as np
import pytest

from cgjax import config as configs
from cgjax.core import metrics
from cgjax.core.errors import BadInput
from cgjax.experiments.bumps import run, scenes, scores, sets, training
from cgjax.experiments.bumps.studies import comparisons


def test_a_share_outside_of_those_tried_is_told_as_a_bound():
    shares = (0.1, 0.2, 0.4)
    assert comparisons._half(shares, [0.0, 0.5, 1.0]) == ("", pytest.approx(0.2))
    assert comparisons._half(shares, [0.6, 0.8, 1.0]) == (", at most", 0.1)
    assert comparisons._half(shares, [0.0, 0.1, 0.4]) == (", more than", 0.4)


def test_starts_are_chosen_by_training_errors():
    """The start with the least ID error counts, whatever its OOD error; axes have no sign."""
    config = configs.load("bumps:axes,smoke", {"train.seeds": "0,1"})
    arrays, last = {}, {
        "id_nmse": [[0.5, 0.1, 0.2], [0.5, 0.3, 0.01]], "axis_x": [[0, 46, 45], [0, 9, -135]],
        "ood_nmse": [[1, 5, 0.01], [1, 6, 0.02]], "axis_y": [[0, -44, 9], [0, 9, 130]],
    }  # fmt: skip
    for part, _ in configs.parts(config):
        arrays[f"{part}/cells"] = np.array(["no penalty", *("learned_axis" + s for s in " +")])
        for name, values in last.items():
            arrays[f"{part}/history/{name}"] = np.array([values, values], float)
    numbers, more = comparisons.axes(config, {}, arrays)
    for name, expected in (
        ("no penalty: ood nmse", [1, 1]),
        ("learned axes: ood nmse", [5, 0.02]),
        ("learned axes: id nmse", [0.1, 0.01]),
        ("learned axes: axis error", [1, 5]),
        ("learned axes: share of starts that compose", [0.5, 0.5]),
    ):
        np.testing.assert_allclose(numbers[f"angle_45/{name}"][0], expected)
    np.testing.assert_array_equal(more["axes/angle_45/learned axes/ood_nmse"], [5, 0.02])


def test_a_start_without_an_error_is_not_chosen():
    """A network that diverged has no ID error; it does not fit training best."""
    config = configs.load("bumps:axes,smoke", {"train.seeds": "0,1"})
    arrays, last = {}, {
        "id_nmse": [[0.5, np.nan, 0.2], [0.5, np.nan, np.nan]], "axis_x": np.zeros((2, 3)),
        "ood_nmse": [[1, np.nan, 3], [1, np.nan, np.nan]], "axis_y": np.zeros((2, 3)),
    }  # fmt: skip
    for part, _ in configs.parts(config):
        arrays[f"{part}/cells"] = np.array(["no penalty", *("learned_axis" + s for s in " +")])
        for name, values in last.items():
            arrays[f"{part}/history/{name}"] = np.array([values], float)
    numbers, _ = comparisons.axes(config, {}, arrays)
    np.testing.assert_array_equal(numbers["angle_45/learned axes: ood nmse"][0], [3, np.nan])


def test_a_network_without_a_score_does_not_reach_a_criterion(monkeypatch):
    """A network that diverged has no error; more bumps than its set has are needed."""
    config = configs.load("bumps:needed,smoke", {"data.bumps": "3,9"})
    # [seeds, cells]: without stripes, then with them, each with 3 and 9 bumps
    of_network = {"ood exact position": [0.0, 1, 0, 1], "ood nmse": [np.nan, 0.1, np.nan, 0.1]}
    names = [part for part, _ in configs.parts(config)]

    def by_cell(config, metrics, score):
        return {part: np.array([of_network[score]] * 2) for part in names}

    monkeypatch.setattr(comparisons, "_by_cell", by_cell)
    few = functools.partial(comparisons.exponent, draws=10)
    monkeypatch.setattr(comparisons, "exponent", few)
    numbers, arrays = comparisons.needed(config, {}, {})
    np.testing.assert_allclose(arrays["needed/error"], 9)
    assert numbers["stripes, error: n points"] == ([4], [0])


def test_scores_that_no_network_has_give_no_correlation():
    """F_K on the frame is NaN if fewer than two rows are trained at every column."""
    config = configs.load("bumps:phase,smoke", {"train.seeds": "0,1", "data.regions": "donut_2_6"})
    numbers = {"ood nmse": 0.5, "F_K frame, image": np.nan, "F_K hole, image": 0.5}
    numbers |= {"ood position accuracy": 1.0, "ood peak height": 1.0}
    cells = training.cells(config, sets.make(config).axes)
    metrics = {
        f"{cell.name}: {name}": ([value, value], [0, 1])
        for cell in cells
        for name, value in numbers.items()
    }
    found, _ = comparisons.phase(config, metrics, {})
    assert np.isnan(found["F_K frame and OOD nMSE: tau-b"][0])


@pytest.mark.parametrize(
    "row, changes, words",
    [
        ("needed", {"data.bumps": (9, 3)}, "data.bumps must rise"),
        ("percolation", {"data.shares": (1.0, 0.5)}, "data.shares must rise"),
        ("percolation", {"data.copies": (1, 2)}, "one value of data.copies"),
        ("phase", {"data.shares": (0.5, 1.0)}, "one value of data.shares"),
        ("phase", {"eval.layers": False}, "needs eval.layers"),
        ("table", {"eval.words": False}, "needs eval.words"),
        ("axes", {"data.shares": (0.5, 1.0)}, "one value of data.shares"),
        ("axes_embed", {"reg.learned_axis": (0.0,), "reg.fixed_axis": (0.0,)}, "an axis"),
        ("entangling", {"eval.factors": False}, "needs eval.factors"),
        ("entangling", {"train.steps": 2000, "eval.every": 1000}, "step 1,260"),
    ],
)
def test_what_a_comparison_needs_is_checked_before_training(row, changes, words):
    config = configs.load(f"bumps:{row},smoke")
    run.check(config)
    with config.unlocked():
        config.update_from_flattened_dict(changes)
    with pytest.raises(BadInput, match=words):
        run.check(config)


def test_penalties_are_compared_at_equal_id_errors():
    """The first evaluation below the level counts; a seed that never reaches it does not."""
    config = configs.load("bumps:flatness,smoke")
    arrays = {}
    for part, _ in configs.parts(config):
        arrays[f"{part}/cells"] = np.array(["free", "flat"])
        errors = np.array([[1.0, 1.0], [0.04, 0.3], [0.009, 0.2]])  # [steps, seeds]
        arrays[f"{part}/history/id_nmse"] = np.stack([errors, errors[:, ::-1]], axis=-1)
        arrays[f"{part}/history/ood_nmse"] = np.arange(12.0).reshape(3, 2, 2)
    numbers, _ = comparisons.flatness(config, {}, arrays)
    for name, expected in (
        ("free: ood nmse at id nmse 0.05", [4, np.nan]),
        ("free: ood nmse at id nmse 0.01", [8, np.nan]),
        ("flat: ood nmse at id nmse 0.05", [np.nan, 7]),
        ("flat: reached id nmse 0.01", [0, 1]),
        ("flat: ood nmse, median", [10]),
    ):
        np.testing.assert_array_equal(numbers[f"main/{name}"][0], expected)


# --- scores ---------------------------------------------------------------------------------------
# Scores of painted bumps: stored similarities, and cases whose answer is known.


N, SIGMA = 28, 1.0
XY = np.array([[3, 20], [15, 7], [9, 9]])


def test_stored_similarities(golden):
    stored = golden("bumps/similarity")
    with jax.enable_x64(True):
        positive = scenes.bump(stored["xy"], N, SIGMA, inverted=False)
        cosine, distance, overlap = map(
            jax.jit, (scores.cosine, scores.distance, scores.pixel_overlap)
        )
        similarities = {
            "cosine_positive": np.asarray(cosine(positive)),
            "l2": np.asarray(distance(positive)),
            "overlap_inverted_thr_0p3": np.asarray(overlap(1 - positive)),
        }
    for name, values in similarities.items():
        np.testing.assert_allclose(values, stored[name], rtol=1e-10, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("inverted", [True, False])
def test_scores_of_what_is_right_blank_or_elsewhere(inverted):
    truth, swapped = (scenes.bump(xy, N, SIGMA, inverted) for xy in (XY, XY[:, ::-1]))
    right = scores.all_scores(truth, truth, XY, inverted)
    assert right["mse"] == right["median_mse"] == right["nmse"] == right["position_error"] == 0
    assert right["position_accuracy"] == 1 and right["peak_height"] == 1
    np.testing.assert_allclose(right["ssim_error"], 0, atol=1e-6)
    truth = np.asarray(truth)
    blank = scores.all_scores(truth, np.full(truth.shape, np.float32(inverted)), XY, inverted)
    np.testing.assert_allclose(blank["nmse"], 1, rtol=1e-6)
    assert blank["peak_height"] == 0
    # x and y exchanged: only the bump on the diagonal stays where it is.
    exchanged = scores.all_scores(truth, swapped, XY, inverted)
    np.testing.assert_allclose(exchanged["position_error"], 25 * 2**0.5 / 3, rtol=1e-6)
    np.testing.assert_allclose(exchanged["position_accuracy"], 1 / 3, rtol=1e-6)
    faint = scores.all_scores(truth, (truth + np.float32(inverted)) / 2, XY, inverted)
    np.testing.assert_allclose(faint["nmse"], 0.25, rtol=1e-5)
    np.testing.assert_allclose(faint["peak_height"], 0.5, rtol=1e-6)


def test_one_pixel_off_is_near_and_two_are_not():
    for step, accuracy in ((1, 1.0), (2, 0.0)):
        painted = scenes.bump(XY + [step, -1], N, SIGMA)
        found = scores.all_scores(painted, painted, XY, True)
        assert found["position_accuracy"] == accuracy


def ssim_by_loops(a, b):
    """Wang et al. 2004 with 7 x 7 uniform windows and unbiased moments, window by window."""
    values = []
    for i in range(a.shape[0] - 6):
        for j in range(a.shape[1] - 6):
            x, y = a[i : i + 7, j : j + 7].ravel(), b[i : i + 7, j : j + 7].ravel()
            cov = np.cov(x, y)
            means = (2 * x.mean() * y.mean() + 1e-4) / (x.mean() ** 2 + y.mean() ** 2 + 1e-4)
            values.append(means * (2 * cov[0, 1] + 9e-4) / (cov[0, 0] + cov[1, 1] + 9e-4))
    return np.mean(values)


def test_ssim_is_that_of_every_window():
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 3, 12, 10))
    b[1] = 0.9 * a[1]
    expected = [ssim_by_loops(x, y) for x, y in zip(a, b)]
    ssim = jax.jit(metrics.ssim)
    np.testing.assert_allclose(ssim(a, b), expected, rtol=1e-5)
    np.testing.assert_allclose(ssim(a[0], b[0]), expected[0], rtol=1e-5)
    scaled = jax.jit(functools.partial(metrics.ssim, data_range=10.0))(10 * a, 10 * b)
    np.testing.assert_allclose(scaled, expected, rtol=1e-5)
