"""Devices: the ("seed", "data") mesh and the sharding of each array of a run."""

import contextlib
import logging
import math
import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from cgjax.core import hosts
from cgjax.core.errors import BadInput, first_line

log = logging.getLogger("cgjax")


class Layout(NamedTuple):
    """Shardings of a run, also for a single device."""

    mesh: Mesh
    replicas: NamedSharding  # leading axis: replica
    batches: NamedSharding  # [replica, step, batch]
    everywhere: NamedSharding  # the data set, the step counter


def layout(n_replicas: int, batch: int | None, devices=None) -> Layout:
    """The layout of n_replicas on the devices; batch: rows per step, None without a plan.

    The seed axis has gcd(n_replicas, devices) devices; the remaining factor splits the batch.
    """
    devices = np.asarray(jax.devices() if devices is None else devices)
    n_seed = math.gcd(n_replicas, devices.size)
    n_data = devices.size // n_seed
    if batch is not None and batch % n_data:
        raise BadInput(
            f"batch size {batch} cannot be split over {n_data} devices: "
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
    """Warns about devices that repeat the work of others, because there is no batch to split."""
    if idle := [str(device) for device in place.mesh.devices[:, 1:].ravel()]:
        log.warning(
            "there is no batch to split, so these devices only repeat the work of others: %s; "
            "use as many seeds as devices, or fewer devices",
            ", ".join(idle),
        )


def put(tree, sharding):
    """Puts values that every host has onto a sharding, which may span several hosts."""
    if not hosts.several():
        return jax.device_put(tree, sharding)

    def put_leaf(leaf):
        if jax.dtypes.issubdtype(jax.numpy.result_type(leaf), jax.dtypes.prng_key):
            key_data = put_leaf(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(key_data, impl=jax.random.key_impl(leaf))
        # Casts 64-bit numbers to 32 bits unless x64 is enabled, as device_put does.
        leaf = np.asarray(jax.numpy.asarray(leaf))
        return jax.make_array_from_callback(leaf.shape, sharding, lambda index: leaf[index])

    return jax.tree.map(put_leaf, tree)


def to_own(tree):
    """With several hosts, copies the whole tree to each host; else returns it unchanged."""
    return jax.device_put(fetch(tree)) if hosts.several() else tree


def fetch(tree):
    """Copies a tree to host memory, even if its shards are on several hosts."""

    def fetch_leaf(leaf):
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            from jax.experimental import multihost_utils

            if leaf.is_fully_replicated:
                return np.array(leaf.addressable_data(0), copy=True)
            return multihost_utils.process_allgather(leaf, tiled=True)
        # A copy, not a view: on a CPU the view would alias a buffer that the next call donates.
        return np.array(leaf, copy=True)

    return jax.tree.map(fetch_leaf, tree)


def require_devices() -> None:
    """Raises BadInput if JAX has no device, such as for a platform that is not available."""
    try:
        jax.devices()
    except RuntimeError as error:
        raise BadInput(f"no device: {first_line(error)}") from None
    except AssertionError:  # what JAX raises for "cuda" on a machine without an NVIDIA GPU
        raise BadInput(
            f"no device: JAX_PLATFORMS={jax.config.jax_platforms} names none that this machine "
            "has: unset it, or set JAX_PLATFORMS=cpu"
        ) from None
    warn_of_unused_gpu()


def warn_of_unused_gpu() -> None:
    """Warns if JAX runs on the CPU of a machine with an NVIDIA GPU, unless the user chose that."""
    if jax.default_backend() == "cpu" and not _is_platform_chosen() and _has_nvidia_gpu():
        log.warning(
            "JAX %s runs on the CPU, but this machine has an NVIDIA GPU: install jax[cuda13], or "
            "jax[cuda12] for an older driver; JAX_PLATFORMS=cpu chooses the CPU without this line",
            jax.__version__,
        )


def _is_platform_chosen():
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return hidden or bool(jax.config.jax_platforms)


def _has_nvidia_gpu():
    gpus = pathlib.Path("/proc/driver/nvidia/gpus")
    return gpus.is_dir() and any(gpus.iterdir())


def on_nvidia() -> bool:
    """Whether the devices are NVIDIA GPUs, so that kernels written for them can run."""
    return jax.devices()[0].device_kind.startswith("NVIDIA")


def on_one_nvidia() -> bool:
    """Whether the only device is an NVIDIA GPU."""
    return on_nvidia() and jax.device_count() == 1


def on_host():
    """A context in which JAX computes on the host's CPU, if it has this backend.

    For small computations while an accelerator compiles or trains: they would wait for it. And for
    operations outside of jit: each is compiled for its device, which takes a GPU much longer.
    """
    if jax.default_backend() == "cpu":  # the context would be part of the key of compiled programs
        return contextlib.nullcontext()
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # such as with JAX_PLATFORMS=cuda
        return contextlib.nullcontext()


def one_at_a_time(fn: Callable) -> Callable:
    """`fn` of a single matrix; under vmap a loop on a CPU, one call for the batch elsewhere.

    On a CPU, LAPACK calls of jaxlib split a batch over XLA's threads and wait for them. Independent
    calls of one program, or of the programs of several devices, run on those same threads: if every
    thread waits for parts that no free thread can run, the program deadlocks. A single matrix is
    not split, and a loop over small matrices is as fast.
    """
    return jax.custom_batching.sequential_vmap(fn) if jax.default_backend() == "cpu" else fn


def describe_devices() -> str:
    """For example "4x NVIDIA H200", "1x cpu" or "16x NVIDIA H200 on 2 hosts"."""
    kind = jax.devices()[0].device_kind
    on_hosts = f" on {jax.process_count()} hosts" if hosts.several() else ""
    return f"{jax.device_count()}x {kind}{on_hosts}"
