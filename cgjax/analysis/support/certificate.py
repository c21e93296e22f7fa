"""A certificate for a trained model: which premises of the theorem hold on samples of P.

Wiedemer et al. 2023, Theorem 1: with differentiable components (A1), compositional support (A2),
sufficient support (A3) and one point whose components agree (A4), a model that equals the truth on
P equals it on Q. Truth and model must be C of components, with the same C. On a computer "equals"
has a tolerance, and the proof also equates derivatives on P, so both errors are measured at every
sample: a mean would hide a model that is wrong in a corner of P. What no sample shows may still be
there, so every premise comes with the largest share of P on which it may fail unseen.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis.arguments import checked, finite, floating, indices, number
from cgjax.analysis.stats import largest_share
from cgjax.analysis.support import SupportAudit
from cgjax.analysis.support import latents as spaces
from cgjax.analysis.support.identification import latent_columns

CHUNK = 16  # points whose Jacobians in the latents are held at once
QUANTILES = (0.5, 0.95, 0.99)
HALVINGS = 14  # lines end 16,384 times shorter than they began
LEFT = 0.05  # of its largest change: what a line keeps when it hides a jump
SAME_FORM = 1e-3  # of f's deviation: how far the model may be from C of its components


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


@checked
def certificate(
    support: SupportAudit,
    truth: Callable,
    model: Callable,
    latents: floating("n D"),
    composition: Callable | None = None,
    components: Sequence[Callable] = (),
    true_composition: Callable | None = None,
    sizes: Sequence[int] | None = None,
    kinds: Sequence | None = None,
    fit_limit: number("[0, inf)") = 0.1,
    jacobian_limit: number("[0, inf)") = 0.1,
) -> Certificate:
    """Whether samples are consistent with every premise of the theorem; otherwise what fails.

    truth, model: latents [n, D] -> outputs [n, ...]; the truth must be differentiable (for images:
    soft edges). latents: points drawn from P [n, D]. composition, components: of the model, with
    `sizes` latents each; without them, whether the model is C of components stays unmeasured.
    true_composition: C of the data, where it may be another one than the model's.
    kinds: of each latent, as in `identify`; derivatives are compared in all but categories.
    fit_limit, jacobian_limit: largest error of f and of df/dz at any sample, relative to the root
    mean square of f's deviation from its mean and of df/dz.
    A4 is a technicality of the proof that training never grants: it is named, not tested.
    """
    if not support.components:
        raise ValueError("support audits no component: make it with `audit_support`")
    latents = jnp.asarray(latents)
    space = spaces.space(latents, latents, kinds)
    dims = _smooth_latents(space, np.asarray(latents))
    mapped = [_mapped(f) for f in (truth, model)]
    true, fitted = (np.asarray(f(latents)) for f in mapped)
    if true.shape != fitted.shape:
        raise ValueError(f"truth gives {true.shape[1:]}, model {fitted.shape[1:]} for one point")
    if not np.any(np.ptp(true, axis=0)):
        raise ValueError("truth is constant at latents: there is nothing to fit")
    deviation = np.sqrt(np.mean(_squares(true - true.mean(0))))
    misfit = np.sqrt(_squares(true - fitted)) / deviation
    slopes = jacobian_errors(truth, model, latents, dims)
    premises = (
        _smooth(mapped, latents, dims),
        *_of_support(support),
        *_form(mapped[1], composition, components, true_composition, sizes, latents, deviation),
        _everywhere("fit", misfit, fit_limit, "the model fits f on P"),
        _everywhere("derivatives", slopes, jacobian_limit, "the model fits df/dz on P"),
    )
    return _answer(premises, support, len(latents))


def _smooth_latents(space, rows) -> tuple[int, ...]:
    """All latents but categories; a latent with a new value in most rows is refused."""
    for d, kind in enumerate(space.kinds):
        n_values = len(np.unique(rows[:, d]))
        if kind == "categorical" and n_values > max(len(rows) / 2, spaces.LEVELS):
            raise ValueError(
                f"latent {d} is declared categorical, but has {n_values} values in {len(rows)} "
                "rows: its slope would go unchecked; declare it continuous"
            )
    dims = tuple(d for d, kind in enumerate(space.kinds) if kind != "categorical")
    if not dims:
        raise ValueError("all latents are categories: the theorem needs continuous latents")
    return dims


def _form(model, composition, components, true_composition, sizes, latents, deviation):
    """Whether the model is C of its components, and C that of the data, on recombined values."""
    words = "the model is C of its components"
    if composition is None:
        return (Premise("form", None, np.nan, SAME_FORM, words),)
    rows = np.array(latents)
    columns = latent_columns(components, rows.shape[1], sizes)
    for k, each in enumerate(columns):
        rows[:, each] = np.roll(rows[:, each], k, axis=0)
    slots = [phi(jnp.asarray(rows[:, each])) for phi, each in zip(components, columns)]
    composed = np.asarray(composition(slots), np.float64)
    others = {words: model(rows)}
    if true_composition is not None:
        others["data and model share C"] = true_composition(slots)
    premises = []
    for name, (words, other) in zip(("form", "same C"), others.items()):
        other = np.asarray(other, np.float64)
        if composed.shape != other.shape:
            raise ValueError(f"C of components gives {composed.shape[1:]}, not {other.shape[1:]}")
        errors = np.sqrt(_squares(composed - other)) / deviation
        premises.append(_everywhere(name, errors, SAME_FORM, words))
    return premises


@checked
def jacobian_errors(truth, model, latents: floating("n D"), dims: indices("D")) -> np.ndarray:
    """|df/dz - dfhat/dz| at every point, relative to the root mean square of |df/dz|: [n]."""
    latents, wrong, size = jnp.asarray(latents), [], []
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


def _smooth(mapped, latents, dims):
    """A1: no jumps of truth and model on lines between samples."""
    words = "truth and model have no jump on lines between samples"
    n = len(latents)
    if n < 2:
        return Premise("A1", None, np.nan, 1.0, words)
    starts, stops = np.asarray(latents), np.array(latents)
    stops[:, dims] = np.roll(starts, 1, axis=0)[:, dims]
    each = zip(*(jumps(f, starts, stops) for f in mapped))
    is_jump, left = (np.stack(part) for part in each)
    n_jumps = int(is_jump.any(0).sum())
    worst, bound = float(left.max()), largest_share(n_jumps, n)
    return Premise("A1", not n_jumps, 1 - n_jumps / n, 1.0, words, worst, bound=bound)


@checked
def jumps(
    f: Callable, starts: finite("n D"), stops: finite("n D")
) -> tuple[np.ndarray, np.ndarray]:
    """Whether f jumps on each line from starts to stops, and what refinement leaves [n].

    Each line is halved HALVINGS times, and the half with the larger change of f is kept. Where f is
    Lipschitz, its change shrinks with the line; over a jump it stays. Changes of the size of
    rounding errors do not count.
    """
    starts, stops = np.asarray(starts), np.asarray(stops)
    low, high = np.asarray(f(starts)), np.asarray(f(stops))
    rounding = 64 * np.finfo(low.dtype).eps * max(np.abs(low).max(), np.abs(high).max())
    largest = change = _largest(high - low)
    for _ in range(HALVINGS):
        middles = (starts + stops) / 2
        middle = np.asarray(f(middles))
        before, after = _largest(middle - low), _largest(high - middle)
        is_later = after > before
        starts, stops = _pick(is_later, middles, starts), _pick(is_later, stops, middles)
        low, high = _pick(is_later, middle, low), _pick(is_later, high, middle)
        change = np.maximum(before, after)
        largest = np.maximum(largest, change)
    left = np.where(change > rounding, change, 0) / np.where(largest > 0, largest, 1)
    is_defined = np.isfinite(change)
    return ~is_defined | (left > LEFT), np.where(is_defined, left, np.inf)


def _largest(change):
    """The largest change of any output: a jump of one of many is not averaged away."""
    return np.abs(change).reshape(len(change), -1).max(axis=1)


def _pick(is_first, a, b):
    return np.where(is_first.reshape(-1, *[1] * (a.ndim - 1)), a, b)


def _of_support(support):
    """A2, A3 and identification, as the audit has them."""
    n = min(len(one.passes) for one in support.components)
    fails = max(int(np.sum(~one.passes)) for one in support.components)
    share = min(one.share for one in support.components)
    reached = np.nan if support.coverage is None else float(support.coverage.share.min())
    left_open = np.nan if support.identification is None else support.identification.open_share

    def premise(name, value, limit, words, bound=np.nan):
        holds = None if np.isnan(value) else name not in support.assumption.split(" and ")
        return Premise(name, holds, value, limit, words, bound=bound)

    words = "P determines f on Q; the share of Q that stays open"
    return (
        premise("A2", reached, 1.0, "P reaches every component value of Q"),
        premise("A3", share, 1.0, "the rank condition holds on P", largest_share(fails, n)),
        premise("identification", left_open, 0.0, words),
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


def _one(f):
    return lambda z: f(z[None])[0]


def _mapped(f):
    """f at points [n, D], some at a time."""
    return jax.jit(lambda z: jax.lax.map(_one(f), z, batch_size=CHUNK))


def _squares(values):
    """Sum of squares at each point: [n]."""
    return np.sum(np.square(values), axis=tuple(range(1, values.ndim)))


def _answer(premises, support, n):
    failing = tuple(premise.name for premise in premises if premise.holds is False)
    unmeasured = tuple(premise.name for premise in premises if premise.holds is None)
    consistent = not failing and not unmeasured
    if consistent:
        bound = np.nanmax([premise.bound for premise in premises])
        verdict = (
            f"consistent with the theorem: premises hold on {n} samples; each may fail on less "
            f"than {bound:.2%} of P, with 95 % confidence (A4 is taken for granted)"
        )
    elif failing:
        first = next(premise for premise in premises if premise.name == failing[0])
        value = first.value if np.isnan(first.worst) else first.worst
        verdict = (
            f"the theorem does not apply: {first.name} fails ({first.words}: worst {value:.3g}, "
            f"needed {first.limit:.3g})"
        )
        verdict += f"; {', '.join(failing[1:])} too" if failing[1:] else ""
    else:
        verdict = "nothing measured contradicts the theorem"
    verdict += f"; not measured: {', '.join(unmeasured)}" if unmeasured else ""
    return Certificate(premises, consistent, failing, unmeasured, verdict)
