"""The rotating digit and the inverse task: images, networks, and both studies at a small size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from cgjax import config as configs
from cgjax.core import program
from cgjax.core.errors import BadInput
from cgjax.experiments.bumps import models, sets
from cgjax.experiments.bumps.figures import pictures
from cgjax.experiments.bumps.studies import inverse, turning

pytestmark = pytest.mark.usefixtures("one_device")


def settings(row, part, **changes):
    return dict(configs.parts(configs.load(f"bumps:{row},smoke", changes)))[part]


# --- what is shown --------------------------------------------------------------------------------


def test_glyphs_stay_inside_at_every_angle():
    for digit in range(10):
        image = sets.glyph(digit)
        turned = sets.rotated(image, [0, 45, 100])
        assert image.max() == 1 and 50 < image.sum() < 300
        np.testing.assert_allclose(turned.sum(axis=(1, 2)), image.sum(), rtol=0.02)
    # A 4 upside down differs from a 4, so a rotation by 180 degrees is visible.
    four = sets.glyph(4)
    assert np.mean((four - np.rot90(four, 2)) ** 2) > 0.5 * np.mean(four**2)


def test_views_of_the_paper():
    """888 angles outside the gap, a tenth of them for validation: 25 batches of 32."""
    config = configs.load("bumps:B7,paper", {"data.image": "glyph"})
    views = turning.make(dict(configs.parts(config))["cnn"])
    assert (len(views.train), len(views.validation), len(views.gap)) == (800, 88, 112)
    assert config.train.steps == 200 * 25 and config.eval.every == 25
    every = np.concatenate([views.train, views.validation, views.gap])
    assert sorted(every) == list(range(1000))
    np.testing.assert_allclose(views.images[0], views.picture, atol=1e-6)


@pytest.mark.parametrize("part, features", [("unnamed", 2), ("named", 12)])
def test_only_the_4_has_a_gap(part, features):
    config = dict(configs.parts(configs.load("bumps:B7_digits")))[part]
    views = turning.make(config)
    assert views.codes.shape == (1000, features) and len(views.train) == 885
    assert set(views.gap) <= set(range(400, 500)) and len(views.gap) == 17
    code = turning.encode(config, views.degrees[400:500], 4)
    np.testing.assert_array_equal(views.codes[400:500], code)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"data.digits": "(1, 2)"}, "lacks the digit"),
        ({"data.gap": "(200.0, 160.0)"}, "not an interval"),
        ({"data.gap": "(0.1, 0.2)"}, "leaves nothing"),
    ],
)
def test_what_cannot_be_shown_is_refused(changes, words):
    with pytest.raises(BadInput, match=words):
        turning.check(configs.load("bumps:B7,smoke", changes))


# --- networks -------------------------------------------------------------------------------------


def test_equivariant_decoder_is_equivariant():
    """With any weights, a quarter turn of the angle rotates the image as `rotated` does."""
    model = models.EquivariantDecoder(n=15, features=8, depth=2)
    z = sets.encode(np.array([20.0, 110, 200, 0, 90])).astype(np.float32)
    params = model.init(jax.random.key(0), z)
    params = jax.tree.map(lambda leaf: 3 * leaf, params)  # far from constant
    image, activations = model.apply(params, z)
    assert image.std() > 0.05 and [a.shape for a in activations[:-1]] == [(5, 225, 8)] * 2
    np.testing.assert_allclose(image[1], np.rot90(image[0]), atol=1e-4)
    np.testing.assert_allclose(image[2], np.rot90(image[0], 2), atol=1e-4)
    expected = sets.rotated(np.asarray(image[3]), [90.0])[0]
    np.testing.assert_allclose(image[4], expected, atol=1e-4)


def test_the_rate_is_halved_on_a_plateau_down_to_its_floor():
    config = settings("B7", "cnn", **{"optim.patience": "1", "optim.lr": str(2.5 * turning.FLOOR)})
    control = turning.control(config)
    every = config.eval.every
    best = program.Best(jnp.array(1.0), jnp.array(every), None, None)
    scale, scales = jnp.array(1.0), []
    for evaluation in range(1, 10):
        loss = {"validation_loss": jnp.array(1.0 if evaluation == 1 else 1.5)}
        done, scale = control(loss, best, jnp.array(evaluation * every), scale)
        assert not done
        scales.append(float(scale))
    # The rate is halved at every second evaluation without a new best.
    np.testing.assert_allclose(scales, [1, 1, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4])


def test_loss_is_squared_and_a_tenth_of_absolute_error():
    config = settings("B7", "cnn")
    painted, truth = jnp.full((2, 3, 3), 0.5), jnp.zeros((2, 3, 3))
    np.testing.assert_allclose(turning.error(painted, truth, config.optim.l1), 0.25 + 0.1 * 0.5)


def test_places_read_off_codes():
    xy = np.array([[2, 5], [7, 0]])
    for encoding in inverse.READ_OFF:
        codes = jnp.asarray(inverse.scenes.encode(xy, 8, encoding), jnp.float32)
        np.testing.assert_array_equal(inverse.position(codes, encoding), xy)
        where, constant = jnp.ones(2, bool), codes.mean(axis=0)
        right = inverse.scores(codes, codes, xy, encoding, where, constant)
        assert right["mse"] == right["position_error"] == 0 and right["position_accuracy"] == 1
        flat = jnp.broadcast_to(constant[None], codes.shape)
        found = inverse.scores(flat, codes, xy, encoding, where, constant)
        assert found["nmse"] == pytest.approx(1)
    swapped = inverse.scores(codes[:, ::-1], codes, xy, "ramp", where, constant)
    assert swapped["position_accuracy"] == 0  # x comes first


def test_nothing_to_hold_out_is_refused():
    with pytest.raises(BadInput, match="nothing to test"):
        inverse.check(configs.load("bumps:B12,smoke", {"data.regions": "('whole',)"}))


# --- the studies ----------------------------------------------------------------------------------


def test_turning_study_in_small(tmp_path):
    """A control that is equivariant passes the gap better than the cross-fade does."""
    changes = {"train.steps": "100", "eval.every": "50", "checkpoint.every": "0"}
    changes |= {"train.steps_per_call": "50", "train.log_every": "50", "train.seeds": "(0,)"}
    changes |= {"optim.lr": "0.02", "data.batch": "8"}
    config = configs.load("bumps:B7,smoke", changes)
    with config.unlocked():
        config.parts = {"equivariant": {"model": {"name": "equivariant"}}}
        sizes = {"features": 16, "depth": 1, "frequencies": 4}
        config.model = {"equivariant": sizes}
    turning.check(config)
    metrics, arrays = turning.study(config, tmp_path)
    by_metric = {name.split("/")[1]: values[0] for name, (values, _) in metrics.items()}
    fade = np.mean(arrays["equivariant/fade_errors"])
    assert by_metric["gap mse"] < 0.7 * fade and by_metric["truth r2"] > by_metric["cross-fade r2"]
    assert by_metric["gap nmse"] < 2 * by_metric["outside nmse"]
    pictures.draw_turning(arrays, tmp_path)
    assert {path.stem for path in tmp_path.glob("*.png")} == {"gap", "around", "layers"}
    loaded = turning.load(config, tmp_path)
    one = jax.tree.map(lambda leaf: leaf[0], loaded.params)
    codes = turning.encode(config, arrays["equivariant/shown_degrees"])
    painted = loaded.predict(one, codes)
    np.testing.assert_allclose(painted, arrays["equivariant/shown_painted"], atol=1e-5)


def test_batch_statistics_travel_in_extra():
    """Padded rows of a batch count neither in them nor in the loss."""
    made = turning.experiment(config := settings("B7", "cnn"), turning.make(config))
    replica = {name: column[0] for name, column in made.replicas.items()}

    @jax.jit
    def losses(key):
        params, extra = made.init(key, replica)
        places = jnp.array([[0, 1, 2, 3], [0, 1, 5, 6]])
        mask = jnp.array([1.0, 1, 0, 0])

        def one(places):
            batch = made.batch(made.data, places, key, 0) | {"mask": mask}
            return made.loss(params, extra, batch, key, 0, replica)

        return extra, jax.vmap(one)(places)

    before, (loss, (after, _)) = losses(jax.random.key(0))
    mean = after["batch_stats"]["norm_0"]["mean"]
    assert np.any(mean[0] != before["batch_stats"]["norm_0"]["mean"])
    np.testing.assert_allclose(mean[0], mean[1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(loss[0], loss[1], rtol=1e-5)


@pytest.mark.slow  # 6 s: a study beside others that run in small
def test_inverse_study_in_small(tmp_path):
    config = configs.load("bumps:B12,smoke", {"train.seeds": "(0, 1)"})
    with config.unlocked():
        del config.parts.ramp
    metrics, arrays = inverse.study(config, tmp_path)
    names = {f"{r} {s}" for r in ("id", "ood") for s in ("mse", "nmse", "position error")}
    assert {f"bump/{name}" for name in names} <= metrics.keys()
    errors, held_out = arrays["bump/errors"], arrays["bump/is_ood"]
    assert errors.shape == held_out.shape == (8, 8)
    values, seeds = metrics["bump/ood mse"]
    assert seeds == [0, 1] and errors[held_out].mean() == pytest.approx(values.mean(), rel=1e-4)
    pictures.draw_inverse(arrays, tmp_path)
    assert {path.stem for path in tmp_path.glob("*.png")} == {"errors", "positions", "examples"}


# --- rotation -------------------------------------------------------------------------------------
# Rotations against SciPy, cross-fades against models that only fade or only rotate.


GLYPH = np.pad(np.random.default_rng(0).random((9, 8)), ((2, 2), (3, 3)))


def test_rotation_is_that_of_scipy():
    """Away from multiples of 90 degrees, where rounding decides what is outside."""
    degrees = np.array([13.0, 37.5, 95, 160, 200, 301])
    image = np.random.default_rng(1).random((9, 10))
    for turned, angle in zip(sets.rotated(image, degrees), degrees):
        expected = ndimage.rotate(image, angle, reshape=False, order=1)
        np.testing.assert_allclose(turned, expected, atol=1e-12)


def test_quarter_turns_are_exact():
    image = np.arange(25.0).reshape(5, 5)
    found = sets.rotated(image, [0, 90, 180, 360])
    expected = [image, np.rot90(image), np.rot90(image, 2), image]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_angles_of_the_paper():
    train, held_out = sets.angles()
    assert len(train) == 888 and len(train) + len(held_out) == 1000
    assert held_out.min() >= 160 and held_out.max() <= 200 and train.max() == 360
    code = sets.encode([0, 90])
    np.testing.assert_allclose(code, [[1, 0], [0, 1]], atol=1e-15)
    with pytest.raises(BadInput, match="leaves nothing"):
        sets.angles(10, (41, 42))


def test_fading_and_rotating():
    degrees = np.linspace(162, 198, 7)
    truth, edges = sets.rotated(GLYPH, degrees), sets.rotated(GLYPH, sets.GAP)
    share = ((degrees - 160) / 40)[:, None, None]
    faded = (1 - share) * edges[:1] + share * edges[1:]
    r2 = turning.cross_fade(faded, truth, degrees, edges)
    np.testing.assert_allclose(r2[:2], 1)
    assert r2.truth < 0.5
    r2 = turning.cross_fade(truth, truth, degrees, edges)
    assert r2.truth == 1 and r2.fade <= r2.mixture < 0.9
    # A mixture that is twice as bright is still a mixture.
    bright = turning.cross_fade(2 * faded, truth, degrees, edges)
    assert bright.fade < 0.5 and bright.mixture == pytest.approx(1)
    with pytest.raises(BadInput, match="two edges"):
        turning.cross_fade(faded, truth, degrees, edges[:1])


def test_decoder_has_the_published_size():
    """With the angle as one number: 406,913 parameters."""
    for d, n in ((1, 406_913), (2, 406_913 + 6272)):
        (image, activations), variables = jax.eval_shape(
            models.RotationDecoder().init_with_output, jax.random.key(0), jnp.zeros((3, d))
        )
        assert sum(a.size for a in jax.tree.leaves(variables["params"])) == n
    assert image.shape == (3, 28, 28) and [a.shape[1] for a in activations] == [7, 14, 28, 28]
