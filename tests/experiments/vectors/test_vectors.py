"""The vector simulation: models, loss and optimiser, parts, a run from config to figures."""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cgjax
from cgjax import config as configs
from cgjax import report
from cgjax.analysis import contrasts
from cgjax.core.errors import BadInput
from cgjax.experiments.vectors import readme, run
from cgjax.main import main
from cgjax.published import PUBLISHED
from cgjax.published.verdict import verdict

FILE = "configs/vectors.py"


def settings(arg="smoke", **changes):
    return configs.load(f"{FILE}:{arg}", {name: str(value) for name, value in changes.items()})


@pytest.fixture(scope="module")
def data():
    return jax.tree.map(np.asarray, run.make(settings()))


@pytest.mark.parametrize("kind, count", [("mlp", 5888), ("compositional", 5168)])
def test_models(kind, count, data):
    config = settings("demo,paper")
    model = run.build(config, kind)
    params = jax.jit(model.init)(jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == count
    x = data["all"]["x"][0, :5]
    out = jax.jit(model.predict)(params, x)
    expected = []
    for i in range(1 if kind == "mlp" else 4):
        seen = (np.arange(40) // 10 == i) | (kind == "mlp")
        y = np.where(seen, x, 0)
        for layer in ("dense_0", "dense_1"):
            y = y @ np.asarray(params[layer]["kernel"][i]) + np.asarray(params[layer]["bias"][i])
            y = np.where(y > 0, y, 0.2 * y)
        expected.append(y)
    np.testing.assert_allclose(out, np.concatenate(expected, axis=1), rtol=1e-4, atol=1e-6)

    @jax.jit
    def contrast(params, x):
        return contrasts.MEASURES["block_contrast"](
            lambda one: model.predict(params, one[None])[0], x, 4
        )

    assert (contrast(params, x) == 0) == (kind == "compositional")


def test_every_replica_has_its_own_number_and_keeps_it():
    few = run.replicas(settings(**{"train.seeds": (0, 2)}))
    more = run.replicas(settings(**{"train.seeds": (0, 2, 1)}))
    assert len(set(more["stream"])) == len(more["stream"]) == 3 * 3 * 2
    for name, values in few.items():
        assert np.array_equal(values, more[name][: len(values)])
    assert list(few["n_train"][:4]) == [4, 16, 4, 16] and list(few["support"][:4]) == [0, 0, 1, 1]


def at_first(config, data):
    """Parameters, and a program for their loss on the rows that `draw` in [0, 1) selects."""
    experiment = run.experiment(config, "mlp", data)
    params, _ = jax.jit(experiment.init)(jax.random.key(0), {})
    batch = experiment.batch(jax.tree.map(jnp.asarray, data), None, jax.random.key(0), 0)
    assert batch["draw"].shape == (config.data.batch,)
    first = {name: values[0] for name, values in experiment.replicas.items()}

    @jax.jit
    def loss(draw, replica):
        drawn = {**batch, "draw": draw}
        return experiment.loss(params, {}, drawn, jax.random.key(0), 0, first | replica)[0]

    return params, lambda draw, **replica: float(loss(np.array(draw, np.float32), replica))


def test_a_replica_sees_the_first_n_rows_of_its_support(data):
    config = settings()
    params, loss = at_first(config, data)
    predict = jax.jit(run.build(config, "mlp").predict)
    for n, draw, row in ((1, 0.9, 0), (3, 0.34, 1), (16, 0.99999997, 15)):
        for support in range(3):
            value = loss([draw], n_train=n, support=support)
            x, z = (data["train"][name][0, support, row] for name in "xz")
            predicted = predict(params, x[None])[0]
            np.testing.assert_allclose(value, np.mean((predicted - z) ** 2), rtol=1e-5)


@pytest.mark.parametrize("name", [n for n in contrasts.REGULARISERS if n != "none"])
def test_regularisers_enter_the_loss(name, data):
    changes = {"optim.regulariser": name, "model.activation": "tanh"}
    draw, n = [0.1, 0.6], 16
    params, plain = at_first(settings(**changes | {"optim.regulariser": "none"}), data)
    config = settings(**changes)
    model, x = run.build(config, "mlp"), data["train"]["x"][0, 0, [1, 9]]

    @jax.jit
    def value(params, x):
        return contrasts.REGULARISERS[name](lambda one: model.predict(params, one[None])[0], x, 4)

    penalty = value(params, x)
    _, regularised = at_first(config, data)
    more = regularised(draw, n_train=n) - plain(draw, n_train=n)
    assert abs(penalty) > 1e-4
    np.testing.assert_allclose(more, 0.5 * penalty, rtol=1e-3)


def test_momentum_starts_anew_every_round():
    tx = run.sgd(0.1, 0.9, 3)
    params = {"a": jnp.zeros(2), "b": jnp.zeros(())}
    state, velocity = tx.init(params), 0.0
    for step in range(8):
        updates, state = tx.update(jax.tree.map(jnp.ones_like, params), state, params)
        velocity = 0.9 * (0.0 if step % 3 == 0 else velocity) + 1.0
        for leaf in jax.tree.leaves(updates):
            np.testing.assert_allclose(leaf, -0.1 * velocity, rtol=1e-6)
    never = run.sgd(0.1, 0.9, 0)
    state = never.init(params)
    for _ in range(4):
        updates, state = never.update(jax.tree.map(jnp.ones_like, params), state, params)
    np.testing.assert_allclose(updates["b"], -0.1 * (1 + 0.9 + 0.81 + 0.729), rtol=1e-6)


# --- parts ----------------------------------------------------------------------------------------
# Parts of the vector simulation: the generator, the supports, what a set depends on.


def test_rules_for_the_best_weight():
    weights = np.random.default_rng(0).normal(size=(6, 10, 50)).astype(np.float32)
    norms = [np.linalg.norm(w) / np.linalg.norm(np.linalg.pinv(w)) for w in weights]
    np.testing.assert_allclose(run.quality(weights, "reference"), norms, rtol=1e-4)
    conditions = [np.linalg.cond(w) for w in weights]
    np.testing.assert_allclose(run.quality(weights, "conditioned"), conditions, rtol=1e-4)


def test_the_reference_rule_takes_the_worse_conditioned_draw():
    rules, key = ("reference", "conditioned"), jax.random.key(0)
    worse, better = (run.best_weight(key, (10, 50), 200, rule) for rule in rules)
    for weight in (worse, better):
        assert weight.shape == (10, 50)
        np.testing.assert_allclose(jnp.linalg.norm(weight, axis=1), 1, rtol=1e-5)
    assert np.linalg.cond(worse) > 1.3 * np.linalg.cond(better)


def test_generator_stacks_two_layers_per_part():
    data = settings().data
    layers = run.make_generator(jax.random.key(0), data)
    assert [w.shape for w, _ in layers] == [(4, 50, 2), (4, 10, 50)]
    z = np.random.default_rng(0).uniform(size=(3, 4, 2)).astype(np.float32)
    expected = []
    for k in range(4):
        y = z[:, k]
        for weights, biases in layers:
            y = y @ np.asarray(weights[k]).T + np.asarray(biases[k])
            y = np.where(y > 0, y, 0.2 * y)
        expected.append(y)
    np.testing.assert_allclose(
        run.generate(layers, z), np.concatenate(expected, axis=1), rtol=1e-4, atol=1e-6
    )
    assert np.ptp(layers[0][0], axis=0).max() > 0.1  # the parts differ


def test_supports():
    draws = {
        name: np.asarray(run.sample(jax.random.key(1), 400, name, 4, 2)) for name in run.SUPPORTS
    }
    for z in draws.values():
        assert z.shape == (400, 4, 2) and z.min() >= 0 and z.max() <= 1
    assert np.all(draws["diagonal"] == draws["diagonal"][:, :1])
    used = draws["orthogonal"].any(axis=2)
    assert np.all(used.sum(axis=1) == 1)
    assert used.sum(axis=0).min() > 60  # 100 of each part, give or take
    correlation = np.corrcoef(draws["random"].reshape(400, 8).T)
    assert np.abs(correlation - np.eye(8)).max() < 0.25


def test_a_set_depends_on_its_seed_and_support_alone(data):
    alone = run.make(settings("mlp_orthogonal,smoke", **{"train.seeds": (5, 0)}))
    for name in ("train", "id"):
        assert np.array_equal(alone[name]["x"][1, 0], data[name]["x"][0, 2])
    assert np.array_equal(alone["all"]["x"][1], data["all"]["x"][0])
    assert not np.array_equal(alone["all"]["x"][0], alone["all"]["x"][1])
    shared = settings(**{"data.generators": "shared", "train.seeds": (5, 6)})
    assert np.array_equal(run.make(shared)["all"]["x"], data["all"]["x"])
    assert set(run.replicas(shared)["generator"]) == {0}


# --- run ------------------------------------------------------------------------------------------
# The vector simulation from config to figures: outputs, loading, seeds, bad input, rows.


@pytest.fixture(scope="module")
def finished(one_device, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("vectors") / "demo"
    assert main([f"--config={FILE}:smoke", f"--workdir={workdir}"]) == 0
    return workdir


def test_outputs(finished):
    metrics = json.loads((finished / "results.json").read_text())["metrics"]
    assert set(metrics) == {
        f"{kind}/{support}/{name}"
        for kind in run.KINDS
        for support in run.SUPPORTS
        for name in ("r2_all", "r2_id", "block_contrast")
    }
    entry = metrics["mlp/diagonal/r2_all"]
    assert entry["paper"] == 0.14 and "read off" in entry["where"] and entry["seeds"] == [0]
    assert metrics["compositional/random/block_contrast"]["ours"] == 0
    arrays = np.load(finished / "arrays.npz")
    assert arrays["final/mlp/diagonal/r2_all"].shape == (2, 1)  # sizes, seeds
    assert arrays["history/mlp/diagonal/r2_all"].shape == (3, 1) and len(arrays["step"]) == 3
    assert arrays["final/mlp/diagonal/r2_all"][-1] == entry["values"]
    for name in ("r2_against_n_train", "r2_against_step"):
        assert (finished / "figures" / f"{name}.png").stat().st_size > 10_000


def test_a_finished_run_opens(finished):
    opened = cgjax.load(finished, "compositional/orthogonal")
    test = run.make(opened.config)["all"]
    params = jax.tree.map(lambda leaf: leaf[0], opened.params)
    predicted = opened.predict(params, test["x"][0])
    scores = 1 - jnp.sum((predicted - test["z"][0]) ** 2, 0) / (50 * jnp.var(test["z"][0], 0))
    metrics = json.loads((finished / "results.json").read_text())["metrics"]
    expected = metrics["compositional/orthogonal/r2_all"]["ours"]
    np.testing.assert_allclose(jnp.mean(scores), expected, rtol=1e-3)
    assert opened.step.tolist() == [24]
    with pytest.raises(BadInput, match="mlp/random, mlp/diagonal"):
        cgjax.load(finished)


@pytest.mark.slow  # 5 s: core/test_train asks the same of the loop
def test_seeds_can_be_added(one_device, tmp_path):
    flags = [f"--config={FILE}:mlp_diagonal,smoke", f"--workdir={tmp_path}", "--no_figures"]
    flags.append("--config.eval.measures=()")

    def values():
        return json.loads((tmp_path / "results.json").read_text())["metrics"]["r2_all"]["values"]

    assert main([*flags, "--config.train.seeds=1"]) == 0
    before = values()
    assert main([*flags, "--config.train.seeds=(0, 1)"]) == 0
    after = values()
    assert after[1:] == before and after[0] != after[1]


@pytest.mark.parametrize(
    "key, value, words",
    [
        ("data.sizes", (8, 4), "must rise"),
        ("data.sizes", (4, 64), "beyond data.n_train=16"),
        ("model.hidden", 18, "model.hidden=18"),
        ("train.seeds", (2**31,), "train.seeds go up to"),
    ],
)
def test_values_that_contradict_each_other_are_refused(key, value, words):
    config = settings()
    config.update_from_flattened_dict({key: value})
    with pytest.raises(BadInput, match=words):
        run.check(config)


def test_rows_and_published_numbers():
    rows = configs.load_file(FILE).ROWS
    assert set(PUBLISHED["vectors"]) < set(rows)
    for metrics in PUBLISHED["vectors"].values():
        assert set(metrics) == {"r2_all"} and "read off" in metrics["r2_all"]["where"]
    paper = settings("mlp_random,paper")
    assert paper.train.steps == 500 * 512 and paper.data.sizes == tuple(2**i for i in range(13))
    paper = settings("hessian_random,paper")
    assert paper.train.steps == 500 * 32 and paper.train.round == 32
    assert (paper.data.batch, paper.model.n_layers, paper.model.activation) == (64, 3, "tanh")
    assert settings("regularised_diagonal").optim.regulariser == "block_contrast"
    lines = list(configs.load_file(FILE).describe_rows())
    assert len(lines) == len(rows)
    assert "0.14" in {x["name"]: x["expect"] for x in lines}["mlp_diagonal"]


def test_the_readme_counts_the_rows_to_which_seeds_were_added():
    """Of the record as it is: rows beyond the first 20 seeds, and their verdicts."""
    record = [entry for entry in report.entries("vectors") if entry["size"] == "paper"]
    more = {
        entry["row"]: values
        for entry in record
        if len(values := entry["metrics"]["r2_all"]["values"]) > 20
    }
    n_open = sum(
        verdict(values, PUBLISHED["vectors"][row]["r2_all"]).word == "underpowered"
        for row, values in more.items()
    )
    counts = ", ".join(map(str, sorted(map(len, more.values()), reverse=True)))
    text = readme.added(record, {})
    assert text.startswith(f"{len(more)} rows have more than 20 seeds ({counts})")
    assert text.endswith(f"{n_open} of them stay underpowered")
    assert text in (pathlib.Path(readme.__file__).parent / "README.md").read_text()


def test_what_the_regulariser_changes_is_of_pairs_of_seeds():
    record = report.entries("vectors")
    assert readme.regulariser("diagonal")(record, {}).startswith("-0.123 ± 0.075")
    with pytest.raises(ValueError, match="random: the runs have other seeds"):
        readme.regulariser("random")(record, {})
