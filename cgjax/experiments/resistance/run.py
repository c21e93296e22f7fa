"""One study of the resistance family: training, analyses, tests of the paper's claims, figures."""

import csv
import itertools
import pathlib

import numpy as np

from cgjax.core import hosts
from cgjax.core.logging import say
from cgjax.core.workdir import access_to, disk_errors
from cgjax.experiments.resistance import claims, study
from cgjax.experiments.resistance import figures as drawing
from cgjax.published import CLAIMS, PUBLISHED
from cgjax.published import tables as markdown
from cgjax.published.results import summary

HEADLINES = ("train accuracy", "test accuracy", "gap", "S_2", "interventional information")


def check(config) -> None:
    """Raises BadInput for values that are valid one by one but not together."""
    study.check(config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Runs the row's study: (metrics, arrays, extra), and its figures."""
    workdir = pathlib.Path(workdir)
    metrics, arrays = study.study(config, workdir)
    # `smoke` only tests the code path: its few steps are not compared with the paper.
    is_small = config.size == "smoke"
    made_up = study.made_up(config)
    if made_up and not is_small:
        say("SYNTHETIC DIGITS, not MNIST: the paper's claims about digits are not judged")
    judged = {name: values for name, values in metrics.items() if not name.startswith(made_up)}
    numbers = {} if is_small else PUBLISHED["resistance"].get(config.row, {})
    published = {name: number for name, number in numbers.items() if name in judged}
    results = {
        name: summary(values, seeds, published.get(name))
        for name, (values, seeds) in metrics.items()
    }
    write_curves(arrays, workdir / "curves.csv")
    if figures:
        draw(config, arrays, workdir / "figures")
    known = () if is_small else CLAIMS["resistance"].get(config.row, ())
    extra = {"claims": claims.judge(known, judged), "headlines": headlines(results)}
    return results, arrays, extra | {"files": ["curves.csv"], "made_up": list(made_up)}


def write_curves(arrays: dict, path: pathlib.Path) -> None:
    """Writes every score over training as in the figures: mean, deviation, variance over seeds."""
    if not hosts.is_writer() or access_to(path.parent).reads_only:
        return
    with disk_errors(path), open(path, "w", newline="") as handle:
        out = csv.writer(handle)
        out.writerow(("part", "setting", "score", "step", "mean", "sd", "variance", "seeds"))
        for part in arrays["parts"].tolist():
            prefix = f"{part}/scores/" if part else "scores/"
            names = [name for name in arrays if name.startswith(prefix) and name != f"{prefix}step"]
            settings = arrays[f"{part}/settings" if part else "settings"].tolist()
            for name, (i, setting) in itertools.product(names, enumerate(settings)):
                for step, values in zip(arrays[f"{prefix}step"], arrays[name][:, :, i]):
                    values = values[np.isfinite(values)]
                    statistics = (
                        (values.mean(), values.std(), values.var()) if len(values) else 3 * ("",)
                    )
                    score = name.removeprefix(prefix)
                    out.writerow((part, setting, score, f"{step:g}", *statistics, len(values)))


def headlines(results: dict) -> list[str]:
    """First metrics of the closing table: those specific to the row, otherwise the usual scores."""
    usual = [name for name in results if name.split(": ")[-1] in HEADLINES]
    specific = [
        name for name in results if ": " not in name or "distance" in name or "share" in name
    ]
    return specific or usual


def plan(config) -> dict:
    """Size of each part's training."""
    return study.plan(config)


def load(config, workdir, part: str = "", step=None):
    """The networks of one setting of one part."""
    return study.load(config, workdir, part, step)


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The row's figures, from its saved arrays."""
    drawing.draw(config.row, config.study, arrays, folder)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs: the paper's orderings, and recomputed numbers."""
    lines = [
        "| row | size | claim | ours | against | claimed | p | p, Holm | verdict |",
        "|---|---|---|---:|---:|---|---:|---:|---|",
    ]
    for entry in record:
        for claim in judged(entry):
            ours, against = (_shown(claim[side], ".3f") for side in ("ours", "against"))
            p, p_holm = (_shown(claim[name], ".2g") for name in ("p", "p_holm"))
            lines.append(
                f"| {entry['row']} | {entry['size']} | {claim['claim']} | {ours} | {against} "
                f"| {claim['direction']} | {p} | {p_holm} | {claim['verdict']} |"
            )
    numbers = markdown.metric_table(record, reference="recomputed")
    return [("resistance: orderings", "\n".join(lines)), ("resistance: recomputed", numbers)]


def judged(entry: dict) -> list[dict]:
    """The paper's claims on a recorded run, by its values: a record may join seeds of many runs."""
    metrics = {
        name: (metric["values"], metric["seeds"]) for name, metric in entry["metrics"].items()
    }
    return claims.judge(CLAIMS["resistance"].get(entry["row"], ()), metrics)


def _shown(value, form: str) -> str:
    """The formatted value, or a dash if there is none, for example no guess of a low loss."""
    return "-" if value is None else format(value, form)
