"""cgjax --config=<family>[:<row>[,<size>]] [--config.<key>=<value> ...]"""

import contextlib
import logging
import os
import pathlib
import sys
import time
import zlib

import jax
import rich.console
import rich.markup

import cgjax
from cgjax import config as configs
from cgjax import experiments
from cgjax.config.declare import declared_keys, leaves
from cgjax.config.flags import Parser
from cgjax.config.overrides import FIXED, part_of
from cgjax.config.ownership import (
    Ownership,
    compare,
    restored_if_refused,
    start_anew,
    take_ownership,
    write_environment,
)
from cgjax.core import checkpoint, hosts, parallel, signals
from cgjax.core.errors import BadInput, command
from cgjax.core.logging import is_sound_npz, say, write_arrays
from cgjax.core.workdir import Access, is_owned, locked, opened
from cgjax.data import sources
from cgjax.published.results import print_table, read_results, write_results


@command
def main(argv=None):
    """Runs one experiment from data to figures."""
    flags, overrides, parser = parse(sys.argv[1:] if argv is None else argv)
    set_up_output()
    if flags.version:
        say(f"cgjax {cgjax.__version__}")
        return
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
    # Hosts must be joined before JAX initialises its devices.
    with hosts.joined(None if flags.dry_run else hosts.find(flags)):
        start(config, family, flags)


def start(config, family, flags) -> None:
    """Checks the devices and the config; then prints the plan (--dry_run) or runs it."""
    parallel.require_devices()
    experiments.check(family, config)
    workdir = flags.workdir or default_workdir(config)
    use_compilation_cache()
    if flags.dry_run:
        ownership = compare(workdir, config, flags.extend)
        print_plan(ownership, family, workdir, flags.config)
        return
    with signals.handled():
        run(config, family, workdir, flags)


class RunParser(Parser):
    """For the name of a family without a flag, the error suggests --config."""

    def near(self, argument: str) -> str:
        is_family = argument.partition(":")[0] in experiments.FAMILIES
        return f" (did you mean --config={argument}?)" if is_family else super().near(argument)


def parse(argv):
    """Flags, the overrides `{"train.steps": "400"}`, and the parser."""
    parser = RunParser(
        prog="cgjax",
        usage=__doc__,
        add_help=False,
        epilog="`python -m cgjax.main` is the same. Exit codes: 0 done, 2 bad input, 3 preempted "
        "and saved, 4 diverged, 5 another host was lost.",
    )
    add = parser.add_argument
    add("--config", help="a family or a config file, with an optional :row,size")
    add("--parts", metavar="NAME,...", help="some parts of the row; others can be added later")
    add("--workdir", type=folder, help="default: runs/<family>/<row>[-<size>]")
    add("--list", nargs="*", metavar="WORD", help="print rows; WORD: text to match, or a folder")
    add("--help", "-h", action="store_true", help="with --config: the row's keys; else this text")
    add("--version", action="store_true", help="print the version, and stop")
    add("--dry_run", action="store_true", help="print what would run, and stop")
    add("--extend", action="store_true", help="train longer, evaluate and save at other times")
    add("--start_anew", action="store_true", help="move the workdir's files aside, begin again")
    add("--coordinator", metavar="ADDRESS:PORT", help="several hosts: where host 0 is")
    add("--hosts", metavar="N", help="several hosts: how many (one process each)")
    add("--host", metavar="I", help="several hosts: which one this is, from 0")
    add("--host_timeout", metavar="S", help="seconds of silence until a host counts as lost (60)")
    add("--no_figures", action="store_true", help="train and score only")
    add(
        "--full_table", action="store_true", help="print every metric at the end, not the main ones"
    )
    add("--profile", action="store_true", help="write a trace to <workdir>/profile")
    add("--debug_nans", action="store_true", help="stop at the first NaN")
    overrides, rest, given = {}, [], set()
    for argument in map(str, argv):
        flag = argument.partition("=")[0]
        if flag in ("--config", "--parts", "--workdir", "--list") and flag in given:
            raise BadInput(f"{flag} is given twice")
        given.add(flag)
        if argument.startswith("--config."):
            key, equals, value = argument.removeprefix("--config.").partition("=")
            if not equals:
                raise BadInput(f"'{argument}' has no value: write {argument}=<value>")
            if key in overrides:
                raise BadInput(f"'{key}' is given twice")
            overrides[key] = value
        else:
            rest.append(argument)
    flags = parser.parse(rest)
    check_flags(flags, overrides)
    return flags, overrides, parser


def check_flags(flags, overrides: dict) -> None:
    """Raises BadInput for flags that are missing or contradict each other."""
    used = [name for name, value in vars(flags).items() if value not in (None, False)]
    if "list" in used and (len(used) > 1 or overrides):
        raise BadInput("--list prints rows and runs nothing: give it alone, with words to look for")
    if not flags.config and not {"list", "help", "version"} & set(used):
        raise BadInput("nothing to run: give --config=sprites, or --list to see all rows")
    contradictions = (
        ("extend", "start_anew"),
        ("dry_run", "start_anew"),
        ("dry_run", "help"),
        ("dry_run", "profile"),
        ("dry_run", "debug_nans"),
    )
    for first, second in contradictions:
        if first in used and second in used:
            raise BadInput(f"--{first} and --{second} contradict each other: give one of them")


def folder(text: str) -> pathlib.Path:
    """A path from the command line; expands ~, because shells do not expand it after an =."""
    if not text.strip():
        raise BadInput("--workdir needs the name of a folder")
    try:
        return pathlib.Path(text).expanduser()
    except RuntimeError:
        raise BadInput(f"--workdir={text}: there is no home directory") from None


def default_workdir(config) -> pathlib.Path:
    """runs/<family>/<row>[-<size>]"""
    return pathlib.Path("runs") / config.family / full_name(config)


def run(config, family, workdir: pathlib.Path, flags, train=None) -> None:
    """Runs one experiment in its workdir: trains what is missing, draws, prints the table.

    train: replaces training in `core.train.fit` (`core.workdir.Access.train`).
    """
    reads_only = not flags.start_anew and hosts.from_writer(
        lambda: compare(workdir, config, flags.extend).reads_only
    )
    with contextlib.ExitStack() as stack:
        if not reads_only:  # reading needs no lock
            stack.enter_context(locked(workdir))
        if flags.start_anew and (aside := hosts.from_writer(lambda: start_anew(workdir))):
            say(f"the old content of the workdir is now in {aside}")
        stack.enter_context(restored_if_refused(workdir))
        config, reads_only, came_from, _ = take_ownership(workdir, config, flags.extend)
        draws = not (flags.no_figures or reads_only)
        say(f"{config.family} · {full_name(config)}{seeds(config)} → {workdir}")
        results = None
        if not reads_only:
            results = hosts.from_writer(lambda: finished(workdir, config, draws))
        if results is None:
            say(f"jax {jax.__version__} · {parallel.describe_devices()}")
            if not reads_only:
                write_environment(workdir, config)
            with tools(flags, workdir):
                access = Access(reads_only, train)
                results = run_family(config, family, workdir, draws, access, came_from)
        else:
            say("already finished: nothing to train")
        is_published = configs.is_published(config, configs.split_flag(flags.config)[0])
        print_table(results, is_published, flags.full_table, configs.is_drawn(config))
        if reads_only:
            say(f"some of the replicas in {workdir}: nothing was written")
            return
        drawn = results["figures"] or ()
        figures = f"{len(drawn)} figures in {workdir}/figures; " if drawn else ""
        say(f"{figures}numbers in {workdir}/results.json")


def run_family(config, family, workdir, draws: bool, access: Access, came_from: list) -> dict:
    """Runs the row and writes its results: arrays.npz, then results.json."""
    started = time.monotonic()
    with opened(workdir, access), configs.missing_keys(config), sources.noted() as data_sets:
        family_results = family.run(config, workdir, figures=draws)
    metrics, arrays, extra = experiments.checked_results(config, family_results)
    drawn = (path for kind in ("png", "gif") for path in (workdir / "figures").glob(f"*.{kind}"))
    figures = sorted(path.name for path in drawn) if draws else None
    extra = {**extra, "figures": figures, "arrays": sorted(arrays), "came_from": came_from}
    extra["data"] = data_sets
    files = [workdir / name for name in extra.get("files", ())]
    files += [path for path in (workdir / "figures").glob("*") if draws and path.is_file()]
    extra["files"] = {str(path.relative_to(workdir)): _checksum(path) for path in sorted(files)}
    extra["wall_s"] = time.monotonic() - started
    if access.reads_only:
        return {"metrics": metrics, **extra}
    if arrays:
        write_arrays(workdir / "arrays.npz", arrays)
    extra |= hosts.from_writer(lambda: checkpoint.trained_with(workdir))
    return write_results(workdir / "results.json", metrics, configs.fingerprint(config), extra)


def _checksum(path: pathlib.Path) -> str | None:
    return f"{zlib.crc32(path.read_bytes()):08x}" if path.is_file() else None


def finished(workdir: pathlib.Path, config, draws: bool) -> dict | None:
    """results.json, if it is of this config and all that derives from it is sound; else None."""
    path = workdir / "results.json"
    if not path.exists():
        return None
    results = read_results(path)
    if results["config_hash"] != configs.fingerprint(config):
        return None
    if results["arrays"] and not is_sound_npz(workdir / "arrays.npz"):
        return None
    if draws and results["figures"] is None:
        return None
    figures = (results["figures"] or ()) if draws else ()
    if not all((workdir / "figures" / name).exists() for name in figures):
        return None
    wanted = {
        name: checksum
        for name, checksum in (results.get("files") or {}).items()
        if draws or not name.startswith("figures/")
    }
    is_sound = all(_checksum(workdir / name) == checksum for name, checksum in wanted.items())
    return results if is_sound else None


@contextlib.contextmanager
def tools(flags, workdir: pathlib.Path):
    """The profiler (--profile) and the NaN check (--debug_nans)."""
    with contextlib.ExitStack() as stack:
        if flags.profile:
            stack.enter_context(jax.profiler.trace(str(workdir / "profile")))
        if flags.debug_nans:
            stack.enter_context(jax.debug_nans(True))
        yield


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that the next start is fast."""
    folder = os.environ.get("CGJAX_CACHE") or os.environ.get("XDG_CACHE_HOME")
    if not os.environ.get("CGJAX_CACHE"):
        try:
            folder = str(pathlib.Path(folder or pathlib.Path.home() / ".cache") / "cgjax")
        except RuntimeError:  # no home directory: every start compiles
            return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def set_up_output() -> None:
    """Prints cgjax's warnings as single lines on stderr, and "?" for letters a terminal lacks."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    logger = logging.getLogger("cgjax")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger.addHandler(handler)
        checkpoint.silence_echoes()


# --- printed without a run: rows, a row's keys, the size of a run ---------------------------------


def full_name(config) -> str:
    """<row>[-<size>]"""
    return config.row + ("" if config.size == "default" else f"-{config.size}")


def seeds(config) -> str:
    """ " · seeds 0, 1"; empty if the row has no seeds."""
    numbers = config.get("train", {}).get("seeds", ())
    return f" · seeds {', '.join(map(str, numbers))}" if numbers else ""


def _printer(bold: bool = False):
    console = rich.console.Console(highlight=False, soft_wrap=True)
    return lambda text: console.print(rich.markup.escape(text), style="bold" if bold else None)


# --- rows -----------------------------------------------------------------------------------------


def print_rows(words: list[str]) -> None:
    """Prints one line per row: what it shows and the number to reach; times by size come first.

    words: folders and files to list (default: the package's), names of families in them, and text
    that a row's name or line must contain.
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
            rows = [row for row in _described_rows(path) if _contains(row, wanted)]
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
    """Lines grouped by time: a line of times, then one line for each row with these times."""
    width, by_times = max(len(row["name"]) for row in rows), {}
    for row in rows:
        times = "; ".join(f"{size}: {text}" for size, text in row["times"].items())
        expect = f"  [{row['expect']}]" if row["expect"] else ""
        by_times.setdefault(times, []).append(f"    {row['name']:{width}}  {row['doc']}{expect}")
    return [line for times, lines in by_times.items() for line in (f"  {times}", *lines)]


def _files(places: list[str]) -> list[pathlib.Path]:
    paths = []
    for place in map(pathlib.Path, places or [configs.folder()]):
        if os.path.isdir(place):  # other Python files in the folder are not run
            paths += [path for path in sorted(place.glob("*.py")) if _is_config(path)]
        elif os.path.isfile(place):
            paths.append(place)
        else:
            raise BadInput(f"no folder or file '{place}' to list")
    if not paths:
        raise BadInput(f"no config file in {', '.join(places)}")
    return paths


def _is_config(path: pathlib.Path) -> bool:
    return os.path.isfile(path) and b"def get_config" in path.read_bytes()


def _described_rows(path: pathlib.Path) -> list[dict]:
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


def _contains(row: dict, wanted: list[str]) -> bool:
    text = f"{row['name']} {row['doc']}".lower()
    return all(word in text for word in wanted)


# --- one row --------------------------------------------------------------------------------------


def print_keys(config) -> None:
    """Prints one line per key of the row: its value, its meaning, the values it takes."""
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
    """A value as typed in a shell: `0,1` for a tuple, with quotes if the shell needs them."""
    if not isinstance(value, tuple):
        return str(value)
    is_flat = value and not any(isinstance(item, tuple) for item in value)
    return ",".join(map(str, value)) if is_flat else f'"{value}"'


def _size(size: dict) -> str:
    """The numbers of `program.training_size`, and its note about what it does not count."""
    text = (
        f"{size['parameters']:,} parameters x {size['replicas']} replicas, {size['steps']:,} "
        f"steps, state {size['bytes'] / 1e6:,.1f} MB"
    )
    return "; ".join(filter(None, (text, size.get("note"))))


def print_plan(ownership: Ownership, family, workdir, flag: str) -> None:
    """Prints what would run: the resolved config, parameters, memory, steps, expected time."""
    config, line = ownership.config, _printer()
    for name, value in leaves(config):
        line(f"{name} = {value}")
    if hasattr(family, "plan"):
        with configs.missing_keys(config):
            sizes = family.plan(config)
        for part, size in sizes.items():
            line(f"{part or config.row}: {size if isinstance(size, str) else _size(size)}")
        if not sizes:
            line("nothing is trained")
    else:
        line(f"size of training: not known, because family '{config.family}' has no plan(config)")
    try:
        path = configs.find(configs.split_flag(flag)[0])
        rows = {row["name"]: row for row in _described_rows(path)}
    except BadInput:  # a config file need not describe its rows
        rows = {}
    times = rows.get(config.row, {}).get("times", {})
    line(f"expected time: {times.get(config.size, 'not known')}")
    if ownership.reads_only:
        line(f"would read some of the replicas in {workdir}; nothing was written")
    elif is_owned(workdir):
        line(f"would go on in {workdir}; nothing was written")
    else:
        line(f"would run in {workdir}; nothing was written")


if __name__ == "__main__":
    sys.exit(main())
