"""Processes of benchmarks: their results, and the message for a process that gives none."""

import sys

import jax
import pytest

from cgjax.bench import growth, harness, wait
from cgjax.bench.harness import Asked
from cgjax.core.errors import BadInput
from cgjax.core.logging import compiling

LINE = "import sys, os, time\nfor line in sys.stdin:\n    "


def asked(code):
    process = Asked(LINE + code)
    process.ask()
    return process


def test_answers_and_other_lines():
    shown, process = [], asked("print('a plan'); print('{\"seconds\": 2}', flush=True)")
    assert process.answer(shown.append) == {"seconds": 2} and shown == ["a plan"]
    process.ask()
    assert process.answer() == {"seconds": 2}
    process.end()


@pytest.mark.parametrize(
    "code, said",
    [
        ('print(\'{"failed": "no room"}\', flush=True)', "no room"),
        ("sys.exit(3)", "failed (exit 3)"),
        ("os.kill(os.getpid(), 9)", "out of memory? (signal 9)"),  # not by us: it was in time
    ],
)
def test_why_there_is_no_answer(code, said):
    process = asked(code)
    assert process.answer() == said
    process.end()


def test_one_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(harness, "LIMIT_S", 0.2)
    process = asked("time.sleep(60)")
    assert process.answer() == "over 0.2 s"
    process.end()


# --- wait -----------------------------------------------------------------------------------------
# Phases of a run, read from its lines; exponents of growth; the line about compilation.


PRINTED = """
import time
for text in ("a → b\\n", "compiling… ", "0.1 s\\n", "3 parameters x 1\\n", "m: drawing\\n"):
    print(text, end="", flush=True)
    time.sleep(0.1)
"""


def test_phases_start_with_the_lines_of_a_run(monkeypatch, tmp_path):
    popen = wait.subprocess.Popen
    fake = [sys.executable, "-c", PRINTED]
    monkeypatch.setattr(wait.subprocess, "Popen", lambda _, **kw: popen(fake, **kw))
    phases = wait.phases([], tmp_path, "cold")
    names = ["start", "data and theory", "compile", "train and evaluate", "draw", "all"]
    assert list(phases) == names
    assert all(wall >= 0 for wall, _ in phases.values())
    assert sum(wall for wall, _ in phases.values()) == pytest.approx(2 * phases["all"][0])


def test_a_run_that_fails_has_no_times(capfd):
    """A refused command ends in half a second, which is not the time of a run."""
    with pytest.raises(BadInput, match="sprites:smok ended with exit code 2"):
        wait.measure(["--config=sprites:smok"])
    assert wait.main(["sprites:smok"]) == 2
    assert wait.main([]) == 2
    printed = capfd.readouterr()
    assert "s, cached" not in printed.out and "name a config" in printed.err


def test_exponents_of_growth():
    rows = growth.table_rows("f", [[10, 1.0, 5.0], [100, 100.0, 50.0]])
    assert rows[0][-1] == "-" and rows[1][-1] == "2.0, 1.0"
    # What is printed as zero has no exponent: one of 0 MB was 9.7.
    rows = growth.table_rows("f", [[10, 0.001, 0.0], [100, 0.1, 5.0], [1000, 1.0, 5.0]])
    assert [row[-1] for row in rows] == ["-", "-, -", "1.0, 0.0"]


def test_the_line_about_compilation_counts_programs_from_the_cache(capsys):
    with compiling():
        for name in ("compile_requests_use_cache", "cache_hits", "compile_requests_use_cache"):
            jax.monitoring.record_event(f"/jax/compilation_cache/{name}")
    assert capsys.readouterr().out == "compiling… 0.0 s, 1 of 2 programs from the cache\n"
    with pytest.raises(ValueError), compiling():
        raise ValueError
    assert capsys.readouterr().out == "compiling… failed\n"
