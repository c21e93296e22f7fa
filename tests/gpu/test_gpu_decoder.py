"""The decoder's kernels compiled for a GPU, against the plain form in float64.

Stated errors, relative to the norm of an array: 1e-5 with float32 products, 2e-3 with TF32 products
(the default), 1e-2 with bfloat16 activations.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.bench import sprites
from cgjax.experiments.sprites import jumps, models, sets
from cgjax.nets import upsample
from cgjax.nets.pallas.upsample import upsample_stack

pytestmark = pytest.mark.gpu
PRECISIONS = {
    "float32": ("highest", 1e-5),
    "tf32": ("default", 2e-3),
    "bfloat16": ("default", 1e-2),
}
SHAPES = {
    "published": (512, 32, 3),
    "monolithic": (512, 64, 3),
    "alpha": (256, 32, 4),
    "one image": (1, 16, 1),
    "odd batch": (67, 32, 3),
}


def relative_error(array, exact):
    array, exact = (np.asarray(a, np.float64) for a in (array, exact))
    return np.linalg.norm(array - exact) / np.linalg.norm(exact)


def decoder(batch, channels, out, seed=0):
    """x [B, 4, 4, c] and four convolutions, the last with `out` channels."""
    rng = np.random.default_rng(seed)
    x = np.maximum(rng.normal(size=(batch, 4, 4, channels)), -0.9)
    widths = (channels, channels, channels, out)
    bound = 1 / np.sqrt(4 * channels)
    convs = [
        (rng.uniform(-bound, bound, (2, 2, channels, n)), rng.uniform(-bound, bound, n))
        for n in widths
    ]
    return x, convs


def plain(x, convs):
    for conv in convs[:-1]:
        x = upsample.elu(upsample.reordered(x, *conv), x.dtype)
    return upsample.reordered(x, *convs[-1])


def images_and_gradients(stack, x, convs, weight):
    def loss(x, convs):
        images = stack(x, convs)
        return jnp.sum(weight * images), images

    (_, images), grads = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(x, convs)
    return images, *jax.tree.leaves(grads)


# Programs take long to compile, those with float32 products minutes for many images.
CASES = [
    *[(shape, "tf32") for shape in SHAPES],
    ("published", "bfloat16"),
    ("odd batch", "float32"),
]


@pytest.mark.parametrize("shape, precision", CASES)
def test_compiled_kernels_against_float64(shape, precision):
    batch, channels, out = SHAPES[shape]
    x, convs = decoder(batch, channels, out)
    weight = np.random.default_rng(1).normal(size=(batch, 64, 64, out))
    with jax.enable_x64(True):
        exact = images_and_gradients(plain, *jax.tree.map(jnp.asarray, (x, convs, weight)))
    products, most = PRECISIONS[precision]
    dtype = jnp.bfloat16 if precision == "bfloat16" else jnp.float32
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), (convs, weight))
    with jax.default_matmul_precision(products):
        found = images_and_gradients(upsample_stack, jnp.asarray(x, dtype), *single)
    for ours, wanted in zip(found, exact, strict=True):
        assert relative_error(ours, wanted) < most


def test_kernels_under_vmap_are_those_of_each_seed():
    cases = [decoder(64, 32, 3, seed) for seed in range(5)]
    x, convs = jax.tree.map(lambda *leaves: jnp.stack(leaves).astype(jnp.float32), *cases)
    together = jax.jit(jax.vmap(upsample_stack))(x, convs)
    for i in range(5):
        alone = jax.jit(upsample_stack)(*jax.tree.map(lambda leaf, i=i: leaf[i], (x, convs)))
        np.testing.assert_array_equal(alone, together[i])


@pytest.fixture(scope="module")
def published():
    config = jumps.configure(range(5))
    config.data.n_train, config.eval.n = 20_000, 1000
    config.optim.lr_every = -(-config.data.n_train // config.data.batch)
    return config, sets.make(config)


@pytest.mark.parametrize("n_real", [512, 160])  # 160: an epoch's last batch
def test_the_loss_kernel_against_float64(published, n_real):
    config, data = published
    model = models.build(config, "compositional")
    params = jax.device_get(model.init(jax.random.key(3)))
    batch = {name: leaf[:512] for name, leaf in data["train"].items()}
    batch["mask"] = (jnp.arange(512) < n_real).astype(jnp.float32)
    exact_loss, exact = jumps.gradient_fn(config, "float64")(params, batch)

    def loss(params):
        value = models.mean_loss(model, params, batch, batch["mask"], "mse")
        assert value is not None  # the loss is part of the kernel
        return value

    value, gradient = jax.jit(jax.value_and_grad(loss))(params)
    assert abs(value / exact_loss - 1) < 1e-3
    assert max(jumps.relative_errors(jax.device_get(gradient), exact).values()) < 5e-3


def test_gradients_of_training_steps_side_by_side(published):
    """100 steps of five seeds: errors stay far below the gradient itself."""
    errors = sprites.gradient_errors(*published, 100)
    for leaf, values in errors.items():
        assert np.isfinite(values).all() and np.median(values) < 0.02 and values.max() < 0.5, leaf


def test_training_repeats_itself(published):
    assert sprites.different_repeats(*published, 10, 100) == 0
