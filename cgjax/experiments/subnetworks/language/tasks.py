"""Tasks of language: sentences of a rule, read by a BERT or by a network of known structure."""

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.data import pretrained, wordpiece
from cgjax.experiments.subnetworks import language
from cgjax.experiments.subnetworks.odd_one_out import N
from cgjax.experiments.subnetworks.tasks import DTYPES, PARTS, Sets, Task, cells, sizes
from cgjax.nets import convert
from cgjax.nets.bert import Bert

TOKENS = (*language.TOKENS, "wordpiece")
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
    sets = of_language(config, lambda text: language.encode(text, "words"))
    init, embed = BUILT[config.model.arch](config)
    return Task(sets, init, embed, LAYERS.get)


def oracle(config, params, target: int) -> dict:
    """The mask of a subroutine, known from the construction: a tree like params, in NumPy."""
    shapes = {name: params[name]["kernel"].shape for name in ("hidden", "out")}
    if config.model.arch == "modular":
        hidden, out = (np.zeros(shape, np.float32) for shape in shapes.values())
        units = slice(target * UNITS, (target + 1) * UNITS)
        hidden[:, units] = out[units] = 1
        return {"hidden": {"kernel": hidden}, "out": {"kernel": out}}
    is_rule_word = columns(config.data.rule, config.data.number, target)[:, :1]
    return {
        "hidden": {"kernel": np.broadcast_to(np.float32(is_rule_word), shapes["hidden"])},
        "out": {"kernel": np.ones(shapes["out"], np.float32)},
        "rest": None,
    }


# --- sets of problems, drawn from one pool of sentences per cell ----------------------------------


SPLITS = ("published", "disjoint")


class Pool:
    """Indices of a cell's inputs in the table, taken one after another in a random order."""

    def __init__(self, rng, places):
        self.places, self.next = rng.permutation(places), 0
        self.unused = self.places

    def take(self, n: int, rng) -> np.ndarray:
        """The next n indices; after all are used, a new round starts in a new order."""
        taken = []
        while n:
            if self.next == len(self.places):
                self.places, self.next = rng.permutation(self.places), 0
            some = self.places[self.next : self.next + n]
            taken.append(some)
            self.next, n = self.next + len(some), n - len(some)
            self.unused = self.unused[len(some) :]
        return np.concatenate(taken) if taken else np.zeros(0, int)


def draw(rng, pools: dict, rule: tuple, odd: tuple, n: int) -> np.ndarray:
    """n problems [n, 4]: rule inputs and odd ones drawn evenly from their cells, then shuffled."""

    def mixed(cells, count):
        shares = np.full(len(cells), count // len(cells))
        shares[: count % len(cells)] += 1
        taken = [pools[cell].take(int(share), rng) for cell, share in zip(cells, shares)]
        return rng.permutation(np.concatenate(taken))

    return np.concatenate([mixed(rule, (N - 1) * n).reshape(n, N - 1), mixed(odd, n)[:, None]], 1)


def of_language(config, encode) -> Sets:
    """The sets of a rule of language; encode: sentence -> ids.

    splits: "published" draws every set independently from all sentences, and tests from sentences
    that the compositional set does not use; from all sentences if it uses all. "disjoint" first
    divides the distinct sentences among training, validation and test, so that no training sentence
    of any set is in a test.
    """
    data = config.data
    subroutines = language.SUBROUTINES[data.rule]
    n = len(subroutines)
    truths = sorted({cell for rule, odd in cells(n).values() for cell in rule + odd}, reverse=True)
    by_cell = {
        cell: language.pool(tuple(data.templates), cell, data.number, data.held_out)
        for cell in truths
    }
    texts, places = [], {"seen": {}, "held out": {}}
    for cell, both in by_cell.items():
        for name, some in zip(places, both):
            distinct = list(dict.fromkeys(some)) if data.splits == "disjoint" else list(some)
            places[name][cell] = np.arange(len(texts), len(texts) + len(distinct))
            texts += distinct
    rng = np.random.default_rng(data.seed)
    wanted = sizes(config, n)
    rows = (_disjoint if data.splits == "disjoint" else _published)(rng, places["seen"], wanted, n)
    if data.held_out != "nothing":
        pools = {cell: Pool(rng, cell_places) for cell, cell_places in places["held out"].items()}
        rows["test"]["held_out"] = draw(rng, pools, *cells(n)["compositional"], data.n_eval)
    return _used(subroutines, texts, rows, encode)


def _used(subroutines, texts, rows, encode) -> Sets:
    """Builds the table from the sentences that occur in some problem."""
    flat = {(part, name): some for part, sets in rows.items() for name, some in sets.items()}
    used, inverse = np.unique(
        np.concatenate([some.ravel() for some in flat.values()]), return_inverse=True
    )
    coded = [encode(texts[place]) for place in used]
    ids = np.zeros((len(coded), max(map(len, coded))), np.int32)
    mask = np.zeros(ids.shape, np.int32)
    for i, code in enumerate(coded):
        ids[i, : len(code)], mask[i, : len(code)] = code, 1
    ends = np.cumsum([some.size for some in flat.values()])
    new = [part.reshape(-1, N) for part in np.split(inverse.ravel().astype(np.int32), ends[:-1])]
    renamed = {part: {} for part in rows}
    for (part, name), problems in zip(flat, new):
        renamed[part][name] = problems
    return Sets(subroutines, {"ids": ids, "mask": mask}, renamed)


def _published(rng, places, wanted, n) -> dict:
    rows = {part: {} for part in PARTS}
    left = None
    for name, (rule, odd) in cells(n).items():
        if name.startswith("test"):  # from sentences that the compositional set does not use
            pools = {
                cell: Pool(rng, left[cell] if len(left[cell]) else cell_places)
                for cell, cell_places in places.items()
            }
        else:
            pools = {cell: Pool(rng, cell_places) for cell, cell_places in places.items()}
        for part in PARTS:
            rows[part][name] = draw(rng, pools, rule, odd, wanted[name][part])
        if name == "compositional":
            left = {cell: pool.unused for cell, pool in pools.items()}
    return rows


def _disjoint(rng, places, wanted, n) -> dict:
    needs = np.array([max(of[part] for of in wanted.values()) for part in PARTS], float)
    needs[needs == 0] = 1
    ends = np.cumsum(needs / needs.sum())
    shares = {}
    for cell, cell_places in places.items():
        cell_places = rng.permutation(cell_places)
        if len(cell_places) < 4 * len(PARTS):
            raise BadInput(
                f"data.templates give {len(cell_places)} sentences of one kind: too few to "
                "divide among training, validation and test; add templates"
            )
        # At least four sentences per part, so that no part is empty.
        train, both = np.round(ends[:-1] * len(cell_places)).astype(int)
        train = np.clip(train, 4, len(cell_places) - 8)
        both = np.clip(both, train + 4, len(cell_places) - 4)
        shares[cell] = dict(zip(PARTS, np.split(cell_places, [train, both])))
    rows = {part: {} for part in PARTS}
    for name, (rule, odd) in cells(n).items():
        for part in PARTS:
            pools = {cell: Pool(rng, cell_places[part]) for cell, cell_places in shares.items()}
            rows[part][name] = draw(rng, pools, rule, odd, wanted[name][part])
    return rows
