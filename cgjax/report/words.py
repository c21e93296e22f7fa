"""Numbers, spreads and comparisons in words, for the page and for `reproduce`."""

import math

from cgjax.core import verdict as verdicts
from cgjax.published import SPREADS


def number(value) -> str:
    return "-" if value is None else f"{value:.4g}"


def spread(published: dict) -> str:
    """What a paper tells of the spread of its number."""
    kind = SPREADS[published["spread"]]
    if published["spread"] == "none":
        return f" (spread: {kind})"
    n = f", n = {published['n']}" if "n" in published else ""
    return f" ± {published['sd']:.2g} ({kind}{n})"


def seeds(found) -> str:
    """The deviation of a standing's values, and how many there are."""
    n = len([value for value in found.values if value is not None])
    sd = f" ± {found.sd:.2g}" if found.sd is not None else ""
    return f"{sd} ({n} value{'s' if n > 1 else ''})"


def sign(claim) -> str:
    """What stands between the sides of a claim in words."""
    return " ≈ " if claim.kind == "equal" else " > "


def chain(claim, sides) -> str:
    told = (": ".join(side) if isinstance(side, tuple) else f"{side:g}" for side in sides)
    return sign(claim).join(told)


def part(claim, left, right, said) -> str:
    """One comparison of an ordering, or of equals."""
    sides = chain(claim, (left, right))
    return f"{sides}: {said.difference:+.3g} ± {said.width:.3g}, {said.word}"


def comparison(found) -> str:
    """Difference, half-width and tolerance of a standing, as the rule has them."""
    said, published = found.verdict, found.claim.published
    words = [f"{said.difference:+.3g}", f"half-width {said.width:.3g}"]
    words[0] += " of logarithms" if published and "factor" in published else ""
    if published or said.tolerance:
        words.append(f"tolerance {said.tolerance:.3g}")
    return ", ".join(filter(None, [*words, found.note]))


def half_width(found) -> float | None:
    """Half of the 95 % interval of ours; 0 of a closed form, None of a single draw."""
    values = [value for value in found.values if value is not None and math.isfinite(value)]
    if len(values) > 1:
        return verdicts.half_width(values)
    return 0.0 if found.verdict and math.isfinite(found.verdict.width) else None
