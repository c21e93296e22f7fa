"""PyTorch and safetensors parameter names and layouts -> our parameter trees."""

import json
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import tree
from cgjax.core.errors import BadInput, first_line, shown
from cgjax.nets.bert import Bert
from cgjax.nets.conv import ConvNet
from cgjax.nets.convert import files
from cgjax.nets.decoders import STAGES, DeconvMLP, UpsampleMLP
from cgjax.nets.efficientnet import EfficientNetLite
from cgjax.nets.mlp import MLP
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
    _check_names(module, state_dict, known)
    optional = {
        f"{layer.place}.{leaf}"
        for layer in layers
        if layer.kind == "norm"
        for leaf in (*STATISTICS, "num_batches_tracked")
    }
    others = set(state_dict) - known - optional
    if extra := sorted(name for name in others if not name.startswith(_unused_prefixes(module))):
        raise ValueError(f"state_dict has unexpected {_listed(extra)}")
    _check_patches(module, state_dict, layers)
    params = _tree(state_dict, layers)
    _check_shapes(module, params, params, "params")
    return params


def from_safetensors(module, path) -> dict:
    """Parameters of `module` from a safetensors file with PyTorch's names."""
    arrays = files.read_safetensors(path)
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
    norms = [layer for layer in layers if layer.kind == "norm"]
    statistics = {f"{layer.place}.{leaf}" for layer in norms for leaf in STATISTICS}
    known = {name for layer in layers for name in _entries(layer)}
    _check_names(module, state_dict, known | statistics)
    stats = _tree(state_dict, norms, STATISTICS)
    params = _tree(state_dict, layers)
    _check_shapes(module, params, stats, "batch_stats")
    return stats


def _check_names(module, state_dict, known: set[str]) -> None:
    if missing := sorted(known - set(state_dict)):
        raise ValueError(f"state_dict lacks {_listed(missing)} for {type(module).__name__}")


def _check_patches(module, state_dict, layers) -> None:
    """Patches of another form may have as many pixels as those of the network."""
    for layer in layers:
        if layer.kind == "patches":
            name, side = f"{layer.place}.weight", module.patch
            shape = np.shape(state_dict[name])
            if len(shape) != 4 or shape[2:] != (side, side):
                raise ValueError(
                    f"{name} is not for patches of {side} x {side}: its shape is {shape}"
                )


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
            except (ValueError, IndexError):
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
        plain_name = ".".join([*parents, renamed.get(leaf, leaf)])
        if plain_name in plain:
            raise ValueError(f"state_dict has {_listed([plain_name])} twice, under two names")
        plain[plain_name] = array
    return plain


def _unused_prefixes(module) -> tuple[str, ...]:
    """Prefixes of the names of arrays that this network does not use."""
    unused = UNUSED.get(type(module), ())
    wanted = ("pooler",) if getattr(module, "pooler", False) else ()
    return tuple(name for name in unused if name not in wanted)


def _check_shapes(module, params, converted, collection):
    try:
        variables = jax.eval_shape(module.init, jax.random.key(0), _example(module, params))
    except (IndexError, ZeroDivisionError):
        name = type(module).__name__
        raise ValueError(f"no input of {name} fits the shapes of these arrays") from None
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


# --- layers: their names in PyTorch and in our parameter trees ------------------------------------


class Layer(NamedTuple):
    """One layer with parameters: its place among PyTorch's modules, our name, its kind.

    A name "layer_0/query" is layer "query" inside layer "layer_0".
    """

    place: str | int
    name: str
    kind: str


# Inside a transformer layer: PyTorch's place -> our name.
TRANSFORMER = {
    "attention.output.dense": "attention_out",
    "intermediate.dense": "ffn_in",
    "output.dense": "ffn_out",
}
BERT_NORMS = {"attention.output.LayerNorm": "attention_norm", "output.LayerNorm": "ffn_norm"}
VIT_NORMS = {"layernorm_before": "attention_norm", "layernorm_after": "ffn_norm"}


def layers_of(module) -> list[Layer]:
    """The layers of a network, with PyTorch's places and our names."""
    for kind, layers in LAYERS.items():
        if isinstance(module, kind):
            return layers(module)
    raise ValueError(f"no PyTorch layout known for {type(module).__name__}; add it to LAYERS")


def _mlp_layers(module):
    return [Layer(2 * i, f"dense_{i}", "dense") for i in range(module.n_layers)]


def _upsample_layers(module):
    # After the head: reshape, then activation, upsampling, convolution for each stage.
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


def _convnet_layers(module):
    # For each block: convolution, ReLU, norm; then pool, flatten; then alternating dense, ReLU.
    n = len(module.channels)
    convs = [Layer(3 * i, f"conv_{i}", "conv") for i in range(n)]
    norms = [Layer(3 * i + 2, f"norm_{i}", "norm") for i in range(n)]
    dense = range(len(module.hidden) + 1)
    return convs + norms + [Layer(3 * n + 2 + 2 * i, f"dense_{i}", "dense") for i in dense]


def _resnet_layers(module):
    layers = [Layer("conv1", "conv1", "conv_no_bias"), Layer("bn1", "bn1", "norm")]
    width = module.channels[0]
    for stage, features in enumerate(module.channels, 1):
        for block in range(module.blocks):
            place, name = f"layer{stage}.{block}", f"layer{stage}_{block}"
            for i in (1, 2):
                layers.append(Layer(f"{place}.conv{i}", f"{name}_conv{i}", "conv_no_bias"))
                layers.append(Layer(f"{place}.bn{i}", f"{name}_bn{i}", "norm"))
            if (stage > 1 and block == 0) or width != features:
                shortcut = f"{name}_shortcut"
                layers.append(Layer(f"{place}.shortcut.0", f"{shortcut}_conv", "conv_no_bias"))
                layers.append(Layer(f"{place}.shortcut.1", f"{shortcut}_bn", "norm"))
            width = features
    return [*layers, Layer("linear", "linear", "dense")]


def _vit_layers(module):
    layers = [
        Layer("pos_embedding", "position_embedding", "array"),
        Layer("cls_token", "class_token", "array"),
        Layer("to_patch_embedding.1", "embedding", "dense"),
    ]
    for i in range(module.depth):
        attention, mlp = (f"transformer.layers.{i}.{part}" for part in (0, 1))
        layers += [
            Layer(f"{attention}.norm", f"block_{i}_norm_1", "layer_norm"),
            Layer(f"{attention}.fn.to_qkv", f"block_{i}_qkv", "dense_no_bias"),
            Layer(f"{attention}.fn.to_out.0", f"block_{i}_out", "dense"),
            Layer(f"{mlp}.norm", f"block_{i}_norm_2", "layer_norm"),
            Layer(f"{mlp}.fn.net.0", f"block_{i}_dense_1", "dense"),
            Layer(f"{mlp}.fn.net.3", f"block_{i}_dense_2", "dense"),
        ]
    return [
        *layers,
        Layer("mlp_head.0", "norm", "layer_norm"),
        Layer("mlp_head.1", "head", "dense"),
    ]


def _bert_layers(module):
    layers = [
        Layer(f"embeddings.{name}_embeddings", ours, "embedding")
        for name, ours in (("word", "word"), ("position", "position"), ("token_type", "type"))
    ]
    layers.append(Layer("embeddings.LayerNorm", "norm", "layer_norm"))
    for i in range(module.layers):
        layers += _transformer_layers(i, "attention.self", BERT_NORMS)
    if module.pooler:
        layers.append(Layer("pooler.dense", "pooler", "dense"))
    return layers


def _vision_transformer_layers(module):
    embeddings = "embeddings.patch_embeddings.projection"
    layers = [
        Layer("embeddings.cls_token", "class_token", "array"),
        Layer("embeddings.position_embeddings", "position_embedding", "array"),
        Layer(embeddings, "embedding", "patches"),
        Layer("layernorm", "norm", "layer_norm"),
    ]
    for i in range(module.layers):
        layers += _transformer_layers(i, "attention.attention", VIT_NORMS)
    return layers + _head_layers(module)


def _head_layers(module):
    """The two dense layers of a head: a sequential stack with ReLU between them."""
    return [
        Layer(f"head.{2 * i}", f"head/dense_{i}", "dense") for i in range(2 * bool(module.head))
    ]


def _transformer_layers(i, attention, norms):
    """Layer i. attention: place of its queries, keys and values; norms: places of its two norms."""
    maps = {f"{attention}.{name}": name for name in ("query", "key", "value")} | TRANSFORMER
    places = [(place, name, "dense") for place, name in maps.items()]
    places += [(place, name, "layer_norm") for place, name in norms.items()]
    return [
        Layer(f"encoder.layer.{i}.{place}", f"layer_{i}/{name}", kind)
        for place, name, kind in places
    ]


def _staged_resnet_layers(module):
    """PyTorch places are torchvision's; instance norm has no parameters."""
    layers, bottleneck = [], module.block == "bottleneck"

    def conv_norm(conv, norm, ours_conv, ours_norm):
        layers.append(Layer(conv, ours_conv, "conv_no_bias"))
        if module.norm != "instance":
            kind = "norm" if module.norm == "batch" else "layer_norm"
            layers.append(Layer(norm, ours_norm, kind))

    conv_norm("conv1", "bn1", "stem/conv", "stem/norm")
    width = module.widths[0]
    for stage, (n_blocks, features) in enumerate(zip(module.stage_sizes, module.widths), 1):
        features *= 4 if bottleneck else 1
        for block in range(n_blocks):
            place, name = f"layer{stage}.{block}", f"stage_{stage}/block_{block}"
            for i in range(1, 4 if bottleneck else 3):
                conv_norm(
                    f"{place}.conv{i}", f"{place}.bn{i}", f"{name}/conv_{i}", f"{name}/norm_{i}"
                )
            if (stage > 1 and block == 0) or width != features:
                down, ours = f"{place}.downsample", f"{name}/norm_downsample"
                conv_norm(f"{down}.0", f"{down}.1", f"{name}/downsample", ours)
            width = features
    return layers + _head_layers(module)


def _efficientnet_layers(module):
    """PyTorch places of the common port, whose block i is `_blocks.i`."""
    layers = []

    def conv_norm(conv, norm, name, ours_norm):
        layers.append(Layer(conv, name, "conv_no_bias"))
        layers.append(Layer(norm, ours_norm, "norm"))

    conv_norm("_conv_stem", "_bn0", "stem", "stem_norm")
    expansions = [expansion for n, _, _, expansion, _ in module.stages for _ in range(n)]
    for i, expansion in enumerate(expansions):
        place, name = f"_blocks.{i}", f"block_{i}"
        if expansion > 1:
            conv_norm(
                f"{place}._expand_conv", f"{place}._bn0", f"{name}_expand", f"{name}_expand_norm"
            )
        conv_norm(f"{place}._depthwise_conv", f"{place}._bn1", f"{name}_depthwise", f"{name}_norm")
        conv_norm(
            f"{place}._project_conv", f"{place}._bn2", f"{name}_project", f"{name}_project_norm"
        )
    conv_norm("_conv_head", "_bn1", "head", "head_norm")
    return [*layers, Layer("_fc", "classes", "dense")]


LAYERS = {
    EfficientNetLite: _efficientnet_layers,
    Bert: _bert_layers,
    VisionTransformer: _vision_transformer_layers,
    StagedResNet: _staged_resnet_layers,
    MLP: _mlp_layers,
    UpsampleMLP: _upsample_layers,
    DeconvMLP: _deconv_layers,
    ConvNet: _convnet_layers,
    ResNet: _resnet_layers,
    ViT: _vit_layers,
}
