"""PyTorch and safetensors parameter names and layouts -> our parameter trees."""

import json
import pathlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import tree
from cgjax.core.errors import BadInput, first_line, shown
from cgjax.nets.bert import Bert
from cgjax.nets.conv import ConvNet
from cgjax.nets.convert import safetensors
from cgjax.nets.convert.torch_layers import layers_of
from cgjax.nets.efficientnet import EfficientNetLite
from cgjax.nets.resnet import ResNet, StagedResNet
from cgjax.nets.vit import VisionTransformer, ViT

# Per kind: PyTorch's leaf name -> (our leaf name, change of layout).
LEAVES = {
    "dense": {"weight": ("kernel", np.transpose), "bias": ("bias", np.asarray)},
    "conv": {
        "weight": ("kernel", lambda w: np.transpose(w, (2, 3, 1, 0))),
        "bias": ("bias", np.asarray),
    },
    "patches": {
        "weight": ("kernel", lambda w: np.transpose(w, (2, 3, 1, 0)).reshape(-1, len(w))),
        "bias": ("bias", np.asarray),
    },
    "deconv": {
        "weight": ("kernel", lambda w: np.transpose(w[:, :, ::-1, ::-1], (2, 3, 0, 1))),
        "bias": ("bias", np.asarray),
    },
    "norm": {"weight": ("scale", np.asarray), "bias": ("bias", np.asarray)},
    "embedding": {"weight": ("embedding", np.asarray)},
}
LEAVES["layer_norm"] = LEAVES["norm"]
for _kind in ("dense", "conv"):
    LEAVES[f"{_kind}_no_bias"] = {"weight": LEAVES[_kind]["weight"]}
# Prefix of all names if the network is part of a larger one.
PREFIXES = {Bert: "bert.", VisionTransformer: "vit."}
# Prefixes of arrays that a checkpoint may hold but the network does not use, such as task heads.
UNUSED = {
    Bert: ("embeddings.position_ids", "pooler", "cls."),
    VisionTransformer: ("pooler", "classifier."),
    StagedResNet: ("fc.",),
}
STATISTICS = {"running_mean": ("mean", np.asarray), "running_var": ("var", np.asarray)}


def from_torch(module, state_dict: Mapping) -> dict:
    """Parameters of `module` from a PyTorch state dict {"0.weight": array, ...}.

    The number in a name is the layer's position in the sequential stack, where activations,
    reshapes and upsamplings count too. Missing, unexpected or misshapen entries raise ValueError.
    """
    layers, state_dict = layers_of(module), _plain_names(module, state_dict)
    known = {name for layer in layers for name in _entries(layer)}
    optional = {
        f"{layer.place}.{leaf}"
        for layer in layers
        if layer.kind == "norm"
        for leaf in (*STATISTICS, "num_batches_tracked")
    }
    if missing := sorted(known - set(state_dict)):
        raise ValueError(f"state_dict lacks {_listed(missing)} for {type(module).__name__}")
    others = set(state_dict) - known - optional
    if extra := sorted(name for name in others if not name.startswith(_unused_prefixes(module))):
        raise ValueError(f"state_dict has unexpected {_listed(extra)}")
    params = _tree(state_dict, layers)
    _check_shapes(module, params, params, "params")
    return params


def from_safetensors(module, path) -> dict:
    """Parameters of `module` from a safetensors file with PyTorch's names."""
    arrays = safetensors.read(path)
    try:
        return from_torch(module, arrays)
    except ValueError as error:
        raise BadInput(f"'{path}' does not hold this network: {error}") from None


def bert_from_folder(folder, **fields) -> tuple[Bert, dict]:
    """The network of a folder's config.json, and its parameters from model.safetensors.

    fields: of `Bert`, to override the config, such as `pooler` and `dtype`.
    """
    path = pathlib.Path(folder) / "config.json"
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"cannot read the config '{path}': {first_line(error)}") from None
    if not isinstance(config, dict):
        raise BadInput(f"'{path}' is not a BERT config: it must hold a JSON object")
    net = Bert.from_config(config, **fields)
    return net, from_safetensors(net, path.with_name("model.safetensors"))


def batch_stats_from_torch(module, state_dict: Mapping) -> dict:
    """Running mean and variance of the normalisation layers of `module`, as "batch_stats"."""
    layers, state_dict = layers_of(module), _plain_names(module, state_dict)
    stats = _tree(state_dict, [x for x in layers if x.kind == "norm"], STATISTICS)
    params = _tree(state_dict, layers)
    _check_shapes(module, params, stats, "batch_stats")
    return stats


def _listed(names: list[str], most: int = 8) -> str:
    """The first names for an error message, escaped: they may come from an untrusted file."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown(name).strip("'\"") for name in names[:most]) + more


def _entries(layer):
    """Names of a layer's arrays in the state dict."""
    if layer.kind == "array":
        return [str(layer.place)]
    return [f"{layer.place}.{leaf}" for leaf in LEAVES[layer.kind]]


def _tree(state_dict, layers, table=None):
    """Our parameter tree of these layers; table: like an entry of LEAVES, used for all layers."""

    def array(name):
        return np.asarray(state_dict[name], np.float32)

    leaves = {}
    for layer in layers:
        if layer.kind == "array":
            leaves[f"params/{layer.name}"] = jnp.asarray(array(str(layer.place)))
            continue
        for theirs, (ours, change) in (table or LEAVES[layer.kind]).items():
            given = array(f"{layer.place}.{theirs}")
            try:
                leaves[f"params/{layer.name}/{ours}"] = jnp.asarray(change(given))
            except ValueError:
                wanted = f"the {theirs} of a {layer.kind} layer"
                message = f"{layer.place}.{theirs} is not {wanted}: its shape is {given.shape}"
                raise ValueError(message) from None
    return tree.nested(leaves, "params")


def _plain_names(module, state_dict):
    """The state dict with plain names: without "bert." in front, and weight instead of gamma."""
    prefix = PREFIXES.get(type(module))
    if prefix is None:
        return state_dict
    renamed = {"gamma": "weight", "beta": "bias"}
    plain = {}
    for name, array in state_dict.items():
        *parents, leaf = name.removeprefix(prefix).split(".")
        plain[".".join([*parents, renamed.get(leaf, leaf)])] = array
    return plain


def _unused_prefixes(module) -> tuple[str, ...]:
    """Prefixes of the names of arrays that this network does not use."""
    unused = UNUSED.get(type(module), ())
    wanted = ("pooler",) if getattr(module, "pooler", False) else ()
    return tuple(name for name in unused if name not in wanted)


def _check_shapes(module, params, converted, collection):
    variables = jax.eval_shape(module.init, jax.random.key(0), _example(module, params))
    expected = variables.get(collection, {})
    arrays = dict(jax.tree_util.tree_leaves_with_path(converted))
    for path, leaf in jax.tree_util.tree_leaves_with_path(expected):
        if arrays[path].shape != leaf.shape:
            name = "/".join(entry.key for entry in path)
            raise ValueError(f"{name}: expected shape {leaf.shape}, got {arrays[path].shape}")


def _example(module, params):
    """The smallest input for parameters of these shapes."""
    if isinstance(module, ConvNet):
        # Pooled to one row; the first dense layer determines its width.
        border = len(module.channels) * (module.kernel - 1)
        width = params["dense_0"]["kernel"].shape[0] // module.channels[-1]
        return jnp.zeros((1, border + 2, border + 2 * width, params["conv_0"]["kernel"].shape[2]))
    if isinstance(module, ResNet):
        return jnp.zeros((1, 32, 32, params["conv1"]["kernel"].shape[2]))
    if isinstance(module, EfficientNetLite):
        return jnp.zeros((1, 32, 32, params["stem"]["kernel"].shape[2]))
    if isinstance(module, StagedResNet):
        # 2 x 2 pixels after the last stage: instance norm needs more than one.
        size = 2 ** (len(module.widths) + 2)
        return jnp.zeros((1, size, size, params["stem"]["conv"]["kernel"].shape[2]))
    if isinstance(module, Bert):
        return jnp.zeros((1, 1), int)
    if isinstance(module, VisionTransformer):
        channels = params["embedding"]["kernel"].shape[0] // module.patch**2
        return jnp.zeros((1, module.image, module.image, channels))
    if isinstance(module, ViT):
        n_patches = params["position_embedding"].shape[1] - 1
        channels = params["embedding"]["kernel"].shape[0] // module.patch**2
        return jnp.zeros((1, module.patch, module.patch * n_patches, channels))
    return jnp.zeros((1, params["dense_0"]["kernel"].shape[0]))
