"""Runs one study of the bumps family: decoders and their analyses, a rotating digit, encoders."""

import pathlib

from cgjax.config import prefixes
from cgjax.experiments.bumps.figures import DRAW
from cgjax.experiments.bumps.studies import comparisons, decoders, inverse, turning
from cgjax.published import PUBLISHED
from cgjax.published import results as markdown
from cgjax.published.results import summary

# Studies that train decoders differ only in the analysis after training.
STUDIES = {name: decoders for name in ("decoders", "continuous", *comparisons.AFTERWARDS)}
STUDIES |= {"turning": turning, "inverse": inverse}
HEADLINES = ("id nmse", "ood nmse", "gap nmse", "outside nmse", "cross-fade r2", "truth r2")


def check(config) -> None:
    """Raises an error for combinations of keys that their ranges cannot exclude."""
    STUDIES[config.study].check(config)
    comparisons.check(config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Runs the row's study: (metrics, arrays, extra), and its figures."""
    workdir = pathlib.Path(workdir)
    metrics, arrays = STUDIES[config.study].study(config, workdir)
    headlines = []
    if config.study in comparisons.AFTERWARDS:
        numbers, more = comparisons.AFTERWARDS[config.study](config, metrics, arrays)
        # Cells of `axes` are starts: only the chosen ones are results.
        metrics = numbers if config.study == "axes" else metrics | numbers
        headlines, arrays = list(numbers), arrays | more
    made_up = prefixes(
        config, lambda _, part: config.study == "turning" and part.data.image == "glyph"
    )
    # A smoke run is not a measurement: it only checks that the program runs.
    is_compared = config.size != "smoke" and not made_up
    published = PUBLISHED["bumps"].get(config.row, {}) if is_compared else {}
    results = {
        name: summary(values, seeds, published.get(name))
        for name, (values, seeds) in metrics.items()
    }
    if figures:
        draw(config, arrays, workdir / "figures")
    shown = headlines or [name for name in results if name.endswith(HEADLINES)]
    return results, arrays, {"headlines": shown, "made_up": list(made_up)}


def plan(config) -> dict:
    """The size of each part's training."""
    return STUDIES[config.study].plan(config)


def load(config, workdir, part: str = "", step=None):
    """The networks of one part of a row."""
    return STUDIES[config.study].load(config, workdir, part, step)


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The row's figures, from its saved arrays."""
    DRAW.get(config.row, DRAW[config.study])(arrays, folder)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs."""
    return [("bumps", markdown.metric_table(record))]
