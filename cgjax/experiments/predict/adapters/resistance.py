"""Adapters of the resistance family: the plane, pairs of digits, SCAN.

On the plane X_2 predicts the target in training, and not in the square that is held out.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import optim, tree
from cgjax.core.contract import Experiment
from cgjax.core.errors import BadInput
from cgjax.core.replicas import Grid
from cgjax.experiments.predict.model import (
    Contents,
    Data,
    Parts,
    Program,
    Subject,
    captured,
    first_head_accuracy,
    signs,
    some,
)
from cgjax.experiments.resistance import models, pairs, plane, scan
from cgjax.nets.rnn import PAD, previous

BINS = 8  # values of each coordinate, for predictors that need values


def program(config, settings) -> Program:
    """Every start and penalty on setting A; the square that training never shows is unseen."""
    members, size = plane.settings(settings), f"{_kind(settings.model)}_{settings.model.width}"
    experiment = plane.experiment(settings, data={})

    def make():
        points_drawn = plane.points_of(settings)
        data = jax.tree.map(np.asarray, points_drawn)
        cases = []
        for s in range(len(settings.train.seeds)):
            points, new = (tree.take(data[name], s * len(members)) for name in ("train", "test"))
            chosen = some(len(points.x), config.eval.n_train)
            x, y = points.x[chosen], targets(settings, points.y[chosen])
            # A point on the edge of the held-out square belongs to a bin that is asked.
            factors, asked = bins(x), np.argwhere(np.ones((BINS // 2, BINS // 2))) + BINS // 2
            inside = ~(factors >= BINS // 2).all(axis=1)
            x_new, y_new = new.x[: config.eval.n_new], targets(settings, new.y[: config.eval.n_new])
            cases.append(Data(x, y, factors[inside], x[inside], y[inside], asked, x_new, y_new))

        def layer(params, x):
            return hidden(settings, params, x)

        pairs_of_members = [
            (
                f"plane_{settings.data.n_points}",
                "_".join([size, *member.name.replace(",", "").split()]),
                tuple(cases),
            )
            for member in members
        ]
        subjects = _subjects(settings, plane, pairs_of_members, layer, 2)
        return Contents(experiment._replace(data=points_drawn), subjects)

    return Program(experiment, plane.in_steps(settings), make)


def _subjects(settings, module, pairs_of_members, layer, n_classes: int) -> tuple[Subject, ...]:
    """pairs_of_members: task, model and data of each setting; replicas are seeds x settings.

    Each of two heads needs its own part of the input; with one head the target needs the first.
    """
    f, heads = module.predictor(settings), settings.model.heads
    replicas = np.arange(len(settings.train.seeds) * len(pairs_of_members))
    rows = replicas.reshape(-1, len(pairs_of_members)).T.tolist()
    parts = Parts(module.INPUTS, plane.outputs_of(heads, n_classes), centred=True)
    return tuple(
        Subject(task, model, tuple(row), f, layer, data, first_head_accuracy, parts, 1 / n_classes)
        for row, (task, model, data) in zip(rows, pairs_of_members)
    )


def _kind(model) -> str:
    return "towers" if model.towers else f"heads_{model.heads}" if model.heads > 1 else "plain"


def bins(x) -> np.ndarray:
    """The bin of each coordinate of points [n, 2] in [-1, 1]."""
    return np.clip(np.floor((np.asarray(x) + 1) / 2 * BINS), 0, BINS - 1).astype(int)


def targets(settings, y):
    """Targets of logits: [n, 2] for one head, else [n, heads, 2]."""
    return signs(y[:, 0] if settings.model.heads == 1 else y, 2)


def hidden(settings, params, x):
    """Activations [n, units] of the last hidden layer; those of two towers are concatenated."""
    last = f"dense_{settings.model.n_hidden - 1}"
    return nn.relu(captured(plane.network(settings), last, {"params": params}, x))


# --- digits ---------------------------------------------------------------------------------------
# Two digits: the right one is one of `width` labels from the left one on, which is the target.


C = pairs.N_CLASSES


def digits_program(config, settings) -> Program:
    """Every width; pairs of labels that training never shows are unseen, on the same images."""
    if max(settings.data.widths) == C or min(settings.data.rhos) < 1:
        raise BadInput("a pair of digits holds labels out: set data.widths below 10, data.rhos=1")
    model, members, seeds = settings.model, pairs.settings(settings), settings.train.seeds
    net, experiment = pairs.network(settings), pairs.experiment(settings, data={})

    def layer(params, x):
        return nn.relu(captured(net, "dense_0", {"params": params}, x))

    def make():
        digits = pairs.digits(settings)
        images = jax.tree.map(jnp.asarray, digits["train"])
        pairs_of_members = []
        for member in members:
            # The first label of a member is its width, if there are several.
            labels = member.name.split(", ")[len(settings.data.widths) > 1 :]
            width = int(member.numbers["width"])
            name = "_".join([model.arch, _kind(model), *" ".join(labels).split()])
            data = tuple(_digits_data(config, settings, images, width, seed) for seed in seeds)
            pairs_of_members.append((f"width_{width}", name, data))
        subjects = _subjects(settings, pairs, pairs_of_members, layer, C)
        return Contents(experiment._replace(data=digits), subjects)

    return Program(experiment, pairs.in_steps(settings), make, block="digits")


def _digits_data(config, settings, images: pairs.Digits, width: int, seed: int) -> Data:
    is_known = np.arange(C) < width  # by the difference of the two labels
    keys = jax.random.split(jax.random.key(seed))
    sets = []
    for key, offsets, n in zip(
        keys, (is_known, ~is_known), (config.eval.n_train, config.eval.n_new)
    ):
        drawn = pairs.draw_pairs(key, images, jnp.asarray(offsets / offsets.sum(), jnp.float32), n)
        labels = signs(pairs.targets(settings, drawn), C)
        sets.append((drawn, pairs.network_input(images.images, drawn), labels))
    (known, x, y), (_, x_new, y_new) = sets
    factors = np.stack([np.asarray(known.y1), np.asarray(known.y2)], axis=1)
    labels = np.argwhere(np.ones((C, C)))
    asked = labels[~is_known[(labels[:, 1] - labels[:, 0]) % C]]
    return Data(x, y, factors, x, y, asked, x_new, y_new)


# --- SCAN -----------------------------------------------------------------------------------------
# Four action words in clauses such as "jump around left twice"; "jump" is known in some.
#
# Lines are the 21 clauses of an action word, alone and beside a turn ("turn left after jump
# twice").


KNOWN = (1, 4, 8, 16)  # clauses in which "jump" is known; the first is the bare word
WORDS = "inputs are words, which have no derivative"
TURNED = ("{{}} and {}", "{{}} after {}", "{} and {{}}", "{} after {{}}")
BESIDE = ["{}", *(form.format(f"turn {d}") for d in scan.TURNS for form in TURNED)]
SYMBOLS = (8, 26)  # of the longest command and of its actions, with END
CLAUSES = [clause.replace("walk", "{}") for clause in scan.clauses() if "walk" in clause]


def scan_program(config, settings) -> Program:
    """One network, with every number of known clauses.

    A line is right if every symbol is the likeliest after the true symbols before it. Predictors
    see clauses alone; their representation is the decoder's initial state.
    """
    net, seeds, batch = scan.network(settings), settings.train.seeds, settings.data.batch
    axes = Grid(seed=seeds, known=range(len(KNOWN)))
    words = list(scan.ACTION_WORDS)
    # The first len(CLAUSES) * len(words) lines are clauses alone.
    places = np.argwhere(np.ones((len(BESIDE), len(words), len(CLAUSES))))
    texts = [BESIDE[b].format(CLAUSES[c].format(words[w])) for b, w, c in places]
    lines = scan.encode([(text, scan.interpret(text)) for text in texts], *SYMBOLS)
    lines = jax.tree.map(jnp.asarray, lines)
    order = [0, *1 + np.random.default_rng(0).permutation(len(CLAUSES) - 1)]
    is_jump = places[:, 1] == words.index("jump")
    masks = [~is_jump | np.isin(places[:, 2], order[:n]) for n in KNOWN]
    trained = [np.flatnonzero(mask) for mask in masks]
    longest = max(map(len, trained))
    rows = np.stack([np.resize(chosen, longest) for chosen in trained])

    def init(key, replica):
        return net.init(key, lines.commands[:1], before(lines)[:1])["params"], {}

    def loss(params, extra, batch_lines, key, step, replica):
        place = jax.random.randint(key, (batch,), 0, longest)
        sample = tree.take(batch_lines["lines"], batch_lines["rows"][replica["known"], place])
        logits = net.apply({"params": params}, sample.commands, before(sample))
        return models.token_loss(logits, sample.actions), (extra, {})

    def evaluate(params, extra, data, key, replica):
        return {"loss": loss(params, extra, data, key, 0, replica)[0]}, {}

    def f(params, x):
        """Logits [n, L, symbols]; 0 after the last symbol."""
        logits = net.apply({"params": params}, x["commands"], x["previous"])
        return jnp.where(x["is_real"][..., None], logits, 0)

    def layer(params, x):
        variables = {"params": params}
        return net.apply(variables, x["commands"], method="encode_commands").start[0]

    def shown(chosen):
        sample = tree.take(lines, chosen)
        is_real = sample.actions != PAD
        x = {"commands": sample.commands, "previous": before(sample), "is_real": is_real}
        return x, jnp.where(is_real[..., None], signs(sample.actions, scan.N_SYMBOLS), 0)

    experiment = Experiment(
        data={"lines": lines, "rows": rows},
        replicas=axes.replicas() | {"stream": axes.streams()},
        init=init,
        plan=None,
        batch=lambda data, indices, key, step: data,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.by_name("adam", settings.optim.lr, eps=1e-7),
        headline=None,
        identity=axes.identity,
    )

    def make():
        replicas = np.arange(len(seeds) * len(KNOWN)).reshape(len(seeds), -1)
        is_clause = places[:, 0] == 0
        subjects = []
        for i, (n, mask) in enumerate(zip(KNOWN, masks)):
            known, unseen = np.flatnonzero(mask), np.flatnonzero(~mask)
            data = Data(
                *shown(known[some(len(known), config.eval.n_train)]),
                places[mask & is_clause, 1:],
                *shown(np.flatnonzero(mask & is_clause)),
                places[~mask & is_clause, 1:],
                *shown(unseen[some(len(unseen), config.eval.n_new)]),
            )
            subjects.append(
                Subject(
                    task=f"jump_in_{n}_clauses",
                    model=f"lstm_{settings.model.encoder}",
                    rows=tuple(replicas[:, i].tolist()),
                    f=f,
                    layer=layer,
                    data=(data,) * len(seeds),
                    score=lines_right,
                    parts=WORDS,
                )
            )
        return Contents(experiment, tuple(subjects))

    return Program(experiment, settings, make, block="scan")


def before(lines: scan.Lines):
    """The decoder's inputs: the true previous symbols."""
    return previous(lines.actions, scan.N_SYMBOLS)


def lines_right(y, logits) -> float:
    """Share of lines with the right symbol at every position; y is 0 after the last symbol."""
    is_right = jnp.argmax(logits, axis=-1) == jnp.argmax(y, axis=-1)
    return float(jnp.mean(jnp.all(is_right | ~jnp.any(y, axis=-1), axis=1)))
