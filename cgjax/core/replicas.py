"""Replicas: the product of seeds and other axes, their names, and the numbers that they share."""

import jax
import numpy as np

from cgjax.core import tree
from cgjax.core.errors import BadInput


class Grid:
    """Replicas as the product of axes; the last axis varies fastest.

    >>> Grid(seed=(0, 1), scale=(1.0, 0.5)).replicas()
    {'seed': array([0, 0, 1, 1]), 'scale': array([1. , 0.5, 1. , 0.5])}
    """

    def __init__(self, **axes):
        self.axes = {name: np.asarray(values) for name, values in axes.items()}
        self.shape = tuple(map(len, self.axes.values()))
        self.identity = tuple(axes)  # for `Experiment.identity`

    def replicas(self) -> dict:
        """{axis: its value for every replica, [R]}"""
        return {name: self.along(name, values) for name, values in self.axes.items()}

    def along(self, axis: str, values) -> np.ndarray:
        """[R]: for every replica the item of `values` at its position on the axis."""
        return np.asarray(values)[np.indices(self.shape)[list(self.axes).index(axis)].ravel()]

    def streams(self) -> np.ndarray:
        """[R]: a number for the random keys of each replica; other seeds do not change it.

        The seed is the first axis.
        """
        n = np.prod(self.shape[1:], dtype=int)
        return (self.axes["seed"][:, None] * n + np.arange(n)).ravel()

    def names(self, **positions: int) -> list[str]:
        """Names of the replicas at these positions on some axes; all replicas by default."""
        if unknown := positions.keys() - self.axes.keys():
            raise ValueError(f"no axis {min(unknown)!r}: there are {', '.join(self.axes)}")
        rows = np.arange(np.prod(self.shape)).reshape(self.shape)
        rows = rows[tuple(positions.get(name, slice(None)) for name in self.axes)].ravel()
        return names_of(tree.take(self.replicas(), rows), self.identity)

    def by_axes(self, arrays):
        """Leaves [R, ...] as [*shape, ...]."""
        return jax.tree.map(
            lambda leaf: np.asarray(leaf).reshape(*self.shape, *np.shape(leaf)[1:]), arrays
        )

    def history(self, columns: dict) -> dict:
        """{"step": [n], score: [n, R]} with scores [n, *shape]."""
        scores = {k: v.reshape(-1, *self.shape) for k, v in columns.items() if k != "step"}
        return {"step": columns["step"], **scores}


def replica_names(experiment) -> list[str]:
    """`["seed 0, scale 1e-06", ...]`: the names of the replicas in files and warnings."""
    names = names_of(experiment.replicas, experiment.identity)
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise BadInput(
            f"two replicas are '{duplicate}': add keys to Experiment.identity until names differ"
        )
    return names


def names_of(replicas: dict, identity: tuple) -> list[str]:
    """The replicas' names, made of the numbers that identify them (`Experiment.identity`)."""
    columns = [np.asarray(replicas[key]) for key in identity]
    formats = ["{} {:.9g}" if column.dtype.kind == "f" else "{} {}" for column in columns]
    return [
        ", ".join(text.format(key, value) for text, key, value in zip(formats, identity, row))
        for row in zip(*columns)
    ]


def with_numbers(replicas: dict, **numbers: float) -> dict:
    """Adds numbers that all replicas share: {"seed": [R], "lr": [R]}.

    A number of the config that does not affect shapes becomes an argument of the program. Other
    values then reuse the cached program, and runs that differ only in this number can be trained
    in one program. The config marks such a key with `is_traced`.
    """
    n = len(replicas["seed"])
    return replicas | {name: np.full(n, value, np.float32) for name, value in numbers.items()}
