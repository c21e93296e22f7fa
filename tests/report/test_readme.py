"""Sentences of READMEs that a changed record would make false, and the fields of templates."""

import re

import numpy as np
import pytest
import scipy.stats

from cgjax import report
from cgjax.core.errors import BadInput
from cgjax.experiments.bumps import readme as bumps
from cgjax.experiments.kernels import readme as kernels
from cgjax.experiments.resistance import readme as resistance
from cgjax.experiments.sprites import readme as sprites
from cgjax.experiments.subnetworks import readme as subnetworks
from cgjax.published import PUBLISHED
from cgjax.published import kernels as published_kernels
from cgjax.published.claims import CLAIMS
from cgjax.published.questions import QUESTIONS
from cgjax.report import readme, standing


def test_a_table_aligns_columns_of_numbers():
    rows = [("row", "n", "every seed"), ("a", "+0.1 ± 0.2", "0.1, 0.2"), ("b", "-", "not run")]
    assert readme.markdown(rows).splitlines() == [
        "| row | n | every seed |",
        "|---|---:|---|",
        "| a | +0.1 ± 0.2 | 0.1, 0.2 |",
        "| b | - | not run |",
    ]
    with pytest.raises(ValueError):
        readme.markdown([("a", "b"), ("1", "2"), ("1",)])


def test_fields_of_studies_and_published_numbers():
    assert readme.field("sprites", "study speed step_ms/monolithic .2f") == "1.35"
    number = PUBLISHED["subnetworks"]["vit"]["number_contact/base: validation accuracy"]["mean"]
    words = "paper vit number_contact/base: validation accuracy .3f"
    assert readme.field("subnetworks", words) == f"{number:.3f}"
    for words in ("study speed step_ms/none .2f", "study none a .2f", "paper vit none .3f"):
        with pytest.raises(BadInput, match="there is no 'none'"):
            readme.field("subnetworks" if "paper" in words else "sprites", words)
    assert readme.field("vectors", "range mlp_*-paper block_contrast .2f") == "8.02 to 12.51"
    with pytest.raises(BadInput, match="files, metrics, format"):
        readme.field("vectors", "range mlp_*-paper nothing* .2f")
    missing = readme.field("subnetworks", "not recorded")
    assert "`balanced`" in missing and "`scale`" not in missing


def test_the_front_has_the_numbers_of_predicts_readme():
    """Over the pairs of all rows, each tau with its own number of pairs."""
    text = readme.field("", "table predict/front")
    tau, interval, pairs = re.search(r"tau (\S+) (\(.*?\)) on (\d+) pairs", text).groups()
    page = (readme.folders()["predict"] / "README.md").read_text()
    assert (
        f"*tangent* {tau} {interval}" in page and f"| tangent | start | {pairs} | {tau} |" in page
    )
    with pytest.raises(BadInput, match="no table 'back' of predict: there are .*front"):
        readme.field("", "table predict/back")


def test_how_many_seeds_would_show_that_one_program_loses_fewer():
    n = sprites._seeds_without_a_lost_one(2, 10)
    p_of = [scipy.stats.fisher_exact([[2, 8], [0, m]]).pvalue for m in (n - 1, n)]
    assert p_of[1] < 0.05 <= p_of[0]
    assert "takes 609 seeds" in sprites.broad_many([], report.studies("sprites"))


def test_the_sprites_readme_says_how_many_sentences_are_decided():
    """The root README says that the first sentence has no verdict."""
    text = readme.field("sprites", "sentences")
    claims = [c for c in CLAIMS.values() if (c.family, c.kind) == ("sprites", "sentence")]
    decided = [
        each.claim.id
        for each in standing.standings(claims=claims)
        if each.word in ("match", "no match")
    ]
    assert text.startswith(f"{len(decided) or 'none'} of the paper's {len(claims)} sentences")
    assert "sprites.only_compositional_carries_over" not in decided


def test_intervals_of_ablations_count_the_bases_of_both_sides():
    """The release's bases scatter too: an interval of ours alone would exclude zero."""
    record, cell = report.entries("subnetworks"), ("agreement_plural", "subject")
    values = subnetworks.ours(record, cell, "scratch", "abl_diff")["values"]
    theirs = PUBLISHED["subnetworks"][cell[0]][f"scratch/{cell[1]}: abl_diff"]
    gap, width = subnetworks.difference(record, cell, "scratch")
    errors = np.var(values, ddof=1) / len(values), theirs["sd"] ** 2 / theirs["n"]
    degrees = sum(errors) ** 2 / (errors[0] ** 2 / (len(values) - 1) + errors[1] ** 2 / 2)
    assert gap == pytest.approx(np.mean(values) - theirs["mean"])
    assert width == pytest.approx(scipy.stats.t.ppf(0.975, degrees) * np.sqrt(sum(errors)))
    assert subnetworks.excluded(record, {}).startswith("None of the 10 intervals")


def test_low_seeds_occur_with_a_shorter_memory_too():
    text = sprites.shorter_memory([], report.studies("sprites"))
    assert text.startswith("3 of 24 seeds in 3 runs end low")


def test_low_seeds_at_the_published_length_have_a_bright_background():
    """The README says so, and that `fast` differs."""
    record, studies = report.entries("sprites"), report.studies("sprites")
    seeds = [s for s in sprites._seeds_at_paper(record) if s["row"] != "diagonal_narrow"]
    bright = [seed["background"] > sprites.LARGEST_LEAK for seed in seeds]
    low = [seed["is_low"] for seed in seeds]
    assert bright == low and sum(low) >= 7 and len(low) >= 30
    assert len(sprites.low_at_paper(record, studies)) == 1 + sum(low)
    assert re.match("5 of 1[0-9] low .* and 0 of", sprites.backgrounds_at_fast(record, studies))
    (model,) = sprites._at_paper(record, "diagonal_broad")["models"].values()
    losses = model["curve"][0]  # of seed 0, means of ten epochs
    assert losses[2] > 2 * min(losses[:2])
    s = np.linspace(-5, 0, 5001)
    assert s[np.argmin(s / (1 + np.exp(-s)))] == pytest.approx(sprites.LARGEST_LEAK, abs=0.005)


def losses_at_paper(row):
    """seed -> its losses at the published length, means of ten epochs."""
    run = sprites._at_paper(report.entries("sprites"), row)
    (model,) = run["models"].values()
    assert model["curve_epochs"] == 10
    return dict(zip(run["config"]["train"]["seeds"], map(np.array, model["curve"])))


def test_one_seed_of_the_papers_diagonal_is_low_and_rows_are_counted():
    record = report.entries("sprites")
    scores = PUBLISHED["sprites"]["diagonal"]["r2_all"]["values"]
    assert sum(r2 < sprites._least_at_paper(record)["diagonal"] for r2 in scores) == 1
    n_left = len(PUBLISHED["sprites"]) - len(sprites._least_at_paper(record))
    assert sprites.rows_left(record, {}).startswith(f"{n_left} of the 12 rows")


def test_low_seeds_of_planes_are_apart_from_a_jump_on():
    seeds = sprites._seeds_at_paper(report.entries("sprites"))
    low = [seed for seed in seeds if seed["is_low"] and seed["row"].startswith("orthogonal_")]
    assert len(low) >= 4
    for seed in low:
        losses = losses_at_paper(seed["row"])[seed["seed"]]
        first = seed["apart_from"] // 10
        assert losses[first : first + 2].max() > 1.15 * losses[first - 1]
    # Others return, when their loss falls by a fifth or more within three means.
    for row, jump, back in (("orthogonal_normal", 36, 55), ("orthogonal_compositional", 7, 17)):
        losses = losses_at_paper(row)
        assert losses[3][jump - 1 : jump + 1].max() > 1.3 * losses[3][jump - 2]
        assert losses[3][back] < 0.8 * losses[3][back - 3]
        assert losses[3][back + 10] < 1.15 * losses[2][back + 10]


def test_when_seeds_near_the_diagonal_leave_the_upper_curve():
    losses = losses_at_paper("diagonal")
    upper = losses[2]  # never leaves it
    assert losses[3][9] < 0.92 * upper[9]
    for seed, epoch in ((4, 740), (1, 1120)):
        assert np.all(losses[seed][20 : epoch // 10] > 0.95 * upper[20 : epoch // 10])
        falls = losses[seed][21:] / losses[seed][20:-1]
        assert abs(10 * (np.argmin(falls) + 22) - epoch) <= 40
        assert losses[seed][-1] < 0.85 * upper[-1]


def test_fields_that_are_flat_compose_and_others_do_not():
    text = bumps.networks(report.entries("bumps"), {})
    assert "343 have learned ID" in text and "their OOD nMSE is 0.88 or more" in text
    assert "none of those of rank one by construction" in text
    values = bumps.metrics_of(report.entries("bumps"), "flatness")
    assert max(values["rank_1/reached id nmse 0.05"]["values"]) == 0
    assert "9.7†" in readme.markdown(bumps.flatness_table(report.entries("bumps"), {}))


def test_how_often_pairs_of_the_test_occur_in_training():
    record = report.entries("resistance")
    assert [resistance.occurrences(share)(record, {}) for share in (0.9, 0.99)] == ["13", "1.3"]
    # "early" and "late" are other steps of the plane than of the digits.
    for part, early, late in (("plane", "0 to 8", "16 to 256"), ("digits", "0 to 20", "40 to 200")):
        words = [resistance.steps(when, part)(record, {}) for when in ("early", "late")]
        assert words == [early, late]
        assert all(f"steps {when} {part}" in resistance.TABLES for when in ("early", "late"))


def test_every_answer_to_an_open_question_is_a_finding_that_the_record_matches():
    """Each sentence of the root README's table, by the standings that `reproduce` prints."""
    findings = [claim for claim in CLAIMS.values() if claim.kind == "finding"]
    words = {each.claim.id: each.word for each in standing.standings(claims=findings)}
    for text, ids in (sentence for _, _, sentences in QUESTIONS for sentence in sentences):
        verdicts = {words[name] for name in ids}
        is_small = "default size" in text and verdicts == {"no verdict at this size"}
        assert text.endswith(".") and (is_small or verdicts == {"match"}), (text, verdicts)
        # A number is of a run that judges one of the sentence's findings.
        rows = {f"{CLAIMS[name].family}/{row}" for name in ids for row in CLAIMS[name].rows}
        fields = re.findall(r"\{\{(\S+?)-(?:default|fast|paper)(?:-\S+)? ", text)
        assert set(fields) <= rows and text.count("{{") == len(fields), text


def test_the_cause_of_the_half_height_bars_is_that_of_the_record():
    """The cause states what the tables of the kernels README compute."""
    record = report.entries("kernels")
    bars, (cause, experiment) = kernels.halved_bars(record, {}), published_kernels.HALF_AS_LARGE
    assert kernels.heights(record, {}) in cause and bars in cause
    assert "0 do not match" in bars
    others = re.findall(r"(\d+) do not match", kernels.bars_of_other_settings(record, {}))
    assert f"{' and '.join(others)} do not match" in experiment and "0" not in others


def test_settings_with_another_loss_are_not_a_rows_numbers():
    metric = {"ours": 1.0, "values": [1.0]}
    run = {"row": "cd_deep", "metrics": {"a": metric}}
    runs = [run | {"label": label} for label in ("cross_entropy", "loss_0.01")]
    assert kernels.metrics_of(runs, "cd_deep") == {}
    assert kernels.metrics_of([*runs, run | {"label": ""}], "cd_deep") == {"a": metric}
