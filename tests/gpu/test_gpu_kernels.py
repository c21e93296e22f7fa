"""The kernels for convolutions, batch norms and losses, compiled for a GPU, against plain forms.

Stated errors, relative to the largest value of an array: 1e-5 with float32 products; 4 TF32 with
TF32 products, whose operands are rounded to a relative error of TF32 / 2. `test_gpu_decoder` tests
the decoder's kernels.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_norm_kernel
import test_upsample_loss
from jax.flatten_util import ravel_pytree

from cgjax.nets import conv
from cgjax.nets.conv import ConvNet
from cgjax.nets.norm import BatchNorm
from cgjax.nets.pallas import conv as conv_kernel
from cgjax.nets.pallas import norm as norm_kernel
from cgjax.nets.pallas import upsample_loss
from cgjax.nets.resnet import ResNet

pytestmark = pytest.mark.gpu
TF32 = 2**-10
ERRORS = {"highest": 1e-5, "default": 4 * TF32}
# Kernel size, channels read, channels made, stride, image; those of the ResNet and the ConvNet.
PUBLISHED = [
    (3, 6, 16, 1, (32, 32)), (3, 16, 16, 1, (32, 32)), (3, 16, 32, 2, (32, 32)),
    (1, 16, 32, 2, (32, 32)), (3, 32, 64, 2, (16, 16)), (3, 64, 128, 2, (8, 8)),
    (3, 128, 128, 1, (4, 4)), (5, 2, 32, 1, (28, 56)), (5, 3, 32, 1, (28, 48)),
    (5, 32, 32, 1, (24, 52)), (5, 32, 64, 1, (10, 24)), (5, 64, 64, 1, (6, 20)),
]  # fmt: skip
ODD = [(3, 5, 16, 2, (7, 5)), (1, 3, 32, 3, (9, 4)), (5, 33, 16, 1, (6, 11))]


def assert_near(ours, wanted, error):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(wanted), strict=True):
        a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, b, rtol=0, atol=error * max(np.abs(b).max(), 1e-5))


def drawn(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def networks(case, batch, n=2):
    """Inputs [n, B, H, W, c] and kernels [n, k, k, c, o] of n networks."""
    size, c, out, _, image = case
    return drawn(0, n, batch, *image, c), drawn(1, n, size, size, c, out) / (size * c**0.5)


def value_and_grads(form):
    """Function of x and kernel: images, and gradients of a number made of them and of x."""

    def loss(x, kernel):
        y, again = form(x, kernel)
        wide = y.astype(jnp.promote_types(y.dtype, jnp.float32))
        return jnp.sum(jnp.sin(wide)) + jnp.sum(jnp.square(again)), y

    def function(x, kernel):
        (_, y), grads = jax.value_and_grad(loss, (0, 1), has_aux=True)(x, kernel)
        return y, *grads

    return function


def forms(case):
    """The kernels' convolution and XLA's."""
    size, _, _, stride, _ = case
    padding = 0 if size == 5 else size // 2
    settings = conv_kernel.Settings(stride, padding, True)
    ours = functools.partial(conv_kernel.convolve, settings=settings)
    plain = functools.partial(
        conv.convolve, stride=stride, padding=padding, form="direct", passes_on=True
    )
    return value_and_grads(ours), value_and_grads(plain)


def assert_convolutions_agree(case, batch, precision):
    """Two networks at once, against one after the other in float64.

    In float32, XLA's gradient of a 5x5 kernel is inaccurate: for 32 channels and images of 24 x 52
    its error on an H200 is 0.4 % (JAX 0.11.2), ten times that of the same gradient in TF32.
    """
    x, kernel = networks(case, batch)
    ours, plain = forms(case)
    with jax.default_matmul_precision(precision):
        outputs = jax.jit(jax.vmap(ours))(x, kernel)
    with jax.enable_x64(True):
        plain = jax.jit(plain)
        for i in range(2):
            wanted = plain(x[i].astype(jnp.float64), kernel[i].astype(jnp.float64))
            assert_near([leaf[i] for leaf in outputs], wanted, ERRORS[precision])


@pytest.mark.parametrize("case", PUBLISHED, ids=str)
def test_published_convolutions(case):
    assert_convolutions_agree(case, 128, "default")


@pytest.mark.parametrize("precision", ERRORS)
@pytest.mark.parametrize("case", ODD, ids=str)
def test_odd_convolutions(case, precision):
    assert_convolutions_agree(case, 3, precision)


def test_convolution_of_bfloat16():
    """Operands are rounded to bfloat16, sums are float32, and images are rounded again."""
    case = PUBLISHED[1]
    x, kernel = (leaf[0] for leaf in networks(case, 8))
    ours, plain = forms(case)
    outputs = jax.jit(ours)(x.astype(jnp.bfloat16), kernel)
    with jax.default_matmul_precision("highest"):
        wanted = jax.jit(plain)(x.astype(jnp.bfloat16).astype(jnp.float32), kernel)
    assert [leaf.dtype for leaf in outputs] == [jnp.bfloat16, jnp.bfloat16, jnp.float32]
    assert_near(outputs, wanted, 4 * 2**-8)


def test_a_network_alone_is_that_of_several():
    case = PUBLISHED[2]
    x, kernel = networks(case, 5, 3)
    ours, _ = forms(case)
    together = jax.jit(jax.vmap(ours))(x, kernel)
    one_by_one = jax.jit(lambda x, kernel: jax.lax.map(lambda pair: ours(*pair), (x, kernel)))
    assert_near(together, one_by_one(x, kernel), 1e-6)


SHAPES = [(128, 32, 32, 16), (128, 8, 8, 64), (128, 4, 4, 128), (3, 4, 6, 16), (37, 1, 1, 128)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("given", [(), ("before", "added", "rectify")], ids=["plain", "fused"])
def test_batch_norms(shape, given):
    """Two networks at once; the first image does not count.

    Values next to a kink of a ReLU have no weight: rounding decides their side. Stated error: 5e-5,
    because gradients of a channel are sums of up to 131,072 values that cancel.
    """
    assert norm_kernel.supports(shape)
    c = shape[-1]
    x, seen, added = 3 + drawn(0, 2, *shape), drawn(1, 2, *shape), drawn(2, 2, *shape)
    params = {"scale": 1 + drawn(3, 2, c), "bias": drawn(4, 2, c)}
    stats = {"mean": drawn(5, 2, c), "var": jnp.ones((2, c))}
    before = (params["bias"] / 4 - 3)[:, None, None, None]
    x = jnp.where(jnp.abs(x + before) < 1e-3, x + 0.1, x)
    mask = (jnp.arange(shape[0]) > 0).astype(jnp.float32)

    def step(form):
        norm = functools.partial(BatchNorm(form=form).apply, mutable=["batch_stats"])

        def loss(params, x, added, stats, seen):
            before = params["bias"] / 4 - 3 if "before" in given else None
            added = added if "added" in given else None
            variables = {"params": params, "batch_stats": stats}
            y, moved = norm(variables, x, True, mask, before, added, "rectify" in given)
            return jnp.sum(jnp.sin(y) * seen), (y, moved)

        run = jax.jit(jax.vmap(jax.value_and_grad(loss, (0, 1, 2), has_aux=True)))
        return lambda seen: run(params, x, added, stats, seen)

    plain = step("direct")
    (_, (y, _)), _ = plain(seen)
    seen = jnp.where(jnp.abs(y) < 1e-3, 0.0, seen)
    (_, values), grads = step("kernel")(seen)
    (_, wanted), wanted_grads = plain(seen)
    assert_near((values, grads), (wanted, wanted_grads), 5e-5)


def test_differences_are_from_a_pixel_that_counts():
    x = 3 + drawn(0, *test_norm_kernel.SHAPE)
    norm, mask = BatchNorm(form="kernel"), jnp.array([0.0, 1.0, 1.0])
    variables = BatchNorm().init(jax.random.key(0), x)
    run = jax.jit(lambda x: norm.apply(variables, x, True, mask, mutable=["batch_stats"]))
    (y, moved), (wanted, wanted_moved) = run(x.at[0].add(1e5)), run(x)
    assert_near((y[1:], moved), (wanted[1:], wanted_moved), 1e-5)


@pytest.mark.parametrize(
    "net, image",
    [(ResNet(), (32, 32, 6)), (ConvNet(), (28, 56, 2))],
    ids=["ResNet", "ConvNet"],
)
def test_networks_by_kernels(net, image):
    """Convolutions and norms side by side in training steps of two networks at once.

    Errors of TF32 products grow through the layers. So the gradient's error is compared with that
    of XLA's convolutions in TF32: at most three times as large. Stated for outputs: 16 TF32.
    """
    x, y = drawn(0, 2, 16, *image), drawn(1, 16)
    mask = (jnp.arange(16) < 13).astype(jnp.float32)
    variables = jax.jit(jax.vmap(net.init))(jax.random.split(jax.random.key(0), 2), x)

    def step(form, precision):
        def loss(params, stats, x):
            variables = {"params": params, "batch_stats": stats}
            outputs, moved = net.clone(form=form).apply(
                variables, x, True, mask, mutable=["batch_stats"]
            )
            return jnp.sum(mask * (outputs - y) ** 2) / 13, (outputs, moved)

        with jax.default_matmul_precision(precision):
            run = jax.jit(jax.vmap(jax.value_and_grad(loss, has_aux=True)))
            return run(variables["params"], variables["batch_stats"], x)

    (_, ours), gradient = step("kernel", "default")
    (_, outputs), exact = step("direct", "highest")
    _, by_xla = step("direct", "default")
    assert_near(ours, outputs, 16 * TF32)
    exact, gradient, by_xla = (ravel_pytree(tree)[0] for tree in (exact, gradient, by_xla))
    size = jnp.linalg.norm(exact)
    error, error_of_xla = (jnp.linalg.norm(a - exact) / size for a in (gradient, by_xla))
    assert 0 < error_of_xla < 0.25 and error < 3 * error_of_xla


@pytest.mark.parametrize("precision", ERRORS)
@pytest.mark.parametrize("batch", [12, 67])
def test_loss_inside_the_last_stage(batch, precision):
    """Of two slots, whose images are functions of one another's."""
    case = test_upsample_loss
    x = jax.nn.elu(drawn(0, case.SLOTS, batch, case.N, case.N, case.C))
    convs = [
        (0.2 * drawn(1 + i, case.SLOTS, 2, 2, case.C, o), jnp.full((case.SLOTS, o), 0.1 + i))
        for i, o in enumerate((case.C, case.OUT))
    ]
    uniform = np.random.default_rng(5).uniform
    rows = jnp.asarray(case.SIZE * uniform(size=(2, case.SIZE, batch)), jnp.float32)
    images = jnp.asarray(uniform(size=(case.OUT, batch)), jnp.float32)
    known = (rows, images, jnp.arange(batch) / batch)

    def ours(x, convs):
        return upsample_loss.summed_loss(case.pixel, x, convs, *known)

    with jax.default_matmul_precision(precision):
        outputs = jax.jit(jax.value_and_grad(ours, (0, 1)))(x, convs)
    with jax.default_matmul_precision("highest"):
        plain = jax.jit(jax.value_and_grad(lambda *a: case.plain(*a, *known), (0, 1)))
        assert_near(outputs, plain(x, convs), ERRORS[precision])
