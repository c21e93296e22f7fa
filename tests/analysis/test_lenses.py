"""Models whose answer to each lens is known: a sum, a product, a look-up table, two modules."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from flax.core import freeze

from cgjax import plots
from cgjax.analysis import closed_forms, ntk
from cgjax.analysis.lenses import Lenses, look
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
    return {"product": a[:, :, None] * b[:, None], "beside": x}


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


def test_a_sum_is_told(looked):
    found = looked["additive"]
    kernel = found.kernel
    assert kernel.additivity == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(kernel.salience, [0.5, 0], atol=1e-6)
    for name in ("slope", "slope_kernel", "slope_salience", "r2"):
        assert getattr(kernel, name) == pytest.approx(1, abs=1e-4), name
    np.testing.assert_allclose(found.dependence.effects, [[4 / 6, 2 / 6]], atol=1e-6)
    assert found.dependence.interaction[0] == pytest.approx(0, abs=1e-9)
    norms = np.sqrt([np.sum(A**2), np.sum(B**2)])
    np.testing.assert_allclose(found.dependence.gradients, [norms / norms.sum()], rtol=1e-5)
    assert found.support.holds
    text = found.words()
    for words in (
        "conjunction-wise additive", "it counts single factors", "it composes, about as its kernel",
        "factors add", "shape 0.667, colour 0.333", "Consistent with the theorem",
    ):  # fmt: skip
        assert words in text, words
    assert found.factorization is found.masks is None
    assert "taps" in found.reasons["factorization"] and "select" in found.reasons["masks"]


def test_a_product_is_told(looked):
    found = looked["multiplicative"]
    np.testing.assert_allclose(found.dependence.effects, [[1, 1]], atol=1e-6)
    assert found.dependence.interaction[0] == pytest.approx(1, abs=1e-6)
    assert found.kernel.additivity < 0.5
    layers = found.factorization
    assert layers["product"].schmidt == pytest.approx(1) and layers["product"].additive < 0.9
    assert layers["beside"].additive == pytest.approx(1) and layers["beside"].schmidt < 0.95
    assert layers["beside"].selective == 1
    text = found.words()
    assert "product " in text and "(a product)" in text and "(a sum)" in text
    assert "conjunction-wise additive" not in text and "it composes" not in text
    assert "A share of 1.000 of the outputs' variance is interaction" in text
    assert found.masks is None and found.reasons["masks"].startswith("0 of the factors move")


def test_a_look_up_table_is_told(looked):
    found = looked["memorising"]
    np.testing.assert_allclose(found.kernel.salience, [0, 1], atol=1e-6)
    for name in ("slope", "slope_kernel", "slope_salience"):
        assert getattr(found.kernel, name) == pytest.approx(0, abs=1e-6), name
    assert found.kernel.r2 < 0 and found.kernel.r2_train == pytest.approx(1)
    text = found.words()
    assert "a look-up table" in text and "it memorises" in text and "it composes" not in text
    assert "outputs do not vary over the unseen combinations" in text
    assert found.dependence.gradients is None and "int" in found.reasons["gradients"]


def test_modules_are_told(looked):
    found = looked["modular"]
    np.testing.assert_allclose(found.dependence.effects, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(found.dependence.gradients, np.eye(2), atol=1e-6)
    assert found.masks.sub_diff > 0.9 and found.masks.abl_diff < -0.9
    assert found.masks.abl_diff_random.mean() > -0.5
    masks = {name: np.asarray(mask) for name, mask in found.masks.masks.items()}
    assert not masks["out_0"][1].any() and not masks["out_5"][0].any()
    text = found.words()
    assert "each output depends on one factor, and each factor has its own" in text
    assert "a part for each factor; the search took 600 passes" in text


def test_the_predicted_slope_is_that_of_the_theory():
    """Features of a known salience and the readout that gradient descent ends with."""
    s, values = 0.3, np.array([-2.0, -1, 0, 1, 2])
    whole = np.eye(25)  # phi: each value with weight s, each combination with the rest
    x = np.concatenate([s**0.5 * CODES, (1 - 2 * s) ** 0.5 * whole], axis=1).astype(np.float32)
    anchor = np.any(FACTORS == 2, axis=1)
    w = np.linalg.pinv(x[anchor]) @ values[FACTORS].sum(axis=1)[anchor]
    # Levels may have any numbers.
    found = look(_readout, {"w": jnp.asarray(w, jnp.float32)}, x, FACTORS + 7, anchor)
    expected = float(closed_forms.memorization_slope(s, 1))
    for name in ("slope", "slope_kernel", "slope_salience"):
        assert getattr(found.kernel, name) == pytest.approx(expected, abs=1e-3), name
    np.testing.assert_allclose(found.kernel.salience, [s, 1 - 2 * s], atol=1e-5)
    assert "about as its kernel foretells" in found.words()
    assert "it composes" not in found.words()


def _readout(params, x):
    return x @ params["w"]


def test_three_factors_and_several_inputs_of_each_combination():
    factors = np.repeat(np.indices((2, 2, 3)).reshape(3, -1).T, 2, axis=0)
    codes = np.concatenate([np.eye(3)[column] for column in factors.T], axis=1)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0]
    weights = np.array([-1, 1, 0, -2, 2, 0, -1, 0, 1.0])
    train = np.sum(factors > 0, axis=1) < 2
    params = {"w": jnp.asarray(turn.T @ weights, jnp.float32)}
    found = look(_readout, params, (codes @ turn).astype(np.float32), factors, train)
    np.testing.assert_allclose(found.kernel.salience, [1 / 3, 0, 0], atol=1e-6)
    assert found.kernel.slope == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(
        found.dependence.effects, [np.array([1, 4, 2 / 3]) / (5 + 2 / 3)], atol=1e-5
    )
    # Its inputs mix the factors, so that none has a part to differentiate in.
    assert found.dependence.gradients is None and "inputs" in found.reasons["gradients"]


def test_a_value_that_training_never_shows_fails_the_theorem():
    """By levels: that its neighbours are shown does not count."""
    train = FACTORS[:, 0] != 1
    found = look(additive, PARAMS, CODES, FACTORS, train, **GENERATOR)
    assert found.support.assumption == "A2" and not found.support.holds
    assert "Component 0: no sufficient support: 1 of 5 values fail" in found.support.verdict


def test_a_model_that_ignores_everything_has_reasons_only():
    found = look(_dead, PARAMS, CODES.astype(int), FACTORS, TRAIN, select="a")
    assert found[:5] == (None,) * 5
    assert set(found.reasons) == {"support", "kernel", "factorization", "dependence", "masks"}
    assert found.words().startswith("Undefined: ") and len(plots.lenses(found).axes) == 6


def _dead(params, x):
    return 0.0 * x[:, :2]


def test_the_report_is_one_paragraph_and_one_figure(looked, capsys):
    for name, found in looked.items():
        fig = found.report(plots.lenses)
        printed = capsys.readouterr().out
        assert printed == found.words() + "\n" and "nan" not in printed
        assert len(fig.axes) == 6
        texts = [text.get_text().replace("\n", " ") for ax in fig.axes for text in ax.texts]
        empty = sum(text.startswith("Undefined: ") for text in texts)
        lenses = (found.support, found.factorization, found.masks)
        assert empty == sum(lens is None for lens in lenses), name
    assert found.report() is None and capsys.readouterr().out


def test_the_call_that_others_rely_on():
    names = list(inspect.signature(look).parameters)
    assert names[:6] == ["f", "params", "x", "factors", "is_train", "select"]
    assert Lenses._fields[:6] == (
        "support", "kernel", "factorization", "dependence", "masks", "reasons"
    )  # fmt: skip


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


@pytest.mark.parametrize("model", [linen_model, frozen_model, nnx_model])
def test_only_parameters_are_differentiated(model):
    """The kernel machine of f(variables, x) is that of f(params, x), whatever else there is."""
    f, variables, of_params, params = model()
    gram = ntk.empirical(of_params, params, CODES, form="mean_trace", verbose=False)
    lens = look(f, variables, CODES, FACTORS, TRAIN).kernel
    expected = slopes(gram, FACTORS, of_params(params, CODES)[:, None], TRAIN)
    np.testing.assert_allclose(lens.salience, expected.salience, rtol=1e-4)
    np.testing.assert_allclose(lens.predicted, expected.predicted, atol=1e-4)
    # Statistics are not weights: the search for subnetworks does not mask them.
    masks = look(f, variables, CODES, FACTORS, TRAIN, select=".", n_steps=2).masks.masks
    assert len(jax.tree.leaves(masks)) == len(jax.tree.leaves(params))


def test_a_tree_without_params_is_differentiated_whole():
    lens = look(additive, PARAMS, CODES, FACTORS, TRAIN).kernel
    nested = look(lambda p, x: additive(p["tables"], x), {"tables": PARAMS}, CODES, FACTORS, TRAIN)
    np.testing.assert_array_equal(lens.predicted, nested.kernel.predicted)
