"""Is a model conjunction-wise additive, and what does its representation make salient?

Measures of any model's outputs or features on combinations x = (z_1..z_C) of component values
(Lippl and Stachenfeld 2025, sections 4 to 6). NumPy, float64; they are run once per model.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.salience import subsets

# What stands for an absent component in a conjunction's label.
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
    """The same with any number of splits."""

    splits: np.ndarray  # [s], sorted
    r2: np.ndarray  # [..., s]
    labels: np.ndarray
    coefficients: np.ndarray


def additivity(x: np.ndarray, yhat: np.ndarray, is_train: np.ndarray) -> Additivity:
    """How far outputs are a sum of values of conjunctions that occur in training.

    x: combinations, integers [n, C]; repeated ones are averaged. yhat: [..., n].
    is_train: bool [n], whether the combination was trained on.

    >>> additivity(x, machines.ridgeless(k[train][:, train], y[train], k[:, train]), train).r2_test
    1.0
    """
    x = _combinations("x", x)
    checks.mask("is_train", is_train, (len(x),))
    is_train = np.asarray(is_train)
    splits = np.where(is_train, "train", "test")
    found = additivity_by_split(x, yhat, splits, x[is_train])
    r2 = {split: found.r2[..., i] for i, split in enumerate(found.splits)}
    absent = np.full(np.shape(yhat)[:-1], np.nan)
    scores = (r2.get("test", absent), r2.get("train", absent))
    return Additivity(*scores, found.labels, found.coefficients)


def additivity_by_split(
    x: np.ndarray, yhat: np.ndarray, splits: np.ndarray, x_train: np.ndarray
) -> SplitAdditivity:
    """Additivity of outputs for several samples of each combination, in several splits.

    x: [n, C], the combination of each sample. yhat: [..., n]. splits: [n], names.
    x_train: [m, C], the combinations trained on, whose conjunctions may be used.

    Outputs are averaged for each combination and split; one ridge regression with an intercept is
    fitted to all of them, and scored in each split about that split's own mean.
    """
    checks.finite(yhat=yhat)
    x, yhat = _combinations("x", x), np.asarray(yhat, np.float64)
    splits = _names(splits)
    if yhat.shape[-1:] != (len(x),) or splits.shape != (len(x),):
        raise ValueError(
            f"x has {len(x)} samples: yhat is [..., {len(x)}], one output each, and splits "
            f"[{len(x)}]; got {yhat.shape} and {splits.shape}"
        )
    groups = _groups(x, splits)
    mean = np.stack([yhat[..., rows].mean(axis=-1) for rows in groups.rows], axis=-1)
    labels = conjunctions(x_train)
    if labels.shape[1] != x.shape[1]:
        raise ValueError(f"x_train has {labels.shape[1]} components, x has {x.shape[1]}")
    design = _design(groups.x, labels)
    coefficients = _ridge(design, mean)
    fitted = coefficients @ design.T
    names = np.unique(splits)
    r2 = []
    for name in names:
        rows = groups.splits == name
        r2.append(_r2(mean[..., rows], fitted[..., rows], mean))
    return SplitAdditivity(names, np.stack(r2, axis=-1), labels, coefficients)


def conjunctions(x_train: np.ndarray) -> np.ndarray:
    """Labels of the conjunctions that occur in x_train [m, C]: str [p + 1, C], intercept last.

    Sorted by size, then by components, then by values, those of the first component fastest.
    """
    x_train = _combinations("x_train", x_train)
    n_components = x_train.shape[1]
    rows = []
    for size in range(1, n_components + 1):
        for members in itertools.combinations(range(n_components), size):
            # Sorted by the last component first, so that the first one varies fastest.
            for values in np.unique(x_train[:, members[::-1]], axis=0)[:, ::-1]:
                row = [ABSENT] * n_components
                for member, value in zip(members, values):
                    row[member] = str(value)
                rows.append(row)
    return np.array([*rows, [ABSENT] * n_components])


def _design(x, labels):
    """Whether each conjunction is in each combination: [n, p + 1]; the intercept is in all."""
    names = x.astype(str)
    columns = [np.all((label == ABSENT) | (label == names), axis=1) for label in labels]
    return np.stack(columns, axis=1).astype(np.float64)


def _ridge(design, y):
    """Coefficients [..., p + 1]; the intercept, last, is not penalised.

    The columns are linearly dependent: the smallest coefficients that fit, up to the tiny ridge.
    """
    columns, centre = design[:, :-1], design[:, :-1].mean(axis=0)
    u, sigma, vt = np.linalg.svd(columns - centre, full_matrices=False)
    y_mean = y.mean(axis=-1, keepdims=True)
    found = ((y - y_mean) @ u * (sigma / (sigma**2 + _RIDGE))) @ vt
    return np.concatenate([found, y_mean - (found @ centre)[..., None]], axis=-1)


def _r2(y, fitted, every):
    """1 - rss / tss; where the outputs do not vary, 1 if the fit is as good as rounding, else 0."""
    rss = np.sum((y - fitted) ** 2, axis=-1)
    tss = np.sum((y - y.mean(axis=-1, keepdims=True)) ** 2, axis=-1)
    negligible = 1e-24 * np.sum(every**2, axis=-1)
    varies = tss > negligible
    return np.where(varies, 1 - rss / np.where(varies, tss, 1), 1.0 * (rss <= 1e4 * negligible))


def item_values(
    labels: np.ndarray, coefficients: np.ndarray, component: int
) -> tuple[np.ndarray, np.ndarray]:
    """Items of one component [k] and what each adds to the output [..., k].

    Their own coefficient plus an equal share of the intercept: half of it for two components.
    """
    labels, coefficients = _account(labels, coefficients)
    checks.integer("component", component, 0, labels.shape[1] - 1)
    if np.any(labels[-1] != ABSENT):
        raise ValueError("labels end with the intercept, as `additivity` gives them")
    others = np.delete(labels, component, axis=1)
    is_item = np.all(others == ABSENT, axis=1) & (labels[:, component] != ABSENT)
    share = coefficients[..., -1:] / labels.shape[1]
    return labels[is_item, component].astype(int), coefficients[..., is_item] + share


# --- conjunction types in context dependence ------------------------------------------------------

TYPES = ("right", "wrong", "sensory", "context", "memorization")


def conjunction_types(labels: np.ndarray, relevant: Sequence[int]) -> np.ndarray:
    """The role of each conjunction, str [p]: one of TYPES, or "intercept".

    labels: [p, C], context first. relevant: for each context, the component to respond to.
    Context and the relevant feature: right; context and another: wrong; no context: sensory.

    >>> conjunction_types([["0", "2", "all"], ["0", "all", "2"]], relevant=(1, 2)).tolist()
    ['right', 'wrong']
    """
    labels = _labels(labels)
    contexts = [int(label[0]) for label in labels if label[0] != ABSENT]
    if contexts and not 0 <= min(contexts) <= max(contexts) < len(relevant):
        raise ValueError(
            f"relevant names a component for {len(relevant)} contexts, labels have more"
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


def type_magnitudes(
    labels: np.ndarray,
    coefficients: np.ndarray,
    relevant: Sequence[int],
    relative_to: str | None = None,
    with_intercept: bool = False,
) -> dict[str, np.ndarray]:
    """Mean |value| of the conjunctions of each type [...]; for networks average over seeds first.

    relative_to: None, "sum" or "max" over the types. with_intercept: count the intercept among
    them, as the paper's bars for CIFAR do, which therefore do not add up to one.
    """
    if relative_to not in (None, "sum", "max"):
        raise ValueError(f"magnitudes relative to '{relative_to}': sum, max or None")
    labels, coefficients = _account(labels, coefficients)
    types = conjunction_types(labels, relevant)
    absolute = np.abs(np.asarray(coefficients, np.float64))
    counted = (*TYPES, "intercept") if with_intercept else TYPES
    found = {name: absolute[..., types == name].mean(axis=-1) for name in counted if name in types}
    if relative_to is None:
        return found
    total = getattr(np, relative_to)(np.stack(list(found.values())), axis=0)
    return {name: value / total for name, value in found.items()}


def _labels(labels):
    labels = np.asarray(labels)
    if labels.ndim != 2 or labels.size == 0:
        raise ValueError(f"labels are [p, C], got shape {labels.shape}")
    return labels


def _account(labels, coefficients):
    """Labels [p, C] and coefficients [..., p] that belong together."""
    checks.finite(coefficients=coefficients)
    labels, coefficients = _labels(labels), np.asarray(coefficients)
    if coefficients.shape[-1:] != (len(labels),):
        raise ValueError(f"coefficients are [..., {len(labels)}], got {coefficients.shape}")
    return labels, coefficients


# --- similarity of representations ----------------------------------------------------------------


class Similarity(NamedTuple):
    """Averaged dot products between all pairs of g groups, each one combination in one split."""

    x: np.ndarray  # [g, C]
    splits: np.ndarray  # [g]
    values: np.ndarray  # [g, g]


class Structure(NamedTuple):
    """Is a representation compositionally structured, and with which kernel?"""

    kappa: np.ndarray  # [C + 1] mean similarity by overlap; `salience.salience` of it
    spread: np.ndarray  # [C + 1] its standard deviation: zero by definition of such a kernel
    kappa_by_subset: np.ndarray  # [2^C] by the set of shared components, as `salience.subsets`


def similarity(
    x: np.ndarray,
    features: np.ndarray,
    splits: np.ndarray | None = None,
    n_samples: int | None = 11,
    with_self: bool = True,
) -> Similarity:
    """Un-centred dot products of features, averaged over all sample pairs of each pair of groups.

    x: [n, C]. features: [n, ...], flattened; also gradients, for the NTK. splits: [n], names.
    n_samples: only the first so many of each group enter, 11 in the paper; None for all.
    with_self: a sample's product with itself counts in its own group, as in the paper.
    """
    checks.finite(features=features)
    features = np.asarray(features, np.float64)
    if features.ndim == 0:
        raise ValueError("features are [n, ...], got a single number")
    features = features.reshape(len(features), -1)
    return similarity_of_gram(x, features @ features.T, splits, n_samples, with_self)


def similarity_of_gram(
    x: np.ndarray,
    gram: np.ndarray,
    splits: np.ndarray | None = None,
    n_samples: int | None = 11,
    with_self: bool = True,
) -> Similarity:
    """`similarity` from the samples' dot products [n, n] themselves, for example an NTK."""
    checks.symmetric("gram", gram)
    x, gram = _combinations("x", x), np.asarray(gram, np.float64)
    splits = np.full(len(x), ABSENT) if splits is None else _names(splits)
    if n_samples is not None:
        checks.integer("n_samples", n_samples, 1)
    if gram.shape != (len(x), len(x)) or splits.shape != (len(x),):
        raise ValueError(f"{len(x)} samples, but products {gram.shape} and splits {splits.shape}")
    if np.any(np.diag(gram) < 0):
        raise ValueError("gram has a negative diagonal: no dot products of samples with themselves")
    groups = _groups(x, splits)
    average = np.zeros((len(groups.x), len(x)))
    for row, members in zip(average, groups.rows):
        row[members[:n_samples]] = 1 / len(members[:n_samples])
    values = average @ gram @ average.T
    if not with_self:
        own = average**2 @ np.diag(gram)
        n = 1 / average.max(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):  # a lone sample has no pair: nan
            np.fill_diagonal(values, (np.diag(values) - own) * n / (n - 1))
    return Similarity(groups.x, groups.splits, values)


def normalised(found: Similarity) -> np.ndarray:
    """Similarity [g, g] on the scale where distinct combinations have mean 0, identical ones 1."""
    kappa = structure(found).kappa
    if not np.isfinite(kappa[-1] - kappa[0]) or kappa[-1] == kappa[0]:
        raise ValueError("found has no scale: distinct and identical pairs, and a difference")
    return (found.values - kappa[0]) / (kappa[-1] - kappa[0])


def structure(found: Similarity) -> Structure:
    """Similarity by what two groups share, over all ordered pairs of groups, a group with itself.

    Entries are nan where no two groups share exactly so much.
    """
    n = len(found.x)
    if found.values.shape != (n, n):
        raise ValueError(f"found holds {n} groups, but similarities {found.values.shape}")
    if not np.all(np.isfinite(found.values[~np.eye(n, dtype=bool)])):
        raise ValueError("found holds similarities of distinct groups that are not finite")
    shared = found.x[:, None] == found.x[None]
    overlap = shared.sum(axis=-1)
    by_overlap = [found.values[overlap == o] for o in range(shared.shape[-1] + 1)]
    members = subsets(shared.shape[-1])
    by_subset = [found.values[np.all(shared == member, axis=-1)] for member in members]
    return Structure(
        np.array([_mean(values) for values in by_overlap]),
        np.array([_mean((values - _mean(values)) ** 2) ** 0.5 for values in by_overlap]),
        np.array([_mean(values) for values in by_subset]),
    )


def _mean(values):
    return values.mean() if values.size else np.nan


# --- groups ---------------------------------------------------------------------------------------


class _Groups(NamedTuple):
    x: np.ndarray  # [g, C]
    splits: np.ndarray  # [g]
    rows: list  # of g index arrays, in the order of the samples


def _groups(x, splits):
    """One group for each split and combination, sorted by these."""
    names, split_index = np.unique(splits, return_inverse=True)
    keys = np.concatenate([split_index[:, None], x], axis=1)
    unique, group = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1])
    return _Groups(unique[:, 1:], names[unique[:, 0]], rows)


def _combinations(name, x):
    x = np.asarray(x)
    if x.ndim != 2 or not np.issubdtype(x.dtype, np.integer) or len(x) == 0:
        raise ValueError(f"{name} is combinations, integers [n, C], got {x.dtype} {x.shape}")
    return x


def _names(splits):
    splits = np.asarray(splits)
    if splits.dtype.kind in "fc" and not np.all(np.isfinite(splits)):
        raise ValueError("splits hold NaN: each sample has the name of its split")
    return splits
