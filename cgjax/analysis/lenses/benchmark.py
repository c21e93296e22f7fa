"""Where a model's numbers lie among the trained networks of the benchmark, `experiments/predict`.

benchmark.json has the numbers of its trained networks that fit their known combinations and are not
held out; `python -m cgjax.report --readme` writes it from the record. Each number is computed here
by the benchmark's own function from training combinations. The benchmark's other numbers need the
network before training, or parts of inputs and outputs that belong together: they have no rank.
"""

import functools
import json
import pathlib
from typing import NamedTuple

import numpy as np

from cgjax.analysis import predictors

FILE = pathlib.Path(__file__).parent / "benchmark.json"
COMPOSED = 0.9  # score on unseen combinations as a share of that on known ones, from which on
MOST_INPUTS = 256  # that numbers of a layer use, as in the benchmark
DECIMALS = 6  # of recorded numbers
OF_LAYER = {
    "linearity": predictors.linearity,
    "homomorphism": predictors.homomorphism_error,
    "factorization": predictors.right_angles,
    "orthogonality": predictors.orthogonality,
    "decodability": predictors.decodability,
    "masks": predictors.unit_overlap,
}
NUMBERS = ("values", "additivity", *OF_LAYER)


class Rank(NamedTuple):
    """A number of the model, and the shares of the benchmark's networks with a smaller number."""

    number: float
    composed: float  # of the networks that composed
    others: float
    n_composed: int
    n_others: int


def ranks(factors, is_train, outputs, layer=None) -> dict[str, Rank]:
    """The rank of every number that is defined, by its name in the benchmark.

    factors [n, C], is_train [n], outputs [n, K]; layer: activations [n, ...], if there are any.
    """
    known = factors[is_train]
    numbers = {
        "values": predictors.partner_share(known, factors[~is_train]),
        "additivity": predictors.additive_share(known, outputs[is_train]),
    }
    if layer is not None:
        rows = np.sort(np.random.default_rng(0).permutation(len(known))[:MOST_INPUTS])
        features = np.asarray(layer, np.float64)[is_train][rows]
        numbers |= {name: f(known[rows], features) for name, f in OF_LAYER.items()}
    return {name: _rank(name, value) for name, value in numbers.items() if np.isfinite(value)}


def _rank(name: str, value: float) -> Rank:
    composed, others = (np.array(values) for values in recorded()[name].values())
    # Numbers that are 0 or 1 by construction must not differ by rounding.
    shares = (float(np.mean(np.round(value, DECIMALS) > group)) for group in (composed, others))
    return Rank(value, *shares, len(composed), len(others))


@functools.cache
def recorded() -> dict[str, dict[str, list[float]]]:
    """{number: {"composed": numbers of networks, "others": numbers of networks}}."""
    return json.loads(FILE.read_text())


def condensed(numbers: dict, outcomes) -> str:
    """The text of benchmark.json; numbers: {name: [networks], NaN where undefined}."""
    composed = np.asarray(outcomes) >= COMPOSED
    lines = []
    for name in NUMBERS:
        values = np.round(numbers[name], DECIMALS)
        groups = [np.sort(values[rows & np.isfinite(values)]) for rows in (composed, ~composed)]
        groups = dict(zip(("composed", "others"), (group.tolist() for group in groups)))
        lines.append(f"{json.dumps(name)}: {json.dumps(groups)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
