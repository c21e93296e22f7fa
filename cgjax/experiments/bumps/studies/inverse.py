"""The inverse task: an encoder maps the image of a bump to the code of its position.

Images are positive, `image[y, x]`, and codes have x first; the original code swaps the axes of the
image (row = x). Errors of codes are also divided by the error of the best constant, the mean code
of the training set, because a bump code and a ramp have different scales.
"""

import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.config import over_parts, parts
from cgjax.core import checkpoint, optim, program, train
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.core.replicas import with_numbers
from cgjax.data import arrays
from cgjax.experiments.bumps import models, scenes, sets

READ_OFF = ("bump", "onehot", "ramp")
CHUNK = 112  # images per forward pass outside training
N_EXAMPLES = 4


class Places(NamedTuple):
    """Every place of the grid, and the training set, in which places may repeat."""

    images: np.ndarray  # float32 [P, n, n], row by row
    codes: np.ndarray  # float32 [P, d]
    xy: np.ndarray  # [P, 2]
    is_ood: np.ndarray  # bool [P]
    train: np.ndarray  # indices of places


class Trained(NamedTuple):
    """Encoders of a part after training; first axis: seeds."""

    places: Places
    read: np.ndarray  # [seeds, P, d], predicted codes
    scores: dict  # "ood_mse" -> [seeds]
    history: dict


# --- data -----------------------------------------------------------------------------------------


def make(config) -> Places:
    """The images and codes of a part."""
    data = config.data
    held_out = sets.parse(data.regions[0], data.n)[0]
    xy = scenes.centres(np.ones_like(held_out))
    is_ood = held_out[xy[:, 1], xy[:, 0]]
    rows = np.random.default_rng(data.seed).choice(np.flatnonzero(~is_ood), data.n_samples)
    images = scenes.bump(xy, data.n, data.sigma, inverted=False)
    codes = scenes.encode(xy, data.n, data.encoding, data.sigma)
    return Places(np.asarray(images, np.float32), np.asarray(codes, np.float32), xy, is_ood, rows)


def check(config) -> None:
    """Raises an error unless the region fits the image and leaves places on both sides."""
    for name, settings in parts(config):
        prefix, region = f"part '{name}': " if name else "", settings.data.regions[0]
        try:
            held_out = sets.parse(region, settings.data.n)
        except BadInput as error:
            raise BadInput(f"{prefix}{error}") from None
        if held_out.all() or not held_out.any():
            raise BadInput(
                f"{prefix}data.regions={region} leaves nothing to train on or nothing to test"
            )


# --- encoders -------------------------------------------------------------------------------------


def network(config) -> models.Encoder:
    """The part's encoder: its last layer has as many units as the code."""
    features = 2 if config.data.encoding == "ramp" else 2 * config.data.n
    return models.Encoder(features, **config.model.encoder)


def read_off(config, params, images):
    """Codes [k, d] predicted from images [k, n, n], in chunks."""
    model = network(config)

    def read_image(image):
        return model.apply({"params": params}, image[None])[0][0]

    return jax.lax.map(read_image, images, batch_size=CHUNK)


def position(codes, encoding: str):
    """Positions (x, y) [k, 2] of codes: the largest unit of each half, or a ramp's two numbers."""
    if encoding == "ramp":
        return codes
    return jnp.argmax(codes.reshape(len(codes), 2, -1), axis=2)


def scores(read, codes, xy, encoding: str, where, constant):
    """Scores over the places `where` [P]: code error, normalised code error, position error.

    constant [d]: the code whose error normalises. Accuracy: both coordinates within one pixel.
    """

    def mean(values):
        return jnp.sum(jnp.where(where, values, 0)) / jnp.sum(where)

    away = position(read, encoding) - xy
    mse = mean(jnp.mean((read - codes) ** 2, axis=1))
    return {
        "mse": mse,
        "nmse": mse / mean(jnp.mean((constant[None] - codes) ** 2, axis=1)),
        "position_error": mean(jnp.linalg.norm(away.astype(jnp.float32), axis=1)),
        "position_accuracy": mean(jnp.all(jnp.abs(away) <= 1, axis=1)),
    }


def experiment(config, places: Places) -> program.Experiment:
    """Squared error of codes on minibatches of the frame; seeds are replicas."""
    model = network(config)

    def init(key, replica):
        return model.init(key, jnp.zeros((1, config.data.n, config.data.n)))["params"], {}

    def loss(params, extra, batch, key, step, replica):
        code, _ = model.apply({"params": params}, batch["images"])
        errors = jnp.mean((code - batch["codes"]) ** 2, axis=1)
        return jnp.sum(batch["mask"] * errors) / jnp.sum(batch["mask"]), (extra, {})

    def evaluate(params, extra, data, key, replica):
        read, metrics = read_off(config, params, data["images"]), {}
        constant = jnp.mean(data["codes"][data["train"]], axis=0)
        for region, where in (("id", ~data["is_ood"]), ("ood", data["is_ood"])):
            every = scores(read, data["codes"], data["xy"], config.data.encoding, where, constant)
            metrics |= {f"{region}_{name}": value for name, value in every.items()}
        return metrics, {}

    def batch(data, rows, key, step):
        rows = data["train"][rows]
        return {"images": data["images"][rows], "codes": data["codes"][rows]}

    return program.Experiment(
        data=jax.tree.map(jnp.asarray, places._asdict()),
        replicas=with_numbers({"seed": np.array(config.train.seeds)}, lr=config.optim.lr),
        init=init,
        plan=arrays.epochs(len(places.train), config.data.batch),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.by_name("adam", replica["lr"]),
        headline=None,
    )


def run(config, places: Places, workdir: pathlib.Path, name: str = "") -> Trained:
    """Trains one encoder per seed and predicts the code of every place of the grid."""
    state, history = train.fit(experiment(config, places), config, workdir, name)
    program = jax.jit(
        lambda params, images: jax.lax.map(
            lambda replica_params: read_off(config, replica_params, images), params
        )
    )
    read = np.asarray(program(state.params, jnp.asarray(places.images)))
    record = {key: values for key, values in history["eval"].items() if key != "step"}
    return Trained(places, read, {k: v[-1] for k, v in record.items()}, history["eval"])


# --- the study ------------------------------------------------------------------------------------


def plan(config) -> dict:
    """The size of each part's training."""
    return {
        name: program.training_size(experiment(settings, make(settings)), settings)
        for name, settings in parts(config)
    }


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The encoders of one part, one per seed: `predict(params, images)` -> codes."""
    settings, params, steps = checkpoint.read_part(dict(parts(config)), workdir, part, step)

    def predict(params, images):
        return network(settings).apply(params, images)[0]

    return checkpoint.Loaded(predict, params, settings, steps)


def study(config, workdir) -> tuple[dict, dict]:
    """Trains every part of the row: metrics {name: (values, seeds)}, and arrays to draw."""

    def study_part(name, settings):
        places = make(settings)
        say(
            f"{len(places.train):,} draws of {np.sum(~places.is_ood):,} places trained, "
            f"{places.is_ood.sum():,} held out"
        )
        return analyse(settings, run(settings, places, pathlib.Path(workdir) / name, name), name)

    return over_parts(config, study_part)


def analyse(config, trained: Trained, name: str = "") -> tuple[dict, dict]:
    """Metrics {name: (values, seeds)} of one part, and the arrays of its figures."""
    places, seeds = trained.places, list(config.train.seeds)
    metrics = {
        key.replace("_", " "): (np.asarray(values, float), seeds)
        for key, values in trained.scores.items()
    }
    mean = {key: np.mean(values) for key, (values, _) in metrics.items()}
    say(
        f"{name or config.data.encoding}: ID nMSE {mean['id nmse']:.3g}, OOD nMSE "
        f"{mean['ood nmse']:.3g}; OOD position {mean['ood position error']:.2f} pixels away, "
        f"{mean['ood position accuracy']:.0%} within one"
    )
    grid = (config.data.n, config.data.n)
    errors = np.mean((trained.read - places.codes) ** 2, axis=-1).mean(axis=0)
    places_read = position(jnp.asarray(trained.read[0]), config.data.encoding)
    held_out = np.flatnonzero(places.is_ood)
    rows = np.random.default_rng(0).permutation(held_out)[
        :N_EXAMPLES
    ]  # the same examples in every run
    drawn = {
        "errors": errors.reshape(grid),  # rows before columns, mean over seeds
        "is_ood": places.is_ood.reshape(grid),
        # First seed.
        "positions": np.asarray(places_read, float),
        "xy": places.xy,
        "example_xy": places.xy[rows],
        "example_images": places.images[rows],
        "example_codes": places.codes[rows],
        "example_read": trained.read[0, rows],
        **{f"history/{key}": values for key, values in trained.history.items()},
    }
    return metrics, drawn
