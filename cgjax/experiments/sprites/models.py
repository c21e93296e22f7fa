"""Renderers: components phi_k joined by a composition C, or one monolithic network.

Wiedemer et al. 2023: f_hat(z) = C(phi_hat_1(z_1), ..., phi_hat_K(z_K)).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.config import cached_by
from cgjax.core import tree
from cgjax.core.errors import BadInput, first_line
from cgjax.experiments.sprites import scenes
from cgjax.experiments.sprites.compositions import COMPOSITIONS, channels, occlude
from cgjax.nets.broadcast import BroadcastMLP, ShiftMLP
from cgjax.nets.decoders import UpsampleMLP, choose_form
from cgjax.nets.mlp import MLP
from cgjax.nets.pallas.upsample_loss import summed_loss

KINDS = ("compositional", "shared", "monolithic")
DECODERS = ("upsample", "broadcast", "shift")
DTYPES = ("float32", "bfloat16")
PRODUCTS = ("default", "float32")


class Model(NamedTuple):
    """Pure functions of (params, latents); latents are scaled, [n, 5 K]."""

    init: Callable  # key -> params
    predict: Callable  # params, z -> images [n, H, W, 3]
    slots: Callable  # params, z -> the drawing of each component, [K, n, H, W, C]
    # params, rows as `describe` returns them, weights [n], loss of colours -> its weighted sum over
    # all pixels, computed without storing images; None where the fused kernel does not apply
    summed: Callable = lambda params, rows, weights, colour_loss: None
    # step -> parameters that follow a schedule and are not trained; `join` adds them to `params`
    scheduled: Callable = lambda step: {}
    # `predict` without forward-mode derivatives, for losses and scores; None: `predict` itself
    fast_predict: Callable | None = None


def join(params, scheduled: dict):
    """All parameters that `predict` reads; `params` itself if nothing is scheduled."""
    return {**params, **scheduled} if scheduled else params


def scenes_at_once(n: int) -> int:
    """How many of n scenes, a divisor of n, a model draws at once: on a CPU, few fit its cache."""
    most = min(n, 50) if jax.default_backend() == "cpu" else n
    return next(size for size in range(most, 0, -1) if n % size == 0)


def build(config, kind: str) -> Model:
    """The model `kind` with the widths, composition and precision of the config."""
    model = _monolithic(config) if kind == "monolithic" else _compositional(config, kind)
    computes = {name: getattr(model, name) for name in ("predict", "slots", "fast_predict")}
    return model._replace(**{name: in_products(config, fn) for name, fn in computes.items()})


def in_products(config, fn: Callable) -> Callable:
    """fn with matrix products of the precision `model.products`."""
    products = config.model.get("products", "default")  # older runs have no such key
    # "default" leaves the choice to the caller, such as a context that requests float32.
    return fn if products == "default" else jax.default_matmul_precision(products)(fn)


@cached_by("model.", "data.n_slots", "data.image_size", "data.composition")
def check(config, kind: str) -> int:
    """Number of parameters of the model; BadInput if it cannot be built with these sizes."""
    model, z = build(config, kind), jnp.zeros((1, 5 * config.data.n_slots))
    try:
        params = jax.eval_shape(model.init, jax.random.key(0))
        jax.eval_shape(lambda p: model.predict(join(p, model.scheduled(0)), z), params)
    except (ValueError, TypeError) as error:
        raise BadInput(f"this {kind} model cannot be built: {first_line(error)}") from None
    return tree.size(params)


def _decoder(config, widths, n_channels: int, name: str = "upsample"):
    size, model = config.data.image_size, config.model
    shape, dtype = (size, size, n_channels), jnp.dtype(model.dtype)
    if name == "broadcast":
        ranges = tuple((low, low + wide) for low, wide in zip(scenes.LOWEST, scenes.WIDTH))
        return BroadcastMLP(shape, **model.broadcast, ranges=ranges, dtype=dtype)
    module = {"upsample": UpsampleMLP, "shift": ShiftMLP}[name]
    return module(
        out_shape=shape,
        hidden=widths.hidden,
        channels=widths.channels,
        form=model.form,
        dtype=dtype,
    )


def _monolithic(config) -> Model:
    decoder = _decoder(config, config.model.monolith, 3)
    n_latents = 5 * config.data.n_slots

    def init(key):
        return decoder.init(key, jnp.zeros((1, n_latents)))["params"]

    def predict(params, z, decoder=decoder):
        return decoder.apply({"params": params}, z)

    fast = partial(predict, decoder=_fast(decoder))
    return Model(init, predict, lambda p, z: predict(p, z)[None], fast_predict=fast)


def _fast(decoder):
    """The same decoder without forward-mode derivatives, if it is faster."""
    is_free = isinstance(decoder, UpsampleMLP) and (decoder.form, decoder.kernel) == ("auto", 2)
    on_cpu = jax.default_backend() == "cpu"
    return decoder.clone(form="stencil_vjp") if is_free and on_cpu else decoder


def _compositional(config, kind: str) -> Model:
    n_slots, composition = config.data.n_slots, composition_named(config.model.composition)
    widths = None if config.model.decoder == "broadcast" else config.model.component
    decoder = _decoder(config, widths, composition.channels, config.model.decoder)
    opens = config.model.composition == "alpha" and config.model.alpha_init == "half"

    def init_component(key):
        params = decoder.init(key, jnp.zeros((1, 5)))["params"]
        return _open_alpha(params) if opens else params

    def init_components(key):
        if kind == "shared":
            return init_component(key)
        # One network per slot, stacked: the slots train as batched matrix products.
        return jax.vmap(init_component)(jax.random.split(key, n_slots))

    def init(key):
        components = init_components(key)
        if not composition.has_parameters:
            return components
        trained = composition.init(jax.random.fold_in(key, n_slots), n_slots)
        return {"components": components, **({"composition": trained} if trained else {})}

    def slots(params, z, decoder=decoder):
        components = params["components"] if composition.has_parameters else params
        if kind == "shared":
            # Scenes stay on the leading axis, so that each device draws only the scenes it holds.
            images = decoder.apply({"params": components}, z.reshape(-1, 5))
            return jnp.moveaxis(images.reshape(len(z), n_slots, *images.shape[1:]), 1, 0)
        return jax.vmap(lambda p, z_k: decoder.apply({"params": p}, z_k))(components, _per_slot(z))

    def predict(params, z, decoder=decoder):
        of_composition = params["composition"] if composition.has_parameters else {}
        return composition.compose(of_composition, list(slots(params, z, decoder)))

    known = config.model.composition in COMPOSITIONS
    fuses = kind == "compositional" and config.model.decoder == "upsample" and known

    def summed(params, rows, weights, colour_loss):
        if not fuses or choose_form(decoder, len(weights)) != "pallas":
            return None

        def pixel(colours, row, scene, column):
            target = scenes.pixel(row, scene, column, config.data.composition)
            return jnp.sum(colour_loss(composition.compose({}, colours), target))

        stages = jax.vmap(lambda p, z_k: decoder.apply({"params": p}, z_k, stages_only=True))
        facts = scenes.facts(rows["spans"], rows["colours"])
        return summed_loss(pixel, *stages(params, _per_slot(rows["latents"])), *facts, weights)

    def scheduled(step):
        if config.model.composition != "annealed_sharpness":
            return {}
        end = config.optim.schedule_end or config.train.steps
        if end < config.train.steps:  # an extended run keeps the last value of its schedule
            step = jnp.minimum(step, end - 1)
        return {"composition": annealed(step, end, *config.model.anneal)}

    fast = partial(predict, decoder=_fast(decoder))
    return Model(init, predict, slots, summed, scheduled, fast)


def _per_slot(z):
    """Latents [n, 5 K] -> [K, n, 5]."""
    return jnp.moveaxis(z.reshape(len(z), -1, 5), 1, 0)


def _open_alpha(params):
    """Sets the bias of alpha to 0.5, inside the clip's interval, so that alpha is never dead.

    With the default initialisation alpha <= 0 everywhere in about 40 % of all draws. The clip then
    has zero value and zero gradient, and nothing trains.
    """
    last = max(name for name in params if name.startswith("conv_"))
    bias = params[last]["bias"].at[3].set(0.5)
    return {**params, last: {**params[last], "bias": bias}}


def alpha_at_initialisation(model: Model, keys, latents) -> jax.Array:
    """Share of pixels with alpha > 0 over the given scenes, one number per key: 0 means dead."""

    def share(key):
        return jnp.mean(model.slots(model.init(key), latents)[..., 3] > 0)

    return jax.lax.map(share, keys)


# --- losses ---------------------------------------------------------------------------------------


# Losses of single colours; the training loss is their mean over real rows, pixels and channels.
COLOUR_LOSSES = {
    "mse": lambda prediction, target: (prediction - target) ** 2,
    "l1": lambda prediction, target: jnp.abs(prediction - target),
}


def squared_error(prediction, target, mask):
    """Mean squared error over the batch's real rows, pixels and channels."""
    return _mean(COLOUR_LOSSES["mse"](prediction, target), mask)


def absolute_error(prediction, target, mask):
    """Mean absolute error over the batch's real rows, pixels and channels."""
    return _mean(COLOUR_LOSSES["l1"](prediction, target), mask)


def mean_loss(model: Model, params, rows, mask, name: str):
    """The loss `name` of described scenes by `Model.summed`; None where `summed` does not apply."""
    if name not in COLOUR_LOSSES:
        return None
    weights = mask / (jnp.sum(mask) * 3 * rows["spans"].shape[2] ** 2)
    return model.summed(params, rows, weights, COLOUR_LOSSES[name])


def sparsity(prediction, mask):
    """L1 norm of the predictions of the batch's real rows."""
    return jnp.sum(jnp.abs(prediction) * mask[:, None, None, None])


def objectness(prediction, mask):
    """Mean over pixel pairs of distance x intensity x intensity: small for one compact object.

    Intensity: channel sum of |prediction|, scaled to [0, 1] over the batch's real rows.
    """
    n, height, width, _ = prediction.shape
    light = jnp.sum(jnp.abs(prediction), -1).reshape(n, -1)
    is_real = mask[:, None] > 0
    low = jnp.min(light, initial=jnp.inf, where=is_real)
    high = jnp.max(light, initial=0, where=is_real)
    light = (light - low) / (high - low)
    rows, columns = jnp.divmod(jnp.arange(height * width), width)
    squared = (rows[:, None] - rows[None]) ** 2 + (columns[:, None] - columns[None]) ** 2
    pairs = jnp.einsum("np,pq,nq->n", light, jnp.sqrt(squared.astype(light.dtype)), light)
    return _mean(pairs / (height * width) ** 2, mask)


LOSSES = {
    "mse": lambda prediction, target, mask, weight: squared_error(prediction, target, mask),
    "l1": lambda prediction, target, mask, weight: absolute_error(prediction, target, mask),
    "mse_sparsity": lambda prediction, target, mask, weight: (
        squared_error(prediction, target, mask) + weight * sparsity(prediction, mask)
    ),
    "mse_objectness": lambda prediction, target, mask, weight: (
        squared_error(prediction, target, mask) + weight * objectness(prediction, mask)
    ),
}


def _mean(values, mask):
    per_row = jnp.mean(values.reshape(len(values), -1), axis=1)
    return jnp.sum(per_row * mask) / jnp.sum(mask)


# --- the record of losses -------------------------------------------------------------------------
# Training losses by epoch: their means, their largest rise, and a short curve for the record.


CURVE_POINTS = 200  # at most, of each seed


def epoch_means(losses: np.ndarray, length: int) -> np.ndarray:
    """Losses of single steps [steps, R] -> mean of each whole epoch [epochs, R]."""
    n_epochs = len(losses) // length
    return losses[: n_epochs * length].reshape(n_epochs, length, losses.shape[1]).mean(axis=1)


def largest_rise(means: np.ndarray) -> np.ndarray:
    """Mean losses by epoch [E, R] -> the largest relative rise above the least before it [R]."""
    least = np.minimum.accumulate(means, axis=0)[:-1]
    return np.max(means[1:] / least, axis=0, initial=1.0) - 1


def first_doubling(losses: np.ndarray, window: int, n_steps: int = 5) -> int:
    """The first step from which the median loss of n_steps is twice that of the window before it.

    losses [steps]; -1 where there is none.
    """
    for step in range(window, len(losses) - n_steps + 1):
        before, here = losses[step - window : step], losses[step : step + n_steps]
        if np.median(here) > 2 * np.median(before):
            return step
    return -1


def rounded(losses: np.ndarray) -> list[list[float]]:
    """Losses [n, R] -> one list a seed, four significant digits."""
    return [[float(f"{value:.4g}") for value in column] for column in np.transpose(losses)]


def recorded_curve(losses: np.ndarray, steps_each: int, steps_per_epoch: int) -> dict:
    """What a run's results keep of its logged losses [n, R], each the mean of `steps_each` steps.

    `largest_rise` compares whole epochs; it is None where logged means are longer than an epoch or
    do not divide it. `curve` has means of `curve_epochs` epochs each.
    """
    per_epoch, rest = divmod(steps_per_epoch, steps_each)
    if rest or not per_epoch:
        return {"largest_rise": None, "curve": None}
    means = epoch_means(losses, per_epoch)
    block = -(-len(means) // CURVE_POINTS) or 1
    return {
        "largest_rise": [round(float(rise), 4) for rise in largest_rise(means)]
        if len(means)
        else None,
        "curve": rounded(epoch_means(means, block)),
        "curve_epochs": block,
    }


# --- a learned composition ------------------------------------------------------------------------
# Compositions with parameters: trained together with the components, or scheduled.
#
# The theory of Wiedemer et al. 2023 takes C as known. Here C is a pixel-wise network, an occlusion
# with a trained sharpness, an attention over slots, or an occlusion that hardens on a schedule.


_PIXEL_MLP = MLP(out_shape=(3,), hidden=32, n_layers=3, activation="elu")


class Composition(NamedTuple):
    """`compose(params, slots)`, slots a sequence of [..., channels], front first -> [..., 3]."""

    compose: Callable
    channels: int = 3
    has_parameters: bool = True  # stored as params["composition"], beside params["components"]
    init: Callable = lambda key, n_slots: {}  # the trained ones among them


def _init_mlp(key, n_slots):
    return _PIXEL_MLP.init(key, jnp.zeros((1, 3 * n_slots)))["params"]


def _mlp(params, slots):
    """A network 3 K -> 32 -> 32 -> 3 on the colours of all slots at one pixel."""
    pixels = jnp.concatenate(list(slots), axis=-1)
    colours = _PIXEL_MLP.apply({"params": params}, pixels.reshape(-1, pixels.shape[-1]))
    return colours.reshape(*pixels.shape[:-1], 3)


def _sharpness(params, slots):
    """Sigmoid occlusion with a sharpness parameter, stored as its logarithm to stay positive."""
    return occlude("sigmoid", sharpness=jnp.exp(params["log_sharpness"]))(slots)


def _attention(params, slots):
    """Slots [..., RGB + score] weighted by a softmax of their scores: slots have no order."""
    slots = jnp.stack(list(slots))
    return jnp.sum(jax.nn.softmax(slots[..., 3:], axis=0) * slots[..., :3], axis=0)


LEARNED = {
    "learned_mlp": Composition(_mlp, init=_init_mlp),
    "learned_sharpness": Composition(
        _sharpness, init=lambda key, n_slots: {"log_sharpness": jnp.zeros(())}
    ),
    # Each component draws its score as one more channel: C itself has no parameters.
    "learned_attention": Composition(_attention, channels=4, has_parameters=False),
    # Its sharpness is a function of the step (`annealed`) and is not trained.
    "annealed_sharpness": Composition(_sharpness),
}

NAMES = (*COMPOSITIONS, *LEARNED)


def composition_named(name: str) -> Composition:
    """The composition `name`, known (without parameters) or learned."""
    if name in LEARNED:
        return LEARNED[name]
    fixed = COMPOSITIONS[name]
    return Composition(lambda params, slots: fixed(slots), channels(name), has_parameters=False)


def sharpness(params) -> dict:
    """`{"sharpness": value}` if the model's parameters have one, else {}."""
    of_composition = params.get("composition", {})
    if "log_sharpness" not in of_composition:
        return {}
    return {"sharpness": jnp.exp(of_composition["log_sharpness"])}


def annealed(step, steps: int, first: float, last: float) -> dict:
    """Parameters of `annealed_sharpness`: geometric from `first` to `last` over `steps`."""
    along = jnp.asarray(step, jnp.float32) / max(1, steps - 1)
    return {"log_sharpness": (1 - along) * math.log(first) + along * math.log(last)}


# --- component recovery ---------------------------------------------------------------------------


def recovery(slots_fn: Callable, params, rows: dict, batch: int) -> np.ndarray:
    """R2 of the best affine map from what each component draws to its true sprite: [R, K].

    slots_fn: params, scaled latents [n, 5 K] -> [K, n, H, W, 3 or more]; params with a leading axis
    of R seeds; rows: scenes as `describe` returns them. One map per slot, colour [3] -> colour [3],
    over all pixels that no sprite in front covers, dark ones included. A learned C may apply any
    map to the components, so a score of 1 means recovery up to an affine map.
    """

    @jax.jit
    def moments_fn(params, chunk):
        return _moments(slots_fn(params, chunk["latents"]), chunk)

    n = len(rows["latents"])
    scores = []
    for seed in range(len(jax.tree.leaves(params)[0])):
        seed_params = tree.take(params, seed)
        chunks = [tree.take(rows, slice(i, i + batch)) for i in range(0, n, batch)]
        moments = [jax.tree.map(np.float64, moments_fn(seed_params, chunk)) for chunk in chunks]
        scores.append(_affine_r2(*map(np.stack, zip(*moments))))
    return np.array(scores)


def _moments(drawn, rows):
    """Of (drawn, true) over each slot's visible pixels: count [K], mean [K, 6], scatter [K, 6, 6].

    The scatter is about the batch mean: an empty front pixel is a large negative colour, and a
    difference of large sums loses precision in float32.
    """
    moments, hidden = [], False
    for k in range(rows["colours"].shape[1]):
        sprite = scenes.paint(rows["spans"][:, k], rows["colours"][:, k], alpha=True)
        visible = jnp.where(hidden, 0.0, jnp.ones_like(sprite[..., :1])).reshape(-1, 1)
        values = jnp.concatenate([drawn[k, ..., :3], sprite[..., :3]], axis=-1).reshape(-1, 6)
        count = jnp.sum(visible)
        mean = jnp.sum(values * visible, axis=0) / count
        centred = (values - mean[None]) * visible
        moments.append((count, mean, jnp.matmul(centred.T, centred, precision="highest")))
        hidden = hidden | (sprite[..., 3:] > 0)
    return tuple(map(jnp.stack, zip(*moments)))


def _affine_r2(count, mean, scatter) -> list[float]:
    """Explained share of the true colours' variance by slot; arguments have a leading batch axis.

    A component that draws a single colour has directions without variance, so the inverse is a
    pseudo-inverse.
    """
    whole = np.einsum("bk,bki->ki", count, mean) / count.sum(0)[:, None]
    offset = mean - whole
    scatter = scatter.sum(0) + np.einsum("bk,bki,bkj->kij", count, offset, offset)
    shares = []
    for s in scatter:
        if not np.isfinite(s).all():
            shares.append(np.nan)
            continue
        inverse = np.linalg.pinv(s[:3, :3], rcond=1e-6, hermitian=True)
        shares.append(np.trace(s[3:, :3] @ inverse @ s[:3, 3:]) / np.trace(s[3:, 3:]))
    return shares
