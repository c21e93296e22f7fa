"""The table of mask runs, with one row per mask, and statistical tests on it.

*Target* is the test of the subroutine for which a mask is trained, *other* the mean over the tests
of all other subroutines. Columns are arrays [runs].
"""

import numpy as np

from cgjax.analysis import stats
from cgjax.experiments.subnetworks.bases import Bases
from cgjax.experiments.subnetworks.odd_one_out import CHANCE
from cgjax.experiments.subnetworks.search import ablation
from cgjax.experiments.subnetworks.search.training import TrainedMasks

NETWORKS = ("sub", "abl", "rnd")
# Columns that become metrics, and their names as metrics.
SHOWN = {
    "sub_diff": "sub_diff", "abl_diff": "abl_diff", "rnd_diff": "rnd_diff",
    "abl_beyond_random": "abl_diff beyond random removals",
    "abl_beyond_complement": "abl_diff beyond removals outside",
    "sub_target": "sub target", "sub_other": "sub other",
    "abl_target": "abl target", "abl_other": "abl other", "sub_own": "sub own set",
    "sub_compositional": "sub compositional", "abl_compositional": "abl compositional",
    "kept": "kept", "full_pattern": "full pattern", "valid_mask": "valid masks",
}  # fmt: skip


def target_and_other(scores: dict, network: str, part: str, targets, n: int) -> tuple:
    """Accuracies [runs] on the test of the run's own subroutine, and their mean on the others."""
    tests = np.stack([scores[f"{network}/{part}/test_{i}"] for i in range(n)])  # [n, runs]
    return own_and_others(tests, targets)


def own_and_others(tests, targets):
    """tests [subroutines, ..., runs] -> (own [..., runs], mean of the others [..., runs])."""
    n = len(tests)
    is_own = np.where(np.arange(n).reshape(n, *(1,) * (tests.ndim - 2), 1) == targets, 1.0, 0.0)
    return (is_own * tests).sum(axis=0), ((1 - is_own) * tests).sum(axis=0) / (n - 1)


def make(search: TrainedMasks, bases: Bases, n: int) -> dict:
    """All columns of a search's runs."""
    scores, replicas = search.scores, search.replicas
    targets = replicas["target"]
    table = {name: np.asarray(values) for name, values in replicas.items()}
    table["valid_base"] = bases.valid[replicas["base"]]
    for network in NETWORKS:
        own, other = target_and_other(scores, network, "test", targets, n)
        table[f"{network}_target"], table[f"{network}_other"] = own, other
        table[f"{network}_diff"] = difference(own, other)
        table[f"{network}_own"] = scores[f"{network}/test/own"]
        table[f"{network}_compositional"] = scores[f"{network}/test/compositional"]
    val = target_and_other(scores, "abl", "val", targets, n)
    table["quality"] = quality(scores["sub/val/own"], *val)
    table["valid_mask"] = np.isfinite(table["quality"])
    table["kept"] = scores["kept"]
    table["full_pattern"] = full_pattern(table["sub_diff"], table["abl_diff"])
    return table | _beyond(scores, table, targets, n)


def _beyond(scores, table, targets, n) -> dict:
    """abl_diff compared with size-matched removals: mean difference, and p of each run.

    p: share of removals with a difference as low as the run's, counting the run itself. If a mask
    keeps more than half of a leaf, there is no removal of that size outside it: values are NaN.
    """
    columns = {}
    for kind in ablation.NULLS:
        draws = [ablation.drawn(scores, kind, f"test/test_{i}") for i in range(n)]
        null = difference(*own_and_others(np.stack(draws), targets))  # [draws, runs]
        if not len(null):
            null = np.full((1, len(targets)), np.nan)
        if kind == "complement":
            null = np.where(scores["has complement"] > 0, null, np.nan)
        columns[f"null_{kind}"] = null.mean(axis=0)
        columns[f"abl_beyond_{kind}"] = table["abl_diff"] - null.mean(axis=0)
        columns[f"p_{kind}"] = np.array(
            [
                stats.null_p(seen, draws, "below") if np.isfinite(draws).all() else np.nan
                for seen, draws in zip(table["abl_diff"], null.T)
            ]
        )
    return columns


def rows(table: dict, where) -> dict:
    """The rows of a table that `where` (bool or indices) selects."""
    return {name: values[where] for name, values in table.items()}


# --- summaries ------------------------------------------------------------------------------------


def by_base(table: dict, column: str, n_bases: int) -> np.ndarray:
    """Means [bases] over the runs of each base; NaN for invalid bases."""
    values = np.full(n_bases, np.nan)
    for base in range(n_bases):
        of_base = (table["base"] == base) & table["valid_base"]
        if of_base.any():
            values[base] = np.mean(table[column][of_base])
    return values


def metrics(table: dict, bases: Bases, subroutines, suffix: str = "") -> dict:
    """{"<subroutine>: <measure>": (value of each base, its seed)} and the tests' p."""
    n_bases = len(bases.valid)
    seeds = bases.numbers["base_seed"].tolist()
    by_name = {}
    for i, subroutine in enumerate(subroutines):
        of_target = rows(table, table["target"] == i)
        for column, label in SHOWN.items():
            values = by_base(of_target, column, n_bases)
            by_name[f"{subroutine}: {label}{suffix}"] = (values, seeds)
        for label, p in tests(of_target).items():
            by_name[f"{subroutine}: {label}{suffix}"] = ([p], [])
    return by_name


def tested(table: dict) -> dict:
    """Runs of valid bases whose masks keep some weights and not all: others remove nothing or all.

    The differences of such a mask are those of the base itself, or of an empty network.
    """
    return rows(table, table["valid_base"] & (table["kept"] > 0) & (table["kept"] < 1))


def tests(table: dict) -> dict:
    """p of no difference, for subnetworks and ablations of one subroutine, over `tested` runs.

    Names without suffix: the paper's clustered z tests, which are anti-conservative with few bases.
    "wild clusters" and "signs" flip the signs of whole bases; with G bases their p is at least
    2^(1 - G). "removals": the median over runs of p against size-matched removals.
    """
    valid = tested(table)
    p_values = {}
    if len(np.unique(valid["base"])) > 1:
        halves = {"sub": (1.0, 0.0), "abl": (1.0, 1.0)}  # intercept, and intercept + ablation
        n = len(valid["base"])
        y = np.concatenate([valid["sub_diff"], valid["abl_diff"]])
        design = np.stack([np.ones(2 * n), np.repeat([0.0, 1.0], n)], axis=1)
        clusters = np.tile(valid["base"], 2)
        fitted = stats.clustered_covariance(y, design, clusters)
        for half, contrast in halves.items():
            p_values[f"p of {half}_diff"] = stats.wald(*fitted, contrast).p
            p_values[f"p of {half}_diff, wild clusters"] = stats.wild_cluster(
                y, design, clusters, contrast
            )
            p_values[f"p of {half}_diff, signs"] = stats.sign_flip_test(
                valid[f"{half}_diff"], valid["base"]
            )
    for kind in ablation.NULLS:
        p = valid[f"p_{kind}"]
        if np.isfinite(p).any():
            p_values[f"p of abl_diff, {kind} removals"] = float(np.nanmedian(p))
    return p_values


def against(trained: dict, random: dict) -> dict:
    """p of no difference between masks of trained bases and of random weights: clustered z tests.

    The model is `y ~ ablation * random`; each base of either kind is a cluster.
    """
    halves = []
    for is_random, table in enumerate((trained, random)):
        valid = tested(table)
        clusters = 2 * valid["base"] + is_random
        for is_ablated, column in enumerate(("sub_diff", "abl_diff")):
            n = len(clusters)
            halves.append((valid[column], np.full(n, is_ablated), np.full(n, is_random), clusters))
    y, ablated, is_random, clusters = (np.concatenate(columns) for columns in zip(*halves))
    if len(np.unique(is_random)) < 2 or len(np.unique(clusters)) < 3:
        return {}
    fitted = stats.clustered_covariance(y, stats.interaction_design(ablated, is_random), clusters)
    contrasts = {"sub": (0.0, 0.0, 1.0, 0.0), "abl": (0.0, 0.0, 1.0, 1.0)}
    return {
        f"p of {half}_diff against random weights": stats.wald(*fitted, contrast).p
        for half, contrast in contrasts.items()
    }


# --- measures of accuracies -----------------------------------------------------------------------


LEAST = 0.9  # a mask is valid if the accuracy on its own set is at least this


def clipped(accuracy):
    """An accuracy, raised to chance if it is below."""
    return np.maximum(accuracy, CHANCE)


def difference(target, other):
    """Clipped target minus clipped other, from -0.75 to 0.75.

    Predicted: above 0 for a subnetwork, below 0 for an ablation.
    """
    return clipped(np.asarray(target, float)) - clipped(np.asarray(other, float))


def quality(own_accuracy, ablated_target, ablated_other, least: float = LEAST):
    """How well an ablation spares the other subroutine; -inf if the mask is not valid."""
    spared = -difference(ablated_target, ablated_other)
    return np.where(np.asarray(own_accuracy) >= least, spared, -np.inf)


def chosen(qualities) -> int | None:
    """Index of the best configuration; None if no mask is valid."""
    qualities = np.asarray(qualities, float)
    best = int(np.argmax(qualities))
    return best if np.isfinite(qualities[best]) else None


def full_pattern(sub_diff, abl_diff):
    """Whether both signs are as predicted."""
    return (np.asarray(sub_diff) > 0) & (np.asarray(abl_diff) < 0)
