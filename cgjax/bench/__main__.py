"""python -m cgjax.bench <family>: how fast, as ratios within one run on one machine."""

import importlib
import sys

from cgjax.config.flags import Parser
from cgjax.core.errors import BadInput, command

FAMILIES = {
    "sprites": "cgjax.bench.sprites",
    "jumps": "cgjax.bench.jumps",
    "gradients": "cgjax.bench.gradients",
    "support": "cgjax.bench.support",
    "kernels": "cgjax.bench.kernels",
    "bumps": "cgjax.bench.bumps",
    "resistance": "cgjax.bench.resistance",
    "subnetworks": "cgjax.bench.subnetworks",
}


@command
def main(argv=None):
    """Runs one family's benchmark and prints its tables."""
    parser = Parser(prog="python -m cgjax.bench", description=__doc__)
    parser.add_argument("family")
    parser.add_argument(
        "--batch", type=int, default=0, help="default: 512 on an accelerator, 64 else"
    )
    parser.add_argument(
        "--steps", type=int, default=0, help="default: 1,000 on an accelerator, 2 else"
    )
    flags = parser.parse(argv)
    if flags.family not in FAMILIES:
        raise BadInput(f"no benchmark '{flags.family}': there are {', '.join(FAMILIES)}")
    importlib.import_module(FAMILIES[flags.family]).run(flags.batch, flags.steps)


if __name__ == "__main__":
    sys.exit(main())
