"""Markdown tables of recorded runs beside the paper's numbers: pure functions of a record.

record: a list of entries; each is a run with its row, size, label, metrics, time and hardware.
"""

MOST_VALUES = 5  # in a cell; a cell with more shows only their number


def by_row(record: list[dict], size: str, label: str = "") -> dict:
    """`{row: metrics}` of the recorded runs of one size and label."""
    return {
        entry["row"]: entry["metrics"]
        for entry in record
        if (entry["size"], entry["label"]) == (size, label)
    }


def headline_table(record: list[dict], metric: str = "r2_all") -> str:
    """One line per recorded run with a paper's number: every seed's value, our mean, theirs."""
    lines = [
        f"| row | size | {metric}, every seed | ours | paper | difference | time | hardware |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for entry in record:
        name = _run(entry)
        hardware = ", ".join(filter(None, (entry["devices"], entry.get("note"))))
        # The paper's mean excludes collapsed seeds, so the mean over the other seeds gets a line.
        for key, suffix in ((metric, ""), (f"{metric} (alive)", ", alive seeds")):
            if key not in entry["metrics"]:
                continue
            summary = entry["metrics"][key]
            ours, paper = summary["ours"], summary["paper"]
            if paper is None:
                continue
            values = ", ".join(_shown(value) for value in summary["values"])
            difference = "-" if ours is None else f"{ours - paper:+.3f}"
            lines.append(
                f"| {name}{suffix} | {entry['size']} | {values} | {_shown(ours)} | {paper:.3f} "
                f"| {difference} | {_shown(entry.get('wall_s'), '.0f')} s | {hardware} |"
            )
    return "\n".join(lines)


def metric_table(
    record: list[dict], endings: tuple[str, ...] = ("",), reference: str = "paper"
) -> str:
    """One line per recorded metric that has a reference number.

    endings: the metric's name ends with one of these (default: all metrics); reference: "paper", or
    "recomputed" for numbers that others recomputed with the paper's settings.
    """
    lines = [
        f"| row | size | metric | every seed | ours | {reference} | difference |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for entry in record:
        for name, summary in entry["metrics"].items():
            ours, theirs = summary["ours"], summary.get(reference)
            if None in (ours, theirs) or not name.endswith(endings):
                continue
            form = ".1e" if 0 < abs(theirs) < 0.01 else ".3f"
            values = [_shown(value, form) for value in summary["values"]]
            if len(values) > MOST_VALUES:
                n = len([value for value in summary["values"] if value is not None])
                values = [f"{n} of {len(values)} seeds" if n < len(values) else f"{n} seeds"]
            values = ", ".join(values)
            lines.append(
                f"| {_run(entry)} | {entry['size']} | {name} | {values} | {ours:{form}} "
                f"| {theirs:{form}} | {ours - theirs:+{form}} |"
            )
    return "\n".join(lines)


def beyond_table(record: list[dict], columns: tuple[str, ...]) -> str:
    """One line per recorded run without any paper's number: means over its seeds."""
    lines = ["| row | size | " + " | ".join(columns) + " |", "|---|---|" + "---:|" * len(columns)]
    for entry in record:
        metrics = entry["metrics"]
        if any(metric["paper"] is not None for metric in metrics.values()):
            continue
        cells = (_shown(metrics[c]["ours"], ".3g") if c in metrics else "-" for c in columns)
        lines.append(f"| {entry['row']} | {entry['size']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(value, form: str = ".3f") -> str:
    """A number, or a dash for a seed without one."""
    return "-" if value is None else f"{value:{form}}"


def _run(entry: dict) -> str:
    """The row of a recorded run, with its label, which separates runs of the same row."""
    return entry["row"] + (f" ({entry['label']})" if entry["label"] else "")
