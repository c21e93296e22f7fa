"""Nothing that is recorded may be false: what is read back, damaged, or asked for in part."""

import json
import pathlib
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
import toy

from cgjax.core import checkpoint, metrics, optim, program, train
from cgjax.core.errors import BadInput

pytestmark = pytest.mark.usefixtures("one_device")


def run(settings, workdir, **options):
    return train.fit(toy.experiment(settings, **options), settings, workdir)


def snapshot(folder: pathlib.Path) -> dict:
    """Every file with its content and time: what reading must leave alone."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Three seeds, trained to the end: (folder, state, history)."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "config.json").write_text("{}")
    return folder, *run(toy.config(seeds=(0, 1, 2)), folder)


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of it to be damaged."""
    shutil.copytree(finished[0], tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def stopped(finished, tmp_path_factory):
    """The same as a kill after step 8 leaves it: without its last checkpoint."""
    folder = shutil.copytree(finished[0], tmp_path_factory.mktemp("stopped") / "run")
    for path in (folder / "checkpoints/seeds_0-2").iterdir():
        if path.name.isdigit() and path.name != "8":
            shutil.rmtree(path)
    return folder


# --- loading reads --------------------------------------------------------------------------------


def test_reading_a_finished_run_writes_nothing(finished):
    folder, state, _ = finished
    before = snapshot(folder)
    params, extra, steps = checkpoint.read_trained(folder, ["seed 2", "seed 0"])
    assert snapshot(folder) == before
    np.testing.assert_array_equal(params["w"], np.asarray(state.params["w"])[[2, 0]])
    assert list(extra["count"]) == [12, 12] and list(steps) == [12, 12]


def test_an_unfinished_run_is_refused_with_its_step_or_opened_as_it_is(stopped):
    before = snapshot(stopped)
    with pytest.raises(BadInput, match='step 8 of 12; .*step="latest"'):
        checkpoint.read_trained(stopped, ["seed 0"])
    _, _, steps = checkpoint.read_trained(stopped, ["seed 0"], step="latest")
    assert list(steps) == [8] and snapshot(stopped) == before
    with pytest.raises(BadInput, match="holds no step 4"):
        checkpoint.read_trained(stopped, ["seed 0"], step=4)


def test_reading_what_was_never_trained(finished, tmp_path):
    with pytest.raises(BadInput, match="has not trained seed 7"):
        checkpoint.read_trained(finished[0], ["seed 0", "seed 7"])
    with pytest.raises(BadInput, match="has not trained"):
        checkpoint.read_trained(tmp_path, ["seed 0"])


def test_a_checkpoint_from_another_folder_is_not_read(copy, tmp_path):
    """Such as of another part with the same seeds; a moved run is read, and so are old ones."""
    checkpoint.read_trained(copy, ["seed 0"])
    part = tmp_path / "another" / "part"
    shutil.copytree(copy / "checkpoints", part / "checkpoints")
    (tmp_path / "another" / "config.json").write_text("{}")
    for read in (checkpoint.read_trained, lambda *a: checkpoint.last_scores(*a, "mse")):
        with pytest.raises(BadInput, match="of the run's folder '.', not of 'part': restore"):
            read(part, ["seed 0"])
    meta = part / "checkpoints/seeds_0-2/12/meta/metadata"
    old = {k: v for k, v in json.loads(meta.read_text()).items() if k not in ("folder", "crc")}
    meta.write_text(json.dumps(old))
    checkpoint.read_trained(part, ["seed 0"])


def test_a_checkpoint_of_other_replicas_is_not_read(copy):
    path = copy / "checkpoints/seeds_0-2.json"
    path.write_text(path.read_text().replace("seed 2", "seed 3"))
    with pytest.raises(BadInput, match="not of part '', seed 0 ...: restore a copy"):
        checkpoint.read_trained(copy, ["seed 3"])


# --- damage, and what is none ---------------------------------------------------------------------


@pytest.mark.parametrize("error", [MemoryError("out of memory"), RuntimeError("device lost")])
def test_an_error_that_is_no_damage_propagates_and_renames_nothing(error, copy, monkeypatch):
    before = snapshot(copy)

    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(ocp.PyTreeCheckpointHandler, "restore", fail)
    with pytest.raises(type(error)):
        run(toy.config(seeds=(0, 1, 2)), copy)
    assert snapshot(copy) == before


def test_another_shape_is_bad_input_and_renames_nothing(copy):
    before = snapshot(copy)
    settings = toy.config(seeds=(0, 1, 2))

    def wide(key, replica):
        return {"w": jnp.zeros((4,))}, {"count": jnp.zeros(())}

    with pytest.raises(BadInput, match="another model .*new --workdir"):
        run(settings, copy, init=wide)
    assert snapshot(copy) == before


@pytest.mark.parametrize("change", [{"step": 8}, {"finished": False}, {"steps": 99}])
def test_meta_that_contradicts_the_state_is_damage(change, copy, caplog):
    path = copy / "checkpoints/seeds_0-2/12/meta/metadata"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    run(toy.config(seeds=(0, 1, 2)), copy)
    assert "checkpoint 12 is damaged (its meta gives" in caplog.text


def test_a_checkpoint_of_another_part_is_refused(copy):
    settings = toy.config(seeds=(0, 1, 2))
    with pytest.raises(BadInput, match="of part ''"):
        train.fit(toy.experiment(settings), settings, copy, "monolithic")


@pytest.mark.parametrize("damage", ["flip", "drop", "drop last", "swap", "remove", "binary"])
def test_a_changed_log_is_an_error_not_another_result(damage, copy):
    path = copy / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    at = max(i for i, line in enumerate(lines) if '"eval"' in line)
    if damage == "flip":
        lines[at] = re.sub(r'"mse": \[\d', '"mse": [7', lines[at])
    elif damage == "drop":
        del lines[3]
    elif damage == "drop last":
        del lines[at]
    elif damage == "swap":
        lines[0], lines[1] = lines[1], lines[0]
    path.write_text("".join(lines))
    if damage == "remove":
        path.unlink()
    if damage == "binary":
        path.write_bytes(b"\xff\xfe" * 40)
    with pytest.raises(BadInput, match=r"metrics.jsonl.*--start_anew"):
        run(toy.config(seeds=(0, 1, 2)), copy)


@pytest.mark.parametrize("text", ["", "[]", '{"replicas": "seed 0"}', "\x00", '{"replicas": [1]}'])
def test_a_damaged_list_of_replicas_is_one_line(text, copy):
    (copy / "checkpoints/seeds_0-2.json").write_text(text)
    with pytest.raises(BadInput, match="seeds_0-2.json"):
        run(toy.config(seeds=(0, 1, 2)), copy)


def test_groups_that_overlap_are_refused(copy):
    listed = copy / "checkpoints/seeds_2-3.json"
    listed.write_text(json.dumps({"replicas": ["seed 2", "seed 3"]}))
    with pytest.raises(BadInput, match="seed 2 is in both"):
        run(toy.config(seeds=(0, 1, 2)), copy)


def test_stray_folders_are_left_alone(copy):
    (copy / "checkpoints/notes").mkdir()
    (copy / "checkpoints/seeds_0-2/scratch").mkdir()
    state, _ = run(toy.config(seeds=(0, 1, 2)), copy)
    assert int(state.step) == 12


# --- any order, any subset ------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [(2, 0, 1), (1,), (2, 0)])
def test_trained_seeds_in_any_order_and_number_are_only_read(seeds, finished):
    folder, state, history = finished
    before = snapshot(folder)
    found, read = run(toy.config(seeds=seeds), folder)
    assert snapshot(folder) == before
    np.testing.assert_array_equal(found.params["w"], np.asarray(state.params["w"])[list(seeds)])
    np.testing.assert_array_equal(read["eval"]["mse"], history["eval"]["mse"][:, list(seeds)])


def test_some_of_an_unfinished_group_is_refused(stopped):
    with pytest.raises(BadInput, match="is not finished: train all of it"):
        run(toy.config(seeds=(1,)), stopped)


def test_large_seeds_are_distinct_streams(tmp_path):
    settings = toy.config(seeds=(0, 2**31, 2**32 - 1))
    state = program.SetUp(toy.experiment(settings), settings).init()
    assert len({tuple(row) for row in np.asarray(state.params["w"])}) == 3


def swept(settings, rates):
    """The toy with a learning rate per replica: the same seeds under each rate."""
    pairs = [(seed, rate) for seed in settings.train.seeds for rate in rates]
    replicas = {"seed": np.array([s for s, _ in pairs]), "lr": np.float32([r for _, r in pairs])}
    return toy.experiment(
        settings,
        replicas=replicas,
        identity=("seed", "lr"),
        tx=lambda replica: optax.sgd(replica["lr"]),
    )


def test_replicas_are_named_by_their_values_and_can_be_added(tmp_path, caplog):
    settings = toy.config(seeds=(0, 1))
    first, _ = train.fit(swept(settings, (0.1,)), settings, tmp_path)
    # The same seed starts from the same weights under every rate: paired arms.
    state, history = train.fit(swept(settings, (0.1, 0.2)), settings, tmp_path)
    np.testing.assert_array_equal(state.params["w"][::2], first.params["w"])
    assert history["loss"][0, 0] == pytest.approx(history["loss"][0, 1])
    assert len(list((tmp_path / "checkpoints").glob("*.json"))) == 2
    replicas = swept(settings, (0.1, 0.2))
    with pytest.raises(BadInput, match="two replicas are 'seed 0'"):
        train.fit(replicas._replace(identity=("seed",)), settings, tmp_path)
    dead = toy.experiment(settings, poison=1)
    train.fit(
        dead._replace(replicas=replicas.replicas, identity=("seed", "lr")), settings, tmp_path / "d"
    )
    assert "seed 1, lr 0.200000003 turned non-finite at step 5" in caplog.text


# --- the core for what comes next -----------------------------------------------------------------


def test_other_gradients_take_the_place_of_reverse_mode(finished, tmp_path):
    def forward(loss, has_aux):
        def value_and_grad(params, *rest):
            grads, (aux) = jax.jacfwd(loss, has_aux=True)(params, *rest)
            return loss(params, *rest), grads

        return value_and_grad

    _, history = run(toy.config(seeds=(0, 1, 2)), tmp_path, grads=forward)
    np.testing.assert_allclose(history["loss"], finished[2]["loss"], rtol=1e-4)


def test_without_a_headline_no_copy_is_kept(finished, tmp_path):
    state, history = run(toy.config(seeds=(0, 1, 2)), tmp_path, headline=None)
    assert state.best is None
    np.testing.assert_array_equal(history["loss"], finished[2]["loss"])
    again, _ = run(toy.config(seeds=(0, 1, 2)), tmp_path, headline=None)
    np.testing.assert_array_equal(again.params["w"], state.params["w"])


def uneven(**train):
    settings = toy.config(**train)
    settings.eval.update({"at": (0, 2, 6), "keep": (0, 6)})
    settings.checkpoint.keep = (0, 2)
    return settings


def test_evaluations_at_uneven_steps_arrays_and_checkpoints_that_stay(finished, tmp_path):
    settings = uneven(seeds=(0, 1, 2))
    state, history = run(settings, tmp_path)
    assert list(history["eval"]["step"]) == [0, 2, 4, 6, 8, 12]
    np.testing.assert_array_equal(state.params["w"], finished[1].params["w"])
    kept = {path.name for path in (tmp_path / "checkpoints/seeds_0-2").iterdir()}
    assert {"0", "2", "8", "12"} <= kept and "4" not in kept
    early, _, _ = checkpoint.read_trained(tmp_path, ["seed 1"], step=2)
    assert not np.array_equal(early["w"][0], state.params["w"][1])
    run(uneven(seeds=(5, 0, 1, 2)), tmp_path)  # a seed that joins later
    with np.load(tmp_path / "evals/6.npz") as arrays:
        assert list(arrays["replicas"]) == ["seed 0", "seed 1", "seed 2", "seed 5"]
        error = (
            (arrays["predicted"][:3] - np.asarray(toy.experiment(settings).data["y"])) ** 2
        ).mean(1)
    np.testing.assert_allclose(error, history["eval"]["mse"][3], rtol=1e-5)
    assert sorted(path.name for path in (tmp_path / "evals").iterdir()) == ["0.npz", "6.npz"]


def test_uneven_evaluations_survive_a_stop(tmp_path, monkeypatch):
    settings, original, calls = uneven(seeds=(0, 1, 2)), train.log_call, []

    def stop_at_third(*arguments):
        calls.append(0)
        if len(calls) == 3:
            raise MemoryError
        return original(*arguments)

    monkeypatch.setattr(train, "log_call", stop_at_third)
    with pytest.raises(MemoryError):
        run(settings, tmp_path / "a")
    monkeypatch.setattr(train, "log_call", original)
    _, history = run(settings, tmp_path / "a")
    _, whole = run(settings, tmp_path / "b")
    for name, values in whole["eval"].items():
        np.testing.assert_array_equal(history["eval"][name], values)


def test_matrices_become_named_numbers_and_frozen_weights_live_in_data(tmp_path):
    settings = toy.config(seeds=(0,))
    base = toy.experiment(settings)
    frozen = {**base.data, "frozen": jnp.eye(2)}

    def batch(data, indices, key, step):
        return {name: data[name][indices] for name in ("x", "y")}

    def evaluate(params, extra, data, key, replica):
        return {"mse": 1.0 * params["w"][0], **metrics.entries("D", data["frozen"] * 3)}, {}

    experiment = base._replace(data=frozen, batch=batch, evaluate=evaluate)
    _, history = train.fit(experiment, settings, tmp_path)
    assert [float(history["eval"][f"D[{i},{j}]"][-1, 0]) for i in (0, 1) for j in (0, 1)] == [
        3,
        0,
        0,
        3,
    ]


@pytest.mark.parametrize(
    "change, words",
    [
        (
            {"headline": ("r2", "max")},
            "headline 'r2' is not among the scalars that evaluate returns: mse",
        ),
        ({"evaluate": lambda *a: {"mse": 1.0}}, "evaluate of the experiment returned dict"),
        ({"evaluate": lambda *a: ({"mse": 1.0}, {}, {})}, "evaluate .* returned 3 values"),
        ({"evaluate": lambda *a: ({"mse": jnp.ones(2)}, {})}, "'mse' of shape .*entries"),
        ({"init": lambda key, replica: {"w": jnp.ones(3)}}, "init of the experiment returned dict"),
        ({"loss": lambda p, e, *a: p["w"].sum()}, "loss of the experiment returned"),
        ({"loss": lambda p, e, *a: (p["w"], (e, {}))}, "loss of the experiment has shape"),
        ({"loss": lambda p, e, *a: (p["w"].sum(), (e, {}, {}))}, "loss .* returned 3 values"),
        ({"control": lambda *a: jnp.zeros((), bool)}, "control of the experiment returned"),
    ],
)
def test_slips_of_the_contract_are_one_line(change, words, tmp_path):
    with pytest.raises(BadInput, match=words):
        run(toy.config(), tmp_path, **change)


# --- optimisers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", optim.OPTIMISERS)
def test_every_optimiser_goes_downhill(name):
    tx = optim.by_name(name, 0.05)
    params = {"w": jnp.array([1.0, -2.0])}
    state, loss = tx.init(params), lambda p: jnp.sum(p["w"] ** 2)
    for _ in range(5):
        updates, state = tx.update(jax.grad(loss)(params), state, params)
        params = optax.apply_updates(params, updates)
    assert loss(params) < 5.0


def test_sign_steps_have_one_length():
    updates, _ = optim.by_name("sign", 0.1).update({"w": jnp.array([3.0, -1e-9, 0.0])}, ((), ()))
    np.testing.assert_allclose(updates["w"], [-0.1, 0.1, 0.0])


def test_schedules():
    cosine = optim.cosine(1.0, 0.1, 100, 10)
    assert [float(cosine(s)) for s in (0, 9, 100, 5000)] == pytest.approx([1, 1, 0.1, 0.1])
    assert float(optim.constant(0.3)(5)) == pytest.approx(0.3)


def test_the_rate_falls_where_the_metric_stands_still(tmp_path):
    control = optim.plateau("mse", "min", factor=0.5, patience=1, every=4)
    settings = toy.config(seeds=(0,))

    def evaluate(params, extra, data, key, replica):
        return {"mse": 1.0 + 0 * params["w"][0] + extra["count"]}, {}  # worse every time

    state, _ = run(settings, tmp_path, control=control, evaluate=evaluate)
    assert float(state.lr_scale[0]) == 0.25  # at steps 8 and 12, not at the first evaluation


@pytest.mark.parametrize("value", [1.0, 1.5])
def test_ties_and_further_evaluations_do_not_change_when_the_rate_falls(value):
    """The metric equals its best or is worse; evaluations at 25, 35 and 55 are not regular ones."""
    control = optim.plateau("mse", "min", factor=0.5, patience=2, every=10)
    best = program.Best(jnp.array(1.0), jnp.array(10), None, None)
    scale, scales = jnp.array(1.0), {}
    for step in (10, 20, 25, 30, 35, 40, 50, 55):
        _, scale = control({"mse": jnp.array(value)}, best, jnp.array(step), scale)
        scales[step] = float(scale)
    assert scales == {10: 1, 20: 1, 25: 1, 30: 0.5, 35: 0.5, 40: 0.5, 50: 0.25, 55: 0.25}
