"""Text that would like to be run, data that are missing or no numbers: one line, nothing is run."""

import ast
import json
import pathlib
import shutil
import sys

import jax
import pytest
from front_door import one_line, write_family

import cgjax
from cgjax.core import workdir as folders
from cgjax.core.errors import BadInput
from cgjax.main import main
from cgjax.sweep.__main__ import main as sweep

pytestmark = pytest.mark.faults


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Where commands are typed; nothing may be left there but what the test itself made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write_family(tmp_path, "hostilelab")
    before = sorted(path.name for path in tmp_path.iterdir())
    yield tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == before


TEXTS = [
    "__import__('os').mkdir('trace')",
    "(__import__('os').mkdir('trace'),)",
    "[__import__('os').mkdir('trace') for _ in (0,)]",
    "(lambda: open('trace', 'w'))()",
    "{'a': exec(\"open('trace','w')\")}",
    "$(mkdir trace)",
    "`mkdir trace`",
    "; mkdir trace #",
    "| mkdir trace",
    "{{7*7}}",
    "!!python/object/apply:os.mkdir ['trace']",
    "0.__class__.__mro__",
    "\x00",
    "\udcff",
    "0\n1",
    "../../../trace",
    "９",  # a digit, to Python's int
]
# A word, a tuple of words, a whole number, a number, true or false, tuples of numbers.
KEYS = [
    "sprites:smoke data.support",
    "sprites:smoke model.kinds",
    "sprites:smoke train.steps",
    "sprites:smoke optim.lr",
    "sprites:smoke eval.regions",
    "sprites:smoke train.seeds",
    "sprites:smoke data.planes",
    "support:certificate,smoke data.run",
    "support:predict,smoke data.record",
]


@pytest.mark.parametrize("key", KEYS)
def test_text_is_never_run(key, here, capfd):
    row, name = key.split()
    for text in TEXTS:
        if text == "９" and name in ("train.steps", "optim.lr"):
            continue  # it is the number 9
        assert main([f"--config={row}", f"--config.{name}={text}", "--workdir=run"]) == 2, text
        one_line(capfd)
        assert main([f"--config={row}", f"--config.{text}=1", "--workdir=run"]) == 2
        one_line(capfd)


@pytest.mark.parametrize("text", TEXTS)
def test_neither_as_a_row_a_file_or_a_swept_value(text, here, capfd):
    for flag in (f"sprites:{text}", text, f"hostilelab/config.py:{text}", f"configs/{text}.py"):
        assert main([f"--config={flag}", "--workdir=run"]) == 2, flag
        one_line(capfd)
    row = "--config=hostilelab/config.py:few,smoke"
    bad = [[row, f"--sweep.data.n={text}"], [f"{row},{text}"], [row, f"--sweep.{text}=1,2"]]
    for words in bad if text != "９" else bad[1:]:
        assert sweep([*words, "--runs=run", "--dry_run"]) == 2, words
        one_line(capfd)


@pytest.mark.parametrize(
    "family", ["os.path", "antigravity.x", "../trace", "trace;x", "hostilelab"]
)
def test_a_run_of_a_strange_family_is_refused(family, here, capfd):
    """config.json may name any module: a module that is not a family is not imported."""
    (here / "strange").mkdir()
    config = {"family": family, "row": "a", "size": "smoke"}
    (here / "strange/config.json").write_text(json.dumps(config))
    with pytest.raises(BadInput):
        cgjax.load(here / "strange")
    shutil.rmtree(here / "strange")


# Calls that execute text: only for config files, which are programs.
RUNS_TEXT = {("config/__init__.py", "exec")}
# Where pickles are opened: between processes of one command, see core/hosts.py.
OPENS_PICKLES = {("core/hosts.py", "pickle.loads")}
DANGEROUS = {"eval", "exec", "os.system", "os.popen", "pickle.load", "pickle.loads",
             "marshal.loads", "yaml.load", "yaml.unsafe_load", "torch.load", "joblib.load",
             "shelve.open", "dill.load", "cloudpickle.load"}  # fmt: skip


def calls(path: pathlib.Path):
    """(name, node) of every call in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_nothing_in_the_code_runs_text_or_opens_pickles():
    package, dangerous = pathlib.Path(cgjax.__file__).parent, set()
    for path in package.rglob("*.py"):
        for name, node in calls(path):
            place = (str(path.relative_to(package)), name)
            if name in DANGEROUS:
                dangerous.add(place)
            for keyword in node.keywords:
                value = getattr(keyword.value, "value", None)
                assert (keyword.arg, value) not in {("allow_pickle", True), ("shell", True)}, place
    assert dangerous == RUNS_TEXT | OPENS_PICKLES


# --- data -----------------------------------------------------------------------------------------


def one_device(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])


def test_data_that_are_no_numbers_end_the_run_with_exit_4(tmp_path, monkeypatch, capfd):
    """All that was saved before is finite; another start says the same."""
    one_device(monkeypatch)
    monkeypatch.chdir(tmp_path)
    drawn = "x = jax.random.normal(jax.random.key(config.data.seed), (config.data.n, 3))"

    def poison(text):
        assert drawn in text
        return text.replace(drawn, f"{drawn}\n    x = x.at[5, 1].set(jnp.nan)")

    write_family(tmp_path, "nanlab", poison)
    for _ in range(2):
        assert (
            main(
                [
                    "--config=nanlab/config.py:few,smoke",
                    "--workdir=run",
                    "--no_figures",
                    "--config.data.batch=16",
                ]
            )
            == 4
        )
        one_line(capfd, "every replica turned non-finite", "metrics.jsonl")
    assert not (tmp_path / "run/results.json").exists()
    assert not folders.is_owned(tmp_path / "run")  # nothing was trained, so there is no owner


DATA = ["kernels:addition_mnist", "resistance:mnist"]


@pytest.mark.parametrize("row", DATA)
def test_missing_data_are_one_line_that_says_where_to_put_them(row, here, monkeypatch, capfd):
    for name in ("CGJAX_RAW_DIR", "CGJAX_DATA_DIR"):
        monkeypatch.setenv(name, str(here / "nowhere"))
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)  # no download
    code = main([f"--config={row}", "--workdir=run"])
    assert code == 2
    one_line(capfd, "no mnist here", "CGJAX_RAW_DIR")
