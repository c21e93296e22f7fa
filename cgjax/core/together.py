"""Runs that differ only in numbers of their replicas, trained as one program.

A run hands over what it has to train (`train.HANDS_OVER`). Of what several runs hand over, that is
put side by side which is the same program to the letter: its text is compared, so that a number
that has become a constant of it, or a shape, is found out and never mistaken for another's.
"""

import hashlib
import json

import jax
import numpy as np

from cgjax.core import checkpoint, train, tree
from cgjax.core.errors import Diverged
from cgjax.core.plan import Plan
from cgjax.core.shares import Share


def alike(shares: list[Share]) -> list[list[Share]]:
    """Shares that one program can train, at the step where they stand."""
    if len(shares) == 1:
        return [shares]
    found = {}
    for share in shares:
        found.setdefault(_mark(share), []).append(share)
    return list(found.values())


def fit(shares: list[Share]) -> None:
    """Trains what `alike` has put together; one that dies has its `error`, the others go on."""
    try:
        train.train_shares(shares)
    except Diverged:  # the last one too
        pass


def _mark(share: Share) -> str:
    experiment, config = share.experiment, share.config
    times = {name: config[name].to_dict() for name in ("train", "eval", "checkpoint")}
    del times["train"]["seeds"]
    parts = [share.name, str(share.step), json.dumps(times, sort_keys=True)]
    parts.append(_text(train.SetUp(experiment, config)))
    if not experiment.own_data:
        parts.append(json.dumps({k: _sum(leaf) for k, leaf in tree.flat(experiment.data).items()}))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _text(set_up: train.SetUp) -> str:
    """All programs of a training; where only replicas and data differ they are the same."""
    experiment, keys = set_up.experiment, set_up.keys
    state, shapes = set_up.abstract_state(), jax.eval_shape(lambda data: data, experiment.data)
    where = set_up.place.everywhere if set_up.data_axis is None else set_up.place.replicas
    data = checkpoint.abstract(shapes, jax.tree.map(lambda _: where, shapes))
    plan = Plan(experiment, keys, set_up.config.train.steps_per_call, set_up.place)
    lowered = [
        jax.jit(set_up.init_fn).lower(keys, set_up.replicas),
        set_up.lowered_call(state, data, plan.rows(0)),
        set_up.lowered_evaluate(state, data),
    ]
    lowered += [] if plan.empty else [plan.draw.lower(keys, 0)]
    return "".join(one.as_text() for one in lowered)


def _sum(leaf) -> int:
    is_key = jax.dtypes.issubdtype(jax.numpy.result_type(leaf), jax.dtypes.prng_key)
    return tree.checksum(np.asarray(jax.random.key_data(leaf) if is_key else leaf))
