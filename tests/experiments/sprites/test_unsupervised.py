"""Autoencoders with slots: losses, sets of images, refused configs, a whole run."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cgjax
from cgjax import config as configs
from cgjax.core.errors import BadInput
from cgjax.experiments.sprites import scenes, unsupervised
from cgjax.main import main


@pytest.fixture(scope="module")
def config():
    return configs.load("sprites:unsupervised_conv,smoke")


def test_consistency_in_chunks_has_the_same_gradient(config):
    model = unsupervised.build(config, "slots")
    params = jax.jit(model.init)(jax.random.key(0))
    codes = jax.random.normal(jax.random.key(1), (8, 2, config.model.slot_size))

    def value_and_grad(chunk):
        return jax.jit(
            jax.value_and_grad(lambda p: unsupervised.inconsistency(model, p, codes, chunk))
        )(params)

    (whole, grad), (chunked, chunked_grad) = value_and_grad(0), value_and_grad(2)
    assert whole == pytest.approx(float(chunked), rel=1e-5) and whole > 0
    for a, b in zip(jax.tree.leaves(grad), jax.tree.leaves(chunked_grad)):
        np.testing.assert_allclose(a, b, atol=1e-5 * (1 + np.abs(a).max()))
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(grad)) > 0


def test_recombination_keeps_every_slot_in_its_place():
    codes = jnp.arange(12.0).reshape(6, 2, 1)
    mixed = np.asarray(unsupervised.recombined(jax.random.key(3), codes))
    assert [sorted(mixed[:, k, 0]) for k in (0, 1)] == [sorted(codes[:, k, 0]) for k in (0, 1)]
    assert np.any(mixed[:, 1, 0] != mixed[:, 0, 0] + 1)


def test_images_are_those_of_the_latents(config):
    data = unsupervised.make(config)
    assert data["train"]["images"].shape == (2, 40, 16, 16, 3)
    assert data["id"]["latents"].shape == (2, 40, 2, 4) and data["all"]["images"].ndim == 4
    x, hue = data["all"]["latents"][..., 0], data["all"]["latents"][..., 3]
    lit = data["all"]["images"].sum(-1) > 0
    centre = (lit * np.arange(16)).sum((1, 2)) / lit.sum((1, 2))
    assert np.corrcoef(centre, x.mean(1))[0, 1] > 0.8
    colours = np.asarray(scenes.colours(hue[0, 0]))  # the front sprite hides nothing of itself
    assert (data["all"]["images"][0] == colours).all(-1).any()


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"optim.chunk": 3}, "optim.chunk=3 must divide data.batch=8"),
        ({"model.window": 17}, "model.window=17 must be at most"),
        ({"model.shared": True}, "model.composition=alpha_sigmoid"),
        ({"eval.batch": 7}, "eval.batch=7 must divide eval.n=40"),
    ],
)
def test_contradictions_are_refused(changes, words):
    config = configs.load("sprites:unsupervised_conv,smoke")
    config.update_from_flattened_dict(changes)
    with pytest.raises(BadInput, match=words):
        unsupervised.check(config)


@pytest.mark.parametrize("row", ("unsupervised_attention", "unsupervised_shared"))
def test_other_rows_can_be_built(row):
    config = configs.load(f"sprites:{row},fast")
    unsupervised.check(config)
    assert set(unsupervised.plan(config)) == set(config.model.kinds)


def test_results_and_figures_of_known_scores(config, tmp_path):
    """Supports in the order of `unknown`; consistency closes half of the gap."""
    config = configs.load("sprites:unsupervised_conv,fast")
    opened, by_support = np.linspace(0.1, 0.8, 8), np.linspace(0.8, 0.1, 8)
    outside = np.tile(by_support, (5, 1))
    scores = {
        arm: {"slots_id": outside + 0.2, "slots_all": outside}
        for arm in (*unsupervised.ARMS, "monolithic", "shuffled")
    }
    scores["consistency"] = {"slots_id": outside + 0.2, "slots_all": outside + 0.1}
    scores["untrained"] = {"slots_id": 2 * outside, "slots_all": 2 * outside}
    metrics, sentences = unsupervised.results(config, scores, opened)
    assert metrics["tau-b(unknown, slots_all), reconstruction"]["values"] == [1.0] * 5
    name = "tau-b(unknown, slots_all beyond untrained), reconstruction"
    assert metrics[name]["values"] == [-1.0] * 5
    share = metrics["share of the gap that consistency closes"]["values"]
    np.testing.assert_allclose(share, 0.5)
    assert "share +0.50" in sentences[-1]
    rows = unsupervised.score_table(metrics)
    assert [row[0] for row in rows[1:]] == [f"`{name}`" for name in config.data.supports]
    assert rows[1][1:4] == ("0.100", "1.00 ± 0.00", "0.80 ± 0.00") and rows[1][-1] == "-"
    arrays = {"supports": np.array(config.data.supports), "unknown": opened}
    arrays |= {f"{arm}/{name}": x for arm, each in scores.items() for name, x in each.items()}
    arrays["examples/random"] = np.zeros((4, 2, 16, 16, 3))
    drawn = unsupervised.draw(arrays, tmp_path)
    assert [path.name for path in drawn] == ["slots.png", "slot_examples.png"]
    assert all(path.stat().st_size > 1000 for path in drawn)


@pytest.mark.slow
def test_a_whole_run(tmp_path):
    workdir = tmp_path / "run"
    assert main(["--config=sprites:unsupervised_conv,smoke", f"--workdir={workdir}"]) == 0
    metrics = json.loads((workdir / "results.json").read_text())["metrics"]
    assert metrics["orthogonal: unknown"]["ours"] > 0
    for arm in (*unsupervised.ARMS, *unsupervised.CONTROLS):
        assert metrics[f"random: slots_all, {arm}"]["ours"] <= 1
    assert {path.name for path in (workdir / "figures").iterdir()} == {
        "slots.png",
        "slot_examples.png",
    }
    run = cgjax.load(workdir, "slots")
    params = jax.tree.map(lambda leaf: leaf[0], run.params)
    assert run.predict(params, jnp.zeros((1, 16, 16, 3))).shape == (1, 16, 16, 3)
