"""cgjax --config=<family>[:<row>[,<size>]] [--config.<key>=<value> ...]"""

import contextlib
import json
import logging
import os
import pathlib
import sys
import time

import jax
import rich.console
import rich.markup

from cgjax import config as configs
from cgjax import experiments
from cgjax.config.declare import declared_keys, leaves
from cgjax.config.flags import Parser
from cgjax.config.overrides import FIXED, part_of
from cgjax.config.ownership import claim, compare, start_anew
from cgjax.core import checkpoint, hosts, parallel, signals, train
from cgjax.core.errors import BadInput, command
from cgjax.core.logging import is_sound_npz, say, write_arrays
from cgjax.core.workdir import environment, is_owned, locked, write_atomic
from cgjax.published.results import print_table, read_results, write_results


@command
def main(argv=None):
    """Runs one experiment from data to figures."""
    flags, overrides, parser = parse(sys.argv[1:] if argv is None else argv)
    set_up_output()
    if flags.list is not None:
        print_rows(flags.list)
        return
    if not flags.config:
        parser.print_help()
        return
    config = configs.load(flags.config, overrides)
    if flags.parts is not None:
        config = configs.some_parts(config, flags.parts)
    if flags.help:
        print_keys(config)
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
        print_plan(found, family, workdir, flags.config)
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
    return pathlib.Path("runs") / config.family / full_name(config)


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
        say(f"{config.family} · {full_name(config)}{seeds(config)} → {workdir}")
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


# --- what can be run, said without running it: rows, a row's keys, the size of a run --------------


def full_name(config) -> str:
    """<row>[-<size>]"""
    return config.row + ("" if config.size == "default" else f"-{config.size}")


def seeds(config) -> str:
    """ " · seeds 0, 1", or nothing where no seed is drawn."""
    found = config.get("train", {}).get("seeds", ())
    return f" · seeds {', '.join(map(str, found))}" if found else ""


def _printer(bold: bool = False):
    console = rich.console.Console(highlight=False, soft_wrap=True)
    return lambda text: console.print(rich.markup.escape(text), style="bold" if bold else None)


# --- rows -----------------------------------------------------------------------------------------


def print_rows(words: list[str]) -> None:
    """One line per row: what it shows, the number to reach; times by size above them.

    words: folders and files to look into (default: those of the package), names of families among
    them, and words that a row's name or line must contain.
    """
    places = [word for word in words if "/" in word or word.endswith(".py")]
    files = _files(places)
    families = {path.stem for path in files} & set(words)
    wanted = [word.lower() for word in words if word not in (*places, *families)]
    line, title = _printer(), _printer(bold=True)
    shown = broken = 0
    for path in files:
        if families and path.stem not in families:
            continue
        try:
            rows = [row for row in _described(path) if _has(row, wanted)]
        except BadInput as error:  # one bad file must not hide the others
            broken += 1
            line(f"{path}: {' '.join(str(error).split())}")
            continue
        if rows:
            shown += len(rows)
            title(f"--config={path if places else path.stem}:<row>[,<size>]")
            for text in _lines(rows):
                line(text)
    if shown:
        line("In brackets the number to reach; --config=<family>:<row> --help prints a row's keys.")
    if not shown and wanted:
        raise BadInput(f"no row has the words {' '.join(wanted)}: --list alone prints them all")
    if not shown and broken:
        raise BadInput("none of these files can be listed")


def _lines(rows: list[dict]) -> list[str]:
    """A line of times, then one for each row that takes as long; then the next times."""
    width, found = max(len(row["name"]) for row in rows), {}
    for row in rows:
        times = "; ".join(f"{size}: {text}" for size, text in row["times"].items())
        expect = f"  [{row['expect']}]" if row["expect"] else ""
        found.setdefault(times, []).append(f"    {row['name']:{width}}  {row['doc']}{expect}")
    return [line for times, lines in found.items() for line in (f"  {times}", *lines)]


def _files(places: list[str]) -> list[pathlib.Path]:
    found = []
    for place in map(pathlib.Path, places or [configs.folder()]):
        if os.path.isdir(place):  # of other Python files the folder may hold, none is run
            found += [path for path in sorted(place.glob("*.py")) if _is_config(path)]
        elif os.path.isfile(place):
            found.append(place)
        else:
            raise BadInput(f"no folder or file '{place}' to list")
    if not found:
        raise BadInput(f"no config file in {', '.join(places)}")
    return found


def _is_config(path: pathlib.Path) -> bool:
    return os.path.isfile(path) and b"def get_config" in path.read_bytes()


def _described(path: pathlib.Path) -> list[dict]:
    module = configs.load_file(path)
    if not hasattr(module, "describe_rows"):
        raise BadInput("it has no describe_rows(): its rows cannot be listed")
    rows = configs.guarded(path, lambda: list(module.describe_rows()))
    for row in rows:
        if not isinstance(row, dict) or not {"name", "doc", "times", "expect"} <= set(row):
            raise BadInput("describe_rows() must give dicts with name, doc, times and expect")
        if not isinstance(row["times"], dict):
            raise BadInput("times in describe_rows() must be a dict, {size: time in words}")
    return [{**row, "name": str(row["name"]), "doc": str(row["doc"])} for row in rows]


def _has(row: dict, words: list[str]) -> bool:
    text = f"{row['name']} {row['doc']}".lower()
    return all(word in text for word in words)


# --- one row --------------------------------------------------------------------------------------


def print_keys(config) -> None:
    """One line per key of the row: its value, its meaning, what it takes."""
    declared, line = declared_keys(config), _printer()
    for name, value in leaves(config):
        if name in FIXED:
            continue
        part, inner = part_of(config, name)
        text = f"--config.{name}={_text(value)}"
        if known := declared.get(inner or name):
            text += f"  {known.doc} ({known.takes})"
        line(text + (f", of part {part}" if part else ""))


def _text(value) -> str:
    """A value as it can be typed: `0,1` for a tuple, in quotes where a shell needs them."""
    if not isinstance(value, tuple):
        return str(value)
    is_flat = value and not any(isinstance(item, tuple) for item in value)
    return ",".join(map(str, value)) if is_flat else f'"{value}"'


def _size(size: dict) -> str:
    """What `program.training_size` counted, and what it did not."""
    text = (
        f"{size['parameters']:,} parameters x {size['replicas']} replicas, {size['steps']:,} "
        f"steps, state {size['bytes'] / 1e6:,.1f} MB"
    )
    return "; ".join(filter(None, (text, size.get("note"))))


def print_plan(found, family, workdir, flag: str) -> None:
    """What would run: the resolved config, parameters, memory, steps, expected time."""
    config, line = found.config, _printer()
    for name, value in leaves(config):
        line(f"{name} = {value}")
    sizes = family.plan(config) if hasattr(family, "plan") else {}
    for part, size in sizes.items():
        line(f"{part or config.row}: {size if isinstance(size, str) else _size(size)}")
    if not sizes:
        line("nothing is trained")
    try:
        rows = {row["name"]: row for row in _described(configs.find(configs.split_flag(flag)[0]))}
    except BadInput:  # a config file need not describe its rows
        rows = {}
    times = rows.get(config.row, {}).get("times", {})
    line(f"expected time: {times.get(config.size, 'not known')}")
    if found.reads_only:
        line(f"would read some of the replicas in {workdir}; nothing was written")
    elif is_owned(workdir):
        line(f"would go on in {workdir}; nothing was written")
    else:
        line(f"would run in {workdir}; nothing was written")


if __name__ == "__main__":
    sys.exit(main())
