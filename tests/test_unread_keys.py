"""A row declares only keys it reads: one smoke of each kind of study, with a config that records.

Nothing is compiled: programs are traced, their outputs made up. A run ends where its last unread
key is read.
"""

import functools
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy
from recording import nothing_compiles, unread

from cgjax import config as configs
from cgjax import experiments
from cgjax.analysis import dependence
from cgjax.config import declare
from cgjax.config.declare import key
from cgjax.core import checkpoint, train
from cgjax.experiments.bumps import run as bumps
from cgjax.experiments.kernels import dense, images
from cgjax.experiments.resistance import plane, scan
from cgjax.experiments.resistance import run as resistance
from cgjax.experiments.sprites import panels
from cgjax.experiments.sprites import run as sprites
from cgjax.experiments.sprites.support import trained
from cgjax.experiments.subnetworks import run as subnetworks

# family: the runs that together have every key of every row (a row, and choices made in it)
KINDS = {
    "sprites": (
        ("orthogonal_monolithic", {"data.distribution": "normal"}),
        ("orthogonal_rgba_cured", {"optim.loss": "mse_sparsity", "data.support": "diagonal"}),
        (
            "gap_broadcast",
            {
                "model.composition": "annealed_sharpness",
                "eval.curve": "true",
                "model.broadcast.n_layers": "2",
            },
        ),
        ("slots_3", {"model.decoder": "shift", "eval.regions": "true"}),
        ("unsupervised_conv", {}),
    ),
    "support": tuple(
        (row, {})
        for row in ("demo", "partners", "predict", "openness", "design", "relaxed", "bound")
        + ("cut_outs", "unknown_c", "step_c")
    ),
    "vectors": (("regularised_random", {}),),
    "kernels": (
        *((row, {}) for row in ("demo", "addition_rich", "cd_rich")),
        (
            "addition_mnist",
            {"model.convnet.channels": "(4,)", "eval.layers": "(2,)", "eval.layer": "2"},
        ),
        ("salience_mnist", {"model.convnet.channels": "(4,)", "eval.layer": "2"}),
        *((row, {}) for row in configs.load_file("kernels").CLOSED_FORMS),
    ),
    "resistance": (
        ("mnist", {"eval.inputs": "train"}),
        ("scan", {}),
        *((row, {"model.n_hidden": "1"}) for row in ("one_step", "gradients", "landscape")),
        *((row, {"model.n_hidden": "1"}) for row in ("optimisers", "control", "tangent")),
    ),
    "subnetworks": tuple(
        (row, {}) for row in ("tangent", "families", "generalization", "simclr", "vit")
    ),
    "coverage": (("demo", {}),),
    "predict": (("demo", {}),),
    "bumps": tuple(
        (row, {}) for row in ("demo", "B7", "B8", "B10", "B11", "B11_transformer", "B12", "needed")
    ),
}
# Rows all of whose keys are keys of other rows above: a key that nothing reads is seen there too.
SPARED = {"slots_3", "relaxed", "addition_rich", "cd_rich", "mnist", "gradients"}
RUNS = [
    pytest.param(family, row, changes, marks=[pytest.mark.slow] * (row in SPARED), id=row)
    for family, runs in KINDS.items()
    for row, changes in runs
]
# Rows that look at a trained run, and a row that trains one.
TRAINED = {"opacity": "orthogonal_rgba_cured", "certificate": "orthogonal_compositional"}
NEEDS_WEIGHTS = "pretrained"  # a row that reads files of pretrained networks
SIZES = {
    net: [name.split(".")[-1] for name in keys]
    for net, keys in configs.load_file("kernels").SIZES_OF.items()
}


def load(family: str, row: str, changes: dict):
    arg = "smoke" if row == "demo" else f"{row},smoke"
    has_form = row != "gap_broadcast" and not row.startswith("unsupervised")
    quick = family == "sprites" and has_form  # to trace
    return configs.load(f"{family}:{arg}", changes | ({"model.form": "direct"} if quick else {}))


def nothing_kept(config, trained, *rest):
    """Two evaluations of four numbers."""
    return [0, 1], np.zeros((2, len(trained.seeds), len(trained.settings), 4))


@functools.cache
def some_lines(split=scan.jump_split):
    return [part[:200] for part in split()]


@pytest.fixture(autouse=True)
def few_stops(monkeypatch):
    """One device; few data; no figures, audits, derivatives, information and machines.

    They are slow and read no keys.
    """
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
    for name in ("draw_before_training", "draw_parts", "draw_together"):
        monkeypatch.setattr(sprites, name, lambda *arguments: [])
    monkeypatch.setattr(bumps, "draw", lambda *arguments: [])
    monkeypatch.setattr(resistance, "draw", lambda *arguments: [])
    monkeypatch.setattr(subnetworks, "draw", lambda *arguments: [])
    monkeypatch.setattr(panels, "verdict", lambda data: "not asked")
    monkeypatch.setattr(dependence, "gradient_dependence", lambda *_, **options: jnp.ones((2, 2)))
    for name in ("information", "conditional_information"):
        monkeypatch.setattr(dependence, name, lambda *_, **options: jnp.zeros(()))
    monkeypatch.setattr(scan, "jump_split", some_lines)
    monkeypatch.setattr(dense, "KINDS", {})
    # A run that is only traced writes no files that could be read.
    monkeypatch.setattr(checkpoint.Checkpoints, "save", lambda *arguments: None)
    monkeypatch.setattr(plane, "kept", nothing_kept)
    monkeypatch.setattr(images, "of_gram", lambda *arguments: {"salience": np.array(0.5)})


@pytest.mark.parametrize("family, row, changes", RUNS)
def test_every_declared_key_is_read(family, row, changes, tmp_path):
    config = load(family, row, changes)
    with nothing_compiles(), unread(config) as rest:
        experiments.family(config.family).run(config, tmp_path, figures=True)
    assert not rest, f"{row} declares keys that nothing reads: {sorted(rest)}"


@pytest.mark.parametrize("family", KINDS)
def test_spared_rows_have_no_keys_of_their_own(family):
    keys = {
        row: set(declare.declared_keys(load(family, row, changes)))
        for row, changes in KINDS[family]
    }
    assert set().union(*keys.values()) == set().union(
        *(names for row, names in keys.items() if row not in SPARED)
    )


@pytest.mark.parametrize("row", TRAINED)
def test_rows_about_a_trained_run_read_their_keys(row, tmp_path, monkeypatch):
    settings = configs.load(f"sprites:{TRAINED[row]},smoke")
    (tmp_path / "config.json").write_text(configs.to_json(settings))
    opened = checkpoint.Loaded(None, {"w": np.ones((1, 2))}, settings, np.array([12]))
    monkeypatch.setattr(trained.sprites, "load", lambda *arguments: opened)
    for name in ("audit_support", "coverage", "identify"):
        monkeypatch.setattr(trained.theory, name, mock.Mock())
    monkeypatch.setattr(trained, "_component", lambda *arguments: lambda z: jnp.asarray(z)[:, :1])
    monkeypatch.setattr(trained, "certify", lambda verdict, scene, *rest, **kinds: scene(rest[1]))
    config = load("support", row, {"data.run": str(tmp_path)})
    with nothing_compiles(), unread(config) as rest:
        experiments.family("support").run(config, tmp_path, figures=True)
    assert not rest


@pytest.mark.parametrize("net", images.NETS)
def test_every_network_reads_its_sizes(net):
    config = load("kernels", "addition_mnist", {"model.net": net})
    with unread(config) as rest:
        images.network(config)
    sizes = {name for name in declare.keys(config) if name.startswith(f"model.{net}.")}
    assert sizes and not sizes & rest


@pytest.mark.parametrize("family", KINDS)
def test_there_is_a_run_for_every_key_of_every_row(family):
    shown = {
        name
        for row, changes in KINDS[family]
        for name in declare.declared_keys(load(family, row, changes))
    }
    shown |= {f"model.{net}.{name}" for net, names in SIZES.items() for name in names}
    for row in configs.load_file(family).describe_rows():
        if row["name"] not in (*TRAINED, NEEDS_WEIGHTS):
            known = declare.declared_keys(load(family, row["name"], {}))
            assert not set(known) - shown, row["name"]


def test_the_loop_reads_all_that_is_declared_for_it(tmp_path):
    settings = toy.config()
    with nothing_compiles(), unread(settings) as rest:
        train.fit(toy.experiment(settings), settings, tmp_path)
    assert not rest


# --- the recorder itself --------------------------------------------------------------------------


@pytest.fixture
def config():
    settings = declare.base("toy")
    names = ("a.x", "a.y", "b.z", "b.w", "c")
    declare.declare(settings, {name: key(1, "a number") for name in names})
    declare.declare_parts(settings, {"one": {"b": {"z": 2}}, "two": {"b": {"w": 3}}})
    return settings


LEAVES = {"a.x", "a.y", "b.z", "b.w", "c", "parts.one.b.z", "parts.two.b.w"}


@pytest.mark.parametrize(
    "read, names",
    [
        (lambda config: config.a.x, {"a.x"}),
        (lambda config: config.a["y"], {"a.y"}),
        (lambda config: config.a.get("y"), {"a.y"}),
        (lambda config: functools.partial(dict, **config.a), {"a.x", "a.y"}),
        (lambda config: config.copy_and_resolve_references().a.x, {"a.x"}),
        (lambda config: configs.parts(config)[0][1].b.z, {"parts.one.b.z"}),
        (lambda config: configs.parts(config)[1][1].b.z, {"b.z"}),
        (lambda config: config.a, set()),
        (lambda config: "x" in config.a, set()),
        (lambda config: (config.to_dict(), config.a.items(), config.a.keys()), set()),
        (lambda config: (configs.fingerprint(config), configs.keys(config)), set()),
        (lambda config: configs.differences(config, config), set()),
        (lambda config: configs.parts(config), set()),
    ],
)
def test_what_counts_as_reading(read, names, config):
    with unread(config) as rest:
        read(config)
    assert rest == LEAVES - names


def test_the_end_is_noticed(config):
    with unread(config) as rest:
        for _, settings in configs.parts(config):
            assert [settings.a.x, settings.a.y, settings.b.z, settings.b.w, settings.c]
        raise AssertionError("the block went on")
    assert not rest
