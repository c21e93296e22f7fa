"""python -m cgjax.report                      prints the record's tables, ours beside the paper's
python -m cgjax.report --add <workdir> ...  adds finished runs to ./record
python -m cgjax.report [RUNS] --out=<folder>  writes the page, folder/index.html: every claim with
                                            its verdict, and the runs in RUNS beside the record
  --record=<folder>                         adds to this record, or shows it, and not the package's
python -m cgjax.report --readme             writes the record's numbers into a checkout's READMEs"""

import argparse
import pathlib
import sys

from cgjax import experiments, report
from cgjax.config.flags import Parser
from cgjax.core.errors import BadInput, command
from cgjax.main import set_up_output
from cgjax.report import page, readme


@command
def main(argv=None):
    parser = Parser(
        prog="python -m cgjax.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="?", metavar="RUNS", help="a folder that holds workdirs")
    parser.add_argument("--out", metavar="FOLDER", help="write the page there")
    parser.add_argument("--add", nargs="*", default=(), metavar="WORKDIR")
    parser.add_argument("--label", default="", help="name of a second run of the same row and size")
    parser.add_argument(
        "--replace", action="store_true", help="overwrite an entry that has another config"
    )
    parser.add_argument("--readme", action="store_true", help="write READMEs from templates")
    parser.add_argument("--record", type=pathlib.Path, metavar="FOLDER")
    flags = parser.parse(argv)
    set_up_output()
    record = flags.record or (report.USERS if flags.add else report.RECORD)
    if flags.runs and not flags.out:
        raise BadInput("RUNS needs the page: name the page's folder with --out=<folder>")
    for workdir in flags.add:
        path = report.add(workdir, record, flags.label, replace=flags.replace)
        print(f"wrote {path}")
    if flags.readme:
        for path in readme.write():
            print(f"wrote {path}")
    elif flags.out:
        path = page.write(flags.out, record, flags.runs)
        print(f"wrote {path} ({path.stat().st_size / 2**20:.1f} MiB)")
    elif not flags.add:
        lines = (f"## {title}\n\n{table.rstrip()}\n" for title, table in tables(record))
        print("\n".join(lines))


def tables(record: pathlib.Path = report.RECORD):
    """(title, Markdown) of the tables of every recorded family."""
    recorded = report.families(record)
    ours = [name for name in experiments.FAMILIES if name in recorded]
    for name in ours + [name for name in recorded if name not in ours]:
        yield from report.tables(name, report.entries(name, record))


if __name__ == "__main__":
    sys.exit(main())
