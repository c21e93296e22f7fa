"""Help and refused commands: one line for a mistake, and no wait for JAX."""

import importlib
import pathlib
import re
import subprocess
import sys

import pytest
from front_door import one_line

from cgjax.config.declare import names_in

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
    one_line(capsys, "no benchmark is named: there are sprites, ")
    assert main(["sprites", "--batch=-1"]) == 2
    one_line(capsys, "--batch and --steps must be at least 1")
    for name in ("growth", "wait", "support"):
        assert main([name, "--steps=3"]) == 2
        one_line(capsys, f"'{name}' takes neither --batch nor --steps")


def test_flags_of_the_report_that_would_do_nothing(capsys):
    from cgjax.report.__main__ import main

    for flags, words in {
        "--label=x": "--label is of --add",
        "--replace": "--replace is of --add",
        "--add": "--add names no workdir",
        "--readme --out=page": "--readme writes the numbers of the package's record",
    }.items():
        assert main(flags.split()) == 2
        one_line(capsys, words)


# Each command is refused, or prints its help; none of them may import a package that takes seconds.
LIGHT = """
import contextlib, importlib, io, sys

for name, *argv in {commands!r}:
    with contextlib.redirect_stderr(io.StringIO()) as error, contextlib.redirect_stdout(error):
        try:
            code = importlib.import_module(f"cgjax.{{name}}").main(argv)
        except SystemExit as end:
            code = end.code
    heavy = {{"jax", "matplotlib", "scipy", "orbax", "tensorflow_datasets"}} & sys.modules.keys()
    is_help = bool(argv) and argv[0] in ("--help", "--list", "--list=sprites")
    assert code == (0 if is_help else 2), (name, argv, code, error.getvalue())
    assert not heavy, (name, argv, heavy)
    assert is_help or len(error.getvalue().splitlines()) == 1, error.getvalue()
"""
MODULES = (
    "main",
    "reproduce",
    *(f"{name}.__main__" for name in ("audit", "report", "sweep", "bench")),
)
REFUSED = (
    *((module, "--help") for module in MODULES),
    ("main", "--list"),
    ("main", "--list=sprites"),
    *(("main", f"--config={path.stem}", "--config.optim.lx=3")
      for path in sorted(pathlib.Path("configs").glob("*.py"))),
    ("main", "--config=sprites:orthogonl"),
    ("main", "--config=sprites:demo,smok"),
    ("main", "--config=sprites", "--config.model.composition=ad"),
    ("main", "--config=kernels", "--config.optim.loss=mze"),
    ("main", "--config=nowhere.py"),
    ("main", "--config=sprites", "--workdir=pyproject.toml"),
    ("reproduce", "no_such_claim"),
    ("reproduce", "sprites"),
    ("reproduce", "--plan", "sprits"),
    ("report.__main__", "sprits"),
    ("report.__main__", "--add", "nothing"),
    ("report.__main__", "tests"),
    ("audit.__main__", "--latents=no.csv"),
    ("audit.__main__", "no.csv"),
    ("sweep.__main__", "--config=sprites:demo", "--sweep.optim.lr=1e-3,abc"),
    ("bench.__main__", "spritz"),
    ("bench.__main__",),
)  # fmt: skip


def test_help_and_refusals_import_no_large_package():
    program = LIGHT.format(commands=REFUSED)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_names_of_choices_are_those_of_the_tables():
    files = [
        *pathlib.Path("configs").glob("*.py"),
        *pathlib.Path("cgjax").glob("experiments/*/keys.py"),
    ]
    text = "".join(path.read_text() for path in files)
    pairs = re.findall(r'names_in\("([\w.]+)", "(\w+)"\)', text)
    assert len(pairs) == text.count("names_in(") > 30
    for module, table in pairs:
        assert names_in(module, table) == tuple(
            getattr(importlib.import_module(f"cgjax.{module}"), table)
        )
