"""The command line, on one tiny run of the README's family: what a workdir allows and refuses."""

import fcntl
import json
import os
import pathlib
import re
import shutil
import tomllib

import jax
import numpy as np
import pytest
from front_door import one_line, snapshot, working_in, write_family

import cgjax
from cgjax import config as configs
from cgjax import experiments
from cgjax.core import train
from cgjax.core import workdir as folders
from cgjax.core.errors import BadInput
from cgjax.main import main

pytestmark = pytest.mark.usefixtures("one_device")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with working_in(tmp_path_factory.mktemp("here"), "linelab") as folder:
        yield folder


def command(workdir, *more, seeds="0,1"):
    flags = ["--config=linelab/config.py:few,smoke", f"--workdir={workdir}"]
    return main([*flags, f"--config.train.seeds={seeds}", *more])


@pytest.fixture(scope="module")
def finished(here):
    """Two seeds, twelve steps."""
    assert command("finished") == 0
    return here / "finished"


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def results(workdir) -> dict:
    return json.loads((workdir / "results.json").read_text())


def values(workdir) -> list:
    return results(workdir)["metrics"]["mse"]["values"]


def without_lock(found: dict) -> dict:
    return {path: content for path, content in found.items() if not path.endswith("/.lock")}


# --- one run --------------------------------------------------------------------------------------


def test_outputs(finished):
    names = {path.name for path in finished.iterdir()}
    assert names == {
        ".lock",
        "arrays.npz",
        "checkpoints",
        "config.json",
        "env.json",
        "figures",
        "metrics.jsonl",
        "results.json",
    }
    stored = results(finished)
    entry = stored["metrics"]["mse"]
    stated = {"paper", "paper_sd", "paper_tolerance", "where"}
    assert set(entry) == {"ours", "sd", "values", "seeds"} | stated
    assert entry["seeds"] == [0, 1] and entry["where"] == "Table 1"
    config = configs.from_json((finished / "config.json").read_text())
    assert stored["config_hash"] == configs.fingerprint(config)
    assert stored["data"] == {}  # it is drawn from the config
    assert stored["wall_s"] > 0 and stored["versions"]["jax"] == jax.__version__


def test_the_same_command_again_changes_nothing(finished, capsys):
    before = without_lock(snapshot(finished))
    assert command("finished") == 0
    out = capsys.readouterr().out
    assert "already finished" in out and "mse" in out and "compiling" not in out
    assert without_lock(snapshot(finished)) == before


def test_a_refused_command_leaves_no_owner(here, capsys):
    """The corrected command runs, also where the folder was there before."""
    (here / "early").mkdir()
    assert command("early", "--config.train.steps=15") == 2
    one_line(capsys, "must divide train.steps=15")
    assert not os.listdir(here / "early")
    assert command("early", "--config.train.steps=4", "--no_figures") == 0


def test_what_is_missing_is_made_again_and_nothing_is_trained(copy, capsys):
    trained = {path: content for path, content in snapshot(copy / "checkpoints").items()}
    (copy / "results.json").unlink()
    shutil.rmtree(copy / "figures")
    assert command(copy, "--no_figures") == 0
    assert results(copy)["figures"] is None and not (copy / "figures").exists()
    assert command(copy, "--no_figures") == 0
    assert "already finished" in capsys.readouterr().out
    for lost in ("figures/mse.png", "arrays.npz", "figures/mse.png"):  # first: never drawn
        (copy / lost).unlink(missing_ok=True)
        assert command(copy) == 0
        out = capsys.readouterr().out
        assert "already finished" not in out and "compiling" not in out
        assert (copy / lost).exists() and results(copy)["figures"] == ["mse.png"]
    (copy / "arrays.npz").write_text("torn")
    assert command(copy) == 0 and np.load(copy / "arrays.npz")["mse"].shape == (3, 2)
    assert snapshot(copy / "checkpoints") == trained


def test_a_changed_derived_file_is_made_again(here, copy, capsys):
    """Figures, and files that the family names: they derive from what was trained."""
    figure = copy / "figures/mse.png"
    whole = figure.read_bytes()
    figure.write_bytes(whole[:100])
    assert command(copy, "--no_figures") == 0  # without figures
    assert "already finished" in capsys.readouterr().out
    assert command(copy) == 0
    assert "already finished" not in capsys.readouterr().out and len(figure.read_bytes()) > 100

    curves = (
        '    (workdir / "curves.csv").write_text(f"mse {mse[-1].tolist()}\\n")\n'
        '    return {"mse": results.summary'
    )
    config = write_family(
        here,
        "curvelab",
        lambda text: text.replace('    return {"mse": results.summary', curves).replace(
            '{"mse": mse}, {}\n', '{"mse": mse}, {"files": ["curves.csv"]}\n'
        ),
    )
    again = [f"--config={config}:few,smoke", "--workdir=curves", "--no_figures"]
    assert main(again) == 0
    path = here / "curves/curves.csv"
    text = path.read_text()
    for change in (lambda: path.write_text(text[:5]), path.unlink):
        change()
        capsys.readouterr()
        assert main(again) == 0
        out = capsys.readouterr().out
        assert "already finished" not in out and "compiling" not in out
        assert path.read_text() == text
    assert main(again) == 0 and "already finished" in capsys.readouterr().out


def test_a_family_that_is_one_module(here, capsys):
    """`study.py` in the current folder: its full name has no dot."""
    folder = write_family(here, "lonelab").parent
    (here / "lonestudy.py").write_text((here / folder / "study.py").read_text())
    path = here / folder / "config.py"
    path.write_text(path.read_text().replace("lonelab.study", "lonestudy"))
    assert main([f"--config={path}:few,smoke", "--no_figures"]) == 0
    assert (here / "runs/lonestudy/few-smoke/results.json").exists()


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"cgjax {cgjax.__version__}\n"
    project = tomllib.loads((pathlib.Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert cgjax.__version__ == project["project"]["version"]


def test_load_reads(finished):
    before = snapshot(finished)
    run = cgjax.load(str(finished), step=np.int64(12))
    assert run.params["w"].shape == (2, 3) and run.config.data.n == 16
    assert snapshot(finished) == before
    with pytest.raises(BadInput, match="holds no run"):
        cgjax.load(finished / "figures")
    with pytest.raises(BadInput, match="holds no step 5"):
        cgjax.load(finished, step=5)
    for step in ("last", -1, 1.5, True):
        with pytest.raises(BadInput, match='None, "latest" or a number'):
            cgjax.load(finished, step=step)


# --- seeds ----------------------------------------------------------------------------------------


def test_seeds_in_any_order_some_of_them_and_more(copy, capsys):
    first = values(copy)
    before = snapshot(copy)
    assert command(copy, seeds="1") == 0  # some are only read
    out = capsys.readouterr().out
    assert "seeds 1 →" in out and f"{first[1]:.4f}" in out and "nothing was written" in out
    assert command(copy, "--no_figures", "--full_table", seeds="1") == 0
    assert snapshot(copy) == before
    assert command(copy, seeds="1,0") == 0
    assert values(copy) == first[::-1] and "compiling" not in capsys.readouterr().out
    assert command(copy, seeds="7,0,1") == 0
    added = values(copy)
    assert added[1:] == first and added[0] not in first
    before = snapshot(copy)
    assert command(copy, seeds="1,7") == 0
    assert snapshot(copy) == before
    assert command(copy, seeds="0,9") == 2
    one_line(capsys, "has trained train.seeds=(7, 0, 1)", "not (0, 9)")
    assert command(copy, "--extend", "--config.train.steps=24", seeds="0") == 2
    one_line(capsys, "--extend trains every replica")
    assert snapshot(copy) == before


def test_some_seeds_that_are_not_finished_are_refused(copy, monkeypatch, capsys):
    """A second group that was stopped half way is not trained on by asking for it."""

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train, "report_deaths", stop)  # after its last checkpoint
        assert command(copy, seeds="0,1,2") == 3
    shutil.rmtree(copy / "checkpoints/seeds_2/12")
    capsys.readouterr()
    before = snapshot(copy)
    assert command(copy, seeds="2") == 2
    one_line(capsys, "not finished: it is at step 8 of 12")
    assert command(copy, seeds="0") == 0
    assert snapshot(copy) == before


# --- another config -------------------------------------------------------------------------------


def test_a_changed_config_is_refused_with_the_difference(copy, capsys):
    before = snapshot(copy)
    assert command(copy, "--config.optim.lr=0.5") == 2
    one_line(capsys, "optim.lr: 0.1 -> 0.5", "use a new --workdir")
    assert command(copy, "--config.optim.lr=0.5", "--extend") == 2
    one_line(capsys, "optim.lr: 0.1 -> 0.5")
    assert command(copy, "--config.train.steps=24") == 2
    one_line(capsys, "train.steps: 12 -> 24", "or --extend")
    assert command(copy, "--config.train.steps=8", "--extend") == 2
    one_line(capsys, "--extend lengthens train.steps: 8 is less than 12")
    assert command(copy, "--config.optim.schedule_end=4", "--extend") == 2
    one_line(capsys, "--extend keeps the schedule: it ends at 12, not at 4")
    assert main(["--config=linelab/config.py:smoke", f"--workdir={copy}"]) == 2
    one_line(capsys, "data.n: 16 -> 64", "row: few -> demo")
    assert snapshot(copy) == before


def test_an_extended_run_equals_one_that_was_as_long_from_the_start(copy, here, capsys):
    longer = ("--config.train.steps=24", "--config.eval.at=(20,)")
    assert command(copy, *longer, "--extend") == 0
    assert "compiling" in capsys.readouterr().out
    assert command("whole", *longer, "--config.optim.schedule_end=12") == 0
    assert values(copy) == values(here / "whole")
    a, b = (cgjax.load(folder).params["w"] for folder in (copy, here / "whole"))
    np.testing.assert_array_equal(a, b)
    (came_from,) = results(copy)["came_from"]
    assert came_from["changed"][0] == "eval.at: () -> (20,)" and len(came_from["config_hash"]) == 12
    for again in ((), ("--extend",)):
        assert command(copy, *longer, *again) == 0
        assert "already finished" in capsys.readouterr().out
    assert command(copy) == 2  # the shorter config differs from the extended run's
    one_line(capsys, "train.steps: 24 -> 12")


def test_extending_keeps_the_schedule_and_past_times(copy, capsys):
    """A config that says otherwise would be recorded for weights that it did not give."""
    before = snapshot(copy)
    refused = {
        ("train.steps=48", "optim.schedule_end=96"): "the schedule: it ends at 12, not at 96",
        ("train.steps=24", "optim.schedule_end=24"): "the schedule: it ends at 12, not at 24",
        ("eval.every=12",): "evaluates at 4: add it to eval.at",
        ("eval.every=0", "train.steps=24"): "evaluates at 4: add it to eval.at",
        ("eval.every=8", "train.steps=24", "eval.at=4"): "evaluates at 12: add it to eval.at",
        ("eval.at=0",): "evaluates at [4, 8, 12]: leave 0 out of eval.at",
        ("eval.keep=8,24", "train.steps=24"): "keeps arrays at none: leave 8 out of eval.keep",
        ("train.steps=24", "checkpoint.keep=4,16"): "saves at none: leave 4 out of checkpoint.keep",
    }
    for keys, words in refused.items():
        assert command(copy, "--extend", *(f"--config.{key}" for key in keys)) == 2, keys
        one_line(capsys, words)
        assert snapshot(copy) == before, keys
    fresh = copy.with_name("fresh")
    assert command(fresh, "--config.eval.every=12", "--no_figures") == 0
    before = snapshot(fresh)
    assert command(fresh, "--config.eval.every=12", "--config.eval.at=4,8", "--extend") == 2
    one_line(capsys, "changes nothing up to 12, and the run evaluates at [12]: leave 4 out")
    assert command(fresh, "--config.eval.every=0", "--config.train.steps=24", "--extend") == 2
    one_line(capsys, "evaluates at 12: add it to eval.at")
    assert snapshot(fresh) == before
    more = ("--config.eval.every=0", "--config.train.steps=24", "--config.eval.at=12")
    assert command(fresh, *more, "--extend", "--no_figures") == 0
    assert command(fresh, *more, "--no_figures", seeds="0,1,2") == 0  # seeds can be added
    assert results(fresh)["metrics"]["mse"]["seeds"] == [0, 1, 2]


def test_an_extension_that_the_family_refuses_leaves_the_owner(copy, capsys):
    """Found out only while tracing: `evaluate` returns no arrays to keep."""
    before = without_lock(snapshot(copy))
    assert command(copy, "--extend", "--config.train.steps=24", "--config.eval.keep=24") == 2
    one_line(capsys, "evaluate of this experiment returns no arrays")
    assert {path: text for path, (_, text) in without_lock(snapshot(copy)).items()} == {
        path: text for path, (_, text) in before.items()
    }
    assert command(copy) == 0
    assert "already finished" in capsys.readouterr().out


def test_starting_anew_keeps_what_was_there(copy, capsys):
    kept = {path.name for path in copy.iterdir()}
    before = without_lock(snapshot(copy))
    assert command(copy, "--start_anew", "--config.optim.lr=0.5", "--no_figures") == 0
    assert "is now in" in capsys.readouterr().out
    aside = copy / "abandoned-1"
    assert {path.name for path in aside.iterdir()} == kept - {".lock"}
    moved = {path.replace("/abandoned-1/", "/"): c for path, c in snapshot(aside).items()}
    assert moved == before
    assert command(copy, "--config.optim.lr=0.5", "--no_figures") == 0
    assert "already finished" in capsys.readouterr().out
    assert command(copy, "--start_anew", "--dry_run") == 2
    shutil.rmtree(aside)
    (copy / "abandoned-2").mkdir()
    # Nothing is trained here any more, though checkpoints lie aside.
    for path in [path for path in copy.iterdir() if path.name != "abandoned-2"]:
        path.rename(copy / "abandoned-2" / path.name)
    assert command(copy, "--config.data.batch=8", "--no_figures", seeds="0") == 0


# --- damage ---------------------------------------------------------------------------------------

ENTRY = '{"metrics": {"mse": %s}, "config_hash": "x", "figures": [], "arrays": []}'
DAMAGE = {
    "results.json": ["", "[]", "{}", "nonsense", '{"metrics": 3}', "\x00", ENTRY % 1, ENTRY % "{}",
                     '{"metrics": {}, "config_hash": 1, "figures": [], "arrays": []}',
                     '{"metrics": {}, "config_hash": "x", "figures": [1], "arrays": []}',
                     '{"metrics": {}, "config_hash": "x", "figures": [], "arrays": 2}',
                     '{"metrics": {}, "config_hash": "", "figures": [], "arrays": [], "files": 1}'],
    "config.json": ["", "[]", "{}", '{"family": 1}', '{"family": "linelab.study"}', "[" * 100_000,
                    '{"family": "f", "row": "r", "size": "s"}', '{"a.b": 1}', '{"": {"": []}}',
                    '{"family": "f", "row": "r", "size": "s", "train": {"seeds": 5}}',
                    '{"family": "f", "row": "r", "size": "s", "optim": 3, "train": "x"}'],
    "extensions.json": ["", "[]", "{}", '{"came_from": 3}', '{"came_from": []}', "\x00"],
    "metrics.jsonl": ["", "{}\n", "\x00", '{"group": "seeds_0-1", "crc": "x"}\n'],
    "checkpoints/seeds_0-1.json": ["", "[]", '{"replicas": 3}'],
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_line(name, copy, capsys):
    for text in DAMAGE[name]:
        (copy / name).write_text(text)
        if name in ("metrics.jsonl", "checkpoints/seeds_0-1.json"):
            (copy / "results.json").unlink(missing_ok=True)
        before = without_lock(snapshot(copy))
        assert command(copy, "--no_figures") == 2, text
        error = one_line(capsys)
        assert name in error or "another config" in error
        after = without_lock(snapshot(copy))
        after.pop(str(copy / "env.json")), before.pop(str(copy / "env.json"))
        if name != "checkpoints/seeds_0-1.json":
            assert after == before


def test_a_config_that_was_edited_by_hand_is_not_adopted(copy, capsys):
    """Results would stand under a config that did not produce them."""
    path = copy / "config.json"
    config = json.loads(path.read_text())
    config["data"]["n"] += 1
    path.write_text(json.dumps(config, sort_keys=True, indent=1))
    for _ in range(2):
        before = without_lock(snapshot(copy))
        assert command(copy, "--no_figures", f"--config.data.n={config['data']['n']}") == 2
        one_line(capsys, "was changed since it was written")
        assert without_lock(snapshot(copy)) == before
        (copy / "results.json").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "name",
    ["results.json", "config.json", "env.json", "arrays.npz", ".lock", "figures", "metrics.jsonl"],
)
def test_a_folder_or_file_in_the_way_is_one_line(name, copy, capsys):
    for path in (copy / name, copy / "results.json"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if name == "figures":
        (copy / name).write_text("no folder")
    else:
        (copy / name).mkdir()
        (copy / name / "stray").write_text("")
    assert command(copy) == 2
    one_line(capsys, "directory" if name == ".lock" else name)


def test_stray_files_and_folders_are_left_alone(copy, capsys):
    for path in ("notes", "checkpoints/notes", "checkpoints/seeds_0-1/notes", "figures/notes"):
        (copy / path).mkdir()
        (copy / path / "1").write_text("mine")
    (copy / "results.json").unlink()
    assert command(copy) == 0
    assert (copy / "checkpoints/seeds_0-1/notes/1").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["results.json.tmp", ".arrays.tmp.npz", "env.json.tmp", "config.json.tmp"]
)
def test_a_full_disk_is_one_line(name, copy, capsys):
    """/dev/full stands for the disk."""
    (copy / "results.json").unlink()
    (copy / name).symlink_to("/dev/full")
    assert command(copy, "--no_figures", seeds="1,0") == 2
    one_line(capsys, "No space left on device", "cannot write")


@pytest.mark.parametrize(
    "error, text",
    [
        (RuntimeError("Unable to initialize backend 'cuda'\nand more"), "backend 'cuda'"),
        (AssertionError(), "names none that this machine has"),  # JAX_PLATFORMS=cuda, no GPU
    ],
)
def test_without_a_device_there_is_one_line(error, text, here, monkeypatch, capsys):
    def none():
        raise error

    monkeypatch.setattr(jax, "devices", none)
    assert command("nothing") == 2
    one_line(capsys, "no device: ", text)
    assert not (here / "nothing").exists()


def test_two_processes_in_one_workdir(tmp_path, here, capsys):
    with open(tmp_path / ".lock", "w") as handle:  # another open file excludes like a process
        handle.write("4711")
        handle.flush()
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert command(tmp_path) == 2
    one_line(capsys, "in use by process 4711")


# --- what is said without running -----------------------------------------------------------------


def test_list_prints_families(capsys):
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    for name in experiments.FAMILIES:
        (line,) = re.findall(rf"^    {name} +(\S.*)$", out, flags=re.M)
        assert len(line.split()) > 4
    assert "does a training support identify" in out


def test_list_prints_one_line_for_each_row(capsys):
    assert main(["--list", *experiments.FAMILIES]) == 0
    lines = capsys.readouterr().out.splitlines()
    for path in sorted(configs.folder().glob("*.py")):
        for row in configs.load_file(path).describe_rows():
            expect = f"  [{row['expect']}]" if row["expect"] else ""
            (line,) = [
                x
                for x in lines
                if x.split() and x.endswith(f"{row['doc']}{expect}") and x.split()[0] == row["name"]
            ]
            assert len(line) <= 170, line
    assert sum(line.startswith("--config=sprites:<row>[,<size>]") for line in lines) == 1
    assert any("r2_all 0.9509" in line for line in lines)


def test_list_by_words_and_families(capsys):
    assert main(["--list", "sprites", "Diagonal"]) == 0
    out = capsys.readouterr().out
    assert "diagonal_narrow" in out and "--config=vectors" not in out and "random_mono" not in out
    assert main(["--list=vectors"]) == 0
    out = capsys.readouterr().out
    assert "mlp_diagonal" in out and "--config=sprites" not in out


def test_help_prints_every_key_once(capsys):
    assert main(["--config=kernels:smoke", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    config = configs.load("kernels:smoke")
    fixed = {"family", "row", "size", "study"}
    assert len(lines) == len(set(configs.keys(config)) - fixed)
    assert (
        "--config.train.seeds=0,1  replicas of one compiled program (whole numbers, at l"
        in "".join(line for line in lines if "train.seeds" in line)
    )
    assert any("parts.addition.optim.lrs=0.04,0.005  learning rate" in line for line in lines)
    assert main(["-h"]) == 0 and main(["--help"]) == 0
    assert "--start_anew" in capsys.readouterr().out


def test_a_dry_run_says_what_would_run_and_writes_nothing(copy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = snapshot(tmp_path)
    assert main(["--config=vectors:paper", "--dry_run"]) == 0
    out = capsys.readouterr().out
    assert "mlp: 5,888 parameters x 117 replicas, 256,000 steps, state" in out
    assert "optim.lr = 0.001" in out and "expected time: 1 to 3 minutes" in out
    assert "would run in runs/vectors/demo-paper; nothing was written" in out
    assert main(["--config=kernels:phase", "--dry_run"]) == 0
    assert "nothing is trained" in capsys.readouterr().out
    assert snapshot(tmp_path) == before


def test_a_length_of_all_of_32_bits_is_checked_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    longest = "--config.parts.digits.train.epochs=2147483647"
    assert main(["--config=resistance:smoke", longest, "--dry_run"]) == 0
    assert "digits: " in capsys.readouterr().out


def test_a_dry_run_tells_what_the_workdir_would_allow(copy, here, capsys):
    before = snapshot(copy)
    assert command(copy, "--dry_run") == 0
    assert "would go on in" in capsys.readouterr().out
    assert command(copy, "--dry_run", seeds="1") == 0
    assert "would read some of the replicas" in capsys.readouterr().out
    assert command(copy, "--dry_run", "--extend", "--config.train.steps=24") == 0
    assert "optim.schedule_end = 12" in capsys.readouterr().out
    assert command(copy, "--dry_run", "--config.train.steps=24") == 2
    assert snapshot(copy) == before


# --- configs --------------------------------------------------------------------------------------


def test_override_types():
    changes = {"train.seeds": "(3, 4)", "optim.lr": "1", "model.form": "direct",
               "train.steps": "24", "eval.regions": "True", "model.kinds": "shared"}  # fmt: skip
    config = configs.load("sprites:smoke", changes)
    assert config.train.seeds == (3, 4) and config.optim.lr == 1.0 and config.train.steps == 24
    assert config.eval.regions is True and config.model.kinds == ("shared",)
    for text, found in (("5", (5,)), ("[1, 2]", (1, 2)), (" 1,2 ", (1, 2))):
        assert configs.load("sprites:smoke", {"train.seeds": text}).train.seeds == found
    scales = configs.load("kernels:addition_rich", {"model.scales": "1, 2.5"}).model.scales
    assert scales == (1.0, 2.5) and isinstance(scales[0], float)


def test_parts_take_any_key_of_the_row():
    changes = {"parts.addition.optim.lrs": "1,2", "parts.addition.model.depth": "3"}
    found = dict(configs.parts(configs.load("kernels:smoke", changes)))
    assert found["addition"].optim.lrs == (1.0, 2.0) and found["addition"].model.depth == 3
    assert found["equivalence"].optim.lrs == (0.1, 0.001) and found["equivalence"].model.depth == 1


def test_some_parts_first_and_the_others_later(tmp_path, capsys):
    """A row's parts one after another in one workdir end with what the whole row gives."""

    def run(folder, *flags, seeds="0,1"):
        chosen = [
            "--config=kernels:te_rich,smoke",
            f"--config.train.seeds={seeds}",
            "--no_figures",
            f"--workdir={tmp_path / folder}",
        ]
        return main([*chosen, *flags])

    assert run("apart", "--parts=mse") == 0
    first = results(tmp_path / "apart")["metrics"]
    assert first and all(name.startswith("mse/") for name in first)
    capsys.readouterr()
    assert run("apart", seeds="0") == 2  # reads, and there is nothing to read
    assert "lacks parts, which are trained for all replicas" in one_line(capsys)
    assert run("apart") == 0 and run("whole") == 0
    both = results(tmp_path / "apart")["metrics"]
    assert both == results(tmp_path / "whole")["metrics"] and first.items() <= both.items()
    capsys.readouterr()
    before = snapshot(tmp_path / "apart")
    for flag, words in {
        "--parts=mse": "holds the parts logistic, mse: name all of them",
        "--parts=msse": "no part 'msse' (did you mean 'mse'?): there are logistic, mse",
        "--parts=": "no part ''",
    }.items():
        assert run("apart", flag) == 2 and words in one_line(capsys)
    assert main(["--config=sprites:smoke", "--parts=mse"]) == 2
    assert "has no parts to choose from" in one_line(capsys)
    assert without_lock(snapshot(tmp_path / "apart")) == without_lock(before)


def test_config_survives_json():
    config = configs.load("sprites:orthogonal_gap,paper")
    again = configs.from_json(configs.to_json(config))
    assert configs.differences(config, again) == []
    assert again.data.planes == config.data.planes
    assert configs.fingerprint(again) == configs.fingerprint(config)


def test_a_copy_without_its_repository_names_its_commit(monkeypatch, tmp_path):
    """A run on a machine without the repository still records which code made it."""
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "cgjax" / "core" / "workdir.py"))
    (tmp_path / "cgjax").mkdir()
    assert folders.environment()["commit"] == ""
    monkeypatch.setenv("CGJAX_COMMIT", "0123abc")
    assert folders.environment()["commit"] == "0123abc"
