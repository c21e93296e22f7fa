"""Kernel machines on addition: memorization leak, perturbed kernels, training sets."""

import jax
import numpy as np

from cgjax.analysis import additivity, closed_forms, machines, training_sets
from cgjax.analysis import salience as theory
from cgjax.experiments.kernels import inputs, tasks
from cgjax.experiments.kernels.scores import closed_form, scores_of
from cgjax.experiments.kernels.theory.classification import PRICE

EPSILON = 0.1  # of support-vector regression: the default of the paper's library


def leak(config):
    """Memorization leak: the share of a sum that a kernel model recovers on new pairs."""
    grid = np.linspace(0, 0.5, 101)
    arrays = {"salience": grid}
    for p in range(1, 6):
        arrays[f"slope/{p}"] = np.asarray(closed_forms.memorization_slope(grid, p))
    values = np.array(tasks.VALUES, float)
    is_anchor = np.isin(np.arange(len(values)), tasks.ANCHORS["extrapolation"])
    metrics = {}
    for s in (0.30, 0.35, 0.40, 0.45, 0.50):
        machine = closed_forms.addition(s, values, is_anchor)
        items = np.asarray(closed_forms.item_values(machine, values, is_anchor))
        arrays[f"items/{s:g}"] = items
        unseen = ~is_anchor
        metrics[f"slope, p=1, S={s:.2f}"] = np.polyfit(values[unseen], items[unseen], 1)[0]
    return metrics, arrays


# --- kernels that are not quite compositional -----------------------------------------------------

WIDTHS = (32, 100, 316, 1000, 3162, 10000)  # units of a random layer
CODES = (4, 8, 16, 32, 64, 128, 256)  # dimensions of the random codes of items


def perturbed(config):
    """Additivity and slope of kernels whose similarity varies at equal overlap.

    There are two perturbations: a random ReLU layer of finite width, and items of unequal
    similarity (random codes instead of one-hot codes) in an infinitely wide layer.
    """
    task = tasks.make("addition_extrapolation")
    metrics, arrays = {}, {}
    for kind, levels, draw in (("width", WIDTHS, _finite), ("codes", CODES, _alike)):
        rows = []
        for level in levels:
            rngs = [np.random.default_rng([seed, level]) for seed in config.data.training_sets]
            rows.append(_departure(task, np.stack([draw(task, level, rng) for rng in rngs])))
            for name, values in rows[-1].items():
                metrics[f"{kind} {level}: {name}"] = values.mean()
        arrays[f"{kind}/levels"] = np.array(levels)
        for name in rows[0]:
            arrays[f"{kind}/{name}"] = np.stack([row[name] for row in rows])
    return metrics, arrays


def _finite(task, width, rng):
    """The kernel of one hidden layer of a lazy network: only its readout is trained."""
    x = inputs.one_hot(task.x, task.sizes).astype(float)
    fan_in = x.shape[1]
    weights = rng.normal(size=(fan_in, width)) * np.sqrt(2 / fan_in)
    hidden = np.maximum(x @ weights + rng.uniform(-1, 1, width) * fan_in**-0.5, 0)
    return hidden @ hidden.T * 2 / width


def _alike(task, n_dimensions, rng):
    """The kernel of an infinitely wide ReLU layer; every item is a random direction."""
    codes = [rng.normal(size=(n, n_dimensions)) for n in task.sizes]
    codes = [code / np.linalg.norm(code, axis=1, keepdims=True) for code in codes]
    x = np.concatenate([code[task.x[:, c]] for c, code in enumerate(codes)], axis=1)
    return np.asarray(theory.relu(np.clip(x @ x.T / len(codes), -1, 1)))


def _departure(task, kernels):
    """Spread, additivity, slope and predicted slope [draws] of kernels [draws, N, N]."""
    train = task.is_train
    k_train = kernels[:, train][:, :, train]
    f = np.asarray(machines.ridgeless(k_train, task.y[train], kernels[:, :, train]))
    structures = [additivity.structure(additivity.similarity_of_gram(task.x, k)) for k in kernels]
    kappa = np.stack([s.kappa for s in structures])
    return {
        "spread": np.stack([s.spread[1] for s in structures]) / (kappa[:, -1] - kappa[:, 0]),
        "additivity": additivity.additivity(task.x, f, train).r2_test,
        "slope": scores_of(task, f)["slope"],
        "slope predicted": np.asarray(closed_form(kappa, task).slope),
    }


# --- dispersed training sets ----------------------------------------------------------------------


def dispersed(config):
    """Addition without anchors: error by salience and item values over many training sets."""
    grid = np.linspace(0, 0.5, config.data.n_saliences)
    members = [tasks.addition_dispersed(seed) for seed in config.data.training_sets]
    kappas = np.stack([np.zeros_like(grid), grid, np.ones_like(grid)], axis=1)
    errors, items = {"svr": [], "ridgeless": []}, []
    for task in members:
        train, y = task.x[task.is_train], task.y[task.is_train]
        with jax.enable_x64(True):
            k_train = theory.overlap_kernel(train, train, kappas)
            k_all = theory.overlap_kernel(task.x, train, kappas)
            outputs = {
                "svr": np.asarray(machines.svr(k_train, y, k_all, PRICE, EPSILON)),
                "ridgeless": np.asarray(machines.ridgeless(k_train, y, k_all)),
            }
        for name, f in outputs.items():
            errors[name].append(np.mean((f - task.y)[:, ~task.is_train] ** 2, axis=1))
        account = additivity.additivity(task.x, outputs["svr"], task.is_train)
        items.append(additivity.item_values(account.labels, account.coefficients, 0)[1])
    arrays = {"salience": grid, "items": np.mean(items, axis=0)}
    metrics = {}
    for name, rows in errors.items():
        arrays[f"mse/{name}"] = np.stack(rows)
        for s in np.arange(0, 0.51, 0.05):
            at = np.argmin(np.abs(grid - s))
            metrics[f"{name}, S={s:.2f}: test MSE"] = arrays[f"mse/{name}"][:, at].mean()
    return metrics, arrays


# --- training sets that leak less -----------------------------------------------------------------

PAIRS = (9, 18, 27, 36, 45)


def design(config):
    """Error and slope by number of training pairs: anchors, dispersed pairs, chosen pairs.

    The choice of pairs uses the values of the items. A second remedy reduces the salience of full
    conjunctions.
    """
    metrics, arrays = {}, {"factor": np.geomspace(0.01, 10, 61)}
    factors = np.stack([np.ones_like(arrays["factor"]), arrays["factor"]], axis=1)
    for s in (0.2, 0.3, 0.4):
        designs, arrays[f"{s}/mask"] = _designs(s, config.data.training_sets)
        for name, rows in designs.items():
            arrays[f"{s}/{name}"] = np.array(rows, float)
            for n, error, slope in (row for row in rows if row[0] in (9, 17, 18, 45)):
                metrics[f"S={s}, {name}, {int(n)} pairs: test MSE"] = float(error)
                metrics[f"S={s}, {name}, {int(n)} pairs: slope"] = float(slope)
        metrics[f"S={s}, values unknown, 18 pairs: error over dispersed"] = _unknown(s)
        shaped = theory.salience(training_sets.reweighted([0, s, 1], factors))[:, 0]
        arrays[f"{s}/shaped"] = np.asarray(closed_forms.memorization_slope(shaped, 1))
        metrics[f"S={s}, full conjunctions x 0.01: slope"] = arrays[f"{s}/shaped"][0]
    return metrics, arrays


def _unknown(s):
    """Error of 18 pairs chosen for sums of arbitrary values, divided by that of a dispersed set."""
    x = tasks.grid((9, 9))
    kernel, targets = theory.overlap_kernel(x, x, [0, s, 1]), training_sets.any_sum(x)
    chosen = training_sets.exchange(kernel, targets, training_sets.greedy(kernel, targets, 18).rows)
    dispersed = np.flatnonzero(tasks.addition_dispersed(1).is_train)
    return chosen.error[-1] / training_sets.exchange(kernel, targets, dispersed, most=0).error[0]


def _designs(s, seeds):
    """(pairs, error, slope) of training sets of every kind; mask [9, 9] of the 18 chosen pairs."""
    x, values = tasks.grid((9, 9)), np.array(tasks.VALUES, float)
    y, kernel = values[x].sum(axis=1), theory.overlap_kernel(x, x, [0, s, 1])
    anchors = [(18 * p - p * p, *training_sets.best_anchors(s, values, p)[1:]) for p in range(1, 5)]
    designs = {"anchors": [(n, error[0], slope[0]) for n, error, slope in anchors]}
    trained = [np.abs(x[:, 0] - x[:, 1]) <= width for width in range(4)]
    trained += [
        tasks.addition_dispersed(seed, per_item=n // 9).is_train for n in PAIRS for seed in seeds
    ]
    scores = list(zip(np.sum(trained, axis=1), *training_sets.scores(kernel, y, np.stack(trained))))
    designs["like values"] = scores[:4]
    designs["dispersed"] = np.reshape(scores[4:], (len(PAIRS), len(seeds), 3)).mean(axis=1)
    designs["chosen"] = []
    paths = [training_sets.greedy(kernel, y, PAIRS[-1], goal=goal) for goal in training_sets.GOALS]
    for n in PAIRS:
        ends = [training_sets.exchange(kernel, y, path.rows[:n]) for path in paths]
        best = min(ends, key=lambda end: end.error[-1])
        designs["chosen"].append((n, best.error[-1], best.slope[-1]))
        if n == 18:
            mask = np.isin(np.arange(len(x)), best.rows).reshape(9, 9)
    return designs, mask
