"""Configs of the vector simulation, for its tests."""

from cgjax import config as configs

FILE = "configs/vectors.py"


def settings(arg="smoke", **changes):
    config = configs.load(f"{FILE}:{arg}")
    config.update_from_flattened_dict(changes)
    return config
