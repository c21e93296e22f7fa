"""EfficientNet-lite0 (Tan and Le 2019; the lite form of 2020): no gates, ReLU6, fixed ends.

Padding is TensorFlow's "same": with a stride of 2 an even side gets its zeros at the end.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from cgjax.nets.conv import Conv
from cgjax.nets.mlp import WEIGHTS, Dense
from cgjax.nets.norm import BatchNorm

# Stages: blocks, side of the depthwise kernel, stride of the first block, expansion, channels.
STAGES = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192), (1, 3, 1, 6, 320),
)  # fmt: skip
EPSILON = 1e-3


class EfficientNetLite(nn.Module):
    """Images [B, H, W, 3] -> (class scores [B, classes], output of each stage and of the head).

    The head's output is [B, H / 32, W / 32, 1280]; its average over the pixels gives the scores.
    """

    stages: tuple[tuple[int, ...], ...] = STAGES
    stem: int = 32
    head: int = 1280
    classes: int = 1000

    @nn.compact
    def __call__(self, x) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        x = relu6(normed(conv(x, self.stem, 3, 2, "stem"), "stem_norm"))
        outputs, number = [], 0
        for n_blocks, size, stride, expansion, features in self.stages:
            for i in range(n_blocks):
                x = self.block(x, f"block_{number}", size, 1 if i else stride, expansion, features)
                number += 1
            outputs.append(x)
        outputs.append(relu6(normed(conv(x, self.head, 1, 1, "head"), "head_norm")))
        scores = Dense(self.classes, name="classes")(jnp.mean(outputs[-1], (1, 2)))
        return scores, tuple(outputs)

    @nn.nowrap
    def block(self, x, name, size, stride, expansion, features):
        """1x1 expansion, depthwise convolution, 1x1 projection; x is added if shapes agree."""
        y = x
        if expansion > 1:
            y = conv(y, expansion * x.shape[-1], 1, 1, f"{name}_expand")
            y = relu6(normed(y, f"{name}_expand_norm"))
        y = relu6(normed(Depthwise(size, stride, name=f"{name}_depthwise")(y), f"{name}_norm"))
        y = normed(conv(y, features, 1, 1, f"{name}_project"), f"{name}_project_norm")
        return x + y if stride == 1 and x.shape == y.shape else y


class Depthwise(nn.Module):
    """Each channel of x [B, H, W, c] convolved with its own size x size kernel."""

    size: int
    stride: int = 1

    @nn.compact
    def __call__(self, x):
        shape = (self.size, self.size, 1, x.shape[-1])
        kernel = self.param("kernel", WEIGHTS["he_normal"](self.size**2), shape)
        x = padded(x, self.size, self.stride)
        # A sum of shifted images: XLA's grouped convolution is many times slower on a CPU.
        rows, columns = ((n - self.size) // self.stride + 1 for n in x.shape[1:3])
        total = 0
        for i in range(self.size):
            for j in range(self.size):
                ends = (i + (rows - 1) * self.stride + 1, j + (columns - 1) * self.stride + 1)
                shifted = x[:, i : ends[0] : self.stride, j : ends[1] : self.stride]
                total = total + shifted * kernel[i, j][None, None]
        return total


def padded(x: jax.Array, size: int, stride: int) -> jax.Array:
    """The zeros around x [B, H, W, c] that make ceil(side / stride) positions of a kernel."""
    widths = []
    for n in x.shape[1:3]:
        extra = max((-(-n // stride) - 1) * stride + size - n, 0)
        widths.append((extra // 2, extra - extra // 2))
    return jnp.pad(x, ((0, 0), *widths, (0, 0)))


def conv(x, features, size, stride, name):
    """A convolution without bias on the padded image."""
    layer = Conv(features, size, stride, use_bias=False, weights="he_normal", name=name)
    return layer(padded(x, size, stride))


def normed(x, name):
    """Batch norm with its running statistics."""
    return BatchNorm(epsilon=EPSILON, name=name)(x)


relu6 = nn.relu6
