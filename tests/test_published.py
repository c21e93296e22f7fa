"""The published numbers are complete, and their means and deviations follow from the seeds."""

import ast
import collections
import csv
import importlib
import inspect
import json
import pathlib
import statistics
import types

import numpy as np
import pytest

from cgjax.published import KINDS, PUBLISHED, SOURCES, SPREADS, read
from cgjax.published.results import print_table, summary

FIGURES = pathlib.Path(__file__).parent / "golden" / "kernels" / "paper_figures.json"
SUBNETWORKS = FIGURES.parents[1] / "subnetworks"
METRICS = ("mse_id", "mse_all", "r2_id", "r2_all")
SPRITES = [
    (row, metric, entry)
    for row, metrics in PUBLISHED["sprites"].items()
    for metric, entry in metrics.items()
]


def test_the_sprites_table_is_complete():
    assert set(PUBLISHED["sprites"]) == {
        "random_monolithic",
        "random_compositional",
        "orthogonal_monolithic",
        "orthogonal_compositional",
        "orthogonal_normal",
        "orthogonal_broad",
        "diagonal",
        "diagonal_broad",
        "diagonal_narrow",
        "orthogonal_gap",
        "orthogonal_star",
        "orthogonal_rgba",
    }
    for metrics in PUBLISHED["sprites"].values():
        assert tuple(metrics) == METRICS
    assert set(PUBLISHED) == set(SOURCES)


@pytest.mark.parametrize(("row", "metric", "entry"), SPRITES)
def test_mean_and_deviation_follow_from_the_seeds(row, metric, entry):
    mean_digits, sd_digits = (".4f", ".4f") if metric.startswith("r2") else (".3e", ".1e")
    mean, sd = statistics.mean(entry["values"]), statistics.stdev(entry["values"])
    assert format(mean, mean_digits) == format(entry["mean"], mean_digits)
    assert format(sd, sd_digits) == format(entry["sd"], sd_digits)
    assert len(entry["values"]) == (3 if row == "orthogonal_rgba" else 5)


def test_mse_and_r2_imply_one_target_variance():
    # MSE = (1 - R2) * variance of the target, and every model is scored on the same "all" scenes;
    # so a mistyped value shows. Errors at pixels that are never lit count in the MSE only: the
    # monolithic model makes many of them.
    for row, metrics in PUBLISHED["sprites"].items():
        if row == "orthogonal_monolithic":
            continue
        for mse, r2 in zip(metrics["mse_all"]["values"], metrics["r2_all"]["values"]):
            assert mse / (1 - r2) == pytest.approx(0.0252, rel=0.015), row


def test_collapsed_runs_are_kept_apart():
    alpha = PUBLISHED["sprites"]["orthogonal_rgba"]
    for metric in METRICS:
        assert len(alpha[metric]["left_out"]) == 2
    assert max(alpha["r2_all"]["left_out"]) < 0 < min(alpha["r2_all"]["values"])
    others = [entry for row, _, entry in SPRITES if row != "orthogonal_rgba"]
    assert not any("left_out" in entry for entry in others)


@pytest.mark.parametrize("network", ("mnist", "cifar_resnet", "cifar_vit"))
def test_shares_follow_from_the_heights_of_the_figures(network):
    figures = json.loads(FIGURES.read_text())
    if network == "mnist":
        heights = figures["figS_cd_mnist_relative_to_max_by_distance"]
    else:
        relative = figures["figS_cd_cifar_relative_to_max"][network.removeprefix("cifar_")]
        heights = {
            task: {kind: {"0": height} for kind, height in kinds.items()}
            for task, kinds in relative.items()
        }
    for task, kinds in heights.items():
        for distance in kinds["right_conj"]:
            total = sum(by_distance[distance] for by_distance in kinds.values())
            for kind, by_distance in kinds.items():
                name = f"{task.lower().replace('-', '_')}, d={distance}: magnitude "
                entry = PUBLISHED["kernels"][f"cd_{network}"][name + kind.split("_")[0]]
                assert entry["mean"] == pytest.approx(by_distance[distance] / total, abs=0.002)


@pytest.mark.parametrize("family", PUBLISHED)
def test_no_number_stands_twice(family):
    """Every cell of the tables is a separate entry."""
    cells = [
        cell
        for table in importlib.import_module(f"cgjax.published.{family}").TABLES
        for line in table["lines"].values()
        for cell in line * len(table["metrics"])
        if cell is not None
    ]
    entries = [entry for row in PUBLISHED[family].values() for entry in row.values()]
    assert len(cells) == len(entries) + sum("recomputed" in entry for entry in entries)


def test_every_number_says_where_it_is_from():
    """Printed, read off a figure, a formula, or recomputed: the last is not the paper's."""
    origins = {}
    for family, rows in PUBLISHED.items():
        for row, metrics in rows.items():
            for name, entry in metrics.items():
                assert entry["kind"] in KINDS and entry["where"].endswith(KINDS[entry["kind"]])
                assert entry["spread"] in SPREADS and ("n" in entry) == (entry["spread"] == "seeds")
                assert entry["spread"] != "none" or entry["sd"] == 0
                origins.setdefault((family, row), set()).add(entry["kind"])
                if "recomputed" in entry:
                    assert entry["kind"] != "recomputed" == entry["recomputed"]["kind"], name
    assert {
        kind for (family, _), kinds in origins.items() for kind in kinds if family == "sprites"
    } == {"printed"}
    assert origins["vectors", "mlp_random"] == {"read"}
    assert origins["support", "table"] == origins["kernels", "phase"] == {"recomputed"}
    assert origins["kernels", "leak"] == {"formula"} and origins["kernels", "cd_mnist"] == {"read"}


def test_the_bars_of_figure_3e_and_what_was_recomputed():
    bars = json.loads(FIGURES.read_text())["fig3e_cd_kernel_mean_abs_value"]
    for bar, line in (
        ("rep1_CD3", "rep_1, CD-3"),
        ("rep1_CD2", "rep_1, CD-2"),
        ("rep2_CD3", "rep_2, CD-3"),
    ):
        for kind, height in bars[bar].items():
            entry = PUBLISHED["kernels"]["magnitudes"][f"{line}: {kind.split('_')[0]}"]
            assert entry["kind"] == "read" and entry["mean"] == height
            assert summary([0.4], [0], entry)["paper"] == height and "recomputed" not in entry
            name = f"{line}, decision values: {kind.split('_')[0]}"
            assert PUBLISHED["kernels"]["magnitudes"][name]["kind"] == "recomputed"


def _slopes(figures: dict):
    """(row, metric, slope of the values in the figure)"""
    for name, values in figures["figS_addition_deep_values"].items():
        for depth in (1, 2, 3, 4):
            slope = np.polyfit(values["items"], values[f"depth{depth}"], 1)[0]
            yield "addition_deep", f"depth_{depth}/{name}: slope", slope
    for name, values in figures["figS_addition_mnist_values_by_distance"].items():
        for d in (0, 5, 10, 15, 20):
            slope, offset = np.polyfit(values["items"], values[str(d)], 1)
            yield "addition_mnist", f"{name}, d={d}: slope", slope
            if name == "asymmetric":
                yield "addition_mnist", f"{name}, d={d}: value at 0", offset
    for name, values in figures["figS_addition_rich_values"].items():
        for regime, sigma in (("lazy", "1"), ("rich", "1e-06")):
            slope = np.polyfit(values["items"], values[regime], 1)[0]
            yield "addition_rich", f"{name}, sigma {sigma}: slope", slope
    items = figures["figS_addition_cifar_values"].pop("items")
    for net, values in figures["figS_addition_cifar_values"].items():
        for name, y in values.items():
            slope = np.polyfit(items[name], y, 1)[0]
            yield f"addition_cifar_{net}", f"{name}, d=0: slope", slope


def _heights(figures: dict):
    """(row, metric, height in the figure)"""
    splits = {"compositional": "comp", "in_distribution": "in"}
    for task, score in (("addition", "mse"), ("cd", "accuracy")):
        for name, curves in figures[f"figS_{task}_mnist_{score}_vs_distance"].items():
            for split in splits if name != "dist" else ():
                for d, y in zip((0, 5, 10, 15, 20), curves[split]):
                    cell = f"{name.lower().replace('-', '_')}, d={d}"
                    yield f"{task}_mnist", f"{cell}: {splits[split]} {score}", y
        for name, curve in figures[f"figS_{task}_mnist_additivity_vs_distance"].items():
            for d, y in zip((0, 5, 10, 15, 20), curve if name != "dist" else ()):
                cell = f"{name.lower().replace('-', '_')}, d={d}"
                yield f"{task}_mnist", f"{cell}: mean additivity", y
        for net, cells in figures[f"figS_{task}_cifar_additivity"].items():
            for name, y in cells.items():
                cell = f"{name.lower().replace('-', '_')}, d=0"
                yield f"{task}_cifar_{net}", f"{cell}: mean additivity", y
    for net in ("resnet", "vit"):
        for name, curves in figures["figS_cd_cifar_accuracy"][net].items():
            for split, words in {**splits, "train": "train"}.items():
                cell = f"{name.lower().replace('-', '_')}, d=0"
                yield f"cd_cifar_{net}", f"{cell}: {words} accuracy", curves[split]["last"]


@pytest.mark.parametrize("numbers, error", [(_slopes, 0.006), (_heights, 1e-9)])
def test_numbers_read_off_are_those_of_the_figures(numbers, error):
    """Slopes are given to three digits, offsets to two."""
    cells = list(numbers(json.loads(FIGURES.read_text())))
    assert len(cells) > 50
    for row, metric, number in cells:
        allowed = min(error, 6e-4) if metric.endswith("slope") else error
        assert PUBLISHED["kernels"][row][metric]["mean"] == pytest.approx(number, abs=allowed)


def test_what_was_recomputed_never_stands_under_paper(capsys):
    entry = summary([0.4], [0], PUBLISHED["support"]["table"]["random/step_back"])
    assert entry["paper"] is None and entry["recomputed"] == 1.0 and "recomputed" in entry["where"]
    printed = summary([0.4], [0], PUBLISHED["kernels"]["leak"]["slope, p=1, S=0.30"])
    assert printed["paper"] == 0.4286 and "recomputed" not in printed
    print_table({"metrics": {"a": entry, "b": printed}}, verdict=True, is_drawn=False)
    head, a, b = capsys.readouterr().out.splitlines()[:3]
    assert head.split() == ["metric", "ours", "paper", "diff", "verdict", "recomputed"]
    assert a.split() == ["a", "0.4000", "-", "-", "1.0000"]
    assert "no match" in b and b.split()[-1] == "-"
    print_table({"metrics": {"b": printed}}, verdict=True)
    assert "recomputed" not in capsys.readouterr().out


def test_cells_may_have_an_error_of_their_own_or_be_absent():
    table = {"kind": "read", "metrics": {"row_{line}": "m {column}"}, "error": 0.1,
             "where": "at {column}", "columns": (1, 2, 3),
             "lines": {"a": (5, (6, 0.2), None)}}  # fmt: skip
    found = read(types.SimpleNamespace(PAPER="A paper", TABLES=(table,)))
    assert found == {
        "row_a": {
            "m 1": {
                "mean": 5,
                "sd": 0.1,
                "values": (),
                "where": "A paper, at 1 (read off)",
                "kind": "read",
                "spread": "reading",
            },
            "m 2": {
                "mean": 6,
                "sd": 0.2,
                "values": (),
                "where": "A paper, at 2 (read off)",
                "kind": "read",
                "spread": "reading",
            },
        }
    }


CONDITIONS = {
    "bert_small_scratch": "scratch",
    "bert_small_pretrained": "pretrained",
    "resnet50_simclr": "simclr",
}
COLUMNS = {
    "sub target": "sub_target",
    "sub other": "sub_other",
    "abl target": "abl_target",
    "abl other": "abl_other",
    "sub_diff": "sub_diff",
    "abl_diff": "abl_diff",
    "kept": "kept_fraction",
}


@pytest.fixture(scope="module")
def mask_runs():
    """Runs of valid bases, by (kind, rule, condition)."""
    runs = collections.defaultdict(list)
    with open(SUBNETWORKS / "published_runs.csv") as file:
        for run in csv.DictReader(file):
            condition = CONDITIONS.get(run["model"], run["model"])
            if run["base_excluded"] == "False":
                runs[run["kind"], run["exp"], condition].append(run)
    return runs


def place(kind, rule, condition):
    """Row and prefix under which these runs are published."""
    if kind == "pruned_base":
        return "pruned", rule
    if kind == "random_weights":
        is_first = condition in ("scratch", "resnet50")
        return rule, "random_weights" if is_first else f"{condition}_random_weights"
    return rule, condition


def test_numbers_of_masks_follow_from_the_released_runs(mask_runs):
    n = 0
    for (kind, rule, condition), runs in mask_runs.items():
        row, prefix = place(kind, rule, condition)
        for target in {run["target"] for run in runs}:
            for name, column in COLUMNS.items():
                by_base = collections.defaultdict(list)
                for run in runs:
                    if run["target"] == target:
                        by_base[run["base_model"]].append(float(run[column]))
                entry = PUBLISHED["subnetworks"][row][f"{prefix}/{target}: {name}, selected"]
                mean = statistics.mean(sum(by_base.values(), []))
                means = list(map(statistics.mean, by_base.values()))
                sd = statistics.stdev(means) if len(means) > 1 else 0
                assert entry["mean"] == pytest.approx(mean, abs=5.1e-4)
                assert entry["sd"] == pytest.approx(sd, abs=5.1e-4)
                assert (entry["spread"], entry["n"]) == ("seeds", len(means))
                n += 1
    assert n == 66 * 7
    wide, rule = PUBLISHED["subnetworks"]["wide"], PUBLISHED["subnetworks"]["inside_number"]
    name = "number: abl_diff, selected"
    assert wide[f"inside_number/{name}"] == rule[f"wideresnet50/{name}"]


def test_numbers_of_the_fixed_configuration_follow_from_the_released_search():
    """Which has all 24 configurations on validation data, with mask seed 0."""
    by_cell = collections.defaultdict(list)
    with open(SUBNETWORKS / "published_search_fixed.csv") as file:
        for run in csv.DictReader(file):
            assert (run["lr"], run["s_init"]) == ("0.01", "0.05")
            assert run["masked"].startswith(("layers>=0", "first+stage_1"))
            columns = {name: float(run[name]) for name in COLUMNS.values() if name in run}
            for half in ("sub", "abl"):
                own, other = (max(columns[f"{half}_{test}"], 0.25) for test in ("target", "other"))
                columns[f"{half}_diff"] = own - other
            columns["kept_fraction"] = float(run["mask_ones"]) / float(run["mask_size"])
            part = CONDITIONS.get(run["model"], run["model"])
            by_cell[run["exp"], f"{part}/{run['target']}"].append(columns)
    for (row, place), runs in by_cell.items():
        for name, column in COLUMNS.items():
            entry = PUBLISHED["subnetworks"][row][f"{place}: {name}"]
            values, digits = [run[column] for run in runs], 5.1e-4 / (1 + 9 * (name == "kept"))
            assert entry["mean"] == pytest.approx(statistics.mean(values), abs=digits)
            assert entry["sd"] == pytest.approx(statistics.stdev(values), abs=digits)
            assert entry["n"] == len(values) == 3
    assert len(by_cell) == 8 + 2
    scratch = [runs for (_, place), runs in by_cell.items() if place.startswith("scratch/")]
    mean = statistics.mean(run["abl_diff"] for runs in scratch for run in runs)
    of_all = PUBLISHED["subnetworks"]["means"]["scratch: abl_diff"]["mean"]
    assert of_all == pytest.approx(mean, abs=5.1e-4)


def test_means_and_shares_of_masks_follow_from_the_released_runs(mask_runs):
    by_condition = collections.defaultdict(list)
    for (kind, _, condition), runs in mask_runs.items():
        if kind == "trained":
            by_condition[condition] += [
                (float(r["sub_diff"]), float(r["abl_diff"]), r["seed"] != "0") for r in runs
            ]
    for condition, runs in by_condition.items():
        published = {
            name: PUBLISHED["subnetworks"]["means"][f"{condition}: {name}, selected"]["mean"]
            for name in (
                "sub_diff",
                "abl_diff",
                "share with the full pattern",
                "abl_diff, new mask seeds",
            )
        }
        share = np.mean([sub > 0 > abl for sub, abl, _ in runs])
        new = np.mean([abl for _, abl, is_new in runs if is_new])
        expected = [*np.mean(runs, axis=0)[:2], share, new]
        np.testing.assert_allclose(list(published.values()), expected, atol=5.1e-4)
    assert len(by_condition) == 5


def test_p_of_masks_are_those_of_the_table():
    """Which tests/analysis/test_stats.py derives from the released runs."""
    n = 0
    with open(SUBNETWORKS / "published_significance.csv") as file:
        for line in csv.DictReader(file):
            if line["kind"] != "trained":
                continue
            prefix = f"{CONDITIONS.get(line['model'], line['model'])}/{line['target']}"
            for diff in ("sub", "abl"):
                metrics = PUBLISHED["subnetworks"][line["task"]]
                entry = metrics[f"{prefix}: p of {diff}_diff, selected"]
                assert entry["mean"] == float(line[f"{diff}_p"])
                assert entry["kind"] == "recomputed"
                if "bert" in line["model"]:
                    entry = metrics[f"{prefix}: {diff}_diff, selected"]
                    expected = float(line[f"{diff}_diff"]), float(line[f"{diff}_se"])
                    assert (entry["mean"], entry["sd"]) == expected
                n += 1
    assert n == 2 * 26


def test_failed_bases_are_kept_apart():
    rows = PUBLISHED["subnetworks"]
    assert rows["inside_contact"]["resnet50/base: test accuracy"]["left_out"] == (0.756,)
    assert len(rows["anaphora_singular"]["pretrained/base: test accuracy"]["left_out"]) == 2
    counted = [e for row in rows.values() for name, e in row.items() if name.endswith(" accuracy")]
    assert len(counted) == 24
    assert all(e["mean"] > 0.9 for e in counted if "ViT" not in e["where"])


def test_numbers_of_few_bases_say_how_many():
    """Without a deviation the rule takes so many runs to scatter as ours do."""
    rows = PUBLISHED["subnetworks"]
    for diff in ("sub_diff", "abl_diff"):
        assert rows["inside_contact"][f"resnet50/contact: {diff}"]["runs"] == 2
    assert {entry["runs"] for entry in rows["vit"].values()} == {1}


@pytest.mark.parametrize("family", PUBLISHED)
def test_the_files_hold_literals_only(family):
    """And names of literals above them."""
    module = importlib.import_module(f"cgjax.published.{family}")
    names = set()
    for node in ast.parse(inspect.getsource(module)).body[1:]:
        assert isinstance(node, ast.Assign)
        for inner in ast.walk(node.value):
            assert not isinstance(inner, (ast.Call, ast.BinOp)), node.lineno
            assert not isinstance(inner, ast.Name) or inner.id in names, node.lineno
        names.add(node.targets[0].id)
