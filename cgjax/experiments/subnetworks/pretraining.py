"""SimCLR pretraining on the problems of all three rules; all bases start from one network.

It uses the last two images of each problem: one that obeys the rule, and the odd one. The optimiser
is AdamW without weight decay; a cosine schedule ends at 1/50 of the first learning rate. The
weights with the best validation top-5 accuracy are kept.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.core import optim, program, train
from cgjax.experiments.subnetworks import simclr, vision_tasks
from cgjax.experiments.subnetworks.vision import sets as vision

LAST = 50  # the learning rate ends at 1 / LAST of the first one
TOP = 5


def images(config) -> dict:
    """The last two images of compositional problems of every rule."""
    options, by_part = config.pretraining, {}
    for part, n in (("train", options.n_train), ("val", options.n_val)):
        several = [
            vision.load(rule, part, "compositional", n, config.data.image_size, config.data.seed)
            for rule in vision.RULES
        ]
        most = max(problems.palettes.shape[2] for problems in several)
        colours = [
            np.pad(
                problems.palettes[:, 2:],
                ((0, 0), (0, 0), (0, most - problems.palettes.shape[2]), (0, 0)),
            )
            for problems in several
        ]
        by_part[part] = {
            "maps": np.concatenate([problems.maps[:, 2:] for problems in several]),
            "palettes": np.concatenate(colours),
        }
    return by_part


def experiment(config, data: dict) -> program.Experiment:
    """One network; a batch is `pretraining.batch` problems, two views of two images of each."""
    net, options, size = vision_tasks.network(config), config.pretraining, config.data.image_size
    n = len(data["train"]["maps"])
    per_epoch = n // options.batch  # the last, partial batch is dropped

    def plan(key, epoch):
        order = jax.random.permutation(key, n)[: per_epoch * options.batch]
        return order.reshape(per_epoch, options.batch), jnp.ones((per_epoch, options.batch))

    def contrast(params, some, key):
        pixels = vision.pixels(some["maps"], some["palettes"])
        return simclr.nt_xent(net.apply({"params": params}, simclr.views(key, pixels)))

    def loss(params, extra, batch, key, step, replica):
        result = contrast(params, batch["some"], key)
        return jnp.mean(result.nll), (extra, {f"top {TOP}": simclr.top(result.rank, TOP)})

    def evaluate(params, extra, data, key, replica):
        result = contrast(params, data["val"], key)
        return {"val loss": jnp.mean(result.nll), f"top {TOP}": simclr.top(result.rank, TOP)}, {}

    def tx(replica):
        rate = optim.cosine(options.lr, options.lr / LAST, options.epochs * per_epoch, 1)
        return optim.adamw(rate, 0.0)

    return program.Experiment(
        data=data,
        replicas={"seed": np.array([0])},
        init=lambda key, replica: (net.init(key, jnp.zeros((1, size, size, 3)))["params"], {}),
        plan=plan,
        batch=lambda data, indices, key, step: {
            "some": jax.tree.map(lambda leaf: leaf[indices], data["train"])
        },
        loss=loss,
        evaluate=evaluate,
        tx=tx,
        headline=(f"top {TOP}", "max"),
    )


def run(config, workdir, name: str = "") -> dict:
    """Weights of the pretrained network."""
    data = images(config)
    options = config.pretraining
    settings = config.copy_and_resolve_references()
    with settings.unlocked():
        settings.train.epochs, settings.eval.epochs = options.epochs, 1
        settings.eval.at = settings.eval.keep = settings.checkpoint.keep = ()
    per_epoch = len(data["train"]["maps"]) // options.batch
    state, _ = train.fit(
        experiment(config, data), configs.in_steps(settings, per_epoch), workdir, name
    )
    return jax.tree.map(lambda leaf: np.asarray(leaf[0]), state.best.params)
