"""Reads the user's finished runs for the page; runs that cannot be read are listed."""

import datetime
import pathlib
from typing import NamedTuple

from cgjax import report
from cgjax.core.errors import BadInput
from cgjax.core.workdir import ASIDE


class Runs(NamedTuple):
    entries: list[dict]  # as `report.read_run` makes them, and their `workdir`
    unreadable: list[str]  # one line per run that cannot be shown


def read(folder) -> Runs:
    """Every finished run in a folder of workdirs, or in a workdir itself."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise BadInput(f"'{folder}' is not a folder: name a folder of workdirs, such as runs")
    runs = Runs([], [])
    for path in sorted(folder.rglob("results.json")):
        if any(part.startswith(ASIDE) for part in path.relative_to(folder).parts):
            continue
        date = datetime.date.fromtimestamp(path.stat().st_mtime).isoformat()
        places = {"date": date, "note": f"in {path.parent}", "workdir": path.parent}
        try:
            runs.entries.append(report.read_run(path.parent) | places)
        except BadInput as error:
            runs.unreadable.append(str(error))
    if not runs.entries and not runs.unreadable:
        raise BadInput(f"'{folder}' holds no finished run: it contains no results.json")
    return runs
