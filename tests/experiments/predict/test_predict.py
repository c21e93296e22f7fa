"""Across papers: a small run from its config to its tables, and the answers on made-up numbers."""

import json
import pathlib

import jax
import numpy as np
import pytest

import cgjax
from cgjax import report
from cgjax.analysis import stats
from cgjax.experiments.across import adapters, answers, run, tables, theories
from cgjax.experiments.across.pair import Look, Pair, Parts
from cgjax.main import main
from cgjax.published.results import summary

README = pathlib.Path(run.__file__).parent / "README.md"


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("across")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
        assert main(["--config=across:smoke", f"--workdir={folder}"]) == 0
    return folder


def test_smoke_ends_with_numbers_reasons_and_a_figure(workdir):
    results = json.loads((workdir / "results.json").read_text())
    metrics, reasons = results["metrics"], results["reasons"]
    assert results["figures"] == ["theories.png"]
    pair = "kernels_lazy_cd_1"
    for column in answers.COLUMNS:
        has_number = f"{pair}: {column}" in metrics
        assert has_number != (column in reasons[pair])
        if has_number:
            assert metrics[f"{pair}: {column}"]["seeds"] == [0, 1]
    assert metrics["tangent: pairs"]["ours"] == 1 and metrics["support: pairs"]["ours"] == 0
    assert "tangent: tau" not in metrics  # one pair has no correlation
    assert reasons[pair]["support"].startswith("no network of this family")
    path = report.add(workdir, record=workdir / "record")
    titles = dict(tables.of(json.loads(path.read_text())))
    assert "n/a (1)" in titles["across papers: pairs"]


def test_a_finished_pair_is_read_and_its_networks_open(workdir, monkeypatch, capsys):
    """A run that was stopped between two pairs does not build the finished pairs again."""
    results = workdir / "results.json"
    before = json.loads(results.read_text())["metrics"]
    results.unlink()
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
    monkeypatch.setattr(adapters, "build", None)
    assert main(["--config=across:smoke", f"--workdir={workdir}"]) == 0
    assert json.loads(results.read_text())["metrics"] == before
    monkeypatch.undo()
    opened = cgjax.load(workdir, "kernels_lazy_cd_1")
    assert opened.predict(
        jax.tree.map(lambda leaf: leaf[0], opened.params), np.ones((5, 14), np.float32)
    ).shape == (5,)


# --- theories on a network whose answer is known --------------------------------------------------


def linear(params, x):
    return x @ params["w"]


def known(w, parts=None):
    """Two outputs of two inputs by one matrix, trained where the inputs are equal."""
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    seen, new = np.stack([x, x], axis=1), np.stack([x, -x], axis=1)
    look = Look(seen, seen, new, new, np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2))

    def loss(params, look, k):
        return ((linear(params, look.x) - look.y)[:, k] ** 2).mean()

    pair = Pair(
        experiment=None,
        settings=None,
        rows=(0,),
        f=linear,
        looks=(look,),
        error=lambda y, f: ((y - f) ** 2).mean() / (y**2).mean(),
        loss=lambda y, f: ((y - f) ** 2).mean(),
        support=lambda: 0.25,
        layer=linear,
        shape=(8, 8),
        parts=parts or Parts(np.array([0, 1]), np.array([0, 1])),
        routines={k: lambda params, look, k=k: loss(params, look, k) for k in (0, 1)},
    )
    return pair, [{"w": np.asarray(w, np.float32)}]


class Config:
    class eval:
        iterations = 20

    class masks:
        keep = 0.5


def values(name, pair, starts):
    return float(theories.THEORIES[name](pair, starts, Config)[0])


def test_numbers_of_a_linear_network():
    eye, mixed = known(np.eye(2)), known([[0.4, 0.6], [0.6, 0.4]])
    assert values("support", *eye) == 0.25
    # Both are right where the inputs are equal, so nothing is learned. On (t, -t) the second one
    # says (-0.2 t, 0.2 t).
    assert values("tangent", *eye) == pytest.approx(0, abs=1e-6)
    assert values("tangent", *mixed) == pytest.approx(1.2**2, rel=1e-4)
    assert values("factorization", *eye) == pytest.approx(0)
    assert values("factorization", *mixed) == pytest.approx(0.48 / (2 * 0.52))
    # With equal inputs, every update changes both inputs' weights by the same amount.
    wrong = known(0.1 * np.eye(2))
    assert values("dependence", *wrong) == pytest.approx(0.5)
    # Output k is changed by column k alone.
    assert values("masks", *wrong) == 0


def test_reasons_pass_through():
    pair, starts = known(np.eye(2))
    silent = pair._replace(support="a", layer="b", parts="c", routines="d")
    found = {name: theory(silent, starts, Config) for name, theory in theories.THEORIES.items()}
    assert [found[n] for n in ("support", "factorization", "dependence", "masks")] == [*"abcd"]
    assert run.line_of(found | {"error": [0.5]}).startswith("support n/a, tangent ")


# --- answers --------------------------------------------------------------------------------------


def made_up(**columns):
    """Six pairs of two families with these means; None where a theory does not apply."""
    names = [f"{family}_{i}" for family in ("a", "b") for i in range(3)]
    parts = {name: {"pair": {"row": f"{name[0]}:row"}} for name in names}
    metrics = {
        f"{name}: {column}": summary([value], [0], None)
        for column, found in columns.items()
        for name, value in zip(names, found)
        if value is not None
    }
    return parts, metrics


def test_ranks_are_compared_within_families():
    error = [0.1, 0.2, 0.3, 10, 20, 30]
    parts, metrics = made_up(
        error=error,
        support=[5, 6, 7, 1, 2, 3],
        tangent=[3, 2, 1, None, None, None],
        masks=[1, 1, 1, 1, 1, 1],
    )
    table = answers.Table.of(parts, metrics)
    assert list(table.families) == ["a"] * 3 + ["b"] * 3
    correlations = answers.over_pairs(table)
    assert correlations["support: tau"] == 1 and correlations["support: tau, pooled"] < 0
    assert correlations["support: tau, low"] == correlations["support: tau, high"] == 1
    assert (
        correlations["tangent: tau"] == correlations["tangent: tau, a"] == -1
        and correlations["tangent: pairs"] == 3
    )
    assert "tangent: tau, b" not in correlations and correlations["dependence: pairs"] == 0
    assert np.isnan(correlations["masks: tau"])
    assert (
        correlations["support and tangent: tau"] == -1
        and correlations["support less tangent: tau"] == 2
    )
    entry = {
        "metrics": metrics
        | {name: summary([value], [0], None) for name, value in correlations.items()},
        "config": {"parts": parts},
        "reasons": {"b_0": {"tangent": "too far"}},
    }
    shown = dict(tables.of(entry))
    assert "| a_0 | 5 | 3 | - | - | 1 | 0.1 | - |" in shown["across papers: pairs"]
    assert "| b_0 | 1 | n/a (1) |" in shown["across papers: pairs"]
    assert shown["across papers: pairs"].endswith("(1) too far")
    assert "| support | 6 | +1.00 | +1.00 to +1.00 |" in shown["across papers: theories"]
    assert "| masks | 6 | - | - to - |" in shown["across papers: theories"]
    both = shown["across papers: theories beside each other"]
    assert "| support, tangent | 3 | -1.00 | +2.00 | +2.00 to +2.00 |" in both


def test_what_the_readme_says_of_differences_and_of_the_late_rules():
    """Which differences of two theories hold, and what the late rules of support have changed."""
    (entry,) = report.entries("across")
    metrics, text = entry["metrics"], " ".join(README.read_text().split())
    ends = {
        name: [metrics[f"{name}, {end}"]["ours"] for end in ("low", "high")]
        for name in metrics
        if " less " in name and name.endswith(": tau")
    }
    beyond_zero = [name for name, (low, high) in ends.items() if low > 0 or high < 0]
    assert len(ends) == 10 and beyond_zero == ["support less factorization: tau"]
    table = answers.Table.of(entry["config"]["parts"], metrics)
    assert f"{len(table.names)} pairs, three seeds each" in text
    before = {
        "vectors_mlp_random": 1,
        "plane_plain_control": 1,
        "plane_heads_control": 1,
        "bumps_product_stripes": 0,
    }
    for name, value in before.items():
        (row,) = np.flatnonzero(table.names == name)
        assert table.columns["support"][row] == 1 - value
        table.columns["support"][row] = value
    families, x, y = table.where("support", "error")
    tau = stats.kendall_tau_b(x, y, families)
    assert f"without it tau would be {tau:+.2f}" in text
