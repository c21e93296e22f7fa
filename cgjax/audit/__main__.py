"""python -m cgjax.audit --latents=train.npz [--against=all.npz]
    [--composition=module:function --components=module:function [--sizes=2,3]] [--out=DIR]

What a table of factors covers of another one, or of the grid of its own values; the missing
combinations that matter most; where it is said how the world is composed, whether the theorem of
Wiedemer et al. (2023) applies, and which combinations to collect where it does not.

  table.csv          a line of names, then rows; numbers, or words as categories
  table.npz          an array for each column, or one [rows, factors]
  table.npz:array    one [rows, factors] of several arrays
"""

import csv
import pathlib
import sys
import warnings

import numpy as np

from cgjax import plots
from cgjax.analysis import factor_tables
from cgjax.audit import collect, tables
from cgjax.config.flags import Parser, names
from cgjax.core.errors import BadInput, command
from cgjax.core.logging import say
from cgjax.core.workdir import disk_errors
from cgjax.main import set_up_output

SHOWN = 10  # missing parts that are printed
DRAWN = 7  # factors of the picture
CONDITIONS = ("sum", "stack")


@command
def main(argv=None):
    """Reads two tables and says what one lacks of the other."""
    flags = parse(sys.argv[1:] if argv is None else argv)
    if flags is None:
        return
    set_up_output()
    p = tables.read(flags.latents, flags.columns)
    q = matched(p, tables.read(flags.against, flags.columns), flags) if flags.against else p
    factors = tables.factors(p, q, flags.bins)
    given = None
    if flags.composition:
        given = collect.theory(flags.composition, flags.components, flags.sizes, factors)
    sizes = [factor.size for factor in factors]
    codes = coded(p, factors)
    wanted = coded(q, factors) if flags.against else grid(sizes)
    found = factor_tables.held(codes, wanted, sizes)
    if flags.against:
        check_inside(found, factors, p, q)
    for line in told(found, factors, codes, flags):
        say(line)
    path, _ = tables.split(flags.latents)
    folder = flags.out or path.parent
    if given:
        rows = stacked(q) if flags.against else valued(wanted, factors)
        collected = folder / f"{path.stem}-collect.csv"
        for line in asked(given, factors, stacked(p), rows, flags.condition, collected):
            say(line)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # letters without a glyph
        picture = plots.save(draw(found, factors), folder / f"{path.stem}-audit.png")
    say(f"picture: {picture}")


# --- flags ----------------------------------------------------------------------------------------


def parse(argv):
    """Flags; None after --help."""
    parser = Parser(
        prog="python -m cgjax.audit", usage=__doc__, add_help=False,
        epilog="Exit codes: 0 done, 2 bad input.",
    )  # fmt: skip
    add = parser.add_argument
    add("--latents", help="the table: what there is (P)")
    add("--against", help="a table of what is wanted (Q); else every combination of P's values")
    add("--columns", type=names, default=(), help="only these columns, by commas")
    add("--bins", type=int, default=20, help="of numbers with more than 64 values (20)")
    add("--composition", help="C, from a list of slots [n, ...] to one array; a JAX function")
    add("--components", help="from columns [n, d] to a slot [n, ...]: one for all, or a list")
    add("--sizes", type=numbers, default=(), help="columns of each component, in order")
    add("--condition", default="sum", choices=CONDITIONS, help="the theorem's, or a weaker (sum)")
    add("--out", type=pathlib.Path, help="folder of the picture (beside the table)")
    add("--help", "-h", action="store_true", help="this text")
    flags = parser.parse(list(map(str, argv)))
    if flags.help:
        parser.print_help()
        return None
    if not flags.latents:
        raise BadInput("nothing to audit: give --latents=<table.csv or .npz>; --help says more")
    if bool(flags.composition) != bool(flags.components):
        raise BadInput("--composition and --components go together: give both, or none")
    if flags.sizes and not flags.composition:
        raise BadInput("--sizes are of --components: give them too")
    if not 2 <= flags.bins <= 1000:
        raise BadInput(f"--bins must be from 2 to 1000, not {flags.bins}")
    return flags


def numbers(text: str) -> tuple[int, ...]:
    words = names(text)
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise BadInput(f"--sizes={text} must be whole numbers from 1 on, such as 2,3")
    return tuple(map(int, words))


# --- two tables -----------------------------------------------------------------------------------


def matched(p: dict, q: dict, flags) -> dict:
    """Q's columns in the order of P's, of the same kinds."""
    if set(p) != set(q):
        odd = sorted(set(p) ^ set(q))[0]
        place = flags.latents if odd in p else flags.against
        raise BadInput(f"column '{odd}' is in '{place}' alone: both tables need the same columns")
    for name in p:
        if (p[name].dtype.kind == "U") != (q[name].dtype.kind == "U"):
            raise BadInput(f"column '{name}' is of numbers in one table, of words in the other")
    return {name: q[name] for name in p}


def coded(table: dict, factors) -> np.ndarray:
    """[n, D] which level of its factor each value is."""
    return np.stack([factor.code(table[factor.name]) for factor in factors], axis=1)


def grid(sizes) -> np.ndarray:
    """Every combination, where they can be looked through."""
    try:
        return factor_tables.grid(sizes)
    except ValueError:
        n = np.prod(np.array(sizes, object))
        raise BadInput(f"the grid has {n:,} combinations, {factor_tables.LARGEST:,} at most are "
                       "looked through: give --against with those that count, or fewer --columns"
                       ) from None  # fmt: skip


def stacked(table: dict) -> np.ndarray:
    """[n, D] the columns of a table."""
    return np.stack(list(table.values()), axis=1)


def valued(codes, factors) -> np.ndarray:
    """Combinations of the grid by value: levels, and the middle of bins."""
    middles = [
        (one.levels[1:] + one.levels[:-1]) / 2 if one.is_continuous else one.levels
        for one in factors
    ]
    return np.stack([values[column] for values, column in zip(middles, codes.T)], axis=1)


def check_inside(found, factors, p, q) -> None:
    """Rows that are in P alone: of discrete tables any, of samples those beyond Q's values."""
    outside = found.outside
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
        raise BadInput(f"{len(outside):,} rows of --latents are not in --against, first row "
                       f"{outside[0] + 1} ({row}): --against must hold all that can be"
                       )  # fmt: skip


# --- words ----------------------------------------------------------------------------------------


def told(found: factor_tables.Held, factors, codes, flags) -> list[str]:
    """Coverage, and what is missing, in lines."""
    against = flags.against or "every combination of its values"
    lines = [f"{flags.latents} · {len(codes):,} rows of {len(factors)} factors · against {against}"]
    width = max(len(factor.name) for factor in factors)
    for d, factor in enumerate(factors):
        wanted = np.isfinite(found.values[d])
        seen = wanted & (np.bincount(codes[:, d], minlength=factor.size) > 0)
        kind = f"bins from {tables.word(factor.levels[0])} to {tables.word(factor.levels[-1])}"
        kind = kind if factor.is_continuous else f"values, {factor.text(range(factor.size))}"
        lines.append(f"  {factor.name:{width}}  {seen.sum()} of {wanted.sum()} {kind}")
    shown_pairs, all_pairs = found.n_pairs
    lines.append(
        f"coverage: {found.n_held:,} of {found.n_wanted:,} combinations "
        f"({found.n_held / found.n_wanted:.1%}), {shown_pairs:,} of {all_pairs:,} pairs of values"
    )
    return lines + missing_lines(found, factors)


def missing_lines(found: factor_tables.Held, factors) -> list[str]:
    """The parts that most lacking combinations contain."""
    lacking = found.n_wanted - found.n_held
    if not lacking:
        return ["nothing is missing"]
    lines = []
    if found.missing:
        lines.append("missing, by the number of wanted combinations that contain it:")
    for one in found.missing[:SHOWN]:
        each = [f"{factors[d].name} = {factors[d].text(codes)}"
                for d, codes in zip(one.factors, one.values)]  # fmt: skip
        never = "never shown" if len(each) == 1 else "never together"
        lines.append(f"  {one.n:>9,}  {' with '.join(each)} ({never})")
    if more := found.missing[SHOWN:]:
        lines.append(f"  and {len(more):,} smaller parts")
    if found.n_scattered:
        lines.append(
            f"{found.n_scattered:,} of {lacking:,} lacking combinations are scattered: each two "
            "of their values are shown together"
        )
    return lines


def asked(given, factors, p, q, condition, path) -> list[str]:
    """The theorem's verdict, and what to collect; its rows are written to path."""
    # In the order of a grid neighbours differ in one factor only.
    rng = np.random.default_rng(0)
    p = rng.permutation(p)
    problem = collect.problem(given, factors, p, rng.permutation(q), condition)
    found = collect.audit(problem, p)
    lines = [f"theorem: {found.verdict}"]
    if any(n > collect.VALUES for n in problem.n_values):
        each = ", ".join(f"{n:,}" for n in problem.n_values)
        lines.append(f"tested: {len(problem.tested)} rows; components have {each} values")
    if found.holds:
        return lines
    plan = collect.plan(problem, found, p)
    if not plan.n_values:
        return [*lines, "to collect: every tested value is identified already; see the verdict"]
    if plan.n_left:
        lines.append(f"{plan.n_left} of {plan.n_values} failing values are identified by no "
                     f"{collect.MOST} of the combinations tried")  # fmt: skip
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


def counted(n: int, word: str) -> str:
    return f"{n:,} {word}{'s' * (n != 1)}"


def write(path, factors, rows) -> None:
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", newline="") as handle:
            out = csv.writer(handle)
            out.writerow([factor.name for factor in factors])
            out.writerows([[f"{value:.10g}" for value in row] for row in rows])


# --- picture --------------------------------------------------------------------------------------


def draw(found: factor_tables.Held, factors):
    """Share of the wanted combinations that the table holds, by value and by pair of values."""
    lacks = [np.nanmin(values) for values in found.values]
    most = sorted(np.argsort(lacks, kind="stable")[:DRAWN].tolist())
    chosen = [factors[d] for d in most]
    pairs = {(i, j): found.pairs[a, b] for i, a in enumerate(most)
             for j, b in enumerate(most[:i])}  # fmt: skip
    lines = [(np.arange(one.size), found.values[d]) for d, one in zip(most, chosen)]
    limits = [(-0.5, one.size - 0.5) for one in chosen]
    ends = [[plain(tables.word(one.levels[at])[:10]) for at in (0, -1)] for one in chosen]
    ticks = [[(0, low), (one.size - 1, high)] for one, (low, high) in zip(chosen, ends)]
    share = found.n_held / found.n_wanted
    n_pairs = sum(len(one.factors) == 2 for one in found.missing)
    title = f"The table holds {share:.0%} of {found.n_wanted:,} combinations"
    title += "; some values are never shown together" if n_pairs else ""
    labels = [plain(one.name[:30]) for one in chosen]
    scale_label = "share of the combinations that is there"
    return plots.pair_matrix(pairs, lines, labels, limits, ticks, title, scale_label)


def plain(text: str) -> str:
    """Text that is drawn as it is: dollars enclose no formula."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("$", r"\$")


if __name__ == "__main__":
    sys.exit(main())
