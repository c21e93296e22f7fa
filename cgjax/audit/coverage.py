"""What a table of factors covers of another one: lines, the theorem's verdict, a picture."""

import contextlib
import csv
import functools
import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from cgjax import plots
from cgjax.analysis import factor_tables, support
from cgjax.analysis.support import design, latents
from cgjax.analysis.support.identification import is_pixelwise, latent_columns
from cgjax.audit import tables
from cgjax.audit.tables import Factor
from cgjax.config import look_here
from cgjax.core.errors import BadInput, first_line
from cgjax.core.logging import counted, say
from cgjax.core.workdir import disk_errors

SHOWN = 10  # missing parts that are printed
DRAWN = 7  # factors of the picture


def run(flags, p: dict, q: dict, factors) -> None:
    """Prints what P covers of Q, and the theorem's verdict if C is given; draws the picture."""
    given = None
    if flags.composition:
        given = theory(flags.composition, flags.components, flags.sizes, factors)
    sizes = [factor.size for factor in factors]
    codes = coded(p, factors)
    wanted = coded(q, factors) if flags.against else grid(sizes)
    held = factor_tables.held(codes, wanted, sizes)
    if flags.against:
        check_inside(held, factors, p, q)
    for line in coverage_lines(held, factors, codes, flags):
        say(line)
    path, _ = tables.split(flags.latents)
    folder = flags.out or path.parent
    if given:
        rows = stacked(q) if flags.against else valued(wanted, factors)
        collected = folder / f"{path.stem}-collect.csv"
        for line in theorem_lines(given, factors, stacked(p), rows, flags.condition, collected):
            say(line)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # letters without a glyph
        picture = plots.save(draw(held, factors), folder / f"{path.stem}-audit.png")
    say(f"picture: {picture}")


def coded(table: dict, factors) -> np.ndarray:
    """The level of every value [n, D]."""
    return np.stack([factor.code(table[factor.name]) for factor in factors], axis=1)


def grid(sizes) -> np.ndarray:
    """Every combination, if they are few enough."""
    try:
        return factor_tables.grid(sizes)
    except ValueError:
        n = np.prod(np.array(sizes, object))
        raise BadInput(
            f"the grid has {n:,} combinations, {factor_tables.LARGEST:,} at most are "
            "possible: give --against with those that count, or fewer --columns"
        ) from None


def stacked(table: dict) -> np.ndarray:
    """[n, D] the columns of a table."""
    return np.stack(list(table.values()), axis=1)


def valued(codes, factors) -> np.ndarray:
    """Combinations of the grid by value: levels, and the middle of bins."""
    middles = [
        (factor.levels[1:] + factor.levels[:-1]) / 2 if factor.is_continuous else factor.levels
        for factor in factors
    ]
    return np.stack([values[column] for values, column in zip(middles, codes.T)], axis=1)


def check_inside(held, factors, p, q) -> None:
    """Raises BadInput if P has rows that Q lacks, or continuous values beyond Q's range."""
    outside = held.outside
    if any(factor.is_continuous for factor in factors):
        beyond = np.zeros(len(next(iter(p.values()))), bool)
        for factor in factors:
            mine, theirs = p[factor.name], q[factor.name]
            if factor.is_continuous:
                beyond |= (mine < theirs.min()) | (mine > theirs.max())
            else:
                beyond |= ~np.isin(mine, theirs)
        outside = np.flatnonzero(beyond)
    if len(outside):
        row = ", ".join(f"{name}={tables.word(column[outside[0]])}" for name, column in p.items())
        raise BadInput(
            f"{len(outside):,} rows of --latents are not in --against, first row "
            f"{outside[0] + 1} ({row}): --against must hold all that can be"
        )


# --- words ----------------------------------------------------------------------------------------


def coverage_lines(held: factor_tables.Held, factors, codes, flags) -> list[str]:
    """Coverage, and what is missing, in lines."""
    against = flags.against or "every combination of its values"
    lines = [f"{flags.latents} · {len(codes):,} rows of {len(factors)} factors · against {against}"]
    width = max(len(factor.name) for factor in factors)
    for d, factor in enumerate(factors):
        wanted = np.isfinite(held.values[d])
        seen = wanted & (np.bincount(codes[:, d], minlength=factor.size) > 0)
        kind = f"bins from {tables.word(factor.levels[0])} to {tables.word(factor.levels[-1])}"
        kind = kind if factor.is_continuous else f"values, {factor.text(range(factor.size))}"
        lines.append(f"  {factor.name:{width}}  {seen.sum()} of {wanted.sum()} {kind}")
    shown_pairs, all_pairs = held.n_pairs
    lines.append(
        f"coverage: {held.n_held:,} of {held.n_wanted:,} combinations "
        f"({held.n_held / held.n_wanted:.1%}), {shown_pairs:,} of {all_pairs:,} pairs of values"
    )
    return lines + missing_lines(held, factors)


def missing_lines(held: factor_tables.Held, factors) -> list[str]:
    """The parts that most lacking combinations contain."""
    lacking = held.n_wanted - held.n_held
    if not lacking:
        return ["nothing is missing"]
    lines = []
    if held.missing:
        lines.append("missing, by the number of wanted combinations that contain it:")
    for part in held.missing[:SHOWN]:
        each = [
            f"{factors[d].name} = {factors[d].text(codes)}"
            for d, codes in zip(part.factors, part.values)
        ]
        never = "never shown" if len(each) == 1 else "never together"
        lines.append(f"  {part.n:>9,}  {' with '.join(each)} ({never})")
    if more := held.missing[SHOWN:]:
        lines.append(f"  and {len(more):,} smaller parts")
    if held.n_scattered:
        lines.append(
            f"{held.n_scattered:,} of {lacking:,} lacking combinations are scattered: each two "
            "of their values are shown together"
        )
    return lines


def theorem_lines(given, factors, p, q, condition, path) -> list[str]:
    """The theorem's verdict, and what to collect; its rows are written to path."""
    # Rows in the order of a grid differ from their neighbours in one factor only: shuffle them.
    rng = np.random.default_rng(0)
    p = rng.permutation(p)
    problem = posed(given, factors, p, rng.permutation(q), condition)
    answer = audit(problem, p)
    lines = [f"theorem: {answer.verdict}"]
    if any(n > VALUES for n in problem.n_values):
        each = ", ".join(f"{n:,}" for n in problem.n_values)
        lines.append(f"tested: {len(problem.tested)} rows; components have {each} values")
    if answer.holds:
        return lines
    plan = planned(problem, answer, p)
    if not plan.n_values:
        return [*lines, "to collect: every tested value is identified already; see the verdict"]
    if plan.n_left:
        lines.append(
            f"{plan.n_left} of {plan.n_values} failing values are identified by no "
            f"{MOST} of the combinations tried"
        )
    if len(plan.rows):
        write(path, factors, plan.rows)
        words = "the fewest for each value" if plan.is_fewest else "a small set"
        lines.append(
            f"to collect: {counted(len(plan.rows), 'combination')} for "
            f"{counted(plan.n_values - plan.n_left, 'failing value')}, {words} among "
            f"{PARTNERS} or fewer tried for each: {path}"
        )
        lines.append(f"with them: {plan.after.verdict}")
    return lines


def write(path, factors, rows) -> None:
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", newline="") as handle:
            out = csv.writer(handle)
            out.writerow([factor.name for factor in factors])
            # All digits: rows are of Q, and whole numbers may be times or names.
            out.writerows(
                [[repr(float(value)).removesuffix(".0") for value in row] for row in rows]
            )


# --- picture --------------------------------------------------------------------------------------


def draw(held: factor_tables.Held, factors):
    """Share of the wanted combinations that the table holds, by value and by pair of values."""
    lacks = [np.nanmin(values) for values in held.values]
    most = sorted(np.argsort(lacks, kind="stable")[:DRAWN].tolist())
    chosen = [factors[d] for d in most]
    pairs = {(i, j): held.pairs[a, b] for i, a in enumerate(most) for j, b in enumerate(most[:i])}
    lines = [(np.arange(factor.size), held.values[d]) for d, factor in zip(most, chosen)]
    limits = [(-0.5, factor.size - 0.5) for factor in chosen]
    ends = [[plain(tables.word(factor.levels[at])[:10]) for at in (0, -1)] for factor in chosen]
    ticks = [[(0, low), (factor.size - 1, high)] for factor, (low, high) in zip(chosen, ends)]
    share = held.n_held / held.n_wanted
    n_pairs = sum(len(part.factors) == 2 for part in held.missing)
    title = f"The table holds {share:.0%} of {held.n_wanted:,} combinations"
    title += "; some values are never shown together" if n_pairs else ""
    labels = [plain(factor.name[:30]) for factor in chosen]
    scale_label = "share of the combinations that is there"
    return plots.pair_matrix(pairs, lines, labels, limits, ticks, title, scale_label)


def plain(text: str) -> str:
    """The text with escaped dollars, so that matplotlib does not draw a formula."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("$", r"\$")


# --- theorem --------------------------------------------------------------------------------------
# Its verdict on a table, and which combinations to collect where it does not apply.


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
    given = imported(components)
    several = tuple(given) if isinstance(given, Sequence) else (given,)
    if not isinstance(given, Sequence):  # one function for all slots
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


# --- the audit ------------------------------------------------------------------------------------


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


def posed(given: Theory, factors: Sequence[Factor], p, q, condition: str) -> Problem:
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


def planned(given: Problem, audited: support.SupportAudit, p: np.ndarray) -> Plan:
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
