"""Preparing and reading data sets with tensorflow-datasets, without TensorFlow.

The stock builders open files through TensorFlow. These subclasses replace only that step. Name,
version, features and layout are unchanged, so the stock `tfds.data_source` can read their files.
Files of stock builders in other folders are not touched. This module is imported only if no other
source has the data.
"""

import functools
import hashlib
import pathlib
import tarfile
import urllib.error
import urllib.request

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image
from tensorflow_datasets.datasets.scan import scan_dataset_builder
from tensorflow_datasets.image_classification import cifar, mnist

from cgjax.data import raw

MNIST_URL = mnist.MNIST.URL
CIFAR_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
SCAN_URL = "https://github.com/brendenlake/SCAN/archive/master.zip"
SPLITS = ("train", "test")


class RawFiles:
    """Mix-in: published files from `raw_dir` if it is set, otherwise downloaded files."""

    raw_dir = None

    def arrays(self, name, split, fetch):
        """Arrays of one split; fetch: file -> bytes, for files that must be downloaded."""
        if self.raw_dir:
            return raw.read(name, split, raw.from_folder(name, split, self.raw_dir))
        return raw.read(name, split, lambda file: raw.checked(file, fetch(file), file))


with tfds.core.registered.skip_registration():

    class Mnist(RawFiles, mnist.MNIST):
        """MNIST 3.0.1."""

        name = "mnist"

        def _split_generators(self, dl_manager):
            def fetch(file):
                return pathlib.Path(dl_manager.download(MNIST_URL + file)).read_bytes()

            return {
                split: self._generate_examples(**self.arrays("mnist", split, fetch))
                for split in SPLITS
            }

        def _generate_examples(self, image, label):
            for i in range(len(image)):
                yield i, {"image": Image.fromarray(image[i, :, :, 0]), "label": int(label[i])}

    class Cifar10(RawFiles, cifar.Cifar10):
        """CIFAR-10 3.0.2."""

        name = "cifar10"

        def _split_generators(self, dl_manager):
            self.info.features["label"].names = list(raw.CIFAR_CLASSES)

            def fetch(file):
                archive = pathlib.Path(dl_manager.download(CIFAR_URL))
                with tarfile.open(archive) as members:
                    return members.extractfile(f"{raw.CIFAR_FOLDER}/{file}").read()

            return {
                split: self._generate_examples(split, **self.arrays("cifar10", split, fetch))
                for split in SPLITS
            }

        def _generate_examples(self, split, image, label):
            for i in range(len(image)):
                example = {"image": Image.fromarray(image[i]), "label": int(label[i])}
                yield i, {**example, "id": f"{split}_{i:05d}"}

    class Scan(RawFiles, scan_dataset_builder.Builder):
        """SCAN 1.1.1."""

        name = "scan"

        def _info(self):
            # The stock method needs metadata files next to the module of the class.
            text = tfds.features.Text()
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict({"commands": text, "actions": text}),
                supervised_keys=("commands", "actions"),
            )

        def _split_generators(self, dl_manager):
            name = f"scan/{self.builder_config.name}"

            def fetch(file):
                return pathlib.Path(dl_manager.download(SCAN_URL)).read_bytes()

            return {
                split: self._generate_examples(**self.arrays(name, split, fetch))
                for split in SPLITS
            }

        def _generate_examples(self, commands, actions):
            for i in range(len(commands)):
                yield i, {"commands": commands[i].decode(), "actions": actions[i].decode()}


BUILDERS = {"mnist": Mnist, "cifar10": Cifar10, "scan": Scan}
URLS = {"mnist": MNIST_URL, "cifar10": CIFAR_URL, "scan": SCAN_URL}


def prepare(name: str, data_dir, raw_dir=None) -> None:
    """Write `name` as array_record files under data_dir, from raw files or the network."""
    family, _, config = name.partition("/")
    build = functools.partial(BUILDERS[family], data_dir=str(data_dir), file_format="array_record")
    builder = build(config=config) if config else build()
    builder.raw_dir = raw_dir
    if raw_dir is None:
        reach(URLS[family])
    # By default tfds first requests a prepared copy from a remote bucket.
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(try_download_gcs=False)
    )


def reach(url: str) -> None:
    """Raise at once if there is no network; tfds would retry for minutes."""
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=20).close()
    except urllib.error.HTTPError:
        pass  # the server answers, even if it rejects a HEAD request


def read(name: str, split: str, data_dir) -> dict[str, np.ndarray]:
    """Arrays of a prepared split, in the order of the raw files."""
    source = tfds.data_source(name, split=split, data_dir=str(data_dir), download=False)
    rows = list(source)
    columns = ("commands", "actions") if name.startswith("scan") else ("image", "label")
    stored = {column: np.array([row[column] for row in rows]) for column in columns}
    if "label" in stored:
        stored["label"] = stored["label"].astype(np.int32)
    order = shuffled(split, len(rows))
    arrays = {column: np.empty_like(values) for column, values in stored.items()}
    for column, values in stored.items():
        arrays[column][order] = values
    return arrays


def shuffled(split: str, n: int) -> np.ndarray:
    """Raw index of each stored record: tfds sorts records by the md5 of split name and key."""
    digests = [hashlib.md5(f"{split}{i}".encode()).hexdigest() for i in range(n)]
    return np.argsort(np.array(digests))
