"""One host of a toy run, for tests: a `fit` as `cgjax.main` would call it.

python tests/toy_host.py WORKDIR FOUND [--seeds=0,1 --steps=40 --coordinator=... --host=...]
"""

import argparse
import pathlib
import sys

import numpy as np
import toy

from cgjax.core import hosts, signals
from cgjax.core.errors import command
from cgjax.core.train import fit, initial
from cgjax.core.workdir import locked


@command
def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("workdir", type=pathlib.Path)
    parser.add_argument("found")  # what this host has in the end, as an npz file
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--poison", type=int, default=99)
    for name in ("coordinator", "hosts", "host", "host_timeout"):
        parser.add_argument(f"--{name}")
    flags = parser.parse_args(argv)
    seeds = tuple(map(int, flags.seeds.split(",")))
    settings = toy.config(seeds=seeds, steps=flags.steps)
    settings.eval.every = settings.checkpoint.every = 40
    settings.eval.keep = (40,)
    with hosts.joined(hosts.find(flags)), signals.handled(), locked(flags.workdir):
        made = toy.experiment(settings, poison=flags.poison)
        state, history = fit(made, settings, flags.workdir)
        found = {name: history[name] for name in ("step", "loss", "grad_norm")}
        found |= {"eval_mse": history["eval"]["mse"], "w": np.asarray(state.params["w"])}
        # Nothing of it may stay with another host: families go on with it.
        found["start"] = np.asarray(initial(made, settings).params["w"])
        np.savez(flags.found, **found)


if __name__ == "__main__":
    sys.exit(main())
