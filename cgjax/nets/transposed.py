"""A decoder of transposed convolutions, from one vector to an image (Liang et al. 2025).

A strided transposed convolution has two forms with the same result: "direct", the compiler's own,
and "patches", an ordinary 3x3 convolution with four times the outputs, one for each corner of a
2x2 block (`depth_to_space`). XLA's CPU backend runs its own many times slower; "auto" lets the
backend decide. Kernels [k, k, c, o] are stored as they are correlated with the (dilated) image.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from cgjax.nets.conv import convolve
from cgjax.nets.decoders import Conv, deconvolve

FORMS = ("auto", "direct", "patches")
# Which tap of a 4-tap kernel of stride 2 meets the left, the same and the right neighbour, at even
# and at odd outputs: [2 outputs, 3 neighbours, 4 taps].
_TAPS = np.zeros((2, 3, 4), np.float32)
_TAPS[0, 0, 0] = _TAPS[0, 1, 2] = _TAPS[1, 1, 1] = _TAPS[1, 2, 3] = 1


def choose(form: str) -> str:
    """The form that "auto" stands for on this backend."""
    if form not in FORMS:
        raise ValueError(f"unknown form {form!r}; choose from {', '.join(FORMS)}")
    if form != "auto":
        return form
    return "patches" if jax.default_backend() == "cpu" else "direct"


def double(x: jax.Array, kernel: jax.Array, bias: jax.Array, form: str = "auto") -> jax.Array:
    """Transposed convolution of size 4, stride 2, padding 1: x [B,n,n,c] -> [B,2n,2n,o]."""
    if choose(form) == "direct":
        return deconvolve(x, kernel, bias)
    features = kernel.shape[-1]
    taps = jnp.asarray(_TAPS, kernel.dtype)
    corners = jnp.einsum("aut,bvs,tsco->uvcabo", taps, taps, kernel)
    corners = corners.reshape(3, 3, kernel.shape[2], 4 * features)
    found = convolve(x, corners, padding=1, form="patches")
    return depth_to_space(found, 2) + bias.reshape(1, 1, 1, -1)


def depth_to_space(x: jax.Array, size: int) -> jax.Array:
    """[B, n, m, size * size * o], corner by corner -> [B, size n, size m, o]."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height, width, size, size, channels // size**2)
    return jnp.swapaxes(x, 2, 3).reshape(batch, size * height, size * width, -1)


def resize_nearest(x: jax.Array, n: int) -> jax.Array:
    """Images [B, h, w, c] at n x n pixels, each the nearest to the upper left."""
    rows, columns = (np.arange(n) * size // n for size in x.shape[1:3])
    return x[:, rows][:, :, columns]


class TransposedDecoder(nn.Module):
    """z [B, d] -> (image [B, n, n], activations): transposed convolutions with ReLU between them.

    The first turns the vector into start x start pixels; of n_hidden more, as many as it takes
    double the side until it is n or more, the others keep it; one more gives the image, which is
    cut back to n x n by nearest neighbours where doubling overshot. activations: after each ReLU,
    then the image. Initialised as PyTorch does, whose fan-in of a transposed convolution counts
    output channels. background: added to the image, as if the last bias started there.
    """

    n: int = 28
    hidden: int = 64
    n_hidden: int = 8
    start: int = 7
    background: float = 0.0
    form: str = "auto"

    @nn.compact
    def __call__(self, z):
        n_doublings = max(0, int(np.ceil(np.log2(self.n / self.start))))
        if self.n_hidden < n_doublings:
            raise ValueError(
                f"{n_doublings} layers double {self.start} to {self.n} pixels or more, but "
                f"n_hidden is {self.n_hidden}"
            )

        def layer(features, size, i, c_in):
            return Conv(features, size, features * size**2, name=f"conv_{i}")(c_in)

        # From one pixel it is a dense layer to start x start pixels, with one bias a channel.
        kernel, bias = layer(self.hidden, self.start, 0, z.shape[-1])
        x = jnp.einsum("bc,ijco->bijo", z, kernel) + bias.reshape(1, 1, 1, -1)
        activations = [nn.relu(x)]
        for i in range(1, self.n_hidden + 1):
            doubles = i <= n_doublings
            kernel, bias = layer(self.hidden, 4 if doubles else 3, i, self.hidden)
            x = activations[-1]
            x = double(x, kernel, bias, self.form) if doubles else self.same(x, kernel, bias)
            activations.append(nn.relu(x))
        kernel, bias = layer(1, 3, self.n_hidden + 1, self.hidden)
        image = resize_nearest(self.same(activations[-1], kernel, bias), self.n)[..., 0]
        image = image + self.background
        return image, [*activations, image]

    def same(self, x, kernel, bias):
        """Transposed convolution of size 3, stride 1, padding 1: with stride 1, a convolution."""
        return convolve(x, kernel, padding=1, form=choose(self.form)) + bias.reshape(1, 1, 1, -1)
