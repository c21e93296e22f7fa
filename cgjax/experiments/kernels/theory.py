"""Kernel models in closed form and solved numerically: nothing here trains a network.

Each study returns (metrics, arrays); the metrics carry the names of `published.PUBLISHED`.
"""

import jax
import numpy as np

from cgjax.analysis import additivity, closed_forms, machines
from cgjax.analysis import salience as theory
from cgjax.experiments.kernels import tasks

# Saliences (S(1;3), S(2;3)) that the paper's bars are labelled with: the rectified-quadratic and
# the ReLU network at depth 3.
REPRESENTATIONS = {"rep_1": (0.10100758, 0.13911539), "rep_2": (0.20350064, 0.09423825)}
RELEVANT = (1, 2)  # component that each context asks about
DEPTHS = (1, 2, 5, 10, 20)  # of the table
PRICE = 1e10  # of slack: a hard margin, and what the paper uses
EPSILON = 0.1  # of support-vector regression: the paper keeps its library's default


def salience(config):
    """Salience by depth of wide random networks, for three components and by input share."""
    depth = config.data.depth
    metrics, arrays = {}, {}
    for name, layer_map in theory.LAYER_MAPS.items():
        for n in (2, 3, 4):
            tables = theory.layers(np.arange(n + 1) / n, layer_map, depth)
            arrays[f"{name}/{n}"] = np.asarray(theory.salience(tables))
        for share in (0.1, 0.3, 0.4, 0.5):
            tables = theory.layers([0, share, 1 - share, 1], layer_map, depth)
            arrays[f"{name}/share_{share}"] = np.asarray(theory.subset_salience(tables))
        for layer in (layer for layer in DEPTHS if layer <= depth):
            for k in range(3):
                metrics[f"{name}, depth {layer}: S({k + 1};3)"] = arrays[f"{name}/3"][layer, k]
            metrics[f"{name}, depth {layer}: S(1;2)"] = arrays[f"{name}/2"][layer, 0]
    return metrics, arrays


def leak(config):
    """Memorization leak: how much of a sum a kernel model recovers on new pairs."""
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


def partial(config):
    """Invariance and partial exposure: margins on the held-out inputs."""
    k = np.linspace(0, 0.5, 101)
    arrays = {
        "k": k,
        "invariance": np.asarray(closed_forms.invariance_margin(k)),
        "partial exposure": np.asarray(closed_forms.partial_exposure_margin(k)),
    }
    at = np.argmin(np.abs(k - 0.25))
    metrics = {f"{name}, k=0.25": arrays[name][at] for name in ("invariance", "partial exposure")}
    return metrics, arrays


# --- context dependence ---------------------------------------------------------------------------


def phase_kernels(n: int) -> np.ndarray:
    """Every positive semi-definite kernel of the n x n grid, kappa(0..3): [kernels, 4]."""
    second, ratio = np.meshgrid(np.linspace(0, 2 / 3, n), np.linspace(0, 0.5, n), indexing="ij")
    second, ratio = second.ravel(), ratio.ravel()
    kappa = np.stack([np.zeros_like(second), ratio * second, second, np.ones_like(second)], axis=1)
    return kappa[np.asarray(theory.is_psd(kappa, (2, 6, 6)))]


def phase(config):
    """Which of CD-1, CD-2, CD-3 each kernel solves, by hard margin and by ridgeless regression."""
    kappas = phase_kernels(config.data.n_grid)
    saliences = np.asarray(theory.salience(kappas))
    arrays, metrics = {"s1": saliences[:, 0], "s2": saliences[:, 1]}, {}
    for k in (1, 2, 3):
        found = margins(kappas, tasks.cd(k))
        for machine, margin in found.items():
            solved = np.all(margin > 0, axis=1)
            arrays[f"cd_{k}/{machine}"] = np.mean(margin > 0, axis=1)
            metrics[f"CD-{k} solved, {machine}"] = solved.mean()
    svm = [arrays[f"cd_{k}/svm"] == 1 for k in (1, 2, 3)]
    metrics |= {
        "kernels": len(kappas),
        "all three solved": np.sum(svm[0] & svm[1] & svm[2]),
        "CD-2 and CD-1 only": np.sum(svm[0] & svm[1] & ~svm[2]),
        "CD-1 only": np.sum(svm[0] & ~svm[1] & ~svm[2]),
        "none": np.sum(~svm[0] & ~svm[1] & ~svm[2]),
    }
    closed = closed_forms.shortcut_bias(saliences[:, 0], saliences[:, 1])
    for machine, margin in (("svm", closed.svm), ("regression", closed.regression)):
        arrays[f"cd_3/{machine}/closed form"] = np.asarray(margin)
    for name, layer_map in theory.LAYER_MAPS.items():
        tables = theory.layers(np.arange(4) / 3, layer_map, 10)
        arrays[f"network/{name}"] = np.asarray(theory.salience(tables))[1:, :2]
    line = np.linspace(0, 1 / 3, 200)
    for machine in ("svm", "regression"):
        arrays[f"boundary/{machine}"] = np.asarray(closed_forms.shortcut_boundary(line, machine))
    return metrics, {**arrays, "boundary/s1": line}


def margins(kappas: np.ndarray, task: tasks.Task) -> dict:
    """y f on the test inputs [kernels, tests] of both machines, all kernels in one call."""
    train, test = task.x[task.is_train], task.x[~task.is_train]
    y, y_test = task.y[task.is_train], task.y[~task.is_train]
    with jax.enable_x64(True):
        k_train = theory.overlap_kernel(train, train, kappas)
        k_test = theory.overlap_kernel(test, train, kappas)
        found = {
            "svm": machines.svc(k_train, y, k_test, PRICE),
            "regression": machines.ridgeless(k_train, y, k_test),
        }
    return {name: np.asarray(f) * y_test for name, f in found.items()}


def magnitudes(config):
    """Mean |value| of each type of conjunction in the support-vector machine's solution."""
    metrics, arrays = {}, {}
    for representation, k in (("rep_1", 3), ("rep_1", 2), ("rep_2", 3)):
        task = tasks.cd(k)
        kappa = theory.kappa(theory.complete(np.array(REPRESENTATIONS[representation])))
        train = task.x[task.is_train]
        with jax.enable_x64(True):
            f = machines.svc(
                theory.overlap_kernel(train, train, kappa), task.y[task.is_train],
                theory.overlap_kernel(task.x, train, kappa), PRICE,
            )  # fmt: skip
        found = additivity.additivity(task.x, np.asarray(f), task.is_train)
        values = additivity.type_magnitudes(found.labels, found.coefficients, RELEVANT)
        for kind, value in values.items():
            metrics[f"{representation}, CD-{k}: {kind}"] = float(value)
        arrays[f"{representation}/cd_{k}"] = np.array(list(map(float, values.values())))
        arrays["types"] = np.array(list(values))
    return metrics, arrays


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
            found = {
                "svr": np.asarray(machines.svr(k_train, y, k_all, PRICE, EPSILON)),
                "ridgeless": np.asarray(machines.ridgeless(k_train, y, k_all)),
            }
        for name, f in found.items():
            errors[name].append(np.mean((f - task.y)[:, ~task.is_train] ** 2, axis=1))
        account = additivity.additivity(task.x, found["svr"], task.is_train)
        items.append(additivity.item_values(account.labels, account.coefficients, 0)[1])
    arrays = {"salience": grid, "items": np.mean(items, axis=0)}
    metrics = {}
    for name, rows in errors.items():
        arrays[f"mse/{name}"] = np.stack(rows)
        for s in np.arange(0, 0.51, 0.05):
            at = np.argmin(np.abs(grid - s))
            metrics[f"{name}, S={s:.2f}: test MSE"] = arrays[f"mse/{name}"][:, at].mean()
    return metrics, arrays


STUDIES = {
    "salience": salience,
    "leak": leak,
    "partial": partial,
    "phase": phase,
    "magnitudes": magnitudes,
    "dispersed": dispersed,
}
