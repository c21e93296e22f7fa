"""Disjoint masks of all subroutines, learned together.

Each subroutine has a score for each weight. A weight belongs to the subroutine with the highest
score, if that score is above zero. Hard masks: m_i = 1[s_i > 0 and s_i > s_j]. Soft masks:
m_i = sigmoid(beta s_i) times sigmoid(beta (s_i - s_j)) for every other j, which converges to the
hard mask. Each mask is trained on its own set.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cgjax.analysis import masks as library
from cgjax.core import optim, program, train
from cgjax.experiments.subnetworks import odd_one_out, stages, tasks
from cgjax.experiments.subnetworks.search import ablation, training
from cgjax.experiments.subnetworks.search import table as tables


def soft(scores: list, beta) -> list:
    """Soft masks of all subroutines; scores: one tree per subroutine."""

    def mask_of(i):
        def leaf(score, *others):
            mask = jax.nn.sigmoid(beta * score)
            for other in others:
                mask = mask * jax.nn.sigmoid(beta * (score - other))
            return mask

        return jax.tree.map(leaf, scores[i], *(s for j, s in enumerate(scores) if j != i))

    return [mask_of(i) for i in range(len(scores))]


def hard(scores: list) -> list:
    """Hard masks; if the two highest scores are equal, the weight belongs to no mask."""

    def mask_of(i):
        def leaf(score, *others):
            mask = score > 0
            for other in others:
                mask = mask & (score > other)
            return mask.astype(score.dtype)

        return jax.tree.map(leaf, scores[i], *(s for j, s in enumerate(scores) if j != i))

    return [mask_of(i) for i in range(len(scores))]


def _stacked(several: list):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *several)


def experiment(config, task: tasks.Task, bases, replicas: dict) -> program.Experiment:
    """Like `searches.experiment`, but one replica holds the masks of all subroutines."""
    single = training.experiment(config, task, bases, replicas)
    settings, n = config.masks, len(task.subroutines)
    per_epoch = training.steps_per_epoch(config, task)

    def init(key, replica):
        # Noise breaks ties: a weight with equal scores belongs to no mask, and ties persist.
        s, _ = single.init(key, replica)
        vector, back = ravel_pytree(s)
        noise = 0.01 * jax.random.normal(key, (n, len(vector)))
        return {str(i): back(vector + noise[i]) for i in range(n)}, {}

    def loss(params, extra, batch, key, step, replica):
        data = batch["data"]
        base, on = training.frozen(data, replica)
        beta = library.beta_schedule(step // per_epoch + 1, settings.epochs, settings.beta_max)
        weights = batch["mask"] / jnp.sum(batch["mask"])

        def score_target(i, masks, problems):
            network = library.apply(base, masks, on)
            key = jax.random.fold_in(batch["key"], i)
            rows, labels = odd_one_out.permuted(key, problems[batch["indices"]])
            embedded = task.embed(network, tasks.shown(data["table"], rows))
            n_kept = library.kept(masks, on) * library.size(masks, on)
            value = jnp.sum(weights * odd_one_out.each_loss(embedded, labels))
            right = jnp.sum(weights * odd_one_out.right(embedded, labels))
            return value + replica["penalty"] * n_kept, right

        masks = _stacked(soft([params[str(i)] for i in range(n)], beta))
        values, right = jax.vmap(score_target)(jnp.arange(n), masks, data["train"][:n])
        return jnp.sum(values), (extra, {"accuracy": jnp.mean(right)})

    def evaluate(params, extra, data, key, replica):
        base, on = training.frozen(data, replica)

        def score_mask(target_and_masks):
            i, masks = target_and_masks
            return ablation.grid(task, data, base, masks, on, i, key, settings.n_draws)

        masks = _stacked(hard([params[str(i)] for i in range(n)]))
        scores = jax.lax.map(score_mask, (jnp.arange(n), masks))
        return {f"{i}: {name}": values[i] for name, values in scores.items() for i in range(n)}, {}

    return single._replace(
        init=init,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.by_name("adam", replica["lr"]),
    )


def run(config, part: stages.Part, workdir, name: str = "") -> dict:
    """The table of runs of disjoint masks of a part's bases."""
    replicas = training.product(config, part.bases, 1)
    state, history = train.fit(
        experiment(config, part.task, part.bases, replicas),
        training.in_steps(config, part.task),
        workdir / "joint",
        name,
    )
    last = {key: values[-1] for key, values in history["eval"].items() if key != "step"}
    n = len(part.task.subroutines)
    by_target = [_of_target(last, replicas, i) for i in range(n)]
    every = training.TrainedMasks(
        {key: np.concatenate([search.replicas[key] for search in by_target]) for key in replicas},
        {
            key: np.concatenate([search.scores[key] for search in by_target])
            for key in by_target[0].scores
        },
        state.params,
        {},
    )
    return tables.make(every, part.bases, n)


def _of_target(last, replicas, i) -> training.TrainedMasks:
    prefix = f"{i}: "
    scores = {
        key.removeprefix(prefix): values for key, values in last.items() if key.startswith(prefix)
    }
    return training.TrainedMasks(
        {**replicas, "target": np.full(len(replicas["seed"]), i)}, scores, {}, {}
    )
