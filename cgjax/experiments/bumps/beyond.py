"""Analyses over all networks of a row: four definitions, data needed, phases, percolation.

Each function maps (config, metrics, arrays) of the row's parts to further metrics
{name: (values, seeds)} and further arrays.
"""

import itertools

import numpy as np

from cgjax.analysis import stats
from cgjax.config import parts
from cgjax.experiments.bumps import efficiency, percolation, sets, training
from cgjax.experiments.bumps.analyses import WORDS as _WORDS

ACCURACY = "ood position accuracy"
WORDS = tuple(_WORDS)
FEWEST = 12  # networks needed for an interval of their rank correlation


def _by_cell(config, metrics, name: str) -> dict:
    """{part: [seeds, cells]} of one metric."""
    by_part = {}
    for part, settings in parts(config):
        prefix = f"{part}/" if part else ""
        cells = training.cells(settings, sets.make(settings).axes)
        columns = [
            metrics[prefix + (f"{cell.name}: " if cell.name else "") + name][0] for cell in cells
        ]
        by_part[part] = np.stack(columns, axis=1)
    return by_part


def needed(config, metrics, arrays):
    """Bumps needed to place 60 % of those in the hole, by image size, and the power of that growth.

    One result per kind of hole, with and without stripes. Sizes that never reach 60 %, and sizes
    for which the smallest set suffices, are censored.
    """
    accuracy = _by_cell(config, metrics, ACCURACY)
    sides = np.array([settings.data.n for _, settings in parts(config)])
    first = parts(config)[0][1].data
    shape = len(first.regions), len(first.copies), len(first.shares)
    bumps_needed, numbers, tried, reached = [], {}, [], []
    for part, settings in parts(config):
        shown, seeds = sets.make(settings), settings.train.seeds
        n_bumps = np.array(
            [
                np.isin(shown.of(seeds[0], cell).rows, shown.points).sum()
                for cell in training.set_words(shown.axes)
            ]
        ).reshape(shape)
        scores = accuracy[part].reshape(-1, *shape)  # [seeds, regions, copies, shares]
        tried, reached = [*tried, n_bumps], [*reached, scores]
        bumps_needed.append(
            [
                [
                    [efficiency.data_needed(n_bumps[r, c], of_seed[r, c]) for of_seed in scores]
                    for c in range(shape[1])
                ]
                for r in range(shape[0])
            ]
        )
    bumps_needed = np.array(bumps_needed)  # [sizes, regions, copies, seeds]
    for r, c in np.ndindex(shape[:2]):
        power = efficiency.exponent(sides, bumps_needed[:, r, c])
        prefix = f"hole {r + 1}, {'stripes' if first.copies[c] else 'no stripes'}: "
        for name in ("slope", "low", "high", "n_points", "n_censored", "n_enough"):
            label = {"slope": "exponent", "low": "exponent, 2.5 %", "high": "exponent, 97.5 %"}
            numbers[prefix + label.get(name, name.replace("_", " "))] = (
                [getattr(power, name)],
                [0],
            )
    more = {"needed": bumps_needed, "sides": sides}
    more |= {"copies": np.array(first.copies), "shares": np.array(first.shares)}
    more |= {"n_bumps": np.array(tried), "accuracy": np.array(reached)}
    return numbers, more


def phase(config, metrics, arrays):
    """Rank correlation of OOD errors with F_K of the images on the trained frame, and in the hole.

    Cells are sizes of the hole and numbers of stripes. The interval is a bootstrap over networks;
    it is NaN for fewer than FEWEST networks.
    """
    error = _by_cell(config, metrics, "ood nmse")[""]
    numbers, taus = {}, {}
    for where in ("frame", "hole"):
        share = _by_cell(config, metrics, f"F_K {where}, image")[""]
        known = np.isfinite(share) & np.isfinite(error)
        columns = share[known], error[known]
        # With few networks, draws with replacement repeat the same few pairs.
        enough = len(columns[0]) >= FEWEST
        low, high = (
            stats.bootstrap(stats.kendall_tau_b, *columns, n=500) if enough else (np.nan, np.nan)
        )
        prefix = f"F_K {where} and OOD nMSE: "
        tau = stats.kendall_tau_b(*columns)
        numbers[prefix + "tau-b"] = ([tau], [0])
        taus[f"phase/tau {where}"] = np.array([tau, low, high])
        numbers[prefix + "2.5 %"], numbers[prefix + "97.5 %"] = ([low], [0]), ([high], [0])
    shape = len(config.train.seeds), len(config.data.regions), len(config.data.copies)
    names = {
        "nmse": "ood nmse",
        "accuracy": ACCURACY,
        "F_K hole": "F_K hole, image",
        "F_K frame": "F_K frame, image",
        "peak": "ood peak height",
    }
    more = {f"phase/{k}": _by_cell(config, metrics, v)[""].reshape(shape) for k, v in names.items()}
    more["phase/sides"] = np.array(
        [sets.parse(region, config.data.n).any(axis=(0, 1)).sum() for region in config.data.regions]
    )
    more["phase/copies"] = np.array(config.data.copies)
    return numbers, more | taus


def percolate(config, metrics, arrays):
    """The largest cluster of the kept bumps, and the accuracy of networks trained on them."""
    accuracy = _by_cell(config, metrics, ACCURACY)
    more, numbers = {}, {}
    for part, settings in parts(config):
        data, rng = settings.data, np.random.default_rng(0)
        ratio = [
            percolation.mass_ratio(rng, data.n, share, data.sigmas[0]).mean()
            for share in data.shares
        ]
        placed = accuracy[part].mean(axis=0)
        prefix = f"{part}/" if part else ""
        more |= {f"{prefix}mass_ratio": np.array(ratio), f"{prefix}accuracy": accuracy[part]}
        more[f"{prefix}shares"] = np.array(data.shares)
        # The share at which each curve reaches one half: no parameter is fitted.
        for what, curve in (("are placed", placed), ("hang together", ratio)):
            bound, share = _half(data.shares, curve)
            numbers[f"{prefix}share at which half {what}{bound}"] = ([share], [0])
    return numbers, more


def _half(shares, values) -> tuple[str, float]:
    """(label, share) at which a rising curve first reaches 1/2.

    The result is an upper bound if the smallest share already reaches 1/2, and a lower bound if the
    largest does not; the label then says so.
    """
    share = efficiency.data_needed(np.asarray(shares), np.asarray(values), 0.5)
    if share == 0:
        return ", at most", shares[0]
    return (", more than", shares[-1]) if np.isinf(share) else ("", share)


def words(config, metrics, arrays):
    """Rank correlations (tau-b) between the scores in WORDS, over all cells of the table."""
    by_score = {word: _by_cell(config, metrics, word) for word in WORDS}
    table = np.stack(
        [np.concatenate([values[0] for values in of.values()]) for of in by_score.values()]
    )
    numbers, taus = {}, np.eye(len(WORDS))
    for i, j in itertools.combinations(range(len(WORDS)), 2):
        known = np.isfinite(table[i]) & np.isfinite(table[j])
        pair = f"{WORDS[i]} and {WORDS[j]}: tau-b"
        taus[i, j] = taus[j, i] = stats.kendall_tau_b(table[i][known], table[j][known])
        numbers[pair] = ([taus[i, j]], [0])
    cells = [
        "/".join(filter(None, (part, cell.name)))
        for part, settings in parts(config)
        for cell in training.cells(settings, sets.make(settings).axes)
    ]
    more = {"words": table, "word_cells": np.array(cells), "word_names": np.array(WORDS)}
    return numbers, more | {"word_taus": taus}


AFTERWARDS = {"table": words, "needed": needed, "phase": phase, "percolation": percolate}
