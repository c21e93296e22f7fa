"""What commands say when they cannot go on."""

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


def test_other_faults_of_a_program_keep_their_traceback():
    @command
    def main(argv):
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        main()


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


def test_a_driver_without_room_is_told_like_any(capsys):
    @command
    def main(argv):
        raise JaxRuntimeError("INTERNAL: CUDA_ERROR_OUT_OF_MEMORY: out of memory [name='jit_call']")

    assert main() == BadInput.exit_code
    assert "train.at_once" in capsys.readouterr().err
