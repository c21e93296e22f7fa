"""python -m cgjax.report                      prints how each family's claims stand
python -m cgjax.report <family>             prints the family's tables, ours beside the paper's
python -m cgjax.report --add <workdir> ...  adds finished runs to ./record
python -m cgjax.report [RUNS] --out=<folder>  writes the page, folder/index.html: every claim with
                                            its verdict, and the runs in RUNS beside the record
  --record=<folder>                         adds to this record, or shows it, and not the package's
python -m cgjax.report --readme             writes the record's numbers into a checkout's READMEs"""

import argparse
import os
import pathlib
import sys

from cgjax import experiments, report
from cgjax.config.overrides import Parser, nearest
from cgjax.core.errors import BadInput, command, shown
from cgjax.main import set_up_output
from cgjax.report import page, readme
from cgjax.report import standing as standings


@command
def main(argv=None):
    parser = Parser(
        prog="python -m cgjax.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what",
        nargs="?",
        metavar="FAMILY|RUNS",
        help="a family; with --out a folder of workdirs",
    )
    parser.add_argument("--out", metavar="FOLDER", help="write the page there")
    parser.add_argument("--add", nargs="*", default=(), metavar="WORKDIR")
    parser.add_argument("--label", default="", help="name of a second run of the same row and size")
    parser.add_argument(
        "--replace", action="store_true", help="overwrite an entry that has another config"
    )
    parser.add_argument("--readme", action="store_true", help="write READMEs from templates")
    parser.add_argument("--record", type=pathlib.Path, metavar="FOLDER")
    flags = parser.parse(argv)
    check_flags(flags)
    set_up_output()
    record = flags.record or (report.USERS if flags.add else report.RECORD)
    recorded = [] if flags.add or flags.readme else report.families(record)
    if flags.what and not flags.out and os.path.isdir(flags.what):
        raise BadInput(
            f"'{flags.what}' is a folder: add --out=<folder>, which writes a page of its runs"
        )
    if flags.what and not flags.out and flags.what not in recorded:
        raise BadInput(
            f"no family {shown(flags.what)} in the record{nearest(flags.what, recorded)}: there "
            f"are {', '.join(recorded)}"
        )
    for path in report.add_all(flags.add, record, flags.label, replace=flags.replace):
        print(f"wrote {path}")
    if flags.readme:
        for path in readme.write():
            print(f"wrote {path}")
    elif flags.out:
        path = page.write(flags.out, record, flags.what)
        print(f"wrote {path} ({path.stat().st_size / 2**20:.1f} MiB)")
    elif flags.what or flags.record:
        print_tables([flags.what] if flags.what else recorded, record)
    elif not flags.add:
        for line in standings.family_lines():
            print(line)
        print("python -m cgjax.report <family> prints its tables, --out=<folder> writes the page")


def check_flags(flags) -> None:
    """Raises BadInput for flags that would do nothing."""
    if flags.add == []:
        raise BadInput("--add names no workdir: write --add runs/<family>/<row>")
    if (flags.label or flags.replace) and not flags.add:
        raise BadInput(f"--{'label' if flags.label else 'replace'} is of --add: give it too")
    if flags.readme and (flags.what or flags.out or flags.add or flags.record):
        raise BadInput("--readme writes the numbers of the package's record: give it alone")


def print_tables(families: list[str], record: pathlib.Path) -> None:
    """Prints the tables of recorded families, the package's first."""
    ours = [name for name in experiments.FAMILIES if name in families]
    for name in ours + [name for name in families if name not in ours]:
        for title, table in report.tables(name, report.entries(name, record)):
            print(f"## {title}\n\n{table.rstrip()}\n")


if __name__ == "__main__":
    sys.exit(main())
