"""One tiny run of each kind of study, from its config to claims and figures."""

import csv
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree

import cgjax
from cgjax import config as configs
from cgjax import plots, report
from cgjax.core.errors import BadInput
from cgjax.core.workdir import Access, opened
from cgjax.data import raw
from cgjax.experiments.resistance import control, figures, readme, run, scan, training
from cgjax.experiments.resistance import pairs as of_pairs
from cgjax.experiments.resistance import plane as of_plane
from cgjax.main import main
from cgjax.published.claims import BY_ROW
from cgjax.published.claims import CLAIMS as EVERY
from cgjax.published.results import print_table, summary
from cgjax.report import standing as standings

pytestmark = pytest.mark.usefixtures("one_device")
SHALLOW = {"model.n_hidden": "1"}  # compiles in half the time


def smoke(row, changes=None):
    return configs.load(f"resistance:{row},smoke", changes or {})


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    """The row `plane`, with its figures; drawn once."""
    config, workdir = smoke("plane", SHALLOW), tmp_path_factory.mktemp("plane")
    return config, workdir, run.run(config, workdir)


def test_pairs_of_runs_start_alike_and_part(plane):
    config, _, (metrics, arrays, extra) = plane
    test = arrays["scores/test accuracy"]  # [times, seeds, settings]
    assert test.shape == (4, 2, 2) and arrays["scores/step"].tolist() == [0, 1, 2, 4]
    np.testing.assert_array_equal(test[0, :, 0], test[0, :, 1])
    assert np.any(arrays["scores/S_2"][-1, :, 0] != arrays["scores/S_2"][-1, :, 1])
    assert np.any(arrays["scores/S_2"][:, 0] != arrays["scores/S_2"][:, 1])
    assert len(metrics["A: test accuracy"]["values"]) == 2 and extra["claims"] == []
    assert arrays["losses/accuracy"].shape == (4, 2, 2)  # of every pass
    assert arrays["panels"].shape == (4, 2, 2, 9, 9)
    x = arrays["points/x"]  # [seeds, settings, points, 2]: the control has its own X_2
    np.testing.assert_array_equal(x[:, 0, :, 0], x[:, 1, :, 0])
    assert np.any(x[:, 0, :, 1] != x[:, 1, :, 1])
    logits_at_start = arrays["panels"][0]
    np.testing.assert_array_equal(logits_at_start[:, 0], logits_at_start[:, 1])


@pytest.mark.parametrize("row", ["demo", "scan"])
def test_a_dry_run_makes_no_data(row, monkeypatch, capsys):
    """The plan of the largest size takes seconds, and needs no MNIST."""

    def refuse(*arguments, **options):
        pytest.fail("data are made")

    for module, makes in ((of_plane, "draw_sets"), (of_pairs, "load_digits"), (scan, "encode")):
        monkeypatch.setattr(module, makes, refuse)
    assert main([f"--config=resistance:{row},paper", "--dry_run"]) == 0
    said = capsys.readouterr().out
    for line in {
        "demo": (
            "digits: 1,145,930 parameters x 40 replicas, 200 steps, state 550.0 MB",
            "plane: 186 parameters x 40 replicas, 25,600 steps, state 0.0 MB",
        ),
        "scan": ("scan: 40,584 parameters x 15 replicas, 2,000 steps, state 7.3 MB",),
    }[row]:
        assert f"\n{line}\n" in said


def test_figures_are_drawn(plane):
    _, workdir, _ = plane
    drawn = {path.name for path in (workdir / "figures").iterdir()}
    assert drawn == {
        "points.png",
        "panels.png",
        "seeds.png",
        "boundary.gif",
        "accuracy.png",
        "dependence.png",
        "information.png",
    }


def test_curves_are_written_as_numbers(plane):
    _, workdir, (_, arrays, _) = plane
    with open(workdir / "curves.csv", newline="") as handle:
        rows = list(csv.DictReader(handle))
    scores = [name for name in arrays if name.startswith("scores/") and name != "scores/step"]
    assert len(rows) == 4 * 2 * len(scores)  # steps, settings
    (row,) = (r for r in rows if (r["setting"], r["score"], r["step"]) == ("control", "S_2", "4"))
    values = arrays["scores/S_2"][-1, :, 1]
    found = [float(row[name]) for name in ("mean", "sd", "variance", "seeds")]
    expected = [values.mean(), values.std(ddof=1), values.var(ddof=1), 2]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_command_that_reads_does_not_write_curves(plane, tmp_path):
    """Those of a subset of the seeds would replace those of all."""
    _, _, (_, arrays, _) = plane
    with opened(tmp_path, Access(reads_only=True)):
        run.write_curves(arrays, tmp_path / "curves.csv")
    assert not (tmp_path / "curves.csv").exists()


def test_claims_about_mnist_are_not_judged_on_synthetic_digits(tmp_path, monkeypatch, capsys):
    """The default needs no download; then its words, numbers and claims are not those of MNIST."""
    for name in ("CGJAX_RAW_DIR", "CGJAX_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    absent = configs.load("resistance:demo")
    assert absent.parts.digits.data.digits == "synthetic"
    assert configs.load("resistance:demo,paper").parts.digits.data.digits == "mnist"
    (tmp_path / "mnist").mkdir()
    for split in ("train", "test"):
        for file in raw.files("mnist", split):
            (tmp_path / "mnist" / file).touch()
    monkeypatch.setenv("CGJAX_RAW_DIR", str(tmp_path))
    present = configs.load("resistance:demo")
    assert present.parts.digits.data.digits == "mnist"
    scores = ("early train accuracy", "gap", "S_2", "test accuracy")
    metrics = {
        f"{part}/{setting}: {score}": ([0.1, 0.2, 0.3], (0, 1, 2))
        for part, settings in {"digits": "AB", "plane": ("A", "control")}.items()
        for setting in settings
        for score in scores
    }
    arrays = {"parts": np.array([])}
    monkeypatch.setattr(run, "study", lambda *_: (metrics, arrays))
    for config, judged, made_up in (
        (absent, {"plane"}, ["digits/"]),
        (present, {"plane", "digits"}, []),
    ):
        _, _, extra = run.run(config, tmp_path, figures=False)
        assert {claim["left"].partition("/")[0] for claim in extra["claims"]} == judged
        assert extra["made_up"] == made_up
        assert ("SYNTHETIC DIGITS" in capsys.readouterr().out) == bool(made_up)
    row = configs.load("resistance:mnist", {"data.digits": "synthetic"})
    of_row = {name.removeprefix("digits/"): values for name, values in metrics.items()}
    monkeypatch.setattr(run, "study", lambda *_: (of_row, arrays))
    results, _, extra = run.run(row, tmp_path, figures=False)
    assert extra["made_up"] == [""] and not extra["claims"]
    assert not any("recomputed" in metric for metric in results.values())
    entry = {"family": "resistance", "row": "mnist", "size": "default", "label": "", **extra}
    entry |= {"metrics": results, "config": json.loads(configs.to_json(row))}
    of_mnist = [claim for claim in EVERY.values() if claim.id.startswith("resistance.mnist.")]
    found = standings.standings(claims=of_mnist, runs=[entry])
    assert {standing.word for standing in found} == {"not run"}


def test_a_run_is_read_back(plane):
    config, workdir, (_, arrays, _) = plane
    (workdir / "config.json").write_text(configs.to_json(config))
    with pytest.MonkeyPatch.context() as patch:  # what was trained is read, and nothing is drawn
        patch.setattr(of_plane, "experiment", None)
        loaded = cgjax.load(workdir, "control")
    x = np.array([[0.5, 0.5], [-0.5, 0.2]], np.float32)
    params = jax.tree.map(lambda leaf: leaf[0], loaded.params)
    assert loaded.predict(params, x).shape == (2, 2) and loaded.step.tolist() == [12, 12]


@pytest.mark.slow  # 7 s: read off trained runs
def test_visits_lie_in_their_bands_and_leave_biases_fixed(tmp_path):
    part_config = dict(configs.parts(smoke("control")))["sgd_fixed_biases"]
    trained = of_plane.run(part_config, tmp_path)
    steps = trained.extra["step"]  # [seeds, settings, levels]
    assert steps.shape == (2, 2, 2)
    biases = [
        leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(trained.params)
        if path[-1].key == "bias"
    ]
    assert not np.any(np.concatenate([leaf.ravel() for leaf in biases]))
    points = jax.jit(lambda: of_plane.draw_sets(part_config, np.uint32(0), False)["train"])()
    held = jax.tree.map(lambda leaf: leaf[0, :, 0], trained.extra["params"])
    losses = jax.jit(jax.vmap(lambda p: of_plane.whole_loss(part_config, p, points)))(held)
    reached = steps[0, :, 0] >= 0
    low, high = of_plane.bands(part_config)[0]
    assert reached.any()
    assert np.all((losses[reached] >= 0.999 * low) & (losses[reached] <= 1.001 * high))


def test_gauss_newton_is_newton_s_step_of_the_linearised_network():
    config = smoke("optimisers", {"model.width": "3", "model.n_hidden": "1"})
    part_config = dict(configs.parts(config))["gauss_newton"]
    f = of_plane.predictor(part_config)

    def loss(logits, points):
        losses = of_plane.models.LOSSES["cross_entropy"](logits, points.y[:, 0])
        return jnp.mean(losses[:20])  # the other rows pad the batch

    def whole(params, extra, batch, *_):
        return loss(f(params, batch["points"].x), batch["points"]), extra

    @jax.jit
    def both():
        points = of_plane.draw_sets(part_config, np.uint32(0), False)["train"]
        params = of_plane.network(part_config).init(jax.random.key(0), points.x)["params"]
        batch = {"points": points, "mask": jnp.arange(len(points.x)) < 20}
        rest = ({}, batch, jax.random.key(0), 0, {})
        _, step = of_plane.gauss_newton(part_config)(whole)(params, *rest)
        vector, unravel = ravel_pytree(params)
        logits, along = jax.linearize(lambda v: f(unravel(v), points.x), vector)
        curvature = jax.hessian(lambda v: loss(logits + along(v), points))(0 * vector)
        gradient = jax.grad(lambda v: whole(unravel(v), *rest)[0])(vector)
        damped = curvature + of_plane.DAMPING * jnp.eye(len(vector))
        return ravel_pytree(step)[0], jnp.linalg.solve(damped, gradient)

    step, expected = both()
    np.testing.assert_allclose(step, expected, rtol=1e-3, atol=1e-4)
    assert np.abs(expected).max() > 0.1


def test_rows_that_pad_a_batch_do_not_count(monkeypatch):
    """The last batch of an epoch is padded: loss, penalty and accuracy are of its other rows."""
    config = smoke("remedies", {"model.width": "2", **SHALLOW})
    config = dict(configs.parts(config))["plane_plain"]
    config.reg.penalties = (1.0,)

    def penalty(f, params, x, inputs):
        return jnp.sum(jnp.where(inputs >= 0, x, 0) ** 2)  # of the entries of a component

    monkeypatch.setattr(of_plane.models, "gradient_penalty", penalty)
    x = np.array([[0.3, -0.2], [-0.5, 0.4], [0.9, 0.7]], np.float32)
    points = of_plane.Points(x, np.eye(3, 2, dtype=int))
    experiment = of_plane.experiment(config, {"train": points})
    start = jax.eval_shape(experiment.init, jax.random.key(0), {"scale": 1.0, "bias_std": 0.5})
    rng = np.random.default_rng(2)
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), start[0])

    @jax.jit
    def scored(rows):
        batch = {
            "points": jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], points),
            "all": points,
        }
        batch["mask"] = jnp.array([1.0, 1.0, 0.0])
        value, (_, metrics) = experiment.loss(params, {}, batch, None, 0, {"penalty": 1.0})
        return value, metrics["accuracy"]

    np.testing.assert_allclose(scored(np.array([0, 1, 0])), scored(np.array([0, 1, 2])))


@pytest.mark.slow
def test_searches_are_held_against_networks_of_their_width(tmp_path):
    config = smoke("capacity", {"search.walk_steps": "400"})
    metrics, arrays, _ = run.run(config, tmp_path)
    bands = of_plane.bands(config)
    for word in ("scale 2, biases 0, width 4", "scale 2, biases 1, width 8"):
        for way in ("sgd", "walk of 400 steps", "guess"):
            losses = arrays[f"solutions/{way}, {word}/training loss"]
            assert losses.shape == (2, 1) and np.isfinite(losses[0]).all()  # levels, sets
            outside = (losses < 0.999 * bands[:, :1]) | (losses > 1.001 * bands[:, 1:])
            assert not np.any(outside)  # NaN, where nothing was found, is not outside
            assert f"{way}, {word}: test accuracy at loss 0.7" in metrics
    assert metrics["sgd less guess: S_2 at loss 0.7, starts"]["values"] == [4]
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"solutions", "levels"}


def test_figures_of_solutions_are_at_the_level_of_the_metrics(tmp_path, monkeypatch):
    saved = {}
    monkeypatch.setattr(plots, "save", lambda fig, path: saved.setdefault(path.stem, fig))
    scores = ("test accuracy", "S_2", "interventional information", "norm")
    arrays = {f"solutions/sgd, scale 1/{score}": np.full((2, 3), 0.5) for score in scores}
    arrays |= {"levels": np.array([0.3, 0.1]), "level": np.array(0.3)}
    figures.draw_solutions(arrays, tmp_path)
    assert "training loss 0.3" in saved["solutions"].get_suptitle()


def test_panels_are_named_by_their_seeds(tmp_path, monkeypatch):
    saved = {}
    monkeypatch.setattr(plots, "save", lambda fig, path: saved.setdefault(path.stem, fig))
    arrays = {
        "parts": np.array([""]),
        "panels": np.zeros((1, 2, 1, 3, 3)),
        "panel_steps": np.array([8]),
        "points/x": np.zeros((2, 1, 4, 2)),
        "points/y": np.zeros((2, 1, 4, 2), int),
        "points/seed": np.array([5, 2]),
    }
    figures.draw_seeds(arrays, tmp_path)
    titles = [ax.get_title(loc="left") or ax.get_title() for ax in saved["seeds"].axes]
    assert titles[:2] == ["seed 5", "seed 2"]


def test_panels_show_the_points_that_were_trained(monkeypatch):
    """Seeds beyond `search.n_sets` share the training sets of the first seeds."""
    config = smoke("control", {"search.n_sets": "2", "train.seeds": "0,1,2,3"})

    def numbered(config, number, control):
        return {"train": of_plane.Points(jnp.full((1, 2), number), jnp.zeros((1, 2), int))}

    monkeypatch.setattr(of_plane, "draw_sets", numbered)
    setting = training.Setting("A", {"control": False})
    trained = training.Trained((setting,), (0, 1, 2, 3), {}, {}, {}, {}, 0.0)
    arrays = run.panels(dict(configs.parts(config))["sgd"], trained, None)
    assert arrays["points/x"][:, 0, 0, 0].tolist() == [0, 1, 0, 1]
    assert arrays["points/seed"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "row, changes, words",
    [
        ("optimisers", {"data.settings": ("A", "control")}, "one value of data.settings"),
        ("optimisers", {"reg.penalties": (0.0, 1.0)}, "one value of reg.penalties"),
        ("landscape", {"data.settings": ("A",)}, "A and control"),
        ("landscape", {"model.towers": True}, "model.towers"),
        ("landscape", {"optim.lrs": (0.1, 0.2)}, "one value of optim.lrs"),
        ("landscape", {"eval.keep": ()}, "0 and 4 in eval.keep"),
        ("landscape", {"eval.keep": (1, 4)}, "0 and 4 in eval.keep"),
        ("landscape", {"eval.keep": (0, 2)}, "0 and 4 in eval.keep"),
        ("first_step", {"optim.lrs": (0.1, 0.2)}, "one value of optim.lrs"),
        ("tangent", {"model.heads": 2}, "model.heads"),
        ("tangent", {"reg.penalties": (0.0, 1.0)}, "one value of reg.penalties"),
    ],
)
def test_what_a_study_needs_is_checked_before_training(row, changes, words):
    config = smoke(row)
    run.check(config)
    with config.unlocked():
        config.update_from_flattened_dict(changes)
    with pytest.raises(BadInput, match=words):
        run.check(config)


def test_each_setting_is_predicted_at_its_own_rate(monkeypatch):
    changes = {"optim.lrs": "0.5,3", "data.settings": "A", "train.seeds": "0"}
    config, steps = smoke("tangent", changes), np.array([0.0, 1, 2])
    points = of_plane.Points(np.zeros((1, 4, 2), np.float32), np.zeros((1, 4, 2), int))
    monkeypatch.setattr(run, "points_of", lambda *args: {"train": points, "fresh": points})
    monkeypatch.setattr(run, "start", lambda config: {"w": np.zeros((1, 2, 2, 2), np.float32)})
    monkeypatch.setattr(of_plane, "predictor", lambda config: lambda params, x: x @ params["w"])
    monkeypatch.setattr(of_plane, "whole_loss", lambda config, params, points: params["w"].sum())

    def rates_alone(f, params, update, x, inputs, rates, **options):
        return jnp.stack([jnp.ones_like(rates), rates], axis=-1)[:, None]  # S_2 = rate / (1 + rate)

    monkeypatch.setattr(run.dependence, "early_dependence", rates_alone)
    monkeypatch.setattr(run.dependence, "tangent_split", lambda *args: (0.0, 0.0, 0.0))
    settings = of_plane.settings(config)
    scores = {"step": steps, "S_2": np.zeros((3, 1, 2))}
    trained = training.Trained(settings, (0,), {}, scores, {}, {}, 0.0)
    _, arrays = run.tangent(config, {"": (config, trained, None)})
    for rate in (0.5, 3):
        rates = rate * steps * of_plane.per_step(config)
        predicted = arrays[f"tangent/rate {rate:g}/predicted"][0]
        np.testing.assert_allclose(predicted, rates / (1 + rates), rtol=1e-6)


def test_layers_of_a_deep_network_are_in_order():
    deep = [(np.full((2, 2), i), np.full(2, i)) for i in range(12)]
    assert [int(bias[0]) for _, bias in run.layers(run.from_layers(deep))] == list(range(12))


def test_searches_draw_from_the_distribution_of_the_starts():
    """Quantiles are those of `models.initial`; biases of deviation 0 are 0."""
    shapes = {"kernel": jnp.zeros((40, 60)), "bias": jnp.zeros(3000)}
    start = of_plane.models.initial(jax.random.key(0), shapes, "glorot", 2.0, 0.5)
    drawn = control.prior(random_like(shapes), 2.0, 0.5)
    shares = np.linspace(0, 1, 11)
    for name in shapes:
        expected, quantiles = (np.quantile(tree[name], shares) for tree in (start, drawn))
        np.testing.assert_allclose(quantiles[1:-1], expected[1:-1], atol=0.05)
    limit = 2 * np.sqrt(6 / 100)
    assert 0.99 * limit < np.abs(drawn["kernel"]).max() <= limit
    assert not np.any(control.prior(random_like(shapes), 2.0, 0.0)["bias"])


def random_like(shapes):
    rng = np.random.default_rng(1)
    return {name: jnp.asarray(rng.normal(size=a.shape), a.dtype) for name, a in shapes.items()}


def test_values_of_searches_are_means_by_training_set():
    """Runs without a solution do not count; a set without any has no value."""
    config = smoke("control", {"search.n_sets": "3", "train.seeds": "0,1,2", "eval.levels": "0.1"})
    solutions = control.Solutions.__new__(control.Solutions)
    solutions.config, solutions.points = config, None
    sets = np.array([0, 1, 2, 0, 1])
    values = np.array([0.2, 0.4, 0.9, 0.6, 0.8])
    solutions._measure = lambda params, sets, points: dict.fromkeys(control.SCORES, params["w"])
    is_solution = np.array([True, True, False, True, False])[:, None]
    scores = solutions.by_set({"w": values[:, None]}, sets, is_solution)
    np.testing.assert_allclose(scores["S_2"], [[0.4, 0.4, np.nan]])
    others = {name: np.array([[0.1, 0.1, 0.3]]) for name in control.SCORES}
    lost = {name: np.array([[np.nan, np.nan, 0.3]]) for name in control.SCORES}
    ways = {
        ("sgd", "a"): scores,
        ("guess", "a"): others,
        ("sgd", "b"): others,
        ("guess", "b"): lost,
    }
    numbers = control.differences(config, ways)
    # Start "b" has a guess on one of three sets, so it is left out.
    pooled, sets = numbers["sgd less guess: S_2 at loss 0.1"]
    np.testing.assert_allclose(pooled, [0.3, 0.3, np.nan])
    assert sets == [0, 1, 2] and numbers["sgd less guess: S_2 at loss 0.1, starts"] == ([1], [0])


def test_every_training_set_needs_a_run():
    config = smoke("control", {"search.n_sets": "2", "train.seeds": "0,2"})
    with pytest.raises(BadInput, match="training set 1 has no run"):
        run.check(config)


def test_settings_of_digits_by_width_and_dose():
    config = smoke("mnist", {"data.widths": "2,5", "data.rhos": "1,0.5"})
    assert [setting.name for setting in of_pairs.settings(config)] == [
        "A",
        "rho 0.5",
        "width 5",
        "rho 0.5, width 5",
    ]
    config = smoke("overlaid")
    assert [setting.name for setting in of_pairs.settings(config)] == [
        *("B", "A", "B, X_2 absent 0.5", "B, X_2 absent 0.9")
    ]
    with pytest.raises(BadInput, match="side by side"):
        run.check(smoke("overlaid", {"model.towers": "true"}))
    with pytest.raises(BadInput, match="setting B twice"):
        run.check(smoke("mnist", {"data.rhos": "1,0", "data.widths": "2,10"}))
    with pytest.raises(BadInput, match="half_squared"):
        run.check(smoke("mnist", {"optim.loss": "half_squared"}))
    with pytest.raises(BadInput, match="zipped"):
        run.check(smoke("plane", {"model.scales": "1,2"}))


# 4 s: the penalty of the remedies is compared with a closed form in `test_pairs`
@pytest.mark.parametrize("row", ["heads", pytest.param("remedies", marks=pytest.mark.slow)])
def test_other_rows_run(row, tmp_path):
    """Heads and a penalty on the plane: no figure, no digits."""
    config = smoke(row, SHALLOW)
    name, own = next((n, o) for n, o in configs.parts(config) if n.startswith("plane"))
    trained = of_plane.run(own, tmp_path, name)
    assert np.all(np.isfinite(trained.scores["test accuracy"]))
    if row == "heads":
        assert np.all(np.abs(trained.scores["heads: cosine"]) <= 1 + 1e-5)
        assert {"D[1,0]", "S_1 of head 2"} <= trained.scores.keys()


def test_verdicts():
    seeds = list(range(5))
    metrics = {
        "A: gap": (np.array([0.2, 0.3, 0.25, 0.2, 0.22]), seeds),
        "B: gap": (np.zeros(5), seeds),
        "B: |gap|": (np.array([0.1, -0.1, 0.1, -0.1, 0.0]), seeds),
    }
    claim = {"claim": "c", "sentence": "s", "where": "w", "left": "A: gap", "right": "B: gap"}
    claim |= {"only": ""}
    (up,) = run.judge([{**claim, "direction": "above"}], metrics)
    expected = scipy.stats.ttest_1samp(metrics["A: gap"][0], 0).pvalue  # two-sided, of the pairs
    assert up["verdict"] == "match" and up["p"] == up["p_holm"] == pytest.approx(expected)
    (down,) = run.judge([{**claim, "direction": "below"}], metrics)
    assert down["verdict"] == "no match" and down["p"] == up["p"]
    (odd,) = run.judge([{**claim, "left": "B: |gap|", "right": 0, "direction": "above"}], metrics)
    assert odd["verdict"] == "underpowered"
    assert run.judge([{**claim, "left": "C: gap", "direction": "above"}], metrics) == []
    fewer = {"A: gap": (np.linspace(1, 2, 8), list(range(8))), "B: gap": (np.zeros(5), seeds)}
    (unpaired,) = run.judge([{**claim, "direction": "above"}], fewer)
    assert unpaired["verdict"] == "match"
    json.dumps(up)
    # Claims of one run are a family: the less sure of two keeps its p, the other's is doubled.
    weak = {**claim, "left": "B: |gap|", "right": -0.1, "direction": "above"}
    both = run.judge([{**claim, "direction": "above"}, weak], metrics)
    assert [one["p_holm"] / one["p"] for one in both] == pytest.approx([2, 1])
    odd = metrics | {"A: gap": (np.array([0.2, np.nan, 0.25, 0.2, 0.22]), seeds)}
    (lost,) = run.judge([{**claim, "direction": "above"}], odd)
    assert lost["verdict"] == "not finite" and lost["p"] is None
    (some,) = run.judge([{**claim, "direction": "above", "only": "solutions"}], odd)
    assert some["verdict"] == "match" and some["n"] == 4


def test_claims_close_the_table(capsys):
    one = {"claim": "A has the larger gap", "ours": 0.2, "against": 0.0, "direction": "above",
           "p": 0.01, "p_holm": 0.03125, "verdict": "match"}  # fmt: skip
    print_table({"metrics": {}, "claims": [one]}, verdict=False)
    out = capsys.readouterr().out
    assert "A has the larger gap" in out and "match" in out and "0.0312" in out


def test_the_table_of_claims_has_dashes_where_nothing_was_found():
    """Guesses that never reached the loss have no number."""
    numbers = {"sgd less guess: test accuracy at loss 0.1": [float("nan")] * 3}
    metrics = {name: summary(values, range(3), None) for name, values in numbers.items()}
    entry = {"row": "control", "size": "fast", "label": "", "metrics": metrics}
    table = dict(run.tables([entry]))["resistance: orderings"]
    line = "| SGD below guess: test, loss 0.1 | - | 0.000 | below | - | - | not finite |"
    assert table.splitlines()[-1] == f"| control | fast {line}"


def test_rows_that_the_paper_does_not_have_show_findings():
    """Their settings do not depend on the size, as `published.claims` says."""
    own = {"dose", "heal", "overlaid"}
    claims = [c for c in EVERY.values() if c.family == "resistance" and c.form != "value"]
    assert {claim.row for claim in claims if claim.kind == "finding"} == own
    assert all(claim.kind == "finding" for claim in claims if claim.row in own)
    for row in own:
        fast, paper = (
            configs.load(f"resistance:{row},{size}").to_dict() for size in ("fast", "paper")
        )
        for config in (fast, paper):
            del config["size"], config["train"]["seeds"]
        assert fast == paper


def test_early_evaluations_are_not_evenly_spaced():
    """The README says how many there are: SCAN is evaluated at every one of the first steps."""
    said = readme.early_evaluations(report.entries("resistance"), {})
    assert said == "60 evaluations in the first 300 steps, 50 of them in the first 50"


def test_recorded_numbers_are_beside_those_of_today():
    """The entry of S_2 has the number of another quantity, which `published` does not give it."""
    old = summary(
        [0.4, 0.41], range(2), {"mean": 0.375, "sd": 0, "where": "", "kind": "recomputed"}
    )
    metrics = {"A: S_2": old, "A: test accuracy": summary([0.7, 0.8], range(2), None)}
    entry = {"row": "mnist", "size": "paper", "label": "", "metrics": metrics}
    table = dict(run.tables([entry]))["resistance: recomputed"]
    line = "| mnist | paper | A: test accuracy | 0.700, 0.800 | 0.750 | 0.736 | +0.014 |"
    assert table.splitlines()[2:] == [line]


def test_every_claim_says_where_it_stands():
    rows = configs.load_file("resistance").ROWS
    for row, known in BY_ROW["resistance"].items():
        assert row in rows
        for claim in known:
            sides = {"left", "right", "direction", "only"}
            assert set(claim) == {"claim", "sentence", "where", *sides}
            assert claim["direction"] in ("above", "below") and len(claim["claim"]) <= 40
