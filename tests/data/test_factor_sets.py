"""Factor sets: crossed, reproducible; splits with k known values."""

import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.data import factor_sets, sources

# Reading and checking a published data set takes seconds.
MARKED = [
    pytest.param(name, marks=pytest.mark.slow if name in factor_sets.NEEDS else ())
    for name in factor_sets.SETS
]


@pytest.mark.parametrize("name", MARKED)
def test_sets_are_crossed(name):
    if name in factor_sets.NEEDS and not sources.is_here(factor_sets.NEEDS[name]):
        pytest.skip(f"{factor_sets.NEEDS[name]} is not here")
    data = factor_sets.make(name, 32, 2)
    counts = np.zeros(data.sizes, int)
    np.add.at(counts, tuple(data.factors.T), 1)
    assert np.all(counts == 2) and data.sizes == factor_sets.SETS[name][1]
    assert len(np.unique(data.inputs, axis=0)) == len(data.inputs)  # every combination differs
    np.testing.assert_array_equal(data.inputs, factor_sets.make(name, 32, 2).inputs)
    if name not in factor_sets.TEXT:
        assert data.inputs.shape[1:] == (32, 32, 3) and data.inputs.dtype == np.uint8


def test_shapes_have_one_area():
    """Shapes have similar areas, and outlines do not depend on the hue."""
    data = factor_sets.make("shapes", 96, 1)
    coloured = np.any(data.inputs != 128, axis=-1).sum(axis=(1, 2)).reshape(6, 8)
    assert np.ptp(coloured) < 0.25 * coloured.mean()  # edges are counted whole
    outlines = np.any(data.inputs != 128, axis=-1).reshape(6, 8, -1)
    assert np.mean(outlines != outlines[:, :1]) < 0.002  # mixed colours of an edge may be grey


@pytest.mark.parametrize("k", [1, 2, 4])
def test_splits(k):
    draws = [factor_sets.known((6, 8), k, draw) for draw in range(4)]
    for known in draws:
        assert np.all(known.sum(axis=1) == k)
        assert known.any(axis=0).sum() == min(8, 6 * k)
    assert len({known.tobytes() for known in draws}) == 4
    np.testing.assert_array_equal(draws[0], factor_sets.known((6, 8), k, 0))


def test_bad_input():
    for k in (0, 7):
        with pytest.raises(BadInput, match="choose from 1 to 6"):
            factor_sets.known((6, 8), k, 0)
    with pytest.raises(BadInput, match="unknown factor set 'x': choose from shapes"):
        factor_sets.make("x")
    with pytest.raises(BadInput, match="at most 8 repeats"):
        factor_sets.make("words", repeats=9)
