"""What the scenes of every rule and case hold, and the statistics of the reference generator."""

import json
import pathlib

import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.experiments.subnetworks.vision import rendering, rules, sets
from cgjax.experiments.subnetworks.vision.rendering import contours
from cgjax.experiments.subnetworks.vision.rules import Options

ndimage = pytest.importorskip("scipy.ndimage")
GOLDEN = pathlib.Path(__file__).parents[2] / "golden/subnetworks"
STATISTICS = json.loads((GOLDEN / "vision_stats.json").read_text())
CASES = [(True, True), (True, False), (False, True), (False, False)]


def scenes(rule, case, n=12, options=rules.PAPER, image_size=64):
    """Objects of n problems whose images are all of one case."""
    keys = sets.keys(sets.recipe_of(rule, "val", "compositional", image_size, 5), 0, n)
    flags = [np.full((n, 4), flag) for flag in case]
    return rules.RULES[rule].scenes(keys, *flags, options, image_size)


def components(maps):
    """Numbers of 8-connected parts that are drawn, of images [n, H, W]."""
    return np.array([ndimage.label(each > 0, np.ones((3, 3)))[1] for each in maps])


def n_objects(objects, n_images):
    return np.bincount(np.concatenate([part.image for part in objects]), minlength=n_images)


@pytest.mark.parametrize(
    "which, of_rule, of_odd",
    [
        ("compositional", {(1, 1)}, {(0, 1), (1, 0), (0, 0)}),
        ("mask_a", {(1, 1), (1, 0)}, {(0, 1), (0, 0)}),
        ("mask_b", {(1, 1), (0, 1)}, {(1, 0), (0, 0)}),
        ("test_a", {(1, 1)}, {(0, 1)}),
        ("test_b", {(1, 1)}, {(1, 0)}),
        ("odd_breaks_both", {(1, 1)}, {(0, 0)}),
    ],
)
def test_cases_of_the_sets(which, of_rule, of_odd):
    keys = sets.keys(sets.recipe_of("inside-contact", "val", which, 64, 0), 0, 600)
    is_a, is_b = rules.cases(keys, which)
    for columns, wanted in ((slice(3), of_rule), (slice(3, 4), of_odd)):
        pairs = np.stack([is_a[:, columns], is_b[:, columns]], -1).reshape(-1, 2).astype(int)
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        assert {tuple(map(int, each)) for each in found} == wanted
        expected = len(pairs) / len(wanted)
        assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_names_of_sets():
    assert rules.set_name("inside-contact", "mask_inside") == "mask_a"
    assert rules.set_name("number-contact", "test_number") == "test_b"
    assert rules.set_name("number-contact", "mask_contact") == "mask_a"
    with pytest.raises(BadInput, match="unknown set 'mask_number' of inside-contact"):
        rules.set_name("inside-contact", "mask_number")
    with pytest.raises(BadInput, match="unknown rule 'inside': choose from inside-contact"):
        rules.set_name("inside", "mask_a")


@pytest.mark.parametrize("case", CASES)
def test_inside_contact(case):
    objects = scenes("inside-contact", case)
    big, small = objects
    scale = small.size / big.size
    assert (0.25 <= big.size).all() and (big.size <= 0.5).all()
    assert (1 / 4 <= scale).all() and (scale <= 1 / 2.5).all()
    maps = rendering.maps(objects, 48, 64)
    assert (components(maps) == (1 if case[1] else 2)).sum() >= 46
    middle = (small.centre - big.centre) / big.size[:, None]
    is_inside = rules.even_odd(big.contour, middle[:, None])[:, 0]
    # A small shape in contact from inside may have its middle drawn over an inlet of the big one.
    assert is_inside.sum() >= 46 if case[0] else not is_inside.any()
    if case == (True, False):
        assert not rules.touches_box(big.contour, middle[:, None], scale + 0.2).any()


@pytest.mark.parametrize("case", CASES)
def test_inside_number(case):
    big, small, *lone = scenes("inside-number", case, options=Options(resample=True))
    count = n_objects([big, small, *lone], 48).reshape(12, 4)
    whole = n_objects(scenes("inside-number", (True, True), options=Options(resample=True)), 48)
    number = whole.reshape(12, 4)[:, :1] // 2
    assert set(number.ravel()) == {2, 3}
    wanted = {
        (True, True): [2 * number],
        (True, False): [2 * number - 2, 2 * number + 2],
        (False, True): [2 * number],
        (False, False): [2 * number - 1, 2 * number + 1],
    }[case]
    assert np.all([np.isin(c, [w[i] for w in wanted]) for i, c in enumerate(count)])
    assert len(wanted) == 1 or len(np.unique(count - 2 * number)) == 2  # both do occur
    np.testing.assert_array_equal(big.image, small.image)
    middle = (small.centre - big.centre) / big.size[:, None]
    assert rules.is_inside(big.contour, middle[:, None], small.size / big.size).all()
    assert sum(len(part.image) for part in lone) == {1: 0, 0: 96 if case[1] else 48}[case[0]]
    for part in lone:  # beyond every other big box of its image
        for image, centre in zip(part.image, part.centre):
            mine = big.image == image
            gaps = np.abs(big.centre[mine] - centre) > big.size[mine, None] / 2
            assert gaps.any(1).all()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("balanced", [False, True])
def test_number_contact(case, balanced):
    options = Options(balanced=balanced)
    (objects,) = scenes("number-contact", case, options=options)
    (whole,) = scenes("number-contact", (True, True), options=options)
    number = n_objects([whole], 48).reshape(12, 4)[:, :1]
    count = n_objects([objects], 48).reshape(12, 4)
    assert set(number.ravel()) == ({2, 3, 4} if balanced else {2, 3})
    if case[1]:
        np.testing.assert_array_equal(count, np.repeat(number, 4, 1))
    else:
        assert (np.abs(count - number) == 1).all() and count.min() >= 2 and count.max() <= 4
        assert balanced or (count[number[:, 0] == 2] == 3).all()
    assert len(np.unique(objects.size)) == 12  # one size for a problem
    found = components(rendering.maps([objects], 48, 64))
    assert (found == (1 if case[0] else 2)).sum() >= 44  # of 48; the reference: 99.2 %


def test_balanced_numbers_go_up_as_often_as_down():
    keys = sets.keys(sets.recipe_of("number-contact", "train", "test_b", 64, 0), 0, 4000)
    number = np.array([2, 3, 3, 4])[rules.rendering.choice(keys, 4)]
    another = rules._another(keys, number)
    for n in (2, 3, 4):  # as a rule's number and as an odd one's
        assert abs((number == n).mean() - (another == n).mean()) < 0.03
    assert abs((another > number).mean() - 0.5) < 0.03


def test_a_pair_that_does_not_fit_is_left_out_or_drawn_anew(monkeypatch):
    nested = rules.nested

    def narrow(keys, scale, gap, hole, tries=None, **options):
        found = nested(keys, scale, gap, hole, tries=tries, **options)
        return found if tries is None else found._replace(is_found=np.arange(len(keys)) % 2 == 0)

    whole = n_objects(scenes("inside-number", (True, True)), 48)
    monkeypatch.setattr(rules, "nested", narrow)
    lost = n_objects(scenes("inside-number", (True, True)), 48)
    assert lost.sum() in (whole.sum() // 2, whole.sum() // 2 + 1)
    kept = n_objects(scenes("inside-number", (True, True), options=Options(resample=True)), 48)
    np.testing.assert_array_equal(kept, whole)


# --- the reference generator ----------------------------------------------------------------------


def statistics(objects, maps):
    """Of every image: ink, components, white regions, objects, biggest and smallest size."""
    image = np.concatenate([part.image for part in objects])
    size = np.concatenate([part.size for part in objects])
    biggest, smallest = np.zeros(len(maps)), np.ones(len(maps))
    np.maximum.at(biggest, image, size)
    np.minimum.at(smallest, image, size)
    return {
        "ink": (maps > 0).mean((1, 2)),
        "comp": components(maps),
        "enc": np.array([ndimage.label(each == 0)[1] for each in maps]),
        "nobj": n_objects(objects, len(maps)),
        "big": biggest,
        "small": smallest,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_of_the_reference(name):
    """Means over 500 problems against means over the reference's 150, within 4.5 standard errors.

    Where the reference's share of problems with N = 3 can be told, ours are weighted to have it:
    the number of objects would else dominate everything.
    """
    wanted = STATISTICS[name]
    rule, which = name.replace("_", "-", 1).split("/")
    n, recipe = 500, sets.recipe_of(rule, "train", which, 128, 0)
    keys = sets.keys(recipe, 0, n)
    is_a, is_b = rules.cases(keys, recipe.which)
    objects = rules.RULES[rule].scenes(keys, is_a, is_b, rules.PAPER, 128)
    maps = rendering.maps(objects, 4 * n, 128)
    ours = {key: value.reshape(n, 4) for key, value in statistics(objects, maps).items()}
    strata, weights = [np.ones(n, bool)], np.ones(n)
    if rule != "inside-contact" and which not in ("mask_inside", "mask_contact"):
        per = 2 if rule == "inside-number" else 1
        is_three = np.rint(ours["nobj"][:, 0] / per) >= 3
        share = wanted["nobj_rule_mean"] / per - 2
        strata = [is_three, ~is_three]
        weights = np.where(is_three, share / is_three.mean(), (1 - share) / (1 - is_three.mean()))
    for key, values in ours.items():
        for part, columns in (("rule", slice(3)), ("odd", slice(3, 4))):
            mean = values[:, columns].mean(1)
            variance = sum(mean[rows].var() * rows.mean() for rows in strata)
            error = np.sqrt(variance * (1 / n + 1 / wanted["problems"]))
            # Besides, one image in 200 may have a part more or less in either sample.
            slack = {"comp": 0.005, "ink": 5e-5}.get(key, 5e-4)
            difference = (mean * weights).mean() - wanted[f"{key}_{part}_mean"]
            assert abs(difference) < 4.5 * np.hypot(error, slack), (key, part, difference, error)


@pytest.mark.slow
@pytest.mark.parametrize("image_size", [64, 128])
@pytest.mark.parametrize("case", CASES)
# Of the reference's clumps of number-contact 99.2 % are one component.
@pytest.mark.parametrize(
    "rule, contact, least", [("inside-contact", 1, 0.99), ("number-contact", 0, 0.98)]
)
def test_contact_is_one_component(rule, contact, least, case, image_size):
    objects = scenes(rule, case, n=300, image_size=image_size)
    found = components(rendering.maps(objects, 1200, image_size))
    share = (found == (1 if case[contact] else 2)).mean()
    assert share > least


# --- geometry -------------------------------------------------------------------------------------
# Contours, places and pixels: against reference arrays, and what must be true of them.


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
