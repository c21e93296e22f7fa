"""A certificate for a trained model: which premises of the theorem hold on samples of P.

Wiedemer et al. 2023, Theorem 1: with differentiable components (A1), compositional support (A2),
sufficient support (A3) and one point whose components agree (A4), a model that equals the truth on
P equals it on Q. On a computer "equals" has a tolerance, and the proof also equates derivatives on
P, so both errors are measured, at every sample: a mean would hide a model that is wrong in a corner
of P, and the theorem then says nothing. What no sample shows may still be there, so every premise
comes with the largest share of P on which it may fail unseen.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.stats import largest_share
from cgjax.analysis.support import SupportAudit
from cgjax.analysis.support import words as verdicts
from cgjax.analysis.support.latent_space import continuity

CHUNK = 16  # points whose Jacobians in the latents are held at once
QUANTILES = (0.5, 0.95, 0.99)


class Premise(NamedTuple):
    """One premise, and what was measured of it."""

    name: str
    holds: bool | None  # None: not measured
    value: float  # root mean square over samples, or a share; nan where not measured
    limit: float  # what every sample had to stay below (for shares: what had to be reached)
    words: str
    worst: float = np.nan  # the largest of all samples
    quantiles: tuple = ()  # QUANTILES over the samples
    bound: float = np.nan  # of P: where it may fail unseen, with 95 % confidence


class Certificate(NamedTuple):
    premises: tuple[Premise, ...]
    consistent: bool  # every premise was measured and holds on every sample
    failing: tuple[str, ...]  # names of the premises that fail
    unmeasured: tuple[str, ...]
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
    """Whether samples are consistent with every premise of the theorem; otherwise what fails.

    truth, model: latents [n, D] -> outputs [n, ...]; the truth must be differentiable (for images:
    soft edges). latents: points drawn from P [n, D]. fit_limit, jacobian_limit: largest error of f
    and of df/dz at any of them, relative to the root mean square of f's deviation from its mean and
    of df/dz. dims: latents to differentiate in; leave out discrete ones.
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
    deviation = np.sqrt(np.mean(_squares(true - true.mean(0))))
    misfit = np.sqrt(_squares(true - fitted)) / deviation
    premises = (
        _smooth(support, truth, model, latents, dims),
        *_of_support(support),
        _everywhere("fit", misfit, fit_limit, "the model fits f on P"),
        _everywhere(
            "derivatives", jacobian_errors(truth, model, latents, dims), jacobian_limit,
            "the model fits df/dz on P",
        ),
    )  # fmt: skip
    return _answer(premises, support, len(latents))


def jacobian_errors(truth, model, latents, dims) -> np.ndarray:
    """|df/dz - dfhat/dz| at every point, relative to the root mean square of |df/dz|: [n]."""
    latents, dims = _points(latents, dims)
    wrong, size = [], []
    for start in range(0, len(latents), CHUNK):
        chunk = latents[start : start + CHUNK]
        true, fitted = (np.asarray(_jacobian(f, chunk, dims), np.float64) for f in (truth, model))
        wrong.append(_squares(true - fitted))
        size.append(_squares(true))
    size = np.mean(np.concatenate(size))
    if size == 0:
        raise ValueError("truth has no slope anywhere at latents: soften its edges")
    return np.sqrt(np.concatenate(wrong) / size)


@functools.partial(jax.jit, static_argnames=("f", "dims"))
def _jacobian(f, chunk, dims):
    return jax.vmap(lambda z: jax.jacfwd(_one(f))(z)[..., jnp.array(dims)])(chunk)


# --- premises -------------------------------------------------------------------------------------


def _smooth(support, truth, model, latents, dims):
    """A1: no jumps of truth and model on lines between neighbouring samples, and none of C."""
    words = "truth, model and C have no jump on lines between samples"
    n = len(latents)
    if n < 2 or "C" not in support.continuity:
        return Premise("A1", None, np.nan, 1.0, words)
    starts, stops = np.asarray(latents), np.array(latents)
    stops[:, dims] = np.roll(starts, 1, axis=0)[:, dims]

    def mapped(f):
        return jax.jit(lambda z: jax.lax.map(_one(f), z, batch_size=CHUNK))

    found = [continuity(mapped(f), starts, stops) for f in (truth, model)]
    jumps = round(max(one.share for one in found) * n)
    found += support.continuity.values()
    return Premise(
        "A1", all(one.holds for one in found), 1 - max(one.share for one in found), 1.0, words,
        worst=max(one.left for one in found), bound=largest_share(jumps, n),
    )  # fmt: skip


def _of_support(support):
    """A2, A3 and the connection of P, as the audit found them."""
    covered = np.nan
    if support.coverage is not None:
        reached = [one.share for one in support.coverage.components]
        covered = float(min([*support.coverage.share, *reached]))
    n = min(len(one.passes) for one in support.components)
    fails = max(int(np.sum(~one.passes)) for one in support.components)
    share = min(one.share for one in support.components)
    apart = np.nan if support.connection is None else support.connection.widest
    radius = np.nan if support.connection is None else support.connection.radius
    failing = support.assumption.split(" and ")
    # One latent at a time can only fail it.
    whole = None if "A2" in support.unmeasured else support.coverage

    def premise(name, words, value, limit, found=True, bound=np.nan):
        holds = None if found is None else name not in failing
        return Premise(name, holds, value, limit, words, bound=bound)

    return (
        premise("A2", "P reaches every component value of Q", covered, 1.0, whole),
        premise("A3", "the rank condition holds on P", share, 1.0, bound=largest_share(fails, n)),
        premise("connection", "P is in one piece", apart, radius, support.connection),
    )


def _everywhere(name, errors, limit, words):
    """A premise about every sample."""
    fails = int(np.sum(~(errors <= limit)))
    return Premise(
        name=name,
        holds=fails == 0,
        value=float(np.sqrt(np.mean(np.square(errors)))),
        limit=limit,
        words=words,
        worst=float(errors.max()),
        quantiles=tuple(np.quantile(errors, QUANTILES)),
        bound=largest_share(fails, len(errors)),
    )


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


def _squares(values):
    """Sum of squares at each point: [n]."""
    return np.sum(np.square(values), axis=tuple(range(1, values.ndim)))


def _answer(premises, support, n):
    failing = tuple(premise.name for premise in premises if premise.holds is False)
    unmeasured = tuple(premise.name for premise in premises if premise.holds is None)
    consistent = not failing and not unmeasured
    if consistent:
        radius = verdicts.resolution(support.coverage, support.connection)
        bound = np.nanmax([premise.bound for premise in premises])
        verdict = (
            f"consistent with the theorem: premises hold on {n} samples at resolution "
            f"{radius:.2g}; each may fail on less than {bound:.2%} of P, with 95 % confidence (A4 "
            "is taken for granted)"
        )
    elif failing:
        first = next(premise for premise in premises if premise.name == failing[0])
        found = first.value if np.isnan(first.worst) else first.worst
        verdict = (
            f"the theorem does not apply: {first.name} fails ({first.words}: worst {found:.3g}, "
            f"needed {first.limit:.3g})"
        )
        verdict += f"; {', '.join(failing[1:])} too" if failing[1:] else ""
    else:
        verdict = "nothing measured contradicts the theorem"
    verdict += f"; not measured: {', '.join(unmeasured)}" if unmeasured else ""
    return Certificate(premises, consistent, failing, unmeasured, verdict)
