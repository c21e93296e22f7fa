"""Dependence of models with known answers: derivatives, information, swaps, one step."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import quick_key

from cgjax.analysis import dependence

HALVES = dependence.parts((6,), 2, 0)
X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)


def linear(w, x):
    return x @ w


# --- derivatives ----------------------------------------------------------------------------------


def test_parts():
    halves = dependence.parts((28, 56, 1), 2, 1)
    assert halves.shape == (28, 56, 1)
    assert not halves[:, :28].any() and halves[:, 28:].all()


def measured(f, w, x, labels, **options):
    """Compiled as one program."""
    return jax.jit(lambda w, x: dependence.gradient_dependence(f, w, x, labels, **options))(w, x)


def test_a_linear_model_has_the_norms_of_its_blocks():
    blocks = [[W[:3, :2], W[3:, :2]], [W[:3, 2:], W[3:, 2:]]]
    expected = [[np.linalg.norm(block) for block in row] for row in blocks]
    outputs = dependence.parts((4,), 2, 0)
    found = measured(linear, W, X, HALVES, outputs=outputs, centred=False, chunk=7)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    centred = W - W.mean(axis=1, keepdims=True)
    expected = [np.linalg.norm(centred[:3]), np.linalg.norm(centred[3:])]
    found = measured(linear, W, X, HALVES)
    np.testing.assert_allclose(found, [expected], rtol=1e-5)
    share = expected[1] / sum(expected)
    np.testing.assert_allclose(dependence.shares(found)[0, 1], share, rtol=1e-5)


def test_units_of_outputs_do_not_matter_in_float32():
    """The squares of their derivatives leave its range."""

    @jax.jit
    def found(unit):
        f, x = lambda w, x: unit * (x @ w), X[:3]
        matrix = dependence.gradient_dependence(f, W, x, HALVES, sizes=(1, 2), centred=False)
        step = dependence.one_step(lambda w: unit * jnp.sum(w), lambda w: {"w": w[0]}, W[0], 2)
        return matrix / unit, step.gradient_norm / unit, step.change["w"]

    expected = [np.linalg.norm(W[:3]), np.linalg.norm(W[3:])]
    for unit in (1, 1e-30, 1e-36, 1e30):
        matrix, gradient_norm, change = found(np.float32(unit))
        np.testing.assert_allclose(matrix, [expected], rtol=1e-5)
        np.testing.assert_allclose([gradient_norm, change], [2, -1], rtol=1e-5)


def test_both_directions_of_differentiation_agree_with_closed_forms():
    """Many outputs of few inputs, and few of many: sin(x W)' is cos(x W) W."""
    for w in (W, W[:2]):
        x, labels = X[:, : len(w)], dependence.parts((len(w),), 2, 0)
        found = measured(lambda w, x: jnp.sin(x @ w), w, x, labels, centred=False)
        jac = np.cos(x @ w)[:, None] * w[None]
        norms = [np.linalg.norm(jac[:, labels == k], axis=(1, 2)).mean() for k in (0, 1)]
        np.testing.assert_allclose(found[0], norms, rtol=1e-5)


def test_components_of_each_sample_and_what_is_held_constant():
    """Labels may differ between samples; those without a component do not count."""
    scale = np.linspace(1, 2, 40, dtype=np.float32)
    labels = np.where(np.arange(40)[:, None] % 2 == 0, HALVES[None], -1)
    labels[1::2, 0] = 0  # odd samples: one entry of component 0, none of component 1

    @jax.jit
    def found(labels):
        return dependence.gradient_dependence(
            lambda w, x, scale: scale[:, None] * (x @ w), W, X, labels, None, scale, (1, 2), False
        )

    first = [np.linalg.norm(W[:3]), np.linalg.norm(W[0])]
    first = np.mean(scale * np.tile(first, 20))
    second = np.mean(scale[::2]) * np.linalg.norm(W[3:])
    np.testing.assert_allclose(found(labels), [[first, second]], rtol=1e-5)


def test_a_penalty_can_be_met():
    """The derivative of D is finite where D is 0."""

    def d2(w):
        return dependence.gradient_dependence(linear, w, X, HALVES, centred=False)[0, 1] ** 2

    blind = W * (HALVES == 0)[:, None]
    assert np.isfinite(jax.jit(jax.grad(d2))(blind)).all()


def constant_nan(params, x):
    """Some outputs are NaN; all derivatives are finite."""
    return x @ params + jnp.where(x[:, :1] > 1, jnp.nan, 0)


def square_root(params, x):
    """All outputs are finite; the derivative is not at 0."""
    return jnp.sqrt(jnp.abs(x)) @ params


@pytest.mark.parametrize(
    "f, problem", [(constant_nan, "gives NaN"), (square_root, "has NaN or infinite derivatives")]
)
def test_nan_is_an_error_and_not_independence(f, problem):
    x = np.abs(X) / 10
    x[3], x[2, 0] = 0, 2
    with pytest.raises(ValueError, match=f"^f {problem} for 1 of 40 samples: see row"):
        dependence.gradient_dependence(f, W, x, HALVES)
    # A compiled function cannot raise: its result is NaN.
    assert np.isnan(measured(f, W, x, HALVES)).all()


def test_swaps_of_nan_outputs_are_an_error():
    key, y2 = jax.random.key(0), np.arange(40) % 2
    measures = (
        lambda x: dependence.swap_rate(key, constant_nan, W, x, HALVES, 0),
        lambda x: dependence.swap_rate(key, constant_nan, W, x, HALVES, 0, chunk=7),
        lambda x: dependence.interventional_information(
            key, constant_nan, W, x, y2, HALVES, 0, sizes=(2, 4)
        ),
    )
    for measure in measures:
        with pytest.raises(ValueError, match="^f gives NaN for"):
            measure(X)
        assert np.isnan(jax.jit(measure)(X))


def test_a_logit_of_minus_infinity_excludes_a_class():
    def excluding(w, x):
        return jnp.concatenate([x @ w, jnp.full((len(x), 1), -jnp.inf)], axis=1)

    rates = [
        dependence.swap_rate(jax.random.key(0), f, W, X, HALVES, 0) for f in (linear, excluding)
    ]
    assert rates[0] == rates[1] > 0


# --- information ----------------------------------------------------------------------------------


@functools.cache
def labels(setting, n=5000):
    rng = np.random.default_rng(0)
    y1 = rng.integers(0, 10, n)
    offset = {"A": rng.integers(0, 2, n), "B": rng.integers(0, 10, n)}[setting]
    return y1, (y1 + offset) % 10


LN = np.log


@pytest.mark.parametrize(
    "setting, output, observational, conditional",
    [
        ("A", "y1", LN(10) - LN(2), 0),
        ("A", "y2", LN(10), LN(2)),
        ("B", "y1", 0, 0),
        ("B", "y2", LN(10), LN(10)),
    ],
)
def test_models_with_known_information(setting, output, observational, conditional):
    y1, y2 = labels(setting)
    yhat = {"y1": y1, "y2": y2}[output]
    # 81 / 2n is the correction; conditional on one of ten labels n is a tenth.
    slack = 0.02 if conditional < 1 else 0.1
    assert dependence.information(y2, yhat) == pytest.approx(observational, abs=0.02)
    found = dependence.conditional_information(y2, yhat, y1)
    assert found == pytest.approx(conditional, abs=slack)


def test_a_mixture_lies_between():
    y1, y2 = labels("A")
    follows = np.random.default_rng(1).random(len(y1)) < 0.5
    yhat = np.where(follows, y2, y1)
    # Given Y_1, Y_2 is Y_1 or the next class; the network predicts the next in half of these.
    joint = np.array([[0.5, 0.0], [0.25, 0.25]])
    expected = np.sum(
        np.where(
            joint > 0,
            joint * LN(np.where(joint > 0, joint, 1) / np.outer([0.5, 0.5], joint.sum(0))),
            0,
        )
    )
    found = dependence.conditional_information(y2, yhat, y1)
    assert found == pytest.approx(expected, abs=0.02)


def test_the_plane_s_information():
    """Three equally likely cells: 0.1744 nats."""
    cells = np.tile([[0, 0], [0, 1], [1, 0]], (4000, 1))
    assert dependence.information(*cells.T) == pytest.approx(0.1744, abs=1e-3)


def entropy(counts):
    """Miller and Madow: plug-in, and (occupied cells - 1) / 2n more."""
    counts = np.asarray(counts, float)
    shares = counts[counts > 0] / counts.sum()
    return -np.sum(shares * LN(shares)) + (len(shares) - 1) / (2 * counts.sum())


def test_information_is_miller_and_madows():
    """The sum of both corrected entropies less that of the pair."""
    rng = np.random.default_rng(0)
    for n, k in ((40, 3), (100, 10), (500, 4)):
        a = rng.integers(0, k, n)
        b = np.where(rng.random(n) < 0.5, a, rng.integers(0, k, n))
        counts = np.bincount(k * a + b, minlength=k * k).reshape(k, k)
        expected = entropy(counts.sum(1)) + entropy(counts.sum(0)) - entropy(counts.ravel())
        assert dependence.information(a, b) == pytest.approx(expected)
        plain = dependence.information(a, b, corrected=False)
        occupied = [np.sum(c > 0) for c in (counts, counts.sum(0), counts.sum(1))]
        assert plain - expected == pytest.approx((occupied[0] - sum(occupied[1:]) + 1) / (2 * n))
    same = np.tile([0, 1, 2], 30)
    assert dependence.information(same, same) == pytest.approx(LN(3) + 2 / 180)
    assert dependence.information(["x", "y"] * 50, [3, 8] * 50) == pytest.approx(LN(2) + 1 / 200)
    a, b = np.tile([0, 0, 1, 1], 25), np.tile([0, 1, 0, 1], 25)
    assert dependence.information(a, b) == pytest.approx(-1 / 200)  # not cut off at 0


def test_information_of_labels_that_determine_each_other():
    """ln 10 from 100 samples; (rows - 1)(columns - 1) / 2n would subtract 0.405 of it."""
    rng = np.random.default_rng(1)
    draws = rng.integers(0, 10, (200, 100))
    informations = [dependence.information(labels, labels) for labels in draws]
    assert np.mean(informations) == pytest.approx(LN(10), abs=0.01)
    y1 = np.tile(np.arange(5), 200)
    for n, slack in ((100, 0.08), (1000, 0.01)):  # 20 and 200 samples in a stratum
        draws = rng.integers(0, 10, (100, n))
        known = [dependence.conditional_information(y, y, y1[:n]) for y in draws]
        assert np.mean(known) == pytest.approx(LN(10), abs=slack)


@pytest.mark.parametrize(
    "n", [200, *(pytest.param(n, marks=pytest.mark.slow) for n in (1000, 5000))]
)
def test_independent_labels_have_no_conditional_information(n):
    """Ten labels each: at n = 1,000 one sample for each of the 100 cells of a stratum."""
    rng = np.random.default_rng(n)
    y2, yhat, y1 = rng.integers(0, 10, (3, 100, n))
    values = [dependence.conditional_information(*some) for some in zip(y2, yhat, y1)]
    error = np.std(values, ddof=1) / 10
    assert abs(np.mean(values)) < 4 * error and error < 0.01
    # Unequal shares of labels, and strata of unequal size.
    skewed = (rng.random((3, 100, n)) ** 3 * 10).astype(int)
    values = [dependence.conditional_information(*some) for some in zip(*skewed)]
    assert abs(np.mean(values)) < 4 * np.std(values, ddof=1) / 10


def test_the_expected_information_is_that_of_shuffled_labels():
    """Of all 6! orders of six labels."""
    a, b = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 2, 2])
    orders = np.array(list(itertools.permutations(range(6))))
    plain = np.mean([dependence.information(a, b[order], corrected=False) for order in orders])
    table = np.zeros((1, 3, 3))
    np.add.at(table[0], (a, b), 1)
    assert dependence._expected(table)[0] == pytest.approx(plain)
    compiled = jax.jit(dependence._expected)(jnp.asarray(table))
    assert compiled[0] == pytest.approx(plain, rel=1e-4)


@jax.jit
def compiled(y2, yhat, y1):
    sizes, key = (10, 10, 10), jax.random.key(0)
    return (
        dependence.information(y2, yhat, sizes[:2]),
        dependence.conditional_information(y2, yhat, y1, sizes),
        dependence.permutation_test(key, y2, yhat, y1, 60, sizes),
        dependence.permutation_test(key, y2, yhat, None, 20, sizes[:2]),
    )


@pytest.mark.slow
def test_compiled_information_and_its_null():
    y1, y2 = labels("A", 2000)
    rng = np.random.default_rng(2)
    wrong = np.where(rng.random(len(y1)) < 0.3, rng.integers(0, 10, len(y1)), y1)
    leaning = np.where(rng.random(len(y1)) < 0.1, y2, wrong)
    for yhat, depends in ((wrong, False), (leaning, True)):
        plain, conditional, tested, _ = compiled(y2, yhat, y1)
        assert plain == pytest.approx(dependence.information(y2, yhat), abs=1e-4)
        expected = dependence.conditional_information(y2, yhat, y1)
        assert conditional == pytest.approx(expected, abs=1e-4) == tested.value
        assert tested.null.shape == (60,) and np.std(tested.null) > 0
        assert (tested.value > tested.high) == depends
        assert tested.p < 0.02 if depends else tested.p > 0.05


def test_constant_predictions_are_not_significant():
    """All tables are equal; rounding must not put the observed one above the others."""
    n = 333
    y2 = np.random.default_rng(0).integers(0, 10, (20, n))
    tested = jax.vmap(
        lambda y2: dependence.permutation_test(
            jax.random.key(0), y2, np.zeros(n, int), n_draws=20, sizes=(10, 10)
        )
    )
    np.testing.assert_allclose(jax.jit(tested)(y2).p, 1, rtol=1e-6)


def test_shuffled_within_each_stratum_or_in_all():
    """Where Y_1 determines Y_2, there is nothing to shuffle; without Y_1 there is."""
    y1, _ = labels("A", 2000)
    plain, _, within, in_all = compiled(y1, y1, y1)
    assert within.value == 0 and within.p == pytest.approx(1)
    assert in_all.value == pytest.approx(float(plain)) and plain > 2
    assert in_all.p == pytest.approx(1 / 21) and in_all.high < 0.05


# --- interventions --------------------------------------------------------------------------------

Y1, Y2 = (each[:2000] for each in labels("A"))
# One-hot digits side by side: labels that can be read off the inputs.
PAIRS = np.concatenate([np.eye(10)[Y1], np.eye(10)[Y2]], axis=1).astype(np.float32)
SIDES = dependence.parts((20,), 2, 0)
LEFT, RIGHT = np.eye(20, 10, dtype=np.float32), np.eye(20, 10, -10, dtype=np.float32)


def test_interventional_information_and_swaps():
    """Two heads: one says Y_1, the other Y_2; and one head alone, a few samples at a time."""

    def heads(w, x):
        return jnp.stack([x @ LEFT, x @ RIGHT], axis=1)

    @jax.jit
    def found(x):
        key, told = quick_key(0), (SIDES, 1, (10, 10))
        rate = dependence.swap_rate(key, heads, LEFT, x, SIDES, 1)
        both = dependence.interventional_information(key, heads, LEFT, x, Y2, *told)
        one = dependence.interventional_information(key, linear, RIGHT, x, Y2, *told, chunk=300)
        return rate, both, one

    rate, both, one = found(PAIRS)
    assert rate.shape == (2,) and rate[0] == 0 and rate[1] == pytest.approx(0.9, abs=0.03)
    np.testing.assert_allclose(both, [0, LN(10)], atol=0.03)
    assert one == pytest.approx(float(both[1]))


def test_an_intervention_changes_one_component_only():
    swapped, order = jax.jit(lambda x: dependence.intervene(quick_key(3), x, HALVES, 1))(X)
    np.testing.assert_array_equal(swapped[:, :3], X[:, :3])
    np.testing.assert_array_equal(swapped[:, 3:], X[order][:, 3:])
    assert np.all(order != np.arange(40)) and len(np.unique(order)) == 40


def test_confusion():
    y, y2 = np.array([0, 0, 0, 0]), np.array([3, 3, 3, 5])
    confused = dependence.confusion(
        np.array([0, 3, 2, 9]), y, np.stack([y2, y2 - 1], axis=1), n_classes=10
    )
    np.testing.assert_allclose(confused.of_all, [0.25, 0.25])
    np.testing.assert_allclose(confused.of_errors, [1 / 3, 1 / 3], rtol=1e-6)
    assert confused.n_errors == 3 and confused.by_chance == 1 / 9


# --- one step -------------------------------------------------------------------------------------


def test_one_step_uses_what_tells_of_the_target():
    """Propositions 3 and 4, from zero: D_2 rises where X_2 helps, hardly where it is re-drawn."""
    order = np.random.default_rng(0).permutation(len(PAIRS))
    redrawn = np.where(SIDES == 1, PAIRS[order], PAIRS)

    def loss(x):
        return lambda w: -jnp.mean(jax.nn.log_softmax(x @ w)[jnp.arange(len(x)), Y1])

    def measures(w):
        matrix = dependence.gradient_dependence(linear, w, PAIRS[:8], SIDES)
        return {"D_1": matrix[0, 0], "D_2": matrix[0, 1]}

    step = jax.jit(lambda w, x: dependence.one_step(loss(x), measures, w, length=0.1))
    helps, useless = (step(jnp.zeros((20, 10)), x) for x in (PAIRS, redrawn))
    assert helps.change["D_2"] > 3 * useless.change["D_2"] > 0
    assert helps.change["loss"] < useless.change["loss"] < 0
    assert helps.before["D_2"] == 0
    np.testing.assert_allclose(np.hypot(helps.after["D_1"], helps.after["D_2"]), 0.1, rtol=1e-4)
