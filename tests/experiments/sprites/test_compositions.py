"""Compositions against the reference's images and Jacobians."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.experiments.sprites.compositions import (
    CHANNELS,
    COMPOSITIONS,
    alpha,
    channels,
    occlude,
)
from cgjax.nets.pallas.upsample_loss import unroll

REFERENCE = [n for n in COMPOSITIONS if n not in ("alpha_sigmoid", "occlude_sigmoid_clampsoftplus")]


@pytest.fixture(scope="module")
def small(golden):
    return golden("sprites/compositions_small")


def slots_of(small, name, n_slots):
    kind = "rgba" if CHANNELS[name] == 4 else "rgb"
    return [jnp.asarray(small[f"slot{k}_{kind}"]) for k in range(n_slots)]


@pytest.mark.parametrize("name", REFERENCE)
def test_golden_images_of_two_and_three_slots(small, name):
    @jax.jit
    def composed(slots):  # a stacked array is a sequence too, and a single pixel an image
        pixel = [slot[2, 1, 3] for slot in slots]
        return [COMPOSITIONS[name](given) for given in (slots, jnp.stack(slots), pixel)]

    for n_slots in (2, 3):
        expected = small[f"out{n_slots}_{name}"]
        found, stacked, pixel = composed(slots_of(small, name, n_slots))
        np.testing.assert_allclose(found, expected, atol=1e-6)
        np.testing.assert_array_equal(stacked, found)
        np.testing.assert_allclose(pixel, expected[2, 1, 3], atol=1e-6)


def test_golden_jacobians(small):
    checked = 0
    for name in REFERENCE:
        slots = [np.asarray(slot)[1] for slot in slots_of(small, name, 2)]
        for k in (0, 1):
            if f"jac2_{name}_wrt{k}" not in small:
                continue
            jacobian = jax.jacfwd(lambda *s, fn=COMPOSITIONS[name]: fn(s), argnums=k)
            found = jax.jit(jacobian)(*slots)
            expected = small[f"jac2_{name}_wrt{k}"]
            np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-5)
            checked += 1
    assert checked == 18


def test_straight_through_has_the_value_of_step_and_the_gradient_of_sigmoid(small):
    slots = slots_of(small, "occlude_sigmoid_ste", 2)
    step, sigmoid, ste = (
        COMPOSITIONS[f"occlude_{kind}"] for kind in ("step", "sigmoid", "sigmoid_ste")
    )
    np.testing.assert_array_equal(ste(slots), step(slots))

    def gradient(fn):
        weight = np.sin(np.arange(3.0))
        return jax.jit(jax.grad(lambda s: jnp.sum(weight * fn(s)[0, 0, 0])))(slots)

    for found, expected in zip(gradient(ste), gradient(sigmoid)):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("value, slope", [(-0.1, 0), (0.0, 1), (0.4, 1), (1.0, 1), (1.1, 0)])
def test_clipped_alpha_passes_the_gradient_at_its_borders(value, slope):
    front, back = jnp.array([0.9, 0.2, 0.4, value]), jnp.array([0.1, 0.5, 0.3, 1.0])
    slope_of = jax.jacfwd(lambda a: COMPOSITIONS["alpha"]([front.at[3].set(a), back]))
    found = jax.jit(slope_of)(jnp.float32(value))
    np.testing.assert_allclose(found, slope * (front - back)[:3], atol=1e-6)


def test_sigmoid_alpha_learns_where_clipped_alpha_is_dead():
    slots = [jnp.full((1, 2, 2, 4), -0.3)] * 2

    def gradient(name):
        return jax.jit(jax.grad(lambda s: jnp.sum((COMPOSITIONS[name](s) - 1) ** 2)))(slots)[0]

    assert jnp.all(COMPOSITIONS["alpha"](slots) == 0)
    assert jnp.all(gradient("alpha") == 0)
    assert jnp.all(gradient("alpha_sigmoid") != 0)


def test_all_act_pixel_by_pixel(small):
    for name, fn in COMPOSITIONS.items():
        slots = slots_of(small, name, 3)
        flat = [slot.reshape(-1, slot.shape[-1]) for slot in slots]
        by_pixel = jax.jit(jax.vmap(lambda *s, fn=fn: fn(s)))(*flat)
        np.testing.assert_allclose(by_pixel.reshape(6, 4, 4, 3), jax.jit(fn)(slots), atol=1e-6)


def test_channels_by_name_and_by_function():
    assert {channels(name) for name in COMPOSITIONS} == {3, 4}
    for name, fn in COMPOSITIONS.items():
        assert channels(name) == channels(fn) == (4 if "alpha" in name else 3)


@pytest.mark.parametrize(
    "call, message",
    [
        (functools.partial(channels, "oclude_sigmoid"), "did you mean 'occlude_sigmoid'"),
        (functools.partial(occlude, "soft"), "kinds are step, sigmoid"),
        (functools.partial(occlude, clamp="max"), "clamps are none, clamp"),
        (functools.partial(alpha, "relu"), "squashes are clip"),
        (functools.partial(COMPOSITIONS["alpha"], [jnp.zeros(3)] * 2), "RGBA"),
        (functools.partial(COMPOSITIONS["add"], [jnp.zeros(3)]), "two or more slots"),
        (functools.partial(COMPOSITIONS["add"], [jnp.zeros(3), jnp.zeros(4)]), "one shape"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_all_can_be_evaluated_channel_by_channel():
    """As the kernel of a loss does, value and gradient."""
    for name, fn in COMPOSITIONS.items():
        slots = [jnp.zeros(channels(name))] * 2
        on_lists = unroll(jax.value_and_grad(lambda s, fn=fn: jnp.sum(fn(s))), slots)
        lists = [[jnp.zeros(5)] * channels(name)] * 2
        value = jax.eval_shape(lambda lists, run=on_lists: run(lists)[0].item(), lists)
        assert value.shape == (5,), name
