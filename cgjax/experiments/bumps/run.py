"""One study of the bumps family: decoders and what is made of them, a turning digit, encoders."""

import pathlib

from cgjax.experiments.bumps import beyond, inverse, study, turning
from cgjax.experiments.bumps.figures import DRAW
from cgjax.published import PUBLISHED
from cgjax.published import tables as markdown
from cgjax.published.results import summary

# Studies that train decoders share everything but what is made of them afterwards.
STUDIES = {name: study for name in ("decoders", "continuous", *beyond.AFTERWARDS)}
STUDIES |= {"turning": turning, "inverse": inverse}
HEADLINES = ("id nmse", "ood nmse", "gap nmse", "outside nmse", "cross-fade r2", "truth r2")


def check(config) -> None:
    """What the keys' own ranges cannot say."""
    STUDIES[config.study].check(config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Runs the row's study: (metrics, arrays, extra), and its figures."""
    workdir = pathlib.Path(workdir)
    metrics, arrays = STUDIES[config.study].study(config, workdir)
    headlines = []
    if config.study in beyond.AFTERWARDS:
        numbers, more = beyond.AFTERWARDS[config.study](config, metrics, arrays)
        headlines, metrics, arrays = list(numbers), metrics | numbers, arrays | more
    # A few steps of a few pixels are no measurement: `smoke` shows that the path works.
    published = {} if config.size == "smoke" else PUBLISHED["bumps"].get(config.row, {})
    results = {
        name: summary(values, seeds, published.get(name))
        for name, (values, seeds) in metrics.items()
    }
    if figures:
        draw(config, arrays, workdir / "figures")
    shown = headlines or [name for name in results if name.endswith(HEADLINES)]
    return results, arrays, {"headlines": shown}


def plan(config) -> dict:
    """How large each part's training is."""
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
