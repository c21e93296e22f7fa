"""Models against the reference training runs: losses, learning rates, norms, gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cgjax import config as configs
from cgjax.core import optim
from cgjax.experiments.sprites import models, scenes
from cgjax.nets import convert, upsample
from cgjax.nets.decoders import UpsampleMLP

# name: (kind, composition, widths, scenes, batch, epochs)
RUNS = {
    "comp_sigmoid": ("compositional", "occlude_sigmoid", (48, 8), 20, 8, 8),
    "comp_alpha_shared": ("shared", "alpha", (48, 8), 8, 8, 20),
    "mono": ("monolithic", "occlude_sigmoid", (40, 10), 8, 8, 20),
}
# The form that runs use compiles longest. One run has it; the stencil, to which other tests
# compare all forms, serves for the others.
FORMS = {"comp_sigmoid": "stencil", "comp_alpha_shared": "stencil", "mono": "auto"}


def settings(kind, composition, widths, form="auto"):
    changes = {"model.composition": composition, "model.form": form}
    config = configs.load("configs/sprites.py:smoke", changes)
    for name in ("component", "monolith"):
        config.model[name].update({"hidden": widths[0], "channels": widths[1]})
    return config


def reference(golden, name, kind, stage, channels, widths):
    """Our parameter tree from the reference's names."""
    module = UpsampleMLP(out_shape=(64, 64, channels), hidden=widths[0], channels=widths[1])
    prefix = f"{name}/{stage}/"
    state = {key.removeprefix(prefix): golden[key] for key in golden if key.startswith(prefix)}
    if kind == "monolithic":
        return convert.from_torch(module, state)
    slots = []
    for slot in (0, 1):
        head = f"slots.slot_functions.{slot}."
        own = {key.removeprefix(head): v for key, v in state.items() if key.startswith(head)}
        slots.append(convert.from_torch(module, own))
    if kind == "shared":
        return slots[0]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *slots)


@pytest.fixture(scope="module")
def trained(golden):
    """Arrays, and a function that repeats one reference run of them.

    Unshuffled batches, AdamW, cosine per epoch.
    """
    arrays = golden("sprites/train")
    z, x = jnp.asarray(arrays["z"]), jnp.asarray(arrays["x_step_u8"] / np.float32(255))

    @functools.cache
    def run(name):
        kind, composition, widths, n, batch, epochs = RUNS[name]
        model = models.build(settings(kind, composition, widths, FORMS[name]), kind)
        channels = 4 if composition == "alpha" else 3
        params = reference(arrays, name, kind, "init", channels, widths)
        per_epoch = -(-n // batch)
        schedule = optim.cosine(1e-3, 1e-5, epochs * per_epoch, per_epoch)
        tx = optim.adamw(schedule, 1e-5)
        return _train(model, params, tx, schedule, z[:n], x[:n], batch, epochs * per_epoch)

    return arrays, run


def _train(model, params, tx, schedule, z, x, batch, steps):
    """Scanned with the last batch padded and masked, as the loop does it."""
    per_epoch = -(-len(z) // batch)
    rows = np.resize(np.arange(len(z)), per_epoch * batch).reshape(per_epoch, batch)
    mask = (np.arange(per_epoch * batch) < len(z)).reshape(per_epoch, batch)

    def loss(params, row):
        prediction = model.predict(params, z[rows_[row]])
        return models.squared_error(prediction, x[rows_[row]], mask_[row])

    rows_, mask_ = jnp.asarray(rows), jnp.asarray(mask, jnp.float32)

    def step(carry, t):
        params, opt_state = carry
        value, grads = jax.value_and_grad(loss)(params, t % per_epoch)
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        stats = (value, schedule(t), optax.tree.norm(grads), optax.tree.norm(params))
        # Two leaves of every step's gradient: a program of its own for the first takes as long.
        some = (grads["dense_0"]["kernel"], grads["conv_3"]["bias"])
        return (params, opt_state), (stats, some)

    # The images of the trained model too, in the same program.
    def run(params, opt_state):
        (params, _), found = jax.lax.scan(step, (params, opt_state), jnp.arange(steps))
        return model.predict(params, z[:3]), found

    out, (stats, some) = jax.jit(run)(params, jax.jit(tx.init)(params))
    first = [leaf[0] for leaf in some]
    return out, first, jax.tree.map(np.asarray, stats)


@pytest.mark.parametrize(
    "name", ["comp_sigmoid", pytest.param("comp_alpha_shared", marks=pytest.mark.slow), "mono"]
)
def test_training_follows_the_reference(name, trained):
    arrays, run = trained
    out, _, (loss, lr, grad_norm, param_norm) = run(name)
    np.testing.assert_allclose(loss[:5], arrays[f"{name}/loss"][:5], rtol=1e-5)
    np.testing.assert_allclose(loss[-1], arrays[f"{name}/loss"][-1], rtol=1e-3)
    np.testing.assert_allclose(lr, arrays[f"{name}/lr"], atol=1e-9)
    np.testing.assert_allclose(grad_norm[:5], arrays[f"{name}/grad_norm"][:5], rtol=1e-4)
    np.testing.assert_allclose(param_norm, arrays[f"{name}/param_norm"], rtol=1e-4)
    np.testing.assert_allclose(out, arrays[f"{name}/final_out"], atol=2e-3)


@pytest.mark.parametrize("name", ["mono"])
def test_first_gradient_is_the_reference_gradient(name, trained):
    arrays, run = trained
    kernel, bias = run(name)[1]
    np.testing.assert_allclose(kernel.T, arrays[f"{name}/grad0/0.weight"], rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(bias, arrays[f"{name}/grad0/19.bias"], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "kind, composition, count",
    [
        ("compositional", "occlude_sigmoid", 554_950),
        ("shared", "alpha", 277_604),
        ("monolithic", "occlude_sigmoid", 587_779),
    ],
)
def test_parameter_counts(kind, composition, count):
    config = configs.load("configs/sprites.py:demo,paper", {"model.composition": composition})
    shapes = jax.eval_shape(models.build(config, kind).init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == count


@pytest.mark.slow  # 5 s: a finding, not a function
def test_alpha_bias_cures_dead_initialisations():
    config = configs.load("configs/sprites.py:orthogonal_rgba,smoke")
    keys = jax.random.split(jax.random.key(0), 40)
    z = jax.random.uniform(jax.random.key(1), (4, 10))
    shares = jax.jit(models.alpha_at_initialisation, static_argnums=0)
    reference = np.asarray(shares(models.build(config, "shared"), keys, z))
    config.model.alpha_init = "half"
    cured = np.asarray(shares(models.build(config, "shared"), keys, z))
    assert np.any(reference == 0) and np.all(cured > 0)


def test_losses(golden):
    arrays = golden("sprites/regularisers")
    image, ones = jnp.asarray(arrays["obj_img"]), jnp.ones(4)
    np.testing.assert_allclose(models.objectness(image, ones), arrays["objectness"], rtol=1e-4)
    np.testing.assert_allclose(models.sparsity(image, ones), arrays["sparsity_l1"], rtol=1e-4)
    target, mask = jnp.zeros_like(image), jnp.array([1.0, 1.0, 0.0, 0.0])
    for loss in models.LOSSES.values():
        both = loss(image, target, mask, 0.5)
        changed = loss(image.at[3].mul(0.9), target, mask, 0.5)
        assert np.isfinite(both)
        np.testing.assert_allclose(both, changed, rtol=1e-6)
        # The light of objectness is scaled over the batch, to which padded rows do not belong.
        np.testing.assert_allclose(both, loss(image[:2], target[:2], ones[:2], 0.5), rtol=1e-6)


# --- the loss in the decoder's kernel -------------------------------------------------------------


def drawn_first(pixel, x, convs, rows, images, weights):
    """What the kernel computes, from whole images."""

    def draw(x, convs):
        for conv in convs[:-1]:
            x = upsample.elu(upsample.stencil(x, *conv))
        return upsample.stencil(x, *convs[-1])

    drawn = list(jax.vmap(draw)(x, convs))
    each = jax.vmap(pixel, (0, None, None, 0))
    each = jax.vmap(jax.vmap(each, (0, 1, None, None)), (0, 2, 1, None))
    columns = jnp.arange(rows.shape[1], dtype=jnp.float32)[:, None]
    return jnp.sum(weights * jnp.sum(each(drawn, rows, images, columns), (1, 2)))


@pytest.mark.parametrize(
    "composition, data_composition",
    [
        ("occlude_sigmoid", "occlude_step"),
        pytest.param("alpha", "alpha", marks=pytest.mark.slow),
    ],
)
def test_summed_loss_is_that_of_whole_images(monkeypatch, composition, data_composition):
    monkeypatch.setattr(models, "summed_loss", drawn_first)
    config = settings("compositional", composition, (8, 4))
    config.data.composition = data_composition
    model = models.build(config, "compositional")
    rows = jax.jit(scenes.describe)(jax.random.uniform(jax.random.key(0), (3, 10)))
    params, mask = jax.jit(model.init)(jax.random.key(1)), jnp.array([1.0, 1.0, 0.0])
    for name in ("mse", "l1"):
        assert models.mean_loss(model, params, rows, mask, name) is None  # no kernels here
    assert models.mean_loss(model, params, rows, mask, "mse_sparsity") is None
    monkeypatch.setattr(models, "choose_form", lambda decoder, n: "pallas")

    @jax.jit
    def both(params):
        image = scenes.scene_images(rows["spans"], rows["colours"], data_composition)
        drawn = model.predict(params, rows["latents"])
        summed = models.mean_loss(model, params, rows, mask, "mse")
        return summed, models.squared_error(drawn, image, mask)

    np.testing.assert_allclose(*both(params), rtol=1e-5)
