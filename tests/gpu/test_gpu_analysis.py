"""Every function of the analyses on arrays of a GPU, by itself and inside a caller's jit.

The results must equal those of the same call on a CPU, up to the rounding of float32.
"""

import functools
import importlib
import inspect
import pkgutil
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_under_jit
from flax import nnx
from test_nonsense import CONTEXT, NET, PLUMBING

import cgjax.analysis
from cgjax.analysis import (
    additivity,
    data_needed,
    dependence,
    effects,
    factor_tables,
    factorization,
    geometry,
    landscape,
    lenses,
    machines,
    masks,
    ntk,
    predictors,
    salience,
    stats,
    support,
    training_sets,
)
from cgjax.analysis import slots as slot_maps
from cgjax.analysis.support import certificate, design

TRACED = test_under_jit.NAMES
# Relative to the largest value of an array, or to 1 if that is more: float32 sums in another order.
ROUNDING = 1e-4


def network(params, x):
    """Its tangent kernel on nine inputs is regular."""
    return jnp.tanh(x @ params["a"]) @ params["b"]


def add(slots):
    return slots[0] + slots[1]


def host_calls() -> dict:
    """Function -> a call on sound arrays; results are NumPy arrays, numbers or words."""
    rng = np.random.default_rng(0)

    def array(values):
        values = np.asarray(values)
        return jax.device_put(values.astype(np.float32) if values.dtype.kind == "f" else values)

    def drawn(*shape):
        return array(rng.normal(size=shape))

    grid, where = drawn(3, 4, 5), array(np.arange(12).reshape(3, 4) > 3)
    pairs = array(np.indices((3, 3)).reshape(2, -1).T)
    y, is_train = drawn(9), array(np.arange(9) < 7)
    splits = np.where(np.arange(9) < 7, "train", "test")
    labels = additivity.conjunctions(np.asarray(pairs)[:7])
    values = array(np.arange(1.0, 1 + len(labels)))
    slots_of = drawn(9, 2, 3)
    features, points, codes = drawn(9, 4), drawn(4, 2), drawn(4, 6)
    gram = array(np.asarray(features) @ np.asarray(features).T + np.eye(9))
    product = array(np.kron(np.eye(4) + 1, np.eye(3) + 1))
    x, targets = drawn(9, 3), drawn(9, 2)
    net = {"a": drawn(3, 8), "b": drawn(8, 2)}
    thirds = array(np.array([0, 1, 1]))
    dense = [(drawn(2, 3), drawn(3)), (drawn(3, 2), drawn(2))]
    colours = np.linspace(0, 1, 24).reshape(2, 4, 3)
    slots = array(colours)
    tuples = array(np.stack([colours, colours[::-1]], axis=1)[:, None])
    latents = array(np.linspace(0, 1, 20).reshape(10, 2))
    clusters, treated = array(np.arange(8) // 2), array(np.arange(8) % 2)
    outcomes = drawn(8)
    regression = array(np.stack([np.ones(8), np.arange(8) % 2], axis=1))
    contrast, fit = array(np.array([0.0, 1.0])), (outcomes, regression, clusters)
    key, bands = jax.random.key(0), array(np.array([[0.5, 5.0]]))

    def similar():
        return additivity.similarity(pairs, features, splits, n_samples=None)

    def looked():
        return lenses.look(network, net, x, pairs, is_train, targets=targets, verbose=False)

    def saved_masks():
        with tempfile.TemporaryDirectory() as folder:
            masks.save(f"{folder}/masks.npz", {"a": net["a"] * 0, "b": None})
            return masks.read(f"{folder}/masks.npz", net)

    def audited():
        return support.audit_latents(add, (jnp.sin, jnp.cos), latents, latents)

    return {
        "additivity.additivity": lambda: additivity.additivity(pairs, y, is_train),
        "additivity.additivity_by_split": lambda: additivity.additivity_by_split(
            pairs, y, splits, pairs[:7]
        ),
        "additivity.conjunctions": lambda: additivity.conjunctions(pairs[:7]),
        "additivity.conjunction_types": lambda: additivity.conjunction_types(CONTEXT, (1, 2)),
        "additivity.item_values": lambda: additivity.item_values(labels, values, 0),
        "additivity.type_magnitudes": lambda: additivity.type_magnitudes(
            CONTEXT, values[:3], (1, 2)
        ),
        "additivity.similarity": similar,
        "additivity.similarity_of_gram": lambda: additivity.similarity_of_gram(pairs, gram),
        "additivity.structure": lambda: additivity.structure(similar()),
        "dependence.parts": lambda: dependence.parts((2, 4), 2, 1),
        "dependence.recombined": lambda: dependence.recombined(x, thirds),
        "dependence.tangent_split": lambda: dependence.tangent_split(network, net, x, thirds),
        "effects.additive_fit": lambda: effects.additive_fit(pairs, targets, is_train),
        "effects.combined": lambda: effects.combined(pairs, targets),
        "effects.interactions": lambda: effects.interactions(pairs, targets),
        "effects.total_effects": lambda: effects.total_effects(pairs, targets),
        "factor_tables.grid": lambda: factor_tables.grid(thirds + 1),
        "factor_tables.held": lambda: factor_tables.held(pairs[:7], pairs, (3, 3)),
        "factorization.additive": lambda: factorization.additive(points, points),
        "factorization.factorised": lambda: factorization.factorised(points, points),
        "factorization.radial": lambda: factorization.radial(points, points),
        "factorization.binary": lambda: factorization.binary(pairs, pairs),
        "factorization.additive_part": lambda: factorization.additive_part(grid, where),
        "factorization.additive_share": lambda: factorization.additive_share(grid),
        "factorization.explained": lambda: factorization.explained(grid, grid + 1),
        "factorization.grid_kernel": lambda: factorization.grid_kernel(grid, cosine=True),
        "factorization.grids": lambda: factorization.grids(pairs),
        "factorization.on_grids": lambda: factorization.on_grids(features, pairs),
        "factorization.isolated": lambda: factorization.isolated(codes, codes[:3], 2),
        "factorization.metric": lambda: factorization.metric(grid),
        "factorization.operator_schmidt": lambda: factorization.operator_schmidt(product, 4, 3),
        "factorization.schmidt_values": lambda: factorization.schmidt_values(product, 4, 3),
        "factorization.selective_share": lambda: factorization.selective_share(grid),
        "factorization.shared_sum": lambda: factorization.shared_sum(grid, where),
        "factorization.superposition": lambda: factorization.superposition(grid, grid + 1, grid**2),
        "factorization.two_way": lambda: factorization.two_way(grid),
        "geometry.effective_rank": lambda: geometry.effective_rank(features),
        "geometry.grid_tensor": lambda: geometry.grid_tensor(grid),
        # The sign of a direction is arbitrary.
        "geometry.principal_components": lambda: jax.tree.map(
            np.abs, geometry.principal_components(features)
        ),
        "geometry.probe": lambda: geometry.probe(features, targets, is_train),
        "geometry.volume_element": lambda: geometry.volume_element(geometry.grid_tensor(grid)),
        "landscape.cancellation": lambda: landscape.cancellation([{"w": x}, {"w": 1 - x}]),
        "landscape.matched": lambda: landscape.matched(dense, dense),
        "lenses.look": looked,
        "lenses.slopes": lambda: lenses.slopes(gram, pairs, y[:, None], is_train),
        "lenses.main_effects": lambda: lenses.main_effects(pairs, targets),
        "lenses.subnetworks": lambda: lenses.subnetworks(network, net, x, pairs, "a", 2),
        "masks.learn": lambda: masks.learn(
            lambda s, step, beta: jnp.mean((jax.nn.sigmoid(beta * s) - 0.3) ** 2), x, 3, 0.1
        ),
        "masks.search": lambda: masks.search(
            network,
            net,
            lambda outputs, y: jnp.mean((outputs - y) ** 2),
            [(x, targets)],
            "a",
            epochs=2,
        ),
        "masks.save": saved_masks,
        "masks.read": saved_masks,
        "masks.selected": lambda: masks.selected(NET, "kernel"),
        # Rounding changes the number of iterations, so only the converged solution is compared.
        "ntk.linearised_fit": lambda: ntk.linearised_fit(
            network, net, x[:7], targets[:7], x, tolerance=1e-5
        )[:2],
        "ntk.ntk_regression": lambda: ntk.ntk_regression(network, net, x[:7], targets[:7], x),
        "predictors.partner_share": lambda: predictors.partner_share(pairs[:7], pairs[7:]),
        "predictors.connected_share": lambda: predictors.connected_share(pairs[:7], pairs[7:]),
        "predictors.unknown_of_sum": lambda: predictors.unknown_of_sum(
            pairs[:7], pairs[7:], targets[:7]
        ),
        **{
            f"predictors.{predictor.__name__}": functools.partial(predictor, pairs, features)
            for predictor in (
                predictors.additive_share,
                predictors.right_angles,
                predictors.unit_overlap,
                predictors.decodability,
                predictors.linearity,
                predictors.orthogonality,
                predictors.homomorphism_error,
            )
        },
        "geometry.kernel": lambda: geometry.kernel(features, features[:3]).new,
        "geometry.ridge": lambda: geometry.ridge(geometry.kernel(features, features[:3]), targets),
        "geometry.ridgeless": lambda: geometry.ridgeless(
            geometry.kernel(features, features[:3]), targets
        ),
        "stats.cluster_draws": lambda: stats.cluster_draws(clusters, 4),
        "stats.deviation_interval": lambda: stats.deviation_interval(0.1, outcomes, 4),
        "stats.weighted_tau_b": lambda: stats.weighted_tau_b(y, y**2, np.ones((2, 9))),
        "salience.subsets": lambda: salience.subsets(3),
        "landscape.guess_and_check": lambda: landscape.guess_and_check(
            key,
            lambda key: jax.random.normal(key, (3,)),
            lambda p, data: jnp.sum((p - data) ** 2),
            x[0],
            bands,
            n_draws=10,
            n_keep=2,
            batch=5,
        ),
        "landscape.metropolis": lambda: landscape.metropolis(
            key, x, lambda p: jnp.sum(p**2), bands, 5
        ),
        "stats.bootstrap": lambda: stats.bootstrap(np.mean, outcomes, n=20),
        "stats.clustered_covariance": lambda: stats.clustered_covariance(*fit),
        "stats.clustered_glm": lambda: stats.clustered_glm(*fit),
        "stats.interaction_design": lambda: stats.interaction_design(treated, clusters % 2),
        "stats.jackknife": lambda: stats.jackknife(np.mean, outcomes),
        "stats.kendall_tau_b": lambda: stats.kendall_tau_b(outcomes, outcomes**2),
        "stats.largest_share": lambda: stats.largest_share(1, 9),
        "stats.mean_and_error": lambda: stats.mean_and_error(outcomes),
        "stats.mean_and_interval": lambda: stats.mean_and_interval(outcomes),
        "stats.median_and_interval": lambda: stats.median_and_interval(outcomes),
        "stats.null_p": lambda: stats.null_p(0.5, outcomes),
        "stats.share_interval": lambda: stats.share_interval(1, 9),
        "stats.sign_flip_test": lambda: stats.sign_flip_test(outcomes, clusters),
        "stats.wald": lambda: stats.wald(*stats.clustered_covariance(*fit), contrast),
        "stats.wild_cluster": lambda: stats.wild_cluster(*fit, contrast),
        "support.audit": lambda: support.audit(add, slots, 0, tuples),
        "support.audit_support": lambda: support.audit_support(
            add, [slots, slots[::-1]], [tuples, tuples]
        ),
        "support.audit_latents": audited,
        "support.coverage": lambda: support.coverage(latents, latents),
        "support.identify": lambda: support.identify(add, (jnp.sin, jnp.cos), latents, latents),
        "certificate.certificate": lambda: certificate.certificate(
            audited(), jnp.sin, jnp.cos, latents
        ),
        "certificate.jacobian_errors": lambda: certificate.jacobian_errors(
            jnp.sin, jnp.cos, latents, (0, 1)
        ),
        "certificate.jumps": lambda: certificate.jumps(jnp.sin, latents, latents[::-1]),
        "design.design": lambda: design.design(add, slots, 0, tuples[0]),
        "data_needed.data_needed": lambda: data_needed.data_needed(values[:5], values[:5], 2.5),
        "data_needed.exponent": lambda: data_needed.exponent(values[:5], features[:5, :2] ** 2 + 1),
        "slots.fit": lambda: slot_maps.fit(slots_of, slots_of),
        "slots.assign": lambda: slot_maps.assign(
            slot_maps.fit(slots_of, slots_of), slots_of, slots_of
        ),
        "slots.r2": lambda: slot_maps.r2(slot_maps.fit(slots_of, slots_of), slots_of, slots_of),
        "training_sets.any_sum": lambda: training_sets.any_sum(pairs),
        "training_sets.best_anchors": lambda: training_sets.best_anchors(0.2, values[:5] - 3, 1),
        "training_sets.exchange": lambda: training_sets.exchange(gram, y, (0, 1, 2)),
        "training_sets.greedy": lambda: training_sets.greedy(gram, y, 2),
    }


def calls() -> dict:
    """Function -> a valid call with arrays on the default device."""
    return host_calls() | {name: test_under_jit.sound_call(name) for name in TRACED}


def faces() -> set[str]:
    """The public functions of each module of `cgjax.analysis`, with what its packages import.

    Checks of arguments, and the functions that `PLUMBING` names, are parts of the others.
    """
    modules = [info.name for info in pkgutil.iter_modules(cgjax.analysis.__path__)]
    names = set()
    for face in {*modules, "support.certificate", "support.design"} - {"arguments", "checks"}:
        module = importlib.import_module(f"cgjax.analysis.{face}")
        for name, value in vars(module).items():
            home = getattr(value, "__module__", "").removeprefix("cgjax.analysis.")
            if home.startswith(face) and callable(value) and not inspect.isclass(value):
                if name[0] != "_" and f"{home}.{name}" not in PLUMBING:
                    names.add(f"{face.split('.')[-1]}.{name}")
    return names


def test_every_function_has_a_call():
    packages_and_names = {f"{name.split('.')[0]}.{name.split('.')[-1]}" for name in calls()}
    assert len(faces()) > 150
    assert faces() <= packages_and_names, sorted(faces() - packages_and_names)


@pytest.fixture(scope="module")
def on_the_cpu():
    with jax.default_device(jax.devices("cpu")[0]):
        return calls()


@pytest.fixture(scope="module")
def on_the_gpu():
    return calls()


def assert_equal(ours, wanted):
    ours, wanted = jax.tree.leaves(ours), jax.tree.leaves(wanted)
    for a, b in zip(ours, wanted, strict=True):
        if isinstance(b, str) or callable(b):
            assert type(a) is type(b)  # words hold numbers, which are compared by themselves
        elif isinstance(b, np.ndarray) and b.dtype.kind == "U":
            np.testing.assert_array_equal(a, b)
        elif jnp.issubdtype(jnp.result_type(b), jax.dtypes.prng_key):
            np.testing.assert_array_equal(jax.random.key_data(a), jax.random.key_data(b))
        else:
            a, b = np.asarray(a), np.asarray(b)
            largest = np.max(np.abs(b), initial=0, where=np.isfinite(b))
            np.testing.assert_allclose(a, b, rtol=0, atol=ROUNDING * max(largest, 1))


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*TRACED, *host_calls()])
def test_results_are_those_of_a_cpu(name, on_the_gpu, on_the_cpu):
    with jax.default_matmul_precision("highest"):
        ours = on_the_gpu[name]()
        if name in TRACED:  # the other functions return what a traced program lacks
            assert_equal(jax.jit(on_the_gpu[name])(), ours)
        with jax.default_device(jax.devices("cpu")[0]):
            assert_equal(ours, on_the_cpu[name]())


@pytest.mark.gpu
def test_states_of_nnx_inside_a_jit():
    """Variables of nnx are concrete arrays on the GPU while the caller's program is traced."""
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    graph, state = nnx.split(model)
    x, pairs = jnp.linspace(-1, 1, 12).reshape(4, 3), jnp.array([[0, 0], [0, 1], [1, 0], [1, 1]])

    def f(state, x):
        return nnx.merge(graph, state)(x)

    def kernel(x):
        gram = ntk.empirical(f, state, x)
        return gram, dependence.gradient_dependence(f, state, x, jnp.arange(3), sizes=(2, 3))

    assert_equal(jax.jit(kernel)(x), kernel(x))
    assert_equal(jax.jit(lambda: kernel(x))(), kernel(x))
    lenses.look(f, state, x, pairs, jnp.arange(4) < 3, verbose=False)


@pytest.mark.gpu
def test_invalid_constants_inside_a_jit_are_named():
    """The check of values runs on the GPU, outside the caller's program."""
    k, y = jnp.eye(4) + 1, jnp.ones(4).at[2].set(jnp.nan)
    with pytest.raises(ValueError, match="y holds NaN or infinity in 1 of 4"):
        jax.jit(lambda: machines.ridgeless(k, y, k))()
