"""One adapter for each family: a row of its own config, with one model and one split, as a pair."""

from cgjax import config as configs
from cgjax.core.errors import BadInput
from cgjax.experiments.across.adapters import (
    bumps,
    kernels,
    resistance,
    subnetworks,
    vectors,
)
from cgjax.experiments.across.pair import Pair

ADAPTERS = {
    "vectors": vectors.pair,
    "kernels": kernels.pair,
    "bumps": bumps.pair,
    "resistance": resistance.pair,
    "subnetworks": subnetworks.pair,
}


def settings_of(config):
    """The family's own config of a part: its row, the changes to it, and the part's seeds."""
    changes = dict(word.partition("=")[::2] for word in config.pair.changes)
    settings = configs.load(config.pair.row, changes)
    if settings.family not in ADAPTERS:
        known = ", ".join(ADAPTERS)
        raise BadInput(f"pair.row={config.pair.row} is of no family with pairs: {known}")
    if settings.get("parts"):
        raise BadInput(f"pair.row={config.pair.row} is several programs: name a row that is one")
    settings.train.seeds = config.train.seeds
    return settings


def build(config, settings) -> Pair:
    """The pair that a family's config describes; config: how much of it theories look at."""
    return ADAPTERS[settings.family](config, settings)
