"""Replicas by name, and groups of them that were trained at different times put side by side."""

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
    """`["seed 0, scale 1e-06", ...]`: how replicas are named in files and warnings."""
    names = names_of(experiment.replicas, experiment.identity)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"two replicas are '{twice}': Experiment.identity must tell them apart")
    return names


def names_of(replicas: dict, identity: tuple) -> list[str]:
    """The replicas' names, from the numbers that tell them apart."""
    columns = [np.asarray(replicas[key]) for key in identity]
    form = ["{} {:.9g}" if column.dtype.kind == "f" else "{} {}" for column in columns]
    return [
        ", ".join(text.format(key, value) for text, key, value in zip(form, identity, row))
        for row in zip(*columns)
    ]


def with_numbers(replicas: dict, **numbers: float) -> dict:
    """Replicas, and numbers that all of them share: {"seed": [R], "lr": [R]}.

    A number of the config that is no shape becomes an argument of the program. Another value then
    finds the program in the cache, and runs that differ in it can be trained side by side; its key
    says so by `is_traced`.
    """
    n = len(replicas["seed"])
    return replicas | {name: np.full(n, value, np.float32) for name, value in numbers.items()}


def history_of(metrics, wall_s: float, rows=slice(None)) -> dict:
    """What a log holds of these replicas."""

    def take(column):
        return column[:, rows] if column.ndim > 1 else column  # the steps themselves

    return {**jax.tree.map(take, metrics.history()), "wall_s": wall_s}


def merge(states, histories, order):
    """Groups side by side, replicas in the order in which they were asked for."""
    if len(states) == 1 and np.array_equal(order, np.arange(len(order))):
        return states[0], histories[0]
    step = states[0].step
    joined = tree.concatenate([state._replace(step=jnp.zeros(1)) for state in states])
    state = tree.take(joined._replace(step=order), order)._replace(step=step)
    walls = sum(history.pop("wall_s") for history in histories)
    evals = _join([history.pop("eval") for history in histories], order)
    return state, {**_join(histories, order), "eval": evals, "wall_s": walls}


def _join(columns: list[dict], order) -> dict:
    """`{"step": [n], metric: [n, R]}` of all groups; those that stopped early stay as they were."""
    steps = max((one["step"] for one in columns), key=len)
    if any(not np.array_equal(one["step"], steps[: len(one["step"])]) for one in columns):
        raise BadInput(
            "these replicas were logged or evaluated at different steps (the run was extended "
            "between them): ask for those that were trained together"
        )

    def padded(values):
        rest = np.repeat(values[-1:], len(steps) - len(values), axis=0)
        return np.concatenate([values, rest])

    names = [name for name in columns[0] if name != "step"]
    joined = {name: np.concatenate([padded(one[name]) for one in columns], 1) for name in names}
    return {"step": steps, **{name: values[:, order] for name, values in joined.items()}}


def in_turn(several, at_once: int, state, data, data_axis, *each):
    """`several(state, data, *each)` of some replicas after others; at_once divides their number.

    The first axis of everything is the replicas, but for `state.step` and, unless data_axis is 0,
    the data, which are shared; of what comes back too.
    """

    def some(group):
        part, own, *rest = group
        found, stats = several(
            part._replace(step=state.step), data if data_axis is None else own, *rest
        )
        return found.step, (found._replace(step=None), stats)

    groups = (state._replace(step=None), None if data_axis is None else data, *each)
    groups = jax.tree.map(lambda leaf: leaf.reshape(-1, at_once, *leaf.shape[1:]), groups)
    steps, found = jax.lax.map(some, groups)
    found, stats = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)
    return found._replace(step=steps[0]), stats


def swapped(each):
    """[replicas, steps, ...] as [steps, replicas, ...], and back."""
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), each)


# --- a share of a program: the replicas of one workdir, and the files that they are written to ----
# A program trains one share, or several side by side (`sweep.together`). Each is written as if it
# were alone: the files of a workdir do not depend on what else its program trained.


class Share:
    """Replicas of one group, as their files stand."""

    def __init__(self, experiment, config, workdir: pathlib.Path, name: str, group, wanted, read):
        self.experiment, self.config, self.workdir = experiment, config, workdir
        self.name, self.group, self.wanted = name, group, wanted
        self.folder = workdir / "checkpoints" / group.folder
        self.store = checkpoint.Checkpoints(self.folder, config.checkpoint.keep)
        self.metrics = Metrics(workdir / "metrics.jsonl", group.folder, experiment.replicas["seed"])
        self.everyone = np.array([group.replicas.index(one) for one in wanted])
        self.rows, self.label = slice(None), ""  # its place among the program's replicas
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
        """Whether there is nothing left to do: the end is reached, or no replica still runs."""
        if self.saved is None:
            return False
        died_at, done = (self.saved.leaves[key][self.everyone] for key in ("died_at", "done"))
        return self.step >= self.config.train.steps or not np.any((died_at < 0) & ~done)

    def read(self, like):
        """(state, history) of the replicas that are wanted; like: of `checkpoint.place`."""
        self.metrics.mark = tuple(self.mark)
        state = checkpoint.place(self.saved, like, self.everyone, f"'{self.folder}'")
        return parallel.to_own(state), replicas.history_of(self.metrics, self.wall_s, self.everyone)

    # --- while it is trained ----------------------------------------------------------------------

    def begin(self) -> None:
        """Its log goes back to what the checkpoint knows of; time counts on."""
        self.metrics.cut(self.mark)
        self.started = time.monotonic() - self.wall_s

    def names(self) -> list[str]:
        """Of its replicas, for warnings: with the share's own label where a program has several."""
        return [f"{self.label}: {name}" if self.label else name for name in self.wanted]

    def write(self, kind: str, step: int, values: dict) -> None:
        self.metrics.write(kind, step, {name: value[self.rows] for name, value in values.items()})

    def keep(self, step: int, arrays: dict) -> None:
        own = jax.tree.map(lambda leaf: leaf[self.rows], arrays)
        keep_arrays(self.workdir / "evals", step, self.wanted, own)

    def save(self, step: int, state) -> None:
        meta = {"part": self.name, "replicas": self.wanted, "steps": self.config.train.steps}
        meta |= {"finished": self.ended, "wall_s": time.monotonic() - self.started}
        if self.rows != slice(None):  # only the step has no replica axis
            state = jax.tree.map(lambda leaf: leaf[self.rows] if np.ndim(leaf) else leaf, state)
        self.store.save(step, state, meta | {"log": self.metrics.mark})

    def history(self) -> dict:
        return replicas.history_of(self.metrics, time.monotonic() - self.started)


class HandedOver(Exception):
    """What `fit` was to train; who trains it calls the run again, which then finds it done."""

    def __init__(self, share: Share):
        super().__init__(f"{share.folder} is trained elsewhere")
        self.share = share


def log_call(shares: list[Share], progress: Progress, start: int, stats: dict, every: int) -> None:
    """Writes what one call measured, stats [steps, R], into every share that is still trained.

    One whose replicas are all dead ends there, with its error; raises it where none is left.
    """
    stats = parallel.fetch(stats)
    alive = stats.pop("alive")
    end = start + len(stats["loss"])
    for share in still(shares):
        own = {name: values[:, share.rows] for name, values in stats.items()}
        try:
            log_replicas(share.metrics, start, own, alive[share.rows], every, share.names())
        except Diverged as error:
            share.error, share.ended = error, True
    losses = stats["loss"][-1]
    progress.update(end, float(np.mean(losses[alive])) if any(alive) else np.nan)
    errors = [share.error for share in shares if share.error]
    if errors and not still(shares):
        raise errors[-1]


def report_deaths(shares: list[Share], died_at) -> None:
    """Warns of the replicas that turned non-finite; died_at [R]: the step, or -1."""
    for share in shares:
        for name, step in zip(share.names(), died_at[share.rows]):
            if step >= 0:
                log.warning("%s turned non-finite at step %d and was frozen there", name, step)


def still(shares: list[Share]) -> list[Share]:
    """Those that are not at their end."""
    return [share for share in shares if not share.ended]


def finish(shares: list[Share]) -> None:
    """Waits until everything is on disk."""
    for share in shares:
        share.store.finish()


def side_by_side(shares: list[Share]):
    """One experiment of all replicas; each share learns which of them are its own."""
    first = shares[0].experiment
    if len(shares) == 1:
        return first
    ends = np.cumsum([len(share.wanted) for share in shares]).tolist()
    for share, start, end in zip(shares, [0, *ends], ends):
        share.rows = slice(start, end)

    def joined(trees):
        # On the host: a device would fold seeds of 32 bits.
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)

    own = joined([share.experiment.replicas for share in shares])
    data = joined([share.experiment.data for share in shares]) if first.own_data else first.data
    for share in shares:
        share.experiment = None  # the data of one are enough
    return first._replace(replicas=own, data=data)


def restored(shares: list[Share], like):
    """The state that their checkpoints, of one step, make together."""
    first = shares[0]

    def joined(name, leaf):
        if not np.ndim(leaf):  # the step
            return leaf
        return np.concatenate([share.saved.leaves[name] for share in shares])

    leaves = {name: joined(name, leaf) for name, leaf in first.saved.leaves.items()}
    return checkpoint.place(first.saved._replace(leaves=leaves), like, None, f"'{first.folder}'")
