"""Rank correlation with ties, bootstrap intervals, and regressions with clusters against R's."""

import csv
import json
import pathlib

import numpy as np
import pytest
import scipy.stats

from cgjax.analysis import stats


@pytest.mark.parametrize("levels", [3, 6, 50])
def test_tau_b_equals_scipy(levels):
    reference = pytest.importorskip("scipy.stats").kendalltau
    rng = np.random.default_rng(levels)
    x, y = rng.integers(0, levels, (2, 30)) / levels
    assert stats.kendall_tau_b(x, y) == pytest.approx(reference(x, y).statistic, abs=1e-12)


def test_strata_are_compared_within():
    """Two strata of opposite scales, each in perfect order; together they would look reversed."""
    x, y = [1, 2, 3, 11, 12, 13], [11, 12, 13, 1, 2, 3]
    strata = ["a"] * 3 + ["b"] * 3
    assert stats.kendall_tau_b(x, y) < 0
    assert stats.kendall_tau_b(x, y, strata) == 1
    # By hand: of six pairs within strata x tells five apart, y all; three agree and two do not.
    found = stats.kendall_tau_b([1, 2, 2, 3, 1, 4], [1, 2, 3, 2, 1, 0], strata)
    assert found == pytest.approx((3 - 2) / (5 * 6) ** 0.5)
    with pytest.raises(ValueError, match="strata"):
        stats.kendall_tau_b(x, y, strata[:-1])


def test_a_constant_has_no_rank_correlation():
    assert np.isnan(stats.kendall_tau_b([1, 1, 1], [1, 2, 3]))
    with pytest.raises(ValueError, match="n = 2 as in x"):
        stats.kendall_tau_b([1, 2], [1, 2, 3])


def test_intervals_cover_the_mean_and_shrink():
    rng = np.random.default_rng(0)
    widths = []
    for n in (20, 500):
        low, high = stats.bootstrap(np.mean, rng.normal(1.0, 1.0, n))
        assert low < 1.0 < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 3
    np.testing.assert_allclose(widths[1], 2 * 1.96 / 500**0.5, rtol=0.15)


def test_a_pooled_number_has_the_error_that_other_draws_would_show():
    """Shares of means, as the types' are: by the jackknife of each draw, and over many draws."""

    def share(some):
        size = np.abs(some.mean(axis=0))
        return size / size.sum()

    rng = np.random.default_rng(0)
    draws = rng.normal((1.0, 0.5, 0.2), 0.2, (2000, 6, 3))
    each = np.array([stats.jackknife(share, some) for some in draws])
    shares = np.array([share(some) for some in draws])
    np.testing.assert_allclose(each.mean(axis=1), shares, atol=1e-12)
    errors = each.std(axis=1, ddof=1) / 6**0.5
    np.testing.assert_allclose(
        np.sqrt(np.mean(errors**2, axis=0)), shares.std(axis=0, ddof=1), rtol=0.05
    )
    np.testing.assert_allclose(stats.jackknife(np.mean, draws[0, :, 0]), draws[0, :, 0])
    assert stats.jackknife(share, draws[0, :1]).shape == (1, 3)


@pytest.mark.parametrize("successes, n", [(0, 8), (5, 8), (8, 8), (3, 100)])
def test_the_interval_of_a_share_is_clopper_and_pearsons(successes, n):
    reference = pytest.importorskip("scipy.stats").binomtest
    expected = reference(successes, n).proportion_ci(0.95, "exact")
    np.testing.assert_allclose(stats.share_interval(successes, n), expected, atol=1e-9)


def test_the_largest_share_leaves_the_observed_failures_a_chance_of_one_in_twenty():
    binomial = pytest.importorskip("scipy.stats").binom
    for failures, n in ((0, 40), (3, 50), (20, 300)):
        share = stats.largest_share(failures, n)
        assert binomial.cdf(failures, n, share) == pytest.approx(0.05, rel=1e-6)
    assert stats.largest_share(0, 1000) == pytest.approx(3 / 1000, rel=0.01)
    assert stats.largest_share(7, 7) == 1


@pytest.mark.parametrize("n", (2, 5, 10, 11, 40))
def test_the_interval_of_a_mean_is_students(n):
    values = np.random.default_rng(n).normal(size=n)
    mean, half = stats.mean_and_interval(values)
    expected = scipy.stats.t.interval(0.95, n - 1, values.mean(), scipy.stats.sem(values))
    np.testing.assert_allclose((mean - half, mean + half), expected)
    assert stats.mean_and_interval([1.0])[1] == 0


def test_medians_and_their_intervals():
    """20 values: the interval is from the 6th to the 15th, whatever their distribution."""
    values = np.random.default_rng(0).permutation(np.arange(1.0, 21)) ** 5
    assert stats.median_and_interval(values) == (np.median(values), 6.0**5, 15.0**5)
    assert stats.median_and_interval(np.arange(6.0)) == (2.5, 0, 5)
    assert np.isnan(stats.median_and_interval(np.arange(5.0))[1:]).all()


@pytest.mark.parametrize("n", (3, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 10))))
def test_the_interval_by_drawing_covers_a_mean_of_few_values(n):
    """Percentiles of the draws cover 0.77 at n = 3 and 0.85 at n = 5."""
    rng = np.random.default_rng(n)
    hits = 0
    for i in range(600):
        low, high = stats.bootstrap(np.mean, rng.normal(size=n), n=200, seed=i)
        hits += low <= 0 <= high
    assert 0.925 < hits / 600 < 0.975


def test_sign_flips_of_known_differences():
    """All signs alike: 2 of 2^n rows are as large; symmetric differences: all are."""
    assert stats.sign_flip_test([1.0, 2.0, 0.5, 3.0, 1.0], np.arange(5)) == 2 / 32
    assert stats.sign_flip_test([1.0, -1.0], [0, 1]) == 1
    # Values of one cluster are one draw.
    assert stats.sign_flip_test([1.0] * 6, [0, 0, 1, 1, 2, 2]) == 2 / 8
    many = stats.sign_flip_test(np.ones(20), np.arange(20))
    assert 0 < many < 2e-4


# --- clusters -------------------------------------------------------------------------------------

TABLES = pathlib.Path(__file__).parents[1] / "golden" / "subnetworks"


def table(name):
    with open(TABLES / f"{name}.csv") as file:
        return list(csv.DictReader(file))


def columns(rows, *names):
    return (np.array([float(row[name]) for row in rows]) for name in names)


def plain_design(ablation):
    return np.stack([np.ones(len(ablation)), ablation], axis=1)


def of_task(name, task):
    rows = [row for row in table(name) if row["Task"] == task]
    return columns(rows, "Performance", "Ablation", "Base_Model")


@pytest.fixture(scope="module")
def printed():
    return json.loads((TABLES / "stats_expected.json").read_text())


@pytest.mark.parametrize("task", ("Inside", "Number"))
def test_errors_by_cluster_are_those_that_r_prints(printed, task):
    expected = printed["inside_number_wideresnet50"][task]
    y, ablation, base = of_task("stats_inside_number_wideresnet50", task)
    fitted = np.transpose(stats.clustered_glm(y, plain_design(ablation), base))
    np.testing.assert_allclose(fitted[0], expected["intercept"], atol=1e-5)
    np.testing.assert_allclose(fitted[1], expected["ablation"], atol=1e-5)
    estimated = stats.clustered_covariance(y, plain_design(ablation), base)
    ablated = stats.wald(*estimated, (1, 1))
    np.testing.assert_allclose(ablated[:2], expected["ablated_mean"], atol=1e-5)
    assert ablated.p == pytest.approx(expected["ablated_mean_p"], abs=1e-5)
    assert ablated.z**2 == pytest.approx(expected["chisq"], abs=5e-5)  # four digits printed
    if "ablation_p" in expected:
        assert stats.wald(*estimated, (0, 1)).p == pytest.approx(expected["ablation_p"], abs=1e-5)


@pytest.mark.parametrize("task", ("Contact", "Number"))
def test_trained_against_random_weights_as_r_prints(printed, task):
    expected = printed["number_contact_resnet50_trained_vs_random"][task]
    names = ("stats_number_contact_resnet50_trained", "stats_number_contact_resnet50_random")
    tables = [list(of_task(name, task)) for name in names]
    tables[1][2] += 100  # distinct bases
    y, ablation, base = (np.concatenate(both) for both in zip(*tables))
    random = np.repeat([0, 1], [len(each[0]) for each in tables])
    design = stats.interaction_design(ablation, random)
    fitted = np.transpose(stats.clustered_glm(y, design, base))
    for i, name in enumerate(("intercept", "ablation", "random", "ablation_x_random")):
        np.testing.assert_allclose(fitted[i], expected[name], atol=1e-5)
    both = stats.wald(*stats.clustered_covariance(y, design, base), (0, 0, 1, 1))
    np.testing.assert_allclose(both[:2], expected["random_plus_interaction"], atol=1e-5)
    chisq = expected["random_plus_interaction_chisq"]
    assert both.z**2 == pytest.approx(chisq, rel=1e-5, abs=5e-5)


@pytest.fixture(scope="module")
def runs():
    """Published runs of valid bases by (kind, task, model, target); numbers of a family pooled."""
    groups = {}
    for row in table("published_runs"):
        if row["base_excluded"] == "False":
            task = row["exp"].removesuffix("_singular").removesuffix("_plural")
            row["cluster"] = row["kind"] + row["exp"] + row["base_model"]
            groups.setdefault((row["kind"], task, row["model"], row["target"]), []).append(row)
    return groups


def stacked(rows):
    """Outcomes, ablation and cluster, two for each run."""
    y = np.concatenate(list(columns(rows, "sub_diff", "abl_diff")))
    return y, np.repeat([0, 1], len(rows)), np.array([row["cluster"] for row in rows] * 2)


def assert_printed(value, text, digits):
    """Equal to what is printed, up to its last digit; a p below 1e-15 is rounding there."""
    if text:
        allowed = 0.51 * 10.0**-digits if digits else max(0.051 * abs(float(text)), 1e-15)
        assert value == pytest.approx(float(text), abs=allowed)


def test_published_significance_follows_from_the_published_runs(runs):
    rows = table("published_significance")
    for row in rows:
        cell = runs[row["kind"], row["task"], row["model"], row["target"]]
        y, ablation, clusters = stacked(cell)
        assert len(cell) == int(row["n_runs"]) and len(set(clusters)) == int(row["n_base"])
        estimated = stats.clustered_covariance(y, plain_design(ablation), clusters)
        for name, contrast in (("sub", (1, 0)), ("abl", (1, 1))):
            test = stats.wald(*estimated, contrast)
            assert_printed(test.estimate, row[f"{name}_diff"], 3)
            assert_printed(test.error, row[f"{name}_se"], 3)
            assert_printed(test.p, row[f"{name}_p"], 0)
            if not row[f"{name}_se"]:
                assert test.error == 0 and np.isnan(test.p)
    assert len(rows) == 49


def test_published_effects_of_random_weights_follow_from_the_published_runs(runs):
    rows = table("published_trained_vs_random")
    for row in rows:
        cells = [
            stacked(runs[kind, row["task"], row["model"], row["target"]])
            for kind in ("trained", "random_weights")
        ]
        y, ablation, clusters = (np.concatenate(both) for both in zip(*cells))
        random = np.repeat([0, 1], [len(cell[0]) for cell in cells])
        design = stats.interaction_design(ablation, random)
        estimated = stats.clustered_covariance(y, design, clusters)
        for name, contrast in (("sub", (0, 0, 1, 0)), ("abl", (0, 0, 1, 1))):
            test = stats.wald(*estimated, contrast)
            assert_printed(test.estimate, row[f"random_effect_{name}"], 3)
            assert_printed(test.p, row[f"p_{name}"], 0)
    assert len(rows) == 20


def drawn_study(rng, n_clusters, effect):
    """Three runs a cluster, subnetwork and ablation, with an offset for each cluster."""
    clusters = np.tile(np.repeat(np.arange(n_clusters), 3), 2)
    ablation = np.repeat([0, 1], 3 * n_clusters)
    offset = rng.normal(size=(2, n_clusters))
    y = effect * ablation + offset[ablation, clusters] + 0.3 * rng.normal(size=len(ablation))
    return y, plain_design(ablation), clusters


def test_few_clusters_make_z_tests_reject_too_often_and_signs_do_not():
    """Nothing to find, six bases: p < 0.05 in how many of 400 studies?"""
    rng = np.random.default_rng(0)
    by_z, by_signs = [], []
    for _ in range(400):
        study = drawn_study(rng, 6, 0.0)
        by_z.append(stats.wald(*stats.clustered_covariance(*study), (1, 1)).p < 0.05)
        by_signs.append(stats.wild_cluster(*study, (1, 1)) < 0.05)
    assert np.mean(by_z) > 0.09
    assert np.mean(by_signs) < 0.075


def test_wild_clusters_find_what_is_there_and_no_more_than_signs_allow():
    rng = np.random.default_rng(1)
    y, design, clusters = drawn_study(rng, 8, -10.0)
    assert stats.wild_cluster(y, design, clusters, (1, 1)) == 2 / 2**8
    assert stats.wild_cluster(-y, design, clusters, (1, 1)) == 2 / 2**8
    # A mean without a design is what the sign flips test, where clusters are equally large.
    mean, ones = y[design[:, 1] == 1][:12], np.ones((12, 1))
    flips = stats.sign_flip_test(mean + 9, clusters[:12])
    assert stats.wild_cluster(mean + 9, ones, clusters[:12], (1,)) == pytest.approx(flips)
    # Subnetworks that all score 0.75, as some published ones, leave no error to divide by.
    exact = np.where(design[:, 1] == 0, 0.75, y)
    assert stats.wild_cluster(exact, design, clusters, (1, 0)) == 2 / 2**8
    assert stats.wild_cluster(0 * y, design, clusters, (1, 0)) == 1
    many = drawn_study(rng, 16, -10.0)
    assert 0 < stats.wild_cluster(*many, (1, 1)) < 1e-3


@pytest.mark.parametrize("unit", [1e-15, 1e15])
def test_p_does_not_depend_on_units(unit):
    values, clusters = np.array([1.0, 2.0, 0.5, 3.0, 1.0]), np.arange(5)
    assert stats.sign_flip_test(unit * values, clusters) == 2 / 32
    y, design, clusters = drawn_study(np.random.default_rng(1), 8, -10.0)
    assert stats.wild_cluster(unit * y, design, clusters, (0, 1)) == 2 / 2**8
    scaled = design * [1, unit**1.2]
    assert stats.wild_cluster(y, scaled, clusters, (0, 1)) == 2 / 2**8


def test_a_variance_of_zero_may_be_rounded_below_it():
    direction = np.array([1, -3.3])
    test = stats.wald((1e6, -1e6), 1e12 * np.outer(direction, direction), (3.3, 1))
    assert test.error == 0 and np.isnan(test.p)
    with pytest.raises(ValueError, match="negative variance"):
        stats.wald((1.0, 1.0), -1e-14 * np.eye(2), (1, 1))


def test_p_against_a_null_sample_counts_what_is_as_far():
    null = np.linspace(-1, 1, 19)
    assert stats.null_p(-2.0, null, "below") == 1 / 20
    assert stats.null_p(-2.0, null) == 2 / 20
    assert stats.null_p(-1.0, null, "below") == 2 / 20  # what is as far counts
    assert stats.null_p(-2.0, null, "above") == 1 == stats.null_p(0.0, null)


def test_weighted_tau_is_tau_of_repeated_rows():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 5, (2, 12)).astype(float)
    strata = np.arange(12) % 2
    clusters = np.repeat(np.arange(6), 2)
    weights = stats.cluster_draws(clusters, n=5)
    assert (weights.sum(axis=1) == 12).all() and (weights[:, ::2] == weights[:, 1::2]).all()
    for groups in (None, strata):
        taus = stats.weighted_tau_b(x, y, weights, groups)
        for tau, weight in zip(taus, weights):
            rows = np.repeat(np.arange(12), weight)
            again = None if groups is None else groups[rows]
            assert tau == pytest.approx(stats.kendall_tau_b(x[rows], y[rows], again), nan_ok=True)
    assert np.isnan(stats.weighted_tau_b(np.ones(12), y, weights)).all()
    with pytest.raises(ValueError, match="weights"):
        stats.weighted_tau_b(x, y, weights[:, 1:])


def test_intervals_over_clusters_are_wider_where_clusters_agree():
    """Twenty rows of five clusters that are copies of each other say as much as five rows."""
    rng = np.random.default_rng(1)
    x = np.repeat(rng.normal(size=5), 4)
    y = x + np.repeat(rng.normal(size=5), 4)
    widths = []
    for clusters in (np.repeat(np.arange(5), 4), np.arange(20)):
        draws = stats.weighted_tau_b(x, y, stats.cluster_draws(clusters, n=500))
        low, high = stats.deviation_interval(0.0, draws, len(set(clusters)))
        widths.append(high - low)
    assert widths[0] > 1.5 * widths[1]
    assert np.isnan(stats.deviation_interval(0.0, [0.1], 5)).all()


@pytest.mark.parametrize("origin", [0.0, 2e5])
def test_regressions_do_not_depend_on_the_origin_of_a_column(origin):
    x, clusters = np.arange(12.0), np.arange(12) // 2
    design = np.stack([np.ones(12), x + origin], axis=1)  # such as steps, or years
    exact, errors = stats.clustered_glm(3 * x + 5, design, clusters)
    np.testing.assert_allclose(exact, [5 - 3 * origin, 3], rtol=1e-9)
    np.testing.assert_array_equal(errors, 0)
    slope = [result[1] for result in stats.clustered_glm(np.sin(x), design, clusters)]
    around = np.stack([np.ones(12), x - x.mean()], axis=1)
    expected = [result[1] for result in stats.clustered_glm(np.sin(x), around, clusters)]
    np.testing.assert_allclose(slope, expected, rtol=1e-9)
