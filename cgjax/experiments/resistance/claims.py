"""Paired tests of the orderings that the paper claims, on our runs.

Runs of one seed are pairs. The test flips the signs of their differences: in all 2^n ways if n is
small, otherwise in random draws. It assumes only that the differences are symmetric. p is
one-sided, for the claimed direction. Each claim is judged on its own, without a correction for the
number of claims. "holds" needs p < 0.05, "does not hold" needs p < 0.05 in the other direction, and
everything else is "underpowered". Five seeds that all agree give p = 1/32; four seeds cannot give a
verdict.
"""

import numpy as np

from cgjax.analysis import stats

LEVEL = 0.05


def judge(claims, metrics: dict) -> list[dict]:
    """Claims whose metrics the run has, with our means, p and a verdict.

    metrics: {name: (values, seeds)}.
    """
    judged = []
    for claim in claims:
        sides = [claim["left"], claim["right"]]
        if any(isinstance(side, str) and side not in metrics for side in sides):
            continue
        left, seeds = metrics[sides[0]]
        right = metrics[sides[1]][0] if isinstance(sides[1], str) else np.full(len(left), sides[1])
        left, right = np.asarray(left, float), np.asarray(right, float)
        paired = len(left) == len(right)
        p, verdict, n = (
            one_sided(left, right, claim["direction"])
            if paired
            else unpaired(left, right, claim["direction"])
        )
        judged.append(
            {
                **{key: claim[key] for key in ("claim", "sentence", "where", "left", "direction")},
                "right": sides[1] if isinstance(sides[1], str) else f"{sides[1]:g}",
                "ours": _mean(left),
                "against": _mean(right),
                "p": p,
                "n": n,
                "verdict": verdict,
            }
        )
    return judged


def _mean(values):
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else None


def one_sided(left, right, direction: str) -> tuple:
    """(p, verdict, number of pairs) for left [n] above or below right [n], paired by seed."""
    difference = left - right if direction == "above" else right - left
    difference = difference[np.isfinite(difference)]
    if len(difference) < 2:
        return None, "underpowered", len(difference)
    two_sided = stats.sign_flip_test(difference, np.arange(len(difference)))
    return _verdict(two_sided, float(difference.mean()), len(difference))


def unpaired(left, right, direction: str, n: int = 1 << 14) -> tuple:
    """(p, verdict, number of samples) for unpaired samples, such as guesses, by permuted labels.

    The test treats all samples as independent, even guesses that were checked on the same points.
    """
    left, right = (side[np.isfinite(side)] for side in (left, right))
    if min(len(left), len(right)) < 2:
        return None, "underpowered", len(left) + len(right)
    pooled, rng = np.concatenate([left, right]), np.random.default_rng(0)
    first = np.stack([rng.permutation(len(pooled))[: len(left)] for _ in range(n)])
    sums = pooled[first].sum(axis=1)
    means = sums / len(left) - (pooled.sum() - sums) / len(right)
    observed = left.mean() - right.mean()
    two_sided = (1 + np.sum(np.abs(means) >= abs(observed) * (1 - 1e-9))) / (1 + n)
    return _verdict(float(two_sided), observed if direction == "above" else -observed, len(pooled))


def _verdict(two_sided: float, in_direction: float, n: int) -> tuple:
    # The null distribution is symmetric, so the one-sided p is half of the two-sided p.
    p = two_sided / 2 if in_direction > 0 else 1 - two_sided / 2
    verdict = "holds" if p < LEVEL else "does not hold" if 1 - p < LEVEL else "underpowered"
    return float(p), verdict, n
