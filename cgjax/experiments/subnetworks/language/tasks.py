"""Tasks of language: sentences of a rule, read by a BERT or by a network of known structure."""

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.data import pretrained, wordpiece
from cgjax.experiments.subnetworks.language import grammar
from cgjax.experiments.subnetworks.language.problems import of_language
from cgjax.experiments.subnetworks.tasks import DTYPES, Task
from cgjax.nets import convert
from cgjax.nets.bert import Bert

TOKENS = (*grammar.TOKENS, "wordpiece")
STARTS = ("scratch", "random", "pretrained")


def task(config) -> Task:
    """A rule about sentences, and the network of `model.arch` and `model.start`."""
    if config.model.arch in BUILT:
        return built(config)
    return pretrained_bert(config) if config.model.start == "pretrained" else bert(config)


# --- BERT -----------------------------------------------------------------------------------------

LINEAR = re.compile(r"^layer_(\d+)/(query|key|value|attention_out|ffn_in|ffn_out)/kernel$")


def bert_layer(name: str) -> int | None:
    """The encoder layer of a linear map; None for embeddings, norms and biases (never masked)."""
    match = LINEAR.match(name)
    return int(match[1]) if match else None


def of_bert(net, params_of) -> tuple[Callable, Callable]:
    """(init, embed) of a BERT; an input's embedding is the final state of its first token."""

    def embed(params, inputs):
        def first(net, ids, mask):
            return net.first_token(net.embed(ids), mask)

        states = net.apply({"params": params}, inputs["ids"], inputs["mask"], method=first)
        return states.astype(jnp.float32)

    return params_of, embed


def vocabulary(config) -> dict[str, int]:
    """Ids of words or pieces."""
    if config.data.tokens == "wordpiece":
        return wordpiece.read_vocabulary(pretrained.minilm() / "vocab.txt")
    return grammar.vocabulary(config.data.tokens)


def encoder(config) -> Callable:
    """The function sentence -> ids for `data.tokens`."""
    if config.data.tokens != "wordpiece":
        return lambda text: grammar.encode(text, config.data.tokens)
    known = vocabulary(config)

    def encode(text):
        pieces = [wordpiece.FIRST, *wordpiece.tokenize(text, known), wordpiece.LAST]
        return [known[piece] for piece in pieces]

    return encode


def pretrained_bert(config) -> Task:
    """Pretrained MiniLM for every base; bases differ only in the order of their problems."""
    net, params = convert.bert_from_folder(pretrained.minilm(), dtype=DTYPES[config.model.dtype])
    shape = (config.model.hidden, config.model.layers, config.model.heads)
    if shape != (net.hidden, net.layers, net.heads):
        raise BadInput(
            f"model.start=pretrained is MiniLM: set model.hidden={net.hidden}, "
            f"model.layers={net.layers}, model.heads={net.heads}"
        )
    sets = of_language(config, encoder(config))
    return Task(
        sets,
        *of_bert(net, lambda key: jax.tree.map(jnp.asarray, params)),
        bert_layer,
        DTYPES[config.model.dtype],
    )


def bert(config) -> Task:
    """A BERT with random initial weights."""
    model = config.model
    sets = of_language(config, encoder(config))
    length = sets.table["ids"].shape[1]
    net = Bert(
        vocab=len(vocabulary(config)),
        hidden=model.hidden,
        layers=model.layers,
        heads=model.heads,
        intermediate=4 * model.hidden,
        positions=length,
        dtype=DTYPES[model.dtype],
    )

    def init(key):
        ids = jnp.zeros((1, length), jnp.int32)
        return net.init(key, ids, ids)["params"]

    return Task(sets, *of_bert(net, init), bert_layer, DTYPES[model.dtype])


# --- networks of known structure ------------------------------------------------------------------
#
# The measure must find modules in one of them and none in the other. Both networks read a sentence
# as a bag of words and detect the number of its head (branch 0) and of its dependent (branch 1)
# from the forms of words; both solve the rule. All weights except the thresholds are masked.
#
#     modular    two branches, one per subroutine; their embeddings are concatenated
#     template   units that are active only if all subroutines are obeyed: one stored conjunction
#
# The *oracle* mask of a subroutine is its branch. In the template it is the weights of its words:
# without them no unit is ever active.

UNITS = 8  # hidden units of each branch
DIRECTIONS = 4  # dimensions of each branch's embedding

# Threshold of the template's units: two words of the rule exceed it, one word does not.
THRESHOLD = 1.5


def forms(rule: str, which: int) -> dict[str, set[str]]:
    """{number: word forms of that number} for the head (0) or the dependent (1) of a rule."""
    symbols = {grammar.TEMPLATES[name][1 + which][0] for name in grammar.FAMILIES[rule]}
    by_number = {number: set() for number in grammar.NUMBERS}
    for symbol in symbols:
        for word in grammar.WORDS[symbol]:
            for number in grammar.NUMBERS:
                shown = grammar.inflect(symbol, word, number)
                by_number[number].add(shown if symbol in grammar.NOUNS else shown.split(" ")[0])
    return by_number


def columns(rule: str, number: str, which: int) -> np.ndarray:
    """[words, 2]: 1 if a word form has the rule's number; 1 if it has the other number."""
    known = grammar.vocabulary("words")
    matching, other = forms(rule, which)[number], forms(rule, which)[_other(number)]
    table = np.zeros((len(known), 2), np.float32)
    for word, i in known.items():
        table[i] = word in matching, word in other
    return table


def _other(number):
    return grammar.NUMBERS[1 - grammar.NUMBERS.index(number)]


def _counted(kernel, ids):
    """A bag of words times a kernel [words, units]; the row of padding is zero."""
    return jnp.sum(kernel[ids], axis=1)


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


BUILT = {"modular": modular, "template": template}
NETS = ("bert", *BUILT)
LAYERS = {"hidden/kernel": 0, "out/kernel": 1}


def built(config) -> Task:
    """A rule of language with one of the two networks."""
    sets = of_language(config, lambda text: grammar.encode(text, "words"))
    init, embed = BUILT[config.model.arch](config)
    return Task(sets, init, embed, LAYERS.get)


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
