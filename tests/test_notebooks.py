"""Every notebook runs from its first cell to its last, and stores what it printed."""

import json
import pathlib
import re

import matplotlib
import matplotlib.pyplot
import pytest

pytestmark = pytest.mark.usefixtures("one_device")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")
NOTEBOOKS = sorted(pathlib.Path("notebooks").glob("*.ipynb"))


def code_cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, monkeypatch, capsys):
    matplotlib.use("Agg", force=True)
    namespace = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(path)):
        source = "".join(cell["source"])
        exec(compile(source, f"{path.name}[{number}]", "exec"), namespace)
        printed = capsys.readouterr().out
        stored = [
            "".join(output["text"]) for output in cell["outputs"] if output.get("name") == "stdout"
        ]
        compare(printed, "".join(stored))
    matplotlib.pyplot.close("all")


def compare(printed: str, stored: str):
    """The same words; numbers within what rounding on another machine may change.

    That is 1 %, 1e-6, or one unit of the last decimal that is printed: 0.749 and 0.751 are printed
    as 0.7 and 0.8.
    """
    (words, numbers), (stored_words, stored_numbers) = (
        (NUMBER.sub("#", text).split(), NUMBER.findall(text)) for text in (printed, stored)
    )
    assert words == stored_words
    for number, stored_number in zip(numbers, stored_numbers, strict=True):
        difference = abs(float(number) - float(stored_number))
        allowed = max(0.01 * abs(float(stored_number)), last_digit(stored_number), 1e-6)
        assert difference <= 1.001 * allowed, f"{number} printed, {stored_number} stored"


def last_digit(number: str) -> float:
    """One unit of the last decimal; 0 for an integer or a number with an exponent."""
    if "." not in number or "e" in number:
        return 0.0
    return 10.0 ** -len(number.partition(".")[2])


def test_a_wrong_number_is_noticed():
    compare("slope 0.7441, 2e-17 left", "slope 0.7440, -3e-17 left")
    compare("difference +0.8, kept 3 of 4", "difference +0.7, kept 3 of 4")
    for other in ("slope 0.7600, 2e-17 left", "slope 0.7441, 2e-3 left", "tilt 0.7441, 2e-17 left"):
        with pytest.raises(AssertionError):
            compare("slope 0.7441, 2e-17 left", other)
    for other in ("difference +0.6, kept 3 of 4", "difference +0.8, kept 2 of 4"):
        with pytest.raises(AssertionError):
            compare("difference +0.8, kept 3 of 4", other)


def test_there_are_notebooks():
    assert NOTEBOOKS
