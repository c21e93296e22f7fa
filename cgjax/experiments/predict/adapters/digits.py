"""Two digits: the right one is one of `width` labels from the left one on, which is the target."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.experiments.predict.model import (
    Data,
    Parts,
    Program,
    Subject,
    captured,
    first_head_accuracy,
    signs,
)
from cgjax.experiments.resistance import pairs
from cgjax.experiments.resistance.training import pairs as of_pairs
from cgjax.experiments.resistance.training import plane as of_plane

C = pairs.N_CLASSES


def program(config, settings) -> Program:
    """Every width; pairs of labels that training never shows are unseen, on the same images."""
    if max(settings.data.widths) == C or min(settings.data.rhos) < 1:
        raise BadInput("a pair of digits holds labels out: set data.widths below 10, data.rhos=1")
    model, members, seeds = settings.model, of_pairs.settings(settings), settings.train.seeds
    net, experiment = of_pairs.network(settings), of_pairs.experiment(settings)
    images = jax.tree.map(jnp.asarray, experiment.data["train"])
    kind = "towers" if model.towers else f"heads_{model.heads}" if model.heads > 1 else "plain"

    def layer(params, x):
        return nn.relu(captured(net, "dense_0", {"params": params}, x))

    replicas = np.arange(len(seeds) * len(members)).reshape(-1, len(members))
    subjects = []
    for i, member in enumerate(members):
        # The first label of a member is its width, if there are several.
        labels = member.name.split(", ")[len(settings.data.widths) > 1 :]
        width = int(member.numbers["width"])
        subjects.append(
            Subject(
                task=f"width_{width}",
                model="_".join([model.arch, kind, *" ".join(labels).split()]),
                rows=tuple(replicas[:, i].tolist()),
                f=of_pairs.predictor(settings),
                layer=layer,
                data=tuple(_data(config, settings, images, width, seed) for seed in seeds),
                score=first_head_accuracy,
                chance=1 / C,
                # Each of two heads needs its own digit; with one head the target needs the left.
                parts=Parts(of_pairs.INPUTS, of_plane.outputs_of(model.heads, C), centred=True),
            )
        )
    return Program(experiment, of_pairs.in_steps(settings), tuple(subjects), block="digits")


def _data(config, settings, images: pairs.Digits, width: int, seed: int) -> Data:
    is_known = np.arange(C) < width  # by the difference of the two labels
    keys = jax.random.split(jax.random.key(seed))
    sets = []
    for key, offsets, n in zip(
        keys, (is_known, ~is_known), (config.eval.n_train, config.eval.n_new)
    ):
        drawn = pairs.draw(key, images, jnp.asarray(offsets / offsets.sum(), jnp.float32), n)
        labels = signs(of_pairs.targets(settings, drawn), C)
        sets.append((drawn, pairs.network_input(images.images, drawn), labels))
    (known, x, y), (_, x_new, y_new) = sets
    factors = np.stack([np.asarray(known.y1), np.asarray(known.y2)], axis=1)
    labels = np.argwhere(np.ones((C, C)))
    asked = labels[~is_known[(labels[:, 1] - labels[:, 0]) % C]]
    return Data(x, y, factors, x, y, asked, x_new, y_new)
