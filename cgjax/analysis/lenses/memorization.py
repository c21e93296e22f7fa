"""How much of what a model learned reaches unseen combinations, and what does its kernel foretell?

A kernel machine keeps a share m of an additive target on unseen combinations, the slope of its
predictions against it; the rest stays in conjunctions that were only trained (memorization leak,
Lippl and Stachenfeld 2025). m follows from the kernel, and where that depends only on the factors
two inputs share, from its saliences. `slopes` holds a model's own slope against both. A model that
was trained lazily comes near them; one that learned features need not.

NumPy, float64; run once per model.
"""

from typing import NamedTuple

import numpy as np

from cgjax.analysis import additivity, checks, machines, salience
from cgjax.analysis.effects import additive_fit, combined

# Outputs at random, whose additivity says what an R2 is worth.
N_RANDOM = 20


class Slopes(NamedTuple):
    """A model beside the machine that its kernel makes; None where undefined, see reasons."""

    slope: float | None  # of the model's outputs against the reference, on unseen combinations
    slope_kernel: float | None  # of the machine with the kernel itself
    slope_salience: float | None  # of the machine that knows the kernel's saliences only
    r2: float | None  # of the reference by the model's outputs, there
    r2_train: float | None  # the same on trained combinations: without targets, how additive it is
    additivity: float | None  # R2 of outputs on unseen combinations by trained conjunctions
    additivity_random: float | None  # the same of outputs at random: what few combinations allow
    salience: np.ndarray | None  # [C] S(1..C; C)
    salience_by_subset: np.ndarray | None  # [2^C - 1], as `salience.subset_salience`
    structured: float  # share of the kernel's variance that the factors two inputs share explain
    combinations: np.ndarray  # [g, C] on which all of this is
    is_train: np.ndarray  # [g]
    is_judged: np.ndarray  # [g] unseen, and with a reference
    reference: np.ndarray  # [g, D] targets, or the additive continuation of the trained outputs
    outputs: np.ndarray  # [g, D] the model's
    predicted: np.ndarray  # [g, D] the machine's, with the kernel itself
    reasons: dict  # field -> why it is None


def slopes(
    gram: np.ndarray,
    factors: np.ndarray,
    outputs: np.ndarray,
    is_train: np.ndarray,
    targets: np.ndarray | None = None,
) -> Slopes:
    """Slopes, additivity and salience of a model with a kernel, such as its tangent kernel.

    gram: [n, n] between samples. factors: integers [n, C]. outputs: [n, D], the model's. is_train:
    bool [n], one value for all samples of a combination. targets: [n, D]; without them the machine
    is fitted to the model's outputs on trained combinations, and the reference is their additive
    continuation, a_1(z_1) + ... + a_C(z_C), where they determine it.
    """
    checks.symmetric("gram", gram)
    checks.mask("is_train", is_train, (len(gram),))
    combinations, outputs = combined(factors, outputs)
    _, trained = combined(factors, is_train)
    is_train = trained > 0.5
    if np.any(trained % 1):
        raise ValueError("is_train is True for some samples of a combination, not for all of them")
    if is_train.all():
        raise ValueError("is_train is True everywhere: no combination is unseen")
    if outputs.ndim != 2:
        raise ValueError(f"outputs are [n, D], got {outputs.ndim} axes")
    fitted = outputs if targets is None else combined(factors, targets)[1]
    if fitted.shape != outputs.shape:
        raise ValueError(f"targets are [n, {outputs.shape[1]}] as outputs, got {np.shape(targets)}")
    kernel = additivity.similarity_of_gram(np.asarray(factors), gram, n_samples=None)
    eps = float(np.finfo(np.asarray(gram).dtype).eps)
    reasons = {}
    structure, foretold = _structure(kernel, fitted, is_train, eps, reasons)
    predicted = _machine(kernel.values, fitted, is_train, eps)
    reference, is_judged = _reference(combinations, fitted, is_train, targets is not None)
    scores = _scores(reference, outputs, predicted, foretold, is_train, is_judged, reasons)
    share, at_random = _additivity(combinations, outputs, is_train, reasons)
    return Slopes(
        **scores, **structure, additivity=share, additivity_random=at_random,
        combinations=combinations, is_train=is_train, is_judged=is_judged, reference=reference,
        outputs=outputs, predicted=predicted, reasons=reasons,
    )  # fmt: skip


def slope(y: np.ndarray, f: np.ndarray) -> float:
    """Of the least-squares line through (y, f), both [n] or [n, D]; outputs around their means."""
    checks.finite(y=y, f=f)
    y, f = (np.asarray(a, np.float64) for a in (y, f))
    if y.shape != f.shape or y.ndim not in (1, 2) or not _varies(y):
        raise ValueError(f"y and f are [n] or [n, D], and y varies: got {y.shape} and {f.shape}")
    centred = y - y.mean(axis=0)
    return float(np.sum(centred * f) / np.sum(centred**2))


def _r2(y, f):
    """1 - rss / tss; 0 where y does not vary, of which nothing can be explained."""
    total = np.sum((y - y.mean(axis=0)) ** 2)
    return float(1 - np.sum((y - f) ** 2) / total) if _varies(y) else 0.0


def _varies(y):
    return len(y) > 1 and np.sum(np.var(y, axis=0)) > 1e-12 * np.sum(np.mean(y**2, axis=0))


def _reference(combinations, fitted, is_train, is_target):
    """What unseen combinations should give [g, D], and for which of them [g] it is known."""
    if is_target:
        return fitted, ~is_train
    fit = additive_fit(combinations, fitted, is_train)
    return fit.mean + fit.terms.sum(axis=0), fit.determined & ~is_train


def _scores(reference, outputs, predicted, foretold, is_train, is_judged, reasons):
    """Slopes and R2 where the reference is known and varies."""
    accounts = {"slope": outputs, "slope_kernel": predicted, "slope_salience": foretold}
    y = reference[is_judged]
    if not _varies(y):
        names = (*accounts, "r2", "r2_train")
        reasons |= dict.fromkeys(names, _no_reference(is_judged, is_train))
        return dict.fromkeys(names)
    scores = {
        name: None if each is None else slope(y, each[is_judged]) for name, each in accounts.items()
    }
    scores["r2"] = _r2(y, outputs[is_judged])
    scores["r2_train"] = _r2(reference[is_train], outputs[is_train])
    return scores


def _no_reference(is_judged, is_train):
    n = np.sum(~is_train)
    if np.sum(is_judged) > 1:
        return f"the reference does not vary over the {np.sum(is_judged)} unseen combinations"
    return (
        f"trained combinations determine an additive continuation for {np.sum(is_judged)} of {n} "
        "unseen ones: two are needed, or targets"
    )


def _machine(kernel, y, is_train, eps):
    """Minimum-norm predictions [g, D] from the trained combinations."""
    # A kernel in float32 has eigenvalues of rounding, which no machine may invert.
    penalty = eps * np.trace(kernel[np.ix_(is_train, is_train)]) if eps > 1e-10 else 0.0
    # The machine is linear in its targets: one program, however many outputs there are.
    unit = np.eye(len(y)) * is_train[:, None]
    found = machines.ridge(kernel, unit, kernel, penalty, mask=is_train, outputs=True)
    return np.asarray(found, np.float64) @ y


def _structure(kernel, y, is_train, eps, reasons):
    """What depends only on which factors two combinations share, and such a machine's outputs."""
    table = additivity.structure(kernel)
    shared = kernel.x[:, None] == kernel.x[None]
    fitted = table.kappa_by_subset[shared @ 2 ** np.arange(shared.shape[-1])]
    varies = np.var(kernel.values) > 1e-12 * np.mean(kernel.values**2)
    structured = np.nan
    if varies:
        structured = 1 - np.mean((kernel.values - fitted) ** 2) / np.var(kernel.values)
    found = {"salience": None, "salience_by_subset": None, "structured": structured}
    reason = _no_salience(table, varies)
    if reason:
        reasons |= dict.fromkeys(("salience", "salience_by_subset", "slope_salience"), reason)
        return found, None
    found["salience"] = np.asarray(salience.salience(table.kappa))
    found["salience_by_subset"] = np.asarray(salience.subset_salience(table.kappa_by_subset))
    if len(kernel.x) < np.prod([len(np.unique(column)) for column in kernel.x.T]):
        # The mean over all permutations of levels is a kernel; over a part of the grid it need not.
        reasons["slope_salience"] = "combinations are missing from the grid: salience needs all"
        return found, None
    return found, _machine(fitted, y, is_train, eps)


def _no_salience(table, varies):
    """Why there is none, or nothing."""
    if not np.all(np.isfinite(table.kappa_by_subset)):
        members = salience.subsets(len(table.kappa) - 1)[~np.isfinite(table.kappa_by_subset)][0]
        return f"no two combinations share exactly the factors {np.flatnonzero(members).tolist()}"
    if not varies or table.kappa[-1] <= table.kappa[0]:
        return "to the kernel, a combination is as like itself as any other"
    return ""


def _additivity(combinations, outputs, is_train, reasons):
    """R2 on unseen combinations by trained conjunctions, of the outputs and of random ones."""
    unseen = outputs[~is_train]
    random = np.random.default_rng(0).normal(size=(N_RANDOM, len(combinations)))
    every = np.concatenate([random, outputs.T])
    r2 = additivity.additivity(combinations, every, is_train).r2_test
    at_random = float(r2[:N_RANDOM].mean())
    if at_random > 0.999:
        reasons["additivity"] = f"any outputs on {len(unseen)} unseen combinations are such sums"
        return None, None
    if not _varies(unseen):
        reasons["additivity"] = "outputs do not vary over the unseen combinations"
        return None, None
    return float(np.average(r2[N_RANDOM:], weights=np.var(unseen, axis=0))), at_random
