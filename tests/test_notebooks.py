"""Every notebook runs from its first cell to its last, and stores what it printed."""

import json
import pathlib
import re

import matplotlib
import matplotlib.pyplot
import numpy as np
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
    """The same words; numbers within 1 % or 1e-6: what rounding on another machine may change."""
    (words, numbers), (stored_words, stored_numbers) = (
        (NUMBER.sub("#", text).split(), [float(n) for n in NUMBER.findall(text)])
        for text in (printed, stored)
    )
    assert words == stored_words
    np.testing.assert_allclose(numbers, stored_numbers, rtol=1e-2, atol=1e-6)


def test_a_wrong_number_is_noticed():
    compare("slope 0.7441, 2e-17 left", "slope 0.7440, -3e-17 left")
    for other in ("slope 0.7600, 2e-17 left", "slope 0.7441, 2e-3 left", "tilt 0.7441, 2e-17 left"):
        with pytest.raises(AssertionError):
            compare("slope 0.7441, 2e-17 left", other)


def test_there_are_notebooks():
    assert NOTEBOOKS
