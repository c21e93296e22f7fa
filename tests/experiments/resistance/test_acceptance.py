"""What the paper's experiments must show, by runs of the rows themselves: minutes each."""

import os

import numpy as np
import pytest

from cgjax import config as configs
from cgjax.experiments.resistance import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_device")]
needs_data = pytest.mark.skipif(
    not os.environ.get("CGJAX_RAW_DIR"), reason="CGJAX_RAW_DIR is not set: no real data here"
)


def outcome(row, workdir, **changes):
    """Means {metric: number} and verdicts {claim: word} of a row at default size with changes."""
    config = configs.load(
        f"resistance:{row}", {k.replace("__", "."): v for k, v in changes.items()}
    )
    results, _, extra = run.run(config, workdir, figures=False)
    means = {name: entry["ours"] for name, entry in results.items()}
    print(
        "\n",
        {
            name: round(float(x), 4)
            for name, x in means.items()
            if "accuracy" in name or name.endswith(("gap", "S_2"))
        },
    )
    return means, {entry["claim"]: entry["verdict"] for entry in extra["claims"]}


def test_the_plane(tmp_path):
    """20 seeds of 1,024 passes, as many with a free X_2."""
    means, verdicts = outcome("plane", tmp_path)
    assert min(means["A: train accuracy"], means["control: train accuracy"]) >= 0.98
    assert 0.75 <= means["A: test accuracy"] <= 0.97 <= means["control: test accuracy"]
    assert verdicts["A fails more on the test"] == "match"


@needs_data
def test_pairs_of_digits(tmp_path):
    """Figure 3a: five seeds of 200 steps in A and in B; accuracies as in other code."""
    means, verdicts = outcome(
        "mnist",
        tmp_path,
        train__steps="200",
        eval__every="40",
        eval__n_samples="600",
        eval__n_information="0",
    )
    assert means["A: gap"] - means["B: gap"] > 0.15
    for claim in ("A trains faster", "A has the larger gap", "B has hardly a gap (0.05)"):
        assert verdicts[claim] == "match"
    assert 0.95 <= means["A: train accuracy"] <= 0.99
    assert 0.66 <= means["A: test accuracy"] <= 0.82
    in_b = np.array([means["B: train accuracy"], means["B: test accuracy"]])
    assert np.all((in_b >= 0.9) & (in_b <= 0.97)) and np.ptp(in_b) <= 0.02
    assert means["A: S_2"] - means["B: S_2"] >= 0.1


def test_scan_s_jump(tmp_path):
    """Figure 3b: one seed of 2,000 steps in A and in B, every slot drawn anew."""
    means, _ = outcome("scan", tmp_path)
    whole = "test accuracy, 1,500 lines"
    assert means[f"A: {whole}"] < 0.1 and means[f"B: {whole}"] > 0.9
    assert means["A: train accuracy"] > 0.9
