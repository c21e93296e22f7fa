"""Bases, masks, ablations and studies on networks small enough to compile in a second."""

import json
import os
import pathlib
import re
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cgjax
from cgjax import config as configs
from cgjax.analysis import masks
from cgjax.core import checkpoint, program, tree
from cgjax.core.errors import BadInput, Preempted
from cgjax.experiments.subnetworks import bases, language, run, stages, study, tasks
from cgjax.experiments.subnetworks.language import tasks as language_tasks
from cgjax.experiments.subnetworks.search import joint, tangent, training
from cgjax.experiments.subnetworks.search import table as tables
from cgjax.main import main
from cgjax.nets.bert import Bert

pytestmark = pytest.mark.usefixtures("one_device")


def part(row, name, changes=None):
    """One part of a row as a separate config."""
    part_config = dict(configs.parts(configs.load(f"subnetworks:{row},smoke")))[name]
    with part_config.unlocked():
        part_config.update_from_flattened_dict(changes or {})
    return part_config


# --- measures -------------------------------------------------------------------------------------


def test_measures_clip_at_chance_and_refuse_masks_that_fail():
    np.testing.assert_allclose(tables.difference([1.0, 0.1], [0.2, 0.25]), [0.75, 0.0])
    quality = tables.quality([0.95, 0.5, 0.9], [0.3, 0.25, 0.9], [0.9, 1.0, 0.3])
    np.testing.assert_allclose(quality, [0.6, -np.inf, -0.6])
    assert tables.chosen(quality) == 0 and tables.chosen([-np.inf, -0.6]) == 1
    assert tables.chosen([-np.inf, -np.inf]) is None  # no valid mask
    assert tables.full_pattern([0.1, 0.1], [-0.1, 0.1]).tolist() == [True, False]


# --- networks of known structure ------------------------------------------------------------------

MANY = {"data.n_eval": 200, "data.n_test": 60}


@pytest.mark.parametrize("arch", ["modular", "template"])
def test_the_measure_finds_modules_where_they_are_and_none_elsewhere(arch):
    n_draws = 4 if arch == "modular" else 0
    config = part("controls", arch, {**MANY, "masks.n_draws": n_draws})
    task = stages.task_of(config)
    found = bases.untrained(config, task)
    np.testing.assert_array_equal(found.scores["compositional"], 1.0)
    table = stages.oracle(config, task, found)
    if arch == "modular":
        np.testing.assert_allclose(table["sub_diff"], 0.75, atol=1e-5)
        np.testing.assert_allclose(table["abl_diff"], -0.75, atol=1e-5)
        assert np.all(table["full_pattern"]) and np.all(table["abl_beyond_random"] < -0.2)
    else:
        np.testing.assert_allclose(table["sub_diff"], 0.0, atol=1e-5)
        np.testing.assert_allclose(table["abl_diff"], 0.0, atol=1e-5)


# --- searches -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def modular():
    config = part("controls", "modular", {"masks.n_draws": 0, "data.n_train": 16})
    task = stages.task_of(config)
    return config, task, bases.untrained(config, task)


@pytest.fixture(scope="module")
def searched(modular, tmp_path_factory):
    """Masks of two bases for both subroutines: (config, task, bases, replicas, what was found)."""
    config, task, base_models = modular
    config = config.copy_and_resolve_references()
    with config.unlocked():
        config.masks.lrs, config.masks.epochs, config.checkpoint.epochs = (0.3,), 3, 1
    replicas = training.product(config, base_models, 2)
    whole = training.run(config, task, base_models, replicas, tmp_path_factory.mktemp("whole"))
    return config, task, base_models, replicas, whole


@pytest.mark.slow
def test_a_search_is_the_same_alone_and_beside_others(searched, tmp_path):
    """Bases and targets are numbers of one program."""
    config, task, base_models, replicas, every = searched
    assert len(replicas["seed"]) == 2 * 2
    chosen = 3
    one = {name: values[chosen : chosen + 1] for name, values in replicas.items()}
    alone = training.run(config, task, base_models, one, tmp_path)
    for a, b in zip(jax.tree.leaves(every.s), jax.tree.leaves(alone.s)):
        np.testing.assert_allclose(a[chosen], b[0], rtol=1e-5, atol=1e-6)
    for name in ("sub/test/own", "abl/val/test_0", "kept"):
        np.testing.assert_allclose(every.scores[name][chosen], alone.scores[name][0])
    assert any(np.any(np.asarray(leaf[0] != leaf[1])) for leaf in jax.tree.leaves(every.s))


def test_masks_by_magnitude_rank_the_weights_of_their_own_base(modular):
    config, task, base_models = modular
    settings = config.copy_and_resolve_references()
    with settings.unlocked():
        settings.masks.family, settings.masks.s0s = "magnitude", (0.1,)
    replicas = training.product(settings, base_models, 1, seeds=(0,))
    search = training.experiment(settings, task, base_models, replicas)
    found, _ = jax.jit(jax.vmap(search.init, (None, 0)))(jax.random.key(0), replicas)
    assert set(replicas["base"].tolist()) == {0, 1}
    for i, base in enumerate(replicas["base"]):
        weights = tree.take(base_models.params, int(base))
        own = masks.magnitude(weights, "kernel", float(replicas["s0"][i]))
        jax.tree.map(np.testing.assert_array_equal, tree.take(found, i), own)
    assert np.any(np.asarray(found["out"]["kernel"][0] != found["out"]["kernel"][-1]))


def test_masks_that_learn_start_without_the_weights_of_the_bases(modular):
    """Arrays that a program closes over are compiled into it."""
    config, task, base_models = modular
    replicas = training.product(config, base_models, 1, seeds=(0,))
    search = training.experiment(config, task, base_models, replicas)
    first = {name: values[0] for name, values in replicas.items()}
    assert not jax.make_jaxpr(search.init)(jax.random.key(0), first).consts


def test_the_kernel_of_a_module_sees_its_own_subroutine(modular):
    """Of a network of two branches, the kernel of each is aligned with its own part first."""
    config, task, found = modular
    base = jax.tree.map(lambda leaf: leaf[0], found.params)
    shown, labels = tangent.inputs(task, 2)
    np.testing.assert_array_equal(labels.sum(axis=1), 2)
    aligned = jax.jit(lambda *arguments: tangent.alignments(task, *arguments))
    for target in range(2):
        mask = language_tasks.oracle(config, base, target)
        on = {name: jnp.ones(()) for name in tree.flat(mask)}
        seen = np.asarray(aligned(base, mask, on, jax.random.key(0), shown, labels))
        branch, rest, _, both = seen[:, target] - seen[:, 1 - target]
        assert branch > 0.1 > both > -0.1 > rest
    with pytest.raises(BadInput, match="eval.n_kernel=1000"):
        tangent.inputs(task, 1000)


def test_a_layer_set_leaves_others_whole(modular):
    config, task, base_models = modular
    like = tree.take(base_models.params, 0)
    on = tasks.layer_sets(task, like, (0, 1))
    assert on["hidden/kernel"].tolist() == [1, 0] and on["out/kernel"].tolist() == [1, 1]
    with config.unlocked():
        config.masks.layers, config.masks.s0s, config.masks.lrs = (0, 1), (0.05,), (1e-2,)
    experiment = training.experiment(
        config, task, base_models, training.product(config, base_models, 2)
    )
    replica = {name: jnp.asarray(values[1]) for name, values in experiment.replicas.items()}
    assert int(replica["layers"]) == 1
    s, _ = experiment.init(jax.random.key(0), replica)
    batch = {
        "data": jax.tree.map(jnp.asarray, experiment.data),
        "indices": jnp.arange(4),
        "key": jax.random.key(1),
        "mask": jnp.ones(4),
    }
    loss = jax.jit(lambda s: experiment.loss(s, {}, batch, jax.random.key(2), 0, replica)[0])
    grads = jax.grad(loss)(s)
    assert float(jnp.abs(grads["hidden"]["kernel"]).max()) == 0
    assert float(jnp.abs(grads["out"]["kernel"]).max()) > 0
    with pytest.raises(BadInput, match="no layer from 2 on"):
        tasks.layer_sets(task, like, (2,))
    with config.unlocked():
        config.masks.layers = (0,)


def test_a_head_at_temperature_one_is_not_annealed():
    scores = {"head": {"kernel": jnp.array([0.3])}, "stem": {"kernel": jnp.array([0.3])}}

    def soft(scores):
        tempered = training.at_temperature_one(scores, {"head/kernel"}, 20.0)
        return masks.soft(tempered, 20.0)

    mask, slope = soft(scores), jax.grad(lambda s: soft(s)["head"]["kernel"][0])(scores)
    np.testing.assert_allclose(mask["head"]["kernel"], jax.nn.sigmoid(0.3), rtol=1e-6)
    np.testing.assert_allclose(mask["stem"]["kernel"], jax.nn.sigmoid(6.0), rtol=1e-6)
    expected = jax.grad(jax.nn.sigmoid)(0.3)
    np.testing.assert_allclose(slope["head"]["kernel"], expected, rtol=1e-6)
    assert training.at_temperature_one(scores, set(), 20.0) is scores
    config = configs.load(
        "subnetworks:number_contact,smoke",
        {"masks.head": "constant", "masks.family": "hard_concrete"},
    )
    with pytest.raises(BadInput, match="masks.head=constant needs masks.family"):
        study.check(config)


def test_random_weights_take_the_configurations_of_trained_ones(modular, monkeypatch, tmp_path):
    config, task, base_models = modular
    config = config.copy_and_resolve_references()
    with config.unlocked():
        config.masks.s0s, config.masks.seeds = (0.05, 0.0), (0, 1)

    def untrained(config, task, base_models, replicas, workdir, name="", ahead=None):
        assert workdir.name == "masks", "no search of its own"
        return training.TrainedMasks(replicas, {}, {}, {})

    monkeypatch.setattr(training, "run", untrained)
    monkeypatch.setattr(tables, "make", lambda found, base_models, n: found.replicas)
    first = stages.registered(config)
    other = first | {"s0": 0.0}
    selection = {(0, 0): other, (0, 1): first, (1, 0): None, (1, 1): other}
    part = stages.masked(config, task, base_models, tmp_path, "", selection)
    assert part.search is None and len(part.registered["s0"]) == 2 * 2 * 2
    pairs = list(zip(*(part.selected[name] for name in ("base", "target", "s0"))))
    assert pairs[::2] == [(0, 0, 0.0), (0, 1, np.float32(0.05)), (1, 1, 0.0)]
    keys = {"masks.s0s": "(0.05,0.0)"}
    config = configs.load("subnetworks:agreement_plural,smoke", keys)
    study.check(config)
    with pytest.raises(BadInput, match="masks.selected_by=scratch is not among the parts"):
        study.check(configs.some_parts(config, "random_weights"))


LANGUAGE = ("agreement_singular", "agreement_plural", "anaphora_singular", "anaphora_plural")
VISION = ("inside_contact", "inside_number", "number_contact")


@pytest.mark.parametrize("row", LANGUAGE + VISION)
def test_random_weights_take_the_configurations_of_their_trained_network(row):
    """In the release they are the same, run by run, for every architecture."""
    settings_of = dict(configs.parts(configs.load(f"subnetworks:{row},paper")))
    controls = [name for name, one in settings_of.items() if one.model.start == "random"]
    assert len(controls) == 2
    for name in controls:
        control = settings_of[name]
        trained = settings_of[study.selected_by(control)]
        assert stages.is_trained(trained) and trained.data.rule == control.data.rule
        model = {key: value for key, value in trained.model.items() if key != "start"}
        assert model == {key: value for key, value in control.model.items() if key != "start"}
        assert trained.masks.layers == control.masks.layers


@pytest.mark.parametrize("row", VISION)
def test_the_wide_network_is_the_same_in_both_of_its_rows(row):
    wide = dict(configs.parts(configs.load("subnetworks:wide,paper")))[row]
    same = dict(configs.parts(configs.load(f"subnetworks:{row},paper")))["wideresnet50"]
    for section in ("data", "model", "optim", "masks", "train", "eval"):
        assert wide[section].to_dict() == same[section].to_dict(), section


@pytest.mark.slow
def test_a_program_traced_before_its_bases_exist_is_that_of_the_masks(monkeypatch, tmp_path):
    config = part("controls", "template")
    task, seeds = stages.task_of(config), np.array(config.train.seeds)
    params = jax.vmap(task.init)(jax.vmap(jax.random.key)(seeds))
    base_models = bases.Bases(params, {"base_seed": seeds}, {}, np.ones(len(seeds), bool))
    traced = []

    def trace(config, task, base_models, replicas, *others):
        search = training.experiment(config, task, base_models, replicas)
        traced.append(program.traced(search, training.in_steps(config, task)))
        return training.TrainedMasks(replicas, {}, {}, {})

    monkeypatch.setattr(training, "run", trace)
    monkeypatch.setattr(tables, "make", lambda found, base_models, n: found.replicas)
    stages.masked(config, task, base_models, tmp_path)
    assert stages.masks_are_known(config)
    traced.append(stages.traced(config)["masks"])
    late, ahead = ([stage.as_text() for stage in one.stages] for one in traced)
    assert late == ahead
    for name, values in traced[0].experiment.replicas.items():
        np.testing.assert_array_equal(values, traced[1].experiment.replicas[name], err_msg=name)


def test_disjoint_masks_share_no_weight():
    keys = jax.random.split(jax.random.key(0), 2)
    scores = [{"w": jax.random.normal(key, (40,))} for key in keys]
    hard = joint.hard(scores)
    assert float(jnp.max(hard[0]["w"] + hard[1]["w"])) == 1.0
    soft = joint.soft(scores, 2000.0)
    np.testing.assert_allclose(soft[0]["w"], hard[0]["w"], atol=1e-3)


# --- studies --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def agreement(tmp_path_factory):
    """A BERT of one layer from base to figures."""
    config = configs.load("subnetworks:objectives,smoke", {"masks.seeds": "0,1"})
    with config.unlocked():
        config.parts = {"target": config.parts.target}
    workdir = tmp_path_factory.mktemp("agreement")
    found = run.run(config, workdir)
    (workdir / "config.json").write_text(configs.to_json(config))
    return config, workdir, found


def test_a_rule_from_base_to_figures(agreement):
    _, workdir, (metrics, arrays, extra) = agreement
    assert len(metrics["target/subject: abl_diff"]["values"]) == 2  # bases
    assert arrays["target/runs/abl_diff"].shape == (2 * 2 * 2,)  # bases, targets, mask seeds
    # After one epoch the masks keep every weight: nothing is tested.
    assert metrics["target/verb: kept"]["values"] == [1, 1]
    assert not [name for name in metrics if "p of" in name]
    drawn = {path.name for path in (workdir / "figures").iterdir()}
    assert drawn == {
        "absolute_abl.png",
        "absolute_sub.png",
        "bases.png",
        "differences.png",
        "heat.png",
        "layers.png",
        "overlap.png",
        "pattern.png",
    }
    assert "target/subject: abl_diff" in extra["headlines"]


def test_a_finished_part_is_read_without_training(agreement, monkeypatch):
    config, workdir, (metrics, _, _) = agreement

    def refuse(*arguments):
        raise AssertionError("compiled")

    monkeypatch.setattr(program.SetUp, "lowered_call", refuse)
    again = run.run(config, workdir, figures=False)[0]
    assert again == metrics


def test_bases_are_read_back(agreement):
    config, workdir, _ = agreement
    loaded = cgjax.load(workdir, part="target")
    task = stages.task_of(configs.parts(config)[0][1])
    rows = jnp.asarray(task.sets.rows["val"]["compositional"])
    inputs = tasks.shown(jax.tree.map(jnp.asarray, task.sets.table), rows)

    @jax.jit
    def kept(params):
        return -jnp.mean(jax.nn.log_softmax(loaded.predict(params, inputs))[:, 3])

    lines = (workdir / "target/base/metrics.jsonl").read_text().splitlines()
    seen = [line["val loss"] for line in map(json.loads, lines) if line["kind"] == "eval"]
    found = [kept(tree.take(loaded.params, i)) for i in range(2)]
    np.testing.assert_allclose(found, np.min(seen, axis=0), rtol=1e-5)


def test_subnetworks_are_read_back(agreement, monkeypatch):
    """Weights of the bases where a score is positive, else 0; bases x mask seeds."""
    config, workdir, _ = agreement
    real, rng, seen = checkpoint.read_trained, np.random.default_rng(0), []

    def some_negative(folder, names, step=None):  # two steps leave every score positive
        scores, extra, steps = real(folder, names, step)
        scores = jax.tree.map(lambda leaf: leaf * rng.choice([-1, 1], leaf.shape), scores)
        seen.append((folder.name, names, tree.flat(scores)))
        return scores, extra, steps

    monkeypatch.setattr(checkpoint, "read_trained", some_negative)
    loaded = cgjax.load(workdir, part="target/verb")
    ((folder, names, scores),) = seen
    places = [tuple(name.split(", ")[:3]) for name in names]
    assert folder == "masks" and places == [
        (f"seed {mask}", f"base_seed {base}", "target 1") for base in (0, 1) for mask in (0, 1)
    ]
    monkeypatch.undo()
    whole = tree.flat(cgjax.load(workdir, part="target").params)
    for name, leaf in tree.flat(loaded.params).items():
        base = np.repeat(whole[name], 2, axis=0)
        np.testing.assert_array_equal(leaf, base * (scores[name] > 0) if name in scores else base)
    task = stages.task_of(configs.parts(config)[0][1])
    rows = jnp.asarray(task.sets.rows["val"]["compositional"])[:1]
    inputs = tasks.shown(jax.tree.map(jnp.asarray, task.sets.table), rows)
    first = tree.take(loaded.params, 0)
    assert jax.eval_shape(loaded.predict, first, inputs).shape == (1, 4)
    with pytest.raises(BadInput, match="holds subject, verb: name one"):
        cgjax.load(workdir, part="target/noun")


def test_failed_bases_are_kept_marked_and_left_out():
    valid = np.array([True, False])
    base_models = bases.Bases({}, {"base_seed": np.array([4, 7])}, {}, valid)
    table = {
        "base": np.array([0, 0, 1]),
        "valid_base": np.array([True, True, False]),
        "abl_diff": np.array([-0.2, -0.4, 0.7]),
    }
    np.testing.assert_allclose(tables.by_base(table, "abl_diff", 2), [-0.3, np.nan])
    assert base_models.numbers["base_seed"].tolist() == [4, 7]


def test_selection_takes_the_best_valid_configuration(modular):
    search = {
        "base": np.array([0, 0, 0, 1]),
        "target": np.zeros(4, int),
        "quality": np.array([-np.inf, 0.1, 0.3, -np.inf]),
        "s0": np.float32([1, 2, 3, 4]),
        "lr": np.ones(4),
        "layers": np.zeros(4, int),
        "penalty": np.zeros(4),
    }
    assert stages.choice(search, (0, 0))["s0"] == 3.0
    assert stages.choice(search, (1, 0)) is None


def test_what_a_part_cannot_be():
    for changes, words in (
        ({"data.tokens": "stems"}, "built for data.tokens=words"),
        ({"data.templates": "simple_reflexives"}, "which is not a template of data.rule"),
    ):
        config = configs.load("subnetworks:controls,smoke", changes)
        with pytest.raises(BadInput, match=words):
            study.check(config)
    config = configs.load("subnetworks:simclr,smoke", {"pretraining.batch": "5000"})
    with pytest.raises(BadInput, match="pretraining.batch=5000 is more than"):
        study.check(config)
    config = configs.load("subnetworks:vit,smoke", {"model.patch": "13"})
    with pytest.raises(BadInput, match="model.patch=13 must divide"):
        study.check(config)
    with pytest.raises(BadInput, match="data.image_size' must be at least 32"):  # of the generator
        configs.load("subnetworks:simclr,smoke", {"data.image_size": "16"})


@pytest.mark.slow
@pytest.mark.parametrize("row", ["families", "joint"])
def test_other_studies_of_a_network_built_by_hand(row, tmp_path):
    changes = {"model.arch": "modular", "masks.n_draws": "0", "train.seeds": "0"}
    if row == "families":
        changes["masks.families"] = "neuron,magnitude"
    config = configs.load(f"subnetworks:{row},smoke", changes)
    metrics, arrays, _ = run.run(config, tmp_path, figures=row == "families")
    if row == "families":
        assert {"families.png", "bases.png"} == {p.name for p in (tmp_path / "figures").iterdir()}
        assert np.allclose(arrays["magnitude/kept"], 0.5, atol=0.01)
        assert len(arrays["neuron/kept"]) == 2 * 2  # targets, penalties
    else:
        # Two disjoint masks together keep at most all weights.
        assert (
            metrics["subject: kept, disjoint"]["ours"] + metrics["verb: kept, disjoint"]["ours"]
            <= 1 + 1e-6
        )


def test_pruning_bakes_a_mask_in(modular, tmp_path):
    config, task, base_models = modular
    with config.unlocked():
        config.masks.s0s, config.masks.lrs, config.masks.layers = (0.05, -0.05), (1e-2,), (0,)
    new = stages.pruned(config, task, base_models, tmp_path)
    before, after = (np.asarray(one.params["hidden"]["kernel"]) for one in (base_models, new))
    assert np.all((after == before) | (after == 0)) and np.any(after != 0)
    assert new.numbers is base_models.numbers and "compositional" in new.scores


def test_the_mean_accuracy_is_also_that_of_the_bases_that_count():
    """The published means leave failed bases out (0.756 of inside-contact); results have both."""
    scores = {"compositional": np.array([1.0, 0.75, 0.99])}
    numbers, valid = {"base_seed": np.arange(3)}, np.array([True, False, True])
    some = study.base_metrics(bases.Bases({}, numbers, scores, valid), ())
    assert some["base: test accuracy"][1] == [0, 1, 2]
    values, seeds = some["base: test accuracy (alive)"]
    assert list(values) == [1.0, 0.99] and list(seeds) == [0, 2]
    every = study.base_metrics(bases.Bases({}, numbers, scores, np.ones(3, bool)), ())
    assert "base: test accuracy (alive)" not in every


def test_a_base_that_only_pruning_repairs_does_not_count(modular, tmp_path):
    """The published means leave out a base of 0.756 that its mask brings to 0.993."""
    config, task, base_models = modular
    failed = base_models._replace(valid=np.arange(len(base_models.valid)) > 0)
    new = stages.pruned(config, task, failed, tmp_path)
    assert new.scores["compositional"][0] >= config.eval.least
    assert not new.valid[0] and new.valid[1:].all()


ROWS = [row["name"] for row in configs.load_file("subnetworks").describe_rows()]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_every_row_runs(row, tmp_path):
    config = configs.load(f"subnetworks:{'' if row == 'demo' else row + ','}smoke")
    study.check(config)
    metrics, arrays, _ = run.run(config, tmp_path)
    assert metrics and len(arrays) and list((tmp_path / "figures").iterdir())


def test_the_readme_masks_linen_and_nnx(tmp_path, monkeypatch):
    import flax.linen as nn
    from flax import nnx

    text = (pathlib.Path(cgjax.__file__).parent / "experiments/subnetworks/README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)
    monkeypatch.chdir(tmp_path)
    net, x = nn.Dense(3), jnp.ones((2, 4))
    model = nnx.Linear(4, 3, rngs=nnx.Rngs(0))
    graph, state = nnx.split(model)
    for f, params in (
        (lambda params, x: net.apply(params, x), net.init(jax.random.key(0), x)),
        (lambda state, x: nnx.merge(graph, state)(x), state),
    ):
        known = {"f": f, "params": params, "batches": [(x, f(params, x))]}
        known["loss"] = lambda outputs, y: jnp.mean((outputs - y) ** 2)
        exec(example.replace("epochs=50", "epochs=2"), known)
        np.testing.assert_array_equal(f(known["subnetwork"], x), f(params, x))
        back = masks.read("subject.npz", params)
        assert jax.tree.structure(back) == jax.tree.structure(known["found"].masks)


@pytest.mark.slow
def test_an_interrupted_search_goes_on_to_the_same_masks(searched, tmp_path, monkeypatch):
    config, task, base_models, replicas, whole = searched
    save = checkpoint.Checkpoints.save

    def stop_after(store, step, *rest):
        save(store, step, *rest)
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Checkpoints, "save", stop_after)
        with pytest.raises(Preempted):
            training.run(config, task, base_models, replicas, tmp_path / "parts")
    again = training.run(config, task, base_models, replicas, tmp_path / "parts")
    for a, b in zip(jax.tree.leaves(whole.s), jax.tree.leaves(again.s)):
        np.testing.assert_array_equal(a, b)
    assert all(np.array_equal(whole.scores[name], again.scores[name]) for name in whole.scores)


def test_trained_bases_are_held_against_random_weights():
    rng = np.random.default_rng(0)

    def table(sub, abl, kept=0.1):
        noise = 0.02 * rng.standard_normal((2, 9))
        return {
            "base": np.repeat(np.arange(3), 3),
            "valid_base": np.ones(9, bool),
            "sub_diff": sub + noise[0],
            "abl_diff": abl + noise[1],
            "kept": np.full(9, kept),
            "p_random": np.ones(9),
            "p_complement": np.ones(9),
        }

    found = tables.against(table(0.5, -0.4), table(0.5, 0.3))
    assert found["p of abl_diff against random weights"] < 1e-6
    assert found["p of sub_diff against random weights"] > 0.01
    assert tables.tests(table(0.5, -0.4))["p of abl_diff"] < 1e-6
    # Masks that keep nothing remove nothing, those that keep all leave nothing: no test of either.
    for kept in (0.0, 1.0):
        empty = table(0.0, -0.13, kept)
        assert not tables.tests(empty)
        assert not tables.against(table(0.5, -0.4), empty)


def test_a_pretrained_start_is_the_same_for_every_base(tmp_path, monkeypatch):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "##s"]
    pieces += [word for word in language.vocabulary("stems") if word not in (*pieces, "##d")]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    net = Bert(vocab=len(pieces), hidden=16, layers=1, heads=1, intermediate=64, positions=20)
    ids = jnp.zeros((1, 4), jnp.int32)
    shapes = jax.eval_shape(net.init, jax.random.key(3), ids, ids)["params"]
    params = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.1), shapes)
    monkeypatch.setattr(language_tasks.pretrained, "minilm", lambda: tmp_path)
    monkeypatch.setattr(
        language_tasks.convert, "bert_from_folder", lambda folder, **fields: (net, params)
    )
    config = part("objectives", "target")
    with config.unlocked():
        config.model.start, config.data.tokens = "pretrained", "wordpiece"
    assert not stages.missing(config)
    task = stages.task_of(config)
    for a, b in zip(jax.tree.leaves(task.init(jax.random.key(0))), jax.tree.leaves(params)):
        np.testing.assert_array_equal(a, b)
    rows = task.sets.rows["val"]["compositional"][:1]
    first = tasks.shown(jax.tree.map(jnp.asarray, task.sets.table), jnp.asarray(rows))
    assert int(first["ids"][0, 0]) == 2 and 1 not in task.sets.table["ids"]  # [CLS]; all known
    assert jax.eval_shape(task.embed, params, first).shape == (4, 16)
    with config.unlocked():
        config.model.layers = 2
    with pytest.raises(BadInput, match="model.layers=1"):
        stages.task_of(config)


def test_a_dry_run_speaks_of_all_that_is_trained(capsys):
    """Random weights stay as they are; their masks are trained."""
    row = "--config=subnetworks:agreement_singular,smoke"
    assert main([row, "--dry_run"]) == 0
    said = capsys.readouterr().out
    assert "nothing is trained" not in said
    assert "random_weights: weights as they are built or drawn; masks of them are trained" in said
    assert re.search("scratch: .* parameters .*; masks of them are trained after that", said)


def test_a_part_without_its_weights_is_left_out(monkeypatch, capsys, tmp_path):
    def absent():
        raise BadInput("not installed")

    monkeypatch.setattr(stages.pretrained, "minilm", absent)
    config = configs.load("subnetworks:agreement_singular,fast")
    with config.unlocked():
        config.parts = {"pretrained": config.parts.pretrained}
    assert study.plan(config) == {"pretrained": "LEFT OUT: not installed"}
    assert set(study.study(config, tmp_path)[1]) == {"parts"}
    assert "part 'pretrained' is LEFT OUT: not installed" in capsys.readouterr().out
