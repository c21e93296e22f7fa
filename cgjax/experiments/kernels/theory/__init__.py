"""Studies of kernel models in closed form: tasks, saliences, addition, classification.

Each study returns (metrics, arrays). Metrics have the same names as in `published.PUBLISHED`.
"""

import jax
import numpy as np

from cgjax.analysis import additivity, closed_forms, machines, training_sets
from cgjax.analysis import salience as theory
from cgjax.experiments.kernels import inputs, tasks
from cgjax.experiments.kernels.scores import closed_form, scores_of

DEPTHS = (1, 2, 5, 10, 20)  # in the table of metrics
SHARES = (0.1, 0.3, 0.4, 0.5)  # of the first of two components in the input
# Saliences (S(1;3), S(2;3)) in the labels of the paper's bars: the rectified-quadratic and the ReLU
# network at depth 3.
REPRESENTATIONS = {"rep_1": (0.10100758, 0.13911539), "rep_2": (0.20350064, 0.09423825)}
PRICE = 1e10  # of slack, as in the paper: a hard margin
EQUIVALENCE = ("te_2_2", "te_5_5_hubs_1", "te_5_5_hubs_4", "te_3_5")
EPSILON = 0.1  # of support-vector regression: the default of the paper's library


def masks(config):
    """Training combinations and targets of the tasks."""
    names = [*tasks.ADDITION_SETS, "addition_dispersed_1", *tasks.CD_SETS, "te_3_3", "to_7"]
    metrics, arrays = {}, {}
    for name in names:
        task = tasks.make(name)
        full = np.full(task.sizes, np.nan)  # pairs of an item with itself have no order
        full[tuple(task.x.T)] = task.y
        trained = np.zeros(task.sizes, bool)
        trained[tuple(task.x.T)] = task.is_train
        arrays |= {f"{name}/y": full, f"{name}/is_train": trained}
        metrics[f"{name}: trained"] = np.sum(task.is_train)
        metrics[f"{name}: tested"] = np.sum(~task.is_train)
    return metrics, arrays


def salience(config):
    """Salience by depth of wide random networks, by number and input share of components."""
    depth = config.data.depth
    metrics, arrays = {}, {}
    for name, layer_map in theory.LAYER_MAPS.items():
        for n in (2, 3, 4):
            tables = theory.layers(np.arange(n + 1) / n, layer_map, depth)
            arrays[f"{name}/{n}"] = np.asarray(theory.salience(tables))
        shares = np.array([[0, share, 1 - share, 1] for share in SHARES])
        saliences = np.asarray(theory.subset_salience(theory.layers(shares, layer_map, depth)))
        arrays |= {f"{name}/share_{share}": saliences[i] for i, share in enumerate(SHARES)}
        for layer in (layer for layer in DEPTHS if layer <= depth):
            for k in range(3):
                metrics[f"{name}, depth {layer}: S({k + 1};3)"] = arrays[f"{name}/3"][layer, k]
            metrics[f"{name}, depth {layer}: S(1;2)"] = arrays[f"{name}/2"][layer, 0]
    return metrics, arrays


# --- addition -------------------------------------------------------------------------------------


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
    kappa, spread, _ = additivity.structure(additivity.similarity_of_gram(task.x, kernels))
    return {
        "spread": spread[:, 1] / (kappa[:, -1] - kappa[:, 0]),
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
            if np.isclose(grid[at], s):  # a coarse axis lacks some
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


# --- margins of classification --------------------------------------------------------------------


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


STUDIES = {
    "tasks": masks,
    "salience": salience,
    "leak": leak,
    "partial": partial,
    "phase": phase,
    "context_share": context_share,
    "magnitudes": magnitudes,
    "dispersed": dispersed,
    "transitive": transitive,
    "perturbed": perturbed,
    "design": design,
}
