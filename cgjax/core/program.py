"""The compiled programs of an experiment: initial state, a call of training steps, evaluation.

`SetUp` places a group of replicas on the devices and compiles their two programs. `Plan` gives the
data rows of each call, `Due` the steps at which to evaluate and to save.
"""

import concurrent.futures
import contextvars
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cgjax.core import checkpoint, contract, parallel, rng, tree
from cgjax.core.contract import Experiment
from cgjax.core.errors import BadInput
from cgjax.core.logging import cache_events

SMALL = 4096  # leaves with at most this many numbers per replica are packed into one array


class Best(NamedTuple):
    """Each replica's best state so far.

    It is part of the train state because a checkpoint manager ranks checkpoints by one scalar only.
    """

    value: jax.Array
    step: jax.Array
    params: Any
    extra: Any


class State(NamedTuple):
    """The train state. All leaves except `step` have a leading replica axis."""

    step: jax.Array
    params: Any
    extra: Any
    opt_state: Any
    died_at: jax.Array  # step at which the replica turned non-finite; -1 while it is finite
    done: jax.Array  # stopped early by `control`
    lr_scale: jax.Array
    best: Best | None  # None without a headline


def _init(experiment: Experiment, keys, replicas) -> State:
    def init_replica(key, replica):
        variables = experiment.init(rng.stream(key, "init"), replica)
        params, extra = contract.pair("init", variables, "(params, extra)")
        return params, extra, experiment.tx(replica).init(params)

    params, extra, opt_state = jax.vmap(init_replica)(keys, replicas)
    n = len(keys)
    minus_one, best = jnp.full(n, -1, jnp.int32), None
    if experiment.headline:
        worst = -jnp.inf if experiment.headline[1] == "max" else jnp.inf
        # A copy, because a donated buffer must not appear twice in the state.
        best = Best(jnp.full(n, worst), minus_one, *jax.tree.map(jnp.copy, (params, extra)))
    return State(
        step=jnp.zeros((), jnp.int32),
        params=params,
        extra=extra,
        opt_state=opt_state,
        died_at=minus_one.copy(),
        done=jnp.zeros(n, bool),
        lr_scale=jnp.ones(n),
        best=best,
    )


def running(state: State) -> jax.Array:
    """Which replicas still train: bool [R], or a scalar for one replica."""
    return (state.died_at < 0) & ~state.done


def _update(experiment: Experiment, state: State, batch, key, replica):
    """One optimiser step of one replica. A non-finite step changes only `died_at`."""
    loss_fn = contract.checked_loss(experiment.loss)
    grad = (experiment.grads or jax.value_and_grad)(loss_fn, has_aux=True)
    (loss, (extra, stats)), grads = grad(state.params, state.extra, batch, key, state.step, replica)
    updates, opt_state = experiment.tx(replica).update(grads, state.opt_state, state.params)
    grad_norm = tree.norm(grads)
    finite = jnp.isfinite(loss) & jnp.isfinite(grad_norm) & jnp.isfinite(tree.norm(updates))
    updates = jax.tree.map(lambda u: u * state.lr_scale, updates)
    is_running = running(state)
    new = (optax.apply_updates(state.params, updates), extra, opt_state)
    old = (state.params, state.extra, state.opt_state)
    params, extra, opt_state = tree.where(finite & is_running, new, old)
    state = state._replace(
        params=params,
        extra=extra,
        opt_state=opt_state,
        died_at=jnp.where(~finite & is_running, state.step, state.died_at),
    )
    return state, {"loss": loss, "grad_norm": grad_norm, **stats}


class SetUp:
    """Device placement and the two compiled programs (train, evaluate) of a group of replicas."""

    def __init__(self, experiment: Experiment, config):
        # Unsigned, because int32 would turn seeds of 2^31 and above into negative numbers.
        unsigned = {
            key: np.asarray(experiment.replicas[key], np.uint32)
            for key in ("seed", "stream")
            if key in experiment.replicas
        }
        experiment = experiment._replace(replicas=experiment.replicas | unsigned)
        self.experiment, self.config = experiment, config
        streams = jnp.asarray(unsigned.get("stream", unsigned["seed"]))
        batch = contract.batch_size(experiment.plan)
        self.place = parallel.layout(len(streams), batch)
        self.keys = parallel.put(jax.vmap(jax.random.key)(streams), self.place.replicas)
        self.replicas = parallel.put(experiment.replicas, self.place.replicas)
        self.init_fn = functools.partial(_init, experiment)
        self.shapes = jax.eval_shape(self.init_fn, self.keys, self.replicas)
        per_replica = jax.tree.map(lambda _: self.place.replicas, self.shapes)
        self.shardings = per_replica._replace(step=self.place.everywhere)
        # Replicas share the step, so that schedules that branch on it need no select under vmap.
        self.axes = jax.tree.map(lambda _: 0, self.shapes)._replace(step=None)
        self.data_axis = 0 if experiment.own_data else None
        self.data_place = self.place.replicas if experiment.own_data else self.place.everywhere
        self.jitted_init = jax.jit(
            self.init_fn,
            out_shardings=self.shardings,
            compiler_options=self.options(rng.quick_options()),
        )
        self.stages, self.programs, self.cache_events = None, None, []

    @functools.cached_property
    def plan(self) -> "Plan":
        per_call = self.config.train.steps_per_call
        options = self.options(rng.quick_options())
        return Plan(self.experiment, self.keys, per_call, self.place, options)

    def init(self) -> State:
        return self.jitted_init(self.keys, self.replicas)

    def options(self, usual: dict | None) -> dict | None:
        """The compiler options of a program, `usual` except in smoke runs."""
        return smoke_options(self.config) or usual

    def abstract_state(self) -> State:
        return checkpoint.abstract(self.shapes, self.shardings)

    def abstract_data(self):
        shapes = jax.eval_shape(lambda data: data, self.experiment.data)
        return checkpoint.abstract(shapes, jax.tree.map(lambda _: self.data_place, shapes))

    def data(self):
        return parallel.put(self.experiment.data, self.data_place)

    def together(self, replica_fn, n_arguments: int):
        """`replica_fn(state, data, *arguments)` of one replica, vmapped over replicas."""
        axes = (self.axes, self.data_axis, *(0,) * n_arguments)
        # A `shard_map` inside replica_fn needs the mesh axis over which replicas are spread.
        return jax.vmap(replica_fn, axes, (self.axes, 0), spmd_axis_name="seed")

    def all_of(self, batched_fn, state, data, *arguments):
        """`batched_fn(state, data, *arguments)`, at most `train.at_once` replicas at a time.

        vmap turns the convolutions of several replicas into grouped convolutions, which are slow
        on GPUs. All replicas run at once if train.at_once is 0, or if the mesh already spreads
        them over devices.
        """
        n = len(self.keys)
        at_once = math.gcd(n, self.config.train.at_once)  # gcd(n, 0) is n
        if at_once == n or self.place.mesh.shape["seed"] > 1:
            return batched_fn(state, data, *arguments)
        return in_turn(batched_fn, at_once, state, data, self.data_axis, *arguments)

    def lowered(self, function, state, *arguments):
        """`function(state, *arguments, keys, replicas)`, lowered for the mesh."""
        jitted = jax.jit(function, donate_argnums=0, out_shardings=(self.shardings, None))
        with jax.set_mesh(self.place.mesh):
            return jitted.lower(state, *arguments, self.keys, self.replicas)

    def lowered_call(self, state, data, rows):
        """`steps_per_call` optimiser steps of all replicas, lowered as one program."""
        experiment = self.experiment

        def update_replica(state, data, row, key, replica):
            batch_key, loss_key = jax.random.split(rng.at(key, "train", state.step))
            indices, mask = row
            batch = experiment.batch(data, indices, batch_key, state.step)
            if mask is not None:
                batch = {**batch, "mask": mask}
            return _update(experiment, state, batch, loss_key, replica)

        update = self.together(update_replica, 3)

        # `all_of` splits the replicas outside this scan, so taking turns costs nothing per step.
        def train_replicas(state, data, rows, keys, replicas):
            def body(packed, row):
                state, stats = update(unpack(packed), data, row, keys, replicas)
                return pack(state._replace(step=state.step + 1)), stats

            # An accelerator launches one kernel per updated leaf, so small leaves are packed.
            small = 0 if jax.default_backend() == "cpu" else SMALL
            pack, unpack = tree.packing(state, small)
            length = self.config.train.steps_per_call
            packed, stats = jax.lax.scan(body, pack(state), swapped(rows), length=length)
            return unpack(packed), swapped(stats)

        # Keys and replicas are arguments, so that other seeds reuse the cached program.
        def call(state, data, rows, keys, replicas):
            state, stats = self.all_of(train_replicas, state, data, rows, keys, replicas)
            return state, {**swapped(stats), "alive": state.died_at < 0}

        return self.lowered(call, state, data, rows)

    def lowered_evaluate(self, state, data):
        """Scalars and arrays of every replica; also updates `best` and applies `control`."""
        experiment = self.experiment
        keeps_arrays = bool(self.config.eval.keep)  # if False, XLA drops their computation

        def evaluate_replica(state, data, key, replica):
            key = rng.at(key, "eval", state.step)
            scores = experiment.evaluate(state.params, state.extra, data, key, replica)
            scalars, arrays = contract.evaluation(scores, experiment.headline)
            if keeps_arrays and not arrays:
                raise BadInput(
                    "eval.keep is set, but evaluate of this experiment returns no arrays: "
                    "leave eval.keep empty"
                )
            if experiment.headline:
                metric, sense = experiment.headline
                value, best = scalars[metric], state.best
                better = value > best.value if sense == "max" else value < best.value
                current = Best(
                    value.astype(best.value.dtype), state.step, state.params, state.extra
                )
                state = state._replace(best=tree.where(better, current, best))
            if experiment.control:
                decision = experiment.control(scalars, state.best, state.step, state.lr_scale)
                done, lr_scale = contract.pair("control", decision, "(done, lr_scale)")
                state = state._replace(done=state.done | done, lr_scale=lr_scale)
            return state, (scalars, arrays if keeps_arrays else {})

        def evaluate(state, data, keys, replicas):
            return self.all_of(self.together(evaluate_replica, 2), state, data, keys, replicas)

        return self.lowered(evaluate, state, data)

    def compile_call(self, state, data, rows):
        """state, data, rows -> (state, metrics [steps, R])"""
        lowered = self.lowered_call(state, data, rows)
        return self._bound(lowered.compile(self.options(self.experiment.compiler_options)))

    def lower_both(self, state, data, rows) -> None:
        """Traces the functions of `compile_both`, with arrays or with their shapes."""
        self.stages = self.lowered_call(state, data, rows), self.lowered_evaluate(state, data)

    def compile_both(self):
        """The function of `compile_call`, and one of evaluation; compiled once, side by side.

        Evaluation: state, data -> (state, (scalars, arrays)). `lower_both` comes first.
        """
        if self.programs is None:
            call, evaluate = self.stages
            with concurrent.futures.ThreadPoolExecutor() as threads:  # XLA compiles without the GIL
                context = contextvars.copy_context()
                other = threads.submit(context.run, evaluate.compile, self.options(None))
                call = call.compile(self.options(self.experiment.compiler_options))
                self.programs = self._bound(call), self._bound(other.result())
            self.stages = None
        return self.programs

    def compile_all(self) -> "SetUp":
        """Compiles the programs of `compile_both`, `init` and `plan` side by side."""
        with cache_events() as self.cache_events:
            with concurrent.futures.ThreadPoolExecutor() as threads:
                first_uses = (self.init, lambda: self.plan.rows(0))
                others = [threads.submit(contextvars.copy_context().run, use) for use in first_uses]
                self.compile_both()
                for other in others:
                    other.result()
        return self

    def _bound(self, compiled):
        return lambda *arguments: compiled(*arguments, self.keys, self.replicas)


def smoke_options(config) -> dict | None:
    """The compiler options of smoke runs, which compile for longer than they train; else None.

    On a CPU: without optimisation the compilation takes half of the usual time; with the older code
    generator, which JAX 0.11 lacks, a third of that. A dozen steps lose a second. On a GPU: as in
    `untimed_options`.
    """
    if config.get("size") != "smoke":
        return None
    if jax.default_backend() != "cpu":
        return untimed_options()
    older = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}
    return {"xla_backend_optimization_level": 0, **older}


def untimed_options() -> dict | None:
    """Compiler options of programs that run a few times: on a GPU no kernels are timed.

    Timing takes most of a compilation, and needs a GPU that no other program uses.
    """
    return {"xla_gpu_autotune_level": 0} if parallel.on_nvidia() else None


def jitted(function, config):
    """`jax.jit` of a function that a run calls a few times, with the options of its size."""
    return jax.jit(function, compiler_options=smoke_options(config) or untimed_options())


def traced(experiment: Experiment, config) -> SetUp:
    """A set-up whose `compile_all` can run in another thread; `data` may be shapes."""
    set_up = SetUp(experiment, config)
    set_up.lower_both(set_up.abstract_state(), set_up.abstract_data(), set_up.plan.shapes())
    return set_up


def in_turn(batched_fn, at_once: int, state, data, data_axis, *arguments):
    """`batched_fn(state, data, *arguments)`, `at_once` replicas at a time, by `lax.map`.

    at_once divides the number of replicas R. Arguments and results have a leading axis R, except
    `state.step` and, unless data_axis is 0, the data: all replicas share these.
    """

    def run_chunk(chunk):
        chunk_state, chunk_data, *rest = chunk
        new_state, stats = batched_fn(
            chunk_state._replace(step=state.step), data if data_axis is None else chunk_data, *rest
        )
        return new_state.step, (new_state._replace(step=None), stats)

    chunks = (state._replace(step=None), None if data_axis is None else data, *arguments)
    chunks = jax.tree.map(lambda leaf: leaf.reshape(-1, at_once, *leaf.shape[1:]), chunks)
    steps, results = jax.lax.map(run_chunk, chunks)
    new_state, stats = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), results)
    return new_state._replace(step=steps[0]), stats


def swapped(arrays):
    """[replicas, steps, ...] as [steps, replicas, ...], or the reverse, for every leaf."""
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), arrays)


# --- the rows of each call, and the steps at which to evaluate and to save ------------------------


class Plan:
    """The data rows of each call, cut from the plans of epochs; each is drawn once per epoch."""

    def __init__(self, experiment, keys, per_call: int, place: parallel.Layout, options=None):
        self.per_call, self.keys, self.place, self.cache = per_call, keys, place, {}
        self.empty = experiment.plan is None
        if self.empty:
            return
        plan = jax.vmap(
            lambda key, epoch: experiment.plan(rng.at(key, "plan", epoch), epoch),
            in_axes=(0, None),
        )
        self.draw = jax.jit(plan, compiler_options=options)
        self.epoch_shapes = jax.eval_shape(plan, keys, 0)
        self.per_epoch = self.epoch_shapes[0].shape[1]
        # A call starts at a multiple of the gcd within an epoch, so n_epochs always cover a call.
        last_start = self.per_epoch - math.gcd(per_call, self.per_epoch)
        self.n_epochs = -(-(last_start + per_call) // self.per_epoch)

        def cut(plans, start):
            def rows(*leaves):
                joined = jnp.concatenate(leaves, axis=1)
                return jax.lax.dynamic_slice_in_dim(joined, start, per_call, axis=1)

            return jax.tree.map(rows, *plans)

        self.cut = jax.jit(cut, out_shardings=place.batches)

    def shapes(self):
        """The shapes of `rows`, with shardings."""
        if self.empty:
            return None, None
        rows = jax.eval_shape(self.cut, [self.epoch_shapes] * self.n_epochs, 0)
        return checkpoint.abstract(rows, jax.tree.map(lambda _: self.place.batches, rows))

    def rows(self, step: int):
        """(indices [R, per_call, batch], mask) of the call that starts at `step`."""
        if self.empty:
            return None, None
        first = step // self.per_epoch
        epochs = range(first, first + self.n_epochs)
        self.cache = {
            epoch: self.cache.get(epoch) or self.draw(self.keys, epoch) for epoch in epochs
        }
        return self.cut(list(self.cache.values()), step - first * self.per_epoch)


class Due:
    """The steps at which the loop evaluates, and those at which it saves a checkpoint."""

    def __init__(self, config):
        self.eval, self.checkpoints, self.total = config.eval, config.checkpoint, config.train.steps

    def evaluation(self, step: int) -> bool:
        return step in self.eval.at or self._regular(step, self.eval.every)

    def checkpoint(self, step: int) -> bool:
        return step in self.checkpoints.keep or self._regular(step, self.checkpoints.every)

    def _regular(self, step: int, period: int) -> bool:
        return step > 0 and (step >= self.total or bool(period and step % period == 0))


# --- size of a run, for `--dry_run` ---------------------------------------------------------------


def training_size(experiment: Experiment, config) -> dict:
    """Parameters per replica, number of replicas, number of steps, bytes of the whole state."""
    state = SetUp(experiment, config).shapes
    leaves = tree.flat(state).values()
    n_replicas = len(np.asarray(experiment.replicas["seed"]))
    return {
        "parameters": tree.size(state.params) // n_replicas,
        "replicas": n_replicas,
        "steps": config.train.steps,
        "bytes": sum(leaf.size * leaf.dtype.itemsize for leaf in leaves),
    }
