"""A task: the problems of one rule, and a network that embeds their inputs.

A `Task` holds everything about language or vision that bases and masks need.
"""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.data import pretrained, wordpiece
from cgjax.experiments.subnetworks import language, odd_one_out, problems
from cgjax.nets import convert
from cgjax.nets.bert import Bert

CHUNK = 100  # problems per forward pass outside training
TOKENS = (*language.TOKENS, "wordpiece")
STARTS = ("scratch", "random", "pretrained")
LANGUAGE_NETS = ("bert", "modular", "template")
DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


class Task(NamedTuple):
    """One rule and one network."""

    sets: problems.Sets
    init: Callable  # key -> params
    embed: Callable  # params, inputs {name: [n, ...]} -> embeddings [n, D]
    layer_of: Callable  # name of a leaf -> its layer, or None if it is never masked
    dtype: Any = jnp.float32  # of frozen weights

    @property
    def subroutines(self) -> tuple[str, ...]:
        return self.sets.subroutines


def shown(table: dict, rows) -> dict:
    """The inputs of problems [n, 4], problem by problem: {name: [4n, ...]}."""
    return jax.tree.map(lambda leaf: leaf[rows.ravel()], table)


def answers(task: Task, params, table, rows) -> tuple[jax.Array, jax.Array]:
    """(losses [n], shares solved [n]) of problems [n, 4], in chunks; input order has no effect."""
    n = len(rows)
    chunk = min(CHUNK, n)
    padded = jnp.resize(rows, (math.ceil(n / chunk), chunk, odd_one_out.N))
    labels = jnp.full(chunk, odd_one_out.N - 1)

    def answer_chunk(chunk_rows):
        embedded = task.embed(params, shown(table, chunk_rows))
        return odd_one_out.each_loss(embedded, labels), odd_one_out.share_right(embedded, labels)

    losses, right = jax.lax.map(answer_chunk, padded)
    return losses.ravel()[:n], right.ravel()[:n]


def accuracies(task: Task, params, table, sets: dict) -> dict:
    """{set: accuracy}; the compiled program contains one forward pass for all sets."""
    ends = np.cumsum([len(rows) for rows in sets.values()])
    right = answers(task, params, table, jnp.concatenate(list(sets.values())))[1]
    return {name: jnp.mean(solved) for name, solved in zip(sets, jnp.split(right, ends[:-1]))}


def layer_sets(task: Task, params, firsts: tuple[int, ...]) -> dict[str, np.ndarray]:
    """{leaf: 0 or 1 for each layer set}; a set masks all layers from its first one on."""
    layers = {name: task.layer_of(name) for name in tree.flat(params)}
    known = {name: layer for name, layer in layers.items() if layer is not None}
    for first in firsts:
        if all(layer < first for layer in known.values()):
            raise BadInput(
                f"masks.layers: no layer from {first} on; the last layer is {max(known.values())}"
            )
    return {
        name: np.array([layer >= first for first in firsts], np.float32)
        for name, layer in known.items()
    }


# --- language -------------------------------------------------------------------------------------

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
    return language.vocabulary(config.data.tokens)


def encoder(config) -> Callable:
    """The function sentence -> ids for `data.tokens`."""
    if config.data.tokens != "wordpiece":
        return lambda text: language.encode(text, config.data.tokens)
    known = vocabulary(config)

    def encode(text):
        pieces = [wordpiece.FIRST, *wordpiece.tokenize(text, known), wordpiece.LAST]
        return [known[piece] for piece in pieces]

    return encode


def pretrained_task(config) -> Task:
    """Pretrained MiniLM for every base; bases differ only in the order of their problems."""
    net, params = convert.bert_from_folder(pretrained.minilm(), dtype=DTYPES[config.model.dtype])
    shape = (config.model.hidden, config.model.layers, config.model.heads)
    if shape != (net.hidden, net.layers, net.heads):
        raise BadInput(
            f"model.start=pretrained is MiniLM: set model.hidden={net.hidden}, "
            f"model.layers={net.layers}, model.heads={net.heads}"
        )
    sets = problems.of_language(config, encoder(config))
    return Task(
        sets,
        *of_bert(net, lambda key: jax.tree.map(jnp.asarray, params)),
        bert_layer,
        DTYPES[config.model.dtype],
    )


def language_task(config) -> Task:
    """A rule about sentences, and a BERT with random or pretrained initial weights."""
    model = config.model
    if model.start == "pretrained":
        return pretrained_task(config)
    sets = problems.of_language(config, encoder(config))
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
