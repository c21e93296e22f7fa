"""One study of the resistance family: training, analyses, tests of the paper's claims, figures.

Orderings that the paper claims are tested by the rule of `published.verdict`. Runs of one seed are
pairs: the test is Student's of their differences, otherwise Welch's. p is two-sided. The claims of
one run are a family of comparisons: `p_holm` is corrected for their number, and decides.
"""

import csv
import itertools
import pathlib

import numpy as np

from cgjax.core import hosts
from cgjax.core.logging import say
from cgjax.core.workdir import access_to, disk_errors
from cgjax.experiments.resistance import figures as drawing
from cgjax.experiments.resistance import study
from cgjax.published import CLAIMS, PUBLISHED
from cgjax.published import results as markdown
from cgjax.published import verdict as verdicts
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
    extra = {"claims": judge(known, judged), "headlines": headlines(results)}
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
                    ddof = int(len(values) > 1)  # of a single seed the deviation is 0
                    statistics = 3 * ("",)
                    if len(values):
                        statistics = values.mean(), values.std(ddof=ddof), values.var(ddof=ddof)
                    score = name.removeprefix(prefix)
                    out.writerow((part, setting, score, f"{step:g}", *statistics, len(values)))


def headlines(results: dict) -> list[str]:
    """First metrics of the closing table: those specific to the row, otherwise the usual scores."""
    usual = [name for name in results if name.split(": ")[-1] in HEADLINES]
    pooled = [name for name in results if " less " in name and not name.endswith(", starts")]
    specific = [
        name for name in results if ": " not in name or "distance" in name or "share of" in name
    ]
    return pooled or specific or usual


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
    return judge(CLAIMS["resistance"].get(entry["row"], ()), metrics)


def judge(claims, metrics: dict) -> list[dict]:
    """Claims whose metrics the run has, with our means, p and a verdict.

    metrics: {name: (values, seeds)}.
    """
    judged, compared = [], []
    for claim in claims:
        sides = [claim["left"], claim["right"]]
        if any(isinstance(side, str) and side not in metrics for side in sides):
            continue
        left, right = (
            np.array([np.nan if value is None else value for value in metrics[side][0]], float)
            if isinstance(side, str)
            else float(side)
            for side in sides
        )
        some = bool(claim["only"])
        ordered = (left, right) if claim["direction"] == "above" else (right, left)
        options = {"paired": not some, "some": some, "comparisons": len(claims)}
        compared.append(verdicts.above(*ordered, **options))
        judged.append(
            {
                **{key: claim[key] for key in ("claim", "sentence", "where", "left", "direction")},
                "right": sides[1] if isinstance(sides[1], str) else f"{sides[1]:g}",
                "ours": _mean(left),
                "against": _mean(right),
                "p": compared[-1].p,
                "n": int(np.isfinite(left).sum()),
            }
        )
    return [
        claim | {"p_holm": verdict.p, "verdict": verdict.word}
        for claim, verdict in zip(judged, verdicts.corrected(compared))
    ]


def _mean(values) -> float | None:
    values = np.atleast_1d(values)
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None


def _shown(value, form: str) -> str:
    """The formatted value, or a dash if there is none, for example no guess of a low loss."""
    return "-" if value is None else format(value, form)
