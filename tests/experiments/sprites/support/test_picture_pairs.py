"""Pictures in front of each other: scenes, supports, the audit of pairs and its scores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax import config as configs
from cgjax.experiments.sprites.support import pairs, pictures
from cgjax.experiments.sprites.support.pictures import PAIRS


@pytest.fixture(scope="module")
def cut_outs():
    return pictures.cut_outs("cifar10", is_made_up=True)


def test_the_front_picture_hides_the_back_one(cut_outs):
    latents = jnp.asarray(pictures.sample("diagonal", 6, 0))

    @jax.jit
    def draw(latents):
        slots = [pictures.pictures(cut_outs, z, 16) for z in jnp.split(latents, 2, axis=1)]
        return *slots, pictures.scenes(cut_outs, latents, 16)

    front, back, scenes = map(np.asarray, draw(latents))
    assert set(np.unique(front[..., 3])) == {0.0, 1.0}
    is_front, is_back = (slot[..., 3] > 0 for slot in (front, back))
    np.testing.assert_allclose(scenes[is_front], front[is_front][:, :3], atol=1e-6)
    behind = is_back & ~is_front
    np.testing.assert_allclose(scenes[behind], back[behind][:, :3], atol=1e-6)
    assert behind.any() and not scenes[~is_front & ~is_back].any()


def test_a_cut_out_as_large_as_the_canvas_is_itself(cut_outs):
    n = pictures.SIDE
    canvas = pictures.placed(jnp.asarray(cut_outs[3]), jnp.array([0.5, 0.5]), jnp.array(1.0), n)
    np.testing.assert_allclose(canvas, cut_outs[3], atol=1e-6)


def test_supports_show_what_their_names_say():
    assert not pictures.unseen("all").any() and pictures.unseen("all but some").sum() == 30
    # Each identity is seen in front and behind, but for the absent ones.
    for name in pictures.SUPPORTS:
        seen = ~pictures.unseen(name)
        missing = set(range(10)) - set(PAIRS[seen, 0])
        assert missing == (set(pictures.ABSENT) if name == "absent in front" else set()), name
        assert set(PAIRS[seen, 1]) == set(range(10))
    hidden = pictures.sample("hidden behind", 2000, 0)
    apart = np.abs(hidden[:, 1:3] - hidden[:, 6:8]).max(1)
    is_hidden = np.isin(hidden[:, 5], pictures.HIDDEN)
    assert apart[is_hidden].max() <= pictures.NEAR + 1e-6 and np.median(apart[~is_hidden]) > 0.3
    left = pictures.sample("front on the left", 2000, 0)
    assert left[np.isin(left[:, 0], pictures.HALVED), 1].max() <= 0.4 < left[:, 1].max()


def test_the_audit_leaves_open_what_is_absent_or_hidden(cut_outs):
    changes = {"data.n_samples": "400", "data.n_pixels": "8", "data.n_asked": "3"}
    config = configs.load("support:cut_outs,smoke", changes)
    component = pairs.grey_component(config, cut_outs)
    floor, _ = pairs.audit(config, component, "all")
    treated = {"absent in front": (0, pictures.ABSENT), "hidden behind": (1, pictures.HIDDEN)}
    for name, (slot, ids) in treated.items():
        left_open, _ = pairs.audit(config, component, name)
        ratio, is_treated = left_open / floor, np.isin(PAIRS[:, slot], ids)
        assert np.median(ratio[is_treated]) > 1.4 * np.median(ratio[~is_treated]), name


def test_scores_of_pairs():
    left_open, ratio = np.array([1.0, 1.1, 3.0, 4.0]), np.array([1.0, 1.2, 5.0, 1.5])
    shown = np.array([0.1, 0.1, 0.0, 0.1])
    scored = pairs.scores(left_open, shown, ratio, np.array([0, 1, 1, 0]))
    assert scored["determined pairs drawn right"] == 1 and scored["open pairs drawn right"] == 0.5
    assert scored["tau-b(open, error)"] == pytest.approx(4 / 6)
    assert scored["tau-b(open, error) among pairs shown alike"] == 1  # the third is shown less
    assert scored["wrong pairs more open within supports"] == 1  # the third and the second
    assert scored["wrong pairs shown less within supports"] == 1
    assert np.isnan(pairs.concordance(left_open, ratio > 9, shown))
    assert pairs.concordance(shown, ratio > 4, np.zeros(4)) == 0
    assert scored["tau-b(not shown, error)"] > 0
    bound = pairs.bound(np.array([4.0, 30.0]), np.ones((2, 2)), np.array([[3.0, 3.0], [5.0, 4.0]]))
    assert list(bound.values()) == [0.25, 0.25]


def test_a_table_draws_what_its_identities_say():
    config = configs.load("support:cut_outs,smoke")
    model = pairs.build(config, "table")
    latents = jnp.asarray(pictures.sample("all", 3, 0))
    predict = jax.jit(model.predict)
    params = jax.jit(model.init)(jax.random.key(0))
    drawn = predict(params, latents)
    other = predict(params, latents.at[:, 0].set((latents[:, 0] + 1) % 10))
    assert drawn.shape == (3, 16, 16, 3) and np.abs(drawn - other).max() > 1e-4
