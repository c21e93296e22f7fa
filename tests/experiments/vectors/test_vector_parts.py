"""Parts of the vector simulation: the generator, the supports, what a set depends on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vector_settings import settings

from cgjax.experiments.vectors import parts, run


@pytest.fixture(scope="module")
def data():
    return parts.make(settings())


def test_rules_for_the_best_weight():
    weights = np.random.default_rng(0).normal(size=(6, 10, 50)).astype(np.float32)
    norms = [np.linalg.norm(w) / np.linalg.norm(np.linalg.pinv(w)) for w in weights]
    np.testing.assert_allclose(parts.quality(weights, "reference"), norms, rtol=1e-4)
    conditions = [np.linalg.cond(w) for w in weights]
    np.testing.assert_allclose(parts.quality(weights, "conditioned"), conditions, rtol=1e-4)


def test_the_reference_rule_takes_the_worse_conditioned_draw():
    rules, key = ("reference", "conditioned"), jax.random.key(0)
    worse, better = (parts.best_weight(key, (10, 50), 200, rule) for rule in rules)
    for weight in (worse, better):
        assert weight.shape == (10, 50)
        np.testing.assert_allclose(jnp.linalg.norm(weight, axis=1), 1, rtol=1e-5)
    assert np.linalg.cond(worse) > 1.3 * np.linalg.cond(better)


def test_generator_stacks_two_layers_per_part():
    data = settings().data
    layers = parts.make_generator(jax.random.key(0), data)
    assert [w.shape for w, _ in layers] == [(4, 50, 2), (4, 10, 50)]
    z = np.random.default_rng(0).uniform(size=(3, 4, 2)).astype(np.float32)
    expected = []
    for k in range(4):
        y = z[:, k]
        for weights, biases in layers:
            y = y @ np.asarray(weights[k]).T + np.asarray(biases[k])
            y = np.where(y > 0, y, 0.2 * y)
        expected.append(y)
    np.testing.assert_allclose(
        parts.generate(layers, z), np.concatenate(expected, axis=1), rtol=1e-4, atol=1e-6
    )
    assert np.ptp(layers[0][0], axis=0).max() > 0.1  # the parts differ


def test_supports():
    draws = {
        name: np.asarray(parts.sample(jax.random.key(1), 400, name, 4, 2))
        for name in parts.SUPPORTS
    }
    for z in draws.values():
        assert z.shape == (400, 4, 2) and z.min() >= 0 and z.max() <= 1
    assert np.all(draws["diagonal"] == draws["diagonal"][:, :1])
    used = draws["orthogonal"].any(axis=2)
    assert np.all(used.sum(axis=1) == 1)
    assert used.sum(axis=0).min() > 60  # 100 of each part, give or take
    correlation = np.corrcoef(draws["random"].reshape(400, 8).T)
    assert np.abs(correlation - np.eye(8)).max() < 0.25


def test_a_set_depends_on_its_seed_and_support_alone(data):
    alone = parts.make(settings("mlp_orthogonal,smoke", **{"train.seeds": (5, 0)}))
    for name in ("train", "id"):
        assert np.array_equal(alone[name]["x"][1, 0], data[name]["x"][0, 2])
    assert np.array_equal(alone["all"]["x"][1], data["all"]["x"][0])
    assert not np.array_equal(alone["all"]["x"][0], alone["all"]["x"][1])
    shared = settings(**{"data.generators": "shared", "train.seeds": (5, 6)})
    assert np.array_equal(parts.make(shared)["all"]["x"], data["all"]["x"])
    assert set(run.replicas(shared)["generator"]) == {0}
