"""Search for launch settings: every setting computes the same, and the fastest correct one wins."""

import itertools
from functools import partial

import jax.numpy as jnp
import pytest

from cgjax.bench import launches
from cgjax.core.errors import BadInput
from cgjax.nets.pallas import upsample
from cgjax.nets.pallas.upsample import Launch

NETWORKS = {
    "decoders": partial(launches.decoder_cases, 16, 2, 3, start=1, interpret=True),
    "ConvNets": partial(launches.convnet_cases, 2, 2, 18, 19, interpret=True),
}


def seconds(*times):
    """A timer that measures nothing: the times in turn."""
    times = itertools.chain(times, itertools.repeat(9.0))
    return lambda fn: next(times)


@pytest.mark.slow
@pytest.mark.parametrize("cases", NETWORKS.values(), ids=NETWORKS)
def test_no_field_of_a_launch_changes_the_result(cases):
    """One launch for each value of each field, on two calls in the interpreter."""
    for case in cases():
        names = case.used._fields
        one_each = {(name, getattr(other, name)): other for other in case.others for name in names}
        timing = launches.search(case._replace(others=tuple(one_each.values())), 2, seconds())
        assert (timing.n_wrong, timing.n_unfit) == (0, 0), case.name


def toy(wrong=(), unfit=()):
    """A case whose launches are tiles: doubles its input."""

    def call(launch, x):
        if launch.tile in unfit:
            # A program that does not compile, with the message of a GPU without enough memory.
            raise launches.jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Shared memory")
        return 3 * x if launch.tile in wrong else 2 * x

    others = launches.launches(Launch(), tile=(16, 32, 64, 128))
    return launches.Case("toy", (jnp.arange(6.0).reshape(2, 3),), call, Launch(), others)


def test_the_fastest_launch():
    timing = launches.search(toy(), 5, seconds(5.0, 4.0, 2.5, 3.0))
    assert (timing.used_s, timing.fastest_s, timing.fastest.tile) == (1.0, 0.5, 32)
    assert launches.row(toy(), timing) == (
        *("toy", "1000.000", "500.000", "2.00 x", "tile=32"),
        "0 too large, 0 differ",
    )


def test_the_launch_in_use_may_be_the_fastest():
    timing = launches.search(toy(), 1, seconds(1.0))
    assert timing.fastest == Launch()
    assert launches.row(toy(), timing)[-2] == "as in use"


def test_wrong_results_and_launches_that_do_not_fit_do_not_count():
    timing = launches.search(toy(wrong=(16,), unfit=(128,)), 1, seconds(3.0, 2.0))
    assert (timing.fastest.tile, timing.n_wrong, timing.n_unfit) == (32, 1, 1)


def test_settings_in_use_that_do_not_fit():
    with pytest.raises(BadInput, match="toy: this GPU cannot run the settings in use"):
        launches.search(toy(unfit=(64,)), 1, seconds())


def test_other_errors_are_not_hidden():
    def call(launch, x):
        raise launches.jax.errors.JaxRuntimeError("INTERNAL: a fault")

    with pytest.raises(launches.jax.errors.JaxRuntimeError, match="a fault"):
        launches.search(toy()._replace(call=call), 1, seconds())


def test_needs_a_gpu():
    with pytest.raises(BadInput, match="needs an NVIDIA GPU"):
        launches.run()


def test_wide_decoders_have_their_own_settings():
    assert upsample.tuned(16) == upsample.tuned(32) != upsample.tuned(64)
