"""Kernel machines on classification: context dependence, invariance, transitive relations."""

import jax
import numpy as np

from cgjax.analysis import additivity, closed_forms, machines
from cgjax.analysis import salience as theory
from cgjax.experiments.kernels import tasks

# Saliences (S(1;3), S(2;3)) in the labels of the paper's bars: the rectified-quadratic and the ReLU
# network at depth 3.
REPRESENTATIONS = {"rep_1": (0.10100758, 0.13911539), "rep_2": (0.20350064, 0.09423825)}
PRICE = 1e10  # of slack, as in the paper: a hard margin
EQUIVALENCE = ("te_2_2", "te_5_5_hubs_1", "te_5_5_hubs_4", "te_3_5")


def margins(kappas: np.ndarray, task: tasks.Task) -> dict:
    """y f on the test inputs [kernels, tests] of both machines, all kernels in one call.

    kappas: tables by overlap count [kernels, C + 1], or by subset [kernels, 2^C].
    """
    by_count = np.shape(kappas)[-1] == len(task.sizes) + 1
    kernel = theory.overlap_kernel if by_count else theory.subset_kernel
    train, test = task.x[task.is_train], task.x[~task.is_train]
    y, y_test = task.y[task.is_train], task.y[~task.is_train]
    with jax.enable_x64(True):
        k_train, k_test = kernel(train, train, kappas), kernel(test, train, kappas)
        outputs = {
            "svm": machines.svc(k_train, y, k_test, PRICE),
            "regression": machines.ridgeless(k_train, y, k_test),
        }
    return {name: np.asarray(f) * y_test for name, f in outputs.items()}


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
    """Which of CD-1, CD-2, CD-3 each kernel solves, with hard margin and ridgeless regression."""
    kappas = phase_kernels(config.data.n_grid)
    saliences = np.asarray(theory.salience(kappas))
    arrays, metrics = {"s1": saliences[:, 0], "s2": saliences[:, 1]}, {}
    for k in (1, 2, 3):
        by_machine = margins(kappas, tasks.cd(k))
        for machine, margin in by_machine.items():
            solved = np.all(margin > 0, axis=1)
            arrays[f"cd_{k}/{machine}"] = np.mean(margin > 0, axis=1)
            metrics[f"CD-{k} solved, {machine}"] = solved.mean()
        disagree = np.all(by_machine["svm"] > 0, axis=1) != np.all(
            by_machine["regression"] > 0, axis=1
        )
        arrays[f"cd_{k}/disagree"] = disagree
        metrics[f"CD-{k}: objectives disagree"] = disagree.mean()
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
        decided = np.abs(margin) > 1e-9  # nothing is learned at S(1;3) = S(2;3) = 0
        right = (margin > 0) == (arrays[f"cd_3/{machine}"] == 1)
        metrics[f"CD-3 closed form right, {machine}"] = right[decided].mean()
    for name, layer_map in theory.LAYER_MAPS.items():
        tables = theory.layers(np.arange(4) / 3, layer_map, 10)
        arrays[f"network/{name}"] = np.asarray(theory.salience(tables))[1:, :2]
    line = np.linspace(0, 1 / 3, 200)
    for machine in ("svm", "regression"):
        arrays[f"boundary/{machine}"] = np.asarray(closed_forms.shortcut_boundary(line, machine))
    arrays |= {name: np.array(place) for name, place in REPRESENTATIONS.items()}
    return metrics, {**arrays, "boundary/s1": line}


def context_share(config):
    """CD-3 by the context's share of the input and by depth of a ReLU network.

    With unequal components, every subset has its own salience.
    """
    shares = np.linspace(0.02, 0.9, config.data.n_saliences)
    depth = max(1, config.data.depth // 2)
    features = (1 - shares) / 2
    parts = np.stack([shares, features, features], axis=1) @ theory.subsets(3).T
    tables = np.asarray(theory.layers(parts, theory.relu, depth))[:, 1:]  # [shares, depth, 2^C]
    by_machine = margins(tables.reshape(-1, 8), tasks.cd(3))
    arrays, metrics = {"share": shares, "depth": np.arange(1, depth + 1)}, {}
    for machine, margin in by_machine.items():
        worst = margin.min(axis=1).reshape(tables.shape[:2])
        arrays[f"margin/{machine}"] = worst
        for layer in (layer for layer in (1, 3, 10) if layer <= depth):
            metrics[f"{machine}, depth {layer}: solved"] = np.mean(worst[:, layer - 1] > 0)
    return metrics, arrays


def magnitudes(config):
    """Mean |value| of each type of conjunction in what the support-vector machine answers.

    The paper's bars are the account of its labels, the signs of the decision values. The account of
    the decision values is computed as well.
    """
    metrics, arrays = {}, {"types": np.array(additivity.TYPES)}
    for representation, k in (("rep_1", 3), ("rep_1", 2), ("rep_2", 3)):
        task = tasks.cd(k)
        kappa = theory.kappa(theory.complete(np.array(REPRESENTATIONS[representation])))
        train = task.x[task.is_train]
        with jax.enable_x64(True):
            k_train, k_all = (theory.overlap_kernel(x, train, kappa) for x in (train, task.x))
            decision = np.asarray(machines.svc(k_train, task.y[task.is_train], k_all, PRICE))
        for suffix, f in (("", np.sign(decision)), (", decision values", decision)):
            fit = additivity.additivity(task.x, f, task.is_train)
            values = additivity.type_magnitudes(fit.labels, fit.coefficients, tasks.RELEVANT)
            name = f"{representation}, CD-{k}{suffix}"
            metrics |= {f"{name}: {kind}": float(value) for kind, value in values.items()}
            arrays[name] = np.array([values[kind] for kind in additivity.TYPES])
    return metrics, arrays


# --- relations ------------------------------------------------------------------------------------


def transitive(config):
    """Transitive equivalence, which no kernel solves, and ordering, which every kernel solves."""
    grid = np.linspace(0.05, 0.45, 9)
    kappas = np.stack([np.zeros_like(grid), grid, np.ones_like(grid)], axis=1)
    metrics, arrays = {}, {"salience": grid}
    for name in EQUIVALENCE:
        task = tasks.make(name)
        for machine, margin in margins(kappas, task).items():
            metrics[f"{name}, {machine}: largest |mean margin|"] = np.abs(margin.mean(axis=1)).max()
            # On new pairs of equally many equivalent and other items the margin of any additive
            # function is 0 in the mean. With unequal classes only the interaction of both items is.
            if name != "te_3_5":
                arrays[f"{name}/{machine}"] = margin.mean(axis=1)
                continue
            n = round(margin.shape[1] ** 0.5)  # items that are not hubs
            f = (margin * task.y[~task.is_train]).reshape(-1, n, n)
            main = f.mean(axis=1, keepdims=True) + f.mean(axis=2, keepdims=True)
            interaction = f - main + f.mean(axis=(1, 2), keepdims=True)
            metrics[f"{name}, {machine}: largest interaction"] = np.abs(interaction).max()
            metrics[f"{name}, {machine}: best accuracy"] = np.mean(margin > 0, axis=1).max()
    task = tasks.make("to_7")
    distance = np.abs(task.x[:, 0] - task.x[:, 1])[~task.is_train]
    for machine, margin in margins(kappas, task).items():
        metrics[f"to_7, {machine}: least accuracy"] = np.mean(margin > 0, axis=1).min()
        arrays[f"to_7/{machine}"] = np.stack(
            [margin[:, distance == d].mean(axis=1) for d in range(2, 7)], axis=1
        )
    task = tasks.make("te_3_3")
    train, y = task.x[task.is_train], task.y[task.is_train]
    kernels = (theory.overlap_kernel(x, train, [0, 0.4, 1]) for x in (train, task.x))
    f = machines.ridgeless(next(kernels), y, next(kernels))
    arrays |= {"te_3_3/f": f.reshape(task.sizes), "te_3_3/y": task.y.reshape(task.sizes)}
    return metrics, arrays
