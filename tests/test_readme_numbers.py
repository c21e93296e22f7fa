"""Numbers in the READMEs' sentences, held against the record: a sentence is written from it anew.

A case is a README, a sentence with {} for its numbers, and where in the record each one stands:
"<file> <metric>", followed by " paper", " difference", " sd", " %" (the number in per cent),
" e-3" (in thousandths), " [i]" for one seed, " least", " median" or " most" of all seeds.
"""

import pathlib
import re

import numpy as np
import pytest

from cgjax import experiments, report
from cgjax.analysis import stats
from cgjax.core.workdir import read_json
from cgjax.experiments.across import answers

ROOT = pathlib.Path(__file__).parent.parent
SPRITES, SUPPORT, KERNELS, BUMPS, RESISTANCE, SUBNETWORKS = (
    ROOT / "cgjax" / "experiments" / folder / "README.md"
    for folder in ("sprites", "sprites/support", "kernels", "bumps", "resistance", "subnetworks")
)
FRONT = ROOT / "README.md"
VECTORS = ROOT / "cgjax" / "experiments" / "vectors" / "README.md"
ACROSS = ROOT / "cgjax" / "experiments" / "across" / "README.md"
PAPERS = "across/demo-default"
CONTROL_STARTS = ("1, biases 0", "2, biases 0", "3, biases 0", "2, biases 1", "3, biases 1")
REMEDY = "lam_entropy 0.1 + vec_variance 0.01"
DONUT, STRIPED = "donut_6_22, stripes x0", "donut_6_22, stripes x1"


VECTOR_MODELS = {
    "compositional": "a network per part", "mlp": "one network",
    "regularised": "one network, regularised",
}  # fmt: skip
AGREEMENT, CONTACT = ("subject", "verb"), ("contact", "number")
NUMBERS = ("singular", "plural")
SLOPES = ("slope", "predicted slope, kernel")
ADDITION = ("extrapolation", "asymmetric", "interpolation", "both")


def number(path: str) -> float:
    """The recorded number that a path names."""
    file, _, rest = path.partition(" ")
    entry = read_json(report.RECORD / f"{file}.json")
    if rest.startswith("background"):
        (model,) = entry["models"].values()
        return model["front_background"][int(rest.partition(" ")[2] or 0)]
    metric, _, which = rest.rpartition(" ")
    found = entry["metrics"]
    if rest in found:
        return found[rest]["ours"]
    found = found[metric.removesuffix(" own")]
    if which == "e-3":
        return 1000 * found["ours"]
    if which == "%":
        return 100 * found["ours"]
    if which == "sd" and metric.endswith(" own"):
        return found["sd"]
    if which == "difference":
        return found["ours"] - found["paper"]
    if which.startswith("["):
        return found["values"][int(which[1:-1])]
    if which in ("least", "median", "most"):
        return {"least": min, "median": np.median, "most": max}[which](found["values"])
    return found[{"paper": "paper", "sd": "paper_sd"}[which]]


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def rows(pattern: str, names, metric: str) -> list[str]:
    return [f"{pattern.format(name)} {metric}" for name in names]


SENTENCES = [
    (
        ACROSS,
        "support has tau {:+.2f} ({:+.2f} to {:+.2f}), masks {:+.2f} ({:+.2f} to {:+.2f}), tangent "
        "{:+.2f} ({:+.2f} to {:+.2f}), dependence {:+.2f} ({:+.2f} to {:+.2f}), factorization "
        "{:+.2f} ({:+.2f} to {:+.2f})",
        [
            f"{PAPERS} {theory}: tau{end}"
            for theory in ("support", "masks", "tangent", "dependence", "factorization")
            for end in ("", ", low", ", high")
        ],
    ),
    (
        ACROSS,
        "that of support and factorization ({:+.2f}, from {:+.2f} to {:+.2f})",
        [f"{PAPERS} support less factorization: tau{end}" for end in ("", ", low", ", high")],
    ),
    (
        ACROSS,
        "Dependence and masks order their {:.0f} common pairs most alike ({:+.2f}), then support "
        "and factorization theirs ({:.0f}, {:+.2f}); tangent and masks have {:.0f} in common, and "
        "hardly anything else ({:+.2f})",
        [
            f"{PAPERS} {both}: {what}"
            for both in ("dependence and masks", "support and factorization", "tangent and masks")
            for what in ("pairs", "tau")
        ],
    ),
    (
        ACROSS,
        "{:.3f}, {:.3f} and {:.2f} on CD-1, CD-3 and equivalence, and they are {:.3f}, {:.3f} and "
        "{:.2f}; of the rich ones {:.2f} on equivalence, which they solve ({:.4f}), and {:.2f} on "
        "CD-3, where they do worse ({:.2f})",
        [
            *(f"{PAPERS} kernels_lazy_{task}: {column}" for column in ("tangent", "error")
              for task in ("cd_1", "cd_3", "te_2_2")),
            *(f"{PAPERS} kernels_rich_{task}: {column}" for task in ("te_2_2", "cd_3")
              for column in ("tangent", "error")),
        ],
    ),
    (
        ACROSS,
        "(error {:.4f}), and without it they do not ({:.2f})",
        [f"{PAPERS} bumps_product{word}: error" for word in ("_flat", "")],
    ),
    (
        ACROSS,
        "the first update of the plain network asks more of X_2 in the control ({:.2f}) than in A "
        "({:.2f})",
        [f"{PAPERS} plane_plain_{setting}: dependence" for setting in ("control", "A")],
    ),
    (ACROSS, "err {:.2f} times as often as chance", [f"{PAPERS} plane_towers_A: error"]),
    (
        SUPPORT,
        "at {:.0f} % on `diagonal`, at {:.0f} % on `diagonal_narrow` and at {:.0f} % on "
        "`orthogonal_star`, which never shows what lies behind the front sprite's one place "
        "({:.0f} pixels)",
        [
            *rows("support/table-default {}/step_back",
                  ("diagonal", "diagonal_narrow", "orthogonal_star"), "%"),
            "support/table-default orthogonal_star/step_back failing pixels",
        ],
    ),
    (
        SUPPORT,
        "At delta 0.07, {:.0f} % of 64 values pass with 48 partners and {:.0f} % with 512; at 0.03 "
        "{:.0f} and {:.0f} %, at 0.2 {:.0f} and {:.0f} %",
        [
            f"support/partners-default delta {delta}, {n} partners %"
            for delta in (0.07, 0.03, 0.2)
            for n in (48, 512)
        ],
    ),
    (
        SUPPORT,
        "over the {:.0f} supports of the record (planes, diagonals of eight widths, six gaps, "
        "everything) the rank correlation with R2 on all combinations is {:.2f} for the share of "
        "identified values (tau-b, 95 % [{:.2f}, {:.2f}]), {:.2f} for the share of identified "
        "pixels ([{:.2f}, {:.2f}]), {:.2f} for the median singular value of the mean Jacobian "
        "([{:.2f}, {:.2f}])",
        [
            "support/predict-default supports",
            *(
                f"support/predict-default tau-b({name}, r2_all){end}"
                for name in ("values", "pixels", "sigma")
                for end in ("", ", 2.5 %", ", 97.5 %")
            ),
        ],
    ),
    (
        SUPPORT,
        "the length of training alone has {:.2f} ([{:.2f}, {:.2f}])",
        [
            f"support/predict-default tau-b(steps, r2_all){end}"
            for end in ("", ", 2.5 %", ", 97.5 %")
        ],
    ),
    (
        SUPPORT,
        "{:.0f}, {:.0f} and {:.0f} planes for two, three and four sprites",
        [f"support/design-default {n} slots planes" for n in (2, 3, 4)],
    ),
    (
        SUPPORT,
        "The relaxed condition holds at {:.0f} and {:.0f} % of them for the back sprite on "
        "`random` and `orthogonal`, for the front sprite at {:.0f} and {:.0f} %",
        [
            f"support/relaxed-default alpha, {slot}, {name}: relaxed %"
            for slot in ("back", "front")
            for name in ("random", "orthogonal")
        ],
    ),
    (
        SUPPORT,
        "With opacities beyond the clip's corners 0 and 1 it holds at {:.0f} % on `orthogonal`",
        ["support/relaxed-default alpha saturated, front, orthogonal: relaxed %"],
    ),
    (
        SUPPORT,
        "they are at least 1 at {:.0f} and {:.0f} % of a sprite's pixels and at most 0 at {:.1f} "
        "and {:.1f} % of the others; the relaxed condition at the trained front components fails "
        "at {:.1f} and {:.1f} % of all pixels and {:.1f} and {:.1f} % of a sprite's own",
        [
            f"support/opacity-default seed {seed}: {what} %"
            for what in ("sprite pixels with alpha >= 1", "other pixels with alpha <= 0",
                         "front, pixels that fail", "front, sprite pixels that fail")
            for seed in (1, 2)
        ],
    ),
    (
        SUPPORT,
        "the fit does not (root mean square {:.2f} of the images' deviation on the training "
        "planes, worst of 64 scenes {:.2f}, 0.1 asked for), nor do derivatives ({:.2f}, worst "
        "{:.2f})",
        [
            f"support/certificate-default {name}{worst}"
            for name in ("fit: the model fits f on P", "derivatives: the model fits df/dz on P")
            for worst in ("", ", worst")
        ],
    ),
    (
        FRONT,
        "compositional {:.3f} (five seeds, median; least {:.3f}; paper {:.3f}), monolithic {:.3f} "
        "(one seed; paper {:.3f})",
        [
            *(
                f"sprites/orthogonal_compositional-paper r2_all {which}"
                for which in ("median", "least", "paper")
            ),
            *(f"sprites/orthogonal_monolithic-paper r2_all{which}" for which in ("", " paper")),
        ],
    ),
    (
        FRONT,
        "3 seeds: slope of addition {:.3f} ({:.3f}); accuracy on new contexts {:.3f} ({:.3f}), and "
        "{:.3f} ({:.3f}) where the shortcut misleads",
        [
            f"kernels/{name}{who}"
            for name in (
                "addition_mnist-fast-ext_d0 extrapolation, d=0: slope",
                "cd_mnist-fast-cd1_d20 cd_1, d=20: comp accuracy",
                "cd_mnist-fast-cd3_d20 cd_3, d=20: comp accuracy",
            )
            for who in ("", " paper")
        ],
    ),
    (
        FRONT,
        "never shown {:.4f} ({:.4f}), with regularised embeddings {:.5f} ({:.5f}); 5 seeds",
        [
            f"bumps/B8-paper {name}: ood mse{who}"
            for name in ("no penalty", REMEDY)
            for who in ("", " paper")
        ],
    ),
    (
        FRONT,
        "gap of training and test {:.3f} with a redundant digit, {:.3f} without (20 seeds); SCAN's "
        '"jump" {:.4f} and {:.4f} (5 seeds)',
        [
            "resistance/mnist-paper A: gap", "resistance/mnist-paper B: gap",
            "resistance/scan-paper A: test accuracy, whole set",
            "resistance/scan-paper B: test accuracy, whole set",
        ],
    ),
    (
        FRONT,
        "R2 of a network per part {:.3f} ({:.2f}), {:.3f} ({:.2f}) and {:.3f} ({:.2f})",
        [
            f"vectors/compositional_{name}-paper r2_all{who}"
            for name in ("random", "diagonal", "orthogonal")
            for who in ("", " paper")
        ],
    ),
    (
        FRONT,
        "of one network for all {:.3f} ({:.2f}), {:.3f} ({:.2f}) and {:.3f} ({:.3f}), 20 seeds",
        [
            f"vectors/mlp_{name}-paper r2_all{who}"
            for name in ("random", "diagonal", "orthogonal")
            for who in ("", " paper")
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    "readme, sentence, paths", SENTENCES, ids=[plain(sentence)[:40] for _, sentence, _ in SENTENCES]
)
def test_a_sentence_says_what_the_record_holds(readme, sentence, paths):
    assert len(re.findall(r"{[^}]*}", sentence)) == len(paths)
    expected = sentence.format(*map(number, paths))
    assert expected in plain(readme.read_text()), expected


def judged(entry):
    """The paper's claims on a recorded run, by name."""
    return {one["claim"]: one for one in experiments.family("resistance").judged(entry)}


def resistance_runs(size):
    return {(entry["row"], entry["label"]): entry for entry in report.entries("resistance")
            if entry["size"] == size}  # fmt: skip


def searches(size):
    """Comparisons of SGD with guesses and walks, of different runs: rows share a start."""
    return {
        (one["ours"], one["against"]): one
        for (row, _), entry in resistance_runs(size).items()
        if row in ("control", "capacity")
        for one in judged(entry).values()
        if one["p"] is not None
    }


PUBLISHED_SPLITS = (
    ("anaphora_singular-fast-published_splits", "scratch", ("antecedent", "pronoun")),
    ("anaphora_singular-fast-published_splits", "scratch_minilm", ("antecedent", "pronoun")),
    ("anaphora_singular-fast-published_splits_pretrained", "pretrained", ("antecedent", "pronoun")),
    ("agreement_singular-fast-published_splits", "scratch", AGREEMENT),
    ("agreement_singular-fast-published_splits", "scratch_minilm", AGREEMENT),
    ("agreement_singular-fast-published_splits_pretrained", "pretrained", AGREEMENT),
    ("agreement_plural-fast-published_splits", "scratch", AGREEMENT),
    ("agreement_plural-fast-published_splits_minilm", "scratch_minilm", AGREEMENT),
    ("agreement_plural-fast-published_splits_pretrained", "pretrained", AGREEMENT),
    ("agreement_plural-fast-published_splits_pretrained_90", "pretrained", AGREEMENT),
)
RESNETS = (
    ("number_contact-fast-10000_problems", "resnet50", CONTACT),
    ("inside_contact-fast-10000_problems", "resnet50", ("inside", "contact")),
    ("wide-fast-10000_problems", "number_contact", CONTACT),
    ("simclr-fast-10000_problems", "number_contact", CONTACT),
    ("pruned-fast-10000_problems", "number_contact", CONTACT),
)
MEANS = {
    "BERT-small {:+.2f} and {:+.2f}": [one for one in PUBLISHED_SPLITS if one[1] == "scratch"],
    "pretrained MiniLM {:+.2f} and {:+.2f}": [
        one
        for one in PUBLISHED_SPLITS
        if one[1] == "pretrained" and one[0] != "agreement_plural-fast-published_splits_pretrained"
    ],
    "over the two rules {:+.3f} and {:+.3f}; the paper's ResNet50": RESNETS[:2],
}


def test_what_is_told_across_papers():
    """Which differences of two theories hold, and what the late rules of support have changed."""
    (entry,) = report.entries("across")
    metrics, text = entry["metrics"], plain(ACROSS.read_text())
    ends = {
        name: [metrics[f"{name}, {end}"]["ours"] for end in ("low", "high")]
        for name in metrics
        if " less " in name and name.endswith(": tau")
    }
    told = [name for name, (low, high) in ends.items() if low > 0 or high < 0]
    assert len(ends) == 10 and told == ["support less factorization: tau"]
    table = answers.Table.of(entry["config"]["parts"], metrics)
    assert f"{len(table.names)} pairs, three seeds each" in text
    before = {"vectors_mlp_random": 1, "plane_plain_control": 1, "plane_heads_control": 1,
              "bumps_product_stripes": 0}  # fmt: skip
    for name, value in before.items():
        (row,) = np.flatnonzero(table.names == name)
        assert table.columns["support"][row] == 1 - value
        table.columns["support"][row] = value
    families, x, y = table.where("support", "error")
    tau = stats.kendall_tau_b(x, y, families)
    assert f"without it tau would be {tau:+.2f}" in text


def differences(ending: str, rows: str) -> list[float]:
    """Ours less the paper's, of recorded kernels metrics whose names hold these words."""
    return [
        metric["ours"] - metric["paper"]
        for entry in report.entries("kernels")
        if re.fullmatch(rows, entry["row"])
        for name, metric in entry["metrics"].items()
        if ending in name and metric["paper"] is not None
    ]


def seeds_of(file, metric):
    return read_json(report.RECORD / f"{file}.json")["metrics"][metric]["values"]


def test_how_many_rules_of_the_paper_have_run_on_an_accelerator():
    language = [f"{rule}_{which}" for rule in ("agreement", "anaphora") for which in NUMBERS]
    rules = {*language, "inside_contact", "inside_number", "number_contact"}
    entries = report.entries("subnetworks")
    have_run = rules & {entry["row"] for entry in entries if entry["size"] == "fast"}
    assert (len(have_run), len(rules)) == (5, 7)
    assert "five of the paper's seven rules have run at a reduced size" in plain(FRONT.read_text())
