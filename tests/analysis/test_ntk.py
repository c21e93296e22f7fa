"""Empirical NTK: stored kernels, algorithms against each other, tiles, devices."""

import functools
import gc
import itertools
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis import ntk
from cgjax.analysis.ntk import functions, layers
from cgjax.analysis.ntk import plan as ntk_plan
from cgjax.analysis.ntk.functions import mixing

ALGORITHMS = ntk_plan.ALGORITHMS
NAMES = ("W1", "b1", "W2", "b2", "W3", "b3")


def quick(function):
    """Compiled in half the time: for programs that run once."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def mlp(golden):
    """Parameters, inputs and stored arrays of the 8-7-5-2 ReLU network."""
    arrays = golden("kernels/ntk_mlp_bias")
    with jax.enable_x64(True):
        params = {name: jnp.asarray(arrays[f"mlp_{name}"]) for name in NAMES}
        return params, jnp.asarray(arrays["mlp_x"]), dict(arrays)


def relu_net(params, x):
    h = jax.nn.relu(x @ params["W1"] + params["b1"][None])
    h = jax.nn.relu(h @ params["W2"] + params["b2"][None])
    return h @ params["W3"] + params["b3"][None]


def stored(arrays, form):
    if form == "per_output":
        return np.einsum("ijaa->ija", arrays["entk_full"])
    if form == "trace":
        return np.einsum("ijaa->ij", arrays["entk_full"])
    return arrays["entk_trace" if form == "mean_trace" else f"entk_{form}"]


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


# --- stored kernels -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form, algorithm", [*itertools.product(ntk_plan.FORMS, ALGORITHMS), ("full", "auto")]
)
def test_golden_kernels(mlp, form, algorithm):
    params, x, arrays = mlp
    kernel = ntk.empirical(relu_net, params, x, form=form, algorithm=algorithm)
    assert kernel.dtype == jnp.float64
    np.testing.assert_allclose(kernel, stored(arrays, form), atol=1e-10)


def test_golden_jacobian_and_the_other_file(mlp, golden):
    params, x, arrays = mlp
    np.testing.assert_allclose(relu_net(params, x), arrays["mlp_out"], atol=1e-12)
    found = ntk.jacobian(relu_net, params, x)
    flat = np.concatenate([found[name].reshape(6, 2, -1) for name in NAMES], axis=-1)
    np.testing.assert_allclose(flat, arrays["mlp_jacobian"], atol=1e-10)
    arrays = golden("kernels/ntk_mlp")
    params = {name: jnp.asarray(arrays[f"mlp_{name}"]) for name in NAMES}
    kernel = ntk.empirical(relu_net, params, jnp.asarray(arrays["mlp_x"]))
    np.testing.assert_allclose(kernel, arrays["entk_full"], atol=1e-10)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("form", ("full", "trace"))
@pytest.mark.parametrize("n_devices", (1, 8))
def test_tiles_on_devices_agree(mlp, form, algorithm, n_devices):
    """Tiles that do not divide the samples, of a square and of a rectangular kernel."""
    params, x, arrays = mlp
    how = {"form": form, "algorithm": algorithm, "tile": 4, "devices": jax.devices()[:n_devices]}
    x = jnp.concatenate([x, x[::-1], x])  # 18 samples: 5 tiles on one device, 3 on eight
    order = np.array([*range(6), *range(5, -1, -1), *range(6)])
    expected = stored(arrays, form)[order][:, order]
    kernel = ntk.empirical(relu_net, params, x, **how)
    np.testing.assert_allclose(kernel, expected, atol=1e-10)
    kernel = ntk.empirical(relu_net, params, x, x[:7], **how)
    np.testing.assert_allclose(kernel, expected[:, :7], atol=1e-10)


def test_float32_parameters_give_a_float32_kernel(mlp):
    params, x, arrays = mlp
    params, x = jax.tree.map(lambda a: a.astype(jnp.float32), (params, x))
    for algorithm in ALGORITHMS:
        kernel = ntk.empirical(relu_net, params, x, algorithm=algorithm)
        assert kernel.dtype == jnp.float32
        np.testing.assert_allclose(kernel, arrays["entk_full"], rtol=1e-4, atol=1e-4)


def test_factors_have_the_digits_of_the_parameters():
    """A network in bfloat16: products of its activations are not rounded once more."""
    params, x = normal(0, 8, 2).astype(jnp.float32), normal(1, 6, 8).astype(jnp.bfloat16)
    kernel = ntk.empirical(lambda w, x: x @ w.astype(x.dtype), params, x, algorithm="structured")
    assert kernel.dtype == jnp.float32
    exact = np.asarray(x, np.float64) @ np.asarray(x, np.float64).T
    np.testing.assert_allclose(kernel[..., 0, 0], exact, rtol=1e-5)


def test_one_device_of_several_is_used(mlp):
    params, x, arrays = mlp
    chosen = jax.devices()[3]
    for tile in (None, 4):
        kernel = ntk.empirical(relu_net, params, x, devices=[chosen], tile=tile)
        assert kernel.devices() == {chosen}
        np.testing.assert_allclose(kernel, arrays["entk_full"], atol=1e-10)


def test_inside_jit_and_vmap(mlp):
    params, x, arrays = mlp
    both = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), params)
    kernels = jax.jit(jax.vmap(lambda p: ntk.empirical(relu_net, p, x)))(both)
    np.testing.assert_allclose(kernels[0], arrays["entk_full"], atol=1e-10)
    doubled = ntk.empirical(relu_net, jax.tree.map(lambda a: 2 * a, params), x)
    np.testing.assert_allclose(kernels[1], doubled, atol=1e-10)


# --- layers ---------------------------------------------------------------------------------------


def scaled_and_transposed(params, x):
    """NTK parameterisation, output-major weights, a bias with a factor, a jit inside."""
    h = jax.jit(lambda w, b: jnp.einsum("ni,oi->no", x, w / jnp.sqrt(8.0)) + 0.1 * b)(
        params["w"], params["b"][None]
    )
    return jnp.tanh(h) @ (params["v"] * 0.5)


def attention(params, x):
    """Tokens: weights at several positions, products of activations, heads split by a reshape."""
    tokens = x.reshape(len(x), 2, 4) @ params["embed"] + params["place"][None]
    q = jnp.einsum("ntd,dhk->nthk", tokens, params["q"].reshape(6, 2, 3))
    weights = jax.nn.softmax(jnp.einsum("nthk,nshk->nhts", q, q))
    mixed = jnp.einsum("nhts,nshk->nthk", weights, q).reshape(len(x), 2, 6)
    return (mixed + tokens)[:, 0] @ params["out"]


def tied(params, x):
    """One weight used twice, one that is normalised, an integer leaf, a leaf without a use."""
    h = jnp.tanh(jnp.tanh(x @ params["w"]) @ params["w"])
    v = params["v"] / jnp.linalg.norm(params["v"])
    return h @ v * params["count"]


def convolutions(params, x):
    """Strides, padding, dilation, a grouped convolution, a bias over positions, max pooling."""
    x = x.reshape(len(x), 6, 6, 2)

    def conv(x, kernel, strides=(1, 1), padding="SAME", **options):
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            x, kernel, strides, padding, dimension_numbers=numbers, **options
        )

    x = conv(x, params["k1"], (2, 1), ((1, 2), (0, 1))) + params["b1"].reshape(1, 1, 1, -1)
    x = jax.nn.relu(x) * params["scale"][None, None, None]
    spread = {"padding": ((1, 1), (2, 2)), "lhs_dilation": (1, 2), "rhs_dilation": (2, 2)}
    x = conv(x, params["k2"], **spread) + params["b2"].reshape(1, 1, 1, 1)
    x = conv(jnp.tanh(x), params["k3"], feature_group_count=2)
    x = jnp.max(x.reshape(len(x), -1, 2, 4), axis=2)
    return x.reshape(len(x), -1) @ params["out"]


CASES = {  # f, shapes of params, input width, leaves in layers, dense layers
    "scaled": (scaled_and_transposed, {"w": (5, 8), "b": (5,), "v": (5, 2)}, 8, 3, 2),
    "attention": (
        attention,
        {"embed": (4, 6), "place": (2, 6), "q": (6, 6), "out": (6, 3)},
        8,
        3,
        1,
    ),
    "tied": (tied, {"w": (8, 8), "v": (8, 2), "unused": (3,)}, 8, 0, 0),
    "convolutions": (
        convolutions,
        {
            "k1": (3, 3, 2, 4),
            "b1": (4,),
            "scale": (4,),
            "k2": (2, 3, 4, 4),
            "b2": (1,),
            "k3": (2, 2, 2, 4),
            "out": (72, 2),
        },
        72,
        4,
        1,
    ),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    f, shapes, width, n_leaves, n_dense = CASES[request.param]
    with jax.enable_x64(True):
        params = {k: normal(i, *s) for i, (k, s) in enumerate(shapes.items())}
        if f is tied:
            params["count"] = jnp.array(3)
        return f, params, normal(99, 5, width), n_leaves, n_dense


def test_layers_are_found(case):
    f, params, x, n_leaves, n_dense = case
    traced = layers.trace(f, params, x[0])
    caught = [leaf for layer in traced.layers for leaf in (layer.weight, layer.bias)]
    assert sum(leaf is not None for leaf in caught) == n_leaves
    assert sum(layer.positions == 1 for layer in traced.layers) == n_dense
    nudges = layers.no_nudges(traced)
    run = quick(lambda leaves: layers.run(traced, leaves, x[0], nudges)[0])
    out = run(jax.tree.leaves(params))
    np.testing.assert_allclose(out, f(params, x[:1])[0], atol=1e-12)


def test_algorithms_agree_on_any_network(case):
    f, params, x, *_ = case
    full = {name: ntk.empirical(f, params, x, algorithm=name) for name in ALGORITHMS}
    free = {k: v for k, v in params.items() if k != "count"}
    fixed = {k: v for k, v in params.items() if k == "count"}
    jac = quick(jax.jacrev(lambda free: f(free | fixed, x)))(free)
    jac = np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in jac.values()], axis=-1)
    expected = np.einsum("iap,jbp->ijab", jac, jac)
    scale = np.abs(expected).max()
    for name, kernel in full.items():
        np.testing.assert_allclose(kernel / scale, expected / scale, atol=1e-12, err_msg=name)


# --- products, and factors in chunks --------------------------------------------------------------


@pytest.mark.parametrize("n_blocks", (1, 3, 4))
def test_a_symmetric_product_in_blocks(n_blocks, monkeypatch):
    monkeypatch.setattr(ntk, "_WORTH_BLOCKS", 0)
    monkeypatch.setattr(ntk, "_N_BLOCKS", n_blocks)
    a = normal(0, 7, 5)
    np.testing.assert_allclose(ntk._product(a, a, loops=False), a @ a.T, atol=1e-12)


def padded_convolution(params, x):
    x = x.reshape(len(x), 5, 4, 16)
    numbers = ("NHWC", "OHWI", "NCHW")
    y = jax.lax.conv_general_dilated(x, params["w"], (1, 1), [(1, 0), (0, 1)], None, None, numbers)
    y = jax.nn.relu(y + params["b"].reshape(1, -1, 1, 1))
    y = jax.lax.conv_general_dilated(y, 2 * params["v"], (1, 1), "VALID")
    return jnp.sum(y * y, axis=(2, 3))[:, :2]


@pytest.mark.parametrize("chunk", (0, 2))
def test_a_network_in_chunks(chunk):
    """Convolutions in float32 with axes in other orders; all samples at once, or two at a time."""
    shapes = {"w": (16, 2, 2, 16), "b": (16,), "v": (16, 16, 1, 2)}
    params = {k: normal(i, *s).astype(np.float32) for i, (k, s) in enumerate(shapes.items())}
    x = normal(99, 3, 320).astype(np.float32)
    how = ntk_plan.How("full", "structured", 0, "highest", False, chunk)

    def kernel(params, x):
        return ntk._whole.__wrapped__(padded_convolution, params, x, None, how=how)

    exact = ntk.empirical(padded_convolution, *jax.tree.map(lambda a: a.astype(float), (params, x)))
    kernel = quick(kernel)(params, x)
    assert kernel.dtype == jnp.float32
    np.testing.assert_allclose(kernel / exact.max(), exact / exact.max(), atol=2e-6)


def test_an_unknown_precision_is_refused(mlp):
    params, x, _ = mlp
    with pytest.raises(ValueError, match="unknown precision 'all': use one of JAX's"):
        ntk.empirical(relu_net, params, x, precision="all")


# --- plans ----------------------------------------------------------------------------------------


def wide_net(params, x):
    return jnp.tanh(x @ params["w"]) @ params["v"]


@pytest.fixture(scope="module")
def wide():
    with jax.enable_x64(True):
        return {"w": normal(0, 8, 400), "v": normal(1, 400, 4)}, normal(2, 40, 8)


def test_a_kernel_is_streamed_when_its_jacobian_does_not_fit(wide, capsys):
    params, x = wide
    whole = ntk.empirical(wide_net, params, x, algorithm="jacobian", tile=40)
    memory = 2**20  # the Jacobian has 6 MB
    plan = ntk_plan.plan(wide_net, params, x, algorithm="jacobian", memory=memory)
    assert plan.peak <= memory and 1 <= plan.held * plan.tile < 20
    streamed = ntk.empirical(wide_net, params, x, algorithm="jacobian", memory=memory, verbose=True)
    assert plan.text in capsys.readouterr().out
    np.testing.assert_allclose(streamed, whole, atol=1e-9)


def test_automatic_choice(wide, mlp):
    params, x = wide
    chosen = ntk_plan.plan(wide_net, params, x, memory=2**30)
    others = [
        ntk_plan.plan(wide_net, params, x, algorithm=name, memory=2**30) for name in ALGORITHMS
    ]
    assert chosen.algorithm == "structured"
    assert chosen.flops == min(plan.flops for plan in others)

    # Without layers to use, many outputs make products with vectors cheaper than Jacobians; and
    # they are what is left when not even one sample's Jacobian fits.
    def twice(params, x):
        return jnp.tanh(x @ params["v"].T @ params["w"].T) @ params["w"] @ params["v"]

    params = {"w": normal(0, 8, 400), "v": normal(1, 400, 8)}
    assert ntk_plan.plan(twice, params, x[:, :8], memory=2**30).algorithm == "vector"
    trace = ntk_plan.plan(twice, params, x[:, :8], form="trace", memory=2**30)
    assert trace.algorithm != "vector"
    tight = ntk_plan.plan(twice, params, x[:, :8], form="trace", memory=250e3)
    assert tight.algorithm == "vector"


def test_steps_count_where_there_is_little_to_compute(mlp):
    """On a GPU, where each is a kernel to start; a CPU's smallest programs are loops."""
    params, x, _ = mlp
    sizes = ntk_plan.facts(relu_net, params, x)

    def plan(n, platform):
        return ntk_plan.choose(sizes, n, None, "full", "auto", 2**30, 1, platform=platform)

    assert [plan(n, "gpu").algorithm for n in (6, 2000)] == ["jacobian", "structured"]
    assert [plan(n, "cpu").algorithm for n in (2, 6, 120)] == ["structured"] * 3
    assert [plan(n, "cpu").how.loops for n in (6, 120)] == [True, False]
    assert not plan(6, "gpu").how.loops


def test_jacobians_count_where_they_are_many_numbers():
    """On a GPU the ConvNet goes layer by layer, even with few samples."""
    dense, spread = ((20737, 90), (91, 1)), ((1100, 51, 32), (1000, 801, 32))
    leaves = tuple(k * m for *_, k, m in (*dense, *spread))
    sizes = ntk_plan.Facts(1, sum(leaves), 10**8, 10**6, dense, spread, (), 4, leaves)
    few = sizes._replace(dense=((91, 1),), params=sum(leaves[1:]), leaves=leaves[1:])

    def chosen(sizes):
        return ntk_plan.choose(sizes, 4, None, "full", "auto", 2**30, 1, platform="gpu").algorithm

    assert (chosen(sizes), chosen(few)) == ("structured", "jacobian")


def test_a_large_kernel_is_traced_once_and_printed_on_demand(wide, capsys, monkeypatch):
    params, x = wide
    traced = []

    def f(params, x):
        traced.append(1)
        return wide_net(params, x)

    monkeypatch.setattr(ntk_plan, "_WORTH_SPLITTING", 0)  # all kernels are in tiles
    ntk.empirical(f, params, x)
    n_traced = len(traced)
    ntk.empirical(f, params, x)
    assert len(traced) == n_traced
    assert not capsys.readouterr().out
    ntk.empirical(f, params, x, verbose=True)
    assert capsys.readouterr().out.count("ntk 40 x 40") == 1


class Net:
    """A network whose f is a bound method."""

    def __init__(self, scale):
        self.scale, self.n_traced = scale, 0

    def f(self, params, x):
        self.n_traced += 1
        return self.scale * relu_net(params, x)


@pytest.mark.parametrize(
    "how",
    [
        {},
        pytest.param({"tile": 2}, marks=pytest.mark.slow),
        {"tile": 2, "algorithm": "vector"},
    ],
)
def test_f_is_not_kept_in_memory(mlp, how, quick_collection):
    """A closure and its arrays are free once the caller drops it, and so are its programs."""
    params, x, _ = mlp
    net, scale = Net(2.0), jnp.full((), 3.0)

    def closure(params, x):
        return scale * relu_net(params, x)

    for f in (closure, net.f):
        ntk.empirical(f, params, x, **how)
        ntk.kernel_vector_product(f, params, x, None, x[:, :2])
        ntk.jacobian(f, params, x)
    n_traced = net.n_traced
    ntk.empirical(net.f, params, x, **how)  # another object, the same method
    assert net.n_traced == n_traced
    kept = [weakref.ref(closure), weakref.ref(net)]
    del f, closure, net
    gc.collect()
    assert [reference() for reference in kept] == [None, None]


def test_a_gpu_s_plan_is_one_program_in_chunks(wide):
    """Where memory is short, factors are computed for some samples at a time, in the program."""
    params, x = wide
    sizes = ntk_plan.facts(wide_net, params, x)
    given = (sizes, 40, None, "full", "structured")
    ample = ntk_plan.choose(*given, 2e9, 1, platform="gpu")
    assert ample.is_whole and ample.how.chunk == 40
    memory = 0.99 * ample.peak
    tight = ntk_plan.choose(*given, memory, 1, platform="gpu")
    assert tight.is_whole and tight.how.chunk == 20 and tight.peak <= memory
    assert not ntk_plan.choose(*given, memory, 1, platform="cpu").is_whole


@pytest.mark.parametrize("n_layers", (2, 6))
def test_the_stated_peak_is_that_of_the_program(n_layers):
    """The bytes that XLA allocates: it keeps the products of all layers until it adds them."""
    params = [normal(i, 5, 5) for i in range(n_layers)]
    x = normal(9, 150, 5)

    def f(params, x):
        for weight in params:
            x = jnp.tanh(x @ weight)
        return x

    sizes = ntk_plan.facts(f, params, x)
    plan = ntk_plan.choose(sizes, 150, None, "full", "structured", 1e9, 1)
    assert plan.is_whole

    def program(params, x):
        return ntk._whole.__wrapped__(f, params, x, None, how=plan.how)

    memory = jax.jit(program).lower(params, x).compile().memory_analysis()
    taken = memory.temp_size_in_bytes + memory.output_size_in_bytes
    assert 0.7 * taken < plan.peak < 1.4 * taken


def test_a_kernel_in_tiles_counts_in_the_stated_peak(wide):
    params, x = wide
    x = jnp.resize(x, (400, 8))
    plan = ntk_plan.plan(wide_net, params, x, tile=4, devices=jax.devices()[:1])
    assert not plan.is_whole and "kernel 19.5 MB, peak about" in plan.text
    assert 400**2 * 4**2 * 8 < plan.peak < 1.5 * 400**2 * 4**2 * 8


def test_a_kernel_that_does_not_fit_is_refused_before_it_is_computed(mlp):
    params, x, _ = mlp
    calls = []

    def f(params, x):
        jax.debug.callback(lambda: calls.append(1))
        return relu_net(params, x)

    many = jnp.resize(x, (2_000_000, 8))
    words = "the kernel of 2,000,000 x 2,000,000 samples.* takes 29.1 TB, but memory is"
    with pytest.raises(ValueError, match=words) as refused:
        ntk.empirical(f, params, many, form="mean_trace")
    assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match="takes 1.12 kB, but memory is 1 kB"):
        ntk.empirical(f, params, x, memory=1024)
    assert not calls
    inside = jax.eval_shape(lambda x: ntk.empirical(relu_net, params, x, form="trace"), many)
    assert inside.shape == (2_000_000, 2_000_000)


def test_only_the_upper_triangle_is_computed(mlp, monkeypatch):
    params, x, _ = mlp
    calls = []
    original = ntk._tile_contract

    def counted(*sides, **options):
        calls.append(1)
        return original(*sides, **options)

    monkeypatch.setattr(ntk, "_tile_contract", counted)
    ntk.empirical(relu_net, params, x, tile=2)
    assert len(calls) == 6
    ntk.empirical(relu_net, params, x, jnp.array(x), tile=2)
    assert len(calls) == 6 + 9


def test_what_cannot_be_done_is_said(mlp):
    params, x, _ = mlp
    with pytest.raises(ValueError, match="form must be one of full, per_output, trace"):
        ntk.empirical(relu_net, params, x, form="diagonal")
    with pytest.raises(ValueError, match=r"\[n, outputs\]"):
        ntk.empirical(lambda p, x: (x, x), params, x)
    with pytest.raises(ValueError, match="no floating-point leaf"):
        ntk.empirical(lambda p, x: x * p, jnp.array(2), x)


# --- without the matrix, and with it --------------------------------------------------------------


@pytest.mark.parametrize("batch", (None, 4))
def test_kernel_vector_product(mlp, batch):
    params, x, arrays = mlp
    v = normal(3, 5, 2)
    product = ntk.kernel_vector_product(relu_net, params, x, x[:5], v, batch=batch)
    expected = np.einsum("ijab,jb->ia", arrays["entk_full"][:, :5], v)
    np.testing.assert_allclose(product, expected, atol=1e-10)


def test_kernel_vector_product_of_one_output(mlp):
    """With itself, and with v [n] of another dtype."""
    params, x, _ = mlp

    def f(params, x):
        return relu_net(params, x)[:, 0]

    v = np.arange(6, dtype=np.float32)
    product = ntk.kernel_vector_product(f, params, x, None, v)
    np.testing.assert_allclose(product[:, 0], ntk.empirical(f, params, x)[..., 0, 0] @ v)


def test_regression_with_a_linear_model_is_least_squares():
    """f = x W is its own linearisation: the change of W is the smallest that fits."""
    params, x, y = {"w": normal(0, 9, 2)}, normal(1, 4, 9), normal(2, 4, 2)

    def f(params, x):
        return x @ params["w"]

    x_test = normal(3, 4, 9)
    found = ntk.ntk_regression(f, params, x, y, x_test)
    change = jnp.linalg.pinv(x) @ (y - f(params, x))
    np.testing.assert_allclose(found, f(params, x_test) + x_test @ change, atol=1e-8)


def test_regression_interpolates_with_the_network_s_own_kernel(mlp):
    params, x, arrays = mlp
    y = normal(4, 4, 2)
    predictions = ntk.ntk_regression(relu_net, params, x[:4], y, x)
    np.testing.assert_allclose(predictions[:4], y, atol=1e-6)
    kernel = arrays["entk_full"].transpose(0, 2, 1, 3).reshape(12, 12)
    residual = (y - arrays["mlp_out"][:4]).reshape(-1)
    change = kernel[:, :8] @ np.linalg.pinv(kernel[:8, :8], rcond=1e-10, hermitian=True) @ residual
    np.testing.assert_allclose(predictions, arrays["mlp_out"] + change.reshape(6, 2), atol=1e-6)
    with pytest.raises(ValueError, match=r"but f gives \(4, 2\)"):
        ntk.ntk_regression(relu_net, params, x[:4], y[:, :1], x)


def test_drift_and_alignment(mlp):
    _, _, arrays = mlp
    kernel = jnp.asarray(arrays["entk_full"])
    np.testing.assert_allclose(ntk.drift(kernel, 3 * kernel), 2, atol=1e-12)
    np.testing.assert_allclose(ntk.alignment(kernel, 3 * kernel), 1, atol=1e-12)
    y = normal(5, 6, 2)
    np.testing.assert_allclose(ntk.target_alignment(y @ y.T, y), 1, atol=1e-12)
    outer = jnp.einsum("ia,jb->ijab", y, y)
    np.testing.assert_allclose(ntk.target_alignment(outer, y), 1, atol=1e-12)
    u = jnp.array([1.0, 1.0, -1.0, -1.0])
    np.testing.assert_allclose(ntk.target_alignment(jnp.eye(4), u), 0.5, atol=1e-12)


@pytest.mark.parametrize("scale", (1e-30, 1e-22, 1e22, 1e30))
def test_scores_do_not_depend_on_the_size_of_float32_kernels(scale):
    with jax.enable_x64(False):
        y = np.float32([[1.0], [2.0], [-1.0]])
        kernel = np.float32(y @ y.T + np.eye(3))
        wanted = ntk.target_alignment(kernel, y)
        small = np.float32(scale) * kernel
        np.testing.assert_allclose(ntk.alignment(small, kernel), 1, rtol=1e-5)
        np.testing.assert_allclose(ntk.drift(small, 2 * small), 1, rtol=1e-5)
        np.testing.assert_allclose(ntk.target_alignment(small, y), wanted, rtol=1e-5)
        assert ntk.drift(small, np.zeros_like(small)) == 1


# --- networks as their libraries hold them --------------------------------------------------------


def test_an_f_that_mixes_samples_is_told_once(mlp):
    params, x, _ = mlp

    def centred(params, x):
        out = relu_net(params, x)
        return out - jnp.mean(out, axis=0, keepdims=True)

    with pytest.warns(UserWarning, match="f mixes samples.*evaluation mode"):
        ntk.empirical(centred, params, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ntk.empirical(centred, params, x)
        ntk.empirical(lambda params, x: relu_net(params, x), params, x)
        quick(lambda params: ntk.empirical(lambda p, x: centred(p, x), params, x))(params)


def test_rounding_is_no_mixing(mlp):
    """A program for one sample may round in its own way, as coarsely as the numbers of f are."""
    params, x, _ = mlp
    params, x = jax.tree.map(lambda a: a.astype(np.float32), (params, x))

    def rounded(bits, n_others, params, x):
        off = 1 + 2.0**-bits * (len(x) == 1) + n_others * jnp.mean(x)
        return relu_net(params, x.astype(jnp.bfloat16)).astype(jnp.float32) * off

    def stated(params, x):
        return jnp.matmul(x, params["W1"], precision="default") * (1 + 2.0**-9 * (len(x) == 1))

    assert mixing(functools.partial(rounded, 6, 0), params, x) == 0
    assert mixing(functools.partial(rounded, 2, 0), params, x) > 0.1
    assert 0 < mixing(functools.partial(rounded, 6, 0.01), params, x) < 0.05
    assert mixing(stated, params, x) == 0
    assert mixing(lambda params, x: relu_net(params, x) / len(x), params, x) > 0.5


def test_digits_that_f_itself_leaves_out_are_told(mlp, monkeypatch):
    params, x, _ = jax.tree.map(lambda a: jnp.asarray(a, np.float32), mlp)

    def stated(params, x):
        return relu_net(params, x) + jnp.matmul(x, params["W1"], precision="default")[:, :2]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ntk.empirical(functools.partial(stated), params, x)  # a CPU has all digits
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        functions.warn_once(stated, params, x, "default")  # the caller requests no higher precision
        functions.warn_once(lambda params, x: relu_net(params, x), params, x)
    with pytest.warns(UserWarning, match="f states precision 'default' itself, in 1 products"):
        functions.warn_once(stated, params, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        functions.warn_once(stated, params, x)  # once


@pytest.mark.parametrize("tile", (None, 4))
def test_a_kernel_is_checked_outside_of_programs(mlp, tile):
    """Each call outside a jit is checked; a traced program holds no check."""
    params, x, _ = mlp
    nan = x.at[2].set(jnp.nan)
    for _ in range(2):
        with pytest.raises(ValueError, match="x1 holds NaN or infinity in 8 of 48 entries"):
            ntk.empirical(relu_net, params, nan, tile=tile)
    program = functools.partial(ntk.empirical, relu_net, tile=tile)
    steps = functions.equations(jax.make_jaxpr(program)(params, x).jaxpr)
    assert "is_finite" not in {step.primitive.name for step in steps}
    assert np.isnan(jax.jit(program)(params, nan)).any()


def test_batch_norm_in_training_mode_is_told(mlp):
    linen = pytest.importorskip("flax.linen")
    x, net = mlp[1].astype(jnp.float32), linen.BatchNorm(use_running_average=False)
    state = net.init(jax.random.key(0), x)

    def f(params, x):
        return net.apply(state | {"params": params}, x, mutable=["batch_stats"])[0]

    with pytest.warns(UserWarning, match="f mixes samples"):
        ntk.empirical(f, state["params"], x)


def test_an_nnx_state_with_its_counters_and_keys(mlp):
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(8, 7, rngs=rngs)
            self.norm = nnx.BatchNorm(7, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs)
            self.last = nnx.Linear(7, 2, rngs=rngs)

        def __call__(self, x):
            return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))

    def parts(model):
        graph, params, rest = nnx.split(model, nnx.Param, ...)
        return lambda params, x: nnx.merge(graph, params, rest)(x), params

    x, model = mlp[1].astype(jnp.float32), Net(nnx.Rngs(0))
    model.eval()
    f, params = parts(model)
    found = jnp.concatenate(
        [leaf.reshape(6, 2, -1) for leaf in jax.tree.leaves(ntk.jacobian(f, params, x))], axis=-1
    )
    expected = jnp.einsum("iap,jbp->ijab", found, found)
    np.testing.assert_allclose(ntk.empirical(f, params, x), expected, rtol=1e-4, atol=1e-5)
    # The whole state holds counters and keys too; running statistics would count as parameters.
    graph, state = nnx.split(model)
    assert any(not functions.is_float(leaf) for leaf in jax.tree.leaves(state))
    for algorithm in ALGORITHMS:
        kernel = ntk.empirical(
            lambda state, x: nnx.merge(graph, state)(x), state, x, algorithm=algorithm
        )
        assert kernel.shape == (6, 6, 2, 2) and np.all(np.isfinite(kernel))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_params_of_linens_variables_are_differentiated(algorithm):
    """Running statistics scale the features and are not trained."""

    def f(variables, x):
        return (x * variables["batch_stats"]["scale"]) @ variables["params"]["w"]

    w, scale, x = normal(0, 3, 2), normal(1, 1, 3), normal(2, 4, 3)
    variables = {"batch_stats": {"scale": scale}, "params": {"w": w}}
    kernel = ntk.empirical(f, variables, x, algorithm=algorithm)
    alone = ntk.empirical(lambda w, x: (x * scale) @ w, w, x, algorithm=algorithm)
    np.testing.assert_allclose(kernel, alone, rtol=1e-6)
    jacobians = ntk.jacobian(f, variables, x)
    assert jacobians["batch_stats"]["scale"] is None
    assert jacobians["params"]["w"].shape == (4, 2, 3, 2)
    targets = normal(3, 4, 2)
    fits = (
        ntk.ntk_regression(f, variables, x, targets, x),
        ntk.ntk_regression(lambda w, x: (x * scale) @ w, w, x, targets, x),
    )
    np.testing.assert_allclose(*fits, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("unit", [1e-30, 1e25])
def test_scores_of_kernels_do_not_depend_on_units(unit):
    rng = np.random.default_rng(0)
    a, b = (np.float32(k @ k.T) for k in rng.normal(size=(2, 5, 3)))
    y, unit = np.float32(rng.normal(size=5)), np.float32(unit)
    for score in (ntk.alignment, ntk.drift):
        np.testing.assert_allclose(score(unit * a, unit * b), score(a, b), rtol=1e-5)
    scores = [ntk.target_alignment(*pair) for pair in ((a, y), (unit * a, y), (a, unit * y))]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-5)
    with warnings.catch_warnings(action="error"):  # NumPy's float64, where JAX has it disabled
        np.testing.assert_allclose(ntk.alignment(np.float64(a), a), 1, rtol=1e-6)


def test_kernels_of_small_integers_do_not_wrap_around():
    small, large = np.full((2, 2), 3, np.uint8), np.full((2, 2), 100, np.uint8)
    assert ntk.drift(large, small) == pytest.approx(0.97)
    assert ntk.alignment(large, small) == pytest.approx(1)
    assert ntk.target_alignment(large, np.array([100, 100], np.uint8)) == pytest.approx(1)
