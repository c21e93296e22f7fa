"""Searches for masks: all masks of all bases are replicas of one program.

A replica is (base, target, first score, learning rate, layer set, penalty, mask seed). The frozen
weights lie in `data` once and replicas index them; their parameters are scores alone. A layer set
is a number for each leaf: where it is 0 the leaf stays whole, and its scores have no gradient. The
temperature depends on the epoch, which all replicas share. Nothing is chosen while a mask is
learned: the last iterate counts.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.analysis import masks
from cgjax.core import optim, program, train, tree
from cgjax.core.errors import BadInput
from cgjax.data import arrays
from cgjax.experiments.subnetworks import ablation, odd_one_out, tasks
from cgjax.experiments.subnetworks.bases import Bases

OBJECTIVES = ("target", "target_and_chance_on_other")
IDENTITY = ("target", "s0", "lr", "layers", "penalty")


class Found(NamedTuple):
    """Masks after a search; first axis of everything: its replicas."""

    replicas: dict
    scores: dict  # accuracies and shares, by the names of `ablation.names`
    s: dict  # scores, on the device
    on: dict  # {leaf: 0 or 1 for each layer set}


def product(config, bases: Bases, n_targets: int, seeds=None) -> dict:
    """Replicas of every base, target, configuration and mask seed."""
    own = config.masks
    seeds = own.seeds if seeds is None else seeds
    axes = itertools.product(
        range(len(bases.valid)), range(n_targets), own.s0s, own.lrs, range(len(own.layers)),
        own.penalties, seeds,
    )  # fmt: skip
    names = ("base", "target", "s0", "lr", "layers", "penalty", "seed")
    return columns(bases, [dict(zip(names, values)) for values in axes])


def columns(bases: Bases, rows: list[dict]) -> dict:
    """Replicas from single ones, with the numbers that tell their bases apart."""
    kinds = {"base": int, "target": int, "layers": int, "seed": int}
    found = {name: np.array([row[name] for row in rows], kinds.get(name, np.float32))
             for name in rows[0]}  # fmt: skip
    return found | {name: np.asarray(values)[found["base"]]
                    for name, values in bases.numbers.items()}  # fmt: skip


def experiment(config, task: tasks.Task, bases: Bases, replicas: dict) -> program.Experiment:
    """Masks for `mask_<target>` under the row's objective."""
    own, n = config.masks, len(task.subroutines)
    family = masks.FAMILIES[own.family]
    sets = task.sets.rows
    per_epoch = steps_per_epoch(config, task)
    like = jax.tree.map(lambda leaf: leaf[0], bases.params)
    on = tasks.layer_sets(task, like, tuple(own.layers))
    names = tuple(targets(task))
    data = {
        "bases": cast(bases.params, on, task.dtype),
        "table": task.sets.table,
        "train": _stacked([sets["train"][name] for name in names]),
        "on": on,
        "eval": ablation.problems_of(config, task, names),
    }
    if own.objective != "target":
        data["other"] = _stacked([sets["train"][f"test_{i}"] for i in range(n)])

    def init(key, replica):
        return family.init(like, lambda name: name in on, replica["s0"]), {}

    def batch(data, indices, key, step):
        return {"data": data, "indices": indices, "key": key}

    def loss(params, extra, batch, key, step, replica):
        data = batch["data"]
        base, chosen = frozen(data, replica)
        beta = masks.beta_schedule(
            step // per_epoch + 1, own.epochs, own.beta_max, from_one=own.from_one
        )
        trained = family.train_mask(params, key, beta)
        network = masks.apply(base, trained, chosen)
        weights = batch["mask"] / jnp.sum(batch["mask"])

        def embedded(problems, key):
            rows, labels = odd_one_out.permuted(key, problems[batch["indices"]])
            return task.embed(network, tasks.shown(data["table"], rows)), labels

        found, labels = embedded(data["train"][replica["target"]], batch["key"])
        value = jnp.sum(weights * odd_one_out.each_loss(found, labels))
        stats = {"cross-entropy": value,
                 "accuracy": jnp.sum(weights * odd_one_out.right(found, labels))}  # fmt: skip
        for i in range(1, n if own.objective != "target" else 1):
            other = data["other"][(replica["target"] + i) % n]
            apart, _ = embedded(other, jax.random.fold_in(batch["key"], i))
            value += jnp.sum(weights * odd_one_out.from_uniform(apart)) / (n - 1)
        value += replica["penalty"] * family.penalty(params, beta, chosen)
        return value, (extra, stats)

    def evaluate(params, extra, data, key, replica):
        base, chosen = frozen(data, replica)
        found = ablation.grid(
            task, data, base, family.hard(params), chosen, replica["target"], key, own.n_draws
        )
        return found, {}

    def tx(replica):
        return optim.by_name("adam", replica["lr"]) if family.learns else optim.by_name("sgd", 0.0)

    return program.Experiment(
        data=data,
        replicas=replicas,
        init=init,
        plan=arrays.epochs(data["train"].shape[1], own.batch),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=tx,
        headline=None,
        identity=("seed", *bases.numbers, *IDENTITY),
    )


def cast(params, on: dict, dtype):
    """Weights that masks act on, in the precision of their products."""
    cast = {name: leaf.astype(dtype) if name in on else leaf
            for name, leaf in tree.flat(params).items()}  # fmt: skip
    return tree.unflat(cast, params)


def targets(task) -> list[str]:
    """The sets that masks can be trained on: one for each subroutine, then the whole rule."""
    return [*(f"mask_{i}" for i in range(len(task.subroutines))), "compositional"]


def frozen(data, replica) -> tuple:
    """(weights of the replica's base, its layer set)."""
    base = jax.tree.map(lambda leaf: leaf[replica["base"]], data["bases"])
    return base, {name: sets[replica["layers"]] for name, sets in data["on"].items()}


def _stacked(rows):
    """[sets, n, 4], as many problems of each as the smallest has."""
    least = min(map(len, rows))
    if not least:
        raise BadInput("data.n_train=0: masks need problems to be trained on")
    return np.stack([own[:least] for own in rows])


def steps_per_epoch(config, task) -> int:
    """Batches in a pass over a mask's training set."""
    sets = task.sets.rows["train"]
    least = min(len(sets[name]) for name in targets(task))
    return arrays.n_batches(least, config.masks.batch)


def in_steps(config, task):
    """The config of a search, counted in updates: it is evaluated, and saved for good, at the end.

    Base training has its own times; of them none is a search's.
    """
    settings = config.copy_and_resolve_references()
    with settings.unlocked():
        settings.train.epochs = settings.eval.epochs = config.masks.epochs
        settings.checkpoint.epochs = min(config.checkpoint.epochs, config.masks.epochs)
        settings.eval.at = settings.eval.keep = settings.checkpoint.keep = ()
    return configs.in_steps(settings, steps_per_epoch(config, task))


def run(config, task, bases: Bases, replicas: dict, workdir, name: str = "") -> Found:
    """Trains the masks of all replicas, or reads them."""
    search = experiment(config, task, bases, replicas)
    state, history = train.fit(search, in_steps(config, task), workdir, name)
    scores = {key: values[-1] for key, values in history["eval"].items() if key != "step"}
    return Found(replicas, scores, state.params, search.data["on"])
