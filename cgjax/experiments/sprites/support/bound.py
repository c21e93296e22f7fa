"""Is `amplification` a bound on how much errors grow outside the support, and is it tight?

A model fits f on P only approximately. To first order the squared error on Q is then at most
`amplification` times that on P, at a noise of the size of the error on P. The noise is the bound's
only free number: a larger one gives a smaller bound. Every recorded run of the published model is
compared with it: the ratio of its errors, all combinations over its support, seed by seed.

Three ways to set the noise: a grid of fixed values; the run's relative error on P; and, as a test
on supports that had no part in the choice, the largest value at which no run on any other support
exceeds its bound. Low seeds count apart: those that do not fit P, whose front network leaks (its
empty pixels are not dark enough to show what is behind them), or that draw a ghost.
"""

import pathlib
from typing import NamedTuple

import numpy as np

from cgjax.analysis import stats
from cgjax.analysis.support import identification
from cgjax.core.logging import say
from cgjax.experiments.sprites import sets
from cgjax.experiments.sprites.support import openness, studies

NEAR = 5.0  # a bound is tight if it is at most so many times the ratio
FINE = 121  # noises at which the bound is read, between those at which it is computed
LEAK = -1.28  # colour sum of empty front pixels above which the front covers part of the back


class Run(NamedTuple):
    """One seed of a recorded run."""

    row: str
    support: int  # index
    ratio: float  # squared error on all combinations over that on P
    error: float  # relative error on P: root of 1 - R2
    is_low: bool


def recorded_runs(entries: list[dict]) -> list[Run]:
    """Every seed of recorded runs."""
    supports, runs = list(dict.fromkeys(map(studies.support_of, entries))), []
    for entry in entries:
        on_all, on_p, r2 = (
            np.array(entry["metrics"][name]["values"]) for name in ("mse_all", "mse_id", "r2_id")
        )
        model = entry.get("models", {}).get("compositional", {})
        leak, ghost = (
            np.array(model.get(name) or [-np.inf] * len(r2), float)
            for name in ("front_background", "front_ghost")
        )
        is_low = (leak > LEAK) | (ghost > 0) | (r2 < r2.max() - openness.FITS)
        support = supports.index(studies.support_of(entry))
        values = zip(on_all / on_p, np.sqrt(1 - r2), is_low)
        runs += [Run(entry["row"], support, *map(float, v[:2]), bool(v[2])) for v in values]
    return runs


def record_numbers(runs: list[Run]) -> dict[str, float]:
    """What the result takes from the record: a recorded result is stale if they have changed."""
    ratios, errors = (np.array([getattr(run, name) for run in runs]) for name in ("ratio", "error"))
    return {
        "runs": sum(not run.is_low for run in runs),
        "low runs": sum(run.is_low for run in runs),
        "supports": len({run.support for run in runs}),
        "ratio, geometric mean": np.exp(np.mean(np.log(ratios))),
        "error of the run, geometric mean": np.exp(np.mean(np.log(errors))),
    }


def amplifications(config, definition) -> np.ndarray:
    """[noises] squared error on all combinations over that on a support, to first order."""
    size, n = config.data.image_size, config.data.n_pixels
    _, weights = openness.pixels(size, n)
    components = [openness.sprite(size, n)] * 2
    samples = openness.samples(config, definition)
    left = identification.leftover(
        openness.occlude,
        components,
        *samples,
        config.data.length,
        config.data.noises,
        openness.KINDS,
    )
    return (left.on_q.mean(2) @ weights) / (left.on_p.mean(2) @ weights)


def calibrated(slack: np.ndarray) -> int:
    """Index of the largest noise at which no run exceeds its bound; 0 if there is none.

    slack [runs, noises]: bound over ratio.
    """
    holds = np.all(slack >= 1, axis=0)
    return int(np.flatnonzero(holds)[-1]) if holds.any() else 0


def compared(slack: np.ndarray) -> dict[str, float]:
    """Of runs [n]: how many exceed their bound, and the share of bounds that are tight."""
    return {
        "runs above the bound": np.sum(slack < 1),
        "share within a factor 5": np.mean((slack >= 1) & (slack <= NEAR)),
    }


def study(config):
    """The bound against the ratios of all recorded runs."""
    folder = pathlib.Path(config.data.record or studies.RECORD)
    entries = studies.usual_runs(folder)[: config.data.n_recorded]
    by_support = {studies.support_of(entry): entry for entry in reversed(entries)}
    order = list(dict.fromkeys(map(studies.support_of, entries)))
    bounds = []
    for text in order:
        definition = sets.definition(by_support[text]["config"]["data"])
        bounds.append(amplifications(config, definition))
        numbers = ", ".join(f"{value:.3g}" for value in bounds[-1])
        say(f"{by_support[text]['row']}: amplification {numbers}")
    runs = recorded_runs(entries)
    kept, low = ([run for run in runs if run.is_low == is_low] for is_low in (False, True))
    noises = np.geomspace(config.data.noises[0], config.data.noises[-1], FINE)
    fine = np.exp(
        [np.interp(np.log(noises), np.log(config.data.noises), np.log(b)) for b in bounds]
    )
    ratio, error = (np.array([getattr(run, name) for run in kept]) for name in ("ratio", "error"))
    support = np.array([run.support for run in kept])
    slack = fine[support] / ratio[:, None]
    results = record_numbers(runs)
    for noise, column in zip(config.data.noises, slack[:, _nearest(noises, config.data.noises)].T):
        results |= {f"noise {noise:g}: {name}": v for name, v in compared(column).items()}
    own = slack[np.arange(len(kept)), _nearest(noises, error)]
    results |= {f"error of the run: {name}": v for name, v in compared(own).items()}
    chosen = np.array([calibrated(slack[support != k]) for k in support])
    left_out = slack[np.arange(len(kept)), chosen]
    results |= {f"calibrated: {name}": v for name, v in compared(left_out).items()}
    results["calibrated: noise"] = noises[calibrated(slack)]
    results["calibrated: low runs above the bound"] = np.sum(
        [run.ratio > fine[run.support, calibrated(slack)] for run in low]
    )
    at = fine[:, calibrated(slack)]
    results["tau-b(bound, ratio)"] = stats.kendall_tau_b(at[support], ratio)
    sentence = (
        f"{len(kept)} runs on {len(order)} supports: with the noise calibrated on the other "
        f"supports {results['calibrated: runs above the bound']:.0f} exceed the bound, "
        f"{results['calibrated: share within a factor 5']:.0%} are within a factor {NEAR:g} of it"
    )
    say(sentence)
    arrays = {"noises": noises, "ratio": ratio, "bound": at[support], "support": support}
    arrays |= {
        "above": np.mean(slack < 1, axis=0),
        "tight": np.mean((slack >= 1) & (slack <= NEAR), axis=0),
        "rows": np.array([run.row for run in kept]),
        "low/ratio": np.array([run.ratio for run in low]),
        "low/bound": np.array([at[run.support] for run in low]),
    }
    return results, arrays, [sentence]


def _nearest(grid, values) -> np.ndarray:
    """Indices of the grid's values nearest to others, by logarithms."""
    return np.abs(np.log(grid)[None] - np.log(np.clip(values, grid[0], grid[-1]))[:, None]).argmin(
        1
    )
