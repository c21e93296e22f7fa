"""Charts of standings as inline SVG. The page's style sheet sets their colours, by class.

There are five kinds. A *strip* shows one comparison and fits into a table cell. A *panel* shows
our numbers beside the paper's, with intervals, on the axis of the measure; *intervals* shows ours
alone. An *overview* shows every comparison of a family by row, each in units of its tolerance or
half-width. *Curves* show a metric against a swept key.
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
SERIES = 6  # colours of curves


class Line(NamedTuple):
    label: str
    standing: object  # the Standing of a claim with a published number


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
    half = LETTERS // 2  # keeps both ends: names with the same start differ at their end
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
    return _rows(
        [
            _Row(
                line.label,
                *_span(line.standing),
                key(line.standing.word),
                in_one_line(line.standing),
            )
            for line in lines
        ],
        label,
    )


def intervals(numbers: dict[str, tuple], label: str) -> Html:
    """One line per number of ours; numbers: {label: (low, middle, high)}."""
    rows = [_Row(name, span, None, "plain", name) for name, span in numbers.items()]
    return _rows(rows, label)


class _Row(NamedTuple):
    label: str
    ours: tuple  # (low, middle, high)
    theirs: tuple | None  # the same
    class_name: str
    tooltip: str


def _rows(rows: list[_Row], label: str) -> Html:
    left = _left(row.label for row in rows)
    spans = [span for row in rows for span in (row.ours, row.theirs) if span]
    axis = _Axis([value for span in spans for value in span], left, WIDTH - RIGHT)
    height = TOP + LINE * len(rows) + BOTTOM
    drawn = [axis.grid(TOP, height - BOTTOM)]
    for i, row in enumerate(rows):
        y = TOP + LINE * (i + 0.5)
        drawn.append(_label(left, y, row.label))
        if row.theirs:
            low, middle, high = map(axis, row.theirs)
            drawn.append(_line(low, y, high, y, "theirs-interval"))
            drawn.append(_line(middle, y - 5, middle, y + 5, "theirs"))
        low, middle, high = map(axis, row.ours)
        drawn.append(_line(low, y, high, y, f"whisker {row.class_name}"))
        drawn.append(_dot(middle, y, 3.6, f"dot {row.class_name}", tag("title", row.tooltip)))
    return _svg(WIDTH, height, *drawn, class_="chart", role="img", aria_label=label)


def in_one_line(standing) -> str:
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
    """Maps values to pixels; logarithmic if they are positive and span more than DECADES.

    values: low, middle and high of each number, one after another.
    """

    def __init__(self, values: list[float], start: float, stop: float):
        self.start, self.stop = start, stop
        low, high = min(values), max(values)
        # The interval of a positive number may reach below 0: a logarithmic axis cuts it off.
        middles = values[1::3]
        self.is_log = min(middles) > 0 and max(middles) > 10**DECADES * min(middles)
        if self.is_log:
            low, high = math.log10(min(middles) / 1.6), math.log10(max(high, max(middles)) * 1.2)
        room = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
        self.low, self.high = low - room, high + room

    def __call__(self, value) -> float:
        if self.is_log:
            value = math.log10(value) if value > 0 else -math.inf
        share = (value - self.low) / (self.high - self.low)
        return self.start + (self.stop - self.start) * min(1.0, max(0.0, share))

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
        """Vertical lines with their values below; that of zero is darker."""
        drawn = []
        for value in self.ticks():
            x = self(value)
            drawn.append(_line(x, top, x, bottom, "grid" if value else "zero"))
            tick = f"{value:.3g}"
            drawn.append(_text(x, bottom + 15, tick, text_anchor="middle", class_="tick"))
        return join(drawn)

    def levels(self, left: float, right: float) -> Html:
        """Horizontal lines with their values on the left."""
        drawn = []
        for value in self.ticks():
            y = self(value)
            drawn.append(_line(left, y, right, y, "grid" if value else "zero"))
            tick = f"{value:.3g}"
            drawn.append(_text(left - 6, y + 3.5, tick, text_anchor="end", class_="tick"))
        return join(drawn)


# --- a sweep --------------------------------------------------------------------------------------


def curves(series: dict[str, list[tuple]], key_name: str, label: str) -> Html:
    """A metric against a swept key; series: {label: [(x, low, middle, high)]}, sorted by x."""
    left, right = 58, WIDTH - RIGHT
    names = [name for name in series if name]
    top = TOP + LINE * len(names)
    bottom = top + 190
    points = [point for of_series in series.values() for point in of_series]
    x_axis = _Axis([x for x, *_ in points for _ in range(3)], left, right)
    y_axis = _Axis([value for _, *span in points for value in span], bottom, top)
    drawn = [x_axis.grid(top, bottom), y_axis.levels(left, right)]
    for i, (name, of_series) in enumerate(series.items()):
        class_name = f"series-{i % SERIES}"
        if name:
            y = TOP + LINE * (i + 0.5)
            drawn.append(_line(left, y, left + 18, y, f"whisker {class_name}"))
            drawn.append(_text(left + 24, y + 4, name))
        shift = 3 * (i - (len(series) - 1) / 2)  # so that intervals do not hide each other
        places = [(x_axis(x) + shift, *map(y_axis, span)) for x, *span in of_series]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, _, y, _ in places)
        drawn.append(tag("polyline", points=line, class_=f"curve {class_name}"))
        for (x, low, y, high), point in zip(places, of_series):
            tooltip = tag("title", f"{name} {key_name} {point[0]:g}: {point[2]:.4g}".strip())
            drawn.append(_line(x, low, x, high, f"whisker {class_name}"))
            drawn.append(_dot(x, y, 3.2, f"dot {class_name}", tooltip))
    drawn.append(_text((left + right) / 2, bottom + 32, key_name, text_anchor="middle"))
    return _svg(WIDTH, bottom + 40, *drawn, class_="chart", role="img", aria_label=label)


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
            tooltip = tag("title", in_one_line(standing))
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
