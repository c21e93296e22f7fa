"""Numbers in the READMEs' sentences, held against the record: a sentence is written from it anew.

A case is a README, a sentence with {} for its numbers, and where in the record each one stands:
"<file> <metric>", followed by " paper", " difference", " sd" or " [i]" for a seed other than all.
"""

import pathlib
import re

import pytest

from cgjax import report
from cgjax.core.workdir import read_json

ROOT = pathlib.Path(__file__).parent.parent
SPRITES, SUPPORT, KERNELS = (
    ROOT / "cgjax" / "experiments" / folder / "README.md"
    for folder in ("sprites", "sprites/support", "kernels")
)


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
    found = found[metric]
    if which == "difference":
        return found["ours"] - found["paper"]
    if which.startswith("["):
        return found["values"][int(which[1:-1])]
    return found[{"paper": "paper", "sd": "paper_sd"}[which]]


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def rows(pattern: str, names, metric: str) -> list[str]:
    return [f"{pattern.format(name)} {metric}" for name in names]


SENTENCES = [
    (
        SPRITES,
        "the compositional model has {:.3f} and the monolithic one {:.3f} "
        "(paper {:.3f} and {:.3f})",
        [
            "sprites/orthogonal_compositional-fast r2_all",
            "sprites/orthogonal_monolithic-fast r2_all",
            "sprites/orthogonal_compositional-fast r2_all paper",
            "sprites/orthogonal_monolithic-fast r2_all paper",
        ],
    ),
    (
        SPRITES,
        "`random_compositional`, `orthogonal_compositional` and `orthogonal_rgba` differ from the "
        "paper's means by {:+.4f}, {:+.4f} and {:+.4f} (on known combinations {:+.4f}, {:+.4f} and "
        "{:+.4f}), `orthogonal_gap` by {:+.3f}, `diagonal` by {:+.3f}, `orthogonal_monolithic` by "
        "{:+.3f} (the paper's sd over seeds: {:.3f}, {:.3f}, {:.3f})",
        [
            *rows("sprites/{}-paper", ("random_compositional", "orthogonal_compositional",
                                       "orthogonal_rgba"), "r2_all difference"),
            *rows("sprites/{}-paper", ("random_compositional", "orthogonal_compositional",
                                       "orthogonal_rgba"), "r2_id difference"),
            *rows("sprites/{}-paper", ("orthogonal_gap", "diagonal", "orthogonal_monolithic"),
                  "r2_all difference"),
            *rows("sprites/{}-paper", ("orthogonal_gap", "diagonal", "orthogonal_monolithic"),
                  "r2_all sd"),
        ],
    ),
    (
        SPRITES,
        "`orthogonal_star` has {:.3f} and {:.3f} (paper {:.3f}, sd {:.3f})",
        [f"sprites/orthogonal_star-paper r2_all {w}" for w in ("[0]", "[1]", "paper", "sd")],
    ),
    (
        SPRITES,
        "`diagonal_narrow` has one low seed of three ({:.3f}), and is bimodal as published ({:.3f} "
        "with sd {:.3f})",
        [f"sprites/diagonal_narrow-fast r2_all {w}" for w in ("[0]", "paper", "sd")],
    ),
    (
        SPRITES,
        "one collapsed seed of four; the other three have {:.3f} (paper {:.3f}",
        [f"sprites/orthogonal_rgba-fast r2_all{w}" for w in (" (alive)", " paper")],
    ),
    (
        SPRITES,
        "At `paper`, `diagonal` ended at {:.2f}",
        ["sprites/diagonal-paper background"],
    ),
    (
        SPRITES,
        "ended at {:.2f} with R2 {:.3f} (`along_training`) and at {:.2f} with {:.3f} "
        "(`match_step_sigmoid`), and `annealed` at {:.2f} with {:.3f}",
        [
            f"sprites/{row}-fast {what}"
            for row in ("along_training", "match_step_sigmoid", "annealed")
            for what in ("background", "r2_all")
        ],
    ),
    (
        SPRITES,
        "a pixel-wise network {:.3f}, learned sharpness {:.3f} (the fixed sigmoid: {:.3f} and "
        "{:.3f}); attention over slots has {:.3f} on the training planes and {:.3f} on all "
        "combinations; annealed sharpness {:.3f}",
        [
            *rows("sprites/{}-fast", ("learned_mlp", "learned_sharpness", "along_training",
                                      "match_step_sigmoid"), "r2_all"),
            "sprites/learned_attention-fast r2_id",
            *rows("sprites/{}-fast", ("learned_attention", "annealed"), "r2_all"),
        ],
    ),
    (
        SPRITES,
        "from coordinates (R2 {:.3f}) or only move a drawing ({:.3f})",
        rows("sprites/{}-fast", ("gap_broadcast", "gap_shift"), "r2_all"),
    ),
    (
        SPRITES,
        "One network for both sprites: {:.3f}",
        ["sprites/gap_shared-fast r2_all"],
    ),
    (
        SPRITES,
        "R2 {:.3f}, {:.3f}, {:.3f}, {:.3f} and {:.3f} for gaps 0.1, 0.2, 0.4, 0.6 and 0.8 wide",
        rows("sprites/gap_{}-fast", (0.1, 0.2, 0.4, 0.6, 0.8), "r2_all"),
    ),
    (
        SPRITES,
        "{:.3f} with 1,000; {:.3f}, {:.3f} and {:.3f} with 10,000, 100,000 and 1,000,000",
        rows("sprites/narrow_{}-fast", (1000, 10000, 100000, 1000000), "r2_all"),
    ),
    (
        SPRITES,
        "*Three to five sprites*: {:.3f}, {:.3f}, {:.3f}",
        rows("sprites/slots_{}-fast", (3, 4, 5), "r2_all"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    "readme, sentence, paths", SENTENCES, ids=[plain(sentence)[:40] for _, sentence, _ in SENTENCES]
)
def test_a_sentence_says_what_the_record_holds(readme, sentence, paths):
    assert len(re.findall(r"{[^}]*}", sentence)) == len(paths)
    expected = sentence.format(*map(number, paths))
    assert expected in plain(readme.read_text()), expected


def test_the_rows_below_the_paper_are_counted():
    """At `fast`, a tenth of the published length."""
    entries = [e for e in report.entries("sprites") if (e["size"], e["label"]) == ("fast", "")]
    found = {
        e["row"]: e["metrics"]["r2_all"]["ours"] - e["metrics"]["r2_all"]["paper"]
        for e in entries
        if e["metrics"]["r2_all"]["paper"] is not None
    }
    monolithic = found.pop("orthogonal_monolithic")
    near = [-gap for gap in found.values() if 0 < -gap < 0.1]
    expected = (
        f"{len(near)} of the {len(found) + 1} rows are {min(near):.3f} to {max(near):.3f} below "
        f"the paper, `orthogonal_monolithic` {-monolithic:.3f}"
    )
    assert expected in plain(SPRITES.read_text()), expected
