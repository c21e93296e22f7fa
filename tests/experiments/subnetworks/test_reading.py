"""Subnetworks that `cgjax.load` opens have the scores that the run reported."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cgjax
from cgjax import config as configs
from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.experiments.subnetworks import bases, odd_one_out, run, stages, tasks
from cgjax.experiments.subnetworks.language import tasks as language_tasks
from cgjax.experiments.subnetworks.search import joint

pytestmark = pytest.mark.usefixtures("one_device")
BUILT = {"model.arch": "modular"}  # by hand: nothing is trained before its masks
SMALL = {"masks.n_draws": "0", "masks.lrs": "0.3", "data.n_train": "16", "data.n_test": "24",
         "data.n_eval": "24", "masks.seeds": "0,1"}  # fmt: skip


def settings(flag, changes, part=""):
    config = configs.load(f"subnetworks:{flag},smoke", SMALL | changes)
    if part:
        with config.unlocked():
            config.parts = {part: config.parts[part]}
    return config


def finished(config, workdir) -> dict:
    """The arrays of a run, without figures, that `cgjax.load` can open."""
    _, arrays, _ = run.run(config, workdir, figures=False)
    (workdir / "config.json").write_text(configs.to_json(config))
    return arrays


def accuracies(opened, subroutine: int) -> list[float]:
    """Of every opened network, on the test of one subroutine."""
    task = stages.task_of(opened.config)
    rows = jnp.asarray(task.sets.rows["test"][f"test_{subroutine}"])
    inputs = tasks.shown(jax.tree.map(jnp.asarray, task.sets.table), rows)

    @jax.jit
    def right(params):  # an order of the four breaks ties, as in odd_one_out.share_right
        logits = opened.predict(params, inputs)
        first = logits >= jnp.max(logits, axis=1, keepdims=True) - odd_one_out.TIED
        return first[:, 3] / jnp.sum(first, axis=1)

    n = len(jax.tree.leaves(opened.params)[0])
    return [float(jnp.mean(right(tree.take(opened.params, i)))) for i in range(n)]


def told(arrays, table: str, target: int, column="sub_target") -> list[float]:
    return arrays[f"{table}/{column}"][arrays[f"{table}/target"] == target].tolist()


@pytest.mark.slow  # 9 s: masks of other studies are read back the same way
def test_families(tmp_path):
    changes = {"masks.families": "neuron,magnitude", "masks.keeps": "0.05,0.6"}
    arrays = finished(settings("families", BUILT | changes), tmp_path)
    for family in ("neuron", "magnitude"):
        opened = cgjax.load(tmp_path, f"{family}/verb")
        expected = told(arrays, family, 1)
        assert len(expected) == 2 * 2 * 2  # bases, first scores or penalties, mask seeds
        np.testing.assert_allclose(accuracies(opened, 1), expected, atol=1e-6)
    kept = [
        np.mean(np.asarray(one["hidden"]["kernel"]) != 0)
        for one in (tree.take(opened.params, 0), tree.take(opened.params, 2))
    ]
    assert kept[0] < kept[1]
    with pytest.raises(BadInput, match="holds neuron/subject, neuron/verb, magnitude/subject"):
        cgjax.load(tmp_path, "verb")


@pytest.mark.slow  # 6 s: masks of other studies are read back the same way
def test_masks_that_share_no_weight(tmp_path):
    config = settings("joint", BUILT)
    task = stages.task_of(config)
    part = stages.Part(task, bases.untrained(config, task), None, {}, None, None)
    table = joint.run(config, part, tmp_path)
    (tmp_path / "config.json").write_text(configs.to_json(config))
    opened = [cgjax.load(tmp_path, f"joint/{name}") for name in ("subject", "verb")]
    for i, loaded in enumerate(opened):
        expected = table["sub_target"][table["target"] == i]
        np.testing.assert_allclose(accuracies(loaded, i), expected, atol=1e-6)
    subject, verb = (np.asarray(loaded.params["hidden"]["kernel"]) for loaded in opened)
    assert np.any(subject) and np.any(verb) and not np.any(subject * verb)
    with pytest.raises(BadInput, match="holds subject, verb, joint/subject, joint/verb: name"):
        cgjax.load(tmp_path, "joint/noun")
    with pytest.raises(BadInput, match="masks.*has not trained"):  # those learned one by one
        cgjax.load(tmp_path, "verb")


@pytest.mark.slow  # 10 s: a whole row; test_subnetwork_runs prunes, and reads masks back
def test_masks_of_pruned_bases(tmp_path):
    changes = {"masks.prune": "True", "masks.s0s": "(0.05,-0.05)"}
    arrays = finished(settings("controls", changes, part="modular"), tmp_path)
    pruned = cgjax.load(tmp_path, "modular/pruned")
    np.testing.assert_allclose(accuracies(pruned, 0), arrays["modular/bases/test_0"], atol=1e-6)
    whole = cgjax.load(tmp_path, "modular").params
    before, after = (np.asarray(one["hidden"]["kernel"]) for one in (whole, pruned.params))
    assert np.any(after == 0) and np.all((after == before) | (after == 0))
    opened = cgjax.load(tmp_path, "modular/subject")
    np.testing.assert_allclose(accuracies(opened, 0), told(arrays, "modular/runs", 0), atol=1e-6)
    left = np.asarray(opened.params["hidden"]["kernel"])
    assert not np.any(left[np.repeat(after, 2, axis=0) == 0])


@pytest.mark.slow
def test_masks_along_training(tmp_path):
    # A rate at which two epochs leave no ties for rounding to break.
    arrays = finished(settings("dynamics", {"optim.lr": "0.05"}), tmp_path)
    epochs = arrays["runs/base_epoch"]
    assert set(epochs) == {1, 2}
    for epoch in (1, 2):
        then = cgjax.load(tmp_path, f"epoch {epoch}")
        of_then = arrays["bases/base_epoch"] == epoch
        np.testing.assert_allclose(accuracies(then, 1), arrays["bases/test_1"][of_then], atol=1e-6)
        # Subnetworks of so small a network answer by ties, so the masks are compared.
        opened = cgjax.load(tmp_path, f"epoch {epoch}/verb")
        is_verb = (arrays["runs/target"] == 1) & (epochs == epoch)
        masked = [
            name for name in tree.flat(opened.params) if language_tasks.bert_layer(name) is not None
        ]
        left = np.concatenate(
            [np.reshape(tree.flat(opened.params)[name], (4, -1)) for name in masked], axis=1
        )
        np.testing.assert_allclose(
            np.mean(left != 0, axis=1), arrays["runs/kept"][is_verb], rtol=1e-5
        )
        assert np.mean(left != 0) < 0.9
        bases_then = np.concatenate(
            [np.reshape(tree.flat(then.params)[name], (2, -1)) for name in masked], axis=1
        )
        np.testing.assert_array_equal(left, np.repeat(bases_then, 2, axis=0) * (left != 0))
    with pytest.raises(BadInput, match="holds 'epoch 1'|holds epoch 1"):
        cgjax.load(tmp_path, "epoch 7")


def test_a_study_without_masks_says_so(tmp_path):
    config = configs.load("subnetworks:vit,smoke")
    (tmp_path / "config.json").write_text(configs.to_json(config))
    part = next(iter(config.parts))
    with pytest.raises(BadInput, match="holds only bases: this study trains no masks"):
        cgjax.load(tmp_path, f"{part}/number")
