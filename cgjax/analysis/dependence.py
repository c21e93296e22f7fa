"""On which components of its input does a model depend? Derivatives, information, swaps, one step.

Arrays of labels split inputs X and outputs Yhat into components: `parts((28, 56, 1), 2, 1)` labels
every pixel of the left half with 0 and every pixel of the right half with 1. A compositional model
has dYhat_i/dX_j = 0 for j != i.

A value above zero means little: random weights depend on all components. Compare with the model at
initialisation, or with one trained where X_j carries no information. If components of the inputs
are dependent, I(X_j; Yhat) > 0 even for a model that ignores X_j: only the conditional and the
interventional information are 0 for it.

f(params, x) takes x [n, ...] and treats samples independently. All functions can be jitted, with
labels and sizes concrete.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from cgjax.analysis import checks, factorization, ntk
from cgjax.analysis.arguments import (
    checked,
    counts,
    finite,
    finite_tree,
    flag,
    floating,
    integer,
    labels,
    number,
    real,
)
from cgjax.core import tree

# Samples whose Jacobians are computed at once.
CHUNK = 32


@checked
def parts(shape: counts("rank"), n: integer(1), axis: integer(0, below="rank")) -> np.ndarray:
    """Labels 0 .. n-1 of equal parts along an axis: int [*shape].

    >>> parts((4,), 2, 0)
    array([0, 0, 1, 1])
    """
    if shape[axis] % n:
        raise ValueError(f"n: {shape[axis]} entries cannot be divided into {n} equal parts")
    along = np.arange(shape[axis]) // (shape[axis] // n)
    along = along.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return np.broadcast_to(along, shape).copy()


# --- by derivatives -------------------------------------------------------------------------------


@checked
def gradient_dependence(
    f: Callable,
    params: finite_tree,
    x: floating("n d ..."),
    inputs,
    outputs=None,
    beside=None,
    sizes: counts("2") = None,
    centred: flag = True,
    chunk: integer(1) = CHUNK,
) -> jax.Array:
    """D_ij = E_x ||dYhat_i / dX_j||_F: [output components, input components].

    x: the points of the derivatives; f(params, x) -> [n, ..., classes].
    inputs: labels of x's entries, whole numbers [*x.shape[1:]], or [n, ...] if samples differ;
        entries below 0 belong to no component. outputs: the same for f's outputs; None: one
        component.
    beside: a tree of arrays [n, ...] that f takes as a third argument and that is held constant.
    sizes: numbers of output and input components, by default the largest label plus one.
    centred: subtract the mean over the last axis of outputs, which does not change a softmax.
    chunk: samples at a time.

    The mean is over the samples that have both components; NaN if none has. NaN outputs, NaN or
    infinite derivatives are an error; under jit, where no error can be raised, D is NaN.
    """
    x = jnp.asarray(x)
    out = jax.eval_shape(lambda x, beside: _called(f, params, x, beside), x, beside)
    if not hasattr(out, "shape") or len(out.shape) < 2 or out.shape[0] != len(x):
        raise ValueError(f"f must map [n, ...] to [n, ..., classes], it returns {out}")
    outputs = np.zeros(out.shape[1:], int) if outputs is None else outputs
    labels = {"outputs": (outputs, out.shape), "inputs": (inputs, x.shape)}
    label_arrays = [_labels(name, *pair) for name, pair in labels.items()]
    if sizes is None:
        if not checks.known(label_arrays):
            raise ValueError("sizes: pass the numbers of components, because labels are traced")
        sizes = tuple(max(int(np.max(array)) + 1, 1) for array in label_arrays)
    # [n, entries, components], 1 where an entry belongs to a component
    rows, columns = (jax.nn.one_hot(array, size) for array, size in zip(label_arrays, sizes))
    few = out.size <= x.size
    jacobian = jax.jacrev if few else jax.jacfwd

    def component_squares(sample):
        at, rest, row, column = sample

        def single(at):
            y = _called(f, params, at[None], jax.tree.map(lambda a: a[None], rest))[0]
            has_nan = jnp.any(jnp.isnan(y))
            if centred:
                y = y - jnp.mean(y, axis=-1, keepdims=True)
            return y.ravel(), has_nan

        derivatives, has_nan = jacobian(single, has_aux=True)(at)
        unit = tree.magnitude(derivatives)
        squares = (derivatives.reshape(row.shape[0], -1) / unit) ** 2
        # [output components, input components], in units of unit^2
        squares = jnp.einsum("ro,rc,ci->oi", row, squares, column, precision="highest")
        return squares, unit, has_nan

    rows, columns = (jnp.broadcast_to(a, (len(x), *a.shape[1:])) for a in (rows, columns))
    squares, units, has_nan = jax.lax.map(
        component_squares, (x, beside, rows, columns), batch_size=min(chunk, len(x))
    )
    _no_samples("f gives NaN", has_nan)
    _no_samples("f has NaN or infinite derivatives", ~jnp.all(jnp.isfinite(squares), axis=(1, 2)))
    squares = jnp.where(has_nan[:, None, None], jnp.nan, squares)
    has = jnp.any(rows > 0, axis=1)[:, :, None] & jnp.any(columns > 0, axis=1)[:, None, :]
    # The square root has no derivative at 0: without this, a penalty on D could give NaN.
    is_zero = squares == 0
    norms = jnp.where(is_zero, 0, units[:, None, None] * jnp.sqrt(jnp.where(is_zero, 1, squares)))
    return jnp.sum(jnp.where(has, norms, 0), axis=0) / jnp.sum(has, axis=0)


@checked
def shares(dependence: real("... outputs inputs")) -> jax.Array:
    """S_ij = D_ij / sum_k D_ik of matrices D of norms; NaN if a row is 0."""
    dependence = jnp.asarray(dependence)
    if checks.known(dependence) and np.any(np.asarray(dependence) < 0):
        raise ValueError("dependence must hold norms, 0 or more")
    return dependence / jnp.sum(dependence, axis=-1, keepdims=True)


def _no_samples(problem, is_wrong):
    """Raises an error if a sample has the problem, where is_wrong [n] is concrete."""
    if checks.known(is_wrong) and np.any(is_wrong):
        rows = np.flatnonzero(is_wrong)
        raise ValueError(f"{problem} for {len(rows)} of {len(is_wrong)} samples: see row {rows[0]}")


def _called(f, params, x, beside):
    return f(params, x) if beside is None else f(params, x, beside)


def _labels(name, labels, shape):
    """The labels as [1 or n, entries]."""
    array = checks.real(name, labels)
    if not jnp.issubdtype(array.dtype, jnp.integer) or array.shape not in (shape, shape[1:]):
        raise ValueError(
            f"{name} must be whole numbers {list(shape[1:])} or {list(shape)}, a label per entry: "
            f"got {array.dtype} {list(array.shape)}"
        )
    if checks.known(array) and np.max(np.asarray(array)) < 0:
        raise ValueError(f"{name} has no component: all labels are below 0")
    return array.reshape(shape[0] if array.shape == shape else 1, -1)


# --- by information -------------------------------------------------------------------------------


@checked
def information(
    a: labels("n"), b: labels("n"), sizes: counts("2") = None, corrected: bool = True
) -> jax.Array:
    """I(a; b) in nats of labels a, b, after Miller and Madow.

    corrected: H(a) + H(b) - H(a, b), and each entropy is the plug-in one plus (occupied cells - 1)
    / 2n; without it the plug-in information. The estimate is not cut off at 0, so that the mean
    over many samples of independent labels is near 0. It is too large for independent labels if
    there are fewer than about five samples for each cell of the table. sizes: numbers of labels of
    a and b, whole numbers from 0; needed under jit, otherwise labels can be anything.

    >>> round(float(information([0, 1] * 500, [0, 1] * 500)), 6)  # ln 2, and the correction
    0.693647
    """
    (a, b), sizes = _codes({"a": a, "b": b}, sizes)
    return _informations(_table((a, b), sizes), corrected)


@checked
def conditional_information(
    y2: labels("n"), yhat: labels("n"), y1: labels("n"), sizes: counts("3") = None
) -> jax.Array:
    """I(y2; yhat | y1) in nats: the mean over y1's labels, by their shares, of an information.

    sizes: numbers of labels of each, as in `information`. 0 for a model that depends only on X_1,
    for any distribution of labels.

    Strata are small, so the correction of `information` does not suffice. Here the plug-in
    information I of a stratum is compared with E, its mean over all orders of the labels, and with
    H, the smaller of both entropies, which is the most it can be: (I - E) / (H - E) H. So the
    mean over samples is 0 if y2 and yhat are independent given y1, however few samples there are,
    and the value is H if one of them determines the other.
    """
    (y2, yhat, y1), sizes = _codes({"y2": y2, "yhat": yhat, "y1": y1}, sizes)
    table = _table((y1, y2, yhat), (sizes[2], *sizes[:2]))
    return _conditional(table, _expected(table))


def _codes(labels, sizes):
    """Labels as whole numbers from 0, and the number of different labels of each array."""
    arrays = {name: np.asarray(v) if checks.known(v) else v for name, v in labels.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "iubU":
            checks.whole(name, array)
    if sizes is None:
        if not checks.known(labels):
            raise ValueError("sizes: pass the numbers of labels, because labels are traced")
        coded = [np.unique(array, return_inverse=True) for array in arrays.values()]
        return [code for _, code in coded], tuple(len(values) for values, _ in coded)
    if len(sizes) != len(arrays):
        raise ValueError(f"sizes must be {len(arrays)} numbers of labels, got {tuple(sizes)}")
    for (name, array), size in zip(arrays.items(), sizes):
        checks.whole(name, array)
        if checks.known(array) and (np.min(array) < 0 or np.max(array) >= size):
            raise ValueError(f"{name} must hold labels from 0 to below its size {size}")
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


def _entropies(counts, corrected):
    """Entropy of counts [..., k]: [...]."""
    xp = np if isinstance(counts, np.ndarray) else jnp
    n = xp.maximum(counts.sum(axis=-1, keepdims=True), 1)
    is_filled = counts > 0
    shares = xp.where(is_filled, counts, n) / n
    plug_in = -(xp.where(is_filled, shares, 0) * xp.log(shares)).sum(axis=-1)
    excess = xp.maximum(is_filled.sum(axis=-1) - 1, 0) / (2 * n[..., 0])
    return plug_in + excess if corrected else plug_in


def _informations(table, corrected=True):
    """Information of tables [..., rows, columns]: [...]."""
    margins = [_entropies(table.sum(axis=axis), corrected) for axis in (-1, -2)]
    return sum(margins) - _entropies(table.reshape(*table.shape[:-2], -1), corrected)


def _expected(table):
    """Mean plug-in information over all orders of the labels, of tables [..., rows, columns].

    With these margins a cell's count k is hypergeometric: the sum over cells and k of
    P(k) k/n log(n k / (row column)).
    """
    is_numpy = isinstance(table, np.ndarray)
    xp, gammaln = (np, scipy.special.gammaln) if is_numpy else (jnp, jax.scipy.special.gammaln)
    n = xp.maximum(table.sum(axis=(-2, -1), keepdims=True), 1)
    rows, columns = table.sum(axis=-1, keepdims=True), table.sum(axis=-2, keepdims=True)
    least, most = xp.maximum(rows + columns - n, 0), xp.minimum(rows, columns)
    per_pair = n / xp.maximum(rows * columns, 1)
    log_chance = gammaln(rows + 1) + gammaln(columns + 1) - gammaln(n + 1)
    log_chance = log_chance + gammaln(n - rows + 1) + gammaln(n - columns + 1)
    for count in (least, rows - least, columns - least, n - rows - columns + least):
        log_chance = log_chance - gammaln(count + 1)  # of the least count

    def add(k, log_chance, total):
        """The next count k, from the chance of k - 1."""
        up, down = (rows - k + 1) * (columns - k + 1), k * (n - rows - columns + k)
        is_next = (k > least) & (k <= most)
        step = xp.log(xp.where(is_next, up, 1)) - xp.log(xp.where(is_next, down, 1))
        log_chance = log_chance + step
        size = k / n * xp.log(k * per_pair)
        is_counted = (k >= least) & (k <= most)
        return log_chance, total + xp.where(is_counted, xp.exp(log_chance) * size, 0)

    total = xp.zeros_like(table)
    if is_numpy:
        for k in range(1, int(most.max()) + 1):
            log_chance, total = add(k, log_chance, total)
    else:
        _, _, total = jax.lax.while_loop(
            lambda carry: carry[0] <= jnp.max(most),
            lambda carry: (carry[0] + 1, *add(*carry)),
            (jnp.ones((), n.dtype), log_chance, total),
        )
    return total.sum(axis=(-2, -1))


def _conditional(table, expected):
    """Conditional information of a table [strata, rows, columns]; expected: of its margins."""
    xp = np if isinstance(table, np.ndarray) else jnp
    plain, largest = (
        xp.minimum(*(_entropies(table.sum(axis=axis), corrected) for axis in (-1, -2)))
        for corrected in (False, True)
    )
    room = plain - expected
    is_open = room > 1e-6  # otherwise every order of the labels gives the same information
    share = xp.where(is_open, _informations(table, False) - expected, 0) / xp.where(
        is_open, room, 1
    )
    counts = table.sum(axis=(1, 2))
    return (counts * share * largest).sum() / counts.sum()


class Tested(NamedTuple):
    """An information, and its null distribution."""

    value: jax.Array
    null: jax.Array  # [n_draws], with y2 shuffled
    high: jax.Array  # the 95 % quantile of the null
    p: jax.Array  # (1 + draws at or above the value) / (1 + draws)


@checked
def permutation_test(
    key: jax.Array,
    y2: labels("n"),
    yhat: labels("n"),
    y1: labels("n") = None,
    n_draws: integer(1) = 200,
    sizes: counts("_") = None,
) -> Tested:
    """`conditional_information` against y2 shuffled within each y1; y1 None: `information`.

    sizes as there, two numbers if y1 is None.
    """
    labels = {"y2": y2, "yhat": yhat} | ({} if y1 is None else {"y1": y1})
    codes, sizes = _codes(labels, sizes)
    is_conditional = y1 is not None
    if not is_conditional:
        codes, sizes = [*codes, 0 * codes[0]], (*sizes, 1)
    y2, yhat, y1 = (jnp.asarray(code) for code in codes)
    places = jnp.argsort(y1)  # stable: the places of each stratum, in their order

    def table(y2):
        return _table((y1, y2, yhat), (sizes[2], *sizes[:2]))

    # Shuffling keeps the margins, so the expected information stays, too.
    expected = _expected(table(y2)) if is_conditional else None

    def measure(y2):
        return _conditional(table(y2), expected) if is_conditional else _informations(table(y2)[0])

    def shuffled_information(key):
        order = jnp.lexsort((jax.random.uniform(key, y1.shape), y1))
        return measure(jnp.zeros_like(y2).at[places].set(y2[order]))

    null = jax.lax.map(
        shuffled_information, jax.random.split(key, n_draws), batch_size=min(50, n_draws)
    )
    value = measure(y2)
    # Equal tables differ by rounding, because programs add in another order. They count as ties.
    slack = 32 * jnp.finfo(null.dtype).eps
    p = (1 + jnp.sum(null >= value - slack)) / (1 + n_draws)
    return Tested(value, null, jnp.quantile(null, 0.95), p)


# --- by intervention ------------------------------------------------------------------------------


@checked
def intervene(
    key: jax.Array, x: finite("n>=2 d ..."), inputs, component: integer(0)
) -> tuple[jax.Array, jax.Array]:
    """x with component X_j of another sample, and that sample's index: (x', order [n]).

    inputs: labels of x's entries [*x.shape[1:]]. The other components stay, so X_j is independent
    of them. No sample keeps its own X_j.
    """
    x = jnp.asarray(x)
    labels = _labels("inputs", inputs, x.shape)
    if len(labels) > 1:
        raise ValueError("inputs must be one label per entry, the same for all samples")
    in_component = (labels == component).reshape(1, *x.shape[1:])
    if checks.known(in_component) and not np.any(np.asarray(in_component)):
        raise ValueError(f"component {component} is not one of inputs' labels")
    cycle = jax.random.permutation(key, len(x))
    order = jnp.zeros_like(cycle).at[cycle].set(jnp.roll(cycle, 1))
    return jnp.where(in_component, x[order], x), order


@checked
def interventional_information(
    key: jax.Array,
    f: Callable,
    params: finite_tree,
    x: finite("n>=2 d ..."),
    y2: labels("n"),
    inputs,
    component: int,
    sizes: counts("2") = None,
    chunk: integer(1) = None,
) -> jax.Array:
    """I_do(y2; yhat): `information` with X_j, whose labels are y2, from another sample.

    yhat: the argmax of f's outputs over the last axis, for x. The other axes are heads;
    there is one number per head. inputs, component: as in `intervene`; sizes: of y2 and yhat.
    chunk: samples at a time, by default all.
    """
    x, order = intervene(key, x, inputs, component)
    yhat, has_nan = _predicted(f, params, x, chunk)
    is_known = checks.known(y2, order)
    y2 = np.asarray(y2)[np.asarray(order)] if is_known else jnp.asarray(y2)[order]
    informations = []
    for head in yhat.reshape(len(x), -1).T:
        codes, head_sizes = _codes({"y2": y2, "yhat": head}, sizes)
        informations.append(_informations(_table(codes, head_sizes)))
    if yhat.ndim > 1:
        informations = [jnp.stack(informations).reshape(yhat.shape[1:])]
    return (
        informations[0] if checks.known(has_nan) else jnp.where(has_nan, jnp.nan, informations[0])
    )


@checked
def swap_rate(
    key: jax.Array,
    f: Callable,
    params: finite_tree,
    x,
    inputs,
    component: int,
    chunk: integer(1) = None,
) -> jax.Array:
    """P(argmax f(x_i, x_j) != argmax f(x_i, x_j')), x_j' from another sample: a number per head.

    Arguments as in `interventional_information`, and NaN outputs.
    """
    swapped, _ = intervene(key, x, inputs, component)
    before, before_nan = _predicted(f, params, jnp.asarray(x), chunk)
    after, after_nan = _predicted(f, params, swapped, chunk)
    return jnp.where(before_nan | after_nan, jnp.nan, jnp.mean(before != after, axis=0))


def _predicted(f, params, x, chunk):
    """The argmax of f's last axis [n, ...], and whether an output is NaN, which has no argmax.

    Where values are concrete, NaN raises an error.
    """

    def predict(x):
        outputs = f(params, x)
        has_nan = jnp.isnan(outputs).reshape(len(outputs), -1).any(axis=1)
        return jnp.argmax(outputs, axis=-1), has_nan

    if chunk is None:
        labels, has_nan = predict(x)
    else:
        single = jax.lax.map(lambda at: predict(at[None]), x, batch_size=min(chunk, len(x)))
        labels, has_nan = (array[:, 0] for array in single)
    _no_samples("f gives NaN", has_nan)
    return labels, jnp.any(has_nan)


class Confusion(NamedTuple):
    """How often a model predicts the label that another component suggests."""

    of_all: jax.Array  # [k] share of all samples that are errors with the suggested label
    of_errors: jax.Array  # [k] share of the errors; NaN if there are none
    n_errors: jax.Array
    by_chance: float  # share of the errors if they were independent of the suggestion


@checked
def confusion(
    yhat: finite("n"), y: finite("n"), suggested: finite("n k"), n_classes: integer(2)
) -> Confusion:
    """Errors of yhat against y that are one of the labels suggested."""
    for name, value in {"yhat": yhat, "y": y, "suggested": suggested}.items():
        checks.bounded(name, value, f"[0, {n_classes - 1}]")
    yhat, y, suggested = jnp.asarray(yhat), jnp.asarray(y), jnp.asarray(suggested)
    wrong = yhat != y
    hits = jnp.sum(wrong[:, None] & (suggested == yhat[:, None]), axis=0)
    n_errors = jnp.sum(wrong)
    return Confusion(hits / len(y), hits / n_errors, n_errors, 1 / (n_classes - 1))


# --- one step -------------------------------------------------------------------------------------


class Step(NamedTuple):
    """The change of measures in one small gradient step."""

    before: dict  # of numbers: `measures`, and "loss"
    after: dict
    change: dict
    gradient_norm: jax.Array


@checked
def one_step(
    loss: Callable, measures: Callable, params: finite_tree, length: number("(0, inf)") = 1e-2
) -> Step:
    """Propositions 3 and 4: measures before and after a plain gradient step of a given length.

    loss: params -> number, of one large batch; measures: params -> dict of numbers, for example D_2
    and the information. In theory D_2 rises, and it rises more if X_2 is informative about the
    target than if X_2 is re-drawn: call the function with both losses and the same measures. With
    a gradient of 0 there is no step.
    """
    value, gradient = jax.value_and_grad(loss)(params)
    norm = tree.scaled_norm(gradient)
    scale = length / jnp.where(norm > 0, norm, 1)
    moved = jax.tree.map(lambda p, g: p - scale * g, params, gradient)
    before = {**measures(params), "loss": value}
    after = {**measures(moved), "loss": loss(moved)}
    change = {name: after[name] - before[name] for name in before}
    return Step(before, after, change, norm)


# --- what a network learns first of each input component, from its tangent kernel -----------------
# To first order a gradient step adds u(x) = sum_i Theta(x, x_i) r_i to the network. Theta is its
# tangent kernel at initialisation, r_i = -dL/df(x_i). As a function of two components, u (and the
# kernel itself) is a sum of a part of X_1, a part of X_2, and a part of both: an analysis of
# variance over recombined inputs. `early_dependence` is the same step's effect on D_ij.


class Split(NamedTuple):
    """Shares of the variance over all pairs of an X_1 and an X_2; they sum to 1."""

    first: float  # carried by X_1 alone
    second: float
    both: float  # the interaction


@checked
def recombined(x: finite("n>=2 *shape"), inputs: real("*shape")) -> np.ndarray:
    """Every X_1 with every X_2: [n, n, *shape] of x, X_1 from the first index.

    inputs: labels of x's entries, 0 for X_1 and 1 for X_2.
    """
    x, inputs = np.asarray(x), np.asarray(inputs)
    if set(np.unique(inputs).tolist()) != {0, 1}:
        raise ValueError("inputs must be labels 0 and 1, both present")
    return np.where(inputs == 0, x[:, None], x[None])


@checked
def tangent_split(f: Callable, params, x, inputs, residuals: finite() = None, **options) -> Split:
    """The split of f's tangent kernel on x [n, ...], or of the first update u.

    inputs: as in `recombined`. residuals: r [n, outputs] of the update; None: the split of all
    columns Theta(., x_i) of the kernel together. options: of `ntk.empirical`. The kernel has
    n^3 outputs^2 entries: about 30 inputs are enough.
    """
    grid = recombined(x, inputs)
    n = len(grid)
    if residuals is not None:
        residuals = np.asarray(residuals, np.float64)
        out = jax.eval_shape(f, params, jnp.asarray(x))
        if residuals.shape != out.shape or options.get("form", "full") != "full":
            raise ValueError(f"residuals needs {out.shape} and form 'full': got {residuals.shape}")
    points = jnp.asarray(grid.reshape(n * n, *grid.shape[2:]))
    options = {"verbose": False, **options}
    kernel = ntk.empirical(f, params, points, jnp.asarray(x), **options)
    values = np.asarray(kernel, np.float64).reshape(n, n, n, *kernel.shape[2:])
    if residuals is not None:
        values = np.einsum("abiok,ik->abo", values, residuals)
    sums = factorization.two_way(values)
    parts = np.array([np.sum(sums.y), np.sum(sums.x), np.sum(sums.interaction)])
    if not np.sum(parts) > 0:
        raise ValueError(
            "f's kernel or first update is constant over x: it has no variance to split"
        )
    return Split(*(parts / np.sum(parts)).tolist())


@checked
def early_dependence(
    f: Callable, params, update: finite_tree, x: jax.Array, inputs, rates: finite("k"), **options
) -> jax.Array:
    """D_ij after a step with each rate, f linearised at params: [rates, outputs, inputs].

    update: a tree like params; for gradient descent, minus the gradient of the loss. x, inputs,
    options: of `gradient_dependence`.
    """
    rates = jnp.asarray(rates, jnp.result_type(float))
    if jax.tree.structure(update) != jax.tree.structure(params):
        raise ValueError("update must be a tree with the structure of params")

    def dependence_at(rate):
        def linearised(params, x):
            y, slope = jax.jvp(lambda params: f(params, x), (params,), (update,))
            return y + rate * slope

        return gradient_dependence(linearised, params, x, inputs, **options)

    return jax.lax.map(dependence_at, rates)
