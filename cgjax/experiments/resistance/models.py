"""Networks and losses for paired MNIST, the plane and SCAN.

`module.init` only gives the shapes. `initial` draws the initial parameters, so that the scale and
the spread of biases can differ between replicas.
"""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from cgjax.analysis import dependence
from cgjax.core.errors import BadInput, one_of
from cgjax.nets.conv import Conv, max_pool
from cgjax.nets.mlp import MLP, Dense
from cgjax.nets.rnn import PAD

# --- networks -------------------------------------------------------------------------------------

# Channels of the convolutions; "pool" halves height and width.
ARCHITECTURES = {
    "appendix": (32, "pool", 64),
    "three_conv": (32, "pool", 64, "pool", 64),
}


class PairNet(nn.Module):
    """Convolutions 3 x 3, dense 64, dense 10: x [B, H, W, 1] -> logits [B, 10].

    arch: one of ARCHITECTURES, of the paper's appendix or of its main text. heads: two heads give
    [B, 2, 10], one head per digit.
    """

    arch: str = "appendix"
    heads: int = 1
    classes: int = 10
    hidden: int = 64
    form: str = "auto"

    @nn.compact
    def __call__(self, x):
        one_of("arch", self.arch, ARCHITECTURES)
        for i, layer in enumerate(ARCHITECTURES[self.arch]):
            if layer == "pool":
                x = max_pool(x)
            else:
                x = nn.relu(Conv(layer, 3, form=self.form, name=f"conv_{i}")(x))
        x = nn.relu(Dense(self.hidden, name="dense_0")(x.reshape(x.shape[0], -1)))
        return _headed(Dense(self.heads * self.classes, name="dense_1")(x), self.heads)


class PlaneNet(nn.Module):
    """Dense 2 -> 8 -> 8 -> 8 -> 2 with ReLU: x [B, inputs] -> logits [B, 2]; two heads [B, 2, 2].

    tanh: one output t in [-1, 1] per head, returned as (-t, t).
    """

    heads: int = 1
    width: int = 8
    n_hidden: int = 3
    tanh: bool = False

    @nn.compact
    def __call__(self, x):
        n_outputs = 1 if self.tanh else 2
        net = MLP((self.heads * n_outputs,), self.width, self.n_hidden + 1, "relu", name="net")
        y = net(x).reshape(-1, self.heads, n_outputs)
        if self.tanh:
            y = jnp.concatenate([-jnp.tanh(y), jnp.tanh(y)], axis=-1)
        return _headed(y.reshape(len(x), -1), self.heads)


class Towers(nn.Module):
    """A tower per half of the input: tower_1(X_1) + gate * tower_2(X_2), with a learned gate.

    tower: a module that returns logits; axis: the axis along which x [B, ...] is halved. Each head
    has a gate, which `initial` sets to 1.
    """

    tower: nn.Module
    axis: int

    @nn.compact
    def __call__(self, x):
        halves = jnp.split(x, 2, axis=self.axis)
        first, second = (self.tower.copy(name=f"tower_{i}")(h) for i, h in enumerate(halves))
        gate = self.param("gate", nn.initializers.ones, first.shape[1:-1])
        return first + gate[None, ..., None] * second


def _headed(logits, heads):
    return logits if heads == 1 else logits.reshape(logits.shape[0], heads, -1)


# --- initialisation -------------------------------------------------------------------------------


def _playground(key, shape, dtype):
    return jax.random.uniform(key, shape, dtype, -0.5, 0.5)


# name -> (initialiser of kernels, value of biases)
INITS = {
    "glorot": (nn.initializers.glorot_uniform(), 0.0),
    "he": (nn.initializers.he_normal(), 0.0),
    "playground": (_playground, 0.1),
}


def initial(key: jax.Array, shapes: Any, init: str = "glorot", scale=1.0, bias_std=0.0) -> Any:
    """Parameters of the given shapes, initialised by the name of each leaf.

    Kernels are drawn by INITS[init] and multiplied by `scale`. Biases are the value of INITS[init]
    plus N(0, bias_std^2). Gates are 1. scale and bias_std may be traced.
    """
    one_of("init", init, INITS)
    kernel_init, level = INITS[init]
    leaves, structure = jax.tree_util.tree_flatten_with_path(shapes)
    params = []
    for leaf_key, (path, leaf) in zip(jax.random.split(key, len(leaves)), leaves):
        name = path[-1].key
        if name == "kernel":
            params.append(scale * kernel_init(leaf_key, leaf.shape, leaf.dtype))
        elif name == "bias":
            params.append(level + bias_std * jax.random.normal(leaf_key, leaf.shape, leaf.dtype))
        elif name == "gate":
            params.append(jnp.ones(leaf.shape, leaf.dtype))
        else:
            raise BadInput(f"no initialisation for a parameter named '{name}'")
    return jax.tree.unflatten(structure, params)


def with_fixed_biases(params: Any) -> Any:
    """The same parameters, of which gradients leave the biases out."""

    def fixed(path, leaf):
        return jax.lax.stop_gradient(leaf) if path[-1].key == "bias" else leaf

    return jax.tree_util.tree_map_with_path(fixed, params)


# --- losses: logits [..., classes] and labels [...] -> [...] --------------------------------------


def categorical_hinge(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """max(0, 1 + max(0, max_{k != y} s_k) - s_y)."""
    one_hot = jax.nn.one_hot(labels, logits.shape[-1])
    # Scores times 1 - one-hot, as published: the zero in place of s_y gives the inner max with 0.
    others = jnp.max((1 - one_hot) * logits, axis=-1)
    return jnp.maximum(0, 1 + others - jnp.sum(one_hot * logits, axis=-1))


def one_vs_rest_hinge(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean over classes of max(0, 1 - t_k s_k), t_k = 1 for the class and -1 otherwise."""
    t = 2 * jax.nn.one_hot(labels, logits.shape[-1]) - 1
    return jnp.mean(jnp.maximum(0, 1 - t * logits), axis=-1)


def half_squared(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """(t - target)^2 / 2 with target -1 or 1, of outputs (-t, t)."""
    return (logits[..., 1] - (2 * labels - 1)) ** 2 / 2


LOSSES = {
    "categorical_hinge": categorical_hinge,
    "one_vs_rest_hinge": one_vs_rest_hinge,
    "cross_entropy": optax.softmax_cross_entropy_with_integer_labels,
    "half_squared": half_squared,
}


def token_loss(logits: jax.Array, actions: jax.Array) -> jax.Array:
    """Cross-entropy of logits [B, L, symbols], averaged over actions [B, L] that are not PAD."""
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, actions)
    real = actions != PAD
    return jnp.sum(jnp.where(real, losses, 0)) / jnp.maximum(jnp.sum(real), 1)


def gradient_penalty(f: Callable, params, x: jax.Array, inputs, component: int = 1) -> jax.Array:
    """D_j^2, a penalty to add to the loss with weight lambda.

    f(params, x): logits [n, classes]; x, inputs: as in `dependence.gradient_dependence`, labels of
    two components.
    """
    matrix = dependence.gradient_dependence(f, params, x, inputs, sizes=(1, 2), chunk=x.shape[0])
    return jnp.sum(matrix[:, component] ** 2)
