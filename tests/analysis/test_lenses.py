"""Models whose answer to each lens is known: a sum, a product, a look-up table, two modules."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from flax.core import freeze

from cgjax import plots
from cgjax.analysis import closed_forms, ntk, predictors
from cgjax.analysis.lenses import Lenses, look, report
from cgjax.analysis.lenses.memorization import slopes

FACTORS = np.indices((5, 5)).reshape(2, -1).T
A, B = np.array([-3.0, -1, 0, 1, 3]), np.array([-2.0, -1, 0, 1, 2])
TRAIN = np.any(FACTORS == 2, axis=1) | (FACTORS[:, 0] == 0)
CODES = np.concatenate([np.eye(5)[column] for column in FACTORS.T], axis=1).astype(np.float32)
PARAMS = {"a": jnp.asarray(A, jnp.float32), "b": jnp.asarray(B, jnp.float32)}
SUM = A[FACTORS[:, 0]] + B[FACTORS[:, 1]]


def read(params, x):
    return x[:, :5] @ params["a"], x[:, 5:] @ params["b"]


def additive(params, x):
    return sum(read(params, x))


def multiplicative(params, x):
    a, b = read(params, x)
    return a * b


def memorising(params, x):
    return jnp.einsum("ni,nj,ij->n", x[:, :5], x[:, 5:], params["table"])


def modular(params, x):
    """Two networks beside each other, an output for each."""
    hidden = [jnp.tanh(x[:, c : c + 5] @ params[f"in_{c}"]) for c in (0, 5)]
    return jnp.stack([h @ params[f"out_{c}"] for h, c in zip(hidden, (0, 5))], axis=1)


def products(params, x):
    """Of all pairs: a code of which the kernel is a product."""
    a, b = (1 + x[:, c : c + 5] * params[name][None] for name, c in (("a", 0), ("b", 5)))
    return {"product": a[:, :, None] * b[:, None], "beside": x, "still": 0 * x + 0.1}


def modules():
    rng = np.random.default_rng(0)
    shapes = {"in_0": (5, 4), "in_5": (5, 4), "out_0": (4,), "out_5": (4,)}
    return {name: jnp.asarray(rng.normal(size=s), jnp.float32) for name, s in shapes.items()}


TABLE = {"table": jnp.asarray(np.where(TRAIN, SUM, 0).reshape(5, 5), jnp.float32)}
GENERATOR = {
    "composition": lambda slots: slots[0] + slots[1],
    "components": (lambda z: jnp.sin(z)[:, None], lambda z: jnp.exp(-z)[:, None]),
}


@pytest.fixture(scope="module")
def looked():
    inputs = (CODES, FACTORS, TRAIN)
    return {
        "additive": look(additive, PARAMS, *inputs, **GENERATOR, names=("shape", "colour")),
        "multiplicative": look(multiplicative, PARAMS, *inputs, select="a", taps=products),
        "memorising": look(memorising, TABLE, CODES.astype(int), FACTORS, TRAIN),
        "modular": look(modular, modules(), *inputs, select="in|out"),
    }


def test_a_sum(looked):
    lenses = looked["additive"]
    kernel = lenses.kernel
    assert kernel.additivity == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(kernel.salience, [0.5, 0], atol=1e-6)
    for name in ("slope", "slope_kernel", "slope_salience", "r2"):
        assert getattr(kernel, name) == pytest.approx(1, abs=1e-4), name
    np.testing.assert_allclose(lenses.dependence.effects, [[4 / 6, 2 / 6]], atol=1e-6)
    assert lenses.dependence.interaction[0] == pytest.approx(0, abs=1e-9)
    norms = np.sqrt([np.sum(A**2), np.sum(B**2)])
    np.testing.assert_allclose(lenses.dependence.gradients, [norms / norms.sum()], rtol=1e-5)
    assert lenses.support.holds
    text = "\n".join(lenses.bullets())
    for words in (
        "composes as a sum over factors",
        "factors add",
        "shape 0.667, colour 0.333",
        "P determines f on Q up to",
        "saliences S(1..2) = 0.500, 0.000",
    ):
        assert words in text, words
    assert lenses.factorization is lenses.masks is None
    assert "taps" in lenses.reasons["factorization"] and "select" in lenses.reasons["masks"]


def test_a_product(looked):
    lenses = looked["multiplicative"]
    np.testing.assert_allclose(lenses.dependence.effects, [[1, 1]], atol=1e-6)
    assert lenses.dependence.interaction[0] == pytest.approx(1, abs=1e-6)
    assert lenses.kernel.additivity < 0.5
    layers = lenses.factorization
    assert layers["product"].schmidt == pytest.approx(1) and layers["product"].additive < 0.9
    assert layers["beside"].additive == pytest.approx(1) and layers["beside"].schmidt < 0.95
    assert layers["beside"].selective == 1 and np.isnan(layers["still"].metric)
    text = lenses.bullets()[3]
    assert text.startswith("Layers: factors mix in product; ")
    assert "(a product)" in text and "(a sum)" in text and "still constant on some grid" in text
    assert lenses.masks is None and lenses.reasons["masks"].startswith("0 of the factors have")


def test_a_look_up_table(looked):
    lenses = looked["memorising"]
    np.testing.assert_allclose(lenses.kernel.salience, [0, 1], atol=1e-6)
    for name in ("slope", "slope_kernel", "slope_salience"):
        assert getattr(lenses.kernel, name) == pytest.approx(0, abs=1e-6), name
    assert lenses.kernel.r2 < 0 and lenses.kernel.r2_train == pytest.approx(1)
    assert "memorises" in lenses.bullets()[0] and "S = 1.00" in lenses.bullets()[0]
    assert "outputs are constant over the held-out" in lenses.reasons["additivity"]
    assert lenses.dependence.gradients is None and "int" in lenses.reasons["gradients"]


def test_modules(looked):
    lenses = looked["modular"]
    np.testing.assert_allclose(lenses.dependence.effects, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(lenses.dependence.gradients, np.eye(2), atol=1e-6)
    assert lenses.masks.sub_diff > 0.9 and lenses.masks.abl_diff < -0.9
    assert lenses.masks.abl_diff_random.mean() > -0.5 and lenses.masks.n_passes == 600
    masks = {name: np.asarray(mask) for name, mask in lenses.masks.masks.items()}
    assert not masks["out_0"][1].any() and not masks["out_5"][0].any()
    assert "each output depends on one factor, each factor has an output" in lenses.bullets()[2]
    assert lenses.bullets()[4].startswith("Subnetworks: a part for each factor")


def test_the_predicted_slope_is_that_of_the_theory():
    """Features of a known salience and the readout that gradient descent ends with."""
    s, values = 0.3, np.array([-2.0, -1, 0, 1, 2])
    whole = np.eye(25)  # phi: each value with weight s, each combination with the rest
    x = np.concatenate([s**0.5 * CODES, (1 - 2 * s) ** 0.5 * whole], axis=1).astype(np.float32)
    anchor = np.any(FACTORS == 2, axis=1)
    w = np.linalg.pinv(x[anchor]) @ values[FACTORS].sum(axis=1)[anchor]
    # Levels may have any numbers.
    lenses = look(_readout, {"w": jnp.asarray(w, jnp.float32)}, x, FACTORS + 7, anchor)
    expected = float(closed_forms.memorization_slope(s, 1))
    for name in ("slope", "slope_kernel", "slope_salience"):
        assert getattr(lenses.kernel, name) == pytest.approx(expected, abs=1e-3), name
    np.testing.assert_allclose(lenses.kernel.salience, [s, 1 - 2 * s], atol=1e-5)
    assert (
        f"composes in part as a sum over factors, with slope {expected:.2f}" in lenses.bullets()[0]
    )


def _readout(params, x):
    return x @ params["w"]


def test_three_factors_and_several_inputs_of_each_combination():
    factors = np.repeat(np.indices((2, 2, 3)).reshape(3, -1).T, 2, axis=0)
    codes = np.concatenate([np.eye(3)[column] for column in factors.T], axis=1)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0]
    weights = np.array([-1, 1, 0, -2, 2, 0, -1, 0, 1.0])
    train = np.sum(factors > 0, axis=1) < 2
    params = {"w": jnp.asarray(turn.T @ weights, jnp.float32)}
    lenses = look(_readout, params, (codes @ turn).astype(np.float32), factors, train)
    np.testing.assert_allclose(lenses.kernel.salience, [1 / 3, 0, 0], atol=1e-6)
    assert lenses.kernel.slope == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(
        lenses.dependence.effects, [np.array([1, 4, 2 / 3]) / (5 + 2 / 3)], atol=1e-5
    )
    np.testing.assert_allclose(lenses.dependence.pairs[0][np.triu_indices(3, 1)], 0, atol=1e-9)
    # The inputs mix the factors, so that no factor has a part to differentiate in.
    assert lenses.dependence.gradients is None and "inputs" in lenses.reasons["gradients"]


def test_the_kernel_between_combinations_is_that_of_samples():
    """With numbers of samples that differ; linear in n, where the kernel of samples is not."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.repeat(np.arange(25), rng.integers(1, 9, 25)))
    x = (CODES[rows] + rng.normal(size=(len(rows), 10))).astype(np.float32)
    shapes = {"first": (10, 16), "last": (16, 2)}
    params = {name: jnp.asarray(rng.normal(size=s), jnp.float32) for name, s in shapes.items()}

    def net(params, x):
        return jnp.tanh(x @ params["first"]) @ params["last"]

    gram = ntk.empirical(net, params, x, form="mean_trace", verbose=False)
    expected = slopes(gram, FACTORS[rows], net(params, x), TRAIN[rows])
    kernel = look(net, params, x, FACTORS[rows], TRAIN[rows]).kernel
    np.testing.assert_allclose(kernel.salience_by_subset, expected.salience_by_subset, rtol=1e-4)
    np.testing.assert_allclose(kernel.predicted, expected.predicted, rtol=1e-3, atol=1e-3)
    assert kernel.structured == pytest.approx(expected.structured, abs=1e-5)


def test_a_value_that_training_never_shows_fails_the_theorem():
    """By levels: that its neighbours are shown does not count."""
    train = FACTORS[:, 0] != 1
    lens = look(additive, PARAMS, CODES, FACTORS, train, **GENERATOR).support
    assert lens.assumption == "A2 and identification" and not lens.holds
    assert "Component 0: no full rank: 1 of 5 values fail" in lens.verdict
    assert lens.identification.witness is not None


def test_a_model_that_ignores_everything_has_reasons_only():
    lenses = look(_dead, PARAMS, CODES.astype(int), FACTORS, TRAIN, select="a")
    undefined = ("support", "factorization", "dependence", "masks")
    assert all(getattr(lenses, name) is None and lenses.reasons[name] for name in undefined)
    for name in ("slope", "slope_kernel", "slope_salience", "r2", "salience", "structured"):
        assert getattr(lenses.kernel, name) is None and lenses.reasons[name], name
    assert all("undefined, " in bullet for bullet in lenses.bullets())
    assert len(plots.lenses(lenses).axes) == 6


def _dead(params, x):
    return 0.0 * x[:, :2]


def test_without_parameters_only_the_kernel_is_undefined():
    lenses = look(lambda params, x: x @ SLOPES, {}, CODES, FACTORS, TRAIN)
    assert lenses.kernel.slope == pytest.approx(1) and lenses.kernel.slope_kernel is None
    assert "no output depends on params" in lenses.reasons["slope_kernel"]
    assert lenses.bullets()[0].startswith("Held-out combinations: composes as a sum over factors")
    assert "tangent kernel" not in lenses.headline() and len(plots.lenses(lenses).axes) == 6


SLOPES = np.concatenate([A, B]).astype(np.float32)


def test_an_infinite_derivative_is_no_dependence():
    def roots(params, x):
        return additive(params, jnp.sqrt(x))

    lenses = look(roots, PARAMS, CODES, FACTORS, TRAIN)
    assert lenses.dependence.gradients is None and "infinite" in lenses.reasons["gradients"]
    np.testing.assert_allclose(lenses.dependence.effects, [[4 / 6, 2 / 6]], atol=1e-6)


def test_ranks_are_shares_of_the_networks_that_the_record_has():
    """An additive model: no recorded share is higher; ranks are those of the file's numbers."""
    mixed = np.random.default_rng(0).normal(size=(10, 8)).astype(np.float32)
    given = {"targets": SUM, "taps": lambda p, x: {"units": x @ mixed}, "verbose": False}
    lenses = look(additive, PARAMS, CODES, FACTORS, TRAIN, **given)
    assert set(lenses.ranks) <= set(report.NUMBERS) and len(lenses.ranks) >= 6
    known = report.recorded()
    for name, rank in lenses.ranks.items():
        groups = [known[name][group] for group in ("composed", "others")]  # sorted
        sizes = [len(group) for group in groups]
        assert [rank.n_composed, rank.n_others] == sizes and min(sizes) > 20
        n_below = [np.searchsorted(group, np.round(rank.number, 6)) for group in groups]
        assert [rank.composed, rank.others] == [n / size for n, size in zip(n_below, sizes)]
    additivity = lenses.ranks["additivity"]
    assert additivity.number == pytest.approx(1) and additivity.others > 0.7
    assert lenses.bullets()[5].startswith("Benchmark: values ")
    assert f"of the {additivity.n_composed} networks that composed" in lenses.bullets()[5]
    units = (CODES @ mixed)[TRAIN]
    direct = predictors.linearity(FACTORS[TRAIN], units)
    assert lenses.ranks["linearity"].number == pytest.approx(direct)


def test_models_that_are_not_comparable_have_no_ranks(looked):
    """Only models that fit their targets are compared; without targets the fit is unknown."""
    assert looked["additive"].ranks is None and "targets" in looked["additive"].reasons["ranks"]
    inputs = (additive, PARAMS, CODES, FACTORS, TRAIN)
    unfit = look(*inputs, targets=-SUM, verbose=False)
    assert unfit.ranks is None and "does not fit" in unfit.reasons["ranks"]
    assert len(unfit.bullets()) == 5
    several = {"taps": lambda p, x: {"a": x, "b": x}, "targets": SUM, "verbose": False}
    assert set(look(*inputs, **several).ranks) == {"values", "additivity"}
    assert "linearity" in look(*inputs, **several, layer="a").ranks
    with pytest.raises(ValueError, match="layer is one of the layers of taps"):
        look(*inputs, **several, layer="c")


def test_the_report_is_a_bullet_for_each_lens_and_one_figure(looked, capsys):
    for name, lenses in looked.items():
        fig = lenses.report(plots.lenses)
        printed = capsys.readouterr().out
        assert printed == "".join(f"* {bullet}\n" for bullet in lenses.bullets())
        assert printed.count("\n") == 5 and "nan" not in printed
        assert len(fig.axes) == 6
        texts = [text.get_text().replace("\n", " ") for ax in fig.axes for text in ax.texts]
        empty = sum(text.startswith("Undefined: ") for text in texts)
        optional = (lenses.support, lenses.factorization, lenses.masks)
        assert empty == sum(lens is None for lens in optional), name
    assert lenses.report() is None and capsys.readouterr().out


def test_the_call_that_others_rely_on():
    names = list(inspect.signature(look).parameters)
    assert names[:6] == ["f", "params", "x", "factors", "is_train", "select"]
    assert Lenses._fields[:6] == (
        "support",
        "kernel",
        "factorization",
        "dependence",
        "masks",
        "reasons",
    )


# --- flax variables -------------------------------------------------------------------------------


class LinenNorm(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.BatchNorm(use_running_average=True)(linen.Dense(8)(x))
        return linen.Dense(1)(linen.relu(x))[:, 0]


class NnxNorm(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(10, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.relu(self.norm(self.hidden(x)))))[:, 0]


def linen_model():
    net = LinenNorm()
    variables = net.init(jax.random.key(0), CODES)
    mean = jax.random.normal(jax.random.key(1), (8,))
    variables = {**variables, "batch_stats": {"BatchNorm_0": {"mean": mean, "var": 1 + mean**2}}}

    def of_params(params, x):
        return net.apply({**variables, "params": params}, x)

    return net.apply, variables, of_params, variables["params"]


def frozen_model():
    f, variables, of_params, params = linen_model()
    return f, freeze(variables), of_params, params


def nnx_model():
    model = NnxNorm(nnx.Rngs(0))
    model.eval()
    model.norm.mean.value = jax.random.normal(jax.random.key(1), (8,))
    graph, everything = nnx.split(model)
    _, params, others = nnx.split(model, nnx.Param, ...)

    def of_everything(variables, x):
        return nnx.merge(graph, variables)(x)

    def of_params(params, x):
        return nnx.merge(graph, params, others)(x)

    return of_everything, everything, of_params, params


@pytest.mark.parametrize(
    "model", [linen_model, pytest.param(frozen_model, marks=pytest.mark.slow), nnx_model]
)
def test_only_parameters_are_differentiated(model):
    """The kernel machine of f(variables, x) is that of f(params, x), whatever else there is."""
    f, variables, of_params, params = model()
    gram = ntk.empirical(of_params, params, CODES, form="mean_trace", verbose=False)
    lenses = look(f, variables, CODES, FACTORS, TRAIN, select=".", n_steps=2)
    expected = slopes(gram, FACTORS, of_params(params, CODES)[:, None], TRAIN)
    np.testing.assert_allclose(lenses.kernel.salience, expected.salience, rtol=1e-4)
    np.testing.assert_allclose(lenses.kernel.predicted, expected.predicted, atol=1e-4)
    # Statistics are not weights: the search for subnetworks does not mask them.
    assert len(jax.tree.leaves(lenses.masks.masks)) == len(jax.tree.leaves(params))


def test_a_tree_without_params_is_differentiated_whole():
    lens = look(additive, PARAMS, CODES, FACTORS, TRAIN).kernel
    nested = look(lambda p, x: additive(p["tables"], x), {"tables": PARAMS}, CODES, FACTORS, TRAIN)
    np.testing.assert_array_equal(lens.predicted, nested.kernel.predicted)
