"""results.json: its entries, how it is written and read, and the closing table."""

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
    """One entry of results.json: ours with every seed's value, beside the paper's number.

    published: its `mean`, `sd`, `where` and `kind`, as in `cgjax.published`, and what else the rule
    in `published.verdict` reads. A number that others recomputed with the paper's settings is not
    the paper's: its key is `recomputed`.
    """
    values = [float(v) for v in values]
    finite = [v for v in values if math.isfinite(v)]
    entry = {
        "ours": float(np.mean(finite)) if finite else None,
        "sd": float(np.std(finite, ddof=1)) if len(finite) > 1 else None,
        "values": [v if math.isfinite(v) else None for v in values],
        "seeds": [int(s) for s in seeds],
        "paper": None,
        "paper_sd": None,
        "where": None,
    }
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
    """results.json: the metrics, then wall time, devices, versions, config hash."""
    results = {"metrics": metrics, "config_hash": config_hash, **extra, **folders.environment()}
    results["crc"] = _results_crc(results)
    folders.write_atomic(path, json.dumps(results, indent=1))
    return results


def read_results(path: pathlib.Path) -> dict:
    """results.json as it was written; one that was changed since is refused."""
    results = folders.read_json(path)
    if results.get("crc", found := _results_crc(results)) != found:  # older ones have none
        raise BadInput(f"'{path}' was changed since it was written: delete it to write it anew")
    return results


def _results_crc(results: dict) -> str:
    return chained("", json.dumps({name: results[name] for name in results if name != "crc"}))


SHOWN = 16  # lines of the closing table; the rest by --full_table and in results.json


def print_table(results: dict, verdict: bool, full: bool = False, is_drawn: bool = True) -> None:
    """Ours against the paper; a verdict only where the run is of the published scale.

    First the metrics that the run calls its headlines (`results["headlines"]`), then those with a
    paper's number, then the rest as far as there is room. What others recomputed has a column of
    its own, and no verdict. is_drawn: as in `published.verdict`.
    """
    metrics, first = results["metrics"], results.get("headlines", ())
    ranked = sorted(
        metrics,
        key=lambda name: (
            name not in first,
            metrics[name]["paper"] is None and "recomputed" not in metrics[name],
        ),
    )  # stable: otherwise in the order of the run
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
        more = [_number(entry.get("recomputed"), entry.get("recomputed_sd") or None)]
        word = verdicts.of_entry(entry, is_drawn) if verdict else None
        said = [word.word if word else ""] * int(verdict)
        table.add_row(name, *_cells(entry), *said, *more[: int(has_recomputed)])
    rich.console.Console(width=None if sys.stdout.isatty() else 100).print(table)
    if len(shown) < len(metrics):
        say(f"… and {len(metrics) - len(shown)} more: --full_table, or results.json")
    if results.get("claims"):
        _print_claims(results["claims"])


def _print_claims(claims: list[dict]) -> None:
    """Orderings that a paper claims: what is compared, ours, the claimed direction, a verdict."""
    table = rich.table.Table(box=None, pad_edge=False)
    for name in ("claim", "ours", "against", "claimed", "p", "verdict"):
        table.add_column(name, justify="left" if name in ("claim", "verdict") else "right")
    for one in claims:
        p = "-" if one["p"] is None else f"{one['p']:.3g}"
        cells = [_number(one[side], None) for side in ("ours", "against")]
        table.add_row(one["claim"], *cells, one["direction"], p, one["verdict"])
    say("")
    rich.console.Console(width=None if sys.stdout.isatty() else 100).print(table)


def _cells(entry: dict) -> list[str]:
    cells = [_number(entry["ours"], entry["sd"]), "-", "-"]
    if entry["paper"] is not None:
        cells[1] = _number(entry["paper"], entry["paper_sd"])
        if entry["ours"] is not None:
            difference = entry["ours"] - entry["paper"]
            cells[2] = f"{difference:+.4f}" if abs(entry["paper"]) >= 0.01 else f"{difference:+.2e}"
    return cells


def _number(mean, sd) -> str:
    if mean is None:
        return "-"
    text = (lambda x: f"{x:.4f}") if abs(mean) >= 0.01 or mean == 0 else (lambda x: f"{x:.3e}")
    return text(mean) + (f" ± {text(sd)}" if sd is not None else "")
