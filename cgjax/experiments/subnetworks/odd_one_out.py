"""Odd one out: three of four inputs obey a rule; which one does not?

Problems are indices [n, 4] into a table of inputs, the odd one last. Each presentation permutes the
four inputs, and the label is the position of the odd one. A network embeds each input; the input
least similar to all four is the answer. Chance is 1/4.
"""

import jax
import jax.numpy as jnp
import optax

N = 4  # inputs of one problem
CHANCE = 1 / N
TIED = 1e-6  # logits closer than this count as equal
SMALL = 1e-12  # smallest norm by which an embedding is divided


def logits(embeddings: jax.Array) -> jax.Array:
    """Embeddings [4N, D] -> [N, 4]: minus the sum of cosines with all four, itself included."""
    vectors = units(embeddings).reshape(-1, N, embeddings.shape[-1])
    return -jnp.einsum("nid,nd->ni", vectors, jnp.sum(vectors, axis=1))


def units(embeddings) -> jax.Array:
    """Embeddings [..., D] of length 1."""
    norms = jnp.sqrt(jnp.sum(embeddings**2, axis=-1, keepdims=True) + SMALL**2)
    return embeddings / norms


def each_loss(embeddings, labels) -> jax.Array:
    """Cross-entropy of every problem [N]; without a temperature, its minimum is 0.0535."""
    return optax.softmax_cross_entropy_with_integer_labels(logits(embeddings), labels)


def loss(embeddings: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of the odd one's position."""
    return jnp.mean(each_loss(embeddings, labels))


def from_uniform(embeddings) -> jax.Array:
    """Cross-entropy of every problem [N] against the uniform answer: at least log 4."""
    return -jnp.mean(jax.nn.log_softmax(logits(embeddings)), axis=-1)


def right(embeddings, labels) -> jax.Array:
    """Whether each problem is solved: boolean [N]."""
    return jnp.argmax(logits(embeddings), axis=-1) == labels


def share_right(embeddings, labels) -> jax.Array:
    """Share [N] of all orders of its inputs in which each problem is solved.

    It equals `right` except for ties (within TIED), which `right` breaks by order. A network with
    identical embeddings scores chance here, independent of the order.
    """
    problem_logits = logits(embeddings)
    first = problem_logits >= jnp.max(problem_logits, axis=-1, keepdims=True) - TIED
    odd = jnp.take_along_axis(first, labels[:, None], axis=-1)[:, 0]
    return odd / jnp.sum(first, axis=-1)


def permuted(key: jax.Array, problems: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Problems [n, 4] (odd one last), each in its own random order, and the odd one's position."""
    orders = jnp.argsort(jax.random.uniform(key, problems.shape), axis=1)
    labels = jnp.argmax(orders == N - 1, axis=1)
    return jnp.take_along_axis(problems, orders, axis=1), labels
