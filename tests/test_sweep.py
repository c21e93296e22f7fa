"""Sweeps: their points, which of them run, and the messages about failed points."""

import json
import os
import pathlib
import re
import shlex
import signal
import sys
import threading
import time

import jax
import numpy as np
import pytest
from front_door import one_line, write_family, write_numbers

from cgjax import config as configs
from cgjax import main as front_door
from cgjax.core import train
from cgjax.core.errors import Preempted
from cgjax.core.logging import read_npz
from cgjax.experiments.sprites import models
from cgjax.sweep import processes
from cgjax.sweep.__main__ import main, parse, values
from cgjax.sweep.points import CLOSING, OPENING, Task, check, expand, folder_name, standing, tasks
from cgjax.sweep.processes import Job
from cgjax.sweep.together import main as together

ROW = "sweeplab/config.py:few,smoke"
# Stands for a run: fails where `broken` holds a word of its workdir, waits where it holds "wait".
FAKE = """
import json, pathlib, signal, sys, time, zlib
workdir = next(a.partition("=")[2] for a in sys.argv if a.startswith("--workdir="))
print(workdir, file=open("started", "a"))
broken = pathlib.Path("broken").read_text().split()
if "wait" in broken:
    def leave(*_):
        print("cgjax: SIGTERM: saved", file=sys.stderr)
        sys.exit(3)
    signal.signal(signal.SIGTERM, leave)
    pathlib.Path("waits").touch()
    time.sleep(20)
if any(word in workdir for word in broken):
    print("a long story")
    sys.exit("cgjax: the flux is off")
config, mark = json.load(open("known.json"))[workdir]
place = pathlib.Path(workdir)
place.mkdir(parents=True)
(place / "config.json").write_text(config)
entry = {"ours": 0.5, "sd": None, "values": [0.5], "seeds": [0], "paper": None, "paper_sd": None,
         "where": None}
metrics = {"mse": entry, "r2": {**entry, "ours": 0.25, "sd": 0.125}}
numbers = {"metrics": metrics, "headlines": ["r2"], "config_hash": mark, "figures": [],
           "arrays": []}
crc = f"{zlib.crc32(json.dumps(numbers).encode()):08x}"
(place / "results.json").write_text(json.dumps({**numbers, "crc": crc}))
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    write_family(folder, "sweeplab")
    return folder


@pytest.fixture(scope="module")
def constant(tmp_path_factory):
    """The family, with a rate that is a constant of its programs: every point is a process."""
    folder = tmp_path_factory.mktemp("constant")
    config = folder / write_family(folder, "sweeplab")
    config.write_text(config.read_text().replace(", is_traced=True", ""))
    return folder


@pytest.fixture
def here(constant, tmp_path, monkeypatch):
    """A folder with the family and fake runs."""
    (tmp_path / "sweeplab").symlink_to(constant / "sweeplab")
    (tmp_path / "fake.py").write_text(FAKE)
    (tmp_path / "broken").write_text("")
    rows = "def get_config(arg): pass\ndef describe_rows(): return "
    (tmp_path / "undescribed.py").write_text(rows + "1 / 0")
    (tmp_path / "unnamed.py").write_text(rows + "[{}]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, "-S", "-E", "fake.py"))
    return tmp_path


def grid(**swept):
    points, remarks = expand([ROW], {}, {k.replace("__", "."): v for k, v in swept.items()}, RUNS)
    known = {
        str(p.workdir): [configs.to_json(p.config), configs.fingerprint(p.config)] for p in points
    }
    pathlib.Path("known.json").write_text(json.dumps(known))
    return points


RUNS = pathlib.Path("runs")
SIX = ["--sweep.optim.lr=0.1,0.2,0.3", "--sweep.data.batch=4,8"]


def six():
    return grid(optim__lr=["0.1", "0.2", "0.3"], data__batch=["4", "8"])


# --- which points there are -----------------------------------------------------------------------


def test_rows_times_values(here):
    flags = ["sweeplab/config.py:few,demo,smoke", "sweeplab/config.py:few"]
    points, _ = expand(flags, {"train.steps": "24"}, {"optim.lr": ["0.1", "2e-1"]}, RUNS)
    assert [(p.config.row, p.config.size, p.config.optim.lr) for p in points] == [
        ("few", "smoke", 0.1),
        ("few", "smoke", 0.2),
        ("demo", "smoke", 0.1),
        ("demo", "smoke", 0.2),
        ("few", "default", 0.1),
        ("few", "default", 0.2),
    ]
    assert all(point.config.train.steps == 24 for point in points)
    assert len({point.workdir for point in points}) == 6
    assert str(points[1].workdir) == (
        "runs/sweeps/sweeplab.study/few-smoke/train.steps=24,optim.lr=2e-1"
    )
    # What the process is given makes the very config of the point.
    for point in points:
        given, overrides, _ = front_door.parse(point.arguments())
        again = configs.load(given.config, overrides)
        assert configs.to_json(again) == configs.to_json(point.config)
        assert given.workdir == point.workdir


def test_a_pattern_names_rows_and_a_plain_point_lives_where_the_plain_run_does(here):
    points, _ = expand(["sweeplab/config.py:*,smoke"], {}, {}, RUNS)
    assert [str(p.workdir) for p in points] == [
        "runs/sweeplab.study/demo-smoke",
        "runs/sweeplab.study/few-smoke",
    ]
    (point,), _ = expand(["sweeplab/config.py"], {"train.seeds": "0,1"}, {}, RUNS)
    assert str(point.workdir) == "runs/sweeplab.study/demo"  # seeds can be added there


def test_seeds_are_replicas_of_one_program(here):
    swept = {"train.seeds": ["3", "4"], "eval.at": ["4", "8"]}
    points, remarks = expand([ROW], {}, swept, RUNS)
    assert [p.config.train.seeds for p in points] == [(3, 4), (3, 4)]
    assert remarks[0] == "train.seeds: 2 replicas of one program, not 2 points"
    assert "eval.at takes several values in one run" in remarks[1] and len(remarks) == 2
    points, remarks = expand([ROW], {}, {"train.seeds": ["(0,1)", "(2,)"]}, RUNS)
    assert [p.config.train.seeds for p in points] == [(0, 1), (2,)] and not remarks
    assert points[0].workdir != points[1].workdir


def test_values_and_folder_names():
    assert values("k", "1, (2,3),[4,(5,6)],'a,b'") == ["1", "(2,3)", "[4,(5,6)]", "'a,b'"]
    names = [folder_name({"a.b": text}) for text in ("1", "1/2", "1 2", "x" * 300, "x" * 301)]
    assert names[0] == "a.b=1" and len(set(names)) == 5
    assert all("/" not in name and len(name) < 200 for name in names)


BAD = {
    "": "nothing to sweep",
    "--config=": "nothing to sweep",
    "--config=alchemy": "no config file 'alchemy'",
    f"--config={ROW} --jbos=2": "'--jobs'",
    f"--config={ROW} --jobs=0": "at least 1",
    f"--config={ROW} --jobs=many": "--jobs: invalid int value",
    f"--config={ROW} --index=1": "there are 1 points, from 0",
    f"--config={ROW} --index=0 --dry_run": "--dry_run and --index contradict",
    f"--config={ROW} --index=0 --submit=local": "--submit and --index contradict",
    f"--config={ROW} --submit=cloud": "invalid choice: 'cloud'",
    f"--config={ROW} --slurm.partition=x": "needs --submit=slurm",
    f"--config={ROW} --minutes=5": "--minutes needs --submit",
    f"--config={ROW} --sweep.optim.lr": "has no value",
    f"--config={ROW} --sweep.optim.lr=": "has no value",
    f"--config={ROW} --sweep.optim.lr=1,,2": "is not a list of values",
    f"--config={ROW} --sweep.train.seeds=(1,2": "is not a list of values",
    f"--config={ROW} --sweep.optim.lr=1,1": "has a value twice",
    f"--config={ROW} --sweep.optim.lr=1,1.0": "two points are the same run",
    f"--config={ROW} --config={ROW}": "two points are the same run",
    f"--config={ROW} --sweep.optim.lr=1 --sweep.optim.lr=2": "'optim.lr' is given twice",
    f"--config={ROW} --sweep.optim.lr=1 --config.optim.lr=2": "give one of them",
    f"--config={ROW} --sweep.optim.l=1,2": "did you mean 'optim.lr'?",
    f"--config={ROW} --sweep.optim.lr=1,x": f"point {ROW} optim.lr=x: config key 'optim.lr'",
    f"--config={ROW} --sweep.train.steps=12,13": "train.steps=13: train.steps_per_call=4 must",
    "--config=sweeplab/config.py:few,many,smoke": "unknown row 'many'",
    "--config=sweeplab/config.py:g*": "no row of 'sweeplab/config.py' matches 'g*'",
    "--config=undescribed.py:f*": "config file 'undescribed.py', line 2: ZeroDivisionError",
    "--config=unnamed.py:f*": "config file 'unnamed.py': KeyError",
}


def test_bad_input_is_one_line_and_leaves_nothing(here, capsys):
    before = sorted(here.iterdir())
    for line, words in BAD.items():
        assert main(line.split()) == 2, line
        one_line(capsys, words)
    # One value alone would do; a family refuses them together.
    kernels = "--config=kernels:addition_rich,smoke"
    assert main([kernels, "--sweep.optim.lrs=(0.1,)"]) == 2
    one_line(capsys, "point kernels addition_rich-smoke optim.lrs=(0.1,): ", "learning rates for")
    assert sorted(here.iterdir()) == before


def test_commands_in_the_readme_are_understood():
    text = (pathlib.Path(__file__).parents[1] / "launch" / "README.md").read_text()
    commands = re.findall(r"^python -m cgjax\.sweep (.*)", text, re.MULTILINE)
    counts = []
    for line in commands:
        flags, fixed, swept, _ = parse(shlex.split(line, comments=True))
        counts.append(len(expand(flags.config, fixed, swept, flags.runs)[0]))
    assert counts == [12, 12, 6]  # three rows each


# --- which points run -----------------------------------------------------------------------------


def starts(here) -> int:
    path = here / "started"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_finished_points_are_skipped_and_failed_ones_run_again(here, capsys):
    points = six()
    (here / "broken").write_text("optim.lr=0.2")
    sweep = [f"--config={ROW}", *SIX, "--jobs=2"]
    assert main([*sweep, "--dry_run"]) == 0
    assert "6 points: 6 open" in capsys.readouterr().out and not (here / "runs").exists()
    assert main(sweep) == 1
    said = capsys.readouterr()
    assert "2 of 6 points are not done: the same command runs them" in said.err
    assert said.out.count("the flux is off") == 4  # when it happens, and at the end
    assert "failed: sweeplab.study few-smoke optim.lr=0.2 data.batch=8: the flux is off" in said.out
    assert said.out.splitlines()[-3] == "6 points: 4 done, 2 failed"
    assert re.search(r"row +optim.lr +data.batch +r2 +mse\n", said.out)  # the headline first
    assert len(re.findall(r"smoke +0.[13] +[48] +0.25 ± 0.12 +0.5\n", said.out)) == 4
    assert starts(here) == 6
    (here / "broken").write_text("")
    assert main(sweep) == 0
    assert starts(here) == 8 and "6 points: 6 done" in capsys.readouterr().out
    assert main([*sweep, "--metrics=mse"]) == 0
    out = capsys.readouterr().out
    assert starts(here) == 8 and "0.5" in out and "0.25" not in out
    assert main([*sweep, "--metrics=mze"]) == 2
    one_line(capsys, "no point has a metric 'mze' (did you mean 'mse'?)")
    # Results of another config are not this point's.
    (points[0].workdir / "config.json").write_text(configs.to_json(points[1].config))
    assert "another config" in standing(points[0], True).line


def test_a_finished_point_without_figures_is_open_when_figures_are_wanted(here, capsys):
    """It ended with 0: it has not failed."""
    points = grid(optim__lr=["0.1", "0.2"])
    sweep = [f"--config={ROW}", "--sweep.optim.lr=0.1,0.2"]
    assert main([*sweep, "--no_figures"]) == 0
    for point in points:  # as `cgjax.main --no_figures` writes it
        numbers = json.loads((point.workdir / "results.json").read_text())
        del numbers["crc"]
        write_numbers(point.workdir, numbers | {"figures": None})
    assert [standing(point, False).word for point in points] == ["done", "done"]
    capsys.readouterr()
    assert main([*sweep, "--dry_run"]) == 0
    out = capsys.readouterr().out
    assert "2 points: 2 open" in out and "failed" not in out


def test_one_index_ends_with_the_exit_code_of_its_run(here, capsys):
    six()
    sweep = [f"--config={ROW}", *SIX]
    assert main([*sweep, "--count"]) == 0 and capsys.readouterr().out == "6\n"
    assert main([*sweep, "--index=3"]) == 0 and main([*sweep, "--index=3"]) == 0
    assert starts(here) == 1 and "already finished" in capsys.readouterr().out
    assert (here / "started").read_text().strip().endswith("optim.lr=0.2,data.batch=8")
    (here / "broken").write_text("wait")
    threading.Thread(target=interrupt_once_waiting).start()
    assert main([*sweep, "--index=0"]) == 3
    one_line(capsys, "SIGTERM: stopped")
    assert standing(six()[0], True)[:2] == ("stopped", "SIGTERM: saved")


def test_one_index_loads_one_point(here, monkeypatch):
    six()
    loads, load = [], configs.load
    monkeypatch.setattr(configs, "load", lambda *given: loads.append(given) or load(*given))
    assert main([f"--config={ROW}", *SIX, "--index=3"]) == 0
    assert len(loads) == 2  # the row, to know which keys are axes; the point


def test_points_with_the_same_model_trace_it_once(monkeypatch):
    """A sweep over learning rates and batches checks every point, and its networks once."""
    swept = {
        "optim.lr": ["0.1", "0.2"],
        "data.batch": ["4", "8"],
        "model.component.hidden": ["4", "8"],
    }
    points, _ = expand(["sprites:smoke"], {}, swept, RUNS)
    built, build = [], models.build
    monkeypatch.setattr(models, "build", lambda *given: built.append(given) or build(*given))
    check(points)
    kinds = len(points[0].config.model.kinds)
    assert len(points) == 8 and len(built) == 2 * kinds


def interrupt_once_waiting():
    while not os.path.exists("waits"):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_is_handed_on_and_the_rest_stays_open(here):
    points = six()
    (here / "broken").write_text("wait")
    threading.Thread(target=interrupt_once_waiting).start()
    with pytest.raises(Preempted):
        processes.run_all([Task((point,)) for point in points], 1, [])
    assert [standing(p, True).word for p in points] == ["stopped"] + 5 * ["open"]
    assert starts(here) == 1


def test_a_log_tells_running_from_killed(here):
    point = six()[0]
    point.log.parent.mkdir(parents=True)
    host = os.uname().nodename
    for pid, word in ((os.getppid(), "running"), (2**22 + 1, "stopped")):
        point.log.write_text(f"{OPENING}{pid} on {host}: x\nstep 1\n")
        assert standing(point, True).word == word
    point.log.write_text(f"{OPENING}1 on {host}: x\nValueError: no luck\n{CLOSING}1\n")
    assert standing(point, True)[:2] == ("failed", "ValueError: no luck")


# --- points together ------------------------------------------------------------------------------


@pytest.fixture
def traced(lab, tmp_path, monkeypatch):
    (tmp_path / "sweeplab").symlink_to(lab / "sweeplab")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
    return tmp_path


def test_points_that_share_a_program(traced):
    swept = {"optim.lr": ["0.1", "0.2", "0.3"], "data.batch": ["4", "8"]}
    points, _ = expand(["sweeplab/config.py:few,demo,smoke"], {}, swept, RUNS)
    plan, said = tasks(points, 0)
    assert [{point.swept["optim.lr"] for point in task.points} for task in plan] == 4 * [
        {"0.1", "0.2", "0.3"}
    ]
    assert len({task.file for task in plan}) == 4
    assert said == [
        "12 points run as replicas of 4 programs: optim.lr",
        "a process for each value of data.batch: a shape or a constant",
    ]
    assert [len(task.points) for task in tasks(points, 2)[0]] == 4 * [2, 1]
    assert tasks(points, 1) == ([Task((point,)) for point in points], [])
    assert tasks(points[:1], 0)[1] == []
    assert tasks(points[:5:2], 0)[1] == ["3 points run as replicas of one program: optim.lr"]


def test_points_together_have_workdirs_and_logs_of_their_own(traced, capsys):
    """One dies, and the workdir of another cannot be made: the rest does not mind."""
    points, _ = expand([ROW], {}, {"optim.lr": ["0.2", "1e30", "0.4"]}, RUNS)
    (task,), _ = tasks(points, 0)
    points[2].workdir.parent.mkdir(parents=True)
    points[2].workdir.write_text("in the way")
    task.file.write_text(task.describe())
    assert together([str(task.file), "--no_figures"]) == 1
    assert "2 of 3 points have failed" in capsys.readouterr().err
    stands = [standing(point, False) for point in points]
    assert [one.word for one in stands] == ["done", "failed", "failed"]
    assert stands[1].line.startswith("every replica turned non-finite by step 4")
    assert "cannot create workdir" in stands[2].line
    point = points[0]
    assert "together with 1 other points" in point.log.read_text()
    assert (point.workdir / "config.json").read_text() == configs.to_json(point.config)
    assert [len(task.points) for task in tasks(points[1:], 0)[0]] == [2]


def two_points(flag: str, runs: pathlib.Path):
    """Two points of one program, and the file that describes them."""
    points, _ = expand([flag], {}, {"optim.lr": ["0.2", "0.4"]}, runs)
    (task,), _ = tasks(points, 0)
    task.file.parent.mkdir(parents=True)
    task.file.write_text(task.describe())
    return points, str(task.file)


def test_a_signal_stops_points_together_and_the_same_command_goes_on(traced, monkeypatch, capsys):
    original, calls = train.log_call, []

    def log_then_signal(*arguments):
        calls.append(0)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGUSR1)
        return original(*arguments)

    points, file = two_points(ROW, RUNS)
    with monkeypatch.context() as patch:
        patch.setattr(train, "log_call", log_then_signal)
        assert together([file, "--no_figures"]) == 3
    one_line(capsys, "run the same command to go on")
    for point in points:
        assert standing(point, False).word == "stopped"
        assert "SIGUSR1: saved at step 8" in standing(point, False).line
    assert together([file, "--no_figures"]) == 0
    assert "resumed at step 8" in capsys.readouterr().out
    whole, file = two_points(ROW, traced / "whole")
    assert together([file, "--no_figures"]) == 0
    for point, other in zip(points, whole):
        folders = (point.workdir, other.workdir)
        np.testing.assert_array_equal(
            *(read_npz(folder / "arrays.npz")["mse"] for folder in folders)
        )


CAREFUL = """    try:
        state, history = train.fit(experiment(config), config, workdir)
    except Exception:
        history = {"eval": {"step": np.zeros(1), "mse": np.zeros((1, len(config.train.seeds)))}}
"""


def test_a_family_that_catches_exceptions_is_trained(traced):
    """Control does not flow through the family's code: `fit` returns only what is trained."""
    plain = "    state, history = train.fit(experiment(config), config, workdir)\n"
    config = write_family(traced, "carefullab", lambda text: text.replace(plain, CAREFUL))
    points, file = two_points(f"{config}:few,smoke", RUNS)
    assert together([file, "--no_figures"]) == 0
    for point in points:
        results = standing(point, False).results
        assert results["trained_with"]["points"] == 1
        assert "last digits" in results["trained_with"]["note"]
        assert (point.workdir / "checkpoints").is_dir()
        assert results["metrics"]["mse"]["ours"] > 0
    # Also after a separate command writes its results again.
    alone = points[0].arguments()
    (points[0].workdir / "results.json").unlink()
    assert front_door.main([*alone, "--no_figures"]) == 0
    assert standing(points[0], False).results["trained_with"]["points"] == 1
    assert front_door.main([*alone[:-1], "--workdir=alone", "--no_figures"]) == 0
    assert "trained_with" not in json.loads(pathlib.Path("alone/results.json").read_text())


# --- submitit -------------------------------------------------------------------------------------


def test_a_time_out_saves_and_queues_again(here):
    submitit = pytest.importorskip("submitit", reason="needs the extra launch")
    (here / "broken").write_text("wait")
    job, codes = Job(Task((six()[0],)), [], None), []
    thread = threading.Thread(target=lambda: codes.append(job()))
    thread.start()
    while not (here / "waits").exists():
        time.sleep(0.02)
    again = job.checkpoint()
    thread.join()
    assert codes == [3] and isinstance(again, submitit.helpers.DelayedSubmission)
    (here / "broken").write_text("")
    assert again.function() == 0 and standing(six()[0], True).word == "done"


def test_without_submitit_there_is_one_line(here, monkeypatch, capsys):
    six()
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert main([f"--config={ROW}", *SIX, "--submit=local"]) == 2
    one_line(capsys, "pip install 'cgjax[launch]'")


# --- real runs ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_24_points_of_which_3_fail_at_first(lab, tmp_path, monkeypatch, capsys):
    (tmp_path / "sweeplab").symlink_to(lab / "sweeplab")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(__file__).parents[1]))
    monkeypatch.setenv("XLA_FLAGS", "")  # one device: batches of 2 do not divide over 8
    flags = ["sweeplab/config.py:few,demo,smoke"]
    swept = {"optim.lr": ["0.1", "0.2", "0.4"], "data.batch": ["2", "4", "8", "16"]}
    points, _ = expand(flags, {}, swept, RUNS)
    assert len(points) == 24
    sweep = [f"--config={flags[0]}", "--jobs=2", "--no_figures"]
    sweep += [f"--sweep.{name}={','.join(texts)}" for name, texts in swept.items()]
    blocked = [points[number].workdir for number in (2, 11, 23)]
    for path in blocked:  # a file where the folder should be
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("in the way")
    assert main(sweep) == 1
    out = capsys.readouterr().out
    assert "24 points run as replicas of 8 programs: optim.lr" in out
    assert "24 points: 21 done, 3 failed" in out and out.count("failed: sweeplab") == 3
    assert out.count("cannot create workdir") == 6
    untouched = {p.log: p.log.read_text() for p in points if p.workdir not in blocked}
    for path in blocked:
        path.unlink()
    assert main(sweep) == 0
    out = capsys.readouterr().out
    assert "[3/3]" in out and "24 points: 24 done" in out
    assert all(log.read_text() == text for log, text in untouched.items())
    point = points[5]
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
    assert front_door.main([*point.arguments()[:-1], "--workdir=alone", "--no_figures"]) == 0
    values = [
        json.loads((folder / "results.json").read_text())["metrics"]["mse"]["values"]
        for folder in (point.workdir, pathlib.Path("alone"))
    ]
    np.testing.assert_allclose(*values, rtol=1e-5)
