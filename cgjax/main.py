"""cgjax --config=<family>[:<row>[,<size>]] [--config.<key>=<value> ...]"""

import contextlib
import json
import logging
import os
import pathlib
import sys
import time

import jax

from cgjax import config as configs
from cgjax import experiments, listing
from cgjax.claim import claim, compare, start_anew
from cgjax.core import checkpoint, hosts, parallel, signals, train
from cgjax.core.errors import BadInput, command
from cgjax.core.logging import (
    is_sound_npz,
    print_table,
    read_results,
    say,
    write_arrays,
    write_results,
)
from cgjax.core.workdir import environment, locked, write_atomic
from cgjax.flags import Parser


@command
def main(argv=None):
    """Runs one experiment from data to figures."""
    flags, overrides, parser = parse(sys.argv[1:] if argv is None else argv)
    set_up_output()
    if flags.list is not None:
        listing.print_rows(flags.list)
        return
    if not flags.config:
        parser.print_help()
        return
    config = configs.load(flags.config, overrides)
    if flags.parts is not None:
        config = configs.some_parts(config, flags.parts)
    if flags.help:
        listing.print_keys(config)
        return
    family = experiments.family(config.family)
    # Before anything asks for a device.
    with hosts.joined(None if flags.dry_run else hosts.find(flags)):
        start(config, family, flags)


def start(config, family, flags) -> None:
    """Checks the config against the devices; then says what it would do, or does it."""
    parallel.require_devices()
    experiments.check(family, config)
    workdir = flags.workdir or default_workdir(config)
    use_compilation_cache()
    if flags.dry_run:
        found = compare(workdir, config, flags.extend)
        listing.print_plan(found, family, workdir, flags.config)
        return
    with signals.handled():
        run(config, family, workdir, flags)


class RunParser(Parser):
    """A family alone may be meant as a config."""

    def near(self, word: str) -> str:
        is_family = word.partition(":")[0] in experiments.FAMILIES
        return f" (did you mean --config={word}?)" if is_family else super().near(word)


def parse(argv):
    """Flags, the overrides `{"train.steps": "400"}`, and the parser."""
    parser = RunParser(
        prog="cgjax", usage=__doc__, add_help=False,
        epilog="`python -m cgjax.main` is the same. Exit codes: 0 done, 2 bad input, 3 preempted "
        "and saved, 4 diverged, 5 another host was lost.",
    )  # fmt: skip
    add = parser.add_argument
    add("--config", help="a family or a config file, with an optional :row,size")
    add("--parts", metavar="NAME,...", help="some parts of the row; others can be added later")
    add("--workdir", type=folder, help="default: runs/<family>/<row>[-<size>]")
    add("--list", nargs="*", metavar="WORD", help="print rows (with these words, of this folder)")
    add("--help", "-h", action="store_true", help="with --config: the row's keys; else this text")
    add("--dry_run", action="store_true", help="print what would run, and stop")
    add("--extend", action="store_true", help="train longer, evaluate and save at other times")
    add("--start_anew", action="store_true", help="put what the workdir holds aside, begin again")
    add("--coordinator", metavar="ADDRESS:PORT", help="several hosts: where host 0 is")
    add("--hosts", metavar="N", help="several hosts: how many (one process each)")
    add("--host", metavar="I", help="several hosts: which one this is, from 0")
    add("--host_timeout", metavar="S", help="a host silent for so long ends the others (60)")
    add("--no_figures", action="store_true", help="train and score only")
    add("--full_table", action="store_true", help="close with every metric, not the main ones")
    add("--profile", action="store_true", help="write a trace to <workdir>/profile")
    add("--debug_nans", action="store_true", help="stop at the first NaN")
    overrides, rest, given = {}, [], set()
    for word in map(str, argv):
        flag = word.partition("=")[0]
        if flag in ("--config", "--parts", "--workdir", "--list") and flag in given:
            raise BadInput(f"{flag} is given twice")
        given.add(flag)
        if word.startswith("--config."):
            key, equals, value = word.removeprefix("--config.").partition("=")
            if not equals:
                raise BadInput(f"'{word}' has no value: write {word}=<value>")
            if key in overrides:
                raise BadInput(f"'{key}' is given twice")
            overrides[key] = value
        else:
            rest.append(word)
    flags = parser.parse(rest)
    check_flags(flags, overrides)
    return flags, overrides, parser


def check_flags(flags, overrides: dict) -> None:
    """Refuses flags that say nothing, or contradict each other."""
    used = [name for name, value in vars(flags).items() if value not in (None, False)]
    if "list" in used and (len(used) > 1 or overrides):
        raise BadInput("--list prints rows and runs nothing: give it alone, with words to look for")
    if not flags.config and not {"list", "help"} & set(used):
        raise BadInput("nothing to run: give --config=sprites, or --list to see all rows")
    for one, other in (("extend", "start_anew"), ("dry_run", "start_anew"), ("dry_run", "help"),
                       ("dry_run", "profile"), ("dry_run", "debug_nans")):  # fmt: skip
        if one in used and other in used:
            raise BadInput(f"--{one} and --{other} contradict each other: give one of them")


def folder(text: str) -> pathlib.Path:
    """A path from the command line; ~ is the home directory, as shells leave it after an =."""
    if not text.strip():
        raise BadInput("--workdir needs the name of a folder")
    try:
        return pathlib.Path(text).expanduser()
    except RuntimeError:
        raise BadInput(f"--workdir={text}: there is no home directory") from None


def default_workdir(config) -> pathlib.Path:
    """runs/<family>/<row>[-<size>]"""
    return pathlib.Path("runs") / config.family / listing.full_name(config)


def run(config, family, workdir: pathlib.Path, flags) -> None:
    """One experiment in its workdir: train what is missing, draw, print the table."""
    reads_only = not flags.start_anew and hosts.from_writer(
        lambda: compare(workdir, config, flags.extend).reads_only
    )
    with contextlib.nullcontext() if reads_only else locked(workdir):  # reading needs no lock
        if flags.start_anew and (aside := hosts.from_writer(lambda: start_anew(workdir))):
            say(f"what was there is now in {aside}")
        config, reads_only, came_from, _ = claim(workdir, config, flags.extend)
        draws = not (flags.no_figures or reads_only)
        say(f"{config.family} · {listing.full_name(config)}{listing.seeds(config)} → {workdir}")
        results = None
        if not reads_only:
            results = hosts.from_writer(lambda: finished(workdir, config, draws))
        if results is None:
            say(f"jax {jax.__version__} · {parallel.describe_devices()}")
            if not reads_only:
                write_atomic(workdir / "env.json", json.dumps(environment(), indent=1))
            with tools(flags, workdir):
                results = run_family(config, family, workdir, draws, reads_only, came_from)
        else:
            say("already finished: nothing to train")
        is_published = configs.is_published(config, configs.split_flag(flags.config)[0])
        print_table(results, is_published, flags.full_table, configs.is_drawn(config))
        if reads_only:
            say(f"some of the replicas in {workdir}: nothing was written")
            return
        drawn = results["figures"] or ()
        say((f"{len(drawn)} figures in {workdir}/figures; " if drawn else "")
            + f"numbers in {workdir}/results.json")  # fmt: skip


def run_family(config, family, workdir, draws: bool, reads_only: bool, came_from: list) -> dict:
    """Runs the row, and writes what came out: arrays.npz, then results.json."""
    started = time.monotonic()
    token = train.ONLY_READS.set(reads_only)
    try:
        found = family.run(config, workdir, figures=draws)
    finally:
        train.ONLY_READS.reset(token)
    metrics, arrays, extra = experiments.checked_results(config, found)
    drawn = (path for kind in ("png", "gif") for path in (workdir / "figures").glob(f"*.{kind}"))
    figures = sorted(path.name for path in drawn) if draws else None
    extra = {**extra, "figures": figures, "arrays": sorted(arrays), "came_from": came_from}
    extra["wall_s"] = time.monotonic() - started
    if reads_only:
        return {"metrics": metrics, **extra}
    if arrays:
        write_arrays(workdir / "arrays.npz", arrays)
    return write_results(workdir / "results.json", metrics, configs.fingerprint(config), extra)


def finished(workdir: pathlib.Path, config, draws: bool) -> dict | None:
    """results.json, where it is of this very config and nothing that belongs to it is missing."""
    path = workdir / "results.json"
    if not path.exists():
        return None
    results = read_results(path)
    wrong = [name for name, is_sound in RESULTS.items() if not is_sound(results.get(name))]
    if wrong:
        raise BadInput(f"'{path}' has no sound {', '.join(wrong)}: delete it to write it anew")
    if results["config_hash"] != configs.fingerprint(config):
        return None
    if results["arrays"] and not is_sound_npz(workdir / "arrays.npz"):
        return None
    if draws and results["figures"] is None:
        return None
    figures = (results["figures"] or ()) if draws else ()
    return results if all((workdir / "figures" / name).exists() for name in figures) else None


def _are_names(value) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


# What `finished` relies on: name in results.json -> whether its value can be used.
RESULTS = {
    "metrics": lambda value: (
        isinstance(value, dict) and all(map(experiments.is_entry, value.values()))
    ),
    "config_hash": lambda value: isinstance(value, str),
    "figures": lambda value: value is None or _are_names(value),  # None: not drawn
    "arrays": _are_names,
}


@contextlib.contextmanager
def tools(flags, workdir: pathlib.Path):
    """The profiler and the NaN check, where asked for."""
    with contextlib.ExitStack() as stack:
        if flags.profile:
            stack.enter_context(jax.profiler.trace(str(workdir / "profile")))
        if flags.debug_nans:
            stack.enter_context(jax.debug_nans(True))
        yield


def use_compilation_cache() -> None:
    """Compiled programs are kept between runs, so the second start is quick."""
    folder = os.environ.get("CGJAX_CACHE") or os.environ.get("XDG_CACHE_HOME")
    if not os.environ.get("CGJAX_CACHE"):
        try:
            folder = str(pathlib.Path(folder or pathlib.Path.home() / ".cache") / "cgjax")
        except RuntimeError:  # no home directory: every start compiles
            return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def set_up_output() -> None:
    """Warnings of cgjax as single lines on stderr; letters that a terminal lacks as "?"."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    logger = logging.getLogger("cgjax")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger.addHandler(handler)
        checkpoint.silence_echoes()


if __name__ == "__main__":
    sys.exit(main())
