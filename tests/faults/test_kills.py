"""Runs of three families, killed again and again, end with the bits of an undisturbed run.

Runs of `bumps` and `subnetworks` have several parts, the latter several stages too: base
networks, then masks. Most kills follow a new checkpoint; every fifth hits one that is being
written, and every eighth comes at a random moment of the start, before anything new is saved.
"""

import random
import signal

import pytest
import victim
from processes import wait_until

pytestmark = pytest.mark.faults
FAMILIES = {  # the number of kills, and flags for many short steps between checkpoints
    "bumps": (
        18,
        (
            "--config.parts.product.train.steps=400",
            "--config.parts.mlp.train.steps=400",
            "--config.checkpoint.every=10",
            "--config.eval.every=100",
        ),
    ),
    "resistance": (
        16,
        (
            "--parts=plane",
            "--config.parts.plane.train.epochs=60",
            "--config.checkpoint.epochs=1",
            "--config.parts.plane.eval.epochs=20",
        ),
    ),
    "subnetworks": (
        16,
        (
            "--config.train.epochs=16",
            "--config.masks.epochs=12",
            "--config.checkpoint.epochs=1",
            "--config.optim.patience=100",
        ),
    ),
}
# Most of the time goes into compiling.
QUICK = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}


def saved(workdir) -> set:
    """All whole checkpoints."""
    return {path for path in victim.checkpoints(workdir) if path.name.isdigit()}


@pytest.mark.parametrize("family", FAMILIES)
def test_killed_runs_end_with_the_same_bits(family, tmp_path):
    n_kills, flags = FAMILIES[family]
    flags = (f"--config={family}:smoke", "--no_figures", *flags)
    whole, workdir, moments = tmp_path / "whole", tmp_path / "run", random.Random(family)
    victim.finish(whole, tmp_path, flags, 1200, **QUICK)
    kills = {"start": 0, "saved": 0, "writing": 0}
    for kill in range(n_kills):
        before = saved(workdir)
        running = victim.start(workdir, tmp_path, flags, **QUICK)
        if kill % 8 == 0:
            running.process.join(moments.uniform(0, 3))
        else:
            assert wait_until(running, lambda old=before: saved(workdir) - old, 600), running.err
            if kill % 5 == 0:
                assert wait_until(running, lambda: victim.is_writing(workdir), 600), running.err
            else:
                running.process.join(moments.uniform(0, 0.2))
        running.send(signal.SIGKILL)
        assert running.code() == -signal.SIGKILL, "the run ended before it was killed"
        new = saved(workdir) - before
        kills["writing" if victim.is_writing(workdir) else "saved" if new else "start"] += 1
    print(family, kills)  # with -s
    assert kills["start"] <= n_kills // 4
    victim.finish(workdir, tmp_path, flags, 1200, **QUICK)
    victim.assert_same_bits(whole, workdir)
    assert not victim.is_writing(workdir)
