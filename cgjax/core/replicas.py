"""Names of replicas, and how replicas that were trained at different times are joined."""

import functools
import logging
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import checkpoint, contract, hosts, parallel, replicas, tree
from cgjax.core.errors import BadInput, Diverged
from cgjax.core.logging import Metrics, Progress, keep_arrays, log_replicas

log = logging.getLogger("cgjax")


def replica_names(experiment) -> list[str]:
    """`["seed 0, scale 1e-06", ...]`: the names of the replicas in files and warnings."""
    names = names_of(experiment.replicas, experiment.identity)
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise BadInput(
            f"two replicas are '{duplicate}': add keys to Experiment.identity until names differ"
        )
    return names


def names_of(replicas: dict, identity: tuple) -> list[str]:
    """The replicas' names, made of the numbers that identify them (`Experiment.identity`)."""
    columns = [np.asarray(replicas[key]) for key in identity]
    formats = ["{} {:.9g}" if column.dtype.kind == "f" else "{} {}" for column in columns]
    return [
        ", ".join(text.format(key, value) for text, key, value in zip(formats, identity, row))
        for row in zip(*columns)
    ]


def with_numbers(replicas: dict, **numbers: float) -> dict:
    """Adds numbers that all replicas share: {"seed": [R], "lr": [R]}.

    A number of the config that does not affect shapes becomes an argument of the program. Other
    values then reuse the cached program, and runs that differ only in this number can be trained
    in one program. The config marks such a key with `is_traced`.
    """
    n = len(replicas["seed"])
    return replicas | {name: np.full(n, value, np.float32) for name, value in numbers.items()}


def history_of(metrics, wall_s: float, rows=slice(None)) -> dict:
    """The logged metrics of the replicas `rows`, and their wall time."""

    def take(column):
        return column[:, rows] if column.ndim > 1 else column  # "step" has no replica axis

    return {**jax.tree.map(take, metrics.history()), "wall_s": wall_s}


def merge(states, histories, order):
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


def in_turn(batched_fn, at_once: int, state, data, data_axis, *arguments):
    """`batched_fn(state, data, *arguments)`, `at_once` replicas at a time, by `lax.map`.

    at_once divides the number of replicas R. Arguments and results have a leading axis R, except
    `state.step` and, unless data_axis is 0, the data: all replicas share these.
    """

    def run_chunk(chunk):
        chunk_state, chunk_data, *rest = chunk
        new_state, stats = batched_fn(
            chunk_state._replace(step=state.step), data if data_axis is None else chunk_data, *rest
        )
        return new_state.step, (new_state._replace(step=None), stats)

    chunks = (state._replace(step=None), None if data_axis is None else data, *arguments)
    chunks = jax.tree.map(lambda leaf: leaf.reshape(-1, at_once, *leaf.shape[1:]), chunks)
    steps, results = jax.lax.map(run_chunk, chunks)
    new_state, stats = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), results)
    return new_state._replace(step=steps[0]), stats


def swapped(arrays):
    """[replicas, steps, ...] as [steps, replicas, ...], or the reverse, for every leaf."""
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), arrays)


# --- shares ---------------------------------------------------------------------------------------
# A share is the replicas of one workdir, and the files that they are written to. A program trains
# one share, or several together (`sweep.together`). The files of a workdir do not depend on the
# other shares of its program.


class Share:
    """Replicas of one group, with their checkpoints and their log."""

    def __init__(self, experiment, config, workdir: pathlib.Path, name: str, group, wanted, read):
        self.experiment, self.config, self.workdir = experiment, config, workdir
        self.name, self.group, self.wanted = name, group, wanted
        self.folder = workdir / "checkpoints" / group.folder
        self.store = checkpoint.Checkpoints(self.folder, config.checkpoint.keep)
        self.metrics = Metrics(workdir / "metrics.jsonl", group.folder, experiment.replicas["seed"])
        self.wanted_rows = np.array([group.replicas.index(replica) for replica in wanted])
        self.rows, self.label = slice(None), ""  # its rows on the program's replica axis
        self.ended, self.error = False, None
        read = functools.partial(checkpoint.open_group, self.folder) if read else self.store.restore
        self.saved = hosts.from_writer(read)
        self.step, self.wall_s, self.mark = 0, 0.0, (0, "")
        if self.saved is not None:
            contract.check_saved(self.saved.meta, name, group, self.folder)
            self.step, self.wall_s, self.mark = (
                self.saved.meta[key] for key in ("step", "wall_s", "log")
            )

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
        return (
            parallel.to_own(state),
            replicas.history_of(self.metrics, self.wall_s, self.wanted_rows),
        )

    # --- during training --------------------------------------------------------------------------

    def begin(self) -> None:
        """Truncates the log to the checkpoint's step and starts the clock at its wall time."""
        self.metrics.cut(self.mark)
        self.started = time.monotonic() - self.wall_s

    def names(self) -> list[str]:
        """Names of the replicas for warnings; if the program has several shares, with its label."""
        return [f"{self.label}: {name}" if self.label else name for name in self.wanted]

    def write(self, kind: str, step: int, values: dict) -> None:
        self.metrics.write(kind, step, {name: value[self.rows] for name, value in values.items()})

    def keep(self, step: int, arrays: dict) -> None:
        share_arrays = jax.tree.map(lambda leaf: leaf[self.rows], arrays)
        keep_arrays(self.workdir / "evals", step, self.wanted, share_arrays)

    def save(self, step: int, state) -> None:
        meta = {"part": self.name, "replicas": self.wanted, "steps": self.config.train.steps}
        meta |= {"finished": self.ended, "wall_s": time.monotonic() - self.started}
        if self.rows != slice(None):  # the step is the only leaf without a replica axis
            state = jax.tree.map(lambda leaf: leaf[self.rows] if np.ndim(leaf) else leaf, state)
        self.store.save(step, state, meta | {"log": self.metrics.mark})

    def history(self) -> dict:
        return replicas.history_of(self.metrics, time.monotonic() - self.started)


def log_call(shares: list[Share], progress: Progress, start: int, stats: dict, every: int) -> None:
    """Writes the metrics of one call, stats [steps, R], to the log of every share in training.

    A share whose replicas are all non-finite ends here, with its error. Raises the error if no
    share is left in training.
    """
    stats = parallel.fetch(stats)
    alive = stats.pop("alive")
    end = start + len(stats["loss"])
    for share in still(shares):
        share_stats = {name: values[:, share.rows] for name, values in stats.items()}
        try:
            log_replicas(share.metrics, start, share_stats, alive[share.rows], every, share.names())
        except Diverged as error:
            share.error, share.ended = error, True
    losses = stats["loss"][-1]
    progress.update(end, float(np.mean(losses[alive])) if any(alive) else np.nan)
    errors = [share.error for share in shares if share.error]
    if errors and not still(shares):
        raise errors[-1]


def report_deaths(shares: list[Share], died_at) -> None:
    """Warns about replicas that turned non-finite; died_at [R]: the step, or -1."""
    for share in shares:
        for name, step in zip(share.names(), died_at[share.rows]):
            if step >= 0:
                log.warning("%s turned non-finite at step %d and was frozen there", name, step)


def still(shares: list[Share]) -> list[Share]:
    """The shares that are still in training."""
    return [share for share in shares if not share.ended]


def finish(shares: list[Share]) -> None:
    """Waits until all checkpoints are on disk."""
    for share in shares:
        share.store.finish()


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
