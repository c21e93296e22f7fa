"""SimCLR on the problems of all three rules: the start of bases that have seen images before.

Of each problem the last two images are used, a rule's and the odd one. AdamW without decay, a
cosine to a fiftieth of the rate; the weights of the best validation top 5 are kept, and one network
serves all bases.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.core import optim, program, train
from cgjax.experiments.subnetworks import simclr, vision_tasks
from cgjax.experiments.subnetworks.vision import sets as vision

LAST = 50  # the rate ends at this part of the first one
TOP = 5


def images(config) -> dict:
    """The last two images of compositional problems of every rule."""
    own, found = config.pretraining, {}
    for part, n in (("train", own.n_train), ("val", own.n_val)):
        several = [vision.load(rule, part, "compositional", n, config.data.image_size,
                               config.data.seed) for rule in vision.RULES]  # fmt: skip
        most = max(one.palettes.shape[2] for one in several)
        colours = [np.pad(one.palettes[:, 2:], ((0, 0), (0, 0), (0, most - one.palettes.shape[2]),
                                               (0, 0))) for one in several]  # fmt: skip
        found[part] = {"maps": np.concatenate([one.maps[:, 2:] for one in several]),
                       "palettes": np.concatenate(colours)}  # fmt: skip
    return found


def experiment(config, data: dict) -> program.Experiment:
    """One network; a batch is `pretraining.batch` problems, two views of two images of each."""
    net, own, size = vision_tasks.network(config), config.pretraining, config.data.image_size
    n = len(data["train"]["maps"])
    per_epoch = n // own.batch  # the last, partial batch is dropped

    def plan(key, epoch):
        order = jax.random.permutation(key, n)[: per_epoch * own.batch]
        return order.reshape(per_epoch, own.batch), jnp.ones((per_epoch, own.batch))

    def contrast(params, some, key):
        pixels = vision.pixels(some["maps"], some["palettes"])
        return simclr.nt_xent(net.apply({"params": params}, simclr.views(key, pixels)))

    def loss(params, extra, batch, key, step, replica):
        found = contrast(params, batch["some"], key)
        return jnp.mean(found.nll), (extra, {f"top {TOP}": simclr.top(found.rank, TOP)})

    def evaluate(params, extra, data, key, replica):
        found = contrast(params, data["val"], key)
        return {"val loss": jnp.mean(found.nll), f"top {TOP}": simclr.top(found.rank, TOP)}, {}

    def tx(replica):
        rate = optim.cosine(own.lr, own.lr / LAST, own.epochs * per_epoch, 1)
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
    own = config.pretraining
    settings = config.copy_and_resolve_references()
    with settings.unlocked():
        settings.train.epochs, settings.eval.epochs = own.epochs, 1
        settings.eval.at = settings.eval.keep = settings.checkpoint.keep = ()
    per_epoch = len(data["train"]["maps"]) // own.batch
    state, _ = train.fit(
        experiment(config, data), configs.in_steps(settings, per_epoch), workdir, name
    )
    return jax.tree.map(lambda leaf: np.asarray(leaf[0]), state.best.params)
