"""Masks against stored arrays, against counting, and on linen and nnx models."""

import doctest

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx
from jax import lax

from cgjax.analysis import masks, ntk

KEY = jax.random.key(0)
LAYERS = ("conv1", "conv2", "fc1", "fc2")
W = np.arange(-6.0, 6.0, dtype=np.float32).reshape(3, 4)
PARAMS = {"a": {"kernel": W, "bias": np.ones(4, np.float32)}, "b": {"kernel": W[:2] / 10}}


# --- one weight, against stored arrays ------------------------------------------------------------


def test_continuous_sparsification_follows_the_reference(golden):
    stored = golden("subnetworks/cs_masks")
    s, beta = jnp.asarray(stored["s"]), jnp.asarray(stored["beta"], jnp.float32)

    @jax.jit
    @jax.vmap
    def found(beta):
        soft, slope = jax.vmap(jax.value_and_grad(masks.soft), (0, None))(s, beta)
        return soft, slope, masks.penalty(s, beta)

    soft, slope, penalty = found(beta)
    np.testing.assert_allclose(soft, stored["soft_mask"], atol=1e-6)
    np.testing.assert_allclose(slope, stored["dmask_ds"], atol=1e-6, rtol=1e-5)
    np.testing.assert_allclose(penalty, stored["l0_soft"], rtol=1e-6)
    hard = masks.hard(s)
    np.testing.assert_array_equal(hard, stored["hard_mask"])
    np.testing.assert_array_equal(masks.invert(hard), stored["ablation_mask"])
    assert masks.kept(hard) * masks.size(hard) == stored["hard_l0"]


def test_the_temperature_rises_before_the_first_epoch_or_does_not(golden):
    stored = golden("subnetworks/cs_masks")
    epochs = stored["beta_schedule_epochs"]
    for from_one, name in ((False, "official"), (True, "nominal")):
        found = masks.beta_schedule(epochs, 90, 200.0, from_one=from_one)
        np.testing.assert_allclose(found, stored[f"beta_schedule_{name}"], rtol=2e-6)


def test_hard_concrete_follows_the_reference(golden):
    stored = golden("subnetworks/hard_concrete")
    keep, start = stored["init_log_alpha_for_keep"].T

    @jax.jit
    def found(log_alpha, u):
        sample = jax.vmap(masks.concrete_sample, (None, 0))
        return {
            "sample": sample(log_alpha, u),
            "dsum_dlog_alpha": jax.grad(lambda a: jnp.sum(sample(a, u)))(log_alpha),
            "expected_l0": jax.vmap(masks.concrete_penalty)(log_alpha),
            "expected_l0_total": masks.concrete_penalty(log_alpha),
            "hard_mask": masks.concrete_hard(log_alpha),
            "init": masks.concrete_init(keep),
        }

    found = found(stored["log_alpha"], stored["u"])
    np.testing.assert_allclose(found.pop("init"), start, rtol=1e-6, atol=1e-6)
    for name, value in found.items():
        np.testing.assert_allclose(value, stored[name], atol=1e-6, rtol=1e-6)


def test_a_weight_nobody_needs_falls_as_fast_as_the_reference(golden):
    """Only the penalty has a gradient, of the size of Adam's eps: 1e-8, nothing under the root."""
    stored = golden("subnetworks/adam_l0_only")
    rates, starts, *expected = stored["rows"].T
    steps = int(stored["steps_per_epoch"])
    adam = optax.scale_by_adam(eps=1e-8, eps_root=0.0)

    def step(carry, epoch):
        s, state = carry
        gradient = jax.grad(lambda s: 1e-8 * masks.penalty(s, masks.beta_schedule(epoch, 90)))(s)
        update, state = adam.update(gradient, state)
        return (s - jnp.asarray(rates, s.dtype) * update, state), s

    s = jnp.asarray(starts, jnp.float32)
    epochs = np.repeat(np.arange(1, 4), steps)
    (last, _), path = jax.jit(lambda s: lax.scan(step, (s, adam.init(s)), epochs))(s)
    path = np.concatenate([path, last[None]])
    np.testing.assert_allclose(path[steps::steps], expected, atol=1e-4)


# --- a small network, against stored arrays -------------------------------------------------------


@pytest.fixture(scope="module")
def stored(golden):
    return dict(golden("subnetworks/masked_net"))


def ours(stored, prefix, dtype=np.float32):
    """Kernels with outputs last: {"conv1": {"kernel": [3, 3, in, out]}, ...}."""
    layers = {}
    for layer in LAYERS:
        kernel = stored[prefix + layer]
        axes = (2, 3, 1, 0) if kernel.ndim == 4 else (1, 0)
        layers[layer] = {"kernel": jnp.asarray(kernel.transpose(axes), dtype)}
        if layer.startswith("fc"):
            bias = stored["b_" + layer]
            layers[layer]["bias"] = jnp.asarray(bias, dtype) if prefix == "w_" else None
    return layers


def embed(params, images):
    def conv(x, layer, stride):
        x = lax.conv_general_dilated(
            x,
            params[layer]["kernel"],
            (stride, stride),
            ((1, 1), (1, 1)),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
        return jax.nn.relu((x - mean) / jnp.sqrt(variance + 1e-5))

    def dense(x, layer):
        return x @ params[layer]["kernel"] + params[layer]["bias"][None]

    x = conv(conv(images, "conv1", 2), "conv2", 1).mean((1, 2))
    return dense(jax.nn.relu(dense(x, "fc1")), "fc2")


def odd_one_out(embeddings):
    z = embeddings / jnp.maximum(jnp.linalg.norm(embeddings, axis=-1, keepdims=True), 1e-12)
    z = z.reshape(-1, 4, z.shape[-1])
    return -jnp.einsum("nid,njd->ni", z, z)


def forward(params, images):
    embeddings = embed(params, images)
    return embeddings, odd_one_out(embeddings)


@jax.jit
def total(s, params, images, labels, beta, price):
    """Cross-entropy plus the price of the mask, with its parts and its gradient in the scores."""

    def loss(s):
        embeddings, logits = forward(masks.apply(params, masks.soft(s, beta)), images)
        entropy = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        size = masks.penalty(s, beta)
        return entropy + price * size, (embeddings, logits, entropy, size)

    return jax.value_and_grad(loss, has_aux=True)(s)


def images_of(stored, dtype=np.float32):
    images = stored["x_nchw"].reshape(-1, 3, 8, 8).transpose(0, 2, 3, 1)
    return jnp.asarray(images, dtype), jnp.asarray(stored["labels"])


def test_a_masked_network_and_its_gradients_follow_the_reference(stored):
    params, s, data = ours(stored, "w_"), ours(stored, "s_"), images_of(stored)
    for beta in (1, 20, 200):
        (loss, parts), slope = total(s, params, *data, float(beta), stored["lam"])
        names = ("embeddings", "logits", "ce", "l0")
        for name, found in zip((*names, "total"), (*parts, loss)):
            np.testing.assert_allclose(found, stored[f"b{beta}_{name}"], atol=1e-5, rtol=1e-6)
        for layer, expected in ours(stored, f"b{beta}_grad_s_").items():
            found = slope[layer]["kernel"]
            np.testing.assert_allclose(found, expected["kernel"], atol=1e-5)


def test_subnetwork_and_ablations_follow_the_reference(stored):
    params, s, (images, _) = ours(stored, "w_"), ours(stored, "s_"), images_of(stored)

    @jax.jit
    def networks(params, s, others):
        hard = masks.hard(s)
        ablated = masks.ablate(params, hard), masks.replace(params, hard, others)
        found = params, masks.apply(params, hard), *ablated
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)
        return jax.vmap(forward, (0, None))(stacked, images), masks.size(hard), masks.kept(hard)

    found, size, kept = networks(params, s, ours(stored, "rand_"))
    for i, name in enumerate(("dense", "sub", "ablate_zero", "ablate_random")):
        np.testing.assert_allclose(found[0][i], stored[f"{name}_embeddings"], atol=1e-5)
        np.testing.assert_allclose(found[1][i], stored[f"{name}_logits"], atol=1e-5)
    assert size == stored["l0_max"]
    assert kept == pytest.approx(stored["hard_l0"] / stored["l0_max"])


@pytest.mark.parametrize("x64", (False, True))
def test_adam_learns_the_reference_s_masks(stored, x64):
    dtype, tolerance = (np.float64, 1e-6) if x64 else (np.float32, 1e-4)
    with jax.enable_x64(x64):
        params, data = ours(stored, "w_", dtype), images_of(stored, dtype)
        n = int(stored["adam_steps"])
        adam = optax.adam(float(stored["adam_lr"]))
        s = masks.init(params, "kernel", float(stored["adam_s_init"]))
        s = jax.tree.map(lambda leaf: jnp.full(leaf.shape, stored["adam_s_init"], dtype), s)

        def step(carry, i):
            s, state = carry
            beta = masks.beta_schedule(i, n)
            (loss, _), slope = total(s, params, *data, beta, float(stored["adam_lambda"]))
            update, state = adam.update(slope, state)
            return (optax.apply_updates(s, update), state), loss

        steps = jnp.arange(1, n + 1)
        (s, _), losses = jax.jit(lambda s: lax.scan(step, (s, adam.init(s)), steps))(s)
        np.testing.assert_allclose(losses, stored["adam_loss_trace"], atol=tolerance)
        for layer, expected in ours(stored, "adam_final_s_").items():
            np.testing.assert_allclose(s[layer]["kernel"], expected["kernel"], atol=tolerance)


# --- any model ------------------------------------------------------------------------------------


def test_three_lines_on_linen_and_on_nnx():
    """The same weights, the same scores: the same subnetwork and the same ablation."""
    theirs = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    graph, state = nnx.split(theirs)
    model = linen.Dense(4)
    params = {"kernel": theirs.kernel.get_value(), "bias": jnp.asarray(W[0])}
    state["bias"].set_value(params["bias"])
    x = jnp.asarray(W[:, :3])

    def signed(s):
        return jax.tree.map(lambda leaf: leaf * np.sign(W), s)

    @jax.jit
    def in_linen(params):
        m = masks.hard(signed(masks.init(params, "kernel", 1.0)))
        sub = model.apply({"params": masks.apply(params, m)}, x)
        return sub, model.apply({"params": masks.ablate(params, m)}, x)

    @jax.jit
    def in_nnx(state):
        m = masks.hard(signed(masks.init(state, "kernel", 1.0)))
        sub = nnx.merge(graph, masks.apply(state, m))(x)
        return sub, nnx.merge(graph, masks.ablate(state, m))(x)

    sub, ablated = in_linen(params)
    kernel, bias = np.asarray(params["kernel"]), np.asarray(params["bias"])
    np.testing.assert_allclose(sub, x @ (kernel * (W > 0)) + bias[None], rtol=1e-5)
    np.testing.assert_allclose(ablated, x @ (kernel * (W <= 0)) + bias[None], rtol=1e-5)
    for ours, of_nnx in zip((sub, ablated), in_nnx(state)):
        np.testing.assert_allclose(ours, of_nnx, rtol=1e-6)


def noise(shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_leaves_are_chosen_by_expression_or_function():
    assert list(masks.selected(PARAMS, "kernel")) == ["a/kernel", "b/kernel"]
    assert list(masks.selected(PARAMS, lambda name: name.startswith("a"))) == ["a/bias", "a/kernel"]
    s = masks.init(PARAMS, "^b/", 0.25)
    assert s["a"] == {"kernel": None, "bias": None}
    np.testing.assert_array_equal(s["b"]["kernel"], np.full((2, 4), 0.25, np.float32))
    small = jax.eval_shape(masks.apply, {"w": jnp.zeros(3, jnp.bfloat16)}, {"w": jnp.zeros(3)})
    assert small["w"].dtype == jnp.bfloat16


def test_units_are_masked_whole():
    @jax.jit
    def found():
        s = masks.init(PARAMS, "a/kernel", 0.1, per="unit")
        s["a"]["kernel"] -= np.array([[0, 1, 0, 0]])
        hard = masks.hard(s)
        each = masks.expand(hard, PARAMS)
        counts = masks.size(hard), masks.size(each), masks.kept(hard), masks.kept(each)
        return masks.apply(PARAMS, hard)["a"]["kernel"], counts

    kernel, counts = found()
    np.testing.assert_array_equal(kernel, W * np.array([[1, 0, 1, 1]]))
    assert counts == (4, 12, 0.75, 0.75)


def test_a_set_of_layers_is_a_number():
    """Layers that are off stay whole, count for nothing, get no gradient; sets are one program."""
    s = {"a": {"kernel": noise((3, 4)), "bias": None}, "b": {"kernel": noise((2, 4))}}

    @jax.jit
    @jax.vmap
    def one(a, b):
        on = {"a/kernel": a, "b/kernel": b}

        def output(s):
            return sum(map(jnp.sum, jax.tree.leaves(masks.apply(PARAMS, masks.soft(s, 2.0), on))))

        hard = masks.hard(s)
        return (
            jax.grad(output)(s),
            masks.penalty(s, 2.0, {"a": {"kernel": a}, "b": {"kernel": b}}),
            masks.size(hard, on),
            masks.kept(hard, on),
            masks.ablate(PARAMS, hard, on=on),
        )

    sets = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    slope, penalty, size, kept, ablated = one(*sets.T)
    np.testing.assert_array_equal(size, [20, 8, 12])
    each = [np.sum(1 / (1 + np.exp(-2 * s[name]["kernel"]))) for name in "ab"]
    np.testing.assert_allclose(penalty, sets @ each, rtol=1e-5)
    ones = [np.sum(s[name]["kernel"] > 0) for name in "ab"]
    np.testing.assert_allclose(kept, sets @ ones / size, rtol=1e-6)
    for column, name in enumerate("ab"):
        is_moved = np.abs(slope[name]["kernel"]).max((1, 2)) > 0
        np.testing.assert_array_equal(is_moved, sets[:, column] > 0)
    np.testing.assert_array_equal(ablated["a"]["kernel"][1], W)
    np.testing.assert_array_equal(ablated["a"]["kernel"][0], W * (s["a"]["kernel"] <= 0))


def test_random_ablation_draws_at_the_removed_places_only():
    """Of a kernel with 4 x 4 x 3 inputs."""
    params = {"kernel": jnp.ones((4, 4, 3, 50))}
    hard = {"kernel": jnp.asarray(noise((4, 4, 3, 50)) > 0, jnp.float32)}
    found = jax.jit(lambda: masks.ablate(params, hard, "random", KEY)["kernel"])()
    found, removed = np.asarray(found), np.asarray(hard["kernel"]) > 0
    assert np.all(found[~removed] == 1)
    assert 0.97 / 48**0.5 < np.abs(found[removed]).max() <= 1 / 48**0.5
    np.testing.assert_allclose(found[removed].std(), 48**-0.5 / 3**0.5, rtol=0.05)


# --- sizes and overlap ----------------------------------------------------------------------------

HARD = {"a": (np.arange(300).reshape(10, 30) % 5 == 0) * 1.0, "b": (np.arange(200) < 80) * 1.0}


@pytest.fixture(scope="module")
def draws():
    """500 times: two masks like HARD, their overlap, and one outside of HARD."""

    @jax.jit
    @jax.vmap
    def draw(key):
        pair = [masks.random_like(jax.random.fold_in(key, i), HARD) for i in range(2)]
        return pair[0], masks.overlap(pair), masks.complement_like(key, HARD)

    return jax.device_get(draw(jax.random.split(KEY, 500)))


def test_masks_of_the_same_size_are_drawn_evenly(draws):
    anywhere, _, outside = draws
    for name, m in HARD.items():
        for each in (anywhere, outside):
            assert np.all(np.sum(each[name].reshape(500, -1), axis=1) == m.sum())
        assert not np.any(outside[name] * m)
        np.testing.assert_allclose(np.mean(anywhere[name], 0), m.mean(), atol=0.1)
        share = m.sum() / (m.size - m.sum())
        np.testing.assert_allclose(np.mean(outside[name], 0), (1 - m) * share, atol=0.1)


def test_more_than_half_has_no_complement():
    full, on = {"a": 1 - HARD["a"], "b": HARD["b"]}, {"a": 0, "b": 1}

    @jax.jit
    def found():
        fits = [masks.has_complement(HARD), masks.has_complement(full)]
        return [*fits, masks.has_complement(full, on)], masks.complement_like(KEY, full, on)

    fits, outside = found()
    assert fits == [True, False, True]
    np.testing.assert_array_equal(outside["a"], full["a"])  # off: as it was
    assert not np.any(outside["b"] * full["b"])


def test_overlap_counts_all_masks_and_knows_what_chance_gives(draws):
    places = ([0, 1, 2], [1, 2, 3], [2, 3, 7])
    several = [{"w": np.isin(np.arange(8), each) * 1.0} for each in places]
    found, same = jax.jit(lambda: (masks.overlap(several), masks.overlap([HARD, HARD])))()
    assert found.iou["w"] == pytest.approx(1 / 5) == found.total
    np.testing.assert_array_equal(np.flatnonzero(masks.intersect(several[:2])["w"]), [1, 2])

    assert same.total == 1 == same.iou["b"]
    assert same.expected["a"] == pytest.approx(1 / 9) and same.expected["b"] == pytest.approx(1 / 4)
    chance = draws[1]
    unions = {"a": 108, "b": 128}  # expected; the mean of the ratio is so much above that of sizes
    for name, values in chance.iou.items():
        above = 1 + 1 / unions[name]
        np.testing.assert_allclose(np.mean(values), above * same.expected[name], rtol=0.03)
    np.testing.assert_allclose(np.mean(chance.total), same.expected_total, rtol=0.03)


# --- families -------------------------------------------------------------------------------------


def test_magnitude_keeps_the_largest():
    @jax.jit
    def found():
        changes = ({}, {"scope": "global"}, {"signed": True})
        return [masks.magnitude(PARAMS, "kernel", 0.25, **each) for each in changes]

    by_leaf, everywhere, signed = found()
    assert by_leaf["a"]["bias"] is None
    np.testing.assert_array_equal(np.flatnonzero(by_leaf["a"]["kernel"]), [0, 1, 11])
    np.testing.assert_array_equal(np.flatnonzero(by_leaf["b"]["kernel"]), [0, 1])
    assert np.sum(everywhere["a"]["kernel"]) == 5 and np.sum(everywhere["b"]["kernel"]) == 0
    np.testing.assert_array_equal(np.flatnonzero(signed["a"]["kernel"]), [9, 10, 11])


@pytest.mark.parametrize("name", masks.FAMILIES)
def test_families_share_one_way_to_search(name):
    """A step down the penalty's gradient removes the weights of the leaf that is on."""
    family = masks.FAMILIES[name]

    @jax.jit
    def found():
        s = family.init(PARAMS, "kernel", 0.6)
        penalty = lambda s: family.penalty(s, 5.0, {"a/kernel": 1, "b/kernel": 0})  # noqa: E731
        before, slope = jax.value_and_grad(penalty)(s)
        fallen = jax.tree.map(lambda s, slope: s - 10 * slope, s, slope)
        trained = masks.apply(PARAMS, family.train_mask(s, KEY, 5.0))
        return before, penalty(fallen), slope, trained, family.hard(s), family.hard(fallen)

    before, after, slope, trained, hard, fallen = found()
    assert trained["a"]["kernel"].shape == W.shape and trained["a"]["bias"].tolist() == [1] * 4
    assert not np.any(slope["b"]["kernel"])
    assert bool(np.any(slope["a"]["kernel"])) == family.learns == bool(after < before)
    assert np.any(hard["a"]["kernel"]) and np.any(fallen["b"]["kernel"])
    assert bool(np.any(fallen["a"]["kernel"])) != family.learns


# --- a search, and its file -----------------------------------------------------------------------


def test_the_example_of_a_search_runs():
    (example,) = doctest.DocTestFinder().find(masks.search, "search", globs={})
    assert doctest.DocTestRunner().run(example) == (0, 9)


def squared(outputs, y):
    return jnp.mean((outputs - y) ** 2)


@pytest.mark.parametrize("family", ("neuron", "hard_concrete"))
def test_a_search_finds_what_a_task_needs(family):
    """Half of a linear map serves the task; the frozen weights stay as they are."""
    params = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    x = jax.random.normal(KEY, (3, 32, 2))
    needed = jnp.array([[1.0, 0.0]])  # the second unit has to be silent
    batches = [(each, jnp.sum(each, axis=1, keepdims=True) * needed) for each in x]

    def f(params, x):
        return x @ params["kernel"]

    s0 = 0.5 if family == "hard_concrete" else 0.05
    search = masks.search(
        f, params, squared, batches, epochs=80, s0=s0, lr=0.05, penalty=1e-3, family=family
    )
    kept = np.broadcast_to(search.masks["kernel"], (2, 2))
    np.testing.assert_array_equal(kept, [[1, 0], [1, 0]])
    assert search.masks["bias"] is None and search.kept == 0.5
    assert search.losses.shape == (80,) and search.losses[-1] < 0.05 < search.losses[0]


def test_a_target_may_have_several_inputs():
    """As in odd one out, where four inputs have one answer."""

    def loss(outputs, y):
        return jnp.mean((outputs.reshape(-1, 2).sum(axis=1) - y) ** 2)

    batch = (jnp.ones((4, 2)), jnp.ones(2))
    f = lambda params, x: x @ params["kernel"]  # noqa: E731
    found = masks.search(f, {"kernel": jnp.ones(2)}, loss, [batch], epochs=1)
    assert np.isfinite(found.losses).all()


def test_masks_are_saved_and_read(tmp_path):
    given = {"a": {"kernel": (W > 0) * 1.0, "bias": None}, "b": {"kernel": None}}
    masks.save(tmp_path / "masks.npz", given)
    back = masks.read(tmp_path / "masks.npz", PARAMS)
    np.testing.assert_array_equal(back["a"]["kernel"], given["a"]["kernel"])
    assert back["a"]["bias"] is None and back["b"]["kernel"] is None
    np.testing.assert_array_equal(masks.apply(PARAMS, back)["a"]["kernel"], W * (W > 0))
    with pytest.raises(ValueError, match="no leaf a/kernel"):
        masks.read(tmp_path / "masks.npz", {"b": {"kernel": W}})
    with pytest.raises(ValueError, match="do not fit"):
        masks.read(tmp_path / "masks.npz", {"a": {"kernel": W[:1]}})
    broken = (tmp_path / "masks.npz").read_bytes()[:-40]
    (tmp_path / "masks.npz").write_bytes(broken)
    with pytest.raises(ValueError, match="path: .* is not a file of masks"):
        masks.read(tmp_path / "masks.npz", PARAMS)


def test_ablation_by_the_mean_keeps_the_sum_of_every_unit():
    hard = {"a": {"kernel": (W > 0) * 1.0, "bias": None}, "b": {"kernel": None}}
    left = masks.ablate(PARAMS, hard, "mean")
    np.testing.assert_allclose(left["a"]["kernel"].sum(axis=0), W.sum(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(left["a"]["kernel"][W <= 0], W[W <= 0])
    np.testing.assert_array_equal(left["a"]["kernel"][1:, 3], [3.0, 3.0])  # of 1 and 5
    off = masks.ablate(PARAMS, hard, "mean", on={"a/kernel": 0})
    np.testing.assert_array_equal(
        off["a"]["kernel"], masks.ablate(PARAMS, hard, on={"a/kernel": 0})["a"]["kernel"]
    )


# --- kernels --------------------------------------------------------------------------------------
# Tangent kernels restricted to masks, against the library's own kernel.


@pytest.fixture(scope="module")
def network():
    net = nn.Sequential([nn.Dense(5), nn.tanh, nn.Dense(3)])
    x = jax.random.normal(jax.random.key(0), (4, 6))
    params = net.init(jax.random.key(1), x)["params"]
    return lambda params, x: net.apply({"params": params}, x), params, x


def test_a_mask_of_everything_has_the_whole_kernel(network):
    f, params, x = network
    ones = jax.tree.map(jnp.ones_like, params)
    (found,) = masks.restricted(f, params, [ones], x)
    whole = ntk.empirical(f, params, x, form="trace")
    np.testing.assert_allclose(found, whole, rtol=1e-5)


def test_a_mask_and_its_complement_share_the_kernel_of_their_leaves(network):
    """And the biases, which are not masked, have no part in it."""
    f, params, x = network
    s = masks.init(params, "kernel", 0.0)
    s = jax.tree.map(lambda leaf: jax.random.normal(jax.random.key(2), leaf.shape), s)
    mask = masks.hard(s)
    several = [mask, masks.invert(mask), jax.tree.map(jnp.ones_like, mask)]
    sub, rest, both = masks.restricted(f, params, several, x)
    np.testing.assert_allclose(sub + rest, both, rtol=1e-5)
    assert np.abs(sub - rest).max() > 0.1
    fixed = {name: {"bias": layer["bias"]} for name, layer in params.items()}

    def of_kernels(kernels, x):
        return f({name: kernels[name] | fixed[name] for name in fixed}, x)

    kernels = {name: {"kernel": layer["kernel"]} for name, layer in params.items()}
    whole = ntk.empirical(of_kernels, kernels, x, form="trace")
    np.testing.assert_allclose(both, whole, rtol=1e-5)


def test_units_inputs_in_a_tree_and_compilation(network):
    """A mask of units counts for all of their weights; a soft one by its share."""
    f, params, x = network
    units = masks.init(params, "kernel", 0.5, per="unit")
    units["layers_0"]["kernel"] = units["layers_0"]["kernel"].at[0, :2].set(0.0)
    wide = masks.expand(units, params)

    def in_a_tree(params, x):
        return f(params, x["input"])

    compiled = jax.jit(lambda params, x: masks.restricted(in_a_tree, params, [units, wide], x))
    narrow, expanded = compiled(params, {"input": x})
    np.testing.assert_allclose(narrow, expanded, rtol=1e-6)


def test_kernels_of_leaves_of_two_dtypes():
    params = {"a": jnp.ones((2, 3), jnp.bfloat16), "b": jnp.ones((3, 1), jnp.float32)}
    every = jax.tree.map(lambda w: jnp.ones(w.shape), params)
    x = jnp.array([[1.0, 0.0], [1.0, 1.0]])
    kernel = masks.restricted(lambda p, x: (x @ p["a"]) @ p["b"], params, [every], x)
    assert kernel.dtype == jnp.float32
    np.testing.assert_array_equal(kernel[0], [[6, 9], [9, 18]])  # 3 x x' + 3 (sum x) (sum x')
