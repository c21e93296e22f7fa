"""Dense networks on symbolic inputs: training, features, and scores with known answers."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cgjax
from cgjax import config as configs
from cgjax.analysis import additivity, closed_forms, machines, salience, stats
from cgjax.core import train
from cgjax.core.errors import BadInput
from cgjax.core.workdir import read_json
from cgjax.experiments.kernels import dense as dense_scores
from cgjax.experiments.kernels import inputs, tasks
from cgjax.experiments.kernels.dense import figures
from cgjax.experiments.kernels.scores import entry, scores_of, type_means
from cgjax.main import main
from cgjax.published import PUBLISHED, verdict

pytestmark = pytest.mark.usefixtures("one_device")


def config(row, **changes):
    values = {key.replace("__", "."): str(value) for key, value in changes.items()}
    return configs.load(f"configs/kernels.py:{row}", values)


def small(**changes):
    """One part, quick to train."""
    settings = {
        "train__seeds": (0, 1),
        "train__steps": 2000,
        "train__steps_per_call": 100,
        "train__log_every": 100,
        "eval__every": 100,
        "checkpoint__every": 2000,
    }
    return config("addition_rich", **(settings | changes))


# --- training -------------------------------------------------------------------------------------


def test_training_rows_are_padded_with_weight_zero():
    members = [tasks.make("addition_extrapolation"), tasks.make("addition_both")]
    arrays = dense_scores.arrays(members)
    np.testing.assert_array_equal(arrays["weight"].sum(axis=1), [17, 32])
    for rows, weight, task in zip(arrays["rows"], arrays["weight"], members):
        kept = np.asarray(rows)[np.asarray(weight) > 0]
        np.testing.assert_array_equal(kept, np.flatnonzero(task.is_train))


def test_parts_change_their_own_keys_only():
    parts = dict(configs.parts(config("addition_deep", parts__depth_2__model__depth=7)))
    assert [parts[name].model.depth for name in sorted(parts)] == [1, 7, 3, 4]
    assert {settings.model.hidden for settings in parts.values()} == {100}
    assert [name for name, _ in configs.parts(config("addition_rich"))] == [""]


@pytest.fixture(scope="module")
def equivalence(tmp_path_factory):
    """Rich networks on transitive equivalence."""
    settings = small(
        data__tasks="('te_2_2',)",
        model__hidden=300,
        model__scales="(1e-6,)",
        optim__lrs="(0.1,)",
        optim__stop=1e-6,
    )
    return settings, dense_scores.run(settings, tmp_path_factory.mktemp("te"))


def test_rich_networks_solve_transitive_equivalence(equivalence):
    settings, sweep = equivalence
    task = sweep.tasks[0]
    assert np.all(sweep.train_loss < 1e-5)
    np.testing.assert_allclose(sweep.outputs[:, 0, 0], np.stack([task.y] * 2), atol=0.02)
    assert sweep.history["step"][-1] < 2000  # all networks had reached the stop
    metrics, _ = dense_scores.measure(settings, sweep)
    signs = {"positive units": 1, "negative units": -1, "equivalent items": 1, "other items": -1}
    for name, sign in signs.items():
        values, seeds = metrics[f"te_2_2: weights, {name}"]
        np.testing.assert_allclose(values, [sign] * 2, atol=0.01)
        np.testing.assert_array_equal(seeds, [0, 1])
    assert 100 <= metrics["te_2_2: first all right, test"][0][0] <= 1000


def test_extremes_of_mean_curves_are_of_groups_of_the_papers_size():
    curves = np.arange(28.0).reshape(2, 14)  # [steps, networks]
    np.testing.assert_array_equal(dense_scores.group_means(curves), [[2.5, 16.5], [8.5, 22.5]])
    assert dense_scores.group_means(curves[:, :4]).shape == (1, 2)


def test_groups_cover_a_largest_value_and_the_jackknife_does_not():
    """Share of 95 % intervals of the difference from another six networks that contain it."""
    rng = np.random.default_rng(0)
    others = rng.gamma(9, 11, (1000, 6)).max(axis=1)
    drawn = rng.gamma(9, 11, (1000, 5, 6))
    jackknifed = [stats.jackknife(np.max, networks[0]) for networks in drawn]

    def covers(values, runs, other):
        ours = verdict.mean_of(values)._replace(beside=runs)
        return abs(ours.mean - other) <= verdict.interval(ours)

    assert np.mean([covers(v, 6, other) for v, other in zip(jackknifed, others)]) < 0.8
    grouped = drawn.max(axis=2)
    assert 0.92 < np.mean([covers(v, 1, other) for v, other in zip(grouped, others)]) < 0.98


def test_features_and_initial_state_are_the_networks_own(equivalence):
    settings, sweep = equivalence
    layers = jax.tree.map(lambda leaf: leaf[0, 0, 0], sweep.params)
    x = inputs.one_hot(sweep.tasks[0].x, sweep.tasks[0].sizes)
    hidden = np.maximum(x @ layers["dense_0"]["kernel"] + layers["dense_0"]["bias"], 0)
    np.testing.assert_allclose(sweep.grams[1, 0, 0, 0], hidden @ hidden.T, rtol=1e-4, atol=1e-9)
    f = hidden @ layers["dense_1"]["kernel"][:, 0] + layers["dense_1"]["bias"]
    np.testing.assert_allclose(sweep.outputs[0, 0, 0], f, atol=1e-5)
    diagonal = np.diagonal(sweep.grams[0], axis1=-2, axis2=-1)  # before: weights of size 1e-6
    assert np.all(diagonal > 0) and np.all(diagonal < 1e-9)


def test_wide_initial_features_have_the_salience_of_the_limit():
    # Correlation (6 o + 1) / 13 for overlap o: S(1;2) = 0.4316 and k0 = 0.5569.
    settings, task = small(model__hidden=8000, model__depth=1), tasks.make("addition_extrapolation")
    model, x = dense_scores.network(settings), jnp.asarray(inputs.one_hot(task.x, task.sizes))
    hidden = np.float64(dense_scores.features(model, model.init(jax.random.key(0), x)["params"], x))
    kappa = additivity.structure(additivity.similarity(task.x, hidden)).kappa
    assert salience.salience(kappa)[0] == pytest.approx(0.4316, abs=0.01)
    assert kappa[0] / (kappa[-1] - kappa[0]) == pytest.approx(0.5569, abs=0.03)


@pytest.mark.slow  # 10 s: a check of the theory by training
def test_a_trained_readout_is_a_kernel_machine(tmp_path):
    settings = small(
        data__tasks="('addition_extrapolation',)",
        model__hidden=100,
        model__scales="(1.0,)",
        model__trained="readout",
        optim__lrs="(0.1,)",
        optim__stop=1e-9,
        train__seeds=tuple(range(8)),
        eval__frozen=True,
    )
    sweep = dense_scores.run(settings, tmp_path)
    task = sweep.tasks[0]
    np.testing.assert_array_equal(sweep.grams[0], sweep.grams[1])  # hidden layers stay
    train, outputs = task.is_train, sweep.outputs[:, 0, 0]
    gram = sweep.grams[0, :, 0, 0] + 1  # the bias is a feature that is always 1
    expected = machines.ridgeless(gram[:, train][:, :, train], task.y[train], gram[:, :, train])
    np.testing.assert_allclose(outputs, expected, atol=2e-3)
    metrics, _ = dense_scores.measure(settings, sweep)
    assert max(metrics["extrapolation: distance to the machine"][0]) < 1e-3
    # Random features are compositionally structured only on average, and so is additivity.
    each = additivity.additivity(task.x, outputs, train).r2_test
    mean = additivity.additivity(task.x, outputs.mean(axis=0), train).r2_test
    assert each.max() < mean and 1 - mean < 0.3 * (1 - each.mean())


# --- scores with known answers --------------------------------------------------------------------


def a_sweep(names, kappa, settings, outputs=None):
    """Two networks for each task and scale, whose features have the overlap kernel kappa exactly;
    they say the targets, and started at 0 and at the targets."""
    members = tuple(tasks.make(name) for name in names)
    x, n_scales = members[0].x, len(settings.model.scales)
    gram = np.asarray(salience.overlap_kernel(x, x, np.array(kappa, float)))
    shape = (2, len(members), n_scales)
    y = np.stack([task.y for task in members])[None, :, None]
    return types.SimpleNamespace(
        tasks=members,
        starts=np.broadcast_to(np.array([0, 1])[:, None, None, None] * y, (*shape, len(x))),
        outputs=np.broadcast_to(y, (*shape, len(x))) if outputs is None else outputs,
        train_loss=np.zeros(shape),
        grams=np.broadcast_to(gram, (2, *shape, *gram.shape)),
        params={},
        history={"step": np.array([10, 20])},
    )


def a_cell(name, kappa, outputs=None, loss="mse"):
    settings = config("addition_rich", optim__loss=loss, model__scales="(1.0,)")
    outputs = None if outputs is None else outputs[:, None, None]
    sweep = a_sweep([name], kappa, settings, outputs)
    return dense_scores.cell(settings, sweep, np.array([True, True]), 0, 0)


def test_scores_are_slopes_or_accuracies():
    addition, pairs = tasks.make("addition_both"), tasks.make("te_2_2")
    scores = scores_of(addition, np.stack([0.8 * addition.y + 1, 0 * addition.y]))
    np.testing.assert_allclose(scores["slope"], [0.8, 0], atol=1e-12)
    scores = scores_of(pairs, np.stack([0.5 * pairs.y, -pairs.y]))
    np.testing.assert_allclose(scores["accuracy"], [1, 0])
    np.testing.assert_allclose(scores["margin"], [0.5, -1])


@pytest.mark.slow  # 8 s: machines and slopes have tests of their own
def test_predicted_slopes_are_those_of_the_machine_on_these_features():
    cell = a_cell("addition_both", (0.6, 1.0, 1.7))
    scores, saved = dense_scores._addition(cell)
    s = 0.4 / 1.1
    expected = closed_forms.memorization_slope(s, n_anchors=2)
    for time in dense_scores.TIMES:
        np.testing.assert_allclose(scores[f"S(1;2) {time}"], [s, s])
        np.testing.assert_allclose(scores[f"predicted slope {time}"], [expected] * 2)
    # A network that starts at 0 is the machine; one that starts at the targets stays there.
    np.testing.assert_allclose(scores["predicted slope, kernel"], [expected, 1], atol=1e-8)
    machine = dense_scores.frozen(cell, is_readout=False)
    np.testing.assert_allclose(machine["slope, features after"], [expected] * 2, atol=1e-8)
    np.testing.assert_allclose(machine["additivity, features before"], [1, 1], atol=1e-8)
    # The closed form's item values, with the constant feature, add up to the machine's outputs.
    k_train = cell.grams[0, 0][:, cell.task.is_train]
    f = machines.ridgeless(k_train[cell.task.is_train], cell.task.y[cell.task.is_train], k_train)
    test = ~cell.task.is_train
    items = saved["closed form"][0]
    np.testing.assert_allclose(items[cell.task.x].sum(axis=1)[test], f[test], atol=1e-8)


def test_similarities_are_counted_by_overlap():
    counts = dense_scores.similarities(a_cell("addition_both", (0.6, 1.0, 1.7)))
    centre = (dense_scores.BINS[:-1] + dense_scores.BINS[1:]) / 2
    for time in range(2):
        for overlap, place in enumerate((0, 0.4 / 1.1, 1)):
            assert centre[counts[time, overlap].argmax()] == pytest.approx(place, abs=0.0251)
        np.testing.assert_array_equal(
            counts[time].sum(axis=1), 2 * np.array([81 * 64, 81 * 16, 81])
        )


def test_the_objectives_disagree_on_cd_3():
    # The ReLU network of depth 3: ridgeless regression generalises, the hard margin does not.
    kappa = salience.kappa(salience.complete(np.array([0.20350064, 0.09423825])))
    for loss, margin in (("mse", 0.52231), ("logistic", -0.21669)):
        scores, saved = dense_scores._context(a_cell("cd_3", kappa, loss=loss))
        np.testing.assert_allclose(scores["predicted margin"], [margin] * 2, atol=1e-5)
        np.testing.assert_allclose(scores["relative margin"], [1, 1])
    assert saved["magnitudes"].shape == (5, 2)
    assert saved["right"] > 0.5 > 10 * saved["context"]
    assert sum(scores[f"{kind} share"].each for kind in additivity.TYPES) == pytest.approx(1)


def test_magnitudes_average_values_over_networks_first():
    task = tasks.make("cd_2")
    scores, saved = dense_scores._context(
        a_cell("cd_2", (0, 0.1, 0.3, 1), np.stack([task.y, -0.5 * task.y]))
    )
    first, second = saved["magnitudes"][0]
    assert first == pytest.approx(2 * second) and first > 0.5
    assert saved["right"] == pytest.approx(first / 4)  # not the mean of both
    share = saved["right"] / sum(saved[kind] for kind in additivity.TYPES)
    values, seeds = entry(scores["right share"], [3, 4])
    assert values.shape == (2,) and seeds == []  # pseudo-values of one number, not scores of seeds
    assert values.mean() == pytest.approx(share)
    values, _ = entry(scores["mean |value|, right"], [3, 4])
    assert values.mean() == pytest.approx(saved["right"])


def test_values_before_training_are_small_beside_the_published_ones():
    """The cause of the half-height bars says so; deeper networks start with smaller outputs."""
    settings = dict(configs.parts(config("cd_deep,paper")))["depth_1"]
    members = dense_scores.members(settings)
    start = train.initial(dense_scores.experiment(settings, members), settings)
    params = {**start.extra, **start.params}
    outputs, _ = dense_scores._evaluate_all(settings, members, params)
    for task, starts in zip(
        members, np.moveaxis(dense_scores.grid(settings).by_axes(outputs), 1, 0)
    ):
        account = additivity.additivity(task.x, starts[:, 0], task.is_train)
        means = type_means(account.labels, account.coefficients)
        published = max(
            PUBLISHED["kernels"]["cd_deep"][f"depth_1/{task.name}: mean |value|, {kind}"]["mean"]
            for kind in means
        )
        assert 0 < max(mean.each.mean() for mean in means.values()) < 1e-3 * published


def test_signatures_of_the_four_ideal_units():
    # relu(c1 + c2) + relu(-c1 - c2) - relu(c1 - c2) - relu(c2 - c1) = 2 c1 c2.
    task, c = tasks.make("te_2_2"), np.array([1.0, 1, -1, -1])
    signs = np.array([[1, 1], [-1, -1], [1, -1], [-1, 1]])
    weights = (signs[:, :, None] * c).reshape(4, 8).T
    params = {
        "dense_0": {"kernel": np.stack([weights, weights])},
        "dense_1": {"kernel": np.array([[1.0, 1, -1, -1]] * 2)[..., None]},
    }
    weighted, readout = dense_scores.weighted_inputs(params, task)
    assert dense_scores.new_items(task) == (1, 3)
    cosines = dense_scores.signatures(weighted, readout, task)
    assert [round(v[0], 6) for v in cosines.values()] == [1, -1, 1, -1]
    mixed = dense_scores.signatures(weighted[:, :, [0, 2, 3, 1]], readout, task)
    assert mixed["weights, equivalent items"][0] < 0  # items do not follow their class


def test_the_readout_of_a_deep_network_is_its_last_layer():
    params = {f"dense_{i}": {"bias": np.ones(1) * i} for i in range(12)}
    trained, extra = dense_scores.split(params, "readout")
    assert list(trained) == ["dense_11"] and trained["dense_11"]["bias"] == 0
    assert {name: layer["bias"] for name, layer in extra.items()} == {
        f"dense_{i}": i for i in range(11)
    }


# --- whole rows -----------------------------------------------------------------------------------


def test_row_runs_and_draws(tmp_path):
    assert main(["--config=configs/kernels.py:te_rich,smoke", f"--workdir={tmp_path}"]) == 0
    drawn = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert drawn == {
        f"{name}_{part}" for name in ("accuracy", "signatures") for part in ("mse", "logistic")
    }
    assert (tmp_path / "logistic" / "checkpoints").exists()
    metrics = read_json(tmp_path / "results.json")["metrics"]
    accuracy = metrics["logistic/te_2_2, sigma 1: accuracy"]["values"]
    opened = cgjax.load(tmp_path, "logistic/te_2_2/1")
    task = tasks.make("te_2_2")
    encoded = inputs.one_hot(task.x, task.sizes).astype(np.float32)
    for seed in (0, 1):
        f = opened.predict(jax.tree.map(lambda leaf, i=seed: leaf[i], opened.params), encoded)
        new = ~task.is_train
        assert np.mean(np.sign(f[new]) == task.y[new]) == pytest.approx(accuracy[seed])
    with pytest.raises(BadInput, match="logistic/te_2_2/1e-06, logistic/te_2_2/1, mse/"):
        cgjax.load(tmp_path)


@pytest.mark.slow  # 11 s: figures of tasks; one is drawn by the row's run
@pytest.mark.parametrize("kind, single", [("addition", False), ("cd", True)])
def test_every_kind_of_task_is_drawn(kind, single, tmp_path):
    names = ("addition_both", "addition_interpolation") if kind == "addition" else ("cd_2", "cd_3")
    all_arrays = {"parts": np.array(["depth_1", "depth_2"] if single else [""])}
    for depth, part in enumerate(all_arrays["parts"], start=1):
        settings = config(
            "addition_rich",
            data__tasks=names,
            model__depth=depth,
            optim__lrs="(1.0,)",
            model__scales="(0.1,)" if single else "(1e-06, 1.0)",
            train__seeds=(0, 1),
            eval__frozen=not single,
        )
        sweep = a_sweep(names, (0, 0.1, 0.3, 1) if kind == "cd" else (0.1, 0.4, 1), settings)
        _, arrays = dense_scores.measure(settings, sweep)
        all_arrays |= {f"{part}/{key}" if part else key: value for key, value in arrays.items()}
    figures.draw(all_arrays, tmp_path)
    drawn = {path.stem for path in tmp_path.glob("*.png")}
    wanted = {"addition": "items slopes similarity predicted frozen", "cd": "types shortcut"}
    assert drawn == set(wanted[kind].split())
    (group,) = figures.groups(all_arrays, kind)
    assert group.axis == ("hidden layers" if single else "initial scale")
    assert group.ticks == (("1", "2") if single else ("1e-06", "1"))


@pytest.mark.parametrize("size", configs.SIZES)
def test_parts_of_every_row_are_whole(size):
    module = configs.load_file("configs/kernels.py")
    for row, (_, study, _) in module.ROWS.items():
        if study == "dense":
            config = module.get_config(f"{row},{size}")
            configs.check_values(config)
            dense_scores.check(config)


def test_networks_that_do_not_converge_are_left_out(equivalence, capsys):
    settings, sweep = equivalence
    loss = sweep.train_loss + np.array([0, 1.0])[:, None, None]
    metrics, arrays = dense_scores.measure(settings, sweep._replace(train_loss=loss))
    np.testing.assert_array_equal(metrics["te_2_2: accuracy"][1], [0])
    assert "te_2_2: 1 of 2 networks did not converge: left out" in capsys.readouterr().out
    metrics, _ = dense_scores.measure(settings, sweep._replace(train_loss=loss + 1))
    assert not metrics
