"""The vector simulation from config to figures: outputs, loading, seeds, bad input, rows."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vector_settings import FILE, settings

import cgjax
from cgjax import config as configs
from cgjax.core.errors import BadInput
from cgjax.experiments.vectors import parts, run
from cgjax.main import main
from cgjax.published import PUBLISHED


@pytest.fixture(scope="module")
def finished(one_device, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("vectors") / "demo"
    assert main([f"--config={FILE}:smoke", f"--workdir={workdir}"]) == 0
    return workdir


def test_outputs(finished):
    metrics = json.loads((finished / "results.json").read_text())["metrics"]
    assert set(metrics) == {
        f"{kind}/{support}/{name}"
        for kind in run.KINDS
        for support in parts.SUPPORTS
        for name in ("r2_all", "r2_id", "block_contrast")
    }
    entry = metrics["mlp/diagonal/r2_all"]
    assert entry["paper"] == 0.14 and "read off" in entry["where"] and entry["seeds"] == [0]
    assert metrics["compositional/random/block_contrast"]["ours"] == 0
    arrays = np.load(finished / "arrays.npz")
    assert arrays["final/mlp/diagonal/r2_all"].shape == (2, 1)  # sizes, seeds
    assert arrays["history/mlp/diagonal/r2_all"].shape == (3, 1) and len(arrays["step"]) == 3
    assert arrays["final/mlp/diagonal/r2_all"][-1] == entry["values"]
    for name in ("r2_against_n_train", "r2_against_step"):
        assert (finished / "figures" / f"{name}.png").stat().st_size > 10_000


def test_a_finished_run_opens(finished):
    opened = cgjax.load(finished, "compositional/orthogonal")
    test = parts.make(opened.config)["all"]
    params = jax.tree.map(lambda leaf: leaf[0], opened.params)
    predicted = opened.predict(params, test["x"][0])
    scores = 1 - jnp.sum((predicted - test["z"][0]) ** 2, 0) / (50 * jnp.var(test["z"][0], 0))
    metrics = json.loads((finished / "results.json").read_text())["metrics"]
    expected = metrics["compositional/orthogonal/r2_all"]["ours"]
    np.testing.assert_allclose(jnp.mean(scores), expected, rtol=1e-3)
    assert opened.step.tolist() == [24]
    with pytest.raises(BadInput, match="mlp/random, mlp/diagonal"):
        cgjax.load(finished)


@pytest.mark.slow  # 5 s: core/test_train asks the same of the loop
def test_seeds_can_be_added(one_device, tmp_path):
    flags = [f"--config={FILE}:mlp_diagonal,smoke", f"--workdir={tmp_path}", "--no_figures"]
    flags.append("--config.eval.measures=()")

    def values():
        return json.loads((tmp_path / "results.json").read_text())["metrics"]["r2_all"]["values"]

    assert main([*flags, "--config.train.seeds=1"]) == 0
    before = values()
    assert main([*flags, "--config.train.seeds=(0, 1)"]) == 0
    after = values()
    assert after[1:] == before and after[0] != after[1]


@pytest.mark.parametrize(
    "key, value, words",
    [
        ("data.sizes", (8, 4), "must rise"),
        ("data.sizes", (4, 64), "beyond data.n_train=16"),
        ("model.hidden", 18, "model.hidden=18"),
        ("train.seeds", (2**31,), "train.seeds go up to"),
    ],
)
def test_values_that_contradict_each_other_are_refused(key, value, words):
    with pytest.raises(BadInput, match=words):
        run.check(settings(**{key: value}))


def test_rows_and_published_numbers():
    rows = configs.load_file(FILE).ROWS
    assert set(PUBLISHED["vectors"]) < set(rows)
    for metrics in PUBLISHED["vectors"].values():
        assert set(metrics) == {"r2_all"} and "read off" in metrics["r2_all"]["where"]
    paper = settings("mlp_random,paper")
    assert paper.train.steps == 500 * 512 and paper.data.sizes == tuple(2**i for i in range(13))
    paper = settings("hessian_random,paper")
    assert paper.train.steps == 500 * 32 and paper.train.round == 32
    assert (paper.data.batch, paper.model.n_layers, paper.model.activation) == (64, 3, "tanh")
    assert settings("regularised_diagonal").optim.regulariser == "block_contrast"
    lines = list(configs.load_file(FILE).describe_rows())
    assert len(lines) == len(rows)
    assert "0.14" in {x["name"]: x["expect"] for x in lines}["mlp_diagonal"]
