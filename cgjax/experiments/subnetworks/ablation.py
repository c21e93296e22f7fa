"""What a mask does: accuracies of the subnetwork, of the network without it, and of size-matched
removals, on every set.

Names of scores: "<network>/<part>/<set>", with networks

    sub             the subnetwork, hard mask
    abl             the network without it, removed weights are zero
    rnd             the same, removed weights drawn anew
    random <i>      as many weights of each leaf removed, drawn uniformly
    complement <i>  as many of each leaf, from outside the subnetwork

and sets `own` (the one the mask was trained on), `compositional`, `test_0`, `test_1` ... Beside
them "kept", "kept/<leaf>", and "has complement": whether every leaf has room outside of the mask.
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
    """{part: {set: [n, 4]}}; under `own` the sets of every target [targets, n, 4]."""
    found = {}
    for part in PARTS:
        rows = task.sets.rows[part]
        least = min(len(rows[name]) for name in targets)
        found[part] = {"own": np.stack([rows[name][:least] for name in targets])}
        found[part] |= {name: own for name, own in rows.items()
                        if not name.startswith("mask") and len(own)}  # fmt: skip
    return found


def grid(task, data, base, masks, on, target, key, n_draws: int) -> dict:
    """All scores of one mask, hard, on one base."""
    sets = {f"{part}/{name}": rows[target] if name == "own" else rows
            for part, own in data["eval"].items() for name, rows in own.items()}  # fmt: skip
    networks = (
        lambda key: library.apply(base, masks, on),
        lambda key: library.ablate(base, masks, on=on),
        lambda key: library.ablate(base, masks, "random", key, on),
    )
    found = {}
    for name, values in accuracies(task, data, sets, networks, key).items():
        found |= {f"{network}/{name}": value for network, value in zip(NETWORKS, values)}
    if n_draws:
        found |= _nulls(task, data, base, masks, on, sets, jax.random.fold_in(key, 1), n_draws)
    weights = library.expand(masks, base)
    found["kept"] = library.kept(weights, on)
    for name, leaf in tree.flat(weights).items():
        found[f"kept/{name}"] = jnp.where(on[name] > 0, jnp.mean(leaf), 1.0)
    found["has complement"] = library.has_complement(masks, on).astype(jnp.float32)
    return found


def _nulls(task, data, base, masks, on, sets, key, n_draws) -> dict:
    """Removals of the same size, on the tests of single subroutines."""
    tests = {name: rows for name, rows in sets.items() if name.startswith("test/test_")}
    networks = tuple(
        lambda key, like=like: library.ablate(base, like(key, masks, on), on=on)
        for like in NULLS.values()
        for _ in range(n_draws)
    )
    found = {}
    for name, values in accuracies(task, data, tests, networks, key, n_draws).items():
        for i, value in enumerate(values):
            found[f"{list(NULLS)[i // n_draws]} {i % n_draws}/{name}"] = value
    return found


def accuracies(task, data, sets, networks, key, repeats: int = 1) -> dict:
    """{set: [networks]}; the program holds one forward pass, whatever the number of networks.

    networks: functions of a key that give parameters; of equal ones that follow each other
    (`repeats` of them) the program holds one.
    """

    def one(i):
        params = jax.lax.switch(i // repeats, networks[::repeats], jax.random.fold_in(key, i))
        return tasks.accuracies(task, params, data["table"], sets)

    return {name: list(values) for name, values in jax.lax.map(
        one, jnp.arange(len(networks))).items()}  # fmt: skip


def drawn(scores: dict, kind: str, name: str) -> np.ndarray:
    """Accuracies of all size-matched removals of a kind on one set: [draws, replicas]."""
    found = []
    while f"{kind} {len(found)}/{name}" in scores:
        found.append(scores[f"{kind} {len(found)}/{name}"])
    n = len(next(iter(scores.values())))
    return np.stack(found) if found else np.zeros((0, n))
