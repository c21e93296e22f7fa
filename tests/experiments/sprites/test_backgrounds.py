"""The background along training: what is counted, and a training from a lower background."""

import numpy as np
import pytest

from cgjax.experiments.sprites import backgrounds, jumps, sets
from cgjax.experiments.sprites.backgrounds import Setting, Trained


def test_pairs_of_a_bright_and_a_dark_seed_in_one_epoch():
    loss = np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 2.0], [1.0, 2.0, 3.0]])
    background = np.array([[-0.5, -9.0, -9.0], [-0.5, -9.0, -9.0], [-0.1, -0.2, -0.3]])
    # Higher than both, then than neither (equal, lower), then no dark seed.
    trained = Trained(loss, background, np.array([0.9, 0.95, 0.95]))
    assert backgrounds.pairs(trained) == (4, 2)
    row = backgrounds.table_row("diagonal", "as published", trained)
    assert row[2:] == ("3 of 3", "2 of 4", "-0.1, -0.2, -0.3", "3, 1, 1", "0.900, 0.950, 0.950")


@pytest.mark.slow  # 30 s
def test_a_lower_bias_of_the_front_network_darkens_its_background_alone():
    config = jumps.configure((0, 1), "diagonal")
    jumps.shorten(config, 128, 16)
    config.model.component.update({"hidden": 32, "channels": 8})
    config.optim.update({"lr": 1e-6, "lr_final": 1e-6})  # the parameters hardly move
    data = sets.make(config)
    usual, dark = (backgrounds.train(config, Setting(shift=s), 1, data) for s in (0.0, -1.0))
    assert usual.loss.shape == usual.background.shape == (1, 2) and usual.r2_all.shape == (2,)
    np.testing.assert_allclose(dark.background, usual.background - 3, atol=0.01)
    assert np.all(dark.loss != usual.loss)
