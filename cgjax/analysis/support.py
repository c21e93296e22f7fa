"""Sufficient support (Wiedemer et al. 2023): can the data identify every component value?

P has sufficient support (Def. 3) when, for each component k and each of its values z_k, there are
points P' of the support with p_k = z_k such that the Jacobian of C with respect to the component's
output phi_k, summed over P', has full column rank. The sum can lose rank by cancellation; what
identification needs is the *stack* of the Jacobians. Both ask too much where C ignores some
directions everywhere: the *relaxed* condition only asks that whatever P' hides stays hidden on Q.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, jacobians

CONDITIONS = ("sum", "stack", "relaxed")
BLOCK = 32  # points of P' whose Jacobians are held at once
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
_SAME = 1e-3  # how far the component's own slot in P' may be from the value that is tested


class Audit(NamedTuple):
    """What `audit` found for m values of one component."""

    passes: np.ndarray  # [m] whether the condition holds
    sigma_min: np.ndarray  # [m] smallest singular value; 0 with more columns than rows
    failing: np.ndarray  # indices of the values that fail
    share: float  # of values that pass
    verdict: str  # in one line
    n_failing: np.ndarray  # [m] positions that fail; not pixelwise: failing directions
    where: np.ndarray | None  # [m, ...] the failing positions themselves; pixelwise only
    quantiles: np.ndarray  # [5] of sigma_min over the values: least, quarters, largest
    leak: np.ndarray  # [m] relaxed: how much of what P' hides shows on Q; else 0
    assumption: str  # "" or what fails: "A2" (values never seen), "A3" (rank), "A2 and A3"


class Coverage(NamedTuple):
    """Compositional support (Def. 2): does P reach every value that Q has, one latent at a time?"""

    share: np.ndarray  # [D] of Q's occupied bins that P reaches
    gaps: tuple  # (latent, start, stop) of every run of bins that P misses
    holds: bool


class SupportAudit(NamedTuple):
    """The theorem's verdict on a support: all components and the coverage together."""

    components: tuple[Audit, ...]
    coverage: Coverage | None
    holds: bool
    assumption: str
    verdict: str  # one paragraph


def jacobian_rank(jacobians: jax.Array, rtol: float, atol: float) -> tuple[jax.Array, jax.Array]:
    """Ranks [...] and singular values [..., min(rows, columns)] of matrices [..., rows, columns].

    Counts the singular values above max(rtol * the matrix's largest, atol).
    """
    checks.tolerances(rtol, atol)
    checks.finite(jacobians=jacobians)
    jacobians = jnp.asarray(jacobians)
    if jacobians.ndim < 2:
        raise ValueError(f"jacobians are matrices [..., rows, columns], got {jacobians.shape}")
    if not jnp.issubdtype(jacobians.dtype, jnp.floating):
        jacobians = jacobians.astype(float)
    _check_precision(jacobians, rtol, atol)
    sigma = jnp.linalg.svd(jacobians, compute_uv=False)
    largest = jnp.max(sigma, axis=-1, keepdims=True, initial=0)
    return jnp.sum(sigma > jnp.maximum(rtol * largest, atol), axis=-1), sigma


def audit(
    composition: Callable,
    slots: jax.Array,
    component: int,
    partners: jax.Array | Callable,
    pixelwise: bool = True,
    rtol: float = 1e-5,
    atol: float = 1e-3,
    where: jax.Array | None = None,
    condition: str = "sum",
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
    condition: "sum" (the theorem's), "stack" (weaker: all that identification needs), or "relaxed"
        (weaker still: directions that P' hides may stay unknown if C hides them on Q too).
    unseen: tuples of Q for each value, in the form of `partners`; for "relaxed".

    >>> audit(lambda slots: slots[0] + slots[1], images, 0, tuples).share
    1.0
    """
    checks.tolerances(rtol, atol)
    checks.finite(slots=slots)
    slots = np.asarray(slots)
    _check_arguments(slots, partners, where, pixelwise, condition, unseen)
    shape = slots.shape[1:]
    rows = []
    # Rank is a question about small numbers: float64, whatever the arrays are.
    with jax.enable_x64(True):
        for i in range(len(slots)):
            points = _points("partners", partners, i, component, slots[i])
            if i == 0 and pixelwise:
                jacobians.check_pixelwise(composition, points, component)
            sigma, vectors = _sigma(
                composition, points, component, pixelwise, condition, rtol, atol
            )
            least = max(rtol * sigma.max(initial=0), atol)
            hidden, leak = sigma <= least, np.zeros(len(sigma))
            if condition == "relaxed":
                others = _points("unseen", unseen, i, component, slots[i])
                leak = _leak(composition, others, component, pixelwise, vectors, hidden)
                hidden = hidden & (leak > least)[:, None]
            judged = slice(None) if where is None else np.asarray(where[i], bool).ravel()
            rows.append((sigma[judged], hidden[judged], leak[judged], judged, len(points[0])))
    return _collect(rows, shape, pixelwise, condition)


def coverage(p: jax.Array, q: jax.Array, bins: int = 20, names: Sequence[str] = ()) -> Coverage:
    """Compositional support of latents p [n, D] with respect to q [m, D], by one-latent histograms.

    Bins span q's range; a bin counts as reached with a single sample, so n must be well above
    `bins`, and gaps narrower than a bin go unseen.
    """
    checks.finite(p=p, q=q)
    checks.integer("bins", bins, 1)
    p, q = np.asarray(p), np.asarray(q)
    if p.ndim != 2 or q.ndim != 2 or p.shape[1] != q.shape[1]:
        raise ValueError(f"latents are [n, D] and [m, D] with one D, got {p.shape} and {q.shape}")
    if not len(p) or not len(q):
        raise ValueError("the support is empty: there is no latent to compare")
    if len(names) not in (0, p.shape[1]):
        raise ValueError(f"names are one for each of {p.shape[1]} latents, got {len(names)}")
    shares, gaps = [], []
    for d in range(p.shape[1]):
        edges = np.linspace(q[:, d].min(), q[:, d].max(), bins + 1)
        wanted, found = (np.histogram(values[:, d], edges)[0] > 0 for values in (q, p))
        missing = wanted & ~found
        shares.append(1 - missing.sum() / wanted.sum())
        for run in np.split(
            np.flatnonzero(missing), np.flatnonzero(np.diff(np.flatnonzero(missing)) > 1) + 1
        ):
            if len(run):
                name = names[d] if names else d
                gaps.append((name, float(edges[run[0]]), float(edges[run[-1] + 1])))
    return Coverage(np.array(shares), tuple(gaps), not gaps)


def audit_support(
    composition: Callable,
    slots: Sequence[jax.Array],
    partners: Sequence[jax.Array | Callable],
    found: Coverage | None = None,
    **options,
) -> SupportAudit:
    """`audit` of every component, with the coverage where known, as one verdict.

    slots, partners (and `where`, `unseen`, where given): one entry per component.
    """
    each = {name: value for name, value in options.items() if name in ("where", "unseen")}
    _check_components(slots, partners, each)
    audits = []
    for k in range(len(slots)):
        own = {**options, **{name: value[k] for name, value in each.items()}}
        audits.append(audit(composition, slots[k], k, partners[k], **own))
    failing = {word for one in audits for word in one.assumption.split(" and ") if word}
    if found and not found.holds:
        failing.add("A2")
    assumption = " and ".join(sorted(failing))
    verdict = _paragraph(audits, found, assumption)
    return SupportAudit(tuple(audits), found, not assumption, assumption, verdict)


# --- singular values over P' ----------------------------------------------------------------------


def _sigma(composition, points, component, pixelwise, condition, rtol, atol):
    """Singular values [blocks, M] over P', and for "relaxed" their right vectors [blocks, M, M]."""
    own = points[component]
    if not len(own):
        size = math.prod(own.shape[1:])
        n_columns = own.shape[-1] if pixelwise else size
        return np.zeros((size // n_columns, n_columns)), np.eye(n_columns)[None]
    whole = None
    for start in range(0, len(own), BLOCK):
        part = tuple(slot[start : start + BLOCK] for slot in points)
        evidence = _evidence(composition, part, component, pixelwise, condition != "sum")
        whole = evidence if whole is None else _merge(whole, evidence, condition != "sum")
    _check_precision(whole, rtol, atol)
    if not np.all(np.isfinite(whole)):
        raise ValueError(
            "the Jacobian is not finite: the composition is not differentiable at these slots"
        )
    if condition != "relaxed":  # only what P' hides needs directions, and they cost most of the SVD
        return np.asarray(_singular_values(whole)), None
    return tuple(np.asarray(found) for found in _spectrum(whole))


@functools.partial(jax.jit, static_argnames=("composition", "component", "pixelwise", "stacked"))
def _evidence(composition, points, component, pixelwise, stacked):
    """The summed Jacobian [blocks, rows, M] of some points, or the R factor of their stack."""
    found = jacobians.blocks(composition, points, component, pixelwise)
    return jacobians.triangular(jnp.concatenate(found, axis=1)) if stacked else jnp.sum(found, 0)


@functools.partial(jax.jit, static_argnames="stacked")
def _merge(a, b, stacked):
    return jacobians.triangular(jnp.concatenate([a, b], axis=1)) if stacked else a + b


_spectrum, _singular_values = jax.jit(jacobians.spectrum), jax.jit(jacobians.singular_values)


def _leak(composition, points, component, pixelwise, vectors, hidden):
    """Largest |dC/dphi_k v| over the points of Q and the directions v that P' hides: [blocks]."""
    if not len(points[0]):
        raise ValueError("unseen is empty: the relaxed condition needs points of Q for every value")
    directions = vectors * hidden[:, None, :]
    worst = np.zeros(len(hidden))
    for start in range(0, len(points[0]), BLOCK):
        part = tuple(slot[start : start + BLOCK] for slot in points)
        worst = np.maximum(worst, _shown(composition, part, component, pixelwise, directions))
    if not np.all(np.isfinite(worst)):
        raise ValueError("the Jacobian is not finite at points of unseen")
    return worst


@functools.partial(jax.jit, static_argnames=("composition", "component", "pixelwise"))
def _shown(composition, points, component, pixelwise, directions):
    found = jacobians.blocks(composition, points, component, pixelwise)
    moved = jnp.einsum("pbrm,bmv->pbrv", found, directions)
    return jnp.max(jnp.linalg.norm(moved, axis=2), axis=(0, 2))


# --- what was asked, and the answer ---------------------------------------------------------------


def _points(name, tuples, i, component, value):
    """The slot tuples of P' for value i: K arrays [p, ...] in float64."""
    points = tuples(i) if callable(tuples) else tuples[i]
    if not isinstance(points, tuple | list):
        points = [points[:, k] for k in range(points.shape[1])]
    if not isinstance(component, int | np.integer) or not 0 <= component < len(points):
        raise ValueError(f"component {component}: {name} hold slots 0 to {len(points) - 1}")
    if points[component].shape[1:] != value.shape:
        raise ValueError(
            f"values are {value.shape}, but slot {component} of their {name} is "
            f"{points[component].shape[1:]}: {name} are [m, points, slots, ...]"
        )
    if len({len(slot) for slot in points}) > 1:
        raise ValueError(f"{name}: slots have {[len(slot) for slot in points]} points, not as many")
    for slot in points if callable(tuples) else ():
        checks.finite(**{name: slot})
    points = tuple(np.asarray(slot, np.float64) for slot in points)
    off = np.max(np.abs(points[component] - value), initial=0)
    if off > _SAME * max(1, np.max(np.abs(value), initial=0)):
        raise ValueError(
            f"{name} of value {i} hold another value in slot {component}, off by {off:.2g}: P' is "
            "points in which the component has the value tested"
        )
    return points


def _check_arguments(slots, partners, where, pixelwise, condition, unseen):
    if slots.ndim < 1 + pixelwise or slots.size == 0:
        raise ValueError(f"no values to test: slots is empty or no [m, ...]: {slots.shape}")
    if condition not in CONDITIONS:
        raise ValueError(f"unknown condition '{condition}': one of {', '.join(CONDITIONS)}")
    if condition == "relaxed" and unseen is None:
        raise ValueError("the relaxed condition compares P' with Q: pass unseen, tuples of Q")
    if where is not None:
        checks.positions(where, slots.shape, pixelwise)
    for name, given in (("partners", partners), ("unseen", unseen)):
        if given is None or callable(given):
            continue
        if len(given) != len(slots):
            raise ValueError(f"{name} is for {len(given)} values, slots holds {len(slots)}")
        for points in given:
            for slot in points if isinstance(points, tuple | list) else (points,):
                checks.finite(**{name: slot})


def _check_components(slots, partners, each):
    """Entries for every component, and for all of them."""
    for name, value in {"slots": slots, "partners": partners, **each}.items():
        is_each = isinstance(value, tuple | list) or np.ndim(value) > 0
        if not is_each or len(value) != len(slots):
            raise ValueError(f"{name} has one entry for each of {len(slots)} components")
    if not len(slots):
        raise ValueError("slots is empty: there is no component to audit")
    for tuples in partners:
        first = tuples(0) if callable(tuples) else tuples[0]
        n_slots = len(first) if isinstance(first, tuple | list) else first.shape[1]
        if n_slots != len(slots):
            raise ValueError(f"slots are of {len(slots)} components, partners of {n_slots}")


def _check_precision(matrices, rtol, atol):
    """Singular values carry an error of about eps times the largest: no tolerance below that."""
    eps = np.finfo(matrices.dtype).eps * max(matrices.shape[-2:])
    if matrices.dtype != np.float64 and atol < eps and rtol < eps:
        raise ValueError(
            f"rtol={rtol:g} needs float64, but the Jacobian is {matrices.dtype}: compute it in "
            f"float64 (jax.enable_x64), or use rtol of at least {eps:.0e}"
        )


def _collect(rows, shape, pixelwise, condition):
    passes, sigma_min, n_failing, leaks, seen, masks = [], [], [], [], [], []
    for sigma, hidden, leak, judged, n_points in rows:
        lacking = hidden.any(axis=1) if pixelwise else hidden
        n_failing.append(int(lacking.sum()))
        passes.append(not lacking.any())
        sigma_min.append(sigma.min(initial=np.inf))
        leaks.append(leak.max(initial=0.0))
        seen.append(n_points > 0)
        if pixelwise:
            mask = np.zeros(math.prod(shape[:-1]), bool)
            mask[judged] = lacking
            masks.append(mask.reshape(shape[:-1]))
    passes, sigma_min, n_failing = np.array(passes), np.array(sigma_min), np.array(n_failing)
    failing = np.flatnonzero(~passes)
    unseen = ~np.array(seen)[failing]
    names = (("A2", unseen.any()), ("A3", (~unseen).any()))
    return Audit(
        passes=passes,
        sigma_min=sigma_min,
        failing=failing,
        share=float(np.mean(passes)),
        verdict=_verdict(passes, sigma_min, n_failing, pixelwise, condition, unseen.sum()),
        n_failing=n_failing,
        where=np.stack(masks) if pixelwise else None,
        quantiles=np.quantile(sigma_min, QUANTILES),
        leak=np.array(leaks),
        assumption=" and ".join(name for name, fails in names if fails),
    )


def _verdict(passes, sigma_min, n_failing, pixelwise, condition, n_unseen):
    name = "sufficient support" + {"sum": "", "stack": " (stacked)", "relaxed": " (relaxed)"}[
        condition
    ]  # fmt: skip
    smallest = f"smallest singular value {sigma_min.min():.3g}"
    if passes.all():
        return f"{name}: all {len(passes)} values pass, {smallest}"
    unit = "positions" if pixelwise else "directions"
    text = (
        f"no {name}: {np.sum(~passes)} of {len(passes)} values fail, on average at "
        f"{n_failing[~passes].mean():.0f} {unit}, {smallest}"
    )
    return text + (f"; {n_unseen} of them are in no point of P at all" if n_unseen else "")


def _paragraph(audits, found, assumption):
    parts = [f"Component {k}: {one.verdict}." for k, one in enumerate(audits)]
    if found is not None:
        missing = ", ".join(f"latent {name} in ({a:.2g}, {b:.2g})" for name, a, b in found.gaps)
        parts.append(f"P misses {missing}." if missing else "P reaches every marginal value of Q.")
    reasons = {
        "A2": "A2, compositional support, fails: some component values are never seen",
        "A3": "A3, sufficient support, fails: some seen values are not determined where they count",
    }
    if assumption:
        why = "; ".join(reasons[word] for word in assumption.split(" and "))
        parts.append(f"No guarantee: {why}.")
    else:
        parts.append(
            "The support allows a guarantee: a model with this C that fits P, and agrees with the "
            "truth in one point's components, is right on every recombination."
        )
    return " ".join(parts)
