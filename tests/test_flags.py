"""What is wrong with the flags of a command is one line, whichever command it is."""

import importlib

import pytest
from front_door import one_line

COMMANDS = {
    "main": "--confg=sprites", "sweep.__main__": "--confg=sprites", "audit.__main__": "--latent=x",
    "report.__main__": "--oot=x", "reproduce": "--lis", "bench.__main__": "--stepz=3",
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_flag_is_refused_with_the_nearest(name, capsys):
    main = importlib.import_module(f"cgjax.{name}").main
    assert main([COMMANDS[name], *(["sprites"] if name == "bench.__main__" else [])]) == 2
    one_line(capsys, f"cgjax: unknown argument '{COMMANDS[name]}' (did you mean '--")


def test_values_of_the_wrong_type_and_missing_ones_too(capsys):
    from cgjax.bench.__main__ import main

    assert main(["sprites", "--steps=x"]) == 2
    one_line(capsys, "invalid int value: 'x'")
    assert main([]) == 2
    one_line(capsys, "arguments are required: family")
