"""reproduce --plan and --plan --run on a toy record of the vector simulation."""

import json
import os
import pathlib
import signal
import sys
import threading
import time

import numpy as np
import pytest
from front_door import finish

from cgjax import config as configs
from cgjax import experiments, report, reproduce
from cgjax.core import signals
from cgjax.core.errors import Preempted
from cgjax.published import PUBLISHED
from cgjax.published.claims import CLAIMS
from cgjax.published.results import summary
from cgjax.report import plan as plans

ROWS = ("compositional_random", "mlp_random", "regularised_random")
SOME = [CLAIMS[f"vectors.{row}.r2_all"] for row in ROWS]


def write(record, row, values, seeds=None, wall_s=20.0, family="vectors", size="paper", **more):
    """Records a run, of the published scale if no size is given, with one R2 per seed."""
    config = configs.load(f"{family}:{row},{size}")
    seeds = tuple(range(len(values))) if seeds is None else seeds
    config.train.seeds = seeds
    entry = {
        "family": family, "row": row, "size": size, "label": "", "note": "", "date": "",
        "metrics": {"r2_all": summary(values, seeds, None)}, "models": {}, "wall_s": wall_s,
        "devices": "1x cpu", "config": config.to_dict(), **more,
    }  # fmt: skip
    path = record / family / f"{row}-{size}.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(entry))


@pytest.fixture
def record(tmp_path, monkeypatch):
    """One claim is decided, one needs more seeds, one was run elsewhere only."""
    folder, shipped = tmp_path / "record", tmp_path / "shipped"
    write(shipped, "regularised_random", [0.87] * 3, devices="1x NVIDIA H200")
    monkeypatch.setattr(report, "RECORD", shipped)
    write(folder, "compositional_random", [0.97] * 5)
    write(folder, "mlp_random", [0.948, 0.959, 0.970, 0.981, 0.992])
    return folder


def planned(record, claims=SOME, **options):
    return plans.plan((), record, "1x cpu", claims, **options)


def test_open_claims_get_runs_with_seeds_and_times(record):
    """Seeds are the verdict's, times recorded ones in proportion; unknown ones come last."""
    (more, new), left = planned(record)
    assert not left
    verdict = plans.standings.standings(record, [SOME[1]])[0].verdict
    assert verdict.word == "underpowered" and 5 < verdict.seeds < 100
    assert more.claims == ("vectors.mlp_random.r2_all",)
    assert more.seeds == tuple(range(5, verdict.seeds)) and not more.replaces
    assert more.seconds == pytest.approx(20.0)  # fewer seeds compile as long as five
    times = plans.Times(record, "1x cpu")
    assert times.of(more.target, tuple(range(15)))[0] == pytest.approx(20.0 * 15 / 5)
    assert new.target.row == "regularised_random" and new.seeds == (0, 1, 2)
    assert new.seconds is None and "unknown on this device; elsewhere" in new.source


def test_a_row_that_was_never_run_gets_as_many_seeds_as_the_paper_has(record):
    """One seed decides nothing, even where it is all that the row's own config has."""
    config = configs.load("sprites:orthogonal_normal,paper")
    claim = CLAIMS["sprites.orthogonal_normal.r2_all"]
    (run,), _ = planned(record, [claim])
    assert len(config.train.seeds) == 1 and run.seeds == (0, 1, 2, 3, 4)


def test_rows_that_train_the_same_program_tell_the_time_of_each_other(record):
    """The least estimate counts: an old run of the row itself may be slower than today's."""
    times = plans.Times(record, "1x cpu")
    row = plans.Target("vectors", "compositional_diagonal", "paper", "")
    seconds, source = times.of(row, tuple(range(5)))
    assert seconds == pytest.approx(20.0) and "compositional_random" in source
    write(record, "compositional_diagonal", [0.9] * 5, wall_s=500.0)
    assert plans.Times(record, "1x cpu").of(row, tuple(range(5)))[0] == pytest.approx(20.0)
    # Another model, or another batch, takes another time.
    (record / "vectors" / "compositional_random-paper.json").unlink()
    assert plans.Times(record, "1x cpu").of(row, tuple(range(5)))[0] == pytest.approx(500.0)


def test_every_mask_takes_its_time(record):
    """Masks of a base are as many as there are rates, layers, first scores and seeds."""
    row = "inside_number"
    config = configs.load(f"subnetworks:{row},paper")
    write(record, row, [0.9] * len(config.train.seeds), family="subnetworks", wall_s=100.0)
    for key in ("lrs", "seeds"):
        twice = str(tuple(config.masks[key]) + tuple(v + 10 for v in config.masks[key]))
        target = plans.Target("subnetworks", row, "paper", "", ((f"masks.{key}", twice),))
        seconds, _ = plans.Times(record, "1x cpu").of(target, tuple(config.train.seeds))
        assert seconds == pytest.approx(200.0), key


def test_wide_images_take_longer(record):
    """Composed images of 28 + 2 x 20 columns, and distances 0 and 20 one after the other."""
    config = configs.load("kernels:cd_mnist,paper", {"data.tasks": "cd_1", "data.distances": "0"})
    seeds = tuple(config.train.seeds)
    write(record, "cd_mnist", [0.9] * len(seeds), family="kernels", wall_s=140.0)
    path = record / "kernels" / "cd_mnist-paper.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"config": config.to_dict()}))
    times = plans.Times(record, "1x cpu")
    for distances, expected in (("0", 140.0), ("20", 340.0), ("0,20", 480.0)):
        cell = (("data.tasks", "cd_1"), ("data.distances", distances))
        target = plans.Target("kernels", "cd_mnist", "paper", "", cell)
        assert times.of(target, seeds)[0] == pytest.approx(expected), distances


def test_a_run_with_fewer_scores_tells_the_least_time(record):
    """`default` scores once, on few samples; `paper` scores every 40 steps on more."""
    write(record, "overlaid", [0.9] * 5, family="resistance", size="default", wall_s=100.0)
    times = plans.Times(record, "1x cpu")
    for size, says in (("paper", "at least: "), ("default", "")):
        target = plans.Target("resistance", "overlaid", size, "", parts=("overlaid",))
        seconds, source = times.of(target, tuple(range(5)))
        assert seconds == pytest.approx(100.0) and source.startswith(f"{says}overlaid, default")


def test_a_run_that_stops_at_a_larger_loss_tells_the_least_time(record):
    write(record, "cd_deep", [0.9] * 5, family="kernels", wall_s=100.0)
    target, path = plans.Target("kernels", "cd_deep", "paper", ""), record / "kernels"
    for stop, says in ((1e-2, "at least: cd_deep"), (1e-4, "cd_deep"), (1e-5, "cd_deep")):
        config = configs.load("kernels:cd_deep,paper", {"optim.stop": str(stop)})
        config.train.seeds = tuple(range(5))
        entry = json.loads((path / "cd_deep-paper.json").read_text())
        (path / "cd_deep-paper.json").write_text(json.dumps(entry | {"config": config.to_dict()}))
        seconds, source = plans.Times(record, "1x cpu").of(target, tuple(range(5)))
        assert seconds == pytest.approx(100.0) and source.startswith(says)


def test_what_no_seeds_decide_is_said(record):
    write(record, "regularised_random", [0.5, 1.2, 0.87, 0.2, 1.4])
    runs, left = planned(record)
    assert left == {"no number of our seeds decides": ["vectors.regularised_random.r2_all"]}
    write(record, "regularised_random", [0.5, float("nan"), 0.87])
    assert "a seed that counts has no finite number" in planned(record).left


def test_most_claims_per_minute_come_first(record):
    write(record, "regularised_random", [0.80, 0.84, 0.87, 0.90, 0.94], wall_s=0.1)
    first, second = planned(record).runs
    assert first.target.row == "regularised_random"
    assert first.share / max(first.seconds, 1) > second.share / second.seconds


def test_a_changed_config_is_run_anew_and_replaces(record):
    path = record / "vectors" / "mlp_random-paper.json"
    entry = json.loads(path.read_text())
    del entry["config"]["train"]["at_once"]  # a key that the row has since then
    path.write_text(json.dumps(entry))
    (run, _), _ = planned(record)
    assert run.replaces and run.seeds[0] == 0


def test_a_pooled_number_is_run_anew(record):
    """Numbers of all seeds together cannot be joined with those of other seeds."""
    write(record, "mlp_random", [0.95], seeds=(0, 1, 2, 3, 4))
    (run, _), _ = planned(record)
    assert run.seeds == (0, 1, 2) and run.replaces


def test_an_ordering_needs_every_row_that_lacks_seeds(record):
    claim = CLAIMS["vectors.network_per_part_generalises"]
    write(record, "compositional_diagonal", [0.9, 0.91, 0.92])
    runs, _ = planned(record, [claim])
    assert {run.target.row for run in runs} == {
        "mlp_diagonal",
        "compositional_orthogonal",
        "mlp_orthogonal",
    }
    assert all(run.share == pytest.approx(1 / 3) for run in runs)


def test_a_run_below_the_published_scale_says_nothing_of_seeds(record):
    """It is run anew at that scale, and the other side is not extended because of it."""
    claim = CLAIMS["sprites.which_support_does_not_matter"]
    write(record, "orthogonal_compositional", [0.948, 0.95, 0.952], family="sprites")
    rows = ("random_compositional", "orthogonal_normal", "orthogonal_broad", "diagonal")
    rows += ("diagonal_broad",)
    for row in rows:
        write(record, row, [0.1, 0.5, 0.9], family="sprites", size="fast")
    runs, left = planned(record, [claim])
    assert not left and {run.target.row: run.seeds for run in runs} == {
        "orthogonal_compositional": (3, 4),
        **dict.fromkeys(rows, (0, 1, 2, 3, 4)),
    }


def test_cells_of_a_row_are_runs_of_their_own(tmp_path):
    """A task and a distance each; the pooled number of all tasks takes the single ones along."""
    names = ("te_5_5_hubs_4_d_5_comp_accuracy", "all_hubs_d_5_comp_accuracy",
             "all_hubs_d_10_in_accuracy")  # fmt: skip
    claims = [CLAIMS[f"kernels.te_mnist.{name}"] for name in names]
    runs, _ = planned(tmp_path, claims)
    assert sorted(run.target.label for run in runs) == ["d10", "d5"]
    assert sorted(len(run.claims) for run in runs) == [1, 2]
    assert all(run.seeds == tuple(range(10)) for run in runs)


def test_a_part_is_planned_with_the_part_whose_configurations_it_takes(tmp_path):
    """Without it the command would be refused."""
    runs, _ = planned(tmp_path, [c for c in CLAIMS.values() if c.family == "subnetworks"])
    family = experiments.family("subnetworks")
    for run in runs:
        experiments.check(family, run.target.config())
    parts = {run.target.parts for run in runs if run.target.row == "anaphora_plural"}
    assert parts == {("scratch",), ("pretrained",), ("random_weights", "scratch"),
                     ("pretrained", "pretrained_random_weights")}  # fmt: skip


def deep_shares(record, spread: float) -> None:
    """Five seeds of every part, all as in the paper but for deviations of their own."""
    metrics = {}
    for name, number in PUBLISHED["kernels"]["cd_deep"].items():
        deviations = spread * np.roll((-2, -1, 0, 1, 2), int(name[len("depth_")]))
        metrics[name] = summary(number["mean"] * (1 + deviations), range(5), None)
    write(record, "cd_deep", [0.0] * 5, family="kernels", metrics=metrics)


@pytest.mark.parametrize("spread, parts", [(0.2, ("depth_4",)), (0.027, ())])
def test_all_seeds_of_one_part_are_planned_if_they_take_less_than_more_of_all(
    record, spread, parts
):
    """Of the row's four parts a claim needs one; few more seeds of all of them are less."""
    deep_shares(record, spread)
    claim = CLAIMS["kernels.cd_deep.depth_4_cd_2_wrong_share"]
    n = plans.standings.standings(record, [claim])[0].verdict.seeds
    (run,), _ = planned(record, [claim])
    assert run.target.parts == parts and run.target.label == "".join(parts)
    assert run.seeds == tuple(range(n) if parts else range(5, n)) and not run.replaces
    assert run.seconds == pytest.approx(20.0 * n / 5 / 4 if parts else 20.0)
    assert set(run.target.config().parts) == set(parts or {f"depth_{i}" for i in (1, 2, 3, 4)})


def test_seeds_of_a_claim_about_two_parts_stay_pairs(record):
    deep_shares(record, 0.3)
    (run,), _ = planned(record, [CLAIMS["kernels.memorization_grows_with_depth"]])
    assert run.target.parts == () and run.seeds[0] == 5


def test_a_run_of_one_configuration_of_masks_is_extended_as_it_is(record):
    """Its claims need no search among 24 configurations, which takes many times as long."""
    row, family = "anaphora_plural", "subnetworks"
    keys = {"masks.s0s": "0.05", "masks.lrs": "0.01", "masks.layers": "0"}
    keys = {f"parts.scratch.{key}": value for key, value in keys.items()} | {"masks.seeds": "0"}
    config = configs.some_parts(configs.load(f"{family}:{row},paper", keys), "scratch")
    config.train.seeds = (0, 1, 2)
    values = [-0.2, 0.1, 0.05]
    metrics = {"scratch/antecedent: abl_diff": summary(values, (0, 1, 2), None)}
    write(record, row, values, family=family, metrics=metrics, label="fixed",
          config=config.to_dict())  # fmt: skip
    name = f"{family}.{row}.scratch_antecedent_abl_diff"
    runs, _ = planned(record, [CLAIMS[name], CLAIMS[f"{name}_selected"]])
    extended, new = sorted(runs, key=lambda run: run.target.overrides, reverse=True)
    assert extended.target.config().to_dict() == config.to_dict()
    assert extended.target.label == "fixed" and extended.claims == (name,)
    assert extended.seeds[0] == 3 and not extended.replaces
    assert new.target.label == "scratch" and new.target.overrides == ()


def test_the_time_of_several_parts_is_the_sum_of_theirs(record):
    row, family = "anaphora_plural", "subnetworks"
    config = configs.load(f"{family}:{row},paper")
    for part, seconds in (("scratch", 30.0), ("random_weights", 20.0)):
        write(record, row, [0.9] * 3, family=family, wall_s=seconds,
              config=configs.some_parts(config, part).to_dict())  # fmt: skip
        path = record / family / f"{row}-paper.json"
        path.rename(path.with_stem(f"{row}-paper-{part}"))
    both = plans.Target(family, row, "paper", "", (), ("random_weights", "scratch"))
    times = plans.Times(record, "1x cpu")
    assert times.of(both, (0, 1, 2))[0] == pytest.approx(50.0)
    other = both._replace(parts=("pretrained", "scratch"))
    assert times.of(other, (0, 1, 2))[0] is None


# --- working it off -------------------------------------------------------------------------------


@pytest.fixture
def runner(monkeypatch, tmp_path):
    """In the place of a run's process: writes what the run would; `mode` says how it ends."""
    calls, mode = [], {}

    def run_until(deadline, argv, stop, log):
        calls.append(argv)
        flags = dict(word.partition("=")[::2] for word in argv)
        changes = {key[9:]: value for key, value in flags.items() if key.startswith("--config.")}
        config = configs.load(flags["--config"], changes)
        if config.row in mode:
            return mode[config.row]
        workdir = pathlib.Path(flags["--workdir"])
        means = {"mlp_random": 0.964, "regularised_random": 0.87}
        values = [means[config.row] + 1e-3 * (seed % 3) for seed in config.train.seeds]
        metrics = {"r2_all": summary(values, config.train.seeds, None)}
        finish(workdir, config, metrics, wall_s=3.0, devices="1x cpu")
        return 0

    monkeypatch.setattr(reproduce, "run_until", run_until)
    monkeypatch.setattr(reproduce, "devices", lambda: "1x cpu")
    monkeypatch.setattr(reproduce, "FOLDER", tmp_path / "runs")
    monkeypatch.setattr(plans, "CLAIMS", {claim.id: claim for claim in SOME})
    return calls, mode


def work_off(record, minutes="1", jobs=1):
    flags = [f"--minutes={minutes}", f"--record={record}", f"--jobs={jobs}"]
    return reproduce.main(["--plan", "vectors", "--run", *flags])


def test_a_plan_is_worked_off_and_recorded(runner, record, capsys):
    calls, _ = runner
    assert work_off(record) == 0
    printed = capsys.readouterr().out
    assert "runs recorded: 2, claims decided: 2, runs left: 0" in printed
    entries = {entry["row"]: entry for entry in report.entries("vectors", record)}
    seeds = entries["mlp_random"]["config"]["train"]["seeds"]
    assert seeds == list(range(len(seeds))) and len(seeds) > 5  # joined with the recorded five
    assert entries["regularised_random"]["metrics"]["r2_all"]["seeds"] == [0, 1, 2]
    calls.clear()
    assert work_off(record) == 0 and not calls  # every claim is decided


def test_a_run_that_the_time_stops_is_resumed_by_the_same_command(runner, record, capsys):
    calls, mode = runner
    mode["mlp_random"] = None
    assert work_off(record) == 0
    assert "stopped and saved, the same command resumes it" in capsys.readouterr().out
    assert len(report.entries("vectors", record)) == 2 and len(calls) == 1
    del mode["mlp_random"]
    assert work_off(record) == 0
    assert calls[1] == calls[0] and len(report.entries("vectors", record)) == 3


def test_a_run_that_fails_does_not_stop_the_others(runner, record, capsys):
    runner[1]["mlp_random"] = 4
    assert work_off(record) == 4
    printed = capsys.readouterr()
    assert "failed runs: vectors/mlp_random-paper" in printed.err
    assert "runs recorded: 1, claims decided: 1" in printed.out


def test_runs_at_once_share_the_device_and_are_recorded(runner, record, monkeypatch, capsys):
    """Each waits for the other to begin."""
    alone, both = reproduce.run_until, threading.Barrier(2, timeout=30)

    def run_until(deadline, argv, stop, log):
        assert log.is_relative_to(reproduce.FOLDER)
        both.wait()
        return alone(deadline, argv, stop, log)

    monkeypatch.setattr(reproduce, "run_until", run_until)
    assert work_off(record, jobs=2) == 0
    assert "runs recorded: 2, claims decided: 2, runs left: 0" in capsys.readouterr().out
    notes = sorted(entry["note"] for entry in report.entries("vectors", record))
    assert notes == ["", "up to 2 runs at once", "up to 2 runs at once"]  # the first was there


def test_a_run_that_cannot_be_recorded_stops_the_others(runner, record, monkeypatch, capsys):
    """The other run continues until the failure stops it."""

    def run_until(deadline, argv, stop, log):
        if "mlp_random" in argv[0]:
            return 0  # but there is nothing to record
        while not stop and time.monotonic() < deadline:
            time.sleep(0.01)
        return None if stop else 0

    monkeypatch.setattr(reproduce, "run_until", run_until)
    started = time.monotonic()
    assert work_off(record, jobs=2) == 2
    assert time.monotonic() - started < 30
    assert "holds no finished run" in capsys.readouterr().err


def test_runs_at_once_take_longer_and_more_seeds_wait_for_the_first():
    target = plans.Target("vectors", "mlp_random", "paper", "")
    first, more, short = (
        plans.Run(target._replace(label=label), (0,), (), 1.0, seconds, "", False, after)
        for label, seconds, after in (("", 60.0, 0), ("", 1.0, 1), ("short", 20.0, 0))
    )
    waiting = [more, first, short]
    assert reproduce.next_run(waiting, set(), 61.0, 1) == first
    assert reproduce.next_run(waiting, set(), 61.0, 2) == short
    assert reproduce.next_run(waiting, set(), 30.0, 2) == first  # nothing fits: it will be resumed
    assert reproduce.next_run(waiting, {(target, 0)}, 61.0, 2) == more
    assert reproduce.next_run(waiting, set(), 5.0, 1) is None
    assert reproduce.next_run([more], set(), 61.0, 1) is None


def test_a_run_beside_others_has_a_log_and_takes_memory_as_it_needs_it(monkeypatch, tmp_path):
    script = "import os, sys; print(os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'], sys.argv[1])"
    monkeypatch.setattr(reproduce, "COMMAND", (sys.executable, "-c", script))
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
    log, deadline = tmp_path / "vectors" / "row.log", time.monotonic() + 60
    assert reproduce.run_until(deadline, ["first"], log=log) == 0
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    assert reproduce.run_until(deadline, ["again"], log=log) == 0
    assert log.read_text() == "false first\ntrue again\n"


SLEEPER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("ready", flush=True)
time.sleep(30)
"""


@pytest.mark.parametrize(
    ("script", "code"), (("", 0), ("raise SystemExit(2)", 2), ("import os; os.abort()", 134))
)
def test_the_code_of_a_run_is_kept(monkeypatch, script, code):
    monkeypatch.setattr(reproduce, "COMMAND", (sys.executable, "-c", script))
    assert reproduce.run_until(time.monotonic() + 60, []) == code


@pytest.mark.parametrize("script", (SLEEPER, SLEEPER.replace("sys.exit(3)", "os.abort()")))
def test_the_deadline_stops_a_run(monkeypatch, script):
    monkeypatch.setattr(reproduce, "COMMAND", (sys.executable, "-c", script))
    started = time.monotonic()
    assert reproduce.run_until(started + 0.3, []) is None
    assert time.monotonic() - started < 20


def test_a_run_that_ignores_the_deadline_is_killed(monkeypatch):
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(30)"
    monkeypatch.setattr(reproduce, "COMMAND", (sys.executable, "-c", script))
    monkeypatch.setattr(reproduce, "GRACE_S", 0.2)
    started = time.monotonic()
    assert reproduce.run_until(started + 0.3, []) is None
    assert time.monotonic() - started < 20


def test_a_signal_stops_the_run_and_the_plan(monkeypatch):
    monkeypatch.setattr(reproduce, "COMMAND", (sys.executable, "-c", SLEEPER))
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    with pytest.raises(Preempted), signals.patiently() as stop:
        assert reproduce.run_until(time.monotonic() + 60, [], stop) is None


def test_a_row_without_data_is_planned(tmp_path):
    (run,) = planned(tmp_path, [CLAIMS["kernels.partial_exposure_is_harder"]]).runs
    assert run.target.flag == "kernels:partial,paper" and run.seeds == ()


@pytest.mark.slow
def test_a_closed_form_is_planned_and_run_for_real(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(reproduce, "FOLDER", tmp_path / "runs")
    claim = CLAIMS["kernels.partial_exposure_is_harder"]
    plan = planned(tmp_path / "record", [claim])
    (run,) = plan.runs
    assert run.seeds == () and run.seconds is not None
    reproduce.work_off(plan, 5.0, tmp_path / "record")
    assert "runs recorded: 1, claims decided: 1" in capsys.readouterr().out


def test_the_plan_is_printed_with_its_commands(record, monkeypatch, capsys):
    monkeypatch.setattr(plans, "CLAIMS", {claim.id: claim for claim in SOME})
    argv = ["--plan", "vectors", f"--record={record}", "--device=1x cpu"]
    assert reproduce.main(argv) == 0
    printed = capsys.readouterr().out
    assert (
        "python -m cgjax.main --config=vectors:mlp_random,paper --config.train.seeds=5 " in printed
    )
    assert "2 runs would decide 2 open claims" in printed and "and 1 of unknown time" in printed


@pytest.mark.parametrize(
    ("argv", "words"),
    (
        (["--plan", "--run"], "needs --minutes=N"),
        (["--plan", "--minutes=5"], "needs --run"),
        (["--plan", "--run", "--minutes=0"], "--minutes=0: give a number of minutes above 0"),
        (["--plan", "--run", "--minutes=nan"], "--minutes=nan: give a number"),
        (["--plan", "--run", "--minutes=soon"], "--minutes=soon: give a number"),
        (["--plan", "--run", "--minutes=1", "--device=x"], "leave --device out"),
        (["--plan", "--run", "--minutes=1", "--jobs=0"], "--jobs=0: give a number of runs"),
        (["--plan", "--run", "--minutes=1", "--jobs=two"], "--jobs=two: give a number"),
        (["--plan", "--jobs=2"], "--jobs is for --plan --run"),
        (["kernels.leak.slope_p_1_s_0.30", "--jobs=2"], "are for --plan"),
        (["--plan", "kernel"], "(did you mean 'kernels'?)"),
        (["kernels.leak.slope_p_1_s_0.30", "--plan"], "not for one claim"),
        (["kernels.leak.slope_p_1_s_0.30", "--minutes=3"], "are for --plan"),
        (["--plan", "--record=/nonexistent/record"], "is not a folder"),
    ),
)
def test_bad_flags_are_one_line(capsys, argv, words):
    assert reproduce.main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cgjax: ") and words in line
