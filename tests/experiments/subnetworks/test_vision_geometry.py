"""Contours, places and pixels: against reference arrays, and what must be true of them."""

import numpy as np
import pytest

from cgjax.experiments.subnetworks.vision import rendering, rules
from cgjax.experiments.subnetworks.vision.rendering import contours


@pytest.fixture(scope="module")
def geometry(golden):
    return golden("subnetworks/vision_geometry")


def keys(n, seed=0):
    return rendering.fold(np.full(n, seed, np.uint64), np.arange(n))


@pytest.mark.parametrize("i", range(3))
def test_inside(geometry, i):
    big, points = geometry[f"big{i}"][None], geometry["points"][None]
    inside = rules.even_odd(big, points)[0]
    np.testing.assert_array_equal(inside, geometry[f"even_odd_in_big{i}"])
    accepted = rules.is_inside(big, points, np.array([0.3]))[0]
    np.testing.assert_array_equal(accepted, geometry[f"accept_scale0.3_big{i}"])
    for start, *centre in geometry[f"inside_contact_big{i}"]:
        point = geometry["points"][int(start)]
        moved = rules.inside_contact(geometry[f"big{i}"], geometry[f"small{i}"], point, 0.3)
        np.testing.assert_allclose(moved, centre, rtol=0, atol=1e-12)


def test_contact(geometry):
    shapes = [geometry["big0"], geometry["small0"]]
    for angle, centres, box in zip(
        geometry["contact_angles"], geometry["contact_positions"], geometry["contact_clump_bbox"]
    ):
        found = rules.contact(shapes, geometry["contact_sizes"], [angle])
        np.testing.assert_allclose(found[0], centres, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found[1], box, rtol=0, atol=1e-12)


def test_contact_of_three(geometry):
    shapes = [geometry["small1"], geometry["small1"], geometry["small2"]]
    found = rules.contact(shapes, [0.2] * 3, geometry["contact3_angles"][1:])
    np.testing.assert_allclose(found[0], geometry["contact3_positions"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[1], geometry["contact3_clump_bbox"], rtol=0, atol=1e-12)


def test_rendering(geometry):
    rgb = rendering.hsv_to_rgb(geometry["hsv"])
    np.testing.assert_allclose(rgb, geometry["rgb"], atol=1e-12)
    objects = [
        rendering.Objects(
            np.array([0]),
            np.array([slot]),
            geometry[str(name)][None],
            geometry["render_xy"][slot, None],
            geometry["render_size"][slot, None],
        )
        for slot, name in enumerate(geometry["render_order"])
    ]
    # The order of the list is not the order of drawing: slots are.
    maps = rendering.maps(objects[::-1], 1, 128)
    palette = np.rint(255 * np.concatenate([np.ones((1, 3)), rgb])).astype(np.uint8)
    np.testing.assert_array_equal(palette[maps[0]], geometry["render_image"])


def test_copies_at_the_end_change_nothing(geometry):
    big, small = geometry["big0"], geometry["small0"]
    longer = np.concatenate([big, np.repeat(big[-1:], 5, 0)])
    points, scale = geometry["points"][None], np.array([0.3])
    np.testing.assert_array_equal(
        rules.is_inside(big[None], points, scale),
        rules.is_inside(longer[None], points, scale),
    )
    np.testing.assert_array_equal(
        rules.inside_contact(big, small, points[0, 9], 0.3),
        rules.inside_contact(longer, small, points[0, 9], 0.3),
    )
    first = np.array([0])
    centre, size = np.full((1, 2), 0.5), np.array([0.8])
    drawn = [
        rendering.maps([rendering.Objects(first, first, shape[None], centre, size)], 1, 64)
        for shape in (big, longer)
    ]
    np.testing.assert_array_equal(*drawn)


def test_what_leaves_the_canvas_is_cut_off(geometry):
    one = np.array([0])
    there = rendering.Objects(one, one, geometry["big0"][None], np.ones((1, 2)), np.array([0.5]))
    drawn = rendering.maps([there], 1, 64)[0]
    assert drawn.any() and not drawn[:40].any() and not drawn[:, :40].any()


def test_contours_fill_the_unit_square():
    for gap, hole in ((0.07, 0.2), (0.01, 0.05)):
        outlines = contours(keys(40), gap, hole)
        np.testing.assert_allclose(outlines.min(1), -0.5, atol=1e-12)
        np.testing.assert_allclose(outlines.max(1), 0.5, atol=1e-12)
        n = [len(np.unique(each, axis=0)) for each in outlines]
        # Vertices that the reference's contours have: 43 to 56 and 296 to 303, three of each.
        assert {0.07: 40 < np.mean(n) < 54, 0.01: 260 < np.mean(n) < 325}[gap]


def test_contours_depend_on_their_own_key_alone():
    together, alone = contours(keys(30), 0.07, 0.2), contours(keys(30)[[17]], 0.07, 0.2)
    width = alone.shape[1]
    np.testing.assert_array_equal(together[17, :width], alone[0])
    assert contours(keys(0), 0.07, 0.2).shape[0] == 0


def test_the_hole_stays_empty_and_the_disc_is_not_left():
    from cgjax.experiments.subnetworks.vision.rendering import RADIUS, _outlines

    for each in _outlines(keys(40), 0.07, 0.2):
        assert (np.abs(each) >= 0.2).all() and (np.abs(each) <= RADIUS).all()
        step = np.roll(each, -1) - each
        assert max(np.abs(step.real).max(), np.abs(step.imag).max()) <= 0.07


def test_draws_are_uniform_and_apart():
    drawn = rendering.uniform(keys(1000), 8)
    assert drawn.min() >= 0 and drawn.max() < 1
    counts = np.histogram(drawn, 20, (0, 1))[0]
    assert ((counts - 400) ** 2 / 400).sum() < 50  # chi-squared, 19 degrees: p = 1e-4
    others = rendering.uniform(rendering.fold(keys(1000), 1), 8)
    columns = np.concatenate([drawn, others, np.roll(drawn, 1, axis=0)], 1)
    related = np.corrcoef(columns.T) - np.eye(24)
    assert np.abs(related).max() < 0.15  # 276 pairs of standard error 0.03
    u, v = rendering.pairs(keys(8000), 3)
    assert abs(np.corrcoef(u, v)[0, 1]) < 0.05
    assert 0.48 < u.mean() < 0.52 and 0.48 < v.mean() < 0.52
    np.testing.assert_array_equal(rendering.uniform(keys(1000)[5:6], 8), drawn[5:6])
