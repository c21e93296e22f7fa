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
from cgjax.experiments.bumps import losses, models, scenes, scores
from cgjax.experiments.bumps.data import sets

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
    """One dict of weights per penalty; all weights are 0 for a network without fields."""
    if config.model.name not in models.WITH_FIELDS:
        return [{name: 0.0 for name in PENALTIES}]
    columns = [config.reg[name] for name in PENALTIES]
    return [dict(zip(PENALTIES, weights)) for weights in zip(*columns, strict=True)]


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
        lengths = {name: len(config.reg[name]) for name in PENALTIES}
        if len(set(lengths.values())) > 1:
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
        if any(config.reg.learned_axis) and config.data.n <= 2 * losses.BORDER:
            raise BadInput(
                f"reg.learned_axis needs more than {2 * losses.BORDER} pixels along a side, "
                f"data.n={config.data.n}: its derivatives leave out {losses.BORDER} at each border"
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
        of_values, of_vectors = losses.size_independent(config.data.n)
        factors |= dict.fromkeys(PENALTIES, of_vectors)
        factors |= {"lam_entropy": of_values, "nuclear": of_values}
    is_used = {name: any(weights[name] for weights in penalties(config)) for name in PENALTIES}
    has_axes = any(is_used[name] for name in OF_AXES)
    bases = losses.null_functions(config.data.n, config.data.get("degrees", 0.0))
    of_fields = {
        "nuclear": losses.nuclear_norm,
        "null_axis": losses.null_axis_variance,
        "rank_tail": losses.rank_tail,
        "factor_axis": functools.partial(losses.factor_axis_variance, bases=bases),
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
            total += losses.embedding_penalty(params, *(weight[name] for name in OF_EMBEDDINGS))
        if any(is_used[name] for name in OF_FIELDS):
            fields = fields_of(params)
            for name in OF_FIELDS:
                total += weight[name] * of_fields[name](fields) if is_used[name] else 0.0
        if has_axes:
            fields = fields_of(params)
            is_free = (replica["learned_axis"] > 0) & (step >= RELEASE * config.train.steps)
            start = replica["start"] + replica["offset"]
            angles = [
                jnp.where(is_free, losses.axis_of(field), jnp.radians(start + right))
                for field, right in zip(fields, (0, 90))
            ]
            total += sum(weight[name] for name in OF_AXES) * losses.axes_variance(fields, angles)
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
        error = losses.squared_error(painted, batch["images"][rows], batch["mask"])
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
            share = losses.stripe_share(fields)
            metrics |= {"stripe_share_x": share[0], "stripe_share_y": share[1]}
            metrics |= losses.energy_shares(fields, bases)
            for name, field in zip("xy", fields) if has_axes else ():
                metrics[f"axis_{name}"] = jnp.degrees(losses.axis_of(field))
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
