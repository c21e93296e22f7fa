"""Orderings that the paper claims, held against our runs by a paired test.

Runs of one seed are pairs. The test flips the signs of their differences, all 2^n ways where they
are few and else in draws, so it assumes only that they are symmetric; p is that of the claimed
direction alone, and claims are judged one by one. "holds" needs p < 0.05, "does not hold" p < 0.05
in the other direction, and everything else is underpowered: five seeds that all agree give
p = 1/32, four can give no verdict.
"""

import numpy as np

from cgjax.analysis import stats

LEVEL = 0.05


def judge(claims, metrics: dict) -> list[dict]:
    """Claims whose metrics a run has, with ours, p and a verdict; {name: (values, seeds)}."""
    found = []
    for claim in claims:
        sides = [claim["left"], claim["right"]]
        if any(isinstance(side, str) and side not in metrics for side in sides):
            continue
        left, seeds = metrics[sides[0]]
        right = metrics[sides[1]][0] if isinstance(sides[1], str) else np.full(len(left), sides[1])
        left, right = np.asarray(left, float), np.asarray(right, float)
        paired = len(left) == len(right)
        p, verdict, n = one_sided(left, right, claim["direction"]) if paired else unpaired(
            left, right, claim["direction"]
        )  # fmt: skip
        found.append({
            **{key: claim[key] for key in ("claim", "sentence", "where", "left", "direction")},
            "right": sides[1] if isinstance(sides[1], str) else f"{sides[1]:g}",
            "ours": _mean(left), "against": _mean(right), "p": p, "n": n, "verdict": verdict,
        })  # fmt: skip
    return found


def _mean(values):
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else None


def one_sided(left, right, direction: str) -> tuple:
    """(p, verdict, pairs) of left [n] above or below right [n], seed by seed."""
    difference = left - right if direction == "above" else right - left
    difference = difference[np.isfinite(difference)]
    if len(difference) < 2:
        return None, "underpowered", len(difference)
    both = stats.sign_flip_test(difference, np.arange(len(difference)))
    return _verdict(both, float(difference.mean()), len(difference))


def unpaired(left, right, direction: str, n: int = 1 << 14) -> tuple:
    """(p, verdict, all) of samples that are no pairs, such as guesses, by exchanging labels.

    It takes all samples for independent, also guesses that were checked on the same points.
    """
    left, right = (side[np.isfinite(side)] for side in (left, right))
    if min(len(left), len(right)) < 2:
        return None, "underpowered", len(left) + len(right)
    every, rng = np.concatenate([left, right]), np.random.default_rng(0)
    first = np.stack([rng.permutation(len(every))[: len(left)] for _ in range(n)])
    sums = every[first].sum(axis=1)
    means = sums / len(left) - (every.sum() - sums) / len(right)
    seen = left.mean() - right.mean()
    both = (1 + np.sum(np.abs(means) >= abs(seen) * (1 - 1e-9))) / (1 + n)
    return _verdict(float(both), seen if direction == "above" else -seen, len(every))


def _verdict(both: float, towards: float, n: int) -> tuple:
    # The signs' distribution is symmetric: half of the two-sided p is that of one side.
    p = both / 2 if towards > 0 else 1 - both / 2
    word = "holds" if p < LEVEL else "does not hold" if 1 - p < LEVEL else "underpowered"
    return float(p), word, n
