"""Images, codes, regions and training sets against stored arrays, and by counting."""

import json

import jax
import numpy as np
import pytest

from cgjax.analysis import geometry
from cgjax.core.errors import BadInput
from cgjax.experiments.bumps import regions, scenes, scores, sets
from cgjax.experiments.bumps.studies import comparisons

N, SIGMA, LB, UB = 28, 1.0, 6, 22
SHAPES = ("square", "disc")
# Far from a bump float32 has no such small numbers.
TOLERANCES = [(True, {"rtol": 1e-10, "atol": 1e-300}), (False, {"rtol": 1e-5, "atol": 1e-30})]


@pytest.fixture(scope="module")
def values(golden):
    path = golden("bumps/masks").zip.filename
    with open(path.replace("masks.npz", "values.json")) as file:
        return json.load(file)


@pytest.fixture(scope="module")
def donut():
    return scenes.region("donut", N, LB, UB)


# --- stored arrays --------------------------------------------------------------------------------


@pytest.mark.parametrize("x64, close", TOLERANCES)
def test_stored_images(golden, x64, close):
    stored = golden("bumps/images")
    with jax.enable_x64(x64):
        for inverted in (True, False):
            images = np.asarray(scenes.bump(stored["xy"], N, SIGMA, inverted))
            name = "inverted" if inverted else "positive"
            np.testing.assert_allclose(images, stored[name], **close)
        half = np.asarray(scenes.bump(stored["half_pixel_index_xy"], 32, 1.5, inverted=False))
    np.testing.assert_allclose(half, stored["half_pixel_positive"], **close)
    assert images.dtype == (np.float64 if x64 else np.float32)


@pytest.mark.parametrize("x64, close", TOLERANCES)
def test_stored_codes(golden, x64, close):
    stored = golden("bumps/encodings")
    with jax.enable_x64(x64):
        for kind in ("bump", "onehot", "ramp", "ramp01"):
            found = np.asarray(scenes.encode(stored["xy"], N, kind))
            np.testing.assert_allclose(found, stored[kind], err_msg=kind, **close)
        wide = np.asarray(scenes.encode(stored["xy"], N, "bump", width_multiplier=3))
        on_canvas = np.asarray(scenes.encode(stored["canvas_xy"], 40, "bump"))
    np.testing.assert_allclose(wide, stored["bump_width_multiplier_3"], **close)
    np.testing.assert_allclose(on_canvas, stored["canvas_encoding"], **close)


@pytest.mark.parametrize("x64, close", TOLERANCES)
def test_stored_canvas_images(golden, x64, close):
    stored = golden("bumps/encodings")
    xy = stored["canvas_xy"]
    labels = scenes.Labels(xy, (xy >= 6) & (xy < 34))
    with jax.enable_x64(x64):
        for stripes, name, inverted in (
            ("canvas_stripe", "stripe_image", True),
            ("canvas_crop", "canvas_cropped_bump", True),
            ("canvas_sos", "sum_of_stripes_positive", False),
        ):
            found = scenes.images(labels, N, SIGMA, stripes, 40, inverted)
            np.testing.assert_allclose(np.asarray(found), stored[name], err_msg=name, **close)
    # The stored six have bumps, stripes of both kinds and a blank.
    assert {tuple(pair) for pair in labels.shown} == {(a, b) for a in (0, 1) for b in (0, 1)}


def test_stored_masks_and_counts(golden, values, donut):
    stored = golden("bumps/masks")
    corner = scenes.region("corner", N, corner=int(stored["corner"]))
    cross = scenes.region("cross", N, LB, UB)
    for name, found in (("donut", donut), ("cross", cross), ("corner", corner)):
        np.testing.assert_array_equal(found, stored[f"{name}_ood"], err_msg=name)
        assert found.sum() == values["counts"][f"{name}_ood"]
    assert (~donut).sum() == values["counts"]["donut_id"]
    kernels = golden("bumps/kernels")
    np.testing.assert_array_equal(scenes.centres(~donut), kernels["id_xy"])
    np.testing.assert_array_equal(scenes.centres(donut), kernels["ood_xy"])
    for n, corner, n_id, n_ood in ((32, 12, 624, 400), (28, 14, 588, 196)):
        held_out = scenes.region("corner", n, corner=corner)
        assert ((~held_out).sum(), held_out.sum()) == (n_id, n_ood)


def test_stored_coverage_and_blank_errors(golden, values, donut):
    """169 pixels are never lit: the inner 13 x 13 block."""
    stored = golden("bumps/masks")
    with jax.enable_x64(True):
        positive = scenes.bump(scenes.centres(~donut), N, SIGMA, inverted=False)
        brightness = np.asarray(scenes.largest_brightness(positive))
        np.testing.assert_allclose(brightness, stored["max_id_brightness"], rtol=1e-10)
        assert scenes.n_never_lit(positive) == values["pixels_never_lit_above_0.05"] == 169
        assert np.all(brightness[8:21, 8:21] <= scenes.LIT)
        every = scenes.bump(scenes.centres(np.ones((N, N), bool)), N, SIGMA)
        blank = np.asarray(scores.blank_mse(every)).reshape(N, N)
    np.testing.assert_allclose(blank, stored["blank_mse_map"], rtol=1e-10)
    np.testing.assert_allclose(blank[~donut].mean(), values["blank_mse"]["id"], rtol=1e-10)
    np.testing.assert_allclose(blank[donut].mean(), values["blank_mse"]["ood"], rtol=1e-10)
    closed = np.pi * SIGMA**2 / N**2
    np.testing.assert_allclose(closed, values["blank_mse"]["closed_form_interior"])
    # Poisson summation: the sum over whole pixels is the integral up to 4 exp(-pi^2 sigma^2).
    np.testing.assert_allclose(blank[14, 14], closed, rtol=4.1 * np.exp(-(np.pi**2)))


def test_stored_percolation(golden, values):
    stored = golden("bumps/percolation")
    for sigma in (0.3, 0.5, 1.0):
        names = [f"occ_{sigma}_{share}" for share in (0.1, 0.3, 0.5, 0.7)]
        found = comparisons.largest_cluster(np.stack([stored[name] for name in names]), sigma)
        for name, largest, occupied in zip(names, *found):
            key = "sigma={},lambda={}".format(*name.split("_")[1:])
            expected = values["percolation_overlap_threshold_0.05"][key]
            assert (largest, occupied) == (expected["largest"], expected["occupied"]), key
            np.testing.assert_allclose(largest / occupied, expected["mass_ratio"])


def test_metric_of_the_bump_code():
    """Exact derivatives through the encoder: diagonal, sum_i (i - x)^2 exp(-(i - x)^2) each way."""
    z = np.array([[3.0, 20.25], [14.5, 0.0]])
    pullback = jax.jit(geometry.pullback, static_argnames="f")
    with jax.enable_x64(True):
        metric = np.asarray(pullback(lambda pair: scenes.encode(pair[None], N, "bump")[0], z))
    away = np.arange(N) - z[..., None]
    slopes = np.sum(away**2 * np.exp(-(away**2)), axis=-1)
    np.testing.assert_allclose(metric, slopes[:, None] * np.eye(2), rtol=1e-10, atol=1e-14)


# --- what is not stored ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["donut_6_22", "cross_11_17", "corner_14", "whole"])
def test_regions_hold_centres_anywhere(name):
    """On whole numbers the mask of the grid; between them the same inequalities."""
    on_grid = regions.parse(name, 28)[0]
    y, x = np.indices(on_grid.shape)
    xy = np.stack([x, y], axis=-1).reshape(-1, 2)
    np.testing.assert_array_equal(regions.holds(name, xy), on_grid.ravel())
    between = np.array([[5.5, 14], [11.5, 3], [16.5, 27], [17.5, 2], [22.5, 13.5], [13.5, 14.5]])
    expected = {
        "donut_6_22": [0, 0, 0, 0, 0, 1],
        "cross_11_17": [1, 1, 1, 0, 1, 1],
        "corner_14": [0, 0, 1, 0, 0, 0],
        "whole": [0] * 6,
    }[name]
    np.testing.assert_array_equal(regions.holds(name, between), np.array(expected, bool))


def test_stretched_pixels():
    """Pixel 27 sits at 28, so that a bump at 28 has its peak there."""
    found = scenes.bump([[28.0, 0.0]], N, SIGMA, inverted=False, pixel_grid="stretched")
    assert found[0, 0, 27] == 1
    np.testing.assert_allclose(found[0, 1, 27], np.exp(-((28 / 27) ** 2) / 2), rtol=1e-6)


def test_allowed_cells_of_the_canvas(donut):
    """Of 1311 cells 495 show a bump, 672 one coordinate, 144 none."""
    labels = scenes.canvas_labels(donut, 40)
    shown = labels.shown.sum(axis=1)
    assert [len(shown), *(np.sum(shown == k) for k in (2, 1, 0))] == [1311, 495, 672, 144]
    visible = labels.xy[shown == 2] - 6
    np.testing.assert_array_equal(
        np.unique(visible, axis=0), np.unique(scenes.centres(~donut), axis=0)
    )


def test_null_stripes():
    labels = scenes.null_stripes(5)
    painted = np.asarray(scenes.images(labels, 5, SIGMA, "null_stripe", inverted=False))
    codes = np.asarray(scenes.encode(labels.xy, 5, "onehot", shown=labels.shown))
    bell = np.exp(-((np.arange(5)[:, None] - np.arange(5)) ** 2) / 2)
    for i in range(5):
        np.testing.assert_allclose(painted[i], np.tile(bell[i], (5, 1)), rtol=1e-6)
        np.testing.assert_allclose(painted[5 + i], np.tile(bell[i], (5, 1)).T, rtol=1e-6)
    np.testing.assert_array_equal(codes, np.eye(10))
    nothing = scenes.Labels(np.zeros((1, 2)), np.zeros((1, 2), bool))
    assert np.all(scenes.images(nothing, 5, SIGMA, "null_stripe") == 1)
    assert np.all(scenes.encode(nothing.xy, 5, "bump", shown=nothing.shown) == 0)
    with pytest.raises(BadInput, match="no code for an absent factor"):
        scenes.encode(labels.xy, 5, "ramp", shown=labels.shown)


def test_continuous_donut():
    """Uniform over the frame: the share of each piece is its area's."""
    n, p, side = 32, 0.4, 12
    assert scenes.hole_side(n, p) == side and scenes.hole_side(40, 0.3) == 12
    assert scenes.continuous_sizes(n, p) == (int(1000 * 20**2 / 32**2), int(1000 * 12**2 / 32**2))
    rng = np.random.default_rng(0)
    frame = scenes.continuous(rng, 20000, n, p, held_out=False)
    hole = scenes.continuous(rng, 2000, n, p, held_out=True)
    inside = np.all((frame >= 10) & (frame < 22), axis=1)
    assert not inside.any() and frame.min() >= 0 and frame.max() < n
    assert np.all((hole >= 10) & (hole < 22))
    area = n**2 - side**2
    for share, part in (
        (10 * n / area, frame[:, 0] < 10),
        (10 * n / area, frame[:, 1] >= 22),
        (side * 10 / area, (frame[:, 1] < 10) & (frame[:, 0] >= 10) & (frame[:, 0] < 22)),
        (25 / area, np.all(frame < 5, axis=1)),
    ):
        error = np.sqrt(share * (1 - share) / len(frame))
        assert abs(part.mean() - share) < 4 * error


def test_bad_scenes_are_refused(donut):
    labels = scenes.bump_labels([[3, 4]])
    for words, call in {
        "region 'square'": lambda: scenes.region("square", N),
        "0 <= lb <= ub": lambda: scenes.region("donut", N, 22, 6),
        "corner from 1": lambda: scenes.region("corner", N),
        "nothing on one side": lambda: scenes.region("donut", N, 0, 27),
        "xy are pairs": lambda: scenes.bump([1, 2], N, SIGMA),
        "sigma must be above 0": lambda: scenes.bump([[1, 2]], N, 0.0),
        "pixel_grid 'odd'": lambda: scenes.bump([[1, 2]], N, 1.0, pixel_grid="odd"),
        "encoding 'place'": lambda: scenes.encode([[1, 2]], N, "place"),
        "whole numbers": lambda: scenes.encode([[1, 28]], N, "onehot"),
        "width_multiplier": lambda: scenes.encode([[1, 2]], N, "bump", width_multiplier=-1),
        "stripes 'all'": lambda: scenes.images(labels, N, SIGMA, "all"),
        "need a canvas": lambda: scenes.images(labels, N, SIGMA, "canvas_sos", 31),
        "need a canvas ": lambda: scenes.canvas_labels(donut, 20),
        "side 0": lambda: scenes.continuous(np.random.default_rng(0), 5, 24, 0.01, True),
        "0 < threshold < 1": lambda: comparisons.reach(1.0, 1.0),
        "share must be from 0 to 1": lambda: comparisons.mass_ratio(None, donut, 1.5, 1.0),
        "occupied must be boolean": lambda: comparisons.largest_cluster(np.ones((4, 4)), 1.0),
    }.items():
        with pytest.raises(BadInput, match=words.strip()):
            call()


def test_clusters_by_hand():
    """Reach 2 joins sites two apart; a snake through the lattice is one cluster."""
    occupied = np.zeros((1, 9, 9), bool)
    occupied[0, ::2] = True  # rows two apart ...
    assert comparisons.reach(0.5, np.exp(-4)) == 2
    assert comparisons.largest_cluster(occupied, 0.5, np.exp(-4.0) * 0.999)[0][0] == 45
    assert (
        comparisons.largest_cluster(occupied, 0.5, 0.05)[0][0] == 9
    )  # ... which 1.7 does not join
    snake = occupied.copy()
    snake[0, 1::4, 0], snake[0, 3::4, -1] = True, True
    assert comparisons.largest_cluster(snake, 0.3)[0][0] == snake.sum()
    frame = ~scenes.region("donut", 9, 3, 5)
    rng = np.random.default_rng(0)
    ratio = comparisons.mass_ratio(rng, frame, 1.0, 0.3, draws=2)
    np.testing.assert_array_equal(ratio, [1, 1])
    nothing = comparisons.mass_ratio(rng, frame, 0.0, 0.3, draws=2)
    np.testing.assert_array_equal(nothing, [0, 0])
    # Sites of the hole are never occupied: two frames that only the hole would join stay apart.
    apart = np.ones((9, 9), bool)
    apart[3:6] = False
    ratio = comparisons.mass_ratio(rng, apart, 1.0, 0.3, draws=2)
    np.testing.assert_array_equal(ratio, [0.5, 0.5])


# --- sprites and characters -----------------------------------------------------------------------


def test_sprites_and_turned_characters():
    """A square is a product of two stripes, a disc is not; characters differ, and so do angles."""
    xy = np.array([[6.0, 9.0]])
    square, disc = (scenes.sprites(xy, 16, 2.0, shape, inverted=False)[0] for shape in SHAPES)
    assert np.linalg.matrix_rank(square) == 1 < np.linalg.matrix_rank(disc)
    assert square[9, 6] == disc[9, 6] == 1 and square[11, 8] == 0.25 and disc[11, 8] == 0
    turned = scenes.sprites(xy, 16, 2.0, "square", 45.0)[0]
    assert turned[9, 6] == 0 and turned[11, 8] == 1 > turned[9, 8]
    images = sets.turned_characters(np.array([[0, 4], [4, 4], [0, 15]]), 16, inverted=False)
    assert images.shape == (3, 16, 16) and 0 <= images.min() <= images.max() <= 1
    np.testing.assert_allclose(images[1], np.rot90(images[0]), atol=1e-6)
    every = sets.characters(40, 16)
    assert len(np.unique(every.reshape(40, -1), axis=0)) == 40
    np.testing.assert_array_equal(every[4], sets.glyph(4, 16))
