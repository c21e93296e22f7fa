"""Which keys of a config does a run read? Configs that remember, and runs that compile nothing.

A key counts as read when code outside ml_collections asks for its value: `config.a.b`,
`config.a["b"]`, `config.a.get("b")`, `f(**config.a)`. Listing, comparing, copying or writing a
config reads nothing. A copy reads for what it was copied from; what `update` brings into it from a
part of the config counts for that part.
"""

import contextlib
import functools
import inspect
import sys

import jax
import ml_collections
import numpy as np
import pytest
from ml_collections.config_dict import config_dict

from cgjax.config.declare import keys
from cgjax.config.overrides import FIXED
from cgjax.core import rng


class EverythingRead(BaseException):
    """Nothing is left to find out: what comes later in the run need not be waited for."""


def _names(node) -> dict:
    """{field: dotted name in the config} of the watched leaves of one node."""
    return node.__dict__.get("_names", {})


def _watch(node, prefix: str = "") -> None:
    names = {}
    for field, value in node._fields.items():
        if isinstance(value, ml_collections.ConfigDict):
            _watch(value, f"{prefix}{field}.")
        else:
            names[field] = prefix + field
    object.__setattr__(node, "_names", names)


def _watch_copy(copy, node) -> None:
    object.__setattr__(copy, "_names", dict(_names(node)))
    for field, value in node._fields.items():
        if isinstance(value, ml_collections.ConfigDict):
            _watch_copy(copy._fields[field], value)


@contextlib.contextmanager
def unread(config):
    """Yields the set of keys that nothing has read yet; the block ends when it is empty."""
    rest, kind = set(keys(config)) - set(FIXED), ml_collections.ConfigDict

    def noting(method):
        def noted(node, field, *default):
            value = method(node, field, *default)
            if sys._getframe(1).f_code.co_filename != config_dict.__file__:
                rest.discard(_names(node).get(field))
                if not rest and "_names" in node.__dict__:
                    raise EverythingRead
            return value

        return noted

    def copying(method):
        def copied(node, *arguments):
            found = method(node, *arguments)
            _watch_copy(found, node)
            return found

        return copied

    def updating(method):
        def updated(node, *others, **values):
            method(node, *others, **values)
            for other in others:
                if isinstance(other, kind) and "_names" in node.__dict__:
                    _names(node).update(_names(other))

        return updated

    changes = {"__getitem__": noting, "__getattr__": noting, "get": noting, "update": updating}
    changes["copy_and_resolve_references"] = copying
    with pytest.MonkeyPatch.context() as patch:
        for name, change in changes.items():
            patch.setattr(kind, name, change(getattr(kind, name)))
        _watch(config)
        with contextlib.suppress(EverythingRead):
            yield rest


# --- runs that compile nothing --------------------------------------------------------------------


def _made_up(shape):
    """Values for an output of a program that was only traced: no replica died, all are done."""
    whole = {"i": -1, "u": 1, "b": True}
    if shape.dtype.kind in whole:
        return np.full(shape.shape, whole[shape.dtype.kind], shape.dtype)
    values = np.random.default_rng(0).uniform(0.1, 1, shape.shape)
    if values.ndim > 1 and values.shape[-1] == values.shape[-2]:  # it may be a kernel
        values = values @ np.swapaxes(values, -1, -2)
    return values.astype(shape.dtype)


class _Traced:
    """In place of `jax.jit(fn)`: traces fn and makes up outputs of the right shapes."""

    def __init__(self, fn, static_argnums=(), static_argnames=(), **options):
        self.fn, self.static = fn, np.atleast_1d(static_argnums).tolist()
        names = np.atleast_1d(static_argnames).tolist()
        if names:
            parameters = list(inspect.signature(fn).parameters)
            self.static += [parameters.index(name) for name in names]
        self.known = {}  # once for each form of its arguments, as jit does

    def __call__(self, *arguments):
        traced = [i for i in range(len(arguments)) if i not in self.static]

        def called(*some):
            own = dict(zip(traced, some))
            return self.fn(*(own.get(i, argument) for i, argument in enumerate(arguments)))

        inputs = [arguments[i] for i in traced]
        form = str(jax.tree.map(lambda leaf: (np.shape(leaf), getattr(leaf, "dtype", "")), inputs))
        form += str([argument for i, argument in enumerate(arguments) if i in self.static])
        if form not in self.known:
            # The function itself, where possible: what the run has traced before is known to JAX.
            fn = called if self.static else self.fn
            self.known[form] = jax.eval_shape(fn, *inputs)
        return jax.tree.map(_made_up, self.known[form])

    def lower(self, *arguments):
        return self

    def compile(self, compiler_options=None):
        return self


def _value_and_zeros(fn, argnums=0, has_aux=False):
    """In place of `jax.value_and_grad`: fn is called; what is differentiated reads nothing more."""

    def called(*arguments):
        own = [arguments[i] for i in np.atleast_1d(argnums)]
        zeros = jax.tree.map(jax.numpy.zeros_like, own)
        return fn(*arguments), zeros[0] if np.ndim(argnums) == 0 else tuple(zeros)

    return called


def _zeros(fn, argnums=0, has_aux=False):
    """In place of `jax.grad`."""

    def called(*arguments):
        found, zeros = _value_and_zeros(fn, argnums)(*arguments)
        return (zeros, found[1]) if has_aux else zeros

    return called


def _first_of(vmap):
    """In place of `jax.vmap`: a traced fn sees the first of all, and what it returns is repeated.

    Batching rules take as long as the tracing itself, and read nothing more.
    """

    def of_first(fn, in_axes=0, out_axes=0, **options):
        def called(*arguments):
            leaves = jax.tree.leaves(arguments)
            if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
                return vmap(fn, in_axes, out_axes, **options)(*arguments)
            axes = (
                tuple(in_axes) if isinstance(in_axes, list | tuple) else (in_axes,) * len(arguments)
            )
            sizes = []

            def first(axis, part):
                if axis is None:
                    return part
                sizes.extend(leaf.shape[axis] for leaf in jax.tree.leaves(part))
                take = functools.partial(jax.lax.index_in_dim, index=0, axis=axis, keepdims=False)
                return jax.tree.map(lambda leaf: take(jax.numpy.asarray(leaf)), part)

            def repeated(axis, part):
                if axis is None:
                    return part
                return jax.tree.map(
                    lambda leaf: jax.numpy.repeat(
                        jax.numpy.expand_dims(leaf, axis), sizes[0], axis=axis
                    ),
                    part,
                )

            found = fn(*jax.tree.map(first, axes, arguments, is_leaf=_is_none))
            return jax.tree.map(repeated, out_axes, found, is_leaf=_is_none)

        return called

    return of_first


def _is_none(value):
    return value is None


@contextlib.contextmanager
def nothing_compiles():
    """What the block passes to `jax.jit` is traced only: a run's path without its numbers.

    Of what it differentiates, too, only the function is traced, and of what it maps only the first.
    The analyses compile as ever: they look at the numbers they get.
    """

    def unless_analysis(original, other):
        def chosen(*arguments, **options):
            caller = sys._getframe(1).f_globals["__name__"]
            is_analysis = caller.startswith("cgjax.analysis")
            return (original if is_analysis else other)(*arguments, **options)

        return chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "jit", unless_analysis(jax.jit, _Traced))
        patch.setattr(jax, "vmap", unless_analysis(jax.vmap, _first_of(jax.vmap)))
        patch.setattr(jax, "value_and_grad", _value_and_zeros)
        patch.setattr(jax, "grad", _zeros)
        patch.setattr(rng, "_compiled", rng._compiled.__wrapped__)  # its cache outlives the block
        yield
