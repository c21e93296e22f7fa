"""Five theories on one model, in one call: does it compose, and what does each theory say of it?

`look` takes any f(params, x), the factors behind each input, and which of their combinations are
in the training set. With flax, linen or nnx:

    lenses = look(model.apply, variables, x, factors, is_train)

    graph, variables = nnx.split(model)  # after model.eval()
    lenses = look(lambda v, x: nnx.merge(graph, v)(x), variables, x, factors, is_train)

    lenses.report()  # a bullet for each theory; lenses.report(plots.lenses) also returns the figure
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, dependence, effects, factorization, ntk, support
from cgjax.analysis.arguments import checked, finite, finite_tree, flag, function, mask, whole
from cgjax.analysis.effects import combined
from cgjax.analysis.lenses import report
from cgjax.analysis.lenses.memorization import Slopes, slopes
from cgjax.analysis.lenses.report import Rank
from cgjax.analysis.masks import Where, selected, trees
from cgjax.analysis.masks.factors import N_STEPS, Subnetworks, main_effects, subnetworks
from cgjax.analysis.ntk import functions
from cgjax.analysis.ntk.functions import mixing, shortest
from cgjax.core.logging import say

# With more entries on their first axis, outputs are one row of the dependence matrix.
MOST_ROWS = 16
# Inputs on which f is tested for mixing inputs of a batch.
N_TESTED = 8
# A factor is weak if its share of the variance is below this for every output, or if its share
# averaged over outputs is below this multiple of the share of sampling noise.
WEAK, NOISE = 1e-3, 2.0


class Accuracy(NamedTuple):
    """A classifier's accuracy per head [heads], over inputs."""

    train: np.ndarray  # on training combinations
    held_out: np.ndarray  # on held-out combinations
    constant: np.ndarray  # on held-out combinations, of the best constant answer
    kernel: np.ndarray | None  # on held-out combinations, of a machine with the tangent kernel
    new_labels: np.ndarray  # share of held-out inputs whose label is in no training combination
    n_held_out: int  # held-out inputs


class Dependence(NamedTuple):
    """On which factors (columns) do outputs (rows) depend? Shares of each row's variance."""

    effects: np.ndarray  # [rows, C] `effects.total_effects`: when one factor changes
    interaction: np.ndarray  # [rows] `effects.interactions`: that no sum over factors explains
    pairs: np.ndarray  # [rows, C, C] that a function of two factors adds to such a sum
    higher: np.ndarray  # [rows] that no sum over pairs explains
    largest: np.ndarray  # [C] the largest share of a single output when one factor changes
    is_weak: np.ndarray  # [C] outputs hardly change with the factor, or no more than by noise
    noise: float  # share of sampling noise: inputs of one combination differ
    gradients: np.ndarray | None  # [rows, C] shares of E |dYhat_i / dX_j|, X_j the inputs' part
    is_needed: np.ndarray | None  # [C] targets, or labels, change with the factor
    interaction_needed: float | None  # share of the targets' variance that no sum explains


class Lenses(NamedTuple):
    """The results of `look`; None where a lens is undefined, and `reasons` says why."""

    support: support.SupportAudit | None  # can the training combinations identify the components?
    kernel: Slopes  # held-out outputs, and what the tangent kernel predicts of them
    factorization: dict[str, factorization.Grids] | None  # by layer
    dependence: Dependence | None
    masks: Subnetworks | None  # a subnetwork for each factor
    reasons: dict  # lens or field -> why it is None
    names: tuple  # of the factors
    accuracy: Accuracy | None = None  # with labels
    ranks: dict[str, Rank] | None = None  # by number, for models that fit their targets

    def bullets(self) -> list[str]:
        """A verdict, its numbers and the next step, for each lens; then ranks, if there are any."""
        return report.bullets(self)

    def headline(self) -> str:
        """One sentence."""
        return report.headline(self)

    def report(self, draw: Callable | None = None):
        """Prints the bullets. draw: makes a figure, which is returned: `plots.lenses`."""
        say("\n".join(f"* {bullet}" for bullet in self.bullets()))
        return None if draw is None else draw(self)


@checked
def look(
    f: function,
    params: finite_tree,
    x: finite("n ..."),
    factors: whole("n C>=2"),
    is_train: mask("n"),
    select: Where | None = None,
    *,
    labels=None,
    targets=None,
    composition: Callable | None = None,
    components: Sequence[Callable] = (),
    audit: Mapping = MappingProxyType({}),
    taps: Callable | None = None,
    layer: str = "",
    inputs=None,
    outputs=None,
    names: Sequence[str] = (),
    n_steps: int = N_STEPS,
    verbose: flag = True,
) -> Lenses:
    """Every lens that the arguments define; the others are None with a reason.

    f: x [n, ...] -> outputs [n, ...], each input independently; differentiable in params.
    params: any tree. Of linen's variables only "params" is differentiated, of nnx only `nnx.Param`;
        batch statistics, counters and keys are constants.
    factors: the combination of each input. is_train: whether it is in the training set.
    select: the weights to mask, as in `masks.selected`, for example "kernel".
    labels: classes of each input: integers [n] for outputs [n, classes], [n, heads] for outputs
        [n, heads, classes]; 0 or 1 for outputs of the same shape, whose sign is the answer.
    targets: like outputs; by default the additive continuation of training outputs (`slopes`).
    composition, components: of the true generator, as in `support.audit_latents`, with the factors
        as latents; audit: its options, `sizes` if components have several factors.
    taps: params, x -> a tree of activations [n, ...], such as linen's intermediates. layer: the one
        whose numbers get a rank in the benchmark; by default the only one besides outputs.
    inputs: labels of x's entries, the factor that each shows, as in `dependence`; by default the
        entries that vary with one factor only. outputs: labels of f's, the row of each; by default
        the entries of their first axis.
    names: of the factors. n_steps: of the search for masks. verbose: print each step.

    The tangent kernel of several outputs is their mean. A combination counts once, with the mean
    over its inputs; accuracy counts every input.

    Cost: linear in n. The tangent kernel is computed between combinations; masks need n_steps
    passes of all inputs for each factor (`Subnetworks.n_passes`).
    """
    x, factors, is_train = _arrays(x, factors, is_train)
    names = _names(names, factors.shape[1])
    if (composition is None) != (not len(components)):
        raise ValueError("composition and components go together: give both, or neither")
    select = _weights(params, select)
    progress = say if verbose else lambda text: None
    progress(f"look: outputs of {len(x)} inputs")
    yhat = _outputs(f, params, x)
    flat = yhat.reshape(len(yhat), -1)
    targets = _targets(targets, flat)
    labels = None if labels is None else _labels(labels, yhat)
    reasons = {}
    if composition is not None:
        progress("look: support")
    support_lens = _support(composition, components, audit, factors, is_train, names, reasons)
    if taps is not None:
        progress("look: layers")
    activations = _activations(taps, params, x, reasons)
    layer = _hidden(activations, layer, reasons)
    layers = _layers(activations, factors, reasons)
    progress("look: dependence on factors")
    dependence_lens = _dependence(
        f, params, x, factors, yhat, targets, labels, inputs, outputs, reasons
    )
    progress("look: tangent kernel")
    kernel = _kernel(f, params, x, factors, flat, is_train, targets, reasons)
    if select is not None:
        progress("look: subnetworks")
    masks = _masks(f, params, x, factors, flat, select, n_steps, reasons)
    accuracy = None if labels is None else _accuracy(labels, yhat, factors, is_train, kernel)
    return Lenses(
        support=support_lens,
        kernel=kernel,
        factorization=layers,
        dependence=dependence_lens,
        masks=masks,
        reasons=reasons,
        names=names,
        accuracy=accuracy,
        ranks=_ranks(factors, is_train, flat, layer, accuracy, kernel, reasons),
    )


# --- arguments ------------------------------------------------------------------------------------


def _arrays(x, factors, is_train):
    """x as an array, factors as integers [n, C], is_train as bool [n]."""
    x, factors, is_train = jnp.asarray(x), np.asarray(factors).astype(int), np.asarray(is_train)
    constant = np.flatnonzero(np.ptp(factors, axis=0) == 0)
    if len(constant):
        value = factors[0, constant[0]]
        raise ValueError(
            f"factors: column {constant[0]} never varies, it is {value} everywhere: leave it out"
        )
    if is_train.all():
        raise ValueError("is_train is True everywhere: no combination is held out")
    combinations, share = combined(factors, is_train)
    if np.any(share % 1):
        mixed = tuple(combinations[share % 1 > 0][0].tolist())
        raise ValueError(f"is_train is True for some inputs of combination {mixed}, not for all")
    return x, factors, is_train


def _names(names, n):
    if len(names) not in (0, n):
        raise ValueError(f"names are one for each of {n} factors, got {len(names)}")
    return tuple(names) or tuple(f"factor {c}" for c in range(n))


def _outputs(f, params, x):
    """f(params, x) [n, ...] in float64, after checks that every lens needs."""
    yhat = jax.jit(f)(params, x)
    if not hasattr(yhat, "shape") or yhat.shape[:1] != (len(x),) or yhat.size == 0:
        shape = getattr(yhat, "shape", type(yhat).__name__)
        raise ValueError(
            f"f maps x [n, ...] to one array [n, ...], n is {len(x)}: it gives {shape}"
        )
    if not jnp.issubdtype(yhat.dtype, jnp.floating):
        raise ValueError(f"f gives {yhat.dtype}: floating-point outputs only, such as logits")
    yhat = np.asarray(yhat, np.float64)
    is_wrong = ~np.isfinite(yhat.reshape(len(x), -1)).all(axis=1)
    if is_wrong.any():
        raise ValueError(
            f"f gives NaN or infinity for {is_wrong.sum()} of {len(x)} inputs, first in row "
            f"{np.flatnonzero(is_wrong)[0]}"
        )
    rows = np.unique(np.linspace(0, len(x) - 1, N_TESTED).astype(int))
    gap = float(mixing(f, params, x[rows]))
    if gap > 0:
        raise ValueError(
            f"f mixes inputs: the outputs of an input alone differ by {gap:.2g} of the largest "
            "output from those in a batch; put BatchNorm in evaluation mode, map over samples"
        )
    return yhat


def _targets(targets, flat):
    """Like outputs [n, D], or None."""
    if targets is None:
        return None
    checks.finite(targets=targets)
    n, d = flat.shape
    if np.shape(targets)[:1] != (n,) or np.size(targets) != flat.size:
        raise ValueError(f"targets are {n} x {d} as f's outputs, got shape {np.shape(targets)}")
    return np.asarray(targets, np.float64).reshape(flat.shape)


def _labels(labels, yhat):
    """Labels as integers [n, heads]."""
    labels, shape = np.asarray(labels), yhat.shape
    n_classes = shape[-1] if labels.shape == shape[:-1] and shape[-1] > 1 else 2
    if n_classes == 2 and labels.shape not in (shape, shape[:-1]):
        raise ValueError(f"labels are integers {list(shape[:-1])}, got shape {labels.shape}")
    if labels.dtype.kind not in "iub" or labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(f"labels are integers from 0 to {n_classes - 1} for outputs {list(shape)}")
    if labels.shape == shape and labels.ndim > 1 and np.all(labels.sum(axis=-1) == 1):
        raise ValueError("labels look like one-hot codes: pass classes, np.argmax(labels, axis=-1)")
    return labels.astype(int).reshape(len(labels), -1)


def _is_parameter(variables) -> dict[str, bool]:
    """Which leaves of a tree, by name, are trained: only those are differentiated and masked.

    In a mapping with "params" (linen's variables) those below "params"; in a tree of nnx variables
    those of `nnx.Param`; in any other tree all.
    """
    names = trees.named(variables)
    nnx = sys.modules.get("flax.nnx")  # without its import there are no variables of nnx
    if nnx is not None:
        nodes = jax.tree.leaves(variables, is_leaf=lambda node: isinstance(node, nnx.Variable))
        if any(isinstance(node, nnx.Variable) for node in nodes):
            by_leaf = (isinstance(n, nnx.Param) for n in nodes for _ in jax.tree.leaves(n))
            return dict(zip(names, by_leaf))
    if isinstance(variables, Mapping) and "params" in variables:
        return {name: name.split("/")[0] == "params" for name in names}
    return dict.fromkeys(names, True)


def _of_parameters(f, variables):
    """f as a function of its parameters and x, and the parameters: the trained leaves."""
    leaves, tree = jax.tree.flatten(variables)
    places = [i for i, trained in enumerate(_is_parameter(variables).values()) if trained]
    if len(places) == len(leaves):
        return f, variables  # programs of f are compiled once, those of a new function every time

    def of_parameters(parameters, x):
        merged = list(leaves)
        for place, leaf in zip(places, parameters):
            merged[place] = leaf
        return f(tree.unflatten(merged), x)

    return of_parameters, [leaves[place] for place in places]


def _weights(variables, select):
    """The names of the leaves to mask, or None."""
    if select is None:
        return None
    is_parameter = _is_parameter(variables)
    named = trees.named(variables).items()
    return set(selected({name: leaf for name, leaf in named if is_parameter[name]}, select))


# --- support --------------------------------------------------------------------------------------


def _support(composition, components, audit, factors, is_train, names, reasons):
    """The theorem on the true generator, with levels of factors as latents."""
    if composition is None:
        reasons["support"] = "pass composition and components of the true generator"
        return None
    trained, every = (np.unique(rows, axis=0) for rows in (factors[is_train], factors))
    if len(trained) < 3:
        reasons["support"] = f"{len(trained)} training combinations are too few: use three or more"
        return None
    # Levels are equal or different: no level is between two others.
    options = {"kinds": ["categorical"] * len(names), "names": names} | dict(audit)
    latents = (trained.astype(float), every.astype(float))
    return support.audit_latents(composition, components, *latents, **options)


# --- kernel and accuracy --------------------------------------------------------------------------


def _kernel(f, params, x, factors, flat, is_train, targets, reasons):
    combinations, place = np.unique(factors, axis=0, return_inverse=True)
    f, parameters = _of_parameters(f, params)
    gram, rounding = None, 0.0
    if any(
        jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in jax.tree.leaves(parameters)
    ):
        gram = _mean_kernel(f, parameters, x, place.ravel())
        gram = gram if gram.any() else None
        rounding = shortest(f, parameters, x[:1])
    means = [None if a is None else combined(factors, a)[1] for a in (flat, is_train, targets)]
    outputs, trained, targets = means
    scored = slopes(gram, combinations, outputs, trained > 0.5, targets, rounding)
    reasons.update(scored.reasons)
    return scored


def _mean_kernel(f, parameters, x, place):
    """The tangent kernel [g, g] between mean outputs of groups; place: the group of each input [n].

    The kernel of means is the mean of the kernel, and takes time and memory linear in n. Groups are
    split into blocks of the mean size, so that padding does not matter if their sizes differ.
    """
    n, counts = len(x), np.bincount(place)
    size = -(-n // len(counts))
    if size == 1:
        order = np.argsort(place)
        gram = ntk.empirical(f, parameters, x[order], form="mean_trace")
        return np.asarray(gram)
    n_blocks = -(-counts // size)
    group_of_block = np.repeat(np.arange(len(counts)), n_blocks)
    order = np.argsort(place, kind="stable")
    rank = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    block = (np.cumsum(n_blocks) - n_blocks)[place[order]] + rank // size
    rows = np.zeros((len(group_of_block), size), int)
    weights = np.zeros(rows.shape, np.float32)
    rows[block, rank % size], weights[block, rank % size] = order, 1

    def sums(parameters, blocks):
        x, weights = blocks
        outputs = f(parameters, x.reshape(-1, *x.shape[2:])).reshape(*x.shape[:2], -1)
        return jnp.sum(jnp.where(weights[..., None] > 0, outputs, 0), axis=1)

    blocks = (x[rows], jnp.asarray(weights))
    gram = np.asarray(ntk.empirical(sums, parameters, blocks, form="mean_trace"))
    share = (group_of_block == np.arange(len(counts))[:, None]) / counts[:, None]
    return (share @ gram.astype(np.float64) @ share.T).astype(gram.dtype)


def _accuracy(labels, yhat, factors, is_train, kernel):
    """labels: [n, heads]."""
    answers = _answers(yhat, labels.shape[1])
    by_kernel = None
    if kernel is not None and kernel.predicted is not None:
        _, place = np.unique(factors, axis=0, return_inverse=True)
        predicted = kernel.predicted.reshape(-1, *yhat.shape[1:])[place.ravel()]
        by_kernel = np.mean((_answers(predicted, labels.shape[1]) == labels)[~is_train], axis=0)
    held_out = labels[~is_train]
    constant = [np.bincount(head).max() / len(head) for head in held_out.T]
    is_new = [~np.isin(a, b) for a, b in zip(held_out.T, labels[is_train].T)]
    return Accuracy(
        train=np.mean((answers == labels)[is_train], axis=0),
        held_out=np.mean((answers == labels)[~is_train], axis=0),
        constant=np.array(constant),
        kernel=by_kernel,
        new_labels=np.mean(is_new, axis=1),
        n_held_out=len(held_out),
    )


def _answers(yhat, n_heads):
    """Classes [n, heads] of outputs."""
    yhat = yhat.reshape(len(yhat), n_heads, -1)
    return (yhat[..., 0] > 0).astype(int) if yhat.shape[-1] == 1 else np.argmax(yhat, axis=-1)


# --- layers ---------------------------------------------------------------------------------------


def _activations(taps, params, x, reasons):
    """{layer: activations [n, ...]}, outputs last; none without taps."""
    if taps is None:
        reasons["factorization"] = "pass taps, a function of params and x to activations"
        return {}
    activations = trees.named(jax.jit(taps)(params, x))
    if not activations:
        raise ValueError("taps gives no activations")
    for name, layer in activations.items():
        if np.shape(layer)[:1] != (len(x),):
            raise ValueError(f"taps: '{name}' is [{len(x)}, ...], got {np.shape(layer)}")
        checks.finite(**{f"taps: '{name}'": layer})
    layers = {_short(name): layer for name, layer in activations.items()}
    return {name: layers[name] for name in sorted(layers, key=lambda name: name == "outputs")}


def _layers(activations, factors, reasons):
    if not activations:
        return None
    if not factorization.grids(factors):
        reasons["factorization"] = (
            "no two factors have all their combinations while the others are constant: add inputs"
        )
        return None
    return {name: factorization.on_grids(a, factors) for name, a in activations.items()}


def _hidden(activations, layer, reasons):
    """The activations of the layer of that name, or of the only one besides outputs; or None."""
    hidden = [name for name in activations if name != "outputs"]
    if layer and layer not in activations:
        names = ", ".join(activations) or "none without taps"
        raise ValueError(f"layer is one of the layers of taps ({names}), got {layer!r}")
    if not layer and len(hidden) != 1:
        reasons["ranks of a layer"] = "pass taps, and layer, the name of one of its layers"
        return None
    return activations[layer or hidden[0]]


def _short(name):
    """linen's name of an intermediate, without the method and the number of the call."""
    name = name.removesuffix("/0").removesuffix("__call__").removesuffix("/")
    return name or "outputs"


# --- dependence -----------------------------------------------------------------------------------


def _dependence(f, params, x, factors, yhat, targets, labels, inputs, outputs, reasons):
    rows = _rows(yhat.shape[1:], outputs)
    flat = yhat.reshape(len(yhat), -1)
    shares = effects.total_effects(factors, flat, rows)
    if np.isnan(shares).all():
        is_constant = np.all(np.ptp(flat, axis=0) <= 1e-6 * np.max(np.abs(flat), axis=0))
        reasons["dependence"] = (
            "outputs are constant: check params and x"
            if is_constant
            else "no two combinations differ in one factor only: add inputs"
        )
        return None
    interactions = effects.interactions(factors, flat, rows)
    largest, is_weak, noise = _strengths(factors, flat)
    is_needed, interaction_needed = _needs(factors, targets, labels)
    return Dependence(
        effects=shares,
        interaction=interactions.total,
        pairs=interactions.pairs,
        higher=interactions.higher,
        largest=largest,
        is_weak=is_weak,
        noise=noise,
        gradients=_gradients(f, params, x, factors, rows.reshape(yhat.shape[1:]), inputs, reasons),
        is_needed=is_needed,
        interaction_needed=interaction_needed,
    )


def _rows(shape, outputs):
    """The row of each output, flat."""
    if outputs is None:
        n = shape[0] if shape and shape[0] <= MOST_ROWS else 1
        first = np.arange(n).reshape(-1, *[1] * max(len(shape) - 1, 0)) if n > 1 else 0
        return np.broadcast_to(first, shape).ravel()
    labels = np.asarray(outputs)
    if labels.shape != shape or labels.dtype.kind not in "iu" or labels.max() < 0:
        raise ValueError(f"outputs are labels, whole numbers {list(shape)}, got {labels.shape}")
    return labels.ravel()


def _strengths(factors, flat):
    """The largest share of each factor [C], whether it is weak [C], and the noise's share."""
    combinations, place = np.unique(factors, axis=0, return_inverse=True)
    counts, (_, means) = np.bincount(place.ravel()), combined(factors, flat)
    shares = effects.total_effects(combinations, means)
    varies = ~np.isnan(shares).all(axis=1)
    shares, noise = shares[varies], 0.0
    if len(flat) > len(counts):
        # The variance of a combination's mean follows from the differences between its inputs.
        within = np.sum((flat - means[place.ravel()]) ** 2, axis=0) / (len(flat) - len(counts))
        of_means = within * np.mean(1 / counts)
        noise = float(np.mean(of_means[varies] / np.var(means[:, varies], axis=0)))
    largest = np.max(shares, axis=0)
    return largest, (largest <= WEAK) | (np.mean(shares, axis=0) <= NOISE * noise), noise


def _needs(factors, targets, labels):
    """The factors [C] with which targets or labels change, and the targets' interaction."""
    if targets is None and labels is None:
        return None, None
    truth = targets if labels is None else _one_hot(labels)
    # Constant targets, and factors that never change alone, have no share.
    is_needed = np.any(np.nan_to_num(effects.total_effects(factors, truth)) > WEAK, axis=0)
    if targets is None:
        return is_needed, None
    total = effects.interactions(factors, targets, np.zeros(targets.shape[1], int)).total[0]
    return is_needed, None if np.isnan(total) else float(total)


def _one_hot(labels):
    """Labels [n, heads] as indicators [n, classes of all heads]."""
    return np.concatenate([np.eye(head.max() + 1)[head] for head in labels.T], axis=1)


def _gradients(f, params, x, factors, rows, inputs, reasons):
    """Shares [rows, C] of derivatives of output rows in the inputs' parts."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        reasons["gradients"] = f"x holds {x.dtype}, which has no derivatives"
        return None
    inputs = _parts(x, factors) if inputs is None else inputs
    if inputs is None:
        reasons["gradients"] = (
            "some factor has no entry of x to itself: give inputs, the factor that each shows"
        )
        return None
    rows = rows if rows.ndim else rows[None]
    sizes = (int(rows.max()) + 1, factors.shape[1])
    norms = _gradient_norms(f, params, x, jnp.asarray(inputs), jnp.asarray(rows), sizes=sizes)
    if np.isnan(norms).all():
        reasons["gradients"] = "some derivatives of f in x are NaN or infinite"
        return None
    return np.asarray(dependence.shares(norms), np.float64)


@functions.jit
def _gradient_norms(f, params, x, inputs, rows, *, sizes):
    """Norms [output rows, C]; compiled once for each f."""
    return dependence.gradient_dependence(
        _with_axis(f), params, x, inputs, rows, sizes=sizes, centred=False
    )


def _with_axis(f):
    """f with outputs [n, ...] of two axes or more."""

    def outputs(params, x):
        yhat = f(params, x)
        return yhat[:, None] if yhat.ndim == 1 else yhat

    return outputs


def _parts(x, factors):
    """The factor that each entry of x varies with, -1 where it is none or several [...].

    None if a factor has no entry.
    """
    flat = np.asarray(x).reshape(len(x), -1)
    labels = np.full(flat.shape[1], -1)
    varies = np.ptp(flat, axis=0) > 0
    for c, column in enumerate(factors.T):
        is_fixed = [np.ptp(flat[column == value], axis=0) == 0 for value in np.unique(column)]
        is_part = varies & np.all(is_fixed, axis=0)
        labels[is_part] = np.where(labels[is_part] < 0, c, -1)
    has_all = np.isin(np.arange(factors.shape[1]), labels).all()
    return labels.reshape(x.shape[1:]) if has_all else None


# --- benchmark ------------------------------------------------------------------------------------


def _ranks(factors, is_train, flat, layer, accuracy, kernel, reasons):
    """`report.ranks` of a model that fits its targets or labels, as all its networks do."""
    if accuracy is None and not kernel.has_targets:
        reasons["ranks"] = "pass targets or labels: the benchmark has models that fit them"
        return None
    fit = kernel.r2_train if accuracy is None else np.min(accuracy.train)
    if fit is None or fit < report.HIGH:
        reasons["ranks"] = "the model does not fit its training combinations"
        return None
    return report.ranks(factors, is_train, flat, layer)


# --- subnetworks ----------------------------------------------------------------------------------


def _masks(f, params, x, factors, flat, select, n_steps, reasons):
    if select is None:
        reasons["masks"] = "pass select, the weights to mask, such as 'kernel'"
        return None
    chosen, _ = main_effects(factors, flat)
    if len(chosen) < 2:
        reasons["masks"] = (
            f"{len(chosen)} of the factors have a main effect on outputs: a search needs two"
        )
        return None
    return subnetworks(f, params, x, factors, select.__contains__, n_steps)
