"""Specifications of arguments: a signature states what is valid, `checked` checks it at each call.

    @checked
    def wald(coefficients: finite("k"), covariance: finite("k k"), contrast: finite("k")) -> Wald:

Axes are separated by spaces. A name is one size, the same in all arguments of a call; `n>=2` sets
its minimum, which is 1 otherwise; `n+1` is one more than n, which another argument has. A number is
an exact size, `_` is any size, `...` any axes, `*shape` any axes that are the same in all arguments
(one of the two at most); "" is a single number. None is valid where it is the default. Only shapes
and dtypes of traced arguments are checked, see `checks`.
"""

import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks


class Argument(NamedTuple):
    """What is valid for an argument."""

    kind: str
    axes: str
    check: Callable  # name, value, sizes of the axes so far -> None, or an error

    def __repr__(self):  # signatures show it, for example in help()
        axes = self.axes.removeprefix("...") and f"[{', '.join(self.axes.split())}]"
        return self.kind + axes


def checked(function: Callable) -> Callable:
    """Decorates a function: arguments are checked against the specifications in its signature."""
    signature = inspect.signature(function)
    specified = [
        (parameter.name, parameter.annotation, parameter.default is None)
        for parameter in signature.parameters.values()
        if isinstance(parameter.annotation, Argument)
    ]
    specified.sort(key=lambda item: not item[1].axes)  # arrays define the sizes of axes

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            given, sizes = signature.bind(*args, **kwargs).arguments, {}
        except TypeError as error:
            raise TypeError(f"{function.__name__}(): {error}") from None
        for name, argument, is_optional in specified:
            if name in given and not (is_optional and given[name] is None):
                argument.check(name, given[name], sizes)
        return function(*args, **kwargs)

    return call


# --- axes -----------------------------------------------------------------------------------------


def check_axes(name: str, shape: tuple, axes: str, sizes: dict) -> None:
    """Compares a shape with axes; sizes: name of an axis -> (size, argument), new names are added.

    >>> check_axes("y", (3, 2), "n k", {"n": (4, "x")})
    Traceback (most recent call last):
    ValueError: y must be [n, k] with n = 4 as in x, got shape (3, 2)
    """
    tokens, parts = axes.split(), list(shape)
    for i, token in enumerate(tokens):
        if token[0] in "*." and len(shape) >= len(tokens) - 1:
            stop = i + len(shape) - len(tokens) + 1
            parts = [*shape[:i], tuple(shape[i:stop]), *shape[stop:]]
    if len(parts) != len(tokens) or not all(
        _fits(name, token, part, sizes) for token, part in zip(tokens, parts)
    ):
        others = [axis for axis in sizes if sizes[axis][1] != name and axis in map(_name, tokens)]
        stated = [f"{axis} = {sizes[axis][0]} as in {sizes[axis][1]}" for axis in others]
        wanted = f"[{', '.join(tokens)}]" if tokens else "a single number"
        wanted += " without an empty axis" * (0 in shape)
        wanted += f" with {', '.join(stated)}" if stated else ""
        raise ValueError(f"{name} must be {wanted}, got shape {tuple(shape)}")


def _name(token):
    return token.partition(">=")[0].partition("+")[0].lstrip("*")


def _fits(name, token, size, sizes):
    """Whether the size of an axis, or a tuple of sizes, agrees with the token."""
    if token.isdigit():
        return size == int(token)
    if "+" in token:
        return size == sizes[_name(token)][0] + int(token.partition("+")[2])
    if 0 in size if isinstance(size, tuple) else size < int(token.partition(">=")[2] or 1):
        return False
    return token in ("...", "_") or sizes.setdefault(_name(token), (size, name))[0] == size


# --- arrays ---------------------------------------------------------------------------------------


def _array(kind, axes, check):
    """A specification of real numbers; check: name, array -> None, after the axes."""

    def check_array(name, value, sizes):
        array = checks.real(name, value)
        check_axes(name, array.shape, axes, sizes)
        check(name, array)

    return Argument(kind, axes, check_array)


def real(axes: str = "...") -> Argument:
    """Real numbers, which may be NaN or infinite."""
    return _array("real", axes, lambda name, array: None)


def finite(axes: str = "...") -> Argument:
    """Real numbers without NaN and infinity."""
    return _array("finite", axes, lambda name, array: checks.finite(**{name: array}))


def floating(axes: str = "...") -> Argument:
    """Finite numbers that can be differentiated."""

    def check(name, array):
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(
                f"{name} must be floating point to be differentiated, got {array.dtype}"
            )
        checks.finite(**{name: array})

    return _array("floating", axes, check)


def whole(axes: str = "n C") -> Argument:
    """Whole numbers of any dtype, such as combinations of values of components."""
    return _array("whole", axes, checks.whole)


def integers(axes: str) -> Argument:
    """Numbers of an integer dtype."""

    def check(name, array):
        if not jnp.issubdtype(array.dtype, jnp.integer):
            raise ValueError(f"{name} must be integers, got {array.dtype}")

    return _array("integers", axes, check)


def labels(axes: str) -> Argument:
    """Names or numbers that are only compared with each other."""

    def check(name, value, sizes):
        array = value if hasattr(value, "dtype") else np.asarray(value)
        check_axes(name, array.shape, axes, sizes)
        if checks.known(array) and array.dtype.kind == "f" and np.isnan(array).any():
            raise ValueError(f"{name} holds NaN: it needs a label for each entry")

    return Argument("labels", axes, check)


def mask(axes: str, some: bool = True) -> Argument:
    """Booleans; some: at least one of them is True; with leading axes, one in each mask."""
    named = tuple(range(-sum(token[0] not in "*." for token in axes.split()), 0))

    def check(name, value, sizes):
        array = checks.real(name, value)
        if array.dtype != bool:
            raise ValueError(
                f"{name} must be boolean, got {array.dtype}; for indices use "
                "np.isin(np.arange(n), indices)"
            )
        check_axes(name, array.shape, axes, sizes)
        if some and checks.known(array) and not np.all(np.any(np.asarray(array), axis=named)):
            raise ValueError(f"{name} is False everywhere: select at least one entry")

    return Argument("mask", axes, check)


def symmetric(axes: str) -> Argument:
    """Finite kernels, symmetric up to rounding."""
    return _array("symmetric", axes, checks.symmetric)


def psd(axes: str) -> Argument:
    """Finite kernels, symmetric and positive semi-definite up to rounding."""
    return _array("psd", axes, checks.psd)


def indices(axis: str) -> Argument:
    """Distinct indices of an axis of another argument."""
    return Argument(
        f"indices of {axis}",
        "",
        lambda name, value, sizes: checks.indices(name, value, sizes[axis][0]),
    )


def _check_leaves(name, value, sizes):
    checks.finite_leaves(**{name: value})


finite_tree = Argument("tree of finite arrays", "", _check_leaves)


def record(**fields: Argument) -> Argument:
    """A named tuple with these fields; arguments with axes are checked before it."""

    def check(name, value, sizes):
        for field, argument in fields.items():
            if not hasattr(value, field):
                raise ValueError(f"{name} must have the field {field}, got {type(value).__name__}")
            argument.check(f"{name}.{field}", getattr(value, field), sizes)

    return Argument("record", "", check)


def optional(argument: Argument) -> Argument:
    """Valid arguments, or None, for a parameter without a default."""

    def check(name, value, sizes):
        if value is not None:
            argument.check(name, value, sizes)

    return Argument(f"optional {argument.kind}", argument.axes, check)


# --- numbers and choices --------------------------------------------------------------------------


def number(interval: str, axes: str = "...") -> Argument:
    """Numbers in an interval such as "(0, 1]", see `checks.bounded`."""
    return _array(f"in {interval}", axes, lambda name, array: checks.bounded(name, array, interval))


def integer(low: int, below: str = "") -> Argument:
    """A whole number from low; below: the axis of another argument whose size limits it."""

    def check(name, value, sizes):
        checks.integer(name, value, low, sizes[below][0] - 1 if below else None)

    return Argument(f"integer from {low}" + f" below {below}" * bool(below), "", check)


def counts(axis: str) -> Argument:
    """A sequence of whole numbers above 0, one for each entry of an axis."""

    def check(name, value, sizes):
        check_axes(name, np.shape(value)[:1], axis, sizes)
        for number in value:
            checks.integer(f"{name}: each of them", number, 1)

    return Argument("counts", axis, check)


def _check_flag(name, value, sizes):
    if not isinstance(value, bool | np.bool_):  # a number would mean a wrong order of arguments
        raise ValueError(f"{name} must be True or False, got {value!r}")


flag = Argument("True or False", "", _check_flag)


def choice(*names: str) -> Argument:
    """One of the names."""

    def check(name, value, sizes):
        if value not in names:
            raise ValueError(f"{name} must be one of {', '.join(names)}: got {value!r}")

    return Argument(f"one of {', '.join(names)}", "", check)


def _check_function(name, value, sizes):
    if not callable(value):
        raise ValueError(f"{name} must be a function, got {type(value).__name__}")


function = Argument("function", "", _check_function)
