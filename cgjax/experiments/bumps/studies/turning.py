"""The rotating digit: decoders of (cos, sin) of an angle, trained outside a gap.

In the gap, the network's images are compared with the true rotation and with cross-fades of the
gap's two edges. With several digits, only the 4 has a gap. As published, the input does not name
the digit; with `data.name_digit` it does.
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
from cgjax.experiments.bumps import models, sets
from cgjax.nets.pixel_tokens import PixelMLP

NETWORKS = {
    "rotation_cnn": models.RotationDecoder,
    "pixel_mlp": PixelMLP,
    "equivariant": models.EquivariantDecoder,
}
HELD_OUT = 4  # the digit with the gap
CHUNK = 40  # images per forward pass outside training
VALIDATION = 0.1  # share of the views outside the gap
FLOOR = 1e-6  # smallest learning rate
N_SHOWN = 20  # images in the gap that figures show
AROUND = np.arange(360.0)  # degrees at which figures show errors; layers at every third


class Views(NamedTuple):
    """Every digit at every angle, and the use of each view."""

    images: np.ndarray  # float32 [M, 28, 28]
    codes: np.ndarray  # float32 [M, d]
    degrees: np.ndarray  # [M]
    train: np.ndarray  # indices of views
    validation: np.ndarray  # indices of views
    gap: np.ndarray  # indices of views
    picture: np.ndarray  # [28, 28], the digit with the gap, upright


class Trained(NamedTuple):
    """Networks of a part after training; first axis: seeds."""

    views: Views
    painted: np.ndarray  # [seeds, M, 28, 28]
    around: np.ndarray  # [seeds, 360, 28, 28], the digit with the gap
    history: dict
    lr_scale: np.ndarray  # [seeds]
    params: dict  # batch statistics included


# --- data -----------------------------------------------------------------------------------------


def encode(config, degrees: np.ndarray, digit: int = HELD_OUT) -> np.ndarray:
    """Codes float32 [k, d] of one digit: cos and sin, then the one-hot digit if it is named."""
    code = sets.encode(degrees)
    if config.data.name_digit:
        name = np.array(config.data.digits) == digit
        code = np.concatenate([code, np.tile(name.astype(float), (len(code), 1))], axis=1)
    return code.astype(np.float32)


def make(config, source: str = "") -> Views:
    """The views of a part; source: overrides `data.image`."""
    data = config.data
    names, upright = list(data.digits), sets.load(source or data.image, data.digits)
    outside, inside = sets.angles(data.n_angles, data.gap)
    degrees = np.sort(np.concatenate([outside, inside]))
    images = np.concatenate([sets.rotated(image, degrees) for image in upright])
    codes = np.concatenate([encode(config, degrees, digit) for digit in names])
    is_gap = np.isin(np.tile(degrees, len(names)), inside)
    is_gap &= np.repeat(np.array(names) == HELD_OUT, len(degrees))
    rows = np.random.default_rng(data.seed).permutation(np.flatnonzero(~is_gap))
    n_validation = max(1, int(VALIDATION * len(rows)))
    return Views(
        images.astype(np.float32),
        codes,
        np.tile(degrees, len(names)),
        rows[n_validation:],
        rows[:n_validation],
        np.flatnonzero(is_gap),
        upright[names.index(HELD_OUT)],
    )


def check(config) -> None:
    """Raises an error for combinations of keys that their ranges cannot exclude."""
    for name, settings in parts(config):
        data, prefix = settings.data, f"part '{name}': " if name else ""
        if HELD_OUT not in data.digits:
            raise BadInput(f"{prefix}data.digits={data.digits} lacks the digit with the gap: add 4")
        if data.gap[0] >= data.gap[1]:
            raise BadInput(
                f"{prefix}data.gap={data.gap} is not an interval: the first angle must be smaller"
            )
        sets.angles(data.n_angles, data.gap)
        network(settings)


# --- networks -------------------------------------------------------------------------------------


def network(config):
    """The part's decoder; `config.model.<name>` holds its sizes."""
    name = config.model.name
    if name not in config.model:
        raise BadInput(
            f"model.name={name}, but the row has no sizes for it: keys model.{name}.* are missing"
        )
    return NETWORKS[name](**config.model[name])


def paint(config, variables: dict, codes):
    """Images [k, 28, 28] of one trained network, computed in chunks of codes."""
    model = network(config)
    return jax.lax.map(lambda c: model.apply(variables, c[None])[0][0], codes, batch_size=CHUNK)


def error(painted, images, l1):
    """MSE + l1 (0.1 in the paper) x L1 of each image [k]."""
    away = painted - images
    return jnp.mean(away**2 + l1 * jnp.abs(away), axis=(1, 2))


def control(config):
    """Halves the learning rate when the validation loss stops improving, down to a floor."""
    # PyTorch tolerates `patience` evaluations without improvement and halves at the next one.
    patience, every = config.optim.patience + 1, config.eval.every or config.train.steps
    halve = optim.plateau("validation_loss", "min", 0.5, patience, every)
    floor = min(1.0, FLOOR / config.optim.lr)

    def halve_to_floor(scalars, best, step, lr_scale):
        done, scale = halve(scalars, best, step, lr_scale)
        return done, jnp.maximum(scale, floor)

    return halve_to_floor


def experiment(config, views: Views) -> program.Experiment:
    """Minibatches of the views outside the gap; seeds are replicas."""
    model = network(config)

    def init(key, replica):
        variables = model.init(key, jnp.zeros((2, views.codes.shape[1])).at[:, 0].set(1))
        return variables.pop("params"), variables

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
        errors = error(painted(validation), data["images"][validation], replica["l1"])
        away = painted(gap) - data["images"][gap]
        return {"validation_loss": jnp.mean(errors), "gap_mse": jnp.mean(away**2)}, {}

    def batch(data, places, key, step):
        rows = data["train"][places]
        return {"codes": data["codes"][rows], "images": data["images"][rows]}

    def tx(replica):
        # The rate is the same for all replicas, because its floor in `control` has no replica.
        adamw = optim.adamw(optim.constant(config.optim.lr), replica["weight_decay"])
        return optax.chain(optax.clip_by_global_norm(replica["clip"]), adamw)

    names = ("images", "codes", "train", "validation", "gap")
    return program.Experiment(
        data={name: jnp.asarray(getattr(views, name)) for name in names},
        replicas=with_numbers(
            {"seed": np.array(config.train.seeds)},
            weight_decay=config.optim.weight_decay,
            l1=config.optim.l1,
            clip=config.optim.clip,
        ),
        init=init,
        plan=arrays.epochs(len(views.train), config.data.batch),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=tx,
        # The best validation loss controls the learning rate; results are of the last iterate.
        headline=("validation_loss", "min"),
        control=control(config),
    )


def run(config, views: Views, workdir: pathlib.Path, name: str = "") -> Trained:
    """Trains one network per seed; computes images of all views, and of the 4 at all angles."""
    state, history = train.fit(experiment(config, views), config, workdir, name)
    variables = {"params": state.params, **state.extra}
    codes = np.concatenate([views.codes, encode(config, AROUND)])
    program = jax.jit(
        lambda variables, codes: jax.lax.map(
            lambda replica: paint(config, replica, codes), variables
        )
    )
    painted = np.asarray(program(variables, jnp.asarray(codes)))
    n, scale = len(views.codes), np.asarray(state.lr_scale)
    fetched = parallel.fetch(variables)
    return Trained(views, painted[:, :n], painted[:, n:], history["eval"], scale, fetched)


# --- the study ------------------------------------------------------------------------------------


def plan(config) -> dict:
    """The size of each part's training; uses glyphs, so that no file is read."""
    return {
        name: program.training_size(experiment(settings, make(settings, "glyph")), settings)
        for name, settings in parts(config)
    }


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks of one part, one per seed: `predict(params, codes)` -> images."""
    settings, params, steps = checkpoint.read_part(dict(parts(config)), workdir, part, step)

    def predict(params, codes):
        return network(settings).apply(params, codes)[0]

    return checkpoint.Loaded(predict, params, settings, steps)


def study(config, workdir) -> tuple[dict, dict]:
    """Trains every part of the row: metrics {name: (values, seeds)}, and arrays to draw."""

    def study_part(name, settings):
        views = make(settings)
        say(
            f"{len(views.train):,} views trained, {len(views.validation):,} for validation, "
            f"{len(views.gap):,} in the gap {settings.data.gap}"
        )
        return analyse(settings, run(settings, views, pathlib.Path(workdir) / name, name), name)

    return over_parts(config, study_part)


def analyse(config, trained: Trained, name: str = "") -> tuple[dict, dict]:
    """Metrics {name: (values, seeds)} of one part, and the arrays of its figures."""
    views, gap = trained.views, config.data.gap
    is_gap = np.zeros(len(views.images), bool)
    is_gap[views.gap] = True
    errors, blank = (
        np.mean(away**2, axis=(-2, -1)) for away in (trained.painted - views.images, views.images)
    )
    values = {}
    for region, where in (("gap", is_gap), ("outside", ~is_gap)):
        values[f"{region} mse"] = errors[:, where].mean(axis=1)
        # Divided by the error of a blank image, like all nMSE of this family.
        values[f"{region} nmse"] = values[f"{region} mse"] / blank[where].mean()
    truth, degrees = views.images[views.gap], views.degrees[views.gap]
    edges = sets.rotated(views.picture, gap)
    accounts = [
        cross_fade(images[views.gap], truth, degrees, edges, gap) for images in trained.painted
    ]
    for account, field in (("cross-fade", "fade"), ("mixture", "mixture"), ("truth", "truth")):
        values[f"{account} r2"] = np.array([getattr(r2, field) for r2 in accounts])
    fade_mse = np.mean((faded(degrees, edges, gap) - truth) ** 2)
    mean = {key: np.mean(value) for key, value in values.items()}
    say(
        f"{name or config.model.name}: MSE {mean['outside mse']:.2g} outside the gap, "
        f"{mean['gap mse']:.2g} in it (the cross-fade {fade_mse:.2g}); what is painted there is "
        f"the cross-fade with R2 {mean['cross-fade r2']:.2f}, a mixture {mean['mixture r2']:.2f}, "
        f"the rotation {mean['truth r2']:.2f}"
    )
    drawn = pictures(config, trained, edges) | layers(config, trained)
    drawn["accounts"] = np.array(accounts)  # [seeds, 3]: cross-fade, mixtures, rotation
    drawn |= {f"history/{key}": value for key, value in trained.history.items()}
    seeds = list(config.train.seeds)
    return {key: (np.asarray(value, float), seeds) for key, value in values.items()}, drawn


def faded(degrees: np.ndarray, edges: np.ndarray, gap=sets.GAP) -> np.ndarray:
    """The linear cross-fade [k, ...] between the images at the gap's two edges [2, ...]."""
    share = (np.asarray(degrees, float) - gap[0]) / (gap[1] - gap[0])
    share = share.reshape(-1, *[1] * (np.ndim(edges) - 1))
    return (1 - share) * edges[:1] + share * edges[1:]


class CrossFade(NamedTuple):
    """R2 of three predictions of the images in the gap, relative to their mean image."""

    fade: float  # the pixelwise linear cross-fade between the edges
    mixture: float  # for each image, the best mixture of the two edges
    truth: float  # the true rotations


def cross_fade(
    painted: np.ndarray, truth: np.ndarray, degrees: np.ndarray, edges: np.ndarray, gap=sets.GAP
) -> CrossFade:
    """Whether images painted in the gap [k, n, m] superpose its two edges [2, n, m], or rotate."""
    painted, truth, edges = (
        np.asarray(a, float).reshape(len(a), -1) for a in (painted, truth, edges)
    )
    if painted.shape != truth.shape or len(degrees) != len(painted) or len(edges) != 2:
        raise BadInput(
            f"need one angle per image and two edges, got {painted.shape}, {truth.shape}"
        )
    fade = faded(degrees, edges, gap)
    mixture = painted @ np.linalg.pinv(edges) @ edges
    total = np.sum((painted - painted.mean(axis=0)) ** 2)
    if not total > 0:
        return CrossFade(*[float("nan")] * 3)
    accounts = (fade, mixture, truth)
    return CrossFade(*(float(1 - np.sum((painted - a) ** 2) / total) for a in accounts))


def pictures(config, trained: Trained, edges: np.ndarray) -> dict:
    """N_SHOWN images in the gap (first seed), and errors at all angles (every seed)."""
    picture, gap = trained.views.picture, config.data.gap
    degrees = np.linspace(*gap, N_SHOWN)
    nearest = np.argmin(np.abs(AROUND[:, None] - degrees), axis=0)
    degrees = AROUND[nearest]
    truth = sets.rotated(picture, AROUND)
    inside = (AROUND >= gap[0]) & (AROUND <= gap[1])
    fade = faded(AROUND[inside], edges, gap)
    return {
        "gap": np.array(gap, float),
        "shown_degrees": degrees,
        "shown_painted": trained.around[0, nearest],
        "shown_fade": faded(degrees, edges, gap),
        "shown_truth": sets.rotated(picture, degrees),
        "around_degrees": AROUND,
        "around_errors": np.mean((trained.around - truth) ** 2, axis=(-2, -1)),  # [seeds, 360]
        "fade_degrees": AROUND[inside],
        "fade_errors": np.mean((fade - truth[inside]) ** 2, axis=(-2, -1)),
        "lr_scale": trained.lr_scale,
    }


def layers(config, trained: Trained) -> dict:
    """Two principal components of every layer at each angle, for the first seed.

    They replace the paper's UMAP: they have no settings, and distances are meaningful.
    """
    degrees, model = AROUND[::3], network(config)
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), trained.params)
    apply = jax.jit(lambda variables, codes: model.apply(variables, codes)[1])
    chunks = encode(config, degrees).reshape(5, -1, trained.views.codes.shape[1])
    activations = [apply(first, jnp.asarray(codes)) for codes in chunks]
    drawn = {"layer_degrees": degrees}
    for i, layer in enumerate(zip(*activations)):
        points = np.concatenate([np.asarray(chunk) for chunk in layer])
        components = geometry.principal_components(points)
        drawn |= {f"layer_{i}": components.coordinates, f"layer_{i}_shares": components.shares}
    return drawn
