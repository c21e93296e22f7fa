"""Compositions with parameters, and how well components are recovered."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax import config as configs
from cgjax.core.errors import BadInput
from cgjax.experiments.sprites import models, scenes
from cgjax.experiments.sprites import run as sprites
from cgjax.experiments.sprites.compositions import COMPOSITIONS

KEY = jax.random.key(0)
SLOTS = list(jax.random.normal(KEY, (3, 2, 4, 5, 4)))


def settings(**model):
    choices = {"decoder": "broadcast", **model}
    changes = {f"model.{name}": value for name, value in choices.items()}
    if choices["decoder"] == "broadcast":
        changes["model.broadcast.n_layers"] = "2"  # compiles quickly
    return configs.load("configs/sprites.py:orthogonal_compositional,smoke", changes)


def test_learned_sharpness_starts_as_the_fixed_sigmoid():
    names = ("occlude_sigmoid", "learned_sharpness")
    fixed, soft = (models.build(settings(composition=name), "compositional") for name in names)
    z = jax.random.uniform(jax.random.key(1), (3, 10))
    params = jax.jit(soft.init)(KEY)
    assert float(models.sharpness(params)["sharpness"]) == 1
    assert models.sharpness(params["components"]) == {}
    image = jax.jit(fixed.predict)(params["components"], z)
    np.testing.assert_array_equal(jax.jit(soft.predict)(params, z), image)


def test_sharpness_is_that_of_the_occlusion():
    rgb = [slot[..., :3] for slot in SLOTS]
    params = {"log_sharpness": jnp.log(10.0)}
    found = models.composition_named("annealed_sharpness").compose(params, rgb)
    np.testing.assert_allclose(found, COMPOSITIONS["occlude_sigmoid_a10"](rgb), atol=1e-5)


def test_annealing_is_geometric_and_reaches_its_end():
    steps = jnp.array([0, 50, 100])
    found = jnp.exp(jax.vmap(lambda t: models.annealed(t, 101, 1.0, 10.0)["log_sharpness"])(steps))
    np.testing.assert_allclose(found, [1, 10**0.5, 10], rtol=1e-5)


def test_annealed_sharpness_is_scheduled_and_not_trained():
    model = models.build(settings(composition="annealed_sharpness"), "compositional")
    params = jax.eval_shape(model.init, KEY)
    assert set(params) == {"components"}
    scheduled = model.scheduled(11)  # the last of the 12 steps of smoke
    assert float(models.sharpness(scheduled)["sharpness"]) == pytest.approx(10)
    joined = models.join(params, scheduled)
    images = jax.eval_shape(model.predict, joined, jnp.zeros((2, 10)))
    assert images.shape == (2, 64, 64, 3)


@pytest.mark.parametrize("n_slots", [2, 3])
def test_learned_mlp_acts_pixel_by_pixel(n_slots):
    mlp = models.composition_named("learned_mlp")
    rgb = [slot[..., :3] for slot in SLOTS[:n_slots]]
    params, compose = jax.jit(mlp.init, static_argnums=1)(KEY, n_slots), jax.jit(mlp.compose)
    sizes = [params[f"dense_{i}"]["kernel"].shape for i in range(3)]
    assert sizes == [(3 * n_slots, 32), (32, 32), (32, 3)]
    whole = compose(params, rgb)
    assert whole.shape == rgb[0].shape
    pixel = compose(params, [slot[1, 2, 3] for slot in rgb])
    np.testing.assert_allclose(pixel, whole[1, 2, 3], atol=1e-6)


def test_attention_weights_slots_by_their_scores():
    attention = models.composition_named("learned_attention")
    assert attention.channels == 4
    equal = [slot.at[..., 3].set(0.7) for slot in SLOTS]
    mean = sum(slot[..., :3] for slot in SLOTS) / 3
    np.testing.assert_allclose(attention.compose({}, equal), mean, atol=1e-6)
    sure = [equal[0], equal[1].at[..., 3].set(40.0), equal[2]]
    np.testing.assert_allclose(attention.compose({}, sure), SLOTS[1][..., :3], atol=1e-6)


# --- recovery -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    return scenes.describe(jax.random.uniform(jax.random.key(3), (40, 10)), 64)


@pytest.fixture(scope="module")
def true(rows):
    """Both sprites of every scene [2, 40, 64, 64, 3]."""
    return jnp.stack([scenes.paint(rows["spans"][:, k], rows["colours"][:, k]) for k in (0, 1)])


def recovered(drawn, rows):
    """[K] for one seed; `drawn` [K, 40, 64, 64, 3] is looked up by the scene's first latent."""
    order = jnp.argsort(rows["latents"][:, 0])

    def slots(params, z):
        index = order[jnp.searchsorted(rows["latents"][order, 0], z[:, 0])]
        return params["drawn"][:, index]

    found = models.recovery(slots, {"drawn": drawn[None]}, rows, 20)
    assert found.shape == (1, 2)
    return found[0]


def test_recovery_is_one_up_to_an_affine_map(true, rows):
    matrix = jnp.array([[1.0, 0.3, -2.0], [0.2, 1.0, 0.5], [-0.4, 0.1, 0.7]])
    np.testing.assert_allclose(recovered(true @ matrix - 4.0, rows), [1, 1], atol=1e-4)


def test_recovery_of_the_wrong_thing_is_poor(true, rows):
    noise = jax.random.normal(KEY, true.shape)
    assert np.all(recovered(noise, rows) < 0.01)
    np.testing.assert_allclose(recovered(jnp.zeros_like(true), rows), [0, 0], atol=1e-6)
    front, back = recovered(jnp.stack([true[0], true[0]]), rows)
    assert front > 0.99 and back < 0.5


def test_what_the_front_sprite_hides_does_not_count(true, rows):
    hidden = (jnp.sum(true[0], -1) > 0) & (jnp.sum(true[1], -1) > 0)
    assert jnp.sum(hidden) > 50
    spoilt = true.at[1].add(5.0 * hidden[..., None])
    np.testing.assert_allclose(recovered(spoilt, rows), [1, 1], atol=1e-4)
    assert recovered(true.at[0].add(5.0 * hidden[..., None]), rows)[0] < 0.9


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"composition": "learned_mpl"}, "config key 'model.composition' must be one of"),
        ({"decoder": "deconv"}, "config key 'model.decoder' must be one of"),
        ({"decoder": "shift", "composition": "alpha", "alpha_init": "half"}, "model.decoder"),
        ({"decoder": "broadcast", "kinds": "('compositional','monolithic')"}, "model.decoder"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(changes, words):
    with pytest.raises(BadInput, match=words):
        sprites.check(settings(**changes))
