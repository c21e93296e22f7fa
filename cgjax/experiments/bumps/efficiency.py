"""How much data a network needs to compose, and how that grows with the size of the image.

Accuracy is measured for several training-set sizes. The data needed is the smallest size whose
accuracy reaches a threshold (60 % of positions). The paper claims that it grows like N^3 without
isolated factors in the data and like N with them: slopes 3 and 1 on logarithmic axes.
"""

from typing import NamedTuple

import numpy as np
import scipy.special

from cgjax.core.errors import BadInput

THRESHOLD = 0.6


def data_needed(sizes: np.ndarray, accuracy: np.ndarray, threshold: float = THRESHOLD) -> float:
    """The training-set size at which accuracy first reaches the threshold.

    sizes: increasing [m]. accuracy: [m]. Accuracy is interpolated linearly in the logarithm of the
    size. Two results mark censored cases: inf if no size reaches the threshold (more data than the
    largest size is needed), 0 if the smallest size already reaches it.
    """
    sizes, accuracy = np.asarray(sizes, float), np.asarray(accuracy, float)
    if sizes.ndim != 1 or sizes.shape != accuracy.shape or not len(sizes):
        raise BadInput(f"sizes and accuracy must be [m], got {sizes.shape} and {accuracy.shape}")
    if np.any(np.diff(sizes) <= 0) or sizes[0] <= 0:
        raise BadInput("sizes must be positive and must increase")
    reached = accuracy >= threshold
    if not reached.any():
        return float("inf")
    i = int(np.argmax(reached))
    if i == 0:
        return 0.0
    share = (threshold - accuracy[i - 1]) / (accuracy[i] - accuracy[i - 1])
    low, high = np.log(sizes[i - 1 : i + 1])
    return float(np.exp(low + share * (high - low)))


class Exponent(NamedTuple):
    """The slope of log(needed) on log(n), with its interval over seeds."""

    slope: float
    low: float
    high: float
    n_points: int  # pairs (image size, seed) in the fit
    n_censored: int  # pairs left out: threshold never reached
    n_enough: int  # pairs left out: the smallest size suffices


def exponent(
    n: np.ndarray, needed: np.ndarray, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> Exponent:
    """The power with which `needed` [sizes, seeds] grows with image sizes n [sizes].

    Least squares on logarithms. The interval is slope +- t sd, from draws of seeds with
    replacement, independent for each image size. sd is their deviation times sqrt(seeds / (seeds -
    1)); t has (seeds - 1) degrees of freedom for each size that carries the slope. The slope is NaN
    if fewer than two sizes have a point, the interval if there is one seed. Censored points (inf
    and 0) are left out; this makes the slope too small if large images are the ones that fail, so
    read it together with n_censored and n_enough.
    """
    n, needed = np.asarray(n, float), np.asarray(needed, float)
    if n.ndim != 1 or needed.ndim != 2 or len(n) != len(needed) or needed.size == 0:
        raise BadInput(
            f"n must be [sizes], needed [sizes, seeds], got {n.shape} and {needed.shape}"
        )
    if np.any(n <= 0) or np.any(needed < 0) or np.any(np.isnan(needed)):
        raise BadInput(
            "n and needed must be positive; use inf where the threshold is never reached"
        )
    rng = np.random.default_rng(seed)
    picks = rng.integers(needed.shape[1], size=(draws, *needed.shape))
    slopes = [_slope(n, np.take_along_axis(needed, pick, axis=1)) for pick in picks]
    known = np.array([slope for slope in slopes if np.isfinite(slope)])
    slope, more = _slope(n, needed), needed.shape[1] - 1
    half = np.nan
    if len(known) > 1 and more:
        # Sizes at the ends carry most of the slope, those in the middle hardly any.
        pull = (np.log(n) - np.log(n).mean()) ** 2
        degrees = more * pull.sum() ** 2 / np.sum(pull**2)
        half = known.std(ddof=1) * np.sqrt(1 + 1 / more)
        half *= scipy.special.stdtrit(degrees, (1 + level) / 2)
    n_censored, n_enough = int(np.sum(np.isinf(needed))), int(np.sum(needed == 0))
    n_points = needed.size - n_censored - n_enough
    return Exponent(slope, slope - half, slope + half, n_points, n_censored, n_enough)


def _slope(n, needed):
    points = np.isfinite(needed) & (needed > 0)
    x = np.broadcast_to(np.log(n)[:, None], needed.shape)[points]
    y = np.log(needed[points])
    if len(x) == 0 or np.ptp(x) == 0:
        return float("nan")
    x = x - x.mean()
    return float(x @ y / (x @ x))
