"""A narrow ResNet-18 for 32 x 32 images (Lippl and Stachenfeld 2025)."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from cgjax.nets.conv import Conv
from cgjax.nets.mlp import Dense
from cgjax.nets.norm import BatchNorm


class ResNet(nn.Module):
    """Stem, stages of basic blocks, average, linear: x [B, H, W, c] -> [B].

    Stage i has `blocks` blocks of channels[i]; all but the first stage halve the image. train,
    mask [B]: as in `BatchNorm`. tap: return another layer instead: 0 the input, 1 the stem, then
    one for each block, the average, the output.
    """

    channels: tuple[int, ...] = (16, 32, 64, 128)
    blocks: int = 2
    form: str = "auto"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None, tap: int | None = None):
        def conv_norm(x, features, size, stride, conv_name, norm_name):
            conv = Conv(
                features, size, stride, padding=size // 2, use_bias=False, form=self.form,
                dtype=self.dtype, name=conv_name,
            )  # fmt: skip
            return BatchNorm(name=norm_name)(conv(x), train, mask)

        layers = [x.astype(self.dtype)]
        layers.append(nn.relu(conv_norm(layers[-1], self.channels[0], 3, 1, "conv1", "bn1")))
        for stage, features in enumerate(self.channels):
            for block in range(self.blocks):
                stride = 2 if stage and not block else 1
                name = f"layer{stage + 1}_{block}"
                layers.append(basic_block(conv_norm, layers[-1], features, stride, name))
        layers.append(jnp.mean(layers[-1], axis=(1, 2)))
        layers.append(Dense(1, self.dtype, name="linear")(layers[-1]))
        return layers[-1][:, 0] if tap is None else layers[tap]


def basic_block(conv_norm, x, features, stride, name):
    """ReLU(two 3x3 convolutions + shortcut); the shortcut is projected where the shape changes."""
    y = nn.relu(conv_norm(x, features, 3, stride, f"{name}_conv1", f"{name}_bn1"))
    y = conv_norm(y, features, 3, 1, f"{name}_conv2", f"{name}_bn2")
    if stride > 1 or x.shape[-1] != features:
        x = conv_norm(x, features, 1, stride, f"{name}_shortcut_conv", f"{name}_shortcut_bn")
    return nn.relu(y + x)
