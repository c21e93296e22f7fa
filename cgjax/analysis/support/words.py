"""What audits of a support say in words; no word is stronger than what was measured.

The theorem is about supports and exact fits. Samples, tolerances and a resolution can contradict
its premises, and otherwise be *consistent* with them: that is the best verdict there is.
"""

import numpy as np

REASONS = {
    "A1": "A1, differentiability, fails: there are jumps between scenes of P",
    "A2": "A2, compositional support, fails: some component values are never seen",
    "A3": "A3, sufficient support, fails: some seen values are not determined where they count",
    "connection": "P is not connected, and the proof follows paths in P: nothing ties its parts "
    "to each other",
}
NOT_THE_THEOREM = {
    "stack": "The stack of Jacobians is not the theorem's condition, which sums them.",
    "relaxed": "The relaxed condition is not the theorem's: higher orders are unknown.",
}
NOT_MEASURED = {
    "A1": "whether C jumps (A1)",
    "A2": "whether P reaches every component value of Q (A2: pass coverage with sizes)",
    "connection": "whether P is connected (pass connected)",
}


def of_component(passes, sigma_min, n_failing, pixelwise, condition, order, n_unseen, n_rows):
    """One line about the values of one component."""
    smallest = f"smallest singular value {sigma_min.min():.3g}"
    if condition == "relaxed":
        name = "first-order obstacle" if order == 1 else "obstacle up to second order"
        good, bad = f"no {name} found", f"{name} (relaxed condition)"
    else:
        good = "sufficient support" + (" (stacked)" if condition == "stack" else "")
        bad = f"no {good}"
    if passes.all():
        return f"{good}: all {len(passes)} values pass, {smallest}"
    unit = "positions" if pixelwise else "directions"
    text = (
        f"{bad}: {np.sum(~passes)} of {len(passes)} values fail, on average at "
        f"{n_failing[~passes].mean():.0f} {unit}, {smallest}"
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


def of_support(audits, coverage, connection, jumps, failing, unmeasured, condition) -> str:
    """All components, coverage, connection and continuity in one paragraph."""
    parts = [f"Component {k}: {one.verdict}." for k, one in enumerate(audits)]
    parts += [of_coverage(coverage)] if coverage is not None else []
    parts += [of_connection(connection)] if connection is not None else []
    for name, one in jumps.items():
        if not one.holds:
            name = name[0].upper() + name[1:]
            parts.append(f"{name} jumps on {one.share:.0%} of {one.n} lines between scenes.")
    if failing:
        why = "; ".join(REASONS[word] for word in failing)
        parts.append(f"The theorem does not apply: {why}.")
    if unmeasured:
        missing = ", ".join(NOT_MEASURED[word] for word in unmeasured)
        parts.append(f"Not measured: {missing}.")
    if not failing and not unmeasured:
        n, radius = sum(len(one.passes) for one in audits), resolution(coverage, connection)
        what = "the theorem" if condition == "sum" else "identification"
        parts.append(
            f"Consistent with {what}: premises hold on {n} values at resolution {radius:.2g}."
        )
        parts += [NOT_THE_THEOREM[condition]] if condition in NOT_THE_THEOREM else []
    return " ".join(parts)


def of_coverage(found) -> str:
    """What P lacks of Q."""
    missing = ", ".join(f"latent {name} in ({a:.2g}, {b:.2g})" for name, a, b in found.gaps)
    if missing:
        return f"P misses {missing}."
    far = [(k, one) for k, one in enumerate(found.components) if one.share < 1]
    if far:
        each = "; ".join(
            f"of component {k}, in latents {', '.join(map(str, one.latents))}, "
            f"{1 - one.share:.1%} of Q's values have none of P within {one.radius:.2g}"
            for k, one in far
        )
        return f"P misses combinations inside components: {each}."
    if found.components:
        radius = max(one.radius for one in found.components)
        return f"P reaches every sampled component value of Q within {radius:.2g}."
    return "P reaches every bin of Q's latents, one at a time; components were not compared whole."


def of_connection(found) -> str:
    """Whether P is in one piece."""
    latents = ", ".join(map(str, found.latents))
    if found.holds:
        return f"P is connected at radius {found.radius:.2g} (worst in latents {latents})."
    return (
        f"P falls apart in latents {latents}: its parts are {found.widest:.2g} from each other, "
        f"samples of one piece would be within {found.radius:.2g}."
    )


def resolution(coverage, connection) -> float:
    """The coarsest radius at which a premise about P was looked at."""
    return max([connection.radius, *(one.radius for one in coverage.components)])
