"""Is a model conjunction-wise additive, and what does its representation make salient?

Measures of any model's outputs or features on combinations x = (z_1..z_C) of component values
(Lippl and Stachenfeld 2025, theorem 4.2 and figures 3 to 5). They use NumPy in float64 and run once
per model.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import (
    checked,
    choice,
    finite,
    integer,
    integers,
    labels,
    mask,
    symmetric,
)
from cgjax.analysis.salience import subsets

# The label of an absent component of a conjunction.
ABSENT = "all"
_RIDGE = 1e-10


# --- additivity -----------------------------------------------------------------------------------


class Additivity(NamedTuple):
    """The best conjunction-wise additive account of a model's outputs."""

    r2_test: np.ndarray  # [...]
    r2_train: np.ndarray  # [...]
    labels: np.ndarray  # str [p + 1, C], "all" for an absent component; the intercept last
    coefficients: np.ndarray  # [..., p + 1] the value of each conjunction


class SplitAdditivity(NamedTuple):
    """The same for any number of splits."""

    splits: np.ndarray  # [s], sorted
    r2: np.ndarray  # [..., s]
    labels: np.ndarray
    coefficients: np.ndarray


@checked
def additivity(x: integers("n C"), yhat: finite("... n"), is_train: mask("n")) -> Additivity:
    """R2 of outputs as a sum of values of the conjunctions that occur in training.

    x: combinations; repeated ones are averaged. is_train: whether the combination is in the
    training set.

    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> float(additivity(x, 2.0 * x[:, 0] - x[:, 1], [True, True, True, False]).r2_test)
    1.0
    """
    x, is_train = np.asarray(x), np.asarray(is_train)
    splits = np.where(is_train, "train", "test")
    result = additivity_by_split(x, yhat, splits, x[is_train])
    r2 = {split: result.r2[..., i] for i, split in enumerate(result.splits)}
    absent = np.full(np.shape(yhat)[:-1], np.nan)
    scores = (r2.get("test", absent), r2.get("train", absent))
    return Additivity(*scores, result.labels, result.coefficients)


@checked
def additivity_by_split(
    x: integers("n C"), yhat: finite("... n"), splits: labels("n"), x_train: integers("m C")
) -> SplitAdditivity:
    """Additivity of outputs for several samples of each combination, in several splits.

    x: the combination of each sample. x_train: the training combinations, whose conjunctions may
    be used.

    Outputs are averaged for each combination and split. One ridge regression with an intercept is
    fitted to all averages; the R2 of each split is relative to the mean of that split.
    """
    x, yhat, splits = np.asarray(x), np.asarray(yhat, np.float64), np.asarray(splits)
    groups = _groups(x, splits)
    mean = np.stack([yhat[..., rows].mean(axis=-1) for rows in groups.rows], axis=-1)
    labels = conjunctions(x_train)
    design = _design(groups.x, labels)
    coefficients = _ridge(design, mean)
    fitted = coefficients @ design.T
    names = np.unique(splits)
    r2 = []
    for name in names:
        rows = groups.splits == name
        r2.append(_r2(mean[..., rows], fitted[..., rows], mean))
    return SplitAdditivity(names, np.stack(r2, axis=-1), labels, coefficients)


@checked
def conjunctions(x_train: integers("m C")) -> np.ndarray:
    """Labels of the conjunctions that occur in x_train: str [p + 1, C], intercept last.

    They are sorted by size, then by components, then by values, the first component fastest.
    """
    x_train = np.asarray(x_train)
    n_components = x_train.shape[1]
    rows = []
    for size in range(1, n_components + 1):
        for members in itertools.combinations(range(n_components), size):
            # Columns are reversed: np.unique sorts by the last component first, so that the first
            # one varies fastest.
            for values in np.unique(x_train[:, members[::-1]], axis=0)[:, ::-1]:
                row = [ABSENT] * n_components
                for member, value in zip(members, values):
                    row[member] = str(value)
                rows.append(row)
    return np.array([*rows, [ABSENT] * n_components])


def _design(x, labels):
    """1 where a combination contains a conjunction: [n, p + 1]; all contain the intercept."""
    names = x.astype(str)
    columns = [np.all((label == ABSENT) | (label == names), axis=1) for label in labels]
    return np.stack(columns, axis=1).astype(np.float64)


def _ridge(design, y):
    """Coefficients [..., p + 1]; the intercept, last, is not penalised.

    The columns are linearly dependent, so the ridge selects the smallest coefficients that fit.
    """
    columns, centre = design[:, :-1], design[:, :-1].mean(axis=0)
    u, sigma, vt = np.linalg.svd(columns - centre, full_matrices=False)
    y_mean = y.mean(axis=-1, keepdims=True)
    slopes = ((y - y_mean) @ u * (sigma / (sigma**2 + _RIDGE))) @ vt
    return np.concatenate([slopes, y_mean - (slopes @ centre)[..., None]], axis=-1)


def _r2(y, fitted, all_y):
    """1 - rss / tss; for constant outputs, 1 if the fit is exact up to rounding, else 0."""
    rss = np.sum((y - fitted) ** 2, axis=-1)
    tss = np.sum((y - y.mean(axis=-1, keepdims=True)) ** 2, axis=-1)
    negligible = 1e-24 * np.sum(all_y**2, axis=-1)
    varies = tss > negligible
    return np.where(varies, 1 - rss / np.where(varies, tss, 1), 1.0 * (rss <= 1e4 * negligible))


@checked
def item_values(
    labels: labels("p C"), coefficients: finite("... p"), component: integer(0, below="C")
) -> tuple[np.ndarray, np.ndarray]:
    """Items of one component [k] and the value that each adds to the output [..., k].

    The value is the item's coefficient plus an equal share of the intercept: half of it for two
    components.
    """
    labels, coefficients = np.asarray(labels), np.asarray(coefficients)
    if np.any(labels[-1] != ABSENT):
        raise ValueError("labels must end with the intercept, as those of `additivity` do")
    others = np.delete(labels, component, axis=1)
    is_item = np.all(others == ABSENT, axis=1) & (labels[:, component] != ABSENT)
    share = coefficients[..., -1:] / labels.shape[1]
    return labels[is_item, component].astype(int), coefficients[..., is_item] + share


# --- conjunction types in context dependence ------------------------------------------------------

TYPES = ("right", "wrong", "sensory", "context", "memorization")


@checked
def conjunction_types(labels: labels("p C"), relevant: Sequence[int]) -> np.ndarray:
    """The role of each conjunction, str [p]: one of TYPES, or "intercept".

    labels: context first. relevant: for each context, the component to respond to.
    Context and its relevant feature: right; context and another one: wrong; no context: sensory.

    >>> conjunction_types([["0", "2", "all"], ["0", "all", "2"]], relevant=(1, 2)).tolist()
    ['right', 'wrong']
    """
    labels = np.asarray(labels)
    contexts = [int(label[0]) for label in labels if label[0] != ABSENT]
    if contexts and not 0 <= min(contexts) <= max(contexts) < len(relevant):
        raise ValueError(
            f"relevant must name a component for every context of labels, got {len(relevant)}"
        )
    for component in relevant:
        checks.integer("relevant: each component", component, 1, labels.shape[1] - 1)
    types = []
    for label in labels:
        features = [c for c in range(1, len(label)) if label[c] != ABSENT]
        if label[0] == ABSENT:
            types.append("sensory" if features else "intercept")
        elif len(features) == 1:
            types.append("right" if relevant[int(label[0])] == features[0] else "wrong")
        else:
            types.append("memorization" if features else "context")
    return np.array(types)


@checked
def type_magnitudes(
    labels: labels("p C"),
    coefficients: finite("... p"),
    relevant: Sequence[int],
    relative_to: choice("sum", "max") = None,
    with_intercept: bool = False,
) -> dict[str, np.ndarray]:
    """Mean |value| of the conjunctions of each type [...]; for networks average over seeds first.

    relative_to: None, "sum" or "max" over the types. with_intercept: the intercept counts as a
    type, as in the paper's bars for CIFAR, which therefore do not add up to one.
    """
    types = conjunction_types(labels, relevant)
    absolute = np.abs(np.asarray(coefficients, np.float64))
    counted = (*TYPES, "intercept") if with_intercept else TYPES
    magnitudes = {
        name: absolute[..., types == name].mean(axis=-1) for name in counted if name in types
    }
    if relative_to is None:
        return magnitudes
    total = getattr(np, relative_to)(np.stack(list(magnitudes.values())), axis=0)
    return {name: value / total for name, value in magnitudes.items()}


# --- similarity of representations ----------------------------------------------------------------


class Similarity(NamedTuple):
    """Averaged dot products between all pairs of g groups, each one combination in one split."""

    x: np.ndarray  # [g, C]
    splits: np.ndarray  # [g]
    values: np.ndarray  # [..., g, g]


class Structure(NamedTuple):
    """Is a representation compositionally structured, and with which kernel?"""

    kappa: np.ndarray  # [..., C + 1] mean similarity by overlap, as `salience.salience` takes it
    spread: np.ndarray  # [..., C + 1] its standard deviation: zero for a structured kernel
    kappa_by_subset: np.ndarray  # [..., 2^C] by the shared components, as `salience.subsets`


@checked
def similarity(
    x: integers("n C"),
    features: finite("n ..."),
    splits: labels("n") = None,
    n_samples: integer(1) = None,
    with_self: bool | None = None,
) -> Similarity:
    """Un-centred dot products of features, averaged over all sample pairs of each pair of groups.

    features: flattened; also gradients, for the NTK.
    n_samples: only the first n_samples of each group are used; None for all.
    with_self: whether the similarity of a group with itself includes the products of samples with
    themselves. They have weight 1 / n, so salience then depends on the number n of samples. None
    includes them only if every group has one sample. The paper has n_samples=11, with_self=True.
    """
    features = np.asarray(features, np.float64)
    features = features.reshape(len(features), -1)
    return similarity_of_gram(x, features @ features.T, splits, n_samples, with_self)


@checked
def similarity_of_gram(
    x: integers("n C"),
    gram: symmetric("... n n"),
    splits: labels("n") = None,
    n_samples: integer(1) = None,
    with_self: bool | None = None,
) -> Similarity:
    """`similarity` from the dot products [..., n, n] of samples, for example NTKs."""
    x, gram = np.asarray(x), np.asarray(gram, np.float64)
    splits = np.full(len(x), ABSENT) if splits is None else np.asarray(splits)
    of_themselves = np.diagonal(gram, axis1=-2, axis2=-1)
    if np.any(of_themselves < 0):
        raise ValueError("gram has a negative diagonal: it does not hold dot products of samples")
    groups = _groups(x, splits)
    if len(groups.x) == len(x) and with_self is not False:  # every group has one sample
        order = np.concatenate(groups.rows)
        return Similarity(groups.x, groups.splits, gram[..., order[:, None], order])
    average = np.zeros((len(groups.x), len(x)))
    for row, members in zip(average, groups.rows):
        row[members[:n_samples]] = 1 / len(members[:n_samples])
    values = average @ gram @ average.T
    n = 1 / average.max(axis=1)
    if not (n.max() == 1 if with_self is None else with_self):
        with_itself, at = of_themselves @ (average**2).T, np.arange(len(n))
        with np.errstate(invalid="ignore", divide="ignore"):  # a single sample has no pair: nan
            values[..., at, at] = (values[..., at, at] - with_itself) * n / (n - 1)
    return Similarity(groups.x, groups.splits, values)


def structure(similar: Similarity) -> Structure:
    """Similarity by the components that two groups share, over all ordered pairs of groups.

    A group is also paired with itself, if its similarity with itself is known. Entries are nan
    where no pair has that overlap.
    """
    n = len(similar.x)
    if similar.values.shape[-2:] != (n, n):
        raise ValueError(f"similar has {n} groups, but similarities {similar.values.shape}")
    if not np.all(np.isfinite(similar.values[..., ~np.eye(n, dtype=bool)])):
        raise ValueError("similar holds similarities of distinct groups that are not finite")
    shared = similar.x[:, None] == similar.x[None]
    overlap = shared.sum(axis=-1)
    by_overlap = [similar.values[..., overlap == o] for o in range(shared.shape[-1] + 1)]
    members = subsets(shared.shape[-1])
    by_subset = [similar.values[..., np.all(shared == member, axis=-1)] for member in members]
    return Structure(
        _means(by_overlap),
        _means([(values - _mean(values)[..., None]) ** 2 for values in by_overlap]) ** 0.5,
        _means(by_subset),
    )


def _means(groups):
    return np.stack([_mean(values) for values in groups], axis=-1)


def _mean(values):
    """Mean over the last axis, of the entries that are known; nan if none is."""
    is_known = np.isfinite(values)
    n_known = is_known.sum(axis=-1)
    total = np.where(is_known, values, 0).sum(axis=-1)
    return np.where(n_known > 0, total / np.maximum(n_known, 1), np.nan)


# --- groups ---------------------------------------------------------------------------------------


class _Groups(NamedTuple):
    x: np.ndarray  # [g, C]
    splits: np.ndarray  # [g]
    rows: list  # of g index arrays, in the order of the samples


def _groups(x, splits):
    """One group for each pair of split and combination, sorted by both."""
    names, split_index = np.unique(splits, return_inverse=True)
    # Combinations are numbered first: int64 and uint64 in one array would become float64.
    combinations, x_index = np.unique(x, axis=0, return_inverse=True)
    keys = np.stack([split_index.ravel(), x_index.ravel()], axis=1)
    unique, group = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1])
    return _Groups(combinations[unique[:, 1]], names[unique[:, 0]], rows)
