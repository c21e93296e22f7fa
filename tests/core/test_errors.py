"""What commands say when they cannot go on."""

import re

import jax
import jax.numpy as jnp
import pytest
from jax.errors import JaxRuntimeError

from cgjax.core.errors import BadInput, Lost, command


def test_no_room_on_the_device_is_one_line(capsys):
    """Seen with sixteen networks scored at once on a shared GPU: forty lines of traceback."""

    @command
    def main(argv):
        jnp.zeros(2**54).block_until_ready()

    assert main() == BadInput.exit_code
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "memory" in said.lower() and "train.at_once" in said


@pytest.mark.parametrize(
    "text, note",
    [
        ("a fault", False),
        ("INTERNAL: a compiler pass failed", False),
        ("operation gpusolverDnCreate(&handle) failed: cuSolver internal error", True),
        ("INTERNAL: failed to create cublas handle: not initialized", True),
    ],
)
def test_other_faults_of_a_program_keep_their_traceback(text, note):
    """A library of a GPU that does not start may lack memory: a note after the traceback."""

    @command
    def main(argv):
        raise JaxRuntimeError(text)

    with pytest.raises(JaxRuntimeError, match=re.escape(text)) as fault:
        main()
    notes = getattr(fault.value, "__notes__", [])
    assert [("PREALLOCATE" in line) for line in notes] == [True] * note


def test_a_device_that_fails_is_one_line(capsys):
    """Seen where another process of a shared GPU was killed: a hundred lines, and no advice."""

    @command
    def main(argv):
        raise JaxRuntimeError(
            "INTERNAL: CUDA error: Failed to check stream capturing status: "
            "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered "
            "[executable_name='jit_call']"
        )

    assert main() == Lost.exit_code
    assert capsys.readouterr().err == (
        "cgjax: the device failed: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was "
        "encountered; saved checkpoints are kept; run the same command to resume\n"
    )


@pytest.mark.parametrize(
    "text, problem",
    [
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.", "Out of memory"),
        # On a CPU, seen with dense layers of 90 million units.
        (
            "INTERNAL: Error dispatching computation: Out of memory allocating 105840000192 bytes.",
            "Error dispatching computation: Out of memory allocating 105840000192 bytes: ",
        ),
        ("INTERNAL: CUDA_ERROR_OUT_OF_MEMORY: out of memory [name='jit_call']", "CUDA_ERROR_OUT"),
        ("INTERNAL: no plan\nRESOURCE_EXHAUSTED: scratch of 9 bytes", "scratch of 9 bytes: "),
        (
            "gpu/solver_handle_pool.cc:37: operation gpusolverDnCreate(&handle) failed: cuSolver "
            "allocation failed",
            "gpu/solver_handle_pool.cc:37: ",
        ),
        (
            "INTERNAL: failed to create cublas handle: the resource allocation failed",
            "failed to create cublas handle: the resource allocation failed: ",
        ),
    ],
)
@pytest.mark.parametrize("backend", ("cpu", "gpu"))
def test_out_of_memory_is_one_line_of_any_library(text, problem, backend, monkeypatch, capsys):
    @command
    def main(argv):
        raise JaxRuntimeError(text)

    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert main() == BadInput.exit_code
    line = capsys.readouterr().err
    assert line.startswith(f"cgjax: {problem}") and line.count("\n") == 1
    assert "train.at_once" in line
    assert ("XLA_PYTHON_CLIENT_PREALLOCATE=false" in line) == (backend == "gpu")
