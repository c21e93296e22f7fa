"""python -m cgjax.reproduce: what it prints, what it runs, what it refuses."""

import pathlib

import pytest
from front_door import finish

from cgjax import config as configs
from cgjax import experiments, reproduce
from cgjax.published.claims import CLAIMS
from cgjax.published.results import summary
from cgjax.report.__main__ import main as report_command


def test_a_recorded_claim_is_read(capsys, monkeypatch):
    monkeypatch.setattr(reproduce, "run", None)  # nothing is run
    assert reproduce.main(["kernels.leak.slope_p_1_s_0.30"]) == 0
    printed = capsys.readouterr().out
    assert "paper       0.4286" in printed and "ours        0.4286 (deterministic)" in printed
    assert printed.splitlines()[-1] == "verdict     match"


def test_a_recorded_ordering_is_read(capsys):
    assert reproduce.main(["resistance.plane.a_uses_x_2_more"]) == 0
    printed = capsys.readouterr().out
    assert "claimed     plane: A: S_2 > plane: control: S_2" in printed
    assert "against" in printed and "among 4 comparisons (Holm)" in printed


def test_claims_are_listed_by_words(capsys):
    assert reproduce.main(["--list", "leak", "Closed"]) == 0
    header, *lines, last = capsys.readouterr().out.splitlines()
    assert header.split() == ["verdict", "claim", "paper", "ours"]
    assert len(lines) == 5 and all(line.startswith("match ") for line in lines)
    assert last == "formula or count: 5 match; of 5 claims"


def test_families_are_listed_with_counts(capsys):
    assert reproduce.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert report_command([]) == 0
    assert listed.splitlines()[:-1] == capsys.readouterr().out.splitlines()[:-1]
    counts = {line.split()[0]: int(line.split()[1]) for line in listed.splitlines()[:-1]}
    assert counts == {
        name: sum(claim.family == name for claim in CLAIMS.values())
        for name in experiments.FAMILIES
    }
    assert reproduce.main(["--list", "vectors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(" vectors." in line for line in lines) == counts["vectors"]


@pytest.mark.parametrize(
    ("argv", "words"),
    (
        (["kernels.leak.slope"], "did you mean kernels.leak.slope_p_1_s_0.30"),
        (["sprites.orthogonal_compositional.r2_al"], "orthogonal_compositional.r2_all"),
        (["zzzzzz"], "--list <family> prints names"),
        ([], "no claim is named"),
        (["--list", "no_such_word"], "no claim has the words no_such_word"),
        (["--list", "--run"], "--list prints claims and runs nothing"),
        (["kernels.leak.slope_p_1_s_0.30", "--size=huge"], "invalid choice"),
        (["--nonsense"], "nonsense"),
    ),
)
def test_bad_input_is_one_line(capsys, argv, words):
    assert reproduce.main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cgjax: ") and words in line


@pytest.fixture
def runner(monkeypatch, tmp_path):
    """In the place of `cgjax.main`: writes what a run of this config would, and nothing else."""
    calls, values = [], {}

    def main(argv):
        calls.append(argv)
        if values.get("code"):
            return values["code"]
        flags = dict(word.partition("=")[::2] for word in argv)
        changes = {key[9:]: value for key, value in flags.items() if key.startswith("--config.")}
        config = configs.load(flags["--config"], changes)
        config.train.seeds = (0, 1, 2)
        workdir = pathlib.Path(flags["--workdir"])
        metrics = {
            name: summary(found, (0, 1, 2), None) for name, found in values[config.row].items()
        }
        finish(workdir, config, metrics, devices="1x me")
        return 0

    monkeypatch.setattr(reproduce.runner, "main", main)
    monkeypatch.setattr(reproduce, "FOLDER", tmp_path / "runs")
    return calls, values


def test_what_is_not_recorded_is_run(runner, capsys):
    """No more of the row than the claim needs."""
    calls, values = runner
    name = "kernels.addition_mnist.both_d_5_slope"
    values["addition_mnist"] = {CLAIMS[name].metric: [0.7, 0.699, 0.698]}
    assert reproduce.main([name]) == 0
    printed = capsys.readouterr().out
    assert "not in the record" in printed and printed.splitlines()[-1] == "verdict     match"
    assert "run         addition_mnist, paper · 1x me" in printed
    (argv,) = calls
    assert "--config=kernels:addition_mnist,paper" in argv
    assert {"--config.data.tasks=addition_both", "--config.data.distances=5"} <= set(argv)


def test_a_run_can_be_forced_at_a_size(runner, capsys):
    """Every row of an ordering is run; below the published scale there is no verdict."""
    calls, values = runner
    values["orthogonal_compositional"] = {"r2_all": [0.9, 0.91, 0.92]}
    values["orthogonal_monolithic"] = {"r2_all": [-0.4, -0.5, -0.6]}
    assert reproduce.main(["sprites.only_compositional_carries_over", "--run", "--size=fast"]) == 0
    assert len(calls) == 2
    assert capsys.readouterr().out.splitlines()[-1] == "verdict     no verdict at this size"


@pytest.mark.parametrize("code", (3, 4))
def test_a_run_that_does_not_end_says_so(runner, capsys, code):
    runner[1]["code"] = code
    assert reproduce.main(["sprites.monolithic_fails_outside", "--run"]) == code
    assert "did not end" in capsys.readouterr().err


def test_a_closed_form_is_run_for_real(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(reproduce, "FOLDER", tmp_path)
    assert reproduce.main(["kernels.partial_exposure_is_harder", "--run"]) == 0
    printed = capsys.readouterr().out
    assert "ours        0.3333 (deterministic), against 0.1429" in printed
    assert printed.splitlines()[-1] == "verdict     match"
