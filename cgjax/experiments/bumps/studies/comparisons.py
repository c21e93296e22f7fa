"""Analyses over all networks of a row.

Four definitions, data needed, phases, percolation, penalties at equal ID errors, F along training.

Each function maps (config, metrics, arrays) of the row's parts to further metrics
{name: (values, seeds)} and further arrays.
"""

import itertools
import math

import numpy as np

from cgjax.analysis import stats
from cgjax.analysis.data_needed import data_needed, exponent
from cgjax.config import parts
from cgjax.core.errors import BadInput
from cgjax.core.program import Due
from cgjax.experiments.bumps import sets, training
from cgjax.experiments.bumps.studies.analyses import WORDS as _WORDS

ACCURACY = "ood position accuracy"

WORDS = tuple(_WORDS)

FEWEST = 12  # networks needed for an interval of their rank correlation


# What a study needs of every part: one value of these keys of data, rising values of a key, and a
# key of eval that is switched on.
SINGLE = {
    "percolation": ("regions", "copies"),
    "phase": ("shares",),
    **dict.fromkeys(("axes", "entangling"), ("regions", "copies", "shares")),
}
RISING = {"needed": "bumps", "percolation": "shares"}
SWITCHED_ON = {"table": "words", "phase": "layers", "entangling": "factors"}


def check(config) -> None:
    """Raises an error unless the study can compare the networks of every part."""
    for name, settings in parts(config):
        problem = _problem(config.study, settings)
        if problem:
            prefix = f"part '{name}': " if name else ""
            raise BadInput(f"{prefix}data and eval of row '{config.row}': {problem}")


def _problem(study: str, settings) -> str:
    """What the study lacks, or an empty text."""
    data = settings.data
    for key in SINGLE.get(study, ()):
        if len(data[key]) > 1:
            return f"the study compares networks at one value of data.{key}, got {data[key]}"
    rising = data[RISING[study]] if study in RISING else ()
    if list(rising) != sorted(rising):
        return f"data.{RISING[study]} must rise, got {rising}"
    if study in SWITCHED_ON and not settings.eval[SWITCHED_ON[study]]:
        return f"the study needs eval.{SWITCHED_ON[study]}"
    if study == "axes" and not any(any(settings.reg[name]) for name in training.OF_AXES):
        return "the study needs a penalty along an axis, reg.fixed_axis or reg.learned_axis"
    if study == "entangling":
        missing = [n for n in _lengths(settings.train.steps) if not Due(settings).evaluation(n)]
        if missing:
            return f"the study needs an evaluation at step {missing[0]:,}: see eval.every"
    return ""


def _tau(x, y) -> float:
    """Kendall's tau-b; NaN for fewer than two pairs."""
    return stats.kendall_tau_b(x, y) if len(x) > 1 else math.nan


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


# --- data needed ----------------------------------------------------------------------------------
#
# Accuracy is measured for several training-set sizes. The data needed is the smallest size whose
# accuracy reaches a threshold. The paper claims that it grows like N^3 without isolated factors in
# the data and like N with them: slopes 3 and 1 on logarithmic axes.

WORST = -1e9
# criterion: (score, least value); the error's sign is changed, so that both scores rise with data
CRITERIA = {"position": ("ood exact position", 0.6), "error": ("ood nmse", -0.5)}


def needed(config, metrics, arrays):
    """Bumps needed by image size, with and without stripes, and the power of that growth.

    Two criteria: 60 % of the held-out spots have their extremum at the right pixel, and OOD nMSE is
    0.5. Sizes that never reach a criterion, and sizes for which the smallest set suffices, are
    censored.
    """
    sides = np.array([settings.data.n for _, settings in parts(config)])
    data, numbers, more = parts(config)[0][1].data, {}, {}
    for criterion, (name, least) in CRITERIA.items():
        scores = np.stack(list(_by_cell(config, metrics, name).values()))
        scores = scores.reshape(*scores.shape[:2], len(data.copies), len(data.bumps))
        scores = np.copysign(scores, least)  # [sizes, seeds, copies, bumps]
        # A network that diverged has no score, and does not reach the criterion.
        scores = np.where(np.isfinite(scores), scores, WORST)
        bumps_needed = np.apply_along_axis(
            lambda values, least: data_needed(data.bumps, values, least), -1, scores, least
        )
        for c, copies in enumerate(data.copies):
            power = exponent(sides, bumps_needed[:, :, c])
            prefix = f"{'stripes' if copies else 'no stripes'}, {criterion}: "
            labels = {"slope": "exponent", "low": "exponent, 2.5 %", "high": "exponent, 97.5 %"}
            for field, value in power._asdict().items():
                numbers[prefix + labels.get(field, field.replace("_", " "))] = ([value], [0])
        more |= {f"needed/{criterion}": bumps_needed, f"needed/{criterion} score": scores}
    for name in ("copies", "bumps", "hole"):
        more[name] = np.array(data[name])
    more["sides"] = sides
    return numbers, more


# --- phases ---------------------------------------------------------------------------------------


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
        tau = _tau(*columns)
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


# --- percolation (after Liang et al. 2024) --------------------------------------------------------
#
# Do the bumps kept for training form one cluster? Nodes are occupied sites of a lattice. Two nodes
# are joined if their bumps overlap, that is, if the normalised inner product exp(-d^2 / 4 sigma^2)
# is at least a threshold. No parameter is fitted.

OVERLAP = 0.05  # normalised inner product from which two bumps are joined


def percolate(config, metrics, arrays):
    """The largest cluster of the kept bumps, and the accuracy of networks trained on them."""
    accuracy = _by_cell(config, metrics, ACCURACY)
    more, numbers = {}, {}
    for part, settings in parts(config):
        data, rng = settings.data, np.random.default_rng(0)
        frame = ~sets.parse(data.regions[0], data.n)[0]  # bumps are kept from these
        ratio = [mass_ratio(rng, frame, share, data.sigmas[0]).mean() for share in data.shares]
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
    share = data_needed(np.asarray(shares), np.asarray(values), 0.5)
    if share == 0:
        return ", at most", shares[0]
    return (", more than", shares[-1]) if np.isinf(share) else ("", share)


def reach(sigma: float, threshold: float = OVERLAP) -> float:
    """The distance up to which two bumps are joined: 2 sigma sqrt(-log threshold)."""
    if not (sigma > 0 and 0 < threshold < 1):
        raise BadInput(f"sigma must be positive and 0 < threshold < 1, got {sigma} and {threshold}")
    return 2 * sigma * math.sqrt(-math.log(threshold))


def largest_cluster(
    occupied: np.ndarray, sigma: float, threshold: float = OVERLAP
) -> tuple[np.ndarray, np.ndarray]:
    """Site counts [...] of masks [..., n, n]: in the largest cluster, and occupied."""
    occupied = np.asarray(occupied)
    if occupied.ndim < 2 or occupied.dtype != bool:
        raise BadInput(
            f"occupied must be boolean [..., n, n], got {occupied.dtype} {occupied.shape}"
        )
    flat = occupied.reshape(-1, *occupied.shape[-2:])
    names = _clusters(flat, _offsets(reach(sigma, threshold)))
    sizes = [np.bincount(labels[mask], minlength=1).max() for labels, mask in zip(names, flat)]
    lead = occupied.shape[:-2]
    return np.array(sizes).reshape(lead), flat.sum(axis=(1, 2)).reshape(lead)


def mass_ratio(
    rng: np.random.Generator,
    allowed: np.ndarray,
    share: float,
    sigma: float,
    threshold: float = OVERLAP,
    draws: int = 512,
) -> np.ndarray:
    """Largest cluster / occupied sites [draws] of a lattice; 0 if no site is occupied.

    allowed: boolean [n, n], the sites that can be occupied; share: the chance that one is.
    """
    if not 0 <= share <= 1:
        raise BadInput(f"share must be from 0 to 1, got {share}")
    occupied = (rng.random((draws, *allowed.shape)) < share) & allowed
    largest, counts = largest_cluster(occupied, sigma, threshold)
    return largest / np.maximum(counts, 1)


def _offsets(distance):
    """Offsets (dy, dx) of all neighbours within the distance."""
    steps = range(-math.floor(distance), math.floor(distance) + 1)
    return [(dy, dx) for dy in steps for dx in steps if 0 < math.hypot(dy, dx) <= distance]


def _clusters(occupied, offsets):
    """Cluster names [k, n, m]: the smallest site number of each cluster.

    Every site takes the smallest name among its neighbours until no name changes.
    """
    k, height, width = occupied.shape
    size, rows = height * width, np.arange(k)[:, None]
    margin = max((abs(dy) for dy, _ in offsets), default=0)
    names = np.where(occupied, np.arange(size).reshape(height, width), size)
    while True:
        padded = np.pad(names, ((0, 0), (margin,) * 2, (margin,) * 2), constant_values=size)
        smallest = names
        for dy, dx in offsets:
            top, left = margin + dy, margin + dx
            near = padded[:, top : top + height, left : left + width]
            smallest = np.minimum(smallest, near)
        # A name is a site number: taking that site's current name speeds up convergence.
        called = np.pad(smallest.reshape(k, -1), ((0, 0), (0, 1)), constant_values=size)
        smallest = called[rows, smallest.reshape(k, -1)].reshape(names.shape)
        smallest = np.where(occupied, smallest, size)
        if np.array_equal(smallest, names):
            return names
        names = smallest


# --- definitions of compositionality --------------------------------------------------------------


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
        taus[i, j] = taus[j, i] = _tau(table[i][known], table[j][known])
        numbers[pair] = ([taus[i, j]], [0])
    cells = [
        "/".join(filter(None, (part, cell.name)))
        for part, settings in parts(config)
        for cell in training.cells(settings, sets.make(settings).axes)
    ]
    more = {"words": table, "word_cells": np.array(cells), "word_names": np.array(WORDS)}
    return numbers, more | {"word_taus": taus}


# --- along training -------------------------------------------------------------------------------

LEVELS = (0.05, 0.01)  # ID nMSE at which penalties are compared


def flatness(config, metrics, arrays):
    """OOD nMSE at the end and at equal ID nMSE: medians over seeds with 95 % intervals.

    At equal ID nMSE, a network counts at the first evaluation at which it reaches the level; a
    network that never reaches it is left out, and "reached" is the share of those that do.
    """
    numbers = {}
    for part, settings in parts(config):
        prefix, seeds = f"{part}/" if part else "", list(settings.train.seeds)
        id_errors, ood_errors = (
            arrays[f"{prefix}history/{region}_nmse"] for region in ("id", "ood")
        )
        for c, cell in enumerate(arrays[f"{prefix}cells"]):
            name = f"{prefix}{cell}: " if cell else prefix
            by_level = {"ood nmse": ood_errors[-1, :, c]}
            for level in LEVELS:
                below = id_errors[:, :, c] < level
                at_level = ood_errors[np.argmax(below, axis=0), np.arange(len(seeds)), c]
                values = np.where(below.any(axis=0), at_level, np.nan)
                by_level[f"ood nmse at id nmse {level:g}"] = values
                numbers[f"{name}ood nmse at id nmse {level:g}"] = (values, seeds)
                numbers[f"{name}reached id nmse {level:g}"] = (below.any(axis=0), seeds)
            for score, values in by_level.items():
                known = values[np.isfinite(values)]
                middle, low, high = stats.median_and_interval(known) if len(known) else [np.nan] * 3
                label = f"{name}{score}, median"
                numbers |= {label: ([middle], [0]), f"{label}, 2.5 %": ([low], [0])}
                numbers[f"{label}, 97.5 %"] = ([high], [0])
    return numbers, {}


# Penalties of `axes`: beginning of the names of their cells, and what they are.
AXES = {
    "no penalty": "no penalty",
    "null_axis": "pixels' axes",
    "factor_axis": "factors' axes",
    "fixed_axis": "random axes",
    "learned_axis": "learned axes",
}
COMPOSES = 0.1  # OOD nMSE below which a start composes


def axes(config, metrics, arrays):
    """OOD nMSE by the axes of flatness; of several starts, the one that fits training best.

    The choice between starts uses errors on training pairs only. "axis error" is the larger
    distance in degrees of the two fields' axes from those of the factors.
    """
    numbers, more = {}, {}
    for part, settings in parts(config):
        seeds, prefix = list(settings.train.seeds), f"{part}/history/"
        last = {
            score: arrays[prefix + score][-1]
            for score in ("id_nmse", "ood_nmse", "axis_x", "axis_y")
        }
        away = [
            np.abs((last[f"axis_{factor}"] - settings.data.degrees - right + 90) % 180 - 90)
            for factor, right in (("x", 0), ("y", 90))
        ]
        last["axis_error"] = np.maximum(*away)
        for kind, words in AXES.items():
            cells = [c for c, name in enumerate(arrays[f"{part}/cells"]) if name.startswith(kind)]
            if not cells:
                continue
            errors = last["id_nmse"][:, cells]
            # A network that diverged has no error: it is not the best unless all diverged.
            best = np.array(cells)[np.argmin(np.where(np.isnan(errors), np.inf, errors), axis=1)]
            for score in ("id_nmse", "ood_nmse", "axis_error"):
                values = last[score][np.arange(len(seeds)), best]
                numbers[f"{part}/{words}: {score.replace('_', ' ')}"] = (values, seeds)
                more[f"axes/{part}/{words}/{score}"] = values
            if len(cells) > 1:
                composed = np.mean(last["ood_nmse"][:, cells] < COMPOSES, axis=1)
                numbers[f"{part}/{words}: share of starts that compose"] = (composed, seeds)
    return numbers, more


LENGTHS = (1260, 5040, 20_160)  # steps; the first is the published length


def entangling(config, metrics, arrays):
    """F of each hidden layer after several lengths of training, and its loss within a network.

    "F lost" is F of the first hidden layer minus F of the last. The rank correlation of F lost with
    ID nMSE is over all networks and lengths.
    """
    numbers, pairs, more = {}, [], {}
    for part, settings in parts(config):
        seeds, steps = list(settings.train.seeds), list(arrays[f"{part}/history/step"])
        n_hidden = settings.model.mlp.n_hidden
        for length in _lengths(steps[-1]):
            prefix, at = f"{part}/after {length:g} steps: ", steps.index(length)
            layers = [f"F_layer_{i + 1}" for i in range(n_hidden)]
            *by_layer, error = (
                arrays[f"{part}/history/{score}"][at, :, 0] for score in (*layers, "id_nmse")
            )
            for i, of_layer in enumerate(by_layer, 1):
                numbers[f"{prefix}F, layer {i}"] = (of_layer, seeds)
            lost = by_layer[0] - by_layer[-1]
            numbers[f"{prefix}F lost"], numbers[f"{prefix}id nmse"] = (lost, seeds), (error, seeds)
            pairs += zip(lost, error)
            more[f"entangling/{part}/{length:g}"] = np.array(by_layer)
    lost, error = np.transpose(pairs)
    numbers["F lost and ID nMSE: tau-b"] = ([stats.kendall_tau_b(lost, error)], [0])
    return numbers, more


def _lengths(last: float) -> list:
    """LENGTHS of a training of `last` steps."""
    return sorted({min(length, last) for length in LENGTHS})


AFTERWARDS = {
    "table": words,
    "needed": needed,
    "phase": phase,
    "percolation": percolate,
    "flatness": flatness,
    "axes": axes,
    "entangling": entangling,
}
