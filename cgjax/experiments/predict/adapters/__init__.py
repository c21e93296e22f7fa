"""One adapter for each block: it turns a row of a family into a program of pairs."""

from cgjax import config as configs
from cgjax.core.errors import BadInput
from cgjax.experiments.predict.adapters import bumps, kernels, resistance, sprites, subnetworks
from cgjax.experiments.predict.model import Program

ADAPTERS = {
    "sprites": sprites.program,
    "bumps": bumps.program,
    "kernels": kernels.program,
    "resistance": resistance.program,
    "subnetworks": subnetworks.program,
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


def build(config, settings) -> Program:
    """The program of a family's config; config: how many inputs the predictors use."""
    return ADAPTERS[settings.family](config, settings)
