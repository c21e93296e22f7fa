"""Markdown tables of recorded runs, ours beside the paper's: pure functions of a record.

record: a list of entries, each a run with its row, size, label, metrics, time and hardware.
"""

MOST_VALUES = 5  # in a cell


def by_row(record: list[dict], size: str, label: str = "") -> dict:
    """`{row: metrics}` of the recorded runs of one size and label."""
    return {
        entry["row"]: entry["metrics"]
        for entry in record
        if (entry["size"], entry["label"]) == (size, label)
    }


def headline_table(record: list[dict], metric: str = "r2_all") -> str:
    """One line per recorded run of the paper's: the headline metric of every seed, ours, theirs."""
    lines = [
        f"| row | size | {metric}, every seed | ours | paper | difference | time | hardware |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for entry in record:
        name = _run(entry)
        hardware = ", ".join(filter(None, (entry["devices"], entry.get("note"))))
        # The paper's mean leaves collapsed seeds out: those that live get a line of their own.
        for key, suffix in ((metric, ""), (f"{metric} (alive)", ", alive seeds")):
            if key not in entry["metrics"]:
                continue
            found = entry["metrics"][key]
            values = ", ".join(f"{v:.3f}" for v in found["values"])
            ours, paper = found["ours"], found["paper"]
            if paper is None:
                continue
            lines.append(
                f"| {name}{suffix} | {entry['size']} | {values} | {ours:.3f} | {paper:.3f} "
                f"| {ours - paper:+.3f} | {entry['wall_s']:.0f} s | {hardware} |"
            )
    return "\n".join(lines)


def metric_table(
    record: list[dict], endings: tuple[str, ...] = ("",), reference: str = "paper"
) -> str:
    """One line per recorded metric with a paper's number, whose name ends so; by default each.

    reference: "recomputed" for the numbers that others recomputed with the paper's settings.
    """
    lines = [
        f"| row | size | metric | every seed | ours | {reference} | difference |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for entry in record:
        for name, found in entry["metrics"].items():
            ours, theirs = found["ours"], found.get(reference)
            if None in (ours, theirs) or not name.endswith(endings):
                continue
            form = ".1e" if 0 < abs(theirs) < 0.01 else ".3f"
            values = [f"{v:{form}}" for v in found["values"] if v is not None]
            values = ", ".join(values) if len(values) <= MOST_VALUES else f"{len(values)} seeds"
            lines.append(
                f"| {_run(entry)} | {entry['size']} | {name} | {values} | {ours:{form}} "
                f"| {theirs:{form}} | {ours - theirs:+{form}} |"
            )
    return "\n".join(lines)


def beyond_table(record: list[dict], columns: tuple[str, ...]) -> str:
    """One line per recorded run that no paper has a number for: means over its seeds."""
    lines = ["| row | size | " + " | ".join(columns) + " |", "|---|---|" + "---:|" * len(columns)]
    for entry in record:
        found = entry["metrics"]
        if any(metric["paper"] is not None for metric in found.values()):
            continue
        cells = (f"{found[c]['ours']:.3g}" if c in found else "-" for c in columns)
        lines.append(f"| {entry['row']} | {entry['size']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _run(entry: dict) -> str:
    """The row of a recorded run, with what tells it from another of the same row."""
    return entry["row"] + (f" ({entry['label']})" if entry["label"] else "")
