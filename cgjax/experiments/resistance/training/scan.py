"""Sequence to sequence on SCAN's jump split: setting A, and both interpretations of setting B."""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence
from cgjax.core import checkpoint, optim, program, rng, tree
from cgjax.core.metrics import entries
from cgjax.core.replicas import with_numbers
from cgjax.experiments.resistance import models, scan, training
from cgjax.nets.rnn import PAD, Seq2Seq, greedy, previous

SETTINGS = tuple(scan.TRAINING)
WORDS = {"A": "A", "resample_slots": "B", "replace_jump": "B, jump replaced"}
CHUNK = 256  # lines per call when whole sets are decoded
DECAY_EVERY = 100  # steps after which `optim.decay` multiplies the rate


def network(config):
    """The row's network."""
    model = config.model
    return Seq2Seq(scan.N_WORDS, scan.N_SYMBOLS, model.embedding, model.encoder)


def settings(config) -> tuple[training.Setting, ...]:
    """One setting per entry of `data.settings`."""
    return tuple(
        training.Setting(WORDS[name], {"task": np.int32(SETTINGS.index(name))})
        for name in config.data.settings
    )


def check(config) -> None:
    """No check: the ranges of single keys are sufficient."""


def lines(config) -> dict:
    """The lines of both parts as symbols."""
    return dict(zip(("train", "test"), map(scan.encode, scan.jump_split())))


def shown(transforms: dict, key, task, sample):
    """Lines transformed by the setting; transforms: `scan.TRAINING` or `scan.TEST`."""
    return jax.lax.switch(task, [transforms[name] for name in SETTINGS], key, sample)


def sets(config, data, replica, n: int) -> dict:
    """n lines of each part, drawn from the seed."""
    key, drawn = rng.stream(jax.random.key(replica["seed"]), "data"), {}
    for i, (part, transforms) in enumerate((("train", scan.TRAINING), ("test", scan.TEST))):
        row_key, word_key = jax.random.split(jax.random.fold_in(key, i))
        rows = jax.random.randint(row_key, (n,), 0, len(data[part].commands))
        sample = tree.take(data[part], rows)
        drawn[part] = shown(transforms, word_key, replica["task"], sample)
    return drawn


def right(config, params, sample):
    """Whether each line is decoded without an error: boolean [n]."""
    decoded = greedy(network(config), params, sample.commands, scan.LIMIT)
    return scan.is_right(decoded, sample.actions)


def matrix(config, params, sample) -> dict:
    """Dependence of logits at structure (0) and actions (1) on embeddings of both word kinds."""
    net, variables = network(config), {"params": params}
    embedded = net.apply(variables, sample.commands, method="embed")
    context = {"real": sample.commands != PAD, "previous": previous(sample.actions, scan.N_SYMBOLS)}

    def f(params, embedded, context):
        args = (embedded, context["real"], context["previous"])
        return net.apply({"params": params}, *args, method="logits")

    outputs, inputs = scan.components(sample, config.model.embedding)
    dependences = dependence.gradient_dependence(
        f, params, embedded, inputs, outputs, context, (2, 2), chunk=4
    )
    return entries("D", dependences) | {
        "S of action words in structure": dependence.shares(dependences)[0, 1],
        "S of structure in actions": dependence.shares(dependences)[1, 0],
    }


def experiment(config) -> program.Experiment:
    """Lines drawn with replacement, teacher forcing, sentence accuracy by greedy decoding."""
    net = network(config)

    def init(key, replica):
        shapes = jnp.zeros((1, scan.LONGEST_COMMAND), int), jnp.zeros((1, scan.LIMIT), int)
        return net.init(key, *shapes)["params"], {}

    def loss(params, extra, batch, key, step, replica):
        sample = shown(scan.TRAINING, key, replica["task"], batch["lines"])
        logits = net.apply(
            {"params": params}, sample.commands, previous(sample.actions, scan.N_SYMBOLS)
        )
        # Accuracy with teacher forcing is cheap, and at least the greedy accuracy: a sentence that
        # is decoded without an error gets the same previous symbols.
        forced = jnp.argmax(logits, axis=-1)
        hit = jnp.all((forced == sample.actions) | (sample.actions == PAD), axis=1)
        return models.token_loss(logits, sample.actions), (extra, {"accuracy": jnp.mean(hit)})

    def batch(data, indices, key, step):
        rows = jax.random.randint(key, (config.data.batch,), 0, len(data["train"].commands))
        return {"lines": jax.tree.map(lambda leaf: leaf[rows], data["train"])}

    def evaluate(params, extra, data, key, replica):
        drawn = sets(config, data, replica, config.eval.n_samples)
        hits = {name: right(config, params, sample) for name, sample in drawn.items()}
        bare = scan.is_bare(drawn["train"])
        scores = {f"{name} accuracy": jnp.mean(hit) for name, hit in hits.items()}
        scores["gap"] = scores["train accuracy"] - scores["test accuracy"]
        scores["accuracy on the bare word"] = _mean(hits["train"], bare)
        scores["accuracy on the rest"] = _mean(hits["train"], ~bare)
        if config.eval.n_jacobian:
            sample = jax.tree.map(lambda leaf: leaf[: config.eval.n_jacobian], drawn["train"])
            scores |= matrix(config, params, sample)
        return scores, {}

    def tx(replica):
        def rate(step):
            return replica["lr"] * replica["decay"] ** (step / DECAY_EVERY)

        return optim.by_name("adam", rate, eps=1e-7)

    return program.Experiment(
        data=jax.tree.map(jnp.asarray, lines(config)),
        replicas=with_numbers(
            training.replicas(config, settings(config)),
            lr=config.optim.lr,
            decay=config.optim.decay,
        ),
        init=init,
        plan=None,
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=tx,
        headline=None,
        identity=training.IDENTITY,
    )


def _mean(hit, where):
    """Mean over the lines in `where`; NaN if there are none."""
    return jnp.sum(hit & where) / jnp.sum(where)


def whole(config, trained: training.Trained) -> dict:
    """Sentence accuracy on `eval.n_whole` lines of both parts, evenly spaced: [seeds, settings].

    The metric is named "whole set" only if these are all lines of the set.
    """
    data = jax.tree.map(jnp.asarray, lines(config))
    n_most = config.eval.n_whole
    accuracies = {}
    for part, transforms in (("train", scan.TRAINING), ("test", scan.TEST)):
        n = min(n_most, len(data[part].commands))
        rows = np.linspace(0, len(data[part].commands) - 1, n).astype(int)
        padded = np.resize(rows, -(-n // CHUNK) * CHUNK).reshape(-1, CHUNK)
        chunks = tree.take(data[part], padded)

        @jax.jit
        def score(params, key, task, chunks, transforms=transforms):
            flat = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), chunks)
            flat = shown(transforms, key, task, flat)
            parts = jax.tree.map(lambda new, old: new.reshape(old.shape), flat, chunks)
            return jax.lax.map(lambda chunk: right(config, params, chunk), parts).ravel()

        values = np.zeros((len(trained.seeds), len(trained.settings)))
        for s, seed in enumerate(trained.seeds):
            for i, setting in enumerate(trained.settings):
                params = tree.take(trained.params, (s, i))
                key = rng.stream(jax.random.key(seed), "eval")
                values[s, i] = np.mean(score(params, key, setting.numbers["task"], chunks)[:n])
        whole_set = n == len(data[part].commands)
        accuracies[f"{part} accuracy, {'whole set' if whole_set else f'{n:,} lines'}"] = values
    return accuracies


def run(config, workdir, name: str = "") -> training.Trained:
    """Trains all runs of a part."""
    return training.run(experiment(config), settings(config), config, workdir, name)


def in_steps(config):
    """The part's config, which already counts in updates."""
    return config


def load(config, folder, setting: str, step=None) -> checkpoint.Loaded:
    """`predict(params, commands [n, T])` -> symbols [n, 50] of one setting's networks."""
    params, steps = training.read(config, settings(config), folder, setting, step)

    def predict(params, commands):
        return greedy(network(config), params, commands, scan.LIMIT)

    return checkpoint.Loaded(predict, params, config, steps)
