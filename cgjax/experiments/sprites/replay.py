"""One epoch of training again, step by step: are its gradients right, is AdamW stable?

Every gradient of the loop's own program is compared with the plain form in float64, leaf by leaf.
AdamW's stability is read from the preconditioned Hessian.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cgjax.core import tree
from cgjax.experiments.sprites import jumps, models, sets

B1, B2, EPS = 0.9, 0.999, 1e-8  # of the published AdamW
# On a quadratic, AdamW with momentum B1 diverges where rate x eigenvalue of P^-1 H exceeds this
# (Cohen et al. 2022, "Adaptive Gradient Methods at the Edge of Stability").
THRESHOLD = (2 + 2 * B1) / (1 - B1)


class Replay(NamedTuple):
    """One value per step; dictionaries hold an array [steps] per leaf of a slot's parameters."""

    loss: np.ndarray  # of the program
    exact_loss: np.ndarray  # float64
    error: dict  # |gradient - exact| / |exact|, the gradient being the program's
    plain_error: dict  # the same for XLA's plain form in TF32
    norm: dict  # of the exact gradient
    update: dict  # root mean square of AdamW's update over the learning rate
    relative: dict  # root mean square of gradient / sqrt(v)


def replay(config, state, epoch: int, seed_index: int, data, look=lambda *_: None) -> Replay:
    """Trains one epoch again, one step per call, and compares every gradient with float64.

    state: of all replicas before the epoch. The program is the loop's own, for all replicas; its
    gradient follows from AdamW's first moment, g = (m' - B1 m) / (1 - B1). look(i, params, v) is
    called before step i of the epoch.
    """
    program = jumps.compile_program(config, jumps.IMPLEMENTATIONS["kernels"], 1, data)
    exact, plain = gradient_fn(config, "float64"), gradient_fn(config, "float32")
    rate, n_steps = jumps.rate_of(config, epoch), config.optim.lr_every

    def of_seed(state):
        one = tree.take((state.params, state.opt_state), seed_index)
        params, opt_state = jax.device_get(one)
        adam = adam_state(opt_state)
        return params, adam.mu, adam.nu

    state = jax.device_put(state)
    losses, columns = [], {}
    for i in range(n_steps):
        indices, mask = program.rows(epoch * n_steps + i)
        batch = tree.take(data["train"], indices[seed_index, 0]) | {"mask": mask[seed_index, 0]}
        params, mean, square = of_seed(state)
        look(i, params, square)
        state, stats = program.call(state, (indices, mask))
        new_params, new_mean, new_square = of_seed(state)
        unravel = ravel_pytree(params)[1]
        vector = (new_mean - B1 * mean) / (1 - B1)
        exact_loss, exact_gradient = exact(params, batch)
        _, plain_gradient = plain(params, batch)
        losses.append((float(np.asarray(stats["loss"])[0, seed_index]), float(exact_loss)))
        moved = jax.tree.map(lambda new, old: (new - old) / rate, new_params, params)
        measures = {
            "error": relative_errors(unravel(vector), exact_gradient),
            "plain_error": relative_errors(plain_gradient, exact_gradient),
            "norm": per_leaf(np.linalg.norm, exact_gradient),
            "update": per_leaf(root_mean_square, moved),
            "relative": per_leaf(root_mean_square, unravel(vector / np.sqrt(new_square + 1e-30))),
        }
        for name, values in measures.items():
            for leaf, value in values.items():
                columns.setdefault(name, {}).setdefault(leaf, []).append(value)
    loss, exact_loss = np.array(losses).T
    arrays = {
        name: {leaf: np.array(values) for leaf, values in leaves.items()}
        for name, leaves in columns.items()
    }
    return Replay(loss, exact_loss, **arrays)


def gradient_fn(config, dtype: str) -> Callable:
    """(params, batch) -> (loss, gradient) of the plain form in this dtype."""
    model = plain_model(config, dtype)

    def loss(params, batch):
        images = sets.images(batch, config.data.composition).astype(dtype)
        drawn = model.predict(params, batch["latents"].astype(dtype))
        return models.squared_error(drawn, images, batch["mask"].astype(dtype))

    compiled = jax.jit(jax.value_and_grad(loss))

    def gradient(params, batch):
        with jax.enable_x64(dtype == "float64"):
            params = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), params)
            return jax.device_get(compiled(params, batch))

    return gradient


def sharpness_fn(config, data, n_scenes: int = 2048, n_iterations: int = 20) -> Callable:
    """(params, v [N], step, vector [N]) -> (largest eigenvalue of P^-1 H, its eigenvector).

    H: the Hessian of the loss on n_scenes training scenes; P = sqrt(v / (1 - B2^step)) + EPS. By
    power iteration from the vector. AdamW is unstable above THRESHOLD / rate.
    """
    model = plain_model(config, "float32")
    chunk = min(512, n_scenes)
    parts = jax.tree.map(
        lambda leaf: leaf[:n_scenes].reshape(-1, chunk, *leaf.shape[1:]), data["train"]
    )

    @jax.jit
    def largest(params, second_moment, step, vector):
        flat, unravel = ravel_pytree(params)
        root = jnp.sqrt(jnp.sqrt(second_moment / (1 - B2**step)) + EPS)  # of P

        def gradient(flat, part):
            def loss(flat):
                drawn = model.predict(unravel(flat), part["latents"])
                return jnp.mean((drawn - sets.images(part, config.data.composition)) ** 2)

            return jax.grad(loss)(flat)

        def hessian_times(vector):
            def add(total, part):
                product = jax.jvp(lambda flat: gradient(flat, part), (flat,), (vector,))[1]
                return total + product, None

            total, _ = jax.lax.scan(add, jnp.zeros_like(flat), parts)
            return total / len(parts["latents"])

        def iterate(_, carry):
            vector, _ = carry
            image = hessian_times(vector / root) / root  # P^-1/2 H P^-1/2: the same eigenvalues
            return image / jnp.linalg.norm(image), jnp.vdot(vector, image)

        vector = vector / jnp.linalg.norm(vector)
        return jax.lax.fori_loop(0, n_iterations, iterate, (vector, jnp.zeros(())))

    def sharpness(params, second_moment, step, vector):
        with jax.default_matmul_precision("highest"):
            vector, value = largest(params, second_moment, step, vector)
        return float(value), vector

    return sharpness


def plain_model(config, dtype: str) -> models.Model:
    """The compositional model in XLA's plain form, in this dtype."""
    config = config.copy_and_resolve_references()
    config.model.form = "reordered"
    config.model.dtype = dtype
    return models.build(config, "compositional")


def adam_state(opt_state):
    """The part of AdamW's state that has the moments `mu` and `nu`."""

    def has_moments(node):
        return hasattr(node, "mu")

    (adam,) = filter(has_moments, jax.tree.leaves(opt_state, is_leaf=has_moments))
    return adam


def by_slot(params) -> dict:
    """Parameters of both slots, leaves [2, ...] -> {"front/dense_0/bias": leaf, ...}."""
    return tree.flat({"front": tree.take(params, 0), "back": tree.take(params, 1)})


def relative_errors(gradient, exact) -> dict:
    """leaf -> |gradient - exact| / |exact|."""
    exact = by_slot(exact)
    return {
        name: float(np.linalg.norm(leaf - exact[name]) / np.linalg.norm(exact[name]))
        for name, leaf in by_slot(gradient).items()
    }


def per_leaf(fn: Callable, values) -> dict:
    """leaf -> fn(leaf)."""
    return {name: float(fn(np.asarray(leaf))) for name, leaf in by_slot(values).items()}


def root_mean_square(values: np.ndarray) -> float:
    return np.sqrt(np.mean(np.square(values)))
