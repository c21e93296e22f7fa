"""Sufficient support (Wiedemer et al. 2023): can the data identify every component value?

P has sufficient support (Def. 3) when, for each component k and each of its values z_k, there are
points P' of the support with p_k = z_k such that the Jacobian of C with respect to the component's
output phi_k, summed over P', has full column rank. The sum can lose rank by cancellation; what
identification needs is the *stack* of the Jacobians. Both ask too much where C ignores some
directions everywhere: the *relaxed* condition only asks that whatever P' hides stays hidden on Q,
to first order. It is not a theorem.

`audit` asks about one component and scenes that you give, `audit_support` combines components and
coverage, `audit_latents` finds the scenes itself, from samples of P and Q. These are the theorem's
own conditions. `identify` asks what matters: does f on P determine f on Q? Where it finds a second
model that agrees on P and differs on Q, that model decides.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, choice, finite, indices, integer, number
from cgjax.analysis.support import jacobians, latents
from cgjax.analysis.support.identification import (
    LENGTH,
    Identification,
    component_outputs,
    identify,
    posed,
)
from cgjax.analysis.support.latents import Coverage

__all__ = [
    "audit",
    "audit_latents",
    "audit_support",
    "coverage",
    "identify",
    "jacobian_rank",
]

CONDITIONS = ("sum", "stack", "relaxed")
CHECKED = 4  # values at which a composition is tried for mixing positions


class Audit(NamedTuple):
    """What `audit` found for m values of one component."""

    passes: np.ndarray  # [m] whether the condition holds
    sigma_min: np.ndarray  # [m] smallest singular value over P'; grows with P', see sigma_mean
    failing: np.ndarray  # indices of the values that fail
    share: float  # of values that pass
    verdict: str  # in one line
    n_failing: np.ndarray  # [m] positions that fail; not pixelwise: failing directions
    where: np.ndarray | None  # [m, ...] the failing positions themselves; pixelwise only
    leak: np.ndarray  # [m] relaxed: how much of what P' hides shows on Q; else 0
    assumption: str  # "" or what fails: "A2" (values never seen), "A3" (rank), "A2 and A3"
    sigma_mean: np.ndarray | None = None  # [m] sigma_min of the mean Jacobian (of the stack: of its
    # root mean square): comparable between supports with few and with many points
    subsets: tuple = ()  # [m] indices of the points P' whose evidence this is; None: all of them


class SupportAudit(NamedTuple):
    """The theorem's conditions on a support, and whether P determines f on Q."""

    components: tuple[Audit, ...]
    coverage: Coverage | None
    holds: bool  # every condition was measured, none fails, and P determines f on Q
    assumption: str  # what fails, of "A2", "A3", "identification", joined by "and"
    verdict: str  # one paragraph
    identification: Identification | None = None
    unmeasured: tuple = ()  # conditions that were not measured


@checked
def jacobian_rank(
    jacobians: finite("... rows>=0 columns>=0"), rtol: number("[0, 1)"), atol: number("[0, inf)")
) -> tuple[jax.Array, jax.Array]:
    """Ranks [...] and singular values [..., min(rows, columns)] of matrices.

    Counts the singular values above max(rtol * the matrix's largest, atol).
    """
    jacobians = jnp.asarray(jacobians)
    if not jnp.issubdtype(jacobians.dtype, jnp.floating):
        jacobians = jacobians.astype(float)
    _check_precision(jacobians, rtol, atol)
    sigma = jnp.linalg.svd(jacobians, compute_uv=False)
    largest = jnp.max(sigma, axis=-1, keepdims=True, initial=0)
    return jnp.sum(sigma > jnp.maximum(rtol * largest, atol), axis=-1), sigma


@checked
def audit(
    composition: Callable,
    slots: finite("m ..."),
    component: int,
    partners: jax.Array | Callable,
    pixelwise: bool = True,
    rtol: number("[0, 1)") = 1e-5,
    atol: number("[0, inf)") = 1e-3,
    where: jax.Array | None = None,
    condition: choice(*CONDITIONS) = "sum",
    unseen: jax.Array | Callable | None = None,
) -> Audit:
    """Whether each value of one component is identified by the points P' it is seen in.

    composition: `C(slots)`, from a sequence of K arrays [n, ...] to one.
    slots: m outputs of the component, [m, ...]: the values to test.
    partners: [m, p, K, ...], for each value the full slot tuples of P'; or a function of the
        index that returns [p, K, ...] or K arrays [p, ...]. An empty P' identifies nothing.
    pixelwise: C acts at each position of all but the last axis on its own, so that the Jacobian is
        block diagonal and one small block per position is enough. False: any C.
    where: boolean [m, ...], without the last axis: judge only these positions. Pixelwise only.
    condition: "sum" (the theorem's; where the sum over all points fails and the stack does not,
        some of the points are tried, `jacobians.search`), "stack" (weaker: all that identification
        needs), or "relaxed" (weaker still: directions that P' hides may stay unknown if C hides
        them on Q too, to first order; `identify` asks the same with the true C).
    unseen: tuples of Q for each value, in the form of `partners`; for "relaxed".

    >>> images = np.linspace(0, 1, 6).reshape(2, 3, 1)  # two values, three pixels
    >>> scenes = np.stack([images, images[::-1]], axis=1)[:, None]  # one scene of each value
    >>> float(audit(lambda slots: slots[0] + slots[1], images, 0, scenes).share)
    1.0
    """
    slots = np.asarray(slots)
    judged = checks.positions(where, slots.shape, pixelwise)
    check_arguments(slots, partners, pixelwise, condition, unseen)
    rows = []
    # Rank is a question about small numbers: float64, whatever the arrays are.
    with jax.enable_x64(True):
        n_checked = min(CHECKED, len(slots))
        tried = set(np.linspace(0, len(slots) - 1, n_checked).astype(int)) if pixelwise else ()
        for i in range(len(slots)):
            points = slot_points("partners", partners, i, component, slots[i])
            if i in tried:
                jacobians.check_pixelwise(composition, points, component)
            others = None
            if condition == "relaxed":
                others = slot_points("unseen", unseen, i, component, slots[i])
                if not len(others[0]):
                    raise ValueError(
                        "unseen is empty: the relaxed condition needs points of Q for every value"
                    )
            given = (composition, points, component, pixelwise)
            rows.append(_value(*given, condition, rtol, atol, judged[i], others))
    return _collect(rows, slots.shape[1:], pixelwise, condition)


class _Value(NamedTuple):
    """What the points of one value show; blocks that are not judged hide nothing."""

    sigma_min: float
    hidden: np.ndarray  # [blocks, M] directions that count as unknown
    leak: float
    n_points: int
    subset: np.ndarray | None
    shape: tuple  # rows and columns of a block


def _value(
    composition, points, component, pixelwise, condition, rtol, atol, judged, others
) -> _Value:
    subset, leak = None, np.zeros(1)
    whole = jacobians.merged(composition, points, component, pixelwise, condition != "sum")
    _check_precision(whole, rtol, atol)
    n_rows, n_columns = whole.shape[1:]
    if condition == "relaxed":
        sigma, vectors = map(np.asarray, jacobians.compiled_spectrum(whole))
    else:  # only what P' hides needs directions, and they cost most of the SVD
        sigma = np.asarray(jacobians.compiled_singular_values(whole))
    least = jacobians.least(sigma, rtol, atol)
    hidden = (sigma <= least) & judged[:, None]
    sigma = sigma[judged]

    def n_hidden(values):
        return np.sum(values <= jacobians.least(values, rtol, atol))

    if condition == "relaxed":
        leak = jacobians.leak(composition, others, component, pixelwise, vectors, hidden)
        hidden &= leak[:, None] > least
    elif condition == "sum" and n_columns <= n_rows and len(points[0]) > 1 and hidden.any():
        stack = jacobians.merged(composition, points, component, pixelwise, True)
        # No sum has a higher rank than the stack.
        if not n_hidden(np.asarray(jacobians.compiled_singular_values(stack))[judged]):
            subset, of_subset = jacobians.search(
                composition, points, component, pixelwise, judged, n_hidden
            )
            if subset is not None:
                sigma, hidden = of_subset, np.zeros_like(hidden)
    return _Value(
        sigma.min(initial=np.inf), hidden, leak.max(), len(points[0]), subset, (n_rows, n_columns)
    )


def audit_support(
    composition: Callable,
    slots: Sequence[jax.Array],
    partners: Sequence[jax.Array | Callable],
    coverage: Coverage | None = None,
    identification: Identification | None = None,
    **options,
) -> SupportAudit:
    """`audit` of every component, coverage and identification, as one verdict.

    slots, partners (and `where`, `unseen`, where given): one entry per component.
    coverage: of P with respect to Q. identification: what `identify` says of P and Q. Left out,
    they stay unmeasured, and the verdict says so.
    """
    each = {name: value for name, value in options.items() if name in ("where", "unseen")}
    check_components(slots, partners, each)
    audits = []
    for k in range(len(slots)):
        own = {**options, **{name: value[k] for name, value in each.items()}}
        audits.append(audit(composition, slots[k], k, partners[k], **own))
    failing = {name for one in audits for name in one.assumption.split(" and ") if name}
    failing |= {"A2"} if coverage is not None and not coverage.holds else set()
    if identification is not None and not identification.determined:
        failing.add("identification")
    measured = {"A2": coverage, "identification": identification}
    unmeasured = tuple(name for name, value in measured.items() if value is None)
    holds, names = not failing and not unmeasured, " and ".join(sorted(failing))
    answer = SupportAudit(tuple(audits), coverage, holds, names, "", identification, unmeasured)
    return answer._replace(verdict=_support_verdict(answer, options.get("condition", "sum")))


@checked
def audit_latents(
    composition: Callable,
    components: Sequence[Callable],
    latents_P: finite("n D"),
    latents_Q: finite("m D"),
    sizes: Sequence[int] | None = None,
    columns: Sequence[Sequence[int]] | None = None,
    kinds: Sequence | None = None,
    length: float | None = None,
    n_values: integer(1) = 64,
    n_partners: integer(1) = 32,
    names: Sequence[str] = (),
    tested: indices("m") = None,
    **options,
) -> SupportAudit:
    """The theorem's conditions and `identify`, from samples of P and Q and true components.

    components: K functions [n, d_k] -> [n, ...] of consecutive latents; sizes: d_1 ... d_K where
    they differ; columns: the latents of each component, where they are not consecutive. kinds,
    length: as in `identify`. Tested are n_values component values of Q, or those of its rows
    `tested`. The scenes of P that show a value are those, the n_partners nearest at most, within
    the radius of `Coverage`. The tested value itself takes their slot's place.
    options: those of `audit`: condition, pixelwise, rtol, atol.

    >>> q = np.random.default_rng(0).uniform(size=(200, 2))
    >>> arms = np.concatenate([q * [1, 0], q * [0, 1]])
    >>> audit_latents(lambda slots: slots[0] + slots[1], [jnp.sin, jnp.cos], arms, q).holds
    True
    """
    given = (components, latents_P, latents_Q)
    form = {"kinds": kinds, "sizes": sizes, "columns": columns}
    answer = identify(composition, *given, length, **form)
    space, columns, p, q = posed(*given, **form)
    reach = latents.coverage(space, columns, p, q, answer.length, names)
    if tested is not None:
        asked = [q[tested]] * len(columns)
    else:
        asked = [_values(each, q, n_values) for each in columns]
    slots = [
        component_outputs(k, phi, each, rows)
        for k, (phi, each, rows) in enumerate(zip(components, columns, asked))
    ]

    def scenes(rows):
        near = [
            [latents.within(space, each, value, rows, radius)[:n_partners] for value in values]
            for each, values, radius in zip(columns, asked, reach.radius)
        ]
        return _scenes_near(components, columns, rows, slots, near)

    if options.get("condition") == "relaxed":
        options["unseen"] = scenes(q)
    return audit_support(composition, slots, scenes(p), reach, answer, **options)


@checked
def coverage(p: finite("n D"), q: finite("m D"), sizes=None, kinds=None, names=()) -> Coverage:
    """Compositional support of latents p with respect to q.

    sizes: latents of each component; without them, each latent by itself. A value of Q counts as
    reached within the radius of `latents.coverage`.
    """
    sizes = sizes or (1,) * np.shape(q)[1]
    space, columns, p, q = posed(sizes, p, q, kinds, sizes)
    return latents.coverage(space, columns, p, q, LENGTH, names)


def _values(columns, rows, most) -> np.ndarray:
    """Rows with different values of a component, at most `most` of them."""
    first = np.unique(rows[:, columns], axis=0, return_index=True)[1]
    return rows[first[np.unique(np.linspace(0, len(first) - 1, most).astype(int))]]


def _scenes_near(components, columns, rows, slots, near):
    """For each component, i -> K arrays [p, ...]: scenes near[k][i] with value i as component k."""
    # Samples may be many and outputs large: only scenes that are near some value are drawn.
    used = np.unique(np.concatenate([[0], *(i for each in near for i in each)])).astype(int)
    outputs = [
        component_outputs(k, phi, each, rows[used])
        for k, (phi, each) in enumerate(zip(components, columns))
    ]

    def of(component):
        def scenes(i):
            at = np.searchsorted(used, near[component][i])
            chosen = [output[at] for output in outputs]
            value = slots[component][i]
            chosen[component] = np.broadcast_to(value, (len(at), *value.shape))
            return tuple(chosen)

        return scenes

    return [of(component) for component in range(len(components))]


# --- the answer ---------------------------------------------------------------


def _check_precision(matrices, rtol, atol):
    """Singular values carry an error of about eps times the largest: no tolerance below that."""
    eps = np.finfo(matrices.dtype).eps * max(matrices.shape[-2:])
    if matrices.dtype != np.float64 and atol < eps and rtol < eps:
        raise ValueError(
            f"rtol={rtol:g} needs float64, but the Jacobian is {matrices.dtype}: compute it in "
            f"float64 (jax.enable_x64), or use rtol of at least {eps:.0e}"
        )


def _collect(rows, shape, pixelwise, condition):
    sigma_min, hidden, leak, n_points, subsets, shapes = zip(*rows)
    hidden, sigma_min, n_points = np.stack(hidden), np.array(sigma_min), np.array(n_points)
    n_failing = jacobians.n_lacking(hidden, pixelwise)
    passes = n_failing == 0
    used = [n if subset is None else len(subset) for n, subset in zip(n_points, subsets)]
    is_unseen = ~passes & (n_points == 0)
    names = (("A2", is_unseen), ("A3", ~passes & ~is_unseen))
    return Audit(
        passes=passes,
        sigma_min=sigma_min,
        failing=np.flatnonzero(~passes),
        share=float(np.mean(passes)),
        verdict=_component_verdict(
            passes, sigma_min, n_failing, pixelwise, condition, is_unseen.sum(), shapes[0]
        ),
        n_failing=n_failing,
        where=hidden.any(axis=2).reshape(len(rows), *shape[:-1]) if pixelwise else None,
        leak=np.array(leak),
        assumption=" and ".join(name for name, fails in names if fails.any()),
        sigma_mean=sigma_min / np.maximum(used, 1) ** (1.0 if condition == "sum" else 0.5),
        subsets=subsets,
    )


# --- slot tuples of P' and Q as callers give them: [m, p, K, ...], or a function of the index -----


_SAME = 1e-3  # how far the component's own slot in P' may be from the value that is tested


def slot_points(name, given, i, component, value) -> tuple:
    """The slot tuples of P' for value i: K arrays [p, ...] in float64."""
    points = given(i) if callable(given) else given[i]
    if not isinstance(points, tuple | list):
        points = [points[:, k] for k in range(points.shape[1])]
    jacobians.check_points(name, points, component)
    if points[component].shape[1:] != value.shape:
        raise ValueError(
            f"values are {value.shape}, but slot {component} of their {name} is "
            f"{points[component].shape[1:]}: {name} are [m, points, slots, ...]"
        )
    points = tuple(np.asarray(slot, np.float64) for slot in points)
    off = np.max(np.abs(points[component] - value), initial=0)
    if off > _SAME * max(1, np.max(np.abs(value), initial=0)):
        raise ValueError(
            f"{name} of value {i} hold another value in slot {component}, off by {off:.2g}: P' is "
            "points in which the component has the value tested"
        )
    return points


def check_arguments(slots, partners, pixelwise, condition, unseen) -> None:
    """Raises ValueError unless there are values to test, of forms that fit their tuples."""
    if slots.ndim < 1 + pixelwise:
        raise ValueError(f"slots must be [m, ..., channels], got shape {slots.shape}")
    if condition == "relaxed" and unseen is None:
        raise ValueError("the relaxed condition compares P' with Q: pass unseen, tuples of Q")
    for name, given in (("partners", partners), ("unseen", unseen)):
        if given is not None and not callable(given) and len(given) != len(slots):
            raise ValueError(f"{name} is for {len(given)} values, slots holds {len(slots)}")


def check_components(slots, partners, each) -> None:
    """Entries for every component, and for all of them."""
    for name, value in {"slots": slots, "partners": partners, **each}.items():
        is_each = isinstance(value, tuple | list) or np.ndim(value) > 0
        if not is_each or len(value) != len(slots):
            raise ValueError(f"{name} has one entry for each of {len(slots)} components")
    if not len(slots):
        raise ValueError("slots is empty: there is no component to audit")
    for given in partners:
        first = given(0) if callable(given) else given[0]
        n_slots = len(first) if isinstance(first, tuple | list) else first.shape[1]
        if n_slots != len(slots):
            raise ValueError(f"slots are of {len(slots)} components, partners of {n_slots}")


# --- verdicts: no statement is stronger than what was measured ------------------------------------


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


def _component_verdict(passes, sigma_min, n_failing, pixelwise, condition, n_unseen, n_rows):
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


def _support_verdict(answer: SupportAudit, condition: str) -> str:
    """Identification first, then the theorem's conditions, in one paragraph."""
    identification, coverage = answer.identification, answer.coverage
    parts = [identification.verdict] if identification is not None else []
    parts += [f"Component {k}: {one.verdict}." for k, one in enumerate(answer.components)]
    parts += [_coverage_verdict(coverage)] if coverage is not None else []
    reasons = [REASONS[name] for name in answer.assumption.split(" and ") if name in REASONS]
    if reasons:
        parts.append(f"The theorem does not apply: {'; '.join(reasons)}.")
    elif identification is not None and not identification.determined:
        parts.append(
            "Rank and coverage hold, so a premise that they do not state fails: the derivatives of "
            "f must be observable on P, and P must be connected."
        )
    if answer.unmeasured:
        missing = ", ".join(NOT_MEASURED[name] for name in answer.unmeasured)
        parts.append(f"Not measured: {missing}.")
    parts += [NOT_THE_THEOREM[condition]] if condition in NOT_THE_THEOREM else []
    return " ".join(parts)


def _coverage_verdict(coverage) -> str:
    """What P lacks of Q."""
    if coverage.holds:
        return f"P reaches the component values of Q within {coverage.radius.max():.2g} units."
    missing = ", ".join(f"latent {name} from {a:.2g} to {b:.2g}" for name, a, b in coverage.gaps)
    shares = ", ".join(f"{share:.1%}" for share in coverage.share)
    return f"P reaches {shares} of the components' values on Q; it misses {missing}."
