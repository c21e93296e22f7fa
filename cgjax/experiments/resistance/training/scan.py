"""Sequence to sequence on SCAN's jump split: setting A, and both readings of setting B."""

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
CHUNK = 256  # lines that are decoded at once, of whole sets


def network(config):
    """The row's network."""
    model = config.model
    return Seq2Seq(scan.N_WORDS, scan.N_SYMBOLS, model.embedding, model.encoder)


def settings(config) -> tuple[training.Setting, ...]:
    """One for each of `data.settings`."""
    return tuple(
        training.Setting(WORDS[name], {"task": np.int32(SETTINGS.index(name))})
        for name in config.data.settings
    )


def check(config) -> None:
    """Nothing but what the keys' own ranges say."""


def lines(config) -> dict:
    """The lines of both parts as symbols."""
    return dict(zip(("train", "test"), map(scan.encode, scan.jump_split())))


def shown(known: dict, key, task, some):
    """Lines as a setting shows them; known: `scan.TRAINING` or `scan.TEST`."""
    return jax.lax.switch(task, [known[name] for name in SETTINGS], key, some)


def sets(config, data, replica, n: int) -> dict:
    """n lines of each part, drawn from the seed."""
    key, found = rng.stream(jax.random.key(replica["seed"]), "data"), {}
    for i, (part, known) in enumerate((("train", scan.TRAINING), ("test", scan.TEST))):
        row_key, word_key = jax.random.split(jax.random.fold_in(key, i))
        rows = jax.random.randint(row_key, (n,), 0, len(data[part].commands))
        some = tree.take(data[part], rows)
        found[part] = shown(known, word_key, replica["task"], some)
    return found


def right(config, params, some):
    """Whether each line is decoded without an error: boolean [n]."""
    found = greedy(network(config), params, some.commands, scan.LIMIT)
    return scan.is_right(found, some.actions)


def matrix(config, params, some) -> dict:
    """Logits at structure (0) and at action positions (1) by embeddings of both kinds of words."""
    net, variables = network(config), {"params": params}
    words = net.apply(variables, some.commands, method="embed")
    beside = {"real": some.commands != PAD, "previous": previous(some.actions, scan.N_SYMBOLS)}

    def f(params, words, beside):
        args = (words, beside["real"], beside["previous"])
        return net.apply({"params": params}, *args, method="logits")

    outputs, inputs = scan.components(some, config.model.embedding)
    found = dependence.gradient_dependence(
        f, params, words, inputs, outputs, beside, (2, 2), chunk=4
    )
    return entries("D", found) | {
        "S of action words in structure": dependence.shares(found)[0, 1],
        "S of structure in actions": dependence.shares(found)[1, 0],
    }


def experiment(config) -> program.Experiment:
    """Lines drawn with replacement, teacher forcing, sentence accuracy by greedy decoding."""
    net = network(config)

    def init(key, replica):
        shapes = jnp.zeros((1, scan.LONGEST_COMMAND), int), jnp.zeros((1, scan.LIMIT), int)
        return net.init(key, *shapes)["params"], {}

    def loss(params, extra, batch, key, step, replica):
        some = shown(scan.TRAINING, key, replica["task"], batch["lines"])
        logits = net.apply(
            {"params": params}, some.commands, previous(some.actions, scan.N_SYMBOLS)
        )
        # Right at every symbol when told the ones before: cheap, and above greedy accuracy or equal
        # to it, for a sentence decoded without an error is told the same.
        forced = jnp.argmax(logits, axis=-1)
        hit = jnp.all((forced == some.actions) | (some.actions == PAD), axis=1)
        return models.token_loss(logits, some.actions), (extra, {"accuracy": jnp.mean(hit)})

    def batch(data, indices, key, step):
        rows = jax.random.randint(key, (config.data.batch,), 0, len(data["train"].commands))
        return {"lines": jax.tree.map(lambda leaf: leaf[rows], data["train"])}

    def evaluate(params, extra, data, key, replica):
        drawn = sets(config, data, replica, config.eval.n_samples)
        hits = {name: right(config, params, some) for name, some in drawn.items()}
        bare = scan.is_bare(drawn["train"])
        found = {f"{name} accuracy": jnp.mean(hit) for name, hit in hits.items()}
        found["gap"] = found["train accuracy"] - found["test accuracy"]
        found["accuracy on the bare word"] = _mean(hits["train"], bare)
        found["accuracy on the rest"] = _mean(hits["train"], ~bare)
        if config.eval.n_jacobian:
            some = jax.tree.map(lambda leaf: leaf[: config.eval.n_jacobian], drawn["train"])
            found |= matrix(config, params, some)
        return found, {}

    def tx(replica):
        def rate(step):
            return replica["lr"] * replica["decay"] ** (step / config.optim.decay_every)

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
    """NaN where there is no such line."""
    return jnp.sum(hit & where) / jnp.sum(where)


def whole(config, trained: training.Trained) -> dict:
    """Sentence accuracy on `eval.n_whole` lines of both parts, evenly spaced: [seeds, settings].

    Called that of the whole set only where these are all of its lines.
    """
    data = jax.tree.map(jnp.asarray, lines(config))
    most = config.eval.n_whole
    found = {}
    for part, known in (("train", scan.TRAINING), ("test", scan.TEST)):
        n = min(most, len(data[part].commands))
        rows = np.linspace(0, len(data[part].commands) - 1, n).astype(int)
        padded = np.resize(rows, -(-n // CHUNK) * CHUNK).reshape(-1, CHUNK)
        some = tree.take(data[part], padded)

        @jax.jit
        def score(params, key, task, some, known=known):
            flat = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), some)
            flat = shown(known, key, task, flat)
            parts = jax.tree.map(lambda new, old: new.reshape(old.shape), flat, some)
            return jax.lax.map(lambda chunk: right(config, params, chunk), parts).ravel()

        values = np.zeros((len(trained.seeds), len(trained.settings)))
        for s, seed in enumerate(trained.seeds):
            for i, one in enumerate(trained.settings):
                params = tree.take(trained.params, (s, i))
                key = rng.stream(jax.random.key(seed), "eval")
                values[s, i] = np.mean(score(params, key, one.numbers["task"], some)[:n])
        whole_set = n == len(data[part].commands)
        found[f"{part} accuracy, {'whole set' if whole_set else f'{n:,} lines'}"] = values
    return found


def run(config, workdir, name: str = "") -> training.Trained:
    """Trains all runs of a part."""
    return training.run(experiment(config), settings(config), config, workdir, name)


def in_steps(config):
    """The part's config, which counts in updates."""
    return config


def load(config, folder, setting: str, step=None) -> checkpoint.Loaded:
    """`predict(params, commands [n, T])` -> symbols [n, 50] of one setting's networks."""
    params, steps = training.read(config, settings(config), folder, setting, step)

    def predict(params, commands):
        return greedy(network(config), params, commands, scan.LIMIT)

    return checkpoint.Loaded(predict, params, config, steps)
