"""Functions of a pixel on one array per channel, against vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.nets.pallas.upsample_loss import unroll

N = 5  # pixels


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
    slots = [rng.normal(size=(4, N)).astype(np.float32) for _ in range(2)]
    target = rng.normal(size=(3, N)).astype(np.float32)
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
