"""Analyses inside a caller's jit, on arrays that an accelerator holds.

CALLS: function -> a call on sound arguments. Each runs by itself and while a jit of the caller is
traced, where its arrays are constants. `checks` then sees concrete values on an accelerator, of
which no operation gives a concrete result unless it leaves the trace. A fixture makes
`checks` take every array of JAX for an array on an accelerator.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_nonsense import PLUMBING, public_functions

from cgjax.analysis import (
    checks,
    closed_forms,
    contrasts,
    dependence,
    geometry,
    landscape,
    machines,
    masks,
    ntk,
    salience,
    support,
    training_sets,
    wide,
)
from cgjax.analysis.machines import interior_point

MODULES = (
    "closed_forms", "contrasts", "dependence", "geometry", "landscape", "machines", "masks", "ntk",
    "salience", "search", "training_sets", "wide",
)  # fmt: skip
# Host functions: they return NumPy arrays, choices or Python numbers, which a traced program lacks.
HOST = {
    f"{module}.{name}"
    for module, names in {
        "dependence": "parts recombined tangent_split",
        "geometry": "effective_rank grid_tensor principal_components probe volume_element",
        "landscape": "cancellation matched",
        "masks": "learn read save search selected",
        "ntk": "ntk_regression",
        "salience": "subsets",
        "search": "guess_and_check metropolis",
        "training_sets": "any_sum best_anchors exchange greedy",
    }.items()
    for name in names.split()
}

K, Y = jnp.eye(4) + 1, jnp.array([1.0, -1, 1, -1])
W, X = jnp.linspace(-1, 1, 6).reshape(3, 2), jnp.linspace(-1, 1, 12).reshape(4, 3)
KAPPA = jnp.array([0, 0.3, 1.0])
PAIRS = jnp.array([[0, 0], [0, 1], [1, 0], [1, 1]])
JAC, HESS = jnp.ones((2, 4, 6)), jnp.ones((2, 4, 6, 6))
THIRDS, KEY = jnp.arange(3), jax.random.key(0)
VALUES, ANCHOR = jnp.arange(-2.0, 3.0), jnp.arange(5) == 0
TRAIN = jnp.arange(4) < 3
NET = {"a": {"kernel": W, "bias": jnp.ones(2)}, "b": {"kernel": W}}
SCORES = {"a": {"kernel": W / 2, "bias": None}, "b": {"kernel": W / 2}}
ONES = {"a": {"kernel": jnp.eye(3, 2), "bias": None}, "b": {"kernel": jnp.zeros((3, 2))}}
SIGNS = jnp.array([0, 1, 1, 0])
PATH = (
    jnp.eye(2)[None], jnp.ones((1, 1, 2)), -jnp.ones((1, 1, 2)), jnp.ones(1),
    jnp.ones((1, 2), bool), jnp.zeros((1, 2)),
)  # fmt: skip


def linear(params, x):
    return x @ params


def of_net(params, x):
    return jnp.tanh(x @ params["a"]["kernel"] + params["a"]["bias"][None]) @ params["b"]["kernel"].T


def vector(z):
    return jnp.stack([jnp.sin(z[0]), z[0] * z[1], z[1] ** 2])


def central_path():
    with jax.default_matmul_precision("highest"):
        return interior_point.central_path(*PATH)


CALLS = {
    "closed_forms.memorization_slope": lambda: closed_forms.memorization_slope(K[0, 1] / 4, 2),
    "closed_forms.addition": lambda: closed_forms.addition(K[0, 1] / 4, VALUES, ANCHOR),
    "closed_forms.item_values": lambda: closed_forms.item_values(
        closed_forms.addition(K[0, 1] / 4, VALUES, ANCHOR), VALUES, ANCHOR
    ),
    "closed_forms.invariance_margin": lambda: closed_forms.invariance_margin(KAPPA / 2),
    "closed_forms.partial_exposure_margin": lambda: closed_forms.partial_exposure_margin(KAPPA / 2),
    "closed_forms.shortcut_bias": lambda: closed_forms.shortcut_bias(KAPPA[1], KAPPA[1] / 2),
    "closed_forms.shortcut_boundary": lambda: closed_forms.shortcut_boundary(KAPPA[1]),
    "contrasts.jacobians": lambda: contrasts.jacobians(vector, X[:, :2]),
    "contrasts.hessians": lambda: contrasts.hessians(vector, X[:, :2]),
    "contrasts.compositional_contrast": lambda: contrasts.compositional_contrast(JAC),
    "contrasts.block_contrast": lambda: contrasts.block_contrast(JAC, 2),
    "contrasts.hessian_l0": lambda: contrasts.hessian_l0(HESS),
    "contrasts.hessian_l1": lambda: contrasts.hessian_l1(HESS),
    "contrasts.hessian_offblock": lambda: contrasts.hessian_offblock(HESS, 2),
    "dependence.gradient_dependence": lambda: dependence.gradient_dependence(
        linear, W, X, THIRDS, sizes=(3, 2)
    ),
    "dependence.shares": lambda: dependence.shares(jnp.abs(W)),
    "dependence.information": lambda: dependence.information(SIGNS, SIGNS, (2, 2)),
    "dependence.conditional_information": lambda: dependence.conditional_information(
        SIGNS, SIGNS, PAIRS[:, 0], (2, 2, 2)
    ),
    "dependence.permutation_test": lambda: dependence.permutation_test(
        KEY, SIGNS, PAIRS[:, 0], n_draws=3, sizes=(2, 2)
    ),
    "dependence.intervene": lambda: dependence.intervene(KEY, X, THIRDS, 1),
    "dependence.interventional_information": lambda: dependence.interventional_information(
        KEY, linear, W, X, SIGNS, THIRDS, 1, (2, 2)
    ),
    "dependence.swap_rate": lambda: dependence.swap_rate(KEY, linear, W, X, THIRDS, 1),
    "dependence.confusion": lambda: dependence.confusion(SIGNS, PAIRS[:, 0], PAIRS, 2),
    "dependence.one_step": lambda: dependence.one_step(
        lambda w: jnp.sum(w**2), lambda w: {"first": w[0, 0]}, W
    ),
    "dependence.early_dependence": lambda: dependence.early_dependence(
        linear, W, W, X, THIRDS, KAPPA, sizes=(3, 2)
    ),
    "geometry.pullback": lambda: geometry.pullback(vector, X[:, :2]),
    "geometry.rank_map": lambda: geometry.rank_map(vector, X[:, :2]),
    "landscape.distance": lambda: landscape.distance(NET, SCORES | {"a": NET["a"]}),
    "landscape.barrier": lambda: landscape.barrier(jnp.sum, W, 2 * W, 3),
    "machines.ridgeless": lambda: machines.ridgeless(K, Y, K[:3]),
    "machines.ridge": lambda: machines.ridge(K, Y, K[:3], 0.1),
    "machines.solve_ridge": lambda: machines.solve_ridge(K, Y),
    "machines.svc": lambda: machines.svc(K, Y, K[:3], 1.0),
    "machines.svr": lambda: machines.svr(K, Y, K[:3], 1.0, 0.1),
    "machines.solve_svc": lambda: machines.solve_svc(K, Y, 1.0),
    "machines.solve_svr": lambda: machines.solve_svr(K, Y, 1.0, 0.1),
    "machines.predict": lambda: machines.predict(machines.solve_ridge(K, Y), K[:3]),
    "interior_point.central_path": central_path,
    "masks.init": lambda: masks.init(NET, "kernel", 0.1),
    "masks.expand": lambda: masks.expand(SCORES, NET),
    "masks.soft": lambda: masks.soft(SCORES, 2.0),
    "masks.hard": lambda: masks.hard(SCORES),
    "masks.beta_schedule": lambda: masks.beta_schedule(1, 10),
    "masks.penalty": lambda: masks.penalty(SCORES, 2.0),
    "masks.concrete_init": lambda: masks.concrete_init(KAPPA[1]),
    "masks.concrete_sample": lambda: masks.concrete_sample(
        SCORES, jax.tree.map(lambda leaf: 0.5 + 0 * leaf, SCORES)
    ),
    "masks.concrete_penalty": lambda: masks.concrete_penalty(SCORES),
    "masks.concrete_hard": lambda: masks.concrete_hard(SCORES),
    "masks.magnitude": lambda: masks.magnitude(NET, "kernel", 0.5),
    "masks.apply": lambda: masks.apply(NET, ONES),
    "masks.invert": lambda: masks.invert(ONES),
    "masks.ablate": lambda: masks.ablate(NET, ONES),
    "masks.replace": lambda: masks.replace(NET, ONES, NET),
    "masks.fresh": lambda: masks.fresh(KEY, NET, ONES),
    "masks.size": lambda: masks.size(ONES),
    "masks.kept": lambda: masks.kept(ONES),
    "masks.random_like": lambda: masks.random_like(KEY, ONES),
    "masks.complement_like": lambda: masks.complement_like(KEY, ONES),
    "masks.has_complement": lambda: masks.has_complement(ONES),
    "masks.intersect": lambda: masks.intersect([ONES, ONES]),
    "masks.overlap": lambda: masks.overlap([ONES, ONES]),
    "masks.restricted": lambda: masks.restricted(of_net, NET, [ONES], X),
    "ntk.empirical": lambda: ntk.empirical(linear, W, X, X[:3]),
    "ntk.kernel_vector_product": lambda: ntk.kernel_vector_product(linear, W, X, None, X[:, :2]),
    "ntk.jacobian": lambda: ntk.jacobian(linear, W, X),
    "ntk.drift": lambda: ntk.drift(K, 2 * K),
    "ntk.alignment": lambda: ntk.alignment(K, K + 1),
    "ntk.target_alignment": lambda: ntk.target_alignment(K, Y),
    "salience.salience": lambda: salience.salience(KAPPA),
    "salience.kappa": lambda: salience.kappa(salience.salience(KAPPA)),
    "salience.complete": lambda: salience.complete(KAPPA[:2]),
    "salience.by_subset": lambda: salience.by_subset(KAPPA),
    "salience.moebius": lambda: salience.moebius(salience.by_subset(KAPPA)),
    "salience.moebius_inverse": lambda: salience.moebius_inverse(salience.by_subset(KAPPA)),
    "salience.subset_salience": lambda: salience.subset_salience(salience.by_subset(KAPPA)),
    "salience.overlap_kernel": lambda: salience.overlap_kernel(PAIRS, PAIRS, KAPPA),
    "salience.subset_kernel": lambda: salience.subset_kernel(
        PAIRS, PAIRS, salience.by_subset(KAPPA)
    ),
    "salience.features": lambda: salience.features(
        PAIRS, (2, 2), salience.moebius(salience.by_subset(KAPPA))
    ),
    "salience.conjunction_terms": lambda: salience.conjunction_terms(
        PAIRS, PAIRS, Y, salience.moebius(salience.by_subset(KAPPA))
    ),
    "salience.spectrum": lambda: salience.spectrum(salience.by_subset(KAPPA), (2, 2))[0],
    "salience.is_psd": lambda: salience.is_psd(salience.by_subset(KAPPA), (2, 2)),
    "salience.layers": lambda: salience.layers(KAPPA, salience.relu, 2),
    "salience.step": lambda: salience.step(KAPPA),
    "salience.relu": lambda: salience.relu(KAPPA),
    "salience.leaky_relu": lambda: salience.leaky_relu(KAPPA),
    "salience.rectified_quadratic": lambda: salience.rectified_quadratic(KAPPA),
    "salience.gaussian": lambda: salience.gaussian(KAPPA),
    "support.jacobian_rank": lambda: support.jacobian_rank(JAC, 1e-3, 1e-3),
    "training_sets.scores": lambda: training_sets.scores(K, Y, TRAIN),
    "training_sets.regular_slope": lambda: training_sets.regular_slope(KAPPA[1], 2),
    "training_sets.reweighted": lambda: training_sets.reweighted(KAPPA, KAPPA[:2] + 1),
    "wide.relu_mlp": lambda: wide.relu_mlp(X),
}


@pytest.fixture(autouse=True)
def accelerator(monkeypatch):
    """Arrays of JAX count as arrays on an accelerator."""
    monkeypatch.setattr(checks, "_home", lambda a: jnp if isinstance(a, jax.Array) else np)


# Other calls of the table compile the same programs.
LONG = ("dependence.permutation_test", "interior_point.central_path", "machines.svr")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in CALLS],
)
def test_inside_and_outside_a_jit(name):
    """Sound arrays give the same numbers."""
    alone, inside = CALLS[name](), jax.jit(CALLS[name])()
    for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(inside), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_every_function_is_in_the_table():
    names = {name for name in public_functions() if name.split(".")[0] in MODULES} - PLUMBING
    names = {name for name in names if name.count(".") == 1}  # files inside hold parts of these
    assert len(names) > 80
    assert names - HOST <= CALLS.keys(), sorted(names - HOST - CALLS.keys())
    assert names >= HOST, sorted(HOST - names)


def test_concrete_values_are_checked_inside_a_jit():
    """Constants of the caller's program have values, so what is wrong with them is named."""
    asymmetric, nan = K.at[0, 1].set(9.0), Y.at[2].set(jnp.nan)
    with pytest.raises(ValueError, match="k_train is not symmetric"):
        jax.jit(lambda: machines.ridgeless(asymmetric, Y, K[:3]))()
    with pytest.raises(ValueError, match=r"y holds NaN or infinity in 1 of 4"):
        jax.jit(lambda: machines.ridgeless(K, nan, K[:3]))()
