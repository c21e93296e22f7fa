"""The loss in the last stage's kernel, in interpret mode, against images that are drawn first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.core import parallel
from cgjax.nets import upsample
from cgjax.nets.pallas import upsample_loss
from cgjax.nets.pallas.upsample import Launch, Tuning
from cgjax.nets.pallas.upsample_loss import unroll

SLOTS, BATCH, N, C, OUT = 2, 12, 2, 16, 3
SIZE = 4 * N
# Tiles of 2 do not divide the 3 images that each of 4 devices has.
SMALL = Tuning(*[Launch(tile=2, span=1)] * len(Tuning._fields))


def pixel(colours, row, image, column):
    """The front slot where it is bright, else the back one; targets are runs of one colour."""
    front, back = colours
    shown = jax.nn.sigmoid(jnp.sum(front, keepdims=True))
    target = jnp.where((row[:1] <= column) & (column <= row[1:]), image, 0.0)
    return jnp.sum((shown * front + (1 - shown) * back - target) ** 2)


def plain(x, convs, rows, images, weights):
    def draw(x, convs):
        x = upsample.elu(upsample.reordered(x, *convs[0]))
        return upsample.reordered(x, *convs[1])

    drawn = jax.vmap(draw)(x, convs)  # [K, B, size, size, o]
    each = jax.vmap(pixel, (0, None, None, 0))
    each = jax.vmap(jax.vmap(each, (0, 1, None, None)), (0, 2, 1, None))
    columns = jnp.arange(SIZE, dtype=jnp.float32)[:, None]
    return jnp.sum(weights * jnp.sum(each(list(drawn), rows, images, columns), (1, 2)))


@pytest.mark.slow
def test_devices_with_images_of_their_own_agree_with_drawn_images(monkeypatch):
    monkeypatch.setattr(upsample_loss, "_launch", lambda channels: (SMALL, True))
    rng = np.random.default_rng(0)
    x = np.maximum(rng.normal(size=(SLOTS, BATCH, N, N, C)), -0.9)  # as after an ELU
    convs = [
        (0.2 * rng.normal(size=(SLOTS, 2, 2, C, o)), np.full((SLOTS, o), 0.1 + i))
        for i, o in enumerate((C, OUT))
    ]
    known = (
        SIZE * rng.random((2, SIZE, BATCH)),
        rng.random((OUT, BATCH)),
        np.arange(BATCH) / BATCH,
    )
    x, convs, known = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), (x, convs, known))

    def ours(x, convs):
        return 3 * upsample_loss.summed_loss(pixel, x, convs, *known)

    mesh = parallel.layout(2, BATCH).mesh
    assert mesh.devices.shape == (2, 4)
    with jax.set_mesh(mesh):
        lowered = jax.jit(jax.value_and_grad(ours, (0, 1))).lower(x, convs)
    found = lowered.compile()(x, convs)
    wanted = jax.jit(jax.value_and_grad(lambda *a: 3 * plain(*a, *known), (0, 1)))(x, convs)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * np.abs(b).max())


# --- unrolled -------------------------------------------------------------------------------------
# Functions of a pixel on one array per channel, against vmap.


N_PIXELS = 5  # pixels


def many_rules(slots, target):
    """Slices, sums, a maximum, joins, broadcasts, a select, calls, and what their gradients add."""
    first, second = slots
    opacity = jax.nn.sigmoid(first[3:])
    shown = opacity * first[:3] + (1 - opacity) * jnp.where(second[:3] > 0, second[:3], 0.1)
    both = jnp.stack([shown, jax.nn.softplus(second[:3])])
    padded = jnp.concatenate([both[0], jnp.ones(1)])
    return jnp.sum((both - target[None]) ** 2) + jnp.max(shown) + jnp.sum(padded * first)


def test_equals_vmap_in_value_and_gradient():
    rng = np.random.default_rng(0)
    slots = [rng.normal(size=(4, N_PIXELS)).astype(np.float32) for _ in range(2)]
    target = rng.normal(size=(3, N_PIXELS)).astype(np.float32)
    fn = jax.value_and_grad(many_rules)
    on_lists = unroll(fn, [jnp.zeros(4)] * 2, jnp.zeros(3))

    def ours(slots, target):
        value, grads = on_lists([list(slot) for slot in slots], list(target))
        return value.item(), [jnp.stack(list(grad)) for grad in grads]

    wanted = jax.jit(jax.vmap(fn, -1, (0, -1)))(slots, target)
    for a, b in zip(jax.tree.leaves(jax.jit(ours)(slots, target)), jax.tree.leaves(wanted)):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "fn",
    [lambda x: jnp.dot(x, x), jnp.cumsum, jnp.sort, lambda x: x[::-1], lambda x: jnp.argmax(x) * x],
)
def test_refuses_what_is_no_function_of_single_numbers(fn):
    """Cumulative sums have the shape of what they sum: number by number they would be wrong."""
    with pytest.raises(NotImplementedError, match="no rule for"):
        unroll(fn, jnp.zeros(3))([jnp.arange(5.0)] * 3)
