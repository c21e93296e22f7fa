"""Every claim has a row that can be run; its verdict follows from the record by one rule."""

import collections
import json
import re

import pytest

from cgjax import config as configs
from cgjax import experiments, report
from cgjax.bench import coverage
from cgjax.core.errors import BadInput
from cgjax.published import KINDS, PUBLISHED
from cgjax.published import verdict as verdicts
from cgjax.published.claims import BY_ROW as ORDERED
from cgjax.published.claims import CLAIMS, FORMS, POOLED
from cgjax.published.claims import KINDS as CLAIM_KINDS
from cgjax.published.reading import MODULES
from cgjax.published.results import summary
from cgjax.report import readme
from cgjax.report import standing as standings


def sides(claim):
    """Every (row, metric) that a claim needs, or may be shown by."""
    found = [side for chain in claim.chains for side in chain if isinstance(side, tuple)]
    return [*found, *claim.places]


def test_every_published_number_is_a_claim_once():
    claimed = collections.Counter(
        (claim.family, place, claim.kind) for claim in CLAIMS.values() for place in claim.places
    )
    expected = {
        (family, (row, metric), one["kind"])
        for family, rows in PUBLISHED.items()
        for row, metrics in rows.items()
        if row not in POOLED.get(family, ())
        for metric, entry in metrics.items()
        for one in (entry, entry.get("recomputed"))
        if one
    }
    assert set(claimed) == expected and set(claimed.values()) == {1}
    stated = sum(len(claims) for rows in ORDERED.values() for claims in rows.values())
    assert stated == sum(
        claim.family == "resistance" and bool(claim.chains) for claim in CLAIMS.values()
    )


def at_any_distance(metric):
    """A metric without its part, the same for every distance of composed images."""
    return re.sub(r", d=\d+:", ", d=0:", metric.rpartition("/")[2])


def test_claims_are_entries():
    for name, claim in CLAIMS.items():
        assert name == claim.id and name.startswith(f"{claim.family}.") and " " not in name
        assert claim.form in FORMS and claim.kind in CLAIM_KINDS
        in_words = claim.kind in ("sentence", "finding")
        assert claim.kind == claim.published["kind"] if claim.published else in_words
        assert claim.sentence and claim.where and (claim.row, claim.metric) in sides(claim)
        assert (claim.form == "value") == bool(claim.published) == (not claim.chains)
        assert all(len(chain) > 1 for chain in claim.chains)
    assert {claim.form for claim in CLAIMS.values()} == set(FORMS)
    kinds = {claim.kind for claim in CLAIMS.values()}
    assert set(CLAIM_KINDS) == {*KINDS, "sentence", "finding"} == kinds
    assert "MiniLM" in CLAIMS["subnetworks.pretraining_makes_modules"].caveat
    assert "epoch 99" in CLAIMS["kernels.addition_cifar_vit.extrapolation_d_0_slope"].caveat
    assert not CLAIMS["kernels.addition_cifar_resnet.extrapolation_d_0_slope"].caveat
    assert set(PUBLISHED) == {claim.family for claim in CLAIMS.values()}


@pytest.fixture(scope="module")
def entries():
    """The record, by family."""
    return {family: report.entries(family) for family in PUBLISHED}


def is_of_a_part(config, metric):
    """Whether a row of several parts has the one that a metric is named after."""
    parts = config.get("parts", {})
    return not parts or "/" not in metric or any(metric.startswith(f"{name}/") for name in parts)


@pytest.mark.parametrize("family", PUBLISHED)
def test_every_claim_has_a_row_and_a_metric(family, entries):
    """Rows of the config file at the claim's size; metrics of the record or of `published`.

    Where a part of a row was never run, its metric is one of another row or part.
    """
    module = configs.load_file(family)
    rows = {row["name"] for row in module.describe_rows()}
    metrics = collections.defaultdict(set)
    for entry in entries[family]:
        metrics[entry["row"]] |= set(entry["metrics"])
    for row, found in PUBLISHED[family].items():
        metrics[row] |= set(found)
    known = {at_any_distance(name) for names in metrics.values() for name in names}
    papers = {}
    for claim in (claim for claim in CLAIMS.values() if claim.family == family):
        for row, metric in sides(claim):
            assert row in rows, claim.id
            if row not in papers:
                papers[row] = module.get_config(f"{row},{claim.size}")
            if metric not in metrics[row]:
                part, _, name = metric.rpartition("/")
                assert part in papers[row].get("parts", {"": None}), claim.id
                assert at_any_distance(name) in known, claim.id
        for places in [[side] for side in sides(claim) if side not in claim.places] + [
            list(claim.places)
        ]:
            assert not places or any(is_of_a_part(papers[row], name) for row, name in places), claim
        for key, value in claim.overrides:
            choices = papers[claim.row].data[key.removeprefix("data.")]
            assert (int(value) if value.isdigit() else value) in choices, claim.id


def test_what_is_claimed_in_words_holds_for_the_papers_own_numbers():
    """Where it has numbers for both sides."""
    n = 0
    for claim in CLAIMS.values():
        for chain in claim.chains:
            numbers = [
                PUBLISHED[claim.family].get(side[0], {}).get(side[1], {}).get("mean")
                if isinstance(side, tuple)
                else side
                for side in chain
            ]
            for left, right in zip(numbers, numbers[1:]):
                if None not in (left, right) and claim.family != "resistance":
                    assert _holds(claim, left, right), (claim.id, chain)
                    n += 1
    assert n > 80


def _holds(claim, left, right):
    if claim.form != "equal":
        return left > right
    allowed = dict(claim.allowed)
    if "factor" in allowed:
        return 1 / allowed["factor"] < left / right < allowed["factor"]
    return verdicts.equal(left, right, tolerance=allowed.get("tolerance")).word == "match"


# --- how claims stand -----------------------------------------------------------------------------


@pytest.fixture
def record(tmp_path):
    """Writes entries of a record of our own: (flag, {metric: values}, changes, label)."""

    def add(flag, metrics, label="", claims=None, parts="", **changes):
        config = configs.load(flag, changes)
        config = configs.some_parts(config, parts) if parts else config
        n = len(next(iter(metrics.values())))
        if "train" in config:
            config.train.seeds = tuple(range(n))
        entry = {"family": config.family, "row": config.row, "size": config.size, "label": label}
        entry["metrics"] = {
            name: summary(values, range(len(values)), None) for name, values in metrics.items()
        }
        entry |= {"config": config.to_dict(), "claims": claims or []}
        folder = tmp_path / config.family
        folder.mkdir(exist_ok=True)
        name = "-".join(filter(None, (config.row, config.size, label)))
        (folder / f"{name}.json").write_text(json.dumps(entry))

    add.folder = tmp_path
    return add


def word(record, name):
    (found,) = standings.standings(record.folder, [CLAIMS[name]])
    return found.word


FIVE = "sprites.orthogonal_compositional.r2_all"


def test_a_value_stands_by_the_best_run(record):
    assert word(record, FIVE) == "not run"
    record("sprites:orthogonal_compositional,fast", {"r2_all": [0.9, 0.91, 0.9]})
    assert word(record, FIVE) == "no verdict at this size"
    record("sprites:orthogonal_compositional,paper", {"r2_all": [0.951]})
    assert word(record, FIVE) == "underpowered"
    two = {"r2_all": [0.951, 0.95]}  # 5 % of 1 - R2 are 0.0025, and two seeds are wider
    record("sprites:orthogonal_compositional,paper", two, label="two")
    assert word(record, FIVE) == "underpowered"
    three = {"r2_all": [0.951, 0.9508, 0.9509]}
    record("sprites:orthogonal_compositional,paper", three, label="three")
    assert word(record, FIVE) == "match"
    four = {"r2_all": [0.5, 0.51, 0.5, 0.51]}
    record("sprites:orthogonal_compositional,paper", four, label="four")
    assert word(record, FIVE) == "no match"


def test_a_seed_without_a_number_is_seen(record):
    values = {"r2_all": [0.951, 0.9508, float("nan")]}
    record("sprites:orthogonal_compositional,paper", values)
    assert word(record, FIVE) == "not finite"
    record("sprites:orthogonal_compositional,paper", {"r2_all": [float("nan")]}, label="one")
    assert word(record, "sprites.monolithic_fails_outside") == "not run"
    record("sprites:orthogonal_monolithic,paper", {"r2_all": [float("nan")]})
    assert word(record, "sprites.monolithic_fails_outside") == "not finite"
    # Bases that did not learn the rule, or have no valid mask, do not count.
    name = "subnetworks.number_contact.resnet50_number_sub_target_selected"
    record("subnetworks:number_contact,paper", {CLAIMS[name].metric: [float("nan"), 0.99, 0.991]})
    (standing,) = standings.standings(record.folder, [CLAIMS[name]])
    assert standing.word == "match"
    words = "2 of 3 seeds: bases with an accuracy of 0.9 and a valid mask"
    assert standings.counted(standing) == words
    failed = {CLAIMS[name].metric: [float("nan")] * 4}  # of more seeds, none of which learned it
    record("subnetworks:number_contact,paper", failed, label="failed")
    assert word(record, name) == "match"


def test_an_underpowered_claim_says_how_many_seeds_would_decide(record):
    values = {"r2_all": [0.951, 0.948, 0.954]}
    record("sprites:orthogonal_compositional,paper", values)
    (standing,) = standings.standings(record.folder, [CLAIMS[FIVE]])
    assert standing.word == "underpowered"
    assert f"about {standing.verdict.seeds} seeds would decide" in standings.comparison(standing)
    record("sprites:orthogonal_compositional,paper", {"r2_all": [0.951]})
    (standing,) = standings.standings(record.folder, [CLAIMS[FIVE]])
    assert "half-width ∞" in standings.comparison(standing)


def test_a_changed_run_is_not_that_of_the_paper(record):
    values = {"r2_all": [0.951, 0.95]}
    record("sprites:orthogonal_compositional,paper", values, **{"optim.lr": "0.002"})
    assert word(record, FIVE) == "no verdict at this size"


def test_of_many_tasks_and_distances_one_will_do(record):
    name = "kernels.addition_mnist.extrapolation_d_20_slope"
    changes = dict(CLAIMS[name].overrides)
    values = {"extrapolation, d=20: slope": [0.78, 0.77, 0.775]}
    record("kernels:addition_mnist,fast", values, **changes)
    assert word(record, name) == "match"


def test_a_number_that_two_rows_show(record):
    name = "kernels.addition_rich.interpolation_sigma_1_slope"
    assert len(CLAIMS[name].places) == 2
    record("kernels:demo", {"addition/interpolation, sigma 1: slope": [0.85, 0.84]})
    assert word(record, name) != "not run"


def test_runs_that_the_paper_leaves_out(record):
    name = "sprites.orthogonal_rgba.r2_all"
    values = {"r2_all": [0.979, -0.06, 0.979], "r2_all (alive)": [0.979, 0.979]}
    record("sprites:orthogonal_rgba,paper", values)
    assert word(record, name) == "match"
    record("sprites:orthogonal_rgba,paper", {"r2_all": [-0.06, -0.06], "r2_all (alive)": []})
    assert word(record, name) == "not finite"  # it ran, and no seed lived


def test_closed_forms_have_no_width(record):
    name = "kernels.partial.invariance_k_0.25"
    record("kernels:partial", {"invariance, k=0.25": [1 / 3], "partial exposure, k=0.25": [0.143]})
    assert word(record, name) == "match"
    assert word(record, "kernels.partial_exposure_is_harder") == "match"
    record("kernels:partial", {"invariance, k=0.25": [0.34]})
    assert word(record, name) == "no match"


def test_an_ordering_over_two_rows(record):
    name = "sprites.only_compositional_carries_over"
    record("sprites:orthogonal_compositional,paper", {"r2_all": [0.95, 0.951]})
    assert word(record, name) == "not run"
    record("sprites:orthogonal_monolithic,fast", {"r2_all": [-0.5, -0.51]})
    assert word(record, name) == "no verdict at this size"
    record("sprites:orthogonal_monolithic,paper", {"r2_all": [-0.5, -0.51]})
    assert word(record, name) == "match"
    record("sprites:orthogonal_monolithic,paper", {"r2_all": [0.98, 0.981]})
    assert word(record, name) == "no match"
    assert word(record, "sprites.monolithic_fails_outside") == "no match"


def test_errors_over_orders_of_magnitude_are_compared_by_ratio(record):
    name = "bumps.stripes_in_embeddings_compose"
    free, stripes = (metric for _, metric in CLAIMS[name].chains[0])
    # A single large error makes the difference unsure, and not the ratio.
    record("bumps:B8,paper", {free: [6e-3, 7e-3, 4e-2], stripes: [3e-4, 1e-4, 2e-4]})
    assert word(record, name) == "match"
    record("bumps:B8,paper", {free: [6e-3, 7e-3, 4e-2], stripes: [3e-2, 1e-3, 2e-4]})
    assert word(record, name) == "underpowered"


def test_no_difference_is_judged_by_the_same_rule(record):
    name = "kernels.inside_or_outside_is_alike"
    inside, outside = (metric for _, metric in CLAIMS[name].chains[0])
    changes = {"data.distances": "0"}

    def add(task, metric, values):
        changed = changes | {"data.tasks": f"addition_{task}"}
        record("kernels:addition_mnist,fast", {metric: values}, label=task, **changed)

    add("interpolation", inside, [0.65, 0.655, 0.66])
    assert word(record, name) == "not run"
    add("both", outside, [0.66, 0.655, 0.65])
    assert word(record, name) == "match"
    add("both", outside, [0.69, 0.685, 0.68])  # 0.03 apart, and 0.011 wide; 5 % are 0.034
    assert word(record, name) == "underpowered"
    add("both", outside, [0.76, 0.755, 0.75])
    assert word(record, name) == "no match"


def test_no_difference_by_a_factor_and_by_a_tolerance_of_its_own(record):
    name = "kernels.known_sums_do_not_mind_distance"
    tasks = ("extrapolation", "interpolation", "both", "asymmetric")
    for last, expected in ((2.1, "match"), (3.0, "no match")):
        for task in tasks:
            far = [last, last * 1.01, last * 0.99] if task == "both" else [1.9, 1.95, 1.85]
            values = {f"{task}, d=0: in mse": [2.0, 2.02, 1.98], f"{task}, d=20: in mse": far}
            changes = {"data.tasks": f"addition_{task}", "data.distances": "(0,20)"}
            record("kernels:addition_mnist,fast", values, label=task, **changes)
        (found,) = standings.standings(record.folder, [CLAIMS[name]])
        assert found.word == expected and "logarithms" in found.note
    name = "subnetworks.random_resnets_hold_no_modules"
    for rule, subroutines in (
        ("inside_contact", ("inside", "contact")),
        ("inside_number", ("inside", "number")),
        ("number_contact", ("number", "contact")),
    ):
        values = {
            f"random_weights/{one}: abl_diff, selected": [0.05, 0.04, 0.06] for one in subroutines
        }
        record(f"subnetworks:{rule},paper", values)
    assert word(record, name) == "match"


def test_a_failed_base_is_left_out_where_the_paper_leaves_one_out(record):
    name = "subnetworks.inside_contact.resnet50_base_test_accuracy"
    metric = "resnet50/base: test accuracy"
    values = {metric: [1.0, 1.0, 0.756], f"{metric} (alive)": [1.0, 0.999]}
    record("subnetworks:inside_contact,paper", values, parts="resnet50")
    assert word(record, name) == "match"


def test_a_run_of_the_fixed_configuration_decides_its_claims_only(record):
    """A subset of the configurations decides nothing: its selection is not the paper's."""
    name = "subnetworks.anaphora_plural.scratch_pronoun_sub_target"
    values = {"scratch/pronoun: sub target": [1.0, 1.0, 0.999]}
    keys = {"masks.s0s": "(0.05,)", "masks.lrs": "(0.01,)", "masks.layers": "(0,)"}
    keys = {f"parts.scratch.{key}": value for key, value in keys.items()}
    record("subnetworks:anaphora_plural,paper", values, parts="scratch", **keys)
    assert word(record, name) == "match"
    assert word(record, f"{name}_selected") == "not run"
    values = {f"{metric}, selected": numbers for metric, numbers in values.items()}
    del keys["parts.scratch.masks.lrs"]
    record("subnetworks:anaphora_plural,paper", values, parts="scratch", label="some", **keys)
    assert word(record, f"{name}_selected") == "no verdict at this size"


def test_orderings_of_one_row_are_a_family(record):
    """What one comparison alone would show, four have to show after Holm."""
    name, seeds = "resistance.plane.a_uses_x_2_more", range(6)
    close = {"A: S_2": [0.08, 0.06, 0.07, 0.05, 0.09, 0.04], "control: S_2": [0.045] * 6}
    record("resistance:plane", close)
    (standing,) = standings.standings(record.folder, [CLAIMS[name]])
    assert standing.word == "match" and "Holm" not in standing.note
    assert standing.ours == pytest.approx(0.065) and standing.against == pytest.approx(0.045)
    for metric in ("early train accuracy", "test accuracy", "interventional information"):
        close |= {f"{side}: {metric}": [0.1 * (i % 3) for i in seeds] for side in ("A", "control")}
    record("resistance:plane", close)
    (standing,) = standings.standings(record.folder, [CLAIMS[name]])
    assert standing.word == "underpowered" and "among 4 comparisons (Holm)" in standing.note
    assert f"about {standing.verdict.seeds} seeds would decide" in standings.comparison(standing)
    assert 6 < standing.verdict.seeds < 20


def test_seeds_are_for_the_orderings_that_are_corrected_together(record):
    """Equalities of the row have no p, so that Holm's correction does not count them."""
    claim = CLAIMS["coverage.two_blocks_of_addition_stay_apart"]
    family = [c for c in CLAIMS.values() if (c.family, c.row) == ("coverage", "addition")]
    n = sum(other.form not in ("value", "equal") for other in family)
    assert n < sum(other.form != "value" for other in family)
    values = [0.5, 0.9, 0.7, 0.6]
    metrics = {side[1] for chain in claim.chains for side in chain if isinstance(side, tuple)}
    record("coverage:addition,fast", dict.fromkeys(metrics, values))
    (found,) = standings.standings(record.folder, [claim])
    expected = verdicts.above(0.8, values, comparisons=n)
    assert {verdict.seeds for *_, verdict in found.parts} == {expected.seeds}


def test_what_is_of_the_published_scale():
    paper = configs.load("sprites:diagonal,paper")
    assert configs.is_published(paper) and configs.is_published(paper, "configs/sprites.py")
    assert configs.is_published(configs.load("sprites:diagonal,paper", {"train.seeds": "0,1"}))
    assert not configs.is_published(configs.load("sprites:diagonal,fast"))
    assert configs.is_published(configs.load("kernels:leak"))  # as published at every size
    assert not configs.is_published(configs.load("kernels:leak,smoke"))
    some = configs.some_parts(configs.load("kernels:cd_deep,paper"), "depth_2")
    assert configs.is_published(some)
    longer = configs.load("kernels:cd_deep,paper", {"parts.depth_2.optim.stop": "1e-1"})
    assert not configs.is_published(longer)  # a key that the paper's part leaves to the row
    assert not configs.is_published(configs.load("kernels:addition_mnist"))
    with pytest.raises(BadInput):
        configs.load("sprites:none_such,paper")


@pytest.fixture(scope="module")
def of_record():
    """How every claim stands by the record, by name."""
    return {one.claim.id: one for one in standings.standings()}


def test_the_record_as_it_is(of_record):
    """Every claim has a standing, and those that a person may look up first are what they are."""
    words = {standing.word for standing in of_record.values()}
    assert list(of_record) == list(CLAIMS) and words >= set(standings.WORDS) - {"not finite"}
    assert of_record["kernels.leak.slope_p_1_s_0.30"].word == "match"
    assert of_record["sprites.random_monolithic.r2_all"].word == "no verdict at this size"
    assert all(standing.runs for standing in of_record.values() if standing.word != "not run")
    assert set(experiments.FAMILIES) >= {claim.family for claim in CLAIMS.values()}


def test_kinds_are_told_apart(of_record):
    """Formulas that are compared with themselves, and what others computed, by number."""
    counts = collections.Counter(
        standing.claim.kind for standing in of_record.values() if standing.claim.family == "kernels"
    )
    assert counts["formula"] == 127 and counts["recomputed"] == 39 and "printed" not in counts
    matched = [one for one in of_record.values() if one.claim.kind == "formula"]
    assert all(standing.word == "match" for standing in matched)


def test_small_numbers_have_small_tolerances(of_record):
    """Except where a difference has a range, or the paper's number is not known as well."""
    small = [
        standing
        for standing in of_record.values()
        if standing.claim.published
        and 0 < abs(standing.claim.number) < 0.1
        and standing.verdict
        and not {"factor", "scale", "tolerance"} & set(standing.claim.published)
    ]
    assert len(small) > 60
    for standing in small:
        error = verdicts.published_error(standing.claim.published)
        number = abs(standing.claim.number)
        assert standing.verdict.tolerance <= max(0.05 * number, 2 * error)


def test_computations_need_no_seeds(of_record):
    of_support = [
        standing
        for standing in of_record.values()
        if standing.claim.family == "support" and standing.claim.kind != "finding"
    ]
    assert len(of_support) == 76
    assert {standing.word for standing in of_support} <= {"match", "no match"}


def test_every_mismatch_has_a_cause_and_an_experiment(of_record):
    for standing in of_record.values():
        if standing.word == "no match":
            cause, experiment = standings.causes(standing)
            kinds = ("settings: ", "published: ", "chance: ", "unknown: ")
            assert cause[1].startswith(kinds) and experiment[1], standing.claim.id
        else:
            assert not standings.causes(standing)
    for family, module in MODULES.items():
        for key in getattr(module, "CAUSES", {}):
            assert any(name.startswith(f"{family}.{key}") for name in CLAIMS), (family, key)


def test_the_readme_of_published_is_up_to_date():
    """After a change of the record or of the rule: python -m cgjax.report --readme."""
    text = readme.PUBLISHED.read_text()
    assert text == readme.fill_published() and len(text.splitlines()) <= 120


def test_every_interval_and_test_is_near_its_level_or_says_what_it_is():
    """The table that `python -m cgjax.bench coverage` writes."""
    lines = coverage.recorded()
    assert [line[:3] for line in lines] == [
        [row.what, row.where, row.case] for row in coverage.ROWS
    ]
    for row, (*_, covered, size, words) in zip(coverage.ROWS, lines, strict=True):
        share = float(covered or size)
        assert bool(covered) == (row.kind == "coverage") and bool(size) == (row.kind == "size")
        assert coverage.is_within(row, share) or words == row.words != "", row


# One row of the intervals of tau-b is enough by default: the function is the same.
ALIKE = ("19 pairs, correlation 0.7", "40 pairs, correlation 0.5")


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row, marks=[pytest.mark.slow] * (row.case in ALIKE), id=f"{row.what}, {row.case}"
        )
        for row in coverage.ROWS
    ],
)
def test_the_recorded_levels_are_repeated(row):
    """By fewer studies, within five standard errors of both."""
    line = coverage.recorded()[coverage.ROWS.index(row)]
    share, n = float(line[3] or line[4]), 120
    error = (max(share * (1 - share), 0.01) * row.costs / n) ** 0.5
    assert coverage.measured(row, n) == pytest.approx(share, abs=5 * error)
