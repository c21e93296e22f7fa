"""Masks over the weights of any network: the weights that a computation needs.

A subnetwork is M(m * w) with the trained weights w frozen and a mask m in {0, 1}; its ablation is
M((1 - m) * w). Continuous sparsification learns one score s per weight: m = sigmoid(beta s) while
the temperature beta rises, and 1[s > 0] at the end. Hard concrete draws m from a distribution with
mass at 0 and 1. Magnitude keeps the largest weights, without learning.

Scores and masks are trees like the parameters, with None where a leaf is not masked. Parameters are
any tree of arrays: linen's, or the state of `graph, params = nnx.split(model)`.

    part = masks.search(f, params, loss, batches)  # f: params, x -> outputs
    subnetwork = masks.apply(params, part.masks)  # then model.apply({"params": subnetwork}, x)
    ablated = masks.ablate(params, part.masks)  # or nnx.merge(graph, ablated)(x)
    masks.save("subject.npz", part.masks)  # masks.read("subject.npz", params)

The parts of a search, for a loop of your own: `init`, `soft`, `beta_schedule`, `penalty`, `hard`.

`on` restricts masks to a set of layers by numbers, so that many sets share one program: 0 or 1 for
each masked leaf, as a tree or by name. A leaf with 0 is not masked and is not counted.
"""

import functools
import inspect
import io
import pathlib
import re
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, choice, finite, finite_tree, flag, integer, number
from cgjax.analysis.masks import trees
from cgjax.core.logging import write_arrays

Tree = Any  # of arrays, like the parameters, None where a leaf is not masked
Where = str | Callable[[str], bool]

PER = ("weight", "unit")
HOW = ("zero", "mean", "random")


# --- which weights --------------------------------------------------------------------------------


def selected(params: Tree, where: Where) -> dict:
    """The leaves to mask, by name: `{"encoder/layer_0/query/kernel": leaf}`.

    where: a regular expression, searched anywhere in the name, or a predicate of the name.
    """
    try:
        chosen = where if callable(where) else re.compile(where).search
    except (re.error, TypeError):
        raise ValueError(f"where must be a regular expression or function, got {where!r}") from None
    names = trees.named(params)
    leaves = {name: leaf for name, leaf in names.items() if chosen(name)}
    if not leaves:
        shown = ", ".join(list(names)[:4]) or "no leaf"
        raise ValueError(f"where: {where!r} selects no leaf of params, which hold {shown}")
    for name, leaf in leaves.items():
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(f"where selects {name}, which holds {leaf.dtype}, not floats")
    return leaves


@checked
def init(params: Tree, where: Where, s0: finite(""), per: choice(*PER) = "weight") -> Tree:
    """Scores s0 in float32 for the selected leaves; None for the others.

    per: "unit" for one score per output, the last axis of a leaf: [1, ..., n].
    """
    names = selected(params, where)

    def scores(name, leaf):
        if name not in names:
            return None
        shape = leaf.shape if per == "weight" else (1,) * (leaf.ndim - 1) + leaf.shape[-1:]
        return jnp.full(shape, s0, jnp.float32)

    return trees.map_named(scores, params)


def expand(masks: Tree, params: Tree) -> Tree:
    """Masks of units as masks of weights, for example to count weights."""
    masks = trees.matching(masks, params)
    return trees.mapped(
        lambda m, w: None if m is None else jnp.broadcast_to(m, w.shape), masks, params
    )


# --- continuous sparsification --------------------------------------------------------------------


@checked
def soft(s: Tree, beta: number("(0, inf)")) -> Tree:
    """The mask while it is learned: sigmoid(beta s)."""
    return jax.tree.map(lambda leaf: _sigmoid(beta * trees.real("s", leaf)), s)


@jax.custom_jvp
def _sigmoid(x):
    return jax.nn.sigmoid(x)


@_sigmoid.defjvp
def _sigmoid_jvp(primals, tangents):
    # m (1 - m) loses the digits of 1 - m where m is near 1, and Adam divides by the result.
    (x,), (dx,) = primals, tangents
    m = jax.nn.sigmoid(x)
    return m, m * jax.nn.sigmoid(-x) * dx


def hard(s: Tree) -> Tree:
    """The mask itself: 1 where s > 0, else 0."""
    return jax.tree.map(lambda leaf: trees.indicator("s", leaf, jnp.greater), s)


@checked
def beta_schedule(
    epoch, n_epochs: integer(1), beta_max: number("(0, inf)") = 200.0, from_one: flag = False
) -> jax.Array:
    """Temperature of an epoch, counted from 1: beta_max^(epoch / n_epochs).

    By default beta rises once before the first epoch, as in the published runs. from_one: it does
    not; the first epoch has beta 1 and the last stays below beta_max.
    """
    checks.bounded("epoch", epoch, f"[1, {n_epochs}]")
    return beta_max ** ((jnp.asarray(epoch) - from_one) / n_epochs)


def penalty(s: Tree, beta: float, on: Tree | None = None) -> jax.Array:
    """Sum of the soft mask, the penalty for sparsity."""
    return trees.total(soft(s, beta), on)


# --- hard concrete --------------------------------------------------------------------------------

TAU, LEFT, RIGHT = 2 / 3, -0.1, 1.1  # temperature and stretch
EDGE = 1e-4  # uniform noise and keep rates are clipped to [EDGE, 1 - EDGE]


@checked
def concrete_init(keep: number("[0, 1]")) -> jax.Array:
    """The log alpha at which a weight is kept with this probability before stretching."""
    keep = jnp.clip(jnp.asarray(keep), EDGE, 1 - EDGE)
    return jnp.log(keep / (1 - keep))


def concrete_sample(log_alpha: Tree, u: Tree) -> Tree:
    """Masks drawn by uniform noise u, a tree like log_alpha: a stretched sigmoid cut to [0, 1]."""

    u = trees.like("u", u, log_alpha)

    def sample(log_alpha, u):
        checks.bounded("u", u, "[0, 1]")
        u = jnp.clip(jnp.asarray(u), EDGE, 1 - EDGE)
        noisy = jax.nn.sigmoid(
            (jnp.log(u) - jnp.log1p(-u) + trees.real("log_alpha", log_alpha)) / TAU
        )
        return jnp.clip(noisy * (RIGHT - LEFT) + LEFT, 0, 1)

    return jax.tree.map(sample, log_alpha, u)


def concrete_penalty(log_alpha: Tree, on: Tree | None = None) -> jax.Array:
    """Expected number of masks that are not 0."""
    shift = TAU * np.log(-LEFT / RIGHT)
    alive = jax.tree.map(lambda a: jax.nn.sigmoid(trees.real("log_alpha", a) - shift), log_alpha)
    return trees.total(alive, on)


def concrete_hard(log_alpha: Tree) -> Tree:
    """1 where the mask without noise is above 1/2, which means log alpha > 0; else 0.

    log alpha = 0, a keep rate of one half, gives 1, too: the reference's float64 result is just
    above 1/2.
    """
    return jax.tree.map(lambda a: trees.indicator("log_alpha", a, jnp.greater_equal), log_alpha)


# --- magnitude ------------------------------------------------------------------------------------


@checked
def magnitude(
    params: Tree,
    where: Where,
    keep: number("[0, 1]"),
    scope: choice("leaf", "global") = "leaf",
    signed: flag = False,
) -> Tree:
    """Mask of the largest |w|, a share `keep` of each leaf or of all together (scope "global").

    signed: the largest w, as in one published library; for comparison.
    """
    names = selected(params, where)
    checks.finite_leaves(params=names)
    sizes = jax.tree.map(lambda w: (w if signed else jnp.abs(w)).astype(jnp.float32), names)
    if scope == "leaf":
        masks = jax.tree.map(lambda size: trees.largest(size, keep * size.size), sizes)
    else:
        vector, back = ravel_pytree(sizes)
        masks = back(trees.largest(vector, keep * vector.size))
    return trees.map_named(lambda name, leaf: masks.get(name), params)


# --- use ------------------------------------------------------------------------------------------


def apply(params: Tree, masks: Tree, on: Tree | None = None) -> Tree:
    """The subnetwork: w * m in the dtype of the weights."""
    masks = trees.switched(trees.matching(masks, params), on)
    return trees.mapped(lambda m, w: w if m is None else w * m.astype(w.dtype), masks, params)


def invert(masks: Tree) -> Tree:
    """1 - m."""
    return jax.tree.map(lambda m: 1 - trees.real("masks", m), masks)


@checked
def ablate(
    params: Tree, masks: Tree, how: choice(*HOW) = "zero", key: jax.Array | None = None, on=None
) -> Tree:
    """The network without its subnetwork: w * (1 - m).

    how: what replaces removed weights. "zero"; "mean": the mean of the weights that the same unit
    loses, so that its sum of weights stays; "random": fresh weights, drawn by `key`.
    """
    if how == "zero":
        return apply(params, invert(masks), on)
    if how == "mean":
        masks = trees.matching(masks, params)
        return replace(params, masks, trees.mapped(_mean_removed, masks, params), on)
    if key is None:
        raise ValueError("key: random ablation draws weights; pass a jax.random.key")
    return replace(params, masks, fresh(key, params, masks), on)


def _mean_removed(m, w):
    """The mean [..., units] of the weights that a mask of the leaf removes, for each unit."""
    if m is None:
        return None
    m, axes = jnp.broadcast_to(m, w.shape).astype(w.dtype), tuple(range(w.ndim - 1))
    total = jnp.sum(w * m, axis=axes, keepdims=True)
    return jnp.broadcast_to(total / jnp.maximum(jnp.sum(m, axis=axes, keepdims=True), 1), w.shape)


def replace(params: Tree, masks: Tree, others: Tree, on: Tree | None = None) -> Tree:
    """w * (1 - m) + other * m: other weights replace the removed ones.

    others: a tree like params, of which only the masked leaves are used.
    """
    remaining = trees.switched(invert(trees.matching(masks, params)), on)
    others = trees.matching(others, params, "others", whole=True)

    def put(m, other, w):
        if m is None:
            return w
        if other is None:
            raise ValueError("others has no weights for a leaf that masks has")
        return w * m.astype(w.dtype) + (other * (1 - m)).astype(w.dtype)

    return trees.mapped(put, remaining, others, params)


def fresh(key: jax.Array, params: Tree, masks: Tree) -> Tree:
    """Weights U(-1, 1) / sqrt(fan_in) for every masked leaf; the last axis holds the outputs."""
    weights = trees.mapped(
        lambda m, w: None if m is None else w, trees.matching(masks, params), params
    )
    return jax.tree.map(
        lambda u: (2 * u - 1) * max(u.size // u.shape[-1], 1) ** -0.5,
        trees.uniform(key, weights),
    )


# --- sizes, and masks of the same size ------------------------------------------------------------


def size(masks: Tree, on: Tree | None = None) -> jax.Array:
    """The number of entries of the masks: weights, or units for masks of units."""
    return trees.total(
        jax.tree.map(lambda m: jnp.ones((), int) * trees.real("masks", m).size, masks), on
    )


def kept(masks: Tree, on: Tree | None = None) -> jax.Array:
    """The share that masks keep."""
    return trees.total(masks, on) / size(masks, on)


def random_like(key: jax.Array, masks: Tree, on: Tree | None = None) -> Tree:
    """Uniformly random masks that keep the same number of entries in each leaf."""
    masks = trees.binary("masks", masks)
    return trees.switched(trees.as_many(key, masks), on, off=masks)


def complement_like(key: jax.Array, masks: Tree, on: Tree | None = None) -> Tree:
    """Random masks that keep the same number of entries in each leaf, outside of the given masks.

    If a leaf keeps more than half, there is no such mask. An error names the leaf; under jit the
    leaf gets all of its complement instead, and `has_complement` reports it.
    """
    masks = trees.binary("masks", masks)
    numbers = trees.numbers(masks, on)
    if checks.known(masks, on):
        for name, m in trees.named(masks).items():
            is_on = numbers is None or numbers[name]
            if is_on and 2 * np.sum(np.asarray(m)) > m.size:
                raise ValueError(
                    f"masks keep more than half of {name}: the complement is too small"
                )

    return trees.switched(trees.as_many(key, masks, outside=True), on, off=masks)


def has_complement(masks: Tree, on: Tree | None = None) -> jax.Array:
    """Whether every leaf keeps at most half, as `complement_like` needs."""
    masks = trees.binary("masks", masks)
    leaves = jax.tree.leaves(trees.switched(masks, on, off=0))
    return jnp.all(jnp.stack([2 * jnp.sum(m) <= m.size for m in leaves]))


# --- overlap --------------------------------------------------------------------------------------


class Overlap(NamedTuple):
    """Overlap of masks, per leaf (by name) and in total."""

    iou: dict  # size of the intersection of all over that of their union; nan if all are empty
    expected: dict  # ratio of the expected sizes, for random masks with as many entries kept
    total: jax.Array
    expected_total: jax.Array


def intersect(several: list) -> Tree:
    """The intersection: the entries that all masks keep."""
    several = trees.same_network("several", several)
    return jax.tree.map(lambda *leaves: jnp.prod(jnp.stack(leaves), axis=0), *several)


def overlap(several: list) -> Overlap:
    """Intersection over union of two or more hard masks, and its value by chance.

    Chance: expected intersection over expected union of independent masks that keep as many entries
    of every leaf as the given ones. The mean of the ratio is slightly larger, by a share of about
    1 / (weights in the union).
    """
    several = trees.same_network("several", several)
    return _overlap([trees.named(masks) for masks in several])


@jax.jit  # one program: a program for every operation and shape takes longer to compile
def _overlap(named: list[dict]) -> Overlap:
    counts = {}
    for name in named[0]:
        leaves = jnp.stack([masks[name] for masks in named])
        shares = jnp.mean(leaves.reshape(len(named), -1), axis=1)
        chance = jnp.prod(shares), 1 - jnp.prod(1 - shares)
        found = jnp.sum(jnp.min(leaves, axis=0)), jnp.sum(jnp.max(leaves, axis=0))
        counts[name] = jnp.stack([*found, *(leaves[0].size * share for share in chance)])
    totals = sum(counts.values())
    return Overlap(
        {name: count[0] / count[1] for name, count in counts.items()},
        {name: count[2] / count[3] for name, count in counts.items()},
        totals[0] / totals[1],
        totals[2] / totals[3],
    )


# --- all families of masks ------------------------------------------------------------------------


class Family(NamedTuple):
    """The functions of a kind of mask that a search needs."""

    init: Callable  # params, where, start -> scores; start: a score, or the share to keep
    train_mask: Callable  # scores, key, beta -> masks to train with
    hard: Callable  # scores -> masks
    penalty: Callable  # scores, beta, on=None -> number
    learns: bool = True  # whether the scores have a gradient


FAMILIES = {
    "continuous_sparsification": Family(init, lambda s, key, beta: soft(s, beta), hard, penalty),
    "neuron": Family(
        lambda params, where, start: init(params, where, start, per="unit"),
        lambda s, key, beta: soft(s, beta),
        hard,
        penalty,
    ),
    "hard_concrete": Family(
        lambda params, where, start: init(params, where, concrete_init(start)),
        lambda s, key, beta: concrete_sample(s, trees.uniform(key, s)),
        concrete_hard,
        lambda s, beta, on=None: concrete_penalty(s, on),
    ),
    "magnitude": Family(
        magnitude,
        lambda s, key, beta: hard(s),
        hard,
        lambda s, beta, on=None: trees.total(hard(s), on),
        learns=False,
    ),
}


# --- search, and files of masks ------------------------------------------------------------------


class Search(NamedTuple):
    """Masks that a search has learned."""

    masks: Tree  # hard masks
    scores: Tree
    losses: jax.Array  # [epochs] mean loss with the soft mask, penalty included
    kept: jax.Array  # the share that the masks keep


@checked
def learn(
    loss: Callable,
    s: finite_tree,
    n_steps: integer(1),
    lr: number("(0, inf)"),
    per_epoch: integer(1) = 1,
    beta_max: number("(0, inf)") = 200.0,
) -> tuple[Tree, jax.Array]:
    """Adam on scores while beta rises once an epoch: (scores, losses [n_steps]).

    loss: (scores, step, beta) -> number. The last epoch has beta_max, as in `beta_schedule`.
    """
    tx, n_epochs = optax.adam(lr), -(-n_steps // per_epoch)

    def step(state, i):
        s, inner = state
        beta = beta_schedule(i // per_epoch + 1, n_epochs, beta_max)
        value, slopes = jax.value_and_grad(loss)(s, i, beta)
        moves, inner = tx.update(slopes, inner)
        return (optax.apply_updates(s, moves), inner), value

    (s, _), losses = jax.lax.scan(step, (s, tx.init(s)), jnp.arange(n_steps))
    return s, losses


@checked
def search(
    f: Callable,
    params: finite_tree,
    loss: Callable,
    batches,
    where: Where = "kernel",
    *,
    epochs: integer(1) = 90,
    s0: float = 0.05,
    lr: number("(0, inf)") = 1e-2,
    penalty: number("[0, inf)") = 1e-8,
    family: choice(*FAMILIES) = "continuous_sparsification",
    beta_max: number("(0, inf)") = 200.0,
    key: jax.Array | None = None,
) -> Search:
    """A mask with which f has a low loss; the weights stay as they are.

    f: params, x -> outputs. loss: outputs, y -> number, the mean over a batch. batches: a sequence
    of (x, y) of one shape, arrays or trees of arrays [n, ...], passed `epochs` times; x may have
    the same number of rows for each row of y. where: the leaves to mask, as in `selected`.
    penalty: the cost of one kept weight. s0: the first score, or the share to keep first for hard
    concrete. family: of FAMILIES; key draws the noise of hard concrete. Defaults are those of
    Lepori et al.

    >>> import jax, jax.numpy as jnp
    >>> from cgjax.analysis import masks
    >>> f = lambda params, x: jnp.sum(jnp.tanh(x) * params["kernel"], axis=1)  # two parts
    >>> params = {"kernel": jnp.array([[1.0, 2.0]])}
    >>> x = jax.random.normal(jax.random.key(0), (64, 2))
    >>> loss = lambda outputs, y: jnp.mean((outputs - y) ** 2)
    >>> part = masks.search(f, params, loss, [(x, jnp.tanh(x[:, 0]))], epochs=50, penalty=1e-3)
    >>> part.masks["kernel"].tolist(), float(part.kept)  # the first part alone
    ([[1.0, 0.0]], 0.5)
    >>> masks.ablate(params, part.masks)["kernel"].tolist()  # the second part is left
    [[0.0, 2.0]]
    """
    kind = FAMILIES[family]
    if not kind.learns:
        raise ValueError(f"family: {family} has nothing to learn; call masks.{family}")
    batches = list(batches)
    if not batches:
        raise ValueError("batches is empty: pass at least one pair (x, y)")
    shapes = [jax.tree.map(jnp.shape, batch) for batch in batches]
    is_pair = [isinstance(batch, (tuple, list)) and len(batch) == 2 for batch in batches]
    if not all(is_pair) or any(shape != shapes[0] for shape in shapes):
        raise ValueError("batches must be pairs (x, y) that all have the same shapes")
    checks.finite_leaves(batches=batches)
    data = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches)
    _check_rows(*jax.tree.map(lambda leaf: leaf[0], tuple(data)))
    outputs = jax.eval_shape(f, params, batches[0][0])
    if (shape := jax.eval_shape(loss, outputs, batches[0][1]).shape) != ():
        raise ValueError(f"loss must return one number, got shape {shape}")
    key = jax.random.key(0) if key is None else key
    # Functions are keys of the cache of compiled programs; other callables may not be hashable.
    f, loss = (fn if inspect.isfunction(fn) else functools.partial(fn) for fn in (f, loss))
    s = kind.init(params, where, s0)
    s, losses = _learned(f, loss, family, epochs, s, params, data, key, lr, penalty, beta_max)
    n = len(batches)
    losses = jnp.mean(losses.reshape(epochs, n), axis=1)
    if checks.known(losses) and not np.isfinite(np.asarray(losses)).all():
        raise ValueError("loss is not finite during the search: check f and loss, or lower lr")
    masks = kind.hard(s)
    return Search(masks, s, losses, kept(expand(masks, params)))


def _check_rows(x, y):
    """Raises an error unless x has as many rows as y, or a multiple: several for each target."""
    (n_x,), (n_y,) = checks.samples(**{"batches: x": x}), checks.samples(**{"batches: y": y})
    if n_x is None or (n_y and n_x % n_y):
        raise ValueError(
            f"batches: x has {n_x or 0} rows and y has {n_y}: x needs as many, or a multiple of it"
        )


@functools.partial(jax.jit, static_argnames=("f", "loss", "family", "epochs"))
def _learned(f, loss, family, epochs, s, params, data, key, lr, penalty, beta_max):
    """`learn` on stacked batches: one program for all calls with the same functions and shapes."""
    kind, n = FAMILIES[family], len(jax.tree.leaves(data)[0])

    def cost(s, step, beta):
        x, y = jax.tree.map(lambda leaf: leaf[step % n], data)
        mask = kind.train_mask(s, jax.random.fold_in(key, step), beta)
        return loss(f(apply(params, mask), x), y) + penalty * kind.penalty(s, beta)

    return learn(cost, s, n * epochs, lr, n, beta_max)


def save(path, masks: Tree) -> None:
    """Writes hard masks to an npz file, one bit for each entry, by the names of their leaves."""
    masks = trees.named(trees.binary("masks", masks))
    if not masks:
        raise ValueError("masks holds no leaf: there is nothing to save")
    arrays = {}
    for name, m in masks.items():
        arrays[f"bits/{name}"] = np.packbits(np.asarray(m, bool))
        arrays[f"shape/{name}"] = np.array(m.shape, int)
    write_arrays(pathlib.Path(path), arrays)


def read(path, params: Tree) -> Tree:
    """Masks that `save` wrote, as a tree like params, None for leaves without a mask."""
    try:
        arrays = dict(np.load(io.BytesIO(pathlib.Path(path).read_bytes())))
        masks = {
            name.removeprefix("shape/"): np.unpackbits(
                arrays[name.replace("shape", "bits", 1)], count=int(np.prod(shape))
            ).reshape(shape)
            for name, shape in arrays.items()
            if name.startswith("shape/")
        }
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"path: '{path}' is not a file of masks ({error})") from None
    if unknown := masks.keys() - trees.named(params).keys():
        raise ValueError(f"params has no leaf {sorted(unknown)[0]}, for which '{path}' has a mask")
    as_tree = trees.map_named(
        lambda name, leaf: jnp.asarray(masks[name], jnp.float32) if name in masks else None, params
    )
    return trees.matching(as_tree, params)


# --- tangent kernels of subnetworks: inputs that training a mask's weights would change together --
# Theta_m(x, x') = sum over outputs and weights of m (df(x)/dw)(df(x')/dw), at the weights w.
# The kernels of a mask and of its complement add up to the kernel of all masked leaves.


def restricted(f: Callable, params, several: list, x) -> jax.Array:
    """Kernels [k, n, n] of k masks, summed over the outputs of f.

    f: params, x [n, ...] (or a tree of such) -> [n, outputs], samples are independent. several:
    trees like params, None where a leaf is not masked, the same leaves in all.
    """
    if not len(several):
        raise ValueError("several is empty: pass at least one mask")
    checks.finite_leaves(params=params, x=x)
    (n,) = checks.samples(x=x)
    several = [trees.matching(masks, params, "several") for masks in several]
    stacked = _stacked(several, params)
    free = {name: leaf for name, leaf in trees.named(params).items() if name in stacked}

    def outputs(free, sample):
        whole = trees.map_named(lambda name, leaf: free.get(name, leaf), params)
        return f(whole, jax.tree.map(lambda leaf: leaf[None], sample))[0]

    first = jax.tree.map(lambda leaf: leaf[0], x)
    shape = jax.eval_shape(outputs, free, first).shape
    if len(shape) != 1:
        raise ValueError(f"f must return [n, outputs], got [n, {', '.join(map(str, shape))}]")

    def add(total, i):
        """Adds one output at a time: the gradients of all outputs may not fit in memory."""
        rows = jax.vmap(jax.grad(lambda free, sample: outputs(free, sample)[i]), (None, 0))(free, x)
        return total + sum(_contracted(rows[name], stacked[name]) for name in stacked), None

    kernels = jnp.zeros((len(several), n, n), jnp.result_type(*jax.tree.leaves(free)))
    return jax.lax.scan(add, kernels, jnp.arange(shape[0]))[0]


def _stacked(several, params):
    """{leaf: [k, weights]} of the masked leaves."""
    named = [trees.named(trees.mapped(_whole, masks, params)) for masks in several]
    if not named[0] or any(leaves.keys() != named[0].keys() for leaves in named):
        raise ValueError("several must be masks of the same leaves, at least one leaf")
    return {name: jnp.stack([leaves[name].ravel() for leaves in named]) for name in named[0]}


def _whole(mask, weights):
    """The mask of weights that belongs to a mask of units."""
    return None if mask is None else jnp.broadcast_to(mask, jnp.shape(weights))


def _contracted(rows, masks):
    rows = rows.reshape(len(rows), -1)
    return jnp.einsum("kp,np,mp->knm", masks.astype(rows.dtype), rows, rows, precision="highest")
