"""Phases of a run, read from its lines; exponents of growth; the line about compilation."""

import sys

import jax
import pytest

from cgjax.bench import growth, wait
from cgjax.core.logging import compiling

PRINTED = """
import time
for text in ("a → b\\n", "3 parameters x 1\\n", "compiling… ", "0.1 s\\n", "m: drawing\\n"):
    print(text, end="", flush=True)
    time.sleep(0.1)
"""


def test_phases_start_with_the_lines_of_a_run(monkeypatch, tmp_path):
    popen = wait.subprocess.Popen
    fake = [sys.executable, "-c", PRINTED]
    monkeypatch.setattr(wait.subprocess, "Popen", lambda _, **kw: popen(fake, **kw))
    phases = wait.phases([], tmp_path, "cold")
    names = ["start", "data and theory", "state", "compile", "train and evaluate", "draw", "all"]
    assert list(phases) == names
    assert all(wall >= 0 for wall, _ in phases.values())
    assert sum(wall for wall, _ in phases.values()) == pytest.approx(2 * phases["all"][0])


def test_exponents_of_growth():
    rows = growth.table_rows("f", [[10, 1.0, 5.0], [100, 100.0, 50.0]])
    assert rows[0][-1] == "-" and rows[1][-1] == "2.0, 1.0"


def test_the_line_about_compilation_counts_programs_from_the_cache(capsys):
    with compiling():
        for name in ("compile_requests_use_cache", "cache_hits", "compile_requests_use_cache"):
            jax.monitoring.record_event(f"/jax/compilation_cache/{name}")
    assert capsys.readouterr().out == "compiling… 0.0 s, 1 of 2 programs from the cache\n"
    with pytest.raises(ValueError), compiling():
        raise ValueError
    assert capsys.readouterr().out == "compiling… failed\n"
