"""Replicas: their names, and the numbers that they share."""

import numpy as np

from cgjax.core.errors import BadInput


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
