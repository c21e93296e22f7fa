"""Tables of factors, read from npz and csv: named columns of numbers, or of words."""

import contextlib
import csv
import pathlib
from typing import NamedTuple

import numpy as np

from cgjax.config import nearest
from cgjax.core.errors import BadInput, first_line, shown

MANY = 64  # different numbers from which on a column counts as continuous
EXACT = 2**53  # float64 merges some whole numbers beyond it


class Factor(NamedTuple):
    """The values of one factor, in P and Q together."""

    name: str
    levels: np.ndarray  # [L] values in order; of a continuous factor: edges of its bins [L + 1]
    is_continuous: bool

    @property
    def size(self) -> int:
        return len(self.levels) - self.is_continuous

    def code(self, column: np.ndarray) -> np.ndarray:
        """Whole numbers [n], which level or bin each value is in."""
        if self.is_continuous:
            inner = self.levels[1:-1]
            return np.searchsorted(inner, column, side="right")
        return np.searchsorted(self.levels, column)

    def text(self, codes) -> str:
        """Levels in words: `red`, `1 to 4`, `1, 3 and 2 more`."""
        codes = np.sort(list(codes))
        # Words have no order, so no runs.
        ends = np.diff(codes) > (1 if self.levels.dtype.kind != "U" else 0)
        runs = np.split(codes, np.flatnonzero(ends) + 1)
        words = []
        for run in runs:
            low, high = self.levels[run[0]], self.levels[run[-1] + self.is_continuous]
            is_one = len(run) == 1 and not self.is_continuous
            words.append(word(low) if is_one else f"{word(low)} to {word(high)}")
        more = f" and {len(words) - 4} more" if len(words) > 5 else ""
        return ", ".join(words[:4] if more else words) + more


def word(value) -> str:
    """A value as it is printed."""
    if isinstance(value, np.str_):
        return str(value)
    return f"{value:.0f}" if value == round(value) and abs(value) < EXACT else f"{value:.4g}"


def factors(p: dict, q: dict, bins: int) -> list[Factor]:
    """The values of every column in both tables; more than MANY numbers are cut into bins."""
    columns = []
    for name in p:
        values = np.unique(np.concatenate([p[name], q[name]]))
        if len(np.unique(q[name])) < 2:
            raise BadInput(f"factor '{name}' never varies: leave it out, --columns names the rest")
        is_continuous = len(values) > MANY and values.dtype.kind != "U"
        if is_continuous:
            values = np.linspace(values[0], values[-1], bins + 1)
        columns.append(Factor(name, values, is_continuous))
    return columns


# --- files ----------------------------------------------------------------------------------------


def read(place: str, columns: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """{name: column [n]} of a file `table.csv`, `table.npz` or `table.npz:array`.

    columns: only these. Numbers are float64. A column without any number is of words, which are
    categories; both in one column are refused.
    """
    path, array = split(place)
    if not path.is_file():
        raise BadInput(f"no file '{path}'")
    if path.suffix not in READ:
        raise BadInput(f"'{path}' is not a table: pass a .npz or .csv file")
    cells = READ[path.suffix](path, array)
    if unknown := [name for name in columns if name not in cells]:
        raise BadInput(
            f"'{path}' has no column {shown(unknown[0])}{nearest(unknown[0], cells)}: it has "
            f"{', '.join(cells)[:200]}"
        )
    if len(columns or cells) < 2:
        raise BadInput(
            f"'{path}' has one column, {shown(next(iter(columns or cells), ''))}: combinations "
            "need two factors or more (in a csv commas part them)"
        )
    table = {name: _column(path, name, cells[name]) for name in columns or cells}
    for name, column in table.items():
        if column.dtype.kind != "U" and not np.isfinite(column).all():
            row = int(np.flatnonzero(~np.isfinite(column))[0])
            raise BadInput(
                f"column '{name}' of '{path}' is NaN or infinite in "
                f"{np.sum(~np.isfinite(column)):,} rows, first in row {row + 1}: leave "
                "them out"
            )
    return table


def split(place: str) -> tuple[pathlib.Path, str]:
    """`"table.npz:array"` -> its path, and the array or ""."""
    path, colon, array = place.partition(".npz:")
    return pathlib.Path(path + ".npz" * bool(colon)).expanduser(), array


def _read_csv(path, _) -> dict:
    """{name: cells}; columns without a name, such as an index that pandas wrote, are left out."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as handle:
            names, *rows = [row for row in csv.reader(handle, strict=True) if row] or [[]]
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadInput(f"'{path}' is not a valid csv file: {first_line(error)}") from None
    names = [name.strip() for name in names]
    if not rows:
        raise BadInput(f"'{path}' holds no rows: a csv has a line of names, then one for each row")
    if all(_is_number(name) for name in names):
        raise BadInput(f"the first line of '{path}' must name the columns, not {shown(names[0])}")
    named = list(filter(None, names))
    if len(set(named)) < len(named):
        raise BadInput(f"columns of '{path}' need different names: {shown(', '.join(names))}")
    lengths = np.fromiter(map(len, rows), int, len(rows))
    if np.any(lengths != len(names)):
        row = int(np.flatnonzero(lengths != len(names))[0])
        raise BadInput(
            f"'{path}' is ragged: row {row + 1} has {lengths[row]} of {len(names)} cells"
        )
    return {name: cells for name, cells in zip(names, zip(*rows)) if name}


def _column(path, name, cells) -> np.ndarray:
    """Numbers if all cells are numbers; words if none is.

    Whole numbers beyond float64's exact range are words: they identify something, and float64 would
    merge some of them.
    """
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "iu" and np.any((cells > EXACT) | (cells < -EXACT)):
            return cells.astype(str)
        return cells if cells.dtype.kind == "U" else cells.astype(np.float64)
    cells = [cell.strip() for cell in cells]
    with contextlib.suppress(ValueError):
        numbers = np.fromiter(map(float, cells), np.float64, len(cells))
        if _is_plain("".join(cells)):
            beyond = np.flatnonzero(np.abs(numbers) >= EXACT)
            is_id = any(cells[i].lstrip("+-").isdecimal() for i in beyond)
            return np.array(cells) if is_id else numbers
    are = np.array([_is_number(cell) for cell in cells])
    if are.any() or "" in cells:
        row = int(np.flatnonzero(~are)[0]) if are.any() else cells.index("")
        raise BadInput(
            f"column {shown(name)} of '{path}' mixes numbers and words: row {row + 1} holds "
            f"{shown(cells[row])}; a factor is numbers, or words in every row"
        )
    return np.array(cells)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return _is_plain(text)


def _is_plain(text: str) -> bool:
    """Whether float reads the text as written: it skips underscores, and takes any script."""
    return text.isascii() and "_" not in text


def _read_npz(path, array) -> dict:
    try:
        stored = np.load(path, allow_pickle=False)
        if not hasattr(stored, "files"):
            raise BadInput(f"'{path}' is not an npz file: save it with np.savez")
        with stored:
            return _columns(path, stored, array)
    except BadInput:
        raise
    except Exception as error:  # zipfile and numpy raise many types for a malformed file
        if "pickle" in str(error).lower():
            raise BadInput(
                f"'{path}' holds Python objects (a pickle), which are not opened: save "
                "arrays of numbers or words"
            ) from None
        raise BadInput(f"'{path}' cannot be read as npz: {first_line(error)}") from None


def _columns(path, stored, array):
    """Columns of one array [n, D], or arrays [n] that are columns themselves."""
    names = stored.files
    if array and array not in names:
        raise BadInput(
            f"'{path}' has no array '{array}'{nearest(array, names)}: it has {', '.join(names)}"
        )
    if not names:
        raise BadInput(f"'{path}' holds no array")
    # Only the requested arrays are read: others may be large or malformed.
    arrays = {name: stored[name] for name in ([array] if array else names)}
    shapes = {name: value.shape for name, value in arrays.items()}
    if len(arrays) == 1 and len(*shapes.values()) == 2:
        (table,) = arrays.values()
        arrays = {str(i): column for i, column in enumerate(table.T)}
    elif len({*shapes.values()}) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        each = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise BadInput(
            f"'{path}' holds arrays of several lengths or ranks, which cannot be columns: "
            f"{each}; name one [rows, factors] as {path.name}:<array>"
        )
    if any(value.dtype.kind not in "buifU" for value in arrays.values()):
        raise BadInput(f"'{path}' must hold real numbers or words")
    if not len(next(iter(arrays.values()))):
        raise BadInput(f"'{path}' holds no rows")
    return arrays


READ = {".csv": _read_csv, ".npz": _read_npz}


def matched(p: dict, q: dict, flags) -> dict:
    """Q's columns in the order of P's, of the same kinds."""
    if set(p) != set(q):
        odd = sorted(set(p) ^ set(q))[0]
        place = flags.latents if odd in p else flags.against
        raise BadInput(f"column '{odd}' is in '{place}' alone: both tables need the same columns")
    for name in p:
        if (p[name].dtype.kind == "U") != (q[name].dtype.kind == "U"):
            raise BadInput(f"column '{name}' is of numbers in one table, of words in the other")
    return {name: q[name] for name in p}
