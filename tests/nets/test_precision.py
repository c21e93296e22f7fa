"""Networks leave the digits of their products to the caller, so that "highest" means float32."""

import functools
import importlib
import pkgutil

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

import cgjax.nets
from cgjax.analysis.ntk import functions
from cgjax.core import parallel
from cgjax.experiments.bumps import models
from cgjax.experiments.resistance import models as resistance
from cgjax.nets import (
    bert,
    broadcast,
    conv,
    decoders,
    efficientnet,
    mlp,
    pixel_tokens,
    resnet,
    rnn,
    slots,
)
from cgjax.nets import vit as vits


def floats(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def ids(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.int32)


SMALL = {"stage_sizes": (1,), "widths": (4,), "head": 2}
CONVNET = {"channels": (4, 4), "hidden": (4,), "kernel": 3}
NETWORKS = {
    "MLP": (mlp.MLP((2,), 4, 3), floats(2, 3)),
    "direct": (decoders.UpsampleMLP(hidden=4, channels=4, form="direct"), floats(2, 3)),
    "reordered": (decoders.UpsampleMLP(hidden=4, channels=4, form="reordered"), floats(2, 3)),
    "pallas": (decoders.UpsampleMLP(hidden=4, channels=16, form="pallas"), floats(2, 3)),
    "DeconvMLP": (decoders.DeconvMLP(hidden=4, channels=4), floats(2, 3)),
    "BroadcastMLP": (broadcast.BroadcastMLP((8, 8, 3), 4, 3), floats(2, 3)),
    "WindowMLP": (broadcast.WindowMLP((8, 8, 3), 3, 4), floats(2, 4)),
    "ConvSlots": (slots.ConvSlots(size=3, channels=4, hidden=4), floats(2, 8, 8, 3)),
    "AttentionSlots": (slots.AttentionSlots(size=3, channels=4, hidden=4), floats(2, 8, 8, 3)),
    "ShiftMLP": (broadcast.ShiftMLP(hidden=4, channels=4), floats(2, 4)),
    "ConvNet": (conv.ConvNet(**CONVNET), floats(2, 10, 10, 1)),
    "ConvNet, direct": (conv.ConvNet(form="direct", **CONVNET), floats(2, 10, 10, 1)),
    "ResNet": (resnet.ResNet((4,), 1), floats(2, 8, 8, 3)),
    "EfficientNetLite": (
        efficientnet.EfficientNetLite(((1, 3, 2, 2, 4),), stem=4, head=8, classes=3),
        floats(2, 32, 32, 3),
    ),
    "VGG": (conv.VGG(((1, 4), (1, 4))), floats(2, 8, 8, 3)),
    "bottlenecks": (resnet.StagedResNet(**SMALL), floats(2, 32, 32, 3)),
    "basic blocks": (
        resnet.StagedResNet(**SMALL | {"widths": (32,)}, block="basic", norm="group"),
        floats(2, 32, 32, 3),
    ),
    "ViT": (vits.ViT(8, 1, 2, 4, 8, 4), floats(2, 8, 8, 3)),
    "VisionTransformer": (vits.VisionTransformer(8, 4, 8, 1, 2, 8, head=2), floats(2, 8, 8, 3)),
    "Bert": (bert.Bert(11, 8, 1, 2, 8, 6, pooler=True), ids(2, 5)),
    "Seq2Seq": (rnn.Seq2Seq(5, 4, 3, 2), ids(2, 5), ids(2, 4)),
    "TransposedDecoder": (decoders.TransposedDecoder(8, 4, 2, 4), floats(2, 3)),
    "transposed, direct": (decoders.TransposedDecoder(8, 4, 2, 4, form="direct"), floats(2, 3)),
    "PixelMLP": (pixel_tokens.PixelMLP(4, 4, 2), floats(2, 3)),
    "PixelTransformer": (pixel_tokens.PixelTransformer(4, 4, 1, 2, 4), floats(2, 3)),
    "bumps: mlp": (models.MLPDecoder(4, 4, 2, batch_norm=True), floats(2, 3)),
    "bumps: embed": (models.EmbeddingNetwork(4), floats(2, 8)),
    "bumps: product": (models.ProductField(4), floats(2, 8)),
    "bumps: encoder": (models.Encoder(4, (4, 4), 4), floats(2, 8, 8)),
    "rotation": (models.RotationDecoder((4, 4), 2), floats(2, 3)),
    "equivariant": (models.EquivariantDecoder(4, 4, 2, 2), floats(2, 3)),
    "PairNet": (resistance.PairNet(hidden=4), floats(2, 8, 12, 1)),
    "Towers": (resistance.Towers(resistance.PlaneNet(heads=2), -1), floats(2, 4)),
}


def trained(net):
    """Function of params and inputs: the outputs and what their sum gives back to params."""

    def function(variables, *inputs):
        rest = {name: value for name, value in variables.items() if name != "params"}

        def total(params):
            out = net.apply(rest | {"params": params}, *inputs)
            return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(out))

        return jax.value_and_grad(total)(variables["params"])

    return function


@pytest.fixture(autouse=True)
def nvidia(monkeypatch):
    """The GPU kernels are traced on any device, and do not run."""
    monkeypatch.setattr(parallel, "on_nvidia", lambda: True)


@functools.cache
def initialised(name):
    """Shapes of a network's variables, and the classes of the modules inside it."""
    net, *inputs = NETWORKS[name]
    called = set()

    def note(call, args, kwargs, context):
        called.add(type(context.module))
        return call(*args, **kwargs)

    with nn.intercept_methods(note):
        return jax.eval_shape(net.init, jax.random.key(0), *inputs), called


@pytest.mark.parametrize("name", NETWORKS)
def test_highest_is_highest(name):
    net, *inputs = NETWORKS[name]
    variables, _ = initialised(name)
    assert not functions.cut_short(trained(net), variables, *inputs)


def test_every_network_is_among_them():
    rooms = [
        importlib.import_module(f"cgjax.nets.{m.name}")
        for m in pkgutil.iter_modules(cgjax.nets.__path__)
    ]
    known = [value for room in (*rooms, models, resistance) for value in vars(room).values()]
    ours = {value for value in known if isinstance(value, type) and issubclass(value, nn.Module)}
    called = set().union(*(initialised(name)[1] for name in NETWORKS))
    assert {cls.__name__ for cls in ours - called} <= {"Module", "InstanceNorm"}
