"""The plane: X_2 predicts the target in training, and not in the square that is held out."""

import flax.linen as nn
import jax
import numpy as np

from cgjax.core import tree
from cgjax.experiments.predict.model import (
    Data,
    Parts,
    Program,
    Subject,
    captured,
    first_head_accuracy,
    signs,
    some,
)
from cgjax.experiments.resistance.training import plane as of_plane

BINS = 8  # values of each coordinate, for predictors that need values


def program(config, settings) -> Program:
    """Every start and penalty on setting A; the square that training never shows is unseen."""
    experiment, heads = of_plane.experiment(settings), settings.model.heads
    f = of_plane.predictor(settings)
    members = of_plane.settings(settings)
    replicas = np.arange(len(settings.train.seeds) * len(members)).reshape(-1, len(members))
    data = jax.tree.map(np.asarray, experiment.data)
    cases = []
    for s in range(len(settings.train.seeds)):
        points, new = (tree.take(data[name], replicas[s, 0]) for name in ("train", "test"))
        chosen = some(len(points.x), config.eval.n_train)
        x, y = points.x[chosen], targets(settings, points.y[chosen])
        # A point on the edge of the held-out square belongs to a bin that is asked.
        factors, asked = bins(x), np.argwhere(np.ones((BINS // 2, BINS // 2))) + BINS // 2
        inside = ~(factors >= BINS // 2).all(axis=1)
        x_new, y_new = new.x[: config.eval.n_new], targets(settings, new.y[: config.eval.n_new])
        cases.append(Data(x, y, factors[inside], x[inside], y[inside], asked, x_new, y_new))

    def layer(params, x):
        return hidden(settings, params, x)

    kind = "towers" if settings.model.towers else f"heads_{heads}" if heads > 1 else "plain"
    subjects = [
        Subject(
            task=f"plane_{settings.data.n_points}",
            model="_".join(
                [kind, str(settings.model.width), *member.name.replace(",", "").split()]
            ),
            rows=tuple(replicas[:, i].tolist()),
            f=f,
            layer=layer,
            data=tuple(cases),
            score=first_head_accuracy,
            chance=0.5,
            # Each of two heads needs its own coordinate; with one head the target needs X_1.
            parts=Parts(of_plane.INPUTS, of_plane.outputs_of(heads, 2), centred=True),
        )
        for i, member in enumerate(members)
    ]
    return Program(experiment, of_plane.in_steps(settings), tuple(subjects))


def bins(x) -> np.ndarray:
    """The bin of each coordinate of points [n, 2] in [-1, 1]."""
    return np.clip(np.floor((np.asarray(x) + 1) / 2 * BINS), 0, BINS - 1).astype(int)


def targets(settings, y):
    """Targets of logits: [n, 2] for one head, else [n, heads, 2]."""
    return signs(y[:, 0] if settings.model.heads == 1 else y, 2)


def hidden(settings, params, x):
    """Activations [n, units] of the last hidden layer; those of two towers are concatenated."""
    last = f"dense_{settings.model.n_hidden - 1}"
    return nn.relu(captured(of_plane.network(settings), last, {"params": params}, x))
