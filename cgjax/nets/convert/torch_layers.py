"""Names of the layers of our networks in PyTorch and in our parameter trees."""

from typing import NamedTuple

from cgjax.nets.bert import Bert
from cgjax.nets.conv import ConvNet
from cgjax.nets.decoders import STAGES, DeconvMLP, UpsampleMLP
from cgjax.nets.efficientnet import EfficientNetLite
from cgjax.nets.mlp import MLP
from cgjax.nets.resnet import ResNet, StagedResNet
from cgjax.nets.vit import VisionTransformer, ViT


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
