"""python -m cgjax.sweep.together FILE [--no_figures]: points of a sweep as replicas of one program.

Every point runs as `cgjax.main` would run it, up to a training that is not done: this it hands over
(`train.HANDS_OVER`), and leaves. What the points have handed over is trained side by side and
written into the workdir of each. Then they run again, find it done, and go on to the next training
or to their results.

So a point has the workdir of a run of its own, and whatever reads runs (resuming, results, figures,
`cgjax.load`, the table) knows nothing of sweeps. One run with an axis of values would have needed
every family to tell values from seeds. The price is that what comes before a training is done once
more after it; a family's run goes on from its files anyway.
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
    """One of the points: its log, what it waits for, the code it has ended with."""

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
    """Runs all points of a file to their ends."""
    path, *more = sys.argv[1:] if argv is None else argv
    set_up_output()
    named = read_json(pathlib.Path(path), "the sweep's command writes it anew")["points"]
    members = [Member(one["log"], [*one["arguments"], *more]) for one in named]
    parallel.require_devices()
    use_compilation_cache()
    with signals.handled(), contextlib.ExitStack() as held:
        if hosts.find(parse(members[0].arguments)[0]):
            stop(members, BadInput("several hosts run one point at a time: give --together=1"))
        while waiting := [member for member in members if member.code is None]:
            for member in waiting:
                advance(member, held)
            train_all([member for member in waiting if member.code is None])
    if failed := sum(member.code != 0 for member in members):
        raise RunError(f"{failed} of {len(members)} points have failed: their logs say why")


def advance(member: Member, held: contextlib.ExitStack) -> None:
    """Runs a point up to its next training, or to its end."""
    token = train.HANDS_OVER.set(True)
    try:
        with (
            open(member.log, "a") as log,
            contextlib.redirect_stdout(log),
            contextlib.redirect_stderr(log),
        ):
            held_by_us = command(lambda _: held.enter_context(locked(member.workdir)))
            code = held_by_us() or run_point(member.arguments)
    except replicas.HandedOver as found:
        member.share = found.share
        return
    except Exception:  # a fault of this point, which others may not have
        member.tell(traceback.format_exc())
        code = 1
    finally:
        train.HANDS_OVER.reset(token)
    if code == Preempted.exit_code:
        raise Preempted("stopped; what was trained is saved, run the same command to go on")
    member.end(code)


@command
def run_point(argv):
    """As `cgjax.main`, within this process."""
    flags, overrides, _ = parse(argv)
    config = configs.load(flags.config, overrides)
    family = experiments.family(config.family)
    experiments.check(family, config)
    run(config, family, flags.workdir, flags)


def train_all(waiting: list[Member]) -> None:
    """Trains what the points have handed over, those that are one program side by side."""
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
        except Exception as error:  # most likely memory
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
    """Shares that one program can train, at the step where they stand."""
    if len(shares) == 1:
        return [shares]
    found = {}
    for share in shares:
        found.setdefault(_mark(share), []).append(share)
    return list(found.values())


def fit(shares: list[Share]) -> None:
    """Trains what `alike` has put together; one that dies has its `error`, the others go on."""
    try:
        train.train_shares(shares)
    except Diverged:  # the last one too
        pass


def _mark(share: Share) -> str:
    experiment, config = share.experiment, share.config
    times = {name: config[name].to_dict() for name in ("train", "eval", "checkpoint")}
    del times["train"]["seeds"]
    parts = [share.name, str(share.step), json.dumps(times, sort_keys=True)]
    parts.append(_text(program.SetUp(experiment, config)))
    if not experiment.own_data:
        parts.append(json.dumps({k: _sum(leaf) for k, leaf in tree.flat(experiment.data).items()}))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _text(set_up: program.SetUp) -> str:
    """All programs of a training; where only replicas and data differ they are the same."""
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
    return "".join(one.as_text() for one in lowered)


def _sum(leaf) -> int:
    is_key = jax.dtypes.issubdtype(jax.numpy.result_type(leaf), jax.dtypes.prng_key)
    return tree.checksum(np.asarray(jax.random.key_data(leaf) if is_key else leaf))


if __name__ == "__main__":
    sys.exit(main())
