"""The wait for a run: seconds and CPU seconds of each phase, from the command to the table.

`python -m cgjax.bench wait` runs `sprites:smoke` twice, with an empty cache of compiled programs
and then with the cache that the first run filled. `python -m cgjax.bench.wait <config> [flags of
cgjax ...]` does the same with another run. The phases are read from the lines that a run prints, so
the same program measures other versions of the package: set PYTHONPATH. CPU seconds of a phase
include what other threads compile and draw meanwhile.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from cgjax.bench.harness import table
from cgjax.core.errors import BadInput, command

# What a run prints when a phase starts; phases repeat for each model of a run.
PHASES = {
    "data and theory": "→ ",
    "compile": "compiling…",
    "train and evaluate": "parameters x ",
    "draw": ": drawing",
    "table": "metric  ",
}
STARTS = re.compile("|".join(f"({text})" for text in PHASES.values()))


def run(batch: int = 0, steps: int = 0) -> None:
    """Prints the phases of `sprites:smoke`; batch and steps are those of the row."""
    measure(["--config=sprites:smoke"])


def measure(arguments: list[str]) -> None:
    """Prints the phases of a run with an empty cache and with a full one, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (phases(arguments, pathlib.Path(folder), name) for name in ("cold", "warm"))
    rows = []
    for name in cold:
        (wall, cpu), (wall_2, cpu_2) = cold[name], warm.get(name, (0.0, 0.0))
        ratio = f"{cpu_2 / cpu:.2f}" if cpu else "-"
        rows.append((name, *(f"{value:.1f}" for value in (wall, cpu, wall_2, cpu_2)), ratio))
    columns = ("phase", "s", "CPU s", "s, cached", "CPU s, cached", "ratio of CPU s")
    table(" ".join(arguments), columns, rows)


def phases(arguments: list[str], folder: pathlib.Path, name: str) -> dict:
    """{phase: (seconds, CPU seconds)} of one run; "all" is their sum.

    A run that fails has no times, and raises an error.
    """
    run_command = [sys.executable, "-m", "cgjax.main", *arguments, f"--workdir={folder / name}"]
    env = os.environ | {"CGJAX_CACHE": str(folder / "cache"), "PYTHONUNBUFFERED": "1"}
    started, total, text, phase = time.monotonic(), {}, "", "start"
    mark = (started, 0.0)
    with subprocess.Popen(run_command, env=env, stdout=subprocess.PIPE) as process:
        while chunk := os.read(process.stdout.fileno(), 4096):
            now = (time.monotonic(), cpu_seconds(process.pid))
            text += chunk.decode(errors="replace")
            while match := STARTS.search(text):
                add(total, phase, mark, now)
                mark, text = now, text[match.end() :]
                phase = list(PHASES)[match.lastindex - 1]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BadInput(f"{' '.join(arguments)} ended with exit code {process.returncode}: no times")
    now = (time.monotonic(), usage.ru_utime + usage.ru_stime)
    add(total, phase, mark, now)
    total["all"] = (now[0] - started, now[1])
    return total


def add(total: dict, phase: str, before: tuple, after: tuple) -> None:
    """Adds the time between two marks (seconds, CPU seconds) to a phase."""
    old = total.get(phase, (0.0, 0.0))
    total[phase] = tuple(value + b - a for value, a, b in zip(old, before, after))


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a running process, all threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@command
def main(argv=None):
    """Measures one run: a config, then flags of `cgjax.main`."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments:
        raise BadInput("nothing to measure: name a config, such as sprites:smoke")
    config, *others = arguments
    measure([f"--config={config}", *others])


if __name__ == "__main__":
    sys.exit(main())
