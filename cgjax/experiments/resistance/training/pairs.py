"""Networks on pairs of digits: setting A, setting B, and all doses and widths between them.

Training samples are fresh at every step. A seed fixes the initial weights, the stream of samples
and the evaluation sets.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.analysis import dependence
from cgjax.core import checkpoint, optim, program, rng
from cgjax.core.errors import BadInput
from cgjax.core.metrics import entries
from cgjax.experiments.resistance import models, pairs, training
from cgjax.experiments.resistance.training.plane import cancelling, outputs_of

INPUTS = dependence.parts((28, 56, 1), 2, 1)
DIGITS = ("mnist", "synthetic")
N_SYNTHETIC = 2000
CHUNK = 50  # samples per forward pass outside training
DISTRIBUTIONS = ("train", "A", "B", "test")
C = pairs.N_CLASSES


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
    return {part: pairs.load(part, n) for part in ("train", "test")}


def predictor(config):
    """f(params, x [n, 28, 56, 1]) -> logits; overlaid digits are still functions of both halves."""
    net, prepared = network(config), _prepared(config)
    return lambda params, x: net.apply({"params": params}, prepared(x))


def _prepared(config):
    """What the network receives of two digits."""
    return pairs.overlaid if config.data.overlaid else lambda x: x


def draw(config, key, part, replica, n: int) -> pairs.Pairs:
    """n samples of a setting's training law."""
    drawn = pairs.draw(key, part, pairs.law(replica["width"], replica["rho"]), n)
    if not config.data.absent:
        return drawn
    return pairs.without_right(jax.random.fold_in(key, 1), drawn, replica["absent"])


def targets(config, drawn):
    """[n] for one head, else [n, heads]."""
    return drawn.y1 if config.model.heads == 1 else jnp.stack([drawn.y1, drawn.y2], axis=1)


def predicted(f, params, images, drawn):
    """The first head's answers [n], computed in chunks of samples."""

    def predict_sample(sample):
        x = pairs.network_input(images, jax.tree.map(lambda leaf: leaf[None], sample))
        logits = f(params, x)[0]
        return jnp.argmax(logits if logits.ndim == 1 else logits[0])

    return jax.lax.map(predict_sample, drawn, batch_size=min(CHUNK, len(drawn.y1)))


def sets(config, data, replica, n: int) -> dict:
    """Evaluation samples of a run, drawn from its seed: training law, X_2 redrawn, test."""
    keys = jax.random.split(rng.stream(jax.random.key(replica["seed"]), "data"), 3)
    train_pairs = draw(config, keys[0], data["train"], replica, n)
    return {
        "train": train_pairs,
        "do": pairs.redraw_right(keys[1], data["train"], train_pairs),
        "test": pairs.draw(keys[2], data["test"], pairs.LAWS["test"], n),
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
    confused = dependence.confusion(yhat["test"], test_pairs.y1, pairs.suggested(test_pairs.y2), C)
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
    """D_ij and S_2 on inputs of each of `eval.inputs`."""
    dependences, f = {}, predictor(config)
    key = rng.stream(jax.random.key(replica["seed"]), "data")
    for name in config.eval.inputs:
        law = pairs.LAWS.get(name, pairs.law(replica["width"], replica["rho"]))
        part = data["test" if name == "test" else "train"]
        drawn = pairs.draw(jax.random.fold_in(key, 7), part, law, config.eval.n_jacobian)
        x = pairs.network_input(part.images, drawn)
        outputs = outputs_of(config.model.heads, C)
        matrix = dependence.gradient_dependence(f, params, x, INPUTS, outputs, chunk=16)
        suffix = "" if name == config.eval.inputs[0] else f" on {name}"
        shares = dependence.shares(matrix)
        dependences |= {f"{k}{suffix}": v for k, v in entries("D", matrix).items()}
        dependences[f"S_2{suffix}"] = shares[0, 1]
        if config.model.heads > 1:
            dependences[f"S_1 of head 2{suffix}"] = shares[1, 0]
    return dependences


def stepped(config, params, data, replica) -> dict:
    """Changes by one small step on setting A, and on the same samples with X_2 redrawn."""
    f, key = predictor(config), rng.stream(jax.random.key(replica["seed"]), "data")
    batch = pairs.draw(
        jax.random.fold_in(key, 8), data["train"], pairs.LAWS["A"], config.eval.n_step
    )
    redrawn = pairs.redraw_right(jax.random.fold_in(key, 9), data["train"], batch)
    jacobian_pairs = jax.tree.map(lambda leaf: leaf[: config.eval.n_jacobian], redrawn)
    x = pairs.network_input(data["train"].images, jacobian_pairs)

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
        logits = f(params, pairs.network_input(images, sample))
        return models.LOSSES[config.optim.loss](logits, targets(config, sample)).reshape(-1)

    return jnp.mean(
        jax.lax.map(loss_of_sample, drawn, batch_size=min(CHUNK, len(drawn.y1))), axis=0
    )


# --- the experiment -------------------------------------------------------------------------------


def experiment(config) -> program.Experiment:
    """Fresh pairs at every step, the row's loss, evaluation on sets drawn once for each seed."""
    f, net = predictor(config), network(config)
    example = _prepared(config)(jnp.zeros((1, 28, 56, 1)))
    shapes = jax.eval_shape(net.init, jax.random.key(0), example)["params"]
    penalised = any(config.reg.penalties)

    def init(key, replica):
        return models.initial(key, shapes, config.model.init, replica["scale"]), {}

    def loss(params, extra, batch, key, step, replica):
        drawn = draw(config, key, batch["train"], replica, config.data.batch)
        x = pairs.network_input(batch["train"].images, drawn)
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
        data=digits(config),
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
