"""A certificate for a trained model: which premises of the theorem hold numerically.

Wiedemer et al. 2023, Theorem 1: with differentiable components (A1), compositional support (A2),
sufficient support (A3) and one point whose components agree (A4), a model that equals the truth on
P equals it on Q. On a computer "equals" has a tolerance, and the proof also equates derivatives on
P, so both errors are measured.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.support import SupportAudit

CHUNK = 16  # points whose Jacobians in the latents are held at once


class Premise(NamedTuple):
    name: str
    holds: bool
    value: float  # what was measured
    limit: float  # what it had to stay below (for shares: reach)
    words: str


class Certificate(NamedTuple):
    premises: tuple[Premise, ...]
    guaranteed: bool
    failing: tuple[str, ...]  # names of the premises that fail
    verdict: str


def certificate(
    support: SupportAudit,
    truth: Callable,
    model: Callable,
    latents: jax.Array,
    fit_limit: float = 0.1,
    jacobian_limit: float = 0.1,
    dims: tuple[int, ...] | None = None,
) -> Certificate:
    """ "guaranteed" only if every premise holds on this support; otherwise what fails.

    truth, model: latents [n, D] -> outputs [n, ...]; the truth must be differentiable (for images:
    soft edges). latents: points of P [n, D]. fit_limit, jacobian_limit: relative root-mean-square
    errors of f and of df/dz. dims: latents to differentiate in; leave out discrete ones.
    A4 is a technicality of the proof that training never grants: it is named, not tested.
    """
    checks.bounded("fit_limit", fit_limit, 0)
    checks.bounded("jacobian_limit", jacobian_limit, 0)
    if not support.components:
        raise ValueError("support audits no component: make it with `audit_support`")
    latents, dims = _points(latents, dims)
    true, fitted = (
        np.asarray(jax.lax.map(_one(f), latents, batch_size=CHUNK)) for f in (truth, model)
    )
    if true.shape != fitted.shape:
        raise ValueError(f"truth gives {true.shape[1:]}, model {fitted.shape[1:]} for one point")
    if not np.any(np.ptp(true, axis=0)):
        raise ValueError("truth is constant at latents: there is nothing to fit")
    misfit = _relative(true - fitted, true - true.mean(0))
    error, steepest = jacobian_error(truth, model, latents, dims)
    share = min(one.share for one in support.components)
    covered = 1.0 if support.coverage is None else float(support.coverage.share.min())
    finite = np.isfinite(steepest) and np.isfinite(error)
    premises = (
        Premise("A1", bool(finite), steepest, np.inf, "truth and model are differentiable on P"),
        Premise(
            "A2", "A2" not in support.assumption, covered, 1.0, "P reaches every value of Q"
        ),
        Premise(
            "A3", "A3" not in support.assumption, share, 1.0, "the rank condition holds on P"
        ),
        Premise("fit", bool(misfit <= fit_limit), misfit, fit_limit, "the model fits f on P"),
        Premise(
            "derivatives", bool(error <= jacobian_limit), error, jacobian_limit,
            "the model fits df/dz on P",
        ),
    )  # fmt: skip
    return _answer(premises)


def jacobian_error(truth, model, latents, dims) -> tuple[float, float]:
    """|df/dz - dfhat/dz| / |df/dz| over all points, and the largest |df/dz| of a single one."""
    latents, dims = _points(latents, dims)
    wrong = size = steepest = 0.0
    for start in range(0, len(latents), CHUNK):
        chunk = latents[start : start + CHUNK]
        true, fitted = (_jacobian(f, chunk, dims) for f in (truth, model))
        squares = np.asarray(jnp.sum(true**2, axis=tuple(range(1, true.ndim))), np.float64)
        wrong += float(jnp.sum((true - fitted) ** 2))
        size += float(squares.sum())
        steepest = max(steepest, float(np.sqrt(squares.max())))
    if size == 0:
        raise ValueError("truth has no slope anywhere at latents: soften its edges")
    return (wrong / size) ** 0.5, steepest


@functools.partial(jax.jit, static_argnames=("f", "dims"))
def _jacobian(f, chunk, dims):
    return jax.vmap(lambda z: jax.jacfwd(_one(f))(z)[..., jnp.array(dims)])(chunk)


def _points(latents, dims):
    """Latents [n, D] in floating point, and the latents to differentiate in."""
    checks.finite(latents=latents)
    latents = jnp.asarray(latents)
    if latents.ndim != 2 or not len(latents) or not jnp.issubdtype(latents.dtype, jnp.floating):
        raise ValueError(
            f"latents are points of P, floating point [n, D] with n > 0, got {latents.dtype} "
            f"{latents.shape}"
        )
    dims = tuple(range(latents.shape[1])) if dims is None else tuple(dims)
    checks.indices("dims", dims, latents.shape[1])
    if not dims:
        raise ValueError("dims is empty: name one latent at least")
    return latents, dims


def _one(f):
    return lambda z: f(z[None])[0]


def _relative(wrong, right):
    return float(np.sqrt(np.sum(np.square(wrong)) / np.sum(np.square(right))))


def _answer(premises):
    failing = tuple(premise.name for premise in premises if not premise.holds)
    if not failing:
        verdict = "guaranteed: every premise that can be measured holds (A4 is taken for granted)"
    else:
        first = next(premise for premise in premises if not premise.holds)
        verdict = (
            f"not guaranteed: {first.name} fails ({first.words}: {first.value:.3g}, needed "
            f"{first.limit:.3g})"
        )
        if len(failing) > 1:
            verdict += f"; {', '.join(failing[1:])} too"
    return Certificate(premises, not failing, failing, verdict)
