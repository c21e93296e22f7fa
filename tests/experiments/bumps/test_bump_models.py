"""Decoders and penalties: counts, closed forms, stored penalties, failure and remedy in seconds."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.experiments.bumps import models, scenes, training

# Initialisers take longer to compile than to run.
QUICK = {"xla_backend_optimization_level": 0}


def outline(module, inputs, **options):
    """Shapes of what the module gives, and of its variables."""
    return jax.eval_shape(
        lambda key, inputs: module.init_with_output(key, inputs, **options),
        jax.random.key(0),
        inputs,
    )


def count(variables):
    return sum(a.size for a in jax.tree.leaves(variables["params"]))


# --- shapes and counts ----------------------------------------------------------------------------


def test_every_decoder_paints_and_shows_its_layers():
    small = {
        "mlp": {"width": 8},
        "cnn": {"hidden": 2, "n_hidden": 2},
        "pixel_mlp": {"features": 8},
        "transformer": {"features": 8, "heads": 2, "depth": 1, "feed_forward": 4},
        "embed": {},
        "product": {},
    }
    assert {*small, "encoder"} == models.MODELS.keys() and {*models.WITH_FIELDS} <= small.keys()
    for name, options in small.items():
        module = models.MODELS[name](n=28, **options)
        (image, activations), _ = outline(module, jnp.zeros((3, 56)))
        assert image.shape == activations[-1].shape == (3, 28, 28), name
        assert all(len(a.shape) > 1 and a.shape[0] == 3 for a in activations), name


def test_published_sizes():
    _, variables = outline(models.EmbeddingNetwork(), jnp.zeros((1, 64)))
    assert count(variables) == 133_218
    _, variables = outline(models.MLPDecoder(), jnp.zeros((1, 56)))
    assert count(variables) == 57 * 256 + 2 * 257 * 256 + 257 * 784
    (code, activations), _ = outline(models.Encoder(), jnp.zeros((2, 28, 28)))
    assert code.shape == (2, 56)
    assert [a.shape[1:] for a in activations] == [
        (14, 14, 32),
        (7, 7, 64),
        (4, 4, 128),
        (128,),
        (56,),
    ]
    ten = models.MLPDecoder(width=1024, n_hidden=10, weights="he_uniform", batch_norm=True)
    (_, activations), variables = outline(ten, jnp.zeros((2, 56)), train=True)
    assert len(activations) == 11 and len(variables["batch_stats"]) == 10


# --- fields ---------------------------------------------------------------------------------------


def drawn(module, codes):
    """Parameters of order one, and the module's own functions compiled."""
    shapes = jax.eval_shape(module.init, jax.random.key(0), codes)["params"]
    leaves, structure = jax.tree.flatten(shapes)
    rng = np.random.default_rng(1)
    return structure.unflatten([rng.normal(size=a.shape).astype(np.float32) for a in leaves])


def convolved(x, kernel, bias):
    """3 x 3, zeros around the image: position by position."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    n = x.shape[1]
    seen = [padded[:, i : i + n, j : j + n] @ kernel[i, j] for i in range(3) for j in range(3)]
    return sum(seen) + bias


def test_embedding_network_written_out():
    n, xy = 5, np.array([[1, 4], [3, 0]])
    codes = np.asarray(scenes.encode(xy, n, "onehot"))
    module = models.EmbeddingNetwork(n)
    params = drawn(module, codes)
    image, activations = jax.jit(module.apply)({"params": params}, codes)
    pair = []
    for f, value in zip("xy", xy.T):
        left, right = params[f"left_{f}"][value], params[f"right_{f}"][value]
        left = left / np.linalg.norm(left, axis=1, keepdims=True)
        right = right / np.linalg.norm(right, axis=2, keepdims=True)
        pair.append((left * params[f"lam_{f}"][value][:, None]) @ right)
    x = np.stack(pair, axis=-1)
    np.testing.assert_allclose(activations[0], x, atol=1e-5)
    for i in range(3):
        x = np.where(x > 0, x, params[f"slopes_{i}"]["slope"] * x)
        np.testing.assert_allclose(activations[i + 1], x, rtol=1e-4, atol=1e-4)
        x = convolved(x, params[f"convs_{i}"]["kernel"], params[f"convs_{i}"]["bias"])
    np.testing.assert_allclose(image, x[..., 0], rtol=1e-4, atol=1e-4)


def test_low_rank_absent_factors_and_initial_values():
    n = 20
    module = models.EmbeddingNetwork(n, rank=1, combine="product", absent=True)
    labels = scenes.null_stripes(n)
    codes = np.asarray(scenes.encode(labels.xy, n, "onehot", shown=labels.shown))
    program = jax.jit(module.init_with_output, compiler_options=QUICK)
    (image, (pair, _)), params = program(jax.random.key(0), codes)
    pair = np.asarray(pair)
    # A factor that is not shown has a field of ones at first.
    assert np.all(pair[:n, ..., 1] == 1) and np.all(pair[n:, ..., 0] == 1)
    np.testing.assert_allclose(image[:n], pair[:n, ..., 0], rtol=1e-6)
    np.testing.assert_allclose(image[n:], pair[n:, ..., 1], rtol=1e-6)
    assert np.all(np.linalg.matrix_rank(pair[:n, ..., 0]) == 1)
    params = params["params"]
    np.testing.assert_allclose(np.linalg.norm(params["left_x"], axis=-2), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(params["right_y"], axis=-1), 1, rtol=1e-5)
    lam = np.concatenate([params["lam_x"], params["lam_y"]]) * np.sqrt(n)
    assert 0.6 < np.mean(lam**2) < 1.5  # 40 squares of normal numbers


def test_no_field_for_an_absent_factor():
    """The image is NaN: there is no field to multiply with."""
    module = models.ProductField(5)
    codes = np.eye(10, dtype=np.float32)[:1]
    params = drawn(module, codes)
    assert np.all(np.isnan(jax.jit(module.apply)({"params": params}, codes)[0]))


def test_stripes_are_flat_by_construction():
    codes = np.asarray(scenes.encode([[1, 4], [3, 0]], 5, "onehot"))
    module = models.ProductField(5, stripes=True)
    params = drawn(module, codes)
    (image, (pair, _)) = jax.jit(module.apply)({"params": params}, codes)
    a, b = params["a"][[1, 3]], params["b"][[4, 0]]
    np.testing.assert_allclose(image, a * b, rtol=1e-6)
    assert np.all(np.ptp(pair[..., 0], axis=1) == 0) and np.all(np.ptp(pair[..., 1], axis=2) == 0)
    added, _ = jax.jit(module.clone(combine="sum").apply)({"params": params}, codes)
    np.testing.assert_allclose(added, a + b, rtol=1e-6)


def test_bad_models_are_refused():
    codes = jnp.zeros((1, 10))
    for module, inputs, words in (
        (models.EmbeddingNetwork(5, combine="mean"), codes, "unknown combine 'mean'"),
        (models.ProductField(5, combine="cnn"), codes, "unknown combine 'cnn'"),
        (models.ProductField(5), codes[:, :2], r"one-hot codes \[B, 10\]"),
    ):
        with pytest.raises(BadInput, match=words):
            outline(module, inputs)


# --- penalties ------------------------------------------------------------------------------------


def test_stored_penalties(golden):
    stored = golden("bumps/regulariser")
    with open(stored.zip.filename.replace("regulariser.npz", "values.json")) as file:
        values = json.load(file)

    @jax.jit
    def penalties(lam, vectors):
        return training.entropy(lam), *(
            training.vector_variance(vectors, axis) for axis in (-2, -1)
        )

    with jax.enable_x64(True):
        computed = penalties(stored["singular_values"], stored["vectors"])
        computed = [float(value) for value in computed]
    names = ("entropy_of_squared", *(f"variance_sum_axis_minus{i}_ddof1" for i in (2, 1)))
    np.testing.assert_allclose(computed, [values[name] for name in names], rtol=1e-10)


def test_embedding_penalty_adds_up():
    rng = np.random.default_rng(0)
    shapes = {"lam": (4, 4), "left": (4, 4, 4), "right": (4, 4, 4)}
    params = {f"{k}_{f}": rng.normal(size=s) for k, s in shapes.items() for f in "xy"}
    penalty = jax.jit(training.embedding_penalty)
    total = penalty(params, 0.1, 0.01)
    expected = 0
    for f in "xy":
        share = params[f"lam_{f}"] ** 2
        share /= share.sum(axis=1, keepdims=True)
        expected -= 0.1 * np.sum(share * np.log(share))
        expected += 0.01 * np.var(params[f"left_{f}"], axis=1, ddof=1).sum()
        expected += 0.01 * np.var(params[f"right_{f}"], axis=2, ddof=1).sum()
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    # With one lam each and constant vectors, only the floor of the logarithm contributes.
    flat = {k: jnp.ones_like(v) for k, v in params.items()} | {f"lam_{f}": jnp.eye(4) for f in "xy"}
    floor = -0.1 * 2 * 12 * 1e-8 * np.log(1e-8)
    np.testing.assert_allclose(penalty(flat, 0.1, 0.01), floor, rtol=1e-4)
    assert training.size_independent(32) == (1, 1) and training.size_independent(16) == (2, 4)


def test_penalties_on_fields():
    """A vertical stripe is flat for x and not for y; the nuclear norm is the same for both."""
    stripe = np.tile(np.array([0.0, 1, 3]), (1, 3, 1))
    turned = stripe.swapaxes(1, 2)

    @jax.jit
    def measured(of_x, of_y):
        fields = [of_x, of_y]
        return [m(fields) for m in (training.null_axis_variance, training.nuclear_norm)]

    flat, uneven = measured(stripe, turned), measured(turned, stripe)
    np.testing.assert_allclose([flat[0], uneven[0]], [0, 6 * np.var([0, 1, 3])], rtol=1e-6)
    np.testing.assert_allclose([flat[1], uneven[1]], 2 * np.sqrt(3 * 10), rtol=1e-5)
    share = jax.jit(lambda *fields: training.stripe_share(fields))(stripe, stripe)
    np.testing.assert_allclose(share, [1, 0], atol=1e-6)


def test_distance_from_rank_one_and_from_stripes():
    """Against SVDs; at 0 degrees the factors' axes are those of the pixels; gradients are exact."""
    rng = np.random.default_rng(0)
    fields = [rng.normal(size=(3, 6, 6)) + 2 for _ in range(2)]
    bases = training.null_functions(6)

    @jax.jit
    def measured(fields):
        flat = training.null_axis_variance(fields), training.factor_axis_variance(fields, bases)
        shares = training.energy_shares(fields, bases)
        return *flat, *jax.value_and_grad(training.rank_tail)(fields), shares

    flat, told, tail, slope, shares = measured(fields)
    np.testing.assert_allclose(told, flat, rtol=1e-5)
    singular = np.stack([np.linalg.svd(field, compute_uv=False) for field in fields])
    energy = np.sum(singular**2)
    np.testing.assert_allclose(tail, np.sum(singular[..., 1:] ** 2) / 6, rtol=1e-5)
    np.testing.assert_allclose(shares["rank_one_share"], 1 - 6 * tail / energy, rtol=1e-5)
    np.testing.assert_allclose(shares["flat_share"], 1 - 6 * flat / energy, rtol=1e-5)
    for field, of_field in zip(fields, slope):
        left, values, right = np.linalg.svd(field)
        rest = field - values[:, :1, None] * left[:, :, :1] * right[:, :1]
        np.testing.assert_allclose(of_field, 2 * rest / 6, atol=1e-5)
    assert np.isfinite(measured([np.zeros((2, 6, 6))] * 2)[2])


def test_flatness_along_axes_of_the_fields():
    """The axis of stripes is found at any angle; off the pixels' axes it equals the known basis."""
    n, rng = 20, np.random.default_rng(0)
    row, column = np.indices((n, n)) - (n - 1) / 2
    noise = rng.normal(size=(3, n, n)).astype(np.float32)
    measured = jax.jit(
        lambda field, angle: (training.axis_of(field), training.along_lines(field, angle))
    )
    for degrees in (0, 22.5, 37, 45, 80):
        cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        along = cos * column + sin * row
        stripes = np.exp(-((along - np.array([-4.0, 0, 3]).reshape(3, 1, 1)) ** 2) / 2)
        axis, same = measured(stripes.astype(np.float32), np.radians(degrees))
        assert abs(np.degrees(axis) - degrees) < 0.5, degrees
        assert np.mean((same - stripes) ** 2) < 1e-3 * np.mean(stripes**2), degrees
        basis = training.null_functions(n, degrees)[0]
        nearest = (noise.reshape(3, -1) @ basis @ basis.T).reshape(noise.shape)
        np.testing.assert_allclose(measured(noise, np.radians(degrees))[1], nearest, atol=2e-3)
    angles = [np.float32(0.4), np.float32(1.2)]
    slope = jax.jit(jax.grad(lambda fields: training.axes_variance(fields, angles)))([noise, noise])
    rest = noise - measured(noise, angles[0])[1]
    np.testing.assert_allclose(slope[0], 2 * rest / n, atol=1e-5)


def test_fields_of_a_rank_and_permuted_pixels():
    codes = np.eye(10)[[1, 2]] + np.eye(10)[[7, 8]]
    free, permuted = (models.ProductField(n=5, rank=2, permuted=p) for p in (False, True))
    params = free.init(jax.random.key(0), codes)
    plain, (fields, moved) = free.apply(params, codes)[0], permuted.apply(params, codes)[1]
    assert np.all(np.linalg.matrix_rank(np.moveaxis(fields, -1, 1), tol=1e-4) == 2)
    plain, moved = plain.reshape(2, -1), moved.reshape(2, -1)
    order = np.argsort(plain[0])[np.argsort(np.argsort(moved[0]))]
    assert not np.array_equal(order, np.arange(25))
    np.testing.assert_array_equal(plain[:, order], moved)


def test_squared_error_leaves_padding_out():
    truth, painted = np.zeros((3, 2, 2)), np.arange(3.0).reshape(3, 1, 1) * np.ones((3, 2, 2))
    squared_error = jax.jit(training.squared_error)
    np.testing.assert_allclose(squared_error(painted, truth), 5 / 3, rtol=1e-6)
    assert squared_error(painted, truth, np.array([1.0, 1, 0])) == 0.5
