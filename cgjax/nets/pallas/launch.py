"""One launch for all GPU kernels: grid, compiler parameters, interpreter, and a GPU to run on."""

from collections.abc import Callable, Sequence

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from cgjax.core import parallel
from cgjax.core.errors import BadInput


def launch(
    body: Callable,
    arguments: Sequence[jax.Array],
    grid: tuple[int, ...],
    out_shape,
    warps: int,
    stages: int,
    interpret: bool,
    name: str | None = None,
):
    """Runs a kernel; program ids have the axes of `grid`. interpret: on any device, for tests."""
    if not (interpret or parallel.on_nvidia()):
        kind = jax.devices()[0].device_kind
        raise BadInput(f"form: the GPU kernels need an NVIDIA GPU, not {kind}: use form 'auto'")
    call = pl.pallas_call(
        body,
        name=name,
        grid=grid,
        out_shape=out_shape,
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=warps, num_stages=stages),
    )
    return call(*arguments)
