"""PyTorch parameter names and layouts -> our parameter trees."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.nets.decoders import STAGES, DeconvMLP, UpsampleMLP
from cgjax.nets.mlp import MLP


class Layer(NamedTuple):
    """One layer with parameters: its place in the PyTorch stack, our name, its kind."""

    index: int
    name: str
    kind: str


# Per kind: PyTorch's leaf name -> (our leaf name, change of layout).
LEAVES = {
    "dense": {"weight": ("kernel", np.transpose), "bias": ("bias", np.asarray)},
    "conv": {
        "weight": ("kernel", lambda w: np.transpose(w, (2, 3, 1, 0))),
        "bias": ("bias", np.asarray),
    },
    "deconv": {
        "weight": ("kernel", lambda w: np.transpose(w[:, :, ::-1, ::-1], (2, 3, 0, 1))),
        "bias": ("bias", np.asarray),
    },
    "norm": {"weight": ("scale", np.asarray), "bias": ("bias", np.asarray)},
}
STATISTICS = {"running_mean": ("mean", np.asarray), "running_var": ("var", np.asarray)}


def from_torch(module, state_dict: Mapping) -> dict:
    """Parameters of `module` from a PyTorch state dict {"0.weight": array, ...}.

    The number in a name is the layer's position in the sequential stack, where activations,
    reshapes and upsamplings count too. Missing, unexpected or misshapen entries are refused.
    """
    layers = _layers(module)
    known = {f"{layer.index}.{leaf}" for layer in layers for leaf in LEAVES[layer.kind]}
    optional = {
        f"{layer.index}.{leaf}"
        for layer in layers
        if layer.kind == "norm"
        for leaf in (*STATISTICS, "num_batches_tracked")
    }
    if missing := sorted(known - set(state_dict)):
        raise ValueError(f"state_dict lacks {', '.join(missing)} for {type(module).__name__}")
    if extra := sorted(set(state_dict) - known - optional):
        raise ValueError(f"state_dict has unexpected {', '.join(extra)}")
    params = {x.name: _leaves(state_dict, x, LEAVES[x.kind]) for x in layers}
    _check_shapes(module, params, "params")
    return params


def batch_stats_from_torch(module, state_dict: Mapping) -> dict:
    """Running mean and variance of the normalisation layers of `module`, as "batch_stats"."""
    norms = [layer for layer in _layers(module) if layer.kind == "norm"]
    stats = {x.name: _leaves(state_dict, x, STATISTICS) for x in norms}
    _check_shapes(module, stats, "batch_stats")
    return stats


def _leaves(state_dict, layer, table):
    return {
        ours: jnp.asarray(change(np.asarray(state_dict[f"{layer.index}.{theirs}"], np.float32)))
        for theirs, (ours, change) in table.items()
    }


def _check_shapes(module, tree, collection):
    d_in = tree["dense_0"]["kernel"].shape[0] if "dense_0" in tree else 1
    variables = jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, d_in)))
    for path, wanted in jax.tree_util.tree_leaves_with_path(variables.get(collection, {})):
        layer, leaf = (entry.key for entry in path)
        if (found := tree[layer][leaf].shape) != wanted.shape:
            raise ValueError(f"{layer}/{leaf}: expected shape {wanted.shape}, got {found}")


def _layers(module) -> list[Layer]:
    for kind, layers in LAYERS.items():
        if isinstance(module, kind):
            return layers(module)
    raise ValueError(f"no PyTorch layout known for {type(module).__name__}; add it to LAYERS")


def _mlp_layers(module):
    return [Layer(2 * i, f"dense_{i}", "dense") for i in range(module.n_layers)]


def _upsample_layers(module):
    # After the head: reshape, then (activation, upsampling, convolution) per stage.
    first = 2 * module.n_layers + 2
    convs = [Layer(first + 3 * i, f"conv_{i}", "conv") for i in range(STAGES)]
    return _mlp_layers(module) + convs


def _deconv_layers(module):
    layers, index = [Layer(0, "dense_0", "dense")], 0
    for i in range(1, module.n_layers):
        index += 2
        if module.batch_norm and i < module.n_layers - 1:
            layers.append(Layer(index, f"dense_norm_{i}", "norm"))
            index += 1
        layers.append(Layer(index, f"dense_{i}", "dense"))
    index += 1
    for i in range(STAGES):
        index += 2
        if module.batch_norm and i < STAGES - 1:
            layers.append(Layer(index, f"conv_norm_{i}", "norm"))
            index += 1
        layers.append(Layer(index, f"conv_{i}", "deconv"))
    return layers


LAYERS = {MLP: _mlp_layers, UpsampleMLP: _upsample_layers, DeconvMLP: _deconv_layers}
