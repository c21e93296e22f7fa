"""python -m cgjax.main --config=configs/<family>.py[:<row>[,<size>]] [--config.<key>=<value>]"""

import argparse
import contextlib
import json
import logging
import os
import pathlib
import sys

import jax
import rich.console
import rich.logging

from cgjax import config as configs
from cgjax import experiments
from cgjax.core import parallel
from cgjax.core.errors import BadInput, command
from cgjax.core.logging import print_table, say
from cgjax.core.workdir import environment, locked, read_json, write_atomic


@command
def main(argv=None):
    """Runs one experiment from data to figures."""
    flags, overrides = parse(sys.argv[1:] if argv is None else argv)
    set_up_logging()
    if flags.list:
        list_rows()
        return
    use_compilation_cache()
    parallel.initialize_hosts()
    run(configs.load(flags.config, overrides), flags)


def parse(argv):
    """Flags, and the overrides `{"train.steps": "400"}`."""
    parser = argparse.ArgumentParser(prog="python -m cgjax.main", description=__doc__)
    parser.add_argument("--config", help="a config file, with an optional :row,size")
    parser.add_argument(
        "--workdir", type=pathlib.Path, help="default: runs/<family>/<row>[-<size>]"
    )
    parser.add_argument("--list", action="store_true", help="print every row and stop")
    parser.add_argument("--profile", action="store_true", help="write a trace to <workdir>/profile")
    parser.add_argument("--debug_nans", action="store_true", help="stop at the first NaN")
    parser.add_argument("--no_figures", action="store_true", help="train and score only")
    parser.add_argument("--force_resume", action="store_true", help="go on although keys changed")
    overrides = {}
    rest = []
    for word in argv:
        if word.startswith("--config."):
            key, equals, value = word.removeprefix("--config.").partition("=")
            if not equals:
                raise BadInput(f"'{word}' has no value: write {word}=<value>")
            overrides[key] = value
        else:
            rest.append(word)
    flags, unknown = parser.parse_known_args(rest)
    if unknown:
        names = ["--config", "--workdir", "--list", "--profile", "--debug_nans", "--no_figures"]
        raise BadInput(f"unknown argument '{unknown[0]}'{configs.nearest(unknown[0], names)}")
    if not (flags.config or flags.list):
        raise BadInput(
            "nothing to run: give --config=configs/sprites.py, or --list to see all rows"
        )
    return flags, overrides


def run(config, flags) -> None:
    """One experiment in its workdir: train what is missing, draw, print the table."""
    name = config.row + ("" if config.size == "default" else f"-{config.size}")
    workdir = flags.workdir or pathlib.Path("runs") / config.family / name
    family = experiments.family(config.family)
    with locked(workdir):
        configs.claim(workdir, config, flags.force_resume)
        seeds = ", ".join(map(str, config.train.seeds))
        say(f"{config.family} · {name} · seeds {seeds} → {workdir}")
        if not finished(workdir, config):
            say(f"jax {jax.__version__} · {parallel.describe_devices()}")
            write_atomic(workdir / "env.json", json.dumps(environment(), indent=1))
            with tools(flags, workdir):
                family.run(config, workdir, figures=not flags.no_figures)
        else:
            say("already finished: nothing to train")
        results = read_json(workdir / "results.json")
        print_table(results["metrics"], verdict=config.size == "paper")
        figures = sorted((workdir / "figures").glob("*.png"))
        say(f"{len(figures)} figures in {workdir}/figures; numbers in {workdir}/results.json")


def finished(workdir: pathlib.Path, config) -> bool:
    """Whether results.json is there and of this very config (seeds included)."""
    path = workdir / "results.json"
    return path.exists() and read_json(path)["config_hash"] == configs.fingerprint(config)


@contextlib.contextmanager
def tools(flags, workdir: pathlib.Path):
    """The profiler and the NaN check, where asked for."""
    with contextlib.ExitStack() as stack:
        if flags.profile:
            stack.enter_context(jax.profiler.trace(str(workdir / "profile")))
        if flags.debug_nans:
            stack.enter_context(jax.debug_nans(True))
        yield


def list_rows(folder: str = "configs") -> None:
    """Every row: what it shows, its sizes with their expected times, the number to reach."""
    console = rich.console.Console(highlight=False, soft_wrap=True)
    for path in sorted(pathlib.Path(folder).glob("*.py")):
        module = configs.load_file(str(path))
        for row in module.describe_rows():
            console.print(f"[bold]--config={path}:{row['name']}[/bold]  {row['doc']}")
            console.print(f"    {row['times']}; {row['expect']}", style="dim")


def use_compilation_cache() -> None:
    """Compiled programs are kept between runs, so the second start is quick."""
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    folder = os.environ.get("CGJAX_CACHE", str(default / "cgjax"))
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def set_up_logging() -> None:
    """Warnings of cgjax as single lines on stderr."""
    logger = logging.getLogger("cgjax")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger.addHandler(handler)


if __name__ == "__main__":
    sys.exit(main())
