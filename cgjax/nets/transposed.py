"""A decoder of transposed convolutions, from one vector to an image (Liang et al. 2025).

A strided transposed convolution has two forms with the same result. "direct" is XLA's own
operation. "patches" is an ordinary 3x3 convolution with four times the outputs, one for each corner
of a 2x2 block (`depth_to_space`). On a CPU "direct" is many times slower; "auto" selects "patches"
there and "direct" elsewhere. Kernels [k, k, c, o] are correlated with the (dilated) image.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from cgjax.nets.conv import convolve
from cgjax.nets.decoders import Conv, deconvolve

FORMS = ("auto", "direct", "patches")
# Which tap of a 4-tap kernel of stride 2 reads the left neighbour, the pixel itself and the right
# neighbour, at even and at odd outputs: [2 outputs, 3 neighbours, 4 taps].
_TAPS = np.zeros((2, 3, 4), np.float32)
_TAPS[0, 0, 0] = _TAPS[0, 1, 2] = _TAPS[1, 1, 1] = _TAPS[1, 2, 3] = 1


def choose(form: str) -> str:
    """The form to run; "auto" is resolved for this backend."""
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
    blocks = convolve(x, corners, padding=1, form="patches")
    return depth_to_space(blocks, 2) + bias.reshape(1, 1, 1, -1)


def depth_to_space(x: jax.Array, size: int) -> jax.Array:
    """Blocks of size x size pixels, [B, n, m, size * size * o] -> [B, size n, size m, o]."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height, width, size, size, channels // size**2)
    return jnp.swapaxes(x, 2, 3).reshape(batch, size * height, size * width, -1)


def resize_nearest(x: jax.Array, n: int) -> jax.Array:
    """Images [B, h, w, c] resized to n x n; each pixel is the nearest to its upper left."""
    rows, columns = (np.arange(n) * size // n for size in x.shape[1:3])
    return x[:, rows][:, :, columns]


class TransposedDecoder(nn.Module):
    """z [B, d] -> (image [B, n, n], activations): transposed convolutions with ReLU between them.

    The first layer maps the vector to start x start pixels. n_hidden layers follow: the first of
    them double the side until it is n or more, the others keep it. The last layer gives the image,
    which nearest-neighbour resizing reduces to n x n if it is larger. activations: after each ReLU,
    then the image. Initialisation is PyTorch's, whose fan-in of a transposed convolution counts
    output channels. background: added to the image, as an initial value of the last bias.
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
                f"n_hidden is {self.n_hidden}, but doubling {self.start} to {self.n} pixels or "
                f"more takes {n_doublings} layers"
            )

        def layer(features, size, i, c_in):
            return Conv(features, size, features * size**2, name=f"conv_{i}")(c_in)

        # On one pixel it is a dense layer to start x start pixels, with one bias per channel.
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
        """Transposed convolution of size 3, stride 1, padding 1: a convolution for stride 1."""
        return convolve(x, kernel, padding=1, form=choose(self.form)) + bias.reshape(1, 1, 1, -1)
