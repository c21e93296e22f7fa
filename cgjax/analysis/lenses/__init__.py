"""Five theories on one model, in one call: does it compose, and what would each theory say?

`look` takes any f(params, x), the factors behind each input and which of their combinations were
trained. With flax, linen or nnx:

    found = look(model.apply, variables, x, factors, is_train)

    graph, params = nnx.split(model)
    found = look(lambda params, x: nnx.merge(graph, params)(x), params, x, factors, is_train)

    found.report()  # one paragraph; found.report(plots.lenses) returns the figure too
"""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, dependence, factorization, ntk, support
from cgjax.analysis.effects import additive_fit, combined, total_effects
from cgjax.analysis.lenses import words
from cgjax.analysis.lenses.memorization import Slopes, slopes
from cgjax.analysis.masks import Where, selected, trees
from cgjax.analysis.masks.search import N_STEPS, Subnetworks, main_effects, subnetworks
from cgjax.analysis.ntk.traces import mixing
from cgjax.analysis.support import latent_space
from cgjax.core.logging import say

# Entries of the first axis of outputs that get a row each in the dependence matrix.
MOST_ROWS = 16
# Inputs that are put through f alone, to see whether it mixes them.
N_ALONE = 8


class Dependence(NamedTuple):
    """On which factors (columns) do outputs (rows) depend?"""

    effects: np.ndarray  # [rows, C] `effects.total_effects`: of the variance, when one changes
    interaction: np.ndarray  # [rows] share of the variance that no sum over factors explains
    gradients: np.ndarray | None  # [rows, C] shares of E |dYhat_i / dX_j|, X_j the inputs' part


class Lenses(NamedTuple):
    """What `look` found; None where a lens is undefined, and `reasons` says why."""

    support: support.SupportAudit | None  # can the trained combinations identify the components?
    kernel: Slopes | None  # additivity, salience and slopes, by the tangent kernel
    factorization: dict[str, factorization.Grids] | None  # by layer
    dependence: Dependence | None
    masks: Subnetworks | None  # a subnetwork for each factor
    reasons: dict  # lens or field -> why it is None
    names: tuple  # of the factors

    def words(self) -> str:
        """One paragraph about all lenses."""
        return words.paragraph(self)

    def headline(self) -> str:
        """One sentence."""
        return words.headline(self)

    def report(self, draw: Callable | None = None):
        """Prints the paragraph. draw: makes the figure, which is returned: `plots.lenses`.

        Analyses draw nothing themselves.
        """
        say(self.words())
        return None if draw is None else draw(self)


def look(
    f: Callable,
    params,
    x,
    factors,
    is_train,
    select: Where | None = None,
    *,
    targets=None,
    composition: Callable | None = None,
    components: Sequence[Callable] = (),
    audit: Mapping = MappingProxyType({}),
    taps: Callable | None = None,
    inputs=None,
    outputs=None,
    names: Sequence[str] = (),
    n_steps: int = N_STEPS,
) -> Lenses:
    """Every lens that the arguments define; the others are None with a reason.

    f: x [n, ...] -> outputs [n, ...], each input on its own, and it is differentiable in params.
    params: any tree. Of linen's variables only "params" is differentiated, of nnx only `nnx.Param`;
        batch statistics, counters and keys are constants.
    factors: whole numbers [n, C], the combination of each input. is_train: bool [n].
    select: the weights to mask, as in `masks.selected`: "kernel", say. targets: like outputs; by
        default the additive continuation of the trained outputs (`slopes`).
    composition, components: of the true generator, as in `support.audit_latents`, which takes the
        factors as latents; audit: its options, `sizes` where components have several factors.
    taps: params, x -> a tree of activations [n, ...], such as linen's intermediates.
    inputs: labels of x's entries, the factor that each shows, as in `dependence`; by default those
        that vary with one factor only. outputs: labels of f's, the row each belongs to; by default
        entries of their first axis.
    names: of the factors. n_steps: of the search for masks.

    The tangent kernel of several outputs is their mean. A combination counts once, with the mean of
    its inputs' outputs, and is trained or not.

    Cost: the tangent kernel of n inputs, their Jacobians in x, and for masks n_steps passes of all
    inputs for each factor (some seconds for small networks, `Subnetworks.n_passes`).
    """
    x, factors, is_train = _checked(x, factors, is_train)
    names = _names(names, factors.shape[1])
    if (composition is None) != (not len(components)):
        raise ValueError("composition and components go together: give both, or neither")
    select = _weights(params, select)
    yhat = _outputs(f, params, x)
    flat = yhat.reshape(len(yhat), -1)
    targets = _targets(targets, flat)
    reasons = {}
    return Lenses(
        support=_support(composition, components, audit, factors, is_train, names, reasons),
        factorization=_layers(taps, params, x, factors, reasons),
        dependence=_dependence(f, params, x, factors, yhat, inputs, outputs, reasons),
        kernel=_kernel(f, params, x, factors, flat, is_train, targets, reasons),
        masks=_masks(f, params, x, factors, flat, select, n_steps, reasons),
        reasons=reasons,
        names=names,
    )


# --- arguments ------------------------------------------------------------------------------------


def _checked(x, factors, is_train):
    """x as an array, factors as integers [n, C], is_train as bool [n]."""
    checks.combinations("factors", factors)
    factors = np.asarray(factors).astype(int)
    n, n_factors = factors.shape
    if n_factors < 2:
        raise ValueError("factors has one column: combinations need two factors or more, [n, C]")
    still = np.flatnonzero(np.ptp(factors, axis=0) == 0)
    if len(still):
        value = factors[0, still[0]]
        raise ValueError(
            f"factors: column {still[0]} never varies, it is {value} everywhere: leave it out"
        )
    x = jnp.asarray(checks.real("x", x))
    if x.shape[:1] != (n,):
        raise ValueError(f"x is inputs [n, ...] for {n} rows of factors, got shape {x.shape}")
    checks.finite(x=x)
    if np.shape(is_train) != (n,):
        raise ValueError(f"is_train is bool [{n}] as factors, got shape {np.shape(is_train)}")
    checks.mask("is_train", is_train, (n,))
    is_train = np.asarray(is_train)
    if is_train.all():
        raise ValueError("is_train is True everywhere: no combination is unseen")
    both, share = combined(factors, is_train)
    if np.any(share % 1):
        torn = tuple(both[share % 1 > 0][0].tolist())
        raise ValueError(f"is_train is True for some inputs of combination {torn}, not for all")
    return x, factors, is_train


def _names(names, n):
    if len(names) not in (0, n):
        raise ValueError(f"names are one for each of {n} factors, got {len(names)}")
    return tuple(names) or tuple(f"factor {c}" for c in range(n))


def _outputs(f, params, x):
    """f(params, x) [n, ...] in float64, if it is what the lenses can look at."""
    if not callable(f):
        raise ValueError(f"f is a function of params and x, got {type(f).__name__}")
    checks.finite_leaves(params=params)
    found = jax.jit(f)(params, x)
    if not hasattr(found, "shape") or found.shape[:1] != (len(x),) or found.size == 0:
        shape = getattr(found, "shape", type(found).__name__)
        raise ValueError(
            f"f maps x [n, ...] to one array [n, ...], n is {len(x)}: it gives {shape}"
        )
    if not jnp.issubdtype(found.dtype, jnp.floating):
        raise ValueError(f"f gives {found.dtype}: floating-point outputs only, such as logits")
    wrong = ~np.isfinite(np.asarray(found).reshape(len(x), -1)).all(axis=1)
    if wrong.any():
        raise ValueError(
            f"f gives NaN or infinity for {wrong.sum()} of {len(x)} inputs, first in row "
            f"{np.flatnonzero(wrong)[0]}"
        )
    rows = np.unique(np.linspace(0, len(x) - 1, N_ALONE).astype(int))
    gap = float(mixing(f, params, x[rows]))
    if gap > 0:
        raise ValueError(
            f"f mixes inputs: alone, one has outputs that differ by {gap:.2g} of the largest from "
            "those among others; put BatchNorm in evaluation mode, map over samples"
        )
    return np.asarray(found, np.float64)


def _targets(targets, flat):
    """Like outputs [n, D], or None."""
    if targets is None:
        return None
    checks.finite(targets=targets)
    n, d = flat.shape
    if np.shape(targets)[:1] != (n,) or np.size(targets) != flat.size:
        raise ValueError(f"targets are {n} x {d} as f's outputs, got shape {np.shape(targets)}")
    return np.asarray(targets, np.float64).reshape(flat.shape)


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
    """f as a function of the trained leaves [list] and x, and these leaves."""
    leaves, tree = jax.tree.flatten(variables)
    places = [i for i, trained in enumerate(_is_parameter(variables).values()) if trained]

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


# --- the lenses -----------------------------------------------------------------------------------


def _support(composition, components, audit, factors, is_train, names, reasons):
    """The theorem on the true generator, with levels of factors as latents."""
    if composition is None:
        reasons["support"] = "no composition and components of the true generator were given"
        return None
    trained, every = (np.unique(rows, axis=0) for rows in (factors[is_train], factors))
    if len(trained) < 3:
        reasons["support"] = f"{len(trained)} trained combinations are too few to look for paths"
        return None
    # Levels are equal or not: nothing is between two of them.
    options = {"radius": 0.0, "names": names} | dict(audit)
    sizes = tuple(options.get("sizes", ())) or (len(names) // len(components),) * len(components)
    # Only the relaxed condition asks for more of unseen combinations than their values.
    if options.get("condition") != "relaxed" and sum(sizes) == len(names):
        every = _values(every, sizes)
    latents = (trained.astype(float), every.astype(float))
    return support.audit_latents(composition, components, *latents, **options)


def _values(combinations, sizes):
    """Rows [m, C] with every value of every component, m the most that one has."""
    levels = [np.unique(combinations[:, list(d)], axis=0) for d in latent_space.components(sizes)]
    n = max(map(len, levels))
    return np.concatenate([each[np.arange(n) % len(each)] for each in levels], axis=1)


def _kernel(f, params, x, factors, yhat, is_train, targets, reasons):
    of_parameters, parameters = _of_parameters(f, params)
    gram = ntk.empirical(of_parameters, parameters, x, form="mean_trace", verbose=False)
    gram = np.asarray(gram)
    if not gram.any():
        reasons["kernel"] = "no output depends on params: the tangent kernel is zero"
        return None
    found = slopes(gram, factors, yhat, is_train, targets)
    reasons.update(found.reasons)
    return found


def _layers(taps, params, x, factors, reasons):
    if taps is None:
        reasons["factorization"] = "no taps were given: a function of params and x to activations"
        return None
    activations = trees.named(jax.jit(taps)(params, x))
    if not activations:
        raise ValueError("taps gives no activations")
    for name, each in activations.items():
        if np.shape(each)[:1] != (len(x),):
            raise ValueError(f"taps: '{name}' is [{len(x)}, ...], got {np.shape(each)}")
        checks.finite(**{f"taps: '{name}'": each})
    if not factorization.grids(factors):
        reasons["factorization"] = "no two factors have all their combinations, the others held"
        return None
    found = {_short(name): factorization.on_grids(a, factors) for name, a in activations.items()}
    return {name: found[name] for name in sorted(found, key=lambda name: name == "outputs")}


def _short(name):
    """linen's name of an intermediate, without the method and the number of the call."""
    name = name.removesuffix("/0").removesuffix("__call__").removesuffix("/")
    return name or "outputs"


def _dependence(f, params, x, factors, yhat, inputs, outputs, reasons):
    labels = _rows(yhat.shape[1:], outputs)
    flat = yhat.reshape(len(yhat), -1)
    found = total_effects(factors, flat, labels)
    still = np.isnan(found).all(axis=1)
    if still.all():
        reasons["dependence"] = "no output varies, or no two combinations differ in one factor only"
        return None
    return Dependence(
        found,
        np.where(still, np.nan, _interaction(factors, flat, labels)),
        _gradients(f, params, x, factors, labels.reshape(yhat.shape[1:]), inputs, reasons),
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


def _interaction(factors, flat, labels):
    """Share of the variance of each row that no sum over factors explains."""
    combinations, means = combined(factors, flat)
    fit = additive_fit(combinations, means)
    rest = np.mean((means - fit.mean - fit.terms.sum(axis=0)) ** 2, axis=0)
    members = np.arange(labels.max() + 1)[:, None] == labels
    with np.errstate(invalid="ignore"):  # outputs that do not vary have no share
        return (members @ rest) / (members @ np.var(means, axis=0))


def _gradients(f, params, x, factors, labels, inputs, reasons):
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
    rows = labels if labels.ndim else labels[None]
    sizes = (int(rows.max()) + 1, factors.shape[1])
    measure = functools.partial(
        dependence.gradient_dependence, _with_axis(f), sizes=sizes, centred=False
    )
    found = jax.jit(measure)(params, x, inputs=jnp.asarray(inputs), outputs=jnp.asarray(rows))
    return np.asarray(dependence.shares(found), np.float64)


def _with_axis(f):
    """f with outputs [n, ...] of two axes at least."""

    def outputs(params, x):
        found = f(params, x)
        return found[:, None] if found.ndim == 1 else found

    return outputs


def _parts(x, factors):
    """The one factor that each entry of x varies with, -1 where it is none or several [...].

    None where a factor has no entry.
    """
    flat = np.asarray(x).reshape(len(x), -1)
    labels = np.full(flat.shape[1], -1)
    varies = np.ptp(flat, axis=0) > 0
    for c, column in enumerate(factors.T):
        held = [np.ptp(flat[column == value], axis=0) == 0 for value in np.unique(column)]
        own = varies & np.all(held, axis=0)
        labels[own] = np.where(labels[own] < 0, c, -1)
    has_all = np.isin(np.arange(factors.shape[1]), labels).all()
    return labels.reshape(x.shape[1:]) if has_all else None


def _masks(f, params, x, factors, yhat, select, n_steps, reasons):
    if select is None:
        reasons["masks"] = "no weights were selected: give select, such as 'kernel'"
        return None
    chosen, _ = main_effects(factors, yhat)
    if len(chosen) < 2:
        reasons["masks"] = f"{len(chosen)} of the factors move the outputs by themselves, not two"
        return None
    return subnetworks(f, params, x, factors, select.__contains__, n_steps)
