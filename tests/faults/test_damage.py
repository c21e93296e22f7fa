"""Truncated, flipped, foreign or pickled files: a one-line error, or a repaired run.

One process, one tiny run; each damage is done to a copy of it.
"""

import json
import os
import pathlib
import pickle
import random
import shutil
import zipfile

import jax
import numpy as np
import pytest
import toy
from front_door import one_line, snapshot, working_in

from cgjax import report
from cgjax.core import train
from cgjax.core.errors import BadInput
from cgjax.core.logging import read_kept
from cgjax.data import pretrained
from cgjax.main import main
from cgjax.nets import convert
from cgjax.nets.convert.files import read_safetensors

pytestmark = [
    pytest.mark.faults,
    # Storage threads outlive the read that has failed: see `main.set_up_output`.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with working_in(tmp_path_factory.mktemp("here"), "damagelab") as folder:
        yield folder


def command(workdir, *more):
    flags = ["--config=damagelab/config.py:few,smoke", f"--workdir={workdir}", "--no_figures"]
    return main([*flags, "--config.train.seeds=0,1", "--config.optim.lr=1e-3", *more])


@pytest.fixture(scope="module")
def finished(here):
    assert command("finished") == 0
    return here / "finished"


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def flip(path: pathlib.Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def cut(path: pathlib.Path, length: int) -> None:
    os.truncate(path, length)


def places(path: pathlib.Path, n: int, seed: int = 0) -> list[int]:
    """Random bytes of a file, its first and its last."""
    size = path.stat().st_size
    return sorted({0, size - 1, *(random.Random(seed).randrange(size) for _ in range(n))})


# --- checkpoints ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(folder, state) of a toy run that is finished."""
    folder = tmp_path_factory.mktemp("trained")
    settings = toy.config(seeds=(0, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
        state, _ = train.fit(toy.experiment(settings), settings, folder)
        yield folder, state


def goes_on(folder, expected) -> None:
    """The run is taken up again and ends with the same bits."""
    settings = toy.config(seeds=(0, 1))
    state, _ = train.fit(toy.experiment(settings), settings, folder)
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(expected)):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def files_of(step: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in step.rglob("*") if path.is_file() and path.stat().st_size)


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_checkpoint_damaged_anywhere_gives_the_same_bits(damage, trained, tmp_path):
    """Every file of the newest, at two random places; what is worthless is not missed."""
    folder, state = trained
    files = files_of(folder / "checkpoints/seeds_0-1/12")
    assert len(files) >= 5
    moments = random.Random(str(damage))
    for i, path in enumerate(files * 2):
        other = tmp_path / str(i)
        shutil.copytree(folder, other)
        target = other / path.relative_to(folder)
        size = target.stat().st_size
        damage(target, moments.randrange(8 * size if damage is flip else size))
        goes_on(other, state)


class Unpickled:
    """Leaves a trace where somebody unpickles it."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


@pytest.fixture
def trap(tmp_path):
    """The bytes of a pickle; whoever opened it is found out at the end."""
    trace = tmp_path / "opened"
    yield Unpickled(trace)
    assert not trace.exists()
    pickle.loads(pickle.dumps(Unpickled(trace)))  # the trap itself works
    assert trace.is_dir()


def test_a_pickle_is_no_checkpoint(trap, trained, tmp_path, caplog):
    folder, state = trained
    content = pickle.dumps(trap)
    for i, path in enumerate(files_of(folder / "checkpoints/seeds_0-1/12")):
        other = tmp_path / str(i)
        shutil.copytree(folder, other)
        (other / path.relative_to(folder)).write_bytes(content)
        goes_on(other, state)
    assert "checkpoint 12 is damaged" in caplog.text
    other = tmp_path / "all"
    shutil.copytree(folder, other)
    for step in (8, 12):
        shutil.rmtree(other / f"checkpoints/seeds_0-1/{step}")
        (other / f"checkpoints/seeds_0-1/{step}").write_bytes(content)
    with pytest.raises(BadInput, match="all checkpoints in .* are damaged.*--start_anew"):
        goes_on(other, state)


# --- results and what lies beside them ------------------------------------------------------------

# What a run cannot do without, and what it makes again by itself.
KEPT = ("config.json", "metrics.jsonl", "checkpoints/seeds_0-1.json", "results.json")


@pytest.mark.parametrize("damage", [flip, cut])
@pytest.mark.parametrize("name", [*KEPT, "arrays.npz", "env.json"])
def test_a_damaged_file_is_told_or_made_again(name, damage, finished, copy, capsys):
    """Never another number: what the command ends with is what was found, or one line."""
    metrics = json.loads((finished / "results.json").read_text())["metrics"]
    arrays = dict(np.load(finished / "arrays.npz"))
    n_errors = 0
    for place in places(copy / name, 12):
        shutil.rmtree(copy)
        shutil.copytree(finished, copy)
        damage(copy / name, 8 * place + 2 if damage is flip else place)
        if name in KEPT[1:3]:  # read where there is something to do
            (copy / "results.json").unlink()
        capsys.readouterr()
        code = command(copy)
        if code:
            assert code == 2
            n_errors += 1
            one_line(capsys)
        else:
            assert json.loads((copy / "results.json").read_text())["metrics"] == metrics
            again = dict(np.load(copy / "arrays.npz"))
            assert all(np.array_equal(again[key], arrays[key]) for key in arrays)
    assert n_errors or name in ("arrays.npz", "env.json")


ODD = {
    "pickle": lambda trap: pickle.dumps(trap),
    "latin": lambda trap: b'{"a": "\xff\xfe"}',
    "zeros": lambda trap: bytes(4096),
    "deep": lambda trap: b"[" * 200_000,
    "huge": lambda trap: b'{"a": [' + b"1," * 2_000_000 + b"1]}",
    "number": lambda trap: b'{"a": ' + b"9" * 10_000 + b"}",
    "infinite": lambda trap: b'{"metrics": NaN, "family": Infinity}',
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_content_is_one_line(odd, trap, copy, finished, capsys):
    for name in ("results.json", "config.json", "metrics.jsonl", "checkpoints/seeds_0-1.json"):
        shutil.rmtree(copy)
        shutil.copytree(finished, copy)
        (copy / name).write_bytes(ODD[odd](trap))
        if name not in ("results.json", "config.json"):
            (copy / "results.json").unlink()
        capsys.readouterr()
        assert command(copy) == 2, name
        one_line(capsys, pathlib.Path(name).name)


def test_a_lock_that_is_a_link_is_not_followed(copy, tmp_path, capsys):
    (copy / ".lock").unlink(missing_ok=True)
    (tmp_path / "precious").write_text("mine")
    (copy / ".lock").symlink_to(tmp_path / "precious")
    assert command(copy) == 2
    one_line(capsys, "cannot create workdir")
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("name", ["results.json", "config.json", "checkpoints/seeds_0-1.json"])
def test_a_pipe_or_device_in_place_of_a_file_is_one_line(name, copy, capsys):
    if name.startswith("checkpoints"):
        (copy / "results.json").unlink()
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir):
        path = copy / name
        path.rmdir() if path.is_dir() else path.unlink()
        make(path)
        assert command(copy) == 2
        one_line(capsys, name, "it is not a file")


def test_the_config_of_another_family_is_refused(copy, capsys):
    path = copy / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"family": "sprites"}))
    before = snapshot(copy)
    assert command(copy) == 2
    one_line(capsys, "another config", "family: sprites -> damagelab.study")
    assert {k: v for k, v in snapshot(copy).items() if not k.endswith(".lock")} == {
        k: v for k, v in before.items() if not k.endswith(".lock")
    }


# --- pickles elsewhere ----------------------------------------------------------------------------


def object_npz(path: pathlib.Path, trap, **names) -> pathlib.Path:
    np.savez(path, **dict.fromkeys(names or {"a": 0}, np.array([trap], object)))
    return path


def test_a_pickle_among_arrays_is_refused(trap, tmp_path):
    (tmp_path / "8.npz").write_bytes(pickle.dumps(trap))
    for path in (object_npz(tmp_path / "4.npz", trap, replicas=0), tmp_path / "8.npz"):
        with pytest.raises(BadInput, match=f"cannot read '{path}'"):
            read_kept(path)
    sound = tmp_path / "12.npz"
    np.savez_compressed(sound, replicas=np.arange(500.0))
    with zipfile.ZipFile(sound) as file:
        start = file.infolist()[0].header_offset
    for bit in range(8 * start, 8 * sound.stat().st_size, 97):
        np.savez_compressed(sound, replicas=np.arange(500.0))
        flip(sound, bit)
        try:
            found = read_kept(sound)
        except BadInput:
            continue
        np.testing.assert_array_equal(found["replicas"], np.arange(500.0))


def test_a_pickle_is_no_network(trap, tmp_path, monkeypatch):
    (tmp_path / "model.safetensors").write_bytes(pickle.dumps(trap))
    with pytest.raises(BadInput, match="safetensors"):
        read_safetensors(tmp_path / "model.safetensors")
    with pytest.raises(BadInput, match="safetensors"):
        read_safetensors(object_npz(tmp_path / "a.npz", trap))
    monkeypatch.setenv("CGJAX_MINILM_DIR", str(tmp_path))
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(trap))
    with pytest.raises(BadInput, match="lacks"):  # nothing else than safetensors is looked for
        pretrained.minilm()
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    (tmp_path / "config.json").write_bytes(pickle.dumps(trap))
    assert pretrained.minilm() == tmp_path
    with pytest.raises(BadInput):
        convert.bert_from_folder(tmp_path)


def test_a_pickle_is_no_record(trap, copy, tmp_path):
    record = tmp_path / "record"
    (record / "sprites").mkdir(parents=True)
    (record / "sprites/a-fast.json").write_bytes(pickle.dumps(trap))
    with pytest.raises(BadInput, match="a-fast.json"):
        report.entries("sprites", record)
    (copy / "results.json").write_bytes(pickle.dumps(trap))
    with pytest.raises(BadInput, match="results.json"):
        report.add(copy, record)
