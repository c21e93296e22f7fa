"""results.json: its entries, writing and reading it, the closing table, tables of recorded runs."""

import json
import math
import pathlib
import sys

import numpy as np
import rich.console
import rich.live
import rich.table
import rich.text

from cgjax.core import workdir as folders
from cgjax.core.errors import BadInput
from cgjax.core.logging import chained, say
from cgjax.published import verdict as verdicts


def summary(values, seeds, published: dict | None) -> dict:
    """One entry of results.json: our mean, the value of every seed, and the paper's number.

    published: `mean`, `sd`, `where` and `kind` of the paper's number, as in `cgjax.published`, and
    the other keys that the rule in `published.verdict` reads. A number that others recomputed with
    the paper's settings is not the paper's: its key is `recomputed`.
    """
    values = [float(v) for v in values]
    finite = [v for v in values if math.isfinite(v)]
    return {
        "ours": float(np.mean(finite)) if finite else None,
        "sd": float(np.std(finite, ddof=1)) if len(finite) > 1 else None,
        "values": [v if math.isfinite(v) else None for v in values],
        "seeds": [int(s) for s in seeds],
        **published_keys(published),
    }


def published_keys(published: dict | None) -> dict:
    """The keys of an entry of results.json that a published number sets."""
    entry = {"paper": None, "paper_sd": None, "where": None}
    if published and published.get("kind") != "recomputed":
        entry |= {
            "paper": published["mean"],
            "paper_sd": published["sd"],
            "where": published["where"],
        }
        stated = (name for name in verdicts.STATED if name in published)
        entry |= {f"paper_{name}": published[name] for name in stated}
        published = published.get("recomputed")
    if published:
        entry["recomputed"], entry["recomputed_sd"] = published["mean"], published["sd"]
        entry["where"] = "; ".join(filter(None, (entry["where"], published["where"])))
    return entry


def write_results(path: pathlib.Path, metrics: dict, config_hash: str, extra: dict) -> dict:
    """Writes results.json: the metrics, config hash, wall time, devices, versions."""
    results = {"metrics": metrics, "config_hash": config_hash, **extra, **folders.environment()}
    results["crc"] = crc_of(results)
    folders.write_atomic(path, json.dumps(results, indent=1))
    return results


def read_results(path: pathlib.Path) -> dict:
    """Reads results.json; raises BadInput if the file was changed after it was written."""
    results = folders.read_json(path)
    if results.get("crc") != crc_of(results):
        raise BadInput(f"'{path}' was changed since it was written: delete it to write it anew")
    wrong = [name for name, is_sound in _SOUND.items() if not is_sound(results.get(name))]
    if wrong:
        raise BadInput(f"'{path}' has no sound {', '.join(wrong)}: delete it to write it anew")
    return results


NUMBERS = ("ours", "sd", "paper", "paper_sd", "recomputed", "recomputed_sd")  # of an entry
ENTRY = {"ours", "sd", "values", "seeds", "paper", "paper_sd", "where"}  # keys that it must have


def is_entry(entry, largest: float = sys.float_info.max) -> bool:
    """Whether it is a valid metric of results.json, whose numbers are at most `largest`."""
    return (
        isinstance(entry, dict)
        and set(entry) >= ENTRY
        and isinstance(entry["where"], str | None)
        and all(isinstance(entry[name], list) for name in ("values", "seeds"))
        and all(
            value is None or is_number(value, largest)
            for value in (*map(entry.get, NUMBERS), *entry["values"])
        )
        and all(seed is None or isinstance(seed, str | int | float) for seed in entry["seeds"])
    )


def is_number(value, largest: float = sys.float_info.max) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and abs(value) <= largest


def _are_names(value) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


# Checks in `read_results`: name in results.json -> whether its value has the right form.
_SOUND = {
    "metrics": lambda value: isinstance(value, dict) and all(map(is_entry, value.values())),
    "config_hash": lambda value: isinstance(value, str),
    "figures": lambda value: value is None or _are_names(value),  # None: not drawn
    "arrays": _are_names,
    "files": lambda value: value is None or isinstance(value, dict),  # None: no checksums
}


def crc_of(results: dict) -> str:
    return chained("", json.dumps({name: results[name] for name in results if name != "crc"}))


SHOWN = 16  # lines of the closing table without --full_table


def print_table(results: dict, verdict: bool, full: bool = False, is_drawn: bool = True) -> None:
    """Prints our numbers beside the paper's.

    Order: the run's headline metrics (`results["headlines"]`), then those with a paper's number,
    then the rest, up to `SHOWN` lines. Numbers that others recomputed have their own column and no
    verdict. verdict: whether to print verdicts, for runs of the published scale; full: print all
    metrics; is_drawn: as in `published.verdict`.
    """
    metrics, first = results["metrics"], results.get("headlines", ())
    ranked = sorted(
        metrics,
        key=lambda name: (
            name not in first,
            metrics[name]["paper"] is None and "recomputed" not in metrics[name],
        ),
    )  # the sort is stable: ties keep the order of the run
    shown = list(metrics) if full else ranked[:SHOWN]
    table = rich.table.Table(box=None, pad_edge=False)
    for name in ("metric", "ours", "paper", "diff"):
        table.add_column(name, justify="left" if name == "metric" else "right")
    if verdict:
        table.add_column("verdict")
    has_recomputed = any("recomputed" in metrics[name] for name in shown)
    if has_recomputed:
        table.add_column("recomputed", justify="right")
    for name in shown:
        entry = metrics[name]
        recomputed = [_number(entry.get("recomputed"), entry.get("recomputed_sd") or None)]
        entry_verdict = verdicts.of_entry(entry, is_drawn) if verdict else None
        verdict_cell = [_word(entry_verdict) if entry_verdict else ""] * int(verdict)
        table.add_row(name, *_cells(entry), *verdict_cell, *recomputed[: int(has_recomputed)])
    rich.console.Console(width=None if sys.stdout.isatty() else 100).print(table)
    if len(shown) < len(metrics):
        say(f"… and {len(metrics) - len(shown)} more: --full_table, or results.json")
    if results.get("claims"):
        _print_claims(results["claims"])


def _print_claims(claims: list[dict]) -> None:
    """Prints the orderings that a paper claims: the two sides, claimed direction, p, verdict.

    p is two-sided and corrected for the number of claims where the run states it so.
    """
    table = rich.table.Table(box=None, pad_edge=False)
    for name in ("claim", "ours", "against", "claimed", "p", "verdict"):
        table.add_column(name, justify="left" if name in ("claim", "verdict") else "right")
    for claim in claims:
        value = claim.get("p_holm", claim["p"])
        p = "-" if value is None else f"{value:.3g}"
        cells = [_number(claim[side], None) for side in ("ours", "against")]
        table.add_row(claim["claim"], *cells, claim["direction"], p, claim["verdict"])
    say("")
    rich.console.Console(width=None if sys.stdout.isatty() else 100).print(table)


def _word(verdict: verdicts.Verdict) -> str:
    """The verdict; if it is underpowered, with the number of seeds that would decide."""
    if verdict.seeds is None or math.isinf(verdict.seeds):
        return verdict.word
    return f"{verdict.word} ({verdict.seeds:.0f} seeds)"


def _cells(entry: dict) -> list[str]:
    values = entry["values"]
    n = len([value for value in values if value is not None])
    some = f" ({n} of {len(values)})" if n < len(values) else ""  # a mean over some seeds says so
    cells = [_number(entry["ours"], entry["sd"]) + some, "-", "-"]
    if entry["paper"] is not None:
        # An error of reading or rounding is not a deviation, so the table leaves it out.
        is_deviation = entry.get("paper_spread", "seeds") == "seeds"
        cells[1] = _number(entry["paper"], entry["paper_sd"] if is_deviation else None)
        if entry["ours"] is not None:
            difference = entry["ours"] - entry["paper"]
            cells[2] = f"{difference:+.4f}" if abs(entry["paper"]) >= 0.01 else f"{difference:+.2e}"
    return cells


def _number(mean, sd) -> str:
    if mean is None:
        return "-"
    text = (lambda x: f"{x:.4f}") if abs(mean) >= 0.01 or mean == 0 else (lambda x: f"{x:.3e}")
    return text(mean) + (f" ± {text(sd)}" if sd is not None else "")


# --- tables ---------------------------------------------------------------------------------------
# Markdown, recorded runs beside the paper's numbers: pure functions of a record.
#
# record: a list of entries; each is a run with its row, size, label, metrics, time and hardware.


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
