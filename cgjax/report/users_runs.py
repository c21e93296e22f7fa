"""The section of the user's runs: sweeps with their values and curves, runs, figures, numbers."""

import json

from cgjax import config as configs
from cgjax import report
from cgjax.config.declare import leaves
from cgjax.config.overrides import FIXED
from cgjax.published import PUBLISHED
from cgjax.published import verdict as verdicts
from cgjax.report import charts, commands, section
from cgjax.report import runs as own_runs
from cgjax.report import standing as standings
from cgjax.report.markup import Html, table, tag

MOST_BYTES = 8 << 20  # of all figures of the user's runs
MOST_METRICS = 60  # of one of these runs
MOST_CURVES = 12  # of one sweep
IN_TABLE = 4  # metrics in the table of a sweep


def runs_section(runs: own_runs.Runs) -> Html | None:
    if not runs.entries and not runs.unreadable:
        return None
    parts = [_sweep(*sweep) for sweep in sweeps(runs.entries)]
    if runs.entries:
        parts += [section.run_table(runs.entries, "Your runs"), *_run_figures(runs.entries)]
        parts += [_run_metrics(entry) for entry in runs.entries]
    if runs.unreadable:
        lines = (tag("li", line) for line in runs.unreadable)
        parts.append(tag("div", tag("h3", "Unreadable"), tag("ul", *lines), class_="unreadable"))
    return tag("section", tag("h2", "Your runs"), *parts, id="yours", class_="own")


# --- sweeps ---------------------------------------------------------------------------------------


def sweeps(entries: list[dict]) -> list[tuple[list[str], list[dict], list[dict]]]:
    """(swept keys, runs, their values of these keys) of each row and size with several configs.

    Seeds are replicas of a run and not swept.
    """
    groups = {}
    for entry in entries:
        groups.setdefault(commands.flag(entry), []).append(entry)
    sweeps = []
    for runs in groups.values():
        values = [dict(leaves(configs.from_json(json.dumps(run["config"])))) for run in runs]
        keys = dict.fromkeys(name for of_run in values for name in of_run)
        swept = [
            name
            for name in keys
            if name not in ("train.seeds", *FIXED)
            and any(of_run.get(name) != values[0].get(name) for of_run in values)
        ]
        if swept:
            sweeps.append((swept, runs, values))
    return sweeps


def _sweep(swept: list[str], runs: list[dict], values: list[dict]) -> Html:
    """A table of the swept values with the first metrics, and curves of these."""
    points = sorted(zip(runs, values), key=lambda point: [_order(point[1].get(n)) for n in swept])
    metrics = _metrics(runs)
    rows = [
        [
            *(_text(of_run.get(name)) for name in swept),
            *(_number(run["metrics"].get(name)) for name in metrics[:IN_TABLE]),
        ]
        for run, of_run in points
    ]
    title = f"Sweep of {commands.flag(runs[0])} over {', '.join(swept)}"
    heads = (*(tag("code", name) for name in swept), *metrics[:IN_TABLE])
    figures = [
        section.figure(drawn, f"{name} by {by}")
        for name in metrics[:MOST_CURVES]
        for drawn, by in [_curve(name, swept, points)]
    ]
    caption = f"{len(rows)} runs: swept values, then means ± half of a 95 % interval over seeds"
    return tag("div", tag("h3", title), table(heads, rows, caption), section.gallery(figures))


def _metrics(runs: list[dict]) -> list[str]:
    """Metrics that all runs have and that differ between runs; published numbers come first."""
    names = [name for name in runs[0]["metrics"] if all(name in run["metrics"] for run in runs)]
    varied = []
    for name in names:
        numbers = [run["metrics"][name]["ours"] for run in runs]
        if None not in numbers and len(set(numbers)) > 1:
            varied.append(name)
    return sorted(varied, key=lambda name: runs[0]["metrics"][name]["paper"] is None)


def _curve(name: str, swept: list[str], points: list[tuple]) -> tuple[Html, str]:
    """A metric against the swept number with the most values; without a number, by label."""
    numeric = [key for key in swept if all(_is_number(of_run.get(key)) for _, of_run in points)]
    label = f"{name} by {', '.join(swept)}"
    if not numeric:
        spans = {
            _label(swept, of_run): _span(run["metrics"][name])
            for run, of_run in points[: charts.MOST]
        }
        return charts.intervals(spans, label), ", ".join(swept)
    by = max(numeric, key=lambda key: len({of_run[key] for _, of_run in points}))
    others, series = [key for key in swept if key != by], {}
    for run, of_run in sorted(points, key=lambda point: point[1][by]):
        point = (of_run[by], *_span(run["metrics"][name]))
        series.setdefault(_label(others, of_run), []).append(point)
    return charts.curves(series, by, label), by


def _label(keys: list[str], of_run: dict) -> str:
    return ", ".join(f"{key}={_text(of_run.get(key))}" for key in keys)


def _span(metric: dict) -> tuple:
    """(low, mean, high) of a metric, by its values over seeds."""
    values = [value for value in metric["values"] if value is not None]
    width = verdicts.half_width(values) if len(values) > 1 else 0.0
    return metric["ours"] - width, metric["ours"], metric["ours"] + width


def _number(metric: dict | None) -> str:
    if metric is None or metric["ours"] is None:
        return "-"
    low, mean, _ = _span(metric)
    return standings.number(mean) + (f" ± {mean - low:.2g}" if mean > low else "")


def _text(value) -> str:
    return "-" if value is None else commands.text(value)


def _is_number(value) -> bool:
    """Whether an axis can show a value: not a truth value, not infinite."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < report.LARGEST


def _order(value) -> tuple:
    """Sort key: numbers by size, then other values as text."""
    return (0, value, "") if _is_number(value) else (1, 0, str(value))


# --- figures and numbers --------------------------------------------------------------------------


def _run_figures(entries: list[dict]):
    shown, left, room = [], [], MOST_BYTES
    for entry in entries:
        for path in sorted((entry["workdir"] / "figures").glob("*.png")):
            caption = f"{entry['family']}:{entry['row']}, {path.stem}"
            size = path.stat().st_size if path.is_file() else 0
            drawn = section.image(path, caption) if 0 < size <= room else None
            room -= size if drawn else 0
            (shown if drawn else left).append(drawn or str(path))
    yield section.gallery(shown)
    if left:
        yield tag(
            "p",
            f"Figures not shown (too large, or not png files): {', '.join(left)}",
            class_="note",
        )


def _run_metrics(entry: dict) -> Html:
    """The first MOST_METRICS metrics of a run, with and without a published number."""
    rows = []
    known = PUBLISHED.get(entry["family"], {}).get(entry["row"], {})
    for name, metric in list(entry["metrics"].items())[:MOST_METRICS]:
        is_formula = known.get(name, {}).get("kind") == "formula"
        cells = (
            name,
            standings.number(metric["ours"]),
            "-" if metric["sd"] is None else f"{metric['sd']:.2g}",
            len(metric["values"]),
            standings.number(None if is_formula else metric["paper"]),
            standings.number(metric["paper"] if is_formula else metric.get("recomputed")),
        )
        rows.append(cells)
    more = len(entry["metrics"]) - len(rows)
    title = f"Numbers of {commands.flag(entry)}"
    verb = "is" if more == 1 else "are"
    heads = ("metric", "ours", "sd", "seeds", "published", "formula or recomputed")
    return tag(
        "details",
        tag("summary", title),
        table(heads, rows, title, (None, *["num"] * 5)),
        tag("p", f"{more} more {verb} in its results.json", class_="note") if more > 0 else None,
        class_="more",
    )
