"""Checkpoints by Orbax: the latest two are kept; restore verifies a checksum of every leaf.

A *group* is a set of replicas that were trained together. Each group has a folder under
`checkpoints/`, and next to it a json file with the names of its replicas.
"""

import contextlib
import json
import logging
import os
import pathlib
import re
import shutil
import threading
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies

from cgjax.core import hosts, parallel, tree, workdir
from cgjax.core.errors import BadInput, first_line
from cgjax.core.logging import Metrics

log = logging.getLogger("cgjax")
# Orbax logs every save, and tracebacks of threads whose errors it raises later anyway.
logging.getLogger("absl").setLevel(logging.CRITICAL)


class Damaged(Exception):
    """A checkpoint whose files cannot be read or have changed since they were written."""


class Saved(NamedTuple):
    """One checkpoint, as saved."""

    leaves: dict  # {"params/dense_0/kernel": array [R, ...], ...} on the host
    meta: dict  # step, steps, finished, part, folder, replicas, wall_s, log, checksums, crc


# --- reading --------------------------------------------------------------------------------------


def steps(folder: pathlib.Path) -> list[int]:
    """The saved steps in a group's folder, newest first."""
    if not folder.is_dir():
        return []
    return sorted(
        (int(path.name) for path in folder.iterdir() if path.name.isdigit()), reverse=True
    )


def read(folder: pathlib.Path, step: int) -> Saved:
    """Reads the checkpoint of one step and verifies every checksum; writes nothing.

    Raises Damaged if a file is missing, malformed or changed. Other failures (memory, devices,
    permissions) do not mean damage and propagate.
    """
    step_folder = pathlib.Path(folder).absolute() / str(step)
    for parent, _, names in os.walk(step_folder):
        for path in (pathlib.Path(parent, name) for name in names):
            if path.exists() and not path.is_file():  # reading it has no end
                raise Damaged(f"'{path.name}' is a device or a pipe")
    try:
        # Restored without a target tree, so that only the files themselves can cause an error.
        meta = _reader(ocp.JsonCheckpointHandler()).restore(step_folder / "meta")
        leaves = _reader(ocp.PyTreeCheckpointHandler()).restore(step_folder / "state")
        sums = meta["checksums"]
        wrong = sorted(set(sums) ^ set(leaves))
        wrong += [
            name for name in leaves if name in sums and tree.checksum(leaves[name]) != sums[name]
        ]
        if wrong:
            raise Damaged(f"checksum of '{wrong[0]}' does not match")
        _check_meta(leaves, meta, step)
        if meta.get("crc", crc := _meta_crc(meta)) != crc:  # optional: a checkpoint may have no crc
            raise Damaged("checksum of its meta does not match")
    except (ValueError, KeyError, TypeError, FileNotFoundError, NotADirectoryError) as error:
        raise Damaged(first_line(error)) from None
    except OSError as error:
        raise BadInput(f"cannot read '{step_folder}': {error.strerror or error}") from None
    return Saved(leaves, meta)


def _host_0_only():
    """Orbax options: host 0 alone reads and writes, and the other hosts do not wait for it.

    The files are the same for any number of hosts and devices.
    """
    if not hosts.several():
        return ocp.options.MultiprocessingOptions()
    return ocp.options.MultiprocessingOptions(
        primary_host=0, active_processes={0}, barrier_sync_key_prefix="host0"
    )


def _reader(handler) -> ocp.Checkpointer:
    return ocp.Checkpointer(handler, multiprocessing_options=_host_0_only())


def _check_meta(leaves: dict, meta: dict, step: int) -> None:
    """Checks that meta agrees with the state: step, number of replicas, whether it is finished."""
    running = (leaves["died_at"] < 0) & ~leaves["done"]
    summary = (meta["step"], len(meta["replicas"]), bool(meta["finished"]))
    finished = step >= meta["steps"] or not running.any()
    if missing := {"part", "wall_s", "log"} - set(meta):
        raise Damaged(f"its meta lacks '{missing.pop()}'")
    if summary != (step, len(running), finished) or int(leaves["step"]) != step:
        raise Damaged(
            f"its meta gives (step, replicas, finished) = {summary} for a state at step "
            f"{int(leaves['step'])} with {len(running)} replicas"
        )


def _meta_crc(meta: dict) -> int:
    text = json.dumps({name: meta[name] for name in meta if name != "crc"}, sort_keys=True)
    return zlib.crc32(text.encode())


def place(saved: Saved, like, rows=None, where: str = ""):
    """The saved state with the structure, shapes and shardings of `like` (ShapeDtypeStructs).

    rows: replicas to take, in this order. A checkpoint from 8 devices can be placed on one.
    """
    named = tree.flat(like)
    if unmatched := sorted(set(named) ^ set(saved.leaves)):
        raise BadInput(
            f"{where} is of another model (leaf '{unmatched[0]}'): use a new --workdir, "
            "or the config that trained it"
        )
    placed = {}
    for name, wanted in named.items():
        leaf = saved.leaves[name]
        leaf = leaf if rows is None or name == "step" else leaf[rows]
        if leaf.shape != wanted.shape or leaf.dtype != wanted.dtype:
            raise BadInput(
                f"{where} is of another model ('{name}' is {leaf.dtype}{list(leaf.shape)}, not "
                f"{wanted.dtype}{list(wanted.shape)}): use a new --workdir"
            )
        placed[name] = parallel.put(leaf, wanted.sharding)
    return tree.unflat(placed, like)


def open_finished(part_folder: pathlib.Path, names: list[str], step=None) -> tuple[dict, dict]:
    """Reads the replicas `names` of one trained part: (leaves [R, ...] by name, steps by replica).

    step: None requires a finished run; "latest" opens the newest checkpoint of any run; a number
    opens that step, if it was kept. Takes no lock and writes nothing.
    """
    by_replica, at, folder = {}, {}, pathlib.Path(part_folder) / "checkpoints"
    missing = set(names)
    for group in begun(folder):
        wanted = [name for name in group.replicas if name in missing]
        if not wanted:
            continue
        saved = _open_own(folder, group, step)
        rows = {name: row for row, name in enumerate(saved.meta["replicas"])}
        for name in wanted:
            by_replica[name] = {
                leaf: value if leaf == "step" else value[rows[name]]
                for leaf, value in saved.leaves.items()
            }
            at[name] = saved.meta["step"]
        missing -= set(wanted)
    if missing:
        raise BadInput(
            f"'{part_folder}' has not trained {_shortened(sorted(missing))}: run it first"
        )
    stacked = {
        leaf: np.stack([by_replica[name][leaf] for name in names]) for leaf in by_replica[names[0]]
    }
    return stacked, at


def open_group(folder: pathlib.Path, step=None) -> Saved:
    """One group's checkpoint; step as in `open_finished`."""
    for _ in range(3):  # a live run may delete a checkpoint between its listing and its reading
        saved_steps = steps(folder)
        if isinstance(step, int) and step not in saved_steps:
            raise BadInput(f"'{folder}' holds no step {step}: the saved steps are {saved_steps}")
        if not saved_steps:
            raise BadInput(f"'{folder}' holds no checkpoint yet: run its command first")
        wanted = step if isinstance(step, int) else saved_steps[0]
        try:
            saved = read(folder, wanted)
        except Damaged as error:
            if wanted in steps(folder):
                raise BadInput(
                    f"checkpoint {wanted} in '{folder}' is damaged ({error}): "
                    "run the same command again to resume from the previous checkpoint"
                ) from None
            continue
        if step is None and not saved.meta["finished"]:
            raise BadInput(
                f"the run in '{folder.parent.parent}' is not finished: it is at step "
                f"{wanted:,} of {saved.meta['steps']:,}; run its command again, or open its newest "
                'checkpoint with step="latest"'
            )
        return saved
    raise BadInput(f"'{folder}' changes while it is read: try again")


def _open_own(folder: pathlib.Path, group: "Group", step=None) -> Saved:
    """`open_group` of a group; checks that its checkpoint was written in this part's folder."""
    saved, group_folder = open_group(folder / group.folder, step), folder / group.folder
    check_group(saved.meta, saved.meta["part"], group, group_folder)
    place = workdir.place_in_run(folder.parent)
    written = saved.meta.get("folder", place)  # optional: a checkpoint may have no folder
    if place and written != place:
        raise BadInput(
            f"'{group_folder}' holds a checkpoint of the run's folder '{written}', not of "
            f"'{place}': restore a copy, or use --start_anew"
        )
    return saved


# --- writing --------------------------------------------------------------------------------------


class Checkpoints:
    """The checkpoints of one group, for the process that trains it.

    Orbax numbers the saves of a process by one counter, and mixes up the folders of two saves that
    are in progress at once. Trainings in several threads therefore save in turn.
    """

    _turn = threading.Lock()  # of all groups
    _last_manager = None  # which saved last in this process

    def __init__(self, folder: pathlib.Path, keep: tuple[int, ...] = ()):
        self.folder = pathlib.Path(folder).absolute()
        self.keep, self.manager = keep, None

    def restore(self) -> Saved | None:
        """The newest undamaged checkpoint; None if nothing was saved. Renames damaged ones."""
        for step in steps(self.folder):
            try:
                return read(self.folder, step)
            except Damaged as error:
                log.warning("checkpoint %d is damaged (%s); trying the previous one", step, error)
                self._set_aside(step)
        if any(self.folder.parent.glob(f"damaged-{self.folder.name}-*")):
            raise BadInput(
                f"all checkpoints in '{self.folder}' are damaged: restore a copy, or train from "
                "the beginning with --start_anew (it moves the old files aside)"
            )
        return None

    def save(self, step: int, state, meta: dict) -> None:
        """Copies the state now and writes it in the background while training continues."""
        if hosts.several():
            state = parallel.fetch(state)  # a collective: all hosts take part before host 0 writes
        if not hosts.is_writer():
            return
        with workdir.disk_errors(self.folder):
            if self.manager is None:
                self._open()
            if step in self.manager.all_steps():
                return
            snapshot = tree.flat(parallel.fetch(state))
            sums = {name: tree.checksum(leaf) for name, leaf in snapshot.items()}
            meta = {**meta, "step": step, "checksums": sums}
            args = ocp.args.Composite(
                state=ocp.args.StandardSave(snapshot),
                meta=ocp.args.JsonSave({**meta, "crc": _meta_crc(meta)}),
            )
            with Checkpoints._turn:
                if Checkpoints._last_manager not in (None, self.manager):
                    with contextlib.suppress(Exception):  # raised again in the thread that saved it
                        Checkpoints._last_manager.wait_until_finished()
                Checkpoints._last_manager = self.manager
                self.manager.save(step, args=args)

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        kept_steps = [policies.LatestN(2), policies.CustomSteps(list(self.keep))]
        options = ocp.CheckpointManagerOptions(
            preservation_policy=policies.AnyPreservationPolicy(kept_steps),
            multiprocessing_options=_host_0_only(),
            create=False,
        )
        self.manager = ocp.CheckpointManager(self.folder, options=options)

    def finish(self) -> None:
        """Waits until the last save is on disk."""
        if self.manager is not None:
            with workdir.disk_errors(self.folder):
                self.manager.wait_until_finished()

    def close(self) -> None:
        if self.manager is not None:
            self.finish()
            self.manager.close()

    def _set_aside(self, step: int) -> None:
        # Kept for inspection under another name, so that the same step can be saved again.
        target = self.folder.parent / f"damaged-{self.folder.name}-{step}"
        with workdir.disk_errors(target):
            shutil.rmtree(target, ignore_errors=True)
            os.replace(self.folder / str(step), target)


# --- groups ---------------------------------------------------------------------------------------


class Group(NamedTuple):
    """Names of the replicas that are trained as one program, and their checkpoint folder."""

    folder: str
    replicas: tuple[str, ...]


def group_of(names) -> Group:
    """The group of these replicas; the folder of ("seed 0", "seed 1", "seed 7") is "seeds_0-1_7".

    If other numbers than the seed identify a replica, or if the name is long, it ends in a hash.
    """
    names = tuple(names)
    seeds = [re.fullmatch(r"seed (\d+)", name) for name in names]
    ranges = []
    for seed in sorted({int(re.match(r"seed (\d+)", name)[1]) for name in names}):
        if ranges and seed == ranges[-1][1] + 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    folder = "seeds_" + "_".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)
    if not all(seeds) or len(folder) > 80:
        folder = f"{folder[:60]}.{zlib.crc32(json.dumps(sorted(names)).encode()):08x}"
    return Group(folder, names)


def begun(folder: pathlib.Path) -> list[Group]:
    """The groups whose training has begun; checks that no replica is in two of them."""
    groups_begun, file_of = [], {}
    for path in sorted(folder.glob("seeds_*.json")):
        replicas = workdir.read_json(path, "restore a copy, or use --start_anew").get("replicas")
        if not isinstance(replicas, list) or not all(isinstance(name, str) for name in replicas):
            raise BadInput(f"'{path}' does not list replicas: restore a copy, or use --start_anew")
        for name in replicas:
            if name in file_of:
                raise BadInput(
                    f"{name} is in both '{file_of[name]}' and '{path.name}' of '{folder}': "
                    "restore a copy, or use --start_anew"
                )
            file_of[name] = path.name
        groups_begun.append(Group(path.name.removesuffix(".json"), tuple(replicas)))
    return groups_begun


def check_group(meta: dict, part: str, group: Group, folder: pathlib.Path) -> None:
    """Checks that a checkpoint belongs to the part and the replicas of its folder."""
    if meta["part"] != part or tuple(meta["replicas"]) != group.replicas:
        raise BadInput(
            f"'{folder}' holds a checkpoint of part '{meta['part']}', {meta['replicas'][0]} ..., "
            f"not of part '{part}', {group.replicas[0]} ...: restore a copy, or use --start_anew"
        )


def begin(folder: pathlib.Path, group: Group, n_others: int = 0) -> None:
    """Writes the json file that lists a group's replicas; n_others: runs that share its program."""
    if not hosts.is_writer():
        return
    with workdir.disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    content = {"replicas": group.replicas} | ({"trained_with": n_others} if n_others else {})
    workdir.write_atomic(folder / f"{group.folder}.json", json.dumps(content))


def trained_with(run_folder: pathlib.Path) -> dict:
    """For results.json: how many other runs shared a program with this run; empty if none."""
    n_others = 0
    for folder in workdir.checkpoint_folders(run_folder):
        for path in folder.glob("seeds_*.json"):
            value = workdir.read_json(path).get("trained_with")
            n_others = max(n_others, value if isinstance(value, int) else 0)
    if not n_others:
        return {}
    note = (
        "other points of a sweep in the same program: alone, values may differ in the last digits"
    )
    return {"trained_with": {"points": n_others, "note": note}}


def groups(folder: pathlib.Path, names) -> list[Group]:
    """Groups that cover `names`: those already begun, then one group of all other replicas."""
    old_groups = begun(folder)
    old_names = {name for group in old_groups for name in group.replicas}
    new_names = [name for name in names if name not in old_names]
    wanted = [group for group in old_groups if set(group.replicas) & set(names)]
    return wanted + ([group_of(new_names)] if new_names else [])


def _shortened(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def abstract(state_shapes, sharding_of):
    """The shapes of a state as ShapeDtypeStructs with shardings, for `place`."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        state_shapes,
        sharding_of,
    )


# --- reading trained networks: for `cgjax.load` of every family -----------------------------------


class Loaded(NamedTuple):
    """The trained networks of a run."""

    predict: Callable  # params, inputs -> outputs, for one replica
    params: Any  # leading axis: the replicas, in the order of the config's seeds
    config: Any
    step: np.ndarray  # [R] step of each replica's checkpoint


def read_trained(
    folder: pathlib.Path, names: list[str], step=None
) -> tuple[dict, dict, np.ndarray]:
    """(params, extra, steps) of the trained replicas `names` in a part's folder."""
    leaves, at = open_finished(folder, names, step)
    steps = np.array([at[name] for name in names])
    return tree.nested(leaves, "params"), tree.nested(leaves, "extra"), steps


def last_scores(folder: pathlib.Path, names: list[str], metric: str) -> np.ndarray:
    """A metric of the replicas `names` at their last evaluation: [R]."""
    scores, checkpoints = {}, pathlib.Path(folder) / "checkpoints"
    for group in begun(checkpoints):
        saved = _open_own(checkpoints, group)
        metrics = Metrics(pathlib.Path(folder) / "metrics.jsonl", group.folder, ())
        metrics.mark = tuple(saved.meta["log"])
        values = metrics.history()["eval"][metric][-1]
        scores |= dict(zip(saved.meta["replicas"], values, strict=True))
    return np.array([scores[name] for name in names])


def read_part(known: dict, workdir, part: str = "", step=None) -> tuple[Any, dict, np.ndarray]:
    """(config, variables, steps) of a part whose replicas are seeds; known: {part: its config}."""
    name = choose(part, known, workdir)
    names = [f"seed {seed}" for seed in known[name].train.seeds]
    params, extra, steps = read_trained(pathlib.Path(workdir) / name, names, step)
    return known[name], {"params": params, **extra}, steps


def choose(part: str, parts, workdir) -> str:
    """The requested part; the empty name is allowed if there is only one part."""
    parts = list(parts)
    if not part and len(parts) == 1:
        return parts[0]
    if part not in parts:
        quote = "'" if any(", " in name for name in parts) else ""  # names may contain a comma
        names = ", ".join(f"{quote}{name}{quote}" for name in parts)
        raise BadInput(f"'{workdir}' holds {names}: name one of them as part")
    return part
