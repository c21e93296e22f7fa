"""Networks on pairs of digits: setting A, setting B, and all doses and widths between them.

Training samples are fresh at every step. A seed fixes the initial weights, the stream of samples
and the evaluation sets.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.analysis import dependence
from cgjax.core import checkpoint, optim, program, rng
from cgjax.core.errors import BadInput
from cgjax.core.metrics import entries
from cgjax.data import sources
from cgjax.experiments.resistance import models, training
from cgjax.experiments.resistance.plane import cancelling, outputs_of

# --- digits ---------------------------------------------------------------------------------------
# Paired MNIST: two digits side by side; the left digit is the target.
#
# Y_1 is uniform, Y_2 = Y_1 + offset (mod 10). A *law* [10] is the distribution of the offset, so
# that settings, doses and widths can differ between replicas. Images are on the device once, as
# uint8; a sample is two indices into them. The same key gives the same left digits under every law.
# Digits are side by side or, with `overlaid`, on the same pixels.


N_CLASSES = 10


def law(width: float = 2, rho: float = 1.0) -> jax.Array:
    """Offsets uniform on {0, ..., width - 1} with weight rho, on all ten otherwise: [10].

    width 2 is training setting A; width 10 or rho 0 is setting B. Both may be traced.
    """
    near = (jnp.arange(N_CLASSES) < width) / width
    return rho * near + (1 - rho) / N_CLASSES


def _uniform(offsets):
    return offsets.astype(np.float32) / offsets.sum()


# Setting A: Y_2 in {Y, Y + 1}. B: any label, so that X_2 has no information about the target. The
# test: all pairs that never occur in A.
_OFFSET = np.arange(N_CLASSES)
LAWS = {"A": _uniform(_OFFSET < 2), "B": _uniform(_OFFSET >= 0), "test": _uniform(_OFFSET >= 2)}


class Digits(NamedTuple):
    """Images, and the indices of the images of each class."""

    images: jax.Array  # uint8 [M, 28, 28]
    table: jax.Array  # int32 [10, most]: indices into images, repeated to fill a row
    counts: jax.Array  # int32 [10]


class Pairs(NamedTuple):
    """n samples: indices of their images, and labels; the target is y1."""

    left: jax.Array  # int32 [n]
    right: jax.Array  # -1: no digit
    y1: jax.Array  # int32 [n]
    y2: jax.Array


def index_digits(images, labels) -> Digits:
    """From images uint8 [M, 28, 28(, 1)] and labels [M], NumPy arrays with all classes."""
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim == 4:
        images = images[..., 0]
    members = [np.flatnonzero(labels == k).astype(np.int32) for k in range(N_CLASSES)]
    counts = np.array([len(indices) for indices in members], np.int32)
    if images.ndim != 3 or len(images) != len(labels) or counts.min() == 0:
        raise BadInput(
            f"pairs need images [M, 28, 28] of all {N_CLASSES} classes, got {images.shape} with "
            f"{counts.tolist()} of each"
        )
    table = np.stack([np.resize(indices, counts.max()) for indices in members])
    return Digits(images, table, counts)


def load_digits(part: str, n_synthetic: int = 0) -> Digits:
    """MNIST's "train" or "test" images; n_synthetic > 0: that many synthetic images instead."""
    if n_synthetic:
        seed = {"train": 0, "test": 1}[part]
        dataset = sources.synthetic("mnist", n_synthetic, seed)
    else:
        dataset = sources.load("mnist", part)
    return index_digits(dataset["image"], dataset["label"])


def draw_pairs(key: jax.Array, digits: Digits, law: jax.Array, n: int) -> Pairs:
    """n samples whose labels follow a law [10]."""
    y_key, offset_key, left_key, right_key = jax.random.split(key, 4)
    y1 = jax.random.randint(y_key, (n,), 0, N_CLASSES)
    # Inverse distribution function, so that all settings of a seed use the same random numbers.
    edges = jnp.cumsum(law)[:-1]
    at = jax.random.uniform(offset_key, (n,))
    # Rounding must not give an offset beyond the last one of positive probability.
    last = N_CLASSES - 1 - jnp.argmax(law[::-1] > 0)
    offset = jnp.minimum(jnp.sum(at[:, None] >= edges[None], axis=1), last)
    y2 = (y1 + offset) % N_CLASSES
    return Pairs(_image(left_key, digits, y1), _image(right_key, digits, y2), y1, y2)


def without_right(key: jax.Array, pairs: Pairs, share: jax.Array) -> Pairs:
    """The same samples; a share of them has no right digit."""
    is_absent = jax.random.uniform(key, pairs.y1.shape) < share
    return pairs._replace(right=jnp.where(is_absent, -1, pairs.right))


def redraw_right(key: jax.Array, digits: Digits, pairs: Pairs) -> Pairs:
    """The same left digits; right digits are redrawn with uniform labels."""
    label_key, image_key = jax.random.split(key)
    y2 = jax.random.randint(label_key, pairs.y1.shape, 0, N_CLASSES)
    return pairs._replace(right=_image(image_key, digits, y2), y2=y2)


def _image(key, digits, labels):
    """One image index per label [n], uniform over the images of its class."""
    counts = digits.counts[labels]
    # Not uniform * counts, which may round up to counts in float32.
    place = jax.random.randint(key, labels.shape, 0, counts)
    return digits.table[labels, place]


def network_input(images: jax.Array, pairs: Pairs) -> jax.Array:
    """uint8 [M, 28, 28] -> float32 [n, 28, 56, 1] in [0, 1], X_1 on the left."""
    right = jnp.where(pairs.right[:, None, None] < 0, 0, images[pairs.right])
    both = jnp.concatenate([images[pairs.left], right], axis=2)
    return both[..., None].astype(jnp.float32) / 255


def overlaid(x: jax.Array) -> jax.Array:
    """[n, 28, 56, 1] -> [n, 28, 28, 1]: X_1, and X_2 mirrored at its diagonal, on the same pixels.

    Only their orientation tells the digits apart. A pixel is dark if it is dark in both.
    """
    left, right = jnp.split(x, 2, axis=2)
    return 1 - (1 - left) * (1 - right.swapaxes(1, 2))


def suggested(y2: jax.Array) -> jax.Array:
    """The two targets that X_2 suggests in setting A, Y_2 and Y_2 - 1: [n, 2]."""
    return jnp.stack([y2, (y2 - 1) % N_CLASSES], axis=1)


INPUTS = dependence.parts((28, 56, 1), 2, 1)
DIGITS = ("mnist", "synthetic")
N_SYNTHETIC = 2000
CHUNK = 50  # samples per forward pass outside training
N_TARGET = 64  # inputs of the derivatives of the target's logit, as in the recomputed numbers
DISTRIBUTIONS = ("train", "A", "B", "test")
C = N_CLASSES


def network(config):
    """The row's network: x [B, 28, 56, 1] -> logits [B, 10], or [B, heads, 10]."""
    model = config.model
    net = models.PairNet(model.arch, model.heads, hidden=model.hidden, form=model.form)
    return models.Towers(net, 2) if model.towers else net


def _law_name(width, rho):
    if width == 2 and rho == 1:
        return "A"
    if width == C or rho == 0:
        return "B"
    return f"width {width}" if rho == 1 else f"rho {rho:g}" + (f", width {width}" * (width != 2))


def settings(config) -> tuple[training.Setting, ...]:
    """A (width 2, dose 1), B (width 10 or dose 0) and all laws between, at every penalty.

    With `data.absent`, also B with X_2 in some samples only: pairs of the test are as rare as in
    the dose of the same share, and X_2 never tells.
    """
    numbers = [
        (_law_name(width, rho), width, rho, 0.0)
        for width in config.data.widths
        for rho in config.data.rhos
    ]
    numbers += [(f"B, X_2 absent {share:g}", C, 0.0, share) for share in config.data.absent]
    laws = [
        (name, dict(zip(("width", "rho", "absent"), np.float32(values))))
        for name, *values in numbers
    ]
    return training.settings(
        [
            laws,
            training.axis("scale", "scale", config.model.scales),
            training.axis("rate", "lr", config.optim.lrs),
            training.axis("penalty", "penalty", config.reg.penalties),
        ]
    )


def check(config) -> None:
    """Raises BadInput for values that are valid one by one but not together."""
    if config.optim.loss == "half_squared":
        raise BadInput(
            "optim.loss=half_squared needs one output between -1 and 1: only the plane has it"
        )
    if config.data.overlaid and config.model.towers:
        raise BadInput("model.towers needs digits side by side: set data.overlaid=False")
    if config.model.heads > 1 and config.model.towers:
        raise BadInput("model.towers has one target: set model.heads=1")
    names = [setting.name for setting in settings(config)]
    if len(set(names)) < len(names):
        raise BadInput("data.widths and data.rhos give setting B twice: width 10 equals dose 0")


def digits(config) -> dict:
    """Images of both parts: MNIST, or synthetic digits."""
    n = N_SYNTHETIC if config.data.digits == "synthetic" else 0
    return {part: load_digits(part, n) for part in ("train", "test")}


def predictor(config):
    """f(params, x [n, 28, 56, 1]) -> logits; overlaid digits are still functions of both halves."""
    net, prepared = network(config), _prepared(config)
    return lambda params, x: net.apply({"params": params}, prepared(x))


def _prepared(config):
    """What the network receives of two digits."""
    return overlaid if config.data.overlaid else lambda x: x


def draw(config, key, part, replica, n: int) -> Pairs:
    """n samples of a setting's training law."""
    drawn = draw_pairs(key, part, law(replica["width"], replica["rho"]), n)
    if not config.data.absent:
        return drawn
    # `draw_pairs` splits the key in four, which gives fold_in(key, 0) to fold_in(key, 3).
    return without_right(jax.random.fold_in(key, 4), drawn, replica["absent"])


def targets(config, drawn):
    """[n] for one head, else [n, heads]."""
    return drawn.y1 if config.model.heads == 1 else jnp.stack([drawn.y1, drawn.y2], axis=1)


def predicted(f, params, images, drawn):
    """The first head's answers [n], computed in chunks of samples."""

    def predict_sample(sample):
        x = network_input(images, jax.tree.map(lambda leaf: leaf[None], sample))
        logits = f(params, x)[0]
        return jnp.argmax(logits if logits.ndim == 1 else logits[0])

    return jax.lax.map(predict_sample, drawn, batch_size=min(CHUNK, len(drawn.y1)))


def sets(config, data, replica, n: int) -> dict:
    """Evaluation samples of a run, drawn from its seed: training law, X_2 redrawn, test."""
    keys = jax.random.split(rng.stream(jax.random.key(replica["seed"]), "data"), 3)
    train_pairs = draw(config, keys[0], data["train"], replica, n)
    return {
        "train": train_pairs,
        "do": redraw_right(keys[1], data["train"], train_pairs),
        "test": draw_pairs(keys[2], data["test"], LAWS["test"], n),
    }


def answers(config, params, data, drawn) -> dict:
    """Answers to each of `sets`."""
    f = predictor(config)
    return {
        name: predicted(f, params, data["test" if name == "test" else "train"].images, samples)
        for name, samples in drawn.items()
    }


def scores(config, params, data, drawn) -> dict:
    """Accuracies, information, swaps and confusions of one network."""
    yhat = answers(config, params, data, drawn)
    right = {name: jnp.mean(yhat[name] == drawn[name].y1) for name in ("train", "test")}
    train_pairs, do_pairs, test_pairs = (drawn[name] for name in ("train", "do", "test"))
    confused = dependence.confusion(yhat["test"], test_pairs.y1, suggested(test_pairs.y2), C)
    return {
        "train accuracy": right["train"],
        "test accuracy": right["test"],
        "gap": right["train"] - right["test"],
        "information": dependence.information(train_pairs.y2, yhat["train"], (C, C)),
        "conditional information": dependence.conditional_information(
            train_pairs.y2, yhat["train"], train_pairs.y1, (C, C, C)
        ),
        "interventional information": dependence.information(do_pairs.y2, yhat["do"], (C, C)),
        # Proposition 2: both digits have at least as much information about the answer as the
        # target. On one sample this holds without the bias correction, which is larger for the
        # hundred pairs of labels.
        "plug-in information of both": dependence.information(
            C * train_pairs.y1 + train_pairs.y2, yhat["train"], (C * C, C), corrected=False
        ),
        "plug-in information of the target": dependence.information(
            train_pairs.y1, yhat["train"], (C, C), corrected=False
        ),
        "swap rate": jnp.mean(yhat["train"] != yhat["do"]),
        "says Y_2": confused.of_all[0],
        "says Y_2 - 1": confused.of_all[1],
    }


def matrices(config, params, data, replica) -> dict:
    """D_ij and S_2 on inputs of each of `eval.inputs`, all of them with both digits.

    S_2 is that of all ten centred logits. On the first inputs S_2 of the target's logit is there,
    too: the recomputed numbers of `published.resistance` are of that.
    """
    dependences, f = {}, predictor(config)
    key = rng.stream(jax.random.key(replica["seed"]), "data")
    for name in config.eval.inputs:
        offsets = LAWS.get(name, law(replica["width"], replica["rho"]))
        part = data["test" if name == "test" else "train"]
        drawn = draw_pairs(jax.random.fold_in(key, 7), part, offsets, config.eval.n_jacobian)
        x = network_input(part.images, drawn)
        outputs = outputs_of(config.model.heads, C)
        matrix = dependence.gradient_dependence(f, params, x, INPUTS, outputs, chunk=16)
        suffix = "" if name == config.eval.inputs[0] else f" on {name}"
        shares = dependence.shares(matrix)
        dependences |= {f"{k}{suffix}": v for k, v in entries("D", matrix).items()}
        dependences[f"S_2{suffix}"] = shares[0, 1]
        if config.model.heads > 1:
            dependences[f"S_1 of head 2{suffix}"] = shares[1, 0]
        elif not suffix:
            few, y1 = x[:N_TARGET], drawn.y1[:N_TARGET]
            dependences["S_2 of the target's logit"] = share_of_target(f, params, few, y1)
    return dependences


def share_of_target(f, params, x, y1):
    """S_2 of the target's logit alone, not centred; x [n, 28, 56, 1], targets y1 [n]."""

    def logit(params, x, y1):
        return jnp.take_along_axis(f(params, x), y1[:, None], axis=1)

    matrix = dependence.gradient_dependence(
        logit, params, x, INPUTS, beside=y1, centred=False, chunk=16
    )
    return dependence.shares(matrix)[0, 1]


def stepped(config, params, data, replica) -> dict:
    """Changes by one small step on setting A, and on the same samples with X_2 redrawn."""
    f, key = predictor(config), rng.stream(jax.random.key(replica["seed"]), "data")
    batch = draw_pairs(jax.random.fold_in(key, 8), data["train"], LAWS["A"], config.eval.n_step)
    redrawn = redraw_right(jax.random.fold_in(key, 9), data["train"], batch)
    jacobian_pairs = jax.tree.map(lambda leaf: leaf[: config.eval.n_jacobian], redrawn)
    x = network_input(data["train"].images, jacobian_pairs)

    def measures(params):
        outputs = outputs_of(config.model.heads, C)
        matrix = dependence.gradient_dependence(f, params, x, INPUTS, outputs, chunk=16)
        yhat = predicted(f, params, data["train"].images, redrawn)
        return {
            "D_2": matrix[0, 1],
            "D_1 + D_2": matrix[0, 0] + matrix[0, 1],
            "S_2": dependence.shares(matrix)[0, 1],
            "I_do": dependence.information(redrawn.y2, yhat, (C, C)),
            "I of the target": dependence.information(redrawn.y1, yhat, (C, C)),
        }

    changes = {}
    for law_name, drawn in (("A", batch), ("re-drawn", redrawn)):
        step = dependence.one_step(
            lambda p, drawn=drawn: jnp.sum(head_losses(config, p, data["train"].images, drawn)),
            measures,
            params,
            config.eval.one_step,
        )
        changes |= {f"one step on {law_name}: {name}": value for name, value in step.change.items()}
    return changes


def head_losses(config, params, images, drawn):
    """The mean loss of each head [heads]; only one chunk's activations are in memory."""
    f = predictor(config)

    @jax.checkpoint
    def loss_of_sample(sample):
        sample = jax.tree.map(lambda leaf: leaf[None], sample)
        logits = f(params, network_input(images, sample))
        return models.LOSSES[config.optim.loss](logits, targets(config, sample)).reshape(-1)

    return jnp.mean(
        jax.lax.map(loss_of_sample, drawn, batch_size=min(CHUNK, len(drawn.y1))), axis=0
    )


# --- the experiment -------------------------------------------------------------------------------


def experiment(config, data=None) -> program.Experiment:
    """Fresh pairs at every step, the row's loss, evaluation on sets drawn once for each seed.

    data: as `digits` returns them, which is called if they are None.
    """
    f, net = predictor(config), network(config)
    example = _prepared(config)(jnp.zeros((1, 28, 56, 1)))
    shapes = jax.eval_shape(net.init, jax.random.key(0), example)["params"]
    penalised = any(config.reg.penalties)

    def init(key, replica):
        return models.initial(key, shapes, config.model.init, replica["scale"]), {}

    def loss(params, extra, batch, key, step, replica):
        drawn = draw(config, key, batch["train"], replica, config.data.batch)
        x = network_input(batch["train"].images, drawn)
        logits = f(params, x)
        losses = models.LOSSES[config.optim.loss](logits, targets(config, drawn))
        value = jnp.sum(jnp.mean(losses.reshape(len(losses), -1), axis=0))
        if penalised:
            value += replica["penalty"] * models.gradient_penalty(f, params, x, INPUTS)
        first_head = logits if logits.ndim == 2 else logits[:, 0]
        accuracy = jnp.mean(jnp.argmax(first_head, axis=-1) == drawn.y1)
        return value, (extra, {"accuracy": accuracy})

    def evaluate(params, extra, data, key, replica):
        drawn = sets(config, data, replica, config.eval.n_samples)
        results = scores(config, params, data, drawn)
        if config.eval.n_jacobian:
            results |= matrices(config, params, data, replica)
        if config.model.heads > 1:
            first_pairs = jax.tree.map(lambda leaf: leaf[: config.data.batch], drawn["train"])
            images = data["train"].images
            results |= cancelling(
                lambda p, h: head_losses(config, p, images, first_pairs)[h], params
            )
        if config.eval.get("one_step"):
            results |= stepped(config, params, data, replica)
        return results, {}

    return program.Experiment(
        data=digits(config) if data is None else data,
        replicas=training.replicas(config, settings(config)),
        init=init,
        plan=None,
        batch=lambda data, indices, key, step: data,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: _optimiser(config, replica),
        headline=None,
        identity=training.IDENTITY,
    )


def _optimiser(config, replica):
    options = {"eps": 1e-7} if config.optim.name == "adam" else {}
    return optim.by_name(config.optim.name, replica["lr"], **options)


def run(config, workdir, name: str = "") -> training.Trained:
    """Trains all runs of a part."""
    return training.run(experiment(config), settings(config), in_steps(config), workdir, name)


def in_steps(config):
    """The part's config counted in updates; a step of the paper is one update."""
    return configs.in_steps(config, 1) if "epochs" in config.train else config


def load(config, folder, setting: str, step=None) -> checkpoint.Loaded:
    """`predict(params, x [n, 28, 56, 1])` -> logits of one setting's networks."""
    params, steps = training.read(config, settings(config), folder, setting, step)
    return checkpoint.Loaded(predictor(config), params, config, steps)
