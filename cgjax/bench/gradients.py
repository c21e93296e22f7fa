"""Are the train steps of sprites right? Gradients of the loop's program against the plain form.

Two tables: errors of the gradients of real training steps, leaf by leaf, and whether the same
training repeats itself bit for bit. Both use the loop's own program for several seeds.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cgjax.bench.harness import table
from cgjax.core import program, tree
from cgjax.core.logging import say
from cgjax.experiments.sprites import jumps, models, replay, sets

SEEDS = 5
STEPS = 20_000  # of every seed
REPEATS, REPEAT_STEPS = 200, 100
FETCHED = 1000  # steps whose errors come to the host at a time


def run(batch: int = 0, steps: int = 0) -> None:
    """Prints both tables. On a CPU: two seeds, four steps of a small batch, two repeats.

    steps: of the first table, where not 0; the second has at most as many repeats.
    """
    on_cpu = jax.default_backend() == "cpu"
    config = jumps.configure(range(2 if on_cpu else SEEDS))
    if on_cpu:
        jumps.shorten(config, 320, batch or 32)
    data = sets.make(config)
    errors = gradient_errors(config, data, steps or (4 if on_cpu else STEPS))
    rows = [
        (leaf, f"{np.median(values):.1e}", f"{values.max():.1e}") for leaf, values in errors.items()
    ]
    n_gradients = next(iter(errors.values())).size
    columns = ("leaf", "median", "largest")
    table(f"errors of {n_gradients:,} gradients over the leaf's median norm", columns, rows)
    n_repeats, n_steps = (2, 2) if on_cpu else (min(REPEATS, steps or REPEATS), REPEAT_STEPS)
    n_other = different_repeats(config, data, n_repeats, n_steps)
    say(f"{n_other} of {n_repeats} repeats of {n_steps} steps differ from the first")


def gradient_errors(config, data, n_steps: int) -> dict:
    """leaf -> errors [n_steps, R] of the program's gradients, over the median norm of the leaf's.

    The reference is the plain form with float32 products, on the same parameters and batches. The
    program's gradient follows from AdamW's first moment.
    """
    one_step = jumps.compile_program(config, jumps.IMPLEMENTATIONS["kernels"], 1, data)
    model = replay.plain_model(config, "float32")

    def loss(params, batch):
        images = sets.images(batch, config.data.composition)
        return models.squared_error(model.predict(params, batch["latents"]), images, batch["mask"])

    def compare_replica(params, old_mean, new_mean, indices, mask):
        """leaf -> norms [2, slots] of the gradient's error and of the exact gradient."""
        batch = tree.take(data["train"], indices[0]) | {"mask": mask[0]}
        exact = jax.grad(loss)(params, batch)
        unravel = ravel_pytree(params)[1]
        gradient = unravel((new_mean - replay.B1 * old_mean) / (1 - replay.B1))

        def norms(leaf, reference):
            pair = jnp.stack([leaf - reference, reference])
            return jnp.sqrt(jnp.sum(pair**2, tuple(range(2, pair.ndim))))

        return tree.flat(jax.tree.map(norms, gradient, exact))

    compare = jax.jit(jax.vmap(compare_replica))
    state, history, pending = one_step.init(), [], []
    for step in range(n_steps):
        rows = one_step.rows(step)
        # The call takes over the state's buffers.
        params, old_mean = jax.tree.map(jnp.copy, (state.params, _first_moment(state)))
        state, _ = one_step.call(state, rows)
        with jax.default_matmul_precision("highest"):
            pending.append(compare(params, old_mean, _first_moment(state), *rows))
        if len(pending) == FETCHED or step == n_steps - 1:
            history += jax.device_get(pending)
            pending = []
            say(f"{step + 1:,} of {n_steps:,} steps compared")
    errors = {}
    for leaf in history[0]:
        norms = np.stack([entry[leaf] for entry in history])  # [steps, R, 2, slots]
        for k, slot in enumerate(("front", "back")):
            errors[f"{slot}/{leaf}"] = norms[:, :, 0, k] / np.median(norms[:, :, 1, k])
    return errors


def _first_moment(state: program.State) -> jax.Array:
    """AdamW's first moment of all replicas [R, N]."""
    return replay.adam_state(state.opt_state).mu


def different_repeats(config, data, n_repeats: int, n_steps: int) -> int:
    """How many repeats of a training end with other bits than the first."""
    call = jumps.compile_program(config, jumps.IMPLEMENTATIONS["kernels"], n_steps, data)

    def final_checksums():
        state, stats = call.call(call.init(), call.rows(0))
        leaves = jax.device_get(jax.tree.leaves((state.params, stats["loss"])))
        return [tree.checksum(leaf) for leaf in leaves]

    first = final_checksums()
    return sum(final_checksums() != first for _ in range(n_repeats))
