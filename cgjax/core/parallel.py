"""Devices: the ("seed", "data") mesh and where each array of a run lives on it."""

import logging
import math
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from cgjax.core import hosts
from cgjax.core.errors import BadInput, first_line

log = logging.getLogger("cgjax")


class Layout(NamedTuple):
    """Shardings of a run; a single device is the trivial case."""

    mesh: Mesh
    replicas: NamedSharding  # leading axis: replica
    batches: NamedSharding  # [replica, step, batch]
    everywhere: NamedSharding  # the data set, the step counter


def layout(n_replicas: int, batch: int | None, devices=None) -> Layout:
    """Seed axis = gcd(replicas, devices); whatever is left splits the batch."""
    devices = np.asarray(jax.devices() if devices is None else devices)
    n_seed = math.gcd(n_replicas, devices.size)
    n_data = devices.size // n_seed
    if batch is not None and batch % n_data:
        raise BadInput(
            f"batch size {batch} does not divide over {n_data} devices: "
            f"use a multiple of {n_data}, or as many seeds as devices"
        )
    mesh = Mesh(devices.reshape(n_seed, n_data), ("seed", "data"))
    return Layout(
        mesh,
        NamedSharding(mesh, P("seed")),
        NamedSharding(mesh, P("seed", None, "data")),
        NamedSharding(mesh, P()),
    )


def warn_of_repeats(place: Layout) -> None:
    """Names the devices that only repeat what others do, where no batch can be split."""
    if idle := [str(device) for device in place.mesh.devices[:, 1:].ravel()]:
        log.warning(
            "there is no batch to split, so these devices only repeat the work of others: %s; "
            "use as many seeds as devices, or fewer devices", ", ".join(idle),
        )  # fmt: skip


def put(tree, sharding):
    """Puts values that every host has onto a sharding, of which it may hold a part only."""
    if not hosts.several():
        return jax.device_put(tree, sharding)

    def one(leaf):
        if jax.dtypes.issubdtype(jax.numpy.result_type(leaf), jax.dtypes.prng_key):
            words = one(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
        # As device_put: numbers of 64 bits become those of 32, where JAX is set so.
        leaf = np.asarray(jax.numpy.asarray(leaf))
        return jax.make_array_from_callback(leaf.shape, sharding, lambda index: leaf[index])

    return jax.tree.map(one, tree)


def to_own(tree):
    """A tree that is spread over hosts as one that each of them has; else as it is."""
    return jax.device_put(fetch(tree)) if hosts.several() else tree


def fetch(tree):
    """Copies a tree to host memory, also where its shards live on several hosts."""

    def one(leaf):
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            from jax.experimental import multihost_utils

            if leaf.is_fully_replicated:
                return np.array(leaf.addressable_data(0), copy=True)
            return multihost_utils.process_allgather(leaf, tiled=True)
        # A copy, not a view: on a CPU the view would alias a buffer that the next call donates.
        return np.array(leaf, copy=True)

    return jax.tree.map(one, tree)


def require_devices() -> None:
    """Refuses to go on without a device: a platform that this machine does not have."""
    try:
        jax.devices()
    except RuntimeError as error:
        raise BadInput(f"no device: {first_line(error)}") from None


def on_nvidia() -> bool:
    """Whether kernels written for NVIDIA's GPUs can run here."""
    return jax.devices()[0].device_kind.startswith("NVIDIA")


def on_one_nvidia() -> bool:
    """Whether there is one such GPU and no other device among which work could be split."""
    return on_nvidia() and jax.device_count() == 1


def describe_devices() -> str:
    """For example "4x NVIDIA H200" or "1x cpu"."""
    kind = jax.devices()[0].device_kind
    on_hosts = f" on {jax.process_count()} hosts" if hosts.several() else ""
    return f"{jax.device_count()}x {kind}{on_hosts}"
