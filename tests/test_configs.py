"""Every row in every size is a complete config whose periods divide."""

import pathlib

import pytest

from cgjax import config as configs
from cgjax.core import train
from cgjax.data import arrays

FILES = sorted(pathlib.Path("configs").glob("*.py"))


def rows_of(path):
    """Every row of a config file, those beyond the paper included."""
    module = configs.load_file(str(path))
    return [*module.ROWS, *getattr(module, "BEYOND", ())]


ROWS = [(str(path), row) for path in FILES for row in rows_of(path)]
PAPERS_OWN = configs.load_file("configs/sprites.py").ROWS


@pytest.mark.parametrize("path, row", ROWS)
def test_row_in_every_size(path, row):
    for size in configs.SIZES:
        arg = ("" if row == "demo" else row) + ("" if size == "default" else f",{size}")
        config = configs.load(f"{path}:{arg.strip(',')}")
        assert (config.row, config.size) == (row, size)
        assert config.is_locked
        train.check_periods(config)
        if config.family == "sprites" and row in PAPERS_OWN and size in ("fast", "paper"):
            per_epoch = arrays.n_batches(config.data.n_train, config.data.batch)
            assert config.optim.lr_every == config.train.steps_per_call == per_epoch == 196
            assert config.train.steps == per_epoch * {"fast": 200, "paper": 2000}[size]


def test_misspelt_assignment_in_a_config_fails():
    config = configs.base("sprites")
    with pytest.raises(AttributeError):
        config.train.stepss = 3
