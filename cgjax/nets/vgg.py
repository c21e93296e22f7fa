"""The convolutions of VGG16 (Simonyan and Zisserman 2015), without its dense layers."""

import flax.linen as nn
import jax

from cgjax.nets.conv import Conv, max_pool


class VGG(nn.Module):
    """Images [B, H, W, 3] -> output of each stage, before the 2 x 2 max-pool that follows it.

    Stage i has stages[i][0] convolutions of 3x3 with stages[i][1] channels, each with a ReLU.
    """

    stages: tuple[tuple[int, int], ...] = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))

    @nn.compact
    def __call__(self, x) -> tuple[jax.Array, ...]:
        outputs, number = [], 0
        for n_convs, features in self.stages:
            x = max_pool(x) if outputs else x
            for _ in range(n_convs):
                conv = Conv(features, 3, padding=1, weights="he_normal", name=f"conv_{number}")
                x, number = nn.relu(conv(x)), number + 1
            outputs.append(x)
        return tuple(outputs)
