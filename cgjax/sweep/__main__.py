"""python -m cgjax.sweep --config=<family>:<row>,<row>[,<size>] --sweep.<key>=<value>,<value> ...

Runs every row with every combination of the swept values, each in its own workdir. The same command
again runs what is missing: it skips finished points and runs failed ones again. Points that differ
only in numbers that are not shapes (a learning rate) train as one program.

  --config='sprites:diagonal,random*,smoke' rows of a family; * for all that match; may be repeated
  --config.train.steps=400                  one value, for every point, as in cgjax.main
  --sweep.optim.lr=1e-3,3e-4                values; each point takes one; tuples in brackets:
                                            --sweep.model.scales="(1,2),(3,4)"
"""

import collections
import pathlib
import sys

import rich.console
import rich.table

from cgjax import config as configs
from cgjax.config.overrides import Parser, names
from cgjax.core.errors import BadInput, Preempted, RunError, command, shown
from cgjax.core.logging import counted, say
from cgjax.main import folder, set_up_output
from cgjax.sweep import processes
from cgjax.sweep.points import (
    STOPPED,
    Point,
    Standing,
    Task,
    check,
    combinations,
    expand,
    make_point,
    standing,
    tasks,
)
from cgjax.sweep.processes import submit

COLUMNS = 4  # metrics in the table without --metrics


@command
def main(argv=None):
    """Expands a sweep, then prints, runs or submits its points."""
    flags, fixed, swept, slurm = parse(sys.argv[1:] if argv is None else argv)
    if flags is None:
        return
    set_up_output()
    draws = not flags.no_figures
    if flags.index is not None:
        run_one(combinations(flags.config, fixed, swept)[0], flags.index, flags.runs, draws)
        return
    points, remarks = expand(flags.config, fixed, swept, flags.runs)
    if flags.count:
        say(str(len(points)))
        return
    for line in remarks:
        say(line)
    check(points)
    before = [standing(point, draws) for point in points]
    print_points(points, before)
    unfinished = [
        point for point, status in zip(points, before) if status.word not in ("done", "running")
    ]
    todo, remarks = tasks(unfinished, flags.together)
    for line in remarks:
        say(line)
    if flags.dry_run:
        print_table(points, before, flags.metrics)
        return
    more = [] if draws else ["--no_figures"]
    if flags.submit and todo:
        place = flags.runs / "sweeps" / "submitit"
        submit(todo, flags.submit, flags.jobs, flags.minutes, more, slurm, place)
        if flags.submit == "slurm":
            return
    else:
        processes.run_all(todo, flags.jobs, more)
    close(points, [standing(point, draws) for point in points], flags.metrics)


# --- flags ----------------------------------------------------------------------------------------


def parse(argv):
    """Flags, fixed overrides, swept values, Slurm's options; flags are None after --help."""
    parser = Parser(
        prog="python -m cgjax.sweep",
        usage=__doc__,
        add_help=False,
        epilog="Exit codes: 0 all done, 1 some points failed, 2 bad input, 3 stopped and saved.",
    )
    add = parser.add_argument
    add("--config", action="append", default=[], help="a family or file, with :row,...[,size]")
    add("--runs", type=folder, default=pathlib.Path("runs"), help="folder of the workdirs (runs)")
    add("--dry_run", "--dry-run", action="store_true", help="print the points and their status")
    add("--count", action="store_true", help="print the number of points, and stop")
    add("--index", type=int, help="run this point only, from 0: for job arrays")
    add("--jobs", type=int, default=1, help="processes at a time (1)")
    add(
        "--together",
        type=int,
        default=0,
        metavar="N",
        help="at most N points share one program (0: any number; 1: a process for each point)",
    )
    add("--submit", choices=("local", "slurm"), help="through submitit (pip extra: launch)")
    add("--minutes", type=int, help="time limit of a submitted point (a day)")
    add("--metrics", type=names, default=(), help="columns of the table, separated by commas")
    add("--no_figures", action="store_true", help="train and score only")
    add(
        "--help",
        "-h",
        action="store_true",
        help="this text; further flags: --slurm.<option>=<value>, an option of Slurm by "
        "submitit's name, such as --slurm.partition=gpu",
    )
    keyed, rest = {"config": {}, "sweep": {}, "slurm": {}}, []
    for argument in map(str, argv):
        name, equals, value = argument.partition("=")
        head, dot, key = name.removeprefix("--").partition(".")
        if not (argument.startswith("--") and dot and head in keyed):
            rest.append(argument)
            continue
        if not equals or not value:
            raise BadInput(f"'{argument}' has no value: write {name}=<value>")
        if key in keyed[head]:
            raise BadInput(f"'{key}' is given twice")
        keyed[head][key] = value
    flags = parser.parse(rest)
    if flags.help:
        parser.print_help()
        return None, {}, {}, {}
    check_flags(flags, keyed)
    swept = {key: values(key, text) for key, text in keyed["sweep"].items()}
    return flags, keyed["config"], swept, keyed["slurm"]


def check_flags(flags, keyed: dict) -> None:
    """Raises BadInput for flags that are missing, out of range or contradict each other."""
    if not any(flags.config):
        raise BadInput("nothing to sweep: give --config=<family>:<row>,<row>; --help says more")
    if both := sorted(set(keyed["config"]) & set(keyed["sweep"])):
        raise BadInput(f"'{both[0]}' is given by --config. and by --sweep.: give one of them")
    if flags.minutes is not None and not flags.submit:
        raise BadInput("--minutes needs --submit: it limits the time of submitted points")
    flags.minutes = 24 * 60 if flags.minutes is None else flags.minutes
    if flags.jobs < 1 or flags.minutes < 1:
        raise BadInput("--jobs and --minutes must be at least 1")
    if flags.together < 0:
        raise BadInput("--together must be at least 0")
    if keyed["slurm"] and flags.submit != "slurm":
        raise BadInput("--slurm.<option> needs --submit=slurm")
    used = [name for name in ("dry_run", "count", "submit") if getattr(flags, name)]
    used += ["index"] * (flags.index is not None)
    if len(used) > 1 and used != ["dry_run", "submit"]:
        raise BadInput(f"--{used[0]} and --{used[1]} contradict each other: give one of them")


def values(key: str, text: str) -> list[str]:
    """`"1,(2,3)"` -> ["1", "(2,3)"]: commas outside brackets and quotes separate values."""
    texts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        if letter == "," and not depth and not quote:
            texts.append("")
        else:
            texts[-1] += letter
    texts = [value.strip() for value in texts]
    if "" in texts or depth or quote:
        raise BadInput(
            f"--sweep.{key}={shown(text)} is not a list of values: write a,b or (1,2),(3,)"
        )
    if len(set(texts)) < len(texts):
        raise BadInput(f"--sweep.{key} has a value twice: {shown(text)}")
    return texts


# --- running and printing -------------------------------------------------------------------------


def run_one(chosen: list[tuple], index: int, runs: pathlib.Path, draws: bool) -> None:
    """Runs the point of one task of a job array; raises an error with the exit code of its run.

    chosen: the `combinations` of all points, of which only one is loaded.
    """
    if not 0 <= index < len(chosen):
        raise BadInput(f"--index={index}: there are {len(chosen)} points, from 0")
    point = make_point(*chosen[index], runs)
    say(f"point {index} of {len(chosen)}: {point.name} → {point.workdir}, log {point.log}")
    if standing(point, draws).word == "done":
        say("already finished")
        return
    codes = processes.run_all([Task((point,))], 1, [] if draws else ["--no_figures"])
    if code := codes[point.name]:
        error = RunError(f"{point.name}: {standing(point, draws).line or f'exit code {code}'}")
        error.exit_code = Preempted.exit_code if code in STOPPED else code
        raise error


def print_points(points: list[Point], before: list[Standing]) -> None:
    width = len(str(len(points) - 1))
    for index, (point, status) in enumerate(zip(points, before)):
        say(f"{index:{width}} {status.word:7} {point.name} → {point.workdir}")
    say(f"{counted(len(points), 'point')}: {counts(before)}")


def counts(standings: list[Standing]) -> str:
    counter = collections.Counter(status.word for status in standings)
    return ", ".join(f"{n} {word}" for word, n in counter.items())


def close(points: list[Point], after: list[Standing], metrics) -> None:
    """Prints the table and the failures; raises RunError if a point is not done."""
    print_table(points, after, metrics)
    say(f"{counted(len(points), 'point')}: {counts(after)}")
    for point, status in zip(points, after):
        if status.word != "done":
            say(f"{status.word}: {point.name}: {status.line or f'see {point.log}'}")
    if left := sum(status.word != "done" for status in after):
        raise RunError(f"{left} of {len(points)} points are not done: the same command runs them")


def print_table(points: list[Point], standings: list[Standing], metrics=()) -> None:
    """Prints one line for each finished point: its swept values and its headline metrics."""
    done = [(point, status.results) for point, status in zip(points, standings) if status.results]
    if not done:
        return
    shown_metrics = metrics or most_told([results for _, results in done])[:COLUMNS]
    known = {name for _, results in done for name in results["metrics"]}
    if unknown := [name for name in shown_metrics if name not in known]:
        near = configs.nearest(unknown[0], known)
        raise BadInput(f"no point has a metric {shown(unknown[0])}{near}")
    keys = list(dict.fromkeys(key for point, _ in done for key in point.swept))
    table = rich.table.Table(box=None, pad_edge=False)
    for name in ("row", *keys, *shown_metrics):
        is_text = name == "row" or name in keys
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    for point, results in done:
        row = " ".join(point.name.split(" ")[:2])
        numbers = (number(results["metrics"].get(name)) for name in shown_metrics)
        table.add_row(row, *(point.swept.get(key, "-") for key in keys), *numbers)
    rich.console.Console(width=None if sys.stdout.isatty() else 120).print(table)
    if left := len(known) - len(shown_metrics):
        say(f"… and {left} more metrics: --metrics=<name>,<name>, or results.json of a point")


def most_told(results: list[dict]) -> list[str]:
    """Names of metrics: by number of points, then headlines, then those with a paper's number."""
    n_points, rank = collections.Counter(), {}
    for point_results in results:
        headlines = point_results.get("headlines", ())
        for place, (name, entry) in enumerate(point_results["metrics"].items()):
            n_points[name] += 1
            order = (name not in headlines, entry["paper"] is None, place)
            rank[name] = min(rank.get(name, order), order)
    return sorted(rank, key=lambda name: (-n_points[name], rank[name]))


def number(entry: dict | None) -> str:
    """`"0.9512 ± 0.0014"`"""
    if entry is None or entry["ours"] is None:
        return "-"
    return f"{entry['ours']:.4g}" + (f" ± {entry['sd']:.2g}" if entry["sd"] is not None else "")


if __name__ == "__main__":
    sys.exit(main())
