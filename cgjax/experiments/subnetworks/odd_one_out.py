"""Odd one out: of four inputs three obey a rule; which one does not?

Problems are rows [n, 4] of a table of inputs, the odd one last. Every time they are shown, the four
are put in a new order, and the label is where the odd one stands. A network gives each input an
embedding; the input least similar to all of them is the answer. Chance is 1/4.
"""

import jax
import jax.numpy as jnp
import optax

N = 4  # inputs of one problem
CHANCE = 1 / N
TIED = 1e-6  # logits so close are equal up to rounding
SMALL = 1e-12  # the least norm by which an embedding is divided


def logits(embeddings: jax.Array) -> jax.Array:
    """[4N, D], problem by problem -> [N, 4]: minus the sum of cosines with all four, itself too."""
    found = units(embeddings).reshape(-1, N, embeddings.shape[-1])
    return -jnp.einsum("nid,nd->ni", found, jnp.sum(found, axis=1))


def units(embeddings) -> jax.Array:
    """Embeddings [..., D] of length 1."""
    norms = jnp.sqrt(jnp.sum(embeddings**2, axis=-1, keepdims=True) + SMALL**2)
    return embeddings / norms


def each_loss(embeddings, labels) -> jax.Array:
    """Cross-entropy of every problem [N]; without a temperature it never falls below 0.0535."""
    return optax.softmax_cross_entropy_with_integer_labels(logits(embeddings), labels)


def loss(embeddings: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of the odd one's place."""
    return jnp.mean(each_loss(embeddings, labels))


def from_uniform(embeddings) -> jax.Array:
    """Cross-entropy of every problem [N] with an answer that favours none: at least log 4."""
    return -jnp.mean(jax.nn.log_softmax(logits(embeddings)), axis=-1)


def right(embeddings, labels) -> jax.Array:
    """Whether each problem is solved: boolean [N]."""
    return jnp.argmax(logits(embeddings), axis=-1) == labels


def share_right(embeddings, labels) -> jax.Array:
    """How often each problem is solved over all orders of its inputs [N].

    That is `right`, but for ties (within TIED), which an order breaks: a network that tells none of
    the four from another then has chance, and not the luck of one order.
    """
    found = logits(embeddings)
    first = found >= jnp.max(found, axis=-1, keepdims=True) - TIED
    odd = jnp.take_along_axis(first, labels[:, None], axis=-1)[:, 0]
    return odd / jnp.sum(first, axis=-1)


def permuted(key: jax.Array, problems: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Problems [n, 4], odd one last, in an order of their own each; and where the odd one is."""
    orders = jnp.argsort(jax.random.uniform(key, problems.shape), axis=1)
    labels = jnp.argmax(orders == N - 1, axis=1)
    return jnp.take_along_axis(problems, orders, axis=1), labels
