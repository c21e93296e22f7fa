"""The theorem's verdict on a table, and which combinations to collect where it does not apply."""

import contextlib
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from cgjax.analysis import support
from cgjax.analysis.support import design, latents
from cgjax.analysis.support.identification import is_pixelwise, latent_columns
from cgjax.audit.tables import Factor
from cgjax.config import look_here
from cgjax.core.errors import BadInput, first_line

VALUES = 64  # tested values of a component; values that P lacks come first
PARTNERS = 24  # tested combinations of Q for each value
MOST = 4  # most partners that a value may need


class Theory(NamedTuple):
    """The composition C, and for each slot a function of its consecutive columns."""

    composition: Callable
    components: tuple[Callable, ...]
    sizes: tuple[int, ...]


class Plan(NamedTuple):
    """Rows of Q to collect, and the audit with them."""

    rows: np.ndarray  # [r, D] values
    n_values: int  # that failed
    n_left: int  # failing values that the tested partners do not identify
    is_fewest: bool  # whether fewer of the tested partners never suffice
    after: support.SupportAudit | None  # the audit with these rows; None without rows


def theory(composition: str, components: str, sizes, factors: Sequence[Factor]) -> Theory:
    """`module:function` and `module:function`, or the name of a sequence of functions."""
    found = imported(components)
    several = tuple(found) if isinstance(found, Sequence) else (found,)
    if not isinstance(found, Sequence):  # one function for all slots
        several *= len(sizes) or len(factors)
    if not all(map(callable, several)) or not several:
        raise BadInput(f"--components={components} must be a function, or a list of functions")
    if not sizes and len(factors) % len(several):
        raise BadInput(
            f"{len(factors)} columns are not as many for each of {len(several)} "
            "components: give --sizes"
        )
    sizes = tuple(sizes) or (len(factors) // len(several),) * len(several)
    if len(sizes) != len(several) or sum(sizes) != len(factors) or len(sizes) < 2:
        raise BadInput(
            f"--sizes={','.join(map(str, sizes))} must be the columns of each of two or "
            f"more components ({len(several)} here), {len(factors)} in all"
        )
    if words := [factor.name for factor in factors if factor.levels.dtype.kind == "U"]:
        raise BadInput(f"factor '{words[0]}' is of words: a composition needs numbers")
    guarded = [_guarded(f"--components={components}", phi) for phi in several]
    return Theory(_guarded(f"--composition={composition}", imported(composition)), guarded, sizes)


def imported(name: str):
    """The object `module:name`; modules in the current folder can be imported."""
    module, colon, word = name.partition(":")
    if not (module and colon and word):
        raise BadInput(f"'{name}' must be module:function")
    look_here()
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {first_line(error)}"
        raise BadInput(f"cannot import '{module}' of '{name}': {what}") from None
    if not hasattr(imported, word):
        raise BadInput(f"module '{module}' has no '{word}'")
    return getattr(imported, word)


def _guarded(name, function):
    """Turns an exception of a user's function into a one-line error that names the function."""
    if not callable(function):
        raise BadInput(f"{name} is not a function")

    @functools.wraps(function)
    def called(argument):
        try:
            value = function(argument)
        except Exception as error:
            raise BadInput(f"{name} raised {type(error).__name__}: {first_line(error)}") from error
        if not isinstance(value, jax.Array | np.ndarray) or value.dtype.kind not in "fiub":
            raise BadInput(
                f"{name} returned {type(value).__name__}: it must return real numbers, as an array"
            )
        return value

    return called


# --- the audit ----------------------------------------------------------------------------------


class Problem(NamedTuple):
    """A theory and tables, as the audit takes them."""

    composition: Callable
    components: tuple[Callable, ...]
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    q: np.ndarray  # [m, D] in an order without meaning
    tested: np.ndarray  # [t] rows of q with VALUES values of each component, or all of them
    n_values: tuple[int, ...]  # different values of each component in q
    options: dict


def problem(given: Theory, factors: Sequence[Factor], p, q, condition: str) -> Problem:
    """p [n, D], q [m, D]: combinations by value."""
    dims = latent_columns(given.components, len(factors), given.sizes)
    rows = [_first_unseen(p[:, d], q[:, d]) for d in dims]
    tested = np.unique(np.concatenate([each[:VALUES] for each in rows]))
    some = [np.asarray(phi(q[:2, d])) for phi, d in zip(given.components, dims)]
    if any(one.ndim < 2 or len(one) != len(q[:2]) for one in some):
        raise BadInput(
            f"components must map [n, columns] to [n, ...], got "
            f"{', '.join(str(one.shape) for one in some)} for 2 rows"
        )
    if given.composition(some).shape[:1] != (len(some[0]),):
        raise BadInput("--composition must map slots [n, ...] to one array [n, ...]")
    # Levels match only if they are equal; continuous values match if they are near.
    kinds = ["continuous" if factor.is_continuous else "categorical" for factor in factors]
    with jax.enable_x64(True):
        pixelwise = is_pixelwise(given.composition, some)
    options = {"condition": condition, "kinds": kinds, "pixelwise": pixelwise}
    names = tuple(factor.name for factor in factors)
    counts = tuple(map(len, rows))
    return Problem(*given, names, q, tested, counts, options)


def _first_unseen(p, q):
    """One row of q for each distinct value, in random order; values that p lacks come first."""
    unseen = _first_of_each(np.concatenate([p, q])) - len(p)
    unseen = unseen[unseen >= 0]
    others = np.setdiff1d(_first_of_each(q), unseen)
    return np.concatenate([np.sort(unseen), others])


def _first_of_each(rows) -> np.ndarray:
    """Indices of the different rows, each where it is first."""
    return np.unique(rows, axis=0, return_index=True)[1]


def audit(given: Problem, p: np.ndarray) -> support.SupportAudit:
    """The theorem's premises on rows p [n, D]."""
    with _in_one_line():
        return support.audit_latents(
            given.composition,
            given.components,
            p,
            given.q,
            given.sizes,
            names=given.names,
            tested=given.tested,
            **given.options,
        )


@contextlib.contextmanager
def _in_one_line():
    """Turns a ValueError of the library into a one-line error for the user."""
    try:
        yield
    except ValueError as error:
        raise BadInput(f"the theory cannot be asked: {first_line(error)}") from error


def plan(given: Problem, audited: support.SupportAudit, p: np.ndarray) -> Plan:
    """Rows of Q that identify what p [n, D] does not: few partners for each failing value."""
    rows, left, fewest, n = [], 0, True, 0
    space = latents.space(p, given.q, given.options["kinds"])
    columns = latent_columns(given.components, p.shape[1], given.sizes)
    for k, (one, d, radius) in enumerate(zip(audited.components, columns, audited.coverage.radius)):
        values = given.q[given.tested[one.failing]]
        values = values[_first_of_each(values[:, d])] if len(values) else values
        n += len(values)
        for value in values:
            partners = latents.within(space, d, value, given.q, radius)[:PARTNERS]
            chosen, is_least = _fewest(given, k, d, value[d], given.q[partners])
            left += not len(chosen)
            # A single partner is minimal. Of several, some may be unnecessary if P has the value.
            is_new = not len(latents.within(space, d, value, p, radius))
            fewest &= is_least and (len(chosen) < 2 or is_new)
            rows += [given.q[partners[i]] for i in chosen]
    if not rows:
        return Plan(np.zeros((0, len(given.names))), n, left, False, None)
    rows = np.unique(rows, axis=0)
    return Plan(rows, n, left, fewest, audit(given, np.concatenate([p, rows])))


def _fewest(given, component, dims, value, partners):
    """(indices of partners [c, D] that identify a value together, whether no fewer do)."""
    columns = latent_columns(given.components, partners.shape[1], given.sizes)
    slots = [np.asarray(phi(partners[:, d])) for phi, d in zip(given.components, columns)]
    if len({slot.shape for slot in slots}) > 1:
        raise BadInput(
            "combinations to collect are found for slots of one shape, not "
            f"{', '.join(str(slot.shape[1:]) for slot in slots)}"
        )
    rendered = np.asarray(given.components[component](value[None]))
    asked = {"component": component, "candidates": np.stack(slots, axis=1),
             "pixelwise": given.options["pixelwise"],
             "condition": given.options["condition"]}  # fmt: skip
    with _in_one_line():
        greedy = design.design(given.composition, rendered, most=MOST, **asked)
        if not greedy.holds:
            return (), False
        if len(greedy.chosen) < 3:  # every single partner was tested, so a pair is minimal
            return greedy.chosen, True
        fewer = len(greedy.chosen) - 1
        less = design.design(given.composition, rendered, most=fewer, exact=True, **asked)
    return (less if less.holds else greedy).chosen, True
