"""How much of a learned function reaches held-out combinations, and what does its kernel predict?

On held-out combinations a kernel machine keeps a share m of an additive target: the slope of its
predictions against the target. The rest stays in conjunctions of the training set (memorization
leak, Lippl and Stachenfeld 2025). m follows from the kernel, and from its saliences alone if the
kernel depends only on the factors that two inputs share. `slopes` compares a model with both. A
model in the lazy regime has nearly these slopes; a model that learns features need not.

NumPy, float64; run once per model.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cgjax.analysis import additivity, machines, salience
from cgjax.analysis.arguments import checked, finite, mask, number, optional, symmetric, whole
from cgjax.analysis.effects import additive_fit, combined

# Random outputs, whose additivity is the baseline for the model's.
N_RANDOM = 20


class Slopes(NamedTuple):
    """A model and the machine with its kernel; None where undefined, `reasons` says why."""

    slope: float | None  # of the model's outputs against the reference, on held-out combinations
    slope_error: float | None  # its standard error, with combinations as clusters
    slope_kernel: float | None  # the same for the machine with the kernel
    slope_salience: float | None  # the same for the machine with the kernel's saliences only
    r2: float | None  # of the reference by the model's outputs, on held-out combinations
    r2_train: float | None  # on training combinations; without targets: how additive outputs are
    r2_outputs: float | None  # mean over single outputs of the smaller of both, cut at 0
    additivity: float | None  # R2 of held-out outputs by conjunctions of the training set
    additivity_random: float | None  # the same for random outputs: few combinations make it large
    salience: np.ndarray | None  # [C] S(1..C; C)
    salience_by_subset: np.ndarray | None  # [2^C - 1], as `salience.subset_salience`
    structured: float | None  # share of the kernel's variance explained by shared factors
    combinations: np.ndarray  # [g, C] the rows of all arrays below
    is_train: np.ndarray  # [g]
    is_judged: np.ndarray  # [g] held out, and the reference is known
    reference: np.ndarray  # [g, D] targets, or the additive continuation of training outputs
    outputs: np.ndarray  # [g, D] of the model
    predicted: np.ndarray | None  # [g, D] of the machine with the kernel
    reasons: dict  # field -> why it is None
    has_targets: bool  # whether the reference is the targets
    rounding: float  # relative, of the kernel's entries


@checked
def slopes(
    gram: optional(symmetric("n n")),
    factors: whole("n C"),
    outputs: finite("n D"),
    is_train: mask("n"),
    targets: finite("n D") = None,
    rounding: number("[0, 1]") = 0.0,
) -> Slopes:
    """Slopes, additivity and salience of a model with a kernel, such as its tangent kernel.

    gram: between samples; None: only the model is scored. outputs: the model's. is_train: equal
    for all samples of a combination. Without targets the machine is fitted to the model's outputs
    on training combinations, and the reference is their additive continuation a_1(z_1) + ... +
    a_C(z_C), for the combinations where they determine it. rounding: relative, of the computation
    of gram, if it is larger than that of its dtype; machines are penalised by it.
    """
    combinations, outputs = combined(factors, outputs)
    _, trained = combined(factors, is_train)
    is_train = trained > 0.5
    if np.any(trained % 1):
        raise ValueError("is_train is True for some samples of a combination, not for all of them")
    if is_train.all():
        raise ValueError("is_train is True everywhere: no combination is held out")
    fitted = outputs if targets is None else combined(factors, targets)[1]
    reasons = {}
    if gram is not None:
        rounding = max(rounding, float(jnp.finfo(np.asarray(gram).dtype).eps))
    machine = _machines(gram, factors, fitted, is_train, rounding, reasons)
    reference, is_judged = _reference(combinations, fitted, is_train, targets is not None)
    accounts = {
        "slope": outputs,
        "slope_kernel": machine["predicted"],
        "slope_salience": machine.pop("predicted_by_salience"),
    }
    scores = _scores(reference, accounts, is_train, is_judged, reasons)
    share, at_random = _additivity(combinations, outputs, is_train, reasons)
    return Slopes(
        **scores,
        **machine,
        additivity=share,
        additivity_random=at_random,
        combinations=combinations,
        is_train=is_train,
        is_judged=is_judged,
        reference=reference,
        outputs=outputs,
        reasons=reasons,
        has_targets=targets is not None,
        rounding=rounding,
    )


@checked
def slope(y: finite("n *shape"), f: finite("n *shape")) -> float:
    """Of the least-squares line through (y, f); outputs around their means."""
    y, f = (np.asarray(a, np.float64) for a in (y, f))
    if not _varies(y):
        raise ValueError("y is constant: it has no slope")
    centred = y - y.mean(axis=0)
    return float(np.sum(centred * f) / np.sum(centred**2))


def _varies(y):
    """Whether values y [n, ...] differ by more than rounding."""
    return len(y) > 1 and bool(np.sum(np.var(y, axis=0)) > 1e-12 * np.sum(np.mean(y**2, axis=0)))


# --- the reference --------------------------------------------------------------------------------


def _reference(combinations, fitted, is_train, has_targets):
    """The expected outputs [g, D], and the held-out combinations [g] for which they are known."""
    if has_targets:
        return fitted, ~is_train
    fit = additive_fit(combinations, fitted, is_train)
    return fit.mean + fit.terms.sum(axis=0), fit.determined & ~is_train


def _scores(reference, accounts, is_train, is_judged, reasons):
    """Slopes and R2 if the reference is known and varies."""
    y = reference[is_judged]
    if not _varies(y):
        names = (*accounts, "slope_error", "r2", "r2_train", "r2_outputs")
        reasons |= dict.fromkeys(names, _no_reference(is_judged, is_train))
        return dict.fromkeys(names)
    scores = {
        name: None if values is None else slope(y, values[is_judged])
        for name, values in accounts.items()
    }
    outputs = accounts["slope"]
    scores["slope_error"] = _slope_error(y, outputs[is_judged], scores["slope"])
    scores["r2"] = _r2(y, outputs[is_judged])
    scores["r2_train"] = _r2(reference[is_train], outputs[is_train])
    # Sums over outputs hide outputs of a small scale; those that hardly vary may be rounding.
    variance = np.maximum(np.var(reference, axis=0), np.var(outputs, axis=0))
    singles = [
        max(min(_r2(reference[rows, d], outputs[rows, d]) for rows in (is_judged, is_train)), 0)
        for d in np.flatnonzero(variance > 1e-12 * variance.max())
    ]
    scores["r2_outputs"] = float(np.mean(singles))
    return scores


def _slope_error(y, f, slope):
    """Standard error of the slope, with combinations as clusters of outputs."""
    y, f = y - y.mean(axis=0), f - f.mean(axis=0)
    scores = np.sum(y * (f - slope * y), axis=1)
    return float(np.sqrt(np.sum(scores**2) * len(y) / max(len(y) - 2, 1)) / np.sum(y**2))


def _r2(y, f):
    """1 - rss / tss; for constant y 1 if f is equal up to rounding, else 0."""
    residual = np.sum((y - f) ** 2)
    if _varies(y):
        return float(1 - residual / np.sum((y - y.mean(axis=0)) ** 2))
    return float(residual <= 1e-12 * np.sum(y**2))


def _no_reference(is_judged, is_train):
    n_held_out = np.sum(~is_train)
    if np.sum(is_judged) > 1:
        return (
            f"the reference is constant over the {np.sum(is_judged)} held-out combinations: hold "
            "out combinations that differ"
        )
    return (
        "training combinations determine an additive continuation for "
        f"{np.sum(is_judged)} of {n_held_out} held-out ones, two are needed: pass targets or labels"
    )


# --- the kernel -----------------------------------------------------------------------------------


def _machines(gram, factors, fitted, is_train, rounding, reasons):
    """Fields about the kernel, and outputs [g, D] of the machines with it and its saliences."""
    fields = dict.fromkeys(("salience", "salience_by_subset", "structured"))
    machine = fields | dict.fromkeys(("predicted", "predicted_by_salience"))
    if gram is None:
        names = (*fields, "slope_kernel", "slope_salience")
        reasons |= dict.fromkeys(names, "no output depends on params: the tangent kernel is zero")
        return machine
    # The machine is fitted to means over samples: their kernel includes self-products.
    kernel = additivity.similarity_of_gram(np.asarray(factors), gram, with_self=True)
    machine["predicted"] = _ridgeless(kernel.values, fitted, is_train, rounding)
    table = additivity.structure(kernel)
    shared = kernel.x[:, None] == kernel.x[None]
    by_subset = table.kappa_by_subset[shared @ 2 ** np.arange(shared.shape[-1])]
    is_flat = np.var(kernel.values) <= 1e-12 * np.mean(kernel.values**2)
    if not is_flat:
        left = np.mean((kernel.values - by_subset) ** 2)
        machine["structured"] = float(1 - left / np.var(kernel.values))
    reason = _no_salience(table, is_flat)
    if reason:
        names = ("salience", "salience_by_subset", "slope_salience")
        reasons |= dict.fromkeys(names, reason)
        return machine
    machine["salience"] = np.asarray(salience.salience(table.kappa))
    machine["salience_by_subset"] = np.asarray(salience.subset_salience(table.kappa_by_subset))
    if len(kernel.x) < np.prod([len(np.unique(column)) for column in kernel.x.T]):
        # Averaged over all permutations of levels, a kernel stays positive semi-definite; averaged
        # over a part of the grid it need not.
        reasons["slope_salience"] = "combinations are missing from the grid: salience needs all"
        return machine
    machine["predicted_by_salience"] = _ridgeless(by_subset, fitted, is_train, rounding)
    return machine


def _ridgeless(kernel, y, is_train, rounding):
    """Minimum-norm predictions [g, D] from the training combinations."""
    # Rounding gives a kernel in float32 small eigenvalues, which must not be inverted.
    penalty = rounding * np.trace(kernel[np.ix_(is_train, is_train)]) if rounding > 1e-10 else 0.0
    # The machine is linear in its targets: one program for any number of outputs.
    unit = np.eye(len(y)) * is_train[:, None]
    weights = machines.ridge(kernel, unit, kernel, penalty, mask=is_train, outputs=True)
    return np.asarray(weights, np.float64) @ y


def _no_salience(table, is_flat):
    """Why saliences are undefined, or an empty text."""
    if not np.all(np.isfinite(table.kappa_by_subset)):
        members = salience.subsets(len(table.kappa) - 1)[~np.isfinite(table.kappa_by_subset)][0]
        return f"no two combinations share exactly the factors {np.flatnonzero(members).tolist()}"
    if is_flat or table.kappa[-1] <= table.kappa[0]:
        return "the kernel between a combination and itself is not larger than between others"
    return ""


# --- additivity -----------------------------------------------------------------------------------


def _additivity(combinations, outputs, is_train, reasons):
    """R2 on held-out combinations by training conjunctions: of outputs, and of random outputs."""
    held_out = outputs[~is_train]
    random = np.random.default_rng(0).normal(size=(N_RANDOM, len(combinations)))
    stacked = np.concatenate([random, outputs.T])
    r2 = additivity.additivity(combinations, stacked, is_train).r2_test
    at_random = float(r2[:N_RANDOM].mean())
    if at_random > 0.999:
        reasons["additivity"] = f"any outputs on {len(held_out)} held-out combinations are additive"
        return None, None
    if not _varies(held_out):
        reasons["additivity"] = "outputs are constant over the held-out combinations"
        return None, None
    return float(np.average(r2[N_RANDOM:], weights=np.var(held_out, axis=0))), at_random
