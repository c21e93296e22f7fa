"""Kernel machines: stored predictions, scikit-learn, optimality conditions, awkward kernels."""

import itertools
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgjax.analysis import machines, salience

examples = settings(max_examples=15, deadline=None, derandomize=True, database=None)
HARD = 1e10
# Machines are compiled for each shape: small problems come as 6 kernels on 12 points.
BATCH, POINTS = 6, 12


def compiled(machine):
    """The machine in a program of the caller's, in float64."""

    def solved(*arrays, **more):
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, jax.jit(machine)(*arrays, **more))

    return solved


def grid(*sizes):
    return np.array(list(itertools.product(*(range(size) for size in sizes))))


# --- stored predictions ---------------------------------------------------------------------------


class Cases:
    """All stored tasks, or those with classes, padded to one size; the mask leaves padding out."""

    def __init__(self, arrays, only_classes=False):
        self.arrays = arrays
        self.names = [str(name) for name in arrays["case_names"]]
        if only_classes:
            self.names = [name for name in self.names if f"{name}/decision_svc" in arrays]
        kernels, trains = self.stored("K"), self.stored("is_train")
        size = max(np.sum(train) for train in trains)
        self.mask = np.stack([np.arange(size) < np.sum(train) for train in trains])
        pads = [size - np.sum(train) for train in trains]
        self.k_test = [np.pad(k[:, t], ((0, 0), (0, n))) for k, t, n in zip(kernels, trains, pads)]
        self.k_train = np.stack(
            [np.pad(k[t], ((0, n), (0, 0))) for k, t, n in zip(self.k_test, trains, pads)]
        )
        self.y = np.stack([np.pad(y[t], (0, n)) for y, t, n in zip(self.stored("y"), trains, pads)])

    def stored(self, key):
        return [self.arrays[f"{name}/{key}"] for name in self.names]

    def compare(self, solved, key, atol):
        """f = K a + b on all combinations of every task."""
        for i, stored in enumerate(self.stored(key)):
            f = self.k_test[i] @ solved.dual[i] + solved.bias[i]
            np.testing.assert_allclose(f, stored, atol=atol, err_msg=self.names[i])


@pytest.mark.parametrize("bias", [False, True])
def test_stored_interpolation(golden, bias):
    cases = Cases(golden("kernels/task_kernel_predictions"))
    suffix = "_bias" if bias else ""
    solved = machines.solve_ridge(cases.k_train, cases.y, bias=bias, mask=cases.mask)
    cases.compare(solved, f"pred_minnorm{suffix}", 1e-8)
    for dual, mask, stored in zip(solved.dual, cases.mask, cases.stored(f"dual_minnorm{suffix}")):
        np.testing.assert_allclose(dual[mask], stored, atol=1e-8)
        assert np.all(dual[~mask] == 0)
    assert np.all(solved.residual < 1e-10)
    if bias:
        np.testing.assert_allclose(solved.bias, cases.stored("bias_minnorm"), atol=1e-8)


def test_stored_svc(golden):
    cases = Cases(golden("kernels/task_kernel_predictions"), only_classes=True)
    assert len(cases.names) == 11
    solved = machines.solve_svc(cases.k_train, cases.y, HARD, mask=cases.mask)
    assert np.all(solved.converged) and np.all(solved.separable)
    np.testing.assert_allclose(solved.margin, 1, atol=1e-9)
    cases.compare(solved, "decision_svc_tight", 1e-6)
    cases.compare(solved, "decision_svc", 5e-3)


def test_stored_svr(golden):
    """Stored to scikit-learn's default tolerance: ours are closer to the optimum."""
    cases = Cases(golden("kernels/task_kernel_predictions"))
    solved = machines.solve_svr(cases.k_train, cases.y, HARD, 0.1, mask=cases.mask)
    assert np.all(solved.converged) and np.all(solved.separable)
    np.testing.assert_allclose(solved.margin, 0, atol=1e-9)
    cases.compare(solved, "pred_svr", 2e-3)


# --- the phase map of context dependence, and dispersed training sets -----------------------------


def context_dependence():
    """Combinations, targets, training sets [3, 72] of CD-1, CD-2, CD-3."""
    x = grid(2, 6, 6)
    y = np.where(x[np.arange(72), 1 + x[:, 0]] >= 3, 1.0, -1.0)
    trains = [~((x[:, 1] < size) & (x[:, 2] >= 3) & (x[:, 2] < 3 + size)) for size in (1, 2, 3)]
    return x, y, np.stack(trains)


def phase_map(golden, every):
    """Whether each machine solves CD-1, 2, 3: ours and stored [2 machines, 3 tasks, cells]."""
    arrays = golden("kernels/cd_phase_and_dispersed")
    rows = arrays["cd_phase_S1_S2_svcAccCD1_CD2_CD3_regAccCD1_CD2_CD3"][::every]
    # Without any salience f = 0 on all tests, and signs are rounding.
    rows = rows[rows[:, :2].sum(axis=1) > 0]
    x, y, trains = context_dependence()
    kappa = salience.kappa(salience.complete(rows[:, :2]))
    kernel = salience.overlap_kernel(x, x, kappa)
    masks = trains[:, None]
    f = (
        machines.svc(kernel, y, kernel, HARD, mask=masks),
        machines.ridgeless(kernel, y, kernel, mask=masks),
    )
    solved = [np.all((y * values > 0) | masks, axis=-1) for values in f]
    margin = [np.mean(y * values, axis=-1, where=~masks) for values in f]
    stored = rows[:, 2:].T.reshape(2, 3, -1) == 1
    return np.stack(solved), stored, np.stack(margin)


def test_phase_map(golden):
    solved, stored, margin = phase_map(golden, every=20)
    assert solved.shape[-1] > 80 and 0.3 < stored.mean() < 0.9
    assert np.mean(solved == stored) >= 0.995
    assert np.all(np.abs(margin[solved != stored]) < 1e-6)


@pytest.mark.slow
def test_whole_phase_map(golden):
    solved, stored, margin = phase_map(golden, every=1)
    assert solved.shape[-1] == 1728 - 50
    assert np.all(np.mean(solved == stored, axis=-1) >= 0.995)
    assert np.all(np.abs(margin[solved != stored]) < 1e-6)


@pytest.mark.slow
def test_dispersed_training_sets(golden):
    arrays = golden("kernels/cd_phase_and_dispersed")
    x = grid(9, 9)
    y = x.sum(axis=1) - 8.0
    seeds, s = np.arange(1, 51, 7), arrays["dispersed_S"][::5]
    rows = []
    for seed in seeds:
        pairs = np.eye(9, dtype=int) + np.roll(np.eye(9, dtype=int), 1, axis=1)
        np.random.default_rng(seed).shuffle(pairs)
        rows.append(np.flatnonzero(pairs.ravel()))
    rows = np.stack(rows)
    kernel = salience.overlap_kernel(x, x, np.stack([0 * s, s, 0 * s + 1], axis=1))
    k_train = np.stack([kernel[:, row][:, :, row] for row in rows])
    k_test = np.stack([kernel[:, :, row] for row in rows])
    y_train = y[rows][:, None]
    is_test = np.stack([~np.isin(np.arange(81), row) for row in rows])[:, None]
    solved = machines.solve_svr(k_train, y_train, HARD, 0.1)
    assert np.all(solved.converged)
    for f, key, atol in (
        (machines.predict(solved, k_test), "svr", 5e-3),
        (machines.ridgeless(k_train, y_train, k_test), "minnorm", 1e-8),
    ):
        mse = np.mean((np.asarray(f) - y) ** 2, axis=-1, where=is_test)
        stored = arrays[f"dispersed_test_mse_{key}"][seeds - 1][:, ::5]
        np.testing.assert_allclose(mse, stored, atol=atol)


# --- against scikit-learn -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy():
    """Gaussian kernels, classes that overlap, targets."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(BATCH, POINTS, 2))
    kernel = np.exp(-np.square(points[:, :, None] - points[:, None]).sum(axis=-1))
    labels = np.sign(points[..., 0] + rng.normal(size=(BATCH, POINTS)))
    labels[:, :2] = (-1, 1)
    return kernel, labels, points[..., 1] + labels


@pytest.mark.parametrize("c", [pytest.param(0.01, marks=pytest.mark.slow), 1, 100])
def test_scikit_learn_finds_the_same_machines(noisy, c):
    """With c = 0.01 all support vectors are at the bound, and the bias is the middle of a range."""
    svm = pytest.importorskip("sklearn.svm")
    kernel, labels, targets = noisy
    solved = machines.solve_svc(kernel, labels, c)
    assert np.all(solved.converged)
    f = machines.predict(solved, kernel)
    for i in range(len(kernel)):
        theirs = svm.SVC(C=c, kernel="precomputed", tol=1e-8).fit(kernel[i], labels[i])
        decision = theirs.decision_function(kernel[i])
        np.testing.assert_allclose(f[i], decision, atol=1e-5 * (1 + c))
        dual = np.zeros(POINTS)
        dual[theirs.support_] = theirs.dual_coef_[0]
        ours, best = (a @ kernel[i] @ a / 2 - np.abs(a).sum() for a in (solved.dual[i], dual))
        assert ours <= best + 1e-9 * (1 + abs(best))
        assert set(theirs.support_) == set(np.flatnonzero(solved.support[i]))
    f = machines.svr(kernel, targets, kernel, c, 0.1)
    for i in range(len(kernel)):
        theirs = svm.SVR(C=c, epsilon=0.1, kernel="precomputed", tol=1e-8)
        theirs = theirs.fit(kernel[i], targets[i]).predict(kernel[i])
        np.testing.assert_allclose(f[i], theirs, atol=1e-5 * (1 + c))


def test_ridge_is_the_regularised_solve(noisy):
    kernel, _, targets = noisy
    penalty = np.array([0.01, 0.1, 1, 10, 100, 1000])
    f = machines.ridge(kernel, targets, kernel, penalty)
    full = kernel + penalty[:, None, None] * np.eye(POINTS)
    expected = (kernel @ np.linalg.solve(full, targets[..., None]))[..., 0]
    np.testing.assert_allclose(f, expected, atol=1e-10)
    # With a free bias the residuals sum to zero; a huge penalty leaves the mean.
    f = machines.ridge(kernel, targets, kernel, 1e9, bias=True)
    np.testing.assert_allclose(f, targets.mean(axis=1, keepdims=True) + 0 * f, atol=1e-6)


def test_machines_without_a_bias(noisy):
    kernel, labels, _ = noisy
    solved = machines.solve_svc(kernel, labels, 10.0, bias=False)
    assert np.all(solved.converged) and np.all(solved.bias == 0)
    f = machines.predict(solved, kernel)
    alpha = labels * solved.dual
    is_free = (alpha > 1e-6) & (alpha < 10 - 1e-6)
    np.testing.assert_allclose((labels * f)[is_free], 1, atol=1e-8)
    assert np.all((labels * f)[alpha <= 1e-6] >= 1 - 1e-8)
    assert np.all((labels * f)[alpha >= 10 - 1e-6] <= 1 + 1e-8)


# --- properties -----------------------------------------------------------------------------------


@examples
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 30.0, HARD, np.inf]))
def test_optimality_conditions_hold_on_random_kernels(seed, c):
    """Kernels of rank 2 to 12, so that some are singular and some sets not separable."""
    points = np.random.default_rng(seed).normal(size=(BATCH, POINTS, POINTS))
    rank = np.linspace(2, POINTS, BATCH).astype(int)
    points *= np.arange(POINTS) < rank[:, None, None]
    kernel = points @ points.transpose(0, 2, 1)
    labels = np.where(np.arange(POINTS) % 2, 1.0, -1.0)
    solved = machines.solve_svc(kernel, labels, c)
    assert np.all(solved.converged)
    price = np.minimum(c, machines.LARGEST / np.trace(kernel, axis1=1, axis2=2) * POINTS)[:, None]
    alpha, margin = labels * solved.dual, labels * machines.predict(solved, kernel)
    size = 1 + alpha.max(axis=1, keepdims=True)
    np.testing.assert_allclose(np.sum(solved.dual / size, axis=1), 0, atol=1e-6)
    assert np.all(alpha >= -1e-6) and np.all(alpha <= price * (1 + 1e-6))
    assert np.all(margin[alpha < price * (1 - 1e-6)] >= 1 - 1e-5)
    assert np.all(margin[alpha > 1e-5 * size] <= 1 + 1e-5)
    np.testing.assert_array_equal(solved.separable, margin.min(axis=1) >= 1 - 1e-6)
    assert c < HARD or solved.separable[-1]


@examples
@given(st.lists(st.floats(0.01, 0.49), min_size=BATCH, max_size=BATCH), st.floats(0, 1))
def test_transitive_equivalence_has_no_margin(s, k0):
    """Whatever the salience, the mean test margin is zero: items 0 and 2 are the hubs."""
    x = grid(4, 4)
    y = np.where((x[:, 0] < 2) == (x[:, 1] < 2), 1.0, -1.0)
    train = np.isin(x, (0, 2)).any(axis=1)
    assert train.sum() == POINTS
    kernel = salience.overlap_kernel(x, x, np.stack([[0, each, 1] for each in s]) + k0)
    k_train, k_test = kernel[:, train][:, :, train], kernel[:, :, train]
    for f in (
        machines.ridgeless(k_train, y[train], k_test),
        machines.svc(k_train, y[train], k_test, HARD),
    ):
        np.testing.assert_allclose(np.mean((y * f)[:, ~train], axis=1), 0, atol=1e-8)
        np.testing.assert_allclose(np.min((y * f)[:, train], axis=1), 1, atol=1e-8)


# --- awkward kernels ------------------------------------------------------------------------------


def test_ridgeless_on_singular_kernels_is_the_pseudo_inverse():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(BATCH, POINTS, 4))
    kernel = points @ points.transpose(0, 2, 1)
    reachable, any_target = points @ rng.normal(size=4), rng.normal(size=(BATCH, POINTS))
    for target in (reachable, any_target):
        solved = machines.solve_ridge(kernel, target)
        expected = np.linalg.pinv(kernel, rcond=1e-10, hermitian=True) @ target[..., None]
        np.testing.assert_allclose(solved.dual, expected[..., 0], atol=1e-8)
    np.testing.assert_allclose(machines.solve_ridge(kernel, reachable).residual, 0, atol=1e-9)
    assert np.all(machines.solve_ridge(kernel, any_target).residual > 0.1)
    # A constant feature and a free bias are two names of one thing.
    f = machines.ridgeless(kernel + 1, reachable + 5, kernel + 1, bias=True)
    np.testing.assert_allclose(f, reachable + 5, atol=1e-9)


@pytest.fixture(scope="module")
def awkward():
    """Four points each: kernels in which an exclusive or is hard or impossible to learn."""
    points = np.array([[0, 0], [1, 1], [0, 1], [1, 0.0]])
    linear = points @ points.T
    named = {
        "linear": linear,  # not separable
        "memory": linear + np.eye(4),  # separable
        "twins": np.ones((4, 4)),  # one input, both labels
        "duplicates": np.kron(np.eye(2), np.ones((2, 2))),  # each label has its own input
        "rounded": np.diag([1, 1, -1e-7, 1]),  # what float32 may leave of a singular kernel
        "nothing": np.zeros((4, 4)),
    }
    kernels = np.zeros((BATCH, POINTS, POINTS))
    kernels[:, :4, :4] = np.stack(list(named.values()))
    labels = np.zeros(POINTS)
    labels[:4] = (1, 1, -1, -1)
    return list(named), kernels, labels, np.arange(POINTS) < 4


@pytest.mark.parametrize("c", [HARD, np.inf])
def test_sets_that_cannot_be_separated_are_reported(awkward, c):
    names, kernel, labels, mask = awkward
    solved = machines.solve_svc(kernel, labels, c, mask=mask)
    separable = dict(zip(names, solved.separable))
    assert all(separable[name] for name in ("memory", "duplicates", "rounded"))
    assert not any(separable[name] for name in ("linear", "twins", "nothing"))
    assert np.all(solved.converged) and np.all(solved.n_steps <= 100)
    assert np.all(np.isfinite(solved.dual)) and np.all(solved.dual[:, ~mask] == 0)
    assert solved.margin[names.index("linear")] < 1e-6


def test_a_kernel_that_rounding_made_indefinite_gives_no_nan(awkward):
    names, kernel, labels, mask = awkward
    solved = machines.solve_ridge(kernel, labels, mask=mask)
    assert np.all(np.isfinite(solved.dual))
    assert solved.residual[names.index("rounded")] > 0.1
    assert solved.residual[names.index("memory")] < 1e-10


def test_the_scale_of_a_kernel_does_not_matter(noisy):
    kernel, labels, targets = noisy
    svc = machines.svc(kernel, labels, kernel, np.inf)
    svr = machines.svr(kernel, targets, kernel, np.inf, 0.1)
    for scale in (1e-6, 1e6):
        f = machines.svc(scale * kernel, labels, scale * kernel, np.inf)
        np.testing.assert_allclose(f, svc, atol=1e-6)
        f = machines.svr(kernel, scale * targets, kernel, np.inf, scale * 0.1)
        np.testing.assert_allclose(f / scale, svr, atol=1e-6)


def low_rank(seed, n_cases, points):
    """Kernels of rank 1 to 6 with random labels: hardly any is separable."""
    rng = np.random.default_rng(seed)
    rank = rng.integers(1, 7, size=n_cases)
    features = rng.normal(size=(n_cases, points, 6)) * (np.arange(6) < rank[:, None, None])
    labels = np.where(rng.random((n_cases, points)) < 0.5, 1.0, -1.0)
    labels[:, :2] = (-1, 1)
    return features @ features.transpose(0, 2, 1), labels


@pytest.mark.parametrize("bias", [pytest.param(False, marks=pytest.mark.slow), True])
def test_hard_margins_of_sets_that_cannot_be_separated(bias):
    """Duals at the largest price, kernels singular on the support vectors."""
    kernel, labels = low_rank(0, 300, 2 * POINTS)
    solved = machines.solve_svc(kernel, labels, HARD, bias=bias)
    assert np.all(solved.converged) and np.mean(solved.separable) < 0.1
    # Beyond the price nothing is gained: f is that of the soft margin.
    f = machines.predict(solved, kernel)
    assert np.all(np.abs(f) < 1e3)


@pytest.mark.parametrize("machine", ["svc", pytest.param("svr", marks=pytest.mark.slow)])
def test_machines_that_were_not_found_predict_nan(noisy, monkeypatch, machine):
    kernel, labels, targets = noisy
    monkeypatch.setattr(machines, "_STEPS", 2)
    # Other shapes than elsewhere: nothing compiled before is used again.
    kernel, y = kernel[:, :11, :11], {"svc": labels, "svr": targets}[machine][:, :11]
    rest = {"svc": (100.0,), "svr": (100.0, 0.1)}[machine]
    is_found = np.asarray(getattr(machines, f"solve_{machine}")(kernel, y, *rest).converged)
    assert not np.all(is_found)
    predict = getattr(machines, machine)
    for f in (predict(kernel, y, kernel, *rest), jax.jit(predict)(kernel, y, kernel, *rest)):
        np.testing.assert_array_equal(np.isnan(f).any(axis=1), ~is_found)
        np.testing.assert_array_equal(np.isnan(f).all(axis=1), ~is_found)


@pytest.mark.slow  # 12 s: a hang that LAPACK had; many machines in one program
def test_independent_machines_in_one_program_return():
    """They once waited for each other's threads, in one of ten calls or so on two cores."""
    program = """
        import os
        os.environ["JAX_PLATFORMS"] = "cpu"
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:2])
        import jax, numpy as np
        from cgjax.analysis import machines
        jax.config.update("jax_enable_x64", True)
        points = np.random.default_rng(0).normal(size=(2, 64, 54, 54))
        kernels, y = points @ points.swapaxes(-1, -2), np.where(np.arange(54) % 2, 1.0, -1.0)
        solve = jax.jit(
            lambda a, b: (
                machines.svc(a, y, a[:, :1], 1e10),
                machines.svc(b, y, b[:, :1], 1e10),
                machines.ridgeless(a, y, a[:, :1]),
            ),
            compiler_options={"xla_backend_optimization_level": 0},
        )
        for _ in range(40):
            jax.block_until_ready(solve(*kernels))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=180)


# --- batches and derivatives ----------------------------------------------------------------------


@pytest.mark.slow
def test_vmap_is_a_leading_axis(noisy):
    kernel, labels, _ = noisy
    expected = machines.svc(kernel, labels, kernel[:, :5], 10.0)
    twice = jax.vmap(jax.vmap(machines.svc, (None, 0, None, None)), (0, None, 0, None))
    found = compiled(twice)(kernel[:2], labels, kernel[:2, :5], 10.0)
    np.testing.assert_allclose(found[[0, 1], [0, 1]], expected[:2], atol=1e-10)
    off = jax.vmap(machines.ridgeless)(kernel, labels, kernel)
    np.testing.assert_allclose(off, machines.ridgeless(kernel, labels, kernel), atol=1e-9)


def test_accelerators_leave_slow_problems_to_blocks(noisy, monkeypatch):
    """The path taken off the CPU, with few enough first steps that blocks are needed."""
    kernel, labels, _ = noisy
    expected = machines.solve_svc(kernel, labels, 10.0)
    assert expected.n_steps.min() < expected.n_steps.max()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(machines, "_FIRST_STEPS", int(expected.n_steps.min()))
    shape = (BATCH, 1, POINTS)
    mask, box = np.ones((BATCH, POINTS), bool), np.full(BATCH, 10.0)
    problems = (kernel, labels.reshape(shape), -np.ones(shape), box, mask, 1.0 * mask)
    found = compiled(machines.central_path)(*problems)
    assert np.all(found.is_done)
    np.testing.assert_array_equal(found.n_steps, expected.n_steps)
    np.testing.assert_allclose(found.dual, expected.dual, atol=1e-6)


def test_the_end_of_a_central_path_is_in_float64():
    """Two points a distance 2 apart: a machine without bias has the dual y / 2."""
    k, y = 2 * jnp.eye(2), jnp.array([[1.0, -1.0]])
    found = machines.central_path(k, y, -jnp.ones((1, 2)), 10.0, np.ones(2, bool), jnp.zeros(2))
    assert found.dual.dtype == np.float64 and found.mu < 1e-14
    np.testing.assert_allclose(found.dual, [0.5, -0.5], rtol=1e-12)


@pytest.mark.parametrize("machine", ["ridge", "svc", pytest.param("svr", marks=pytest.mark.slow)])
def test_derivatives_with_respect_to_salience(machine):
    x, y, trains = context_dependence()
    train = trains[2]

    def margin(free):
        kernel = salience.overlap_kernel(x, x, salience.kappa(salience.complete(free)))
        k_train, k_test = kernel[np.ix_(train, train)], kernel[np.ix_(~train, train)]
        rest = {"ridge": (0.0, True), "svr": (HARD, 0.1), "svc": (HARD,)}[machine]
        f = getattr(machines, machine)(k_train, y[train], k_test, *rest)
        return jnp.mean(f * y[~train])

    with jax.enable_x64(True):
        free = jnp.array([0.20350064, 0.09423825])
        value_and_grad = jax.jit(jax.value_and_grad(margin))
        _, gradient = value_and_grad(free)
        shifts = 1e-5 * jnp.eye(2)
        ends = [[value_and_grad(free + sign * row)[0] for sign in (1, -1)] for row in shifts]
        expected = [float(high - low) / 2e-5 for high, low in ends]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)
    assert np.abs(gradient).min() > 1


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda k, y: machines.svc(k, 2 * y, k, 1.0), "labels -1 and"),
        (lambda k, y: machines.svc(k, np.ones(4), k, 1.0), "both classes"),
        (lambda k, y: machines.svc(k, y, k, 1.0, mask=y > 0), "both classes"),
        (lambda k, y: machines.svc(k, y, k, -1.0), "c must be in .0, inf."),
        (lambda k, y: machines.svr(k, y, k, 1.0, 0.0), "epsilon must be in"),
        (lambda k, y: machines.ridgeless(k[:3], y, k), r"k_train must be \[..., n, n\]"),
        (lambda k, y: machines.ridgeless(k, y[:3], k), r"k_train must be \[..., n, n\]"),
        (lambda k, y: machines.ridgeless(k, y, k[:, :3]), r"n = 4 as in k_train"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.eye(4), np.array([1.0, -1, 1, -1]))
