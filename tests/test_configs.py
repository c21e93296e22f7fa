"""Every row in every size is a complete config: values are allowed, periods divide."""

import pathlib

import pytest

from cgjax import config as configs
from cgjax.config import declare
from cgjax.config.declare import check, key
from cgjax.core.errors import BadInput
from cgjax.data import arrays

FILES = sorted(pathlib.Path("configs").glob("*.py"))
ROWS = [
    (path.stem, row["name"]) for path in FILES for row in configs.load_file(path).describe_rows()
]
PAPERS_OWN = configs.load_file("sprites").ROWS


@pytest.mark.parametrize("family, row", ROWS)
def test_row_in_every_size(family, row):
    for size in configs.SIZES:
        arg = ("" if row == "demo" else row) + ("" if size == "default" else f",{size}")
        config = configs.load(f"{family}:{arg.strip(',')}")  # refuses what is not allowed
        assert (config.family, config.row, config.size) == (family, row, size)
        assert config.is_locked
        fixed, declared = {"family", "row", "size", "study"}, declare.declared_keys(config)
        for name in set(declare.keys(config)) - fixed:
            known = name if not name.startswith("parts.") else name.split(".", 2)[2]
            assert known in declared, f"{name} is not declared"
        if family == "sprites" and row in PAPERS_OWN and size in ("fast", "paper"):
            per_epoch = arrays.n_batches(config.data.n_train, config.data.batch)
            assert config.optim.lr_every == config.train.steps_per_call == per_epoch == 196
            assert config.train.steps == per_epoch * {"fast": 200, "paper": 2000}[size]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_descriptions_are_one_short_line(path):
    for row in configs.load_file(path).describe_rows():
        assert len(row["doc"]) <= 110 and "\n" not in row["doc"], row["name"]
        assert set(row["times"]) == set(configs.SIZES)


def test_epochs_become_steps():
    changes = {
        "train.epochs": "4",
        "eval.at": "0,3",
        "eval.keep": "3",
        "checkpoint.keep": "1",
        "eval.epochs": "2",
    }
    config = configs.load("kernels:addition_mnist,smoke", changes)
    assert [epoch for epoch in range(9) if configs.is_evaluation(config, epoch)] == [0, 2, 3, 4]
    steps = configs.in_steps(config, 7)
    assert [step for step in range(40) if configs.is_evaluation(steps, step)] == [0, 14, 21, 28]
    assert steps.checkpoint.keep == (7,)
    assert (steps.train.steps, steps.train.steps_per_call, steps.eval.every) == (28, 7, 14)
    with pytest.raises(BadInput, match="are 28000000000 steps: beyond 32 bits"):
        configs.in_steps(config, 7_000_000_000)


def test_a_misspelt_assignment_in_a_config_fails():
    config = declare.base("sprites")
    declare.declare_training(config)
    with pytest.raises(AttributeError):
        config.train.stepss = 3


def test_a_family_is_found_without_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("sprites", "configs/sprites.py", "sprites.py"):
        assert configs.load(f"{name}:smoke").family == "sprites"
    assert configs.find("sprites") == configs.folder() / "sprites.py"
    (tmp_path / "odd:name.py").write_bytes((configs.folder() / "support.py").read_bytes())
    assert configs.load("odd:name.py:design,smoke").row == "design"
    assert configs.load("odd:name.py").row == "demo"


def test_a_config_file_is_read_anew_and_leaves_no_cache(tmp_path):
    """After two edits within a second, Python's import would still run the first version."""
    path = tmp_path / "mine.py"
    text = (configs.folder() / "support.py").read_text()
    path.write_text(text)
    before = configs.load(f"{path}:design").data.n_candidates
    path.write_text(text.replace('"n_candidates": key(24', '"n_candidates": key(25'))
    assert configs.load(f"{path}:design").data.n_candidates == before + 1
    assert [file.name for file in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"data.support": "diagonal"}, ({"data.delta"}, {"data.planes", "data.distribution"})),
        ({"data.distribution": "normal"}, ({"data.mean", "data.std"}, set())),
        ({"model.decoder": "broadcast"}, ({"model.broadcast.hidden"}, {"model.component.hidden"})),
        ({"model.composition": "alpha"}, ({"model.alpha_init"}, set())),
        ({"model.kinds": "monolithic"}, ({"model.monolith.hidden"}, {"model.decoder"})),
        ({"optim.loss": "mse_sparsity"}, ({"optim.loss_weight"}, set())),
        ({"data.support": "random", "data.n_slots": "3"}, (set(), {"eval.n_columns"})),
    ],
)
def test_a_choice_brings_its_keys_and_takes_others_away(changes, words):
    before = set(declare.keys(configs.load("sprites:orthogonal_compositional,smoke")))
    after = set(declare.keys(configs.load("sprites:orthogonal_compositional,smoke", changes)))
    assert after - before >= words[0] and before - after >= words[1]


def test_parts_do_not_share_what_their_tables_share():
    """Dicts that two parts have in common must not become one node."""
    shared = {"optim": {"lr": 1.0}}
    config = declare.base("toy")
    declare.declare(config, {"optim.lr": key(0.5, "rate"), "optim.decay": key(0.0, "decay")})
    declare.declare_parts(config, {"a": shared, "b": shared})
    configs.override(config, "parts.a.optim.lr", "2")
    assert [one.optim.lr for _, one in configs.parts(config)] == [2.0, 1.0]
    assert "lr" not in config.optim and "decay" in config.optim  # every part has its own


@pytest.mark.parametrize(
    "declared, value, words",
    [
        (key(1, "doc", low=1), 0, "must be at least 1, not 0"),
        (key(1.0, "doc", above=0), 0, "must be above 0, not 0"),
        (key(1.0, "doc"), True, "takes a number, not True"),
        (key(1, "doc"), 2**31, "is beyond 32 bits"),
        (key(("a",), "doc", choices=("a", "b")), ("c",), "one of a, b, not 'c'"),
        (key((), "doc", items=int, may_be_empty=True), (1.0,), "takes a whole number, not 1.0"),
        (key((1, 2), "doc", length=2), (1,), "takes 2 items"),
        (key((1,), "doc", distinct=True), (1, 1), "has an item twice"),
        (key((1,), "doc"), 1, "takes a tuple, not 1"),
        (key((), "doc", test=lambda pair: len(pair) == 2, wanted="pairs"), (3,), "must be pairs"),
    ],
)
def test_what_a_key_takes(declared, value, words):
    with pytest.raises(BadInput, match=words):
        check("x", declared, value)
    check("x", declared, declared.default or ((1, 2),) * (declared.kind is None))
