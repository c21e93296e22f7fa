"""Dense networks on symbols, from lazy to rich: addition, context dependence, equivalence."""

import functools

import jax.numpy as jnp
import numpy as np

from cgjax.experiments.across.pair import Look, Pair, Parts, share_missed, some, squared
from cgjax.experiments.kernels import inputs, tasks
from cgjax.experiments.kernels.dense import networks

NO_COMPOSITION = "no network of this family has the data's composition: the theorem is silent"
ALL_NEEDED = "every component is needed for the one output: none is redundant"
ONE_ROUTINE = "one output and one rule: there are no routines to tell apart"


def pair(config, settings) -> Pair:
    """One training set and one initial scale; held-out combinations are new."""
    (task,) = members = networks.members(settings)
    model = networks.network(settings)
    encoded = jnp.asarray(inputs.one_hot(task.x, task.sizes))
    y = jnp.asarray(task.y, jnp.float32)
    rows, new = (
        np.flatnonzero(which)[some(which.sum(), most)]
        for which, most in (
            (task.is_train, config.eval.n_train),
            (~task.is_train, config.eval.n_new),
        )
    )
    look = Look(encoded[rows], y[rows], encoded[new], y[new], encoded)

    def f(params, x):
        return model.apply({"params": params}, x)

    in_context = task.name.startswith("cd_")
    return Pair(
        experiment=networks.experiment(settings, members),
        settings=settings,
        rows=tuple(range(len(settings.train.seeds))),
        f=f,
        looks=(look,) * len(settings.train.seeds),
        error=share_missed,
        loss=squared,
        support=NO_COMPOSITION,
        layer=lambda params, x: networks.features(model, params, x),
        shape=task.sizes,
        parts=asked(task, rows) if in_context else ALL_NEEDED,
        routines=contexts(task, f, rows) if in_context else ONE_ROUTINE,
        join=lambda params, extra: {**extra, **params},
    )


def asked(task: tasks.Task, rows) -> Parts:
    """Labels: 0 for the inputs that the output needs, context and relevant feature; else 1."""
    components = np.repeat(np.arange(len(task.sizes)), task.sizes)
    relevant = np.array(tasks.RELEVANT)[task.x[rows, 0]]
    needed = (components == 0) | (components[None] == relevant[:, None])
    return Parts(1 - needed.astype(int), np.zeros(1, int), lambda outputs: outputs[:, None])


def contexts(task: tasks.Task, f, rows) -> dict:
    """The loss of each context alone."""

    def loss(params, look, chosen):
        return squared(look.y[chosen], f(params, look.x[chosen]))

    return {
        f"context {c}": functools.partial(loss, chosen=np.flatnonzero(task.x[rows, 0] == c))
        for c in range(task.sizes[0])
    }
