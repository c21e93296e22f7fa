"""The language of specifications; `test_nonsense` derives cases from those of public functions."""

import inspect
from typing import NamedTuple

import jax
import numpy as np
import pytest

from cgjax.analysis import arguments
from cgjax.analysis.arguments import (
    checked,
    finite,
    integer,
    labels,
    mask,
    number,
    optional,
    record,
)


@pytest.mark.parametrize(
    "axes, valid, invalid",
    [
        ("", [()], [(1,)]),
        ("n 2", [(1, 2), (5, 2)], [(2,), (2, 3), (0, 2), (1, 2, 2)]),
        ("n n", [(3, 3)], [(3, 2)]),
        ("n>=2 D>=0", [(2, 0), (3, 1)], [(1, 1), (2,)]),
        ("... n n", [(2, 2), (5, 1, 2, 2)], [(2,), (2, 3), (0, 2, 2)]),
        ("n ...", [(1,), (1, 2, 3)], [(), (0, 1), (1, 0)]),
        ("*lead q n", [(1, 2), (4, 1, 2)], [(2,), (0, 1, 2)]),
        ("_ _", [(1, 2), (2, 2)], [(0, 2), (2,)]),
    ],
)
def test_axes(axes, valid, invalid):
    for shape in valid:
        arguments.check_axes("x", shape, axes, {})
    for shape in invalid:
        with pytest.raises(ValueError, match=r"^x must be .*, got shape \("):
            arguments.check_axes("x", shape, axes, {})


@checked
def scored(
    x: finite("n *shape"),
    y: finite("n *shape"),
    column: integer(0, below="k"),
    weights: optional(number("(0, 1]", "n k")),
    groups: labels("n") = None,
    where: mask("n") = None,
) -> tuple:
    """Any function."""
    return x, y, column, weights, groups, where


X = np.ones((3, 2))


def test_sizes_agree_between_arguments():
    assert scored(X, y=X, column=1, weights=np.ones((3, 2)), where=[True, False, True])[2] == 1
    for changes, words in (
        ({"y": X.T}, r"y must be .n, \*shape. with n = 3 as in x, shape = \(2,\) as in x, got"),
        ({"weights": np.ones((2, 2))}, "weights must be .n, k. with n = 3 as in x"),
        ({"weights": np.zeros((3, 2))}, r"weights must be in \(0, 1\], got 0"),
        ({"column": 2}, "column must be 0 to 1, got 2"),
        ({"groups": list("ab")}, "groups must be .n. with n = 3 as in x"),
        ({"where": [1, 0, 1]}, "where must be boolean"),
    ):
        with pytest.raises(ValueError, match=words):
            scored(**({"x": X, "y": X, "column": 0, "weights": np.ones((3, 2))} | changes))
    with pytest.raises(TypeError, match="column"):
        scored(X, X)


def test_traced_arguments_have_shapes_only_and_signatures_stay():
    @checked
    def total(x: finite("n"), share: number("[0, 1]") = 0.5):
        """The docstring."""
        return share * x.sum()

    assert np.isnan(jax.jit(total)(np.array([np.nan]), 2.0))
    with pytest.raises(ValueError, match="x must be .n., got shape"):
        jax.jit(total)(X)
    assert str(inspect.signature(total)) == "(x: finite[n], share: in [0, 1] = 0.5)"
    assert total.__doc__ == "The docstring."


def test_a_missing_argument_names_the_function():
    with pytest.raises(TypeError, match=r"scored\(\): missing a required argument: 'y'"):
        scored(X)


class Line(NamedTuple):
    """A result of another function."""

    slopes: np.ndarray  # [features + 1], the last one the constant


def test_fields_of_a_record_share_the_axes_of_other_arguments():
    @checked
    def values(line: record(slopes=finite("d+1")), x: finite("n d")):
        return x @ line.slopes[:-1] + line.slopes[-1]

    np.testing.assert_array_equal(values(Line(np.ones(3)), X), X.sum(axis=1) + 1)
    words = r"^line.slopes must be \[d\+1\] with d = 2 as in x, got shape \(2,\)$"
    with pytest.raises(ValueError, match=words):
        values(Line(np.ones(2)), X)
    with pytest.raises(ValueError, match="^line.slopes holds NaN"):
        values(Line(np.full(3, np.nan)), X)
    with pytest.raises(ValueError, match="^line must have the field slopes, got ndarray$"):
        values(np.ones(3), X)
