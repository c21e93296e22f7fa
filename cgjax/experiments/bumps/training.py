"""Training of decoders: each (seed, training set, penalty) is a replica of one program."""

import functools
import itertools
import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import checkpoint, optim, parallel, program, train
from cgjax.core.errors import BadInput
from cgjax.core.replicas import Grid, with_numbers
from cgjax.data import arrays
from cgjax.experiments.bumps import models, scenes, scores, sets

# Images per forward pass outside training: some networks have large activations for each pixel.
CHUNK = 56

OF_EMBEDDINGS = ("lam_entropy", "vec_variance")
OF_FIELDS = ("nuclear", "null_axis", "rank_tail", "factor_axis")
# Along an axis that is neither the pixels' nor known to be the factors': `start` is its angle.
OF_AXES = ("fixed_axis", "learned_axis")
PENALTIES = (*OF_EMBEDDINGS, *OF_FIELDS, *OF_AXES, "start")
RELEASE = 0.5  # share of training after which a learned axis leaves its start

FIXED_RANK = ("stripes", "rank")  # keys of product fields, of which at most one is set


class Trained(NamedTuple):
    """Networks after training; first axes: seeds, cells."""

    scenes: sets.Scenes
    cells: tuple["Cell", ...]
    painted: np.ndarray  # float32 [seeds, cells, P, n, n], images at the scored points
    scores: dict  # "ood_nmse" -> [seeds, cells]
    history: dict  # "step" [m], and every score [m, seeds, cells]
    params: dict  # leaves [seeds, cells, ...]
    extra: dict

    def set_of(self, config, seed: int, cell: int) -> sets.Set:
        """The training set of one network, by indices of seed and cell."""
        return self.scenes.of(config.train.seeds[seed], self.cells[cell].combination)


class Cell(NamedTuple):
    """The settings that all seeds of one table entry share."""

    name: str  # names the settings in which it differs from the other cells of its part
    combination: tuple  # values of `Scenes.axes`
    penalty: int
    scale: float


# --- networks -------------------------------------------------------------------------------------


def network(config, scale=None):
    """The row's decoder; `config.model.<name>` holds its sizes. scale: for product fields."""
    name = config.model.name
    if name not in config.model:
        raise BadInput(
            f"model.name={name}, but the row has no sizes for it: keys model.{name}.* are missing"
        )
    sizes, starts_at = dict(config.model[name]), config.model.starts_at
    if name == "product":
        scales = sizes.pop("scales")
        sizes["scale"] = scales[0] if scale is None else scale
    if name in models.WITH_FIELDS:
        sizes["absent"] = config.data.get("stripes") == "null_stripe"
    elif starts_at == "background":
        sizes["background"] = float(sets.INVERTED[config.data.polarity])
    return models.MODELS[name](n=config.data.n, **sizes)


def has_modes(config) -> bool:
    """Whether the network behaves differently in training and evaluation."""
    name = config.model.name
    return name == "transformer" or (name == "mlp" and config.model.mlp.batch_norm)


def paint(model, params, extra, codes):
    """(images [B, n, n], activations) of one network after training."""
    return model.apply({"params": params, **extra}, codes)


# Modules compare by their fields, so all networks of one kind share one program.
@functools.partial(jax.jit, static_argnames="model")
def paint_all(model, params, extra, codes):
    """Images [B, n, n], computed in chunks of codes."""

    def image(code):
        return paint(model, params, extra, code[None])[0][0]

    return jax.lax.map(image, codes, batch_size=CHUNK)


def encode(config, xy):
    """Codes of bumps anywhere in the image; xy in pixels of the image."""
    data = config.data
    sigma = data.sigma if "sigma" in data else data.sigmas[0]
    margin = data.get("margin", 0)
    side = data.n + 2 * margin
    return scenes.encode(xy + margin, side, data.encoding, sigma, data.width_multiplier)


# --- cells ----------------------------------------------------------------------------------------


def penalties(config) -> list[dict]:
    """One dict of weights per penalty; all weights are 0 for a network without fields.

    The keys that have a weight other than 0 say how many penalties there are.
    """
    if config.model.name not in models.WITH_FIELDS:
        return [{name: 0.0 for name in PENALTIES}]
    columns = {name: config.reg[name] for name in PENALTIES}
    n = max(map(len, _used(columns).values()))
    columns |= {name: (0.0,) * n for name, weights in columns.items() if not any(weights)}
    return [dict(zip(columns, weights)) for weights in zip(*columns.values(), strict=True)]


def _used(columns: dict) -> dict:
    """The columns of weights that are not 0 throughout; all if there is none."""
    return {name: weights for name, weights in columns.items() if any(weights)} or columns


def _scales(config) -> tuple:
    return config.model.product.scales if config.model.name == "product" else (1.0,)


def _penalty_name(weights: dict) -> str:
    parts = [f"{name} {weight:g}" for name, weight in weights.items() if weight]
    return " + ".join(parts) or "no penalty"


WORDS = {
    "region": "{}",
    "copies": "stripes x{}",
    "share": "share {:g}",
    "hole": "hole {:g}",
    "bumps": "{} bumps",
}


def cells(config, axes: dict) -> tuple[Cell, ...]:
    """Every cell of the part; names list only settings that differ within the part."""
    cell_list = []
    weights, scales = penalties(config), _scales(config)
    for combination in itertools.product(*axes.values()):
        labels = [
            WORDS[name].format(value)
            for (name, values), value in zip(axes.items(), combination)
            if len(values) > 1
        ]
        for (i, weight), scale in itertools.product(enumerate(weights), scales):
            more = [_penalty_name(weight)] if len(weights) > 1 else []
            more += [f"scale {scale:g}"] if len(scales) > 1 else []
            cell_list.append(Cell(", ".join(labels + more), combination, i, scale))
    return tuple(cell_list)


def set_words(axes: dict) -> dict:
    """{combination: name} of every set; names list all settings."""
    return {
        combination: ", ".join(WORDS[name].format(v) for name, v in zip(axes, combination))
        for combination in itertools.product(*axes.values())
    }


def check(config) -> None:
    """Raises an error for combinations of keys that their ranges cannot exclude."""
    if config.model.name in models.WITH_FIELDS:
        columns = _used({name: config.reg[name] for name in PENALTIES})
        lengths = {name: len(weights) for name, weights in columns.items()}
        if any(map(any, columns.values())) and len(set(lengths.values())) > 1:
            raise BadInput(
                f"penalties are {lengths} long: all reg.* need the same number of weights"
            )
        if config.data.encoding != "onehot":
            raise BadInput(
                f"model.name={config.model.name} has a field for each value: set "
                "data.encoding=onehot"
            )
        if len(config.data.sigmas) > 1:
            raise BadInput(
                f"model.name={config.model.name} has fields for two factors: set one width "
                "in data.sigmas"
            )
        if config.model.name == "product" and any(any(config.reg[n]) for n in OF_EMBEDDINGS):
            raise BadInput("reg.lam_entropy and reg.vec_variance work with model.name=embed alone")
        if any(config.reg.learned_axis) and config.data.n <= 2 * BORDER:
            raise BadInput(
                f"reg.learned_axis needs more than {2 * BORDER} pixels along a side, "
                f"data.n={config.data.n}: its derivatives leave out {BORDER} at each border"
            )
        if config.model.name == "product" and all(config.model.product[k] for k in FIXED_RANK):
            raise BadInput("model.product.stripes are of rank one: set model.product.rank=0")
        if config.model.starts_at == "zero":
            raise BadInput(f"model.starts_at=zero: model.name={config.model.name} starts at fields")
    if config.eval.get("factors") and config.model.name != "mlp":
        raise BadInput("eval.factors works only with model.name=mlp")
    network(config)


# --- the experiment -------------------------------------------------------------------------------


def grid(config, shown: sets.Scenes) -> Grid:
    """Seeds x cells."""
    return Grid(seed=config.train.seeds, cell=range(len(cells(config, shown.axes))))


def replicas(config, shown: sets.Scenes) -> dict:
    """Seeds x cells; a seed starts from the same key in every cell."""
    _, which = sets.stacked(shown, config.train.seeds)
    combinations = list(itertools.product(*shown.axes.values()))
    networks, all_cells, weights = grid(config, shown), cells(config, shown.axes), penalties(config)
    numbers = {"scale": [cell.scale for cell in all_cells]}
    numbers |= {name: [weights[cell.penalty][name] for cell in all_cells] for name in PENALTIES}
    offsets = [np.random.default_rng(seed).uniform(0, 180) for seed in config.train.seeds]
    return (
        networks.replicas()
        | {"offset": networks.along("seed", np.float32(offsets))}
        | {"set": which[:, [combinations.index(cell.combination) for cell in all_cells]].ravel()}
        | {name: networks.along("cell", np.float32(values)) for name, values in numbers.items()}
    )


def experiment(config, shown: sets.Scenes) -> program.Experiment:
    """Squared error and penalties on minibatches of each replica's set, up to an ID criterion."""
    drawn, _ = sets.stacked(shown, config.train.seeds)
    most, model = drawn["rows"].shape[1], network(config)
    modes = has_modes(config)
    factors = {name: 1.0 for name in PENALTIES}
    if config.model.name in models.WITH_FIELDS and config.reg.per_size:
        of_values, of_vectors = size_independent(config.data.n)
        factors |= dict.fromkeys(PENALTIES, of_vectors)
        factors |= {"lam_entropy": of_values, "nuclear": of_values}
    is_used = {name: any(weights[name] for weights in penalties(config)) for name in PENALTIES}
    has_axes = any(is_used[name] for name in OF_AXES)
    bases = null_functions(config.data.n, config.data.get("degrees", 0.0))
    of_fields = {
        "nuclear": nuclear_norm,
        "null_axis": null_axis_variance,
        "rank_tail": rank_tail,
        "factor_axis": functools.partial(factor_axis_variance, bases=bases),
    }

    def forward(params, extra, codes, key, mask):
        if not modes:
            return model.apply({"params": params}, codes)[0], extra
        if "batch_stats" in extra:
            (image, _), extra = model.apply(
                {"params": params, **extra}, codes, train=True, mask=mask, mutable="batch_stats"
            )
            return image, extra
        image, _ = model.apply({"params": params}, codes, train=True, rngs={"dropout": key})
        return image, extra

    def penalty(params, replica, step):
        total, weight = 0.0, {name: factors[name] * replica[name] for name in PENALTIES}
        if any(is_used[name] for name in OF_EMBEDDINGS):
            total += embedding_penalty(params, *(weight[name] for name in OF_EMBEDDINGS))
        if any(is_used[name] for name in OF_FIELDS):
            fields = fields_of(params)
            for name in OF_FIELDS:
                total += weight[name] * of_fields[name](fields) if is_used[name] else 0.0
        if has_axes:
            fields = fields_of(params)
            is_free = (replica["learned_axis"] > 0) & (step >= RELEASE * config.train.steps)
            start = replica["start"] + replica["offset"]
            angles = [
                jnp.where(is_free, axis_of(field), jnp.radians(start + right))
                for field, right in zip(fields, (0, 90))
            ]
            total += sum(weight[name] for name in OF_AXES) * axes_variance(fields, angles)
        return total

    def fields_of(params):
        # Without the field of an absent factor: only the data determine it.
        fields = model.apply({"params": params}, method="fields")
        return [field[: config.data.n] for field in fields]

    def loss(params, extra, batch, key, step, replica):
        set_index = replica["set"]
        rows = batch["rows"][set_index][
            arrays.row_of(batch["place"], batch["count"][set_index], most)
        ]
        painted, extra = forward(params, extra, batch["codes"][rows], key, batch["mask"])
        error = squared_error(painted, batch["images"][rows], batch["mask"])
        return error + penalty(params, replica, step), (extra, {"squared_error": error})

    def evaluate(params, extra, data, key, replica):
        set_index, points = replica["set"], data["points"]
        painted = paint_all(model, params, extra, data["codes"][points])
        metrics = {}
        for region in ("id", "ood"):
            where = data[f"is_{region}"][set_index]
            every = scores.all_scores(
                data["images"][points], painted, data["place"], shown.inverted, where
            )
            metrics |= {f"{region}_{name}": value for name, value in every.items()}
        if config.model.name in models.WITH_FIELDS:
            fields = fields_of(params)
            share = stripe_share(fields)
            metrics |= {"stripe_share_x": share[0], "stripe_share_y": share[1]}
            metrics |= energy_shares(fields, bases)
            for name, field in zip("xy", fields) if has_axes else ():
                metrics[f"axis_{name}"] = jnp.degrees(axis_of(field))
        if config.eval.get("factors"):
            metrics |= layer_factorization(params, extra, data["codes"][points])
        return metrics, {}

    def layer_factorization(params, extra, codes):
        _, activations = paint(model, params, extra, codes)
        grids = (layer.reshape(config.data.n, config.data.n, -1) for layer in activations)
        return {f"F_layer_{i}": _metric(layer) for i, layer in enumerate(grids, 1)}

    def init(key, replica):
        codes = jnp.zeros((2, shown.codes.shape[1])).at[:, 0].set(1)
        variables = network(config, replica["scale"]).init(key, codes)
        return variables["params"], {k: v for k, v in variables.items() if k != "params"}

    def control(scalars, best, step, lr_scale):
        return scalars["id_nmse"] < config.optim.stop, lr_scale

    return program.Experiment(
        data={
            "images": jnp.asarray(shown.images),
            "codes": jnp.asarray(shown.codes),
            "points": jnp.asarray(shown.points),
            "place": jnp.asarray(shown.place, jnp.float32),
            **jax.tree.map(jnp.asarray, drawn),
        },
        replicas=with_numbers(
            replicas(config, shown), lr=config.optim.lr, weight_decay=config.optim.weight_decay
        ),
        init=init,
        plan=arrays.strata(most, config.data.batch),
        batch=lambda data, places, key, step: {**data, "place": places},
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.adamw(optim.constant(replica["lr"]), replica["weight_decay"]),
        headline=None,
        control=control if config.optim.stop else None,
        identity=grid(config, shown).identity,
    )


def _metric(activations: jax.Array) -> jax.Array:
    """`factorization.metric` of activations [n, n, d], in a compiled program."""
    down, right = jnp.gradient(activations, axis=(0, 1))
    along = jnp.mean(jnp.sum(down**2 + right**2, axis=-1))
    return 1 - jnp.mean(jnp.abs(jnp.sum(down * right, axis=-1))) / along


def run(config, shown: sets.Scenes, workdir: pathlib.Path, name: str = "") -> Trained:
    """Trains all networks of a part and computes their images at every scored point."""
    state, history = train.fit(experiment(config, shown), config, workdir, name)
    codes = jnp.asarray(shown.codes[shown.points])
    model = network(config)
    program = jax.jit(
        lambda networks, codes: jax.lax.map(
            lambda variables: paint_all(model, *variables, codes), networks
        )
    )
    painted = np.asarray(program((state.params, state.extra), codes))

    networks = grid(config, shown)
    record = networks.history(history["eval"])
    return Trained(
        shown,
        cells(config, shown.axes),
        networks.by_axes(painted),
        {name: values[-1] for name, values in record.items() if name != "step"},
        record,
        *networks.by_axes(parallel.fetch((state.params, state.extra))),
    )


def start(config, shown: sets.Scenes):
    """Parameters before training, leaves [seeds * cells, ...]."""
    return train.initial(experiment(config, shown), config).params


def variables_of(trained: Trained, seed: int, cell: int) -> tuple:
    """(params, extra) of one network, by indices of seed and cell."""
    variables = (trained.params, trained.extra)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[seed, cell]), variables)


def load(
    config, shown: sets.Scenes, folder: pathlib.Path, cell: str, step=None
) -> checkpoint.Loaded:
    """The networks of one cell, one per seed: `predict(params, codes [B, d])` -> images."""
    names = [one.name for one in cells(config, shown.axes)]
    place = names.index(checkpoint.choose(cell, names, folder))
    wanted = grid(config, shown).names(cell=place)
    params, extra, steps = checkpoint.read_trained(folder, wanted, step)

    def predict(params, codes):
        return network(config).apply(params, codes)[0]

    return checkpoint.Loaded(predict, {"params": params, **extra}, config, steps)


# --- losses ---------------------------------------------------------------------------------------
# The training loss: squared error plus penalties.
#
# Penalties of the embedding network act on its parameters: the entropy H of lam drives each field
# to rank one, the variance V makes one of its two vectors constant, and both together make it a
# stripe. Penalties on fields apply to any network that has fields. All penalties are sums, as
# published, and grow with the number of values; `size_independent` returns factors that cancel this
# growth.


BORDER = 4  # pixels at each border without derivatives for the axes of fields
LEAST_SHARE = 1e-8  # smallest share of a lam^2, so that its logarithm is finite


def squared_error(painted: jax.Array, truth: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Mean squared error over all pixels of images [B, n, n]; mask [B]: rows with 0 are ignored."""
    errors = jnp.mean((painted - truth) ** 2, axis=tuple(range(1, truth.ndim)))
    if mask is None:
        return jnp.mean(errors)
    return jnp.sum(mask * errors) / jnp.maximum(jnp.sum(mask), 1)


# --- penalties on parameters of the embedding network ---------------------------------------------


def entropy(lam: jax.Array) -> jax.Array:
    """H(lam) = -sum_ik p_ik log p_ik, p_ik = lam_ik^2 / sum_k lam_ik^2; lam [values, rank]."""
    share = lam**2 / jnp.sum(lam**2, axis=-1, keepdims=True)
    share = jnp.maximum(share, LEAST_SHARE)
    return -jnp.sum(share * jnp.log(share))


def vector_variance(vectors: jax.Array, axis: int) -> jax.Array:
    """V(A, axis): the unbiased variance of A along the axis, summed over all other indices."""
    return jnp.sum(jnp.var(vectors, axis=axis, ddof=1))


def embedding_penalty(params: dict, lam_entropy: float, vec_variance: float) -> jax.Array:
    """lam_entropy (H(lam_x) + H(lam_y)) + vec_variance (V(L, -2) + V(R, -1), of x and of y)."""
    total = 0.0
    for f in ("x", "y"):
        total += lam_entropy * entropy(params[f"lam_{f}"])
        total += vec_variance * vector_variance(params[f"left_{f}"], -2)
        total += vec_variance * vector_variance(params[f"right_{f}"], -1)
    return total


def size_independent(n: int, n_published: int = 32) -> tuple[float, float]:
    """Factors for lam_entropy and vec_variance that cancel their growth with n, the values.

    H is a sum over n values, V over n values and n vectors. Both factors are 1 at the published n.
    """
    return n_published / n, (n_published / n) ** 2


# --- penalties on fields --------------------------------------------------------------------------


def null_axis_variance(fields: list[jax.Array]) -> jax.Array:
    """Deviation of fields A[x], B[y] [values, n, n] from stripes.

    The variance of A over rows, where the field of x should be constant, plus the variance of B
    over columns; both are summed over all other indices.
    """
    of_x, of_y = fields
    return jnp.sum(jnp.var(of_x, axis=-2)) + jnp.sum(jnp.var(of_y, axis=-1))


def null_functions(n: int, degrees: float = 0.0) -> list[np.ndarray]:
    """Orthonormal bases [n * n, k] of the fields that are constant along the null axis of x, of y.

    degrees: angle between the axis of x and the rows of the image. The basis spans the functions of
    x (or y) that are linear between knots half a pixel apart.
    """
    rows, columns = (np.indices((n, n)) - (n - 1) / 2).reshape(2, -1)
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    bases = []
    for along in (cos * columns + sin * rows, cos * rows - sin * columns):
        knots = np.arange(-n, n + 0.1, 0.5)
        hats = np.maximum(0, 1 - np.abs(along[:, None] - knots) / 0.5)
        left, singular, _ = np.linalg.svd(hats, full_matrices=False)
        bases.append(left[:, singular > 1e-9 * singular[0]].astype(np.float32))
    return bases


def factor_axis_variance(fields: list[jax.Array], bases: list[np.ndarray]) -> jax.Array:
    """Deviation of fields [values, n, n] from fields that are constant along their null axes.

    bases: `null_functions`. At 0 degrees this is `null_axis_variance`.
    """
    total = 0.0
    for field, basis in zip(fields, bases):
        flat = field.reshape(len(field), -1)
        total += jnp.sum((flat - flat @ basis @ basis.T) ** 2) / field.shape[-1]
    return total


def axis_of(fields: jax.Array) -> jax.Array:
    """The angle in radians along which fields [values, n, n] vary most, as in `null_functions`.

    All fields share it: the first eigenvector of the sum over fields and pixels of the products of
    derivatives along columns and rows (structure tensor).
    """
    smooth, derivative = _filters(fields.shape[-1])
    along = smooth @ fields @ derivative.T
    down = derivative @ fields @ smooth.T
    return 0.5 * jnp.arctan2(2 * jnp.sum(along * down), jnp.sum(along**2) - jnp.sum(down**2))


def _filters(n: int) -> list[np.ndarray]:
    """Matrices [n - 8, n]: smoothed values, and derivatives, at BORDER or more from the ends.

    Errors of the derivative are of sixth order. With the usual two neighbours the axis of stripes
    that are a pixel wide would be wrong by up to three degrees.
    """
    third = np.array([-1, 9, -45, 0, 45, -9, 1]) / 60
    taps = np.array([0, 0, 0, 1, 2, 1, 0, 0, 0]) / 4, np.convolve(third, [1, 2, 1]) / 4
    places = np.arange(n) - np.arange(n - 2 * BORDER)[:, None]
    inside = (places >= 0) & (places < 9)
    return [np.where(inside, t[np.clip(places, 0, 8)], 0).astype(np.float32) for t in taps]


def along_lines(fields: jax.Array, angle: jax.Array) -> jax.Array:
    """The nearest fields [values, n, n] that vary along the angle (radians) only.

    The functions of `null_functions` at an angle that is known at run time: hats on knots half a
    pixel apart, whose normal equations are tridiagonal; conjugate gradients solve them.
    """
    n = fields.shape[-1]
    rows, columns = (np.indices((n, n)) - (n - 1) / 2).reshape(2, -1).astype(np.float32)
    along = jnp.cos(angle) * columns + jnp.sin(angle) * rows
    knots = np.arange(-0.75 * n, 0.75 * n + 0.1, 0.5, dtype=np.float32)
    hats = jnp.maximum(0, 1 - jnp.abs(along[:, None] - knots[None]) / 0.5)
    diagonal, beside = jnp.sum(hats**2, axis=0), jnp.sum(hats[:, 1:] * hats[:, :-1], axis=0)
    scale = jax.lax.rsqrt(diagonal + 1e-3)  # some knots have no pixel beside them
    diagonal, beside = (diagonal * scale**2)[None], (beside * scale[1:] * scale[:-1])[None]
    hats = hats * scale[None]

    def gram(c):
        neighbours = jnp.pad(c[:, 1:] * beside, ((0, 0), (0, 1)))
        return c * diagonal + neighbours + jnp.pad(c[:, :-1] * beside, ((0, 0), (1, 0)))

    def step(state, _):
        c, residual, direction, size = state
        image = gram(direction)
        slope = jnp.sum(direction * image, axis=1, keepdims=True)
        rate = jnp.where(size > least, size / jnp.where(size > least, slope, 1), 0)
        c, residual = c + rate * direction, residual - rate * image
        size, before = jnp.sum(residual**2, axis=1, keepdims=True), size
        return (c, residual, residual + size / jnp.maximum(before, 1e-30) * direction, size), None

    target = jnp.matmul(fields.reshape(len(fields), -1), hats, precision="highest")
    start = (jnp.zeros_like(target), target, target, jnp.sum(target**2, axis=1, keepdims=True))
    least = 1e-10 * start[-1]  # smaller residuals are rounding errors
    (c, *_), _ = jax.lax.scan(step, start, length=12, unroll=True)
    return jnp.matmul(c, hats.T, precision="highest").reshape(fields.shape)


def axes_variance(fields: list[jax.Array], angles: list[jax.Array]) -> jax.Array:
    """Deviation of fields from fields that vary along their angle (radians) only.

    `factor_axis_variance` at angles that are known at run time. The distance is stationary in the
    nearest such fields, so its gradient is exact although it takes them as constant.
    """
    total = 0.0
    for field, angle in zip(fields, angles):
        nearest = along_lines(jax.lax.stop_gradient(field), jax.lax.stop_gradient(angle))
        total += jnp.sum((field - nearest) ** 2) / field.shape[-1]
    return total


def rank_tail(fields: list[jax.Array]) -> jax.Array:
    """Energy of fields [values, n, n] outside their first singular component, divided by n.

    The deviation from the nearest matrix of rank one, in the units of `null_axis_variance`, which
    is the deviation from the nearest stripe. A stripe has rank one, so this is never larger.
    """
    return sum(jnp.sum((f - _first_component(f)) ** 2) / f.shape[-1] for f in fields)


def _first_component(fields: jax.Array) -> jax.Array:
    """A v v^T [..., n, n], v the first right singular vector of A; gradients take v as constant.

    The distance to A is stationary in v, so its gradient is exact. v comes from a high power of
    A^T A, which needs matrix products only: they are much faster than many small SVDs.
    """
    fixed = jax.lax.stop_gradient(fields)
    gram = jnp.matmul(fixed.mT, fixed, precision="highest")
    for _ in range(7):
        gram = gram / jnp.maximum(jnp.trace(gram, axis1=-2, axis2=-1), 1e-30)[..., None, None]
        gram = jnp.matmul(gram, gram, precision="highest")
    largest = jnp.argmax(jnp.diagonal(gram, axis1=-2, axis2=-1), axis=-1)
    v = jnp.take_along_axis(gram, largest[..., None, None], axis=-1)  # [..., n, 1]
    v = v / jnp.maximum(jnp.linalg.norm(v, axis=-2, keepdims=True), 1e-30)
    return jnp.matmul(jnp.matmul(fields, v, precision="highest"), v.mT)


def energy_shares(fields: list[jax.Array], bases: list[np.ndarray]) -> dict[str, jax.Array]:
    """Shares of all fields' energy in their first singular components and in flat fields.

    bases: `null_functions`, so that "flat" means constant along the null axis of the factor.
    """
    total = sum(jnp.sum(f**2) for f in fields)
    flat = sum(jnp.sum((f.reshape(len(f), -1) @ b) ** 2) for f, b in zip(fields, bases))
    rank_one = sum(jnp.sum(_first_component(f) ** 2) for f in fields)
    return {"rank_one_share": rank_one / total, "flat_share": flat / total}


def nuclear_norm(fields: list[jax.Array]) -> jax.Array:
    """Sum of the singular values of all fields [values, n, n], a convex proxy for their rank."""
    singular = [jnp.linalg.svd(field, compute_uv=False) for field in fields]
    return sum(jnp.sum(values) for values in singular)


def stripe_share(fields: list[jax.Array]) -> jax.Array:
    """Share [2] of the variance of the fields of x and of y that a pure stripe explains.

    The variance of a field's mean over its null axis divided by the field's variance, both summed
    over all values.
    """
    shares = []
    for field, axis in zip(fields, (-2, -1)):
        stripe = jnp.sum(jnp.var(jnp.mean(field, axis=axis), axis=-1))
        shares.append(stripe / jnp.sum(jnp.var(field, axis=(-2, -1))))
    return jnp.stack(shares)
