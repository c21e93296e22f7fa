"""What cannot be meant is refused by name, in every public function: no finite wrong answer.

CASES: function -> (word that the message must hold, call). Small NumPy inputs, nothing compiles.
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
    checks,
    closed_forms,
    contrasts,
    dependence,
    effects,
    factor_tables,
    factorization,
    geometry,
    landscape,
    lenses,
    machines,
    masks,
    ntk,
    salience,
    search,
    stats,
    support,
    training_sets,
    wide,
)
from cgjax.analysis.lenses import memorization
from cgjax.analysis.machines import interior_point
from cgjax.analysis.masks import factors as subnetworks
from cgjax.analysis.ntk import functions, layers, linearised, plan
from cgjax.analysis.support import certificate, design, identification, jacobians, latents
from cgjax.core import metrics

NAN = float("nan")


def spoilt(array, value=NAN, at=0):
    """A copy with one entry changed."""
    array = np.array(array)
    array = array if array.dtype.kind == "f" else array.astype(float)
    array.flat[at] = value
    return array


# --- sound arguments, of which each case changes one ----------------------------------------------

# machines
K, Y = np.eye(4) + 1, np.array([1.0, -1, 1, -1])
K_TEST = K[:3]
SOME = np.array([True, True, True, False])
INDEFINITE, ASYMMETRIC = np.diag([1, 1, -0.5, 1]), K + np.triu(np.ones((4, 4)), 1)
BATCH = np.stack([K, INDEFINITE])  # the second of two

# combinations of two components with two values each
X = np.indices((2, 2)).reshape(2, -1).T
TRAIN = np.array([True, True, True, False])
SPLITS = np.where(TRAIN, "train", "test")
LABELS = np.array([["0", "all"], ["1", "all"], ["all", "0"], ["all", "1"], ["all", "all"]])
CONTEXT = np.array([["0", "1", "all"], ["1", "all", "0"], ["all", "all", "all"]])
VALUES = np.arange(-2.0, 3.0)
ANCHOR = np.arange(5) == 0
FLAT = additivity.Similarity(X, SPLITS, np.ones((4, 4)))

# support
SLOTS = np.linspace(0, 1, 2 * 4 * 3).reshape(2, 4, 3)  # two values, four positions, three channels
TUPLES = np.stack([SLOTS, SLOTS[::-1]], axis=1)[:, None]  # [2 values, 1 point, 2 slots, 4, 3]
WHERE = np.ones((2, 4), bool)
LATENTS = np.linspace(0, 1, 20).reshape(10, 2)


def add(slots):
    return slots[0] + slots[1]


def root(slots):
    """Its derivative at 0 is infinite."""
    return jnp.sqrt(slots[0]) + slots[1]


def mixing(slots):
    return slots[0] + jnp.roll(slots[1], 1, axis=1)


def same_value(images):
    """Values 0 and 1 of component 0 with other slots that give no derivative."""
    return np.stack([SLOTS, images], axis=1)[:, None]


def behind_a_root(slots):
    """Fine on P', where slot 1 is positive; an infinite derivative on Q, where it is zero."""
    return jnp.sqrt(slots[0] * slots[1])


def audit(**changes):
    given = {"composition": add, "slots": SLOTS, "component": 0, "partners": TUPLES}
    return support.audit(**(given | changes))


def audit_support(**changes):
    given = {"slots": [SLOTS, SLOTS[::-1]], "partners": [TUPLES, TUPLES]}
    return support.audit_support(add, **(given | changes))


def audit_latents(**changes):
    given = {"components": (np.sin, np.cos), "latents_P": LATENTS, "latents_Q": LATENTS}
    return support.audit_latents(add, **(given | changes))


def left_open(**changes):
    given = {"composition": add, "components": (np.sin, np.cos), "length": 0.1, "noise": 0.01}
    given |= {"latents_P": LATENTS, "latents_Q": LATENTS}
    return identification.leftover(**(given | changes))


def identified(**changes):
    given = {"composition": add, "components": (np.sin, np.cos)}
    given |= {"latents_P": LATENTS, "latents_Q": LATENTS}
    return support.identify(**(given | changes))


def designed(**changes):
    given = {"composition": add, "slots": SLOTS, "component": 0, "candidates": TUPLES[0]}
    return design.design(**(given | changes))


_PASSED = support.Audit(
    np.ones(1, bool), np.ones(1), np.zeros(0, int), 1.0, "", np.zeros(1), None, np.ones(5),
    np.zeros(1), "",
)  # fmt: skip
SOUND = support.SupportAudit((_PASSED,), None, True, "", "")


def certify(**changes):
    given = {"support": SOUND, "truth": jnp.sin, "model": jnp.sin, "latents": LATENTS}
    return certificate.certificate(**(given | changes))


def derivative_error(latents=LATENTS, dims=(0, 1), truth=jnp.sin):
    return certificate.jacobian_errors(truth, jnp.sin, latents, dims)


# tangent kernels
W = np.ones((3, 2), np.float32)
INPUTS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def linear(params, x):
    return x @ params


def single(params, x):
    return (x @ params)[:, 0]


def kernel(f=linear, params=W, x1=INPUTS, x2=None, **options):
    return ntk.empirical(f, params, x1, x2, **options)


def product(v, x1=INPUTS, x2=None, params=W, **options):
    return ntk.kernel_vector_product(linear, params, x1, x2, v, **options)


def regression(y, x=INPUTS, x_test=INPUTS, f=linear, **options):
    return ntk.ntk_regression(f, W, x, y, x_test, **options)


def planned(**changes):
    return plan.plan(linear, W, **({"x1": INPUTS, "memory": 2.0**20} | changes))


FACTS = plan.Facts(2, 6, 12, 2, ((3, 2),), (), (), 8)


def chosen(**changes):
    given = {"n1": 4, "n2": None, "form": "full", "algorithm": "auto", "memory": 1e6}
    return plan.choose(FACTS, **(given | {"n_devices": 1} | changes))


NNGP_INPUTS = np.linspace(-1, 1, 6).reshape(2, 3)


def path(**changes):
    given = {
        "k": np.eye(2)[None], "signs": np.ones((1, 1, 2)), "costs": -np.ones((1, 1, 2)),
        "box": np.ones(1), "mask": np.ones((1, 2), bool), "border": np.zeros((1, 2)),
    }  # fmt: skip
    return interior_point.central_path(*(given | changes).values())


JAC, HESS = np.ones((2, 4, 6)), np.ones((2, 4, 6, 6))

# pairs of factors
GRID = np.random.default_rng(0).normal(size=(3, 4, 5))  # three values of y, four of x, five units
HELD_OUT = np.arange(12).reshape(3, 4) > 7
PRODUCT = np.kron(np.eye(4) + 1, np.eye(3) + 1)
CODES = np.linspace(0, 1, 24).reshape(4, 6)


def fitted(**changes):
    given = {"y_train": np.ones((4, 2)), "x_train": INPUTS, "x_test": INPUTS, "params": W}
    return linearised.linearised_fit(linear, **(given | changes))


# dependence
KEY = jax.random.key(0)
THIRDS = np.arange(3)  # each of the three inputs is a component
DENSE = [(np.ones((2, 3)), np.ones(3)), (np.ones((3, 2)), np.ones(2))]


def guessed(bands=((0.4, 0.5),), **changes):
    options = {"n_draws": 10, "n_keep": 2, "batch": 5} | changes
    return search.guess_and_check(
        jax.random.key(0), lambda key: W, lambda params, data: 1.0, None, bands, **options
    )


def walked(params=W, bands=((0.1, 0.2),), n_steps=5, **options):
    return search.metropolis(jax.random.key(0), params, jnp.sum, bands, n_steps, **options)


def depends(**changes):
    given = {"f": linear, "params": W, "x": INPUTS, "inputs": THIRDS}
    return dependence.gradient_dependence(**(given | changes))


def swapped_information(**changes):
    given = {"f": linear, "params": W, "x": INPUTS, "y2": [0, 1, 1, 0], "inputs": THIRDS}
    return dependence.interventional_information(KEY, **({"component": 1} | given | changes))


def all_nan(params, x):
    return NAN * linear(params, x)


def split(**changes):
    given = {"x": INPUTS, "inputs": np.array([0, 1, 1])}
    return dependence.tangent_split(linear, W, **(given | changes))


def early(**changes):
    given = {"update": W, "rates": [0.1]}
    return dependence.early_dependence(linear, W, x=INPUTS, inputs=THIRDS, **(given | changes))


# masks
NET = {"a": {"kernel": W, "bias": np.ones(2, np.float32)}, "b": {"kernel": W}}
SCORES = {"a": {"kernel": W / 2, "bias": None}, "b": {"kernel": W / 2}}
ONES = {"a": {"kernel": np.eye(3, 2), "bias": None}, "b": {"kernel": np.eye(3, 2) * 0}}
SPOILT = {"a": {"kernel": spoilt(W), "bias": None}, "b": {"kernel": W}}
FULL = {"w": np.array([1.0, 1, 0])}


def times_w(params, x):
    return x @ params["w"]


ROWS = np.ones((4, 3), np.float32)
# clustered regressions
OUTCOMES, PLAIN = np.array([0.1, 0.3, -0.2, 0.4]), np.stack([np.ones(4), [0, 1, 0, 1]], axis=1)
PAIRS = [0, 0, 1, 1]

# --- the table ------------------------------------------------------------------------------------


def looked(f=linear, params=W, x=INPUTS, factors=X, is_train=TRAIN, **options):
    return lenses.look(f, params, x, factors, is_train, **options)


def of_params(variables, x):
    return linear(variables["params"], x)


def among_others(params, x):
    """Its outputs for a sample depend on which others there are."""
    return (x - jnp.mean(x, axis=0, keepdims=True)) @ params


def on_a_pole(params, x):
    return linear(params, x) / (x[:, :1] - x[:1, :1])


def searched(**changes):
    """A search for a mask of a linear map."""
    sound = {"f": times_w, "params": {"w": W}, "loss": lambda outputs, y: jnp.mean(outputs)}
    sound |= {"batches": [(ROWS, ROWS)], "where": "w", "epochs": 2}
    return masks.search(**(sound | changes))


def parted(**changes):
    given = {"f": linear, "params": {"w": W}, "x": INPUTS, "factors": X, "where": "w"}
    return subnetworks.subnetworks(**(given | changes))


CASES = {
    "lenses.look": [
        ("several lengths", lambda: looked(factors=[[0, 1], [0], [1, 0], [1, 1]])),
        ("factors has one column", lambda: looked(factors=X[:, :1])),
        ("factors must be", lambda: looked(factors=X[:, 0])),
        ("column 1 never varies", lambda: looked(factors=X * [1, 0])),
        ("fractions", lambda: looked(factors=X + 0.5)),
        ("factors holds", lambda: looked(factors=spoilt(X))),
        ("factors holds", lambda: looked(factors=X.astype(str))),
        ("x is inputs", lambda: looked(x=INPUTS[:3])),
        ("x holds", lambda: looked(x=spoilt(INPUTS))),
        ("is_train is bool", lambda: looked(is_train=TRAIN[:3])),
        ("is_train must be boolean", lambda: looked(is_train=[0, 1, 2, 3])),
        ("is_train is True everywhere", lambda: looked(is_train=[True] * 4)),
        ("is_train is False everywhere", lambda: looked(is_train=[False] * 4)),
        ("is_train is True for some", lambda: looked(factors=X[[0, 1, 2, 0]])),
        ("f is a function", lambda: looked(f=W)),
        ("f maps", lambda: looked(f=lambda params, x: jnp.sum(x))),
        ("f maps", lambda: looked(f=lambda params, x: x[1:] @ params)),
        ("f gives int32", lambda: looked(f=lambda params, x: jnp.argmax(x @ params, axis=-1))),
        ("f gives NaN", lambda: looked(f=on_a_pole)),
        ("f mixes inputs", lambda: looked(f=among_others)),
        ("params", lambda: looked(params=spoilt(W))),
        ("names", lambda: looked(names=("shape",))),
        ("composition and components", lambda: looked(composition=add)),
        ("labels", lambda: looked(labels=[0, 1, 2, 0])),
        ("labels", lambda: looked(labels=[0, 1, -1, 0])),
        ("labels", lambda: looked(labels=[0, 1, 1])),
        ("labels", lambda: looked(labels=[0.0, 1.0, 1.0, 0.0])),
        ("labels", lambda: looked(labels=np.zeros((4, 3), int))),
        ("labels", lambda: looked(labels=np.eye(2, dtype=int)[[0, 1, 1, 0]])),
        ("verbose", lambda: looked(verbose=2)),
        ("targets", lambda: looked(targets=Y[:3])),
        ("targets", lambda: looked(targets=spoilt(np.ones((4, 2))))),
        ("where", lambda: looked(select="missing", params={"w": W}, f=single)),
        ("where", lambda: looked(select="mean", params={"params": W, "mean": W}, f=of_params)),
        ("taps", lambda: looked(taps=lambda params, x: {"layer": x[:3]})),
        ("taps", lambda: looked(taps=lambda params, x: {"layer": x / 0})),
        ("outputs", lambda: looked(outputs=np.zeros(3, int))),
        ("inputs", lambda: looked(inputs=np.zeros(2, int))),
    ],
    "lenses.memorization.slopes": [
        ("gram", lambda: memorization.slopes(ASYMMETRIC, X, Y[:, None], TRAIN)),
        ("gram", lambda: memorization.slopes(spoilt(K), X, Y[:, None], TRAIN)),
        ("factors", lambda: memorization.slopes(K, X + 0.5, Y[:, None], TRAIN)),
        ("outputs", lambda: memorization.slopes(K, X, spoilt(Y[:, None]), TRAIN)),
        ("outputs", lambda: memorization.slopes(K, X, Y[:3, None], TRAIN)),
        ("is_train", lambda: memorization.slopes(K, X, Y[:, None], TRAIN[:3])),
        ("is_train", lambda: memorization.slopes(K, X, Y[:, None], TRAIN | True)),
        ("is_train", lambda: memorization.slopes(K, X[[0, 1, 2, 0]], Y[:, None], TRAIN)),
        ("targets", lambda: memorization.slopes(K, X, Y[:, None], TRAIN, np.ones((4, 3)))),
        ("rounding", lambda: memorization.slopes(K, X, Y[:, None], TRAIN, rounding=-1.0)),
    ],
    "lenses.memorization.slope": [
        ("y", lambda: memorization.slope(np.ones(3), np.arange(3.0))),
        ("y", lambda: memorization.slope(spoilt(Y), Y)),
        ("f", lambda: memorization.slope(Y, Y[:3])),
    ],
    "factorization.grids": [
        ("factors", lambda: factorization.grids(X + 0.5)),
        ("factors", lambda: factorization.grids(X[:, 0])),
    ],
    "factorization.on_grids": [
        ("activations", lambda: factorization.on_grids(INPUTS[:3], X)),
        ("activations", lambda: factorization.on_grids(spoilt(INPUTS), X)),
        ("factors", lambda: factorization.on_grids(INPUTS[:3], X[:3])),
        ("factors", lambda: factorization.on_grids(INPUTS, X + 0.5)),
    ],
    "effects.combined": [
        ("factors", lambda: effects.combined(X + 0.5, Y)),
        ("outputs", lambda: effects.combined(X, Y[:3])),
    ],
    "effects.additive_fit": [
        ("outputs", lambda: effects.additive_fit(X, Y)),
        ("outputs", lambda: effects.additive_fit(X, spoilt(Y[:, None]))),
        ("is_fitted", lambda: effects.additive_fit(X, Y[:, None], TRAIN[:3])),
        ("is_fitted", lambda: effects.additive_fit(X, Y[:, None], TRAIN & False)),
    ],
    "effects.total_effects": [
        ("factors", lambda: effects.total_effects(X[:, 0], Y[:, None])),
        ("labels", lambda: effects.total_effects(X, Y[:, None], np.zeros(2, int))),
        ("labels", lambda: effects.total_effects(X, Y[:, None], np.array([-1]))),
    ],
    "effects.interactions": [
        ("factors", lambda: effects.interactions(X + 0.5, Y[:, None])),
        ("outputs", lambda: effects.interactions(X, spoilt(Y[:, None]))),
        ("labels", lambda: effects.interactions(X, Y[:, None], np.zeros(2, int))),
    ],
    "masks.factors.main_effects": [
        ("factors", lambda: subnetworks.main_effects(X + 0.5, Y[:, None])),
        ("outputs", lambda: subnetworks.main_effects(X, spoilt(Y[:, None]))),
    ],
    "masks.factors.subnetworks": [
        ("n_steps", lambda: parted(n_steps=0)),
        ("where", lambda: parted(where="missing")),
        ("factors", lambda: parted(factors=X + 0.5, f=lambda params, x: x @ params["w"])),
        ("factors", lambda: parted(f=lambda params, x: x @ (0 * params["w"]))),
    ],
    "machines.ridgeless": [
        ("k_train", lambda: machines.ridgeless(spoilt(K), Y, K_TEST)),
        ("k_train", lambda: machines.ridgeless(spoilt(K, np.inf), Y, K_TEST)),
        ("k_train", lambda: machines.ridgeless(K + 1j, Y, K_TEST)),
        ("k_train", lambda: machines.ridgeless([[1.0, 0.0], [0.0]], Y[:2], K_TEST)),
        ("k_train", lambda: machines.ridgeless(INDEFINITE, Y, K_TEST)),
        ("k_train", lambda: machines.ridgeless(-K, Y, K_TEST)),
        ("k_train", lambda: machines.ridgeless(1e-9 * INDEFINITE, Y, K_TEST)),
        ("k_train", lambda: machines.ridgeless([[0, 1], [1, 0]], Y[:2], K_TEST[:, :2])),
        ("k_train", lambda: machines.ridgeless(ASYMMETRIC, Y, K_TEST)),
        ("k_train", lambda: machines.ridgeless(BATCH, Y, K_TEST)),
        ("k_train", lambda: machines.ridgeless(K[0], Y, K_TEST)),
        ("k_train", lambda: machines.ridgeless(np.zeros((0, 0)), np.zeros(0), np.zeros((3, 0)))),
        ("k_train", lambda: machines.ridgeless(np.stack([K] * 2), np.stack([Y] * 3), K_TEST)),
        ("y", lambda: machines.ridgeless(K, spoilt(Y), K_TEST)),
        ("y", lambda: machines.ridgeless(K, Y * 1j, K_TEST)),
        ("y", lambda: machines.ridgeless(K, Y[:, None], K_TEST)),
        ("y", lambda: machines.ridgeless(K, np.stack([Y] * 3, axis=1), K_TEST)),
        ("k_test", lambda: machines.ridgeless(K, Y, spoilt(K_TEST))),
        ("k_test", lambda: machines.ridgeless(K, Y, K_TEST.T)),
        ("k_test", lambda: machines.ridgeless(np.stack([K] * 2), Y, np.stack([K_TEST] * 3))),
        ("bias", lambda: machines.ridgeless(K, Y, K_TEST, 1e-3)),  # a penalty in the wrong place
        ("mask", lambda: machines.ridgeless(K, Y, K_TEST, mask=[0, 1, 2])),
        ("mask", lambda: machines.ridgeless(K, Y, K_TEST, mask=[0, 1, 2, 3])),
        ("mask", lambda: machines.ridgeless(K, Y, K_TEST, mask=SOME[:3])),
        ("mask", lambda: machines.ridgeless(K, Y, K_TEST, mask=~SOME & SOME)),
    ],
    "machines.ridge": [
        ("penalty", lambda: machines.ridge(K, Y, K_TEST, -0.1)),
        ("penalty", lambda: machines.ridge(K, Y, K_TEST, NAN)),
        ("penalty", lambda: machines.ridge(K, Y, K_TEST, np.inf)),
        ("penalty", lambda: machines.ridge(np.stack([K] * 2), Y, K_TEST, [0.1, -0.1])),
        ("k_train", lambda: machines.ridge(INDEFINITE, Y, K_TEST, 1.0)),
    ],
    "machines.solve_ridge": [
        ("penalty", lambda: machines.solve_ridge(K, Y, -1e-3)),
        ("k_train", lambda: machines.solve_ridge(ASYMMETRIC, Y)),
        ("y", lambda: machines.solve_ridge(K, Y, outputs=True)),
        ("y", lambda: machines.solve_ridge(K, np.ones((3, 4)), outputs=True)),
        ("y", lambda: machines.solve_ridge(K, np.ones((4, 0)), outputs=True)),
        ("y", lambda: machines.solve_ridge(K, spoilt(np.ones((4, 3))), outputs=True)),
        ("outputs", lambda: machines.solve_ridge(K, Y, outputs=3)),
    ],
    "machines.svc": [
        ("c", lambda: machines.svc(K, Y, K_TEST, 0.0)),
        ("c", lambda: machines.svc(K, Y, K_TEST, NAN)),
        ("labels", lambda: machines.svc(K, np.array([0, 1, 0, 1]), K_TEST, 1.0)),
        ("y", lambda: machines.svc(K, spoilt(Y), K_TEST, 1.0)),
        ("k_train", lambda: machines.svc(BATCH, Y, K_TEST, 1.0)),
        ("k_test", lambda: machines.svc(K, Y, spoilt(K_TEST), 1.0)),
        ("bias", lambda: machines.svc(K, Y, K_TEST, 1.0, 0.1)),
        ("mask", lambda: machines.svc(K, Y, K_TEST, 1.0, mask=[0, 1])),
        ("mask", lambda: machines.svc(K, Y, K_TEST, 1.0, bias=False, mask=~SOME & SOME)),
    ],
    "machines.svr": [
        ("epsilon", lambda: machines.svr(K, Y, K_TEST, 1.0, -0.1)),
        ("epsilon", lambda: machines.svr(K, Y, K_TEST, 1.0, NAN)),
        ("epsilon", lambda: machines.svr(K, Y, K_TEST, 1.0, np.inf)),
        ("c", lambda: machines.svr(K, Y, K_TEST, -1.0, 0.1)),
        ("y", lambda: machines.svr(K, spoilt(Y), K_TEST, 1.0, 0.1)),
    ],
    "machines.solve_svc": [
        ("k_train", lambda: machines.solve_svc(INDEFINITE, Y, 1.0)),
        ("c", lambda: machines.solve_svc(K, Y, [1.0, NAN])),
    ],
    "machines.solve_svr": [("k_train", lambda: machines.solve_svr(ASYMMETRIC, Y, 1.0, 0.1))],
    "machines.predict": [
        ("outputs", lambda: machines.predict(machines.Interpolation(Y, 0.0, 0.0), K, 2)),
        ("k_test", lambda: machines.predict(machines.Interpolation(Y, 0.0, 0.0), spoilt(K))),
        ("k_test", lambda: machines.predict(machines.Interpolation(Y, 0.0, 0.0), K_TEST.T)),
    ],
    "machines.interior_point.central_path": [
        ("k", lambda: path(k=spoilt(np.eye(2)[None]))),
        ("k", lambda: path(k=-np.eye(2)[None])),
        ("signs", lambda: path(signs=np.zeros((1, 1, 2)))),
        ("costs", lambda: path(costs=np.full((1, 1, 2), NAN))),
        ("box", lambda: path(box=np.zeros(1))),
        ("box", lambda: path(box=np.full(1, np.inf))),
        ("mask", lambda: path(mask=np.ones((1, 2)))),
        ("border", lambda: path(border=np.full((1, 2), NAN))),
    ],
    "salience.salience": [
        ("kappa", lambda: salience.salience([0, NAN, 1])),
        ("kappa", lambda: salience.salience([0, 0.3j, 1])),
        ("kappa", lambda: salience.salience(1.0)),
        ("kappa", lambda: salience.salience([0.5, 0.2, 0.5])),
        ("kappa", lambda: salience.salience([[0, 0.3, 1], [1, 1, 1]])),
        (
            "kappa",
            lambda: salience.salience(np.random.default_rng(0).normal(size=(6, 4))),
        ),  # features
        ("kappa", lambda: salience.salience(np.eye(4) + 0.5)),  # a Gram matrix
    ],
    "salience.kappa": [
        ("salience", lambda: salience.kappa([NAN, 0.4])),
        ("salience", lambda: salience.kappa([0.3, 0.3])),
    ],
    "salience.complete": [("salience", lambda: salience.complete([NAN]))],
    "salience.subsets": [
        ("n_components", lambda: salience.subsets(-1)),
        ("n_components", lambda: salience.subsets(1.5)),
    ],
    "salience.by_subset": [("kappa", lambda: salience.by_subset([0, NAN, 1]))],
    "salience.moebius": [
        ("kappa", lambda: salience.moebius([0, 0.1, NAN, 1])),
        ("kappa", lambda: salience.moebius([0, 0.1, 1])),
    ],
    "salience.moebius_inverse": [
        ("weights", lambda: salience.moebius_inverse([0, NAN])),
        ("weights", lambda: salience.moebius_inverse([0, 0.1, 1])),
    ],
    "salience.subset_salience": [
        ("kappa", lambda: salience.subset_salience([0, 0.1, NAN, 1])),
        ("kappa", lambda: salience.subset_salience([1, 0.1, 0.1, 1])),
        ("kappa", lambda: salience.subset_salience([0, 0.1, 1])),
    ],
    "salience.overlap_kernel": [
        ("x1", lambda: salience.overlap_kernel(spoilt(X), X, [0, 0.3, 1])),
        ("x1", lambda: salience.overlap_kernel(X + 0.5, X, [0, 0.3, 1])),
        ("x2", lambda: salience.overlap_kernel(X, X[:0], [0, 0.3, 1])),
        ("kappa", lambda: salience.overlap_kernel(X, X, [0, NAN, 1])),
        ("kappa", lambda: salience.overlap_kernel(X, X, [0, 0.3, 0.4, 1])),
    ],
    "salience.subset_kernel": [
        ("x2", lambda: salience.subset_kernel(X, spoilt(X), [0, 0.1, 0.2, 1])),
        ("kappa", lambda: salience.subset_kernel(X, X, [0, 0.1, NAN, 1])),
    ],
    "salience.features": [
        ("x", lambda: salience.features(spoilt(X), (2, 2), np.ones(4))),
        ("x", lambda: salience.features(X, (2, 1), np.ones(4))),
        ("x", lambda: salience.features(X - 1, (2, 2), np.ones(4))),
        ("x", lambda: salience.features(X[0], (2, 2), np.ones(4))),
        ("sizes", lambda: salience.features(X, (2, 2, 2), np.ones(8))),
        ("sizes", lambda: salience.features(X, (2, 2.5), np.ones(4))),
        ("weights", lambda: salience.features(X, (2, 2), np.ones(3))),
        ("weights", lambda: salience.features(X, (2, 2), np.ones(8))),
        ("weights", lambda: salience.features(X, (2, 2), spoilt(np.ones(4)))),
        ("weights", lambda: salience.features(X, (2, 2), spoilt(np.ones(4), -1))),
    ],
    "salience.conjunction_terms": [
        ("dual", lambda: salience.conjunction_terms(X, X, spoilt(np.ones(4)), np.ones(4))),
        ("dual", lambda: salience.conjunction_terms(X, X, np.ones(3), np.ones(4))),
        ("dual", lambda: salience.conjunction_terms(X, X, np.ones((4, 2)), np.ones(4))),
        ("weights", lambda: salience.conjunction_terms(X, X, np.ones(4), np.ones(2))),
        ("weights", lambda: salience.conjunction_terms(X, X, np.ones(4), spoilt(np.ones(4)))),
        ("x_train", lambda: salience.conjunction_terms(X, spoilt(X), np.ones(4), np.ones(4))),
    ],
    "salience.spectrum": [
        ("kappa", lambda: salience.spectrum([0, NAN, 1], (2, 3))),
        ("sizes", lambda: salience.spectrum([0, 0.3, 1], (2, 0))),
        ("sizes", lambda: salience.spectrum([0, 0.3, 1], (2, 2.5))),
        ("sizes", lambda: salience.spectrum([0, 0.3, 1], (2, NAN))),
    ],
    "salience.is_psd": [
        ("kappa", lambda: salience.is_psd([0, NAN, 1], (2, 3))),
        ("sizes", lambda: salience.is_psd([0, 0.3, 1], (2, -3))),
        ("tolerance", lambda: salience.is_psd([0, 0.3, 1], (2, 3), NAN)),
        ("tolerance", lambda: salience.is_psd([0, 0.3, 1], (2, 3), -1e-8)),
        ("tolerance", lambda: salience.is_psd([0, 0.3, 1], (2, 3), 1.0)),
    ],
    "salience.layers": [
        ("kappa", lambda: salience.layers([0, NAN, 1], salience.relu, 2)),
        ("kappa", lambda: salience.layers([0, 0.3, 0], salience.relu, 2)),
        ("kappa", lambda: salience.layers([0, 1.3, 1], salience.relu, 2)),
        ("kappa", lambda: salience.layers([0, -0.3, -1], salience.relu, 2)),
        ("depth", lambda: salience.layers([0, 0.3, 1], salience.relu, -1)),
        ("depth", lambda: salience.layers([0, 0.3, 1], salience.relu, 1.5)),
        ("layer_map", lambda: salience.layers([0, 0.3, 1], "relu", 2)),
    ],
    **{
        f"salience.{name}": [
            ("x", lambda f=f: f(np.array([0.3, NAN]))),
            ("x", lambda f=f: f(np.array([0.3, 1.2]))),
            ("x", lambda f=f: f(np.array([0.3, -2]))),
        ]
        for name, f in salience.LAYER_MAPS.items()
    },
    "salience.leaky_relu (slope)": [
        ("slope", lambda: salience.leaky_relu(np.array([0.3]), NAN)),
    ],
    "salience.gaussian (width)": [
        ("width", lambda: salience.gaussian(np.array([0.3]), -1.0)),
        ("width", lambda: salience.gaussian(np.array([0.3]), NAN)),
    ],
    "closed_forms.memorization_slope": [
        ("salience", lambda: closed_forms.memorization_slope(NAN, 1)),
        ("salience", lambda: closed_forms.memorization_slope(0.7, 1)),
        ("salience", lambda: closed_forms.memorization_slope([0.3, -2], 4)),
        ("n_anchors", lambda: closed_forms.memorization_slope(0.3, 0)),
        ("n_anchors", lambda: closed_forms.memorization_slope(0.3, -1)),
        ("n_anchors", lambda: closed_forms.memorization_slope(0.3, 1.5)),
    ],
    "closed_forms.addition": [
        ("salience", lambda: closed_forms.addition(NAN, VALUES, ANCHOR)),
        ("salience", lambda: closed_forms.addition(0.6, VALUES, ANCHOR)),
        ("salience", lambda: closed_forms.addition([0.2, 0.1, 0.1], VALUES, ANCHOR)),  # S(1..3; 3)
        ("values", lambda: closed_forms.addition(0.3, spoilt(VALUES), ANCHOR)),
        ("values", lambda: closed_forms.addition(0.3, VALUES[:, None], ANCHOR)),
        ("is_anchor", lambda: closed_forms.addition(0.3, VALUES, [0])),
        ("is_anchor", lambda: closed_forms.addition(0.3, VALUES, np.arange(5))),
        ("is_anchor", lambda: closed_forms.addition(0.3, VALUES, ANCHOR[:4])),
        ("is_anchor", lambda: closed_forms.addition(0.3, VALUES, np.zeros(5, bool))),
        ("k0", lambda: closed_forms.addition(0.3, VALUES, ANCHOR, "constant", NAN)),
    ],
    "closed_forms.item_values": [
        ("is_anchor", lambda: closed_forms.item_values(np.ones(5), VALUES, [0])),
        ("values", lambda: closed_forms.item_values(np.ones(5), spoilt(VALUES), ANCHOR)),
        ("machine", lambda: closed_forms.item_values(spoilt(np.ones(5)), VALUES, ANCHOR)),
    ],
    "closed_forms.invariance_margin": [
        ("k", lambda: closed_forms.invariance_margin(NAN)),
        ("k", lambda: closed_forms.invariance_margin([0.3, 2.0])),
        ("k", lambda: closed_forms.invariance_margin(-0.7)),
    ],
    "closed_forms.partial_exposure_margin": [
        ("k", lambda: closed_forms.partial_exposure_margin(NAN)),
        ("k", lambda: closed_forms.partial_exposure_margin(0.8)),
    ],
    "closed_forms.shortcut_bias": [
        ("s1", lambda: closed_forms.shortcut_bias(NAN, 0.1)),
        ("s2", lambda: closed_forms.shortcut_bias(0.1, np.inf)),
        ("n_values", lambda: closed_forms.shortcut_bias(0.1, 0.1, 0)),
        ("n_values", lambda: closed_forms.shortcut_bias(0.1, 0.1, 2.5)),
    ],
    "closed_forms.shortcut_boundary": [
        ("s1", lambda: closed_forms.shortcut_boundary([0.1, NAN])),
        ("s1", lambda: closed_forms.shortcut_boundary(0.5)),
        ("s1", lambda: closed_forms.shortcut_boundary(-0.1)),
        ("n_values", lambda: closed_forms.shortcut_boundary(0.1, n_values=-1)),
    ],
    "additivity.additivity": [
        ("yhat", lambda: additivity.additivity(X, spoilt(Y), TRAIN)),
        ("yhat", lambda: additivity.additivity(X, spoilt(Y, np.inf), TRAIN)),
        ("yhat", lambda: additivity.additivity(X, Y * 1j, TRAIN)),
        ("yhat|outputs", lambda: additivity.additivity(X, Y[:, None], TRAIN)),
        ("is_train", lambda: additivity.additivity(X, Y, [0, 1, 2])),
        ("is_train", lambda: additivity.additivity(X, Y, [0, 1, 2, 3])),
        ("is_train", lambda: additivity.additivity(X, Y, TRAIN[:3])),
        ("is_train", lambda: additivity.additivity(X, Y, TRAIN & ~TRAIN)),
        ("x", lambda: additivity.additivity(spoilt(X), Y, TRAIN)),
        ("x", lambda: additivity.additivity(X[:0], Y[:0], TRAIN[:0])),
    ],
    "additivity.additivity_by_split": [
        ("yhat", lambda: additivity.additivity_by_split(X, spoilt(Y), SPLITS, X)),
        ("x_train", lambda: additivity.additivity_by_split(X, Y, SPLITS, X[:, :1])),
        ("x_train", lambda: additivity.additivity_by_split(X, Y, SPLITS, X[:0])),
        ("splits", lambda: additivity.additivity_by_split(X, Y, spoilt(Y), X)),
        ("splits", lambda: additivity.additivity_by_split(X, Y, SPLITS[:3], X)),
    ],
    "additivity.conjunctions": [
        ("x_train", lambda: additivity.conjunctions(X[0])),
        ("x_train", lambda: additivity.conjunctions(X[:0])),
    ],
    "additivity.item_values": [
        ("coefficients", lambda: additivity.item_values(LABELS, spoilt(np.ones(5)), 0)),
        ("coefficients", lambda: additivity.item_values(LABELS, np.ones(4), 0)),
        ("coefficients", lambda: additivity.item_values(LABELS, np.ones((5, 3)), 0)),
        ("component", lambda: additivity.item_values(LABELS, np.ones(5), 2)),
        ("component", lambda: additivity.item_values(LABELS, np.ones(5), 0.5)),
        ("labels", lambda: additivity.item_values(LABELS[:4], np.ones(4), 0)),
        ("labels", lambda: additivity.item_values(LABELS[0], np.ones(5), 0)),
    ],
    "additivity.conjunction_types": [
        ("relevant", lambda: additivity.conjunction_types(CONTEXT, (0, 1))),
        ("relevant", lambda: additivity.conjunction_types(CONTEXT, (1, 3))),
        ("relevant", lambda: additivity.conjunction_types(CONTEXT, (1,))),
        ("labels", lambda: additivity.conjunction_types(CONTEXT[0], (1, 2))),
    ],
    "additivity.type_magnitudes": [
        ("coefficients", lambda: additivity.type_magnitudes(CONTEXT, np.ones(2), (1, 2))),
        ("coefficients", lambda: additivity.type_magnitudes(CONTEXT, spoilt(np.ones(3)), (1, 2))),
        ("relevant", lambda: additivity.type_magnitudes(CONTEXT, np.ones(3), (1, -1))),
    ],
    "additivity.similarity": [
        ("features", lambda: additivity.similarity(X, spoilt(np.ones((4, 2))))),
        ("features", lambda: additivity.similarity(X, np.ones((4, 2)) * 1j)),
        ("features", lambda: additivity.similarity(X, 1.0)),
        ("n_samples", lambda: additivity.similarity(X, np.ones((4, 2)), n_samples=0)),
        ("n_samples", lambda: additivity.similarity(X, np.ones((4, 2)), n_samples=-1)),
    ],
    "additivity.similarity_of_gram": [
        ("gram", lambda: additivity.similarity_of_gram(X, spoilt(K))),
        ("gram", lambda: additivity.similarity_of_gram(X, ASYMMETRIC)),
        ("gram", lambda: additivity.similarity_of_gram(X, INDEFINITE)),
        ("gram|products", lambda: additivity.similarity_of_gram(X, K[:3])),
        ("x", lambda: additivity.similarity_of_gram(X + 0.5, K)),
        ("n_samples", lambda: additivity.similarity_of_gram(X, K, n_samples=1.5)),
        ("splits", lambda: additivity.similarity_of_gram(X, K, splits=spoilt(Y))),
    ],
    "additivity.normalised": [
        ("similar", lambda: additivity.normalised(FLAT)),
        ("similar", lambda: additivity.normalised(FLAT._replace(values=spoilt(K, at=1)))),
        ("similar", lambda: additivity.normalised(FLAT._replace(x=X[:1], values=K[:1, :1]))),
    ],
    "additivity.structure": [
        ("similar", lambda: additivity.structure(FLAT._replace(values=spoilt(K, at=1)))),
        ("similar", lambda: additivity.structure(FLAT._replace(x=X[:3]))),
    ],
    "training_sets.scores": [
        ("kernel", lambda: training_sets.scores(spoilt(K), Y, TRAIN)),
        ("kernel", lambda: training_sets.scores(INDEFINITE, Y, TRAIN)),
        ("kernel", lambda: training_sets.scores(ASYMMETRIC, Y, TRAIN)),
        ("kernel", lambda: training_sets.scores(K * 1j, Y, TRAIN)),
        ("targets", lambda: training_sets.scores(K, spoilt(Y), TRAIN)),
        ("targets", lambda: training_sets.scores(K, np.stack([Y] * 3, axis=1), TRAIN)),
        ("is_train", lambda: training_sets.scores(K, Y, [0, 1])),
        ("is_train", lambda: training_sets.scores(K, Y, TRAIN[:3])),
        ("is_train", lambda: training_sets.scores(K, Y, TRAIN & ~TRAIN)),
        ("is_train", lambda: training_sets.scores(K, Y, TRAIN | ~TRAIN)),
    ],
    "training_sets.greedy": [
        ("kernel", lambda: training_sets.greedy(spoilt(K), Y, 1)),
        ("kernel", lambda: training_sets.greedy(INDEFINITE, Y, 1)),
        ("targets", lambda: training_sets.greedy(K, spoilt(Y), 1)),
        ("n", lambda: training_sets.greedy(K, Y, 0)),
        ("n", lambda: training_sets.greedy(K, Y, 1.5)),
        ("start", lambda: training_sets.greedy(K, Y, 1, [4])),
        ("start", lambda: training_sets.greedy(K, Y, 1, [-1])),
        ("start", lambda: training_sets.greedy(K, Y, 1, [1, 1])),
        ("start", lambda: training_sets.greedy(K, Y, 1, TRAIN)),
        ("start", lambda: training_sets.greedy(K, Y, 1, [0.5])),
    ],
    "training_sets.exchange": [
        ("kernel", lambda: training_sets.exchange(ASYMMETRIC, Y, [0])),
        ("targets", lambda: training_sets.exchange(K, spoilt(Y), [0])),
        ("rows", lambda: training_sets.exchange(K, Y, [])),
        ("rows", lambda: training_sets.exchange(K, Y, TRAIN)),
        ("rows", lambda: training_sets.exchange(K, Y, [0, 7])),
        ("rows", lambda: training_sets.exchange(K, Y, [0, 0])),
        ("rows", lambda: training_sets.exchange(K, Y, [0, 1, 2, 3])),
        ("most", lambda: training_sets.exchange(K, Y, [0], most=-1)),
    ],
    "training_sets.any_sum": [
        ("x", lambda: training_sets.any_sum(spoilt(X))),
        ("x", lambda: training_sets.any_sum(X[0])),
        ("x", lambda: training_sets.any_sum(X[:0])),
    ],
    "training_sets.regular_slope": [
        ("salience", lambda: training_sets.regular_slope(NAN, 1)),
        ("salience", lambda: training_sets.regular_slope(0.9, 1)),
        ("n_partners", lambda: training_sets.regular_slope(0.3, 0)),
        ("likeness", lambda: training_sets.regular_slope(0.3, 1, NAN)),
    ],
    "training_sets.best_anchors": [
        ("salience", lambda: training_sets.best_anchors(NAN, VALUES, 1)),
        ("salience", lambda: training_sets.best_anchors(0.8, VALUES, 1)),
        ("salience", lambda: training_sets.best_anchors([0.2, 0.3], VALUES, 1)),
        ("values", lambda: training_sets.best_anchors(0.3, spoilt(VALUES), 1)),
        ("values", lambda: training_sets.best_anchors(0.3, VALUES[None], 1)),
        ("n_anchors|anchors", lambda: training_sets.best_anchors(0.3, VALUES, 0)),
        ("n_anchors", lambda: training_sets.best_anchors(0.3, VALUES, 1.5)),
        ("bias", lambda: training_sets.best_anchors(0.3, VALUES, 1, "some")),
        ("k0", lambda: training_sets.best_anchors(0.3, VALUES, 1, "constant", NAN)),
    ],
    "training_sets.reweighted": [
        ("kappa", lambda: training_sets.reweighted([0, NAN, 1], [1, 0.5])),
        ("factors", lambda: training_sets.reweighted([0, 0.3, 1], [1, NAN])),
        ("factors", lambda: training_sets.reweighted([0, 0.3, 1], [1, -0.5])),
        ("factors", lambda: training_sets.reweighted([0, 0.3, 1], [0, 0])),
        ("factors", lambda: training_sets.reweighted([0, 0.3, 1], [0.5])),
        ("factors", lambda: training_sets.reweighted([0, 0.3, 1], 0.5)),
    ],
    "support.jacobian_rank": [
        ("jacobians", lambda: support.jacobian_rank(spoilt(np.eye(3)), 1e-5, 0)),
        ("jacobians", lambda: support.jacobian_rank(np.eye(3) * 1j, 1e-5, 0)),
        ("rtol", lambda: support.jacobian_rank(np.eye(3), NAN, 0)),
        ("rtol", lambda: support.jacobian_rank(np.eye(3), -1e-5, 0)),
        ("rtol", lambda: support.jacobian_rank(np.eye(3), 1.0, 0)),
        ("atol", lambda: support.jacobian_rank(np.eye(3), 1e-5, NAN)),
        ("atol", lambda: support.jacobian_rank(np.eye(3), 1e-5, -1)),
    ],
    "support.audit": [
        ("slots", lambda: audit(slots=spoilt(SLOTS))),
        ("slots", lambda: audit(slots=SLOTS * 1j)),
        ("slots", lambda: audit(slots=SLOTS[0, 0, 0])),
        ("partners", lambda: audit(partners=spoilt(TUPLES, at=-1))),
        ("partners", lambda: audit(partners=lambda i: spoilt(TUPLES[i], at=-1))),
        ("partners", lambda: audit(partners=TUPLES[:, :, ::-1])),  # slots in another order
        ("partners", lambda: audit(partners=lambda i: (SLOTS[i][None], np.zeros((2, 4, 3))))),
        ("component", lambda: audit(component=-1)),
        ("component", lambda: audit(component=0.0)),
        ("rtol", lambda: audit(rtol=NAN)),
        ("rtol", lambda: audit(rtol=-1e-5)),
        ("atol", lambda: audit(atol=NAN)),
        ("atol", lambda: audit(atol=-1.0)),
        ("where", lambda: audit(where=WHERE & False)),
        ("where", lambda: audit(where=WHERE & np.array([[True], [False]]))),
        ("where", lambda: audit(where=np.array([0, 1]))),
        ("where", lambda: audit(where=1 * WHERE)),
        ("where", lambda: audit(where=WHERE[:, :3])),
        ("where", lambda: audit(where=WHERE.T)),
        ("unseen", lambda: audit(condition="relaxed", unseen=spoilt(TUPLES, at=-1))),
        (
            "unseen",
            lambda: audit(
                composition=behind_a_root,
                slots=SLOTS[1:],
                partners=np.stack([SLOTS[1:], 1 + SLOTS[1:]], axis=1)[:, None],
                condition="relaxed",
                unseen=np.stack([SLOTS[1:], 0 * SLOTS[1:]], axis=1)[:, None],
                atol=10.0,
            ),
        ),
    ],
    "support.coverage": [
        ("p", lambda: support.coverage(spoilt(LATENTS), LATENTS)),
        ("q", lambda: support.coverage(LATENTS, spoilt(LATENTS))),
        ("q", lambda: support.coverage(LATENTS, spoilt(LATENTS, np.inf))),
        ("sizes", lambda: support.coverage(LATENTS, LATENTS, sizes=(1,))),
        ("sizes", lambda: support.coverage(LATENTS, LATENTS, sizes=(0, 2))),
        ("length", lambda: support.coverage(LATENTS, LATENTS, length=NAN)),
        ("kinds", lambda: support.coverage(LATENTS, LATENTS, kinds=["continuous"])),
    ],
    "support.latents.space": [
        ("p", lambda: latents.space(LATENTS[0], LATENTS)),
        ("P", lambda: latents.space(LATENTS[:, :1], LATENTS)),
        ("q", lambda: latents.space(LATENTS, spoilt(LATENTS))),
        ("kinds", lambda: latents.space(LATENTS, LATENTS, ["periodic"])),
        ("kind", lambda: latents.space(LATENTS, LATENTS, ["periodic", "ordinal"])),
        ("period", lambda: latents.space(LATENTS, LATENTS, [("periodic", 0.0), None])),
    ],
    "support.latents.spread_out": [
        ("most", lambda: latents.spread_out(latents.space(LATENTS, LATENTS), LATENTS, 0)),
    ],
    "support.identification.leftover": [
        ("p", lambda: left_open(latents_P=spoilt(LATENTS))),
        ("length", lambda: left_open(length=NAN)),
        ("noise", lambda: left_open(noise=0.0)),
        ("sizes", lambda: left_open(sizes=(2,))),
    ],
    "support.identification.identify": [
        ("p", lambda: identified(latents_P=spoilt(LATENTS))),
        ("q", lambda: identified(latents_Q=spoilt(LATENTS))),
        ("P", lambda: identified(latents_P=LATENTS[:, :1])),
        ("length", lambda: identified(length=NAN)),
        ("length", lambda: identified(length=0.0)),
        ("noise", lambda: identified(noise=-1.0)),
        ("noise", lambda: identified(noise=NAN)),
        ("training_error", lambda: identified(training_error=2.0)),
        ("n_points", lambda: identified(n_points=0)),
        ("n_positions", lambda: identified(n_positions=0.5)),
        ("sizes", lambda: identified(sizes=(2,))),
        ("sizes", lambda: identified(sizes=(1, 2))),
        ("columns", lambda: identified(columns=((0,),))),
        ("columns", lambda: identified(columns=((0,), (5,)))),
        ("components", lambda: identified(components=())),
        ("components", lambda: identified(components=(np.sin, lambda z: z[:1]))),
        ("components", lambda: identified(components=(np.sin, lambda z: 0 * z + NAN))),
        ("kind", lambda: identified(kinds=("continuous", "ordinal"))),
        ("composition", lambda: identified(composition=lambda s: 1.0)),
        ("composition", lambda: identified(composition=lambda s: 0 * s[0])),
        ("Jacobian", lambda: identified(composition=lambda s: jnp.sqrt(s[0] - s[0]) + s[1])),
    ],
    "factor_tables.held": [
        ("p", lambda: factor_tables.held(spoilt(LATENTS), [[0, 1]], (2, 2))),
        ("p", lambda: factor_tables.held([[0, 2]], [[0, 1]], (2, 2))),
        ("q", lambda: factor_tables.held([[0, 1]], [[0, -1]], (2, 2))),
        ("q", lambda: factor_tables.held([[0, 1]], np.zeros((0, 2)), (2, 2))),
        ("p", lambda: factor_tables.held([[0, 0.5]], [[0, 1]], (2, 2))),
        ("sizes", lambda: factor_tables.held([[0, 1]], [[0, 1]], (2, 2, 2))),
    ],
    "factor_tables.grid": [
        ("sizes", lambda: factor_tables.grid((2, 0))),
        ("sizes", lambda: factor_tables.grid((2, 2.5))),
        ("sizes", lambda: factor_tables.grid(())),
        ("sizes", lambda: factor_tables.grid((10**6, 10**6, 10**6, 10**6))),
    ],
    "support.certificate.jumps": [
        ("starts", lambda: certificate.jumps(np.sin, spoilt(LATENTS), LATENTS)),
        ("stops", lambda: certificate.jumps(np.sin, LATENTS, spoilt(LATENTS))),
        ("stops", lambda: certificate.jumps(np.sin, LATENTS, LATENTS[:1])),
        ("starts", lambda: certificate.jumps(np.sin, LATENTS[:0], LATENTS[:0])),
    ],
    "support.audit_latents": [
        ("p", lambda: audit_latents(latents_P=spoilt(LATENTS))),
        ("q", lambda: audit_latents(latents_Q=spoilt(LATENTS))),
        ("sizes", lambda: audit_latents(sizes=(2,))),
        ("components", lambda: audit_latents(components=())),
        ("components", lambda: audit_latents(components=(np.sin, lambda z: z[:1]))),
        ("n_values", lambda: audit_latents(n_values=0)),
        ("n_partners", lambda: audit_latents(n_partners=2.5)),
        ("tested", lambda: audit_latents(tested=[0, 10])),
        ("tested", lambda: audit_latents(tested=[0.5])),
        ("tested", lambda: audit_latents(tested=[True] * 10)),
    ],
    "support.audit_support": [
        ("slots", lambda: audit_support(slots=[], partners=[])),
        ("partners", lambda: audit_support(slots=[SLOTS])),
        ("slots", lambda: audit_support(slots=[SLOTS], partners=[TUPLES])),  # of two components
        ("partners", lambda: audit_support(partners=[TUPLES])),
        ("where", lambda: audit_support(where=[WHERE])),
        ("where", lambda: audit_support(where=WHERE[0, 0])),
        ("unseen", lambda: audit_support(condition="relaxed", unseen=[TUPLES])),
    ],
    "support.jacobians.blocks": [
        ("component", lambda: jacobians.blocks(add, (SLOTS, SLOTS), -1, True)),
        ("component", lambda: jacobians.blocks(add, (SLOTS, SLOTS), 2, True)),
        ("points", lambda: jacobians.blocks(add, (spoilt(SLOTS), SLOTS), 0, True)),
        ("points", lambda: jacobians.blocks(add, (SLOTS, SLOTS[:1]), 0, True)),
    ],
    "support.jacobians.check_pixelwise": [
        ("pixelwise", lambda: jacobians.check_pixelwise(mixing, (SLOTS, SLOTS), 1)),
    ],
    "support.jacobians.triangular": [
        ("matrices", lambda: jacobians.triangular(spoilt(np.eye(3)))),
        ("matrices", lambda: jacobians.triangular(np.ones(3))),
    ],
    "support.jacobians.singular_values": [
        ("matrices", lambda: jacobians.singular_values(spoilt(np.eye(3)))),
        ("matrices", lambda: jacobians.singular_values(np.ones(3))),
    ],
    "support.jacobians.spectrum": [("matrices", lambda: jacobians.spectrum(spoilt(np.eye(3))))],
    "support.certificate.certificate": [
        ("latents", lambda: certify(latents=spoilt(LATENTS))),
        ("latents", lambda: certify(latents=LATENTS * 1j)),
        ("latents", lambda: certify(latents=np.zeros((3, 2), int))),
        ("latents", lambda: certify(latents=LATENTS[:1])),  # nothing varies
        ("fit_limit", lambda: certify(fit_limit=NAN)),
        ("fit_limit", lambda: certify(fit_limit=-0.1)),
        ("fit_limit", lambda: certify(fit_limit=np.inf)),
        ("jacobian_limit", lambda: certify(jacobian_limit=NAN)),
        ("kinds", lambda: certify(kinds=["continuous"])),
        ("categories", lambda: certify(kinds=["categorical"] * 2)),
        ("sizes", lambda: certify(composition=add, components=(jnp.sin,) * 2, sizes=(2, 2))),
        ("support", lambda: certify(support=SOUND._replace(components=()))),
        ("truth", lambda: certify(truth=lambda z: 0 * z + NAN)),
    ],
    "support.certificate.jacobian_errors": [
        ("latents", lambda: derivative_error(spoilt(LATENTS))),
        ("latents", lambda: derivative_error(LATENTS[0])),
        ("dims", lambda: derivative_error(dims=(2,))),
        ("dims", lambda: derivative_error(dims=(-1,))),
        ("truth", lambda: derivative_error(truth=jnp.round)),  # no derivative anywhere
    ],
    "support.design.design": [
        ("slots", lambda: designed(slots=spoilt(SLOTS))),
        ("candidates", lambda: designed(candidates=spoilt(TUPLES[0]))),
        ("rtol", lambda: designed(rtol=NAN)),
        ("atol", lambda: designed(atol=NAN)),
        ("atol", lambda: designed(atol=-1.0)),
        ("most", lambda: designed(most=0)),
        ("most", lambda: designed(most=1.5)),
        ("where", lambda: designed(where=WHERE & False)),
        ("where", lambda: designed(where=[0, 1])),
        ("where", lambda: designed(where=WHERE, pixelwise=False)),
        ("component", lambda: designed(component=-1)),
        ("composition", lambda: designed(composition=root, slots=0 * SLOTS)),
        ("pixelwise", lambda: designed(composition=mixing, component=1)),
    ],
    "contrasts.jacobians": [
        ("x", lambda: contrasts.jacobians(jnp.sin, spoilt(INPUTS))),
        ("x", lambda: contrasts.jacobians(jnp.sin, INPUTS[:0])),
        ("x", lambda: contrasts.jacobians(jnp.sin, np.ones((4, 3), int))),
        ("x", lambda: contrasts.jacobians(jnp.sin, INPUTS * 1j)),
    ],
    "contrasts.hessians": [
        ("x", lambda: contrasts.hessians(jnp.sin, spoilt(INPUTS))),
        ("x", lambda: contrasts.hessians(jnp.sin, INPUTS[:0])),
    ],
    "contrasts.compositional_contrast": [
        ("jacobians", lambda: contrasts.compositional_contrast(spoilt(JAC))),
        ("jacobians", lambda: contrasts.compositional_contrast(JAC * 1j)),
        ("jacobians", lambda: contrasts.compositional_contrast(JAC[:0])),
    ],
    "contrasts.block_contrast": [
        ("jacobians", lambda: contrasts.block_contrast(spoilt(JAC), 2)),
        ("n_parts", lambda: contrasts.block_contrast(JAC, 0)),
        ("n_parts", lambda: contrasts.block_contrast(JAC, 3)),
        ("n_parts", lambda: contrasts.block_contrast(JAC, 2.0)),
    ],
    "contrasts.hessian_l0": [
        ("hessians", lambda: contrasts.hessian_l0(spoilt(HESS))),
        ("hessians", lambda: contrasts.hessian_l0(HESS[:0])),
        ("hessians", lambda: contrasts.hessian_l0(HESS.T)),
    ],
    "contrasts.hessian_l1": [("hessians", lambda: contrasts.hessian_l1(spoilt(HESS)))],
    "contrasts.hessian_offblock": [
        ("hessians", lambda: contrasts.hessian_offblock(spoilt(HESS), 2)),
        ("n_parts", lambda: contrasts.hessian_offblock(HESS, -1)),
    ],
    "ntk.empirical": [
        ("x1", lambda: kernel(x1=spoilt(INPUTS))),
        ("x1", lambda: kernel(x1=INPUTS[:0])),
        ("x1", lambda: kernel(x1={"a": INPUTS, "b": INPUTS[:2]})),
        ("x2", lambda: kernel(x2=spoilt(INPUTS))),
        ("x2", lambda: kernel(x2=INPUTS[:0])),
        ("x2", lambda: kernel(x2=np.ones((2, 1, 3)))),
        ("params", lambda: kernel(params=spoilt(W), f=lambda w, x: jnp.tanh(x @ w))),
        ("params", lambda: kernel(params=W * 1j, f=lambda w, x: jnp.real(x @ w))),
        ("params", lambda: kernel(params={"w": W, "z": 1j}, f=lambda p, x: x @ p["w"])),
        ("outputs", lambda: kernel(f=lambda w, x: x @ w * 1j)),
        ("outputs", lambda: kernel(f=lambda w, x: (x @ w).astype(int))),
        ("tile", lambda: kernel(tile=0)),
        ("tile", lambda: kernel(tile=-2)),
        ("tile", lambda: kernel(tile=1.5)),
        ("memory", lambda: kernel(memory=0)),
        ("memory", lambda: kernel(memory=NAN)),
        ("devices", lambda: kernel(devices=[])),
        ("precision", lambda: kernel(precision="low")),
    ],
    "ntk.jacobian": [
        ("x", lambda: ntk.jacobian(linear, W, spoilt(INPUTS))),
        ("x", lambda: ntk.jacobian(linear, W, INPUTS[:0])),
        ("params", lambda: ntk.jacobian(linear, spoilt(W), INPUTS)),
        ("params", lambda: ntk.jacobian(linear, W * 1j, INPUTS)),
    ],
    "ntk.linearised.kernel_vector_product": [
        ("v", lambda: product(np.ones((2, 4)))),  # transposed
        ("v", lambda: product(np.ones(8))),
        ("v", lambda: product(np.ones((4, 2, 1)))),
        ("v", lambda: product(np.ones((3, 2)))),
        ("v", lambda: product(np.ones((4, 2)) * 1j)),
        ("v", lambda: product(spoilt(np.ones((4, 2))))),
        ("x1", lambda: product(np.ones((4, 2)), x1=spoilt(INPUTS), x2=INPUTS)),
        ("x1", lambda: product(np.ones((4, 2)), x1=INPUTS[:0], x2=INPUTS)),
        ("x2", lambda: product(np.ones((4, 2)), x2=np.ones((4, 1, 3)))),
        ("batch", lambda: product(np.ones((4, 2)), batch=0)),
        ("batch", lambda: product(np.ones((4, 2)), batch=-1)),
    ],
    "ntk.ntk_regression": [
        ("y_train", lambda: regression(np.ones((2, 4)))),  # transposed
        ("y_train", lambda: regression(np.ones(8))),
        ("y_train", lambda: regression(spoilt(np.ones((4, 2))))),
        ("x_train", lambda: regression(np.ones((4, 2)), x=spoilt(INPUTS))),
        ("x_train", lambda: regression(np.ones((0, 2)), x=INPUTS[:0])),
        ("x_test", lambda: regression(np.ones((4, 2)), x_test=spoilt(INPUTS))),
        ("penalty", lambda: regression(np.ones((4, 2)), penalty=-1.0)),
        ("penalty", lambda: regression(np.ones((4, 2)), penalty=NAN)),
        ("form", lambda: regression(np.ones((4, 2)), form="per_output")),
        ("form", lambda: regression(np.ones((4, 2)), form="mean_trace")),
    ],
    "ntk.drift": [
        ("before", lambda: ntk.drift(spoilt(K), K)),
        ("before", lambda: ntk.drift(0 * K, K)),
        ("after", lambda: ntk.drift(K, spoilt(K))),
        ("after", lambda: ntk.drift(K, K[:, :1])),
    ],
    "ntk.alignment": [
        ("a", lambda: ntk.alignment(spoilt(K), K)),
        ("a", lambda: ntk.alignment(0 * K, K)),
        ("b", lambda: ntk.alignment(K, np.ones((2, 8)))),
        ("b", lambda: ntk.alignment(K, K * 1j)),
    ],
    "ntk.target_alignment": [
        ("kernel", lambda: ntk.target_alignment(spoilt(K), Y)),
        ("kernel", lambda: ntk.target_alignment(K[:3], Y)),
        ("kernel", lambda: ntk.target_alignment(ASYMMETRIC, Y)),
        ("kernel", lambda: ntk.target_alignment(np.ones((4, 4, 2)), np.ones((4, 2)))),
        ("y", lambda: ntk.target_alignment(K, spoilt(Y))),
        ("y", lambda: ntk.target_alignment(K, Y[None])),
        ("y", lambda: ntk.target_alignment(np.ones((4, 4, 2, 2)), np.ones((2, 4)))),
        ("y", lambda: ntk.target_alignment(K, 0 * Y)),
    ],
    "ntk.plan.plan": [
        ("tile", lambda: planned(tile=0)),
        ("memory", lambda: planned(memory=-1.0)),
        ("memory", lambda: planned(memory=NAN)),
        ("devices", lambda: planned(devices=[])),
        ("x1", lambda: planned(x1=INPUTS[:0])),
        ("x2", lambda: planned(x2=INPUTS[0])),
    ],
    "ntk.plan.choose": [
        ("tile", lambda: chosen(tile=0)),
        ("n1", lambda: chosen(n1=0)),
        ("n2", lambda: chosen(n2=-1)),
        ("n_devices", lambda: chosen(n_devices=0)),
        ("memory", lambda: chosen(memory=NAN)),
        ("form|use one of", lambda: chosen(form="diagonal")),
        ("algorithm|use one of", lambda: chosen(algorithm="fast")),
    ],
    "ntk.plan.available": [("devices", lambda: plan.available([]))],
    "ntk.plan.facts": [
        ("params", lambda: plan.facts(linear, W * 1j, INPUTS)),
        ("x", lambda: plan.facts(linear, W, INPUTS[0, 0])),
    ],
    "ntk.functions.single": [
        ("outputs", lambda: functions.single(lambda w, x: x @ w * 1j, W, INPUTS[0])),
        ("outputs", lambda: functions.single(lambda w, x: jnp.sum(x), W, INPUTS[0])),
    ],
    "ntk.layers.trace": [
        ("outputs", lambda: layers.trace(lambda w, x: x @ w * 1j, W, INPUTS[0])),
    ],
    "ntk.layers.run": [
        ("leaves", lambda: traced_run(leaves=[])),
        ("nudges", lambda: traced_run(nudges=[])),
        ("nudges", lambda: traced_run(nudges=[np.zeros((1, 1))])),
    ],
    "ntk.layers.cotangent": [
        ("d", lambda: layers.cotangent(LAYER, np.ones((3, 2, 1)))),
    ],
    "wide.relu_mlp": [
        ("x1", lambda: wide.relu_mlp(spoilt(NNGP_INPUTS))),
        ("x1", lambda: wide.relu_mlp(NNGP_INPUTS[:0])),
        ("x1", lambda: wide.relu_mlp(NNGP_INPUTS[:, :0])),
        ("x1", lambda: wide.relu_mlp(NNGP_INPUTS[0])),
        ("x1", lambda: wide.relu_mlp(NNGP_INPUTS * 1j)),
        ("x2", lambda: wide.relu_mlp(NNGP_INPUTS, spoilt(NNGP_INPUTS))),
        ("x2", lambda: wide.relu_mlp(NNGP_INPUTS, NNGP_INPUTS[:, :2])),
        ("depth", lambda: wide.relu_mlp(NNGP_INPUTS, None, -1)),
        ("depth", lambda: wide.relu_mlp(NNGP_INPUTS, None, 1.5)),
        ("weight_var", lambda: wide.relu_mlp(NNGP_INPUTS, None, 1, -1.0)),
        ("weight_var", lambda: wide.relu_mlp(NNGP_INPUTS, None, 1, NAN)),
        ("bias_var", lambda: wide.relu_mlp(NNGP_INPUTS, None, 1, 1.0, -1e-3)),
    ],
    "stats.median_and_interval": [
        ("values", lambda: stats.median_and_interval([])),
        ("values", lambda: stats.median_and_interval([[1.0]])),
        ("values", lambda: stats.median_and_interval([1.0, np.nan])),
        ("level", lambda: stats.median_and_interval([1.0], 95)),
    ],
    "stats.mean_and_interval": [
        ("values", lambda: stats.mean_and_interval([])),
        ("values", lambda: stats.mean_and_interval(1.0)),
    ],
    "search.guess_and_check": [
        ("bands", lambda: guessed(bands=[[0.1, NAN]])),
        ("bands", lambda: guessed(bands=[0.1, 0.5])),
        ("bands", lambda: guessed(bands=[[0.1, 0.2, 0.5]])),
        ("n_draws", lambda: guessed(n_draws=0)),
        ("n_keep", lambda: guessed(n_keep=0)),
        ("batch", lambda: guessed(batch=3)),
        ("batch", lambda: guessed(batch=1.5)),
    ],
    "search.metropolis": [
        ("params", lambda: walked(spoilt(W))),
        ("bands", lambda: walked(bands=[[0.1, NAN]])),
        ("bands", lambda: walked(bands=0.5)),
        ("bands", lambda: walked(bands=[[0.0, 0.1]])),
        ("n_steps", lambda: walked(n_steps=0)),
        ("n_steps", lambda: walked(n_steps=NAN)),
        ("scale", lambda: walked(scale=0.0)),
        ("scale", lambda: walked(scale=1.5)),
    ],
    "stats.sign_flip_test": [
        ("values", lambda: stats.sign_flip_test([1.0, NAN, 2.0], [0, 1, 2])),
        ("values", lambda: stats.sign_flip_test([[1.0], [2.0]], [0, 1])),
        ("clusters", lambda: stats.sign_flip_test([1.0, 2.0], [0, 1, 2])),
        ("clusters", lambda: stats.sign_flip_test([1.0, 2.0], [0, 0])),
        ("seed", lambda: stats.sign_flip_test([1.0, 2.0], [0, 1], seed=-1)),
    ],
    "stats.mean_and_error": [
        ("values", lambda: stats.mean_and_error([])),
        ("values", lambda: stats.mean_and_error(1.0)),
        ("values", lambda: stats.mean_and_error([1j, 2])),
    ],
    "stats.largest_share": [
        ("n", lambda: stats.largest_share(0, 0)),
        ("failures", lambda: stats.largest_share(3, 2)),
        ("level", lambda: stats.largest_share(0, 2, 95)),
    ],
    "stats.share_interval": [
        ("n", lambda: stats.share_interval(0, 0)),
        ("failures", lambda: stats.share_interval(3, 2)),
        ("level", lambda: stats.share_interval(0, 2, 95)),
    ],
    "stats.kendall_tau_b": [
        ("x", lambda: stats.kendall_tau_b([1, NAN, 2], [1, 2, 3])),
        ("y", lambda: stats.kendall_tau_b([1, 2, 3], [1, NAN, 2])),
        ("strata", lambda: stats.kendall_tau_b([1, 2, 3], [1, 2, 3], ["a", "b"])),
    ],
    "stats.bootstrap": [
        ("columns", lambda: stats.bootstrap(np.mean)),
        ("columns", lambda: stats.bootstrap(np.mean, [])),
        ("columns", lambda: stats.bootstrap(stats.kendall_tau_b, [1, 2], [1, 2, 3])),
        ("columns", lambda: stats.bootstrap(np.mean, [1, NAN, 2])),
        ("n", lambda: stats.bootstrap(np.mean, [1, 2], n=0)),
        ("level", lambda: stats.bootstrap(np.mean, [1, 2], level=95)),
        ("level", lambda: stats.bootstrap(np.mean, [1, 2], level=NAN)),
    ],
    "stats.jackknife": [
        ("values", lambda: stats.jackknife(np.mean, [])),
        ("values", lambda: stats.jackknife(np.mean, 1.0)),
        ("values", lambda: stats.jackknife(np.mean, [1, NAN, 2])),
    ],
    "factorization.binary": [
        ("z1", lambda: factorization.binary(X[:, :1], X)),
        ("z2", lambda: factorization.binary(X, spoilt(X))),
        ("z1", lambda: factorization.binary(X + 0.5, X)),
        ("k1", lambda: factorization.binary(X, X, -1.0)),
        ("k2", lambda: factorization.binary(X, X, 1.0, NAN)),
    ],
    "factorization.factorised": [
        ("z1", lambda: factorization.factorised(X[0], X)),
        ("z2", lambda: factorization.factorised(X, spoilt(X))),
        ("lx", lambda: factorization.factorised(X, X, 0.0)),
        ("ly", lambda: factorization.factorised(X, X, 1.0, NAN)),
    ],
    "factorization.radial": [("length", lambda: factorization.radial(X, X, -1.0))],
    "factorization.additive": [
        ("z1", lambda: factorization.additive(X[:0], X)),
        ("ly", lambda: factorization.additive(X, X, 1.0, np.inf)),
    ],
    "factorization.metric": [
        ("activations", lambda: factorization.metric(spoilt(GRID))),
        ("activations", lambda: factorization.metric(GRID[0])),
        ("activations", lambda: factorization.metric(GRID[:1])),
        ("activations", lambda: factorization.metric(GRID * 1j)),
        ("where", lambda: factorization.metric(GRID, HELD_OUT.T)),
        ("where", lambda: factorization.metric(GRID, HELD_OUT & ~HELD_OUT)),
        ("where", lambda: factorization.metric(GRID, HELD_OUT.astype(int))),
    ],
    "factorization.grid_kernel": [
        ("activations", lambda: factorization.grid_kernel(spoilt(GRID))),
        ("cosine", lambda: factorization.grid_kernel(GRID, 1)),
    ],
    "factorization.schmidt_values": [
        ("kernel", lambda: factorization.schmidt_values(spoilt(PRODUCT), 4, 3)),
        ("kernel", lambda: factorization.schmidt_values(PRODUCT, 4, 4)),
        ("kernel", lambda: factorization.schmidt_values(PRODUCT[:4], 4, 3)),
        ("n_y", lambda: factorization.schmidt_values(PRODUCT, 4, 3.5)),
    ],
    "factorization.operator_schmidt": [
        ("kernel", lambda: factorization.operator_schmidt(np.triu(PRODUCT), 4, 3)),
        ("kernel", lambda: factorization.operator_schmidt(0 * PRODUCT, 4, 3)),
        ("n_x", lambda: factorization.operator_schmidt(PRODUCT, 0, 3)),
    ],
    "factorization.two_way": [
        ("activations", lambda: factorization.two_way(spoilt(GRID))),
        ("activations", lambda: factorization.two_way(GRID[..., :0])),
    ],
    "factorization.additive_part": [
        ("activations", lambda: factorization.additive_part(GRID[..., 0])),
        ("where", lambda: factorization.additive_part(GRID, HELD_OUT[:2])),
    ],
    "factorization.additive_share": [
        ("activations", lambda: factorization.additive_share(spoilt(GRID))),
        ("where", lambda: factorization.additive_share(GRID, HELD_OUT[:, :2])),
    ],
    "factorization.selective_share": [
        ("activations", lambda: factorization.selective_share(spoilt(GRID))),
        ("level", lambda: factorization.selective_share(GRID, 0.3)),
        ("level", lambda: factorization.selective_share(GRID, 90)),
    ],
    "factorization.explained": [
        ("outputs", lambda: factorization.explained(spoilt(GRID), GRID)),
        ("account", lambda: factorization.explained(GRID, GRID[..., :1])),
        ("account", lambda: factorization.explained(GRID, spoilt(GRID))),
    ],
    "factorization.shared_sum": [
        ("outputs", lambda: factorization.shared_sum(spoilt(GRID), HELD_OUT)),
        ("is_train", lambda: factorization.shared_sum(GRID, HELD_OUT.T)),
        ("is_train", lambda: factorization.shared_sum(GRID, HELD_OUT & ~HELD_OUT)),
    ],
    "factorization.isolated": [
        ("codes", lambda: factorization.isolated(spoilt(CODES), CODES, 3)),
        ("train_codes", lambda: factorization.isolated(CODES, CODES[:, :4], 3)),
        ("train_codes", lambda: factorization.isolated(CODES, CODES[:0], 3)),
        ("split", lambda: factorization.isolated(CODES, CODES, 6)),
    ],
    "factorization.superposition": [
        ("outputs", lambda: factorization.superposition(spoilt(GRID), GRID, GRID)),
        ("kernel", lambda: factorization.superposition(GRID, GRID, GRID[:2])),
        ("truth", lambda: factorization.superposition(GRID, spoilt(GRID), GRID)),
        ("where", lambda: factorization.superposition(GRID, GRID, GRID, HELD_OUT.T)),
    ],
    "geometry.pullback": [
        ("z", lambda: geometry.pullback(jnp.sin, spoilt(LATENTS))),
        ("z", lambda: geometry.pullback(jnp.sin, np.ones((3, 2), int))),
    ],
    "geometry.grid_tensor": [
        ("activations", lambda: geometry.grid_tensor(spoilt(GRID))),
        ("activations", lambda: geometry.grid_tensor(GRID[:, :1])),
    ],
    "geometry.volume_element": [
        ("tensor", lambda: geometry.volume_element(np.ones((3, 2)))),
        ("tensor", lambda: geometry.volume_element(spoilt(np.ones((2, 2))))),
    ],
    "geometry.rank_map": [
        ("rtol", lambda: geometry.rank_map(jnp.sin, LATENTS, 2.0)),
        ("z", lambda: geometry.rank_map(jnp.sin, LATENTS[0])),
    ],
    "geometry.probe": [
        ("activations", lambda: geometry.probe(spoilt(CODES), np.ones((4, 2)))),
        ("targets", lambda: geometry.probe(CODES, np.full((4, 2), NAN))),
        ("targets", lambda: geometry.probe(CODES, np.ones(4))),
        ("targets", lambda: geometry.probe(CODES, np.ones((3, 2)))),
        ("is_fitted", lambda: geometry.probe(CODES, np.ones((4, 2)), SOME[:3])),
        ("is_fitted", lambda: geometry.probe(CODES, np.ones((4, 2)), [0, 1])),
    ],
    "geometry.principal_components": [
        ("activations", lambda: geometry.principal_components(spoilt(CODES))),
        ("activations", lambda: geometry.principal_components(CODES[:1])),
        ("activations", lambda: geometry.principal_components(CODES[0])),
        ("components", lambda: geometry.principal_components(CODES, 0)),
        ("components", lambda: geometry.principal_components(CODES, 1.5)),
    ],
    "geometry.effective_rank": [
        ("activations", lambda: geometry.effective_rank(spoilt(CODES))),
        ("activations", lambda: geometry.effective_rank(CODES[:1])),
        ("rtol", lambda: geometry.effective_rank(CODES, 1.0)),
        ("share", lambda: geometry.effective_rank(CODES, share=99)),
    ],
    "ntk.linearised.linearised_fit": [
        ("params", lambda: fitted(params=spoilt(W))),
        ("x_train", lambda: fitted(x_train=spoilt(INPUTS))),
        ("x_test", lambda: fitted(x_test=spoilt(INPUTS))),
        ("y_train", lambda: fitted(y_train=np.full((4, 2), NAN))),
        ("y_train", lambda: fitted(y_train=np.ones((2, 4)))),
        ("y_train", lambda: fitted(y_train=np.ones(4))),
        ("tolerance", lambda: fitted(tolerance=0.0)),
        ("tolerance", lambda: fitted(tolerance=5)),
        ("most_iterations", lambda: fitted(most_iterations=0)),
        ("batch", lambda: fitted(batch=2.5)),
    ],
    "metrics.ssim": [
        ("yhat", lambda: metrics.ssim(np.ones((2, 8, 8)), np.ones((8, 8)))),
        ("window", lambda: metrics.ssim(np.ones((5, 5)), np.ones((5, 5)))),
        ("data_range", lambda: metrics.ssim(np.ones((8, 8)), np.ones((8, 8)), 0.0)),
    ],
    "metrics.mse": [
        ("yhat", lambda: metrics.mse(np.ones((4, 1)), np.ones(4))),
        ("yhat", lambda: metrics.mse(np.ones((4, 2)), np.ones((1, 2)))),
        ("y", lambda: metrics.mse(np.ones((0, 2)), np.ones((0, 2)))),
        ("y", lambda: metrics.mse(np.ones((4, 2)) * 1j, np.ones((4, 2)))),
    ],
    "metrics.r2_uniform": [
        ("y", lambda: metrics.r2_uniform(np.ones((0, 2)), np.ones((0, 2)))),
        ("y", lambda: metrics.r2_uniform(np.ones((4, 2)) * 1j, np.ones((4, 2)))),
    ],
    "metrics.r2_variance_weighted": [
        ("y", lambda: metrics.r2_variance_weighted(np.ones((0, 2)), np.ones((0, 2)))),
    ],
    "metrics.batched": [
        ("yhat", lambda: metrics.batched(metrics.mse, np.ones((4, 2)), np.ones((6, 2)), 2)),
        ("y", lambda: metrics.batched(metrics.mse, np.ones((0, 2)), np.ones((0, 2)), 2)),
    ],
    "dependence.parts": [
        ("n", lambda: dependence.parts((4,), 3, 0)),
        ("n", lambda: dependence.parts((4,), 0, 0)),
        ("axis", lambda: dependence.parts((4,), 2, 1)),
        ("shape", lambda: dependence.parts((4, 0), 2, 0)),
    ],
    "dependence.gradient_dependence": [
        ("params", lambda: depends(params=spoilt(W))),
        ("x", lambda: depends(x=spoilt(INPUTS))),
        ("x", lambda: depends(x=INPUTS[:0])),
        ("x", lambda: depends(x=INPUTS.astype(int))),
        ("f", lambda: depends(f=lambda w, x: jnp.sum(x @ w))),
        ("f gives NaN", lambda: depends(f=all_nan)),
        ("f has NaN", lambda: depends(f=lambda w, x: jnp.sqrt(0 * x) @ w)),
        ("inputs", lambda: depends(inputs=np.array([0, 1]))),
        ("inputs", lambda: depends(inputs=np.array([0.0, 1.0, 1.0]))),
        ("inputs", lambda: depends(inputs=np.array([-1, -1, -1]))),
        ("outputs", lambda: depends(outputs=np.array([0, 1, 2]))),
        ("sizes", lambda: depends(sizes=(1, 0))),
        ("sizes", lambda: jax.eval_shape(lambda x: depends(inputs=x), THIRDS)),
        ("centred", lambda: depends(centred=1)),
        ("chunk", lambda: depends(chunk=0)),
    ],
    "dependence.shares": [
        ("dependence", lambda: dependence.shares(np.ones(2))),
        ("dependence", lambda: dependence.shares(-np.ones((1, 2)))),
        ("dependence", lambda: dependence.shares(np.ones((1, 2)) * 1j)),
    ],
    "dependence.information": [
        ("a", lambda: dependence.information([], [])),
        ("b", lambda: dependence.information([0, 1], [0])),
        ("a", lambda: dependence.information([0, NAN], [0, 1])),
        ("b", lambda: dependence.information([0, 1], [0.5, 1])),
        ("b", lambda: dependence.information([0, 1], [[0, 1]])),
        ("a", lambda: dependence.information([0, 5], [0, 1], (2, 2))),
        ("b", lambda: dependence.information([0, 1], [-1, 1], (2, 2))),
        ("sizes", lambda: dependence.information([0, 1], [0, 1], (2,))),
        ("sizes", lambda: jax.eval_shape(dependence.information, THIRDS, THIRDS)),
    ],
    "dependence.conditional_information": [
        ("y1", lambda: dependence.conditional_information([0, 1], [0, 1], [0])),
        ("y2", lambda: dependence.conditional_information([0, NAN], [0, 1], [0, 0])),
        ("yhat", lambda: dependence.conditional_information([0, 1], [0, 2], [0, 0], (2, 2, 1))),
        ("sizes", lambda: dependence.conditional_information([0, 1], [0, 1], [0, 0], (2, 2))),
    ],
    "dependence.permutation_test": [
        ("n_draws", lambda: dependence.permutation_test(KEY, [0, 1], [0, 1], n_draws=0)),
        ("y2", lambda: dependence.permutation_test(KEY, [], [])),
        ("yhat", lambda: dependence.permutation_test(KEY, [0, 1], [0, 1, 1])),
        ("y1", lambda: dependence.permutation_test(KEY, [0, 1], [0, 1], [0.5, 1])),
    ],
    "dependence.intervene": [
        ("x", lambda: dependence.intervene(KEY, spoilt(INPUTS), THIRDS, 0)),
        ("x", lambda: dependence.intervene(KEY, INPUTS[:1], THIRDS, 0)),
        ("inputs", lambda: dependence.intervene(KEY, INPUTS, THIRDS[:2], 0)),
        ("inputs", lambda: dependence.intervene(KEY, INPUTS, np.tile(THIRDS, (4, 1)), 0)),
        ("component", lambda: dependence.intervene(KEY, INPUTS, THIRDS, 3)),
        ("component", lambda: dependence.intervene(KEY, INPUTS, THIRDS, -1)),
    ],
    "dependence.interventional_information": [
        ("y2", lambda: swapped_information(y2=[0, 1])),
        ("y2", lambda: swapped_information(y2=[0, NAN, 1, 0])),
        ("f gives NaN", lambda: swapped_information(f=all_nan)),
        ("x", lambda: swapped_information(x=spoilt(INPUTS))),
        ("params", lambda: swapped_information(params=spoilt(W))),
        ("component", lambda: swapped_information(component=7)),
        ("chunk", lambda: swapped_information(chunk=0)),
        ("sizes", lambda: swapped_information(sizes=(2,))),
    ],
    "dependence.swap_rate": [
        ("params", lambda: dependence.swap_rate(KEY, linear, spoilt(W), INPUTS, THIRDS, 0)),
        ("f gives NaN", lambda: dependence.swap_rate(KEY, all_nan, W, INPUTS, THIRDS, 0)),
        ("inputs", lambda: dependence.swap_rate(KEY, linear, W, INPUTS, THIRDS[:1], 0)),
        ("chunk", lambda: dependence.swap_rate(KEY, linear, W, INPUTS, THIRDS, 0, 1.5)),
    ],
    "dependence.confusion": [
        ("yhat", lambda: dependence.confusion([0, 10], [0, 1], [[0], [1]], 10)),
        ("y", lambda: dependence.confusion([0, 1], [0, -1], [[0], [1]], 10)),
        ("yhat", lambda: dependence.confusion([0], [0, 1], [[0], [1]], 10)),
        ("suggested", lambda: dependence.confusion([0, 1], [0, 1], [0, 1], 10)),
        ("n_classes", lambda: dependence.confusion([0, 0], [0, 0], [[0], [0]], 1)),
    ],
    "dependence.one_step": [
        ("params", lambda: dependence.one_step(jnp.sum, lambda p: {}, spoilt(W))),
        ("length", lambda: dependence.one_step(jnp.sum, lambda p: {}, W, 0.0)),
    ],
    "landscape.distance": [
        ("a", lambda: landscape.distance({"w": spoilt(W)}, {"w": W})),
        ("b", lambda: landscape.distance({"w": W}, {"w": spoilt(W)})),
        ("b", lambda: landscape.distance({"w": W}, {"v": W})),
        ("b", lambda: landscape.distance({"w": W}, {"w": W[:1]})),
        ("a", lambda: landscape.distance({}, {})),
    ],
    "landscape.barrier": [
        ("n", lambda: landscape.barrier(jnp.sum, W, W, 1)),
        ("b", lambda: landscape.barrier(jnp.sum, W, W[:1])),
    ],
    "landscape.matched": [
        ("a", lambda: landscape.matched(DENSE[:1], DENSE)),
        ("a", lambda: landscape.matched(DENSE[::-1], DENSE)),
        ("b", lambda: landscape.matched(DENSE, [(spoilt(k), c) for k, c in DENSE])),
        ("b", lambda: landscape.matched(DENSE, [*DENSE, (np.eye(2), np.ones(2))])),
        ("b", lambda: landscape.matched(DENSE, [(k, c[:1]) for k, c in DENSE])),
        ("most_rounds", lambda: landscape.matched(DENSE, DENSE, 0)),
    ],
    "landscape.cancellation": [
        ("updates", lambda: landscape.cancellation([W])),
        ("updates", lambda: landscape.cancellation([W, spoilt(W)])),
        ("updates", lambda: landscape.cancellation([W, W[:1]])),
    ],
    "dependence.recombined": [
        ("x", lambda: dependence.recombined(spoilt(INPUTS), THIRDS)),
        ("x", lambda: dependence.recombined(INPUTS[:1], THIRDS)),
        ("inputs", lambda: dependence.recombined(INPUTS, THIRDS)),
        ("inputs", lambda: dependence.recombined(INPUTS, np.array([0, 1]))),
    ],
    "dependence.tangent_split": [
        ("inputs", lambda: split(inputs=0 * THIRDS)),
        ("x", lambda: split(x=spoilt(INPUTS))),
        ("residuals", lambda: split(residuals=np.full((4, 2), NAN))),
        ("residuals", lambda: split(residuals=np.ones((2, 4)))),
        ("residuals", lambda: split(residuals=np.ones((4, 2)), form="trace")),
    ],
    "dependence.early_dependence": [
        ("update", lambda: early(update=spoilt(W))),
        ("update", lambda: early(update={"w": W})),
        ("rates", lambda: early(rates=[NAN])),
        ("rates", lambda: early(rates=0.1)),
        ("rates", lambda: early(rates=[])),
    ],
    "masks.restricted": [
        ("several", lambda: masks.restricted(times_w, {"w": W}, [], ROWS)),
        ("several", lambda: masks.restricted(times_w, {"w": W}, [{"w": None}], ROWS)),
        ("several", lambda: masks.restricted(times_w, {"w": W}, [{"w": np.ones(2)}], ROWS)),
        ("several", lambda: masks.restricted(times_w, {"w": W}, [{"v": W}], ROWS)),
        ("params", lambda: masks.restricted(times_w, {"w": W * NAN}, [{"w": W}], ROWS)),
        ("x", lambda: masks.restricted(times_w, {"w": W}, [{"w": W}], ROWS * NAN)),
        ("f", lambda: masks.restricted(lambda p, x: x.sum(1), {"w": W}, [{"w": W}], ROWS)),
    ],
    "masks.learn": [
        ("n_steps", lambda: masks.learn(lambda s, i, beta: s, W, 0, 0.1)),
        ("lr", lambda: masks.learn(lambda s, i, beta: s, W, 1, -0.1)),
        ("per_epoch", lambda: masks.learn(lambda s, i, beta: s, W, 1, 0.1, 0)),
    ],
    "masks.search": [
        ("where", lambda: searched(where="missing")),
        ("epochs", lambda: searched(epochs=0)),
        ("lr", lambda: searched(lr=0)),
        ("penalty", lambda: searched(penalty=-1.0)),
        ("s0", lambda: searched(s0=NAN)),
        ("beta_max", lambda: searched(beta_max=0)),
        ("family", lambda: searched(family="dense")),
        ("family", lambda: searched(family="magnitude")),
        ("params", lambda: searched(params={"w": W * NAN})),
        ("batches", lambda: searched(batches=[])),
        ("batches", lambda: searched(batches=[(ROWS * NAN, ROWS)])),
        ("batches", lambda: searched(batches=[(ROWS, ROWS), (ROWS[:1], ROWS[:1])])),
        ("batches", lambda: searched(batches=[(ROWS,)])),
        ("batches", lambda: searched(batches=[{"x": ROWS, "y": ROWS}])),
        ("loss", lambda: searched(loss=lambda outputs, y: outputs)),
        ("loss", lambda: searched(loss=lambda outputs, y: jnp.sum(outputs) / 0)),
    ],
    "masks.save": [
        ("masks", lambda: masks.save("nowhere.npz", {"w": W + 0.5})),
        ("masks", lambda: masks.save("nowhere.npz", {"w": None})),
    ],
    "masks.read": [
        ("path", lambda: masks.read("nowhere.npz", {"w": W})),
        ("path", lambda: masks.read(__file__, {"w": W})),
    ],
    "masks.selected": [
        ("where", lambda: masks.selected(NET, "conv")),
        ("where", lambda: masks.selected(NET, "(")),
        ("where", lambda: masks.selected(NET, 3)),
        ("where", lambda: masks.selected(NET, lambda name: False)),
        ("where", lambda: masks.selected({"count": np.arange(3)}, "count")),
        ("params", lambda: masks.selected({}, "kernel")),
    ],
    "masks.init": [
        ("where", lambda: masks.init(NET, "conv", 0.1)),
        ("s0", lambda: masks.init(NET, "kernel", NAN)),
        ("s0", lambda: masks.init(NET, "kernel", [0.1, 0.2])),
        ("per", lambda: masks.init(NET, "kernel", 0.1, per="layer")),
    ],
    "masks.expand": [
        ("masks", lambda: masks.expand(ONES, {"a": W})),
        ("masks", lambda: masks.expand({"w": np.ones((1, 3))}, {"w": W})),
        ("masks", lambda: masks.expand({"w": np.ones(2)}, {"w": W})),
    ],
    "masks.soft": [
        ("s", lambda: masks.soft(SPOILT, 1.0)),
        ("s", lambda: masks.soft(W * 1j, 1.0)),
        ("beta", lambda: masks.soft(SCORES, 0.0)),
        ("beta", lambda: masks.soft(SCORES, NAN)),
    ],
    "masks.hard": [("s", lambda: masks.hard(SPOILT)), ("s", lambda: masks.hard(np.array(["a"])))],
    "masks.beta_schedule": [
        ("epoch", lambda: masks.beta_schedule(0, 90)),
        ("epoch", lambda: masks.beta_schedule(91, 90)),
        ("n_epochs", lambda: masks.beta_schedule(1, 0)),
        ("beta_max", lambda: masks.beta_schedule(1, 90, -200.0)),
        ("from_one", lambda: masks.beta_schedule(1, 90, 200.0, 1)),
    ],
    "masks.penalty": [
        ("beta", lambda: masks.penalty(SCORES, -1.0)),
        ("on", lambda: masks.penalty(SCORES, 1.0, {"a/kernel": 1})),
        ("on", lambda: masks.penalty(SCORES, 1.0, {"a/kernel": 1, "b/kernel": 2})),
        ("on", lambda: masks.penalty(SCORES, 1.0, {"a/kernel": 1, "b/kernel": np.ones(2)})),
        ("masks", lambda: masks.penalty({"a": None}, 1.0)),
    ],
    "masks.concrete_init": [
        ("keep", lambda: masks.concrete_init(1.5)),
        ("keep", lambda: masks.concrete_init(NAN)),
    ],
    "masks.concrete_sample": [
        ("u", lambda: masks.concrete_sample(W, 2 * W)),
        ("u", lambda: masks.concrete_sample(SCORES, W)),
        ("u", lambda: masks.concrete_sample(W, np.full(2, 0.5))),
        ("log_alpha", lambda: masks.concrete_sample(spoilt(W), np.full((3, 2), 0.5))),
    ],
    "masks.concrete_penalty": [
        ("log_alpha", lambda: masks.concrete_penalty(SPOILT)),
        ("on", lambda: masks.concrete_penalty(SCORES, {})),
    ],
    "masks.concrete_hard": [("log_alpha", lambda: masks.concrete_hard(SPOILT))],
    "masks.magnitude": [
        ("keep", lambda: masks.magnitude(NET, "kernel", 5)),
        ("scope", lambda: masks.magnitude(NET, "kernel", 0.5, "layer")),
        ("signed", lambda: masks.magnitude(NET, "kernel", 0.5, "leaf", 1)),
        ("where", lambda: masks.magnitude(NET, "conv", 0.5)),
        ("params", lambda: masks.magnitude({"w": spoilt(W)}, "w", 0.5)),
    ],
    "masks.apply": [
        ("masks", lambda: masks.apply(NET, SCORES["a"])),
        ("masks", lambda: masks.apply({"w": W}, {"w": W.T})),
        ("masks", lambda: masks.apply({"w": W}, {"w": spoilt(W)})),
        ("on", lambda: masks.apply(NET, ONES, {"a/kernel": NAN, "b/kernel": 1})),
    ],
    "masks.invert": [("masks", lambda: masks.invert(SPOILT))],
    "masks.ablate": [
        ("how", lambda: masks.ablate(NET, ONES, "median")),
        ("key", lambda: masks.ablate(NET, ONES, "random")),
        ("masks", lambda: masks.ablate(NET, {"a": None})),
    ],
    "masks.replace": [
        ("others", lambda: masks.replace(NET, ONES, SPOILT)),
        ("others", lambda: masks.replace(NET, ONES, {"a": W})),
        ("others", lambda: masks.replace({"w": W}, {"w": W}, {"w": None})),
        ("masks", lambda: masks.replace({"w": W}, {"w": W.T}, {"w": W})),
    ],
    "masks.fresh": [("masks", lambda: masks.fresh(KEY, NET, {"a": W}))],
    "masks.size": [
        ("masks", lambda: masks.size({})),
        ("on", lambda: masks.size(ONES, {"a/kernel": 1})),
    ],
    "masks.kept": [("masks", lambda: masks.kept(SPOILT)), ("masks", lambda: masks.kept(None))],
    "masks.random_like": [("masks", lambda: masks.random_like(KEY, SCORES))],
    "masks.complement_like": [
        ("masks", lambda: masks.complement_like(KEY, SCORES)),
        ("half of w", lambda: masks.complement_like(KEY, FULL)),
        ("half of w", lambda: masks.complement_like(KEY, FULL, {"w": 1})),
        ("on", lambda: masks.complement_like(KEY, ONES, {"a/kernel": 1})),
    ],
    "masks.has_complement": [("masks", lambda: masks.has_complement(SCORES))],
    "masks.intersect": [
        ("several", lambda: masks.intersect([ONES])),
        ("several", lambda: masks.intersect([FULL, {"w": np.eye(3)}])),
    ],
    "masks.overlap": [
        ("several", lambda: masks.overlap([ONES])),
        ("several", lambda: masks.overlap([ONES, ONES["a"]])),
        ("several", lambda: masks.overlap([SCORES, SCORES])),
        ("several", lambda: masks.overlap([{}, {}])),
    ],
    "stats.clustered_glm": [
        ("y", lambda: stats.clustered_glm(spoilt(OUTCOMES), PLAIN, PAIRS)),
        ("y", lambda: stats.clustered_glm(PLAIN, PLAIN, PAIRS)),
        ("design", lambda: stats.clustered_glm(OUTCOMES, spoilt(PLAIN), PAIRS)),
        ("design", lambda: stats.clustered_glm(OUTCOMES, PLAIN.T, PAIRS)),
        ("design", lambda: stats.clustered_glm(OUTCOMES, PLAIN[:, 0], PAIRS)),
        ("design", lambda: stats.clustered_glm(OUTCOMES, np.ones((4, 2)), PAIRS)),
        ("clusters", lambda: stats.clustered_glm(OUTCOMES, PLAIN, [0, 0, 0, 0])),
        ("clusters", lambda: stats.clustered_glm(OUTCOMES, PLAIN, [0, 1])),
    ],
    "stats.clustered_covariance": [
        ("design", lambda: stats.clustered_covariance(OUTCOMES, PLAIN[:2], PAIRS)),
        ("y", lambda: stats.clustered_covariance(OUTCOMES * 1j, PLAIN, PAIRS)),
    ],
    "stats.wald": [
        ("coefficients", lambda: stats.wald([NAN, 1], np.eye(2), (1, 1))),
        ("covariance", lambda: stats.wald([1.0, 1], np.eye(3), (1, 1))),
        ("covariance", lambda: stats.wald([1.0, 1], -np.eye(2), (1, 1))),
        ("contrast", lambda: stats.wald([1.0, 1], np.eye(2), (1, 1, 0))),
        ("contrast", lambda: stats.wald([1.0, 1], np.eye(2), (0, 0))),
    ],
    "stats.interaction_design": [
        ("ablation", lambda: stats.interaction_design([0, 2], [0, 1])),
        ("random", lambda: stats.interaction_design([0, 1], [0, 0.5])),
        ("random", lambda: stats.interaction_design([0, 1], [0, 1, 1])),
    ],
    "stats.wild_cluster": [
        ("y", lambda: stats.wild_cluster(spoilt(OUTCOMES), PLAIN, PAIRS, (1, 1))),
        ("contrast", lambda: stats.wild_cluster(OUTCOMES, PLAIN, PAIRS, (1,))),
        ("contrast", lambda: stats.wild_cluster(OUTCOMES, PLAIN, PAIRS, (1, NAN))),
        ("clusters", lambda: stats.wild_cluster(OUTCOMES, PLAIN, [1] * 4, (1, 1))),
        ("seed", lambda: stats.wild_cluster(OUTCOMES, PLAIN, PAIRS, (1, 1), -1)),
    ],
    "stats.null_p": [
        ("observed", lambda: stats.null_p(NAN, OUTCOMES)),
        ("observed", lambda: stats.null_p([0.1, 0.2], OUTCOMES)),
        ("null", lambda: stats.null_p(0.1, [])),
        ("null", lambda: stats.null_p(0.1, spoilt(OUTCOMES))),
        ("side", lambda: stats.null_p(0.1, OUTCOMES, "left")),
    ],
}

LAYER = layers.Layer(0, 1, 0, None, (), (), (1,), 1, 3, 2)


def traced_run(leaves=(W,), nudges=None):
    found = layers.trace(linear, W, INPUTS[0])
    nudges = layers.no_nudges(found) if nudges is None else nudges
    return layers.run(found, list(leaves), INPUTS[0], nudges)


FLAT_CASES = [
    pytest.param(word, call, id=f"{name}-{i}-{word}")
    for name, cases in CASES.items()
    for i, (word, call) in enumerate(cases)
]


@pytest.mark.parametrize("word, call", FLAT_CASES)
def test_nonsense_is_refused_by_name(word, call):
    with pytest.raises(ValueError) as refused:
        call()
    message = str(refused.value)
    assert re.search(rf"\b({word})\b", message), message
    assert "\n" not in message


# Made of other functions' results, for which no argument is wrong; checks are for the others.
INSIDE = (
    "checks.", "lenses.report.", "masks.trees.", "ntk.programs.",
    "support.words.",
)  # fmt: skip
PLUMBING = {
    "support.jacobians.merged",
    "support.jacobians.nothing",
    "support.jacobians.compiled_singular_values",
    "support.jacobians.compiled_spectrum",
    "support.jacobians.search",
    "support.jacobians.leak",
    "machines.interpolate",
    "machines.rows",
    "ntk.functions.cut_short",
    "ntk.functions.shortest",
    "ntk.functions.equations",
    "support.slot_points",
    "support.check_arguments",
    "support.check_components",
    "support.identification.component_outputs",
    "support.identification.is_pixelwise",
    "support.identification.latent_columns",
    "support.latents.as_categories",
    "support.latents.changes",
    "support.latents.covariance",
    "support.latents.coverage",
    "support.latents.distances",
    "support.latents.distinct",
    "support.latents.few",
    "support.latents.halves",
    "support.latents.nearest",
    "support.latents.some_of_each",
    "support.latents.within",
    "support.second_model.compose",
    "support.second_model.search",
    "support.second_model.evaluate",
    "support.second_model.posterior",
    "machines.interior_point.factorised",
    "machines.interior_point.solved",
    "salience.float64",
    "ntk.functions.floats",
    "ntk.functions.dtype",
    "ntk.functions.is_float",
    "ntk.functions.is_free",
    "ntk.layers.no_nudges",
    "ntk.layers.shape",
    "ntk.functions.mixing",
    "ntk.functions.warn_once",
    "ntk.layers.factors",
    "ntk.layers.sides",
    "ntk.functions.check_samples",
    "ntk.functions.digits",
    "ntk.functions.jit",
    "ntk.functions.once_for_each",
    "ntk.linearised.is_of",
    "ntk.functions.length",
    "ntk.layers.in_loops",
    "ntk.plan.kernel_bytes",
    "ntk.layers.units",
}


def public_functions():
    for info in pkgutil.walk_packages(cgjax.analysis.__path__, "cgjax.analysis."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            is_own = getattr(value, "__module__", "") == module.__name__
            if is_own and callable(value) and not inspect.isclass(value) and name[0] != "_":
                yield f"{info.name.removeprefix('cgjax.analysis.')}.{name}"


def test_no_public_function_is_left_out():
    found = {name for name in public_functions() if not name.startswith(INSIDE)}
    assert len(found) > 80
    assert found - PLUMBING <= CASES.keys(), sorted(found - PLUMBING - CASES.keys())


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
        (np.stack([K, ASYMMETRIC]), "differ by up to 1"),
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
        machines.ridgeless(BATCH, Y, K_TEST)
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


def test_scores_of_nan_are_nan_and_bytes_do_not_wrap():
    y = np.arange(8.0).reshape(4, 2)
    for target, predicted in ((spoilt(y), y), (y, spoilt(y))):
        assert np.isnan(metrics.mse(target, predicted))
        assert np.isnan(metrics.r2_uniform(target, predicted))
        assert np.isnan(metrics.r2_variance_weighted(target, predicted))
    dark, bright = np.zeros((4, 2), np.uint8), np.full((4, 2), 200, np.uint8)
    assert metrics.mse(dark, bright) == metrics.mse(bright, dark) == 200**2
