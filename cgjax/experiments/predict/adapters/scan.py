"""SCAN: four action words in clauses such as "jump around left twice"; "jump" is known in some.

Lines are the 21 clauses of an action word, alone and beside a turn ("turn left after jump twice").
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import optim, tree
from cgjax.core.contract import Experiment
from cgjax.core.replicas import Grid
from cgjax.experiments.predict.model import Data, Program, Subject, signs, some
from cgjax.experiments.resistance import models, scan
from cgjax.experiments.resistance.training import scan as of_scan
from cgjax.nets.rnn import PAD, previous

KNOWN = (1, 4, 8, 16)  # clauses in which "jump" is known; the first is the bare word
WORDS = "inputs are words, which have no derivative"
TURNED = ("{{}} and {}", "{{}} after {}", "{} and {{}}", "{} after {{}}")
BESIDE = ["{}", *(form.format(f"turn {d}") for d in scan.TURNS for form in TURNED)]
SYMBOLS = (8, 26)  # of the longest command and of its actions, with END
CLAUSES = [clause.replace("walk", "{}") for clause in scan.clauses() if "walk" in clause]


def program(config, settings) -> Program:
    """One network, with every number of known clauses.

    A line is right if every symbol is the likeliest after the true symbols before it. Predictors
    see clauses alone; their representation is the decoder's initial state.
    """
    net, seeds, batch = of_scan.network(settings), settings.train.seeds, settings.data.batch
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
    return Program(experiment, settings, tuple(subjects), block="scan")


def before(lines: scan.Lines):
    """The decoder's inputs: the true previous symbols."""
    return previous(lines.actions, scan.N_SYMBOLS)


def lines_right(y, logits) -> float:
    """Share of lines with the right symbol at every position; y is 0 after the last symbol."""
    is_right = jnp.argmax(logits, axis=-1) == jnp.argmax(y, axis=-1)
    return float(jnp.mean(jnp.all(is_right | ~jnp.any(y, axis=-1), axis=1)))
