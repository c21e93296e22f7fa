"""The digit that turns (section 8): decoders of (cos, sin) of an angle, trained outside a gap.

In the gap, what a network paints is held against the true rotation and against cross-fades of the
gap's two edges. Of several digits the gap is that of the 4 alone; as published the input does not
say which digit is meant, with `data.name_digit` it does.
"""

import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cgjax.analysis import geometry
from cgjax.config import over_parts, parts
from cgjax.core import checkpoint, optim, parallel, program, train
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.core.replicas import with_numbers
from cgjax.data import arrays
from cgjax.experiments.bumps import glyphs, rotation
from cgjax.nets.pixel_tokens import PixelMLP

NETWORKS = {
    "rotation_cnn": rotation.RotationDecoder,
    "pixel_mlp": PixelMLP,
    "equivariant": rotation.EquivariantDecoder,
}
HELD_OUT = 4  # the digit with the gap
CHUNK = 40  # images of one forward pass outside training
N_SHOWN = 20  # images in the gap that figures show
AROUND = np.arange(360.0)  # degrees at which errors are drawn, every third also the layers


class Views(NamedTuple):
    """Every digit at every angle, and what each view is for."""

    images: np.ndarray  # float32 [M, 28, 28]
    codes: np.ndarray  # float32 [M, d]
    degrees: np.ndarray  # [M]
    train: np.ndarray  # rows
    validation: np.ndarray
    gap: np.ndarray
    picture: np.ndarray  # [28, 28], the digit with the gap, upright


class Trained(NamedTuple):
    """Networks of a part after training; first axis: seeds."""

    views: Views
    painted: np.ndarray  # [seeds, M, 28, 28]
    around: np.ndarray  # [seeds, 360, 28, 28], the digit with the gap
    history: dict
    lr_scale: np.ndarray  # [seeds]
    params: dict  # batch statistics included


# --- what is shown --------------------------------------------------------------------------------


def encode(config, degrees: np.ndarray, digit: int = HELD_OUT) -> np.ndarray:
    """Codes float32 [k, d] of one digit: cos and sin, then the digit one-hot where it is named."""
    code = rotation.encode(degrees)
    if config.data.name_digit:
        name = np.array(config.data.digits) == digit
        code = np.concatenate([code, np.tile(name.astype(float), (len(code), 1))], axis=1)
    return code.astype(np.float32)


def make(config, source: str = "") -> Views:
    """The views of a part; source: in place of `data.image`."""
    data = config.data
    digits, found = list(data.digits), glyphs.load(source or data.image, data.digits)
    outside, inside = rotation.angles(data.n_angles, data.gap)
    degrees = np.sort(np.concatenate([outside, inside]))
    images = np.concatenate([rotation.rotated(image, degrees) for image in found])
    codes = np.concatenate([encode(config, degrees, digit) for digit in digits])
    is_gap = np.isin(np.tile(degrees, len(digits)), inside)
    is_gap &= np.repeat(np.array(digits) == HELD_OUT, len(degrees))
    rows = np.random.default_rng(data.seed).permutation(np.flatnonzero(~is_gap))
    n_validation = max(1, int(data.validation * len(rows)))
    return Views(
        images.astype(np.float32), codes, np.tile(degrees, len(digits)), rows[n_validation:],
        rows[:n_validation], np.flatnonzero(is_gap), found[digits.index(HELD_OUT)],
    )  # fmt: skip


def check(config) -> None:
    """What the keys' own ranges cannot say."""
    for name, settings in parts(config):
        data, word = settings.data, f"part '{name}': " if name else ""
        if HELD_OUT not in data.digits:
            raise BadInput(f"{word}data.digits={data.digits} lacks the digit with the gap, 4")
        if data.gap[0] >= data.gap[1]:
            raise BadInput(f"{word}data.gap={data.gap} is no interval")
        rotation.angles(data.n_angles, data.gap)
        network(settings)


# --- networks -------------------------------------------------------------------------------------


def network(config):
    """The part's decoder; `config.model.<name>` holds its sizes."""
    name = config.model.name
    if name not in config.model:
        raise BadInput(f"model.name={name}, but the row has no sizes for it, model.{name}")
    return NETWORKS[name](**config.model[name])


def paint(config, variables: dict, codes):
    """Images [k, 28, 28] of one network after training, some codes at a time."""
    model = network(config)
    return jax.lax.map(lambda c: model.apply(variables, c[None])[0][0], codes, batch_size=CHUNK)


def error(painted, images, l1):
    """MSE + l1 (0.1 in the paper) x L1 of each image [k]."""
    away = painted - images
    return jnp.mean(away**2 + l1 * jnp.abs(away), axis=(1, 2))


def control(config):
    """Halves the rate where the validation loss has found no new best, down to a floor."""
    # PyTorch's patience counts the evaluations that are forgiven: the next one halves.
    patience, every = config.optim.patience + 1, config.eval.every or config.train.steps
    halve = optim.plateau("validation_loss", "min", 0.5, patience, every)
    floor = min(1.0, config.optim.floor / config.optim.lr)

    def halve_to_floor(scalars, best, step, lr_scale):
        done, scale = halve(scalars, best, step, lr_scale)
        return done, jnp.maximum(scale, floor)

    return halve_to_floor


def experiment(config, views: Views) -> program.Experiment:
    """Mini-batches of the views outside the gap; seeds are replicas."""
    model = network(config)

    def init(key, replica):
        found = model.init(key, jnp.zeros((2, views.codes.shape[1])).at[:, 0].set(1))
        return found.pop("params"), found

    def forward(params, extra, codes, mask):
        if not extra:
            return model.apply({"params": params}, codes)[0], extra
        (painted, _), extra = model.apply(
            {"params": params, **extra}, codes, train=True, mask=mask, mutable="batch_stats"
        )
        return painted, extra

    def loss(params, extra, batch, key, step, replica):
        painted, extra = forward(params, extra, batch["codes"], batch["mask"])
        errors = error(painted, batch["images"], replica["l1"])
        return jnp.sum(batch["mask"] * errors) / jnp.sum(batch["mask"]), (extra, {})

    def evaluate(params, extra, data, key, replica):
        def painted(rows):
            return paint(config, {"params": params, **extra}, data["codes"][rows])

        validation, gap = data["validation"], data["gap"]
        found = error(painted(validation), data["images"][validation], replica["l1"])
        away = painted(gap) - data["images"][gap]
        return {"validation_loss": jnp.mean(found), "gap_mse": jnp.mean(away**2)}, {}

    def batch(data, places, key, step):
        rows = data["train"][places]
        return {"codes": data["codes"][rows], "images": data["images"][rows]}

    def tx(replica):
        # The rate stays a constant: its floor, in `control`, sees no replica.
        adamw = optim.adamw(optim.constant(config.optim.lr), replica["weight_decay"])
        return optax.chain(optax.clip_by_global_norm(replica["clip"]), adamw)

    kept = ("images", "codes", "train", "validation", "gap")
    return program.Experiment(
        data={name: jnp.asarray(getattr(views, name)) for name in kept},
        replicas=with_numbers(
            {"seed": np.array(config.train.seeds)}, weight_decay=config.optim.weight_decay,
            l1=config.optim.l1, clip=config.optim.clip,
        ),
        init=init,
        plan=arrays.epochs(len(views.train), config.data.batch),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=tx,
        # The best validation loss decides the rate; what is reported is the last iterate.
        headline=("validation_loss", "min"),
        control=control(config),
    )  # fmt: skip


def run(config, views: Views, workdir: pathlib.Path, name: str = "") -> Trained:
    """Trains one network per seed and paints every view, and the digit all around."""
    state, history = train.fit(experiment(config, views), config, workdir, name)
    variables = {"params": state.params, **state.extra}
    codes = np.concatenate([views.codes, encode(config, AROUND)])
    program = jax.jit(
        lambda variables, codes: jax.lax.map(lambda one: paint(config, one, codes), variables)
    )
    painted = np.asarray(program(variables, jnp.asarray(codes)))
    n, scale = len(views.codes), np.asarray(state.lr_scale)
    found = parallel.fetch(variables)
    return Trained(views, painted[:, :n], painted[:, n:], history["eval"], scale, found)


# --- the study ------------------------------------------------------------------------------------


def plan(config) -> dict:
    """How large each part's training is; of glyphs, for which nothing is read."""
    return {
        name: program.training_size(experiment(settings, make(settings, "glyph")), settings)
        for name, settings in parts(config)
    }


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks of one part, one for each seed: `predict(params, codes)` -> images."""
    settings, params, steps = checkpoint.read_part(dict(parts(config)), workdir, part, step)

    def predict(params, codes):
        return network(settings).apply(params, codes)[0]

    return checkpoint.Loaded(predict, params, settings, steps)


def study(config, workdir) -> tuple[dict, dict]:
    """Trains every part of the row: metrics {name: (values, seeds)}, and arrays to draw."""

    def one(name, settings):
        views = make(settings)
        say(f"{len(views.train):,} views trained, {len(views.validation):,} for validation, "
            f"{len(views.gap):,} in the gap {settings.data.gap}")  # fmt: skip
        return analyse(settings, run(settings, views, pathlib.Path(workdir) / name, name), name)

    return over_parts(config, one)


def analyse(config, trained: Trained, name: str = "") -> tuple[dict, dict]:
    """One part: metrics {name: (values, seeds)}, and what figures need."""
    views, gap = trained.views, config.data.gap
    is_gap = np.zeros(len(views.images), bool)
    is_gap[views.gap] = True
    errors, blank = (np.mean(away**2, axis=(-2, -1))
                     for away in (trained.painted - views.images, views.images))  # fmt: skip
    values = {}
    for region, where in (("gap", is_gap), ("outside", ~is_gap)):
        values[f"{region} mse"] = errors[:, where].mean(axis=1)
        # In units of a blank image's error, as all errors of this family.
        values[f"{region} nmse"] = values[f"{region} mse"] / blank[where].mean()
    truth, degrees = views.images[views.gap], views.degrees[views.gap]
    edges = rotation.rotated(views.picture, gap)
    accounts = [
        rotation.cross_fade(one[views.gap], truth, degrees, edges, gap) for one in trained.painted
    ]
    for word, field in (("cross-fade", "fade"), ("mixture", "mixture"), ("truth", "truth")):
        values[f"{word} r2"] = np.array([getattr(one, field) for one in accounts])
    fade_mse = np.mean((rotation.faded(degrees, edges, gap) - truth) ** 2)
    mean = {key: np.mean(value) for key, value in values.items()}
    say(f"{name or config.model.name}: MSE {mean['outside mse']:.2g} outside the gap, "
        f"{mean['gap mse']:.2g} in it (the cross-fade {fade_mse:.2g}); what is painted there is "
        f"the cross-fade with R2 {mean['cross-fade r2']:.2f}, a mixture {mean['mixture r2']:.2f}, "
        f"the rotation {mean['truth r2']:.2f}")  # fmt: skip
    drawn = pictures(config, trained, edges) | layers(config, trained)
    drawn["accounts"] = np.array(accounts)  # [seeds, 3]: cross-fade, mixtures, rotation
    drawn |= {f"history/{key}": value for key, value in trained.history.items()}
    seeds = list(config.train.seeds)
    return {key: (np.asarray(value, float), seeds) for key, value in values.items()}, drawn


def pictures(config, trained: Trained, edges: np.ndarray) -> dict:
    """Twenty images in the gap, of the first seed; errors all around, of every seed."""
    picture, gap = trained.views.picture, config.data.gap
    degrees = np.linspace(*gap, N_SHOWN)
    nearest = np.argmin(np.abs(AROUND[:, None] - degrees), axis=0)
    degrees = AROUND[nearest]
    truth = rotation.rotated(picture, AROUND)
    inside = (AROUND >= gap[0]) & (AROUND <= gap[1])
    fade = rotation.faded(AROUND[inside], edges, gap)
    return {
        "gap": np.array(gap, float),
        "shown_degrees": degrees,
        "shown_painted": trained.around[0, nearest],
        "shown_fade": rotation.faded(degrees, edges, gap),
        "shown_truth": rotation.rotated(picture, degrees),
        "around_degrees": AROUND,
        "around_errors": np.mean((trained.around - truth) ** 2, axis=(-2, -1)),  # [seeds, 360]
        "fade_degrees": AROUND[inside],
        "fade_errors": np.mean((fade - truth[inside]) ** 2, axis=(-2, -1)),
        "lr_scale": trained.lr_scale,
    }


def layers(config, trained: Trained) -> dict:
    """Two principal components of every layer, angle by angle, of the first seed.

    In place of the paper's UMAP: nothing to choose, and distances mean something.
    """
    degrees, model = AROUND[::3], network(config)
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), trained.params)
    apply = jax.jit(lambda variables, codes: model.apply(variables, codes)[1])
    chunks = encode(config, degrees).reshape(5, -1, trained.views.codes.shape[1])
    found = [apply(first, jnp.asarray(codes)) for codes in chunks]
    drawn = {"layer_degrees": degrees}
    for i, layer in enumerate(zip(*found)):
        points = np.concatenate([np.asarray(chunk) for chunk in layer])
        components = geometry.principal_components(points)
        drawn |= {f"layer_{i}": components.coordinates, f"layer_{i}_shares": components.shares}
    return drawn
