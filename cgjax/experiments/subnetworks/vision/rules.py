"""The three rules, each a AND b, and the scenes that obey or break them.

A scene function maps the keys of n problems, and flags that say for each of their 4 images whether
a and b hold, to objects. The sets of a rule differ only in the cases from which images are drawn.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cgjax.core.errors import BadInput, one_of
from cgjax.experiments.subnetworks.vision import rendering
from cgjax.experiments.subnetworks.vision.rendering import Objects, contours

IMAGES = 4  # of a problem, the odd one last
# Cases (a holds, b holds) of a rule image, and of the odd one; all cases are equally likely.
_BOTH, _A, _B, _NONE = (True, True), (True, False), (False, True), (False, False)
SETS = {
    "compositional": ((_BOTH,), (_A, _B, _NONE)),
    "mask_a": ((_BOTH, _A), (_B, _NONE)),
    "mask_b": ((_BOTH, _B), (_A, _NONE)),
    "test_a": ((_BOTH,), (_B,)),
    "test_b": ((_BOTH,), (_A,)),
    "odd_breaks_both": ((_BOTH,), (_NONE,)),
}
# The numbers that are folded into a key for each purpose.
_CASE, _IMAGE, _SIZE, _PLACE, _BIG, _SMALL, _COUNT, _ANGLE, _PAIR, _LONE, COLOUR = range(11)
# (gap, hole) of contours.
_IC_BIG, _IN_BIG, _SMALL_SHAPE, _NC_SHAPE = (0.07, 0.2), (0.08, 0.2), (0.01, 0.05), (0.007, 0.05)
# Keeps outlines apart after rendering: a share of the big side, as in the paper, and at least
# _MARGIN_PIXELS pixels, because the share is too small in images of less than 90 pixels.
_MARGIN, _MARGIN_PIXELS, _MOST_MARGIN = 0.2, 4.5, 0.3


class Options(NamedTuple):
    """Departures from the paper's data, none by default."""

    balanced: bool = False  # number-contact: the odd image has fewer objects as often as more
    resample: bool = False  # inside-number: a pair that does not fit is redrawn, not omitted


PAPER = Options()


class Rule(NamedTuple):
    """words: subroutines (a, b); n_objects: most objects of an image; scenes: scene function."""

    words: tuple[str, str]
    n_objects: int
    scenes: Callable  # keys [n], is_a [n, 4], is_b [n, 4], options, image_size -> list of Objects


def cases(keys: np.ndarray, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Whether a and b hold in the images of the problems: two boolean [n, 4]."""
    of_rule, of_odd = (np.array(options) for options in SETS[which])
    keys = rendering.fold(rendering.fold(keys, _CASE)[:, None], np.arange(IMAGES))
    chosen = of_rule[rendering.choice(keys, len(of_rule))]
    chosen[:, -1] = of_odd[rendering.choice(keys[:, -1], len(of_odd))]
    return chosen[..., 0], chosen[..., 1]


def set_name(rule: str, which: str) -> str:
    """The set's name in terms of a and b: "mask_inside" and "mask_a" both give "mask_a"."""
    one_of("rule", rule, RULES)
    kind, _, subroutine = which.partition("_")
    if kind in ("mask", "test") and subroutine in RULES[rule].words:
        which = f"{kind}_{'ab'[RULES[rule].words.index(subroutine)]}"
    if which not in SETS:
        raise BadInput(f"unknown set '{which}' of {rule}: one of {', '.join(SETS)}")
    return which


def _images(keys, *flags):
    """Keys of all images [4n], and each flag [n, 4] in the same order."""
    keys = rendering.fold(rendering.fold(keys, _IMAGE)[:, None], np.arange(IMAGES)).reshape(-1)
    return keys, *(flag.reshape(-1) for flag in flags)


def _between(u, low, high):
    return low + u * (high - low)


# --- inside-contact -------------------------------------------------------------------------------


def _inside_contact(keys, is_inside, is_contact, options, image_size):
    keys, is_inside, is_contact = _images(keys, is_inside, is_contact)
    u, v = rendering.uniform(rendering.fold(keys, _SIZE), 2).T
    size_a = _between(u, 0.25, 0.5)
    size_b = size_a * _between(v, 1 / 4, 1 / 2.5)
    centre = uniform_in(rendering.fold(keys, _PLACE), size_a[:, None])
    small = contours(rendering.fold(keys, _SMALL), *_SMALL_SHAPE)
    parts = []
    for (inside, touching), place in _IC_CASES.items():
        rows = np.flatnonzero((is_inside == inside) & (is_contact == touching))
        if len(rows):
            args = [each[rows] for each in (keys, size_a, size_b, centre, small)]
            big, centre_a, centre_b = place(*args, image_size)
            zero = np.zeros_like(rows)
            parts.append(Objects(rows, zero, big, centre_a, size_a[rows]))
            parts.append(Objects(rows, zero + 1, small[rows], centre_b, size_b[rows]))
    return parts


def _inside_touching(keys, size_a, size_b, centre, small, image_size):
    scale = size_b / size_a
    room = nested(rendering.fold(keys, _BIG), scale, *_IC_BIG)
    moved = [inside_contact(*each, image_size) for each in zip(room.big, small, room.centre, scale)]
    return room.big, centre, np.stack(moved) * size_a[:, None] + centre


def _inside_free(keys, size_a, size_b, centre, small, image_size):
    margin = np.clip(_MARGIN_PIXELS / (image_size * size_a), _MARGIN, _MOST_MARGIN)
    scale = size_b / size_a + margin
    room = nested(rendering.fold(keys, _BIG), scale, *_IC_BIG, n_candidates=500)
    return room.big, centre, room.centre * size_a[:, None] + centre


def _outside_touching(keys, size_a, size_b, centre, small, image_size):
    big = contours(rendering.fold(keys, _BIG), *_IC_BIG)
    angle = 2 * np.pi * rendering.uniform(rendering.fold(keys, _ANGLE), 1)
    clumps = [
        contact(each[:2], each[2:4], each[4], image_size)
        for each in zip(big, small, size_a, size_b, angle)
    ]
    centres, boxes = (np.stack(each) for each in zip(*clumps))
    centres += uniform_in(rendering.fold(keys, _PLACE), boxes)[:, None]
    return big, centres[:, 0], centres[:, 1]


def _outside_free(keys, size_a, size_b, centre, small, image_size):
    big = contours(rendering.fold(keys, _BIG), *_IC_BIG)
    return big, centre, apart(rendering.fold(keys, _LONE), centre, size_a, size_b)


_IC_CASES = {
    (True, True): _inside_touching,
    (True, False): _inside_free,
    (False, True): _outside_touching,
    (False, False): _outside_free,
}


# --- inside-number --------------------------------------------------------------------------------

_TRIES = 20


def _inside_number(keys, is_inside, is_number, options, image_size):
    # N, the number of pairs.
    number = np.repeat(2 + rendering.choice(rendering.fold(keys, _COUNT), 2), IMAGES)
    keys, is_inside, is_number = _images(keys, is_inside, is_number)
    anchors, size, inner = _anchors(keys, number)
    coin = rendering.choice(rendering.fold(keys, _COUNT), 2)
    n_pairs = np.select(
        [is_inside & is_number, is_inside, is_number],
        [number, number + 2 * coin - 1, number - 1],
        number - coin,
    )
    image, j = np.nonzero(np.arange(anchors.shape[1]) < n_pairs[:, None])
    pair_keys = rendering.fold(rendering.fold(keys[image], _PAIR), j)
    pairs = _pairs(pair_keys, *(each[image, j] for each in (anchors, size, inner)), options)
    alone = np.flatnonzero(~is_inside)
    lone = _lone(*(each[alone] for each in (keys, is_number, number, anchors, size, inner)))
    big, small = (
        part._replace(image=image[part.image], slot=2 * j[part.image] + part.slot) for part in pairs
    )
    return [big, small, *(part._replace(image=alone[part.image]) for part in lone)]


def _pairs(keys, anchor, size, inner, options):
    """A small object in each big one; big objects have slot 0, small ones slot 1."""
    tries = None if options.resample else _TRIES
    room = nested(rendering.fold(keys, _BIG), inner / size, *_IN_BIG, tries=tries)
    i = np.flatnonzero(room.is_found)
    small = contours(rendering.fold(keys[i], _SMALL), *_SMALL_SHAPE)
    within = room.centre[i] * size[i, None] + anchor[i]
    zero = np.zeros_like(i)
    return (
        Objects(i, zero, room.big[i], anchor[i], size[i]),
        Objects(i, zero + 1, small, within, inner[i]),
    )


def _anchors(keys, number):
    """N + 1 places in every case, so that sizes do not reveal the case: [n, 4, 2], [n, 4] x 2."""
    most = number.max(initial=0) + 1
    anchors, size = np.full((len(keys), most, 2), np.nan), np.full((len(keys), most), np.nan)
    for n in np.unique(number):
        rows = np.flatnonzero(number == n)
        least = min(0.9 / (n + 1), 0.3)
        boxes = np.full((len(rows), n + 1, 2), least)
        centres, is_found = groups(rendering.fold(keys[rows], _PLACE), boxes, 100 * _TRIES)
        if not is_found.all():
            raise ValueError(f"found no {n + 1} places far enough apart in {100 * _TRIES} draws")
        to_edge = 2 * np.minimum(centres, 1 - centres).min(-1)
        between = np.abs(centres[:, :, None] - centres[:, None]).max(-1)
        between[:, np.arange(n + 1), np.arange(n + 1)] = np.inf
        largest = np.minimum(to_edge, between.min(-1))
        anchors[rows, : n + 1], size[rows, : n + 1] = centres, largest
    u, v = np.moveaxis(rendering.uniform(rendering.fold(keys, _SIZE), most, 2), -1, 0)
    size = size * _between(u, 1 / 2, 1)
    return anchors, size, size * _between(v, 1 / 4, 1 / 2.5)


def _lone(keys, is_number, number, anchors, size, inner):
    """Objects outside pairs, for images that break "inside".

    With the right number: one big and one small object. Otherwise: one object with random outline
    and size.
    """
    keys, rows, before = rendering.fold(keys, _LONE), np.arange(len(keys)), number - 1
    has_big_outline, has_big_size = rendering.uniform(rendering.fold(keys, 0), 2).T < 0.5
    drawn = np.where(has_big_size, size[rows, number], inner[rows, number])

    def alone(those, shape, slot, anchor, size):
        i = np.flatnonzero(those)
        outline = contours(rendering.fold(keys[i], 1 + slot[i] % 2), *shape)
        return Objects(i, slot[i], outline, anchors[i, anchor[i]], size[i])

    return [
        alone(is_number, _IN_BIG, 2 * before, before, size[rows, before]),
        alone(is_number, _SMALL_SHAPE, 2 * before + 1, number, inner[rows, before]),
        alone(~is_number & has_big_outline, _IN_BIG, 2 * number, number, drawn),
        alone(~is_number & ~has_big_outline, _SMALL_SHAPE, 2 * number, number, drawn),
    ]


# --- number-contact -------------------------------------------------------------------------------

_LEAST, _MOST = 2, 4  # objects of an image
_ROOM = 1.1  # reserved space, relative to a clump's bounding box


def _number_contact(keys, is_contact, is_number, options, image_size):
    outline = contours(rendering.fold(keys, _BIG), *_NC_SHAPE)
    number = rendering.choice(rendering.fold(keys, _COUNT), 4)
    # Balanced: (N, other number) is as likely as (other number, N).
    number = np.array([2, 3, 3, 4])[number] if options.balanced else 2 + number % 2
    largest = 0.9 / np.sqrt(4 * number)
    size = largest * _between(rendering.uniform(rendering.fold(keys, _SIZE)), 1 / 2, 1)
    problem = np.repeat(np.arange(len(keys)), IMAGES)
    keys, is_contact, is_number = _images(keys, is_contact, is_number)
    total = np.where(is_number, number[problem], _another(keys, number[problem]))
    centres = _clumps(keys, outline, size, problem, total, is_contact, image_size)
    image, slot = np.nonzero(np.arange(_MOST) < total[:, None])
    of = problem[image]
    return [Objects(image, slot, outline[of], centres[image, slot], size[of])]


def _another(keys, number):
    """One more or one less; three if the result would be below two or above four."""
    other = number + 2 * rendering.choice(rendering.fold(keys, _COUNT), 2) - 1
    return np.where((other < _LEAST) | (other > _MOST), 3, other)


def _clumps(keys, outline, size, problem, total, is_contact, image_size):
    """Centres [n, 4, 2]: all objects in one clump, or the last one separate."""
    angles = 2 * np.pi * rendering.uniform(rendering.fold(keys, _ANGLE), _MOST - 1)
    centres, boxes = np.zeros((len(keys), _MOST, 2)), np.zeros((len(keys), 2))
    shapes = [_distinct(shape) for shape in outline]
    n_clump = total - ~is_contact
    for i, (k, p) in enumerate(zip(n_clump, problem)):
        centres[i, :k], boxes[i] = contact([shapes[p]] * k, [size[p]] * k, angles[i], image_size)
    key = rendering.fold(keys, _PLACE)
    boxes = _ROOM * np.stack([boxes, np.repeat(size[problem, None], 2, 1)], 1)
    places, _ = groups(key, boxes, 1000)
    places[is_contact, 0] = uniform_in(key[is_contact], boxes[is_contact, 0])
    in_clump = np.arange(_MOST) < n_clump[:, None]
    return centres + np.where(in_clump[..., None], places[:, :1], places[:, 1:])


def _distinct(contour):
    """The contour without the copies at its end."""
    return contour[: np.flatnonzero((contour != contour[-1]).any(1))[-1] + 2]


RULES = {
    "inside-contact": Rule(("inside", "contact"), 2, _inside_contact),
    "inside-number": Rule(("inside", "number"), 8, _inside_number),
    "number-contact": Rule(("contact", "number"), _MOST, _number_contact),
}


# --- placement ------------------------------------------------------------------------------------
# Positions of shapes: inside, in contact, apart.
#
# Contours have unit bounding boxes around 0, so that a size is the side of a box. `inside_contact`
# and `nested` use coordinates in which the big shape has side 1; the others use canvas coordinates.


# Centres of shapes in contact move together by PULL / image_size of their distance (4 / 128 in the
# paper). Otherwise their pixels would not always touch.
PULL = 4
_BLOCK = 25  # candidates tested together


def even_odd(contour: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether points [n, K, 2] are inside contours [n, V, 2], by the parity of edge crossings."""
    left = contour[:, None, :, 0] < points[:, :, None, 0]
    below = contour[:, None, :, 1] <= points[:, :, None, 1]
    crossed = (left | np.roll(left, 1, -1)) & (below ^ np.roll(below, 1, -1))
    return np.logical_xor.reduce(crossed, -1)


def touches_box(contour: np.ndarray, points: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Whether a vertex of the contour is in a box of side scale [n] around the points."""
    reach = scale[:, None, None] / 2
    x, y = (np.abs(contour[:, None, :, axis] - points[:, :, None, axis]) for axis in (0, 1))
    return ((x <= reach) & (y <= reach)).any(-1)


def is_inside(contour: np.ndarray, points: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Whether a box of side scale [n] around points [n, K, 2] is inside and touches no vertex."""
    return even_odd(contour, points) & ~touches_box(contour, points, scale)


def first_valid(
    keys: np.ndarray, n_candidates: int, draw: Callable, accept: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """The first accepted of n_candidates for each key: [n, ...], and whether there is one [n].

    draw(rows, keys [m, k]) -> candidates [m, k, ...]; accept(rows, candidates) -> [m, k]. If no
    candidate is accepted, the result is the first one.
    """
    chosen = draw(np.arange(len(keys)), rendering.fold(keys, 0)[:, None])[:, 0]
    is_found, rows = np.zeros(len(keys), bool), np.arange(len(keys))
    for start in range(0, n_candidates, _BLOCK):
        block = np.arange(start, min(start + _BLOCK, n_candidates))
        candidates = draw(rows, rendering.fold(keys[rows, None], block))
        is_valid = accept(rows, candidates)
        hit = is_valid.any(1)
        chosen[rows[hit]] = candidates[hit, is_valid[hit].argmax(1)]
        is_found[rows[hit]] = True
        rows = rows[~hit]
        if not len(rows):
            break
    return chosen, is_found


def uniform_in(keys: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Centres of boxes of the given sides that lie in the unit square; sides [..., 1 or 2]."""
    return rendering.uniform(keys, 2) * (1 - size) + size / 2


# --- a small shape in a big one -------------------------------------------------------------------


class Nested(NamedTuple):
    """Big contours, and a position inside each for a small shape."""

    big: np.ndarray  # [n, V, 2]
    centre: np.ndarray  # [n, 2], of the small shape
    is_found: np.ndarray  # [n]; if False, big and centre are meaningless


def nested(
    keys: np.ndarray,
    scale: np.ndarray,
    gap: float,
    hole: float,
    n_candidates: int = 100,
    tries: int | None = None,
) -> Nested:
    """Big contours with room for a box of side scale [n], drawn at most `tries` times.

    The outline of the small shape has no effect, because its box is always a square.
    """
    rows, attempt, parts = np.arange(len(keys)), 0, []
    is_found, centre = np.zeros(len(keys), bool), np.zeros((len(keys), 2))
    while len(rows) and (tries is None or attempt < tries):
        key = rendering.fold(keys[rows], attempt)
        shape = contours(rendering.fold(key, 0), gap, hole)
        side = scale[rows]
        chosen, hit = first_valid(
            rendering.fold(key, 1),
            n_candidates,
            lambda i, k, side=side: uniform_in(k, side[i, None, None]) - 0.5,
            lambda i, points, shape=shape, side=side: is_inside(shape[i], points, side[i]),
        )
        parts.append((rows[hit], shape[hit]))
        centre[rows[hit]], is_found[rows[hit]] = chosen[hit], True
        rows, attempt = rows[~hit], attempt + 1
    big = np.zeros((len(keys), max((s.shape[1] for _, s in parts), default=0), 2))
    for i, shape in parts:
        big[i, : shape.shape[1]], big[i, shape.shape[1] :] = shape, shape[:, -1:]
    return Nested(big, centre, is_found)


def inside_contact(
    big: np.ndarray, small: np.ndarray, centre: np.ndarray, scale: float, image_size: int = 128
) -> np.ndarray:
    """Moves the small shape from a free centre [2] until its nearest vertex touches the big one's.

    big [V, 2], small [W, 2]; scale: the small side in units of the big one. Returns the centre.
    """
    small = small * scale
    i, j = _closest(big, small + centre)
    return (big[i] - small[j]) * (1 - PULL / image_size)


def _closest(a, b):
    """Indices of the closest pair of points of a [V, 2] and b [W, 2]."""
    squared = (a[:, None, 0] - b[:, 0]) ** 2
    squared += (a[:, None, 1] - b[:, 1]) ** 2
    return divmod(int(squared.argmin()), len(b))


# --- shapes side by side --------------------------------------------------------------------------


def contact(shapes: list, sizes, angles, image_size: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """A clump: shapes are added one by one, each from its angle until it touches the clump.

    shapes: k contours [V, 2]; angles: for all shapes after the first. Returns centres
    [k, 2] around the middle of the clump, and the sides [2] of its bounding box.
    """
    clump, centres = shapes[0] * sizes[0], np.zeros((1, 2))
    box = np.full(2, float(sizes[0]))
    for shape, size, angle in zip(shapes[1:], sizes[1:], angles):
        towards = np.array([np.cos(angle), np.sin(angle)])
        shape = shape * size
        front = clump[clump[:, 0] * towards[0] + clump[:, 1] * towards[1] > 0]
        back = shape[shape[:, 0] * towards[0] + shape[:, 1] * towards[1] < 0]
        i, j = _closest(front, back + (size + box) * towards)
        centre = (front[i] - back[j]) * (1 - PULL / image_size)
        clump = np.concatenate([clump, shape + centre])
        low, high = clump.min(0), clump.max(0)
        middle, box = (low + high) / 2, high - low
        clump, centres = clump - middle, np.concatenate([centres, centre[None]]) - middle
    return centres, box


def apart(keys: np.ndarray, centre: np.ndarray, size_a, size_b) -> np.ndarray:
    """Centres [n, 2] of small shapes whose boxes do not touch those of the big ones."""
    least = (size_a + size_b) / 2

    def draw(i, k):
        return uniform_in(k, size_b[i, None, None])

    def accept(i, points):
        return (np.abs(points - centre[i, None]) > least[i, None, None]).any(-1)

    centres, is_found = first_valid(keys, 10_000, draw, accept)
    if not is_found.all():
        raise ValueError("no room beside a shape: sizes size_a and size_b are too large")
    return centres


def are_apart(centres: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Whether no two of the boxes [..., k, 2] around centres [..., k, 2] touch."""
    first, second = np.triu_indices(centres.shape[-2], 1)
    gaps = np.abs(centres[..., first, :] - centres[..., second, :])
    least = (boxes[..., first, :] + boxes[..., second, :]) / 2
    return (gaps > least).any(-1).all(-1)


def groups(keys: np.ndarray, boxes: np.ndarray, n_candidates: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres [n, k, 2] of k separate boxes [n, k, 2] in the canvas, and whether found [n]."""
    k = np.arange(boxes.shape[1])

    def draw(i, keys):
        return uniform_in(rendering.fold(keys[..., None], k), boxes[i, None])

    def accept(i, centres):
        return are_apart(centres, boxes[i, None])

    return first_valid(keys, n_candidates, draw, accept)
