"""Numbers that may predict whether a model composes, from its known combinations alone.

Arguments are arrays: factors, integers [n, C], the combination of each known input; features
[n, D], outputs or targets of these inputs; asked [m, C], the combinations that the model will be
tested on, whose inputs and targets no function here sees. Several inputs may share a combination.
A number that the known combinations cannot give is NaN. NumPy, float64.

>>> factors = np.indices((4, 4)).reshape(2, -1).T
>>> additive_share(factors, factors @ np.array([[1.0, 2.0], [3.0, -1.0]]))
1.0
"""

import itertools
from typing import NamedTuple

import numpy as np

from cgjax.analysis import effects
from cgjax.analysis.arguments import checked, finite, whole

FACTORS = whole("n C>=2")

RIDGE = 1e-3  # penalty of a probe or an operator, relative to the trace of its kernel
FOLDS = 8  # of the known combinations, for the operator of `homomorphism_error`
ROUNDING = 1e-12  # variance relative to the squares below which an array counts as constant


class View(NamedTuple):
    """What predictors see of a trained model and its task."""

    factors: np.ndarray  # [n, C] the combination of each known input
    asked: np.ndarray  # [m, C] unseen combinations
    features: np.ndarray  # [n, D] a representation of the known inputs
    outputs: np.ndarray  # [n, K]
    targets: np.ndarray  # [n, K]


# --- from the combinations alone ------------------------------------------------------------------


@checked
def partner_share(factors: whole("n C"), asked: whole("m C")) -> float:
    """Of the combinations that have a value of an asked one, the share that is known.

    The mean is over asked combinations and factors.
    """
    known, asked = _sets(factors, asked)
    shares = []
    for c in range(known.shape[1]):
        n_known, n_asked = (
            np.sum(rows[:, c] == asked[:, c, None], axis=1) for rows in (known, asked)
        )
        shares.append(n_known / (n_known + n_asked))
    return float(np.mean(shares))


@checked
def connected_share(factors: whole("n C"), asked: whole("m C")) -> float:
    """Share of asked combinations whose values lie in one component of the combination graph.

    The graph has a node for each value of each factor; a known combination joins its values.
    """
    known, asked = _sets(factors, asked)
    component = {
        (c, v): (c, v) for rows in (known, asked) for row in rows for c, v in enumerate(row)
    }
    for row in known:
        joined = {component[node] for node in enumerate(row)}
        first = min(joined)
        component = {node: first if at in joined else at for node, at in component.items()}
    return float(np.mean([len({component[node] for node in enumerate(row)}) == 1 for row in asked]))


@checked
def unknown_of_sum(factors: FACTORS, asked: whole("m C"), targets: finite("n ...")) -> float:
    """Share of the targets on asked combinations that a fitted sum over factors leaves open.

    1 - (share of asked combinations at which known targets determine the sum) x (`additive_share`
    of the known targets; 1 if there are as many terms as known combinations, which test nothing).
    """
    known, asked = _sets(factors, asked)
    every = np.concatenate([known, asked])
    is_known = np.arange(len(every)) < len(known)
    fit = effects.additive_fit(every, np.zeros((len(every), 1)), is_known)
    share = additive_share(factors, targets)
    explained = 1.0 if np.isnan(share) else max(share, 0.0)
    return 1 - float(np.mean(fit.determined[~is_known])) * explained


# --- from a representation of known combinations --------------------------------------------------


@checked
def additive_share(factors: FACTORS, values: finite("n ...")) -> float:
    """Share of the variance over combinations that a sum over factors explains, adjusted.

    1 - (rss / (n - terms)) / (tss / (n - 1)): values without structure have 0 on average. NaN for
    constant values, and if there are as many terms as combinations.
    """
    combinations, values = _combined(factors, values)
    n, terms = len(combinations), _n_terms(combinations)
    if n <= terms or _is_constant(values):
        return float("nan")
    labels = np.zeros(values.shape[1], int)
    left = effects.interactions(combinations, values, labels).total[0]
    return float(1 - left * (n - 1) / (n - terms))


@checked
def right_angles(factors: FACTORS, features: finite("n ...")) -> float:
    """F = 1 - mean|g01| / mean(g00 + g11) over known neighbours; the mean over pairs of factors.

    A neighbour of a combination along a factor is the known one with the next larger value of it
    and the same other values. From 1/2 (both factors move the features along one line) to 1.
    """
    combinations, features = _combined(factors, features)
    steps = [_steps(combinations, features, c) for c in range(combinations.shape[1])]
    scores = []
    for first, second in itertools.combinations(steps, 2):
        both = sorted(first.keys() & second.keys())
        if not both:
            continue
        a, b = (np.stack([step[i] for i in both]) for step in (first, second))
        along = np.mean(np.sum(a**2 + b**2, axis=1))
        if along > ROUNDING * np.mean(np.sum(features**2, axis=1)):
            scores.append(1 - np.mean(np.abs(np.sum(a * b, axis=1))) / along)
    return float(np.mean(scores)) if scores else float("nan")


@checked
def unit_overlap(factors: FACTORS, features: finite("n ...")) -> float:
    """Overlap of the units that two factors move: sum of minima over sum of maxima.

    A unit's sensitivity to a factor is its mean variance while only this factor changes, as a share
    of all units'. 0 if no unit responds to two factors, 1 if all respond to both alike. The mean is
    over pairs of factors; a factor that moves no unit has no overlap (NaN).
    """
    combinations, features = _combined(factors, features)
    if _is_constant(features):
        return float("nan")
    shares = effects.total_effects(combinations, features)
    sensitivity = np.where(np.isnan(shares), 0, shares) * np.var(features, axis=0)[:, None]
    total = sensitivity.sum(axis=0)
    scores = []
    for i, j in itertools.combinations(range(combinations.shape[1]), 2):
        if min(total[i], total[j]) > 1e-9 * max(total[i], total[j]):
            both = sensitivity[:, [i, j]] / total[[i, j]]
            scores.append(both.min(axis=1).sum() / both.max(axis=1).sum())
    return float(np.mean(scores)) if scores else float("nan")


@checked
def decodability(factors: FACTORS, features: finite("n ...")) -> float:
    """Accuracy above chance of a linear read-out of each factor, with values of another left out.

    For each factor and each value of another factor, a ridge probe is fitted to the inputs without
    that value and read on those with it. (accuracy - chance) / (1 - chance), the mean over factors;
    read are inputs whose own value the probe has seen.
    """
    factors, features = _rows(factors, features)
    features = _principal(features, len(features) - 1)
    scores = []
    for c, d in itertools.permutations(range(factors.shape[1]), 2):
        codes = (factors[:, c, None] == np.unique(factors[:, c])).astype(float)
        right, chance = [], []
        for value in np.unique(factors[:, d]):
            out = factors[:, d] == value
            seen = codes[~out].any(axis=0)
            read = out & codes[:, seen].any(axis=1)
            if not read.any() or seen.sum() < 2:
                continue
            guess = np.argmax(_ridge(features[~out], codes[~out][:, seen], features[read]), axis=1)
            right.extend(guess == np.argmax(codes[read][:, seen], axis=1))
            chance.extend([1 / seen.sum()] * read.sum())
        if right:
            scores.append((np.mean(right) - np.mean(chance)) / (1 - np.mean(chance)))
    return float(np.mean(scores)) if scores else float("nan")


@checked
def linearity(factors: FACTORS, features: finite("n ...")) -> float:
    """`additive_share` of whitened features: are factors' values directions that add up?

    Whitened are the first q principal components, q the number of directions that a sum over the
    factors can have: the sum over factors of (values - 1).
    """
    combinations, features = _combined(factors, features)
    white = _whitened(combinations, features)
    return additive_share(combinations, white) if white.size else float("nan")


@checked
def orthogonality(factors: FACTORS, features: finite("n ...")) -> float:
    """1 - mean |cosine| between directions of values of different factors, in whitened features.

    Directions are those of the nearest sum over factors. NaN unless two factors have one.
    """
    combinations, features = _combined(factors, features)
    white = _whitened(combinations, features)
    if not white.size:
        return float("nan")
    terms = effects.additive_fit(combinations, white).terms
    directions = [_unit_rows(np.unique(term.round(9), axis=0)) for term in terms]
    cosines = [
        np.abs(a @ b.T).mean() for a, b in itertools.combinations(directions, 2) if len(a) * len(b)
    ]
    return 1 - float(np.mean(cosines)) if cosines else float("nan")


@checked
def homomorphism_error(factors: FACTORS, features: finite("n ...")) -> float:
    """Error of a learned operator that predicts a combination's features from those of its parts.

    A part is the main effect of a value. The operator adds the parts and a learned product of them,
    linear in each part: ridge regression in the first q principal components (`linearity`).
    Combinations are left out in FOLDS groups: 0 if the operator predicts those left out, 1 if the
    mean of the others predicts as well.
    """
    combinations, features = _combined(factors, features)
    features = _principal(features, _n_terms(combinations) - 1)
    fold = np.random.default_rng(0).permutation(len(features)) % min(FOLDS, len(features))
    wrong = total = 0.0
    for k in np.unique(fold):
        fitted = fold != k
        seen = [np.isin(column, column[fitted]) for column in combinations.T]
        read = ~fitted & np.all(seen, axis=0)
        if not read.any() or fitted.sum() < 2:
            continue
        fit = effects.additive_fit(combinations, features, fitted)
        left = features - fit.mean - fit.terms.sum(axis=0)
        kernel = np.prod([part @ part[fitted].T for part in fit.terms], axis=0)
        penalty = max(RIDGE * np.trace(kernel[fitted]), np.finfo(float).tiny)
        weights = np.linalg.solve(kernel[fitted] + penalty * np.eye(fitted.sum()), left[fitted])
        wrong += np.sum((left[read] - kernel[read] @ weights) ** 2)
        total += np.sum((features[read] - fit.mean) ** 2)
    return float(wrong / total) if total > 0 else float("nan")


# --- helpers --------------------------------------------------------------------------------------


def _sets(factors, asked):
    """Distinct known and asked combinations."""
    known, asked = (np.unique(np.asarray(rows), axis=0) for rows in (factors, asked))
    shared = (known[:, None] == asked[None]).all(axis=2)
    if shared.any():
        row = asked[shared.any(axis=0)][0].tolist()
        raise ValueError(f"asked has a known combination, {row}: asked combinations are unseen")
    return known, asked


def _rows(factors, values):
    """factors [n, C] and values as [n, D]."""
    return np.asarray(factors), np.asarray(values, np.float64).reshape(len(values), -1)


def _combined(factors, values):
    """Distinct combinations [g, C], and mean values [g, D]."""
    return effects.combined(*_rows(factors, values))


def _n_terms(combinations):
    """Rank of the indicators of all values: free terms of a sum, its mean included."""
    columns = [column[:, None] == np.unique(column) for column in combinations.T]
    return int(np.linalg.matrix_rank(np.concatenate(columns, axis=1).astype(float)))


def _is_constant(values):
    return np.var(values, axis=0).sum() <= ROUNDING * np.mean(np.sum(values**2, axis=1))


def _steps(combinations, features, c):
    """{combination: change of the features to its neighbour along factor c}."""
    others = np.delete(combinations, c, axis=1)
    order = np.lexsort((combinations[:, c], *others.T))
    return {
        i: features[j] - features[i]
        for i, j in zip(order[:-1], order[1:])
        if np.array_equal(others[i], others[j])
    }


def _principal(features, most):
    """Coordinates [n, k] along at most `most` principal components; none of constant features."""
    centred = features - features.mean(axis=0)
    u, sigma, _ = np.linalg.svd(centred, full_matrices=False)
    # Below this, a direction is rounding of float32 features.
    keep = sigma > 1e-6 * max(np.linalg.norm(features), sigma[0])
    return (u * sigma)[:, keep][:, : max(most, 0)]


def _whitened(combinations, features):
    principal = _principal(features, _n_terms(combinations) - 1)
    return principal / np.sqrt(np.mean(principal**2, axis=0))


def _unit_rows(rows):
    """Rows of length 1; rows without a length are left out."""
    length = np.linalg.norm(rows, axis=1)
    keep = length > 1e-6 * max(length.max(initial=0), 1.0)
    return rows[keep] / length[keep, None]


def _ridge(x, y, x_read):
    """Predictions [m, k] of ridge regression with an intercept, of y [n, k] from x [n, D]."""
    centre, level = x.mean(axis=0), y.mean(axis=0)
    x, x_read = x - centre, x_read - centre
    gram = x @ x.T
    penalty = RIDGE * np.trace(gram) or 1.0
    return level + x_read @ (x.T @ np.linalg.solve(gram + penalty * np.eye(len(x)), y - level))
