"""`python -m cgjax.audit`: tables of one's own, what they lack, and bad ones in one line."""

import csv
import io
import sys
import zipfile

import numpy as np
import pytest
from front_door import one_line

from cgjax.analysis import factor_tables
from cgjax.audit import coverage, tables
from cgjax.audit.__main__ import main

WORLD = """
import jax.numpy as jnp

def part(z):
    return jnp.concatenate([z, z**2], axis=1)

def add(slots):
    return slots[0] + slots[1]

def gated(slots):
    return slots[0] * slots[1][:, :1] + slots[1]

def fails(slots):
    raise RuntimeError("no such world")

def flat(slots):
    return 3.0

def short(slots):
    return slots[0][:1]

parts = [part, part]
number = 3
"""
NAMES = ("shape", "x")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "audited_world.py").write_text(WORLD)
    yield tmp_path
    sys.modules.pop("audited_world", None)


def table(name, rows, names=NAMES):
    rows = np.asarray(rows, float)
    np.savez(name, **{name: column for name, column in zip(names, rows.T)})
    return name


def test_coverage_of_a_grid_by_its_own_values(here, capsys):
    (here / "own.csv").write_text("colour,size\nred,1\nred,2\nblue, 1\n\ngreen,2\ngreen,3\n")
    assert main(["--latents=own.csv"]) == 0
    out = capsys.readouterr().out
    assert "own.csv · 5 rows of 2 factors · against every combination of its values" in out
    assert "colour  3 of 3 values, blue, green, red" in out
    assert "coverage: 5 of 9 combinations (55.6%), 5 of 9 pairs of values" in out
    assert "2  size = 3 with colour = blue, red (never together)" in out
    assert (here / "own-audit.png").read_bytes()[:4] == b"\x89PNG"


def test_dsprites_shape_one_corner_left_out(here, capsys):
    sizes = (3, 6, 40, 32, 32)
    rows = factor_tables.grid(sizes)
    # As in dSprites' own file: a colour that never varies, and a pickle beside the factors.
    everything = np.concatenate([np.ones((len(rows), 1), int), rows], axis=1)
    np.savez("all.npz", latents=everything.astype(np.uint8), metadata=np.array([{}], object))
    gone = (rows[:, 0] == 2) & (rows[:, 3] >= 16)
    np.savez("train.npz", everything[~gone].astype(np.uint8))
    flags = ["--latents=train.npz", "--against=all.npz:latents", "--columns=1,2,3,4,5"]
    assert main([*flags, "--out=made/here"]) == 0
    out = capsys.readouterr().out
    assert "coverage: 614,400 of 737,280 combinations (83.3%)" in out
    assert "122,880  4 = 16 to 31 with 1 = 2 (never together)" in out and "scattered" not in out
    assert (here / "made/here/train-audit.png").exists()
    assert main(flags[:2]) == 2
    one_line(capsys, "factor '0' never varies", "--columns")


def test_samples_are_cut_into_bins(here, capsys):
    p = np.random.default_rng(0).uniform(0.01, 0.99, size=(4000, 2))
    q = np.random.default_rng(1).uniform(size=(4000, 2))
    p = p[~((p[:, 0] > 0.5) & (p[:, 1] > 0.5))]
    assert main([f"--latents={table('p.npz', p)}", "--bins=4"]) == 0
    assert "12 of 16 combinations (75.0%)" in capsys.readouterr().out
    assert main(["--latents=p.npz", f"--against={table('q.npz', q)}", "--bins=4"]) == 0
    # Bins span Q, whose middle is not quite 0.5: only the outer corner is surely empty.
    assert "with shape = 0.7497 to 0.9995 (never together)" in capsys.readouterr().out
    flags = ["--latents=p.npz", f"--against={table('q.npz', q / 2)}"]
    assert main(flags) == 2
    one_line(capsys, "rows of --latents are not in --against")


def test_the_theorem_names_what_to_collect_and_is_asked_again(here, capsys):
    rows = factor_tables.grid((5, 5))
    p = rows[rows[:, 1] != 4]
    flags = [
        f"--latents={table('p.npz', p)}",
        f"--against={table('q.npz', rows)}",
        "--composition=audited_world:add",
    ]
    assert main([*flags, "--components=audited_world:part"]) == 0
    out = capsys.readouterr().out
    assert "5  x = 4 (never shown)" in out
    assert "The theorem does not apply: A2" in out
    assert "to collect: 1 combination for 1 failing value, the fewest for each value" in out
    assert "P determines f on Q up to" in out.split("with them: ")[1]
    with open("p-collect.csv") as handle:
        head, *collected = list(csv.reader(handle))
    assert head == list(NAMES) and [row[1] for row in collected] == ["4"]
    assert (
        main([flags[0].replace("p.npz", "q.npz"), *flags[2:], "--components=audited_world:parts"])
        == 0
    )
    out = capsys.readouterr().out
    assert "nothing is missing" in out and "P determines f on Q up to" in out
    assert "to collect" not in out


def test_partners_that_hide_a_value_are_replaced(here, capsys):
    """Shape 0 is shown only beside x = 0, where C hides it: A3, though every value is there."""
    rows = factor_tables.grid((4, 4))
    p = rows[(rows[:, 0] > 0) | (rows[:, 1] == 0)]
    flags = [
        f"--latents={table('p.npz', p)}",
        "--composition=audited_world:gated",
        "--components=audited_world:parts",
    ]
    assert main(flags) == 0
    out = capsys.readouterr().out
    assert "The theorem does not apply: A3" in out
    assert "for 1 failing value, the fewest for each value" in out
    with open("p-collect.csv") as handle:
        _, (shape, x) = list(csv.reader(handle))
    assert shape == "0" and x != "0"
    assert "P determines f on Q up to" in out.split("with them: ")[1]


def test_different_ids_stay_different(here, capsys):
    """Python's float reads 1_12 and 11_2 as 112, and merges whole numbers above 2**53."""
    ids = {
        "word": ("1_12", "11_2"),
        "big": ("9007199254740992", "9007199254740993"),
        "script": ("9", "\uff19"),
    }
    for name, (first, second) in ids.items():
        (here / "ids.csv").write_text(f"id,x\n{first},0\n{first},1\n{second},0\n")
        code = main(["--latents=ids.csv"])
        if name == "script":  # a number, and a word
            assert code == 2
            one_line(capsys, "mixes numbers and words")
            continue
        assert code == 0
        out = capsys.readouterr().out
        assert "id  2 of 2 values" in out and "3 of 4 combinations" in out
    for dtype in (np.int64, np.uint64):
        big = np.array([2**53, 2**53, 2**53 + 1], dtype)
        np.savez("ids.npz", id=big, x=np.array([0, 1, 0]))
        assert main(["--latents=ids.npz"]) == 0
        assert "3 of 4 combinations" in capsys.readouterr().out


def test_an_index_that_pandas_wrote_is_left_out(here, capsys):
    (here / "own.csv").write_text(",a,b\n0,x,1\n1,x,2\n2,y,1\n")
    for flags in ((), ("--columns=a,b",)):
        assert main(["--latents=own.csv", *flags]) == 0
        assert "3 rows of 2 factors" in capsys.readouterr().out
    # A column that is not asked for is not read.
    (here / "own.csv").write_text("a,b,c\nx,1,1\nx,2,\ny,1,word\n")
    assert main(["--latents=own.csv", "--columns=a,b"]) == 0


def test_dollars_are_no_formula(here, capsys):
    (here / "money.csv").write_text("$\\frac{$,$x$_$\n$a^$,$_{1$\n$$,\\$\n$a^$,\\$\n")
    assert main(["--latents=money.csv"]) == 0
    assert (here / "money-audit.png").exists()


def test_an_npz_that_is_none_is_one_line(here, capsys):
    np.save("table.npy", np.arange(6.0).reshape(3, 2))
    (here / "table.npz").write_bytes((here / "table.npy").read_bytes())
    assert main(["--latents=table.npz"]) == 2
    one_line(capsys, "is not an npz file")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 2)}
    )
    with zipfile.ZipFile("table.npz", "w") as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(64))
    assert main(["--latents=table.npz"]) == 2
    one_line(capsys, "cannot be read as npz")


GOOD = "a,b\n0,0\n0,1\n1,0\n1,1\n2,2\n"
BAD_FILES = {
    "ragged.csv": ("a,b\n0,1\n0\n", "ragged: row 2 has 1 of 2 cells"),
    "one.csv": ("a\n0\n1\n", "one column, 'a'"),
    "still.csv": ("a,b\n0,1\n1,1\n", "factor 'b' never varies"),
    "text.csv": ("a,b\n0,1\n1,two\n", "column 'b' of 'text.csv' mixes numbers and words: row 2"),
    "gap.csv": ("a,b\n0,x\n1,\n", "row 2 holds ''"),
    "nan.csv": ("a,b\n0,1\n1,nan\n", "NaN or infinite in 1 rows, first in row 2"),
    "bare.csv": ("0,1\n1,0\n", "must name the columns"),
    "twice.csv": ("a,a\n0,1\n", "different names"),
    "empty.csv": ("", "holds no rows"),
    "head.csv": ("a,b\n", "holds no rows"),
    "bytes.csv": (b"\xff\xfe\x00", "is not a valid csv file"),
    "odd.npz": (b"no zip", "holds Python objects"),
    "table.txt": (GOOD, "pass a .npz or .csv file"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_line(name, here, capsys):
    content, words = BAD_FILES[name]
    (here / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main([f"--latents={name}"]) == 2
    one_line(capsys, words)
    assert not list(here.glob("*.png"))


def test_bad_arrays_are_one_line(here, capsys):
    columns = {"a": np.arange(3.0), "b": np.arange(3.0)}
    for arrays, words in (
        ({"a": np.array([{}], object)}, "a pickle"),
        ({"p": np.zeros((3, 2)), "q": np.zeros((3, 2))}, "p [3, 2], q [3, 2]; name one"),
        (columns | {"b": np.arange(2.0)}, "several lengths or ranks"),
        (columns | {"b": np.array([0, np.nan, 1])}, "column 'b' of 'bad.npz' is NaN"),
        (columns | {"b": np.array([0j, 1, 2])}, "real numbers or words"),
        ({"a": np.zeros((0, 2))}, "holds no rows"),
        ({}, "holds no array"),
    ):
        np.savez("bad.npz", **arrays)
        assert main(["--latents=bad.npz"]) == 2
        one_line(capsys, words)
    assert main(["--latents=bad.npz:q"]) == 2
    one_line(capsys, "has no array 'q'")


WRONG = {
    "--latents=none.csv": "no file 'none.csv'",
    "--latent=good.csv": "unknown argument '--latent=good.csv' (did you mean",
    "--columns=a,c": "no column 'c'",
    "--bins=1": "--bins must be",
    "--bins=x": "--bins",
    "--composition=audited_world:add": "go together",
    "--sizes=1,1": "are of --components",
    "--condition=stack": "is of --composition",
    "--out=other.csv": "--out=other.csv is a file",
    "--against=other.csv": "column 'b' is in 'good.csv' alone",
    "--against=small.csv": "2 rows of --latents are not in --against, first row 4 (a=1, b=1)",
    "--against=words.csv": "numbers in one table, of words in the other",
}  # fmt: skip


@pytest.mark.parametrize("flag", WRONG)
def test_a_wrong_flag_is_one_line(flag, here, capsys):
    (here / "good.csv").write_text(GOOD)
    (here / "other.csv").write_text(GOOD.replace("b", "c"))
    (here / "small.csv").write_text("a,b\n0,0\n0,1\n1,0\n")
    (here / "words.csv").write_text("b,a\nx,0\ny,1\n")
    assert main([flag] + ["--latents=good.csv"] * (not flag.startswith("--latent"))) == 2
    one_line(capsys, WRONG[flag])


WORLDS = {
    ("audited_world:add", "no_module:part"): "cannot import 'no_module'",
    ("audited_world:add", "audited_world:no_part"): "has no 'no_part'",
    ("audited_world:add", "audited_world"): "must be module:function",
    ("audited_world:add", "audited_world:number"): "must be a function, or a list",
    ("audited_world:number", "audited_world:parts"): "is not a function",
    ("audited_world:fails", "audited_world:parts"): "raised RuntimeError: no such world",
    ("audited_world:flat", "audited_world:parts"): "returned float: it must return real numbers",
    ("audited_world:short", "audited_world:parts"): "must map slots [n, ...] to one array",
    ("audited_world:add", "audited_world:flat"): "returned float: it must return real numbers",
    ("audited_world:add", "audited_world:parts", "--sizes=1,2"): "2 in all",
    ("audited_world:add", "audited_world:parts", "--sizes=a"): "whole numbers",
    ("audited_world:add", "audited_world:parts", "--latents=words.csv"): "'b' is of words",
}


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: " ".join(world))
def test_a_bad_world_is_one_line(world, here, capsys):
    (here / "good.csv").write_text(GOOD)
    (here / "words.csv").write_text("a,b\n0,x\n1,y\n2,x\n")
    composition, components, *more = world
    flags = [f"--composition={composition}", f"--components={components}", *more]
    assert main(["--latents=good.csv", *flags]) == 2
    one_line(capsys, WORLDS[world])


def test_a_grid_too_large_asks_for_another_table(here, capsys):
    rows = np.random.default_rng(0).uniform(size=(200, 6))
    assert main([f"--latents={table('p.npz', rows, 'abcdef')}"]) == 2
    one_line(capsys, "the grid has 64,000,000 combinations", "give --against")


def test_help(capsys):
    assert main(["--help"]) == 0
    assert "--composition" in capsys.readouterr().out


def test_large_whole_numbers_are_shown_and_written_as_they_are(here, capsys):
    # Of 10 digits, all times of a column would be the same.
    times = 1_700_000_000_000 + np.arange(4)
    factor = tables.Factor("time", times.astype(float), False)
    assert (
        factor.text([1]) == "1700000000001"
        and factor.text([0, 3]) == "1700000000000, 1700000000003"
    )
    coverage.write(here / "collect.csv", [factor, factor], np.stack([times, times / 7], axis=1))
    read = (
        tables.read("collect.csv")
        if len({"time"}) == 2
        else np.loadtxt("collect.csv", delimiter=",", skiprows=1)
    )
    np.testing.assert_array_equal(read, np.stack([times, times / 7], axis=1))
