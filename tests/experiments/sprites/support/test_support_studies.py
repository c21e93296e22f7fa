"""The support studies: their cells, and every row from config to figures."""

import types

import jax
import numpy as np
import pytest

from cgjax import config as configs
from cgjax.bench import sprites
from cgjax.core.errors import BadInput
from cgjax.core.workdir import read_json
from cgjax.experiments.sprites import audits, sets
from cgjax.experiments.sprites.support import run, studies
from cgjax.experiments.sprites.support import trained as studies_of_trained
from cgjax.main import main
from cgjax.published import PUBLISHED


def config(row, *changes):
    return configs.load(f"configs/support.py:{row},smoke", dict(changes))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Smoke runs of a compositional and an alpha model, trained in this process."""
    folder = tmp_path_factory.mktemp("runs")
    # One evaluation, in the form that compiles sooner; programs for eight devices take a minute.
    few = ["--config.model.form=reordered", "--config.train.steps=6", "--config.eval.n=10"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
        for row in ("orthogonal_compositional", "orthogonal_rgba_cured"):
            assert (
                main(
                    [
                        f"--config=configs/sprites.py:{row},smoke",
                        f"--workdir={folder / row}",
                        "--no_figures",
                        *few,
                    ]
                )
                == 0
            )
    return folder


# --- the table of verdicts ------------------------------------------------------------------------


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("orthogonal", "orthogonal_star")]


@pytest.mark.parametrize("name", [*SLOW, "orthogonal_gap"])
def test_cells_of_plane_supports(name):
    settings = configs.load("configs/support.py:table", {"data.n_values": "24"})
    data = audits.support_data(settings, **sets.SUPPORTS[name])
    for column in ("step_back", "step_front_own", "sigmoid_front"):
        composition, component, only_covered = studies.COLUMNS[column]
        key = jax.random.key(component)
        audit, points = audits.audit(
            data, composition, component, key, only_covered, **audits.sizes(settings)
        )
        expected = PUBLISHED["support"]["table"][f"{name}/{column}"]["mean"]
        if name == "orthogonal_gap" and component == 0:
            inside = (points.raw[:, 0] >= 0.05) & (points.raw[:, 0] <= 0.45)
            np.testing.assert_array_equal(audit.passes, ~np.asarray(inside))
        else:
            assert audit.share == expected
        if (name, column) == ("orthogonal_star", "step_back"):
            np.testing.assert_array_equal(audit.n_failing, 40)


@pytest.mark.slow
def test_failing_pixels_are_those_that_every_partner_covers():
    """Counted without a Jacobian: behind hard occlusion, a pixel that is always covered."""
    settings = configs.load("configs/support.py:table", {"data.n_values": "12"})
    data = audits.support_data(settings, **sets.SUPPORTS["diagonal_narrow"])
    sizes = audits.sizes(settings)
    result, points = audits.audit(data, "occlude_step", 1, jax.random.key(0), **sizes)
    covered = [(points.partners(i)[0].sum(-1) > 0).all(0) for i in range(12)]
    np.testing.assert_array_equal(result.where, covered)
    assert result.n_failing.mean() > 5


@pytest.mark.slow
def test_every_cell_within_sampling_error():
    """Shares within 0.08 over 256 values; pixels within 3 standard errors of 40 values."""
    metrics, arrays, _ = studies.table(configs.load("configs/support.py:table"))
    for name, entry in PUBLISHED["support"]["table"].items():
        allowed = 6e-4 if name.endswith("sigma") else 0.08
        if name.endswith("pixels"):
            n_failing = arrays[name.removesuffix(" failing pixels") + "/n_failing"]
            allowed = 3 * n_failing.std() / 40**0.5
        assert abs(metrics[name] - entry["mean"]) <= allowed, (name, metrics[name], entry["mean"])


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.07, 0.05])
def test_errors_of_failing_pixels_are_those_of_a_difference_of_means(delta):
    """Of 60 values of the other implementation and 256 of ours; by 256 other values."""
    settings = configs.load("configs/support.py:table")
    data = audits.support_data(settings, support="diagonal", delta=delta)
    sizes = audits.sizes(settings)
    result, _ = audits.audit(data, "occlude_step", 1, jax.random.key(7), **sizes)
    error = result.n_failing.std(ddof=1) * (1 / 60 + 1 / 256) ** 0.5
    name = f"delta {delta:g}, 48 partners: failing pixels"
    assert PUBLISHED["support"]["partners"][name]["sd"] == pytest.approx(error, rel=0.25)


# --- whole rows -----------------------------------------------------------------------------------


# 8 s and 6 s: whole rows beside others of their kind, and traced in test_unread_keys.
SLOW = [pytest.param(row, marks=pytest.mark.slow) for row in ("predict", "relaxed", "openness")]


@pytest.mark.parametrize("row", ["demo", "partners", "design", *SLOW])
def test_row_runs_and_draws(row, tmp_path):
    arg = "smoke" if row == "demo" else f"{row},smoke"
    assert main([f"--config=configs/support.py:{arg}", f"--workdir={tmp_path}"]) == 0
    results = read_json(tmp_path / "results.json")
    assert results["metrics"] and all(
        entry["ours"] is not None for entry in results["metrics"].values()
    )
    assert len(list((tmp_path / "figures").glob("*.png"))) == 1
    assert (
        main([f"--config=configs/support.py:{arg}", f"--workdir={tmp_path}"]) == 0
    )  # already done


# The paths are traced by default, in test_unread_keys.
@pytest.mark.slow
def test_certificate_of_a_barely_trained_model_names_the_fit(trained, tmp_path):
    opened = trained / "orthogonal_compositional"
    assert (
        main(
            [
                "--config=configs/support.py:certificate,smoke",
                f"--workdir={tmp_path}",
                f"--config.data.run={opened}",
            ]
        )
        == 0
    )
    results = read_json(tmp_path / "results.json")
    metrics = results["metrics"]
    assert metrics["consistent with the theorem"]["ours"] == 0
    assert results["words"][0].startswith("the theorem does not apply: ")
    fit = "fit: the model fits f on P"
    assert 0.1 < metrics[fit]["ours"] < metrics[f"{fit}, worst"]["ours"]
    # The model is C of its components, but its C is soft and that of the data is hard.
    assert metrics["form: the model is C of its components, worst"]["ours"] < 1e-3
    assert metrics["same C: data and model share C"]["ours"] > 0.1
    assert "composed by occlude_step, the model by occlude_sigmoid" in results["words"][1]


def test_a_certificate_compares_a_support_with_other_samples_of_all_combinations(monkeypatch):
    class Compared(Exception):
        pass

    def coverage(known, everywhere, **_):
        equal = np.all(np.asarray(known)[:, None, :2] == np.asarray(everywhere)[None, :, :2], -1)
        raise Compared(int(equal.sum()))

    settings = configs.load("sprites:random_compositional,smoke")
    opened = settings, types.SimpleNamespace(params={})
    monkeypatch.setattr(studies_of_trained, "open_run", lambda _: opened)
    monkeypatch.setattr(studies_of_trained.theory, "coverage", coverage)
    with pytest.raises(Compared, match="^0$"):
        studies_of_trained.certificate(config("certificate"))


@pytest.mark.slow
def test_opacity_of_a_barely_trained_model(trained, tmp_path):
    opened = trained / "orthogonal_rgba_cured"
    assert (
        main(
            [
                "--config=configs/support.py:opacity,smoke",
                f"--workdir={tmp_path}",
                f"--config.data.run={opened}",
            ]
        )
        == 0
    )
    metrics = read_json(tmp_path / "results.json")["metrics"]
    assert metrics["seed 0: sprite pixels with alpha >= 1"]["ours"] < 0.5
    assert metrics["seed 0: front, sprite pixels that fail"]["ours"] > 0.3


def test_the_benchmark_audits_the_orthogonal_support(monkeypatch):
    monkeypatch.setattr(sprites, "N_VALUES", 1)
    monkeypatch.setattr(sprites, "N_VALUES_DENSE", 1)
    monkeypatch.setattr(sprites, "SIZES", (16, 8))
    assert sprites.full_size("occlude_step") > 0
    assert len(sprites.against_dense()) == 3


@pytest.mark.slow
def test_opacity_is_of_one_shared_network(trained):
    opened = str(trained / "orthogonal_compositional")
    wrong = config("opacity", ("data.run", opened), ("data.part", "compositional"))
    with pytest.raises(BadInput, match="not a run of one shared network"):
        run.STUDIES["opacity"](wrong)


def test_bad_input_is_named(tmp_path):
    with pytest.raises(BadInput, match="no sprites run at 'nowhere'"):
        run.STUDIES["certificate"](config("certificate", ("data.run", "nowhere")))
    with pytest.raises(BadInput, match="prediction needs three"):
        studies.predict(config("predict", ("data.record", str(tmp_path))))
    with pytest.raises(BadInput, match="no model"):
        run.load(config("table"), tmp_path)
