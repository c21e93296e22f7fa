"""python -m cgjax.report                      tables of the record, ours beside the paper's
python -m cgjax.report --add=<workdir> ...  puts finished runs into the record"""

import argparse
import sys

from cgjax import report
from cgjax.core.errors import command
from cgjax.experiments.sprites import figures

BEYOND = (
    "r2_id",
    "r2_all",
    "mse_overlap",
    "mse_outline",
    "mse_gap",
    "recovery_front",
    "recovery_back",
)

KERNELS = ("slope", "accuracy", "mse", "additivity")


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
    if flags.add:
        return
    print(report.headline_table("sprites"))
    print(f"\n## sprites, beyond the paper\n\n{report.beyond_table('sprites', BEYOND)}")
    print(f"\n## kernels\n\n{report.metric_table('kernels', KERNELS)}")
    for size in ("fast", "paper"):
        rows = report.by_row("sprites", size, flags.label)
        if rows:
            print(f"\n## sprites, size {size}\n\n{figures.table_markdown(rows)}")


if __name__ == "__main__":
    sys.exit(main())
