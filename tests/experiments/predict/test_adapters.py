"""Every block's program has the fields that predictors read; programs are traced, not trained."""

import jax
import ml_collections
import numpy as np
import pytest

from cgjax import config as configs
from cgjax import report
from cgjax.config import parts
from cgjax.core.errors import BadInput
from cgjax.data import sources
from cgjax.experiments.predict import adapters, run
from cgjax.experiments.predict.adapters import bumps, kernels, resistance, sprites
from cgjax.experiments.predict.rules import held_out
from cgjax.main import main

# A row of each family at its own smoke size.
SMALL = {
    "sprites": ("sprites:orthogonal_compositional,smoke", ("data.image_size=16",)),
    "kernels": ("kernels:addition_rich,smoke",
                ("data.tasks=cd_1", "model.scales=(1.0,0.1)", "optim.lrs=(0.01,0.01)")),
    "bumps": ("bumps:phase,smoke", (
        "model.name=mlp", "data.encoding=onehot", "data.regions=donut_2_5", "eval.layers=false")),
    "resistance": ("resistance:plane,smoke", (
        "data.settings=A", "model.heads=2", "eval.at=()", "eval.keep=()")),
    "subnetworks": ("subnetworks:joint,smoke", ("data.held_out=combinations",)),
    "digits": ("resistance:mnist,smoke", ("data.widths=(2,3)",)),
    "scan": ("resistance:scan,smoke", ("data.settings=A",)),
    "images": ("kernels:cd_mnist,smoke", ("data.tasks=cd_1",)),
}  # fmt: skip
# Whose data take seconds to draw.
SLOW = ("sprites", "resistance", "subnetworks", "digits", "scan", "images")
FAMILIES = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SMALL]


def config(row, changes):
    return ml_collections.ConfigDict(
        {
            "pair": {"row": row, "changes": changes},
            "train": {"seeds": (0, 1)},
            "eval": {"n_train": 40, "n_new": 8, "iterations": 2},
        }
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_a_program_has_what_predictors_ask_for(family):
    part = config(*SMALL[family])
    program = adapters.build(part, adapters.settings_of(part))
    replicas = {k: np.asarray(v) for k, v in program.experiment.replicas.items()}
    first = {name: values[0] for name, values in replicas.items()}
    params, extra = jax.eval_shape(program.experiment.init, jax.random.key(0), first)
    params = program.join(params, extra)
    subjects = program.make().subjects
    rows = [row for subject in subjects for row in subject.rows]
    assert sorted(rows) == list(range(len(replicas["seed"])))  # every replica is one pair's seed
    for subject in subjects:
        assert [replicas["seed"][row] for row in subject.rows] == [0, 1]
        assert len(subject.data) == 2 and not {"/", " "} & set(subject.task + subject.model)
        data = subject.data[0]
        known, asked = ({tuple(row) for row in rows} for rows in (data.factors, data.asked))
        assert known and asked and not known & asked
        for x, y in ((data.x, data.y), (data.x_new, data.y_new)):
            assert jax.eval_shape(subject.f, params, x).shape == y.shape
            assert subject.score(y, y) == pytest.approx(1, abs=1e-5)  # the correct outputs
        outputs = jax.eval_shape(subject.f, params, data.inputs)
        assert len(outputs) == len(data.factors) == len(data.targets)
        assert jax.eval_shape(subject.layer, params, data.inputs).shape[0] == len(data.factors)
        if not isinstance(subject.parts, str):
            shape = jax.eval_shape(subject.f, params, data.x)
            read = jax.eval_shape(subject.parts.read, shape)
            assert np.shape(subject.parts.outputs) == read.shape[1:]
            assert np.shape(subject.parts.inputs) in (data.x.shape[1:], data.x.shape)


@pytest.mark.parametrize("size", ["default", "paper"])
def test_penalties_of_bumps_have_the_same_number_of_weights(size):
    for _, part in parts(configs.load(f"predict:demo,{size}", {})):
        adapters.settings_of(part)
    wrong = config("bumps:B8,smoke", ("reg.nuclear=(0.0,0.1,0.2,0.3,0.4)",))
    with pytest.raises(BadInput, match="the same number of weights"):
        adapters.settings_of(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["demo", "later"])
def test_the_list_of_pairs_is_that_of_the_full_size(row):
    """Pairs whose data set or weights are not here cannot be compared."""
    names, absent = [], set()
    for name, part in parts(configs.load(f"predict:{row},paper", {})):
        part.train.seeds = (0,)
        try:
            settings = adapters.settings_of(part)
            program = adapters.build(part, settings)
            subjects = program.make().subjects
        except BadInput:
            absent.add({"minilm": "language"}.get(name.split("_")[0], name.split("_")[0]))
            continue
        block = program.block or settings.family
        names += [f"{block}/{subject.task}/{subject.model}" for subject in subjects]
    listed = run.NAMES.read_text().split()
    blocks = {name.partition("/")[0] for name in names}
    assert sorted(names) == [name for name in listed if name.partition("/")[0] in blocks]
    assert absent <= {"digits", "images", "language"} and (row == "later" or not absent)


def test_later_pairs_do_not_change_which_of_the_first_are_held_out():
    """Their blocks are new, so every old block has the names that it had when it was recorded."""
    (record,) = (entry for entry in report.entries("predict") if entry["row"] == "demo")
    first, listed = record["pairs"], run.NAMES.read_text().split()
    blocks = {name.partition("/")[0] for name in first}
    assert {name for name in listed if name.partition("/")[0] in blocks} == set(first)
    drawn = set().union(*(held_out(n for n in first if n.startswith(f"{b}/")) for b in blocks))
    assert drawn == {name for name, pair in first.items() if pair["held_out"]}


def test_data_sets_and_weights_that_are_absent_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "is_here", lambda name: False)
    later = configs.load("predict:later,paper", {})
    monkeypatch.setattr(adapters, "build", lambda *arguments: pytest.fail("a program is built"))
    with pytest.raises(BadInput, match="row=resistance:mnist: it needs the data set mnist"):
        run.run(later, tmp_path)
    assert not list(tmp_path.iterdir())  # nothing is trained before


def test_supports_of_sprites():
    known = sprites.supports()
    assert len(known) == 8
    for mask in known.values():
        assert mask.any(axis=0).all() and mask.any(axis=1).all()  # every value is known somewhere
        assert not mask.all()


def test_fields_stay_open_in_the_hole_and_profiles_do_not():
    """A field is unknown where no training image lights it; a profile is lit elsewhere."""
    row, changes = SMALL["bumps"]

    def left_open(*more):
        names = {change.partition("=")[0] for change in more}
        kept = [change for change in changes if change.partition("=")[0] not in names]
        settings = adapters.settings_of(config(row, (*more[:1], *kept, *more[1:])))
        shown = bumps.sets.make(settings)
        cell = bumps.training.cells(settings, shown.axes)[0]
        seed_set = shown.of(0, cell.combination)
        measure = bumps.composition_of(settings, seed_set, shown)
        part = config(row, changes)
        part.eval.n_train = 1000
        images = np.zeros((len(shown.codes), 1))
        return measure and measure(bumps._data(part, shown, seed_set, shown.codes, images))

    bare = ("data.stripes=none", "data.copies=0", "data.sigmas=0.3")
    assert left_open("model.name=mlp", *bare) is None  # an MLP has no fields
    fields = left_open("model.name=product", *bare)
    assert fields > 0.2
    assert left_open("model.name=product", "model.product.stripes=true", *bare) < fields / 5
    # With stripes, the blank image is not the product of two absent factors' fields.
    striped = ("data.stripes=null_stripe", "data.copies=1")
    assert left_open("model.name=product", *striped) is None


def test_context_says_which_feature_is_redundant():
    settings = adapters.settings_of(config(*SMALL["kernels"]))
    (task,) = kernels.dense.members(settings)
    rows = np.flatnonzero(task.is_train)
    components = np.repeat(np.arange(3), task.sizes)
    labels = kernels.needed(task, rows, components).inputs
    assert labels.shape == (len(rows), 14)
    first, second = (labels[task.x[rows, 0] == c] for c in (0, 1))
    assert (first == [0] * 8 + [1] * 6).all() and (second == [0] * 2 + [1] * 6 + [0] * 6).all()


@pytest.mark.slow
def test_towers_stand_side_by_side():
    row, changes = SMALL["resistance"]
    part = config(row, ("data.settings=A", "model.towers=true", *changes[2:]))
    settings = adapters.settings_of(part)
    net = resistance.plane.network(settings)
    params = net.init(jax.random.key(0), np.zeros((1, 2)))["params"]
    x = np.array([[0.5, -0.5], [0.5, 0.3], [-0.2, -0.5]], np.float32)
    activations = np.asarray(resistance.hidden(settings, params, x))
    half = activations.shape[1] // 2
    assert half == settings.model.width
    np.testing.assert_array_equal(activations[0, :half], activations[1, :half])  # the same X_1
    np.testing.assert_array_equal(activations[0, half:], activations[2, half:])  # the same X_2


@pytest.mark.parametrize(
    "row, changes, words",
    [
        ("support:demo,smoke", (), "not a row of a family with pairs"),
        ("bumps:demo,smoke", (), "several programs"),
        ("subnetworks:joint,smoke", (), "holds something out"),
        ("resistance:mnist,smoke", (), "holds labels out"),
        ("kernels:addition_mnist,smoke", ("data.distances=(0,5)",), "one data.distances"),
    ],
)
def test_rows_without_pairs_are_refused(row, changes, words):
    part = config(row, changes)
    with pytest.raises(BadInput, match=words):
        adapters.build(part, adapters.settings_of(part))


@pytest.mark.usefixtures("one_device")
def test_a_dry_run_makes_no_data(monkeypatch, capsys):
    """Sizes of training are known without data, which take a minute to draw for all programs."""

    def refuse(*arguments, **options):
        pytest.fail("data are made")

    monkeypatch.setattr(sprites.scenes, "render", refuse)
    monkeypatch.setattr(resistance.plane, "draw_sets", refuse)
    for adapter in (sprites, kernels, resistance):
        monkeypatch.setattr(adapter, "Data", refuse)
    assert main(["--config=predict", "--dry_run"]) == 0
    said = capsys.readouterr().out
    for line in (
        "sprites_compositional: 108,928 parameters x 24 replicas, 1,500 steps, state 31.4 MB",
        "kernels_context: 3,201 parameters x 18 replicas, 4,000 steps, state 0.5 MB",
        "plane_plain: 186 parameters x 18 replicas, 5,000 steps, state 0.0 MB",
    ):
        assert f"\n{line}\n" in said


@pytest.mark.usefixtures("one_device")
def test_a_dry_run_needs_no_data_set(monkeypatch, capsys):
    """Digits and images are read when they are trained on; the plan names those that are absent."""

    def refuse(*arguments, **options):
        pytest.fail("a data set is read")

    monkeypatch.setattr(sources, "is_here", lambda name: False)
    for reads in ("load", "synthetic"):
        monkeypatch.setattr(sources, reads, refuse)
    names = ("digits_deep", "images_cd_1_20")
    command = ["--config=predict:later,paper", f"--parts={','.join(names)}", "--dry_run"]
    assert main(command) == 0
    said = capsys.readouterr().out
    for name in names:
        (line,) = (line for line in said.splitlines() if line.startswith(f"{name}: "))
        assert " parameters x " in line and line.endswith("set mnist, which is not here")
