"""When what happens in a run, and which rows of the data make up the batches of each call."""

import math

import jax
import jax.numpy as jnp

from cgjax.core import parallel, rng


class Plan:
    """The rows of each call, from epoch plans that are drawn once per epoch."""

    def __init__(self, experiment, keys, per_call: int, place: parallel.Layout):
        self.per_call, self.keys, self.cache = per_call, keys, {}
        self.empty = experiment.plan is None
        if self.empty:
            return
        plan = jax.vmap(lambda key, epoch: experiment.plan(rng.at(key, "plan", epoch), epoch),
                        in_axes=(0, None))  # fmt: skip
        self.draw = jax.jit(plan)
        self.per_epoch = jax.eval_shape(plan, keys, 0)[0].shape[1]
        # Calls start at multiples of the gcd, so this many epochs always cover one.
        last_start = self.per_epoch - math.gcd(per_call, self.per_epoch)
        self.n_epochs = -(-(last_start + per_call) // self.per_epoch)

        def cut(plans, start):
            def rows(*leaves):
                joined = jnp.concatenate(leaves, axis=1)
                return jax.lax.dynamic_slice_in_dim(joined, start, per_call, axis=1)

            return jax.tree.map(rows, *plans)

        self.cut = jax.jit(cut, out_shardings=place.batches)

    def rows(self, step: int):
        """(indices [R, per_call, batch], mask) of the call that starts at `step`."""
        if self.empty:
            return None, None
        first = step // self.per_epoch
        wanted = range(first, first + self.n_epochs)
        self.cache = {
            epoch: self.cache.get(epoch) or self.draw(self.keys, epoch) for epoch in wanted
        }
        return self.cut(list(self.cache.values()), step - first * self.per_epoch)


class Due:
    """What happens at which step."""

    def __init__(self, config):
        self.eval, self.checkpoints, self.total = config.eval, config.checkpoint, config.train.steps

    def evaluation(self, step: int) -> bool:
        return step in self.eval.at or self._regular(step, self.eval.every)

    def checkpoint(self, step: int) -> bool:
        return step in self.checkpoints.keep or self._regular(step, self.checkpoints.every)

    def _regular(self, step: int, period: int) -> bool:
        return step > 0 and (step >= self.total or bool(period and step % period == 0))
