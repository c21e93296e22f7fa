"""Parts and their latents: K random networks, and samples of their stack on every support."""

import functools

import jax
import jax.numpy as jnp

from cgjax.core import rng
from cgjax.data import supports
from cgjax.nets.mlp import uniform_fan_in

SUPPORTS = ("random", "diagonal", "orthogonal")
RULES = ("reference", "conditioned")
GENERATORS = ("shared", "per_seed")
SLOPE = 0.2  # of the generator's leaky ReLUs


def quality(weights: jax.Array, rule: str) -> jax.Array:
    """The number that the chosen draw minimises, for each of the matrices [..., out, in].

    "reference": ||W||_F / ||pinv(W)||_F, which favours a large pseudo-inverse; "conditioned": the
    condition number sigma_max / sigma_min.
    """
    # sigma^2 from the smaller Gram matrix: accelerators decompose a batch of larger ones serially.
    tall = weights if weights.shape[-2] > weights.shape[-1] else jnp.swapaxes(weights, -1, -2)
    squares = jnp.einsum("...oi,...oj->...ij", tall, tall, precision="highest")
    squares = jnp.linalg.eigvalsh(squares)
    if rule == "conditioned":
        return jnp.sqrt(squares[..., -1] / squares[..., 0])
    return jnp.sqrt(jnp.sum(squares, axis=-1) / jnp.sum(1 / squares, axis=-1))


@functools.partial(jax.jit, static_argnames=("shape", "n_draws", "rule"))
def best_weight(key: jax.Array, shape: tuple, n_draws: int, rule: str) -> jax.Array:
    """The best of n_draws uniform matrices with rows of unit length."""
    draws = jax.random.uniform(key, (n_draws, *shape), minval=-1.0)
    draws /= jnp.linalg.norm(draws, axis=-1, keepdims=True)
    return draws[jnp.argmin(quality(draws, rule))]


def make_generator(key: jax.Array, data) -> list:
    """K random networks latents -> hidden -> size: a layer is (weights [K, out, in], biases).

    Weights are the best of many draws; biases are the first draw.
    """
    layers = []
    for i, shape in enumerate(((data.hidden, data.n_latents), (data.part_size, data.hidden))):
        # Part by part: a loop inside the compiled program is ten times slower on a CPU.
        keys = jax.random.split(jax.random.fold_in(key, i), (data.n_parts, 2))
        best = [best_weight(weight_key, shape, data.n_draws, data.rule) for weight_key, _ in keys]
        biases = jax.vmap(lambda k, s=shape: uniform_fan_in(s[1])(k, s[:1]))(keys[:, 1])
        layers.append((jnp.stack(best), biases))
    return layers


def generate(generator: list, z: jax.Array) -> jax.Array:
    """Stacked parts [n, K * size] of latents [n, K, latents]."""
    y = z
    for weights, biases in generator:
        y = jax.nn.leaky_relu(jnp.einsum("nki,koi->nko", y, weights) + biases[None], SLOPE)
    return y.reshape(len(z), -1)


def sample(key: jax.Array, n: int, support: str, n_parts: int, n_latents: int) -> jax.Array:
    """Latents [n, K, latents] in [0, 1]: random, (exactly) diagonal, or orthogonal."""
    if support == "diagonal":
        shared = supports.sample(key, n, "random", slots=(n_latents,))
        return jnp.broadcast_to(shared[:, None], (n, n_parts, n_latents))
    drawn = supports.sample(key, n, support, slots=(n_latents,) * n_parts)
    return drawn.reshape(n, n_parts, n_latents)


def make(config) -> dict:
    """`{"train", "id", "all"}`, each `{"x": [..., n, K * size], "z": [..., n, K * latents]}`.

    The first axis counts generators; "train" and "id" have the supports as a second one.
    """
    numbers = config.train.seeds if config.data.generators == "per_seed" else (0,)
    return _stacked([_sets(config, number) for number in numbers])


def _stacked(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _sets(config, number: int) -> dict:
    """The sets of one generator; they do not depend on the other generators."""
    data = config.data
    key = jax.random.fold_in(rng.stream(jax.random.key(data.seed), "data"), number)
    generator_key, all_key, id_key, train_key = jax.random.split(key, 4)
    generator = make_generator(generator_key, data)

    def draw(key, n, support):
        z = sample(key, n, support, data.n_parts, data.n_latents)
        return {"x": generate(generator, z), "z": z.reshape(n, -1)}

    def draw_each(key, n):
        # The key depends on the support, not on its position: single rows and the demonstration
        # draw the same samples.
        places = [(name, SUPPORTS.index(name)) for name in data.supports]
        return _stacked([draw(jax.random.fold_in(key, i), n, name) for name, i in places])

    return {
        "train": draw_each(train_key, data.n_train),
        "id": draw_each(id_key, config.eval.n),
        "all": draw(all_key, config.eval.n, "random"),
    }
