"""ResNets: a narrow one for 32 x 32 images (Lippl and Stachenfeld 2025), and He et al.'s.

Lepori, Serre and Pavlick 2023 use the latter with instance norm.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from cgjax.core.errors import BadInput, one_of
from cgjax.nets.conv import Conv
from cgjax.nets.mlp import MLP, Dense
from cgjax.nets.norm import BatchNorm, norm_of


class ResNet(nn.Module):
    """Stem, stages of basic blocks, average, linear: x [B, H, W, c] -> [B].

    Stage i has `blocks` blocks of channels[i]; all but the first stage halve the image. train,
    mask [B], form: as in `ConvNet`. tap: return this layer instead: 0 the input, 1 the stem, then
    one for each block, the average, the output.
    """

    channels: tuple[int, ...] = (16, 32, 64, 128)
    blocks: int = 2
    form: str = "auto"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None, tap: int | None = None):
        def conv_norm(x, features, size, stride, name, passes_on=False, **then):
            """(Convolution and norm of x; x itself, for the shortcut that also reads it)."""
            conv = Conv(
                features,
                size,
                stride,
                padding=size // 2,
                use_bias=False,
                form=self.form,
                dtype=self.dtype,
                name=name.format("conv"),
            )
            y, x = conv(x, passes_on=True) if passes_on else (conv(x), x)
            return BatchNorm(form=self.form, name=name.format("bn"))(y, train, mask, **then), x

        layers = [x.astype(self.dtype)]
        first, _ = conv_norm(layers[-1], self.channels[0], 3, 1, "{}1", rectify=True)
        layers.append(first)
        for stage, features in enumerate(self.channels):
            for block in range(self.blocks):
                stride = 2 if stage and not block else 1
                name = f"layer{stage + 1}_{block}"
                layers.append(basic_block(conv_norm, layers[-1], features, stride, name))
        layers.append(jnp.mean(layers[-1], axis=(1, 2)))
        layers.append(Dense(1, self.dtype, name="linear")(layers[-1]))
        return layers[-1][:, 0] if tap is None else layers[tap]


def basic_block(conv_norm, x, features, stride, name):
    """ReLU(two 3x3 convolutions + shortcut); the shortcut is projected if the shape changes."""
    y, x = conv_norm(x, features, 3, stride, name + "_{}1", passes_on=True, rectify=True)
    if stride > 1 or x.shape[-1] != features:
        x, _ = conv_norm(x, features, 1, stride, name + "_shortcut_{}")
    return conv_norm(y, features, 3, 1, name + "_{}2", added=x, rectify=True)[0]


class StagedResNet(nn.Module):
    """Stem, stages of blocks, average, MLP head: x [B, H, W, c] -> [B, head].

    Stage i has stage_sizes[i] blocks of widths[i]. The stem divides the image's side by four; all
    stages but the first halve it. width_factor widens the inside of bottlenecks (2: the wide
    ResNet). norm: one of NORMS; train, mask [B]: as in `BatchNorm`. head: outputs of the MLP on the
    average, whose hidden layer is as wide as its input; 0: return the average itself. Parameters
    are under stem, stage_1, stage_2, ..., head. form: as in `convolve`; use "patches" if kernels
    are vmapped, because XLA's grouped convolution is slow. stride_on: the convolution of a
    bottleneck that has the stride, 2 as in PyTorch or 1 as in He et al. and Keras.

    start, stop: run only the parts start .. stop - 1: 0 is the stem, i is stage i, and the last
    part is average and head. x may thus be the stored output of parts that are not trained.
    """

    stage_sizes: tuple[int, ...] = (3, 4, 6, 3)
    widths: tuple[int, ...] = (64, 128, 256, 512)
    block: str = "bottleneck"
    width_factor: int = 1
    norm: str = "instance"
    head: int = 128
    form: str = "auto"
    dtype: Any = jnp.float32
    stride_on: int = 2

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None, start: int = 0, stop: int | None = None):
        one_of("block", self.block, BLOCKS)
        if len(self.stage_sizes) != len(self.widths):
            raise BadInput(
                f"{len(self.stage_sizes)} stages, but {len(self.widths)} widths: give one per stage"
            )
        build = {"norm": self.norm, "form": self.form, "dtype": self.dtype}
        parts = [Stem(self.widths[0], **build, name="stem")]
        for i, (n_blocks, width) in enumerate(zip(self.stage_sizes, self.widths), 1):
            stride = 1 if i == 1 else 2
            block = functools.partial(BLOCKS[self.block], width, width_factor=self.width_factor)
            if self.block == "bottleneck":
                block = functools.partial(block, stride_on=self.stride_on)
            parts.append(Stage(block, n_blocks, stride, build, name=f"stage_{i}"))
        parts.append(self.readout)
        for part in parts[start:stop]:
            x = part(x, train, mask)
        return x

    def readout(self, x, train, mask):
        """Average over the pixels, then the head."""
        x = jnp.mean(x.astype(jnp.promote_types(self.dtype, jnp.float32)), (1, 2))
        if not self.head:
            return x
        # PyTorch's initialisation, biases included.
        mlp = MLP((self.head,), x.shape[-1], activation="relu", dtype=self.dtype, name="head")
        return mlp(x)


class Stem(nn.Module):
    """7x7 convolution with stride 2, norm, ReLU, 3x3 max-pool with stride 2."""

    features: int
    norm: str = "instance"
    form: str = "auto"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None):
        x = conv_norm(self, self.features, 7, 2, "conv", "norm")(x, train, mask)
        return overlapping_max_pool(nn.relu(x))


class Stage(nn.Module):
    """A sequence of blocks; the first has the stride. build: norm, form and dtype of all blocks."""

    block: Any
    n_blocks: int
    stride: int
    build: Any

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None):
        for i in range(self.n_blocks):
            stride = 1 if i else self.stride
            x = self.block(stride=stride, **self.build, name=f"block_{i}")(x, train, mask)
        return x


class Bottleneck(nn.Module):
    """ReLU(1x1, 3x3, 1x1 convolutions + shortcut), 4 * width outside; stride on the 3x3.

    stride_on: 2 as above, 1 for the stride on the first 1x1.
    """

    width: int
    stride: int = 1
    width_factor: int = 1
    norm: str = "instance"
    form: str = "auto"
    dtype: Any = jnp.float32
    stride_on: int = 2

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None):
        inside, outside = self.width * self.width_factor, 4 * self.width
        first, second = (self.stride, 1) if self.stride_on == 1 else (1, self.stride)
        y = nn.relu(conv_norm(self, inside, 1, first, "conv_1", "norm_1")(x, train, mask))
        y = nn.relu(conv_norm(self, inside, 3, second, "conv_2", "norm_2")(y, train, mask))
        y = conv_norm(self, outside, 1, 1, "conv_3", "norm_3")(y, train, mask)
        return nn.relu(y + shortcut(self, outside, x, train, mask))


class BasicBlock(nn.Module):
    """ReLU(two 3x3 convolutions + shortcut); stride on the first. width_factor must be 1."""

    width: int
    stride: int = 1
    width_factor: int = 1
    norm: str = "instance"
    form: str = "auto"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None):
        if self.width_factor != 1:
            raise BadInput("width_factor applies only to bottlenecks: change widths instead")
        y = nn.relu(conv_norm(self, self.width, 3, self.stride, "conv_1", "norm_1")(x, train, mask))
        y = conv_norm(self, self.width, 3, 1, "conv_2", "norm_2")(y, train, mask)
        return nn.relu(y + shortcut(self, self.width, x, train, mask))


BLOCKS = {"bottleneck": Bottleneck, "basic": BasicBlock}
# With the default sizes: ResNet-50 (width_factor=2: its wide form) and ResNet-18.
BottleneckResNet = functools.partial(StagedResNet, block="bottleneck")
ResNet18 = functools.partial(StagedResNet, block="basic", stage_sizes=(2, 2, 2, 2))


def conv_norm(block, features, size, stride, conv_name, norm_name):
    """Function of (x, train, mask): convolution without bias, N(0, 2/fan_out); then norm."""
    conv = Conv(
        features,
        size,
        stride,
        padding=size // 2,
        use_bias=False,
        weights="he_normal",
        fan_out=True,
        form=block.form,
        dtype=block.dtype,
        name=conv_name,
    )
    norm = norm_of(block.norm)(name=norm_name)
    return lambda x, train, mask: norm(conv(x), train, mask)


def shortcut(block, features, x, train, mask):
    """The shortcut of a block: x, projected if the shape changes."""
    if block.stride == 1 and x.shape[-1] == features:
        return x
    project = conv_norm(block, features, 1, block.stride, "downsample", "norm_downsample")
    return project(x, train, mask)


def overlapping_max_pool(x: jax.Array) -> jax.Array:
    """Maximum of the 3 x 3 block around every second pixel; the image is padded with -inf."""
    for axis in (1, 2):
        n = (x.shape[axis] + 1) // 2
        padded = jnp.pad(
            x, [(1, 1) if i == axis else (0, 0) for i in range(4)], constant_values=-jnp.inf
        )
        taps = [jax.lax.slice_in_dim(padded, i, i + 2 * n - 1, 2, axis) for i in range(3)]
        x = functools.reduce(jnp.maximum, taps)
    return x
