"""The README's family, as text and as files: what the tests of the command line run."""

import contextlib
import json
import pathlib
import re

import jax
import pytest

import cgjax
from cgjax import config as configs
from cgjax.published import results

README = pathlib.Path(cgjax.__file__).parent / "experiments" / "README.md"


def blocks() -> list[str]:
    """The Python blocks of the README: the family, its config file."""
    return re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)


def write_family(folder: pathlib.Path, name: str, change=lambda text: text) -> pathlib.Path:
    """`<name>/study.py` and `<name>/config.py`; the path of the latter, relative to the folder.

    Every test has a name of its own: Python imports a module once.
    """
    study, config = blocks()
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "study.py").write_text(change(study))
    (folder / name / "config.py").write_text(config.replace("mylab", name))
    return pathlib.Path(name) / "config.py"


@contextlib.contextmanager
def working_in(folder: pathlib.Path, lab: str):
    """The folder with the family in it, typed from; on one device: programs for eight take long."""
    write_family(folder, lab)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
        yield folder


def finish(folder: pathlib.Path, config, metrics: dict, **more) -> pathlib.Path:
    """Writes config.json and results.json of a finished run; more: other keys of results.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(configs.to_json(config))
    numbers = {"metrics": metrics, "config_hash": configs.fingerprint(config), "figures": None}
    return write_numbers(folder, numbers | {"arrays": []} | more)


def write_numbers(folder: pathlib.Path, numbers: dict) -> pathlib.Path:
    """Writes results.json with its checksum."""
    (folder / "results.json").write_text(json.dumps(numbers | {"crc": results.crc_of(numbers)}))
    return folder


def one_line(capsys, *words) -> str:
    """What was said on stderr is one line with these words."""
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1, error
    for word in words:
        assert word in error
    return error


def snapshot(folder: pathlib.Path) -> dict:
    """Every file with its content and time: what reading must leave alone."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
