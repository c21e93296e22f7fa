"""The tasks of Lippl and Stachenfeld 2025: training combinations and targets.

A task is defined on a grid of combinations z = (z_1 .. z_C), where the last component varies
fastest. Every combination outside the training set is a test combination.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cgjax.core.errors import BadInput

RELEVANT = (1, 2)  # context dependence: the relevant component of each context


class Task(NamedTuple):
    """Combinations x [N, C] (indices from 0), targets y [N], is_train [N], values per component."""

    x: np.ndarray
    y: np.ndarray
    is_train: np.ndarray
    sizes: tuple[int, ...]
    name: str


def grid(sizes: Sequence[int]) -> np.ndarray:
    """All combinations [prod(sizes), C], the last component fastest."""
    return np.indices(tuple(sizes)).reshape(len(sizes), -1).T


def is_classification(task: Task) -> bool:
    """Whether targets are -1 and 1."""
    return bool(np.all(np.abs(task.y) == 1))


def anchors(task: Task) -> np.ndarray:
    """Items of component 0 that are trained in all combinations: bool [n]."""
    return np.array([np.all(task.is_train[task.x[:, 0] == i]) for i in range(task.sizes[0])])


def title(name: str) -> str:
    """A task's name in figures: "CD-3" for "cd_3", "both" for "addition_both"."""
    name = name.removeprefix("addition_")
    if name.startswith("te_") and "hubs" in name:
        return f"TE, hubs {name[-1]}"
    return name.upper().replace("_", "-") if name.startswith("cd_") else name.replace("_", " ")


# --- symbolic addition ----------------------------------------------------------------------------

VALUES = tuple(range(-4, 5))
# Anchors W: a combination is trained when at least one of its components is an anchor.
ANCHORS = {
    "extrapolation": (4,),
    "asymmetric": (0,),
    "interpolation": (0, 8),
    "both": (2, 6),
    # More anchors p, from the outside in and from the inside out. Their values average to zero.
    "interpolation_3": (0, 4, 8),
    "interpolation_4": (0, 1, 7, 8),
    "extrapolation_2": (3, 5),
    "extrapolation_3": (3, 4, 5),
    "extrapolation_4": (2, 3, 5, 6),
}


# The training sets of the paper's figures, named as in `make`.
ADDITION_SETS = tuple(
    f"addition_{name}" for name in ("extrapolation", "asymmetric", "interpolation", "both")
)
CD_SETS = ("cd_1", "cd_2", "cd_3")
# By number of anchors: p = 1 to 4 from the inside out, then p = 2 to 4 from the outside in. The
# paper varies p but does not name its anchors.
ANCHOR_SETS = tuple(
    f"addition_{name}"
    for name in (
        "extrapolation",
        "extrapolation_2",
        "extrapolation_3",
        "extrapolation_4",
        "interpolation",
        "interpolation_3",
        "interpolation_4",
    )
)
DISPERSED_SETS = tuple(f"addition_dispersed_{seed}" for seed in (0, 1, 2))


def addition(
    anchors: Sequence[int], values: Sequence[float] = VALUES, n_components: int = 2, name: str = ""
) -> Task:
    """y = v_i + v_j (+ ...); trained if at least one component's index is an anchor.

    >>> int(addition(ANCHORS["extrapolation"]).is_train.sum())
    17
    """
    n = len(values)
    if not anchors or not all(0 <= anchor < n for anchor in anchors):
        raise BadInput(f"anchors must be indices of the {n} values, 0 to {n - 1}, got {anchors}")
    sizes = (n,) * n_components
    x = grid(sizes)
    y = np.asarray(values, np.float64)[x].sum(axis=1)
    is_train = np.isin(x, np.asarray(anchors)).any(axis=1)
    return Task(x, y, is_train, sizes, name or f"addition_{'_'.join(map(str, anchors))}")


def addition_dispersed(seed: int, values: Sequence[float] = VALUES, per_item: int = 2) -> Task:
    """Addition without anchors: every item of both components is trained in `per_item` pairs.

    Row i of the training matrix is trained at columns i .. i + per_item - 1 (mod n); then the rows
    are shuffled.
    """
    n = len(values)
    if not 0 < per_item <= n:
        raise BadInput(f"per_item must lie between 1 and the {n} values, got {per_item}")
    trained = np.zeros((n, n), int)
    for i in range(n):
        trained[i, (i + np.arange(per_item)) % n] = 1
    np.random.default_rng(seed).shuffle(trained)
    x = grid((n, n))
    y = np.asarray(values, np.float64)[x].sum(axis=1)
    return Task(x, y, trained.ravel().astype(bool), (n, n), f"addition_dispersed_{seed}")


# --- two by two -----------------------------------------------------------------------------------


def invariance() -> Task:
    """Items in {-1, 1}^2, y = item 1; trained with item 2 = -1 only."""
    x = grid((2, 2))
    return Task(x, 2.0 * x[:, 0] - 1, x[:, 1] == 0, (2, 2), "invariance")


def partial_exposure() -> Task:
    """Invariance with (-1, +1) also trained: only (1, 1) is new."""
    x = grid((2, 2))
    return Task(x, 2.0 * x[:, 0] - 1, (x == 0).any(axis=1), (2, 2), "partial_exposure")


# --- context dependence ---------------------------------------------------------------------------


def context_dependence(
    features: Sequence[int],
    feature_of_context: Sequence[int],
    responses: Sequence[Sequence[float]],
    left_out: Sequence[Mapping[int, Sequence[int]]],
    name: str = "context_dependence",
) -> Task:
    """z = (context, feature 1, ...): the context selects the relevant feature.

    features: number of values of each feature. feature_of_context: the relevant feature of each
    context, counted from 0. responses[k][v]: response to value v of feature k. left_out:
    conjunctions, each a map component -> values (component 0 is the context). A combination is
    tested if it matches every entry of at least one conjunction.
    """
    if [len(row) for row in responses] != list(features):
        raise BadInput(f"responses need one entry per value of each feature {tuple(features)}")
    if not all(0 <= k < len(features) for k in feature_of_context):
        raise BadInput(f"contexts must map to features 0 to {len(features) - 1}")
    sizes = (len(feature_of_context), *features)
    x = grid(sizes)
    relevant = np.asarray(feature_of_context)[x[:, 0]]
    value = x[np.arange(len(x)), 1 + relevant]
    table = np.full((len(features), max(features)), np.nan)
    for k, row in enumerate(responses):
        table[k, : len(row)] = row
    is_test = np.zeros(len(x), bool)
    for conjunction in left_out:
        matches = [np.isin(x[:, c], list(values)) for c, values in conjunction.items()]
        is_test |= np.logical_and.reduce(matches)
    return Task(x, table[relevant, value], ~is_test, sizes, name)


def _halves(n: int) -> tuple[float, ...]:
    """-1 for the first half of a feature's values, +1 for the second."""
    return (-1.0,) * (n // 2) + (1.0,) * (n - n // 2)


def cd(k: int) -> Task:
    """CD-k: two contexts, two features of 6 values; k values of each are held out together.

    CD-3 holds out whole classes: feature 1 of class -1 with feature 2 of class +1.
    """
    if k not in (1, 2, 3):
        raise BadInput(f"there is no CD-{k}: k must be 1, 2 or 3")
    held_out = {1: range(k), 2: range(3, 3 + k)}
    return context_dependence((6, 6), (0, 1), (_halves(6),) * 2, (held_out,), f"cd_{k}")


def stimulus_composition() -> Task:
    """Two contexts, features of 2 values; one pair of values left out."""
    left_out = ({1: (0,), 2: (1,)},)
    responses = (_halves(2),) * 2
    return context_dependence((2, 2), (0, 1), responses, left_out, "stimulus_composition")


def stimulus_composition_2() -> Task:
    """Two contexts per feature, features of 4 values; a pair of classes left out."""
    left_out = ({1: (0, 1), 2: (2, 3)},)
    responses = (_halves(4),) * 2
    return context_dependence((4, 4), (0, 0, 1, 1), responses, left_out, "stimulus_composition_2")


def context_substitution() -> Task:
    """Two contexts per feature; one context of each feature omits some values of both features."""
    left_out = ({0: (0, 2), 1: (0, 3)}, {0: (0, 2), 2: (0, 3)})
    responses = (_halves(6),) * 2
    return context_dependence((6, 6), (0, 0, 1, 1), responses, left_out, "context_substitution")


# --- relations ------------------------------------------------------------------------------------


def transitive_equivalence(classes: Sequence[int] = (2, 2), hubs: Sequence[int] = (1, 1)) -> Task:
    """y = +1 if both items belong to one class, else -1; trained if at least one item is a hub.

    classes: sizes of the classes; items are numbered class by class. hubs: number of hubs of each
    class, its first items.
    """
    if len(hubs) != len(classes) or not all(0 <= h <= n for h, n in zip(hubs, classes)):
        raise BadInput(f"hubs {tuple(hubs)} must be at most the class sizes {tuple(classes)}")
    class_of = np.repeat(np.arange(len(classes)), classes)
    is_hub = np.concatenate([np.arange(n) < h for n, h in zip(classes, hubs)])
    n = len(class_of)
    x = grid((n, n))
    y = np.where(class_of[x[:, 0]] == class_of[x[:, 1]], 1.0, -1.0)
    name = "te_{}_hubs_{}".format(*("_".join(map(str, sizes)) for sizes in (classes, hubs)))
    return Task(x, y, is_hub[x].any(axis=1), (n, n), name)


def transitive_ordering(
    n: int = 7, distances: Sequence[int] = (1,), exceptions: Sequence[tuple[int, int]] = ()
) -> Task:
    """Ordered pairs of distinct items: y = +1 if the first ranks lower, else -1.

    A pair is trained if its rank difference is one of `distances`. Exceptions are trained with the
    opposite response. An untrained pair between the two items of an exception has no correct
    response and is removed from the grid.
    """
    x = grid((n, n))
    first, second = x.T
    y = np.where(first < second, 1.0, -1.0)
    is_train = np.isin(np.abs(first - second), list(distances))
    in_grid = first != second
    is_exception = np.zeros(len(x), bool)
    for a, b in exceptions:
        if a == b or not (0 <= a < n and 0 <= b < n):
            raise BadInput(f"an exception is a pair of distinct items below {n}, got {(a, b)}")
        is_exception |= (first == a) & (second == b)
    for a, b in exceptions:
        enclosed = (x >= min(a, b)).all(axis=1) & (x <= max(a, b)).all(axis=1)
        in_grid &= ~enclosed | is_train | is_exception
    y, is_train = np.where(is_exception, -y, y), is_train | is_exception
    return Task(x[in_grid], y[in_grid], is_train[in_grid], (n, n), f"to_{n}")


# --- by name --------------------------------------------------------------------------------------

TASKS = {
    "invariance": invariance,
    "partial_exposure": partial_exposure,
    "cd_1": lambda: cd(1),
    "cd_2": lambda: cd(2),
    "cd_3": lambda: cd(3),
    "stimulus_composition": stimulus_composition,
    "stimulus_composition_2": stimulus_composition_2,
    "context_substitution": context_substitution,
    "te_2_2": transitive_equivalence,
    "te_3_3": lambda: transitive_equivalence((3, 3), (1, 1)),
    "te_3_5": lambda: transitive_equivalence((3, 5), (1, 2)),
    "te_5_5_hubs_1": lambda: transitive_equivalence((5, 5), (1, 1)),
    "te_5_5_hubs_4": lambda: transitive_equivalence((5, 5), (4, 4)),
    "to_7": transitive_ordering,
}


def make(name: str) -> Task:
    """The task of that name: one of TASKS, addition_<one of ANCHORS> or addition_dispersed_<seed>.

    >>> int(make("addition_both").is_train.sum())
    32
    """
    kind, _, seed = name.rpartition("_")
    if kind == "addition_dispersed" and seed.isdigit():
        return addition_dispersed(int(seed))
    training = name.removeprefix("addition_")
    if training != name and training in ANCHORS:
        return addition(ANCHORS[training], name=name)
    if name not in TASKS:
        names = [*TASKS, *(f"addition_{key}" for key in ANCHORS), "addition_dispersed_0"]
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]
        raise BadInput(f"unknown task '{name}': did you mean '{near}'?")
    return TASKS[name]()._replace(name=name)


def is_task(name) -> bool:
    """Whether `make` accepts the name; an unknown name raises an error with the nearest name."""
    return isinstance(name, str) and make(name) is not None
