"""Supports and compositions that break one premise each: the audit must not call them sound.

Every case comes with the wrong model that fits P, where there is one: the audit's silence would be
a false promise.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis import support
from cgjax.analysis.support.certificate import jumps


def add(slots):
    return slots[0] + slots[1]


def product(slots):
    return slots[0] * slots[1]


def identity(z):
    return z


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


# --- P in two pieces ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def apart():
    """Both latents low or both high; Q: each low or high on its own."""
    rng = np.random.default_rng(0)
    sides = rng.integers(0, 2, (1000, 1)), rng.integers(0, 2, (1000, 2))
    return tuple(rng.uniform(0, 0.4, (1000, 2)) + 0.6 * side for side in sides)


def test_a_support_in_two_pieces_is_not_connected(apart):
    p, q = apart
    truth = (identity, identity)

    def wrong(sign):  # off by 3 on the high part, in opposite directions
        return lambda z: z + sign * 3.0 * (z > 0.5)

    model = (wrong(1), wrong(-1))
    shown, asked = ([add([f(z[:, :1]), g(z[:, 1:])]) for f, g in (truth, model)] for z in (p, q))
    np.testing.assert_allclose(*shown)
    assert np.max(np.abs(np.subtract(*asked))) == pytest.approx(3.0)

    for condition in ("sum", "stack"):
        audited = support.audit_latents(add, truth, p, q, condition=condition)
        assert audited.coverage.holds and all(one.share == 1 for one in audited.components)
        assert not audited.holds and audited.assumption == "identification"
        assert "two models agree on P" in audited.verdict
        assert "a premise that they do not state fails" in audited.verdict
        assert "guarantee" not in audited.verdict


# --- coverage -------------------------------------------------------------------------------------


def test_coverage_is_of_components_not_of_latents(rng):
    """z_1 = z_0 inside one component: every latent takes every value, most pairs never occur."""
    p, q = rng.uniform(size=(800, 3)), rng.uniform(size=(800, 3))
    p[:, 1] = p[:, 0]
    components = (lambda z: z[:, :1] + z[:, 1:], identity)
    audited = support.audit_latents(add, components, p, q, sizes=(2, 1))
    assert "A2" in audited.assumption and "A2, compositional support, fails" in audited.verdict
    first, second = audited.coverage.share
    assert first < 0.75 and second == 1


# --- the relaxed condition ------------------------------------------------------------------------


def hidden_square(slots):
    """(a_1 + a_2^2 b_1, b): at a_2 = 0 its slope in a_2 is zero for every b."""
    a, b = slots
    return jnp.concatenate([a[:, :1] + a[:, 1:] ** 2 * b, b], axis=1)


@pytest.mark.parametrize("pixelwise", [True, False])
def test_relaxed_is_first_order(pixelwise):
    """P' has b = 0; a model with a_2 = 1 fits it, and is wrong where b is not 0."""
    value = np.array([[0.3, 0.0]])
    wrong = np.array([[0.3, 1.0]])
    here, there = np.zeros((1, 1)), np.full((1, 1), 0.98)
    np.testing.assert_array_equal(hidden_square([value, here]), hidden_square([wrong, here]))
    gap = np.subtract(hidden_square([value, there]), hidden_square([wrong, there]))
    assert np.max(np.abs(gap)) == pytest.approx(0.98)

    def scene(b):
        return lambda i: (np.repeat(value, len(b), axis=0), b)

    first = support.audit(
        hidden_square,
        value,
        0,
        scene(here),
        pixelwise=pixelwise,
        condition="relaxed",
        unseen=scene(there),
    )
    assert first.share == 1 and first.verdict.startswith("no first-order obstacle found")
    assert "support" not in first.verdict


# --- some finite P' -------------------------------------------------------------------------------


def test_some_points_suffice_where_all_cancel():
    """C = a b with partners +1 and -1: the sum of both is zero, one alone is enough."""
    value = np.array([[2.0]])
    audit = support.audit(
        product, value, 0, lambda i: (np.full((2, 1), 2.0), np.array([[1.0], [-1.0]]))
    )
    assert audit.share == 1 and audit.sigma_min[0] == 1 and list(audit.subsets[0]) == [0]
    assert audit.sigma_mean[0] == 1


def test_points_that_only_work_together():
    """Each alone shows one of two directions, all four cancel."""

    def parts(slots):
        return slots[0] * slots[1]

    b = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    value = np.ones((1, 2))

    def scenes(i):
        return np.ones((4, 2)), b

    found = support.audit(parts, value, 0, scenes, pixelwise=False)
    assert found.share == 1 and len(found.subsets[0]) == 2
    chosen = b[found.subsets[0]].sum(0)
    assert np.all(np.abs(chosen) > 0.5)


def test_more_points_of_one_kind_change_the_sum_but_not_the_mean():
    value = np.array([[1.0]])

    def ask(n, condition):
        return support.audit(
            add, value, 0, lambda i: (np.ones((n, 1)), np.zeros((n, 1))), condition=condition
        )

    for condition, growth in (("sum", 4.0), ("stack", 2.0)):
        few, many = ask(1, condition), ask(4, condition)
        assert many.sigma_min[0] == pytest.approx(growth * few.sigma_min[0])
        assert many.sigma_mean[0] == pytest.approx(few.sigma_mean[0])


# --- mixing, and errors of the composition itself -------------------------------------------------


def test_mixing_through_a_channel_difference_is_noticed(rng):
    """A shift common to all channels does not move it; other directions do."""

    def blended(slots):
        front, back = slots
        difference = front[..., :1] - front[..., 1:2]
        return front + back + 0.5 * jnp.roll(difference, 1, axis=1)

    tuples = rng.normal(size=(3, 2, 2, 4, 3))
    tuples[:, :, 0] = tuples[:, :1, 0]
    with pytest.raises(ValueError, match="mixes positions: pass pixelwise=False"):
        support.audit(blended, tuples[:, 0, 0], 0, tuples)


def test_mixing_that_only_some_values_show_is_noticed(rng):
    def where_bright(slots):
        bright = jnp.max(slots[0]) > 5
        return slots[0] + slots[1] + jnp.where(bright, jnp.roll(slots[0], 1, axis=1), 0.0)

    tuples = rng.normal(size=(6, 1, 2, 4, 3))
    tuples[5, :, 0] += 10
    with pytest.raises(ValueError, match="mixes positions"):
        support.audit(where_bright, tuples[:, 0, 0], 0, tuples)


@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_what_the_composition_raises_is_shown(rng, error):
    def broken(slots):
        raise error("my own mistake")

    tuples = rng.normal(size=(2, 1, 2, 4, 3))
    with pytest.raises(error, match="my own mistake"):
        support.audit(broken, tuples[:, 0, 0], 0, tuples)


def test_partners_without_the_tested_value_are_refused(rng):
    tuples = rng.normal(size=(2, 1, 2, 4, 3))
    with pytest.raises(ValueError, match="hold another value in slot 0"):
        support.audit(add, tuples[::-1, 0, 0], 0, tuples)


def test_a_sum_with_fewer_rows_than_columns_is_explained():
    """One output, two channels."""

    def brightness(slots):
        return jnp.sum(slots[0] * slots[1], axis=-1, keepdims=True)

    value = np.ones((1, 2))
    scenes = (np.ones((2, 2)), np.eye(2))
    found = support.audit(brightness, value, 0, lambda i: scenes)
    assert found.share == 0 and "1 rows and 2 columns never has full column rank" in found.verdict
    assert support.audit(brightness, value, 0, lambda i: scenes, condition="stack").share == 1


# --- words ----------------------------------------------------------------------------------------


def hard_step(slots):
    front, back = slots
    return jnp.where(front > 0.5, front, back)


def test_a_composition_that_jumps_is_not_decided(rng):
    p, q = rng.uniform(size=(300, 2)), rng.uniform(size=(300, 2))
    audited = support.audit_latents(hard_step, (identity, identity), p, q)
    assert not audited.holds and "C has jumps" in audited.verdict
    smooth = support.audit_latents(add, (identity, identity), p, q)
    assert smooth.holds and smooth.assumption == "" and smooth.unmeasured == ()
    assert smooth.verdict.startswith("P determines f on Q up to")
    for one in (audited, smooth):
        assert "guarantee" not in one.verdict


def test_what_was_not_measured_is_said():
    value = np.ones((2, 1))
    scenes = np.ones((2, 1, 2, 1))
    audited = support.audit_support(add, [value] * 2, [scenes] * 2)
    assert not audited.holds and audited.assumption == ""
    assert audited.unmeasured == ("A2", "identification")
    assert "Not measured: whether P reaches" in audited.verdict
    assert "determines f" in audited.verdict and "guarantee" not in audited.verdict


def test_a_stacked_verdict_claims_no_theorem(rng):
    p, q = rng.uniform(size=(300, 2)), rng.uniform(size=(300, 2))
    audited = support.audit_latents(add, (identity, identity), p, q, condition="stack")
    assert audited.holds and "not the theorem's condition" in audited.verdict


def test_a_relaxed_verdict_claims_no_theorem(rng):
    p, q = rng.uniform(size=(300, 2)), rng.uniform(size=(300, 2))
    audited = support.audit_latents(add, (identity, identity), p, q, condition="relaxed")
    assert audited.holds and "not the theorem's" in audited.verdict
    assert "no first-order obstacle found" in audited.verdict


# --- latents in, verdict out ----------------------------------------------------------------------


def test_latents_that_are_never_seen_are_named(rng):
    p, q = rng.uniform(size=(1000, 2)), rng.uniform(size=(1000, 2))
    p = p[(p[:, 0] < 0.3) | (p[:, 0] > 0.7)]
    found = support.audit_latents(add, (identity, identity), p, q, names=("x", "y"))
    assert "A2" in found.assumption.split(" and ") and "identification" in found.assumption
    assert "it misses latent x from 0.35 to 0.65" in found.verdict
    assert found.components[0].share < 1 == found.components[1].share


def test_partners_are_found_in_the_samples():
    """C = a b on planes: a varies with b = 0, b varies with a = 1: a is never identified."""
    rng = np.random.default_rng(0)
    z = rng.uniform(size=(400, 2))
    p = np.where(np.arange(400)[:, None] % 2 == 0, z * [1, 0], z * [0, 1] + [1, 0])
    found = support.audit_latents(product, (identity, identity), p, z, n_values=16)
    assert found.assumption == "A3 and identification"
    first, second = found.components
    assert first.share < 0.2 and second.share > 0.9
    good = p + [0, 0.5]
    assert support.audit_latents(product, (identity, identity), good, z + [0, 0.5]).holds


@pytest.mark.parametrize(
    "change, message",
    [
        ({"sizes": (1, 2)}, "sizes .* do not add up to 2"),
        ({"sizes": (2,)}, "sizes .* of 2 components"),
        ({"latents_Q": np.ones((3, 3))}, "D = 2 as in latents_P"),
        ({"latents_P": np.zeros((0, 2))}, "without an empty axis"),
        ({"n_values": 0}, "n_values"),
        ({"length": -1.0}, "length"),
    ],
)
def test_bad_latents_are_named(rng, change, message):
    z = rng.uniform(size=(20, 2))
    given = {"latents_P": z, "latents_Q": z} | change
    with pytest.raises(ValueError, match=message):
        support.audit_latents(add, (identity, identity), **given)


# --- jumps ----------------------------------------------------------------------------------------


def test_jumps_are_found_by_refinement(rng):
    a, b = rng.uniform(0, 0.4, (20, 3)), rng.uniform(0.6, 1, (20, 3))

    def jump(x):
        return x + 0.1 * (x[:, :1] > 0.5)

    for smooth in (np.sin, lambda x: np.abs(x - 0.5), lambda x: 0 * x):
        assert not jumps(smooth, a, b)[0].any()  # a kink is not a jump
    assert jumps(jump, a, b)[0].all()
    assert not jumps(jump, a, a + 0.05)[0].any()  # it lies between none of these
    assert jumps(lambda x: 1 / (x - 0.5), a, b)[0].all()


def test_rounding_is_not_a_jump(rng):
    """Lines on which f hardly changes: its differences are rounding errors."""
    a = rng.uniform(size=(20, 2)).astype(np.float32)
    b = a + np.float32(1e-6)
    for weight in rng.uniform(size=40).astype(np.float32):
        assert not jumps(lambda z, weight=weight: weight * z, a, b)[0].any()
