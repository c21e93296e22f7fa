"""Scores of painted bumps: stored similarities, and cases whose answer is known."""

import functools

import jax
import numpy as np
import pytest

from cgjax.core import metrics
from cgjax.experiments.bumps import scenes, scores

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
