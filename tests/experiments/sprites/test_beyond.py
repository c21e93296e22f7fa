"""Rows beyond the paper: error by region and gap, more slots, curves, and the runs as a whole."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cgjax
from cgjax import config as configs
from cgjax.config import ownership
from cgjax.core import rng, tree
from cgjax.experiments.sprites import audits, beyond, models, options, scenes, sets
from cgjax.experiments.sprites import run as sprites

# --- regions --------------------------------------------------------------------------------------


def test_regions_of_a_scene_by_hand():
    """A front square and a back one that overlap in 2 x 2 pixels, both cut by the frame."""
    front, back = np.full((8, 2), (1, 0)), np.full((8, 2), (1, 0))
    front[:4], back[2:7] = (0, 3), (2, 7)
    found = beyond.regions(jnp.array([[front, back]], jnp.uint8))[:, 0]
    letters = np.array(list("xoib"))[np.argmax(found, axis=0)]
    assert ["".join(row) for row in letters] == [
        "iiioobbb",
        "iiiooooo",
        "iixxoooo",
        "ooxxoiii",
        "ooooiiii",
        "booiiiii",
        "booooooo",
        "bboooooo",
    ]


@pytest.fixture(scope="module")
def three():
    """Thirty scenes of three sprites."""
    latents = np.random.default_rng(0).uniform(size=(30, 15)).astype(np.float32)
    return scenes.describe(latents, 64)


def test_every_pixel_is_in_one_region(three):
    regions = np.asarray(jax.jit(beyond.regions)(three["spans"]))
    assert np.all(regions.sum(0) == 1) and np.all(regions.sum((1, 2, 3)) > 100)
    first, last = np.moveaxis(np.asarray(three["spans"]), -1, 0)[..., None]
    covered = ((first <= np.arange(64)) & (np.arange(64) <= last)).sum(1)
    assert np.array_equal(regions[0], covered > 1)
    assert np.all(covered[regions[2]] == 1) and np.all(covered[regions[3]] == 0)


def test_parts_add_up_to_the_whole(three):
    noise = np.random.default_rng(1)
    target, noisy = noise.normal(size=(2, 30, 64, 64, 3)).astype(np.float32)
    rows = {"spans": three["spans"], "in_gap": np.arange(30) < 12}
    sums = jax.jit(beyond.sums, static_argnames="by_region")
    halves = [slice(0, 15), slice(15, 30)]
    parts = [sums(target[h], noisy[h], tree.take(rows, h), by_region=True) for h in halves]
    scores = beyond.scores(jax.tree.map(lambda *leaves: np.stack(leaves), *parts))
    assert sum(scores[f"share_{name}"] for name in beyond.REGIONS) == pytest.approx(1, abs=1e-5)
    pixels = np.asarray(jax.jit(beyond.regions)(three["spans"])).mean((1, 2, 3))
    whole = np.mean((noisy - target) ** 2)
    by_region = [scores[f"mse_{name}"] for name in beyond.REGIONS]
    assert np.dot(pixels, by_region) == pytest.approx(whole, rel=1e-4)
    assert scores["mse_gap"] == pytest.approx(np.mean((noisy - target)[:12] ** 2), rel=1e-4)
    assert 0.4 * scores["mse_gap"] + 0.6 * scores["mse_outside"] == pytest.approx(whole, rel=1e-4)
    assert (
        beyond.scores(beyond.sums(target[:2], noisy[:2], tree.take(three, slice(2)), False)) == {}
    )


# --- supports -------------------------------------------------------------------------------------


def data(row):
    return configs.load(f"configs/sprites.py:{row},smoke").data


def test_two_slots_have_the_published_planes():
    assert options.orthogonal_planes(2) == sets.SUPPORTS["orthogonal"]["planes"]


@pytest.mark.slow
def test_planes_for_three_slots_are_sufficient():
    settings, key = data("slots_3"), jax.random.key(0)
    assert sets.sample(settings, key, 50).shape == (50, 15) and len(settings.planes) == 5

    def share(component):
        own, sizes = component < 2, {"n_values": 4, "n_partners": 1}
        return audits.audit(settings, "occlude_step", component, key, own, **sizes)[0].share

    assert [share(component) for component in (0, 1, 2)] == [1.0, 1.0, 1.0]
    settings.planes = settings.planes[:-1]  # the front sprites in one place only
    assert share(2) == 0.0


def test_scenes_inside_a_gap():
    settings = data("gap_0.2")
    assert settings.gaps == ((0, 0.05, 0.25),)
    raw = np.full((3, 10), 0.5)
    raw[:, 0] = (0.04, 0.06, 0.26)
    assert list(sets.in_gap(settings, raw)) == [False, True, False]
    assert not sets.has_gaps(data("diagonal"))


# --- rows -----------------------------------------------------------------------------------------


def test_rows_are_short_and_have_one_seed():
    rows = configs.load_file("configs/sprites.py").BEYOND
    assert len(rows) == 43
    for row in rows:
        config = configs.load(f"configs/sprites.py:{row},fast")
        assert (config.train.steps, config.optim.lr_every) == (50 * 196, 196)
        assert config.train.seeds == (0,) and config.eval.n == 10_000 and config.eval.regions
        assert config.eval.every == (196 if config.eval.curve else 392)


@pytest.mark.parametrize("n", [1_000, 1_000_000])
def test_narrow_rows_differ_in_scenes_only(n):
    flag = "configs/sprites.py:{},fast".format
    config, like = configs.load(flag(f"narrow_{n}")), configs.load(flag("narrow_100000"))
    assert config.data.n_train == n and config.train.steps == 9800
    assert len(configs.differences(config, like)) == 2  # the row's name and the scenes


def test_published_rows_report_what_they_did():
    config = configs.load("configs/sprites.py:orthogonal_gap,paper")
    assert not (config.eval.regions or config.eval.recovery or config.eval.curve)
    assert (config.model.decoder, config.model.component.hidden) == ("upsample", 256)


# --- whole runs -----------------------------------------------------------------------------------


# Rows to run, and what is changed in them: a decoder that compiles quickly, two rows in one.
RUNS = {
    "slots_3": {"model.decoder": "broadcast", "model.composition": "learned_mlp"},
    "annealed": {"model.decoder": "broadcast"},
    "gap_shift": {"model.form": "reordered"},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """`finished(row)`: results and workdir of a tiny run; figures for slots_3 only."""
    folder, done = tmp_path_factory.mktemp("runs"), {}

    def run(row):
        if row not in done:
            changes = {"train.steps": "6", "eval.n": "10", **RUNS[row]}
            if changes.get("model.decoder") == "broadcast":
                # Few leaves: drawing initial parameters is what takes longest to compile.
                changes["model.broadcast.n_layers"] = "2"
            config = configs.load(f"configs/sprites.py:{row},smoke", changes)
            workdir = folder / row
            workdir.mkdir()
            ownership.take_ownership(workdir, config)
            done[row] = sprites.run(config, workdir, figures=row == "slots_3"), workdir
        return done[row]

    with pytest.MonkeyPatch.context() as patch:
        # Programs for eight devices take a minute each to compile.
        patch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
        yield run


def numbers(results):
    return {name: entry["ours"] for name, entry in results[0].items()}


@pytest.mark.slow  # half a minute of compiling; the row is traced in test_unread_keys
def test_learned_composition_trains(finished):
    results, workdir = finished("slots_3")
    by_metric = numbers(results)
    assert set(by_metric) >= {
        f"{score}_{part}" for score in ("mse", "share") for part in beyond.REGIONS
    }
    assert 0 <= by_metric["recovery_front"] <= 1 and 0 <= by_metric["recovery_back"] <= 1
    trained = cgjax.load(workdir).params["composition"]["dense_0"]["kernel"]
    key = jax.random.fold_in(rng.stream(jax.random.key(0), "init"), 3)
    first = models.composition_named("learned_mlp").init(key, 3)["dense_0"]["kernel"]
    assert trained.shape == (1, 9, 32)
    assert 1e-4 < float(jnp.max(jnp.abs(trained[0] - first))) < 1e-2


@pytest.mark.slow  # 8 s of CPU: a whole run; other rows' runs are tested
def test_annealed_sharpness_ends_sharp_and_is_loaded(finished):
    results, workdir = finished("annealed")
    assert numbers(results)["sharpness"] == pytest.approx(10)
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines].count("eval") == 1
    run = cgjax.load(workdir)
    assert float(run.params["composition"]["log_sharpness"][0]) == pytest.approx(np.log(10))
    params = jax.tree.map(lambda leaf: leaf[0], run.params)
    assert run.predict(params, np.full((2, 10), 0.5, np.float32)).shape == (2, 64, 64, 3)


@pytest.mark.slow  # 9 s of CPU: a whole run; other rows' runs are tested
def test_gap_is_scored_apart(finished):
    results, _ = finished("gap_shift")
    found = numbers(results)
    assert min(found["mse_gap"], found["mse_outside"]) < found["mse_all"]
    assert found["mse_all"] < max(found["mse_gap"], found["mse_outside"])


@pytest.mark.slow
def test_three_slots_with_figures(finished):
    results, workdir = finished("slots_3")
    metrics, arrays, _ = results
    assert "recovery_slot_1" in metrics
    names = {path.stem for path in (workdir / "figures").glob("*.png")}
    assert names >= {"supports", "heatmap", "pairs_compositional", "latents", "learning_curves"}
    assert "traversals_compositional" in names and "motivation_compositional" not in names
    assert arrays["reconstruction/random/compositional/slots"].shape[0] == 3
    assert arrays["grid/latents"].shape[1] == 15


# --- curves ---------------------------------------------------------------------------------------


def test_curves_of_runs_beside_this_one(tmp_path):
    config = configs.load("configs/sprites.py:along_training,smoke")
    history = {"eval": {"step": np.arange(4), "mse_id": np.geomspace(1e-1, 1e-3, 4)[:, None]}}
    history["eval"]["mse_all"] = 3 * history["eval"]["mse_id"]
    for row, size in (("width_64", "smoke"), ("width_128", "fast")):
        other = configs.load(f"configs/sprites.py:{row},{size}")
        (tmp_path / row).mkdir()
        ownership.take_ownership(tmp_path / row, other)
        arrays = beyond.curve_arrays(other, history, tmp_path / row)
        np.savez(tmp_path / row / "arrays.npz", **arrays)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "arrays.npz").write_text("no archive")
    shutil.copy(tmp_path / "width_64" / "config.json", tmp_path / "broken")
    (tmp_path / "mine").mkdir()
    curves = beyond.curve_arrays(config, history, tmp_path / "mine")
    # A run of another size is not a similar run.
    assert {key.split("/")[1] for key in curves} == {"along_training", "width_64"}
    (path,) = beyond.draw_curves(curves, tmp_path)
    assert path.name == "curves.png" and path.stat().st_size > 10_000
    assert beyond.draw_curves({"history/a/mse_all": np.ones((2, 1))}, tmp_path) == []


# --- the front network's background ---------------------------------------------------------------


def test_the_background_level_is_read_outside_the_sprite():
    raw = jax.random.uniform(jax.random.key(0), (3, 10))
    rows = scenes.describe(raw, 64)
    sprite = scenes.render(rows["latents"][:, :5])

    def drawn(level):
        """Colour 1 / 3 per channel inside the front sprite, `level` / 3 outside."""
        front = np.where(np.sum(sprite, -1, keepdims=True) > 0, 1.0, level) / 3
        return np.broadcast_to(front, sprite.shape)

    found = beyond.front_levels([drawn(-5.0), drawn(-0.5)], rows)
    np.testing.assert_allclose(found["front_background"], [-5.0, -0.5], rtol=1e-6)
    assert "front_ghost" not in found  # no sprite stood still


def test_a_ghost_is_read_where_the_sprite_behind_stood_still():
    raw = jax.random.uniform(jax.random.key(0), (20, 10))
    rows, planes = scenes.describe(raw, 64), ((0, scenes.PLANES["A"]), (1, scenes.PLANES["O"]))
    behind = scenes.describe(jnp.array([scenes.PLANES["A"]]), 64)
    painted = jnp.sum(scenes.render(behind["latents"]), -1, keepdims=True) > 0
    is_front = jnp.sum(scenes.render(rows["latents"][:, :5]), -1, keepdims=True) > 0
    assert 20 < painted.sum() < 300 and jnp.any(is_front & painted)

    def drawn(level):
        """Sum 1 inside the front sprite, -5 beside it, `level` where A's sprite stands."""
        front = np.where(is_front, 1.0, np.where(painted, level, -5.0)) / 3
        return np.broadcast_to(front, (*front.shape[:-1], 3))

    found = beyond.front_levels([drawn(-5.0), drawn(1.5)], rows, planes)
    np.testing.assert_allclose(found["front_ghost"], [-5.0, 1.5], rtol=1e-6)
    np.testing.assert_allclose(found["front_background"], -5, rtol=1e-6)
