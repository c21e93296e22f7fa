"""Charts of standings as inline SVG. The page's style sheet sets their colours, by class.

There are three kinds. A *strip* shows one comparison and fits into a table cell. A *panel* shows
our numbers beside the paper's, with intervals, on the axis of the measure. An *overview* shows
every comparison of a family by row, each in units of its tolerance or half-width.
"""

import math
from typing import NamedTuple

from cgjax.published import verdict as verdicts
from cgjax.report import standing as standings
from cgjax.report.markup import Html, join, tag

WIDTH, RIGHT = 480, 14  # of a chart; right margin
LINE, TOP, BOTTOM = 17, 8, 24  # height of a line; margins
MOST = 24  # lines in a panel
FARTHEST = 4  # largest difference that an overview draws, in units of the tolerance
LETTERS, LETTER = 34, 6.7  # longest label, in letters; width of a letter
DECADES = 2  # an axis that spans more is logarithmic


class Line(NamedTuple):
    label: str
    found: object  # the Standing of a claim with a published number


def key(verdict: str) -> str:
    """The CSS class of a verdict."""
    return verdict.split(" at ")[0].replace(" ", "-")


def _svg(width: float, height: float, *children, **attributes) -> Html:
    return tag("svg", *children, viewBox=f"0 0 {width:g} {height:g}", **attributes)


def _at(**places) -> dict:
    """Coordinates as attributes, rounded to a tenth."""
    return {name: f"{round(value, 1):g}" for name, value in places.items()}


def _text(x: float, y: float, content, **attributes) -> Html:
    return tag("text", content, **_at(x=x, y=y), **attributes)


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return tag("line", **_at(x1=x1, y1=y1, x2=x2, y2=y2), class_=class_)


def _rect(x: float, y: float, width: float, height: float, class_: str) -> Html:
    return tag("rect", **_at(x=x, y=y, width=width, height=height), class_=class_)


def _dot(x: float, y: float, r: float, class_: str, *children) -> Html:
    return tag("circle", *children, **_at(cx=x, cy=y, r=r), class_=class_)


def _left(labels) -> float:
    """The left edge of the plot, beside its longest label."""
    return 14 + LETTER * min(LETTERS, max(8, *map(len, labels)))


def _label(left: float, y: float, text: str) -> Html:
    half = LETTERS // 2  # both ends, because names that begin alike differ at their end
    short = text if len(text) <= LETTERS else f"{text[:half]}…{text[-half:]}"
    return _text(left - 8, y + 4, join([short, tag("title", text)]), text_anchor="end")


# --- one comparison -------------------------------------------------------------------------------


def strip(standing, width: int = 120, height: int = 16) -> Html:
    """A standing's difference with its half-width, and the tolerance around 0.

    Every strip has its own scale: the tolerance, or without one the half-width, is a fifth of the
    width. The strip is "" if the claim was not run.
    """
    verdict = standing.verdict
    if verdict is None or math.isnan(verdict.difference):
        return Html()
    unit = _allowed(verdict) or abs(verdict.difference) or 1.0
    middle, per_unit, y = width / 2, width / 5, height / 2

    def x(value):
        return middle + per_unit * max(-2.3, min(2.3, value / unit))

    band = 2 * (x(verdict.tolerance) - middle)
    low, high = verdict.difference - verdict.width, verdict.difference + verdict.width
    return _svg(
        width,
        height,
        _rect(middle - band / 2, 1, band, height - 2, "band") if band else None,
        _line(middle, 0, middle, height, "zero"),
        _line(x(low), y, x(high), y, f"whisker {key(standing.word)}"),
        _dot(x(verdict.difference), y, 3.4, f"dot {key(standing.word)}"),
        class_="strip",
        aria_hidden="true",
    )


def _allowed(verdict: verdicts.Verdict) -> float:
    """The unit of a difference: the tolerance, or for an ordering the half-width."""
    return verdict.tolerance or (verdict.width if math.isfinite(verdict.width) else 0.0)


# --- ours beside the paper's ----------------------------------------------------------------------


def panel(lines: list[Line], label: str) -> Html:
    """One line per number: the paper's interval is a bar, ours is a point with its interval."""
    spans = [_span(line.found) for line in lines]
    left = _left(line.label for line in lines)
    axis = _Axis([value for ours, theirs in spans for value in (*ours, *theirs)], left)
    height = TOP + LINE * len(lines) + BOTTOM
    drawn = [axis.grid(TOP, height - BOTTOM)]
    for i, (line, (ours, theirs)) in enumerate(zip(lines, spans)):
        y, class_name = TOP + LINE * (i + 0.5), key(line.found.word)
        low, middle, high = map(axis, theirs)
        drawn += [
            _label(left, y, line.label),
            _line(low, y, high, y, "theirs-interval"),
            _line(middle, y - 5, middle, y + 5, "theirs"),
            _line(axis(ours[0]), y, axis(ours[2]), y, f"whisker {class_name}"),
            _dot(axis(ours[1]), y, 3.6, f"dot {class_name}", tag("title", told(line.found))),
        ]
    return _svg(WIDTH, height, *drawn, class_="chart", role="img", aria_label=label)


def told(standing) -> str:
    """A comparison in one line: the tooltip of its point."""
    theirs = (
        f" against {standings.number(standing.claim.number)}" if standing.claim.published else ""
    )
    return f"{standing.claim.metric}: {standings.number(standing.ours)}{theirs}, {standing.word}"


def _span(standing) -> tuple[tuple, tuple]:
    """(low, middle, high) of ours and of theirs."""
    published = standing.claim.published
    ours, width = standing.ours, standings.half_width(standing) or 0.0
    mean, theirs = published["mean"], verdicts.published_width(published)
    return (ours - width, ours, ours + width), (mean - theirs, mean, mean + theirs)


class _Axis:
    """Maps values to x; logarithmic if they are positive and span more than DECADES."""

    def __init__(self, values, left: float):
        self.left = left
        low, high = min(values), max(values)
        # The interval of a positive number may reach below 0: a logarithmic axis cuts it off.
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
        drawn = []
        for value in self.ticks():
            x, label = self(value), f"{value:.3g}"
            drawn.append(_line(x, top, x, bottom, "grid"))
            drawn.append(_text(x, bottom + 15, label, text_anchor="middle", class_="tick"))
        return join(drawn)


# --- a family at a glance -------------------------------------------------------------------------


def overview(rows: dict[str, list], label: str) -> Html:
    """One line per row, one point per comparison, in units of its tolerance or half-width.

    rows: {name: standings}; those that `is_measured` are drawn. Points that would overlap are moved
    up and down. Points beyond FARTHEST are drawn at the edge.
    """
    left = _left(rows)
    height, middle = TOP + LINE * len(rows) + BOTTOM, (left + WIDTH - RIGHT) / 2
    per_unit = (WIDTH - left - RIGHT) / 2 / (FARTHEST + 0.3)
    bottom = height - BOTTOM
    drawn = [
        _rect(middle - per_unit, TOP, 2 * per_unit, bottom - TOP, "band"),
        _line(middle, TOP, middle, bottom, "zero"),
    ]
    for value in (-FARTHEST, -1, 0, 1, FARTHEST):
        x, tick = middle + value * per_unit, f"{value:+d}" if value else "0"
        drawn.append(_text(x, bottom + 15, tick, text_anchor="middle", class_="tick"))
    for i, (name, of_row) in enumerate(rows.items()):
        y, used = TOP + LINE * (i + 0.5), {}
        drawn.append(_label(left, y, name))
        for standing in filter(is_measured, of_row):
            place = round(middle + per_unit * units(standing.verdict))
            n = used[place] = used.get(place, 0) + 1
            if n > 5:  # more points would reach the next line
                continue
            shift = (n // 2) * 2.6 * (-1) ** n
            tooltip = tag("title", told(standing))
            drawn.append(_dot(place, y + shift, 2.1, f"dot {key(standing.word)}", tooltip))
    return _svg(WIDTH, height, *drawn, class_="chart", role="img", aria_label=label)


def is_measured(standing) -> bool:
    """Whether a standing's difference has a unit: an ordering of single seeds has none."""
    verdict = standing.verdict
    if verdict is None or math.isnan(verdict.difference):
        return False
    return bool(verdict.tolerance) or math.isfinite(verdict.width)


def units(verdict: verdicts.Verdict) -> float:
    """A difference in units of its tolerance or half-width, clipped to +-FARTHEST."""
    unit, difference = _allowed(verdict), verdict.difference
    ratio = difference / unit if unit else math.copysign(math.inf, difference)
    return max(-FARTHEST, min(FARTHEST, ratio))
