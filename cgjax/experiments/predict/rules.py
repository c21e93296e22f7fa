"""The rules of the benchmark (`rules.toml`), the numbers that they define, and its pairs."""

import hashlib
import math
import pathlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from cgjax.analysis import checks, predictors
from cgjax.analysis.predictors import View

FILE = pathlib.Path(__file__).parent / "rules.toml"
RULES = tomllib.loads(FILE.read_text())
SIGNS = {name: rule["sign"] for name, rule in RULES["predictors"].items()}
UNDEFINED = "the known combinations do not define it"

Number = float | str  # a sentence is the reason why a predictor does not apply


def digest() -> str:
    """SHA-256 of the rule file."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()


def numbers(
    view: View, *, loss: float, tangent: Number, dependence: Number, unknown: Number | None = None
) -> dict[str, Number]:
    """Every predictor's number of a trained model; those that need derivatives are given.

    unknown: of `support.identify`; None where the model does not have the data's composition.
    """
    combinations = (view.factors, view.asked)
    if unknown is None:
        unknown = predictors.unknown_of_sum(*combinations, view.targets)
    of_features = (view.factors, view.features)
    values = {
        "support": unknown,
        "tangent": tangent,
        "additivity": predictors.additive_share(view.factors, view.outputs),
        "factorization": predictors.right_angles(*of_features),
        "dependence": dependence,
        "masks": predictors.unit_overlap(*of_features),
        "decodability": predictors.decodability(*of_features),
        "linearity": predictors.linearity(*of_features),
        "orthogonality": predictors.orthogonality(*of_features),
        "homomorphism": predictors.homomorphism_error(*of_features),
        "values": predictors.partner_share(*combinations),
        "connected": predictors.connected_share(*combinations),
        "loss": loss,
    }
    return {name: _number(value) for name, value in values.items()}


def _number(value: Number) -> Number:
    if isinstance(value, str):
        return value
    return float(value) if math.isfinite(value) else UNDEFINED


# --- pairs ----------------------------------------------------------------------------------------
# A pair is one model on one task with held-out combinations, trained with one seed.
#
# A model's score on unseen combinations is comparable across tasks after chance is taken away and
# the score on known combinations is the unit: `Pair.outcome`. Scores are R2 of numbers and images,
# and accuracy of classes.


FIT = 0.9  # of the attainable score on known combinations; a pair below it is not counted
HELD_OUT = 6  # one in so many pairs of every block is held out
SEED = 2027  # of the draw of held-out pairs
NAMES = pathlib.Path(__file__).parent / "pairs.txt"  # of all pairs at full size, one a line


@dataclass(frozen=True)
class Pair:
    """One seed of a pair; `predictors` has a number, or a reason why it does not apply."""

    block: str  # sprites, bumps, kernels, ..., pretrained
    task: str  # data and split
    model: str  # architecture, layer, penalty
    cluster: str  # pairs of one cluster are not independent: a task, or a backbone
    seed: int
    known: float  # score on known combinations
    unseen: float  # score on unseen combinations
    chance: float  # score of a constant answer: 0 for R2
    predictors: dict[str, float | str] = field(default_factory=dict)
    held_out: bool = False
    attainable: float = 1.0  # largest score on known combinations

    @property
    def name(self) -> str:
        """Block, task and model; the seeds of a pair share it."""
        return f"{self.block}/{self.task}/{self.model}"

    @property
    def counted(self) -> bool:
        """Whether the model fits the known combinations."""
        return self.known - self.chance >= FIT * (self.attainable - self.chance)

    @property
    def outcome(self) -> float:
        """(unseen - chance) / (known - chance), from -1 to 1; NaN if not counted."""
        if not self.counted:
            return float("nan")
        return float(np.clip((self.unseen - self.chance) / (self.known - self.chance), -1, 1))


def held_out(names: Iterable[str]) -> set[str]:
    """The held-out pairs of a block, from the names of all its pairs at full size.

    One in HELD_OUT, rounded up: those whose name has the smallest hash with SEED. The choice does
    not depend on any result.
    """
    names = sorted(set(names))
    checks.integer("names: their number", len(names), 1)
    by_hash = sorted(names, key=lambda name: hashlib.sha256(f"{SEED}:{name}".encode()).digest())
    return set(by_hash[: -(-len(names) // HELD_OUT)])
