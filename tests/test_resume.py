"""A run that is stopped anywhere and started again gives the bits of an uninterrupted run."""

import random
import signal

import pytest
import victim
from processes import one_line, wait_until
from victim import assert_same_bits, is_writing, logged_steps, newest

import cgjax
from cgjax.core.errors import BadInput

pytestmark = pytest.mark.faults
KILLS = 50


def test_sigkill_at_random_moments_and_during_a_write(lab, tmp_path):
    """Each kill follows a new save; every fifth hits a checkpoint that is being written."""
    often = ("--config.train.steps=4800", "--config.checkpoint.every=12", "--config.eval.every=96")
    workdir, moments, flags = tmp_path / "run", random.Random(0), (*victim.CONFIG, *often)
    writing, steps = 0, []
    for kill in range(KILLS):
        before = newest(workdir)
        running = victim.start(workdir, lab, flags)
        reached = wait_until(running, lambda at=before: newest(workdir) > at)
        if kill % 5 == 0:
            reached = reached and wait_until(running, lambda: is_writing(workdir))
        else:  # about as long as three saves take on a quiet machine
            running.process.join(moments.uniform(0, 0.1))
        running.send(signal.SIGKILL)
        assert running.code() == -signal.SIGKILL and reached, "it ended before it was killed"
        writing += is_writing(workdir)
        steps.append(newest(workdir))
    assert steps == sorted(set(steps)) and writing >= KILLS // 10, (steps, writing)
    victim.finish(workdir, lab, flags)
    victim.finish(tmp_path / "peace", lab, flags)
    assert_same_bits(tmp_path / "peace", workdir)
    assert not is_writing(workdir)  # what the kills left is cleared away


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_polite_signal_saves_and_exits_3(number, lab, tmp_path):
    workdir = tmp_path / "run"
    running = victim.start(workdir, lab)
    assert wait_until(running, lambda: logged_steps(workdir) >= 20)
    running.send(number)
    one_line(running, 3, "saved at step")
    with pytest.raises(BadInput, match="not finished: it is at step"):
        cgjax.load(workdir)
    assert cgjax.load(workdir, step="latest").step[0] >= 20
    victim.finish(workdir, lab)
    assert_same_bits(lab / "whole", workdir)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_compiling_ends_the_run(number, lab, tmp_path):
    for attempt in range(3):  # where this process waits for its turn, the run trains already
        workdir, empty = tmp_path / f"run {attempt}", tmp_path / f"empty cache {attempt}"
        running = victim.start(workdir, lab, CGJAX_CACHE=str(empty))
        assert wait_until(running, lambda running=running: "compiling" in running.out)
        running.send(number)
        if running.code() != 3 or "saved at step" not in running.err:
            break
    one_line(running, 3, signal.Signals(number).name, "run the same command")
    victim.finish(workdir, lab)
    assert_same_bits(lab / "whole", workdir)


def test_a_signal_while_two_models_train_and_while_drawing(lab, tmp_path):
    """On a CPU both models of a sprites run train side by side: both save, and both resume."""
    workdir, kinds = tmp_path / "run", ("compositional", "monolithic")
    lengths = ("train.steps=240", "eval.every=240", "checkpoint.every=60")
    flags = ("--config=sprites:smoke", *(f"--config.{length}" for length in lengths))
    running = victim.start(workdir, lab, flags)
    assert wait_until(running, lambda: all(logged_steps(workdir / kind) >= 5 for kind in kinds))
    running.send(signal.SIGTERM)
    one_line(running, 3, "SIGTERM", "run the same command")
    assert all(0 < newest(workdir / kind) < 240 for kind in kinds)
    running = victim.start(workdir, lab, flags)
    assert wait_until(running, lambda: "drawing" in running.out)
    running.send(signal.SIGINT)
    one_line(running, 3, "SIGINT")
    victim.finish(workdir, lab, flags)
    assert (workdir / "results.json").exists() and list((workdir / "figures").glob("*.png"))
    victim.finish(tmp_path / "whole", lab, flags)
    assert_same_bits(tmp_path / "whole", workdir)


def test_a_live_run_can_be_read_and_is_left_alone(lab, tmp_path):
    workdir = tmp_path / "run"
    running = victim.start(workdir, lab)
    assert wait_until(running, lambda: logged_steps(workdir) >= 20)
    seen = []
    while running.poll() is None:
        try:
            seen.append(int(cgjax.load(workdir, step="latest").step[0]))
        except BadInput as error:  # before the first, or between two: said, not hidden
            assert "no checkpoint yet" in str(error) or "changes while" in str(error)
    assert running.code() == 0 and len(seen) > 1 and seen == sorted(seen)
    assert_same_bits(lab / "whole", workdir)
