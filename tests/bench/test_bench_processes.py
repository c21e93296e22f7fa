"""Processes of benchmarks: their results, and the message for a process that gives none."""

import pytest

from cgjax.bench import harness
from cgjax.bench.harness import Asked

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
