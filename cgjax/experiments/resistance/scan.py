"""SCAN (Lake and Baroni 2018): grammar, splits, lines encoded as padded symbols, networks.

[[c]] is the action list of command c. A *line* is a pair (command, actions) of text. Every clause
of a command ("s1 and s2" has two) holds at most one action word, its *slot*. Each symbol of command
and actions is stored with its slot, so that words can be exchanged on the device.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence
from cgjax.core import checkpoint, optim, program, rng, tree
from cgjax.core.errors import BadInput
from cgjax.core.metrics import entries
from cgjax.core.replicas import with_numbers
from cgjax.data import sources
from cgjax.experiments.resistance import models, training
from cgjax.nets.rnn import END, PAD, Seq2Seq, greedy, previous

ACTION_WORDS = {"walk": "I_WALK", "look": "I_LOOK", "run": "I_RUN", "jump": "I_JUMP"}
TURNS = {"left": "I_TURN_LEFT", "right": "I_TURN_RIGHT"}
REPEATS = {"twice": 2, "thrice": 3}
# Action words first: symbol FIRST + k is word k, in commands and in actions.
WORDS = (
    *ACTION_WORDS, "turn", "left", "right", "opposite", "around", "twice", "thrice", "and", "after",
)  # fmt: skip
ACTIONS = (*ACTION_WORDS.values(), *TURNS.values())
FIRST = END + 1
N_WORDS, N_SYMBOLS = FIRST + len(WORDS), FIRST + len(ACTIONS)
LONGEST_COMMAND, LONGEST_ACTIONS = 10, 49  # with END
LIMIT = 50  # symbols that greedy decoding may give
JUMP = FIRST + list(ACTION_WORDS).index("jump")

# --- the grammar ----------------------------------------------------------------------------------


def verbs() -> list[str]:
    """Level V: the 34 commands "u", "w d", "w opposite d", "w around d"."""
    turned = itertools.product((*ACTION_WORDS, "turn"), ("", "opposite ", "around "), TURNS)
    return [*ACTION_WORDS, *(f"{w} {how}{d}" for w, how, d in turned)]


def clauses() -> list[str]:
    """Level S: the 102 commands v, "v twice", "v thrice"."""
    return [v + times for v in verbs() for times in ("", *(f" {word}" for word in REPEATS))]


@functools.cache
def commands() -> tuple[tuple[str, str], ...]:
    """Level C: all 20,910 (command, actions) pairs, in the order of the grammar."""
    meaning = {clause: interpret(clause) for clause in clauses()}
    lines = list(meaning.items())
    for (s1, a1), (s2, a2) in itertools.product(meaning.items(), repeat=2):
        lines += [(f"{s1} and {s2}", f"{a1} {a2}"), (f"{s1} after {s2}", f"{a2} {a1}")]
    return tuple(lines)


def interpret(command: str) -> str:
    """[[command]], e.g. "jump twice after turn left" -> "I_TURN_LEFT I_JUMP I_JUMP"."""
    return " ".join(action for action, _ in _meaning(command.split()))


def _meaning(words):
    """[(action, slot)] of a command; slot: clause of the action word, 1 or 2, otherwise 0."""
    for link in ("and", "after"):
        if link in words:
            at = words.index(link)
            parts = [_clause(words[:at], 1), _clause(words[at + 1 :], 2)]
            return sum(parts if link == "and" else parts[::-1], [])
    return _clause(words, 1)


def _clause(words, slot):
    times = REPEATS.get(words[-1], 1) if words else 1
    verb = words[:-1] if times > 1 else words
    return times * _verb(verb, slot)


def _verb(words, slot):
    match words:
        case [u] if u in ACTION_WORDS:
            return [(ACTION_WORDS[u], slot)]
        case [w, *how, d] if (w in ACTION_WORDS or w == "turn") and d in TURNS:
            action = [(ACTION_WORDS[w], slot)] if w in ACTION_WORDS else []
            turn = [(TURNS[d], 0)]
            forms = {
                (): turn + action,
                ("opposite",): 2 * turn + action,
                ("around",): 4 * (turn + action),
            }
            if tuple(how) in forms:
                return forms[tuple(how)]
    raise BadInput(f"SCAN has no command '{' '.join(words)}'")


# --- the split ------------------------------------------------------------------------------------


def jump_split() -> tuple[list, list]:
    """Training: lines without "jump", and "jump" alone 1,467 times. Test: all other lines.

    The published files have the same lines in another order.
    """
    others = [line for line in commands() if "jump" not in line[0]]
    alone = [("jump", interpret("jump"))]
    test = [line for line in commands() if "jump" in line[0] and line[0] != "jump"]
    return others + len(others) // 9 * alone, test


def read(name: str, part: str, **where) -> list[tuple[str, str]]:
    """Lines of a published file, in its order: `read("simple", "train")`.

    The authors' random splits are available too: "simple_p8", "fewshot_num16_rep1" and others of
    `data.raw.SCAN_RANDOM`. part: "train" or "test". where: `data_dir`, `raw_dir`, `download` of
    `data.sources.load`.
    """
    arrays = sources.load(f"scan/{name}", part, **where)
    return list(zip(*(np.char.decode(arrays[key]).tolist() for key in ("commands", "actions"))))


# --- symbols --------------------------------------------------------------------------------------


class Lines(NamedTuple):
    """n lines as symbols, followed by END and then PAD; slots have the same shapes."""

    commands: jax.Array  # int32 [n, T]
    actions: jax.Array  # int32 [n, L]
    command_slot: jax.Array  # int8 [n, T]: clause of the action word, 1 or 2, else 0
    action_slot: jax.Array  # int8 [n, L]


def encode(lines: Sequence, n_words: int = LONGEST_COMMAND, n_actions: int = LIMIT) -> Lines:
    """Lines (command, actions) as NumPy arrays, padded to n_words and n_actions symbols."""
    n = len(lines)
    commands, command_slot = (np.zeros((n, n_words), t) for t in (np.int32, np.int8))
    actions, action_slot = (np.zeros((n, n_actions), t) for t in (np.int32, np.int8))
    word_code = {word: FIRST + k for k, word in enumerate(WORDS)}
    action_code = {action: FIRST + k for k, action in enumerate(ACTIONS)}
    rows = {}  # a cache: "jump" alone occurs 1,467 times
    for row, line in enumerate(lines):
        if line not in rows:
            words, meaning = line[0].split(), _meaning(line[0].split())
            if line[1] != " ".join(action for action, _ in meaning):
                raise BadInput(f"'{line[1]}' is not what '{line[0]}' means")
            if len(words) >= n_words or len(meaning) >= n_actions:
                sizes = f"{n_words} and {n_actions}"
                raise BadInput(f"'{line[0]}' and its actions do not fit into {sizes} symbols")
            rows[line] = (
                [word_code[word] for word in words] + [END],
                _word_slots(words),
                [action_code[action] for action, _ in meaning] + [END],
                [s for _, s in meaning],
            )
        targets = (commands, command_slot, actions, action_slot)
        for array, values in zip(targets, rows[line]):
            array[row, : len(values)] = values
    return Lines(commands, actions, command_slot, action_slot)


def _word_slots(words):
    clause = 1 + np.cumsum([word in ("and", "after") for word in words])
    return [int(c) if word in ACTION_WORDS else 0 for word, c in zip(words, clause)]


def text(symbols, names: Sequence[str] = ACTIONS) -> str:
    """Symbols [L] up to END as text; names: ACTIONS, or WORDS for a command."""
    symbols = np.asarray(symbols).tolist()
    symbols = symbols[: symbols.index(END)] if END in symbols else symbols
    return " ".join(names[s - FIRST] if s >= FIRST else "PAD" for s in symbols if s != PAD)


# --- settings -------------------------------------------------------------------------------------


def original(key: jax.Array, lines: Lines) -> Lines:
    """Setting A: lines as they are."""
    del key
    return lines


def resample_slots(key: jax.Array, lines: Lines) -> Lines:
    """Setting B: every slot gets a new action word, independent and uniform over all four.

    Actions follow by the grammar. Applied whenever training lines are drawn; test lines stay.
    """
    n = lines.commands.shape[0]
    return _with_words(lines, jax.random.randint(key, (n, 2), FIRST, FIRST + len(ACTION_WORDS)))


def replace_jump(key: jax.Array, lines: Lines) -> Lines:
    """Setting B of the paper's appendix: "jump" becomes one of the other three in every slot.

    One word is drawn uniformly per line. Applied to both training and test lines.
    """
    n = lines.commands.shape[0]
    # "jump" is the last of the four.
    other = jax.random.randint(key, (n, 1), FIRST, FIRST + len(ACTION_WORDS) - 1)
    now = jnp.stack(
        [jnp.max(jnp.where(lines.command_slot == s, lines.commands, 0), axis=1) for s in (1, 2)],
        axis=1,
    )
    return _with_words(lines, jnp.where(now == JUMP, other, now))


def _with_words(lines, words):
    """Lines whose slots 1 and 2 hold words [n, 2]; word and action have the same symbol."""

    def exchanged(symbols, slot):
        new = jnp.take_along_axis(words, jnp.maximum(slot - 1, 0).astype(jnp.int32), axis=1)
        return jnp.where(slot > 0, new, symbols)

    return lines._replace(
        commands=exchanged(lines.commands, lines.command_slot),
        actions=exchanged(lines.actions, lines.action_slot),
    )


# name -> (key, lines) -> lines, for training.
TRAINING = {"A": original, "resample_slots": resample_slots, "replace_jump": replace_jump}
# The same for the test.
TEST = {"A": original, "resample_slots": original, "replace_jump": replace_jump}


def is_right(decoded: jax.Array, actions: jax.Array) -> jax.Array:
    """Whether every symbol up to and including END is right: boolean [n]; both arrays [n, L]."""
    return jnp.all(decoded == actions, axis=1)


def is_bare(lines: Lines) -> jax.Array:
    """Whether a line is a single action word, as "jump" in training: boolean [n]."""
    return (lines.command_slot[:, 0] > 0) & (lines.commands[:, 1] == END)


def components(lines: Lines, embedding: int) -> tuple[jax.Array, jax.Array]:
    """Labels for `analysis.dependence.gradient_dependence`: of logits, and of word embeddings.

    int8 [n, L, N_SYMBOLS] and [n, T, embedding]: 1 at action words and their actions, 0 at
    structure (turns and END; all other words), -1 at PAD.
    """
    labels = []
    parts = ((lines.actions, lines.action_slot), (lines.commands, lines.command_slot))
    for (symbols, slot), n in zip(parts, (N_SYMBOLS, embedding)):
        label = jnp.where(symbols == PAD, -1, (slot > 0).astype(jnp.int8)).astype(jnp.int8)
        labels.append(jnp.broadcast_to(label[..., None], (*label.shape, n)))
    return tuple(labels)


# --- training -------------------------------------------------------------------------------------
# Sequence to sequence on SCAN's jump split: setting A, and both interpretations of setting B.


SETTINGS = tuple(TRAINING)
SETTING_NAMES = {"A": "A", "resample_slots": "B", "replace_jump": "B, jump replaced"}
CHUNK = 256  # lines per call when whole sets are decoded
DECAY_EVERY = 100  # steps after which `optim.decay` multiplies the rate


def network(config):
    """The row's network."""
    model = config.model
    return Seq2Seq(N_WORDS, N_SYMBOLS, model.embedding, model.encoder)


def settings(config) -> tuple[training.Setting, ...]:
    """One setting per entry of `data.settings`."""
    return tuple(
        training.Setting(SETTING_NAMES[name], {"task": np.int32(SETTINGS.index(name))})
        for name in config.data.settings
    )


def check(config) -> None:
    """No check: the ranges of single keys are sufficient."""


def lines(config) -> dict:
    """The lines of both parts as symbols."""
    return dict(zip(("train", "test"), map(encode, jump_split())))


def shown(transforms: dict, key, task, sample):
    """Lines transformed by the setting; transforms: `scan.TRAINING` or `scan.TEST`."""
    return jax.lax.switch(task, [transforms[name] for name in SETTINGS], key, sample)


def sets(config, data, replica, n: int) -> dict:
    """n lines of each part, drawn from the seed."""
    key, drawn = rng.stream(jax.random.key(replica["seed"]), "data"), {}
    for i, (part, transforms) in enumerate((("train", TRAINING), ("test", TEST))):
        row_key, word_key = jax.random.split(jax.random.fold_in(key, i))
        rows = jax.random.randint(row_key, (n,), 0, len(data[part].commands))
        sample = tree.take(data[part], rows)
        drawn[part] = shown(transforms, word_key, replica["task"], sample)
    return drawn


def right(config, params, sample):
    """Whether each line is decoded without an error: boolean [n]."""
    decoded = greedy(network(config), params, sample.commands, LIMIT)
    return is_right(decoded, sample.actions)


def matrix(config, params, sample) -> dict:
    """Dependence of logits at structure (0) and actions (1) on embeddings of both word kinds."""
    net, variables = network(config), {"params": params}
    embedded = net.apply(variables, sample.commands, method="embed")
    context = {"real": sample.commands != PAD, "previous": previous(sample.actions, N_SYMBOLS)}

    def f(params, embedded, context):
        args = (embedded, context["real"], context["previous"])
        return net.apply({"params": params}, *args, method="logits")

    outputs, inputs = components(sample, config.model.embedding)
    dependences = dependence.gradient_dependence(
        f, params, embedded, inputs, outputs, context, (2, 2), chunk=4
    )
    return entries("D", dependences) | {
        "S of action words in structure": dependence.shares(dependences)[0, 1],
        "S of structure in actions": dependence.shares(dependences)[1, 0],
    }


def experiment(config, data=None) -> program.Experiment:
    """Lines drawn with replacement, teacher forcing, sentence accuracy by greedy decoding.

    data: as `lines` returns them, which is called if they are None.
    """
    net = network(config)

    def init(key, replica):
        shapes = jnp.zeros((1, LONGEST_COMMAND), int), jnp.zeros((1, LIMIT), int)
        return net.init(key, *shapes)["params"], {}

    def loss(params, extra, batch, key, step, replica):
        sample = shown(TRAINING, key, replica["task"], batch["lines"])
        logits = net.apply({"params": params}, sample.commands, previous(sample.actions, N_SYMBOLS))
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
        bare = is_bare(drawn["train"])
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
        data=jax.tree.map(jnp.asarray, lines(config)) if data is None else data,
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
    for part, transforms in (("train", TRAINING), ("test", TEST)):
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
        return greedy(network(config), params, commands, LIMIT)

    return checkpoint.Loaded(predict, params, config, steps)
