"""Paired digits, the plane, their networks and losses."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import like, quick_key

from cgjax import config as configs
from cgjax.analysis import dependence
from cgjax.core.errors import BadInput
from cgjax.data import sources
from cgjax.experiments.resistance import models, pairs, plane, scan
from cgjax.nets.rnn import previous

LABELS = np.repeat(np.arange(10), np.arange(3, 13))  # classes of different sizes
IMAGES = np.broadcast_to(np.arange(len(LABELS), dtype=np.uint8)[:, None, None], (75, 28, 28))
DIGITS = pairs.index_digits(IMAGES, LABELS)
draw = jax.jit(pairs.draw_pairs, static_argnums=3)

# --- pairs of digits ------------------------------------------------------------------------------


@pytest.mark.parametrize("name, coverage", [("A", 20), ("B", 100), ("test", 80)])
def test_label_rules(name, coverage):
    drawn = draw(quick_key(0), DIGITS, pairs.LAWS[name], 10_000)
    y1, y2 = np.asarray(drawn.y1), np.asarray(drawn.y2)
    offset = (y2 - y1) % 10
    allowed = {"A": {0, 1}, "B": set(range(10)), "test": set(range(2, 10))}[name]
    assert set(offset.tolist()) == allowed
    assert np.abs(np.bincount(offset, minlength=10) / 10_000 - pairs.LAWS[name]).max() < 0.02
    assert np.abs(np.bincount(y1, minlength=10) / 10_000 - 0.1).max() < 0.02
    assert len(np.unique(10 * y1 + y2)) == coverage
    np.testing.assert_array_equal(LABELS[drawn.left], y1)
    np.testing.assert_array_equal(LABELS[drawn.right], y2)
    of_nine = np.bincount(np.asarray(drawn.right)[y2 == 9], minlength=75)[-12:]
    assert of_nine.min() > 0.6 * of_nine.mean()  # uniform within a class
    if name == "test":  # an answer by X_2 alone is never right
        assert not np.any(pairs.suggested(y2) == y1[:, None])
    if name == "A":  # the best guess from X_2 alone is right half of the time
        assert np.mean(y2 == y1) == pytest.approx(0.5, abs=0.02)


def test_settings_share_their_left_digits():
    a, b = (draw(quick_key(1), DIGITS, pairs.LAWS[name], 10_000) for name in ("A", "B"))
    np.testing.assert_array_equal(a.left, b.left)
    assert np.any(a.right != b.right)
    redrawn = jax.jit(pairs.redraw_right)(quick_key(2), DIGITS, a)
    np.testing.assert_array_equal(redrawn.left, a.left)
    np.testing.assert_array_equal(LABELS[redrawn.right], redrawn.y2)


def test_doses_and_widths():
    np.testing.assert_allclose(pairs.law(), pairs.LAWS["A"])
    for same in (pairs.law(10), pairs.law(2, 0.0)):
        np.testing.assert_allclose(same, pairs.LAWS["B"])
    np.testing.assert_allclose(pairs.law(2, 0.5), [0.3, 0.3] + 8 * [0.05], rtol=1e-6)
    laws = jax.vmap(pairs.law)(jnp.arange(1, 11))
    np.testing.assert_allclose(laws.sum(axis=1), 1, rtol=1e-6)
    assert np.all((laws > 0).sum(axis=1) == np.arange(1, 11))


def test_inputs():
    some = pairs.Pairs(*np.array([[3, 5], [7, 74], [0, 1], [1, 9]]))
    x = pairs.network_input(IMAGES, some)
    assert x.shape == (2, 28, 56, 1) and x.dtype == jnp.float32
    np.testing.assert_allclose(x[1, 0, [0, 27, 28, 55], 0], np.array([5, 5, 74, 74]) / 255)
    made_up = pairs.load_digits("test", 40)
    np.testing.assert_array_equal(made_up.counts, 4)
    assert made_up.images.shape == (40, 28, 28)
    with pytest.raises(BadInput, match="of all 10 classes"):
        pairs.index_digits(IMAGES, LABELS % 9)
    assert np.any(pairs.load_digits("train", 40).images != made_up.images)
    assert sources.SHAPES["mnist"] == (28, 28, 1)


def test_overlaid_and_absent_digits():
    """Both digits are on the same pixels; a share of pairs has no right digit."""
    x = np.zeros((1, 28, 56, 1), np.float32)
    x[0, 3, 5], x[0, 3, 28 + 9] = 0.5, 1
    both = np.asarray(pairs.overlaid(jnp.asarray(x)))[0, :, :, 0]
    assert both.shape == (28, 28) and (both[3, 5], both[9, 3]) == (0.5, 1) and both.sum() == 1.5
    drawn = draw(quick_key(0), DIGITS, pairs.LAWS["B"], 10_000)
    rare = jax.jit(pairs.without_right)(quick_key(1), drawn, 0.9)
    is_absent = np.asarray(rare.right) < 0
    assert is_absent.mean() == pytest.approx(0.9, abs=0.02)
    np.testing.assert_array_equal(np.asarray(rare.right)[~is_absent], drawn.right[~is_absent])
    # Pairs of the test are as rare as where X_2 tells in 0.9 of the samples, and X_2 never tells.
    offset = (np.asarray(rare.y2) - rare.y1)[~is_absent] % 10
    assert np.sum(offset >= 2) / 10_000 == pytest.approx(0.08, abs=0.01)
    some = jax.tree.map(lambda leaf: leaf[:50], rare)
    shown = np.asarray(pairs.network_input(IMAGES + np.uint8(1), some))[:, :, 28:].any(
        axis=(1, 2, 3)
    )
    np.testing.assert_array_equal(shown, ~is_absent[:50])


def test_absence_is_independent_of_the_offset():
    """Right digits are present under every offset, and those present have all offsets equally."""
    config = dict(configs.parts(configs.load("resistance:overlaid")))["overlaid"]
    replica = {"width": 10.0, "rho": 0.0, "absent": 0.9}
    drawn = pairs.draw(config, jax.random.key(0), DIGITS, replica, 20_000)
    same = draw(jax.random.key(0), DIGITS, pairs.law(10, 0.0), 20_000)
    np.testing.assert_array_equal(drawn.y2, same.y2)
    is_present = np.asarray(drawn.right) >= 0
    offset = (np.asarray(drawn.y2) - drawn.y1) % 10
    shares = np.bincount(offset[is_present], minlength=10) / len(offset)
    np.testing.assert_allclose(shares, 0.01, atol=0.004)  # 0.9 absent; five standard errors


# --- networks -------------------------------------------------------------------------------------


def shapes(module, x):
    return jax.eval_shape(module.init_with_output, quick_key(0), jnp.zeros(x))


def count(variables):
    return sum(leaf.size for leaf in jax.tree.leaves(variables))


def test_published_sizes():
    out, variables = shapes(models.PairNet(), (2, 28, 56, 1))
    assert out.shape == (2, 10) and count(variables) == 1_145_930
    kernels = {name: layer["kernel"].shape for name, layer in variables["params"].items()}
    assert kernels == {
        "conv_0": (3, 3, 1, 32),
        "conv_2": (3, 3, 32, 64),
        "dense_0": (17_600, 64),
        "dense_1": (64, 10),
    }
    out, variables = shapes(models.PairNet(arch="three_conv", heads=2), (2, 28, 56, 1))
    assert out.shape == (2, 2, 10)
    assert variables["params"]["dense_0"]["kernel"].shape == (3 * 10 * 64, 64)
    out, variables = shapes(models.PlaneNet(), (5, 2))
    assert out.shape == (5, 2) and count(variables) == 186
    out, _ = shapes(models.PlaneNet(heads=2), (5, 2))
    assert out.shape == (5, 2, 2)
    out, variables = shapes(models.Towers(models.PairNet(), 2), (2, 28, 56, 1))
    assert out.shape == (2, 10) and variables["params"]["gate"].shape == ()
    with pytest.raises(BadInput, match="unknown arch"):
        shapes(models.PairNet(arch="vgg"), (2, 28, 56, 1))


def on_plane(module):
    return shapes(module, (1, 2))[1]["params"]


def test_initial_values():
    net = shapes(models.PairNet(), (2, 28, 56, 1))[1]["params"]
    small = {name: net[name] for name in ("conv_2", "dense_1")}
    params = jax.jit(lambda key: models.initial(key, small))(quick_key(0))
    for name, (fan_in, fan_out) in {"conv_2": (288, 576), "dense_1": (64, 10)}.items():
        kernel, bound = np.asarray(params[name]["kernel"]), np.sqrt(6 / (fan_in + fan_out))
        assert 0.9 * bound < np.abs(kernel).max() <= bound
        assert kernel.std() == pytest.approx(bound / 3**0.5, rel=0.15)
        assert not params[name]["bias"].any()
    towers = on_plane(models.Towers(models.PlaneNet(n_hidden=1), 1))
    initial = jax.jit(lambda scale, std: models.initial(quick_key(1), towers, "glorot", scale, std))
    plain, scaled = initial(1.0, 0.0), initial(3.0, 1.0)
    assert plain["gate"] == scaled["gate"] == 1
    layers = [tree["tower_0"]["net"]["dense_1"] for tree in (plain, scaled)]
    np.testing.assert_allclose(3 * layers[0]["kernel"], layers[1]["kernel"], rtol=1e-6)
    assert not layers[0]["bias"].any() and layers[1]["bias"].all()
    like = on_plane(models.PlaneNet(tanh=True))
    playground = jax.jit(lambda key: models.initial(key, like, "playground"))(quick_key(0))
    for layer in playground["net"].values():
        assert np.abs(layer["kernel"]).max() <= 0.5 and np.all(layer["bias"] == np.float32(0.1))
    with pytest.raises(BadInput, match="unknown init"):
        models.initial(quick_key(0), towers, "orthogonal")


def test_towers_depend_on_the_second_half_through_the_gate_alone():
    net = models.Towers(models.PlaneNet(n_hidden=1), 1)
    like = on_plane(net)
    params = jax.jit(lambda key: models.initial(key, like))(quick_key(0))
    x = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    measure = jax.jit(
        lambda params: dependence.gradient_dependence(
            lambda p, x: net.apply({"params": p}, x), params, x, np.array([0, 1])
        )[0]
    )
    open_, half, shut = (measure({**params, "gate": jnp.array(g)}) for g in (1.0, 0.5, 0.0))
    np.testing.assert_allclose(half[1], open_[1] / 2, rtol=1e-5)
    assert shut[1] == 0 and shut[0] == open_[0] > 0


def test_losses():
    s = jnp.array([[2.0, 0.5, -1.0], [-3.0, -2.0, -4.0]])
    y = jnp.array([0, 1])
    # Second: all scores are negative, and the inner maximum is 0.
    np.testing.assert_allclose(models.categorical_hinge(s, y), [0, 3])
    expected = [(0 + 1.5 + 0) / 3, (0 + 3 + 0) / 3]
    np.testing.assert_allclose(models.one_vs_rest_hinge(s, y), expected, rtol=1e-6)
    np.testing.assert_allclose(models.half_squared(jnp.array([[0.5, -0.5]]), jnp.array([1])), 1.125)
    assert {"categorical_hinge", "one_vs_rest_hinge", "cross_entropy"} <= models.LOSSES.keys()


def test_a_large_batch_holds_the_activations_of_some_samples_at_a_time():
    """Without chunks, one step of 2,048 samples and sixteen networks needs 37 GiB."""
    config = configs.load("resistance:one_step,paper")
    config = next(own for name, own in configs.parts(config) if name == "digits")
    params = shapes(pairs.network(config), (1, 28, 56, 1))[1]["params"]
    params = jax.tree.map(lambda leaf: 0.1 * leaf, like(params))
    drawn = draw(quick_key(1), DIGITS, pairs.LAWS["A"], 201)

    def total(params, drawn):
        return jnp.sum(pairs.head_losses(config, params, jnp.asarray(DIGITS.images), drawn))

    def held(n):
        some = jax.tree.map(lambda leaf: leaf[:n], drawn)
        compiled = jax.jit(jax.grad(total)).lower(params, some).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert held(200) < 1.5 * held(50)
    some = jax.tree.map(lambda leaf: leaf[:3], drawn)
    each = jax.lax.map(lambda one: total(params, jax.tree.map(lambda leaf: leaf[None], one)), some)
    np.testing.assert_allclose(total(params, some), np.mean(each), rtol=1e-6)


def test_the_penalty_is_the_square_of_the_dependence():
    w = jax.random.normal(quick_key(0), (2, 3))
    centred = w - w.mean(axis=1, keepdims=True)

    def penalty(w):
        return models.gradient_penalty(lambda w, x: x @ w, w, jnp.ones((4, 2)), np.array([0, 1]))

    value, gradient = jax.jit(jax.value_and_grad(penalty))(w)
    assert value == pytest.approx(float(jnp.sum(centred[1] ** 2)), rel=1e-5)
    np.testing.assert_allclose(gradient, [[0, 0, 0], 2 * centred[1]], atol=1e-5)


def test_the_target_s_logit_has_a_share_of_its_own():
    """Of a linear network it is that of the target's column of weights, which is not centred."""
    w = jnp.zeros((28, 56, 10)).at[3, 5].set(2.0).at[3, 40].set(jnp.arange(10.0))
    y1 = jnp.array([4, 0, 9])

    @jax.jit
    def share(w, y1):
        x = jnp.ones((len(y1), 28, 56, 1))
        return pairs.share_of_target(lambda w, x: jnp.einsum("nrci,rcl->nl", x, w), w, x, y1)

    for k in (0, 4, 9):
        assert share(w, jnp.array([k])) == pytest.approx(k / (2 + k))
    d_1, d_2 = 2, np.mean([4, 0, 9])  # means of norms, and then the share
    assert share(w, y1) == pytest.approx(d_2 / (d_1 + d_2))


def test_tokens_are_scored_up_to_the_end():
    line = ("jump twice", "I_JUMP I_JUMP")
    short, long = (scan.encode([line], 10, n).actions for n in (4, 9))
    logits = np.random.default_rng(0).normal(size=(1, 9, 8)).astype(np.float32)
    loss = jax.jit(models.token_loss)
    value = loss(logits[:, :4], short)
    assert loss(logits, long) == pytest.approx(float(value), rel=1e-6)
    odds = np.exp(logits[0, :3])
    each = -np.log(odds / odds.sum(axis=-1, keepdims=True))[np.arange(3), short[0, :3]]
    assert value == pytest.approx(each.mean(), rel=1e-5)
    np.testing.assert_array_equal(previous(short, 8)[0], [8, *short[0, :3]])


# --- the plane ------------------------------------------------------------------------------------


@functools.cache
def drawn():
    """3000 training points, as many of the control, 500 of the test."""

    @jax.jit
    def points(key):
        draw = functools.partial(plane.draw, key, 3000)
        pair = jax.vmap(lambda control: draw(control=control))(jnp.array([False, True]))
        return pair, plane.draw(key, 500, plane.TEST_CELLS)

    (x, y), test = jax.tree.map(np.asarray, points(quick_key(0)))
    return plane.Points(x[0], y[0]), plane.Points(x[1], y[1]), test


def test_cells():
    train, control, test = drawn()
    assert np.all((train.x > 0) == (train.y == 1)) and np.abs(train.x).max() <= 1
    counts = [int(plane.in_cell(train, cell).sum()) for cell in plane.TRAIN_CELLS]
    assert sum(counts) == 3000 and min(counts) > 900
    information = dependence.information(train.y[:, 0], train.y[:, 1])
    assert information == pytest.approx(0.1744, abs=0.03)
    assert np.all(test.x > 0) and np.all(test.y == 1)
    np.testing.assert_array_equal(control.x[:, 0], train.x[:, 0])
    np.testing.assert_array_equal(control.y[:, 1], control.x[:, 1] > 0)
    assert dependence.information(control.y[:, 0], control.y[:, 1]) < 0.005


def test_grid_and_angle():
    grid = plane.grid(5)
    assert grid.shape == (5, 5, 2)
    np.testing.assert_array_equal(grid[0, 4], [1, -1])
    assert plane.boundary_angle(jnp.array([[2.0, 0], [1, 0]])) == 0
    assert plane.boundary_angle(jnp.array([[1.0, 1], [1, 1]])) == pytest.approx(45)
    angles = np.array([0.0, 180, -180, 90, -90, 30, -30, 150, -150])
    np.testing.assert_allclose(plane.tilt(angles), [0, 0, 0, 90, 90, 30, 30, 30, 30])


def test_the_plane_is_learned_and_the_control_generalises():
    """After 16 epochs, over 12 pairs of runs; the prototype has 0.878 against 0.971."""
    net = models.PlaneNet()
    like = on_plane(net)
    *settings, test = drawn()

    def accuracy(params, points):
        return jnp.mean(jnp.argmax(net.apply({"params": params}, points.x), -1) == points.y[:, 0])

    def loss(params, points):
        logits = net.apply({"params": params}, points.x)
        return jnp.mean(models.LOSSES["cross_entropy"](logits, points.y[:, 0]))

    @jax.jit
    @jax.vmap
    def start(key):
        return models.initial(key, like)

    @jax.jit
    @jax.vmap
    def run(params, points):
        batches = jax.tree.map(lambda a: a.reshape(25, 10, 2), points)

        def step(params, i):
            grads = jax.grad(loss)(params, jax.tree.map(lambda a: a[i % 25], batches))
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), None

        params, _ = jax.lax.scan(step, params, jnp.arange(16 * 25))
        return accuracy(params, points), accuracy(params, test)

    params = start(jax.random.split(quick_key(0), 12))
    runs = [
        run(params, jax.tree.map(lambda a: a.reshape(12, 250, 2), points)) for points in settings
    ]
    (train_a, test_a), (train_b, test_b) = np.asarray(runs)
    assert np.mean([train_a, train_b]) > 0.97
    gain = test_b - test_a
    assert 0.75 < test_a.mean() < 0.94 < test_b.mean()
    assert gain.mean() > 3 * gain.std() / 12**0.5
