"""python -m cgjax.reproduce CLAIM [--run] [--size=SIZE]   its verdict, from the record or a run
python -m cgjax.reproduce --list                        how the claims of each family stand
python -m cgjax.reproduce --list FAMILY|WORD ...        claims, each with its verdict
python -m cgjax.reproduce --plan [FAMILY ...]           the runs that would decide the open claims
python -m cgjax.reproduce --plan [FAMILY ...] --run --minutes=25 [--jobs=2]
                                                        works the plan off within 25 minutes and
                                                        records the runs; again: resumes"""

import argparse
import concurrent.futures
import contextlib
import difflib
import math
import os
import pathlib
import subprocess
import sys
import time

from cgjax import config as configs
from cgjax import main as runner
from cgjax import report
from cgjax.config.overrides import Parser, nearest
from cgjax.core import signals
from cgjax.core.errors import BadInput, RunError, command, shown
from cgjax.core.logging import say
from cgjax.core.workdir import disk_errors
from cgjax.published import KINDS, PUBLISHED
from cgjax.published.claims import CLAIMS, Claim
from cgjax.published.claims import KINDS as KIND_WORDS
from cgjax.report import plan as plans
from cgjax.report import standing as standings

FOLDER = pathlib.Path("runs") / "reproduce"


@command
def main(argv=None):
    """Prints the verdict on one claim, or on all of them."""
    parser = Parser(
        prog="python -m cgjax.reproduce",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: those of cgjax.main; 0 whether the claim stands or not.",
    )
    parser.add_argument("claim", nargs="?", help="name of the claim; --list <family> prints names")
    parser.add_argument(
        "--list", nargs="*", metavar="WORD", help="families, or claims with these words"
    )
    parser.add_argument("--plan", nargs="*", metavar="FAMILY", help="runs for open claims")
    parser.add_argument("--run", action="store_true", help="run its rows, recorded or not")
    parser.add_argument("--minutes", type=minutes, help="with --plan --run: the time for all runs")
    parser.add_argument(
        "--jobs", type=count, metavar="N", help="with --plan --run: runs that share the device"
    )
    parser.add_argument("--device", help='with --plan: times on this device, "1x NVIDIA H200"')
    parser.add_argument(
        "--record",
        type=pathlib.Path,
        default=report.RECORD,
        metavar="FOLDER",
        help="with --plan: the record to read and to add to",
    )
    parser.add_argument("--size", choices=configs.SIZES, help="of the run; default: as published")
    flags = parser.parse(argv)
    runner.set_up_output()
    if flags.list is not None:
        if flags.claim or flags.run or flags.size:
            raise BadInput("--list prints claims and runs nothing: give it alone, or with words")
        print_list(flags.list)
        return
    if flags.plan is not None:
        check_plan(flags)
        device = flags.device or devices()
        plan = plans.plan(flags.plan, flags.record, device)
        if flags.run:
            work_off(plan, flags.minutes, flags.record, flags.jobs or 1)
        else:
            print_plan(plan, device)
        return
    if flags.minutes or flags.jobs or flags.device or flags.record != report.RECORD:
        raise BadInput("--minutes, --jobs, --device and --record are for --plan")
    if not flags.claim:
        raise BadInput("no claim is named: --list <family> prints the names of its claims")
    claim = find(flags.claim)
    standing = None if flags.run else recorded(claim, flags.size)
    if standing is None or standing.word == "not run":
        say(f"{'' if flags.run else 'not in the record: '}running {', '.join(claim.rows)}")
        standing = run(claim, flags.size or claim.size)
    for line in verdict_lines(standing):
        say(line)


def minutes(text: str) -> float:
    """A number of minutes from the command line."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise BadInput(f"--minutes={text}: give a number of minutes above 0, such as 25")
    return number


def count(text: str) -> int:
    """A number of runs from the command line."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_JOBS:
        raise BadInput(f"--jobs={text}: give a number of runs from 1 to {MOST_JOBS}")
    return int(text)


def check_plan(flags) -> None:
    """Raises BadInput for flags that contradict --plan, and for unknown families."""
    if flags.claim or flags.size:
        raise BadInput(
            "--plan is for families, not for one claim or size: give --plan [FAMILY ...]"
        )
    if flags.run != bool(flags.minutes):
        raise BadInput("--plan --run needs --minutes=N, and --minutes needs --run")
    if flags.jobs and not flags.run:
        raise BadInput("--jobs is for --plan --run: the plan's times are those of single runs")
    if flags.run and flags.device:
        raise BadInput("--plan --run runs on this machine: leave --device out")
    for name in flags.plan:
        if name not in PUBLISHED:
            known = ", ".join(PUBLISHED)
            raise BadInput(f"no family {shown(name)}{nearest(name, PUBLISHED)}: there are {known}")
    if flags.run:
        with disk_errors(flags.record):
            flags.record.mkdir(parents=True, exist_ok=True)
        if not os.access(flags.record, os.W_OK):
            raise BadInput(f"'{flags.record}' is read-only: name another folder with --record")
    elif not flags.record.is_dir():
        raise BadInput(f"--record={flags.record} is not a folder: --plan --run makes a new one")


def find(name: str) -> Claim:
    """The claim of that name; the error for an unknown name suggests the nearest ones."""
    if name in CLAIMS:
        return CLAIMS[name]
    if name in PUBLISHED:
        raise BadInput(f"'{name}' is a family: --list {name} prints its claims")
    within = [known for known in CLAIMS if name.lower() in known]
    near = within or difflib.get_close_matches(name[:200], CLAIMS, n=3, cutoff=0.4)
    meant = f" (did you mean {' or '.join(near[:3])}?)" if near else ""
    raise BadInput(f"no claim is called {shown(name)}{meant}: --list <family> prints names")


def recorded(claim: Claim, size: str | None) -> standings.Standing:
    """The standing by the record, or by its runs of one size."""
    runs = [run for run in report.entries(claim.family) if size in (None, run["size"])]
    return standings.standing(claim, runs, standings.Scales())


def run(claim: Claim, size: str) -> standings.Standing:
    """Runs the rows of a claim, each in its own folder, and compares the results with the claim."""
    workdirs = []
    for row in claim.rows:
        names = [row, size, *(value for _, value in claim.overrides)]
        workdirs.append(FOLDER / claim.family / "-".join(names))
        changes = [f"--config.{key}={value}" for key, value in claim.overrides]
        flags = [f"--config={claim.family}:{row},{size}", f"--workdir={workdirs[-1]}"]
        if code := runner.main([*flags, *changes, "--no_figures"]):
            error = RunError(f"the run of {claim.family}:{row},{size} did not end")
            error.exit_code = code
            raise error
    entries = [report.read_run(workdir) for workdir in workdirs]
    return standings.standing(claim, entries, standings.Scales())


# --- the plan -------------------------------------------------------------------------------------

COMMAND = (sys.executable, "-m", "cgjax.main")
LEAST_S = 10.0  # a run is not started for less time than this
GRACE_S = 120.0  # a stopped run saves within this time, or is killed
MOST_JOBS = 64


def work_off(plan: plans.Plan, budget: float, record: pathlib.Path, jobs: int = 1) -> None:
    """Runs what fits into the minutes, then begins the next run; records every finished run.

    jobs: runs that share the device. Small networks leave parts of a GPU idle, which other runs
    then use; the output of each run is in a file beside its workdir. The end of the time stops all
    runs as a signal does: they save, and the same command resumes them.
    """
    deadline, done, failed, decided = time.monotonic() + 60 * budget, set(), [], 0
    waiting, running, is_over = list(plan.runs), {}, False

    def begin(run, pool, stop):
        left = deadline - time.monotonic()
        log = FOLDER / f"{run.folder}.log" if jobs > 1 else None
        say(f"{left / 60:.1f} minutes left; {described(run)}" + (f"; see {log}" if log else ""))
        return pool.submit(run_until, deadline, run.arguments(FOLDER), stop, log)

    with signals.patiently() as stop, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        stop = signals.Either(stop, signals.Together())
        try:
            while True:
                while len(running) < jobs and not (is_over or stop):
                    run = next_run(waiting, done, deadline - time.monotonic(), jobs)
                    if run is None:
                        break
                    waiting.remove(run)
                    running[begin(run, pool, stop)] = run
                if not running:
                    break
                for future in concurrent.futures.wait(running, return_when="FIRST_COMPLETED").done:
                    run, code = running.pop(future), future.result()
                    if code is None:
                        is_over = True
                        say(f"stopped and saved, the same command resumes it: {run.folder}")
                    elif code:
                        failed.append((run, code))
                    else:
                        done.add((run.target, run.after))
                        decided += recorded_run(run, record, jobs)
        except BaseException as error:
            stop.together.fail(error)  # the other runs save and stop
            raise
    say(f"runs recorded: {len(done)}, claims decided: {decided}, runs left: {len(waiting)}")
    if failed:
        names = ", ".join(run.folder for run, _ in failed)
        place = "above" if jobs == 1 else f"in {FOLDER}/<run>.log"
        error = RunError(f"failed runs: {names}; their messages are {place}")
        error.exit_code = failed[0][1]
        raise error


def next_run(waiting: list, done: set, left: float, jobs: int) -> plans.Run | None:
    """The first run that fits into the seconds left, else the first of all; None if none can begin.

    Runs at once take up to `jobs` times as long.
    """
    # More seeds of a target join those of its earlier run.
    ready = [run for run in waiting if not run.after or (run.target, run.after - 1) in done]
    if not ready or left <= LEAST_S:
        return None
    fitting = (run for run in ready if run.seconds is not None and jobs * run.seconds <= left)
    return next(fitting, ready[0])


def recorded_run(run: plans.Run, record: pathlib.Path, jobs: int) -> int:
    """Adds a finished run to the record: how many of its claims are decided by it.

    jobs: of `work_off`; the entry's note says that its wall time is not that of a run alone.
    """
    note = f"up to {jobs} runs at once" if jobs > 1 else ""
    path = report.add(FOLDER / run.folder, record, run.target.label, note, replace=run.replaces)
    claims = [CLAIMS[name] for name in run.claims]
    words = [standing.word for standing in standings.standings(record, claims)]
    n_decided = sum(word in plans.DECIDED for word in words)
    say(f"recorded {path.name}: {n_decided} of its {len(words)} open claims are decided")
    return n_decided


def run_until(
    deadline: float, arguments: list[str], stop=False, log: pathlib.Path | None = None
) -> int | None:
    """The exit code of a run; None if the deadline stopped it, or `stop`, which becomes true.

    The run has its own process, so that it frees its devices, and a crash ends it alone. log: the
    file that its output is added to, if it shares the device.
    """
    with contextlib.ExitStack() as stack:
        options = {}
        if log:
            log.parent.mkdir(parents=True, exist_ok=True)
            output = stack.enter_context(open(log, "ab"))
            # By default the first program takes three quarters of a GPU's memory.
            env = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | os.environ
            options = {"stdout": output, "stderr": subprocess.STDOUT, "env": env}
        process = subprocess.Popen([*COMMAND, *arguments], process_group=0, **options)
        stopped = math.inf
        while process.poll() is None:
            now = time.monotonic()
            if (now > deadline or stop) and stopped == math.inf:
                process.terminate()
                stopped = now
            if now > stopped + GRACE_S:
                process.kill()
            time.sleep(0.05)
    code = process.returncode
    return None if stopped < math.inf and code else 128 - code if code < 0 else code


def devices() -> str:
    """The devices of a run. Another process asks, because asking takes a GPU's memory."""
    question = "from cgjax.core import parallel; print(parallel.describe_devices())"
    answer = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True)
    if answer.returncode:
        raise BadInput(f"no device to run on: {(answer.stderr.splitlines() or ['?'])[-1]}")
    return answer.stdout.splitlines()[-1]


# --- text -----------------------------------------------------------------------------------------


def verdict_lines(standing: standings.Standing) -> list[str]:
    """Lines that describe a standing: claim, paper's number, ours, comparison, verdict."""
    claim = standing.claim
    lines = [claim.id, claim.sentence, f"where       {claim.where}"]
    if claim.published:
        whose = "recomputed" if claim.kind == "recomputed" else "paper"
        lines.append(
            f"{whose:11} {standings.number(claim.number)}{standings.spread(claim.published)}"
        )
    elif len(standing.parts) < 2:  # several parts get a line each, below
        lines += [f"claimed     {standings.chain(claim, chain)}" for chain in claim.chains]
    if claim.caveat:
        lines.append(f"caveat      {claim.caveat}")
    if standing.word == "not run":
        return [*lines, "not run: no run has all of these numbers"]
    against = "" if standing.against is None else f", against {standings.number(standing.against)}"
    lines.append(
        f"ours        {standings.number(standing.ours)}{standings.seeds(standing)}{against}"
    )
    lines += [f"run         {standings.described(entry)}" for entry in standing.runs]
    if len(standing.parts) > 1:
        lines += [f"part        {standings.part(claim, *part)}" for part in standing.parts]
    lines.append(f"difference  {standings.comparison(standing)}")
    lines += [f"{name:11} {text}" for name, text in standings.causes(standing)]
    return [*lines, f"verdict     {standing.word}"]


def described(run: plans.Run) -> str:
    """A planned run in one line: what it runs, how many claims it would decide, its time."""
    seeds = f", seeds {plans.ranges(run.seeds)}" if run.seeds else ""
    name = " ".join(filter(None, (run.target.flag, run.target.label)))
    n, claims = len(run.claims), "claim" if len(run.claims) == 1 else "claims"
    seconds = "time unknown" if run.seconds is None else f"{run.seconds:.0f} s"
    return f"{name}{seeds}: {n} {claims}, {seconds}"


def print_plan(plan: plans.Plan, device: str) -> None:
    """Prints every run with its time, its command and the claims that it would decide."""
    total, names = 0.0, set()
    for n, run in enumerate(plan.runs, 1):
        total += run.seconds or 0.0
        names.update(run.claims)
        say(f"{n}. {described(run)}" + (f"; in all {total / 3600:.1f} h" if total else ""))
        say(f"   time     {run.source}")
        say(f"   command  python -m cgjax.main {' '.join(run.arguments(FOLDER, in_shell=True))}")
        flags = f" --label={run.target.label}" if run.target.label else ""
        flags += " --replace" if run.replaces else ""
        say(f"   record   python -m cgjax.report --add {FOLDER / run.folder}{flags}")
        say(f"   decides  {' '.join(run.claims)}")
    unknown = sum(run.seconds is None for run in plan.runs)
    of_unknown = f", and {unknown} of unknown time" if unknown else ""
    say(
        f"{len(plan.runs)} runs would decide {len(names)} open claims if means and deviations stay "
        f"as they are: {total / 3600:.1f} h on {device}{of_unknown}"
    )
    for reason, claims in plan.left.items():
        say(f"open claims: {len(claims)}; {reason}: {' '.join(claims)}")


def print_list(words: list[str]) -> None:
    """Prints one line per claim: verdict, name, paper's number, ours; then counts of each kind.

    words: families, and text that a claim's name or sentence must contain. Without words, the
    families are printed, each with the verdicts on its claims.
    """
    if not words:
        for line in standings.family_lines():
            say(line)
        say("--list <family> prints its claims, --list <word> those with a word")
        return
    families = set(words) & set(PUBLISHED)
    wanted = [word.lower() for word in words if word not in families]
    claims = [
        claim
        for claim in CLAIMS.values()
        if (not families or claim.family in families)
        and all(word in f"{claim.id} {claim.sentence}".lower() for word in wanted)
    ]
    if not claims:
        raise BadInput(f"no claim has the words {' '.join(words)}: --list alone prints families")
    of_claims = standings.standings(claims=claims)
    width = max(len(claim.id) for claim in claims)
    say(f"{'verdict':23}  {'claim':{width}}  {'paper':>20}  {'ours':>10}")
    for standing in of_claims:
        claim, ours = standing.claim, standings.number(standing.ours)
        if claim.published:
            theirs = standings.number(claim.number) + KINDS[claim.kind]
        elif standing.against is None:
            theirs = ""
        else:
            theirs = f"against {standings.number(standing.against)}"
        say(f"{standing.word:23}  {claim.id:{width}}  {theirs:>20}  {ours:>10}")
    for kind, n_of in standings.by_kind(of_claims).items():
        say(f"{KIND_WORDS[kind]}: {standings.tally(n_of)}; of {sum(n_of.values())} claims")


if __name__ == "__main__":
    sys.exit(main())
