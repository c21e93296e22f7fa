"""cgjax --config=<family>[:<row>[,<size>]] [--config.<key>=<value> ...]"""

import ast
import logging
import os
import pathlib
import sys

import rich.console
import rich.markup

import cgjax
from cgjax import config as configs
from cgjax import experiments
from cgjax.config.declare import declared_keys, leaves
from cgjax.config.overrides import FIXED, Parser, part_of, typed
from cgjax.config.ownership import compare, default_workdir
from cgjax.core import hosts
from cgjax.core.errors import BadInput, command


@command
def main(argv=None):
    """Runs one experiment from data to figures."""
    flags, overrides, parser = parse(sys.argv[1:] if argv is None else argv)
    set_up_output()
    if flags.version:
        print(f"cgjax {cgjax.__version__}")
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
    if flags.workdir and flags.workdir.is_file():
        raise BadInput(f"--workdir={flags.workdir} is a file: give the name of a folder")
    if not flags.start_anew and hosts.find(flags) is None:  # of several hosts, only one reads
        compare(flags.workdir or default_workdir(config), config, flags.extend)
    # JAX takes a second to import: a list, a help text and most errors do not need it.
    from cgjax import run

    run.start(config, flags)


class RunParser(Parser):
    """Errors for words without a flag, and for a row's keys without `config.`, show the form."""

    def near(self, argument: str) -> str:
        if argument.partition(":")[0] in experiments.FAMILIES:
            return f" (did you mean --config={argument}?)"
        if not argument.startswith("-"):
            return ": write a row and a size as --config=<family>:<row>,<size>"
        return super().near(argument) or (
            ": a key of the row is written --config.<key>; --config=<family> --help prints keys"
        )


def parse(argv):
    """Flags, the overrides `{"train.steps": "400"}`, and the parser."""
    parser = RunParser(
        prog="cgjax",
        usage=__doc__,
        add_help=False,
        epilog="`python -m cgjax.main` is the same. Exit codes: 0 done, 2 bad input, 3 preempted "
        "and saved, 4 diverged, 5 another host was lost. Begin with `cgjax --list`.",
    )
    add = parser.add_argument
    add("--config", help="a family or a config file, with an optional :row,size")
    add("--parts", metavar="NAME,...", help="some parts of the row; others can be added later")
    add("--workdir", type=folder, help="default: runs/<family>/<row>[-<size>]")
    add(
        "--list",
        nargs="*",
        metavar="WORD",
        help="print families, or rows: a family, a word, a folder",
    )
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


def set_up_output() -> None:
    """Prints cgjax's warnings as single lines on stderr, and "?" for letters a terminal lacks."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    logger = logging.getLogger("cgjax")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger.addHandler(handler)
        _silence_storage_threads()


def _silence_storage_threads() -> None:
    """Suppresses tracebacks of orbax's threads that outlive a failed call.

    These threads find their event loop closed; the failure itself has already been raised.
    """
    hook = sys.unraisablehook

    def filtered(unraisable):
        if str(unraisable.exc_value) != "Event loop is closed":
            hook(unraisable)

    sys.unraisablehook = filtered
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)


# --- printed without a run: rows, a row's keys, the size of a run ---------------------------------


def _printer(bold: bool = False):
    console = rich.console.Console(highlight=False, soft_wrap=True)
    return lambda text: console.print(rich.markup.escape(text), style="bold" if bold else None)


# --- rows -----------------------------------------------------------------------------------------


def print_rows(words: list[str]) -> None:
    """Prints one line per row: what it shows and the number to reach; times by size come first.

    words: folders and files to list (default: the package's), names of families in them, and text
    that a row's name or line must contain. Without words, the families are printed.
    """
    if not words:
        print_families()
        return
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
            rows = [row for row in configs.described_rows(path) if _contains(row, wanted)]
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
        raise BadInput(
            f"no row has the words {' '.join(wanted)}: --list=<family> prints all rows of a family"
        )
    if not shown and broken:
        raise BadInput("none of these files can be listed")


def print_families() -> None:
    """Prints one line per family: the first line of its config file, which is not executed."""
    line, title = _printer(), _printer(bold=True)
    title("--config=<family>[:<row>[,<size>]]")
    for name in experiments.FAMILIES:
        text = ast.get_docstring(ast.parse(configs.find(name).read_bytes()))
        line(f"    {name:12} {text.splitlines()[0].partition(': ')[2]}")
    line(f"Sizes: {', '.join(configs.SIZES)}. --list=<family> prints a family's rows.")


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
        text = f"--config.{name}={typed(value)}"
        if known := declared.get(inner or name):
            text += f"  {known.doc} ({known.takes})"
        line(text + (f", of part {part}" if part else ""))


if __name__ == "__main__":
    sys.exit(main())
