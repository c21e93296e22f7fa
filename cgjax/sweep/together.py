"""python -m cgjax.sweep.together FILE [--no_figures]: points of a sweep as replicas of one program.

Every point runs as `cgjax.main` would run it, up to the first training that is not done. It hands
this training over (`train.HANDS_OVER`) and returns. The trainings that the points hand over run
side by side, and each is written into its point's workdir. Then the points run again, find the
training done, and go on to the next training or to their results.

So the workdir of a point is the workdir of an ordinary run, and all code that reads runs (resuming,
results, figures, `cgjax.load`, the table) is independent of sweeps. With one run that has an axis
of values, every family would have to separate values from seeds. The price: the code before a
training runs once more after it. A family's run resumes from its files anyway.
"""

import contextlib
import hashlib
import json
import pathlib
import sys
import traceback

import jax
import numpy as np

from cgjax import config as configs
from cgjax import experiments
from cgjax.core import checkpoint, hosts, parallel, program, replicas, signals, train, tree
from cgjax.core.errors import BadInput, Diverged, Preempted, RunError, command, first_line
from cgjax.core.logging import say
from cgjax.core.program import Plan
from cgjax.core.replicas import Share
from cgjax.core.workdir import locked, read_json
from cgjax.main import parse, run, set_up_output, use_compilation_cache
from cgjax.sweep.points import CLOSING


class Member:
    """One of the points: its log, the training it waits for (`share`), its exit code."""

    def __init__(self, log: str, arguments: list[str]):
        self.log, self.arguments = pathlib.Path(log), arguments
        self.workdir = parse(arguments)[0].workdir
        self.share = self.code = None

    def tell(self, line: str) -> None:
        with open(self.log, "a") as log:
            print(line, file=log)

    def end(self, code: int) -> None:
        self.code = code
        self.tell(f"{CLOSING}{code}")

    def fail(self, error: RunError) -> None:
        self.tell(f"cgjax: {' '.join(str(error).split())}")
        self.end(error.exit_code)


@command
def main(argv=None):
    """Runs all points of a file to their end."""
    path, *more = sys.argv[1:] if argv is None else argv
    set_up_output()
    points = read_json(pathlib.Path(path), "the sweep's command writes it anew")["points"]
    members = [Member(point["log"], [*point["arguments"], *more]) for point in points]
    parallel.require_devices()
    use_compilation_cache()
    with signals.handled(), contextlib.ExitStack() as locks:
        if hosts.find(parse(members[0].arguments)[0]):
            stop(members, BadInput("several hosts run one point at a time: give --together=1"))
        while waiting := [member for member in members if member.code is None]:
            for member in waiting:
                advance(member, locks)
            train_all([member for member in waiting if member.code is None])
    if failed := sum(member.code != 0 for member in members):
        raise RunError(f"{failed} of {len(members)} points have failed: their logs say why")


def advance(member: Member, locks: contextlib.ExitStack) -> None:
    """Runs a point up to its next training, or to its end.

    locks: holds the lock of every workdir until the process ends.
    """
    token = train.HANDS_OVER.set(True)
    try:
        with (
            open(member.log, "a") as log,
            contextlib.redirect_stdout(log),
            contextlib.redirect_stderr(log),
        ):
            take_lock = command(lambda _: locks.enter_context(locked(member.workdir)))
            code = take_lock() or run_point(member.arguments)
    except replicas.HandedOver as handed_over:
        member.share = handed_over.share
        return
    except Exception:  # an error of this point must not stop the others
        member.tell(traceback.format_exc())
        code = 1
    finally:
        train.HANDS_OVER.reset(token)
    if code == Preempted.exit_code:
        raise Preempted("stopped; what was trained is saved, run the same command to go on")
    member.end(code)


@command
def run_point(argv):
    """Runs one point like `cgjax.main`, inside this process."""
    flags, overrides, _ = parse(argv)
    config = configs.load(flags.config, overrides)
    family = experiments.family(config.family)
    experiments.check(family, config)
    run(config, family, flags.workdir, flags)


def train_all(waiting: list[Member]) -> None:
    """Runs the trainings that the points handed over; those of one program run side by side."""
    if not waiting:
        return
    owner = {member.share: member for member in waiting}
    try:
        groups = alike(list(owner))
    except RunError as error:
        stop(waiting, error)
        return
    if len(groups) > 1:
        say(f"{len(waiting)} points are {len(groups)} programs here: one is trained after another")
    for group in groups:
        members = [owner[share] for share in group]
        for share, member in zip(group, members):
            share.label = member.workdir.name if len(group) > 1 else ""
            member.tell(f"{share.name or 'training'}: together with {len(group) - 1} other points")
        try:
            fit(group)
        except Preempted:
            raise
        except RunError as error:
            stop(members, error)
        except Exception as error:  # most likely out of memory
            traceback.print_exc()
            what = f"{type(error).__name__}: {first_line(error)}"
            stop(members, RunError(f"{len(group)} points together: {what}; try --together=1"))
        for share, member in zip(group, members):
            if share.error and member.code is None:
                member.fail(share.error)


def stop(members: list[Member], error: RunError) -> None:
    for member in members:
        member.fail(error)


# --- runs that differ only in numbers of their replicas, trained as one program -------------------
# A run hands over what it has to train (`train.HANDS_OVER`). Only runs whose programs are textually
# identical are joined, so a number that became a constant or a shape never joins another's.


def alike(shares: list[Share]) -> list[list[Share]]:
    """Groups of shares that one program can train, from the same step."""
    if len(shares) == 1:
        return [shares]
    groups = {}
    for share in shares:
        groups.setdefault(_program_hash(share), []).append(share)
    return list(groups.values())


def fit(shares: list[Share]) -> None:
    """Trains one group of `alike`; a share that diverges gets an `error`, the others go on."""
    try:
        train.train_shares(shares)
    except Diverged:  # no share is left to train; each that diverged has its `error`
        pass


def _program_hash(share: Share) -> str:
    """Equal for shares with the same programs, step, periods and (unless per replica) data."""
    experiment, config = share.experiment, share.config
    times = {name: config[name].to_dict() for name in ("train", "eval", "checkpoint")}
    del times["train"]["seeds"]
    parts = [share.name, str(share.step), json.dumps(times, sort_keys=True)]
    parts.append(_program_text(program.SetUp(experiment, config)))
    if not experiment.own_data:
        parts.append(
            json.dumps({k: _checksum(leaf) for k, leaf in tree.flat(experiment.data).items()})
        )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _program_text(set_up: program.SetUp) -> str:
    """The text of all programs of a training; it is equal if only replicas and data differ."""
    experiment, keys = set_up.experiment, set_up.keys
    state, shapes = set_up.abstract_state(), jax.eval_shape(lambda data: data, experiment.data)
    where = set_up.place.everywhere if set_up.data_axis is None else set_up.place.replicas
    data = checkpoint.abstract(shapes, jax.tree.map(lambda _: where, shapes))
    plan = Plan(experiment, keys, set_up.config.train.steps_per_call, set_up.place)
    lowered = [
        jax.jit(set_up.init_fn).lower(keys, set_up.replicas),
        set_up.lowered_call(state, data, plan.rows(0)),
        set_up.lowered_evaluate(state, data),
    ]
    lowered += [] if plan.empty else [plan.draw.lower(keys, 0)]
    return "".join(stage.as_text() for stage in lowered)


def _checksum(leaf) -> int:
    is_key = jax.dtypes.issubdtype(jax.numpy.result_type(leaf), jax.dtypes.prng_key)
    return tree.checksum(np.asarray(jax.random.key_data(leaf) if is_key else leaf))


if __name__ == "__main__":
    sys.exit(main())
