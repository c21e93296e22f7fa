"""Training losses by epoch: their means, their largest rise, and a short curve for the record."""

import numpy as np

CURVE_POINTS = 200  # at most, of each seed


def epoch_means(losses: np.ndarray, length: int) -> np.ndarray:
    """Losses of single steps [steps, R] -> mean of each whole epoch [epochs, R]."""
    n_epochs = len(losses) // length
    return losses[: n_epochs * length].reshape(n_epochs, length, losses.shape[1]).mean(axis=1)


def largest_rise(means: np.ndarray) -> np.ndarray:
    """Mean losses by epoch [E, R] -> the largest relative rise above the least before it [R]."""
    least = np.minimum.accumulate(means, axis=0)[:-1]
    return np.max(means[1:] / least, axis=0, initial=1.0) - 1


def first_doubling(losses: np.ndarray, window: int, n_steps: int = 5) -> int:
    """The first step from which the median loss of n_steps is twice that of the window before it.

    losses [steps]; -1 where there is none.
    """
    for step in range(window, len(losses) - n_steps + 1):
        before, here = losses[step - window : step], losses[step : step + n_steps]
        if np.median(here) > 2 * np.median(before):
            return step
    return -1


def rounded(losses: np.ndarray) -> list[list[float]]:
    """Losses [n, R] -> one list a seed, four significant digits."""
    return [[float(f"{value:.4g}") for value in column] for column in np.transpose(losses)]


def recorded_curve(losses: np.ndarray, steps_each: int, steps_per_epoch: int) -> dict:
    """What a run's results keep of its logged losses [n, R], each the mean of `steps_each` steps.

    `largest_rise` compares whole epochs; it is None where logged means are longer than an epoch or
    do not divide it. `curve` has means of `curve_epochs` epochs each.
    """
    per_epoch, rest = divmod(steps_per_epoch, steps_each)
    if rest or not per_epoch:
        return {"largest_rise": None, "curve": None}
    means = epoch_means(losses, per_epoch)
    block = -(-len(means) // CURVE_POINTS) or 1
    return {
        "largest_rise": [round(float(rise), 4) for rise in largest_rise(means)]
        if len(means)
        else None,
        "curve": rounded(epoch_means(means, block)),
        "curve_epochs": block,
    }
