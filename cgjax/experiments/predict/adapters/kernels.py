"""Adapters of the kernels family: dense networks on symbols, from lazy to rich; image networks."""

import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.experiments.kernels import dense, inputs, tasks
from cgjax.experiments.kernels import images as study
from cgjax.experiments.predict.model import Contents, Data, Parts, Program, Subject, r2, some

ALL_NEEDED = "every component is needed for the single output: none is redundant"


def program(config, settings) -> Program:
    """Every training set with every initial scale; combinations off the training set are unseen."""
    members, model = dense.members(settings), dense.network(settings)
    axes, experiment = dense.grid(settings), dense.experiment(settings, members)

    def f(params, x):
        return model.apply({"params": params}, x)[:, None]

    def layer(params, x):
        return dense.features(model, params, x)

    def make():
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
        return Contents(experiment, tuple(subjects))

    return Program(
        experiment,
        settings,
        make,
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


# --- images ---------------------------------------------------------------------------------------
# Networks on images that are shown together: their classes add, or one selects another.


def images_program(config, settings) -> Program:
    """One task at one distance; combinations off the training set are unseen, on the same images.

    Every seed has its own images and its own classes for the values.
    """
    if len(settings.data.tasks) > 1 or len(settings.data.distances) > 1:
        raise BadInput("a pair of images has one data.tasks and one data.distances")
    (task_name,), (distance,) = settings.data.tasks, settings.data.distances
    blank = study.load_images(settings, task_name, distance, labels_only=True)
    in_steps, net, task = study.in_steps(settings, blank), study.network(settings), blank.task

    def f(variables, x):
        return net.apply(variables, x)[:, None]

    def layer(variables, x):
        """The last layer before the output."""
        return net.apply(variables, x, tap=-2)

    def make():
        images = study.load_images(settings, task_name, distance)
        # All seeds have the same combinations in the same order.
        rows = images.sets[0].val_1.combination
        known, unseen = (
            np.flatnonzero(task.is_train[rows] == trained) for trained in (True, False)
        )
        known = known[some(len(known), config.eval.n_train)]
        unseen = unseen[some(len(unseen), config.eval.n_new)]
        y = jnp.asarray(task.y, jnp.float32)[rows, None]
        pixels, asked = jnp.asarray(images.pixels), task.x[~task.is_train]
        data = []
        for sets in images.sets:
            x, x_new = (
                study.show(images, pixels, sets.val_1.images[chosen]) for chosen in (known, unseen)
            )
            data.append(
                Data(x, y[known], task.x[rows[known]], x, y[known], asked, x_new, y[unseen])
            )
        n_components = len(task.sizes)
        components = np.repeat(np.arange(n_components), x.shape[-1] // n_components)
        parts = needed(task, rows[known], components)
        if not isinstance(parts, str):
            labels = np.broadcast_to(parts.inputs[:, None, None], x.shape)
            parts = parts._replace(inputs=labels)
        subject = Subject(
            task=f"{task.name}_distance_{distance}",
            model=settings.model.net,
            rows=tuple(range(len(settings.train.seeds))),
            f=f,
            layer=layer,
            data=tuple(data),
            score=r2,
            parts=parts,
        )
        return Contents(study.build(in_steps, images), (subject,))

    return Program(
        study.build(in_steps, blank),
        in_steps,
        make,
        lambda params, extra: {"params": params, **extra},
        block="images",
    )
