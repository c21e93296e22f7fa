"""Coverage: graphs, the teacher against NumPy, widths in one program, and a run from end to end."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cgjax
from cgjax import config as configs
from cgjax.core.errors import BadInput
from cgjax.experiments.coverage import cells, graphs, models, readme, run, scores, tables, tasks
from cgjax.main import main


def n_components(members):
    """Components of the graph of the values that occur, by joining labels until none changes."""
    labels = np.arange(members.shape[1])
    for row in members:
        labels[np.isin(labels, labels[row])] = labels[row].min()
    return len(np.unique(labels[members.any(axis=0)]))


@pytest.mark.parametrize(
    ("task", "n", "factors"), [("bumps", 7, 2), ("addition", 4, 3), ("teacher", 6, 2)]
)
def test_graphs(task, n, factors):
    members = tasks.members(task, (n, factors))
    nodes = members.shape[1]
    draws = {
        graph: cells.draw(task, cells.Cell(n, factors, 0, graph, 0, 0), 0, 3)
        for graph in graphs.GRAPHS
    }
    for graph, drawn in draws.items():
        assert not set(drawn.order) & set(drawn.held_out) and len(drawn.held_out) > 1
        assert len(set(drawn.order)) == len(drawn.order)
        whole = n_components(members[drawn.order])
        assert whole == (2 if graph == "blocks" else 1)
    # The first combinations join all values; those of pairs are a tree, without a cycle.
    for m in range(1, nodes):
        tree = members[draws["connected"].order[:m]]
        assert n_components(tree) == tree.any(axis=0).sum() - m or task != "bumps"
    assert n_components(tree) == 1 and tree.any(axis=0).all()
    # Bridges replace the last combinations; held-out ones all join the blocks and stay.
    bridged = cells.draw(task, cells.Cell(n, factors, 0, "blocks", 2, 0), 0, 3)
    np.testing.assert_array_equal(bridged.held_out, draws["blocks"].held_out)
    np.testing.assert_array_equal(bridged.order[2:], draws["blocks"].order)
    assert n_components(members[bridged.order]) == 1
    for combination in (*bridged.order[:2], *bridged.held_out):
        inside = members[draws["blocks"].order]
        assert n_components(np.concatenate([inside, members[[combination]]])) == 1
    truth = draws["permuted"].truth
    assert sorted(truth) == list(range(len(members))) and np.any(truth != np.arange(len(members)))


def test_the_teacher_is_that_of_numpy():
    task = tasks.build("teacher", [(4, 2), (6, 2)], [(0, 0), (0, 1)])
    combinations, truth = np.array([0, 5, 14]), np.array([1, 5, 13])
    tokens, y = task.examples(
        jax.tree.map(np.asarray, task.data), 0, 1, combinations, truth, jax.random.key(0)
    )
    modules, readout = tasks.weights(6, (0, 1))
    for token, target, c, t in zip(np.asarray(tokens), np.asarray(y), combinations, truth):
        on = [m for m in range(4) if (t + 1) >> m & 1]
        weight = sum(modules[m] for m in on) / len(on) ** 0.5
        expected = readout @ np.maximum(weight @ token[-1], 0)
        np.testing.assert_allclose(target, expected, rtol=2e-5, atol=1e-6)
        np.testing.assert_array_equal(token[:6, 0], [(c + 1) >> m & 1 for m in range(6)])
        assert not token[:6, 1:].any()


def test_tables():
    task = tasks.build("addition", [(4, 2), (3, 3)], [(0, 0)])
    tokens, y = task.examples(task.data, 1, 0, np.arange(27), np.arange(27), None)
    digits = tokens.argmax(-1)
    assert tokens.shape == (27, 3, 4) and np.all(tokens.sum(-1) == 1)
    np.testing.assert_allclose(np.corrcoef(digits.sum(1), y[:, 0])[0, 1], 1)
    np.testing.assert_allclose((y.mean(), y.var()), (0, 1), atol=1e-6)
    image = tasks.build("bumps", [(5, 2)], [(0, 0)]).data["targets"][0, 0, 7].reshape(5, 5)
    assert np.unravel_index(image.argmax(), (5, 5)) == (2, 1)  # row y, column x
    sprites = tasks.build("sprites", [(3, 2), (4, 2)], [(0, 0), (0, 1)]).data["targets"]
    np.testing.assert_array_equal(sprites[0, 0, 5], sprites[0, 1, 6])  # both (1, 2)
    assert np.any(sprites[0] != sprites[1])


@pytest.mark.parametrize("name", ["mlp", pytest.param("transformer", marks=pytest.mark.slow)])
def test_units_beyond_the_width_stay_unused(name):
    net, tokens = models.build(name, 2, 8), np.random.default_rng(0).normal(size=(5, 2, 3))

    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def gradient(key):
        def loss(params):
            return jnp.mean((net.apply({"params": params}, jnp.asarray(tokens)) - 1) ** 2)

        params = net.init(key, jnp.asarray(tokens))["params"]
        return jax.grad(loss)(models.narrowed(params, 3))

    grads = gradient(jax.random.key(0))
    layers = grads["net" if name == "mlp" else "layer_0"]
    names = ("dense_1", "dense_2") if name == "mlp" else ("ffn_in", "ffn_out")
    before, after = (layers[layer] for layer in names)
    assert not np.any(before["kernel"][:, 3:]) and not np.any(before["bias"][3:])
    assert not np.any(after["kernel"][3:]) and np.any(after["kernel"][:3])


def test_cells_are_read_back_from_their_names():
    cell = cells.Cell(8, 2, 64, "connected", 0, 15)
    assert cells.Cell.read(cell.name) == cell and cells.Cell.read("n: exponent") is None
    config = dict(configs.parts(configs.load("coverage:addition,fast")))["addition_mlp"]
    all_cells = cells.of(config)
    assert len({each.name for each in all_cells}) == len(all_cells)
    # A score that passes at 2 n ** 1.5 combinations, at any width, on connected graphs only.
    needed = np.array([2 * each.n**1.5 for each in all_cells])
    is_joined = np.array([each.graph in ("connected", "random") for each in all_cells])
    size = np.array([each.size for each in all_cells])
    r2 = np.where(is_joined, 0.8 + np.log(size / needed) / 9, 0.1)
    part = scores.Part(all_cells, np.tile(r2, (5, 1)), [0, 1, 2, 3, 4])
    numbers = {name: values for name, (values, _) in scores.numbers(part, 0.8, (0.5,)).items()}
    assert numbers["n: exponent"][0] == pytest.approx(1.5)
    assert numbers["width: exponent"][0] == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(numbers["n: exponent of each seed"], 1.5)
    assert numbers["blocks: needed"] == [np.inf] and numbers["bridges needed"] == [np.inf]
    assert len(numbers["blocks, one bridge: held-out R2"]) == 5
    # Sets with two bridges and more are not those with one.
    is_kept = np.array([each.bridges != 1 for each in all_cells])
    fewer = [each for each, kept in zip(all_cells, is_kept) if kept]
    part = scores.Part(fewer, np.tile(r2[is_kept], (5, 1)), part.seeds)
    assert "blocks, one bridge: held-out R2" not in scores.numbers(part, 0.8)


def test_the_readme_says_what_blocks_of_every_size_do():
    """Of cells named as in the record: seeds' medians by size, on the graph of two blocks only."""
    r2 = {(8, "blocks"): [0.1, 0.2, 0.9], (16, "blocks"): [0.5, 0.6, 0.1], (8, "random"): [1] * 3}
    metrics = {
        f"addition_mlp/{cells.Cell(6, 2, 16, graph, 0, size).name}": {
            "values": v,
            "seeds": [0, 1, 2],
        }
        for (size, graph), v in r2.items()
    }
    entry = {"size": "fast", "metrics": metrics}
    assert readme.across_blocks("addition_mlp")([entry], {}) == "0.20 to 0.50"


def test_a_run_from_end_to_end(one_device, tmp_path):
    workdir = tmp_path / "run"
    flags = ["--config=coverage:smoke", f"--workdir={workdir}"]
    assert main(flags) == 0
    metrics = json.loads((workdir / "results.json").read_text())["metrics"]
    part = scores.Part.read(metrics, "teacher_mlp")
    assert part.r2.shape == (2, len(part.cells)) and np.isfinite(part.r2).all()
    for name in ("needed", "graphs"):
        assert (workdir / "figures" / f"{name}.png").stat().st_size > 10_000
    opened = cgjax.load(workdir)
    task = run.task_of(opened.config)
    data, some = jax.tree.map(jnp.asarray, task.data), jnp.arange(4)
    tokens, y = task.examples(data, 0, 0, some, some, jax.random.key(0))
    first = jax.tree.map(lambda leaf: leaf[0], opened.params)
    assert opened.predict(first, tokens).shape == y.shape
    few = {name: metric for name, metric in metrics.items() if "width" not in name[:20]}
    few.pop("teacher_mlp/blocks, one bridge: held-out R2")
    (_, row) = tables.standing(few)
    assert row[3] == "-" and row[7] == "-" and len(tables.standing(metrics)[1][7]) > 5
    with pytest.raises(BadInput, match="share 32 bits"):
        run.check(configs.load("coverage:smoke", {"train.seeds": "4294967295"}))
    with pytest.raises(BadInput, match="two values or more"):
        run.check(configs.load("coverage:teacher,smoke", {"parts.teacher_mlp.data.n_values": "5"}))
    with pytest.raises(BadInput, match="addition_mlp: data.base=9 is not in data.n_values"):
        run.check(configs.load("coverage:addition,smoke", {"data.base": "9"}))
