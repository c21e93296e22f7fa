"""SimCLR pretraining on the vision problems: two views of an image attract each other.

The loss is NT-Xent. Views are random flips, colour jitter, affine maps, rotations and conversions
to grey. All functions are pure in a key and pixels in [0, 1]. Both images of a problem share one
draw of the view.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.core import optim, program, train
from cgjax.core.errors import BadInput
from cgjax.experiments.subnetworks.vision import sets as vision
from cgjax.experiments.subnetworks.vision import tasks
from cgjax.experiments.subnetworks.vision.sets import normalised

TEMPERATURE = 0.07
WHITE = 1.0
GRAY = (0.2989, 0.587, 0.114)  # weights of the channels in the brightness


class Contrast(NamedTuple):
    """How well each of 2n views finds the other view of its image."""

    nll: jax.Array  # [2n]; the loss is their mean
    rank: jax.Array  # [2n], number of views more similar than the partner; 0 is best


def nt_xent(features: jax.Array, temperature: float = TEMPERATURE) -> Contrast:
    """Features [2n, d]: first view of all images, then the second in the same order."""
    n = features.shape[0] // 2
    norms = jnp.linalg.norm(features, axis=1, keepdims=True)
    unit = features / jnp.maximum(norms, 1e-8)
    alike = jnp.matmul(unit, unit.T, precision="highest") / temperature
    alike = jnp.where(jnp.eye(2 * n, dtype=bool), -jnp.inf, alike)
    rows = jnp.arange(2 * n)
    right = alike[rows, (rows + n) % (2 * n)]
    return Contrast(
        jax.nn.logsumexp(alike, axis=1) - right, jnp.sum(alike > right[:, None], axis=1)
    )


def top(rank: jax.Array, k: int) -> jax.Array:
    """The share of views whose partner is among the k most similar views."""
    return jnp.mean(rank < k)


# --- views ----------------------------------------------------------------------------------------


def views(key: jax.Array, pixels: jax.Array) -> jax.Array:
    """Two views of all images, ready for a network and `nt_xent`: [2 n k, H, W, 3].

    pixels: [n, k, H, W, 3] in [0, 1], the k images of a problem (the paper: its last two).
    """
    both = jax.vmap(view, in_axes=(0, None))(jax.random.split(key), pixels)
    return normalised(both).reshape(-1, *pixels.shape[2:])


def view(key: jax.Array, pixels: jax.Array) -> jax.Array:
    """One random view of each problem's images [n, k, H, W, 3], in [0, 1] without normalisation."""
    return jax.vmap(_view)(jax.random.split(key, pixels.shape[0]), pixels)


def _view(key, pixels):
    """One view of the images [k, H, W, 3] of one problem, all with the same draw."""
    flip, jitter, bend, turn, gray = jax.random.split(key, 5)
    pixels = jnp.where(jax.random.bernoulli(flip), pixels[:, :, ::-1], pixels)
    pixels = jnp.where(jax.random.bernoulli(jitter), jittered(jitter, pixels), pixels)
    pixels = jnp.where(jax.random.bernoulli(bend), _bent(bend, pixels), pixels)
    angle = jax.random.uniform(turn, minval=-90.0, maxval=90.0)
    pixels = warp(pixels, inverse_affine(angle))
    return jnp.where(jax.random.bernoulli(gray, 0.2), _brightness(pixels), pixels)


def jittered(key: jax.Array, pixels: jax.Array) -> jax.Array:
    """Contrast, then saturation, each by a factor from 0.5 to 1.5."""
    contrast, saturation = jax.random.uniform(
        jax.random.fold_in(key, 1), (2,), minval=0.5, maxval=1.5
    )
    mean = jnp.mean(_brightness(pixels), axis=(1, 2, 3), keepdims=True)
    pixels = jnp.clip(mean + contrast * (pixels - mean), 0, 1)
    gray = _brightness(pixels)
    return jnp.clip(gray + saturation * (pixels - gray), 0, 1)


def _brightness(pixels):
    return jnp.sum(pixels * jnp.array(GRAY).reshape(1, 1, 1, 3), axis=-1, keepdims=True)


def _bent(key, pixels):
    """Images rotated by up to 30 degrees, shifted by 5 %, shrunk to 90 %, sheared by 20 degrees."""
    u = jax.random.uniform(jax.random.fold_in(key, 1), (5,), minval=-1)
    shift = jnp.round(0.05 * u[1:3] * jnp.array(pixels.shape[2:0:-1]))
    inverse = inverse_affine(30 * u[0], scale=0.95 + 0.05 * u[3], shear=20 * u[4])
    return warp(pixels, inverse, shift)


def inverse_affine(angle, scale=1.0, shear=0.0) -> jax.Array:
    """The 2 x 2 matrix that maps places in the new image to places in the old one; degrees.

    The new image is the old one sheared along x, rotated and scaled about its middle.
    """
    angle, slope = jnp.deg2rad(angle), jnp.tan(jnp.deg2rad(shear))
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    rows = ((cos - slope * sin, sin + slope * cos), (-sin, cos))
    return jnp.stack([jnp.stack(row) for row in rows]) / scale


def warp(pixels: jax.Array, inverse: jax.Array, shift=0.0) -> jax.Array:
    """Images [k, H, W, 3] with the nearest old pixel at each place; white outside the old image."""
    height, width = pixels.shape[1:3]
    y, x = jnp.mgrid[:height, :width]
    middle = jnp.array([width - 1, height - 1]) / 2
    new = jnp.stack([x, y], -1).reshape(-1, 2) - middle[None] - jnp.broadcast_to(shift, (1, 2))
    old = jnp.matmul(new, inverse.T, precision="highest") + middle[None]
    old = jnp.round(old).astype(jnp.int32)
    is_there = jnp.all((old >= 0) & (old < jnp.array([[width, height]])), axis=1)
    place = jnp.where(is_there, old[:, 1] * width + old[:, 0], 0)
    nearest = pixels.reshape(pixels.shape[0], -1, 3)[:, place]
    return jnp.where(is_there[None, :, None], nearest, WHITE).reshape(pixels.shape)


# --- pretraining ----------------------------------------------------------------------------------
#
# All bases start from one network, trained on the problems of all three rules. It uses the last two
# images of each problem: one that obeys the rule, and the odd one. The optimiser is AdamW without
# weight decay; a cosine schedule ends at 1/50 of the first learning rate. The weights with the best
# validation top-5 accuracy are kept.


LAST = 50  # the learning rate ends at 1 / LAST of the first one
TOP = 5


def check(config) -> None:
    """Raises an error if the training problems of all rules do not fill a batch."""
    options = config.pretraining
    n = len(vision.RULES) * options.n_train
    if options.batch > n:
        raise BadInput(
            f"pretraining.batch={options.batch} is more than the {n} training problems of all "
            "rules: reduce it, or increase pretraining.n_train"
        )


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
    net, options, size = tasks.network(config), config.pretraining, config.data.image_size
    n = len(data["train"]["maps"])
    per_epoch = n // options.batch  # the last, partial batch is dropped

    def plan(key, epoch):
        order = jax.random.permutation(key, n)[: per_epoch * options.batch]
        return order.reshape(per_epoch, options.batch), jnp.ones((per_epoch, options.batch))

    def contrast(params, some, key):
        pixels = vision.pixels(some["maps"], some["palettes"])
        return nt_xent(net.apply({"params": params}, views(key, pixels)))

    def loss(params, extra, batch, key, step, replica):
        result = contrast(params, batch["some"], key)
        return jnp.mean(result.nll), (extra, {f"top {TOP}": top(result.rank, TOP)})

    def evaluate(params, extra, data, key, replica):
        result = contrast(params, data["val"], key)
        return {"val loss": jnp.mean(result.nll), f"top {TOP}": top(result.rank, TOP)}, {}

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
