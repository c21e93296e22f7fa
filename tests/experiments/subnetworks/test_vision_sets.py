"""Sets as files and as pixels: the same from any process, whole after a kill, damage reported."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.experiments.subnetworks.vision import sets


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(sets, "CHUNK", 4)


def load(folder, n=10, which="compositional", **options):
    options = {"processes": 1} | options
    return sets.load("number-contact", "val", which, n, 32, 0, folder, **options)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b))


@pytest.fixture(scope="module")
def drawn():
    """Ten problems, without files."""
    arrays = sets.draw(sets.recipe_of("number-contact", "val", "compositional", 32, 0), 0, 10)
    return sets.Problems(**arrays)


def test_a_problem_depends_on_its_place_alone(drawn):
    for rule in sets.RULES:
        recipe = sets.recipe_of(rule, "val", "compositional", 32, 0)
        together, alone = sets.draw(recipe, 0, 6), sets.draw(recipe, 4, 5)
        for name, values in alone.items():
            np.testing.assert_array_equal(together[name][4:5], values)
    assert drawn.maps.shape == (10, 4, 32, 32) and drawn.maps.dtype == np.uint8
    assert drawn.palettes.shape == (10, 4, 5, 3) and drawn.palettes.dtype == np.uint8
    assert (drawn.palettes[:, :, 0] == 255).all() and drawn.maps.max() < 5


@pytest.mark.parametrize("other", [{"seed": 1}, {"split": "test"}, {"which": "mask_a"}])
def test_other_streams_hold_other_problems(drawn, other):
    options = {"rule": "number-contact", "split": "val", "which": "compositional"}
    recipe = sets.recipe_of(**{**options, "image_size": 32, "seed": 0, **other})
    arrays = sets.draw(recipe, 0, 2)
    assert not any((arrays["maps"][i] == drawn.maps[i]).all() for i in range(2))


def test_drawn_once_then_read(drawn, tmp_path, monkeypatch):
    assert same(load(tmp_path), drawn)
    monkeypatch.setattr(sets, "draw", None)
    assert same(load(tmp_path), drawn)
    assert same(load(tmp_path, n=6), [values[:6] for values in drawn])  # from longer chunks
    assert not list(tmp_path.rglob("*.tmp"))


def test_more_problems_begin_with_those_that_are_there(drawn, tmp_path, monkeypatch):
    load(tmp_path, n=4)
    spans = []
    draw = sets.draw
    monkeypatch.setattr(
        sets, "draw", lambda recipe, *span: spans.append(span) or draw(recipe, *span)
    )
    assert same(load(tmp_path), drawn)
    assert sorted(spans) == [(4, 8), (8, 10)]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other"])
def test_damage_is_told_and_mended(drawn, tmp_path, caplog, damage):
    load(tmp_path)
    path = sorted(tmp_path.rglob("*.npz"))[1]
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 4
    changed = {"flip": content, "cut": content[:-40], "empty": b""}
    first = sorted(tmp_path.rglob("*.npz"))[0]
    path.write_bytes(changed[damage] if damage in changed else first.read_bytes())
    assert same(load(tmp_path), drawn)
    assert "is damaged" in caplog.text and path.name in caplog.text
    caplog.clear()
    assert same(load(tmp_path), drawn) and not caplog.text


def test_several_processes_draw_the_same(drawn, tmp_path):
    assert same(load(tmp_path, processes=2), drawn)


def test_a_helper_stops_when_nobody_asks_any_more(tmp_path):
    recipe = sets.recipe_of("number-contact", "val", "compositional", 32, 0)
    task = {"recipe": recipe, "folder": str(tmp_path), "missing": [(0, 4)]}
    sets._help(task | {"parent": -1})
    assert not list(tmp_path.iterdir())
    sets._help(task | {"parent": os.getppid()})
    assert [path.name for path in tmp_path.iterdir()] == ["000000-000004.npz"]


def test_without_a_disk_problems_are_drawn_all_the_same(drawn, tmp_path, caplog):
    (tmp_path / "subnetworks").write_text("a file in the way")
    assert same(load(tmp_path), drawn)
    assert "problems are drawn anew each time" in caplog.text


@pytest.mark.parametrize(
    "args, message",
    [
        (("inside", "val", "mask_a"), "unknown rule 'inside'"),
        (("inside-contact", "valid", "mask_a"), "unknown split 'valid'"),
        (("inside-contact", "val", "mask_c"), "unknown set 'mask_c'"),
        (("inside-contact", "val", "mask_a", 0), "1 to a million, not 0"),
        (("inside-contact", "val", "mask_a", 4, 8), "32 to 1024 pixels a side, not 8"),
        (("inside-contact", "val", "mask_a", 4, 64, -1), "from 0 on, not -1"),
    ],
)
def test_bad_input(args, message, tmp_path):
    with pytest.raises(BadInput, match=message):
        sets.load(*args, cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_options_are_sets_of_their_own(tmp_path):
    balanced = load(tmp_path, options=sets.Options(balanced=True))
    assert not same(balanced, load(tmp_path))
    assert len(list((tmp_path / "subnetworks").iterdir())) == 2


def test_images(drawn):
    images = jax.jit(sets.images)(*drawn)
    assert images.shape == (10, 4, 32, 32, 3) and images.dtype == jnp.float32
    colours = np.stack([[p[m] for m, p in zip(*each)] for each in zip(*drawn)])
    np.testing.assert_allclose(images, (colours / 255 - 0.9) / 0.1, atol=1e-5)


def test_speed_is_measured():
    speed = sets.problems_per_second("number-contact", n=20, image_size=32, processes=1)
    assert min(speed) > 0 and speed.processes == 1


CHILD = """
import sys
from cgjax.experiments.subnetworks.vision import sets
sets.CHUNK = 4
folder, n = sys.argv[1], int(sys.argv[2])
sets.load("number-contact", "val", "compositional", n, 32, 0, folder, processes=2)
"""


def child(folder, n):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), str(n)],
        env=os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).parents[3])},
    )


@pytest.mark.faults
def test_a_killed_run_goes_on(tmp_path):
    process = child(tmp_path, 400)
    while len(list(tmp_path.rglob("*.npz"))) < 5:
        assert process.poll() is None, "the process ended before it was killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(1)  # helpers notice after their chunk
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert len(kept) < 100
    problems = load(tmp_path, n=400)
    assert kept.items() <= {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.npz")}.items()
    recipe = sets.recipe_of("number-contact", "val", "compositional", 32, 0)
    assert same(problems, sets.draw(recipe, 0, 400).values())


@pytest.mark.faults
def test_two_runs_share_a_cache(tmp_path, monkeypatch):
    both = [child(tmp_path, 200) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    monkeypatch.setattr(sets, "draw", None)
    assert len(load(tmp_path, n=200).maps) == 200
    assert not list(tmp_path.rglob("*.tmp"))
