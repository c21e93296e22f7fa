"""Base models: networks trained on the whole rule, whose weights are then frozen.

Adam with a constant learning rate. The weights with the best validation loss are kept; training
stops if the loss does not improve for `optim.patience` epochs. A base is *invalid* if its accuracy
on the compositional test set is below `eval.least`: its masks are trained like all others, but
means exclude it.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.core import optim, parallel, program, train
from cgjax.core.logging import say
from cgjax.core.replicas import with_numbers
from cgjax.data import arrays
from cgjax.experiments.subnetworks import odd_one_out, tasks


class Bases(NamedTuple):
    """Frozen networks; first axis of everything: the bases."""

    params: Any
    numbers: dict  # numbers that identify a base: {"base_seed": [B]} and more
    scores: dict  # accuracies [B] on every set of the test part
    valid: np.ndarray  # bool [B]: accuracy is at least `eval.least`


def experiment(config, task: tasks.Task) -> program.Experiment:
    """Training on epochs of the compositional set; seeds are replicas."""
    rows = {"train": problems(config, task), "val": task.sets.rows["val"]["compositional"]}
    data = {"table": task.sets.table, "rows": rows}

    def batch(data, indices, key, step):
        rows, labels = odd_one_out.permuted(key, data["rows"]["train"][indices])
        return {"inputs": tasks.shown(data["table"], rows), "labels": labels}

    def loss(params, extra, batch, key, step, replica):
        embedded = task.embed(params, batch["inputs"])
        weights = batch["mask"] / jnp.sum(batch["mask"])
        value = jnp.sum(weights * odd_one_out.each_loss(embedded, batch["labels"]))
        right = jnp.sum(weights * odd_one_out.right(embedded, batch["labels"]))
        return value, (extra, {"accuracy": right})

    def evaluate(params, extra, data, key, replica):
        losses, right = tasks.answers(task, params, data["table"], data["rows"]["val"])
        return {"val loss": jnp.mean(losses), "val accuracy": jnp.mean(right)}, {}

    per_epoch = steps_per_epoch(config, task)

    def control(scalars, best, step, lr_scale):
        waited = (step - jnp.maximum(best.step, 0)) // per_epoch
        return waited >= config.optim.patience, lr_scale

    return program.Experiment(
        data=data,
        replicas=with_numbers({"seed": np.array(config.train.seeds)}, lr=config.optim.lr),
        init=lambda key, replica: (task.init(key), {}),
        plan=arrays.epochs(len(data["rows"]["train"]), config.data.batch),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.by_name("adam", replica["lr"]),
        headline=("val loss", "min"),
        control=control,
    )


def problems(config, task):
    """Training problems of bases [n, 4]: the first `data.n_base` where the row has this key."""
    return task.sets.rows["train"]["compositional"][: config.data.get("n_base")]


def steps_per_epoch(config, task) -> int:
    """Batches per pass over the training problems of bases."""
    return arrays.n_batches(len(problems(config, task)), config.data.batch)


def in_steps(config, task):
    """The config of base training, with durations in updates."""
    return configs.in_steps(config, steps_per_epoch(config, task))


def trained(config, task, workdir, name: str = "", ahead=None) -> tuple[Bases, dict]:
    """Trains the bases of a part, or reads finished ones: (bases, history).

    ahead: as in `train.fit`.
    """
    settings = in_steps(config, task)
    state, history = train.fit(experiment(config, task), settings, workdir, name, ahead)
    params = state.best.params
    base_models = scored(config, task, params, {"base_seed": np.array(config.train.seeds)})
    at = np.asarray(parallel.fetch(state.best.step)) // steps_per_epoch(config, task)
    tell(base_models, at)
    return base_models, history


def untrained(config, task) -> Bases:
    """Untrained networks, the control for masks of random weights; all count as valid."""
    numbers = {"base_seed": np.array(config.train.seeds)}
    base_models = scored(config, task, initial(config, task), numbers)
    return base_models._replace(valid=np.ones(len(config.train.seeds), bool))


def initial(config, task):
    """Untrained weights, leaves [bases, ...]."""
    return train.initial(experiment(config, task), in_steps(config, task)).params


def scored(config, task, params, numbers: dict) -> Bases:
    """Bases with their accuracies on every test set."""

    def score(params, table, rows):
        def score_base(params):
            return tasks.accuracies(task, params, table, rows)

        return jax.lax.map(score_base, params)

    score = program.jitted(score, config)
    rows = {name: set_rows for name, set_rows in task.sets.rows["test"].items() if len(set_rows)}
    scores = score(params, task.sets.table, rows)
    scores = {name: np.asarray(values, float) for name, values in scores.items()}
    valid = scores["compositional"] >= config.eval.least
    return Bases(params, numbers, scores, valid)


def tell(bases: Bases, best_epochs) -> None:
    """Prints one line for each base."""
    for i, (accuracy, is_valid, epoch) in enumerate(
        zip(bases.scores["compositional"], bases.valid, best_epochs)
    ):
        who = ", ".join(f"{name} {values[i]}" for name, values in bases.numbers.items())
        mark = "" if is_valid else ": BELOW eval.least, excluded from means"
        say(f"{who}: test accuracy {accuracy:.3f} (epoch {epoch}){mark}")
