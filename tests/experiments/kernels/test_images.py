"""Image networks: their samples, what their analyses say of known kernels, and one tiny run."""

import functools

import jax
import numpy as np
import pytest

from cgjax import config as configs
from cgjax.analysis import closed_forms, ntk, salience
from cgjax.core import parallel, rng, train, tree
from cgjax.core.errors import BadInput
from cgjax.experiments.kernels import images as study
from cgjax.experiments.kernels import run, tasks
from cgjax.experiments.kernels.images import figures

pytestmark = pytest.mark.usefixtures("one_device")


@pytest.fixture(scope="module")
def tiny():
    one_block = {"model.convnet.channels": "(4,)", "eval.layers": "(2,)", "eval.layer": "2"}
    config = configs.load("configs/kernels.py:addition_mnist,smoke", one_block)
    config.data.n_val, config.data.n_total = 2, 68
    return config


@pytest.fixture(scope="module")
def shown(tiny):
    return study.load_images(tiny, "addition_extrapolation", distance=3)


def test_a_call_is_an_epoch(tiny, shown):
    settings = study.in_steps(tiny, shown)
    n = 17 * (tiny.data.n_total // 17)
    assert settings.train.steps_per_call == -(-n // 32)
    assert settings.train.steps == tiny.train.epochs * settings.train.steps_per_call


@pytest.mark.parametrize("n_devices", [1, 2])
def test_networks_train_by_kernels_on_one_gpu_only(monkeypatch, n_devices):
    monkeypatch.setattr(parallel, "on_nvidia", lambda: True)
    monkeypatch.setattr(jax, "device_count", lambda: n_devices)
    sizes = {"model.resnet.channels": "(16,)", "data.n_total": "68"}
    config = configs.load("configs/kernels.py:addition_cifar_resnet,smoke", sizes)
    experiment = study.build(config, study.load_images(config, config.data.tasks[0], 0))
    replica, key = tree.take(experiment.replicas, 0), jax.random.key(0)
    params, extra = jax.eval_shape(experiment.init, key, replica)
    batch = experiment.batch(experiment.data, np.arange(4), key, 0) | {"mask": np.ones(4)}
    traced = jax.make_jaxpr(experiment.loss)(params, extra, batch, key, 0, replica)
    assert ("pallas_call" in str(traced)) == (n_devices == 1)


def test_which_networks_train_by_kernels(tiny):
    def chosen(**changes):
        config = tiny.copy_and_resolve_references()
        with config.unlocked():
            config.update_from_flattened_dict({"train.at_once": 0} | changes)
        return study.by_kernels(config)

    several = {"train.seeds": (0, 1)}
    assert chosen(**several) and chosen(**several | {"train.at_once": 2})
    assert not chosen(**several | {"train.at_once": 1})
    assert chosen(**several | {"model.dtype": "bfloat16"})
    assert not chosen(**{"train.seeds": (0,)})
    assert chosen(**several | {"model.net": "resnet"})
    assert not chosen(**several | {"model.net": "vit"})


def test_what_networks_see(shown):
    seen = study.show(shown, shown.pixels, shown.sets[0].train.images[:2])
    assert seen.shape == (2, 28, 31, 2)


def test_analysed_samples_are_grouped_by_combination(shown):
    picked, rows, is_train = study.samples(shown.task, shown.sets[0], n=2)
    assert len(picked) == 2 * 17 + 2 * 81 and is_train.sum() == 34
    assert np.all(shown.task.is_train[rows[is_train]])
    np.testing.assert_array_equal(rows[~is_train], np.repeat(np.arange(81), 2))


def test_statistics_have_no_share_in_a_tangent_kernel(tiny):
    model, x = study.network(tiny), jax.random.normal(jax.random.key(1), (3, 12, 12, 2))
    variables = jax.jit(model.init)(jax.random.key(0), x)
    params, extra = variables.pop("params"), jax.tree.map(lambda a: a + 0.3, variables)
    f = functools.partial(study._scalar, model)
    kernel = ntk.empirical(f, (params, extra), x, form="trace")
    jac = ntk.jacobian(lambda params, x: f((params, extra), x), params, x)
    jac = np.concatenate([leaf.reshape(3, -1) for leaf in jax.tree.leaves(jac)], axis=1)
    np.testing.assert_allclose(kernel, jac @ jac.T, rtol=1e-4)


@pytest.mark.parametrize("name, s", [("extrapolation", 0.3), ("both", 0.2), ("asymmetric", 0.4)])
def test_a_compositional_kernel_is_read_as_what_it_is(name, s):
    """Salience, slope of its machine and the closed form agree where theory is exact."""
    task = tasks.make(f"addition_{name}")
    kernel = np.asarray(salience.overlap_kernel(task.x, task.x, np.array([0.0, s, 1.0])))
    train = np.flatnonzero(task.is_train)
    rows = np.concatenate([train, np.arange(81)])
    is_train = np.arange(len(rows)) < len(train)
    measures = study.of_gram(task, kernel[np.ix_(rows, rows)], rows, is_train)
    slope = closed_forms.memorization_slope(s, tasks.anchors(task).sum())
    assert measures["salience"] == pytest.approx(s, abs=1e-12)
    assert measures["predicted slope"] == pytest.approx(float(slope), abs=1e-12)
    assert measures["readout slope"] == pytest.approx(float(slope), abs=1e-4)
    assert measures["readout additivity"] == pytest.approx(1, abs=1e-6)
    assert np.all(measures["spread"] < 1e-12)


def test_salience_by_number_of_images_with_and_without_self_products(tmp_path):
    """Untrained networks are those that train; without self-products n does not matter."""
    one_block = {"model.convnet.channels": "(4,)", "eval.layer": "2", "data.distances": "(3,)"}
    config = configs.load("kernels:salience_mnist,smoke", one_block)
    metrics, _, _ = run.run(config, tmp_path)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"estimates.png"}
    start = "extrapolation, d=3: salience"
    few, many = (metrics[f"{start}, {n} images"]["ours"] for n in (2, 12))
    pairs, same = (metrics[f"{start}, {n} images, no self-products"]["ours"] for n in (2, 12))
    assert few < many < min(pairs, same) and abs(pairs - same) < (many - few) / 3
    images = study.load_images(config, "addition_extrapolation", 3)
    trained = configs.load("kernels:addition_mnist,smoke", one_block | {"eval.layers": "(2,)"})
    start = train.initial(study.build(trained, images), study.in_steps(trained, images))
    key = rng.stream(jax.random.key(1), "init")
    params, _ = study.init(study.network(config), images, key)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-6)
    jax.tree.map(close, params, jax.tree.map(lambda p: p[1], start.params))


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"eval.n_images": "(4, 13)"}, "eval.n_images=13 must not exceed data.n_val=12"),
        ({"eval.layer": "40"}, "the network has no layer 40"),
        ({"model.net": "resnet", "eval.layer": "40"}, "the network has no layer 40"),
    ],
)
def test_estimates_that_cannot_be_are_refused(changes, words):
    with pytest.raises(BadInput, match=words):
        run.check(configs.load("kernels:salience_mnist,smoke", changes))


def test_slopes_of_additive_outputs():
    """Outputs that shrink unseen items by 0.6 have slope 0.6 and are additive."""
    task = tasks.make("addition_both")
    worth = np.where(tasks.anchors(task), 1.0, 0.6) * np.array(tasks.VALUES)
    outputs = worth[task.x].sum(axis=1)[None]
    trained = np.where(task.is_train, outputs, np.nan)
    fits = study.fit_additive(task, {"train": trained, "val_1": outputs, "val_2": outputs})
    arrays = {}
    metrics = study.values(task, fits, arrays)
    assert metrics["slope"] == pytest.approx([0.6], abs=1e-3)
    assert fits.r2[0, list(fits.splits).index("comp")] == pytest.approx(1, abs=1e-6)
    assert arrays["is_anchor"].sum() == 2


def test_means_of_all_samples_and_of_half_of_them(tiny, shown):
    """Four training samples of each combination, and two of each set of other images."""

    class Brightness:
        def apply(self, variables, x, tap):
            return variables["params"] * x.mean((1, 2, 3))

    factors = np.array([1.0, -2.0], np.float32)  # one "network" per seed
    of_all, of_half = study.averages(Brightness(), shown, factors, {})
    for name, means in of_all.items():
        for seed, sets in enumerate(shown.sets):
            images, rows = getattr(sets, name)
            x = np.asarray(study.show(shown, shown.pixels, images), np.float64)
            f = factors[seed] * x.mean((1, 2, 3))
            for row in range(81):
                each = f[rows == row]
                expected = (each.mean(), each[: len(each) // 2].mean()) if len(each) else (np.nan,)
                both = (means[seed, row], of_half[name][seed, row])
                np.testing.assert_allclose(both[: len(expected)], expected, rtol=1e-4)
                assert np.isfinite(both[1]) == (len(each) > 0)


def test_a_run_writes_its_numbers_and_figures(tiny, tmp_path):
    metrics, arrays, _ = run.run(tiny, tmp_path)
    assert len(metrics["extrapolation, d=0: slope"]["values"]) == 2
    assert metrics["extrapolation, d=0: comp mse"]["ours"] > 0
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"values.png", "slopes.png", "predicted.png", "history.png"}
    name = "addition_extrapolation-d0"
    outputs = {key: arrays[f"{name}/outputs/{key}"] for key in ("train", "val_1", "val_2")}
    assert np.isfinite(outputs["train"][0]).sum() == 17  # only of trained combinations
    fits = study.fit_additive(tasks.make("addition_extrapolation"), outputs)
    assert len(fits.splits) == 5
    additivity = metrics["extrapolation, d=0: mean additivity"]["values"]
    np.testing.assert_allclose(additivity, fits.r2.mean(axis=1), rtol=1e-6)
    assert (
        metrics["extrapolation, d=0: mean additivity, half of the images"]["values"] != additivity
    )
    opened = run.load(tiny, tmp_path)  # the one task at its one distance
    blank = np.zeros((3, 28, 28, 2), np.float32)
    outputs = opened.predict(jax.tree.map(lambda leaf: leaf[0], opened.params), blank)
    assert outputs.shape == (3,) and np.ptp(outputs) == 0 and len(opened.step) == 2


def test_every_kind_of_task_has_its_own_figures(monkeypatch, tmp_path):
    """A row may have tasks of several kinds; those of one kind stay in the folder itself."""
    drawn = set()
    for name in ("values", "slopes", "accuracy", "types", "history"):

        def record(arrays, cells, *rest, name=name):
            drawn.add((str(rest[-1].relative_to(tmp_path)), *cells))

        monkeypatch.setattr(figures, f"draw_{name}", record)
    row = {"row": np.array("addition_mnist")}
    for tasks_of_row in (("addition_both", "te_5_5_hubs_1"), ("te_5_5_hubs_1",)):
        figures.draw(row | {f"{task}-d0/coefficients": 0 for task in tasks_of_row}, tmp_path)
    assert drawn == {
        *((f"addition/{name}.png", "addition_both") for name in ("values", "slopes", "history")),
        *((f"te/{name}.png", "te_5_5_hubs_1") for name in ("accuracy", "history")),
        *((f"{name}.png", "te_5_5_hubs_1") for name in ("accuracy", "history")),
    }


@pytest.mark.parametrize("distances", [[0], [0, 20]])
def test_slopes_are_drawn_by_distance_where_there_are_several(distances, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures.plots, "save", lambda fig, path: drawn.append(fig))
    cells = {task: distances for task in ("addition_extrapolation", "addition_both")}
    metrics = ("slope", "mean additivity", "salience")
    arrays = {
        f"{task}-d{d}/{metric}": np.array([0.4, 0.5])
        for task in cells
        for d in distances
        for metric in metrics
    }
    figures.draw_slopes(arrays, cells, {}, "slopes.png")
    for ax in drawn[0].axes:
        shown = [label.get_text() for label in ax.get_xticklabels()]
        assert shown == (["0", "20"] if len(distances) > 1 else ["extrapolation", "both"])


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"model.net": "mlp"}, "one of convnet, resnet, vit"),
        ({"eval.layers": "(2, 40)"}, "the network has no layer 40"),
        ({"model.convnet.channels": "(4,)"}, "the network has no layer 11"),
    ],
)
def test_networks_that_cannot_be_are_refused(changes, words):
    with pytest.raises(BadInput, match=words):
        run.check(configs.load("configs/kernels.py:addition_mnist,smoke", changes))
