"""Dense networks on symbols, from lazy to rich: addition, context dependence, equivalence."""

import jax.numpy as jnp
import numpy as np

from cgjax.experiments.kernels import inputs, tasks
from cgjax.experiments.kernels.dense import networks
from cgjax.experiments.predict.model import Data, Parts, Program, Subject, r2, some

ALL_NEEDED = "every component is needed for the single output: none is redundant"


def program(config, settings) -> Program:
    """Every training set with every initial scale; combinations off the training set are unseen."""
    members, model = networks.members(settings), networks.network(settings)
    axes = networks.grid(settings)

    def f(params, x):
        return model.apply({"params": params}, x)[:, None]

    def layer(params, x):
        return networks.features(model, params, x)

    replicas = np.arange(np.prod(axes.shape)).reshape(axes.shape)
    subjects = []
    for i, task in enumerate(members):
        encoded = jnp.asarray(inputs.one_hot(task.x, task.sizes))
        y = jnp.asarray(task.y, jnp.float32)[:, None]
        known, unseen = (np.flatnonzero(which) for which in (task.is_train, ~task.is_train))
        asked = task.x[unseen]
        known = known[some(len(known), config.eval.n_train)]
        unseen = unseen[some(len(unseen), config.eval.n_new)]
        x, targets = encoded[known], y[known]
        data = Data(x, targets, task.x[known], x, targets, asked, encoded[unseen], y[unseen])
        components = np.repeat(np.arange(len(task.sizes)), task.sizes)
        parts = needed(task, known, components)
        for j, scale in enumerate(settings.model.scales):
            subjects.append(
                Subject(
                    task=task.name,
                    model=f"depth_{settings.model.depth}_scale_{scale:g}",
                    rows=tuple(replicas[:, i, j].tolist()),
                    f=f,
                    layer=layer,
                    data=(data,) * len(settings.train.seeds),
                    score=r2,
                    parts=parts,
                )
            )
    return Program(
        networks.experiment(settings, members),
        settings,
        tuple(subjects),
        lambda params, extra: {**extra, **params},
    )


def needed(task: tasks.Task, rows, components) -> Parts | str:
    """Labels: 0 for the inputs that the output needs, context and relevant feature; else 1.

    rows: the combination of each input. components: which of the task's components each entry of
    an input shows.
    """
    if not task.name.startswith("cd_"):
        return ALL_NEEDED
    relevant = np.array(tasks.RELEVANT)[task.x[rows, 0]]
    is_needed = (components == 0) | (components[None] == relevant[:, None])
    return Parts(1 - is_needed.astype(int), np.zeros(1, int))
