"""Sentences of the README that a changed record or a changed row would make false."""

import math

import numpy as np

from cgjax import config as configs
from cgjax import report
from cgjax.experiments.bumps import readme, scenes

RECORD = report.entries("bumps")


def test_stripes_lower_the_error_of_some_decoders_only():
    text = readme.striped(RECORD, {})
    assert text.startswith("lower the median OOD nMSE of 4 of 6 decoders")
    assert "the MLP (1.55 to 2.05) and the pixel-token MLP (0.18 to 0.58)" in text
    spots = "null_stripe/stripes x{}: ood position accuracy"
    metrics = readme.metrics_of(RECORD, "B9")
    assert min(metrics[spots.format(1)]["values"]) > max(metrics[spots.format(0)]["values"])


def test_seeds_that_do_not_learn_id_are_counted():
    learn = {"a: id nmse": {"values": [0.01, 0.2, 0.04]}, "b: id nmse": {"values": [0.01]}}
    assert readme.some_learn(learn, "a: ") == "; ID: 2 of 3" and not readme.some_learn(learn, "b: ")
    cells = [cell for row in readme.flatness_table(RECORD, {}) for cell in row]
    assert [cell for cell in cells if cell.startswith("0.00019 ") and "; ID: 16 of 20" in cell]
    assert readme.axes_22(RECORD, {}).startswith("no seed with learned axes learns ID")


def test_images_of_cnns_are_nearer_to_a_sum_and_not_the_kernels():
    metrics = readme.metrics_of(RECORD, "B6")
    for code in ("ramp", "bump"):
        by_sum, truth, kernel = (
            np.array(metrics[f"{code}/{name} R2"]["values"])
            for name in ("additive", "truth", "binary kernel")
        )
        assert np.all(by_sum > truth) and np.all(kernel < 0)


def test_lengths_of_training_beside_the_releases_epochs():
    """What the README says under "What differs"."""

    def steps(row, part=""):
        return dict(configs.parts(configs.load(f"bumps:{row},paper")))[part].train.steps

    def epochs(n, of):
        return n * math.ceil(of / 32)

    assert {steps("B4", f"depth_{n}_published") for n in (3, 5, 7)} == {1200}
    assert steps("B11_transformer", "depth_2") == 1200 and epochs(20, 2000) == 1260
    assert steps("B5", "cnn_published") == 700 and epochs(15, 1500) == 705
    holes = configs.load("bumps:B10,paper").data.holes
    images = [scenes.continuous_sizes(n, p)[0] for n in (24, 28, 32, 36, 40) for p in holes]
    lengths = [epochs(20, n) for n in images]
    assert steps("B10", "bump_24") == 400 and (min(lengths), max(lengths)) == (100, 440)
    digits = configs.load("bumps:B7_digits,paper")
    assert digits.eval.every == 25 and epochs(1, 885) == 28
