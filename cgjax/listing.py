"""What can be run, said without running it: rows, a row's keys, the size of a run."""

import os
import pathlib

import rich.console
import rich.markup

from cgjax import config as configs
from cgjax.core.errors import BadInput
from cgjax.core.workdir import is_owned
from cgjax.declare import declared_keys, leaves
from cgjax.overrides import FIXED, part_of


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
    """What `core.sizes.of` counted, and what it did not."""
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
