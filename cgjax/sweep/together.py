"""python -m cgjax.sweep.together FILE [--no_figures]: points of a sweep as replicas of one program.

Every point runs in its own thread, as `cgjax.main` would run it, and waits in `fit` while its
training is not done. Only one thread runs at a time. When all points wait or have ended, the main
thread trains what they wait for, side by side, and writes each training into its point's workdir.
Then `fit` returns in every point what its workdir holds, or raises the error of its training.

So the workdir of a point is the workdir of an ordinary run, and all code that reads runs (resuming,
results, figures, `cgjax.load`, the table) is independent of sweeps. With one run that has an axis
of values, every family would have to separate values from seeds.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import sys
import threading
import traceback

import jax
import numpy as np

from cgjax import config as configs
from cgjax import experiments
from cgjax.core import hosts, parallel, program, signals, train, tree
from cgjax.core.errors import BadInput, Diverged, Preempted, RunError, command, first_line
from cgjax.core.logging import say
from cgjax.core.train import Share
from cgjax.core.workdir import read_json
from cgjax.main import parse, set_up_output
from cgjax.run import run, use_compilation_cache
from cgjax.sweep.points import CLOSING


class Member:
    """One of the points: thread, log, exit code, and the training it waits for (`share`)."""

    def __init__(self, log: str, arguments: list[str]):
        self.log, self.arguments = pathlib.Path(log), arguments
        self.name = parse(arguments)[0].workdir.name
        self.share = self.code = None
        self.may_run, self.has_paused = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def advance(self) -> None:
        """Runs the point until it waits for a training, or to its end."""
        with (
            open(self.log, "a") as log,
            contextlib.redirect_stdout(log),
            contextlib.redirect_stderr(log),
        ):
            self.may_run.release()
            self.has_paused.acquire()
        if self.code is not None:
            self.tell(f"{CLOSING}{self.code}")

    def tell(self, line: str) -> None:
        with open(self.log, "a") as log:
            print(line, file=log)

    # --- in the thread of the point ---------------------------------------------------------------

    def _run(self) -> None:
        self.may_run.acquire()
        try:
            self.code = command(self._run_point)(self.arguments)
        except BaseException:  # an error of this point must not stop the others
            traceback.print_exc()
            self.code = 1
        self.has_paused.release()

    def _run_point(self, argv) -> None:
        flags, overrides, _ = parse(argv)
        if hosts.find(flags):
            raise BadInput("several hosts run one point at a time: give --together=1")
        config = configs.load(flags.config, overrides)
        family = experiments.family(config.family)
        experiments.check(family, config)
        run(config, family, flags.workdir, flags, train=self._wait_for)

    def _wait_for(self, share: Share) -> None:
        """Returns when the main thread has trained the share; raises the share's error."""
        self.share = share
        self.has_paused.release()
        self.may_run.acquire()
        if share.error:
            raise share.error


@command
def main(argv=None):
    """Runs all points of a file to their end."""
    path, *more = sys.argv[1:] if argv is None else argv
    set_up_output()
    points = read_json(pathlib.Path(path), "the sweep's command writes it anew")["points"]
    parallel.require_devices()
    use_compilation_cache()
    members = [Member(point["log"], [*point["arguments"], *more]) for point in points]
    with signals.handled():
        while waiting := [member for member in members if member.code is None]:
            for member in waiting:
                member.advance()
            train_all([member for member in waiting if member.code is None])
    codes = [member.code for member in members]
    if Preempted.exit_code in codes:
        raise Preempted("stopped; what was trained is saved, run the same command to go on")
    if failed := sum(code != 0 for code in codes):
        raise RunError(f"{failed} of {len(members)} points have failed: their logs say why")


def train_all(waiting: list[Member]) -> None:
    """Runs the trainings that the points wait for; those of one program run side by side.

    An error of a training becomes the `error` of its shares, and a signal that of all shares.
    """
    owner = {member.share: member for member in waiting}
    groups = alike(list(owner))
    if len(groups) > 1:
        say(f"{len(owner)} points are {len(groups)} programs here: one is trained after another")
    for group in groups:
        for share in group:
            share.label = owner[share].name if len(group) > 1 else ""
            what = share.name or "training"
            owner[share].tell(f"{what}: together with {len(group) - 1} other points")
        try:
            train.train_shares(group)
        except Preempted as error:
            fail(owner, error)
            return
        except Diverged:  # no share is left to train, and those that diverged have their error
            pass
        except RunError as error:
            fail(group, error)
        except Exception as error:  # most likely out of memory
            traceback.print_exc()
            what = f"{type(error).__name__}: {first_line(error)}"
            fail(group, RunError(f"{len(group)} points together: {what}; try --together=1"))


def fail(shares, error: RunError) -> None:
    """Sets the error of the shares; a share that has one already keeps it."""
    for share in shares:
        share.error = share.error or error


# --- runs that differ only in numbers of their replicas, trained as one program -------------------
# Only runs whose programs are textually identical are joined, so a number that became a constant or
# a shape never joins another's.


def alike(shares: list[Share]) -> list[list[Share]]:
    """Groups of shares that one program can train, from the same step.

    A share whose programs cannot be traced is in no group and gets the error.
    """
    if len(shares) <= 1:
        return [shares] if shares else []
    groups = {}
    for share in shares:
        try:
            groups.setdefault(_program_hash(share), []).append(share)
        except Exception as error:  # of the experiment: raised again by `fit` in its point
            share.error = error
    return list(groups.values())


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
    keys, plan = set_up.keys, set_up.plan
    state, data = set_up.abstract_state(), set_up.abstract_data()
    lowered = [
        jax.jit(set_up.init_fn).lower(keys, set_up.replicas),
        set_up.lowered_call(state, data, plan.shapes()),
        set_up.lowered_evaluate(state, data),
    ]
    lowered += [] if plan.empty else [plan.draw.lower(keys, 0)]
    return "".join(stage.as_text() for stage in lowered)


def _checksum(leaf) -> int:
    is_key = jax.dtypes.issubdtype(jax.numpy.result_type(leaf), jax.dtypes.prng_key)
    return tree.checksum(np.asarray(jax.random.key_data(leaf) if is_key else leaf))


if __name__ == "__main__":
    code = main()
    if code == Preempted.exit_code:  # a point may still run in its thread, which cannot be stopped
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)
