"""python -m cgjax.report                      tables of the record, ours beside the paper's
python -m cgjax.report --add=<workdir> ...  puts finished runs into the record"""

import argparse
import sys

from cgjax import experiments, report
from cgjax.core.errors import command


@command
def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m cgjax.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--add", nargs="*", default=(), metavar="WORKDIR")
    parser.add_argument("--label", default="", help="marks a second run of the same row and size")
    flags = parser.parse_args(argv)
    for workdir in flags.add:
        print(f"wrote {report.add(workdir, label=flags.label).name}")
    if not flags.add:
        print("\n".join(f"## {title}\n\n{table.rstrip()}\n" for title, table in tables()))


def tables():
    """(title, Markdown) of every family that has a record, as it states them itself."""
    for name in experiments.FAMILIES:
        if record := report.entries(name):
            yield from experiments.family(name).tables(record)


if __name__ == "__main__":
    sys.exit(main())
