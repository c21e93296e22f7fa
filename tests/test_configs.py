"""Every row in every size is a complete config whose periods divide."""

import pathlib

import pytest

from cgjax import config as configs
from cgjax.core import train
from cgjax.data import arrays

FILES = sorted(pathlib.Path("configs").glob("*.py"))
ROWS = [(str(path), row) for path in FILES for row in configs.load_file(str(path)).ROWS]


@pytest.mark.parametrize("path, row", ROWS)
def test_row_in_every_size(path, row):
    for size in configs.SIZES:
        arg = ("" if row == "demo" else row) + ("" if size == "default" else f",{size}")
        config = configs.load(f"{path}:{arg.strip(',')}")
        assert (config.row, config.size) == (row, size)
        assert config.is_locked
        train.check_periods(config)
        if size in ("fast", "paper"):
            per_epoch = arrays.n_batches(config.data.n_train, config.data.batch)
            assert config.optim.lr_every == config.train.steps_per_call == per_epoch == 196
            assert config.train.steps == per_epoch * {"fast": 200, "paper": 2000}[size]


def test_misspelt_assignment_in_a_config_fails():
    config = configs.base("sprites")
    with pytest.raises(AttributeError):
        config.train.stepss = 3
