"""The rules of the benchmark (`rules.toml`) and the numbers that they define."""

import hashlib
import math
import pathlib
import tomllib

from cgjax.analysis import predictors
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
