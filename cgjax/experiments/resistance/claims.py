"""Tests of the orderings that the paper claims, on our runs, by the rule of `published.verdict`.

Runs of one seed are pairs: the test is Student's of their differences, otherwise Welch's. p is
two-sided. The claims of one run are a family of comparisons: `p_holm` is corrected for their
number, and decides.
"""

import numpy as np

from cgjax.published import verdict as verdicts


def judge(claims, metrics: dict) -> list[dict]:
    """Claims whose metrics the run has, with our means, p and a verdict.

    metrics: {name: (values, seeds)}.
    """
    judged, compared = [], []
    for claim in claims:
        sides = [claim["left"], claim["right"]]
        if any(isinstance(side, str) and side not in metrics for side in sides):
            continue
        left, right = (
            np.array([np.nan if value is None else value for value in metrics[side][0]], float)
            if isinstance(side, str)
            else float(side)
            for side in sides
        )
        some = bool(claim["only"])
        ordered = (left, right) if claim["direction"] == "above" else (right, left)
        options = {"paired": not some, "some": some, "comparisons": len(claims)}
        compared.append(verdicts.above(*ordered, **options))
        judged.append(
            {
                **{key: claim[key] for key in ("claim", "sentence", "where", "left", "direction")},
                "right": sides[1] if isinstance(sides[1], str) else f"{sides[1]:g}",
                "ours": _mean(left),
                "against": _mean(right),
                "p": compared[-1].p,
                "n": int(np.isfinite(left).sum()),
            }
        )
    return [
        claim | {"p_holm": verdict.p, "verdict": verdict.word}
        for claim, verdict in zip(judged, verdicts.corrected(compared))
    ]


def _mean(values) -> float | None:
    values = np.atleast_1d(values)
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None
