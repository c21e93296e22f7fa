"""One adapter for each family: it turns a row with one model and one split into a pair."""

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
    """The family's config of a part: the part's row, with its changes and its seeds."""
    changes = dict(change.partition("=")[::2] for change in config.pair.changes)
    settings = configs.load(config.pair.row, changes)
    if settings.family not in ADAPTERS:
        known = ", ".join(ADAPTERS)
        raise BadInput(f"pair.row={config.pair.row} is not a row of a family with pairs: {known}")
    if settings.get("parts"):
        raise BadInput(f"pair.row={config.pair.row} is several programs: name a row of one program")
    settings.train.seeds = config.train.seeds
    return settings


def build(config, settings) -> Pair:
    """The pair that a family's config describes; config: how many inputs the theories use."""
    return ADAPTERS[settings.family](config, settings)
