"""GPU kernels for a decoder's head: small dense layers, each with its bias and ELU in one kernel.

One layer is a matter of microseconds, so what counts is how many kernels are started. The first
two layers are one, as are a layer's gradient and the ELU in front of it, and the gradients of a
layer's kernel and bias. Products are those of tensor cores (operands of 10 bits) but for the first
layer's, whose inputs are coordinates: these stay float32. Reverse-mode derivatives only.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from cgjax.nets.upsample_bodies import _dot, _elu, _through_elu
from cgjax.nets.upsample_geometry import FLOAT, interpreted, weighted


class Launch(NamedTuple):
    """Images and columns per program, terms of a sum that are read at once, warps."""

    rows: int = 64
    columns: int = 32
    terms: int = 256
    warps: int = 8


TUNED = Launch()


def supports(batch: int, hidden: int, features: int, channels: int, n_layers: int) -> bool:
    """Whether the kernels can run this head."""
    fits = hidden in (128, 256, 512) and features in (256, 512, 1024) and channels in (16, 32, 64)
    return fits and n_layers > 2 and batch % TUNED.terms == 0


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5))
def head(z, layers, channels, dtype, launch: Launch = TUNED, interpret: bool = False) -> jax.Array:
    """Dense layers, an ELU behind each: z [B, d], [(kernel, bias), ...] -> [groups, B, channels].

    At least three layers; a group: `channels` features that follow each other, in `dtype`.
    """
    return _forward(z, layers, channels, dtype, launch, interpret)[0]


def _forward(z, layers, channels, dtype, launch, interpret):
    batch, (first, *inner, last) = len(z), layers
    call = partial(_call, launch=launch, interpret=interpret)
    # One array: of many small ones XLA would make copies for the kernels.
    biases = jnp.concatenate([bias for _, bias in layers] + [first[0].reshape(-1)])
    width, features = first[0].shape[1], last[0].shape[1]
    hidden = ShapeDtypeStruct((batch, width), FLOAT)
    h = call(_first_body, (z, inner[0][0], biases), hidden.shape, [hidden] * 2)
    for i, (kernel, _) in enumerate(inner[1:], start=2):
        body = partial(_layer_body, begins=i * width)
        h += call(body, (h[-1], kernel, biases), hidden.shape, [hidden])
    body = partial(_layer_body, begins=(len(layers) - 1) * width)
    shape = ShapeDtypeStruct((features // channels, batch, channels), dtype)
    [y] = call(body, (h[-1], last[0], biases), (batch, features), [shape])
    return y, (z, h, y, layers)


def _backward(channels, dtype, launch, interpret, saved, d_y):
    z, h, y, layers = saved
    batch = len(z)
    call = partial(_call, launch=launch, interpret=interpret)
    shapes = [ShapeDtypeStruct((batch, kernel.shape[1]), FLOAT) for kernel, _ in layers]
    grads = call(
        _last_back_body, (d_y, y, layers[-1][0], h[-1]), h[-1].shape, [shapes[-1], shapes[-2]]
    )
    grads = grads[::-1]
    for i in reversed(range(1, len(layers) - 1)):
        grads = call(
            _back_body, (grads[0], layers[i][0], h[i - 1]), h[i - 1].shape, [shapes[i - 1]]
        ) + grads
    d_layers = []
    for i, (x, grad, (kernel, bias)) in enumerate(zip([z, *h], grads, layers, strict=True)):
        body = _weights_body if i else _first_weights_body
        rows = kernel.shape[0] if i else launch.rows
        wanted = [ShapeDtypeStruct(array.shape, FLOAT) for array in (kernel, bias)]
        d_layers.append(tuple(call(body, (x, grad), (rows, kernel.shape[1]), wanted)))
    d_z = jnp.matmul(grads[0], layers[0][0].T, precision="highest")
    return d_z, d_layers


head.defvjp(_forward, _backward)


def _call(body, arguments, extent, shapes, launch, interpret):
    """One kernel; extent: rows and columns that its programs share out."""
    with interpreted(interpret):
        return pl.pallas_call(
            partial(body, launch=launch),
            grid=(extent[0] // launch.rows, extent[1] // launch.columns),
            out_shape=shapes,
            interpret=interpret,
            compiler_params=plt.CompilerParams(num_warps=launch.warps, num_stages=1),
        )(*arguments)


# --- bodies ---------------------------------------------------------------------------------------


def _own(axis, size):
    """The rows or columns of this program."""
    return pl.ds(pl.program_id(axis) * size, size)


def _chunks(total, terms):
    terms = min(total, terms)
    return [pl.ds(start, terms) for start in range(0, total, terms)]


def _start(biases_ref, begins, columns, launch):
    bias = biases_ref[pl.ds(begins + columns.start, columns.size)]
    return jnp.broadcast_to(bias[None], (launch.rows, columns.size))


def _first_body(z_ref, kernel_ref, biases_ref, h0_ref, h_ref, *, launch):
    """Layers 0 and 1; every program of a row computes all of the former.

    biases: of all layers, and the kernel of layer 0.
    """
    rows, columns = _own(0, launch.rows), _own(1, launch.columns)
    inputs = [z_ref[rows, i][:, None] for i in range(z_ref.shape[1])]
    width = h_ref.shape[1]
    first = biases_ref.shape[0] - len(inputs) * width
    sums = _start(biases_ref, width, columns, launch)
    for chunk in _chunks(width, launch.terms // 2):
        weights = [
            biases_ref[pl.ds(first + i * width + chunk.start, chunk.size)][None]
            for i in range(len(inputs))
        ]
        begin = _start(biases_ref, 0, chunk, launch)
        h0 = _elu(weighted(inputs, weights, begin))

        @pl.when(pl.program_id(1) == 0)
        def _():
            h0_ref[rows, chunk] = h0

        sums += _dot(h0, kernel_ref[chunk, columns], (1, 0))
    h_ref[rows, columns] = _elu(sums)


def _layer_body(x_ref, kernel_ref, biases_ref, y_ref, *, launch, begins):
    """begins: where the layer's biases do."""
    rows, columns = _own(0, launch.rows), _own(1, launch.columns)
    sums = _start(biases_ref, begins, columns, launch)
    for chunk in _chunks(x_ref.shape[1], launch.terms):
        sums += _dot(x_ref[rows, chunk], kernel_ref[chunk, columns], (1, 0))
    y = _elu(sums).astype(y_ref.dtype)
    if len(y_ref.shape) == 2:
        y_ref[rows, columns] = y
    else:
        plt.store(y_ref.at[*_grouped(y_ref, columns, launch)], y)


def _grouped(ref, columns, launch):
    """Where images and columns lie in [groups, B, channels]."""
    shape = (launch.rows, columns.size)
    image, column = (lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (0, 1))
    image, column = image + pl.program_id(0) * launch.rows, column + columns.start
    channels = ref.shape[-1]
    return lax.div(column, channels), image, lax.rem(column, channels)


def _last_back_body(d_y_ref, y_ref, kernel_ref, h_ref, grad_ref, d_h_ref, *, launch):
    """Gradients in front of the last two ELUs from that behind the last one."""
    rows, columns = _own(0, launch.rows), _own(1, launch.columns)
    sums = jnp.zeros((launch.rows, launch.columns), FLOAT)
    for chunk in _chunks(kernel_ref.shape[1], launch.terms // 2):
        at = _grouped(y_ref, chunk, launch)
        d_y, y = (plt.load(ref.at[*at]).astype(FLOAT) for ref in (d_y_ref, y_ref))
        grad = _through_elu(d_y, y)

        @pl.when(pl.program_id(1) == 0)
        def _():
            grad_ref[rows, chunk] = grad

        sums += _dot(grad, kernel_ref[columns, chunk], (1, 1))
    d_h_ref[rows, columns] = _through_elu(sums, h_ref[rows, columns])


def _back_body(grad_ref, kernel_ref, h_ref, d_h_ref, *, launch):
    rows, columns = _own(0, launch.rows), _own(1, launch.columns)
    sums = jnp.zeros((launch.rows, launch.columns), FLOAT)
    for chunk in _chunks(kernel_ref.shape[1], launch.terms):
        sums += _dot(grad_ref[rows, chunk], kernel_ref[columns, chunk], (1, 1))
    d_h_ref[rows, columns] = _through_elu(sums, h_ref[rows, columns])


def _weights_body(x_ref, grad_ref, d_kernel_ref, d_bias_ref, *, launch):
    rows, columns = _own(0, launch.rows), _own(1, launch.columns)
    d_kernel, d_bias = jnp.zeros((launch.rows, launch.columns), FLOAT), 0.0
    for images in _chunks(x_ref.shape[0], launch.terms):
        grad = grad_ref[images, columns]
        d_kernel += _dot(x_ref[images, rows], grad, (0, 0))
        d_bias += jnp.sum(grad, axis=0)
    d_kernel_ref[rows, columns] = d_kernel

    @pl.when(pl.program_id(0) == 0)
    def _():
        d_bias_ref[columns] = d_bias


def _first_weights_body(z_ref, grad_ref, d_kernel_ref, d_bias_ref, *, launch):
    columns = _own(1, launch.columns)
    d_kernel, d_bias = [0.0] * z_ref.shape[1], 0.0
    for images in _chunks(z_ref.shape[0], launch.terms):
        grad = grad_ref[images, columns]
        d_bias += jnp.sum(grad, axis=0)
        for i in range(len(d_kernel)):
            d_kernel[i] += jnp.sum(z_ref[images, i][:, None] * grad, axis=0)
    for i, row in enumerate(d_kernel):
        d_kernel_ref[i, columns] = row
    d_bias_ref[columns] = d_bias
