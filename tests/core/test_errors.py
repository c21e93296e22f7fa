"""What commands say when they cannot go on."""

import jax.numpy as jnp
import pytest

from cgjax.core.errors import BadInput, command


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
