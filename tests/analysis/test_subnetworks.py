"""A short search finds the parts of a model made of parts, and none where there are none."""

import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis.masks.factors import main_effects, subnetworks

FACTORS = np.indices((5, 5)).reshape(2, -1).T
CODES = np.concatenate([np.eye(5)[column] for column in FACTORS.T], axis=1).astype(np.float32)
RNG = np.random.default_rng(0)


def linear(params, x):
    return x @ params["kernel"]


@pytest.fixture(scope="module")
def found():
    """The same function with weights that belong to one factor each, and with rotated inputs."""
    weights = np.tile(np.linspace(-2, 2, 5), 2)
    turn = np.linalg.qr(RNG.normal(size=(10, 10)))[0]
    cases = {"parted": (CODES, weights), "mixed": (CODES @ turn, turn.T @ weights)}
    return {
        name: subnetworks(
            linear,
            {"kernel": jnp.asarray(w, jnp.float32)},
            jnp.asarray(x, jnp.float32),
            FACTORS,
            "kernel",
        )
        for name, (x, w) in cases.items()
    }


def test_each_factor_has_its_weights(found):
    parted = found["parted"]
    mask = np.asarray(parted.masks["kernel"])
    needed = np.kron(np.eye(2), [1, 1, 0, 1, 1])  # the middle value has weight 0
    np.testing.assert_array_equal(mask, needed)
    np.testing.assert_allclose(parted.alone, np.eye(2), atol=1e-5)
    np.testing.assert_allclose(parted.without, 1 - np.eye(2), atol=1e-5)
    assert parted.sub_diff == pytest.approx(1, abs=1e-5)
    assert parted.abl_diff == pytest.approx(-1, abs=1e-5)
    assert abs(parted.abl_diff_random.mean()) < 0.5
    np.testing.assert_allclose(parted.overlap, np.eye(2))
    np.testing.assert_allclose(parted.kept, 0.4)
    assert parted.overlap_random[0, 1] == pytest.approx(0.16 / (1 - 0.36))
    assert parted.n_passes == 600


def test_mixed_inputs_have_no_parts(found):
    assert found["mixed"].sub_diff < 0.8 and found["mixed"].abl_diff > -0.8


def test_factors_without_an_effect_of_their_own_are_left_out():
    values = np.linspace(-2, 2, 5)[FACTORS]
    chosen, effects = main_effects(FACTORS, (values[:, 0] + 5 * values.prod(axis=1))[:, None])
    assert chosen.tolist() == [0]
    np.testing.assert_allclose(effects[0, :, 0], values[:, 0], atol=1e-12)
    with pytest.raises(ValueError, match="factors: 1 have a main effect on the outputs"):
        subnetworks(
            lambda params, x: params["w"] * (x @ jnp.tile(jnp.linspace(-2, 2, 5), 1)),
            {"w": jnp.ones(())},
            jnp.asarray(CODES[:, :5]),
            FACTORS,
            "w",
        )


@pytest.mark.parametrize("unit", [1e-25, 1e25])
def test_main_effects_do_not_depend_on_units(unit):
    values = np.linspace(-2, 2, 5)[FACTORS].sum(axis=1)[:, None]
    chosen, effects = main_effects(FACTORS, unit * values)
    assert chosen.tolist() == [0, 1]
    np.testing.assert_allclose(effects, unit * main_effects(FACTORS, values)[1], atol=1e-12 * unit)


def test_constant_outputs_have_no_main_effect():
    constant = np.full((25, 1), 0.1)  # its variance is rounding
    assert constant.var() > 0
    assert main_effects(FACTORS, constant)[0].size == 0


def test_a_search_does_not_depend_on_units(found):
    weights = jnp.asarray(np.tile(np.linspace(-2, 2, 5), 2) * 2.0**-75, jnp.float32)
    small = subnetworks(linear, {"kernel": weights}, jnp.asarray(CODES), FACTORS, "kernel")
    np.testing.assert_array_equal(small.masks["kernel"], found["parted"].masks["kernel"])
