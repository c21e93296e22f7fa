"""What audits of a support say in words; no word is stronger than what was measured."""

import numpy as np

REASONS = {
    "A2": "A2, compositional support, fails: P misses component values of Q",
    "A3": "A3, sufficient support, fails: some component values of P are not determined",
}
NOT_THE_THEOREM = {
    "stack": "The stack of Jacobians is not the theorem's condition, which sums them.",
    "relaxed": "The relaxed condition is not the theorem's: it sees first derivatives alone.",
}
NOT_MEASURED = {
    "A2": "whether P reaches every component value of Q (A2: pass coverage)",
    "identification": "whether P determines f on Q (pass identification)",
}


def of_component(passes, sigma_min, n_failing, pixelwise, condition, n_unseen, n_rows):
    """One line about the values of one component."""
    smallest = f"smallest singular value {sigma_min.min():.3g}"
    if condition == "relaxed":
        good, bad = "no first-order obstacle found", "first-order obstacle (relaxed condition)"
    else:
        good = "full rank" + (" (stacked)" if condition == "stack" else "")
        bad = f"no {good}"
    if passes.all():
        return f"{good}: all {len(passes)} values pass, {smallest}"
    unit = "positions" if pixelwise else "directions"
    text = (
        f"{bad}: {np.sum(~passes)} of {len(passes)} values fail, {n_failing.mean():.3g} {unit} "
        f"per tested value on average, {smallest}"
    )
    if n_unseen:
        text += f"; {n_unseen} of them are in no point of P at all"
    rows, columns = n_rows
    if condition == "sum" and 0 < rows < columns:
        text += (
            f"; a sum of Jacobians with {rows} rows and {columns} columns never has full column "
            "rank: ask for the stack, or for the relaxed condition"
        )
    return text


def of_support(audits, coverage, identification, failing, unmeasured, condition) -> str:
    """Identification first, then the theorem's conditions, in one paragraph."""
    parts = [identification.verdict] if identification is not None else []
    parts += [f"Component {k}: {one.verdict}." for k, one in enumerate(audits)]
    parts += [of_coverage(coverage)] if coverage is not None else []
    reasons = [REASONS[name] for name in failing if name in REASONS]
    if reasons:
        parts.append(f"The theorem does not apply: {'; '.join(reasons)}.")
    elif identification is not None and not identification.determined:
        parts.append(
            "Rank and coverage hold, so a premise that they do not state fails: the derivatives of "
            "f must be observable on P, and P must be connected."
        )
    if unmeasured:
        missing = ", ".join(NOT_MEASURED[name] for name in unmeasured)
        parts.append(f"Not measured: {missing}.")
    parts += [NOT_THE_THEOREM[condition]] if condition in NOT_THE_THEOREM else []
    return " ".join(parts)


def of_coverage(coverage) -> str:
    """What P lacks of Q."""
    if coverage.holds:
        return f"P reaches the component values of Q within {coverage.radius.max():.2g} units."
    missing = ", ".join(f"latent {name} from {a:.2g} to {b:.2g}" for name, a, b in coverage.gaps)
    shares = ", ".join(f"{share:.1%}" for share in coverage.share)
    return f"P reaches {shares} of the components' values on Q; it misses {missing}."
