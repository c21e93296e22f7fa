"""fit(): the one training loop.

Build, restore, loop {call, log, evaluate, save}, finish. A call is `steps_per_call` optimiser steps
of all replicas inside one compiled `lax.scan`; the host does no work per step. Everything a step
needs is a function of (seed, step), so a run that is killed and restarted repeats the same steps.
"""

import pathlib

import numpy as np

from cgjax.core import checkpoint, hosts, parallel, replicas, signals, tree
from cgjax.core.errors import BadInput, Diverged, Preempted
from cgjax.core.logging import Progress, compiling, say
from cgjax.core.program import Due, Experiment, Plan, SetUp, State, running
from cgjax.core.replicas import (
    Share,
    log_call,
    merge,
    replica_names,
    report_deaths,
    still,
)
from cgjax.core.workdir import access_to


def fit(experiment: Experiment, config, workdir, name: str = "") -> tuple[State, dict]:
    """Trains every replica to `config.train.steps`; resumes from the workdir's checkpoints.

    Returns the final state and the history: `{"step": [n], "loss": [n, R], ..., "eval": {...}}`.
    If replicas are added to a finished run, only the new ones are trained; the old ones are read
    from their checkpoints. Any subset of a finished group can be requested, in any order.
    """
    workdir = pathlib.Path(workdir)
    names = replica_names(experiment)
    states, histories, order = [], [], []
    for group in hosts.from_writer(lambda: checkpoint.groups(workdir / "checkpoints", names)):
        wanted = [name for name in group.replicas if name in names]
        rows = np.array([names.index(name) for name in wanted])
        part = experiment._replace(replicas=tree.take(experiment.replicas, rows))
        if experiment.own_data:
            part = part._replace(data=tree.take(experiment.data, rows))
        state, history = _fit_group(part, config, workdir, name, group, wanted)
        states.append(state)
        histories.append(history)
        order.append(rows)
    return merge(states, histories, np.argsort(np.concatenate(order)))


def initial(experiment: Experiment, config) -> State:
    """The state before training, complete on every host."""
    return parallel.to_own(SetUp(experiment, config).init())


def _fit_group(experiment, config, workdir: pathlib.Path, name: str, group, wanted: list[str]):
    access = access_to(workdir)
    share = Share(experiment, config, workdir, name, group, wanted, access.reads_only)
    if not share.is_trained():
        if len(wanted) < len(group.replicas):
            raise BadInput(
                f"{group.folder} in '{workdir}' is not finished: train all of it before you "
                "request a subset"
            )
        if access.train is None:
            state = train_shares([share])
            return parallel.to_own(state), share.history()
        access.train(share)
        share = Share(experiment, config, workdir, name, group, wanted, access.reads_only)
    return share.read(SetUp(experiment, config).abstract_state())


def train_shares(members: list[Share]) -> State:
    """Trains the shares of one program, which must all be at the same step.

    A share ends as it would if it were trained alone: at the last step, when all its replicas are
    done, or when all of them are non-finite (this sets its `error`). Raises Diverged only if an
    error leaves no share to train.
    """
    first, step = members[0], members[0].step
    config, name = first.config, first.name
    total, per_call, every = config.train.steps, config.train.steps_per_call, config.train.log_every
    experiment = replicas.side_by_side(members)
    due, set_up = Due(config), SetUp(experiment, config)
    if first.saved is not None:
        state = replicas.restored(members, set_up.abstract_state())
    for share in members:
        share.begin()
    if first.saved is None:
        state = set_up.init()
    n_replicas = len(set_up.keys)
    say(
        f"{name or first.workdir.name}: {tree.size(state.params) // n_replicas:,} parameters"
        f" x {n_replicas} replicas" + (f", resumed at step {step:,}" if step else "")
    )

    if experiment.plan is None:
        parallel.warn_of_repeats(set_up.place)
    data, plan = set_up.data(), Plan(experiment, set_up.keys, per_call, set_up.place)
    with compiling():
        call = set_up.compile_call(state, data, plan.rows(step))
        evaluate = set_up.compile_evaluate(state, data)
    if first.saved is None:  # after tracing, so that a faulty experiment leaves no files behind
        for share in members:
            checkpoint.begin(share.folder.parent, share.group)
    progress = Progress(total, experiment.headline[0] if experiment.headline else "")

    def score(state, step):
        state, (scalars, arrays) = evaluate(state, data)
        scalars = parallel.fetch(scalars)
        arrays_to_keep = parallel.fetch(arrays) if step in config.eval.keep else None
        for share in still(members):
            share.write("eval", step, scalars)
            if arrays_to_keep is not None:
                share.keep(step, arrays_to_keep)
        if experiment.headline:
            values = scalars[experiment.headline[0]]
            finite = values[np.isfinite(values)]
            progress.score = float(np.mean(finite)) if len(finite) else np.nan
        return state

    def save(state, step, writers):
        if len(members) > 1 and writers:
            state = parallel.fetch(state)  # one copy for all shares
        for share in writers:
            share.save(step, state)

    pending = None
    try:
        with signals.patiently() as local_stop:
            stop = hosts.agreed(local_stop)
            if step == 0 and due.evaluation(0):
                state = score(state, 0)
            if step == 0 and due.checkpoint(0):
                save(state, 0, members)
            while step < total and still(members):
                state, stats = call(state, data, plan.rows(step))
                if pending:  # logged one call late, so that the device never waits for the host
                    log_call(members, progress, *pending, every)
                pending = (step, stats)
                step += per_call
                stop.poll()
                evaluates, saves = due.evaluation(step), due.checkpoint(step) or stop
                if evaluates or saves:
                    log_call(members, progress, *pending, every)
                    pending = None
                writers = still(members)
                if evaluates:
                    state = score(state, step)
                    is_running = parallel.fetch(running(state))
                    for share in writers:
                        share.ended = step >= total or not np.any(is_running[share.rows])
                save(state, step, [share for share in writers if saves or share.ended])
                if saves and stop and still(members):
                    replicas.finish(members)
                    hosts.meet()  # no host exits before the checkpoint is on disk
                    raise Preempted(
                        f"{stop.name}: saved at step {step:,}; run the same command to resume"
                    )
            replicas.finish(members)
    except Diverged:  # raised on all hosts: none exits before the last checkpoint is on disk
        replicas.finish(members)
        hosts.meet()
        raise
    finally:
        progress.close()
        for share in members:
            share.store.close()
    report_deaths(members, parallel.fetch(state.died_at))
    return state
