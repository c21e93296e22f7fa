"""Launch settings of the GPU kernels: each one in use beside those of a search on this GPU.

`python -m cgjax.bench launches` times the kernels of the decoders and of the ConvNet one by one,
with many tiles, warps and depths of the pipeline; the kernel of the loss is not among them.
Settings that the GPU cannot run, or whose results differ from those of the settings in use, do not
count. The fastest settings belong into `TUNED` and `WIDE` of `nets.pallas.upsample`, and into
`TUNED` of `nets.pallas.conv`.
"""

import itertools
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from cgjax.bench.harness import fastest, table
from cgjax.core import parallel
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.nets import decoders
from cgjax.nets.pallas import conv, upsample

# Of results that differ in the order of their sums; products of float32 are TF32.
TOLERANCE = 2e-3


class Case(NamedTuple):
    """A kernel at one shape.

    call: launch, inputs -> output; the output of any launch is the same up to rounding.
    """

    name: str
    inputs: tuple[jax.Array, ...]
    call: Callable
    used: NamedTuple  # the launch in use
    others: tuple


class Timing(NamedTuple):
    """Seconds of the launch in use, the fastest launch, and its seconds.

    n_unfit, n_wrong: launches that do not compile, and those with another result.
    """

    used_s: float
    fastest: NamedTuple
    fastest_s: float
    n_unfit: int
    n_wrong: int


def run(batch: int = 0, steps: int = 0) -> None:
    """Prints a table for each network. batch: images; steps: calls of a kernel in one program."""
    if not parallel.on_nvidia():
        raise BadInput("the search for launch settings needs an NVIDIA GPU")
    say(f"jax {jax.__version__} · {parallel.describe_devices()}")
    networks = {
        "two decoders of 32 channels": partial(decoder_cases, 32, 2, batch or 512),
        "one decoder of 64 channels": partial(decoder_cases, 64, 1, batch or 512),
        "ten ConvNets on images of 28 x 48": partial(convnet_cases, 10, batch or 128),
    }
    for title, cases in networks.items():
        rows = []
        for case in cases():
            rows.append(row(case, search(case, steps or 20)))
            say(" · ".join(rows[-1]))
        columns = ("kernel", "ms in use", "ms fastest", "faster by", "fastest settings", "left out")
        table(title, columns, rows)


def row(case: Case, timing: Timing) -> tuple[str, ...]:
    """A line of the table: the fastest launch as its differences from the one in use."""
    changes = {
        name: value
        for name, value in timing.fastest._asdict().items()
        if value != getattr(case.used, name)
    }
    text = ", ".join(f"{name}={value}" for name, value in changes.items()) or "as in use"
    times = f"{1e3 * timing.used_s:.3f}", f"{1e3 * timing.fastest_s:.3f}"
    ratio = f"{timing.used_s / timing.fastest_s:.2f} x"
    left_out = f"{timing.n_unfit} too large, {timing.n_wrong} differ"
    return case.name, *times, ratio, text, left_out


# --- search ---------------------------------------------------------------------------------------


def search(case: Case, n: int, timer: Callable = fastest) -> Timing:
    """The fastest of a case's launches, each timed in a program of n calls.

    timer: function without arguments -> seconds.
    """
    launches = list(dict.fromkeys((case.used, *case.others)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        programs = list(pool.map(partial(_compiled, case, n), launches))
    if programs[0] is None:
        raise BadInput(f"{case.name}: this GPU cannot run the settings in use: {case.used}")
    wanted = programs[0](*case.inputs)[1]
    scale = jnp.max(jnp.abs(wanted))
    seconds, n_wrong = {}, 0
    for launch, program in zip(launches, programs):
        if program is None:
            continue
        error = jnp.max(jnp.abs(program(*case.inputs)[1] - wanted))
        if not error <= TOLERANCE * scale:
            n_wrong += 1
            continue
        seconds[launch] = timer(partial(program, *case.inputs)) / n
    quickest = min(seconds, key=seconds.get)
    n_unfit = sum(program is None for program in programs)
    return Timing(seconds[case.used], quickest, seconds[quickest], n_unfit, n_wrong)


def _compiled(case: Case, n: int, launch):
    """n calls in one compiled program -> (first input, output); None if it does not compile.

    Each call reads a number of the one before, so that none is removed or moved out of the loop.
    """

    def program(first, *rest):
        def step(_, carried):
            x, _ = carried
            y = case.call(launch, x, *rest)
            place = (0,) * x.ndim
            return x.at[place].add(0 * y.ravel()[0].astype(x.dtype)), y

        y = jax.eval_shape(partial(case.call, launch), first, *rest)
        return lax.fori_loop(0, n, step, (first, jnp.zeros(y.shape, y.dtype)))

    try:
        return jax.jit(program).lower(*case.inputs).compile()
    except jax.errors.JaxRuntimeError as error:
        # Triton and XLA name the resource that a launch exceeds; other errors are faults.
        if re.search(r"RESOURCE_EXHAUSTED|[Ss]hared memory|out of resource", str(error)):
            return None
        raise


def launches(used, **choices) -> tuple:
    """All combinations of values of a launch's fields; the other fields are those in use."""
    values = itertools.product(*choices.values())
    return tuple(used._replace(**dict(zip(choices, some))) for some in values)


def _normal(seed, *shape):
    return 0.1 * jax.random.normal(jax.random.key(seed), shape)


# --- the networks' kernels ------------------------------------------------------------------------


def decoder_cases(channels: int, slots: int, images: int, start=decoders.START, interpret=False):
    """Kernels of `slots` decoders side by side, at the sizes of `UpsampleMLP`; float32."""
    tuning, colours = upsample.tuned(channels), 3
    sizes = [start * 2**i for i in range(decoders.STAGES)]  # that the stages read
    kernel = _normal(0, slots, 2, 2, channels, channels)
    last_kernel = _normal(1, slots, 2, 2, channels, colours)
    biases = _normal(2, slots, (decoders.STAGES - 1) * channels + colours)

    def hidden(n):
        return _normal(n, slots, n, n, images, channels)

    def case(name, field, inputs, call, **more):
        used = getattr(tuning, field)
        others = launches(used, tile=(16, 32, 64, 128), **({"warps": (2, 4, 8)} | more))

        def with_launch(launch, *arrays):
            changed = tuning._replace(**{field: launch})
            return jax.vmap(partial(call, tuning=changed, interpret=interpret))(*arrays)

        return Case(name, inputs, with_launch, used, others)

    pipelines = {"stages": (1, 3, 4), "early": (False, True)}

    def stage(x, kernel, biases, tuning, interpret):
        return upsample.stage(x, kernel, biases, 0, None, True, tuning, interpret)[0]

    for n in sizes[:-2]:
        yield case(f"stage of {n} rows", "stage", (hidden(n), kernel, biases), stage, **pipelines)

    def mixed(x, kernel, biases, last_kernel, tuning, interpret):
        return upsample.stage(x, kernel, biases, 0, last_kernel, True, tuning, interpret)[0]

    n = sizes[-2]
    inputs = (hidden(n), kernel, biases, last_kernel)
    yield case(f"stage of {n} rows, mixed", "stage_mix", inputs, mixed, **pipelines)

    def back(grad, x, kernel, tuning, interpret):
        return upsample.stage_back(grad, x, kernel, True, tuning, interpret)[0]

    for n in sizes[:-1]:
        field = "stage_back" if n > upsample.FEW else "few_back"
        inputs = (hidden(2 * n), hidden(n), kernel)
        yield case(f"back through {n} rows", field, inputs, back, stages=(1, 3))

    n = sizes[-1]

    def last(mixed, biases, tuning, interpret):
        return upsample.last_stage(mixed, biases, colours, tuning, interpret)

    inputs = (_normal(4, slots, 4 * colours, n, n, images), biases)
    more = {"warps": (1, 2, 4, 8), "span": (8, 16, 32)}
    yield case(f"stage of {n} rows, last", "last", inputs, last, **more)

    def last_back(grad, y, last_kernel, tuning, interpret):
        return upsample.last_stage_back(grad, y, last_kernel, tuning, interpret)[0]

    inputs = (_normal(3, slots, colours, 2 * n, 2 * n, images), hidden(n), last_kernel)
    yield case(f"back through {n} rows, last", "last_back", inputs, last_back, stages=(1, 3))


def convnet_cases(networks: int, images: int, height=28, width=48, interpret=False):
    """Convolutions of several `nets.conv.ConvNet` at once, and the gradients of their inputs."""
    size, channels = 5, (4, 32, 32, 64, 64)  # three input channels are padded to four
    for i, (c, out) in enumerate(itertools.pairwise(channels)):
        made = height - size + 1, width - size + 1
        arrays = (
            _normal(1, networks, images, height, width, c),
            _normal(2, networks, size, size, c, out),
            _normal(3, networks, images, *made, out),
        )
        tuning = conv.TUNED.get((size, c, out), conv.Tuning())
        name = f"convolution {c} to {out}, {height} x {width}"
        yield _conv_case(name, "forward", arrays, tuning, interpret)
        if i:  # the first layer's input is data
            yield _conv_case(name, "back", arrays, tuning, interpret)
        yield _conv_case(name, "weights", arrays, tuning, interpret)
        height, width = made


def _conv_case(name, field, arrays, tuning, interpret):
    x, kernel, grad = arrays

    def call(launch, *inputs):
        settings = conv.Settings(tuning=tuning._replace(**{field: launch}), interpret=interpret)

        def of_network(*inputs):
            if field == "forward":
                return conv.convolve(*inputs, settings)
            if field == "back":  # linear in x: its value does not matter
                zero = jnp.zeros(x.shape[1:], x.dtype)
                product = partial(conv.convolve, kernel=inputs[1], settings=settings)
                return jax.vjp(product, zero)[1](inputs[0])[0]
            zero = jnp.zeros(kernel.shape[1:], kernel.dtype)
            product = partial(conv.convolve, inputs[0], settings=settings)
            return jax.vjp(product, zero)[1](inputs[1])[0]

        return jax.vmap(of_network)(*inputs)

    used = getattr(tuning, field)
    c, out = kernel.shape[-2:]
    inputs = {"forward": (x, kernel), "back": (grad, kernel), "weights": (x, grad)}[field]
    choices = {"tile": (32, 64, 128, 256), "warps": (2, 4, 8), "stages": (1, 3)}
    if field == "weights":
        choices |= {"out": (32, 64)[: out // 32], "taps": (1, 4), "programs": (132, 264, 528)}
    return Case(f"{name}: {field}", inputs, call, used, launches(used, **choices))
