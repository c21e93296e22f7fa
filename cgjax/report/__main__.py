"""python -m cgjax.report                      tables of the record, ours beside the paper's
python -m cgjax.report --add=<workdir> ...  puts finished runs into the record
python -m cgjax.report [RUNS] --out=<folder>  writes the page, folder/index.html: every claim with
                                            its standing, and the runs in RUNS beside the record
  --record=<folder>                         a record of one's own, not the package's
python -m cgjax.report --readme             fills the record's numbers into a checkout's READMEs"""

import argparse
import pathlib
import sys

from cgjax import experiments, report
from cgjax.config.flags import Parser
from cgjax.core.errors import BadInput, command
from cgjax.report import page, readme


@command
def main(argv=None):
    parser = Parser(
        prog="python -m cgjax.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="?", metavar="RUNS", help="a folder that holds workdirs")
    parser.add_argument("--out", metavar="FOLDER", help="where the page goes")
    parser.add_argument("--add", nargs="*", default=(), metavar="WORKDIR")
    parser.add_argument("--label", default="", help="marks a second run of the same row and size")
    parser.add_argument(
        "--replace", action="store_true", help="what has another config and this name gives way"
    )
    parser.add_argument("--readme", action="store_true", help="write READMEs from templates")
    parser.add_argument("--record", type=pathlib.Path, default=report.RECORD, metavar="FOLDER")
    flags = parser.parse(argv)
    if flags.runs and not flags.out:
        raise BadInput("runs are shown on the page: name its folder with --out=<folder>")
    for workdir in flags.add:
        path = report.add(workdir, flags.record, flags.label, replace=flags.replace)
        print(f"wrote {path.name}")
    if flags.readme:
        for path in readme.write():
            print(f"wrote {path}")
    elif flags.out:
        path = page.write(flags.out, flags.record, flags.runs)
        print(f"wrote {path} ({path.stat().st_size / 2**20:.1f} MiB)")
    elif not flags.add:
        shown = tables(flags.record)
        print("\n".join(f"## {title}\n\n{table.rstrip()}\n" for title, table in shown))


def tables(record: pathlib.Path = report.RECORD):
    """(title, Markdown) of every family that has a record, as it states them itself."""
    found = report.families(record)
    ours = [name for name in experiments.FAMILIES if name in found]
    for name in ours + [name for name in found if name not in ours]:
        family = experiments.family(name)
        if hasattr(family, "tables"):
            yield from family.tables(report.entries(name, record))


if __name__ == "__main__":
    sys.exit(main())
