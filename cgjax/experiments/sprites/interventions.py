"""Does AdamW's limit of stability make the training loss jump, or the noise of its steps?

Training starts again from the state one epoch before a jump (`jumps.JUMP`), with another learning
rate, momentum or size of the batch; batches of the same size are the same batches. AdamW becomes
unstable where the largest eigenvalue of the preconditioned Hessian exceeds
`jumps.limit_of_stability(b1)` / rate, and that eigenvalue stays near the limit for epochs before a
jump. So, if the limit causes the jumps, a higher limit prevents them and a lower one makes the loss
of every seed jump whose eigenvalue is beyond it.

Neither the rate nor the momentum moves the limit alone. The rate scales every step. Momentum leaves
the steps along a constant gradient as they are, but averages noise. So both changes that raise the
limit lower the noise in a step, and both that lower the limit raise the noise. If noise causes the
jumps, less noise prevents them, and more makes more seeds jump.

The size of the batch separates the two. Alone it changes the noise, and leaves the limit in place.
With the rate it moves the limit, and leaves the noise in place. Batches of another size hold other
scenes; a control shows whether a jump needs its own batches: batches of the same size from later
epochs.
"""

import collections
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from cgjax.experiments.sprites import jumps
from cgjax.experiments.sprites.models import epoch_means, largest_rise

LEAD = 1  # epochs between the start and the epoch of the jump
LATER = 1000  # epochs, more than any training here has


class Intervention(NamedTuple):
    """A change of the optimiser."""

    b1: float = jumps.B1
    rate: float = 1.0  # times the published schedule's
    batch: float = 1.0  # times the published size; as many steps
    later: int = 0  # the batches are those of so many epochs later

    @property
    def noise(self) -> float:
        """Independent noise in a step, relative to the published optimiser's."""
        averaged, published = ((1 - b1) / (1 + b1) for b1 in (self.b1, jumps.B1))
        return self.rate * math.sqrt(averaged / published / self.batch)

    @property
    def limit(self) -> float:
        """The largest stable eigenvalue, relative to that of the published optimiser."""
        return jumps.limit_of_stability(self.b1) / jumps.THRESHOLD / self.rate

    @property
    def if_limit(self) -> str:
        """What the loss does if the limit of stability causes the jumps."""
        return _outcome(1 / self.limit)

    @property
    def if_noise(self) -> str:
        """What the loss does if the noise causes the jumps."""
        return _outcome(self.noise)


def _outcome(cause: float) -> str:
    """cause: relative to the published optimiser's."""
    return "as before" if cause == 1 else "jump" if cause > 1 else "no jump"


INTERVENTIONS = {
    "none": Intervention(),
    "half the rate": Intervention(rate=0.5),
    "b1 0.95": Intervention(b1=0.95),
    "twice the rate": Intervention(rate=2.0),
    "b1 0.8": Intervention(b1=0.8),
    "4 x the batch": Intervention(batch=4.0),
    "1/4 of the batch": Intervention(batch=0.25),
    "4 x the batch, twice the rate": Intervention(rate=2.0, batch=4.0),
    "1/4 of the batch, half the rate": Intervention(rate=0.5, batch=0.25),
    "other batches": Intervention(later=LATER),
}


class Start(NamedTuple):
    """Where the interventions in one seed's training begin."""

    seed_index: int
    epoch: int
    jumps: bool  # whether the loss jumps LEAD epochs later; else no epoch after LEAD jumps
    least: float  # least mean loss of an epoch before
    state: Any  # of all replicas, on the host


def starts(config, n_epochs: int, data) -> list[Start]:
    """Trains all seeds: a start for each, LEAD epochs before its first jump after epoch LEAD.

    A seed without such a jump starts in the middle of the training.
    """
    recent = collections.deque(maxlen=LEAD + 1)  # (least before an epoch [R], state before it)
    least, before_jumps, middle = np.inf, {}, None
    trained = jumps.epochs(config, jumps.IMPLEMENTATIONS["kernels"], n_epochs, data, keep=True)
    for epoch, (state, losses) in enumerate(trained):
        means = losses.mean(axis=0)
        recent.append((np.broadcast_to(least, means.shape), state))
        if epoch == n_epochs // 2:
            middle = recent[-1]
        if epoch > LEAD:  # an earlier jump has no start with an epoch before it
            for seed in np.flatnonzero(means / least - 1 > jumps.JUMP):
                before_jumps.setdefault(int(seed), (epoch - LEAD, True, *recent[0]))
        least = np.fmin(least, means)
    by_seed = []
    for seed in range(len(least)):
        otherwise = (n_epochs // 2, False, *middle)
        epoch, is_jump, least_before, state = before_jumps.get(seed, otherwise)
        by_seed.append(Start(seed, epoch, is_jump, float(least_before[seed]), state))
    return by_seed


def share_of_limit(config, start: Start, sharpness) -> float:
    """The largest eigenvalue at a start over the published optimiser's limit.

    sharpness: a function of `jumps.sharpness_fn`.
    """
    params, opt_state = jax.tree.map(
        lambda leaf: leaf[start.seed_index], (start.state.params, start.state.opt_state)
    )
    second_moment = jumps.adam_state(opt_state).nu
    vector = np.random.default_rng(0).standard_normal(second_moment.shape, np.float32)
    step = start.epoch * config.optim.lr_every
    value, _ = sharpness(params, second_moment, float(step), vector)
    return value * jumps.rate_of(config, start.epoch) / jumps.THRESHOLD


def rises(config, begun: list[Start], data) -> dict:
    """{intervention: largest rise [starts] of an epoch's mean loss within LEAD + 1 epochs}.

    The rise is relative to the least mean before; infinite if the loss is not finite.
    """
    length, programs, results = config.optim.lr_every, {}, {}
    for name, change in INTERVENTIONS.items():
        kind = change.b1, change.batch
        if kind not in programs:
            how = jumps.IMPLEMENTATIONS["kernels"]._replace(b1=change.b1)
            sized = config.copy_and_resolve_references()
            sized.data.batch = round(change.batch * config.data.batch)
            programs[kind] = jumps.compile_program(sized, how, length, data)
        by_epoch = {}
        for start in begun:
            if start.epoch not in by_epoch:
                by_epoch[start.epoch] = _continued(programs[kind], start, change, length)
        results[name] = np.array([_rise(start, by_epoch[start.epoch]) for start in begun])
    return results


def _continued(
    program: jumps.Program, start: Start, change: Intervention, length: int
) -> np.ndarray:
    """Mean losses [LEAD + 1, R] of the epochs from a start on."""
    state = jax.device_put(start.state)
    state, losses = state._replace(lr_scale=change.rate * state.lr_scale), []
    for epoch in range(start.epoch, start.epoch + LEAD + 1):
        state, stats = program.call(state, program.rows((epoch + change.later) * length))
        losses.append(np.asarray(stats["loss"]))
    return epoch_means(np.concatenate(losses), length)


def _rise(start: Start, means: np.ndarray) -> float:
    means = means[:, start.seed_index]
    if not np.isfinite(means).all():
        return np.inf
    return float(largest_rise(np.concatenate([[start.least], means])[:, None])[0])


def table_rows(begun: list[Start], largest: dict) -> list[tuple]:
    """Rows of text: what is predicted of each intervention, and how many seeds jump."""
    jumping = np.array([start.jumps for start in begun])
    rows = []
    for name, values in largest.items():
        change, is_jump = INTERVENTIONS[name], values > jumps.JUMP
        rows.append((
            name,
            f"{change.limit:.2f}",
            f"{change.noise:.2f}",
            change.if_limit,
            change.if_noise,
            *(f"{is_jump[group].sum()} of {group.sum()}" for group in (jumping, ~jumping)),
            ", ".join(f"{100 * value:.0f}" for value in values),
        ))  # fmt: skip
    return rows
