"""fit(): the one training loop.

Build, restore, loop {call, log, evaluate, save}, finish. A call is `steps_per_call` optimiser steps
of all replicas inside one compiled `lax.scan`; the host does no work per step. Everything a step
needs is a function of (seed, step), so a run that is killed and restarted repeats the same steps.
"""

import logging
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import checkpoint, hosts, parallel, signals, tree
from cgjax.core.errors import BadInput, Diverged, Preempted
from cgjax.core.logging import Metrics, Progress, compiling, counted, keep_arrays, say
from cgjax.core.program import Due, Experiment, SetUp, State, running, traced
from cgjax.core.replicas import replica_names
from cgjax.core.workdir import Access, access_to, place_in_run

log = logging.getLogger("cgjax")


def fit(experiment: Experiment, config, workdir, name: str = "", ahead=None) -> tuple[State, dict]:
    """Trains every replica to `config.train.steps`; resumes from the workdir's checkpoints.

    Returns the final state and the history: `{"step": [n], "loss": [n, R], ..., "eval": {...}}`.
    If replicas are added to a finished run, only the new ones are trained; the old ones are read
    from their checkpoints. Any subset of a finished group can be requested, in any order.
    ahead: a future of `SetUp.compile_all` of the same experiment; used if all replicas train.
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
        usable = ahead if wanted == names else None
        state, history = _fit_group(part, config, workdir, name, group, wanted, usable)
        states.append(state)
        histories.append(history)
        order.append(rows)
    return _merge(states, histories, np.argsort(np.concatenate(order)))


def compiles_ahead(workdir: pathlib.Path) -> bool:
    """Whether programs are compiled before `fit` is called: only if `fit` will use them.

    Several hosts must start the programs that they share in the same order.
    """
    alone = jax.process_count() == 1
    return alone and access_to(workdir) == Access() and not (workdir / "checkpoints").exists()


def initial(experiment: Experiment, config) -> State:
    """The state before training, complete on every host."""
    return parallel.to_own(SetUp(experiment, config).init())


def _fit_group(experiment, config, workdir: pathlib.Path, name: str, group, wanted, ahead):
    share = Share(experiment, config, workdir, name, group, wanted)
    if not share.is_trained():
        if len(wanted) < len(group.replicas):
            raise BadInput(
                f"{group.folder} in '{workdir}' is not finished: train all of it before you "
                "request a subset"
            )
        train = access_to(workdir).train
        if train is None:
            state = train_shares([share], ahead)
            return parallel.to_own(state), share.history()
        train(share)
        share = Share(experiment, config, workdir, name, group, wanted)
    return share.read(SetUp(experiment, config).abstract_state())


def train_shares(members: "list[Share]", ahead=None) -> State:
    """Trains the shares of one program, which must all be at the same step.

    A share ends as it would if it were trained alone: at the last step, when all its replicas are
    done, or when all of them are non-finite (this sets its `error`). Raises Diverged only if an
    error leaves no share to train. ahead: as in `fit`.
    """
    first, step = members[0], members[0].step
    config, name = first.config, first.name
    total, per_call, every = config.train.steps, config.train.steps_per_call, config.train.log_every
    experiment, due = side_by_side(members), Due(config)
    if experiment.plan is None:
        parallel.warn_of_repeats(parallel.layout(len(experiment.replicas["seed"]), None))
    if first.saved is not None:
        set_up = SetUp(experiment, config)
        state = restored(members, set_up.abstract_state())
    for share in members:
        share.begin()
    if first.saved is None:
        set_up, state = begun(experiment, config, ahead)
    n_replicas = len(set_up.keys)
    say(
        f"{name or first.workdir.name}: {tree.size(state.params) // n_replicas:,} parameters"
        f" x {counted(n_replicas, 'replica')}" + (f", resumed at step {step:,}" if step else "")
    )

    data, plan = set_up.data(), set_up.plan
    if set_up.programs is None:
        with compiling():
            set_up.lower_both(state, data, plan.rows(step))
            set_up.compile_both()
    call, evaluate = set_up.programs
    if first.saved is None or len(members) > 1:
        for share in members:  # after tracing, so that a faulty experiment leaves no files behind
            checkpoint.begin(share.folder.parent, share.group, len(members) - 1)
    progress = Progress(total, experiment.headline[0] if experiment.headline else "", name)

    def score(state, step):
        state, (scalars, arrays) = evaluate(state, data)
        scalars = parallel.fetch(scalars)
        arrays_to_keep = parallel.fetch(arrays) if step in config.eval.keep else None
        for share in still(members):
            share.write_scores(step, scalars)
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
                    died_at, done = parallel.fetch((state.died_at, state.done))
                    is_running = running(state._replace(died_at=died_at, done=done))
                    for share in writers:
                        share.ended = step >= total or not np.any(is_running[share.rows])
                save(state, step, [share for share in writers if saves or share.ended])
                if saves and stop and still(members):
                    finish(members)
                    hosts.meet()  # no host exits before the checkpoint is on disk
                    raise Preempted(
                        f"{stop.name}: saved at step {step:,}; run the same command to resume"
                    )
            finish(members)
    except Diverged:  # raised on all hosts: none exits before the last checkpoint is on disk
        finish(members)
        hosts.meet()
        raise
    finally:
        progress.close()
        for share in members:
            share.store.close()
    report_deaths(members, parallel.fetch(state.died_at))
    return state


def begun(experiment: Experiment, config, ahead) -> tuple[SetUp, State]:
    """The set-up and the first state of a new training; ahead: as in `fit`."""
    if hosts.several():  # they must start the programs that they share in the same order
        set_up = SetUp(experiment, config)
        return set_up, set_up.init()
    with compiling() as events:
        set_up = ahead.result() if ahead else traced(experiment, config).compile_all()
        events += set_up.cache_events
    set_up.experiment = set_up.experiment._replace(data=experiment.data)
    return set_up, set_up.init()


# --- shares ---------------------------------------------------------------------------------------
# A share is the replicas of one workdir, and the files that they are written to. A program trains
# one share, or several together (`sweep.together`). The files of a workdir do not depend on the
# other shares of its program.


class Share:
    """Replicas of one group, with their checkpoints and their log."""

    def __init__(self, experiment, config, workdir: pathlib.Path, name: str, group, wanted):
        self.experiment, self.config, self.workdir = experiment, config, workdir
        self.name, self.group, self.wanted = name, group, wanted
        self.folder = workdir / "checkpoints" / group.folder
        self.store = checkpoint.Checkpoints(self.folder, config.checkpoint.keep)
        self.metrics = Metrics(workdir / "metrics.jsonl", group.folder, experiment.replicas["seed"])
        self.wanted_rows = np.array([group.replicas.index(replica) for replica in wanted])
        self.rows, self.label = slice(None), ""  # its rows on the program's replica axis
        self.ended, self.error = False, None
        self.saved = hosts.from_writer(self._restore)
        self.step, self.wall_s, self.mark = 0, 0.0, (0, "")
        if self.saved is not None:
            checkpoint.check_group(self.saved.meta, name, group, self.folder)
            self.step, self.wall_s, self.mark = (
                self.saved.meta[key] for key in ("step", "wall_s", "log")
            )

    def _restore(self) -> checkpoint.Saved | None:
        if access_to(self.workdir).reads_only:  # a damaged checkpoint is not moved aside
            return checkpoint.open_group(self.folder)
        return self.store.restore()

    def is_trained(self) -> bool:
        """Whether training is complete: the last step is reached, or no wanted replica runs."""
        if self.saved is None:
            return False
        died_at, done = (self.saved.leaves[key][self.wanted_rows] for key in ("died_at", "done"))
        return self.step >= self.config.train.steps or not np.any((died_at < 0) & ~done)

    def read(self, like):
        """(state, history) of the wanted replicas; like: as in `checkpoint.place`."""
        self.metrics.mark = tuple(self.mark)
        state = checkpoint.place(self.saved, like, self.wanted_rows, f"'{self.folder}'")

        def take(column):
            return column[:, self.wanted_rows] if column.ndim > 1 else column  # "step" is [n]

        history = jax.tree.map(take, self.metrics.history())
        return parallel.to_own(state), {**history, "wall_s": self.wall_s}

    # --- during training --------------------------------------------------------------------------

    def begin(self) -> None:
        """Truncates the log to the checkpoint's step and starts the clock at its wall time."""
        self.metrics.cut(self.mark)
        self.started = time.monotonic() - self.wall_s

    def names(self) -> list[str]:
        """Names of the replicas for warnings; if the program has several shares, with its label."""
        return [f"{self.label}: {name}" if self.label else name for name in self.wanted]

    def log(self, start: int, stats: dict, alive, every: int) -> None:
        """Writes the means of stats [steps, R] of one call over windows of `every` steps.

        Ends the share with an error if none of its replicas is alive.
        """
        stats = {name: values[:, self.rows] for name, values in stats.items()}
        if start == 0 and np.any(has_zero_grad := stats["grad_norm"][0] == 0):
            log.warning(
                "zero gradient at the first step, nothing will train: %s",
                "; ".join(name for name, is_zero in zip(self.names(), has_zero_grad) if is_zero),
            )
        for end in range(every, len(stats["loss"]) + 1, every):
            window = {name: values[end - every : end].mean(0) for name, values in stats.items()}
            self.metrics.write("train", start + end, window)
        if not any(alive[self.rows]):
            self.ended, self.error = (
                True,
                Diverged(
                    f"every replica turned non-finite by step {start + len(stats['loss']):,}: "
                    "lower optim.lr, or search metrics.jsonl for the first null"
                ),
            )

    def write_scores(self, step: int, scalars: dict) -> None:
        values = {name: value[self.rows] for name, value in scalars.items()}
        self.metrics.write("eval", step, values)

    def keep(self, step: int, arrays: dict) -> None:
        share_arrays = jax.tree.map(lambda leaf: leaf[self.rows], arrays)
        keep_arrays(self.workdir / "evals", step, self.wanted, share_arrays)

    def save(self, step: int, state) -> None:
        meta = {"part": self.name, "replicas": self.wanted, "steps": self.config.train.steps}
        meta |= {"finished": self.ended, "wall_s": time.monotonic() - self.started}
        if place := place_in_run(self.workdir):
            meta["folder"] = place
        if self.rows != slice(None):  # the step is the only leaf without a replica axis
            state = jax.tree.map(lambda leaf: leaf[self.rows] if np.ndim(leaf) else leaf, state)
        self.store.save(step, state, meta | {"log": self.metrics.mark})

    def history(self) -> dict:
        return {**self.metrics.history(), "wall_s": time.monotonic() - self.started}


def still(shares: list[Share]) -> list[Share]:
    """The shares that are still in training."""
    return [share for share in shares if not share.ended]


def log_call(shares: list[Share], progress: Progress, start: int, stats: dict, every: int) -> None:
    """Writes the metrics of one call, stats [steps, R], to the log of every share in training.

    Raises Diverged if this leaves no share to train.
    """
    stats = parallel.fetch(stats)
    alive = stats.pop("alive")
    for share in still(shares):
        share.log(start, stats, alive, every)
    losses = stats["loss"][-1]
    loss = float(np.mean(losses[alive])) if any(alive) else np.nan
    progress.update(start + len(stats["loss"]), loss)
    errors = [share.error for share in shares if share.error]
    if errors and not still(shares):
        raise errors[-1]


def finish(shares: list[Share]) -> None:
    """Waits until all checkpoints are on disk."""
    for share in shares:
        share.store.finish()


def report_deaths(shares: list[Share], died_at) -> None:
    """Warns about replicas that turned non-finite; died_at [R]: the step, or -1."""
    for share in shares:
        for name, step in zip(share.names(), died_at[share.rows]):
            if step >= 0:
                log.warning("%s turned non-finite at step %d and was frozen there", name, step)


def side_by_side(shares: list[Share]):
    """Joins the shares' experiments into one; sets the `rows` of each share."""
    first = shares[0].experiment
    if len(shares) == 1:
        return first
    ends = np.cumsum([len(share.wanted) for share in shares]).tolist()
    for share, start, end in zip(shares, [0, *ends], ends):
        share.rows = slice(start, end)

    def joined(trees):
        # On the host, because a device would cast seeds to int32: 2^31 and above turn negative.
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)

    all_replicas = joined([share.experiment.replicas for share in shares])
    data = joined([share.experiment.data for share in shares]) if first.own_data else first.data
    return first._replace(replicas=all_replicas, data=data)


def restored(shares: list[Share], like):
    """The joined state of the shares' checkpoints, which are at the same step."""
    first = shares[0]

    def joined(name, leaf):
        if not np.ndim(leaf):  # the step
            return leaf
        return np.concatenate([share.saved.leaves[name] for share in shares])

    leaves = {name: joined(name, leaf) for name, leaf in first.saved.leaves.items()}
    return checkpoint.place(first.saved._replace(leaves=leaves), like, None, f"'{first.folder}'")


# --- replicas that were trained at different times ------------------------------------------------


def _merge(states, histories, order):
    """Joins the states and histories of groups; order: the requested order of their replicas."""
    if len(states) == 1 and np.array_equal(order, np.arange(len(order))):
        return states[0], histories[0]
    step = states[0].step
    joined = tree.concatenate([state._replace(step=jnp.zeros(1)) for state in states])
    state = tree.take(joined._replace(step=order), order)._replace(step=step)
    wall_s = sum(history.pop("wall_s") for history in histories)
    evals = _join_metrics([history.pop("eval") for history in histories], order)
    return state, {**_join_metrics(histories, order), "eval": evals, "wall_s": wall_s}


def _join_metrics(groups: list[dict], order) -> dict:
    """`{"step": [n], metric: [n, R]}` of all groups.

    A group that stopped early has fewer rows: its last row is repeated.
    """
    steps = max((group["step"] for group in groups), key=len)
    if any(not np.array_equal(group["step"], steps[: len(group["step"])]) for group in groups):
        raise BadInput(
            "these replicas were logged or evaluated at different steps (the run was extended "
            "between their trainings): request only replicas that were trained together"
        )

    def padded(values):
        last_rows = np.repeat(values[-1:], len(steps) - len(values), axis=0)
        return np.concatenate([values, last_rows])

    names = [name for name in groups[0] if name != "step"]
    joined = {name: np.concatenate([padded(group[name]) for group in groups], 1) for name in names}
    return {"step": steps, **{name: values[:, order] for name, values in joined.items()}}
