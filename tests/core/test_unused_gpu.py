"""A machine with a GPU that JAX does not use: one line says so, unless the CPU was chosen."""

import jax
import pytest

from cgjax.core import parallel

CASES = [
    ("cpu", True, False, 1),
    ("cpu", True, True, 0),
    ("cpu", False, False, 0),
    ("gpu", True, False, 0),
]


@pytest.mark.parametrize("backend, has_gpu, is_chosen, n_lines", CASES)
def test_an_unused_gpu_is_named(backend, has_gpu, is_chosen, n_lines, monkeypatch, caplog):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(parallel, "_has_nvidia_gpu", lambda: has_gpu)
    monkeypatch.setattr(parallel, "_is_platform_chosen", lambda: is_chosen)
    parallel.require_devices()
    lines = [line for line in caplog.messages if "this machine has an NVIDIA GPU" in line]
    assert len(lines) == n_lines
    assert not any("\n" in line for line in lines)


def test_who_chooses_the_platform(monkeypatch):
    assert parallel._is_platform_chosen()  # by JAX_PLATFORMS of these tests
    platforms = jax.config.jax_platforms
    try:
        jax.config.update("jax_platforms", None)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        assert not parallel._is_platform_chosen()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        assert parallel._is_platform_chosen()
    finally:
        jax.config.update("jax_platforms", platforms)
