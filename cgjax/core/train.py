"""fit(): the one training loop.

Build, restore, loop {call, log, evaluate, save}, finish. A call is `steps_per_call` optimiser steps
of all replicas inside one compiled `lax.scan`; nothing on the host happens per step. Everything a
step needs is a function of (seed, step), so a run killed anywhere and started again repeats itself.
"""

import functools
import logging
import math
import pathlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cgjax.core import checkpoint, parallel, rng, signals, tree
from cgjax.core.errors import BadInput, Diverged, Preempted
from cgjax.core.logging import Metrics, Progress, compiling, say
from cgjax.core.plan import Plan

log = logging.getLogger("cgjax")


class Experiment(NamedTuple):
    """What one experiment tells the loop; all functions are pure and see one replica."""

    data: Any  # on the device, shared by all replicas (stacked per replica where data.seed is -1)
    replicas: dict  # {"seed": [R], any swept number: [R]}
    init: Callable  # key, replica -> (params, extra)
    plan: Callable | None  # key, epoch -> (indices [steps, batch], mask); None: fresh samples
    batch: Callable  # data, indices, key, step -> dict; the loop adds the plan's "mask"
    loss: Callable  # params, extra, batch, key, step, replica -> (scalar, (extra, metrics))
    evaluate: Callable  # params, extra, data, key, replica -> (scalars, arrays)
    tx: Callable  # replica -> optax.GradientTransformation
    headline: tuple  # ("r2_all", "max"): the number that decides "best"
    control: Callable | None = None  # scalars, best, step, lr_scale -> (done, lr_scale)


class Best(NamedTuple):
    """Each replica's best state so far: a checkpoint manager ranks one scalar only."""

    value: jax.Array
    step: jax.Array
    params: Any
    extra: Any


class State(NamedTuple):
    """All leaves but `step` carry the replica axis."""

    step: jax.Array
    params: Any
    extra: Any
    opt_state: Any
    died_at: jax.Array  # step at which the replica turned non-finite; -1 while it lives
    done: jax.Array  # stopped early by `control`
    lr_scale: jax.Array
    best: Best


def fit(experiment: Experiment, config, workdir, name: str = "") -> tuple[State, dict]:
    """Trains every replica to `config.train.steps`; resumes what the workdir holds.

    Returns the final state and the history: `{"step": [n], "loss": [n, R], ..., "eval": {...}}`.
    Seeds added to a finished run are trained beside the old ones, which are only read back.
    """
    check_periods(config)
    workdir = pathlib.Path(workdir)
    seeds = np.asarray(experiment.replicas["seed"])
    states, histories, order = [], [], []
    for group in checkpoint.groups(workdir / "checkpoints", seeds):
        rows = np.flatnonzero(np.isin(seeds, group))
        part = experiment._replace(replicas=tree.take(experiment.replicas, rows))
        if config.data.seed == -1:
            part = part._replace(data=tree.take(experiment.data, rows))
        state, history = _fit_group(part, config, workdir, name)
        states.append(state)
        histories.append(history)
        order.append(rows)
    return _merge(states, histories, np.argsort(np.concatenate(order)))


def _fit_group(experiment: Experiment, config, workdir: pathlib.Path, name: str):
    seeds = np.asarray(experiment.replicas["seed"])
    total, per_call = config.train.steps, config.train.steps_per_call
    set_up = SetUp(experiment, config)
    store = checkpoint.Checkpoints(workdir / "checkpoints" / checkpoint.group_name(seeds))
    metrics = Metrics(workdir / "metrics.jsonl", seeds)

    restored = store.restore(set_up.abstract_state())
    state, meta = restored or (set_up.init(), {"step": 0, "wall_s": 0.0})
    metrics.cut(meta["step"])
    step, started = meta["step"], time.monotonic() - meta["wall_s"]
    if step >= total or meta.get("finished"):
        store.close()
        return state, _history(metrics, meta["wall_s"])
    say(
        f"{name or workdir.name}: {tree.size(state.params) // len(seeds):,} parameters"
        f" x {len(seeds)} replicas" + (f", resumed at step {step:,}" if step else "")
    )

    data, plan = set_up.data(), Plan(experiment, set_up.keys, per_call, set_up.place)
    with compiling():
        call = set_up.compile_call(state, data, plan.rows(step))
        evaluate = set_up.compile_evaluate(state, data)
    progress = Progress(total, experiment.headline[0])
    pending, finished = None, False
    try:
        with signals.stop_request() as stop:
            while step < total and not finished:
                state, stats = call(state, data, plan.rows(step))
                if pending:  # one call late, so that the device never waits for the host
                    _log(metrics, progress, *pending, config.train.log_every)
                pending = (step, stats)
                step += per_call
                if _due(step, config.eval.every, total):
                    _log(metrics, progress, *pending, config.train.log_every)
                    pending = None
                    state, scalars = evaluate(state, data)
                    scalars = parallel.fetch(scalars)
                    metrics.write("eval", step, scalars)
                    progress.score = float(np.nanmean(scalars[experiment.headline[0]]))
                    finished = not np.any(parallel.fetch(_running(state)))
                if _due(step, config.checkpoint.every, total) or stop or finished:
                    if pending:
                        _log(metrics, progress, *pending, config.train.log_every)
                        pending = None
                    wall = time.monotonic() - started
                    finished = finished or step >= total
                    store.save(step, state, {"wall_s": wall, "finished": finished})
                if stop and not finished:
                    store.finish()
                    raise Preempted(f"{stop.name}: saved at step {step:,}; run again to go on")
    finally:
        progress.close()
        store.close()
    _report_deaths(state, seeds)
    return state, _history(metrics, time.monotonic() - started)


# --- one compiled call ----------------------------------------------------------------------------


def _init(experiment: Experiment, keys) -> State:
    def one(key, replica):
        params, extra = experiment.init(rng.stream(key, "init"), replica)
        return params, extra, experiment.tx(replica).init(params)

    replicas = jax.tree.map(jnp.asarray, experiment.replicas)
    params, extra, opt_state = jax.vmap(one)(keys, replicas)
    n = len(keys)
    worst = -jnp.inf if experiment.headline[1] == "max" else jnp.inf
    minus = jnp.full(n, -1, jnp.int32)
    # The best state starts as a copy: donated buffers must not appear twice.
    best = Best(jnp.full(n, worst), minus, *jax.tree.map(jnp.copy, (params, extra)))
    return State(
        step=jnp.zeros((), jnp.int32),
        params=params,
        extra=extra,
        opt_state=opt_state,
        died_at=minus.copy(),
        done=jnp.zeros(n, bool),
        lr_scale=jnp.ones(n),
        best=best,
    )


def _running(state: State):
    return (state.died_at < 0) & ~state.done


def _update(experiment: Experiment, state: State, batch, key, replica):
    """One optimiser step of one replica; a non-finite step leaves everything as it was."""
    grad = jax.value_and_grad(experiment.loss, has_aux=True)
    (loss, (extra, stats)), grads = grad(state.params, state.extra, batch, key, state.step, replica)
    updates, opt_state = experiment.tx(replica).update(grads, state.opt_state, state.params)
    grad_norm = tree.norm(grads)
    finite = jnp.isfinite(loss) & jnp.isfinite(grad_norm) & jnp.isfinite(tree.norm(updates))
    updates = jax.tree.map(lambda u: u * state.lr_scale, updates)
    running = _running(state)
    new = (optax.apply_updates(state.params, updates), extra, opt_state)
    old = (state.params, state.extra, state.opt_state)
    params, extra, opt_state = tree.where(finite & running, new, old)
    state = state._replace(
        params=params,
        extra=extra,
        opt_state=opt_state,
        died_at=jnp.where(~finite & running, state.step, state.died_at),
    )
    return state, {"loss": loss, "grad_norm": grad_norm, **stats}


class SetUp:
    """Where everything lives, and the two compiled programs of a group of replicas."""

    def __init__(self, experiment: Experiment, config):
        self.experiment, self.config = experiment, config
        seeds = jnp.asarray(experiment.replicas["seed"])
        self.place = parallel.layout(len(seeds), config.data.batch if experiment.plan else None)
        self.keys = jax.device_put(jax.vmap(jax.random.key)(seeds), self.place.replicas)
        self.replicas = jax.device_put(experiment.replicas, self.place.replicas)
        self.shapes = jax.eval_shape(functools.partial(_init, experiment, self.keys))
        per_replica = jax.tree.map(lambda _: self.place.replicas, self.shapes)
        self.shardings = per_replica._replace(step=self.place.everywhere)
        # Only the step is shared: schedules that read it need no select under vmap.
        self.axes = jax.tree.map(lambda _: 0, self.shapes)._replace(step=None)
        self.data_axis = 0 if config.data.seed == -1 else None

    def init(self) -> State:
        init = functools.partial(_init, self.experiment)
        # On a CPU, random draws take four times as long to compile with all optimisations.
        options = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
        jitted = jax.jit(init, out_shardings=self.shardings, compiler_options=options)
        return jitted(self.keys)

    def abstract_state(self) -> State:
        return checkpoint.abstract(self.shapes, self.shardings)

    def data(self):
        place = self.place.everywhere if self.data_axis is None else self.place.replicas
        return jax.device_put(self.experiment.data, place)

    def over_replicas(self, one, state, data, *each):
        """`one(state, data, *each)` for every replica: together, or `train.at_once` at a time.

        Convolutions of several replicas at once are grouped convolutions, which are slow on GPUs.
        """
        axes = (self.axes, self.data_axis, *(0 for _ in each))
        together = jax.vmap(one, in_axes=axes, out_axes=(self.axes, 0))
        n = len(self.keys)
        at_once = math.gcd(n, self.config.train.at_once)  # gcd(n, 0) is n
        if at_once == n or self.place.mesh.shape["seed"] > 1:  # devices already take some each
            return together(state, data, *each)
        shared = None if self.data_axis == 0 else data

        def some(group):
            state_part, own, *rest = group
            state_part = state_part._replace(step=state.step)
            found, stats = together(state_part, own if shared is None else shared, *rest)
            return found._replace(step=None), stats

        groups = (state._replace(step=None), data if shared is None else None, *each)
        shape = (n // at_once, at_once)
        groups = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), groups)
        found, stats = jax.tree.map(
            lambda leaf: leaf.reshape(n, *leaf.shape[2:]), jax.lax.map(some, groups)
        )
        return found._replace(step=state.step), stats

    def compile_call(self, state, data, rows):
        """`steps_per_call` optimiser steps of all replicas as one program."""
        experiment = self.experiment

        def one(state, data, row, key, replica):
            batch_key, loss_key = jax.random.split(rng.at(key, "train", state.step))
            indices, mask = row
            batch = experiment.batch(data, indices, batch_key, state.step)
            if mask is not None:
                batch = {**batch, "mask": mask}
            return _update(experiment, state, batch, loss_key, replica)

        # Keys and replicas are arguments: other seeds then find the same program in the cache.
        def call(state, data, rows, keys, replicas):
            def body(state, row):
                state, stats = self.over_replicas(one, state, data, row, keys, replicas)
                return state._replace(step=state.step + 1), stats

            rows = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), rows)
            length = self.config.train.steps_per_call
            state, stats = jax.lax.scan(body, state, rows, length=length)
            return state, {**stats, "alive": state.died_at < 0}

        jitted = jax.jit(call, donate_argnums=0, out_shardings=(self.shardings, None))
        compiled = jitted.lower(state, data, rows, self.keys, self.replicas).compile()
        return lambda state, data, rows: compiled(state, data, rows, self.keys, self.replicas)

    def compile_evaluate(self, state, data):
        """Scalars of every replica, with the best state and `control` brought up to date."""
        experiment = self.experiment
        metric, sense = experiment.headline

        def one(state, data, key, replica):
            key = rng.at(key, "eval", state.step)
            scalars, _ = experiment.evaluate(state.params, state.extra, data, key, replica)
            value = scalars[metric]
            better = value > state.best.value if sense == "max" else value < state.best.value
            now = Best(value.astype(state.best.value.dtype), state.step, state.params, state.extra)
            state = state._replace(best=tree.where(better, now, state.best))
            if experiment.control:
                done, lr_scale = experiment.control(scalars, state.best, state.step, state.lr_scale)
                state = state._replace(done=state.done | done, lr_scale=lr_scale)
            return state, scalars

        def evaluate(state, data, keys, replicas):
            return self.over_replicas(one, state, data, keys, replicas)

        jitted = jax.jit(evaluate, donate_argnums=0, out_shardings=(self.shardings, None))
        compiled = jitted.lower(state, data, self.keys, self.replicas).compile()
        return lambda state, data: compiled(state, data, self.keys, self.replicas)


# --- small things ---------------------------------------------------------------------------------


def check_periods(config) -> None:
    train = config.train
    if train.steps < 1 or train.steps_per_call < 1 or train.log_every < 1:
        raise BadInput("train.steps, train.steps_per_call and train.log_every must be at least 1")
    if len(set(train.seeds)) < len(train.seeds) or not train.seeds:
        raise BadInput(f"train.seeds must be distinct and not empty, not {train.seeds}")
    for name, period in (
        ("train.steps", train.steps),
        ("eval.every", config.eval.every),
        ("checkpoint.every", config.checkpoint.every),
    ):
        if period % train.steps_per_call:
            raise BadInput(
                f"train.steps_per_call={train.steps_per_call} must divide {name}={period}"
            )
    if train.steps_per_call % train.log_every:
        raise BadInput(
            f"train.log_every={train.log_every} must divide "
            f"train.steps_per_call={train.steps_per_call}"
        )


def _due(step: int, period: int, total: int) -> bool:
    return step >= total or bool(period and step % period == 0)


def _log(metrics: Metrics, progress: Progress, start: int, stats: dict, every: int) -> None:
    stats = parallel.fetch(stats)
    alive = stats.pop("alive")
    if start == 0 and np.any(dead := stats["grad_norm"][0] == 0):
        log.warning(
            "seeds %s have a zero gradient at the first step: nothing will train them",
            [seed for seed, is_dead in zip(metrics.seeds, dead) if is_dead],
        )
    for end in range(every, len(stats["loss"]) + 1, every):
        window = {name: values[end - every : end].mean(0) for name, values in stats.items()}
        metrics.write("train", start + end, window)
    losses = stats["loss"][-1]
    progress.update(
        start + len(stats["loss"]), float(np.mean(losses[alive])) if any(alive) else np.nan
    )
    if not any(alive):
        raise Diverged(
            f"every replica turned non-finite by step {start + len(stats['loss']):,}: "
            "lower optim.lr, or look at metrics.jsonl for where it began"
        )


def _report_deaths(state: State, seeds) -> None:
    for seed, step in zip(seeds, parallel.fetch(state.died_at)):
        if step >= 0:
            log.warning("seed %d turned non-finite at step %d and was frozen there", seed, step)


def _history(metrics: Metrics, wall_s: float) -> dict:
    return {**metrics.history(), "wall_s": wall_s}


def _merge(states, histories, order):
    """Groups side by side, replicas in the order of the config's seeds."""
    if len(states) == 1:
        return states[0], histories[0]
    step = states[0].step
    joined = tree.concatenate([state._replace(step=jnp.zeros(1)) for state in states])
    state = tree.take(joined._replace(step=order), order)._replace(step=step)

    def join(*columns):
        if columns[0].ndim == 1:  # the steps themselves
            return columns[0]
        return np.concatenate(columns, axis=1)[:, order]

    walls = sum(history.pop("wall_s") for history in histories)
    return state, {**jax.tree.map(join, *histories), "wall_s": walls}
