"""One study of the resistance family: training, what is made of it, the paper's claims, figures."""

import csv
import itertools
import pathlib

import numpy as np

from cgjax.core import hosts
from cgjax.core.workdir import disk_errors
from cgjax.experiments.resistance import claims, study
from cgjax.experiments.resistance import figures as drawing
from cgjax.published import CLAIMS, PUBLISHED
from cgjax.published import tables as markdown
from cgjax.published.results import summary

HEADLINES = ("train accuracy", "test accuracy", "gap", "S_2", "interventional information")


def check(config) -> None:
    """What the keys' own ranges cannot say."""
    study.check(config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Runs the row's study: (metrics, arrays, extra), and its figures."""
    workdir = pathlib.Path(workdir)
    metrics, arrays = study.study(config, workdir)
    # A few steps are no measurement: `smoke` shows that the path works.
    is_small = config.size == "smoke"
    published = {} if is_small else PUBLISHED["resistance"].get(config.row, {})
    results = {
        name: summary(values, seeds, published.get(name))
        for name, (values, seeds) in metrics.items()
    }
    write_curves(arrays, workdir / "curves.csv")
    if figures:
        draw(config, arrays, workdir / "figures")
    known = () if is_small else CLAIMS["resistance"].get(config.row, ())
    extra = {"claims": claims.judge(known, metrics), "headlines": headlines(results)}
    return results, arrays, extra


def write_curves(arrays: dict, path: pathlib.Path) -> None:
    """Every score over training as the figures show it: mean, deviation and variance over seeds."""
    if not hosts.is_writer():
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
                    told = (values.mean(), values.std(), values.var()) if len(values) else 3 * ("",)
                    word = name.removeprefix(prefix)
                    out.writerow((part, setting, word, f"{step:g}", *told, len(values)))


def headlines(results: dict) -> list[str]:
    """What the closing table shows first: the usual scores, or else what only this row has."""
    usual = [name for name in results if name.split(": ")[-1] in HEADLINES]
    own = [name for name in results if ": " not in name or "distance" in name or "share" in name]
    return own or usual


def plan(config) -> dict:
    """How large each part's training is."""
    return study.plan(config)


def load(config, workdir, part: str = "", step=None):
    """The networks of one setting of one part."""
    return study.load(config, workdir, part, step)


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The row's figures, from its saved arrays."""
    drawing.draw(config.row, config.study, arrays, folder)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs: the paper's orderings, and numbers of other code."""
    lines = ["| row | size | claim | ours | against | claimed | p | verdict |",
             "|---|---|---|---:|---:|---|---:|---|"]  # fmt: skip
    for entry in record:
        for one in entry.get("claims", ()):
            ours, against = (_shown(one[side], ".3f") for side in ("ours", "against"))
            lines.append(
                f"| {entry['row']} | {entry['size']} | {one['claim']} | {ours} | {against} "
                f"| {one['direction']} | {_shown(one['p'], '.2g')} | {one['verdict']} |"
            )
    numbers = markdown.metric_table(record, reference="recomputed")
    return [("resistance: orderings", "\n".join(lines)), ("resistance: recomputed", numbers)]


def _shown(value, form: str) -> str:
    """A dash where nothing was found, such as guesses of a low loss."""
    return "-" if value is None else format(value, form)
