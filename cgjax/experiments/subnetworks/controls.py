"""Networks of known structure: the measure must find modules in one of them and none in the other.

Both networks read a sentence as a bag of words and detect the number of its head (branch 0) and of
its dependent (branch 1) from the forms of words; both solve the rule. All weights except the
thresholds are masked.

    modular    two branches, one per subroutine; their embeddings are concatenated
    template   units that are active only if all subroutines are obeyed: one stored conjunction

The *oracle* mask of a subroutine is its branch. In the template it is the weights of its words:
without them no unit is ever active.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.experiments.subnetworks import language, problems, tasks

UNITS = 8  # hidden units of each branch
DIRECTIONS = 4  # dimensions of each branch's embedding
# Threshold of the template's units: two words of the rule exceed it, one word does not.
THRESHOLD = 1.5


def forms(rule: str, which: int) -> dict[str, set[str]]:
    """{number: word forms of that number} for the head (0) or the dependent (1) of a rule."""
    symbols = {language.TEMPLATES[name][1 + which][0] for name in language.FAMILIES[rule]}
    by_number = {number: set() for number in language.NUMBERS}
    for symbol in symbols:
        for word in language.WORDS[symbol]:
            for number in language.NUMBERS:
                shown = language.inflect(symbol, word, number)
                by_number[number].add(shown if symbol in language.NOUNS else shown.split(" ")[0])
    return by_number


def columns(rule: str, number: str, which: int) -> np.ndarray:
    """[words, 2]: 1 if a word form has the rule's number; 1 if it has the other number."""
    known = language.vocabulary("words")
    matching, other = forms(rule, which)[number], forms(rule, which)[_other(number)]
    table = np.zeros((len(known), 2), np.float32)
    for word, i in known.items():
        table[i] = word in matching, word in other
    return table


def _other(number):
    return language.NUMBERS[1 - language.NUMBERS.index(number)]


def _counted(kernel, ids):
    """A bag of words times a kernel [words, units]; the row of padding is zero."""
    return jnp.sum(kernel[ids], axis=1)


# --- the two networks -----------------------------------------------------------------------------


def modular(config) -> tuple:
    """(init, embed) of the two branches; each seed draws its own gains and directions.

    Both branches share the same leaves, so that size-matched removals affect both.
    """
    tables = [columns(config.data.rule, config.data.number, which) for which in (0, 1)]

    def init(key):
        hidden, out = zip(
            *(_branch(jax.random.fold_in(key, i), table) for i, table in enumerate(tables))
        )
        return {
            "hidden": {"kernel": jnp.concatenate(hidden, axis=1)},
            "out": {"kernel": jax.scipy.linalg.block_diag(*out)},
        }

    def embed(params, inputs):
        hidden = jax.nn.relu(_counted(params["hidden"]["kernel"], inputs["ids"]))
        return hidden @ params["out"]["kernel"]

    return init, embed


def _branch(key, table) -> tuple:
    """Half of the units detect the rule's number, half the other, with opposite embeddings."""
    gains, direction = jax.random.split(key)
    sign = np.arange(UNITS) % 2
    scale = jax.random.uniform(gains, (UNITS,), minval=0.5, maxval=1.5)
    hidden = jnp.asarray(table[:, sign]) * scale[None]
    return hidden, jnp.asarray(1.0 - 2.0 * sign)[:, None] * _unit(direction)[None]


def _unit(key):
    """A random unit vector of the embedding."""
    vector = jax.random.normal(key, (DIRECTIONS,))
    return vector / jnp.linalg.norm(vector)


def template(config) -> tuple:
    """(init, embed) of units that detect only the conjunction."""
    tables = [columns(config.data.rule, config.data.number, which) for which in (0, 1)]
    is_rule_word = np.stack([table[:, 0] for table in tables], axis=1).sum(axis=1)

    def init(key):
        scale = jax.random.uniform(key, (UNITS,), minval=0.9, maxval=1.1)
        unit = _unit(jax.random.fold_in(key, 1))
        return {
            "hidden": {"kernel": jnp.asarray(is_rule_word)[:, None] * scale[None]},
            "out": {"kernel": jnp.ones((UNITS, 1)) * unit[None]},
            "rest": -unit,
        }  # embedding if no unit is active

    def embed(params, inputs):
        fires = jax.nn.relu(_counted(params["hidden"]["kernel"], inputs["ids"]) - THRESHOLD)
        return fires @ params["out"]["kernel"] + params["rest"][None]

    return init, embed


NETS = {"modular": modular, "template": template}


LAYERS = {"hidden/kernel": 0, "out/kernel": 1}


def task(config) -> tasks.Task:
    """A rule of language with one of the two networks."""
    sets = problems.of_language(config, lambda text: language.encode(text, "words"))
    init, embed = NETS[config.model.arch](config)
    return tasks.Task(sets, init, embed, LAYERS.get)


def oracle(config, params, target: int) -> dict:
    """The mask of a subroutine, known from the construction: a tree like params."""
    hidden, out = (jnp.zeros_like(params[name]["kernel"]) for name in ("hidden", "out"))
    if config.model.arch == "modular":
        units = slice(target * UNITS, (target + 1) * UNITS)
        return {
            "hidden": {"kernel": hidden.at[:, units].set(1.0)},
            "out": {"kernel": out.at[units].set(1.0)},
        }
    is_rule_word = columns(config.data.rule, config.data.number, target)[:, :1]
    return {
        "hidden": {"kernel": jnp.broadcast_to(jnp.asarray(is_rule_word), hidden.shape)},
        "out": {"kernel": out + 1},
        "rest": None,
    }
