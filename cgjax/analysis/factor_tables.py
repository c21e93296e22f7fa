"""What a table of factors lacks: values, pairs of values, and whole combinations of them.

A combination that P lacks often contains a smaller part that P lacks: a value, or a pair of values.
P then lacks every combination of Q with that part, so their number measures its importance. A
missing combination without such a part is scattered: P has every pair of its values, but not all
values at once.
"""

import itertools
from typing import NamedTuple

import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, counts, whole

LARGEST = 5_000_000  # the most combinations of a grid


class Held(NamedTuple):
    """How much of Q a table P holds; shares are of Q's distinct combinations."""

    n_wanted: int  # distinct combinations of Q
    n_held: int  # those of them that are in P
    n_scattered: int  # missing combinations whose pairs of values all occur in P
    n_pairs: tuple[int, int]  # pairs of values of Q that are in P, and all pairs of Q
    values: tuple  # [D] of [L_d]: share of combinations with this value in P; NaN: Q has none
    pairs: dict  # {(i, j): [L_i, L_j]} for i > j: the same for two values
    missing: tuple  # of `Missing`, sorted by n, the largest first
    outside: np.ndarray  # indices of rows of P that are not in Q


class Missing(NamedTuple):
    """Values of one factor that do not occur in P, or pairs of values that do not."""

    factors: tuple[int, ...]  # one or two
    values: tuple[tuple[int, ...], ...]  # of each factor; for two factors, all their pairs
    n: int  # combinations of Q that contain one of them; P lacks them all


@checked
def held(p: whole("n D"), q: whole("m D"), sizes: counts("D")) -> Held:
    """What p holds of q; entries are from 0 to below sizes.

    >>> held([[0, 0], [1, 1]], grid((2, 2)), (2, 2)).n_held
    2
    """
    checks.below(sizes, p=p, q=q)
    p, q = np.asarray(p, np.int64), np.asarray(q, np.int64)
    numbers = _numbers(np.concatenate([p, q]), sizes)
    of_p, of_q = numbers[: len(p)], numbers[len(p) :]
    first = np.unique(of_q, return_index=True)[1]
    q, is_held = q[first], np.isin(of_q[first], of_p)
    values, pairs, missing, explained = [], {}, [], np.zeros(len(q), bool)
    n_pairs = np.zeros(2, int)
    lost = []  # [D] of [L_d]: values that do not occur in P
    for d, size in enumerate(sizes):
        wanted = np.bincount(q[:, d], minlength=size)
        values.append(_share(np.bincount(q[is_held, d], minlength=size), wanted))
        lost.append((wanted > 0) & (np.bincount(p[:, d], minlength=size) == 0))
        explained |= lost[d][q[:, d]]
        if lost[d].any():
            codes = tuple(np.flatnonzero(lost[d]).tolist())
            missing.append(Missing((d,), (codes,), int(wanted[lost[d]].sum())))
    for j, i in itertools.combinations(range(len(sizes)), 2):
        shape, cell = (sizes[i], sizes[j]), q[:, i] * sizes[j] + q[:, j]
        wanted = _counts(cell, shape)
        pairs[i, j] = _share(_counts(cell[is_held], shape), wanted)
        gone = (wanted > 0) & (_counts(p[:, i] * sizes[j] + p[:, j], shape) == 0)
        n_pairs += np.sum(wanted > 0) - np.array([gone.sum(), 0])
        gone &= ~(lost[i][:, None] | lost[j][None])  # pairs explained by a missing value
        explained |= gone.ravel()[cell]
        missing += _blocks((i, j), gone, wanted)
    missing.sort(key=lambda part: -part.n)
    return Held(
        len(q),
        int(is_held.sum()),
        int(np.sum(~is_held & ~explained)),
        tuple(n_pairs.tolist()),
        tuple(values),
        pairs,
        tuple(missing),
        np.flatnonzero(~np.isin(of_p, of_q)),
    )


@checked
def grid(sizes: counts("D")) -> np.ndarray:
    """Every combination [N, D] of whole numbers below sizes."""
    n = np.prod(np.array(sizes, object))
    if n > LARGEST:
        raise ValueError(f"sizes give {n:,} combinations: the limit is {LARGEST:,}")
    return np.indices(sizes).reshape(len(sizes), -1).T


def _numbers(rows, sizes):
    """One number per row; equal rows, and only they, have equal numbers."""
    numbers, n = np.zeros(len(rows), np.int64), 1
    for column, size in zip(rows.T, sizes):
        if n * size > 2**62:
            numbers = np.unique(numbers, return_inverse=True)[1]
            n = int(numbers.max()) + 1
        numbers, n = numbers * size + column, n * size
    return numbers


def _counts(cells, shape):
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def _share(part, whole):
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _blocks(factors, gone, wanted):
    """Missing pairs, boolean gone [L_i, L_j], as products of sets of values."""
    turned = gone.shape[0] > gone.shape[1]  # grouping the shorter axis gives larger sets
    table = gone.T if turned else gone
    groups = {}
    for value in np.flatnonzero(table.any(axis=1)):
        groups.setdefault(table[value].tobytes(), []).append(int(value))
    for members in groups.values():
        others = np.flatnonzero(table[members[0]])
        block = (others, members) if turned else (members, others)
        values = tuple(tuple(int(value) for value in side) for side in block)
        yield Missing(factors, values, int(wanted[np.ix_(*block)].sum()))
