"""Checkpoints: Orbax, the latest two, every leaf with a checksum that is verified on restore."""

import logging
import os
import pathlib
import re
import shutil

import jax
import numpy as np
import orbax.checkpoint as ocp

from cgjax.core import parallel, tree, workdir
from cgjax.core.errors import BadInput

log = logging.getLogger("cgjax")
# Orbax narrates every save at INFO and warns of its own defaults; the run's own lines say enough.
logging.getLogger("absl").setLevel(logging.ERROR)


class Checkpoints:
    """The checkpoints of one group of replicas, newest first on restore."""

    def __init__(self, folder: pathlib.Path):
        self.folder = pathlib.Path(folder).absolute()
        with workdir.disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.manager = ocp.CheckpointManager(
                self.folder, options=ocp.CheckpointManagerOptions(max_to_keep=2)
            )

    def save(self, step: int, state, meta: dict) -> None:
        """Snapshots the state now and writes it while training goes on."""
        if step in self.manager.all_steps():
            return
        snapshot = tree.flat(parallel.fetch(state))
        sums = {name: tree.checksum(leaf) for name, leaf in snapshot.items()}
        with workdir.disk_errors(self.folder):
            self.manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(snapshot),
                    meta=ocp.args.JsonSave({**meta, "step": step, "checksums": sums}),
                ),
            )

    def finish(self) -> None:
        """Waits until the last save is on disk."""
        with workdir.disk_errors(self.folder):
            self.manager.wait_until_finished()

    def close(self) -> None:
        self.finish()
        self.manager.close()

    def restore(self, like):
        """(state, meta) of the newest sound checkpoint, laid out as `like`; None if there is none.

        `like` is a tree of ShapeDtypeStructs with shardings: what 8 devices saved opens on one.
        """
        steps = sorted(self.manager.all_steps(), reverse=True)
        for step in steps:
            try:
                return self._read(step, like)
            except BadInput:
                raise
            except Exception as error:  # Orbax and its storage layers raise whatever they like
                reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
                log.warning(
                    "checkpoint %d is damaged (%s); trying the one before", step, reason[:200]
                )
                self._set_aside(step)
        if steps:
            raise BadInput(
                f"no sound checkpoint in '{self.folder}': delete that folder to start anew"
            )
        return None

    def _read(self, step: int, like):
        named = tree.flat(like)
        args = ocp.args.Composite(
            state=ocp.args.StandardRestore(named), meta=ocp.args.JsonRestore()
        )
        meta = self.manager.restore(step, args=ocp.args.Composite(meta=args["meta"]))["meta"]
        if set(meta["checksums"]) != set(named):
            odd = sorted(set(meta["checksums"]) ^ set(named))[0]
            raise BadInput(
                f"checkpoint {step} in '{self.folder}' is of another model (leaf '{odd}'): "
                "use a new --workdir"
            )
        state = self.manager.restore(step, args=args)["state"]
        for name, leaf in parallel.fetch(state).items():
            if tree.checksum(leaf) != meta["checksums"][name]:
                raise ValueError(f"checksum of '{name}' does not match")
        return tree.unflat(state, like), meta

    def _set_aside(self, step: int) -> None:
        # Kept for inspection, under a name that Orbax does not take for a step: a later save of
        # the same step must not find it in its way.
        if parallel.is_writer():
            target = self.folder.parent / f"damaged-{self.folder.name}-{step}"
            shutil.rmtree(target, ignore_errors=True)
            os.replace(self.folder / str(step), target)
        self.manager.reload()


def group_name(seeds) -> str:
    """`(0, 1, 2, 7)` -> "seeds_0-2_7"; negative seeds do not occur."""
    runs = []
    for seed in sorted(set(int(s) for s in seeds)):
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return "seeds_" + "_".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def group_seeds(name: str) -> tuple[int, ...]:
    """Inverse of `group_name`."""
    seeds = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", name):
        seeds += range(int(first), int(last or first) + 1)
    return tuple(seeds)


def groups(folder: pathlib.Path, seeds) -> list[tuple[int, ...]]:
    """Seeds trained together: the groups already begun in `folder`, then all new seeds as one."""
    wanted = set(int(seed) for seed in np.asarray(seeds))
    begun = [group_seeds(path.name) for path in sorted(folder.glob("seeds_*"))]
    done = [group for group in begun if wanted.issuperset(group)]
    rest = sorted(wanted.difference(*done))
    return done + ([tuple(rest)] if rest else [])


def abstract(state_shapes, sharding_of):
    """ShapeDtypeStructs with shardings, from the shapes of a state."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        state_shapes,
        sharding_of,
    )
