"""What the report says of models whose structure is known: no sentence may be false."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax import plots
from cgjax.analysis.lenses import look

FACTORS = np.indices((5, 5)).reshape(2, -1).T
A, B = np.array([-3.0, -1, 0, 1, 3]), np.array([-2.0, -1, 0, 1, 2])
A_X, B_X = A[FACTORS[:, 0]], B[FACTORS[:, 1]]
TRAIN = np.any(FACTORS == 2, axis=1) | (FACTORS[:, 0] == 0)
CODES = np.concatenate([np.eye(5)[column] for column in FACTORS.T], axis=1).astype(np.float32)
NAMES = ("shape", "colour")


def mixture(params, x):
    """w0 a(x1) + w1 b(x2) + w2 a(x1) b(x2) + w3 table(x1, x2): one program, many models."""
    a, b = x[:, :5] @ params["a"], x[:, 5:10] @ params["b"]
    table = jnp.einsum("ni,nj,ij->n", x[:, :5], x[:, 5:10], params["table"])
    return jnp.sum(x[:, 10:14] * jnp.stack([a, b, a * b, table], axis=1), axis=1)


def model(table=None):
    table = np.zeros(25) if table is None else table
    arrays = {"a": A, "b": B, "table": np.reshape(table, (5, 5))}
    return {name: jnp.asarray(array, jnp.float32) for name, array in arrays.items()}


def weighted(w, x=CODES):
    """The weights are part of x and not parameters, so that no new program is compiled."""
    return np.concatenate([x, np.tile(w, (len(x), 1))], axis=1).astype(np.float32)


RANDOM = np.random.default_rng(0).normal(size=25)
SUM = A_X + B_X

# name: weights, table, options of look; what the bullets on held-out combinations and on factors
# begin with.
TABLE = {
    "a sum": ([1, 1, 0, 0], None, {}, "composes as a sum", "factors add"),
    "a sum, and its targets": ([1, 1, 0, 0], None, {"targets": SUM}, "composes;", "factors add"),
    "a sum for targets of a product": (
        [1, 1, 0, 0], None, {"targets": A_X * B_X}, "no verdict, the model does not fit",
        "factors add, interaction 0.000 of the variance (targets 1.000)",
    ),
    "a product": (
        [0, 0, 1, 0], None, {}, "no verdict, training outputs are not a sum", "factors interact",
    ),
    "a product, and its targets": (
        [0, 0, 1, 0], None, {"targets": A_X * B_X}, "matches the targets", "factors interact",
    ),
    "ignores colour": (
        [1, 0, 0, 0], None, {}, "does not compose, outputs ignore colour", "outputs ignore colour",
    ),
    "ignores shape": (
        [0, 1, 0, 0], None, {}, "does not compose, outputs ignore shape", "outputs ignore shape",
    ),
    "ignores colour, targets need it": (
        [1, 0, 0, 0], None, {"targets": SUM},
        "does not compose, outputs ignore colour but targets need colour",
        "outputs ignore colour but targets need colour",
    ),
    "ignores colour, so do targets": (
        [1, 0, 0, 0], None, {"targets": A_X},
        "nothing to compose, outputs and targets ignore colour",
        "outputs and targets ignore colour",
    ),
    "hardly depends on colour": (
        [1, 0.02, 0, 0], None, {}, "no verdict, outputs hardly depend on colour",
        "outputs hardly depend on colour",
    ),
    "hardly depends on colour, so do targets": (
        [1, 0.02, 0, 0], None, {"targets": A_X + 0.02 * B_X},
        "hardly anything to compose, outputs and targets hardly depend on colour",
        "outputs and targets hardly depend on colour",
    ),
    "zero": (
        [0, 0, 0, 0], None, {}, "undefined, the reference is constant",
        "undefined, outputs are constant",
    ),
    "a constant": (
        [0, 0, 0, 1], np.full(25, 0.1), {}, "undefined, the reference is constant",
        "undefined, outputs are constant",
    ),
    "a constant, with targets": (
        [0, 0, 0, 1], np.full(25, 0.1), {"targets": SUM}, "no verdict, the model does not fit",
        "undefined, outputs are constant",
    ),
    "a table, 0 where held out": (
        [0, 0, 0, 1], np.where(TRAIN, SUM, 0), {}, "memorises", "factors interact",
    ),
    "a table, random where held out": (
        [0, 0, 0, 1], np.where(TRAIN, SUM, 2 * RANDOM), {}, "does not compose as a sum",
        "factors interact",
    ),
    "a random table": (
        [0, 0, 0, 1], RANDOM, {}, "no verdict, training outputs are not a sum", "factors interact",
    ),
    "a table, right where held out": (
        [0, 0, 0, 1], SUM, {"targets": SUM}, "matches the targets", "factors add",
    ),
    "a table, right where held out, no targets": (
        [0, 0, 0, 1], SUM, {}, "matches the additive continuation", "factors add",
    ),
    "a table, negative where held out": (
        [0, 0, 0, 1], np.where(TRAIN, SUM, -SUM), {"targets": SUM}, "does not compose;",
        "factors interact, interaction 0.610 of the variance (targets 0.000)",
    ),
    "a table, tripled where held out": (
        [0, 0, 0, 1], np.where(TRAIN, SUM, 3 * SUM), {"targets": SUM},
        "does not compose, overshoots with slope 3.00", "factors interact",
    ),
    "a table, shifted where held out": (
        [0, 0, 0, 1], np.where(TRAIN, SUM, SUM + 9), {"targets": SUM},
        "does not compose, errors exceed the variance of the targets", "factors interact",
    ),
    "a table, halved where held out": (
        [0, 0, 0, 1], np.where(TRAIN, SUM, SUM / 2), {"targets": SUM},
        "composes in part, with slope 0.50", "factors interact",
    ),
    "factors in the wrong roles": (
        [0, 0, 0, 1], A[FACTORS[:, 1]] + B[FACTORS[:, 0]], {"targets": SUM},
        "no verdict, the model does not fit the training targets", "factors add",
    ),
    "a small sum": (
        [1e-6, 1e-6, 0, 0], None, {"targets": 1e-6 * SUM}, "composes;", "factors add",
    ),
    "a large sum": ([1e6, 1e6, 0, 0], None, {"targets": 1e6 * SUM}, "composes;", "factors add"),
    "a sum with an offset": (
        [1, 1, 0, 1], np.full(25, 1e3), {"targets": SUM + 1e3}, "matches the targets",
        "factors add",
    ),
    "diagonal training": (
        [1, 1, 0, 0], None, {"is_train": FACTORS[:, 0] == FACTORS[:, 1]},
        "undefined, training combinations determine", "factors add",
    ),
    "any numbers as levels": (
        [1, 1, 0, 0], None, {"factors": FACTORS * [1000, -7] - 5}, "composes as a sum",
        "factors add",
    ),
    "labels by sign": (
        [1, 1, 0, 0], None, {"labels": (SUM > 0).astype(int)}, "generalises;", "factors add",
    ),
    "labels by sign, of shape alone": (
        [1, 0, 0, 0], None, {"labels": (A_X > 0).astype(int)},
        "generalises without composing, outputs and labels ignore colour",
        "outputs and labels ignore colour",
    ),
    "labels by sign, wrong where held out": (
        [0, 0, 0, 1], np.where(TRAIN, SUM - 0.5, 0.5 - SUM), {"labels": (SUM > 0.5).astype(int)},
        "does not generalise;", "factors interact",
    ),
    "labels by sign, not learned": (
        [0, 0, 0, 1], RANDOM, {"labels": (SUM > 0).astype(int)},
        "no verdict, the model does not fit the training labels", "factors interact",
    ),
}  # fmt: skip


def bullets(f, params, x, **options):
    given = {"factors": FACTORS, "is_train": TRAIN, "names": NAMES, "verbose": False} | options
    lenses = look(f, params, x, **given)
    texts = lenses.bullets()
    assert len(texts) == 5 + (lenses.ranks is not None)
    assert not any("nan" in text or "\n" in text for text in texts), texts
    assert all("Next: " in text or "undefined, " in text for text in texts), texts
    return dict(text.split(": ", 1) for text in texts), lenses


@pytest.mark.parametrize("name", TABLE)
def test_a_known_model_is_described_rightly(name):
    w, table, options, held_out, factors = TABLE[name]
    texts, _ = bullets(mixture, model(table), weighted(w), **options)
    assert texts["Held-out combinations"].startswith(held_out), texts["Held-out combinations"]
    assert texts["Factors"].startswith(factors), texts["Factors"]


def test_a_second_look_traces_nothing():
    n_traces = 0

    def traced(params, x):
        nonlocal n_traces
        n_traces += 1
        return mixture(params, x)

    bullets(traced, model(), weighted([1, 1, 0, 0]))
    n_first = n_traces
    texts, _ = bullets(traced, model(), weighted([1, 0, 0, 0]))
    assert texts["Factors"].startswith("outputs ignore colour")
    assert n_traces == n_first > 0


def test_repeated_inputs_of_some_combinations_change_nothing():
    x, targets = weighted([1, 1, 0, 0]), SUM
    once, _ = bullets(mixture, model(), x, targets=targets)
    rows = np.repeat(np.arange(25), 1 + np.arange(25) % 4)
    given = {"factors": FACTORS[rows], "is_train": TRAIN[rows], "targets": targets[rows]}
    again, _ = bullets(mixture, model(), x[rows], **given)
    assert again == once


def test_a_part_of_the_grid():
    def part(rows, is_train, w, table=None):
        given = {"factors": FACTORS[rows], "is_train": is_train}
        return bullets(mixture, model(table), weighted(w)[rows], **given)[0]

    rows = np.flatnonzero((FACTORS[:, 0] + 2 * FACTORS[:, 1]) % 3)
    texts = part(rows, TRAIN[rows], [1, 1, 0, 0])
    assert texts["Held-out combinations"].startswith("composes as a sum")
    # Any outputs on combinations without a cycle are a sum over two factors.
    texts = part([0, 1, 2, 3, 5], np.arange(5) < 3, [0, 0, 0, 1], RANDOM)
    assert texts["Factors"].startswith("no verdict, any outputs on these combinations are a sum")
    # Without two combinations that differ in one factor only, no effect is known.
    texts = part([0, 6, 12, 18, 24], np.arange(5) < 3, [1, 1, 0, 0])
    assert texts["Factors"].startswith("undefined, no two combinations differ in one factor only")


def noisy(params, x):
    return mixture(params, x) + x[:, 14]


@pytest.mark.parametrize(
    "scale, verdict", [(2.0, "no verdict, sampling noise"), (0.05, "composes")]
)
def test_noise_between_inputs_is_not_interaction(scale, verdict):
    rows = np.repeat(np.arange(25), 8)
    noise = scale * np.random.default_rng(1).normal(size=(200, 1)).astype(np.float32)
    given = {"factors": FACTORS[rows], "is_train": TRAIN[rows]}
    x = np.concatenate([weighted([1, 1, 0, 0])[rows], noise], axis=1)
    texts, lenses = bullets(noisy, model(), x, **given)
    assert texts["Held-out combinations"].startswith(verdict), texts
    assert "factors add" in texts["Factors"] and not lenses.dependence.is_weak.any()
    expected = scale**2 / 8 / (6 + scale**2 / 8)
    assert lenses.dependence.noise == pytest.approx(expected, rel=0.25)
    x = np.concatenate([weighted([1, 0, 0, 0])[rows], noise], axis=1)
    texts, lenses = bullets(noisy, model(), x, **given)
    assert texts["Factors"].startswith("outputs hardly depend on colour")
    # A table is not a sum with noise, even with noise.
    x = np.concatenate([weighted([0, 0, 0, 1])[rows], noise], axis=1)
    texts, lenses = bullets(noisy, model(np.where(TRAIN, 2 * SUM, 0)), x, **given)
    assert texts["Factors"].startswith("factors interact")
    assert "no verdict" not in texts["Held-out combinations"]


def test_outputs_of_unequal_scale():
    def two(params, x):
        a, b = x[:, :5] @ params["a"], x[:, 5:] @ params["b"]
        return jnp.stack([100 * a, b], axis=1)

    texts, _ = bullets(two, model(), CODES)
    assert texts["Held-out combinations"].startswith("composes as a sum")
    assert texts["Factors"].startswith("each output depends on one factor, each factor has")

    def sum_and_product(params, x):
        a, b = x[:, :5] @ params["a"], x[:, 5:] @ params["b"]
        return jnp.stack([100 * (a + b), a * b], axis=1)

    texts, lenses = bullets(sum_and_product, model(), CODES)
    assert lenses.kernel.r2 > 0.999  # of both outputs together
    assert texts["Held-out combinations"].startswith("composes with errors as a sum")
    assert texts["Factors"].startswith("factors interact, interaction 1.000")


def linear(params, x):
    return x @ params


def test_many_outputs():
    w = np.random.default_rng(0).normal(size=(10, 1000))
    texts, _ = bullets(linear, jnp.asarray(w, jnp.float32), CODES)
    assert texts["Held-out combinations"].startswith("composes as a sum")


def test_few_digits_do_not_count_against_the_kernel():
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), model())
    x = weighted([1, 1, 0, 0]).astype(jnp.bfloat16)
    texts, _ = bullets(mixture, params, x, targets=SUM)
    assert texts["Held-out combinations"].startswith("composes;")
    assert "approximate, f computes with few digits" in texts["Held-out combinations"]
    assert "check that no held-out" not in texts["Held-out combinations"]


# --- three factors --------------------------------------------------------------------------------

CUBE = np.indices((3, 4, 3)).reshape(3, -1).T
CUBE_CODES = np.concatenate([np.eye(4)[column] for column in CUBE.T], axis=1).astype(np.float32)
LEVELS = np.array([[-1.0, 0, 1, 9], [-3, -1, 1, 3], [-1, 0, 1, 9]])


def cubic(params, x):
    """w0 a + w1 b + w2 c + w3 ab + w4 ac + w5 abc."""
    a, b, c = (x[:, 4 * k : 4 * k + 4] @ params[k] for k in range(3))
    return jnp.sum(x[:, 12:] * jnp.stack([a, b, c, a * b, a * c, a * b * c], axis=1), axis=1)


THREE = {
    "a sum": ([1, 1, 1, 0, 0, 0], "composes as a sum", "factors add"),
    "one pair": (
        [0, 0, 1, 1, 0, 0], "does not compose as a sum",
        "factors interact, interaction 0.833 of the variance (p x q 0.833, p x r 0.000, q x r "
        "0.000, beyond pairs 0.000)",
    ),
    "two pairs": (
        [0, 0, 0, 1, 1, 0], "does not compose as a sum",
        "factors interact, interaction 1.000 of the variance (p x q 0.882, p x r 0.118, q x r "
        "0.000, beyond pairs 0.000)",
    ),
    "a triple": (
        [0, 0, 0, 0, 0, 1], "does not compose as a sum",
        "factors interact, interaction 1.000 of the variance (p x q 0.000, p x r 0.000, q x r "
        "0.000, beyond pairs 1.000)",
    ),
    "ignores a third factor": (
        [1, 1, 0, 0, 0, 0], "composes as a sum over factors, outputs ignore r", "factors add",
    ),
    "ignores two factors": (
        [1, 0, 0, 0, 0, 0], "does not compose, outputs ignore q and r", "outputs ignore q and r",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", THREE)
def test_additivity_of_pairs(name):
    w, held_out, factors = THREE[name]
    given = {"factors": CUBE, "is_train": np.sum(CUBE > 0, axis=1) < 2, "names": ("p", "q", "r")}
    params = jnp.asarray(LEVELS, jnp.float32)
    texts, _ = bullets(cubic, params, weighted(w, CUBE_CODES), **given)
    assert texts["Held-out combinations"].startswith(held_out), texts["Held-out combinations"]
    assert texts["Factors"].startswith(factors), texts["Factors"]


# --- classifiers ----------------------------------------------------------------------------------

CLASSES = (FACTORS[:, 0] + FACTORS[:, 1]) % 3


def table_of_logits(params, x):
    return jnp.einsum("ni,nj,ijk->nk", x[:, :5], x[:, 5:], params)


def logits(labels, n_classes=3):
    table = 8 * np.eye(n_classes)[labels] + RANDOM[:, None]
    return jnp.asarray(table.reshape(5, 5, n_classes), jnp.float32)


@pytest.mark.parametrize(
    "answers, labels, accuracy, verdict",
    [
        (CLASSES, CLASSES, (1, 1), "generalises; accuracy 1.00 on 13 training and 1.00 on 12"),
        (np.where(TRAIN, CLASSES, (CLASSES + 1) % 3), CLASSES, (1, 0), "does not generalise"),
        (
            np.where(TRAIN | (FACTORS[:, 1] != 1), CLASSES, (CLASSES + 1) % 3),
            CLASSES,
            (1, 9 / 12),
            "generalises in part",
        ),
        ((CLASSES + 1) % 3, CLASSES, (0, 0), "no verdict, the model does not fit the training"),
        (
            np.where(TRAIN, CLASSES % 2, 2),
            np.where(TRAIN, CLASSES % 2, 2),
            (1, 1),
            "no verdict, 100% of held-out labels are in no training combination",
        ),
        (
            np.where(TRAIN, CLASSES, 1),
            np.where(TRAIN, CLASSES, 1),
            (1, 1),
            "no verdict, held-out labels hardly vary",
        ),
    ],
)
def test_accuracy_comes_first(answers, labels, accuracy, verdict):
    texts, lenses = bullets(table_of_logits, logits(answers), CODES, labels=labels)
    assert texts["Held-out combinations"].startswith(verdict), texts["Held-out combinations"]
    np.testing.assert_allclose([lenses.accuracy.train[0], lenses.accuracy.held_out[0]], accuracy)
    assert f"accuracy {accuracy[0]:.2f} on 13 training" in texts["Held-out combinations"]
    assert lenses.headline().startswith(f"Accuracy {accuracy[1]:.2f} on held-out combinations")


def test_heads_are_counted_one_by_one():
    def heads(params, x):
        return jnp.stack([x[:, :5] @ params[0], x[:, 5:] @ params[1]], axis=1)

    params = [jnp.eye(5), jnp.eye(5)]
    texts, lenses = bullets(heads, params, CODES, labels=FACTORS)
    np.testing.assert_array_equal(lenses.accuracy.held_out, [1, 1])
    assert texts["Held-out combinations"].startswith("generalises;")
    shifted = [params[0], jnp.roll(params[1], 1, axis=1)]
    texts, lenses = bullets(heads, shifted, CODES, labels=FACTORS)
    np.testing.assert_array_equal(lenses.accuracy.train, [1, 0])
    assert "worst of 2 heads 0.00" in texts["Held-out combinations"]
    panel = plots.lenses(lenses).axes[1]
    assert [bar.get_height() for bar in panel.patches][:2] == [0.5, 0.5]


def test_the_kernel_machine_of_a_linear_classifier_has_its_accuracy():
    """Logits that are sums over factors follow from those of training combinations."""
    w = np.concatenate([np.arange(5)[:, None] * [0, 1, 2], np.arange(5)[:, None] * [0, -1, 1]])
    labels = np.argmax(CODES @ w, axis=1)
    _, lenses = bullets(linear, jnp.asarray(w, jnp.float32), CODES, labels=labels)
    assert lenses.accuracy.kernel[0] == lenses.accuracy.held_out[0] == 1


# --- progress -------------------------------------------------------------------------------------


def test_progress_is_printed_unless_silenced(capsys):
    given = {"factors": FACTORS, "is_train": TRAIN}
    look(mixture, model(), weighted([1, 1, 0, 0]), **given)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "look: outputs of 25 inputs" and "look: tangent kernel" in lines
    assert all(line.startswith("look: ") for line in lines)
    look(mixture, model(), weighted([1, 1, 0, 0]), **given, verbose=False)
    assert capsys.readouterr().out == ""
