"""The sprites run as a whole: seeds, devices, sets, the theory's verdict."""

import functools
import re
import time
import types

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest

from cgjax import config as configs
from cgjax.analysis.ntk import functions
from cgjax.core import parallel, program, signals, train
from cgjax.core.errors import BadInput, Diverged, Preempted
from cgjax.experiments.sprites import audits, models, panels, scenes, sets
from cgjax.experiments.sprites import run as sprites
from cgjax.nets.pallas import upsample, upsample_loss
from cgjax.nets.pallas.upsample import Launch, Tuning


def settings(row="orthogonal_compositional", changes=None, **train_keys):
    config = configs.load(f"configs/sprites.py:{row},smoke", changes or {})
    config.train.update({"steps": 20, "steps_per_call": 20, **train_keys})
    config.eval.every = config.checkpoint.every = 0
    return config


@pytest.fixture
def one_device(monkeypatch):
    """Programs for eight devices take a minute each to compile."""
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])


@pytest.fixture(scope="module")
def data():
    return sets.make(settings())


@pytest.fixture(scope="module")
def small():
    return sets.make(quick())


def losses(config, workdir, data=None):
    experiment = sprites.experiment(
        config, models.build(config, "compositional"), data or sets.make(config)
    )
    return train.fit(experiment, config, workdir)[1]["loss"]


def quick(**train_keys):
    """The decoder that compiles in the shortest time, on small images."""
    changes = {"data.image_size": "16", "model.decoder": "broadcast"}
    return settings(changes=changes | {"model.broadcast.n_layers": "2"}, **train_keys)


@pytest.mark.parametrize("is_one", [True, False])
def test_kernels_of_a_step_run_side_by_side_on_one_gpu_only(monkeypatch, is_one):
    monkeypatch.setattr(parallel, "on_one_nvidia", lambda: is_one)
    config = quick()
    options = sprites.experiment(config, models.build(config, "compositional"), {}).compiler_options
    assert (options is not None) == is_one
    jax.jit(jnp.sin).lower(1.0).compile(options)  # the compiler knows them


@pytest.mark.parametrize("b2", [0.999, 0.98])
def test_what_adamw_keeps_of_squared_gradients(b2):
    config = settings(changes={} if b2 == 0.999 else {"optim.b2": str(b2)})
    experiment = sprites.experiment(config, models.build(config, "compositional"), {})
    tx = experiment.tx({"lr": 1e-3, "lr_final": 1e-5, "weight_decay": 0.0})
    params = {"w": jnp.zeros(2)}
    _, state = tx.update({"w": jnp.array([1.0, 2.0])}, tx.init(params), params)
    squares = next(
        leaf for leaf in jax.tree.leaves(state) if np.ndim(leaf) and leaf[1] > 3 * leaf[0]
    )
    np.testing.assert_allclose(squares, (1 - b2) * np.array([1.0, 4.0]), rtol=1e-5)


@pytest.mark.parametrize("kind, form", [("compositional", "pallas"), ("monolithic", "reordered")])
@pytest.mark.parametrize("products", models.PRODUCTS)
def test_the_digits_of_products_in_training_and_evaluation(monkeypatch, products, kind, form):
    """Traced outside of any context, as the loop's threads do."""
    monkeypatch.setattr(parallel, "on_nvidia", lambda: True)
    changes = {"model.products": products, "model.form": form}
    config = settings("demo", changes | {"model.component.channels": "16"})
    model = models.build(config, kind)
    experiment = sprites.experiment(config, model, sets.shapes(config))
    replica = {"loss_weight": 0.0}
    params = jax.eval_shape(model.init, jax.random.key(0))
    rows = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((8, *leaf.shape[1:]), leaf.dtype),
        sets.shapes(config)["train"],
    )
    batch = {**rows, "mask": jax.ShapeDtypeStruct((8,), jnp.float32)}

    def step(params, batch, data):
        gradient = experiment.grads(experiment.loss, has_aux=True)
        trained = gradient(params, {}, batch, jax.random.key(0), 0, replica)
        return trained, experiment.evaluate(params, {}, data, jax.random.key(0), replica)

    traced = jax.make_jaxpr(step)(params, batch, experiment.data)
    names = [eqn.primitive.name for eqn in functions.equations(traced.jaxpr)]
    assert ("pallas_call" in names) == (form == "pallas")
    are_cut = [functions.is_cut(eqn) for eqn in functions.equations(traced.jaxpr)]
    assert any(are_cut) == (products == "default")


@pytest.mark.slow  # 9 s: core/test_train asks the same of the loop
def test_five_seeds_as_an_axis_equal_single_runs(one_device, small, tmp_path):
    five = losses(quick(seeds=(0, 1, 2, 3, 4)), tmp_path / "five", small)
    for seed in (0, 2, 4):  # both ends and the middle of the axis
        alone = losses(quick(seeds=(seed,)), tmp_path / str(seed), small)
        np.testing.assert_allclose(alone[:, 0], five[:, seed], rtol=1e-4)
    assert np.ptp(five[0]) > 1e-4  # the seeds do differ


@pytest.mark.slow  # 8 s: core/test_train asks the same of the loop
def test_eight_devices_agree_with_one_on_small_images(small, tmp_path, monkeypatch):
    """Mesh (2, 4)."""
    config = quick(seeds=(0, 1))
    eight = losses(config, tmp_path / "eight", small)
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
    np.testing.assert_allclose(eight, losses(config, tmp_path / "one", small), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n_seeds", [1, 2, 8])
def test_eight_devices_agree_with_one(n_seeds, data, tmp_path, monkeypatch):
    """Meshes (1, 8), (2, 4), (8, 1)."""
    config = settings(seeds=tuple(range(n_seeds)))
    eight = losses(config, tmp_path / "eight", data)
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
    np.testing.assert_allclose(eight, losses(config, tmp_path / "one", data), rtol=1e-5)


@pytest.fixture
def rows_seen(monkeypatch):
    """The GPU kernels in interpret mode, which take long to compile; rows of each traced call."""
    tuning = Tuning(*[Launch(tile=8, span=1)] * len(Tuning._fields))
    stack = functools.partial(upsample.upsample_stack, tuning=tuning, interpret=True)
    loss, seen = upsample_loss._loss, []

    def upsample_stack(x, convs):
        seen.append(len(x))
        return stack(x, convs)

    def summed(pixel, tuning, interpret, x, *rest):
        seen.append(x.shape[1])
        return loss(pixel, tuning, interpret, x, *rest)

    monkeypatch.setattr(upsample, "upsample_stack", upsample_stack)
    monkeypatch.setattr(upsample_loss, "_launch", lambda channels: (tuning, True))
    monkeypatch.setattr(upsample_loss, "_loss", summed)
    return seen


def with_kernels():
    changes = {"model.form": "pallas", "model.component.channels": "16", "data.batch": "8"}
    changes |= {"eval.n": "8", "eval.batch": "8"}
    return settings(changes=changes, seeds=(0, 1), steps=3, steps_per_call=3)


@pytest.mark.slow
def test_gpu_kernels_on_eight_devices_agree_with_one(rows_seen, tmp_path, monkeypatch):
    """Mesh (2, 4)."""
    config = with_kernels()
    eight = losses(config, tmp_path / "eight")
    assert set(rows_seen) == {1, 2}  # 2 of 8 on each device; 1 is the initialisation
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
    np.testing.assert_allclose(eight, losses(config, tmp_path / "one"), rtol=1e-5)
    assert set(rows_seen) == {1, 2, 8}


@pytest.mark.slow
@pytest.mark.parametrize("kind, fused", [("compositional", 0), ("compositional", 1), ("shared", 0)])
def test_no_images_travel_between_devices(kind, fused, rows_seen):
    model, place = models.build(with_kernels(), kind), parallel.layout(2, 8)
    rows = jax.NamedSharding(place.mesh, jax.P("seed", "data"))
    params = jax.eval_shape(jax.vmap(model.init), jax.random.split(jax.random.key(0), 2))
    scene = jax.eval_shape(lambda z: scenes.describe(z), jax.ShapeDtypeStruct((2, 8, 10), float))

    def abstract(sharding, leaf):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    params = jax.tree.map(lambda leaf: abstract(place.replicas, leaf), params)
    scene = jax.tree.map(lambda leaf: abstract(rows, leaf), scene)

    def loss(params, scene):
        if fused:
            return models.mean_loss(model, params, scene, jnp.ones(8), "mse")
        images = sets.images(scene, "occlude_step")
        return jnp.mean((model.predict(params, scene["latents"]) - images) ** 2)

    with jax.set_mesh(place.mesh):
        each = jax.jit(jax.vmap(jax.grad(loss), spmd_axis_name="seed"))
        compiled = each.lower(params, scene).compile().as_text()
    n_slots = 2 if kind == "shared" else 1  # which share one call
    assert rows_seen[-1] == 2 * n_slots
    collectives = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"
    assert set(re.findall(rf" ({collectives})(?:-start)?\(", compiled)) == {"all-reduce"}


def test_random_support_scores_the_same_scenes_twice():
    made = sets.make(settings("random_compositional"))
    assert np.array_equal(made["id"]["latents"], made["all"]["latents"])
    assert not np.array_equal(made["train"]["latents"][:20], made["all"]["latents"])


def test_targets_are_made_with_the_data_composition():
    config = settings()
    rows = sets.make(config)["train"]
    hard, soft = (sets.images(rows, name) for name in ("occlude_step", "occlude_sigmoid"))
    assert float(jnp.max(jnp.abs(hard - soft))) > 0.1
    assert np.array_equal(hard, sets.images(rows, "alpha"))


def test_evaluation_sets_that_do_not_divide_are_refused():
    config = settings()
    config.eval.n = 25
    with pytest.raises(BadInput, match="eval.batch=10 must divide eval.n=25"):
        sprites.check(config)


def support(name):
    config = settings()
    return ml_collections.ConfigDict({**config.data.to_dict(), **sets.SUPPORTS[name]})


def test_partners_of_each_kind_of_support():
    values, key = jnp.full((2, 5), 0.5), jax.random.key(0)
    planes = sets.partners(support("orthogonal"), 1, values, key, 7)
    assert planes.shape == (2, 2, 5) and np.array_equal(planes[0, 1], [0.5, 0.5, 0.5, 0, 0.5])
    near = sets.partners(support("diagonal"), 0, values, key, 7)
    assert near.shape == (2, 7, 5) and float(jnp.abs(near - 0.5).max()) <= 2**0.5 * 0.1
    inside = values.at[0, 0].set(0.2)
    gap = sets.partners(support("orthogonal_gap"), 0, inside, key, 7)
    assert np.isnan(gap[0]).all() and not np.isnan(gap[1]).any()


@pytest.mark.parametrize(
    "name, verdict",
    [
        ("orthogonal", "back 100%, front 100% identified"),
        ("orthogonal_star", "back 0%, front 100% identified"),
    ],
)
def test_verdicts(name, verdict):
    assert panels.verdict(support(name)) == verdict


def test_a_value_inside_the_gap_is_not_identified():
    sizes = {"n_values": 8, "n_partners": 1}
    key = jax.random.key(0)
    audit, points = audits.audit(
        support("orthogonal_gap"), "occlude_step", 0, key, only_covered=True, **sizes
    )
    x = np.asarray(points.raw[:, 0])
    inside = (x >= 0.05) & (x <= 0.45)
    assert 0 < inside.sum() < 8 and np.array_equal(audit.passes, ~inside)


@pytest.mark.parametrize(
    "row, changes, is_named",
    [
        ("diagonal", {}, True),
        ("diagonal", {"data.delta": "0.3"}, False),
        ("orthogonal_normal", {"data.std": "0.7"}, False),
        ("gap_0.8", {}, False),
    ],
)
def test_the_figure_of_supports_shows_that_of_the_run(row, changes, is_named):
    config = settings(row, changes)
    assert panels.shown_supports(config) == {config.data.support: config.data}
    config.size = "paper"
    shown = panels.shown_supports(config)
    assert sets.definition(shown[panels.own_support(config, shown)]) == sets.definition(config.data)
    arrays = panels._supports(config, dict.fromkeys(shown, "made up"))
    names = {name.split("/")[1] for name in arrays}
    assert names == set(sets.SUPPORTS) | (set() if is_named else {"this_run"})
    if not is_named:
        points = sets.sample(config.data, jax.random.key(3), 400)
        np.testing.assert_array_equal(arrays["supports/this_run"], points[:, (0, 5)])


@pytest.mark.parametrize("row", ["gap_0.4", "random_compositional"])
def test_shapes_are_those_of_the_sets(row):
    config = settings(row)
    shapes, made = (
        jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), sets_of(config))
        for sets_of in (sets.shapes, sets.make)
    )
    assert shapes == made


@pytest.mark.parametrize(
    "failing", ["compositional", pytest.param("monolithic", marks=pytest.mark.slow)]
)
def test_a_model_that_fails_ends_the_training_beside_it(failing, tmp_path, monkeypatch):
    """Two models of a run train side by side on a CPU; the first is in the main thread."""
    ended = []

    def fit(experiment, config, folder, kind, ahead):
        if kind == failing:
            raise BadInput(f"{kind}: no space left")
        deadline = time.monotonic() + 60
        with signals.patiently() as stop:
            while not stop and time.monotonic() < deadline:
                time.sleep(0.01)
        ended.append(bool(stop))
        raise Preempted("saved")

    monkeypatch.setattr(train, "fit", fit)
    uncompiled = types.SimpleNamespace(compile_all=lambda: None)
    monkeypatch.setattr(program, "traced", lambda *_: uncompiled)
    monkeypatch.setattr(panels.Painter, "compile", lambda _: None)
    config = configs.load("configs/sprites.py:smoke")
    assert len(config.model.kinds) == 2
    with pytest.raises(BadInput, match=f"{failing}: no space left"):
        sprites.run(config, tmp_path, figures=False)
    assert ended == [True]


@pytest.mark.parametrize(
    "backend, first",  # side by side, and one after the other
    [
        ("cpu", "compositional"),
        ("gpu", "monolithic"),
        pytest.param("cpu", "monolithic", marks=pytest.mark.slow),
        pytest.param("gpu", "compositional", marks=pytest.mark.slow),
    ],
)
def test_a_model_beside_one_that_diverges_goes_on(backend, first, tmp_path, monkeypatch):
    """The next start would diverge at the same step, so that the other model would never end."""
    ended = []

    def fit(experiment, config, folder, kind, ahead):
        with signals.patiently() as stop:
            deadline = time.monotonic() + 0.2
            while kind != first and not stop and time.monotonic() < deadline:
                time.sleep(0.01)
            ended.append((kind, bool(stop)))
        raise Diverged(f"no number of {kind} is finite")

    monkeypatch.setattr(train, "fit", fit)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    uncompiled = types.SimpleNamespace(compile_all=lambda: None)
    monkeypatch.setattr(program, "traced", lambda *_: uncompiled)
    monkeypatch.setattr(panels.Painter, "compile", lambda _: None)
    config = configs.load("configs/sprites.py:smoke")
    line = "; ".join(f"{kind}: no number of {kind} is finite" for kind in config.model.kinds)
    with pytest.raises(Diverged, match=f"^{line}$"):
        sprites.run(config, tmp_path, figures=False)
    assert sorted(ended) == [("compositional", False), ("monolithic", False)]


def test_a_run_names_the_models_that_are_trained_beside_one_that_diverged():
    error = sprites._without({"a": Diverged("lower optim.lr")}, ["b"])
    assert str(error) == "a: lower optim.lr; b: trained and saved, cgjax.load reads it"
    assert str(sprites._without({"a": Diverged("lower optim.lr")}, [])) == "lower optim.lr"
