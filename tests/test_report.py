"""The reproduction record: what goes in; the READMEs: their tables, commands and links."""

import importlib
import inspect
import json
import pathlib
import re
import shlex
import shutil

import pytest
from front_door import finish

from cgjax import config as configs
from cgjax import experiments, report
from cgjax.analysis import masks
from cgjax.config.declare import leaves
from cgjax.core.errors import BadInput
from cgjax.core.workdir import read_json
from cgjax.experiments.bumps import models
from cgjax.experiments.bumps.studies import turning
from cgjax.experiments.resistance import plane, scan
from cgjax.main import parse
from cgjax.published import PUBLISHED, results
from cgjax.published.claims import POOLED
from cgjax.published.results import summary
from cgjax.report import readme
from cgjax.report.__main__ import main

ROOT = pathlib.Path(__file__).parent.parent


def test_a_finished_run_can_be_added(tmp_path):
    config = configs.load("configs/sprites.py:diagonal,fast")
    published = {"mean": 0.9, "sd": 0.01, "where": "a table"}
    metrics = {"r2_all": summary([0.8, 0.9], (0, 1), published)}
    more = {"wall_s": 12.0, "devices": "1x test", "compositional": {"train_s": 11.0}}
    finish(tmp_path, config, metrics, **more)
    path = report.add(tmp_path, record=tmp_path / "record", label="again")
    entry = json.loads(path.read_text())
    assert path.name == "diagonal-fast-again.json"
    assert entry["config"]["data"]["delta"] == 0.1 and entry["models"]["compositional"]
    record = report.entries("sprites", tmp_path / "record")
    table = results.headline_table(record)
    assert "| diagonal (again) | fast | 0.800, 0.900 | 0.850 | 0.900 | -0.050 | 12 s |" in table
    assert results.by_row(record, "fast", "again")["diagonal"]
    assert not results.by_row(record, "fast")


def test_other_seeds_of_a_recorded_config_join_it(tmp_path):
    def finished(seeds, values, replace=False, **changes):
        config = configs.load("configs/sprites.py:diagonal,fast", changes)
        config.train.seeds = seeds
        metrics = {"r2_all": summary(values, seeds, None)}
        finish(tmp_path, config, metrics, wall_s=1.0, devices="1x test")
        path = report.add(tmp_path, record=tmp_path / "record", replace=replace)
        return json.loads(path.read_text())

    finished((0,), [0.5])
    entry = finished((2, 1), [0.9, 0.7])
    found = entry["metrics"]["r2_all"]
    assert found["values"] == [0.5, 0.9, 0.7] and found["seeds"] == [0, 2, 1]
    assert found["ours"] == pytest.approx(0.7) and entry["config"]["train"]["seeds"] == [0, 2, 1]
    assert entry["earlier"][0]["seeds"] == [0]
    assert entry["wall_s"] == 2.0
    recorded = configs.from_json(json.dumps(entry["config"]))
    assert entry["config_hash"] == configs.fingerprint(recorded)
    # The same seed again takes its own place, and leaves the others.
    again = finished((0,), [0.6])
    assert again["metrics"]["r2_all"]["values"] == [0.9, 0.7, 0.6]
    assert again["metrics"]["r2_all"]["seeds"] == again["config"]["train"]["seeds"] == [2, 1, 0]
    # Another config, of the same seeds or others, would lose them: only where that is asked for.
    (path,) = (tmp_path / "record").rglob("*.json")
    before = path.read_bytes()
    for seeds in ((1,), (2, 1, 0), (5,)):
        with pytest.raises(BadInput, match=r"optim.lr: 0.001 -> 0.002\): keep both .*--replace"):
            finished(seeds, [0.8] * len(seeds), **{"optim.lr": "2e-3"})
        assert path.read_bytes() == before
    changed = finished((1,), [0.8], replace=True, **{"optim.lr": "2e-3"})
    assert changed["metrics"]["r2_all"]["values"] == [0.8] and "earlier" not in changed


def test_a_joined_entry_says_which_run_trained_which_seeds(tmp_path):
    """Each earlier run with its own seeds and time, without seeds that were trained again."""
    runs = [((0, 1, 2), 1.0), ((3, 4), 10.0), ((2, 5), 100.0), ((3, 4, 6), 1000.0)]
    for seeds, seconds in runs:
        config = configs.load("configs/sprites.py:diagonal,fast")
        config.train.seeds = seeds
        metrics = {"r2_all": summary([0.5] * len(seeds), seeds, None)}
        models = {"compositional": {"train_s": seconds, "front_background": list(seeds)}}
        finish(tmp_path, config, metrics, **models, wall_s=seconds, devices=f"{seconds} test")
        path = report.add(tmp_path, record=tmp_path / "record")
    entry = json.loads(path.read_text())
    assert entry["models"]["compositional"]["front_background"] == [0, 1, 2, 5, 3, 4, 6]
    assert entry["wall_s"] == 1111.0 and entry["devices"] == "1000.0 test"
    earlier = [(run["seeds"], run["wall_s"], run["devices"]) for run in entry["earlier"]]
    assert earlier == [
        ([0, 1], 1.0, "1.0 test"), ([], 10.0, "10.0 test"), ([2, 5], 100.0, "100.0 test"),
    ]  # fmt: skip
    models = [run["models"]["compositional"] for run in entry["earlier"]]
    assert models == [{"train_s": 1.0}, {"train_s": 10.0}, {"train_s": 100.0}]


@pytest.mark.parametrize(
    "earlier", [[1], [{}], [{"seeds": 3, "wall_s": 1.0}], [{"seeds": [[]], "wall_s": 1.0}],
                [{"seeds": [0], "wall_s": "1"}], [{"seeds": [0]}]],
)  # fmt: skip
def test_a_run_does_not_join_damaged_earlier_runs(tmp_path, earlier):
    for seeds in ((0,), (1,)):
        config = configs.load("configs/sprites.py:diagonal,fast")
        config.train.seeds = seeds
        finish(tmp_path, config, {"r2_all": summary([0.5], seeds, None)}, wall_s=1.0)
        if seeds == (0,):
            path = report.add(tmp_path, record=tmp_path / "record")
            path.write_text(json.dumps(json.loads(path.read_text()) | {"earlier": earlier}))
            before = path.read_bytes()
    with pytest.raises(BadInput, match="has no sound earlier"):
        report.add(tmp_path, record=tmp_path / "record")
    assert path.read_bytes() == before


@pytest.mark.parametrize("seeds", ([[0]], [{}], ["0"], [0.5], [None]))
def test_a_run_does_not_join_seeds_that_are_no_integers(tmp_path, seeds):
    config = configs.load("configs/sprites.py:diagonal,fast")
    finish(tmp_path, config, {"r2_all": summary([0.5], (0,), None)}, wall_s=1.0)
    path = report.add(tmp_path, record=tmp_path / "record")
    entry = json.loads(path.read_text())
    entry["config"]["train"]["seeds"] = seeds
    path.write_text(json.dumps({key: entry[key] for key in entry if key != "config_hash"}))
    with pytest.raises(BadInput, match="is not a recorded run"):
        report.add(tmp_path, record=tmp_path / "record")


def test_no_seed_of_the_record_has_two_earlier_runs():
    entries = [entry for family in report.families() for entry in report.entries(family)]
    joined = [entry for entry in entries if entry.get("earlier")]
    assert joined
    for entry in joined:
        seeds = [seed for run in entry["earlier"] for seed in run["seeds"]]
        assert len(set(seeds)) == len(seeds) and set(seeds) < set(entry["config"]["train"]["seeds"])
        assert sum(run["wall_s"] for run in entry["earlier"]) < entry["wall_s"]


def joined(tmp_path, *runs):
    """The metrics of one entry, from runs (seeds, {metric: (values, seeds)}) of one config."""
    for seeds, metrics in runs:
        config = configs.load("configs/sprites.py:orthogonal_rgba,fast")
        config.train.seeds = seeds
        finish(tmp_path, config, {name: summary(*pair, None) for name, pair in metrics.items()})
        path = report.add(tmp_path, record=tmp_path / "record")
    metrics = json.loads(path.read_text())["metrics"]
    return {name: (metric["values"], metric["seeds"]) for name, metric in metrics.items()}


def test_seeds_that_lived_are_joined_with_those_of_a_run_without_dead_ones(tmp_path):
    """Which has no numbers of its own for seeds that lived: all of its seeds did."""
    alive = ((0, 1), {"r2_all": ([0.97, 0.98], (0, 1))})
    dead = {
        "r2_all": ([-0.06, 0.96], (2, 3)),
        "r2_all (alive)": ([0.96], (3,)),
        "collapsed": ([1.0, 0.0], (2, 3)),
    }
    found = joined(tmp_path / "a", alive, ((2, 3), dead))
    assert found["r2_all (alive)"] == ([0.97, 0.98, 0.96], [0, 1, 3])
    assert found["collapsed"] == ([0.0, 0.0, 1.0, 0.0], [0, 1, 2, 3])
    found = joined(tmp_path / "b", ((2, 3), dead), alive)
    assert found["r2_all (alive)"] == ([0.96, 0.97, 0.98], [3, 0, 1])
    assert found["collapsed"] == ([1.0, 0.0, 0.0, 0.0], [2, 3, 0, 1])


@pytest.mark.parametrize("seeds", ((0, 1), (0,)))
def test_a_number_of_all_seeds_together_is_not_that_of_joined_seeds(tmp_path, seeds):
    def metrics(seeds, exponent, p, share):
        pooled = {"exponent": ([exponent], [0]), "p": ([p], []), "share": ([share], [0])}
        return seeds, pooled | {"r2_all": ([0.9] * len(seeds), seeds)}

    found = joined(tmp_path, metrics(seeds, 0.8, 0.1, 0.5), metrics((2, 3), 0.9, 0.2, 0.5))
    assert found["r2_all"] == ([0.9] * (len(seeds) + 2), [*seeds, 2, 3])
    assert found["exponent"] == found["p"] == ([], [])
    assert found["share"] == ([0.5], [0])  # it does not depend on the seeds


def test_losses_of_joined_seeds_keep_their_places(tmp_path):
    """Seeds that were recorded without a curve have none: the list is as long as the seeds."""

    def finished(seeds, **model):
        config = configs.load("configs/sprites.py:diagonal,fast")
        config.train.seeds = seeds
        metrics = {"r2_all": summary([0.9] * len(seeds), seeds, None)}
        finish(tmp_path, config, metrics, wall_s=1.0, compositional={"train_s": 1.0, **model})
        entry = json.loads(report.add(tmp_path, record=tmp_path / "record").read_text())
        return entry["models"]["compositional"]

    finished((0,))
    joined = finished((2, 1), largest_rise=[0.2, 0.1], curve=[[3, 2], [4, 2]], curve_epochs=1)
    assert joined["largest_rise"] == [None, 0.2, 0.1] and joined["curve_epochs"] == 1
    assert joined["curve"] == [None, [3, 2], [4, 2]]
    assert finished((3,))["largest_rise"] == [None, 0.2, 0.1, None]


def test_reasons_of_joined_seeds_are_those_of_both(tmp_path):
    """The reason for an absent number is kept for the seeds that were recorded first, too."""

    def finished(seed, reasons):
        config = configs.load("configs/sprites.py:diagonal,fast")
        config.train.seeds = (seed,)
        finish(tmp_path, config, {"r2_all": summary([0.5], (seed,), None)}, reasons=reasons)
        return json.loads(report.add(tmp_path, record=tmp_path / "record").read_text())

    finished(0, {"a": {"x": "too few"}, "b": {"x": "none"}})
    entry = finished(1, {"a": {"y": "too many"}})
    assert entry["reasons"] == {"a": {"x": "too few", "y": "too many"}, "b": {"x": "none"}}


def test_tables_show_seeds_without_a_number(tmp_path):
    published = {"mean": 0.9, "sd": 0.01, "where": "a table"}
    entry = {"row": "r", "size": "fast", "label": "", "wall_s": 1.0, "devices": "d"}
    some = entry | {"metrics": {"r2_all": summary([0.8, float("nan")], (0, 1), published)}}
    none = entry | {"metrics": {"r2_all": summary([float("nan")], (0,), published)}}
    table = results.headline_table([some, none])
    assert "| 0.800, - | 0.800 | 0.900 | -0.100 |" in table and "| - | - | 0.900 | - |" in table
    assert "| 0.800, - | 0.800 |" in results.metric_table([some])
    beyond = entry | {"metrics": {"r2_all": summary([float("nan")], (0,), None)}}
    assert results.beyond_table([beyond], ("r2_all",)).endswith("| r | fast | - |")


def test_a_config_from_before_a_key_is_another_config(tmp_path, capsys):
    """What the code did before it had that key is not known here."""
    config = configs.load("configs/sprites.py:diagonal,fast")
    finish(tmp_path, config, {})
    record = tmp_path / "record"
    path = report.add(tmp_path, record)
    entry = json.loads(path.read_text())
    del entry["config"]["optim"]["b2"]
    del entry["config_hash"]
    path.write_text(json.dumps(entry))
    flags = [f"--add={tmp_path}", f"--record={record}"]
    assert main(flags) == 2
    assert "(optim.b2: (absent) -> 0.999)" in capsys.readouterr().err
    assert main([*flags, "--label=again"]) == main([*flags, "--replace"]) == 0
    assert sorted(path.name for path in record.rglob("*.json")) == [
        "diagonal-fast-again.json",
        "diagonal-fast.json",
    ]


def test_seeds_of_one_part_do_not_join_those_of_another(tmp_path):
    whole = configs.load("configs/subnetworks.py:agreement_plural")
    first, *others = whole.parts

    def finished(part, seeds):
        config = configs.some_parts(whole, part)
        config.train.seeds = seeds
        finish(tmp_path, config, {})
        return json.loads(report.add(tmp_path, record=tmp_path / "record").read_text())

    for part, other in [(first, others[0]), (others[0], first)]:
        finished(part, (0,))
        assert finished(part, (1,))["config"]["train"]["seeds"] == [0, 1]
        with pytest.raises(BadInput, match=f"parts.{other}"):
            finished(other, (2,))
        shutil.rmtree(tmp_path / "record")


@pytest.mark.parametrize(
    "text", ["{}", '{"config": 3}', '{"config": {}, "metrics": {}}', "[]", "{"]
)
def test_what_is_no_recorded_run_is_not_joined(tmp_path, text):
    config = configs.load("configs/sprites.py:diagonal,fast")
    finish(tmp_path, config, {})
    path = report.add(tmp_path, tmp_path / "record")
    path.write_text(text)
    with pytest.raises(BadInput, match="delete it to write it anew"):
        report.add(tmp_path, tmp_path / "record", replace=True)
    assert path.read_text() == text


def test_of_a_run_with_thousands_of_numbers_some_are_recorded(tmp_path):
    config = configs.load("configs/sprites.py:diagonal,fast")
    published = {"mean": 0.9, "sd": 0.01, "where": "a table"}
    metrics = {name: summary([0.8], (0,), None) for name in ("a: slope", "a: norm", "b: norm")}
    metrics["r2_all"] = summary([0.8], (0,), published)
    finish(tmp_path, config, metrics)
    path = report.add(tmp_path, record=tmp_path / "record", only="slope")
    entry = json.loads(path.read_text())
    assert list(entry["metrics"]) == ["a: slope", "r2_all"] and entry["left_out"] == 2
    assert '"values": [ 0.8 ]' in path.read_text()  # numbers side by side: a record is read
    with pytest.raises(BadInput, match="is not a regular expression"):
        report.add(tmp_path, record=tmp_path / "record", only="(")


@pytest.mark.parametrize(
    "second, problem",
    (
        ({}, "holds no finished run"),
        ({"row": "orthogonal_rgba"}, "recorded with another config .optim.lr: 0.002 -> 0.001"),
        ({"optim.lr": "2e-3"}, "different configs .optim.lr: 0.001 -> 0.002"),
    ),
)
def test_no_run_is_recorded_if_another_of_the_command_is_refused(tmp_path, capsys, second, problem):
    def finished(name, row="diagonal", **changes):
        finish(tmp_path / name, configs.load(f"configs/sprites.py:{row},fast", changes), {})

    record = tmp_path / "record"
    finished("recorded", "orthogonal_rgba", **{"optim.lr": "2e-3"})
    (recorded,) = [report.add(tmp_path / "recorded", record)]
    before = recorded.read_bytes()
    finished("a")
    if second:
        finished("b", **second)
    flags = ["--add", str(tmp_path / "a"), str(tmp_path / "b"), f"--record={record}"]
    assert main(flags) == 2
    assert re.search(problem, capsys.readouterr().err)
    assert [path.name for path in record.rglob("*.json")] == [recorded.name]
    assert recorded.read_bytes() == before


def test_runs_of_one_command_may_join_one_entry(tmp_path, capsys):
    for seeds in ((0,), (2, 1)):
        config = configs.load("configs/sprites.py:diagonal,fast")
        config.train.seeds = seeds
        metrics = {"r2_all": summary([0.9] * len(seeds), seeds, None)}
        finish(tmp_path / str(seeds[0]), config, metrics)
    record = tmp_path / "record"
    assert main(["--add", str(tmp_path / "0"), str(tmp_path / "2"), f"--record={record}"]) == 0
    assert capsys.readouterr().out.count("wrote") == 1
    (path,) = record.rglob("*.json")
    entry = json.loads(path.read_text())
    assert entry["config"]["train"]["seeds"] == [0, 2, 1] == entry["metrics"]["r2_all"]["seeds"]


def test_an_unfinished_run_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no finished run"):
        report.add(tmp_path)


# Early records hold every key of their family in every row, and these, which no row ever read.
UNREAD = {
    "sprites": set(),
    "kernels": {"data.n_train", "data.seed", "optim.lr_final", "optim.weight_decay"},
    "bumps": set(),
    "resistance": set(),
    "subnetworks": set(),
    "predict": set(),
    "coverage": set(),
}
# Keys that are constants of the code: every record has the constant's value.
CONSTANTS = {
    "bumps": {
        "data.validation": turning.VALIDATION,
        "optim.floor": turning.FLOOR,
        "model.equivariant.frequencies": models.EquivariantDecoder.frequencies,
    },
    "resistance": {
        "optim.damping": plane.DAMPING,
        "optim.decay_every": scan.DECAY_EVERY,
    },
    "subnetworks": {
        "masks.from_one": inspect.signature(masks.beta_schedule).parameters["from_one"].default,
    },
}
# Keys that runs of a label were given other values of.
_SPLITS = ("data.splits", "masks.epochs", "train.epochs")
GIVEN = {
    "loss_0.01": ("optim.stop", "eval.converged"),
    "published_splits": _SPLITS,
    "published_splits_minilm": (*_SPLITS, "parts.scratch_minilm.optim.lr"),
    "published_splits_pretrained": (*_SPLITS, "parts.pretrained.optim.lr"),
    "published_splits_pretrained_90": (*_SPLITS, "parts.pretrained.optim.lr"),
    "one_mask": ("masks.seeds",),
    "fixed_configuration": ("masks.seeds",),
    "10000_problems": ("data.n_train", "masks.epochs", "masks.seeds", "train.epochs"),
}


@pytest.mark.parametrize("family", UNREAD)
def test_recorded_configs_are_still_known(family):
    """Keys may be added to a family or become constants; without others, no run is repeatable."""
    # Parts of a row, and how many replicas ran at once.
    free = ("train.seeds", "train.at_once", "model.dtype", "data.tasks", "data.distances")
    free += ("data.digits", "parts.digits.data.digits")  # what this machine has
    module = configs.load_file(f"configs/{family}.py")
    rows = [row["name"] for row in module.describe_rows()]
    known = {name for row in rows for name in configs.keys(module.get_config(f"{row},fast"))}
    known |= set(getattr(module, "OPTIONAL", ()))  # those that other choices read
    for entry in report.entries(family):
        config = configs.load(f"{family}:{entry['row']},{entry['size']}")
        recorded = configs.from_json(json.dumps(entry["config"]))
        # A part may have its own value.
        names = {re.sub(r"^parts\.\w+\.", "", name) for name in configs.keys(recorded)}
        constants = CONSTANTS.get(family, {})
        keys = {re.sub(r"^parts\.\w+\.", "", name) for name in known}
        assert names <= keys | UNREAD[family] | set(constants)
        for name, value in leaves(recorded):
            key = re.sub(r"^parts\.\w+\.", "", name)
            assert value == constants.get(key, value), (entry["row"], name)
        changed = [
            line
            for line in configs.differences(recorded, config)
            if "(absent)" not in line
            and not line.startswith(free)
            and f": {entry['label']} ->" not in line  # what its label says
            and not line.startswith(GIVEN.get(entry["label"], ()))
        ]
        assert not changed, (entry["row"], changed)


@pytest.mark.parametrize("family", PUBLISHED)
def test_every_row_with_a_published_number_has_a_record(family):
    rows = {row for row, numbers in PUBLISHED[family].items() if numbers}
    rows -= set(POOLED.get(family, ()))  # of several rows together
    assert rows <= {entry["row"] for entry in report.entries(family)}


READMES = [
    ROOT / "README.md",
    ROOT / "configs" / "README.md",
    *sorted((ROOT / "cgjax" / "experiments").rglob("README.md")),
]


@pytest.mark.parametrize("family", readme.folders())
def test_readmes_are_their_templates_with_the_record_filled_in(family):
    """After a change of either: python -m cgjax.report --readme."""
    text = readme.fill(family)
    assert (readme.folders()[family] / "README.md").read_text() == text
    assert "{{" not in text and len(text.splitlines()) <= 150
    assert all(path.read_text() == text for path, text in readme.files(family).items())


def test_the_front_readme_is_its_template_with_the_record_filled_in():
    text = readme.fill_front()
    assert readme.FRONT.read_text() == text and len(text.splitlines()) <= 120


@pytest.mark.parametrize(
    "field, reason",
    [
        ("table nothing", "no table 'nothing'"),
        ("orthogonal_gap-paper r3_all .3f", "the record of sprites has no"),
        ("orthogonal_gap-paper r2_all mode .3f", "the record of sprites has no"),
        ("nothing-paper r2_all .3f", "nothing-paper.json"),
    ],
)
def test_a_field_that_the_record_does_not_have_is_an_error(field, reason):
    with pytest.raises(BadInput, match=reason):
        readme.field("sprites", field)


def test_a_familys_claims_are_counted_by_kind():
    table = readme.field("vectors", "standing").splitlines()
    assert table[0] == "| kind | claims | match | no match | underpowered |"
    assert [line.split(" | ")[:2] for line in table[2:]] == [
        ["| read off a figure", "9"],
        ["| in words", "3"],
    ]


def test_fields_of_a_recorded_metric():
    recorded = read_json(report.RECORD / "sprites" / "orthogonal_star-paper.json")
    metric = recorded["metrics"]["r2_all"]
    start = "orthogonal_star-paper r2_all"
    assert readme.field("sprites", f"{start} .4f") == f"{metric['ours']:.4f}"
    assert readme.field("sprites", f"{start} most .4f") == f"{max(metric['values']):.4f}"
    assert (
        readme.field("sprites", f"{start} difference +.4f")
        == f"{metric['ours'] - metric['paper']:+.4f}"
    )
    assert readme.field("sprites", f"{start} n d") == str(len(metric["seeds"]))


def test_the_readme_is_short_and_names_every_family():
    text = READMES[0].read_text()
    for family in experiments.FAMILIES:
        assert re.search(rf"\[`?{family}[^]]*\]\(cgjax/experiments/", text, re.I), family


def test_functions_that_the_readme_names_are_there():
    (block,) = re.findall(
        r"```python\n(from cgjax.analysis import.*?)```", READMES[0].read_text(), re.S
    )
    modules, calls = block.split("\n", 1)
    found = re.findall(r"(\w+)\.(\w+)\(", re.sub(r"#.*", "", calls))
    assert len(found) >= 8
    for module, name in found:
        assert module in modules
        assert callable(getattr(importlib.import_module(f"cgjax.analysis.{module}"), name))


@pytest.mark.parametrize("path", READMES, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_commands_in_the_readmes_are_understood(path):
    """Rows, sizes, keys and flags of every command are there."""
    text = path.read_text()
    for line in re.findall(r"^[^`\n]*python -m cgjax\.main (--.*)", text, re.MULTILINE):
        flags, overrides, _ = parse(shlex.split(line, comments=True))
        if flags.config:
            configs.load(flags.config, overrides)


def test_the_report_prints_every_table(capsys):
    assert main([]) == 0
    assert "kernels" in capsys.readouterr().out
    assert main(["kernels"]) == 0
    assert "## kernels, recomputed" in capsys.readouterr().out
    assert main([f"--record={report.RECORD}"]) == 0
    printed = capsys.readouterr().out
    titles = [line.removeprefix("## ") for line in printed.splitlines() if line.startswith("#")]
    own = ["sprites", "sprites, beyond the paper", "sprites, size fast"]
    own += [
        "sprites, size paper",
        "sprites, unsupervised_shared, size default",
        "sprites, unsupervised_attention, size fast",
    ]
    own += ["sprites, unsupervised_conv, size fast"]
    own += ["support", "vectors", "kernels", "kernels, recomputed", "bumps"]
    own += ["resistance: orderings", "resistance: recomputed"]
    own += ["subnetworks", "subnetworks: structure", "coverage, size default"]
    own += ["coverage, size fast", "coverage, size paper", "predict: standing"]
    own += ["predict: held-out pairs", "predict: differences", "predict: pairs"]
    own += ["predict: later pairs"]
    assert titles == own
    assert not re.search(r"\|---.*\n\n", printed + "\n"), "a table without rows"
    assert "| gap_shift | fast | 0.933 | 0.929 |" in printed


@pytest.mark.parametrize("family", sorted(experiments.FAMILIES.keys() - {"coverage", "predict"}))
def test_every_family_states_its_tables(family):
    """Of a run with one number, ours beside the paper's."""
    published = {"mean": 0.75, "sd": 0.1, "where": "a table", "kind": "printed"}
    metric = summary([0.5], [0], published | {"recomputed": published})
    entry = {"row": "one", "size": "fast", "label": "", "devices": "1x test", "wall_s": 1.0}
    entry["metrics"] = {"r2_all": metric, "new pairs: slope": metric}
    found = experiments.family(family).tables([entry])
    assert found and any("0.500 | 0.750 | -0.250" in table for _, table in found)
