"""The benchmark: a small run from its config to its tables, and the standing on made-up pairs."""

import json

import jax
import numpy as np
import pytest

import cgjax
from cgjax import report
from cgjax.analysis.predictors import View
from cgjax.core.errors import BadInput
from cgjax.experiments.predict import adapters, rules, run, standing, tables
from cgjax.experiments.predict.model import Data, Model, Parts, Subject, r2
from cgjax.experiments.predict.rules import Pair, held_out
from cgjax.main import main

# A predictor of a user's own, in a module outside the package.
MINE = '''
import jax
import jax.numpy as jnp

def smallness(model, data):
    """Networks with smaller weights compose."""
    assert data.x_new is None and data.y_new is None
    outputs = model.f(model.params, data.inputs)
    assert outputs.shape == data.targets.shape and len(data.factors) == len(outputs)
    return -sum(float(jnp.sum(w**2)) for w in jax.tree.leaves(model.params))
'''


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    (folder / "mine.py").write_text(MINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        patch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
        flags = ["--config=predict:smoke", "--config.eval.own=mine:smallness"]
        assert main([*flags, f"--workdir={folder / 'run'}"]) == 0
    return folder / "run"


def test_smoke_ends_with_pairs_rules_and_figures(workdir):
    results = json.loads((workdir / "results.json").read_text())
    assert results["rules"] == rules.digest()
    assert results["figures"] == ["predictors.png", "standing.png"]
    pairs = results["pairs"]
    assert len(pairs) == 2 and all(pair["seeds"] == [0, 1] for pair in pairs.values())
    pair = pairs["kernels/cd_1/depth_1_scale_1"]
    assert list(pair["numbers"]) == [*rules.SIGNS, "smallness"]
    assert all(value < 0 for value in pair["numbers"]["smallness"])
    assert pair["cluster"] == "kernels cd_1" and pair["chance"] == 0
    (entry,) = [json.loads(report.add(workdir, record=workdir / "record").read_text())]
    assert entry["pairs"] == pairs and entry["rules"] == rules.digest()
    assert "kernels/cd_1/depth_1_scale_0.01" in dict(tables.of([entry]))["predict: pairs"]


def test_a_finished_program_is_read_and_its_networks_open(workdir, monkeypatch):
    """A run that was stopped between two programs does not train the finished ones again."""
    results = workdir / "results.json"
    before = json.loads(results.read_text())["pairs"]
    results.unlink()
    monkeypatch.syspath_prepend(str(workdir.parent))
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
    monkeypatch.setattr(adapters, "build", None)
    flags = ["--config=predict:smoke", "--config.eval.own=mine:smallness", "--no_figures"]
    assert main([*flags, f"--workdir={workdir}"]) == 0
    assert json.loads(results.read_text())["pairs"] == before
    monkeypatch.undo()
    opened = cgjax.load(workdir, "kernels_context")
    first = jax.tree.map(lambda leaf: leaf[0], opened.params)
    assert opened.predict(first, np.ones((5, 14), np.float32)).shape == (5, 1)


@pytest.mark.parametrize(
    "name, words",
    [
        ("mine", "module:function"),
        ("no_such_module:f", "cannot import no_such_module"),
        ("math:no_such_function", "no function"),
        ("json:loss", "no function"),
    ],
)
def test_predictors_that_cannot_be_used_are_refused(name, words):
    with pytest.raises(BadInput, match=words):
        run.own_predictors(name)
    with pytest.raises(BadInput, match="one number"):
        run.checked("mine", [1, 2])
    assert run.checked("mine", np.nan) == "mine gives nan"


# --- numbers of a network whose answer is known ---------------------------------------------------


def linear(params, x):
    return x @ params["w"]


def case(w, start):
    """Two outputs of two inputs by one matrix, trained where the inputs are equal."""
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    seen, new = np.stack([x, x], axis=1), np.stack([x, -x], axis=1)
    grid = np.indices((4, 4)).reshape(2, -1).T
    points = x[grid]
    data = Data(seen, seen, grid[:-3], points[:-3], points[:-3], grid[-3:], new, new)
    parts = Parts(np.array([0, 1]), np.array([0, 1]))
    subject = Subject("t", "m", (0,), linear, linear, (data,), r2, parts)
    weights = [{"w": np.asarray(matrix, np.float32)} for matrix in (start, w)]
    return subject, Model(linear, linear, *weights), data


class Config:
    class eval:
        iterations = 20


def test_numbers_of_a_linear_network():
    subject, model, data = case(np.eye(2), np.eye(2))
    pair = run.of_pair(subject, model, data, None, Config, "b", 3, {})
    assert pair.name == "b/t/m" and pair.seed == 3 and pair.counted
    assert pair.outcome == pytest.approx(1) and pair.predictors["loss"] == pytest.approx(0)
    assert pair.predictors["tangent"] == pytest.approx(1)  # already right: nothing is learned
    assert pair.predictors["dependence"] == 0 and pair.predictors["additivity"] == pytest.approx(1)
    # Both outputs of a mixed network are right where the inputs are equal. On (t, -t) it says
    # (-0.2 t, 0.2 t): its squared error is 1.2^2 of the variance.
    subject, model, data = case([[0.4, 0.6], [0.6, 0.4]], [[0.4, 0.6], [0.6, 0.4]])
    mixed = run.of_pair(subject, model, data, 0.25, Config, "b", 0, {})
    assert mixed.predictors["tangent"] == pytest.approx(1 - 1.2**2, rel=1e-3)
    assert mixed.outcome == pytest.approx(1 - 1.2**2, rel=1e-3)
    assert mixed.predictors["dependence"] == pytest.approx(0.6)
    assert mixed.predictors["support"] == 0.25
    silent = subject._replace(parts="no parts")
    assert run.depend(silent, model, data) == "no parts"


# --- the standing ---------------------------------------------------------------------------------


def made_up(n=24, seed=0):
    """Pairs of three blocks; support orders them all, masks the wrong way, loss at random."""
    rng, pairs = np.random.default_rng(seed), []
    for i in range(n):
        outcome = float(rng.uniform(-0.9, 0.9))
        predictors = dict.fromkeys(rules.SIGNS, "not here")
        predictors |= {"support": -outcome, "masks": outcome, "loss": float(rng.normal())}
        for s in (0, 1):
            block = "abc"[i % 3]
            pairs.append(
                Pair(block, f"t{i // 2}", f"m{i}", f"t{i // 2}", s, 1.0, outcome, 0.0, predictors)
            )
    return pairs


def test_the_standing_finds_the_order_that_was_made():
    table = standing.Table.of(standing.collect(made_up()))
    assert table.counted.all() and len(table.names) == 24 and len(set(table.clusters)) == 24
    stand = standing.of(table)
    assert stand["support: tau"] == 1 and stand["masks: tau"] == -1  # signs of the rules
    assert stand["support: tau, low"] == stand["support: tau, high"] == 1
    assert abs(stand["loss: tau"]) < 0.5 and stand["loss: tau, high"] - stand["loss: tau"] > 0.1
    assert stand["support less masks: tau"] == 2 and stand["combined: tau"] > 0.9
    assert stand["tangent: pairs"] == 0 and "tangent: tau" not in stand
    assert stand["support: r2"] == pytest.approx(1)
    assert stand["loss: pairs needed"] > 24


@pytest.mark.parametrize("unit", [1e300, 1e-300])
def test_the_correlation_with_the_outcome_has_no_unit(unit):
    table = standing.Table.of(standing.collect(made_up()))
    numbers = table.numbers | {"loss": unit * table.numbers["loss"]}
    scaled = standing.against_outcome(table._replace(numbers=numbers))
    expected = standing.against_outcome(table)["loss: r2"]
    assert expected > 0 and scaled["loss: r2"] == pytest.approx(expected, rel=1e-6)


def test_pairs_that_do_not_fit_are_recorded_and_not_counted():
    pairs = made_up()
    unfit = [p if p.model != "m3" else Pair(**{**vars(p), "known": 0.5}) for p in pairs]
    half = [p if p.model != "m4" or p.seed else Pair(**{**vars(p), "known": 0.5}) for p in unfit]
    table = standing.Table.of(standing.collect(half))
    assert len(table.names) == 24 and table.counted.sum() == 22
    assert standing.of(table)["support: pairs"] == 22
    shown = tables.of_pairs(table, standing.collect(half))
    assert shown.count("not counted") == 2


def test_held_out_pairs_have_a_table_of_their_own():
    pairs = [
        Pair(**{**vars(p), "held_out": p.model in {f"m{i}" for i in range(6)}}) for p in made_up()
    ]
    wrong = [  # held-out pairs contradict the others
        Pair(**{**vars(p), "predictors": p.predictors | {"support": p.unseen}}) if p.held_out else p
        for p in pairs
    ]
    stand = standing.of(standing.Table.of(standing.collect(wrong)))
    assert stand["support: tau"] == 1 and stand["held out, support: tau"] == -1
    assert stand["support: pairs"] == 18 and stand["held out, support: pairs"] == 6
    entry = {"row": "demo", "pairs": standing.collect(wrong)}
    shown = dict(tables.of([entry]))
    assert "| support | 6 | -1.00 |" in shown["predict: held-out pairs"]
    assert "| support | data | 18 | +1.00 | +1.00 to +1.00 | enough |" in shown["predict: standing"]


@pytest.mark.parametrize(
    "change",
    [
        {"known": [1.0]},
        {"unseen": None},
        {"numbers": {"support": [0.1, "x"]}},
        {"chance": "low"},
        {"held_out": 1},
        {"seeds": 3},
    ],
)
def test_a_record_with_a_broken_pair_is_refused(change):
    pairs = standing.collect(made_up())
    assert len(tables.merged([{"row": "demo", "pairs": pairs}])) == 24
    pairs["a/t0/m0"] |= change
    with pytest.raises(BadInput, match="broken pair"):
        tables.of([{"row": "demo", "pairs": pairs}])


def test_a_combined_predictor_of_one_block_is_undefined():
    pairs = [p for p in made_up() if p.block == "a"]
    assert standing.of(standing.Table.of(standing.collect(pairs)))["combined: pairs"] == 0


def test_only_listed_pairs_are_held_out():
    names = run.NAMES.read_text().split()
    blocks = {name.partition("/")[0] for name in names}
    later = {"digits", "images", "language", "scan"}
    assert blocks == set(adapters.ADAPTERS) | later and len(set(names)) == len(names) >= 96
    pairs = [Pair(*name.split("/"), "c", 0, 1.0, 1.0, 0.0) for name in (*names, "sprites/x/mine")]
    marked = run.marked(pairs)
    for block in blocks:
        of_block = [pair.held_out for pair in marked if pair.block == block]
        assert sum(of_block) == -(-sum(n.startswith(f"{block}/") for n in names) // 6)
    assert not marked[-1].held_out


# --- rules ----------------------------------------------------------------------------------------
# The rules of the benchmark: fixed before the pairs are run, complete, and the recorded ones.


FIXED = "33ac984136a269fa7bd87df2c73e19f3e3ade2850f66a2bcb505831e55b535ad"


def test_the_rules_are_those_that_were_fixed_and_those_of_every_recorded_run():
    """A changed rule makes recorded pairs invalid: run them again before changing FIXED."""
    assert rules.digest() == FIXED
    for entry in report.entries("predict"):
        assert entry["rules"] == FIXED


def test_every_predictor_has_a_sign_a_source_and_a_number():
    assert set(rules.SIGNS.values()) == {-1, 1}
    for rule in rules.RULES["predictors"].values():
        assert rule["from"] in ("data", "start", "known") and rule["rule"] and rule["source"]
    grid = np.indices((5, 5)).reshape(2, -1).T
    known, asked = grid[:-4], grid[-4:]
    sums = np.random.default_rng(0).normal(size=(2, 5, 6))
    features = sums[0, known[:, 0]] + sums[1, known[:, 1]]
    view = View(known, asked, features, features, features)
    numbers = rules.numbers(view, loss=0.1, tangent=0.5, dependence="no derivative")
    assert list(numbers) == list(rules.SIGNS)
    assert numbers["support"] < 1e-9 and numbers["additivity"] > 1 - 1e-9
    assert numbers["dependence"] == "no derivative" and numbers["loss"] == 0.1
    blank = rules.numbers(
        view._replace(features=0 * features), loss=0.1, tangent=np.nan, dependence=0.2, unknown=0.7
    )
    assert blank["support"] == 0.7 and blank["tangent"] == rules.UNDEFINED == blank["masks"]


def test_outcome_is_above_chance_relative_to_what_is_known():
    pair = Pair("b", "t", "m", "c", 0, known=1.0, unseen=0.75, chance=0.5)
    assert pair.counted and pair.outcome == 0.5 and pair.name == "b/t/m"
    assert Pair("b", "t", "m", "c", 0, 0.99, -40.0, 0.0).outcome == -1  # clipped
    unfit = Pair("b", "t", "m", "c", 0, 0.94, 0.9, 0.5)
    assert not unfit.counted and np.isnan(unfit.outcome)
    assert Pair("b", "t", "m", "c", 0, 0.94, 0.9, 0.5, attainable=0.95).counted


def test_one_in_six_is_held_out_whatever_the_order_of_names():
    names = [f"block/task/{i}" for i in range(20)]
    chosen = held_out(names)
    assert len(chosen) == 4 and chosen == held_out(names[::-1]) and chosen < set(names)
    assert len(held_out(names[:6])) == 1 and len(held_out(names[:7])) == 2
