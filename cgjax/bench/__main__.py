"""python -m cgjax.bench <family>: speed, as ratios within one run on one machine; or `coverage`."""

import importlib
import sys

from cgjax.config.overrides import Parser
from cgjax.core.errors import BadInput, command

FAMILIES = {
    "sprites": ("sprites", "run"),
    "jumps": ("sprites", "run_jumps"),
    "replay": ("sprites", "run_replay"),
    "interventions": ("sprites", "run_interventions"),
    "backgrounds": ("sprites", "run_backgrounds"),
    "gradients": ("sprites", "run_gradients"),
    "support": ("sprites", "run_support"),
    "kernels": ("kernels", "run"),
    "bumps": ("bumps", "run"),
    "resistance": ("resistance", "run"),
    "subnetworks": ("subnetworks", "run"),
    "coverage": ("coverage", "run"),
    "wait": ("wait", "run"),
    "growth": ("growth", "run"),
    "launches": ("launches", "run"),
}  # name: module and function
FIXED = ("support", "wait", "growth")  # that have no batch and no steps


@command
def main(argv=None):
    """Runs one family's benchmark and prints its tables."""
    parser = Parser(prog="python -m cgjax.bench", description=__doc__)
    parser.add_argument("family", nargs="?", help=", ".join(FAMILIES))
    parser.add_argument(
        "--batch", type=int, default=0, help="default: by family; sprites: 512, on a CPU 64"
    )
    parser.add_argument(
        "--steps", type=int, default=0, help="default: by family; sprites: 1,000, on a CPU 2"
    )
    flags = parser.parse(argv)
    if flags.family not in FAMILIES:
        problem = f"no benchmark '{flags.family}'" if flags.family else "no benchmark is named"
        raise BadInput(f"{problem}: there are {', '.join(FAMILIES)}")
    if flags.family in FIXED and (flags.batch or flags.steps):
        raise BadInput(f"'{flags.family}' takes neither --batch nor --steps: its sizes are fixed")
    if min(flags.batch, flags.steps) < 0:
        raise BadInput("--batch and --steps must be at least 1")
    module, function = FAMILIES[flags.family]
    benchmark = getattr(importlib.import_module(f"cgjax.bench.{module}"), function)
    benchmark(flags.batch, flags.steps)


if __name__ == "__main__":
    sys.exit(main())
