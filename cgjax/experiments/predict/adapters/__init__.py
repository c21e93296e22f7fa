"""One adapter for each block: it turns a row of a family into a program of pairs."""

from cgjax import config as configs
from cgjax.core.errors import BadInput
from cgjax.data import sources
from cgjax.experiments.bumps import training
from cgjax.experiments.predict.adapters import bumps, kernels, resistance, sprites, subnetworks
from cgjax.experiments.predict.model import Program
from cgjax.experiments.subnetworks import stages

ADAPTERS = {
    "sprites": sprites.program,
    "bumps": bumps.program,
    "kernels": kernels.program,
    "resistance": resistance.program,
    "subnetworks": subnetworks.program,
}
# Studies of a family with an adapter of their own.
OF_STUDY = {
    "kernels images": kernels.images_program,
    "resistance mnist": resistance.digits_program,
    "resistance scan": resistance.scan_program,
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
    if settings.family == "bumps":  # other checks are of networks that adapters replace
        training.check(settings)
    return settings


def missing(settings) -> str:
    """Why a program cannot run: weights or a data set are absent. "" if it can run."""
    if settings.family == "subnetworks":
        return stages.missing(settings)
    data = settings.get("data", {})
    name = "" if data.get("synthetic") else data.get("images") or data.get("digits") or ""
    is_absent = name in sources.SHAPES and not sources.is_here(name)
    return f"it needs the data set {name}, which is not here" if is_absent else ""


def build(config, settings) -> Program:
    """The program of a family's config; config: how many inputs the predictors use."""
    study = f"{settings.family} {settings.get('study', '')}"
    return OF_STUDY.get(study, ADAPTERS[settings.family])(config, settings)
