"""The rules of the benchmark: fixed before the pairs are run, complete, and the recorded ones."""

import numpy as np

from cgjax import report
from cgjax.analysis.predictors import View
from cgjax.experiments.predict import rules
from cgjax.experiments.predict.rules import Pair, held_out

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
