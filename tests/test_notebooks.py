"""Every notebook runs from its first cell to its last, and stores what it printed."""

import json
import pathlib

import matplotlib
import pytest

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
        # Words, not digits: the last bits of a singular value differ between machines.
        assert [line.split(":")[0] for line in printed.splitlines()] == [
            line.split(":")[0] for line in "".join(stored).splitlines()
        ]


def test_there_are_notebooks():
    assert NOTEBOOKS
