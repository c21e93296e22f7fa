"""On which components of its input does a model depend? Derivatives, information, swaps, one step.

Inputs X and outputs Yhat are split into components by arrays of labels: `parts((28, 56, 1), 2, 1)`
says of every pixel whether it is in the left half (0) or in the right one (1). A compositional
model has dYhat_i/dX_j = 0 for j != i.

"Not zero" says nothing: random weights depend on everything. Compare with the model at its start,
or with one trained where X_j carries no information. And where components of the inputs are
dependent, I(X_j; Yhat) > 0 for a model that never looks at X_j: only the conditional and the
interventional information are 0 for it.

f(params, x) takes x [n, ...], each sample on its own. Everything can be jitted, labels and sizes
being known.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, dependence, factorization, ntk

# Samples whose Jacobians are taken at once.
CHUNK = 32


def parts(shape: tuple, n: int, axis: int) -> np.ndarray:
    """Labels 0 .. n-1 of equal parts along an axis: int [*shape].

    >>> parts((4,), 2, 0)
    array([0, 0, 1, 1])
    """
    checks.integer("n", n, 1)
    checks.integer("axis", axis, 0, len(shape) - 1)
    for size in shape:
        checks.integer("shape", size, 1)
    if shape[axis] % n:
        raise ValueError(f"n: {shape[axis]} entries do not divide into {n} equal parts")
    along = np.arange(shape[axis]) // (shape[axis] // n)
    along = along.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return np.broadcast_to(along, shape).copy()


# --- by derivatives -------------------------------------------------------------------------------


def gradient_dependence(
    f: Callable,
    params,
    x: jax.Array,
    inputs,
    outputs=None,
    beside=None,
    sizes: tuple | None = None,
    centred: bool = True,
    chunk: int = CHUNK,
) -> jax.Array:
    """D_ij = E_x ||dYhat_i / dX_j||_F: [output components, input components].

    x: floating point [n, ...], where to take derivatives; f(params, x) -> [n, ..., classes].
    inputs: labels of x's entries, whole numbers [*x.shape[1:]], or [n, ...] where samples differ;
        entries below 0 belong to no component. outputs: likewise of f's; None: one component.
    beside: a tree of arrays [n, ...] that f takes as a third argument and that is held constant.
    sizes: numbers of output and input components, by default the largest label and one.
    centred: without the mean over the last axis of outputs, to which a softmax is blind.
    chunk: samples at a time.

    The mean is over the samples that have both components; NaN where none has.
    """
    checks.finite_leaves(params=params)
    checks.finite(x=x)
    x = jnp.asarray(x)
    if x.ndim < 2 or x.size == 0 or not jnp.issubdtype(x.dtype, jnp.floating):
        raise ValueError(f"x is floating point [n, ...], none of them empty: {x.dtype} {x.shape}")
    checks.flag("centred", centred)
    checks.integer("chunk", chunk, 1)
    out = jax.eval_shape(lambda x, beside: _called(f, params, x, beside), x, beside)
    if not hasattr(out, "shape") or len(out.shape) < 2 or out.shape[0] != len(x):
        raise ValueError(f"f must map [n, ...] to [n, ..., classes], it returns {out}")
    outputs = np.zeros(out.shape[1:], int) if outputs is None else outputs
    labels = {"outputs": (outputs, out.shape), "inputs": (inputs, x.shape)}
    found = [_labels(name, *pair) for name, pair in labels.items()]
    if sizes is None:
        if not checks.known(found):
            raise ValueError("sizes: give the numbers of components where labels are traced")
        sizes = tuple(max(int(np.max(each)) + 1, 1) for each in found)
    sizes = tuple(checks.integer("sizes", size, 1) for size in sizes)
    rows, columns = (_members(each, size) for each, size in zip(found, sizes))
    few = out.size <= x.size
    jacobian = jax.jacrev if few else jax.jacfwd

    def one(sample):
        at, rest, row, column = sample

        def single(at):
            y = _called(f, params, at[None], jax.tree.map(lambda a: a[None], rest))[0]
            if centred:
                y = y - jnp.mean(y, axis=-1, keepdims=True)
            return y.ravel()

        squares = jacobian(single)(at).reshape(row.shape[0], -1) ** 2
        # [output components, input components]
        return jnp.einsum("ro,rc,ci->oi", row, squares, column, precision="highest")

    rows, columns = (jnp.broadcast_to(a, (len(x), *a.shape[1:])) for a in (rows, columns))
    squares = jax.lax.map(one, (x, beside, rows, columns), batch_size=min(chunk, len(x)))
    has = jnp.any(rows > 0, axis=1)[:, :, None] & jnp.any(columns > 0, axis=1)[:, None, :]
    # The root of 0 has no derivative: a penalty on D must not turn into NaN where it is met.
    positive = squares > 0
    norms = jnp.where(positive, jnp.sqrt(jnp.where(positive, squares, 1)), 0)
    return jnp.sum(jnp.where(has, norms, 0), axis=0) / jnp.sum(has, axis=0)


def shares(dependence: jax.Array) -> jax.Array:
    """S_ij = D_ij / sum_k D_ik of matrices D [..., outputs, inputs]; NaN where a row is 0."""
    dependence = jnp.asarray(checks.real("dependence", dependence))
    if dependence.ndim < 2 or dependence.size == 0:
        raise ValueError(f"dependence is [..., outputs, inputs], got shape {dependence.shape}")
    if checks.known(dependence) and np.any(np.asarray(dependence) < 0):
        raise ValueError("dependence is norms, 0 or more")
    return dependence / jnp.sum(dependence, axis=-1, keepdims=True)


def _called(f, params, x, beside):
    return f(params, x) if beside is None else f(params, x, beside)


def _labels(name, labels, shape):
    """[1 or n, entries]"""
    array = checks.real(name, labels)
    if not jnp.issubdtype(array.dtype, jnp.integer) or array.shape not in (shape, shape[1:]):
        raise ValueError(
            f"{name} is whole numbers {list(shape[1:])} or {list(shape)}, a label for each entry: "
            f"got {array.dtype} {list(array.shape)}"
        )
    if checks.known(array) and np.max(np.asarray(array)) < 0:
        raise ValueError(f"{name} has no component: all labels are below 0")
    return array.reshape(shape[0] if array.shape == shape else 1, -1)


def _members(labels, size):
    """[n, entries, components], 1 where an entry belongs to a component."""
    return jax.nn.one_hot(labels, size)


# --- by information -------------------------------------------------------------------------------


def information(a, b, sizes: tuple | None = None, corrected: bool = True):
    """I(a; b) in nats of labels a, b [n]: plug-in, Miller-Madow corrected, at least 0.

    (non-empty rows - 1)(non-empty columns - 1) / 2n is subtracted where `corrected`. sizes: numbers
    of labels of a and b, whole numbers from 0; needed under jit, otherwise any labels will do.

    >>> information([0, 1] * 500, [0, 1] * 500)  # ln 2, and the correction
    0.6926471805599453
    """
    (a, b), sizes = _codes({"a": a, "b": b}, sizes)
    return _informations(_table((a, b), sizes), corrected)


def conditional_information(y2, yhat, y1, sizes: tuple | None = None):
    """I(y2; yhat | y1) in nats: the mean over y1's labels, by their shares, of `information`.

    y2, yhat, y1: labels [n]; sizes: numbers of labels of each, as in `information`. 0 for a model
    that looks at X_1 alone, whatever the distribution of labels.
    """
    (y2, yhat, y1), sizes = _codes({"y2": y2, "yhat": yhat, "y1": y1}, sizes)
    table = _table((y1, y2, yhat), (sizes[2], *sizes[:2]))
    counts = table.sum(axis=(1, 2))
    return (counts * _informations(table)).sum() / counts.sum()


def _codes(labels, sizes):
    """Labels as whole numbers from 0, and how many there are of each."""
    arrays = {name: np.asarray(v) if checks.known(v) else v for name, v in labels.items()}
    lengths = {name: array.shape for name, array in arrays.items()}
    if any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) != 1:
        raise ValueError(f"{', '.join(labels)} are labels [n], as many of each: got {lengths}")
    for name, array in arrays.items():
        if array.size == 0:
            raise ValueError(f"{name} is empty: n is 1 or more")
        if array.dtype.kind not in "iubU":
            checks.finite(**{name: array})
            checks.combinations(name, array[:, None])
    if sizes is None:
        if not checks.known(labels):
            raise ValueError("sizes: give the numbers of labels where they are traced")
        found = [np.unique(array, return_inverse=True) for array in arrays.values()]
        return [code for _, code in found], tuple(len(values) for values, _ in found)
    if len(sizes) != len(arrays):
        raise ValueError(f"sizes are {len(arrays)} numbers of labels, got {tuple(sizes)}")
    sizes = tuple(checks.integer("sizes", size, 1) for size in sizes)
    for (name, array), size in zip(arrays.items(), sizes):
        checks.combinations(name, array[:, None], None)
        if checks.known(array) and (np.min(array) < 0 or np.max(array) >= size):
            raise ValueError(f"{name} has labels beyond its size {size}: they count from 0")
    return [array.astype(int) for array in arrays.values()], sizes


def _table(codes, sizes):
    """Contingency table [*sizes] of codes [n]."""
    flat = 0
    for code, size in zip(codes, sizes):
        flat = flat * size + code
    n = int(np.prod(sizes))
    if isinstance(flat, np.ndarray):
        return np.bincount(flat, minlength=n).astype(float).reshape(sizes)
    return jnp.bincount(flat, length=n).astype(jnp.result_type(float)).reshape(sizes)


def _informations(table, corrected=True):
    """Information of tables [..., rows, columns]: [...]."""
    xp = np if isinstance(table, np.ndarray) else jnp
    n = table.sum(axis=(-2, -1), keepdims=True)
    n = xp.where(n > 0, n, 1)
    rows, columns = table.sum(axis=-1, keepdims=True), table.sum(axis=-2, keepdims=True)
    some = table > 0
    ratio = xp.where(some, table * n, 1) / xp.where(some, rows * columns, 1)
    plug_in = (table / n * xp.log(ratio)).sum(axis=(-2, -1))
    if not corrected:
        return plug_in
    filled = [(margin > 0).sum(axis=(-2, -1)) - 1 for margin in (rows, columns)]
    return xp.maximum(plug_in - filled[0] * filled[1] / (2 * n[..., 0, 0]), 0)


class Tested(NamedTuple):
    """An information beside what it is without any."""

    value: jax.Array
    null: jax.Array  # [n_draws], with y2 shuffled
    high: jax.Array  # below which 95 % of the null are
    p: jax.Array  # (1 + draws at or above the value) / (1 + draws)


def permutation_test(
    key: jax.Array, y2, yhat, y1=None, n_draws: int = 200, sizes: tuple | None = None
) -> Tested:
    """`conditional_information` against y2 shuffled within each y1; y1 None: `information`.

    y2, yhat, y1: labels [n]; sizes as there, of two labels where y1 is None.
    """
    checks.integer("n_draws", n_draws, 1)
    labels = {"y2": y2, "yhat": yhat} | ({} if y1 is None else {"y1": y1})
    codes, sizes = _codes(labels, sizes)
    if y1 is None:
        codes, sizes = [*codes, 0 * codes[0]], (*sizes, 1)
    y2, yhat, y1 = (jnp.asarray(code) for code in codes)
    of = jnp.argsort(y1)  # stable: the places of each stratum, in order

    def shuffled(key):
        order = jnp.lexsort((jax.random.uniform(key, y1.shape), y1))
        new = jnp.zeros_like(y2).at[of].set(y2[order])
        return _of_table(new, yhat, y1, sizes)

    null = jax.lax.map(shuffled, jax.random.split(key, n_draws), batch_size=min(50, n_draws))
    value = _of_table(y2, yhat, y1, sizes)
    p = (1 + jnp.sum(null >= value)) / (1 + n_draws)
    return Tested(value, null, jnp.quantile(null, 0.95), p)


def _of_table(y2, yhat, y1, sizes):
    table = _table((y1, y2, yhat), (sizes[2], *sizes[:2]))
    counts = jnp.sum(table, axis=(1, 2))
    return jnp.sum(counts * _informations(table)) / jnp.sum(counts)


# --- by intervention ------------------------------------------------------------------------------


def intervene(key: jax.Array, x: jax.Array, inputs, component: int) -> tuple[jax.Array, jax.Array]:
    """x [n, ...] whose component X_j comes from another sample, and whose: (x', order [n]).

    inputs: labels of x's entries [*x.shape[1:]]. The others stay, so X_j is independent of them;
    no sample keeps its own.
    """
    checks.finite(x=x)
    x = jnp.asarray(x)
    if x.ndim < 2 or len(x) < 2 or x.size == 0:
        raise ValueError(f"x is [n, ...] with two samples or more, got shape {x.shape}")
    labels = _labels("inputs", inputs, x.shape)
    if len(labels) > 1:
        raise ValueError("inputs is one label for each entry, the same for all samples")
    checks.integer("component", component, 0)
    mine = (labels == component).reshape(1, *x.shape[1:])
    if checks.known(mine) and not np.any(np.asarray(mine)):
        raise ValueError(f"component {component} is none of inputs' labels")
    circle = jax.random.permutation(key, len(x))
    order = jnp.zeros_like(circle).at[circle].set(jnp.roll(circle, 1))
    return jnp.where(mine, x[order], x), order


def interventional_information(
    key: jax.Array, f: Callable, params, x, y2, inputs, component: int, sizes=None, chunk=None
):
    """I_do(y2; yhat): `information` with X_j, whose labels are y2 [n], from another sample.

    yhat: f's largest output, over the last axis, of x [n, ...]; its other axes are heads, which
    gives one number for each. inputs, component: as in `intervene`; sizes: of y2 and yhat. chunk:
    samples at a time, by default all.
    """
    x, order = intervene(key, x, inputs, component)
    if np.shape(y2) != (len(x),):
        raise ValueError(f"y2 is labels [{len(x)}], got shape {np.shape(y2)}")
    yhat = _predicted(f, params, x, chunk)
    known = checks.known(y2, order)
    y2 = np.asarray(y2)[np.asarray(order)] if known else jnp.asarray(y2)[order]
    found = []
    for head in yhat.reshape(len(x), -1).T:
        codes, each = _codes({"y2": y2, "yhat": head}, sizes)
        found.append(_informations(_table(codes, each)))
    return found[0] if yhat.ndim == 1 else jnp.stack(found).reshape(yhat.shape[1:])


def swap_rate(key: jax.Array, f: Callable, params, x, inputs, component: int, chunk=None):
    """P(argmax f(x_i, x_j) != argmax f(x_i, x_j')), x_j' from another sample: a number per head.

    Arguments as in `interventional_information`.
    """
    swapped, _ = intervene(key, x, inputs, component)
    before, after = (_predicted(f, params, each, chunk) for each in (jnp.asarray(x), swapped))
    return jnp.mean(before != after, axis=0)


def _predicted(f, params, x, chunk):
    """The largest of f's last axis [n, ...]."""
    checks.finite_leaves(params=params)
    if chunk is None:
        return jnp.argmax(f(params, x), axis=-1)
    checks.integer("chunk", chunk, 1)

    def one(sample):
        return jnp.argmax(f(params, sample[None])[0], axis=-1)

    return jax.lax.map(one, x, batch_size=min(chunk, len(x)))


class Confusion(NamedTuple):
    """How often a model says what another component suggests."""

    of_all: jax.Array  # [k] share of all samples that are wrong and as suggested
    of_errors: jax.Array  # [k] share of the errors; NaN without any
    n_errors: jax.Array
    by_chance: float  # share of the errors if they ignored the suggestion


def confusion(yhat, y, suggested, n_classes: int) -> Confusion:
    """Errors of yhat [n] against y [n] that are one of the labels suggested [n, k]."""
    checks.integer("n_classes", n_classes, 2)
    for name, value in {"yhat": yhat, "y": y, "suggested": suggested}.items():
        checks.bounded(name, value, 0, n_classes - 1)
    yhat, y, suggested = jnp.asarray(yhat), jnp.asarray(y), jnp.asarray(suggested)
    if yhat.ndim != 1 or yhat.shape != y.shape or yhat.size == 0:
        raise ValueError(f"yhat and y are labels [n], got {yhat.shape} and {y.shape}")
    if suggested.ndim != 2 or len(suggested) != len(y):
        raise ValueError(f"suggested is labels [{len(y)}, k], got shape {suggested.shape}")
    wrong = yhat != y
    hits = jnp.sum(wrong[:, None] & (suggested == yhat[:, None]), axis=0)
    n_errors = jnp.sum(wrong)
    return Confusion(hits / len(y), hits / n_errors, n_errors, 1 / (n_classes - 1))


# --- one step -------------------------------------------------------------------------------------


class Step(NamedTuple):
    """What one small step down the gradient of a loss changes."""

    before: dict  # of numbers: `measures`, and "loss"
    after: dict
    change: dict
    gradient_norm: jax.Array


def one_step(loss: Callable, measures: Callable, params, length: float = 1e-2) -> Step:
    """Propositions 3 and 4: measures before and after a plain gradient step of a given length.

    loss: params -> number, of one large batch; measures: params -> dict of numbers, D_2 and the
    information say. The theory has D_2 rise, and more where X_2 tells of the target than where it
    is re-drawn: call it with either loss and the same measures. A gradient of 0 takes no step.
    """
    checks.finite_leaves(params=params)
    checks.bounded("length", length, 0, above=True)
    value, gradient = jax.value_and_grad(loss)(params)
    leaves = jax.tree.leaves(gradient)
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in leaves))
    scale = length / jnp.where(norm > 0, norm, 1)
    moved = jax.tree.map(lambda p, g: p - scale * g, params, gradient)
    before = {**measures(params), "loss": value}
    after = {**measures(moved), "loss": loss(moved)}
    change = {name: after[name] - before[name] for name in before}
    return Step(before, after, change, norm)


# --- what a network learns first of each component of its input, from its tangent kernel at the st-
# To first order a gradient step adds u(x) = sum_i Theta(x, x_i) r_i to the network. Theta is its
# tangent kernel at initialisation, r_i = -dL/df(x_i). As a function of two components, u (and the
# kernel itself) is a sum of a part of X_1, a part of X_2, and a part of both: an analysis of
# variance over recombined inputs. `early_dependence` is the same step's effect on D_ij.


class Split(NamedTuple):
    """Shares of the variance over all pairs of an X_1 and an X_2; they sum to 1."""

    first: float  # carried by X_1 alone
    second: float
    both: float  # by neither alone


def recombined(x, inputs) -> np.ndarray:
    """Every X_1 with every X_2: [n, n, ...] of x [n, ...], X_1 from the first index.

    inputs: labels [*x.shape[1:]] of x's entries, 0 for X_1 and 1 for X_2.
    """
    checks.finite(x=x)
    x = np.asarray(x)
    if x.ndim < 2 or len(x) < 2 or x.size == 0:
        raise ValueError(f"x is [n, ...] with two samples or more, got shape {x.shape}")
    labels = np.asarray(checks.real("inputs", inputs))
    if labels.shape != x.shape[1:] or set(np.unique(labels).tolist()) != {0, 1}:
        raise ValueError(f"inputs is a label 0 or 1, both there, for each entry {x.shape[1:]}")
    return np.where(labels == 0, x[:, None], x[None])


def tangent_split(f: Callable, params, x, inputs, residuals=None, **options) -> Split:
    """The tangent kernel of f(params, x) on x [n, ...], split; or the first update it makes.

    inputs: as in `recombined`. residuals: r [n, outputs], the update's; None: the kernel's columns
    Theta(., x_i), all together. options: of `ntk.empirical`. The kernel has n^3 outputs^2 entries:
    some 30 inputs will do.
    """
    grid = recombined(x, inputs)
    n = len(grid)
    if residuals is not None:
        checks.finite(residuals=residuals)
        residuals = np.asarray(residuals, np.float64)
        out = jax.eval_shape(f, params, jnp.asarray(x))
        if residuals.shape != out.shape or options.get("form", "full") != "full":
            raise ValueError(f"residuals is {out.shape}, of a full kernel: got {residuals.shape}")
    points = jnp.asarray(grid.reshape(n * n, *grid.shape[2:]))
    options = {"verbose": False, **options}
    kernel = ntk.empirical(f, params, points, jnp.asarray(x), **options)
    carried = np.asarray(kernel, np.float64).reshape(n, n, n, *kernel.shape[2:])
    if residuals is not None:
        carried = np.einsum("abiok,ik->abo", carried, residuals)
    sums = factorization.two_way(carried)
    parts = np.array([np.sum(sums.y), np.sum(sums.x), np.sum(sums.interaction)])
    if not np.sum(parts) > 0:
        raise ValueError("f, or its first update, does not vary over x: there is nothing to split")
    return Split(*(parts / np.sum(parts)).tolist())


def early_dependence(
    f: Callable, params, update, x: jax.Array, inputs, rates, **options
) -> jax.Array:
    """D_ij after a step of each rate, f linearised at params: [rates, outputs, inputs].

    update: a tree as params, minus the gradient of the loss for gradient descent; rates [k]. x,
    inputs, options: of `dependence.gradient_dependence`.
    """
    checks.finite_leaves(update=update)
    checks.finite(rates=rates)
    rates = jnp.asarray(rates, jnp.result_type(float))
    if rates.ndim != 1 or rates.size == 0:
        raise ValueError(f"rates is [k], one or more, got shape {rates.shape}")
    if jax.tree.structure(update) != jax.tree.structure(params):
        raise ValueError("update is a tree of the structure of params")

    def at(rate):
        def linearised(params, x):
            y, slope = jax.jvp(lambda params: f(params, x), (params,), (update,))
            return y + rate * slope

        return dependence.gradient_dependence(linearised, params, x, inputs, **options)

    return jax.lax.map(at, rates)
