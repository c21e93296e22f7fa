"""Checkpoints: Orbax, the latest two, every leaf with a checksum that is verified on restore.

A *group* is the replicas that were trained together; each has a folder of its own under
`checkpoints/`, and beside it a json file with their names.
"""

import json
import logging
import os
import pathlib
import re
import shutil
import sys
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies

from cgjax.core import checkpoint, hosts, parallel, tree, workdir
from cgjax.core.errors import BadInput, first_line
from cgjax.core.logging import Metrics

log = logging.getLogger("cgjax")
# Orbax narrates its saves, and prints tracebacks of threads whose errors it raises afterwards.
logging.getLogger("absl").setLevel(logging.CRITICAL)


def silence_echoes() -> None:
    """For programs: no tracebacks from storage threads that outlive the call that has failed.

    They report to an event loop that is closed by then; the failure itself was raised before.
    """
    hook = sys.unraisablehook

    def filtered(found):
        if str(found.exc_value) != "Event loop is closed":
            hook(found)

    sys.unraisablehook = filtered
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)


class Damaged(Exception):
    """A checkpoint whose files cannot be read, or are not what was written."""


class Saved(NamedTuple):
    """One checkpoint as it was written."""

    leaves: dict  # {"params/dense_0/kernel": array [R, ...], ...} on the host
    meta: dict  # step, steps, finished, part, replicas, wall_s, log, checksums, crc


# --- reading --------------------------------------------------------------------------------------


def steps(folder: pathlib.Path) -> list[int]:
    """The steps that were saved in a group's folder, newest first."""
    if not folder.is_dir():
        return []
    return sorted(
        (int(path.name) for path in folder.iterdir() if path.name.isdigit()), reverse=True
    )


def read(folder: pathlib.Path, step: int) -> Saved:
    """The checkpoint of one step, every checksum verified; nothing is written.

    Raises Damaged where a file is missing, unreadable or changed. Anything else (memory, devices,
    permissions) is no damage and propagates.
    """
    place = pathlib.Path(folder).absolute() / str(step)
    try:
        # As it was saved, without a target: what can fail here lies in the files alone.
        meta = _reader(ocp.JsonCheckpointHandler()).restore(place / "meta")
        leaves = _reader(ocp.PyTreeCheckpointHandler()).restore(place / "state")
        sums = meta["checksums"]
        wrong = sorted(set(sums) ^ set(leaves))
        wrong += [
            name for name in leaves if name in sums and tree.checksum(leaves[name]) != sums[name]
        ]
        if wrong:
            raise Damaged(f"checksum of '{wrong[0]}' does not match")
        _check_meta(leaves, meta, step)
        if meta.get("crc", found := _meta_crc(meta)) != found:  # older checkpoints have none
            raise Damaged("checksum of its meta does not match")
    except (ValueError, KeyError, TypeError, FileNotFoundError, NotADirectoryError) as error:
        raise Damaged(first_line(error)) from None
    except OSError as error:
        raise BadInput(f"cannot read '{place}': {error.strerror or error}") from None
    return Saved(leaves, meta)


def _alone():
    """For Orbax: of several hosts, the first reads and writes, and the others do not wait for it.

    What is written is the same for any number of hosts and devices.
    """
    if not hosts.several():
        return ocp.options.MultiprocessingOptions()
    return ocp.options.MultiprocessingOptions(
        primary_host=0, active_processes={0}, barrier_sync_key_prefix="host0"
    )


def _reader(handler) -> ocp.Checkpointer:
    return ocp.Checkpointer(handler, multiprocessing_options=_alone())


def _check_meta(leaves: dict, meta: dict, step: int) -> None:
    """What is said of a state must follow from it: its step, its replicas, whether it is done."""
    running = (leaves["died_at"] < 0) & ~leaves["done"]
    said = (meta["step"], len(meta["replicas"]), bool(meta["finished"]))
    over = step >= meta["steps"] or not running.any()
    if missing := {"part", "wall_s", "log"} - set(meta):
        raise Damaged(f"its meta says no {missing.pop()}")
    if said != (step, len(running), over) or int(leaves["step"]) != step:
        raise Damaged(f"its meta says {said} of a state at step {int(leaves['step'])}")


def _meta_crc(meta: dict) -> int:
    text = json.dumps({name: meta[name] for name in meta if name != "crc"}, sort_keys=True)
    return zlib.crc32(text.encode())


def place(saved: Saved, like, rows=None, where: str = ""):
    """The state as `like` (a tree of ShapeDtypeStructs with shardings) asks for it.

    rows: replicas to take, in this order. What 8 devices saved opens on one.
    """
    named = tree.flat(like)
    if odd := sorted(set(named) ^ set(saved.leaves)):
        raise BadInput(
            f"{where} is of another model (leaf '{odd[0]}'): use a new --workdir, "
            "or the config that trained it"
        )
    found = {}
    for name, wanted in named.items():
        leaf = saved.leaves[name]
        leaf = leaf if rows is None or name == "step" else leaf[rows]
        if leaf.shape != wanted.shape or leaf.dtype != wanted.dtype:
            raise BadInput(
                f"{where} is of another model ('{name}' is {leaf.dtype}{list(leaf.shape)}, not "
                f"{wanted.dtype}{list(wanted.shape)}): use a new --workdir"
            )
        found[name] = parallel.put(leaf, wanted.sharding)
    return tree.unflat(found, like)


def open_finished(part_folder: pathlib.Path, names: list[str], step=None) -> tuple[dict, dict]:
    """Reads the replicas `names` of one trained part: (leaves [R, ...] by name, steps by replica).

    step: None opens a finished run only; "latest" any run as it stands; a number one of the steps
    that were kept. Takes no lock and writes nothing.
    """
    found, at, where = {}, {}, pathlib.Path(part_folder) / "checkpoints"
    missing = set(names)
    for group in begun(where):
        wanted = [name for name in group.replicas if name in missing]
        if not wanted:
            continue
        saved = open_group(where / group.folder, step)
        rows = {name: row for row, name in enumerate(saved.meta["replicas"])}
        for name in wanted:
            found[name] = {
                leaf: value if leaf == "step" else value[rows[name]]
                for leaf, value in saved.leaves.items()
            }
            at[name] = saved.meta["step"]
        missing -= set(wanted)
    if missing:
        raise BadInput(f"'{part_folder}' has not trained {_some(sorted(missing))}: run it first")
    stacked = {leaf: np.stack([found[name][leaf] for name in names]) for leaf in found[names[0]]}
    return stacked, at


def open_group(folder: pathlib.Path, step=None) -> Saved:
    """One group's checkpoint, `step` as of `open_finished`."""
    for _ in range(3):  # a live run may delete what was listed a moment ago
        known = steps(folder)
        if isinstance(step, int) and step not in known:
            raise BadInput(f"'{folder}' holds no step {step}: there are {known}")
        if not known:
            raise BadInput(f"'{folder}' holds no checkpoint yet: run its command first")
        wanted = step if isinstance(step, int) else known[0]
        try:
            saved = read(folder, wanted)
        except Damaged as error:
            if wanted in steps(folder):
                raise BadInput(
                    f"checkpoint {wanted} in '{folder}' is damaged ({error}): "
                    "run the same command again to go on from the one before"
                ) from None
            continue
        if step is None and not saved.meta["finished"]:
            raise BadInput(
                f"the run in '{folder.parent.parent}' is not finished: it stands at step "
                f"{wanted:,} of {saved.meta['steps']:,}; run its command again, or open it as it "
                'is with step="latest"'
            )
        return saved
    raise BadInput(f"'{folder}' changes while it is read: try again")


# --- writing --------------------------------------------------------------------------------------


class Checkpoints:
    """The checkpoints of one group, for the process that trains it."""

    def __init__(self, folder: pathlib.Path, keep: tuple[int, ...] = ()):
        self.folder = pathlib.Path(folder).absolute()
        self.keep, self.manager = keep, None

    def restore(self) -> Saved | None:
        """The newest sound checkpoint; None if nothing was saved. Damaged ones are set aside."""
        for step in steps(self.folder):
            try:
                return read(self.folder, step)
            except Damaged as error:
                log.warning("checkpoint %d is damaged (%s); trying the one before", step, error)
                self._set_aside(step)
        if any(self.folder.parent.glob(f"damaged-{self.folder.name}-*")):
            raise BadInput(
                f"no sound checkpoint is left in '{self.folder}': put back a copy, or train from "
                "the beginning with --start_anew (what is there is kept aside)"
            )
        return None

    def save(self, step: int, state, meta: dict) -> None:
        """Snapshots the state now and writes it while training goes on."""
        if hosts.several():
            state = parallel.fetch(state)  # by all, before the first host goes on alone
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
            self.manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(snapshot),
                    meta=ocp.args.JsonSave({**meta, "crc": _meta_crc(meta)}),
                ),
            )

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        stays = [policies.LatestN(2), policies.CustomSteps(list(self.keep))]
        options = ocp.CheckpointManagerOptions(
            preservation_policy=policies.AnyPreservationPolicy(stays),
            multiprocessing_options=_alone(),
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
        # Kept for inspection, under a name that is no step: a later save of the same step must not
        # find it in its way.
        target = self.folder.parent / f"damaged-{self.folder.name}-{step}"
        with workdir.disk_errors(target):
            shutil.rmtree(target, ignore_errors=True)
            os.replace(self.folder / str(step), target)


# --- groups ---------------------------------------------------------------------------------------


class Group(NamedTuple):
    """Replicas that are trained as one program, by name."""

    folder: str
    replicas: tuple[str, ...]


def group_of(names) -> Group:
    """A group of replicas; `("seed 0", "seed 1", "seed 7")` lives in "seeds_0-1_7"."""
    names = tuple(names)
    seeds = [re.fullmatch(r"seed (\d+)", name) for name in names]
    runs = []
    for seed in sorted({int(re.match(r"seed (\d+)", name)[1]) for name in names}):
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    folder = "seeds_" + "_".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
    if not all(seeds) or len(folder) > 80:
        folder = f"{folder[:60]}.{zlib.crc32(json.dumps(sorted(names)).encode()):08x}"
    return Group(folder, names)


def begun(folder: pathlib.Path) -> list[Group]:
    """The groups that training has begun with; no replica is in two of them."""
    found, seen = [], {}
    for path in sorted(folder.glob("seeds_*.json")):
        replicas = workdir.read_json(path, "put back a copy, or use --start_anew").get("replicas")
        if not isinstance(replicas, list) or not all(isinstance(name, str) for name in replicas):
            raise BadInput(f"'{path}' does not list replicas: put back a copy, or use --start_anew")
        for name in replicas:
            if name in seen:
                raise BadInput(f"{name} is in both '{seen[name]}' and '{path.name}' of '{folder}'")
            seen[name] = path.name
        found.append(Group(path.name.removesuffix(".json"), tuple(replicas)))
    return found


def begin(folder: pathlib.Path, group: Group) -> None:
    """Notes which replicas a group holds."""
    if not hosts.is_writer():
        return
    with workdir.disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    workdir.write_atomic(folder / f"{group.folder}.json", json.dumps({"replicas": group.replicas}))


def groups(folder: pathlib.Path, names) -> list[Group]:
    """Who trains with whom: the groups already begun that hold any of `names`, then the rest."""
    old = begun(folder)
    known = {name for group in old for name in group.replicas}
    rest = [name for name in names if name not in known]
    wanted = [group for group in old if set(group.replicas) & set(names)]
    return wanted + ([group_of(rest)] if rest else [])


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def abstract(state_shapes, sharding_of):
    """ShapeDtypeStructs with shardings, from the shapes of a state."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        state_shapes,
        sharding_of,
    )


# --- trained networks, read back: what `cgjax.load` returns for every family ----------------------


class Loaded(NamedTuple):
    """Networks of a run, opened for reading."""

    predict: Callable  # params, inputs -> outputs, for one replica
    params: Any  # leading axis: the replicas, in the order of the config's seeds
    config: Any
    step: np.ndarray  # [R] at which each replica stands


def read_trained(
    folder: pathlib.Path, names: list[str], step=None
) -> tuple[dict, dict, np.ndarray]:
    """(params, extra, steps) of the replicas `names` that were trained in a part's folder."""
    leaves, at = checkpoint.open_finished(folder, names, step)
    steps = np.array([at[name] for name in names])
    return tree.nested(leaves, "params"), tree.nested(leaves, "extra"), steps


def last_scores(folder: pathlib.Path, names: list[str], metric: str) -> np.ndarray:
    """What a metric was of the replicas `names` when they were last evaluated."""
    found, where = {}, pathlib.Path(folder) / "checkpoints"
    for group in checkpoint.begun(where):
        saved = checkpoint.open_group(where / group.folder)
        log = Metrics(pathlib.Path(folder) / "metrics.jsonl", group.folder, ())
        log.mark = tuple(saved.meta["log"])
        values = log.history()["eval"][metric][-1]
        found |= dict(zip(saved.meta["replicas"], values, strict=True))
    return np.array([found[name] for name in names])


def read_part(known: dict, workdir, part: str = "", step=None) -> tuple[Any, dict, np.ndarray]:
    """(config, variables, steps) of a part whose replicas are seeds; known {part: its config}."""
    name = choose(part, known, workdir)
    names = [f"seed {seed}" for seed in known[name].train.seeds]
    params, extra, steps = read_trained(pathlib.Path(workdir) / name, names, step)
    return known[name], {"params": params, **extra}, steps


def choose(part: str, parts, workdir) -> str:
    """The part that was asked for; no word is needed where there is one."""
    parts = list(parts)
    if not part and len(parts) == 1:
        return parts[0]
    if part not in parts:
        quote = "'" if any(", " in name for name in parts) else ""  # names may be of several words
        each = ", ".join(f"{quote}{name}{quote}" for name in parts)
        raise BadInput(f"'{workdir}' holds {each}: name one of them as part")
    return part
