"""Odd one out in language: pairs of words, or single words, that training never shows."""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.experiments.predict.model import Contents, Data, Program, Subject, accuracy, signs, some
from cgjax.experiments.subnetworks import bases, language, odd_one_out, stages, tasks
from cgjax.experiments.subnetworks.language import tasks as language_tasks

WORDS = "inputs are words, which have no derivative"
TEMPLATE, NOUN, VERB = "simple_agrmt", "MS", "MV"  # the two factors are its nouns and verbs


def program(config, settings) -> Program:
    """One network on one rule; problems with held-out words or combinations are unseen.

    Scores are of problems of four sentences. Predictors see sentences of a noun and a verb, whose
    output is their embedding: a sentence has no target of its own.
    """
    if settings.data.held_out == "nothing":
        raise BadInput("a pair of this family holds something out: set data.held_out=combinations")
    task = stages.task_of(settings)
    experiment = bases.experiment(settings, task)
    return Program(
        experiment,
        bases.in_steps(settings, task),
        lambda: Contents(experiment, (subject_of(config, settings, task),)),
        block="language" if settings.model.start == "pretrained" else "",
    )


def subject_of(config, settings, task: tasks.Task) -> Subject:
    """The pair of the program."""
    how, sets = settings.data.held_out, task.sets.rows
    seen, new = sets["train"]["compositional"], sets["test"]["held_out"]
    seen, new = seen[some(len(seen), config.eval.n_train)], new[some(len(new), config.eval.n_new)]

    def shown(rows):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], task.sets.table)

    def answers(rows):  # the odd one is last; the order has no information for the network
        return signs(jnp.full(len(rows), odd_one_out.N - 1), odd_one_out.N)

    lists = [language.WORDS[symbol] for symbol in (NOUN, VERB)]
    factors = np.argwhere(np.ones(tuple(map(len, lists))))
    choices = [{NOUN: lists[0][i], VERB: lists[1][j]} for i, j in factors]
    is_known = ~np.array([language.is_held_out(how, TEMPLATE, choice) for choice in choices])
    sentences = jax.tree.map(lambda leaf: leaf[is_known], phrases(settings, task))
    data = Data(
        shown(seen),
        answers(seen),
        factors[is_known],
        sentences,
        np.zeros((is_known.sum(), 1)),
        factors[~is_known],
        shown(new),
        answers(new),
    )

    def f(params, problems):
        """Logits [n, 4] of problems, whose four inputs are on the second axis; or embeddings."""
        if problems["ids"].ndim == 2:
            return task.embed(params, problems)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), problems)
        return odd_one_out.logits(task.embed(params, flat))

    is_pretrained = settings.model.start == "pretrained"
    return Subject(
        task=f"{settings.data.rule}_{settings.data.number}_{how}",
        model="minilm" if is_pretrained else f"bert_{settings.model.hidden}",
        rows=tuple(range(len(settings.train.seeds))),
        f=f,
        layer=task.embed,
        data=(data,) * len(settings.train.seeds),
        score=accuracy,
        chance=1 / odd_one_out.N,
        parts=WORDS,
    )


def phrases(settings, task: tasks.Task) -> dict:
    """Every noun with every verb, encoded as sentences for the network: {name: [n * n, length]}."""
    texts = language.sentences(TEMPLATE, *["singular"] * 2)
    length = task.sets.table["ids"].shape[1]
    ids = np.zeros((len(texts), length), np.int32)
    for row, text in zip(ids, texts):
        code = language_tasks.encoder(settings)(text)
        row[: len(code)] = code
    return {"ids": jnp.asarray(ids), "mask": jnp.asarray((ids > 0).astype(np.int32))}
