"""Arguments that cannot be meant raise an error that names them, in every public function.

SOUND holds a valid call of each function. Invalid values of a parameter are derived from its valid
value and its specification in the signature; where it has none, KINDS says what it holds. INVALID
and CALLS add what neither derives. Nothing here compiles for long: inputs are small NumPy arrays.
"""

import importlib
import inspect
import pkgutil
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cgjax.analysis
from cgjax.analysis import (
    additivity,
    arguments,
    checks,
    contrasts,
    dependence,
    geometry,
    machines,
    salience,
    slots,
    stats,
    support,
)
from cgjax.analysis.ntk import layers, plan
from cgjax.analysis.support import latents
from cgjax.core import metrics

NAN = float("nan")


def spoilt(array, value=NAN, at=0):
    """A copy with one entry changed."""
    array = np.array(array)
    array = array if array.dtype.kind == "f" else array.astype(float)
    array.flat[at] = value
    return array


# --- kinds: from a valid value of a parameter to invalid ones -------------------------------------


def array(valid):
    return [spoilt(valid), np.asarray(valid) * 1j]


def samples(valid):
    return [*array(valid), np.asarray(valid)[:0]]


def aligned(valid):
    """Samples that another argument also has, in the same order."""
    return [*array(valid), np.asarray(valid)[:-1]]


def combinations(valid):
    return [*array(valid), valid + 0.5, valid[0], valid[:0]]


def kernel(valid):
    asymmetric = valid + np.triu(np.ones(np.shape(valid)), 1)
    return [*array(valid), asymmetric, -valid, valid[0], valid[:-1]]


def mask(valid):
    return [1 * valid, valid[:-1], valid & False, np.flatnonzero(valid)]


def tree(valid):
    return [jax.tree.map(spoilt, valid)]


def count(valid):
    return [0, -1, 1.5, NAN]


def index(valid):
    return [-1, 99, 0.5]


def number(valid):
    return [NAN, np.inf]


def above_zero(valid):
    return [NAN, 0.0, -1.0]


def from_zero(valid):
    return [NAN, np.inf, -1.0]


def score(valid):
    """Samples; NaN is valid, and makes the score NaN."""
    return aligned(valid)[1:]


def share(valid):
    return [NAN, -0.1, 95]


def sizes(valid):
    return [(*valid[:-1], 0), (*valid[:-1], 2.5), (*valid, 2)]


def flag(valid):
    return [0.1, 2]


def choice(valid):
    return ["nonsense"]


def pattern(valid):
    """Names of leaves."""
    return ["missing", "(", 3, lambda name: False]


def opaque(valid):
    """Functions, keys and results of other functions: only INVALID and CALLS change them."""
    return []


# --- specifications: from a valid value and the specification in a signature to invalid values ---

OF_KIND = {
    "real": lambda valid: [np.asarray(valid) * 1j],
    "finite": array,
    "floating": lambda valid: [*array(valid), np.ones(np.shape(valid), int)],
    "whole": lambda valid: [*array(valid), np.asarray(valid) + 0.5],
    "integers": lambda valid: [*array(valid), np.asarray(valid) + 0.5],
    "labels": lambda valid: [],
    "mask": lambda valid: [1 * np.asarray(valid), np.flatnonzero(valid)],
    "symmetric": lambda valid: kernel(valid)[:3],
    "psd": lambda valid: kernel(valid)[:4],
    "indices": lambda valid: [[99], [0, 0], [0.5], [-1]],
    "counts": lambda valid: [(*valid[:-1], 0), (*valid[:-1], 2.5), 2],
    "integer": lambda valid: [1.5, NAN, "1"],
    "one": lambda valid: ["nonsense", 3],
    "True": flag,
    "tree": tree,
    "function": lambda valid: [3],
    "record": lambda valid: [3, *(valid._replace(**{name: None}) for name in valid._fields)],
}


def derived(argument, valid, shared):
    """Invalid values of an argument with a specification: of its kind, range and axes.

    shared: names of the axes that another argument has, too.
    """
    kind, *words = argument.kind.removeprefix("optional ").split()
    if kind == "in":
        low, high = (float(end) for end in argument.kind[4:-1].split(","))
        low, high = low - (words[0][0] == "["), high + (words[-1][-1] == "]" and high < np.inf)
        ends = [low, high] if argument.kind[-1] == ")" or high < np.inf else [low]
        yield from (np.full(np.shape(valid), end) for end in (NAN, 1j, *ends))
    else:
        yield from OF_KIND[kind](valid)
    if kind == "integer":
        yield from (int(words[1]) - 1, *[99] * ("below" in words))
    tokens = [] if kind == "counts" else argument.axes.split()
    if tokens and not any(token[0] in "*." for token in tokens):
        yield from (np.asarray(valid)[None], np.asarray(valid)[0])
    if tokens and tokens[0][0] not in "*.":
        yield np.asarray(valid)[:0]
    if tokens and tokens[0].endswith(">=2"):
        yield np.asarray(valid)[:1]
    if tokens and tokens[0].split(">=")[0] in shared:
        yield np.asarray(valid)[:-1]
    if tokens and tokens[-1] in shared:
        yield np.asarray(valid)[..., :-1]


# --- valid values ---------------------------------------------------------------------------------

K, Y = np.eye(4) + 1, np.array([1.0, -1, 1, -1])
COLUMN, THREE = Y[:, None], np.stack([Y] * 3, axis=1)
SOME = np.array([True, True, True, False])
INDEFINITE = np.diag([1, 1, -0.5, 1])
BATCH = np.stack([K, INDEFINITE])  # the second of two is invalid
FIT = machines.Interpolation(Y, 0.0, 0.0)

# combinations of two components with two values each
X = np.indices((2, 2)).reshape(2, -1).T
TWICE = X[[0, 1, 2, 0]]
SPLITS = np.where(SOME, "train", "test")
LABELS = np.array([["0", "all"], ["1", "all"], ["all", "0"], ["all", "1"], ["all", "all"]])
CONTEXT = np.array([["0", "1", "all"], ["1", "all", "0"], ["all", "all", "all"]])
VALUES = np.arange(-2.0, 3.0)
ANCHOR = np.arange(5) == 0
FLAT = additivity.Similarity(X, SPLITS, np.ones((4, 4)))
KAPPA, SUBSETS = np.array([0, 0.3, 1]), np.array([0, 0.1, 0.2, 1])

# support
SLOTS = np.linspace(0, 1, 2 * 4 * 3).reshape(2, 4, 3)  # two values, four positions, three channels
TUPLES = np.stack([SLOTS, SLOTS[::-1]], axis=1)[:, None]  # [2 values, 1 point, 2 slots, 4, 3]
WHERE = np.ones((2, 4), bool)
LATENTS = np.linspace(0, 1, 20).reshape(10, 2)
_PASSED = support.Audit(
    np.ones(1, bool),
    np.ones(1),
    np.zeros(0, int),
    1.0,
    "",
    np.zeros(1),
    None,
    np.zeros(1),
    "",
)
PASSED = support.SupportAudit((_PASSED,), None, True, "", "")


def add(slots):
    return slots[0] + slots[1]


def root(slots):
    """Its derivative at 0 is infinite."""
    return jnp.sqrt(slots[0]) + slots[1]


def mixing(slots):
    return slots[0] + jnp.roll(slots[1], 1, axis=1)


# networks
W = np.ones((3, 2), np.float32)
INPUTS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
TARGETS = np.ones((4, 2))
FACTS = plan.Facts(2, 6, 12, 2, ((3, 2),), (), (), 8)
LAYER = layers.Layer(0, 1, 0, None, (), (), (1,), 1, 3, 2)
JAC, HESS = np.ones((2, 4, 6)), np.ones((2, 4, 6, 6))


def linear(params, x):
    return x @ params


def all_nan(params, x):
    return NAN * linear(params, x)


def times_w(params, x):
    return x @ params["w"]


def among_others(params, x):
    """Its outputs for a sample depend on the other samples."""
    return (x - jnp.mean(x, axis=0, keepdims=True)) @ params


def on_a_pole(params, x):
    return linear(params, x) / (x[:, :1] - x[:1, :1])


TRACE = layers.trace(linear, W, INPUTS[0])

# pairs of factors
GRID = np.random.default_rng(0).normal(size=(3, 4, 5))  # three values of y, four of x, five units
HELD_OUT = np.arange(12).reshape(3, 4) > 7
PRODUCT = np.kron(np.eye(4) + 1, np.eye(3) + 1)
CODES = np.linspace(0, 1, 24).reshape(4, 6)

# dependence
KEY = jax.random.key(0)
THIRDS = np.arange(3)  # each of the three inputs is a component
DENSE = [(np.ones((2, 3)), np.ones(3)), (np.ones((3, 2)), np.ones(2))]
BITS = np.array([0, 1])

# masks
NET = {"a": {"kernel": W, "bias": np.ones(2, np.float32)}, "b": {"kernel": W}}
SCORES = {"a": {"kernel": W / 2, "bias": None}, "b": {"kernel": W / 2}}
ONES = {"a": {"kernel": np.eye(3, 2), "bias": None}, "b": {"kernel": np.eye(3, 2) * 0}}
FULL = {"w": np.array([1.0, 1, 0])}
ON = {"a/kernel": 1, "b/kernel": 1}
ROWS = np.ones((4, 3), np.float32)

# clustered regressions
OUTCOMES, DESIGN = np.array([0.1, 0.3, -0.2, 0.4]), np.stack([np.ones(4), [0, 1, 0, 1]], axis=1)
PAIRS = [0, 0, 1, 1]

# --- the tables -----------------------------------------------------------------------------------

_MACHINE = {"k_train": K, "y": Y, "bias": False, "mask": SOME}
_TEST = _MACHINE | {"k_test": K[:3]}
_AUDIT = {"composition": add, "slots": SLOTS, "component": 0, "pixelwise": True, "where": WHERE}
_AUDIT |= {"rtol": 1e-5, "atol": 1e-3}
_LATENTS = {"composition": add, "components": (np.sin, np.cos)}
_LATENTS |= {"latents_P": LATENTS, "latents_Q": LATENTS, "sizes": (1, 1)}
_NET = {"f": linear, "params": W}
_NTK = _NET | {"x1": INPUTS, "x2": INPUTS}
_FIT = _NET | {"x_train": INPUTS, "y_train": TARGETS, "x_test": INPUTS}
_PARTS = _NET | {"x": INPUTS, "inputs": THIRDS}
_SEARCH = {"f": times_w, "params": {"w": W}, "loss": lambda outputs, y: jnp.mean(outputs)}
PROBE = geometry.kernel(TARGETS, TARGETS)
_GLM = {"y": OUTCOMES, "design": DESIGN, "clusters": PAIRS}

# fmt: off
SLOTTED = np.random.default_rng(1).normal(size=(5, 2, 2))
MAPS = slots.fit(SLOTTED, SLOTTED)
SOUND = {
    "lenses.look": _NET | dict(x=INPUTS, factors=X, is_train=SOME, verbose=False),
    "lenses.memorization.slopes": dict(
        gram=K, factors=X, outputs=COLUMN, is_train=SOME, rounding=0.0),
    "lenses.memorization.slope": dict(y=Y, f=Y),
    "data_needed.data_needed": dict(
        sizes=np.array([2.0, 4.0, 8.0]), accuracy=np.array([0.1, 0.5, 0.9]), threshold=0.6),
    "data_needed.exponent": dict(
        n=np.array([2.0, 4.0, 8.0]), needed=np.ones((3, 2)), level=0.95, draws=4, seed=0),
    "slots.fit": dict(slots=SLOTTED, latents=SLOTTED),
    "slots.assign": dict(maps=MAPS, slots=SLOTTED, latents=SLOTTED),
    "slots.r2": dict(maps=MAPS, slots=SLOTTED, latents=SLOTTED),
    "factorization.grids": dict(factors=X),
    "factorization.on_grids": dict(activations=INPUTS, factors=X),
    "effects.combined": dict(factors=X, values=Y),
    "effects.additive_fit": dict(factors=X, outputs=COLUMN, is_fitted=SOME),
    "effects.total_effects": dict(factors=X, outputs=COLUMN),
    "effects.interactions": dict(factors=X, outputs=COLUMN),
    "masks.factors.main_effects": dict(factors=X, outputs=COLUMN),
    "masks.factors.subnetworks": dict(
        f=times_w, params={"w": W}, x=INPUTS, factors=X, where="w", n_steps=2),
    "machines.ridgeless": _TEST,
    "machines.ridge": _TEST | dict(penalty=0.1),
    "machines.solve_ridge": _MACHINE | dict(penalty=0.1, outputs=False),
    "machines.svc": _TEST | dict(c=1.0),
    "machines.svr": _TEST | dict(c=1.0, epsilon=0.1),
    "machines.solve_svc": _MACHINE | dict(c=1.0),
    "machines.solve_svr": _MACHINE | dict(c=1.0, epsilon=0.1),
    "machines.predict": dict(machine=FIT, k_test=K, outputs=False),
    "machines.central_path": dict(
        k=np.eye(2)[None], signs=np.ones((1, 1, 2)), costs=-np.ones((1, 1, 2)), box=np.ones(1),
        mask=np.ones((1, 2), bool), border=np.zeros((1, 2))),
    "salience.salience": dict(kappa=KAPPA),
    "salience.kappa": dict(salience=np.array([0.3, 0.4])),
    "salience.complete": dict(salience=np.array([0.3])),
    "salience.subsets": dict(n_components=2),
    "salience.by_subset": dict(kappa=KAPPA),
    "salience.moebius": dict(kappa=SUBSETS),
    "salience.moebius_inverse": dict(weights=SUBSETS),
    "salience.subset_salience": dict(kappa=SUBSETS),
    "salience.overlap_kernel": dict(x1=X, x2=X, kappa=KAPPA),
    "salience.subset_kernel": dict(x1=X, x2=X, kappa=SUBSETS),
    "salience.features": dict(x=X, sizes=(2, 2), weights=np.ones(4)),
    "salience.spectrum": dict(kappa=KAPPA, sizes=(2, 3)),
    "salience.is_psd": dict(kappa=KAPPA, sizes=(2, 3), tolerance=1e-8),
    "salience.layers": dict(kappa=KAPPA, layer_map=salience.relu, depth=2),
    **{f"salience.{name}": dict(x=np.array([0.3, 0.4])) for name in salience.LAYER_MAPS},
    "salience.leaky_relu": dict(x=np.array([0.3, 0.4]), slope=0.1),
    "salience.gaussian": dict(x=np.array([0.3, 0.4]), width=1.0),
    "closed_forms.memorization_slope": dict(salience=0.3, n_anchors=4),
    "closed_forms.addition": dict(
        salience=0.3, values=VALUES, is_anchor=ANCHOR, bias="none", k0=0.0),
    "closed_forms.item_values": dict(machine=np.ones(5), values=VALUES, is_anchor=ANCHOR),
    "closed_forms.invariance_margin": dict(k=0.3),
    "closed_forms.partial_exposure_margin": dict(k=0.3),
    "closed_forms.shortcut_bias": dict(s1=0.1, s2=0.1, n_values=3),
    "closed_forms.shortcut_boundary": dict(s1=0.1, machine="svm", n_values=3),
    "additivity.additivity": dict(x=X, yhat=Y, is_train=SOME),
    "additivity.additivity_by_split": dict(x=X, yhat=Y, splits=SPLITS, x_train=X),
    "additivity.conjunctions": dict(x_train=X),
    "additivity.item_values": dict(labels=LABELS, coefficients=np.ones(5), component=0),
    "additivity.conjunction_types": dict(labels=CONTEXT, relevant=(1, 2)),
    "additivity.type_magnitudes": dict(labels=CONTEXT, coefficients=np.ones(3), relevant=(1, 2)),
    "additivity.similarity": dict(x=X, features=TARGETS, n_samples=1),
    "additivity.similarity_of_gram": dict(x=X, gram=K, splits=SPLITS, n_samples=1),
    "additivity.structure": dict(similar=FLAT),
    "training_sets.scores": dict(kernel=K, targets=Y, is_train=SOME),
    "training_sets.greedy": dict(kernel=K, targets=Y, n=1, start=(0,), goal="error"),
    "training_sets.exchange": dict(kernel=K, targets=Y, rows=(0,), goal="error", most=1),
    "training_sets.any_sum": dict(x=X),
    "training_sets.regular_slope": dict(salience=0.3, n_partners=1, likeness=0.0),
    "training_sets.best_anchors": dict(
        salience=0.3, values=VALUES, n_anchors=1, bias="none", k0=0.0),
    "training_sets.reweighted": dict(kappa=KAPPA, factors=np.array([1, 0.5])),
    "support.jacobian_rank": dict(jacobians=np.eye(3), rtol=1e-5, atol=0.0),
    "support.audit": _AUDIT | dict(partners=TUPLES, condition="sum"),
    "support.coverage": dict(p=LATENTS, q=LATENTS, sizes=(1, 1)),
    "support.latents.space": dict(p=LATENTS, q=LATENTS),
    "support.latents.spread_out": dict(given=latents.space(LATENTS, LATENTS), rows=LATENTS, most=1),
    "support.identification.identify": _LATENTS | dict(
        length=0.1, noise=1e-3, training_error=0.03, n_points=4),
    "factor_tables.held": dict(p=X, q=X, sizes=(2, 2)),
    "factor_tables.grid": dict(sizes=(2, 2)),
    "support.certificate.jumps": dict(f=np.sin, starts=LATENTS, stops=LATENTS),
    "support.audit_latents": _LATENTS | dict(n_values=4, n_partners=4),
    "support.audit_support": dict(
        composition=add, slots=[SLOTS, SLOTS[::-1]], partners=[TUPLES, TUPLES]),
    "support.jacobians.blocks": dict(
        composition=add, points=(SLOTS, SLOTS), component=0, pixelwise=True),
    "support.jacobians.check_pixelwise": dict(composition=add, points=(SLOTS, SLOTS), component=0),
    "support.jacobians.triangular": dict(matrices=np.eye(3)),
    "support.jacobians.singular_values": dict(matrices=np.eye(3)),
    "support.jacobians.spectrum": dict(matrices=np.eye(3)),
    "support.certificate.certificate": dict(
        support=PASSED, truth=jnp.sin, model=jnp.sin, latents=LATENTS, fit_limit=0.1,
        jacobian_limit=0.1),
    "support.certificate.jacobian_errors": dict(
        truth=jnp.sin, model=jnp.sin, latents=LATENTS, dims=(0, 1)),
    "support.design.design": _AUDIT | dict(candidates=TUPLES[0], most=8),
    "contrasts.jacobians": dict(f=jnp.sin, x=INPUTS),
    "contrasts.hessians": dict(f=jnp.sin, x=INPUTS),
    "contrasts.compositional_contrast": dict(jacobians=JAC),
    "contrasts.block_contrast": dict(jacobians=JAC, n_parts=2),
    "contrasts.hessian_l0": dict(hessians=HESS),
    "contrasts.hessian_l1": dict(hessians=HESS),
    "contrasts.hessian_offblock": dict(hessians=HESS, n_parts=2),
    "ntk.empirical": _NTK | dict(
        form="full", algorithm="auto", tile=2, memory=1e6, precision="highest"),
    "ntk.jacobian": _NET | dict(x=INPUTS),
    "ntk.linearised.kernel_vector_product": _NTK | dict(v=TARGETS, batch=2),
    "ntk.ntk_regression": _FIT | dict(penalty=0.1),
    "ntk.drift": dict(before=K, after=K),
    "ntk.alignment": dict(a=K, b=K),
    "ntk.target_alignment": dict(kernel=K, y=Y),
    "ntk.plan.plan": _NTK | dict(memory=2.0**20, tile=2),
    "ntk.plan.choose": dict(
        sizes=FACTS, n1=4, n2=4, form="full", algorithm="auto", memory=1e6, n_devices=1, tile=2),
    "ntk.plan.available": dict(devices=None),
    "ntk.plan.facts": _NET | dict(x=INPUTS),
    "ntk.functions.single": _NET | dict(x=INPUTS[0]),
    "ntk.layers.trace": _NET | dict(x=INPUTS[0]),
    "ntk.layers.run": dict(traced=TRACE, leaves=[W], x=INPUTS[0], nudges=layers.no_nudges(TRACE)),
    "ntk.layers.cotangent": dict(layer=LAYER, d=np.ones((3, 2))),
    "wide.relu_mlp": dict(
        x1=LATENTS[:2], x2=LATENTS[:2], depth=1, weight_var=2.0, bias_var=0.0),
    "stats.median_and_interval": dict(values=VALUES, level=0.95),
    "stats.mean_and_interval": dict(values=VALUES),
    "landscape.guess_and_check": dict(
        key=KEY, draw=lambda key: W, loss=lambda params, data: 1.0, data=None, bands=((0.4, 0.5),),
        n_draws=10, n_keep=2, batch=5),
    "landscape.metropolis": dict(
        key=KEY, params=W, loss=jnp.sum, bands=((0.1, 0.2),), n_steps=5, scale=0.1),
    "stats.sign_flip_test": dict(values=Y, clusters=PAIRS, seed=0),
    "stats.mean_and_error": dict(values=VALUES),
    "stats.largest_share": dict(failures=0, n=2, level=0.95),
    "stats.share_interval": dict(successes=0, n=2, level=0.95),
    "stats.kendall_tau_b": dict(x=Y, y=Y, strata=list("abab")),
    "stats.bootstrap": dict(columns=[VALUES], n=10, level=0.95),
    "stats.jackknife": dict(statistic=np.mean, values=VALUES),
    "factorization.binary": dict(z1=X, z2=X, k1=1.0, k2=1.0),
    "factorization.factorised": dict(z1=X, z2=X, lx=1.0, ly=1.0),
    "factorization.radial": dict(z1=X, z2=X, length=1.0),
    "factorization.additive": dict(z1=X, z2=X, lx=1.0, ly=1.0),
    "factorization.metric": dict(activations=GRID, where=HELD_OUT),
    "factorization.grid_kernel": dict(activations=GRID, cosine=False),
    "factorization.schmidt_values": dict(kernel=PRODUCT, n_x=4, n_y=3),
    "factorization.operator_schmidt": dict(kernel=PRODUCT, n_x=4, n_y=3),
    "factorization.two_way": dict(activations=GRID),
    "factorization.additive_part": dict(activations=GRID, where=HELD_OUT),
    "factorization.additive_share": dict(activations=GRID, where=HELD_OUT),
    "factorization.selective_share": dict(activations=GRID, level=0.9),
    "factorization.explained": dict(outputs=GRID, account=GRID, where=HELD_OUT),
    "factorization.shared_sum": dict(outputs=GRID, is_train=HELD_OUT),
    "factorization.isolated": dict(codes=CODES, train_codes=CODES, split=3),
    "factorization.superposition": dict(outputs=GRID, truth=GRID, kernel=GRID, where=HELD_OUT),
    "geometry.pullback": dict(f=jnp.sin, z=LATENTS),
    "geometry.grid_tensor": dict(activations=GRID),
    "geometry.volume_element": dict(tensor=np.ones((2, 2))),
    "geometry.rank_map": dict(f=jnp.sin, z=LATENTS, rtol=1e-3),
    "geometry.probe": dict(activations=CODES, targets=TARGETS, is_fitted=SOME),
    "geometry.principal_components": dict(activations=CODES, components=2),
    "geometry.effective_rank": dict(activations=CODES, rtol=1e-3, share=0.99),
    "ntk.linearised.linearised_fit": _FIT | dict(tolerance=1e-3, most_iterations=2, batch=2),
    "metrics.ssim": dict(y=np.ones((8, 8)), yhat=np.ones((8, 8)), data_range=1.0),
    "metrics.mse": dict(y=TARGETS, yhat=TARGETS),
    "metrics.r2_uniform": dict(y=TARGETS, yhat=TARGETS),
    "metrics.r2_variance_weighted": dict(y=TARGETS, yhat=TARGETS),
    "dependence.parts": dict(shape=(4,), n=2, axis=0),
    "dependence.gradient_dependence": _PARTS | dict(centred=True, chunk=32),
    "dependence.shares": dict(dependence=np.ones((1, 2))),
    "dependence.information": dict(a=BITS, b=BITS, sizes=(2, 2)),
    "dependence.conditional_information": dict(y2=BITS, yhat=BITS, y1=BITS, sizes=(2, 2, 2)),
    "dependence.permutation_test": dict(key=KEY, y2=BITS, yhat=BITS, y1=BITS, n_draws=2),
    "dependence.intervene": dict(key=KEY, x=INPUTS, inputs=THIRDS, component=0),
    "dependence.interventional_information": _PARTS | dict(
        key=KEY, y2=np.array([0, 1, 1, 0]), component=1, chunk=2),
    "dependence.swap_rate": _PARTS | dict(key=KEY, component=0, chunk=2),
    "dependence.confusion": dict(yhat=BITS, y=BITS, suggested=[[0], [1]], n_classes=10),
    "dependence.one_step": dict(loss=jnp.sum, measures=lambda p: {}, params=W, length=0.01),
    "landscape.distance": dict(a={"w": W}, b={"w": W}),
    "landscape.barrier": dict(loss=jnp.sum, a=W, b=W, n=5),
    "landscape.matched": dict(a=DENSE, b=DENSE, most_rounds=5),
    "landscape.cancellation": dict(updates=[W, W]),
    "dependence.recombined": dict(x=INPUTS, inputs=np.array([0, 1, 1])),
    "dependence.tangent_split": _NET | dict(
        x=INPUTS, inputs=np.array([0, 1, 1]), residuals=TARGETS),
    "dependence.early_dependence": _PARTS | dict(update=W, rates=[0.1]),
    "masks.restricted": dict(f=times_w, params={"w": W}, several=[{"w": W}], x=ROWS),
    "masks.learn": dict(loss=lambda s, i, beta: jnp.sum(s), s=W, n_steps=1, lr=0.1, per_epoch=1),
    "masks.search": _SEARCH | dict(
        batches=[(ROWS, ROWS)], where="w", epochs=2, s0=0.05, lr=0.01, penalty=1e-8,
        family="continuous_sparsification", beta_max=200.0),
    "masks.save": dict(path="nowhere.npz", masks=ONES),
    "masks.read": dict(path="nowhere.npz", params={"w": W}),
    "masks.selected": dict(params=NET, where="kernel"),
    "masks.init": dict(params=NET, where="kernel", s0=0.1, per="weight"),
    "masks.expand": dict(masks=ONES, params=NET),
    "masks.soft": dict(s=SCORES, beta=1.0),
    "masks.hard": dict(s=SCORES),
    "masks.beta_schedule": dict(epoch=1, n_epochs=90, beta_max=200.0, from_one=False),
    "masks.penalty": dict(s=SCORES, beta=1.0, on=ON),
    "masks.concrete_init": dict(keep=0.5),
    "masks.concrete_sample": dict(log_alpha=W, u=W / 2),
    "masks.concrete_penalty": dict(log_alpha=SCORES, on=ON),
    "masks.concrete_hard": dict(log_alpha=SCORES),
    "masks.magnitude": dict(params=NET, where="kernel", keep=0.5, scope="leaf", signed=False),
    "masks.apply": dict(params=NET, masks=ONES, on=ON),
    "masks.invert": dict(masks=ONES),
    "masks.ablate": dict(params=NET, masks=ONES, how="zero"),
    "masks.replace": dict(params=NET, masks=ONES, others=NET),
    "masks.fresh": dict(key=KEY, params=NET, masks=ONES),
    "masks.size": dict(masks=ONES, on=ON),
    "masks.kept": dict(masks=ONES),
    "masks.random_like": dict(key=KEY, masks=ONES),
    "masks.complement_like": dict(key=KEY, masks=ONES, on=ON),
    "masks.has_complement": dict(masks=ONES),
    "masks.intersect": dict(several=[ONES, ONES]),
    "masks.overlap": dict(several=[ONES, ONES]),
    "stats.clustered_glm": _GLM,
    "stats.clustered_covariance": _GLM,
    "stats.wald": dict(coefficients=np.ones(2), covariance=np.eye(2), contrast=(1, 1)),
    "stats.interaction_design": dict(ablation=BITS, random=BITS),
    "stats.wild_cluster": _GLM | dict(contrast=(1, 1), seed=0),
    "stats.null_p": dict(observed=0.1, null=OUTCOMES, side="both"),
    "stats.deviation_interval": dict(value=0.1, draws=OUTCOMES, n_units=4, level=0.9),
    "stats.cluster_draws": dict(clusters=PAIRS, n=2, seed=0),
    "stats.weighted_tau_b": dict(x=Y, y=Y, weights=np.ones((2, 4))),
    "geometry.kernel": dict(features=TARGETS, new=TARGETS),
    "geometry.ridge": dict(kernel=PROBE, targets=TARGETS),
    "geometry.ridgeless": dict(kernel=PROBE, targets=TARGETS),
    "predictors.partner_share": dict(factors=X[:3], asked=X[3:]),
    "predictors.connected_share": dict(factors=X[:3], asked=X[3:]),
    "predictors.unknown_of_sum": dict(factors=X[:3], asked=X[3:], targets=TARGETS[:3]),
    "predictors.additive_share": dict(factors=X, values=TARGETS),
    **{f"predictors.{name}": dict(factors=X, features=TARGETS) for name in (
        "right_angles", "unit_overlap", "decodability", "linearity", "orthogonality",
        "homomorphism_error")},
    "support.identification.leftover": dict(
        composition=add, components=(np.sin, np.cos), latents_P=LATENTS, latents_Q=LATENTS,
        length=0.1, noises=np.array([1e-3])),
}

# What a parameter without a specification holds; "function:parameter" overrides "parameter".
KINDS = {
    array: "k_test kappa salience v factorization.operator_schmidt:kernel salience.relu:x",
    samples: "x latents_P latents_Q x1 x2",
    aligned: "y outputs design",
    score: "metrics.ssim:y metrics.ssim:yhat metrics.mse:y metrics.mse:yhat metrics.r2_uniform:y "
    "metrics.r2_uniform:yhat metrics.r2_variance_weighted:y metrics.r2_variance_weighted:yhat",
    combinations: "factors",
    kernel: "k_train",
    mask: "mask where",
    tree: "params s log_alpha masks others a b",
    count: "n_steps n_anchors n_values n_partners n_points n most tile n_x n_y",
    index: "component",
    above_zero: "c memory length beta data_range",
    from_zero: "penalty epsilon noise",
    number: "s0",
    share: "level training_error",
    sizes: "sizes",
    flag: "bias",
    choice: "form algorithm precision training_sets.best_anchors:bias",
    pattern: "masks.search:where masks.selected:where masks.init:where masks.magnitude:where "
    "masks.factors.subnetworks:where",
    opaque: "stats.deviation_interval:value geometry.ridge:kernel geometry.ridgeless:kernel f key "
    "maps composition components loss draw data measures statistic machine given layer traced "
    "leaves nudges similar truth model support path devices relevant slots points partners "
    "batches several updates clusters inputs pixelwise columns rows successes on u d epoch "
    "ntk.plan.choose:sizes ntk.functions.single:x ntk.layers.trace:x ntk.layers.run:x "
    "ntk.plan.plan:x2 stats.mean_and_interval:values ntk.plan.plan:x1 ntk.plan.facts:x "
    "ntk.empirical:params ntk.linearised.kernel_vector_product:params ntk.plan.plan:params "
    "ntk.plan.facts:params ntk.functions.single:params ntk.layers.trace:params "
    "dependence.tangent_split:params masks.read:params masks.selected:params "
    "masks.init:params masks.expand:params masks.apply:params masks.ablate:params "
    "masks.replace:params masks.fresh:params",
}
KIND = {name: kind for kind, names in KINDS.items() for name in names.split()}

# "function:parameter" -> what neither specifications nor kinds derive.
INVALID = {
    "lenses.look:factors": [[[0, 1], [0], [1, 0], [1, 1]], X[:, :1], X * [1, 0], X.astype(str)],
    "lenses.look:is_train": [SOME | True],
    "lenses.look:f": [
        W, among_others, on_a_pole, lambda params, x: jnp.sum(x), lambda params, x: x[1:] @ params,
        lambda params, x: jnp.argmax(x @ params, axis=-1)],
    "lenses.look:names": [("shape",)],
    "lenses.look:labels": [
        [0, 1, 2, 0], [0, 1, -1, 0], [0, 1, 1], [0.0, 1.0, 1.0, 0.0], np.zeros((4, 3), int),
        np.eye(2, dtype=int)[[0, 1, 1, 0]]],
    "lenses.look:targets": [Y[:3], spoilt(TARGETS)],
    "lenses.look:taps": [lambda params, x: {"layer": x[:3]}, lambda params, x: {"layer": x / 0}],
    "lenses.look:outputs": [np.zeros(3, int)],
    "lenses.look:inputs": [np.zeros(2, int)],
    "lenses.memorization.slopes:is_train": [SOME | True],
    "lenses.memorization.slope:y": [np.ones(4)],
    "effects.total_effects:labels": [np.zeros(2, int), np.array([-1])],
    "machines.ridgeless:k_train": [
        K + np.inf, [[1.0, 0.0], [0.0]], 1e-9 * INDEFINITE, BATCH],
    "machines.ridgeless:y": [COLUMN, THREE],
    "machines.ridgeless:k_test": [K[:3].T],
    "machines.ridge:k_train": [INDEFINITE],
    "machines.predict:k_test": [K[:3].T],
    "machines.central_path:signs": [np.zeros((1, 1, 2)), np.ones((1, 2))],
    "salience.salience:kappa": [
        1.0, [0.5, 0.2, 0.5], [[0, 0.3, 1], [1, 1, 1]], GRID[0], np.eye(4) + 0.5,
        np.linspace(0, 1, 58)],  # 57 components
    "salience.kappa:salience": [[0.3, 0.3], np.full(1200, 0.3)],
    "salience.complete:salience": [np.full(56, 0.3)],
    "salience.moebius:kappa": [KAPPA],
    "salience.moebius_inverse:weights": [KAPPA],
    "salience.subset_salience:kappa": [KAPPA, [1, 0.1, 0.1, 1]],
    "salience.overlap_kernel:kappa": [SUBSETS],
    "salience.features:x": [X + 1, X - 1],
    "salience.features:weights": [np.ones(3), np.ones(8), spoilt(np.ones(4), -1)],
    "salience.layers:kappa": [[0, 0.3, 0], [0, 1.3, 1], [0, -0.3, -1]],
    "closed_forms.memorization_slope:salience": [0.7, [0.3, -2]],
    "closed_forms.addition:salience": [0.6, [0.2, 0.1, 0.1]],  # S(1..3; 3)
    "additivity.conjunction_types:relevant": [(0, 1), (1, 3), (1,)],
    "additivity.type_magnitudes:relevant": [(1, -1)],
    "additivity.similarity_of_gram:gram": [INDEFINITE, BATCH],
    "additivity.structure:similar": [
        FLAT._replace(values=spoilt(K, at=1)), FLAT._replace(x=X[:3]),
        FLAT._replace(values=np.stack([K, spoilt(K, at=1)]))],
    "training_sets.scores:is_train": [SOME | True],
    "training_sets.exchange:rows": [[], SOME, [0, 7], [0, 0], [0, 1, 2, 3]],
    "training_sets.regular_slope:salience": [0.9],
    "training_sets.best_anchors:salience": [0.8, [0.2, 0.3]],
    "training_sets.reweighted:factors": [[1, -0.5], [0, 0], [0.5], 0.5],
    "support.audit:partners": [
        spoilt(TUPLES, at=-1), lambda i: spoilt(TUPLES[i], at=-1), TUPLES[:, :, ::-1],
        lambda i: (SLOTS[i][None], np.zeros((2, 4, 3)))],
    "support.audit:where": [WHERE & np.array([[True], [False]]), WHERE[:, :3], WHERE.T],
    "support.coverage:sizes": [(1,)],
    "support.coverage:kinds": [["continuous"]],
    "support.latents.space:kinds": [
        ["periodic"], ["periodic", "ordinal"], [("periodic", 0.0), None]],
    "support.identification.identify:columns": [((0,),), ((0,), (5,))],
    "support.identification.identify:components": [
        (), (np.sin, lambda z: z[:1]), (np.sin, lambda z: 0 * z + NAN)],
    "support.identification.identify:kinds": [("continuous", "ordinal")],
    "support.identification.identify:composition": [lambda s: 1.0, lambda s: 0 * s[0]],
    "factor_tables.held:p": [[[0, 2]]],
    "factor_tables.held:q": [[[0, -1]]],
    "factor_tables.grid:sizes": [(2, 0), (2, 2.5), (), (10**6,) * 4],
    "support.audit_latents:sizes": [(2,)],
    "support.audit_latents:components": [(), (np.sin, lambda z: z[:1])],
    "support.audit_latents:tested": [[0, 10], [0.5], [True] * 10],
    "support.audit_support:partners": [[TUPLES]],
    "support.audit_support:where": [[WHERE], WHERE[0, 0]],
    "support.jacobians.blocks:points": [(spoilt(SLOTS), SLOTS), (SLOTS, SLOTS[:1])],
    "support.certificate.certificate:latents": [np.zeros((3, 2), int), LATENTS[:1]],
    "support.certificate.certificate:kinds": [["continuous"], ["categorical"] * 2],
    "support.certificate.certificate:support": [PASSED._replace(components=())],
    "support.certificate.certificate:truth": [lambda z: 0 * z + NAN],
    "support.certificate.jacobian_errors:truth": [jnp.round],  # no derivative anywhere
    "contrasts.block_contrast:n_parts": [3, 2.0],
    "ntk.empirical:x1": [{"a": INPUTS, "b": INPUTS[:2]}],
    "ntk.empirical:x2": [np.ones((2, 1, 3))],
    "ntk.empirical:params": [W * 1j],
    "ntk.empirical:f": [lambda w, x: x @ w * 1j, lambda w, x: (x @ w).astype(int)],
    "ntk.empirical:devices": [[]],
    "ntk.linearised.kernel_vector_product:v": [
        TARGETS.T, np.ones(8), np.ones((4, 2, 1)), np.ones((3, 2))],
    "ntk.linearised.kernel_vector_product:x2": [np.ones((4, 1, 3))],
    "ntk.ntk_regression:y_train": [TARGETS.T, np.ones(8)],
    "ntk.ntk_regression:form": ["per_output", "mean_trace"],
    "ntk.drift:before": [0 * K],
    "ntk.alignment:a": [0 * K],
    "ntk.target_alignment:kernel": [spoilt(K), K[:3], K + np.triu(np.ones((4, 4)), 1)],
    "ntk.target_alignment:y": [Y[None], 0 * Y],
    "ntk.plan.plan:devices": [[]],
    "ntk.plan.plan:x1": [INPUTS[:0]],
    "ntk.plan.plan:x2": [INPUTS[0]],
    "ntk.plan.available:devices": [[]],
    "ntk.plan.facts:params": [W * 1j],
    "ntk.plan.facts:x": [INPUTS[0, 0]],
    "ntk.functions.single:f": [lambda w, x: x @ w * 1j, lambda w, x: jnp.sum(x)],
    "ntk.layers.trace:f": [lambda w, x: x @ w * 1j],
    "ntk.layers.run:leaves": [[]],
    "ntk.layers.run:nudges": [[], [np.zeros((1, 1))]],
    "ntk.layers.cotangent:d": [np.ones((3, 2, 1))],
    "stats.mean_and_interval:values": [[], 1.0],
    "landscape.guess_and_check:batch": [3],
    "stats.sign_flip_test:clusters": [[0, 1, 2], [0] * 4],
    "stats.largest_share:failures": [3],
    "stats.bootstrap:columns": [[], [[]], [[1, 2], [1, 2, 3]], [[1, NAN, 2]]],
    "factorization.operator_schmidt:kernel": [np.triu(PRODUCT), 0 * PRODUCT],
    "ntk.linearised.linearised_fit:y_train": [TARGETS.T, np.ones(4)],
    "metrics.ssim:yhat": [np.ones((2, 8, 8))],
    "metrics.mse:yhat": [np.ones(4), np.ones((1, 2))],
    "dependence.parts:n": [3],
    "dependence.gradient_dependence:f": [
        lambda w, x: jnp.sum(x @ w), all_nan, lambda w, x: jnp.sqrt(0 * x) @ w],
    "dependence.gradient_dependence:inputs": [THIRDS[:2], 1.0 * THIRDS, 0 * THIRDS - 1],
    "dependence.gradient_dependence:outputs": [THIRDS],
    "dependence.shares:dependence": [np.ones(2), -np.ones((1, 2)), np.ones((1, 2)) * 1j],
    "dependence.information:a": [[0, 5]],
    "dependence.information:b": [[-1, 1]],
    "dependence.intervene:inputs": [THIRDS[:2], np.tile(THIRDS, (4, 1))],
    "dependence.interventional_information:f": [all_nan],
    "dependence.swap_rate:f": [all_nan],
    "dependence.swap_rate:inputs": [THIRDS[:1]],
    "dependence.confusion:yhat": [[0, 10]],
    "dependence.confusion:y": [[0, -1]],
    "landscape.distance:b": [{"v": W}, {"w": W[:1]}],
    "landscape.barrier:b": [W[:1]],
    "landscape.matched:a": [DENSE[:1], DENSE[::-1]],
    "landscape.matched:b": [[*DENSE, (np.eye(2), np.ones(2))], [(k, c[:1]) for k, c in DENSE]],
    "landscape.cancellation:updates": [[W], [W, spoilt(W)], [W, W[:1]]],
    "dependence.recombined:inputs": [THIRDS, BITS],
    "dependence.tangent_split:inputs": [0 * THIRDS],
    "dependence.tangent_split:residuals": [TARGETS.T],
    "dependence.early_dependence:update": [{"w": W}],
    "masks.restricted:several": [[], [{"w": None}], [{"w": np.ones(2)}], [{"v": W}],
        [{"w": np.ones((3, 1))}]],
    "masks.restricted:f": [lambda p, x: x.sum(1)],
    "masks.search:family": ["magnitude"],
    "masks.search:batches": [
        [], [(ROWS * NAN, ROWS)], [(ROWS, ROWS), (ROWS[:1], ROWS[:1])], [(ROWS,)],
        [{"x": ROWS, "y": ROWS}], [(ROWS, ROWS[:3])], [(ROWS[:1], ROWS)], [(ROWS, ROWS[0, 0])],
        [(None, ROWS)]],
    "masks.search:loss": [lambda outputs, y: outputs, lambda outputs, y: jnp.sum(outputs) / 0],
    "masks.save:masks": [{"w": W + 0.5}, {"w": None}],
    "masks.read:path": ["nowhere.npz", __file__],
    "masks.selected:params": [{}],
    "masks.expand:masks": [{"a": W}],
    "masks.soft:s": [W * 1j],
    "masks.hard:s": [np.array(["a"])],
    "masks.beta_schedule:epoch": [0, 91],
    "masks.penalty:on": [
        {"a/kernel": 1}, {"a/kernel": 1, "b/kernel": 2}, {"a/kernel": 1, "b/kernel": np.ones(2)}],
    "masks.concrete_sample:u": [2 * W, np.full(2, 0.5)],
    "masks.concrete_penalty:on": [{}],
    "masks.apply:masks": [
        SCORES["a"], {"a": {"kernel": np.ones((3, 1)), "bias": None}, "b": {"kernel": None}},
        {"a": {"kernel": None, "bias": np.ones(1)}, "b": {"kernel": None}}],
    "masks.apply:on": [{"a/kernel": NAN, "b/kernel": 1}],
    "masks.ablate:masks": [{"a": None}],
    "masks.replace:others": [{"a": W}],
    "masks.fresh:masks": [{"a": W}],
    "masks.size:masks": [{}],
    "masks.size:on": [{"a/kernel": 1}],
    "masks.kept:masks": [None],
    "masks.random_like:masks": [SCORES],
    "masks.complement_like:masks": [SCORES],
    "masks.complement_like:on": [{"a/kernel": 1}],
    "masks.has_complement:masks": [SCORES],
    "masks.intersect:several": [[ONES], [FULL, {"w": np.eye(3)}]],
    "masks.overlap:several": [[ONES], [ONES, ONES["a"]], [SCORES, SCORES], [{}, {}]],
    "stats.clustered_glm:y": [DESIGN],
    "stats.clustered_glm:design": [DESIGN.T, DESIGN[:, 0], np.ones((4, 2))],
    "stats.clustered_glm:clusters": [[0] * 4, [0, 1]],
    "stats.wald:covariance": [np.eye(3), -np.eye(2)],
    "stats.wald:contrast": [(1, 1, 0), (0, 0)],
    "stats.interaction_design:ablation": [[0, 2]],
    "stats.wild_cluster:clusters": [[1] * 4],
}

# The name in a message where it is not the parameter's.
NAMES = {
    "latents_P": "p|latents_P", "latents_Q": "q|latents_Q",
    # Complex inputs are valid if the outputs are real.
    **{f"ntk.{name}:{x}": f"{x}|outputs" for x in ("x1", "x2")
       for name in ("empirical", "linearised.kernel_vector_product")},
    "ntk.empirical:f": "outputs", "ntk.functions.single:f": "outputs",
    "ntk.layers.trace:f": "outputs",
    "kinds": "kinds|kind|period|categories",
}

# Several arguments change: (function, word that the message must hold, changes).
CALLS = [
    ("lenses.look", "is_train is True for some", dict(factors=TWICE)),
    ("lenses.look", "params", dict(params=spoilt(W), f=lambda params, x: jnp.tanh(x @ params))),
    ("lenses.look", "composition and components", dict(composition=add)),
    ("lenses.look", "where", dict(select="missing", params={"w": W}, f=times_w)),
    ("lenses.look", "where", dict(
        select="mean", params={"params": W, "mean": W}, f=lambda v, x: linear(v["params"], x))),
    ("lenses.memorization.slopes", "is_train", dict(factors=TWICE)),
    # Maps of other numbers of slots, of entries of a slot, or of latents.
    *[(f"slots.{name}", rf"maps\.({field})", changes)
      for name in ("assign", "r2") for field, changes in (
          ("weights", dict(maps=MAPS._replace(weights=MAPS.weights[:1]))),
          ("weights", dict(maps=MAPS._replace(weights=MAPS.weights[:, :1]))),
          ("weights", dict(maps=MAPS._replace(weights=MAPS.weights[..., :1]))),
          ("deviation", dict(maps=MAPS._replace(deviation=MAPS.deviation[:1]))),
          ("weights", dict(slots=SLOTTED[..., :1])),
          ("weights", dict(latents=SLOTTED[..., :1])),
      )],
    ("support.latents.spread_out", "rows", dict(rows=LATENTS[:, :1])),
    ("factorization.on_grids", "factors", dict(factors=X[:3], activations=INPUTS[:3])),
    ("masks.factors.subnetworks", "factors", dict(f=lambda params, x: x @ (0 * params["w"]))),
    ("machines.ridgeless", "k_train", dict(
        k_train=np.zeros((0, 0)), y=np.zeros(0), k_test=np.zeros((3, 0)), mask=None)),
    ("machines.ridgeless", "k_train", dict(
        k_train=np.stack([K] * 2), y=np.stack([Y] * 3), mask=None)),
    ("machines.ridgeless", "k_test", dict(k_train=np.stack([K] * 2), k_test=np.stack([K[:3]] * 3))),
    ("machines.ridgeless", "k_train", dict(
        k_train=[[0, 1], [1, 0]], y=Y[:2], k_test=K[:3, :2], mask=None)),
    ("machines.ridge", "penalty", dict(k_train=np.stack([K] * 2), penalty=[0.1, -0.1])),
    ("machines.solve_ridge", "y", dict(outputs=True)),
    ("machines.solve_ridge", "y", dict(y=np.ones((3, 4)), outputs=True)),
    ("machines.solve_ridge", "y", dict(y=np.ones((4, 0)), outputs=True)),
    ("machines.solve_ridge", "y", dict(y=spoilt(np.ones((4, 3))), outputs=True)),
    ("machines.svc", "labels", dict(y=np.array([0, 1, 0, 1]))),
    ("machines.svc", "k_train", dict(k_train=BATCH, mask=None)),
    ("additivity.additivity", "x", dict(x=X[:0], yhat=Y[:0], is_train=SOME[:0])),
    ("additivity.item_values", "labels", dict(labels=LABELS[:4], coefficients=np.ones(4))),
    ("support.audit", "unseen", dict(condition="relaxed", unseen=spoilt(TUPLES, at=-1))),
    # Valid on P', where slot 1 is positive; an infinite derivative on Q, where it is zero.
    ("support.audit", "unseen", dict(
        composition=lambda slots: jnp.sqrt(slots[0] * slots[1]), slots=SLOTS[1:], where=None,
        partners=np.stack([SLOTS[1:], 1 + SLOTS[1:]], axis=1)[:, None], condition="relaxed",
        unseen=np.stack([SLOTS[1:], 0 * SLOTS[1:]], axis=1)[:, None], atol=10.0)),
    ("support.identification.identify", "sizes", dict(sizes=(1, 2))),
    ("support.identification.identify", "Jacobian", dict(
        composition=lambda s: jnp.sqrt(s[0] - s[0]) + s[1])),
    ("support.audit_support", "slots", dict(slots=[], partners=[])),
    ("support.audit_support", "partners", dict(slots=[SLOTS])),
    ("support.audit_support", "slots", dict(slots=[SLOTS], partners=[TUPLES])),
    ("support.audit_support", "unseen", dict(condition="relaxed", unseen=[TUPLES])),
    ("support.jacobians.check_pixelwise", "pixelwise", dict(composition=mixing, component=1)),
    ("support.certificate.certificate", "sizes", dict(
        composition=add, components=(jnp.sin,) * 2, sizes=(2, 2))),
    ("support.design.design", "where", dict(pixelwise=False)),
    ("support.design.design", "composition", dict(composition=root, slots=0 * SLOTS)),
    ("support.design.design", "pixelwise", dict(composition=mixing, component=1)),
    ("ntk.empirical", "params", dict(params=spoilt(W), f=lambda w, x: jnp.tanh(x @ w))),
    ("ntk.empirical", "params", dict(params={"w": W, "z": 1j}, f=times_w)),
    ("ntk.ntk_regression", "y_train", dict(x_train=INPUTS[:0], y_train=TARGETS[:0])),
    ("ntk.target_alignment", "kernel", dict(kernel=np.ones((4, 4, 2)), y=TARGETS)),
    ("ntk.target_alignment", "y", dict(kernel=np.ones((4, 4, 2, 2)), y=TARGETS.T)),
    ("factorization.schmidt_values", "kernel", dict(n_y=4)),
    ("stats.kendall_tau_b", "x", dict(x=Y[:3])),
    ("stats.share_interval", "failures", dict(successes=3)),
    ("metrics.ssim", "window", dict(y=np.ones((5, 5)), yhat=np.ones((5, 5)))),
    *[(f"metrics.{name}", "y", dict(y=TARGETS[:0], yhat=TARGETS[:0]))
      for name in ("mse", "r2_uniform", "r2_variance_weighted")],
    ("dependence.information", "a", dict(a=[], b=[])),
    ("dependence.confusion", "n_classes", dict(
        yhat=[0, 0], y=[0, 0], suggested=[[0], [0]], n_classes=1)),
    ("dependence.tangent_split", "residuals", dict(form="trace")),
    ("landscape.distance", "a", dict(a={}, b={})),
    ("masks.penalty", "masks", dict(s={"a": None}, on=None)),
    ("masks.selected", "where", dict(params={"count": np.arange(3)}, where="count")),
    ("masks.expand", "masks", dict(masks={"w": np.ones((1, 3))}, params={"w": W})),
    ("masks.expand", "masks", dict(masks={"w": np.ones(2)}, params={"w": W})),
    ("masks.concrete_sample", "u", dict(log_alpha=SCORES)),
    ("masks.apply", "masks", dict(params={"w": W}, masks={"w": W.T}, on=None)),
    ("masks.ablate", "key", dict(how="random")),
    ("masks.replace", "others", dict(params={"w": W}, masks={"w": W}, others={"w": None})),
    ("masks.replace", "masks", dict(params={"w": W}, masks={"w": W.T}, others={"w": W})),
    ("masks.replace", "others", dict(params={"w": W}, masks={"w": W}, others={"w": W[:1]})),
    ("masks.complement_like", "half of w", dict(masks=FULL, on=None)),
    ("masks.complement_like", "half of w", dict(masks=FULL, on={"w": 1})),
]
# fmt: on


def function(name):
    if name == "stats.bootstrap":
        return lambda columns, **options: stats.bootstrap(np.mean, *columns, **options)
    home, _, attribute = name.rpartition(".")
    package = "cgjax.core." if home == "metrics" else "cgjax.analysis."
    return getattr(importlib.import_module(package + home), attribute)


def cases(name):
    """(word that the message must hold, changes of the valid call)."""
    specified = {
        parameter: p.annotation
        for parameter, p in inspect.signature(function(name)).parameters.items()
        if isinstance(p.annotation, arguments.Argument)
    }
    axes = [
        axis for a in specified.values() for axis in set(re.findall(r"[*]?[A-Za-z]\w*", a.axes))
    ]
    shared = {axis for axis in axes if axes.count(axis) > 1}
    for parameter, valid in SOUND[name].items():
        if parameter in specified:
            values = derived(specified[parameter], valid, shared)
            yield from ((parameter, {parameter: value}) for value in values)
            continue
        kind = KIND.get(f"{name}:{parameter}") or KIND[parameter]
        word = NAMES.get(f"{name}:{parameter}") or NAMES.get(parameter, parameter)
        yield from ((word, {parameter: value}) for value in kind(valid))
    for key, values in INVALID.items():
        if key.rpartition(":")[0] == name:
            parameter = key.rpartition(":")[2]
            word = NAMES.get(key) or NAMES.get(parameter, parameter)
            yield from ((word, {parameter: value}) for value in values)
    yield from ((word, changes) for of, word, changes in CALLS if of == name)


@pytest.mark.parametrize("name", SOUND)
def test_invalid_arguments_raise_errors_that_name_them(name):
    wrong = []
    for word, changes in cases(name):
        try:
            function(name)(**(SOUND[name] | changes))
        except ValueError as error:
            if not re.search(rf"\b({word})\b", str(error)) or "\n" in str(error):
                wrong.append(f"{changes}: {error}")
        else:
            wrong.append(f"{changes} is accepted")
    assert not wrong, "; ".join(wrong)


# Made of other functions' results, for which no argument is wrong; checks are for the others.
INSIDE = ("arguments.", "checks.", "lenses.report.", "masks.trees.")
PLUMBING = {
    f"{module}.{name}"
    for module, names in {
        "support.jacobians": "merged together search leak least n_lacking check_points "
        "check_finite "
        "compiled_singular_values compiled_spectrum",
        "machines": "interpolate rows factorised solved",
        "data_needed": "exponent_of_medians censored_slope",
        "ntk.functions": "cut_short is_cut shortest equations floats dtype is_float is_free "
        "mixing warn_once check_outputs digits jit once_for_each length",
        "support": "slot_points check_arguments check_components",
        "support.identification": "component_outputs is_pixelwise latent_columns posed",
        "support.latents": "as_categories changes covariance coverage distances distinct few "
        "halves nearest some_of_each within",
        "support.second_model": "search evaluate posterior",
        "salience": "float64",
        "ntk.layers": "no_nudges shape factors sides in_loops units",
        "ntk.linearised": "is_of",
        "ntk.plan": "kernel_bytes",
    }.items()
    for name in names.split()
}


def public_functions():
    for info in pkgutil.walk_packages(cgjax.analysis.__path__, "cgjax.analysis."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            is_own = getattr(value, "__module__", "") == module.__name__
            if is_own and callable(value) and not inspect.isclass(value) and name[0] != "_":
                yield f"{info.name.removeprefix('cgjax.analysis.')}.{name}"


def test_no_public_function_is_left_out():
    names = {name for name in public_functions() if not name.startswith(INSIDE)}
    assert len(names) > 80
    assert names - PLUMBING <= SOUND.keys(), sorted(names - PLUMBING - SOUND.keys())
    assert {key.rpartition(":")[0] for key in INVALID} | {call[0] for call in CALLS} <= SOUND.keys()


# --- what only looks like nonsense ----------------------------------------------------------------


def test_kernels_rounded_to_float32_are_kernels():
    """Singular ones with slightly negative eigenvalues, of any scale, alone and in batches."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(5, 30, 3))
    kernels = (points @ points.transpose(0, 2, 1)).astype(np.float32)
    assert np.linalg.eigvalsh(kernels.astype(float)).min() < -1e-8
    for scale in (1e-6, 1, 1e6):
        checks.psd("kernel", scale * kernels)
        checks.psd("kernel", scale * kernels[0])
    noise = 1e-7 * np.abs(kernels).max() * rng.normal(size=kernels.shape)
    checks.psd("kernel", kernels + noise)
    checks.symmetric("kernel", kernels + noise)
    checks.psd("kernel", np.zeros((2, 3, 3)))


def test_an_accelerator_s_kernels_are_checked_where_they_are(monkeypatch):
    monkeypatch.setattr(checks, "_home", lambda array: jnp)
    checks.psd("kernel", jnp.asarray(np.stack([K, K])))
    for kernel, words in (
        (BATCH, "eigenvalues from -0.5 to 1"),
        (np.stack([K, K + np.triu(np.ones((4, 4)), 1)]), "differ by up to 1"),
        (np.stack([K, spoilt(K)]), r"first at \[1, 0, 0\]"),
    ):
        with pytest.raises(ValueError, match=words):
            checks.psd("kernel", jnp.asarray(kernel))


def test_nobody_looks_at_masked_points():
    """Padding may be anything but NaN."""
    padded = np.pad(K, (0, 1), constant_values=-3.0)
    checks.psd("kernel", padded, np.arange(5) < 4)
    with pytest.raises(ValueError, match="kernel is not positive semi-definite"):
        checks.psd("kernel", padded, np.arange(5) < 5)


def test_large_batches_are_checked_while_they_are_solved(monkeypatch):
    monkeypatch.setattr(machines, "_MANY", 0)
    calls = []
    monkeypatch.setattr(machines, "_solve_ridge", lambda *problem: calls.append(problem))
    with pytest.raises(ValueError, match="k_train is not positive semi-definite"):
        machines.ridgeless(BATCH, Y, K[:3])
    assert len(calls) == 1


def test_repeated_points_get_the_mean_of_their_targets():
    """Ridgeless regression on a singular kernel: the pseudo-inverse, and the residual tells."""
    kernel = np.kron(np.eye(6) + 1, np.ones((2, 2)))  # twelve points, which are six
    agreed, torn = np.repeat(np.arange(6.0), 2), np.repeat(np.arange(6.0), 2)
    torn[:2] = (-1, 1)
    targets = np.stack([agreed, torn, agreed, agreed, agreed, agreed])
    found = machines.solve_ridge(kernel, targets)
    f = machines.predict(found, kernel)
    np.testing.assert_allclose(f, [agreed] * 6, atol=1e-9)  # -1 and 1 have the mean 0
    np.testing.assert_allclose(found.residual, [0, 1, 0, 0, 0, 0], atol=1e-9)


def test_values_are_not_looked_at_under_a_transformation():
    """Only shapes and dtypes are: what is traced has no values."""

    @jax.jit
    def traced(kappa, x):
        table = salience.layers(kappa, salience.relu, 1)
        return salience.salience(table), contrasts.compositional_contrast(x), metrics.mse(x, x)

    found = traced(np.array([0, NAN, 1.0]), JAC)
    assert np.isnan(found[0][-1]).all() and found[2] == 0
    with pytest.raises(ValueError, match="jacobians"):
        traced(np.array([0, 0.3, 1.0]), JAC[:0])
    # A number of values that decides a shape must be given.
    with pytest.raises(ValueError, match="sizes"):
        jax.eval_shape(dependence.information, THIRDS, THIRDS)
    with pytest.raises(ValueError, match="sizes"):
        jax.eval_shape(lambda x: dependence.gradient_dependence(linear, W, INPUTS, x), THIRDS)


def test_scores_of_nan_are_nan_and_bytes_do_not_wrap():
    y = np.arange(8.0).reshape(4, 2)
    for target, predicted in ((spoilt(y), y), (y, spoilt(y))):
        assert np.isnan(metrics.mse(target, predicted))
        assert np.isnan(metrics.r2_uniform(target, predicted))
        assert np.isnan(metrics.r2_variance_weighted(target, predicted))
    dark, bright = np.zeros((4, 2), np.uint8), np.full((4, 2), 200, np.uint8)
    assert metrics.mse(dark, bright) == metrics.mse(bright, dark) == 200**2
