"""python -m cgjax.audit --latents=train.npz [--against=all.npz]
    [--composition=module:function --components=module:function [--sizes=2,3]] [--out=DIR]

Compares a table of factors with another one, or with the grid of its own values: coverage, and the
missing combinations that matter most. With the composition function of the data, it also says
whether the theorem of Wiedemer et al. (2023) applies, and which combinations to collect if not.

  table.csv          a line of names, then rows; numbers, or words as categories
  table.npz          an array for each column, or one [rows, factors]
  table.npz:array    one [rows, factors] of several arrays
"""

import pathlib
import sys

from cgjax.audit import tables
from cgjax.config.overrides import Parser, names
from cgjax.core.errors import BadInput, command
from cgjax.main import set_up_output

CONDITIONS = ("sum", "stack")


class AuditParser(Parser):
    """The error for a file without a flag suggests --latents."""

    def near(self, argument: str) -> str:
        is_file = argument.endswith((".csv", ".npz"))
        return f" (did you mean --latents={argument}?)" if is_file else super().near(argument)


@command
def main(argv=None):
    """Reads two tables and prints what one lacks of the other."""
    flags = parse(sys.argv[1:] if argv is None else argv)
    if flags is None:
        return
    set_up_output()
    p = q = tables.read(flags.latents, flags.columns)
    if flags.against:
        q = tables.matched(p, tables.read(flags.against, flags.columns), flags)
    factors = tables.factors(p, q, flags.bins)
    # JAX and matplotlib take seconds to import: help and errors in a table do not need them.
    from cgjax.audit import coverage

    coverage.run(flags, p, q, factors)


def parse(argv):
    """Flags; None after --help."""
    parser = AuditParser(
        prog="python -m cgjax.audit",
        usage=__doc__,
        add_help=False,
        epilog="Exit codes: 0 done, 2 bad input.",
    )
    add = parser.add_argument
    add("--latents", help="the table: what there is (P)")
    add("--against", help="a table of what is wanted (Q); else every combination of P's values")
    add("--columns", type=names, default=(), help="only these columns, by commas")
    add("--bins", type=int, default=20, help="of numbers with more than 64 values (20)")
    add("--composition", help="C, from a list of slots [n, ...] to one array; a JAX function")
    add("--components", help="from columns [n, d] to a slot [n, ...]: one for all, or a list")
    add("--sizes", type=numbers, default=(), help="columns of each component, in order")
    add("--condition", choices=CONDITIONS, help="the theorem's, or a weaker (sum)")
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
    if flags.out and flags.out.is_file():
        raise BadInput(f"--out={flags.out} is a file: give the name of a folder")
    if flags.sizes and not flags.composition:
        raise BadInput("--sizes are of --components: give them too")
    if flags.condition and not flags.composition:
        raise BadInput("--condition is of --composition: give it too")
    flags.condition = flags.condition or "sum"
    if not 2 <= flags.bins <= 1000:
        raise BadInput(f"--bins must be from 2 to 1000, not {flags.bins}")
    return flags


def numbers(text: str) -> tuple[int, ...]:
    words = names(text)
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise BadInput(f"--sizes={text} must be whole numbers from 1 on, such as 2,3")
    return tuple(map(int, words))


if __name__ == "__main__":
    sys.exit(main())
