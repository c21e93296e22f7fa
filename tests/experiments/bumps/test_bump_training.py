"""Training sets, networks as replicas, their analyses; failure and remedy on small images."""

import itertools
import json
import pathlib

import jax
import numpy as np
import pytest

import cgjax
from cgjax import config as configs
from cgjax.analysis import factorization, machines
from cgjax.core import program
from cgjax.core.errors import BadInput
from cgjax.data import arrays
from cgjax.experiments.bumps import regions, run, scores, sets, training
from cgjax.experiments.bumps.studies import analyses, decoders

pytestmark = pytest.mark.usefixtures("one_device")
VALUES = json.loads(
    (pathlib.Path(__file__).parents[2] / "golden" / "bumps" / "values.json").read_text()
)


def part(row="B1", name="", **changes):
    """The settings of one part, at the published size, with changes by dotted name."""
    config = configs.load(f"bumps:{row},paper" if row != "demo" else "bumps")
    config = dict(configs.parts(config))[name or configs.parts(config)[0][0]]
    with config.unlocked():
        config.update_from_flattened_dict(changes)
    return config


# --- training sets --------------------------------------------------------------------------------


def test_sets_are_the_published_ones():
    """Number of trained images of each set, and of pixels that no training image lights."""
    table = sets.make(part("table", "mlp"))
    for region, n_id, n_ood, dark in (
        ("donut_6_22", 495, 289, VALUES["pixels_never_lit_above_0.05"]),
        ("corner_14", 588, 196, 144),
        ("cross_11_17", 484, 300, 112),
    ):
        alone, striped = (table.of(0, (region, copies, 1.0)) for copies in (0, 1))
        assert (alone.is_id.sum(), alone.is_ood.sum(), len(alone.rows)) == (n_id, n_ood, n_id)
        assert sets.n_never_lit(table, alone) == dark
        assert len(striped.rows) == n_id + 2 * 28 + 1 and sets.n_never_lit(table, striped) == 0
        # Stripes come on top of the same bumps.
        np.testing.assert_array_equal(striped.rows[:n_id], alone.rows)
    canvas = sets.make(part("B9", "canvas_crop", **{"data.n_samples": 0}))
    canvas_set = next(iter(canvas.sets.values()))
    n_shown = canvas.labels.shown[canvas_set.rows].sum(axis=1)
    assert [int(np.sum(n_shown == n)) for n in (2, 1, 0)] == [495, 672, 144]
    assert canvas.codes.shape[1] == 80 and np.all(canvas.xy.max(axis=0) == 27)


def test_shares_are_nested_and_drawn_anew_for_each_seed():
    shown = sets.make(part("percolation", "middle"))
    region, shares = shown.axes["region"][0], shown.axes["share"]
    rows = {
        (seed, share): set(shown.of(seed, (region, 1, share)).rows.tolist())
        for seed, share in itertools.product((0, 1), shares)
    }
    for small, large in itertools.pairwise(shares):
        assert rows[0, small] < rows[0, large]
    assert rows[0, shares[3]] != rows[1, shares[3]] and rows[0, 1.0] == rows[1, 1.0]
    drawn = sets.make(part("B1", "mlp_bump"))
    one = drawn.of(0, ("donut_6_22", 0, 1.0))
    assert len(one.rows) == 2000 and drawn.of(1, ("donut_6_22", 0, 1.0)) is one
    assert not one.is_ood[one.rows].any()


def test_bumps_by_number_are_anywhere_outside_the_hole():
    """Hole 6 of 12: grid points 3 to 8 are held out, trained centres are outside 2.5 to 8.5."""
    shown = sets.make(part("needed", "n_12"))
    for seed, copies in itertools.product((0, 1), (0, 1)):
        few, many = (shown.of(seed, (copies, number)) for number in (9, 6561))
        assert len(few.rows) == 9 + 25 * copies and set(few.rows) < set(many.rows)
        xy = shown.labels.xy[many.rows[:6561]]
        assert not np.any(np.all((xy > 2.5) & (xy < 8.5), axis=1)) and len(np.unique(xy)) > 13_000
        assert xy.min() >= -0.5 and xy.max() < 11.5
        assert np.all((shown.xy[few.is_ood] >= 3) & (shown.xy[few.is_ood] <= 8))
        assert few.is_ood.sum() == 36 and not np.any(few.is_id & few.is_ood)
    first, second = (shown.of(seed, (0, 9)).rows for seed in (0, 1))
    assert not set(first) & set(second)


def test_turned_axes_turn_images_and_targets():
    config = part("flatness", "angle_45")
    shown = sets.make(config)
    brightest = np.argmax(shown.truth.reshape(784, -1), axis=1)
    places = np.stack([brightest % 28, brightest // 28], axis=1)
    assert np.abs(places - shown.place).max() <= 0.5 + 1e-6
    # Along x, the centre moves along the diagonal.
    step = shown.place[14 * 28 + 15] - shown.place[14 * 28 + 14]
    np.testing.assert_allclose(step, 0.7 / np.sqrt(2), atol=1e-6)
    # The field of an oblique stripe is flat along the factor's axis and far from rank one.
    rows, columns = np.indices((28, 28)) - 13.5
    oblique = np.exp(-(((columns + rows) / np.sqrt(2) - np.arange(-2, 2)[:, None, None]) ** 2) / 2)
    fields = [oblique, np.flip(oblique, axis=-1)]
    shares = training.energy_shares(fields, training.null_functions(28, 45.0))
    assert shares["flat_share"] > 0.999 and shares["rank_one_share"] < 0.5


def test_widths_are_a_third_factor():
    shown = sets.make(part("three", "mlp"))
    assert shown.codes.shape[1] == 2 * 28 + 4 and len(shown.points) == 4 * 784
    wide, donut = (shown.of(0, (f"{name}_6_22", 0, 1.0)) for name in ("wide", "donut"))
    by_width = wide.is_ood.reshape(4, -1).sum(axis=1)
    np.testing.assert_array_equal(by_width, [0, 0, 289, 289])
    assert donut.is_ood.sum() == 4 * 289
    sums = shown.truth.reshape(4, -1).sum(axis=1)
    assert np.all(np.diff(sums) > 0)  # wider spots are brighter in all


def test_continuous_sets_score_their_own_points():
    config = part("B10", "bump_24", **{"train.seeds": (0,), "data.holes": (0.2, 0.5)})
    shown = sets.make(config)
    for hole, train_set in zip((0.2, 0.5), shown.sets.values()):
        side = int(hole * 24)
        inside = np.all(np.abs(shown.xy - 12) <= side / 2, axis=1)
        assert np.all(inside[train_set.is_ood]) and not np.any(inside[train_set.rows])
        assert (len(train_set.rows), train_set.is_ood.sum()) == (
            1000 * (24 - side) ** 2 // 24**2,
            1000 * side**2 // 24**2,
        )
        np.testing.assert_array_equal(np.flatnonzero(train_set.is_id), train_set.rows)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"data.regions": ("wide_6_22",)}, "several widths"),
        ({"data.margin": 6}, "a canvas has a margin"),
        ({"data.copies": (1,)}, "stripes are shown once"),
        ({"data.stripes": "null_stripe", "data.copies": (1,), "data.encoding": "ramp"}, "absent"),
        ({"data.regions": ("donut_6_40",)}, "donut"),
        ({"data.degrees": 30.0}, "outside the image"),
        ({"data.spacing": 0.5, "data.pixel_grid": "stretched"}, "pixel_grid=integer"),
        ({"model.name": "embed"}, "no sizes"),
    ],
)
def test_contradictions_are_refused(changes, words):
    config = part("B1", "mlp_bump", **changes)
    with pytest.raises(BadInput, match=words):
        sets.check(config)
        training.network(config)


@pytest.mark.parametrize(
    "row, changes, words",
    [
        ("three", {"eval.accounts": True}, "eval.accounts needs one width"),
        ("three", {"eval.centres": 3}, "eval.centres needs one width"),
        ("ranks", {"eval.accounts": True}, "eval.accounts needs held-out points"),
        ("ranks", {"eval.words": True}, "eval.words needs held-out points"),
        ("ranks", {"eval.tangent": True}, "eval.tangent needs held-out points"),
        ("B11", {"eval.centres": 3}, "eval.centres needs a code of real-valued centres"),
    ],
)
def test_analyses_that_cannot_follow_training_are_refused(row, changes, words):
    config = configs.load(f"bumps:{row},smoke")
    with config.unlocked():
        config.update_from_flattened_dict(changes)
    with pytest.raises(BadInput, match=words):
        decoders.check(config)


def test_axes_of_small_images_are_refused():
    with pytest.raises(BadInput, match="more than 8 pixels"):
        training.check(configs.load("bumps:axes_embed,smoke", {"data.n": "8"}))


def test_penalties_are_zipped_and_of_fields():
    for changes, words in (
        ({"reg.null_axis": (0.0, 1.0), "reg.nuclear": (0.0, 0.5, 1.0)}, "long"),
        ({"data.encoding": "bump"}, "onehot"),
        ({"reg.lam_entropy": (0.0, 1.0)}, "embed alone"),
        ({"data.sigmas": (1.0, 2.0)}, "two factors"),
        ({"model.starts_at": "zero"}, "starts at fields"),
        ({"model.product.stripes": True, "model.product.rank": 2}, "rank=0"),
        ({"eval.factors": True}, "only with model.name=mlp"),
    ):
        with pytest.raises(BadInput, match=words):
            training.check(part("demo", "product", **changes))
    alone = part("demo", "product", **{"reg.null_axis": (0.0, 1.0, 2.0)})
    training.check(alone)  # penalties that are 0 throughout follow it
    assert [weights["null_axis"] for weights in training.penalties(alone)] == [0.0, 1.0, 2.0]


def test_every_row_of_a_set_is_seen_once_in_an_epoch():
    """Strata: exact for the largest set, even in the mean for smaller ones."""
    n, batch = 37, 8
    plan = jax.jit(jax.vmap(lambda key: arrays.strata(n, batch)(key, 0)))
    places, mask = plan(jax.random.split(jax.random.key(0), 200))
    places = np.asarray(places).reshape(200, -1)[:, :n]
    assert np.all(np.sort(arrays.row_of(places, n, n), axis=1) == np.arange(n))
    assert np.asarray(mask).reshape(200, -1).sum(axis=1).tolist() == [n] * 200
    rows = np.asarray(arrays.row_of(places, 10, n))
    counts = np.stack([np.bincount(one, minlength=10) for one in rows])
    assert counts.shape == (200, 10) and set(np.unique(counts)) <= {2, 3, 4, 5}
    np.testing.assert_allclose(counts.mean(axis=0), 3.7, atol=0.15)
    with pytest.raises(ValueError, match="32 bits"):
        arrays.parts(50_000)


# --- accounts -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    """A donut on 10 pixels, with stripes and without."""
    changes = {"data.n": 10, "data.regions": ("donut_3_6",)}
    return part("table", "mlp", **changes), sets.make(part("table", "mlp", **changes))


def test_binary_account_is_the_kernels_machine(small):
    _, shown = small
    train_set = shown.of(0, ("donut_3_6", 0, 1.0))
    z, images = shown.xy, shown.truth.reshape(100, -1)
    k = factorization.binary(z, z[train_set.rows], 1.0, 3.0)
    expected = machines.ridge(k[train_set.rows], images[train_set.rows], k, 0.0, outputs=True)
    found = analyses.binary(shown, train_set, 3.0)
    np.testing.assert_allclose(found.reshape(100, -1), expected, atol=1e-9)
    np.testing.assert_allclose(found[train_set.rows], shown.truth[train_set.rows], atol=1e-9)


def test_an_absent_factor_matches_nothing(small):
    """With stripes the kernel is that of the codes; on a canvas every place has a code."""
    _, shown = small
    some = np.array([0, 55, 100, 115, 120])
    x, y = np.split(shown.codes[some].astype(float), 2, axis=1)
    same = x @ x.T + y @ y.T + 2.0 * (x @ x.T) * (y @ y.T)
    np.testing.assert_array_equal(analyses._matches(shown, some, some, 2.0), same)
    canvas = sets.make(part("B9", "canvas_stripe"))
    corner = np.array([0])
    assert not canvas.labels.shown[0].any()
    assert analyses._matches(canvas, corner, corner, 2.0) == 4


def test_accounts_of_known_images(small):
    """The truth composes; the kernel's own images are a sum in the hole."""
    _, shown = small
    train_set = shown.of(0, ("donut_3_6", 0, 1.0))
    kernels = {k2: analyses.binary(shown, train_set, k2) for k2 in (1.0, 10.0)}
    right = analyses.superposition(shown, train_set, shown.truth, kernels)
    assert right["truth R2"] == right["composition R2"] == 1 and right["binary kernel R2"] < 0.5
    summed = analyses.superposition(shown, train_set, kernels[10.0], kernels)
    np.testing.assert_allclose(summed["additive R2"], 1, atol=1e-12)
    assert summed["best k2"] == 10 and summed["binary kernel R2, best k2"] == 1
    fits = analyses.kernel_fits(shown, train_set, shown.truth)
    assert fits["factorised"].total <= fits["radial"].total and fits["binary"].id < 1e-12


def test_layers_of_known_representations(small):
    """Code beside code is additive and flat; images are a product of kernels."""
    _, shown = small
    train_set = shown.of(0, ("donut_3_6", 0, 1.0))
    code, image = (
        values[shown.points].reshape(10, 10, -1) for values in (shown.codes, shown.images)
    )
    of_code, of_image = (analyses.layer_measures(layer, train_set) for layer in (code, image))
    assert set(of_code) == set(analyses.SCORES)
    np.testing.assert_allclose([of_code["additive share"], of_code["F"]], 1, atol=1e-6)
    assert of_code["selective share"] == 1 and of_code["F_K"] < 0.95
    np.testing.assert_allclose([of_image[f"F_K{w}"] for w in ("", " hole", " frame")], 1, atol=1e-6)
    assert of_image["additive share"] < 0.5


def test_start_of_training_and_factorization_in_the_program():
    """The release's start differs by the background alone; F is that of `analysis`."""
    settings = [part("entangling", f"depth_3_{start}") for start in ("zero", "background")]
    networks = [training.network(config) for config in settings]
    assert [model.background for model in networks] == [0, 1]
    assert networks[0] == networks[1].clone(background=0.0)
    activations = np.random.default_rng(0).normal(size=(6, 6, 5)).cumsum(axis=0)
    measured = jax.jit(training._metric)(activations)
    np.testing.assert_allclose(measured, factorization.metric(activations), rtol=1e-5)


# --- failure and remedy ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fields")


@pytest.fixture(scope="module")
def fields(folder):
    """The demonstration on 14 pixels, as the study runs it: (config, metrics, arrays)."""
    changes = {"data.n": 14, "data.regions": ("donut_3_10",), "optim.lr": 0.02}
    changes |= {f"train.{name}": 600 for name in ("steps", "steps_per_call", "log_every")}
    changes |= {"eval.every": 600, "checkpoint.every": 600, "train.seeds": (0,)}
    config = part("demo", "product", **changes)
    shown = sets.make(config)
    trained = training.run(config, shown, folder)
    return config, trained, *decoders.analyse(config, trained)


def test_product_field_composes_with_flatness_only(fields):
    _, _, metrics, arrays = fields
    free, flat = (f"{word}: " for word in ("no penalty", "null_axis 0.001"))
    assert metrics[free + "id nmse"][0] < 0.1 and metrics[free + "ood nmse"][0] > 0.8
    assert metrics[flat + "id nmse"][0] < 0.01 and metrics[flat + "ood nmse"][0] < 0.01
    assert metrics[flat + "ood position accuracy"][0] == 1
    np.testing.assert_allclose(metrics[flat + "ood peak height"][0], 1, atol=0.05)
    assert metrics[flat + "composition R2"][0] > 0.99 > 0.1 > metrics[free + "composition R2"][0]
    assert metrics[flat + "stripe share x"][0] > 0.99
    assert arrays["errors"].shape == (2, 196) and list(arrays["cells"]) == [free[:-2], flat[:-2]]


def test_a_cell_is_read_back(fields, folder):
    config, trained, *_ = fields
    row = config.copy_and_resolve_references()
    with row.unlocked():
        del row.parts  # the fixture trains one of them alone
    (folder / "config.json").write_text(configs.to_json(row))
    loaded = cgjax.load(folder, "null_axis 0.001")
    params = jax.tree.map(lambda leaf: leaf[0], loaded.params)
    points = trained.scenes.points[:5]
    painted = loaded.predict(params, trained.scenes.codes[points])
    np.testing.assert_allclose(painted, trained.painted[0, 1, :5], atol=1e-5)
    with pytest.raises(BadInput, match="holds no penalty, null_axis 0.001: name one"):
        cgjax.load(folder)


@pytest.mark.parametrize("name", ["donut_4_10", "cross_4_10", "corner_8", "whole"])
def test_scores_between_pixels_follow_the_region(monkeypatch, name):
    config = part("long", **{"data.n": 14, "data.regions": (name,), "eval.centres": 9})
    with config.unlocked():
        config.train.seeds = (0,)
    scored = []
    monkeypatch.setattr(training, "paint_all", lambda *args: None)
    monkeypatch.setattr(training, "variables_of", lambda *args: ({}, {}))
    monkeypatch.setattr(scores, "all_scores", lambda *args: scored.append(args[-1]) or {})
    shown = sets.make(config)
    cells = training.cells(config, shown.axes)
    analyses.between_pixels(config, training.Trained(shown, cells, None, {}, {}, {}, {}), 0)
    line = np.linspace(0, 13, 9)
    held_out = regions.holds(name, np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2))
    np.testing.assert_array_equal(scored, [~held_out, held_out])  # ID, then OOD


def test_words_and_layers_of_trained_fields(fields):
    config, trained, *_ = fields
    numbers, saved = analyses.by_layer(config, trained, 1)
    assert saved["scores"].shape == (1, 3, len(analyses.SCORES))
    words, _ = analyses.words(config, trained, 1)
    assert words["compositionality (OOD R2)"][0] > 0.99 and len(words) == len(analyses.WORDS)


def test_seeds_start_alike_in_every_cell(fields):
    """Comparisons are paired: cells of one seed share their initial weights."""
    config, trained, *_ = fields
    found = program.SetUp(training.experiment(config, trained.scenes), config).init()
    a = np.asarray(found.params["a"])
    np.testing.assert_array_equal(a[0], a[1])
    with config.unlocked():
        config.train.seeds = (0, 1)
    replicas = training.replicas(config, trained.scenes)
    config.train.seeds = (0,)
    assert replicas["seed"].tolist() == [0, 0, 1, 1] and replicas["cell"].tolist() == [0, 1, 0, 1]


def test_what_is_not_held_out_has_no_score_in_words():
    """Row `ranks` holds nothing out, so its line must not show an OOD score."""
    settings = part("ranks")
    shown = sets.make(settings)
    cells = training.cells(settings, shown.axes)
    names = ("id_nmse", "ood_nmse", "ood_position_accuracy", "ood_peak_height")
    shape = len(settings.train.seeds), len(cells)
    scores = {name: np.full(shape, np.nan if "ood" in name else 0.5) for name in names}
    trained = training.Trained(shown, cells, None, scores, {}, {}, {})
    line = decoders._line(settings, trained, 0)
    assert "nothing held out" in line and "nan" not in line
    with settings.unlocked():
        settings.optim.stop = 0.6
    assert "never reached" not in decoders._line(settings, trained, 0)
    scores["id_nmse"][1] = np.nan  # a network that diverged
    assert "(1 of 3 seeds never reached the ID criterion)" in decoders._line(settings, trained, 0)


def test_every_row_passes_its_check_in_every_size():
    for row in configs.load_file("bumps").describe_rows():
        for size in configs.SIZES:
            arg = f"{row['name']},{size}" if row["name"] != "demo" else size
            run.check(configs.load(f"bumps:{arg}".removesuffix(",default")))
