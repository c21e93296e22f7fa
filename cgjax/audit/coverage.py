"""What a table of factors covers of another one: lines, the theorem's verdict, a picture."""

import csv
import warnings

import numpy as np

from cgjax import plots
from cgjax.analysis import factor_tables
from cgjax.audit import collect, tables
from cgjax.core.errors import BadInput
from cgjax.core.logging import counted, say
from cgjax.core.workdir import disk_errors

SHOWN = 10  # missing parts that are printed
DRAWN = 7  # factors of the picture


def run(flags, p: dict, q: dict, factors) -> None:
    """Prints what P covers of Q, and the theorem's verdict if C is given; draws the picture."""
    given = None
    if flags.composition:
        given = collect.theory(flags.composition, flags.components, flags.sizes, factors)
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
    problem = collect.problem(given, factors, p, rng.permutation(q), condition)
    answer = collect.audit(problem, p)
    lines = [f"theorem: {answer.verdict}"]
    if any(n > collect.VALUES for n in problem.n_values):
        each = ", ".join(f"{n:,}" for n in problem.n_values)
        lines.append(f"tested: {len(problem.tested)} rows; components have {each} values")
    if answer.holds:
        return lines
    plan = collect.plan(problem, answer, p)
    if not plan.n_values:
        return [*lines, "to collect: every tested value is identified already; see the verdict"]
    if plan.n_left:
        lines.append(
            f"{plan.n_left} of {plan.n_values} failing values are identified by no "
            f"{collect.MOST} of the combinations tried"
        )
    if len(plan.rows):
        write(path, factors, plan.rows)
        words = "the fewest for each value" if plan.is_fewest else "a small set"
        lines.append(
            f"to collect: {counted(len(plan.rows), 'combination')} for "
            f"{counted(plan.n_values - plan.n_left, 'failing value')}, {words} among "
            f"{collect.PARTNERS} or fewer tried for each: {path}"
        )
        lines.append(f"with them: {plan.after.verdict}")
    return lines


def write(path, factors, rows) -> None:
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", newline="") as handle:
            out = csv.writer(handle)
            out.writerow([factor.name for factor in factors])
            out.writerows([[f"{value:.10g}" for value in row] for row in rows])


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
