"""Networks on images that are shown together: their classes add, or one selects another."""

import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.experiments.kernels.images import networks
from cgjax.experiments.predict.adapters import kernels
from cgjax.experiments.predict.model import Data, Program, Subject, r2, some


def program(config, settings) -> Program:
    """One task at one distance; combinations off the training set are unseen, on the same images.

    Every seed has its own images and its own classes for the values.
    """
    if len(settings.data.tasks) > 1 or len(settings.data.distances) > 1:
        raise BadInput("a pair of images has one data.tasks and one data.distances")
    (task_name,), (distance,) = settings.data.tasks, settings.data.distances
    images = networks.load(settings, task_name, distance)
    in_steps, net, task = (
        networks.settings(settings, images),
        networks.network(settings),
        images.task,
    )

    def f(variables, x):
        return net.apply(variables, x)[:, None]

    def layer(variables, x):
        """The last layer before the output."""
        return net.apply(variables, x, tap=-2)

    # All seeds have the same combinations in the same order.
    rows = images.sets[0].val_1.combination
    known, unseen = (np.flatnonzero(task.is_train[rows] == trained) for trained in (True, False))
    known = known[some(len(known), config.eval.n_train)]
    unseen = unseen[some(len(unseen), config.eval.n_new)]
    y = jnp.asarray(task.y, jnp.float32)[rows, None]
    pixels, asked = jnp.asarray(images.pixels), task.x[~task.is_train]
    data = []
    for sets in images.sets:
        x, x_new = (
            networks.show(images, pixels, sets.val_1.images[chosen]) for chosen in (known, unseen)
        )
        data.append(Data(x, y[known], task.x[rows[known]], x, y[known], asked, x_new, y[unseen]))
    n_components = len(task.sizes)
    components = np.repeat(np.arange(n_components), x.shape[-1] // n_components)
    parts = kernels.needed(task, rows[known], components)
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
    return Program(
        networks.build(in_steps, images),
        in_steps,
        (subject,),
        lambda params, extra: {"params": params, **extra},
        block="images",
    )
