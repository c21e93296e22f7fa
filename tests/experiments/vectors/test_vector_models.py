"""Models of the vector simulation, what a replica sees, its loss, its optimiser."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax import config as configs
from cgjax.analysis import contrasts
from cgjax.experiments.vectors import parts, run

FILE = "configs/vectors.py"


def settings(arg="smoke", **changes):
    return configs.load(f"{FILE}:{arg}", {name: str(value) for name, value in changes.items()})


@pytest.fixture(scope="module")
def data():
    return jax.tree.map(np.asarray, parts.make(settings()))


@pytest.mark.parametrize("kind, count", [("mlp", 5888), ("compositional", 5168)])
def test_models(kind, count, data):
    config = settings("demo,paper")
    model = run.build(config, kind)
    params = jax.jit(model.init)(jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == count
    x = data["all"]["x"][0, :5]
    out = jax.jit(model.predict)(params, x)
    expected = []
    for i in range(1 if kind == "mlp" else 4):
        seen = (np.arange(40) // 10 == i) | (kind == "mlp")
        y = np.where(seen, x, 0)
        for layer in ("dense_0", "dense_1"):
            y = y @ np.asarray(params[layer]["kernel"][i]) + np.asarray(params[layer]["bias"][i])
            y = np.where(y > 0, y, 0.2 * y)
        expected.append(y)
    np.testing.assert_allclose(out, np.concatenate(expected, axis=1), rtol=1e-4, atol=1e-6)

    @jax.jit
    def contrast(params, x):
        return contrasts.MEASURES["block_contrast"](
            lambda one: model.predict(params, one[None])[0], x, 4
        )

    assert (contrast(params, x) == 0) == (kind == "compositional")


def test_every_replica_has_its_own_number_and_keeps_it():
    few = run.replicas(settings(**{"train.seeds": (0, 2)}))
    more = run.replicas(settings(**{"train.seeds": (0, 2, 1)}))
    assert len(set(more["stream"])) == len(more["stream"]) == 3 * 3 * 2
    for name, values in few.items():
        assert np.array_equal(values, more[name][: len(values)])
    assert list(few["n_train"][:4]) == [4, 16, 4, 16] and list(few["support"][:4]) == [0, 0, 1, 1]


def at_first(config, data):
    """Parameters, and a program for their loss on the rows that `draw` in [0, 1) selects."""
    experiment = run.experiment(config, "mlp", data)
    params, _ = jax.jit(experiment.init)(jax.random.key(0), {})
    batch = experiment.batch(jax.tree.map(jnp.asarray, data), None, jax.random.key(0), 0)
    assert batch["draw"].shape == (config.data.batch,)
    first = {name: values[0] for name, values in experiment.replicas.items()}

    @jax.jit
    def loss(draw, replica):
        drawn = {**batch, "draw": draw}
        return experiment.loss(params, {}, drawn, jax.random.key(0), 0, first | replica)[0]

    return params, lambda draw, **replica: float(loss(np.array(draw, np.float32), replica))


def test_a_replica_sees_the_first_n_rows_of_its_support(data):
    config = settings()
    params, loss = at_first(config, data)
    predict = jax.jit(run.build(config, "mlp").predict)
    for n, draw, row in ((1, 0.9, 0), (3, 0.34, 1), (16, 0.99999997, 15)):
        for support in range(3):
            value = loss([draw], n_train=n, support=support)
            x, z = (data["train"][name][0, support, row] for name in "xz")
            predicted = predict(params, x[None])[0]
            np.testing.assert_allclose(value, np.mean((predicted - z) ** 2), rtol=1e-5)


@pytest.mark.parametrize("name", [n for n in contrasts.REGULARISERS if n != "none"])
def test_regularisers_enter_the_loss(name, data):
    changes = {"optim.regulariser": name, "model.activation": "tanh"}
    draw, n = [0.1, 0.6], 16
    params, plain = at_first(settings(**changes | {"optim.regulariser": "none"}), data)
    config = settings(**changes)
    model, x = run.build(config, "mlp"), data["train"]["x"][0, 0, [1, 9]]

    @jax.jit
    def value(params, x):
        return contrasts.REGULARISERS[name](lambda one: model.predict(params, one[None])[0], x, 4)

    penalty = value(params, x)
    _, regularised = at_first(config, data)
    more = regularised(draw, n_train=n) - plain(draw, n_train=n)
    assert abs(penalty) > 1e-4
    np.testing.assert_allclose(more, 0.5 * penalty, rtol=1e-3)


def test_momentum_starts_anew_every_round():
    tx = run.sgd(0.1, 0.9, 3)
    params = {"a": jnp.zeros(2), "b": jnp.zeros(())}
    state, velocity = tx.init(params), 0.0
    for step in range(8):
        updates, state = tx.update(jax.tree.map(jnp.ones_like, params), state, params)
        velocity = 0.9 * (0.0 if step % 3 == 0 else velocity) + 1.0
        for leaf in jax.tree.leaves(updates):
            np.testing.assert_allclose(leaf, -0.1 * velocity, rtol=1e-6)
    never = run.sgd(0.1, 0.9, 0)
    state = never.init(params)
    for _ in range(4):
        updates, state = never.update(jax.tree.map(jnp.ones_like, params), state, params)
    np.testing.assert_allclose(updates["b"], -0.1 * (1 + 0.9 + 0.81 + 0.729), rtol=1e-6)
