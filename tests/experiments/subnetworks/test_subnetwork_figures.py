"""Figures of masks show invalid bases as grey dots and exclude them from means."""

import numpy as np
import pytest

from cgjax import config as configs
from cgjax import plots
from cgjax.experiments.subnetworks import figures, study

N = 4  # runs: two bases, of which the second does not count, and two subroutines


@pytest.fixture
def drawn(monkeypatch):
    """Figures by name, instead of files."""
    found = {}
    monkeypatch.setattr(plots, "save", lambda fig, path: found.setdefault(path.stem, fig))
    return found


def arrays(counts=(True, False)):
    base, target = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    runs = {
        "base": base,
        "target": target,
        "seed": np.zeros(N, int),
        "valid_base": np.array(counts)[base],
        "null_random": np.array([0.125, 0.25, -0.75, -0.75]),
        "sub_diff": np.full(N, 0.5),
        "abl_diff": np.full(N, -0.25),
        "quality": np.full(N, 0.25),
        "full_pattern": np.ones(N, bool),
    }
    return {
        "parts": np.array([""]),
        "subroutines": np.array(["subject", "verb"]),
        "bases/valid": np.array(counts),
        "masks/base": base,
        "masks/target": target,
        "kept/stem/kernel": np.array([0.25, 0.5, 1.0, 1.0]),
        "kept/head/kernel": np.array([0.0, 0.0, 1.0, 1.0]),
        "overlap/leaves": np.array(["head/kernel", "stem/kernel"]),
        "overlap/between": np.array([0.1, 0.9]),
        "overlap/between, expected": np.array([0.2, 0.8]),
        **{
            f"{kind}/{name}": values
            for kind in ("runs", "search", "selected")
            for name, values in runs.items()
        },
    }


def bars(fig):
    """Heights of the removals' bars, panel by panel."""
    return [
        [line.get_ydata()[0] for line in ax.get_lines() if line.get_linewidth() == 3]
        for ax in fig.axes
    ]


def test_removals_of_bases_that_count(drawn, tmp_path):
    figures.draw_differences(arrays(), tmp_path)
    assert bars(drawn["differences"]) == [[0.125], [0.25]] * 2


def test_no_bar_where_no_base_counts(drawn, tmp_path):
    figures.draw_differences(arrays((False, False)), tmp_path)
    assert bars(drawn["differences"]) == [[], []] * 2


def test_layers_of_bases_that_count(drawn, tmp_path):
    figures.draw_layers(arrays(), tmp_path)
    curves = [line.get_ydata() for line in drawn["layers"].axes[0].get_lines()]
    np.testing.assert_array_equal(curves, [[0.25, 0.0], [0.5, 0.0]])  # the stem first


def test_layers_say_that_no_base_counts(drawn, tmp_path):
    figures.draw_layers(arrays((False, False)), tmp_path)
    (ax,) = drawn["layers"].axes
    assert not ax.get_lines() and "no base counts" in ax.get_title(loc="left")


def test_overlap_goes_from_the_stem_to_the_head(drawn, tmp_path):
    figures.draw_overlap(arrays(), tmp_path)
    (ax,) = drawn["overlap"].axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["stem", "head"]
    np.testing.assert_array_equal(
        [line.get_ydata() for line in ax.get_lines()], [[0.9, 0.1], [0.8, 0.2]]
    )


def test_a_search_shows_in_colour_what_counts(drawn, tmp_path):
    figures.draw_search(arrays(), tmp_path)
    for ax in drawn["search"].axes:
        colours = {tuple(one) for one in ax.collections[0].get_facecolors()}
        assert len(colours) == 2, "the base that does not count is grey"
        assert len(ax.collections[1].get_offsets()) == 1, "and no ring is of its masks"
        assert len(ax.collections[2].get_offsets()) == 1, "the fixed configuration is marked"
    legend = drawn["search"].axes[0].get_legend().get_texts()
    assert [text.get_text() for text in legend] == ["selected", "fixed beforehand"]


def test_leaves_are_in_the_order_of_the_network():
    leaves = ["stem/kernel", "stage_2/block_0/conv_1/kernel", "stage_2/block_10/conv_0/kernel"]
    assert sorted(leaves[::-1], key=figures.network_order) == leaves
    leaves = [f"layer_{i}/{name}/kernel" for i in (0, 2, 10) for name in figures.MAPS]
    leaves += ["head/dense_0/kernel", "head/dense_1/kernel"]
    assert sorted(leaves[::-1], key=figures.network_order) == leaves


def test_cells_without_a_run_are_said(drawn, tmp_path):
    some = {
        name: values[:3] if name.startswith("selected/") else values
        for name, values in arrays().items()
    }
    figures.draw_heat(some, tmp_path)
    titles = [ax.get_title(loc="left") for ax in drawn["heat"].axes]
    assert "no run" not in titles[0] and "hatched: no run" in titles[1]


def in_two_parts(of_part):
    """The arrays of one part, as those of two."""
    both = {
        f"{part}/{name}": values for part in ("bert", "modular") for name, values in of_part.items()
    }
    return both | {"parts": np.array(["bert", "modular"])}


@pytest.mark.parametrize(
    "draw, file, more",
    [
        ("draw_matrices", "matrices", {f"matrix/{half}": np.eye(2) for half in ("sub", "abl")}),
        (
            "draw_families",
            "families",
            {"families": np.array(["runs"]), "runs/kept": np.ones(N), "runs/sub_own": np.ones(N)},
        ),
        (
            "draw_dynamics",
            "dynamics",
            {
                "epochs": np.array([1, 2]),
                "bases/base_epoch": np.array([1, 2]),
                "bases/compositional": np.ones(2),
                "runs/base_epoch": np.array([1, 1, 2, 2]),
            },
        ),
    ],
)
def test_every_part_has_a_file_of_its_own(draw, file, more, drawn, tmp_path):
    getattr(figures, draw)(in_two_parts(arrays() | more), tmp_path)
    assert sorted(drawn) == [f"bert-{file}", f"modular-{file}"]


def test_structure_and_generalization(drawn, tmp_path):
    """Structure is minus abl_diff; bases without a selected mask do not count; figures of both."""
    config = configs.load("subnetworks:scale,smoke")
    rng, metrics, seeds = np.random.default_rng(0), {}, list(range(6))
    for part in config.parts:
        first, second, noise = rng.random((3, 6))
        metrics[f"{part}/base: held-out accuracy"] = (-(first + second), seeds)
        metrics[f"{part}/base: test accuracy"] = (first + second, seeds)
        for name, values in (("verb", first), ("subject", second)):
            metrics[f"{part}/{name}: abl_diff"] = (values, seeds)
            metrics[f"{part}/{name}: abl_diff beyond random removals"] = (noise, seeds)
            selected = np.where(np.array(seeds) == 3, np.nan, -values)
            metrics[f"{part}/{name}: abl_diff, selected"] = (selected, seeds)
    taus = study.over_widths(config, metrics, {})
    held_out = "tau of {} and held-out accuracy {} sizes"
    assert taus[held_out.format("structure", "over")] == ([1], [])
    assert taus[held_out.format("structure, selected", "over")] == ([-1], [])
    assert taus["tau of structure and accuracy over sizes"] == ([-1], [])
    assert taus[held_out.format("structure", "within")] == ([1, 1, 1], [])
    (noise,), _ = taus[held_out.format("structure beyond random removals", "over")]
    low, high = (
        taus[held_out.format("structure beyond random removals", "over") + end][0][0]
        for end in (", 2.5 %", ", 97.5 %")
    )
    assert low < noise < high and abs(noise) < 0.6
    p = [taus[held_out.format(words, "over") + ", p"][0][0] for words in study.STRUCTURES]
    assert p[0] == p[1] == 2 / (1 + study.PERMUTATIONS) and p[2] > 0.05
    assert taus["bases with structure, selected, over sizes"] == ([15], [])
    solved = sum(np.sum(metrics[f"{part}/base: test accuracy"][0] >= 0.9) for part in config.parts)
    assert taus["bases with structure, over sizes that solve the rule"] == ([solved], [])
    assert taus[held_out.format("structure", "over") + " that solve the rule"] == ([1], [])
    few = {name: (values[:3], seeds[:3]) for name, (values, _) in metrics.items()}
    assert list(study.over_widths(config, few, {})) == [
        "tau of structure and accuracy over sizes",
        "tau of structure and held-out accuracy over sizes",
    ]
    shown = arrays() | {"bases/held_out": np.ones(2)}
    figures.draw_structure(in_two_parts(shown), tmp_path)
    figures.draw_structure(arrays(), tmp_path)  # nothing held out: nothing to draw
    assert list(drawn) == ["structure"] and len(drawn["structure"].axes) == 2
