"""Searches for masks: all masks of all bases are replicas of one program.

A replica is (base, target, first score, learning rate, layer set, penalty, mask seed). `data` holds
the frozen weights once and replicas index them; only scores are trained parameters. A layer set has
a number for each leaf: with 0 the leaf is not masked and its scores have no gradient. The
temperature depends on the epoch, which all replicas share. There is no early stopping: the result
is the last iterate.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.analysis import masks
from cgjax.core import optim, program, train, tree
from cgjax.core.errors import BadInput
from cgjax.core.replicas import Grid
from cgjax.data import arrays
from cgjax.experiments.subnetworks import odd_one_out, tasks
from cgjax.experiments.subnetworks.bases import Bases
from cgjax.experiments.subnetworks.search import ablation

OBJECTIVES = ("target", "target_and_chance_on_other")
HEADS = ("annealed", "constant")
IDENTITY = ("target", "s0", "lr", "layers", "penalty")


class TrainedMasks(NamedTuple):
    """Masks after a search; first axis of everything: its replicas."""

    replicas: dict
    scores: dict  # accuracies and shares, named as in `ablation`
    s: dict  # scores, on the device
    on: dict  # {leaf: 0 or 1 for each layer set}


def product(config, bases: Bases, n_targets: int, seeds=None) -> dict:
    """Replicas of every base, target, configuration and mask seed."""
    options = config.masks
    grid = Grid(
        base=range(len(bases.valid)),
        target=range(n_targets),
        s0=options.s0s,
        lr=options.lrs,
        layers=range(len(options.layers)),
        penalty=options.penalties,
        seed=options.seeds if seeds is None else seeds,
    )
    return with_bases(bases, grid.replicas())


def columns(bases: Bases, rows: list[dict]) -> dict:
    """Replicas as arrays, from one dict per replica."""
    return with_bases(bases, {name: [row[name] for row in rows] for name in rows[0]})


def with_bases(bases: Bases, replicas: dict) -> dict:
    """The replicas' columns as arrays, and the numbers that identify their bases."""
    kinds = {"base": int, "target": int, "layers": int, "seed": int}
    replicas = {
        name: np.array(values, kinds.get(name, np.float32)) for name, values in replicas.items()
    }
    return replicas | {
        name: np.asarray(values)[replicas["base"]] for name, values in bases.numbers.items()
    }


def experiment(config, task: tasks.Task, bases: Bases, replicas: dict) -> program.Experiment:
    """Training of masks on `mask_<target>` with the row's objective."""
    options, n = config.masks, len(task.subroutines)
    family = masks.FAMILIES[options.family]
    sets = task.sets.rows
    per_epoch = steps_per_epoch(config, task)
    # Masks that learn need the shapes of the weights only. Other masks depend on the weights of
    # their own base, which then are constants of the program.
    like = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), bases.params)
    on = tasks.layer_sets(task, like, tuple(options.layers))
    is_constant = options.get("head", "annealed") == "constant"
    heads = {name for name in on if is_constant and name.startswith("head/")}
    names = tuple(targets(task))
    data = {
        "bases": cast(bases.params, on, task.dtype),
        "table": task.sets.table,
        "train": _stacked([sets["train"][name] for name in names]),
        "on": on,
        "eval": ablation.problems_of(config, task, names),
    }
    if options.objective != "target":
        data["other"] = _stacked([sets["train"][f"test_{i}"] for i in range(n)])

    def init(key, replica):
        weights = like if family.learns else tree.take(bases.params, replica["base"])
        return family.init(weights, lambda name: name in on, replica["s0"]), {}

    def batch(data, indices, key, step):
        return {"data": data, "indices": indices, "key": key}

    def loss(params, extra, batch, key, step, replica):
        data = batch["data"]
        base, chosen = frozen(data, replica)
        beta = masks.beta_schedule(step // per_epoch + 1, options.epochs, options.beta_max)
        params = at_temperature_one(params, heads, beta)
        trained = family.train_mask(params, key, beta)
        network = masks.apply(base, trained, chosen)
        weights = batch["mask"] / jnp.sum(batch["mask"])

        def embedded(problems, key):
            rows, labels = odd_one_out.permuted(key, problems[batch["indices"]])
            return task.embed(network, tasks.shown(data["table"], rows)), labels

        embeddings, labels = embedded(data["train"][replica["target"]], batch["key"])
        value = jnp.sum(weights * odd_one_out.each_loss(embeddings, labels))
        stats = {
            "cross-entropy": value,
            "accuracy": jnp.sum(weights * odd_one_out.right(embeddings, labels)),
        }
        for i in range(1, n if options.objective != "target" else 1):
            other = data["other"][(replica["target"] + i) % n]
            apart, _ = embedded(other, jax.random.fold_in(batch["key"], i))
            value += jnp.sum(weights * odd_one_out.from_uniform(apart)) / (n - 1)
        value += replica["penalty"] * family.penalty(params, beta, chosen)
        return value, (extra, stats)

    def evaluate(params, extra, data, key, replica):
        base, chosen = frozen(data, replica)
        scores = ablation.grid(
            task, data, base, family.hard(params), chosen, replica["target"], key, options.n_draws
        )
        return scores, {}

    def tx(replica):
        return optim.by_name("adam", replica["lr"]) if family.learns else optim.by_name("sgd", 0.0)

    return program.Experiment(
        data=data,
        replicas=replicas,
        init=init,
        plan=arrays.epochs(data["train"].shape[1], options.batch),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=tx,
        headline=None,
        identity=("seed", *bases.numbers, *IDENTITY),
    )


def at_temperature_one(scores, names: set[str], beta):
    """Scores whose soft masks have temperature 1 in these leaves: sigmoid(beta (s / beta))."""
    if not names:
        return scores
    flat = tree.flat(scores).items()
    return tree.unflat({name: s / beta if name in names else s for name, s in flat}, scores)


def cast(params, on: dict, dtype):
    """Params with all masked leaves cast to `dtype`, the precision of matrix products."""
    cast = {
        name: leaf.astype(dtype) if name in on else leaf for name, leaf in tree.flat(params).items()
    }
    return tree.unflat(cast, params)


def targets(task) -> list[str]:
    """The sets on which masks can be trained: one per subroutine, then the whole rule."""
    return [*(f"mask_{i}" for i in range(len(task.subroutines))), "compositional"]


def frozen(data, replica) -> tuple:
    """(weights of the replica's base, its layer set)."""
    base = jax.tree.map(lambda leaf: leaf[replica["base"]], data["bases"])
    return base, {name: sets[replica["layers"]] for name, sets in data["on"].items()}


def _stacked(rows):
    """Problems [sets, n, 4]; n is the size of the smallest set."""
    least = min(map(len, rows))
    if not least:
        raise BadInput("data.n_train=0: masks need training problems; set at least 1")
    return np.stack([problems[:least] for problems in rows])


def steps_per_epoch(config, task) -> int:
    """Batches per pass over a mask's training set."""
    sets = task.sets.rows["train"]
    least = min(len(sets[name]) for name in targets(task))
    return arrays.n_batches(least, config.masks.batch)


def in_steps(config, task):
    """The config of a search in updates; it is evaluated, and saved permanently, at the end.

    The evaluation and checkpoint times of base training do not apply to searches.
    """
    settings = config.copy_and_resolve_references()
    with settings.unlocked():
        settings.train.epochs = settings.eval.epochs = config.masks.epochs
        settings.checkpoint.epochs = min(config.checkpoint.epochs, config.masks.epochs)
        settings.eval.at = settings.eval.keep = settings.checkpoint.keep = ()
    return configs.in_steps(settings, steps_per_epoch(config, task))


def run(
    config, task, bases: Bases, replicas: dict, workdir, name: str = "", ahead=None
) -> TrainedMasks:
    """Trains the masks of all replicas, or reads finished ones; ahead: as in `train.fit`."""
    search = experiment(config, task, bases, replicas)
    state, history = train.fit(search, in_steps(config, task), workdir, name, ahead)
    scores = {key: values[-1] for key, values in history["eval"].items() if key != "step"}
    return TrainedMasks(replicas, scores, state.params, search.data["on"])
