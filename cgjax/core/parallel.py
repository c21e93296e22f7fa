"""Devices: the ("seed", "data") mesh and where each array of a run lives on it."""

import math
import os
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from cgjax.core.errors import BadInput, first_line


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


def initialize_hosts() -> None:
    """Joins the other hosts, only where asked: a silent failure would train N separate runs."""
    if os.environ.get("CGJAX_DISTRIBUTED") == "1":
        jax.distributed.initialize()


def is_writer() -> bool:
    """Host 0 writes; every host computes the same plan."""
    return jax.process_index() == 0


def fetch(tree):
    """Copies a tree to host memory, also where its shards live on several hosts."""

    def one(leaf):
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            from jax.experimental import multihost_utils

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


def describe_devices() -> str:
    """For example "4x NVIDIA H200" or "1x cpu"."""
    kind = jax.devices()[0].device_kind
    return f"{jax.device_count()}x {kind}"
