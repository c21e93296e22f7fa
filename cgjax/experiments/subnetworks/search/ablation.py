"""Effect of a mask: accuracies of the subnetwork, of the network without it, and of size-matched
removals, on every set.

Names of scores: "<network>/<part>/<set>", with networks

    sub             the subnetwork, hard mask
    abl             the network without the subnetwork; removed weights are zero
    rnd             the same, but removed weights are redrawn at random
    random <i>      as many weights removed from each leaf, drawn uniformly
    complement <i>  as many weights removed from each leaf, drawn outside the subnetwork

and sets `own` (the set on which the mask was trained), `compositional`, `test_0`, `test_1` ...
Further scores: "kept", "kept/<leaf>" (shares of weights), and "has complement": whether every leaf
has enough weights outside the mask.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import masks as library
from cgjax.core import tree
from cgjax.experiments.subnetworks import tasks

NETWORKS = ("sub", "abl", "rnd")
NULLS = {"random": library.random_like, "complement": library.complement_like}
PARTS = ("val", "test")


def problems_of(config, task, targets: tuple[str, ...]) -> dict:
    """{part: {set: [n, 4]}}; `own` holds the mask sets of all targets [targets, n, 4]."""
    by_part = {}
    for part in PARTS:
        rows = task.sets.rows[part]
        least = min(len(rows[name]) for name in targets)
        by_part[part] = {"own": np.stack([rows[name][:least] for name in targets])}
        by_part[part] |= {
            name: set_rows
            for name, set_rows in rows.items()
            if not name.startswith("mask") and len(set_rows)
        }
    return by_part


def grid(task, data, base, masks, on, target, key, n_draws: int) -> dict:
    """All scores of one hard mask on one base."""
    sets = {
        f"{part}/{name}": rows[target] if name == "own" else rows
        for part, by_set in data["eval"].items()
        for name, rows in by_set.items()
    }
    networks = (
        lambda key: library.apply(base, masks, on),
        lambda key: library.ablate(base, masks, on=on),
        lambda key: library.ablate(base, masks, "random", key, on),
    )
    scores = {}
    for name, values in accuracies(task, data, sets, networks, key).items():
        scores |= {f"{network}/{name}": value for network, value in zip(NETWORKS, values)}
    if n_draws:
        scores |= _nulls(task, data, base, masks, on, sets, jax.random.fold_in(key, 1), n_draws)
    weights = library.expand(masks, base)
    scores["kept"] = library.kept(weights, on)
    for name, leaf in tree.flat(weights).items():
        scores[f"kept/{name}"] = jnp.where(on[name] > 0, jnp.mean(leaf), 1.0)
    scores["has complement"] = library.has_complement(masks, on).astype(jnp.float32)
    return scores


def _nulls(task, data, base, masks, on, sets, key, n_draws) -> dict:
    """Accuracies after size-matched removals, on the tests of single subroutines."""
    tests = {name: rows for name, rows in sets.items() if name.startswith("test/test_")}
    networks = tuple(
        lambda key, like=like: library.ablate(base, like(key, masks, on), on=on)
        for like in NULLS.values()
        for _ in range(n_draws)
    )
    scores = {}
    for name, values in accuracies(task, data, tests, networks, key, n_draws).items():
        for i, value in enumerate(values):
            scores[f"{list(NULLS)[i // n_draws]} {i % n_draws}/{name}"] = value
    return scores


def accuracies(task, data, sets, networks, key, repeats: int = 1) -> dict:
    """{set: [networks]}; the compiled program contains one forward pass for all networks.

    networks: functions of a key that return parameters. Each function occurs `repeats` times in a
    row; the program contains it once.
    """

    def score_network(i):
        params = jax.lax.switch(i // repeats, networks[::repeats], jax.random.fold_in(key, i))
        return tasks.accuracies(task, params, data["table"], sets)

    return {
        name: list(values)
        for name, values in jax.lax.map(score_network, jnp.arange(len(networks))).items()
    }


def drawn(scores: dict, kind: str, name: str) -> np.ndarray:
    """Accuracies [draws, replicas] of all size-matched removals of one kind on one set."""
    draws = []
    while f"{kind} {len(draws)}/{name}" in scores:
        draws.append(scores[f"{kind} {len(draws)}/{name}"])
    n = len(next(iter(scores.values())))
    return np.stack(draws) if draws else np.zeros((0, n))
