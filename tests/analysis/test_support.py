"""Sufficient support: ranks against stored ones and closed forms, verdicts on small supports."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis import support
from cgjax.experiments.sprites import scenes
from cgjax.experiments.sprites.compositions import COMPOSITIONS, channels

# --- ranks ----------------------------------------------------------------------------------------


def test_jacobian_rank_counts_above_both_tolerances():
    matrices = jnp.stack([jnp.diag(jnp.array(d)) for d in ((1.0, 0.1, 1e-4), (1e-4, 1e-5, 0.0))])
    ranks, sigma = support.jacobian_rank(matrices[None], rtol=1e-2, atol=0.0)
    np.testing.assert_array_equal(ranks, [[2, 2]])
    np.testing.assert_allclose(sigma[0, 0], [1.0, 0.1, 1e-4], rtol=1e-4)
    ranks, _ = support.jacobian_rank(matrices, rtol=0.0, atol=1e-3)
    np.testing.assert_array_equal(ranks, [2, 0])


@pytest.mark.parametrize(
    "name", ["add", "occlude_step", "occlude_sigmoid", "occlude_hardsigmoid", "alpha"]
)
def test_golden_ranks_and_singular_values(golden, name):
    arrays = golden("sprites/rank")
    composition, has_alpha = COMPOSITIONS[name], channels(name) == 4
    values = np.asarray(scenes.render(arrays["zstar_scaled"], 8, has_alpha))
    planes = np.asarray(scenes.render(arrays["plane_scaled"], 8, has_alpha))
    codomain = int(arrays[f"codomain_{name}"])
    results = arrays[f"res_{name}"]
    for row in results[results[:, 2] == 2]:  # those with two partners
        value, slot = row[:2].astype(int)
        others = planes[[0, 1]] if slot == 0 else planes[[1, 2]]
        own = np.broadcast_to(values[value], others.shape)
        tuples = np.stack([own, others] if slot == 0 else [others, own], axis=1)[None]
        value = values[value][None]
        for stack, (rank, smallest) in ((False, row[3:5]), (True, row[6:8])):
            options = {"rtol": 1e-5, "atol": 0.0, "stack": stack}
            dense = support.audit(composition, value, slot, tuples, pixelwise=False, **options)
            assert codomain - dense.n_failing[0] == rank
            if not has_alpha:  # stored as 0 there, or as the last of fewer than M values
                np.testing.assert_allclose(dense.sigma_min[0], smallest, atol=1e-4)
        blocks = support.audit(composition, value, slot, tuples, rtol=1e-5, atol=0.0)
        assert blocks.passes[0] == (row[3] == codomain)
        if not has_alpha:
            np.testing.assert_allclose(blocks.sigma_min[0], row[4], atol=1e-4)


def test_sigmoid_front_block_loses_rank_where_its_determinant_vanishes():
    """det = sg(s)^3 (1 + sg(-s)(s - t)): zero for an empty front and a back of channel sum 2."""
    front = np.zeros((3, 1, 1, 3))
    back = np.array([[0.0, 1.0, 1.0], [0.0, 1.0, 0.5], [0.2, 0.1, 0.0]]).reshape(3, 1, 1, 3)
    tuples = np.stack([front, back], axis=1)[:, None]
    found = support.audit(COMPOSITIONS["occlude_sigmoid"], front, 0, tuples)
    np.testing.assert_array_equal(found.failing, [0])
    blocks = 0.5 * np.eye(3) - 0.25 * back.reshape(3, 3, 1)
    smallest = np.linalg.svd(blocks, compute_uv=False)[:, -1]
    np.testing.assert_allclose(found.sigma_min, smallest, atol=1e-9)


# --- verdicts on supports -------------------------------------------------------------------------

SIZE = 32


@pytest.fixture(scope="module")
def values():
    raw = jax.random.uniform(jax.random.key(0), (12, 5))
    return np.asarray(scenes.render(scenes.scale_latents(raw), SIZE))


@pytest.fixture(scope="module")
def planes():
    raw = jnp.array(list(scenes.PLANES.values()))
    images = np.asarray(scenes.render(scenes.scale_latents(raw), SIZE))
    return dict(zip(scenes.PLANES, images))


def audit(name, values, planes, slot, others, **options):
    """Audit where the other slot stands on the named planes."""
    others = np.stack([planes[other] for other in others])

    def partners(i):
        own = np.broadcast_to(values[i], others.shape)
        return (own, others) if slot == 0 else (others, own)

    return support.audit(COMPOSITIONS[name], values, slot, partners, **options)


def test_back_sprites_need_two_positions_of_the_front(values, planes):
    two = audit("occlude_step", values, planes, 1, ["O", "H"])
    assert two.share == 1.0 and len(two.failing) == 0 and np.all(two.sigma_min == 1)
    assert two.verdict.startswith("sufficient support")
    one = audit("occlude_step", values, planes, 1, ["O"])
    assert one.share == 0.0 and not one.passes.any()
    np.testing.assert_array_equal(one.failing, np.arange(len(values)))
    hidden = np.sum(planes["O"].sum(-1) > 0)
    np.testing.assert_array_equal(one.n_failing, hidden)
    assert one.verdict.startswith(
        f"no sufficient support: 12 of 12 values fail, on average at {hidden}"
    )


def test_front_sprites_are_identified_where_they_are_seen(values, planes):
    covered = values.sum(-1) > 0
    assert audit("occlude_step", values, planes, 0, ["A"], where=covered).share == 1.0
    everywhere = audit("occlude_step", values, planes, 0, ["A"])
    assert everywhere.share == 0.0
    np.testing.assert_array_equal(everywhere.n_failing, np.sum(~covered, axis=(1, 2)))


@pytest.mark.parametrize(
    "slot, others, smallest",
    [(0, ["A"], 0.147), (1, ["O", "H"], 0.619), (1, ["O"], 0.214), (1, ["O", "H3"], 0.714)],
)
def test_sigmoid_satisfies_the_condition_everywhere(values, planes, slot, others, smallest):
    found = audit("occlude_sigmoid", values, planes, slot, others)
    assert found.share == 1.0
    np.testing.assert_allclose(np.median(found.sigma_min), smallest, atol=6e-4)


def test_alpha_never_does(planes):
    raw = jax.random.uniform(jax.random.key(0), (2, 5))
    values = np.asarray(scenes.render(scenes.scale_latents(raw), SIZE, alpha=True))
    tuples = np.stack([values, values[::-1]], axis=1)[:, None]
    found = support.audit(COMPOSITIONS["alpha"], values, 0, tuples)
    assert found.share == 0.0 and np.all(found.sigma_min == 0)


def test_a_value_without_partners_is_not_identified(values):
    tuples = np.zeros((len(values), 0, 2, SIZE, SIZE, 3))
    for pixelwise, n_failing in ((True, SIZE**2), (False, 3 * SIZE**2)):
        found = support.audit(COMPOSITIONS["add"], values, 0, tuples, pixelwise=pixelwise)
        assert found.share == 0.0 and np.all(found.n_failing == n_failing)


def test_any_composition_of_vectors():
    """C(a, b) = [a1 + b1, a1 * b2, a2 * b1]: a2 is visible only where b1 is not zero."""

    def composition(slots):
        a, b = slots
        rows = (a[:, 0] + b[:, 0], a[:, 0] * b[:, 1], a[:, 1] * b[:, 0])
        return jnp.stack(rows, axis=1)

    a = np.array([[0.3, 0.4], [0.5, 0.6]])
    b = np.array([[[0.0, 1.0]], [[2.0, 1.0]]])  # one partner each
    tuples = np.stack([a[:, None], b], axis=2)
    found = support.audit(composition, a, 0, tuples, pixelwise=False)
    np.testing.assert_array_equal(found.passes, [False, True])
    np.testing.assert_array_equal(found.n_failing, [1, 0])
    np.testing.assert_allclose(found.sigma_min, [0, 2**0.5], atol=1e-12)


def test_a_sum_can_cancel_where_the_stack_does_not():
    a = np.array([[1.0]])
    tuples = np.array([[[[1.0], [2.0]], [[1.0], [-2.0]]]])

    def product(slots):
        return slots[0] * slots[1]

    assert support.audit(product, a, 0, tuples).share == 0.0
    assert support.audit(product, a, 0, tuples, stack=True).share == 1.0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"component": 2}, "slots 0 to 1"),
        ({"slots": np.zeros((0, 4, 4, 3))}, "no values to test"),
        ({"slots": np.zeros((2, 5, 5, 3))}, r"partners are \[m, points, slots, ...\]"),
        ({"pixelwise": False, "where": np.ones((2, 4, 4), bool)}, "only pixelwise=True"),
    ],
)
def test_bad_input_is_named(options, message):
    options = {"slots": np.zeros((2, 4, 4, 3)), "component": 0} | options
    with pytest.raises(ValueError, match=message):
        support.audit(COMPOSITIONS["add"], partners=np.zeros((2, 1, 2, 4, 4, 3)), **options)
