"""Random bad input in every door: no traceback, no hang, nothing is written outside.

    python -m pytest -m slow -n 0 tests/test_fuzz.py -k keys

or commands, tables, workdirs, records. Every piece has its own seed, so that one that fails can be
repeated alone. The message of a failure has the input.
"""

import copy
import io
import json
import os
import pathlib
import random
import shutil
import signal
import string
import traceback
import zipfile

import numpy as np
import pytest
from front_door import working_in, write_numbers

import cgjax
from cgjax import config as configs
from cgjax import experiments, report
from cgjax.audit.__main__ import main as audit
from cgjax.config.declare import leaves
from cgjax.core.errors import BadInput
from cgjax.main import main
from cgjax.published.claims import CLAIMS
from cgjax.report import page
from cgjax.report.__main__ import main as report_main
from cgjax.reproduce import main as reproduce
from cgjax.sweep.__main__ import main as sweep

pytestmark = [
    pytest.mark.slow,
    # Storage threads outlive a read that has failed: see `checkpoint.silence_echoes`.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
N = {"keys": 2000, "commands": 600, "tables": 1000, "workdirs": 1000, "records": 1000}
PIECES = 10  # of each kind
SECONDS = 10  # of processor time that one case may take; other processes may slow the clock down
CODES = (0, 2)  # done, bad input
SHOWN = 600  # characters of a case that fails
PACKAGE = pathlib.Path(cgjax.__file__).parent
TRACE = pathlib.Path("/tmp/cgjax-fuzz-trace")


class Hang(BaseException):
    """One case took longer than SECONDS."""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The folder where commands are typed, four levels below the folder that is watched."""
    folder = tmp_path_factory.mktemp("watched") / "a" / "b" / "c" / "here"
    folder.mkdir(parents=True)
    with working_in(folder, "fuzzlab") as folder:
        yield folder


@pytest.fixture
def tried(here, capsys):
    """(case, action) -> None; notes tracebacks, hangs and errors of more than one line."""
    failures = []

    def stop(*_):
        raise Hang

    def outside():
        """Every file beside `here` and in the package, with its time."""
        watched = [path for path in here.parents[3].rglob("*") if here not in (path, *path.parents)]
        package = (path for path in PACKAGE.rglob("*") if "__pycache__" not in path.parts)
        return {path: path.lstat().st_mtime_ns for path in [*watched, *package] if path.is_file()}

    def call(case, action):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            code = action()
        except BadInput:
            code = 2
        except (Exception, Hang, SystemExit) as error:
            code = "".join(traceback.format_exception(error, limit=-2)[1:])
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        said = capsys.readouterr().err.strip().splitlines()
        if code not in CODES or (code == 2 and len(said) > 1):
            failures.append(f"{code} {said} for {str(case)[:SHOWN]}")

    old, before = signal.signal(signal.SIGPROF, stop), outside()
    os.chdir(here)
    yield call
    signal.signal(signal.SIGPROF, old)
    assert outside() == before and not TRACE.exists()
    assert not failures, "\n".join([f"{len(failures)} failures", *failures])


def pieces(kind):
    """Parametrizes a test: a random generator for each piece, and its number of cases."""
    seeds = [pytest.param(random.Random(f"{kind} {i}"), id=f"{kind}-{i}") for i in range(PIECES)]
    return pytest.mark.parametrize("rng", seeds)


# --- values ---------------------------------------------------------------------------------------

TEXTS = [
    "", " ", "0", "-1", "1", "2", "3", "7", "64", "2147483647", "2147483648", "-2147483648",
    "4294967295", "1" * 40, "1e308", "1e400", "-1e308", "1e-320", "0.5", "-0.0", "nan", "inf",
    "-inf",
    "()", "(,)", "(0,)", "0,0", "0,1", "0,1,2", "1,(2,3)", "((0,1),(1,0))", "[]", "{}", "[1,2]",
    "'a'", "a", "A" * 5000, "true", "False", "None", "1_000", "0x10", "\uff11", "\x00", "\udcff",
    "../x", "../../../x", str(TRACE), "a/b", "..", "-", "--", "=", ",", "1," * 2000, "(" * 500,
    "relu", "adam", "sgd", "mnist", "random", "compositional", "$(touch x)", "a\nb", "é", "٣",
    f"__import__('pathlib').Path('{TRACE}').touch()",
]  # fmt: skip


def text(rng) -> str:
    kind = rng.random()
    if kind < 0.7:
        return rng.choice(TEXTS)
    if kind < 0.85:
        return str(rng.choice((-1, 1)) * rng.randrange(10 ** rng.randrange(1, 12)))
    return "".join(rng.choices(string.printable + "éß\u2028\U0001f600", k=rng.randrange(1, 12)))


VALUES = [
    None, True, False, 0, -1, 3, 10**30, 10**400, 0.5, 1e200, -1e308, float("nan"), float("inf"),
    "",
    "x", "../../../x", str(TRACE), "a\x00b", "\ud800", "x" * 5000, "os", "paper", "smoke", [], [[]],
    [None], ["x"], [1, "x"], [1e200], {}, {"x": 1}, {"": {}}, {"a.b": 1}, {"../x": {}},
]  # fmt: skip


def places(tree, path=()):
    """Paths to every value of a json tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def mutated(rng, tree):
    """A json tree with one to three values replaced, removed or added."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.randrange(1, 4)):
        known = list(places(tree)) if isinstance(tree, dict | list) else ()
        if not known:
            return tree
        # Few values of a record are not in its metrics: both get a share.
        top = [path for path in known if len(path) <= 3]
        *parents, last = rng.choice(top if rng.random() < 0.5 else known)
        node = tree
        for key in parents:
            node = node[key]
        change = rng.random()
        if change < 0.2:
            del node[last]
        elif change < 0.3 and isinstance(node, dict):
            node[rng.choice(("x", "", "../x", "a\x00b"))] = node.pop(last)
        else:
            node[last] = copy.deepcopy(rng.choice(VALUES))
    return tree


def damaged(rng, content: bytes) -> bytes:
    """Bytes that are cut, flipped, doubled or replaced."""
    change, place = rng.random(), rng.randrange(len(content) + 1)
    if change < 0.3:
        return content[:place]
    if change < 0.7 and content:
        flipped = bytearray(content)
        for _ in range(rng.randrange(1, 4)):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    if change < 0.8:
        return content[:place] + rng.randbytes(8) + content[place:]
    return rng.choice((b"", b"\x00" * 100, b"[" * 100_000, b"{}", b"\xff\xfe", b"null", b"NaN"))


# --- config keys ----------------------------------------------------------------------------------

ROWS = [
    "sprites:smoke", "sprites:diagonal,smoke", "support:smoke", "support:certificate,smoke",
    "vectors:smoke", "kernels:smoke", "kernels:addition_rich,smoke", "kernels:addition_mnist,smoke",
    "bumps:smoke", "bumps:B7,smoke", "resistance:smoke", "resistance:scan,smoke",
    "resistance:control,smoke", "resistance:mnist,smoke", "subnetworks:smoke", "predict:smoke",
    "coverage:smoke", "fuzzlab/config.py:few,smoke",
]  # fmt: skip


@pieces("keys")
def test_keys(rng, tried):
    for _ in range(N["keys"] // PIECES):
        row = rng.choice(ROWS)
        known = [name for name, _ in leaves(configs.load(row))]
        flags = [f"--config={row}"]
        for _ in range(rng.choice((1, 1, 1, 2))):
            key = rng.choice(known) if rng.random() < 0.95 else text(rng)
            flags.append(f"--config.{key}={text(rng)}")
        if rng.random() < 0.03:  # it traces networks
            tried(flags, lambda flags=flags: main([*flags, "--dry_run", "--workdir=run"]))
        else:
            tried(flags, lambda flags=flags: loads(flags))


def loads(flags) -> int:
    """What a run checks before it writes."""
    row, *changes = flags
    overrides = dict(flag.removeprefix("--config.").partition("=")[::2] for flag in changes)
    config = configs.load(row.removeprefix("--config="), overrides)
    experiments.check(experiments.family(config.family), config)
    return 0


# --- command lines --------------------------------------------------------------------------------

FLAGS = {
    main: ["--config=fuzzlab/config.py:few,smoke", "--config=fuzzlab/config.py",
           "--config=sprites:smoke", "--config={}", "--config=sprites:{}", "--config={}:smoke",
           "--parts={}", "--workdir={}",
           "--workdir=run", "--list", "--list={}", "--help", "--version", "--extend", "--hosts={}",
           "--host={}", "--coordinator={}", "--no_figures", "--full_table", "--config.{}=1", "{}",
           "--config.train.steps={}", "--config.train.seeds={}", "--host_timeout={}"],
    sweep: ["--config=fuzzlab/config.py:few,smoke", "--config={}", "--sweep.{}=1,2", "--runs={}",
            "--sweep.optim.lr={}", "--sweep.train.seeds={}", "--index={}", "--submit={}", "{}",
            "--runs=runs", "--config.train.steps={}", "--jobs={}", "--sweep.optim.lr=1e-3,1e-2"],
    report_main: ["--add", "--add={}", "--record={}", "--record=nowhere", "--label={}", "--out={}",
                  "--replace", "run", "{}", "--out=page"],
    reproduce: ["--list", "--list={}", "{}", "--size={}", "--run", "--list {}"],
    audit: ["--latents={}", "--latents=good.csv", "--against={}", "--against=good.csv", "--bins={}",
            "--columns={}", "--columns=a,b", "--sizes={}", "--composition={}", "--components={}",
            "--condition={}", "--out={}", "--composition=os:{}", "--components=math:{}", "--help"],
}  # fmt: skip
ALWAYS = {main: ["--dry_run"], sweep: ["--dry_run"], reproduce: ["--list"]}  # nothing is trained


@pieces("commands")
def test_commands(rng, tried, here):
    (here / "good.csv").write_text("a,b\n0,0\n0,1\n1,0\n")
    for _ in range(N["commands"] // PIECES):
        (program,) = rng.choices(list(FLAGS), [9, 5, 1, 1, 4])  # some judge every claim first
        flags = [
            flag.replace("{}", text(rng))
            for flag in rng.choices(FLAGS[program], k=rng.randrange(5))
        ]
        if not (program is main and {"--list", "--help", "--version"} & set(flags)):
            flags += ALWAYS.get(program, [])
        # Only paths inside the folder are tested: a path elsewhere may be what the user wants.
        flags = [flag for flag in flags if not is_elsewhere(flag)]
        tried((program.__module__, flags), lambda p=program, flags=flags: p(flags))
        for path in here.iterdir():
            if path.name not in ("fuzzlab", "good.csv"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def is_elsewhere(flag) -> bool:
    name, _, value = flag.partition("=")
    return name in ("--workdir", "--out", "--runs", "--record") and (".." in value or "/" in value)


# --- tables ---------------------------------------------------------------------------------------

CELLS = [
    "0", "1", "2", "-1", "0.5", "1e5", "red", "blue", "1_1", "11", "", " ", "nan", "inf", "1e400",
    "$x$", "$",
    r"\frac{", "9007199254740993", "9007199254740992", "\uff11", "a b", '"q"', "é", "\x00",
    "x" * 500,
]  # fmt: skip
HEADS = ["a", "b", "c", "x", "$x$_", "", "a", "0", "é\u4e2d", "\x07", "long" * 200, "a,b", '"']


@pieces("tables")
def test_tables(rng, tried, here):
    for _ in range(N["tables"] // PIECES):
        names = [table(rng, here, f"table{i}") for i in range(2)]
        flags = [f"--latents={names[0]}", "--out=made"]
        flags += [f"--against={names[1]}"] * (rng.random() < 0.3)
        flags += [f"--columns={','.join(rng.choices(HEADS[:6], k=2))}"] * (rng.random() < 0.2)
        flags += [f"--bins={rng.choice((2, 5, 1000))}"] * (rng.random() < 0.2)
        contents = [(here / name).read_bytes()[:400] for name in names]
        tried((flags, contents), lambda flags=flags: audit(flags))
    shutil.rmtree(here / "made", ignore_errors=True)


def table(rng, folder, name) -> str:
    """Writes a table, sound or not."""
    n, d = rng.choice((0, 1, 3, 8, 80)), rng.choice((1, 2, 2, 3, 4))
    if rng.random() < 0.6:
        heads = rng.sample(HEADS[:5], d) if rng.random() < 0.6 else rng.choices(HEADS, k=d)
        columns = [
            [str(rng.randrange(3)) for _ in range(n)]
            if rng.random() < 0.5
            else rng.choices(rng.sample(CELLS, 3), k=n)
            for _ in range(d)
        ]
        lines = [",".join(row) for row in [heads, *zip(*columns)]]
        content = rng.choice(("\n", "\n", "\r\n")).join(lines).encode("utf-8", "replace")
        path = folder / f"{name}.csv"
    else:
        arrays = {
            f"{rng.choice(HEADS[:5])}{i}": rng.choice(
                (
                    np.array([rng.randrange(3) for _ in range(n)]),
                    np.array([2**60 + rng.randrange(3) for _ in range(n)], np.uint64),
                    np.array([rng.random() for _ in range(n)]).astype(rng.choice("efd")),
                    np.array(rng.choices(["red", "$", "\x00", "é"], k=n), str),
                    np.zeros((n, d)),
                    np.zeros(n, complex),
                    np.zeros(n, "S3"),
                    np.array(3.0),
                    np.zeros(n, "datetime64[s]"),
                    np.ones(n, bool),
                )
            )
            for i in range(d)
        }
        stream = io.BytesIO()
        rng.choice((np.savez, np.savez_compressed))(stream, **arrays)
        content, path = stream.getvalue(), folder / f"{name}.npz"
        if rng.random() < 0.1:  # a header that promises more than there is
            head, big = io.BytesIO(), rng.choice(((10**12,), (10**18, 10**18), (-1,), (2**62,)))
            np.lib.format.write_array_header_1_0(
                head,
                {"descr": rng.choice(("<f8", "<U9", "|O")), "fortran_order": False, "shape": big},
            )
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w") as archive:
                archive.writestr("a.npy", head.getvalue() + bytes(64))
            content = stream.getvalue()
    path.write_bytes(damaged(rng, content) if rng.random() < 0.4 else content)
    return path.name


# --- workdirs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(here):
    flags = ["--config=fuzzlab/config.py:few,smoke", "--workdir=finished", "--no_figures"]
    assert main([*flags, "--config.train.seeds=0,1"]) == 0
    return here / "finished"


@pieces("workdirs")
def test_workdirs(rng, tried, here, finished):
    flags = ["--config=fuzzlab/config.py:few,smoke", "--workdir=run", "--no_figures"]
    flags += ["--config.train.seeds=0,1"]
    files = sorted(path.relative_to(finished) for path in finished.rglob("*") if path.is_file())
    small = [path for path in files if path.suffix in (".json", ".jsonl", ".npz")]
    actions = {
        "load": lambda: [cgjax.load("run"), 0][1],
        "latest": lambda: [cgjax.load("run", step="latest"), 0][1],
        "add": lambda: report_main(["--add", "run"]),
        "runs": lambda: [page.read("run"), 0][1],
        "dry": lambda: main([*flags, "--dry_run"]),
        "extend": lambda: main([*flags, "--dry_run", "--extend", "--config.train.steps=24"]),
        "fewer": lambda: main([*flags[:-1], "--dry_run", "--config.train.seeds=0"]),
        "again": lambda: main(flags),
    }
    for _ in range(N["workdirs"] // PIECES):
        shutil.rmtree(here / "run", ignore_errors=True)
        shutil.rmtree(here / "record", ignore_errors=True)
        shutil.copytree(finished, here / "run")
        done = []
        for _ in range(rng.choice((1, 1, 2))):
            path = here / "run" / rng.choice(small[:4] * 3 + small if rng.random() < 0.8 else files)
            done.append((str(path.relative_to(here)), wounded(rng, path)))
        shares = [3, 3, 4, 4, 3, 2, 2, 0.6]  # training again takes longest
        (name,) = rng.choices(list(actions), shares)
        tried((name, done), actions[name])


def wounded(rng, path) -> str:
    """Damages one file of a workdir; says how."""
    change, content = rng.random(), path.read_bytes() if path.is_file() else b""
    if change < 0.5 and path.suffix == ".json":
        try:
            tree = mutated(rng, json.loads(content))
        except ValueError:
            return "damaged before"
        if path.name == "results.json" and isinstance(tree, dict) and rng.random() < 0.7:
            write_numbers(path.parent, {key: tree[key] for key in tree if key != "crc"})
        else:
            path.write_text(json.dumps(tree))
        if path.name == "config.json" and rng.random() < 0.5:  # a forger changes the hashes, too
            (path.parent / "env.json").unlink(missing_ok=True)
        return path.read_text()[:2000]
    if path.is_file() or path.is_symlink():
        path.unlink()
    if change < 0.6 and not path.exists():
        other = rng.choice(("none", "folder", "pipe", "link"))
        if other == "folder":
            path.mkdir()
        elif other == "pipe":
            os.mkfifo(path)
        elif other == "link":
            path.symlink_to(rng.choice(("/dev/zero", "/dev/full", "nowhere", "..")))
        return other
    if not path.exists():
        path.write_bytes(damaged(rng, content))
    return "bytes"


# --- records --------------------------------------------------------------------------------------


@pieces("records")
def test_records(rng, tried, here):
    smallest = {}
    for family in experiments.FAMILIES:
        paths = sorted((report.RECORD / family).glob("*-*.json"), key=lambda p: p.stat().st_size)
        smallest[family] = paths[:3]
    record = here / "other"
    (here / "traplab.py").write_text(f"open('{TRACE}', 'w')\n")
    for _ in range(N["records"] // PIECES):
        shutil.rmtree(record, ignore_errors=True)
        family = rng.choice(list(smallest))
        (record / family).mkdir(parents=True)
        for path in smallest[family]:
            shutil.copy(path, record / family)
        path = record / family / rng.choice(smallest[family]).name
        if rng.random() < 0.8:
            entry = mutated(rng, json.loads(path.read_text()))
            if isinstance(entry.get("config"), dict) and rng.random() < 0.8:  # a forger's hash
                entry.pop("config_hash", None)
            case = path.name, json.dumps(entry)[:2000]
            path.write_text(json.dumps(entry))
        else:
            case = path.name, "bytes"
            path.write_bytes(damaged(rng, path.read_bytes()))
        if rng.random() < 0.2:  # another folder or name
            target = record / rng.choice(("os", "traplab", "sprites", "a b", "x" * 200))
            target.mkdir(exist_ok=True)
            os.replace(
                path, target / rng.choice((path.name, "-.json", "a-b.json", "x-\udcff.json"))
            )
        claims = [claim for claim in CLAIMS.values() if claim.family == family]
        some = rng.sample(claims, min(8, len(claims)))
        if rng.random() < 0.3 and some:
            drawn = page.Runs([], [])
            tried(case, lambda some=some, drawn=drawn: shown(record, some, drawn))
        else:
            tried(case, lambda: report_main([f"--record={record}"]))


def shown(record, claims, drawn) -> int:
    page.document(page.gather(record, [], claims), drawn)
    return 0


def test_there_are_enough_cases():
    assert sum(N.values()) >= 5000 and not any(n % PIECES for n in N.values())
