"""SCAN (Lake and Baroni 2018): grammar, splits, and lines encoded as padded symbols.

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

from cgjax.core.errors import BadInput
from cgjax.data import sources
from cgjax.nets.rnn import END, PAD

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
