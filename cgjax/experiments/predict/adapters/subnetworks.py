"""Odd one out in language: pairs of words, or single words, that training never shows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cgjax.core.errors import BadInput
from cgjax.experiments.across.pair import Look, Pair, error_rate, signs, some
from cgjax.experiments.subnetworks import bases, language, odd_one_out, stages, tasks
from cgjax.experiments.subnetworks.language import tasks as language_tasks

NO_COMPOSITION = "no network of this family has the rule's composition: the theorem is silent"
WORDS = "inputs are words, which have no derivative, and the answer needs both subroutines"
TEMPLATE, NOUN, VERB = "simple_agrmt", "MS", "MV"  # the two factors are its nouns and verbs


def pair(config, settings) -> Pair:
    """One network on one rule; problems with held-out words or combinations are new."""
    if settings.data.held_out == "nothing":
        raise BadInput("a pair of this family holds something out: set data.held_out=combinations")
    task = stages.task_of(settings)
    sets = task.sets.rows
    seen, new = sets["train"]["compositional"], sets["test"]["held_out"]
    seen, new = seen[some(len(seen), config.eval.n_train)], new[some(len(new), config.eval.n_new)]

    def shown(rows):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], task.sets.table)

    def answers(rows):  # the odd one is last; the order has no information for the network
        return signs(jnp.full(len(rows), odd_one_out.N - 1), odd_one_out.N)

    sentences = phrases(settings, task)
    look = Look(shown(seen), answers(seen), shown(new), answers(new), sentences)

    def f(params, problems):
        """Logits [n, 4] of problems, whose four inputs are on the second axis."""
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), problems)
        return odd_one_out.logits(task.embed(params, flat))

    def loss(y, outputs):
        labels = jnp.argmax(y, axis=-1)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(outputs, labels))

    def of_subroutine(params, look, i):
        """The loss on problems that one subroutine alone solves."""
        rows = sets["train"][f"mask_{i}"]
        rows = rows[some(len(rows), config.eval.n_train)]
        return loss(answers(rows), f(params, shown(rows)))

    return Pair(
        experiment=bases.experiment(settings, task),
        settings=bases.in_steps(settings, task),
        rows=tuple(range(len(settings.train.seeds))),
        f=f,
        looks=(look,) * len(settings.train.seeds),
        error=error_rate,
        loss=loss,
        support=NO_COMPOSITION,
        layer=task.embed,
        shape=(len(language.WORDS[NOUN]), len(language.WORDS[VERB])),
        parts=WORDS,
        routines={
            name: functools.partial(of_subroutine, i=i) for i, name in enumerate(task.subroutines)
        },
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
