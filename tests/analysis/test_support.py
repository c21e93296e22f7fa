"""Sufficient support: ranks against stored ones and closed forms, verdicts on small supports."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis import support
from cgjax.analysis.support import jacobians
from cgjax.analysis.support import jacobians as evidence
from cgjax.experiments.sprites import scenes
from cgjax.experiments.sprites.compositions import COMPOSITIONS, channels


def quick(function):
    """Compiled in half the time: for programs that run once."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


# --- ranks ----------------------------------------------------------------------------------------


def test_jacobian_rank_counts_above_both_tolerances():
    matrices = jnp.stack([jnp.diag(jnp.array(d)) for d in ((1.0, 0.1, 1e-4), (1e-4, 1e-5, 0.0))])
    ranks, sigma = support.jacobian_rank(matrices[None], rtol=1e-2, atol=0.0)
    np.testing.assert_array_equal(ranks, [[2, 2]])
    np.testing.assert_allclose(sigma[0, 0], [1.0, 0.1, 1e-4], rtol=1e-4)
    ranks, _ = support.jacobian_rank(matrices, rtol=0.0, atol=1e-3)
    np.testing.assert_array_equal(ranks, [2, 0])


def rendered(size, *latents):
    """RGBA images of several sets of raw latents: the renderer is compiled for one shape only."""
    latents = [np.asarray(raw) for raw in latents]
    images = np.asarray(scenes.render(scenes.scale_latents(np.concatenate(latents)), size, True))
    return np.split(images, np.cumsum([len(raw) for raw in latents])[:-1])


@pytest.fixture(scope="module")
def ranked(golden):
    """The stored arrays, and RGBA images of their values and planes."""
    arrays = golden("sprites/rank")
    scaled = np.concatenate([arrays["zstar_scaled"], arrays["plane_scaled"]])
    return arrays, *np.split(np.asarray(scenes.render(scaled, 8, alpha=True)), [4])


@pytest.mark.parametrize(
    "name", ["add", "occlude_step", "occlude_sigmoid", "occlude_hardsigmoid", "alpha"]
)
def test_golden_ranks_and_singular_values(ranked, name):
    arrays, values, planes = ranked
    composition, n_channels = COMPOSITIONS[name], channels(name)
    has_alpha = n_channels == 4
    values, planes = values[..., :n_channels], planes[..., :n_channels]
    codomain = int(arrays[f"codomain_{name}"])
    results = arrays[f"res_{name}"]
    results = results[results[:, 2] == 2]  # those with two partners
    for slot in (0, 1):
        rows = results[results[:, 1] == slot]
        slots = values[rows[:, 0].astype(int)]
        others = planes[[0, 1]] if slot == 0 else planes[[1, 2]]
        both = np.broadcast_arrays(slots[:, None], others[None])
        tuples = np.stack(both if slot == 0 else both[::-1], axis=2)
        for condition, (rank, smallest) in {"sum": rows.T[3:5], "stack": rows.T[6:8]}.items():
            options = {"rtol": 1e-5, "atol": 0.0, "condition": condition}
            dense = support.audit(composition, slots, slot, tuples, pixelwise=False, **options)
            np.testing.assert_array_equal(codomain - dense.n_failing, rank)
            if not has_alpha:  # stored as 0 there, or as the last of fewer than M values
                np.testing.assert_allclose(dense.sigma_min, smallest, atol=1e-4)
        blocks = support.audit(composition, slots, slot, tuples, rtol=1e-5, atol=0.0)
        np.testing.assert_array_equal(blocks.passes, rows[:, 3] == codomain)
        if not has_alpha:
            np.testing.assert_allclose(blocks.sigma_min, rows[:, 4], atol=1e-4)


def test_sigmoid_front_block_loses_rank_where_its_determinant_vanishes():
    """det = sg(s)^3 (1 + sg(-s)(s - t)): zero for an empty front and a back of channel sum 2."""
    front = np.zeros((3, 1, 1, 3))
    back = np.array([[0.0, 1.0, 1.0], [0.0, 1.0, 0.5], [0.2, 0.1, 0.0]]).reshape(3, 1, 1, 3)
    tuples = np.stack([front, back], axis=1)[:, None]
    audited = support.audit(COMPOSITIONS["occlude_sigmoid"], front, 0, tuples)
    np.testing.assert_array_equal(audited.failing, [0])
    blocks = 0.5 * np.eye(3) - 0.25 * back.reshape(3, 3, 1)
    smallest = np.linalg.svd(blocks, compute_uv=False)[:, -1]
    np.testing.assert_allclose(audited.sigma_min, smallest, atol=1e-9)


# --- verdicts on supports -------------------------------------------------------------------------

SIZE = 32


@pytest.fixture(scope="module")
def images():
    """RGBA of twelve values and of the planes."""
    raw = jax.random.uniform(jax.random.key(0), (12, 5))
    return rendered(SIZE, raw, list(scenes.PLANES.values()))


@pytest.fixture(scope="module")
def values(images):
    return images[0][..., :3]


@pytest.fixture(scope="module")
def planes(images):
    return dict(zip(scenes.PLANES, images[1][..., :3]))


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
    assert two.verdict.startswith("full rank")
    single = audit("occlude_step", values, planes, 1, ["O"])
    assert single.share == 0.0 and not single.passes.any()
    np.testing.assert_array_equal(single.failing, np.arange(len(values)))
    hidden = np.sum(planes["O"].sum(-1) > 0)
    np.testing.assert_array_equal(single.n_failing, hidden)
    assert single.verdict.startswith(f"no full rank: 12 of 12 values fail, {hidden} ")


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


def test_alpha_never_does(images):
    values = images[0][:2]
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

    # The definition requires some finite set: one of the two points suffices.
    found = support.audit(product, a, 0, tuples)
    assert found.share == 1.0 and len(found.subsets[0]) == 1
    assert support.audit(product, a, 0, tuples, condition="stack").subsets == (None,)


# --- the relaxed condition ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sprites():
    """RGBA values, planes, 64 sprites of Q, and so many of P that no pixel of those is missed."""
    raw = np.asarray(jax.random.uniform(jax.random.key(1), (550, 5)))
    values, p, q, planes = rendered(8, raw[:6], raw[6:486], raw[486:], list(scenes.PLANES.values()))
    return {"values": values, "p": p, "q": q, **dict(zip(scenes.PLANES, planes))}


def relaxed(name, sprites, slot, others, change=lambda images: images):
    """Relaxed audit of the values where P' holds `others`, and Q the sprites "q"."""
    n_channels = channels(COMPOSITIONS[name])
    values, others, q = (
        change(images[..., :n_channels]) for images in (sprites["values"], others, sprites["q"])
    )

    def scenes_with(images):
        def tuples(i):
            own = np.broadcast_to(values[i], images.shape)
            return (own, images) if slot == 0 else (images, own)

        return tuples

    return support.audit(
        COMPOSITIONS[name],
        values,
        slot,
        scenes_with(others),
        condition="relaxed",
        unseen=scenes_with(q),
    )


def test_relaxed_passes_for_the_front_slot_under_hard_occlusion(sprites):
    """Its empty pixels stay unknown, and C never shows them."""
    found = relaxed("occlude_step", sprites, 0, sprites["A"][None])
    assert found.share == 1.0 and np.all(found.sigma_min == 0) and np.all(found.leak == 0)
    assert found.verdict.startswith("no first-order obstacle found: all 6")


def test_relaxed_fails_behind_a_sprite_that_never_moves(sprites):
    hidden = sprites["O"][..., 3] > 0
    one = relaxed("occlude_step", sprites, 1, sprites["O"][None])
    assert one.share == 0.0 and one.assumption == "A3" and np.all(one.leak == 1)
    np.testing.assert_array_equal(one.where, np.broadcast_to(hidden, one.where.shape))
    two = relaxed("occlude_step", sprites, 1, np.stack([sprites["O"], sprites["H"]]))
    assert two.share == 1.0


def test_relaxed_fails_inside_a_gap(sprites):
    audited = relaxed("occlude_step", sprites, 0, np.zeros((0, 8, 8, 4)))
    assert audited.share == 0.0 and audited.assumption == "A2"
    covered = sprites["values"][..., 3] > 0
    np.testing.assert_array_equal(audited.where, covered)  # the rest C ignores
    assert "in no point of P at all" in audited.verdict


def test_relaxed_passes_for_alpha_with_enough_partners(sprites):
    for slot in (0, 1):
        found = relaxed("alpha", sprites, slot, sprites["p"])
        assert found.share == 1.0, found.verdict
        # The theorem's own condition cannot hold: the sum has three rows and four columns.
        assert np.all(found.sigma_min < 1e-3)


def test_relaxed_fails_for_alpha_where_no_partner_ever_stands(sprites):
    """(-a, 1) and an empty pixel's opacity are invisible until a back sprite appears there."""
    audited = relaxed("alpha", sprites, 0, sprites["A"][None])
    covered = sprites["A"][..., 3] > 0
    reached = (sprites["q"][..., 3] > 0).any(0)
    assert audited.share == 0.0 and np.all(audited.where[:, ~covered & reached])
    assert not np.any(audited.where[:, ~reached])


def test_relaxed_passes_for_alpha_once_opacities_are_saturated(sprites):
    """Beyond the clip the opacity moves nothing anywhere, so that it need not be identified."""

    def saturate(images):
        return np.concatenate([images[..., :3], 2 * images[..., 3:] - 0.5], axis=-1)

    fronts = np.stack([sprites["O"], sprites["H"]])
    for slot, others in ((0, sprites["A"][None]), (1, fronts)):
        assert relaxed("alpha", sprites, slot, others, saturate).share == 1.0
    # With one front position, a back sprite that always stands behind it stays unknown.
    behind = sprites | {"values": sprites["O"][None]}
    assert relaxed("alpha", behind, 1, fronts[:1], saturate).share == 0.0


# --- compositional support, and both together -----------------------------------------------------


def test_audit_support_names_what_fails(values, planes):
    def partners(slot, others):
        others = np.stack([planes[other] for other in others])

        def tuples(i):
            own = np.broadcast_to(values[i], others.shape)
            return (own, others) if slot == 0 else (others, own)

        return tuples

    covered = values.sum(-1) > 0
    options = {"where": [covered, None]}
    good = support.audit_support(
        COMPOSITIONS["occlude_step"],
        [values] * 2,
        [partners(0, ["A"]), partners(1, ["O", "H"])],
        **options,
    )
    assert good.assumption == "" and good.unmeasured == ("A2", "identification")
    assert not good.holds and all(component.share == 1 for component in good.components)
    star = support.audit_support(
        COMPOSITIONS["occlude_step"],
        [values] * 2,
        [partners(0, ["A"]), partners(1, ["O"])],
        **options,
    )
    assert not star.holds and star.assumption == "A3"
    assert [component.share for component in star.components] == [1.0, 0.0]
    assert "A3, sufficient support, fails" in star.verdict
    latents = np.random.default_rng(0).uniform(size=(1000, 1))
    missing = support.coverage(latents[latents[:, 0] < 0.495], latents)
    gap = support.audit_support(
        COMPOSITIONS["occlude_step"],
        [values] * 2,
        [partners(0, ["A"]), partners(1, ["O", "H"])],
        missing,
        **options,
    )
    assert gap.assumption == "A2" and "it misses latent 0 from 0.54" in gap.verdict


def test_a_users_own_composition_that_mixes_pixels():
    """Two 1-D signals, the second blurred over three pixels: the blur hides one pattern of four."""

    def blurred(slots):
        front, back = slots
        shifted = [jnp.roll(back, shift, axis=1) for shift in (-1, 0, 1)]
        return front + shifted[0] / 4 + shifted[1] / 2 + shifted[2] / 4

    rng = np.random.default_rng(0)
    back = rng.normal(size=(3, 4, 1))
    tuples = rng.normal(size=(3, 2, 2, 4, 1))
    tuples[:, :, 1] = back[:, None]
    found = support.audit(blurred, back, 1, tuples, pixelwise=False)
    assert found.share == 0.0
    np.testing.assert_array_equal(found.n_failing, 1)  # the alternating pattern of period two
    front = support.audit(blurred, tuples[:, 0, 0], 0, tuples[:, :1], pixelwise=False)
    assert front.share == 1.0
    with pytest.raises(ValueError, match="mixes positions: pass pixelwise=False"):
        support.audit(blurred, back, 1, tuples)


def test_blocks_are_those_of_the_dense_jacobian():
    rng = np.random.default_rng(0)
    points = [jnp.asarray(rng.normal(size=(2, 3, 2, 3)), jnp.float32) for _ in range(2)]
    composition = COMPOSITIONS["occlude_sigmoid"]
    both = quick(
        lambda *points: [jacobians.blocks(composition, points, 0, p) for p in (True, False)]
    )
    small, dense = (np.asarray(found) for found in both(*points))
    dense = dense[:, 0]
    dense = dense.reshape(2, 6, 3, 6, 3)
    for i in range(6):
        np.testing.assert_allclose(small[:, i], dense[:, i, :, i], rtol=1e-5, atol=1e-6)
        for j in set(range(6)) - {i}:
            assert np.all(dense[:, i, :, j] == 0)


def test_the_triangular_factor_keeps_the_gram_matrix():
    rng = np.random.default_rng(0)
    for rows, columns in ((7, 3), (2, 4), (30, 12)):
        a = rng.normal(size=(5, rows, columns))
        a[0, :, -1] = a[0, :, 0]
        r = np.asarray(quick(jacobians.triangular)(jnp.asarray(a, jnp.float32)))
        gram = np.swapaxes(a, 1, 2) @ a
        np.testing.assert_allclose(np.swapaxes(r, 1, 2) @ r, gram, atol=1e-4)


def test_many_points_are_taken_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    tuples = rng.normal(size=(2, 7, 2, 3, 3))
    tuples[:, :, 0] = tuples[:, :1, 0]
    composition = COMPOSITIONS["occlude_sigmoid"]
    for condition in ("sum", "stack"):
        whole = support.audit(composition, tuples[:, 0, 0], 0, tuples, condition=condition)
        with monkeypatch.context() as patch:
            patch.setattr(evidence, "BLOCK", 3)
            parts = support.audit(composition, tuples[:, 0, 0], 0, tuples, condition=condition)
        np.testing.assert_allclose(parts.sigma_min, whole.sigma_min, rtol=1e-10)


# --- bad input ------------------------------------------------------------------------------------


def test_precision_and_non_finite_jacobians_are_named():
    with pytest.raises(ValueError, match="rtol=1e-10 needs float64, but the Jacobian is float32"):
        support.jacobian_rank(jnp.eye(3, dtype=jnp.float32), rtol=1e-10, atol=0.0)
    with pytest.raises(ValueError, match=r"jacobians must be"):
        support.jacobian_rank(jnp.ones(3), rtol=1e-5, atol=0.0)
    tuples = np.zeros((1, 1, 2, 2, 3))

    def single(slots):
        return (slots[0] + slots[1]).astype(jnp.float32)

    assert support.audit(single, tuples[:, 0, 0], 0, tuples).share == 1.0
    with pytest.raises(ValueError, match="needs float64"):
        support.audit(single, tuples[:, 0, 0], 0, tuples, rtol=1e-9, atol=0.0)
    with pytest.raises(ValueError, match="not finite: the composition is not differentiable"):
        support.audit(lambda slots: jnp.sqrt(slots[0]), tuples[:, 0, 0], 0, tuples)
    with pytest.raises(ValueError, match="without an empty axis"):
        support.coverage(np.zeros((0, 2)), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="D = 1 as in p"):
        support.coverage(np.zeros((3, 1)), np.zeros((3, 2)))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"component": 2}, "component must be 0 to 1"),
        ({"condition": "weak"}, "condition must be one of sum"),
        ({"condition": "relaxed"}, "pass unseen"),
        ({"slots": np.zeros((3, 4, 4, 3))}, "partners is for 2 values, slots holds 3"),
        ({"slots": np.zeros((0, 4, 4, 3))}, "without an empty axis"),
        ({"slots": np.zeros((2, 5, 5, 3))}, r"partners are \[m, points, slots, ...\]"),
        ({"pixelwise": False, "where": np.ones((2, 4, 4), bool)}, "only pixelwise=True"),
    ],
)
def test_bad_input_is_named(options, message):
    options = {"slots": np.zeros((2, 4, 4, 3)), "component": 0} | options
    with pytest.raises(ValueError, match=message):
        support.audit(COMPOSITIONS["add"], partners=np.zeros((2, 1, 2, 4, 4, 3)), **options)
