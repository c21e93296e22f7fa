"""Charts of standings as inline SVG; their colours are the page's, by class, in both themes.

Three kinds: a *strip* is one comparison as the rule sees it, small enough for a table's cell; a
*panel* has ours beside the paper's, with intervals, on the axis of the measure; an *overview* has
every comparison of a family by row, each in units of what the rule allows it.
"""

import math
from typing import NamedTuple

from cgjax.published import verdict as verdicts
from cgjax.report import standing
from cgjax.report.markup import Html, join, tag

WIDTH, RIGHT = 480, 14  # of a chart; beside its last tick
LINE, TOP, BOTTOM = 17, 8, 24
MOST = 24  # lines in a panel
FARTHEST = 4  # of an overview, in units of what is allowed
LETTERS, LETTER = 34, 6.7  # of a label, and how wide one is
DECADES = 2  # from here on an axis is logarithmic


class Line(NamedTuple):
    label: str
    found: object  # a Standing of a published number


def key(word: str) -> str:
    """A verdict as a class."""
    return word.split(" at ")[0].replace(" ", "-")


def _svg(width: float, height: float, *children, **attributes) -> Html:
    return tag("svg", *children, viewBox=f"0 0 {width:g} {height:g}", **attributes)


def _at(**places) -> dict:
    """Places as attributes, to a tenth."""
    return {name: f"{round(value, 1):g}" for name, value in places.items()}


def _text(x: float, y: float, words, **attributes) -> Html:
    return tag("text", words, **_at(x=x, y=y), **attributes)


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return tag("line", **_at(x1=x1, y1=y1, x2=x2, y2=y2), class_=class_)


def _rect(x: float, y: float, width: float, height: float, class_: str) -> Html:
    return tag("rect", **_at(x=x, y=y, width=width, height=height), class_=class_)


def _dot(x: float, y: float, r: float, class_: str, *children) -> Html:
    return tag("circle", *children, **_at(cx=x, cy=y, r=r), class_=class_)


def _left(labels) -> float:
    """Where the plot begins, beside its longest label."""
    return 14 + LETTER * min(LETTERS, max(8, *map(len, labels)))


def _label(left: float, y: float, text: str) -> Html:
    half = LETTERS // 2  # names that share their beginning differ at their end
    short = text if len(text) <= LETTERS else f"{text[:half]}…{text[-half:]}"
    return _text(left - 8, y + 4, join([short, tag("title", text)]), text_anchor="end")


# --- one comparison -------------------------------------------------------------------------------


def strip(found, width: int = 120, height: int = 16) -> Html:
    """Difference with its half-width, and the tolerance around none; "" where nothing was run.

    The scale is its own: the tolerance, or where there is none the half-width, is a fifth of it.
    """
    said = found.verdict
    if said is None or math.isnan(said.difference):
        return Html()
    unit = _allowed(said) or abs(said.difference) or 1.0
    middle, per_unit, y = width / 2, width / 5, height / 2

    def x(value):
        return middle + per_unit * max(-2.3, min(2.3, value / unit))

    band = 2 * (x(said.tolerance) - middle)
    return _svg(
        width,
        height,
        _rect(middle - band / 2, 1, band, height - 2, "band") if band else None,
        _line(middle, 0, middle, height, "zero"),
        _line(x(said.difference - said.width), y, x(said.difference + said.width), y,
              f"whisker {key(found.word)}"),
        _dot(x(said.difference), y, 3.4, f"dot {key(found.word)}"),
        class_="strip",
        aria_hidden="true",
    )  # fmt: skip


def _allowed(said: verdicts.Verdict) -> float:
    """What a difference is measured by: the tolerance, of an ordering the half-width."""
    return said.tolerance or (said.width if math.isfinite(said.width) else 0.0)


# --- ours beside the paper's ----------------------------------------------------------------------


def panel(lines: list[Line], label: str) -> Html:
    """A line for each number: the paper's interval as a bar, ours as a point with its interval."""
    spans = [_span(line.found) for line in lines]
    left = _left(line.label for line in lines)
    axis = _Axis([value for ours, theirs in spans for value in (*ours, *theirs)], left)
    height = TOP + LINE * len(lines) + BOTTOM
    drawn = [axis.grid(TOP, height - BOTTOM)]
    for i, (line, (ours, theirs)) in enumerate(zip(lines, spans)):
        y, word = TOP + LINE * (i + 0.5), key(line.found.word)
        low, middle, high = map(axis, theirs)
        drawn += [
            _label(left, y, line.label),
            _line(low, y, high, y, "theirs-interval"),
            _line(middle, y - 5, middle, y + 5, "theirs"),
            _line(axis(ours[0]), y, axis(ours[2]), y, f"whisker {word}"),
            _dot(axis(ours[1]), y, 3.6, f"dot {word}", tag("title", told(line.found))),
        ]
    return _svg(WIDTH, height, *drawn, class_="chart", role="img", aria_label=label)


def told(found) -> str:
    """A comparison in a few words, for whoever points at it."""
    theirs = f" against {standing.number(found.claim.number)}" if found.claim.published else ""
    return f"{found.claim.metric}: {standing.number(found.ours)}{theirs}, {found.word}"


def _span(found) -> tuple[tuple, tuple]:
    """(low, middle, high) of ours and of theirs."""
    published = found.claim.published
    ours, width = found.ours, standing.half_width(found) or 0.0
    mean, theirs = published["mean"], verdicts.published_width(published)
    return (ours - width, ours, ours + width), (mean - theirs, mean, mean + theirs)


class _Axis:
    """Values to places between left and the right edge; logarithmic where they span decades."""

    def __init__(self, values, left: float):
        self.left = left
        low, high = min(values), max(values)
        # An interval may reach below 0 where no number does: then it is cut off at the edge.
        middles = [abs(value) for value in values[1::3]]
        self.is_log = min(middles) > 0 < min(values[1::3])
        self.is_log &= max(middles) > 10**DECADES * min(middles) if self.is_log else False
        if self.is_log:
            low, high = math.log10(min(middles) / 1.6), math.log10(max(high, max(middles)) * 1.2)
        room = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
        self.low, self.high = low - room, high + room

    def __call__(self, value) -> float:
        if self.is_log:
            value = math.log10(value) if value > 0 else -math.inf
        share = (value - self.low) / (self.high - self.low)
        return self.left + (WIDTH - self.left - RIGHT) * min(1.0, max(0.0, share))

    def ticks(self) -> list[float]:
        if self.is_log:
            step = max(1, math.ceil((self.high - self.low) / 5))
            return [10.0**n for n in range(math.ceil(self.low), math.floor(self.high) + 1, step)]
        rough = (self.high - self.low) / 5
        size = 10.0 ** math.floor(math.log10(rough))
        step = size * next(m for m in (1, 2, 2.5, 5, 10) if m * size >= rough)
        first = math.ceil(self.low / step)
        return [n * step for n in range(first, math.floor(self.high / step) + 1)]

    def grid(self, top: float, bottom: float) -> Html:
        return join(
            join([
                _line(self(value), top, self(value), bottom, "grid"),
                _text(self(value), bottom + 15, f"{value:.3g}", text_anchor="middle",
                      class_="tick"),
            ])
            for value in self.ticks()
        )  # fmt: skip


# --- a family at a glance -------------------------------------------------------------------------


def overview(rows: dict[str, list], label: str) -> Html:
    """A line for each row: every comparison as a point, in units of what the rule allows.

    rows: {name: standings}, of which those are drawn that can be measured. Points that would lie
    upon another are moved up and down; those beyond FARTHEST stand at the edge.
    """
    left = _left(rows)
    height, middle = TOP + LINE * len(rows) + BOTTOM, (left + WIDTH - RIGHT) / 2
    per_unit = (WIDTH - left - RIGHT) / 2 / (FARTHEST + 0.3)
    bottom = height - BOTTOM
    drawn = [
        _rect(middle - per_unit, TOP, 2 * per_unit, bottom - TOP, "band"),
        _line(middle, TOP, middle, bottom, "zero"),
    ]  # fmt: skip
    for value in (-FARTHEST, -1, 0, 1, FARTHEST):
        word = f"{value:+d}" if value else "0"
        drawn.append(_text(middle + value * per_unit, bottom + 15, word, text_anchor="middle",
                           class_="tick"))  # fmt: skip
    for i, (name, standings) in enumerate(rows.items()):
        y, used = TOP + LINE * (i + 0.5), {}
        drawn.append(_label(left, y, name))
        for found in filter(is_measured, standings):
            place = round(middle + per_unit * units(found.verdict))
            n = used[place] = used.get(place, 0) + 1
            if n > 5:  # a heap that reaches the next line says no more
                continue
            shift = (n // 2) * 2.6 * (-1) ** n
            drawn.append(_dot(place, y + shift, 2.1, f"dot {key(found.word)}",
                              tag("title", told(found))))  # fmt: skip
    return _svg(WIDTH, height, *drawn, class_="chart", role="img", aria_label=label)


def is_measured(found) -> bool:
    """Whether a comparison has a unit: an ordering of single draws has none."""
    said = found.verdict
    if said is None or math.isnan(said.difference):
        return False
    return bool(said.tolerance) or math.isfinite(said.width)


def units(said: verdicts.Verdict) -> float:
    """A difference in units of what the rule allows it, at most FARTHEST."""
    unit = _allowed(said)
    found = said.difference / unit if unit else math.copysign(math.inf, said.difference)
    return max(-FARTHEST, min(FARTHEST, found))
