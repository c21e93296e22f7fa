"""What a table lacks, against counting by hand."""

import itertools

import numpy as np
import pytest

from cgjax.analysis import factor_tables, support


def test_a_pair_left_out_is_named_with_all_that_it_takes_along():
    sizes = (3, 4, 5)
    q = factor_tables.grid(sizes)
    assert len(q) == 60 and len(np.unique(q, axis=0)) == 60
    gone = (q[:, 0] == 2) & (q[:, 1] >= 2)
    p = q[~gone & ~np.all(q == [0, 0, 0], axis=1)]
    held = factor_tables.held(np.concatenate([p, p[:7]]), np.concatenate([q, q[:9]]), sizes)
    assert (held.n_wanted, held.n_held, held.n_scattered) == (60, 49, 1)
    assert held.missing == (factor_tables.Missing((1, 0), ((2, 3), (2,)), 10),)
    assert held.n_pairs == (45, 47) and not len(held.outside)
    np.testing.assert_allclose(held.values[0], [19 / 20, 1, 0.5])
    np.testing.assert_allclose(held.pairs[1, 0][:, 2], [1, 1, 0, 0])


def test_a_value_never_shown_is_no_pair():
    q = factor_tables.grid((2, 3))
    found = factor_tables.held(q[q[:, 1] != 1], q, (2, 3))
    assert found.missing == (factor_tables.Missing((1,), ((1,),), 2),)
    assert found.n_scattered == 0 and found.n_pairs == (4, 6)


def test_what_is_not_wanted_is_neither_there_nor_lacking():
    found = factor_tables.held([[0, 0], [1, 1], [1, 0]], [[0, 0], [1, 1]], (2, 3))
    assert found.n_held == found.n_wanted == 2 and not found.missing
    assert found.outside.tolist() == [2] and np.isnan(found.values[1][2])


def test_random_tables_by_hand():
    """Also of so many values that their product overflows."""
    rng = np.random.default_rng(0)
    for sizes in ((3, 4, 2), (10**7, 10**7, 10**7)):
        p, q = (rng.integers(0, 3, (n, 3)) % sizes for n in (15, 30))
        if sizes[0] > 3:
            p, q = p * (10**6), q * (10**6)
            levels = np.unique(np.concatenate([p, q]))
            assert factor_tables._numbers(p, sizes).min() >= 0
            same = factor_tables._numbers(np.concatenate([p, q]), sizes)
            rows = np.concatenate([p, q])
            for i, j in itertools.combinations(range(len(rows)), 2):
                assert (same[i] == same[j]) == np.array_equal(rows[i], rows[j])
            p, q, sizes = np.searchsorted(levels, p), np.searchsorted(levels, q), (3, 3, 3)
        held = factor_tables.held(p, q, sizes)
        wanted, there = set(map(tuple, q.tolist())), set(map(tuple, p.tolist()))
        assert (held.n_wanted, held.n_held) == (len(wanted), len(wanted & there))
        pairs = {(d, row[d[0]], row[d[1]]) for row in there for d in ((1, 0), (2, 0), (2, 1))}
        scattered = [
            row
            for row in wanted - there
            if all((d, row[d[0]], row[d[1]]) in pairs for d in ((1, 0), (2, 0), (2, 1)))
        ]
        assert held.n_scattered == len(scattered)


def test_equal_values_are_seen_and_near_ones_are_not():
    q = factor_tables.grid((40, 40)).astype(float)
    assert support.coverage(q, q, sizes=(2,)).holds
    reach = support.coverage(q[1:], q, sizes=(2,))
    assert not reach.holds and reach.share[0] == pytest.approx(1 - 1 / 1600)
