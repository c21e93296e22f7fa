"""The sets of odd-one-out problems of one rule, from pools of inputs by what is true of them.

A *cell* says which subroutines an input obeys: (True, False) obeys the first alone. A set is given
by the cells of its three rule inputs and by those of the odd one:

    compositional   all obeyed                 one of them broken
    mask_<a>        a obeyed, others free      a broken
    test_<a>        all obeyed                 a alone broken

Free means, in two-part rules of language, that the odd one obeys the other part and the rule inputs
obey it every other time, as in the paper; inputs that break both do not occur there. In rules of
three all others are free, of rule inputs and of the odd one.
"""

import itertools
from typing import NamedTuple

import numpy as np

from cgjax.core.errors import BadInput
from cgjax.experiments.subnetworks import language
from cgjax.experiments.subnetworks.odd_one_out import N

PARTS = ("train", "val", "test")
SPLITS = ("published", "disjoint")


class Sets(NamedTuple):
    """All problems of one rule."""

    subroutines: tuple[str, ...]
    table: dict  # of arrays [inputs, ...]: what a network is shown
    rows: dict  # {part: {set: [n, 4]}}, the odd one last


def broken(n: int, place: int) -> tuple[bool, ...]:
    """The cell that breaks one subroutine of n."""
    return tuple(i != place for i in range(n))


def cells(n: int) -> dict[str, tuple]:
    """{set: (cells of rule inputs, cells of the odd one)} of a rule of n subroutines.

    Sets of one subroutine carry its number: mask_0, test_0 ...
    """
    whole = (True,) * n
    found = {"compositional": ((whole,), tuple(broken(n, i) for i in range(n)))}
    for i in range(n):
        if n == 2:
            rule, odd = (whole, broken(n, 1 - i)), (broken(n, i),)
        else:
            every = tuple(itertools.product((True, False), repeat=n))
            rule = tuple(cell for cell in every if cell[i])
            odd = tuple(cell for cell in every if not cell[i])
        found[f"mask_{i}"] = (rule, odd)
    return found | {f"test_{i}": ((whole,), (broken(n, i),)) for i in range(n)}


def sizes(config, n: int) -> dict:
    """{set: {part: problems}}; tests have a training part where an objective needs one."""
    data = config.data
    full = dict(zip(PARTS, (data.n_train, data.n_val, data.n_test)))
    needed = config.get("masks", {}).get("objective", "target") != "target"
    tests = {"train": data.n_train * needed, "val": data.n_val, "test": data.n_eval}
    found = {name: full for name in cells(n) if not name.startswith("test")}
    return found | {f"test_{i}": tests for i in range(n)}


# --- drawing --------------------------------------------------------------------------------------


class Pool:
    """Places of a cell's inputs in the table, taken one after another in an order once drawn."""

    def __init__(self, rng, places):
        self.places, self.next = rng.permutation(places), 0

    def take(self, n: int, rng) -> np.ndarray:
        """The next n; when all were used, a new round begins in a new order."""
        found = []
        while n:
            if self.next == len(self.places):
                self.places, self.next = rng.permutation(self.places), 0
            some = self.places[self.next : self.next + n]
            found.append(some)
            self.next, n = self.next + len(some), n - len(some)
        return np.concatenate(found) if found else np.zeros(0, int)


def draw(rng, pools: dict, rule: tuple, odd: tuple, n: int) -> np.ndarray:
    """n problems [n, 4]: rule inputs and odd ones evenly from their cells, then shuffled."""

    def mixed(cells, count):
        shares = np.full(len(cells), count // len(cells))
        shares[: count % len(cells)] += 1
        taken = [pools[cell].take(int(share), rng) for cell, share in zip(cells, shares)]
        return rng.permutation(np.concatenate(taken))

    return np.concatenate([mixed(rule, (N - 1) * n).reshape(n, N - 1), mixed(odd, n)[:, None]], 1)


def of_language(config, encode) -> Sets:
    """The sets of a rule of language; encode: sentence -> ids.

    splits: "published" draws every set afresh from all sentences, but tests from those that the
    compositional set has left; "disjoint" first divides the distinct sentences among training,
    validation and test, and so no sentence of any set's training is in another's test.
    """
    data = config.data
    subroutines = language.SUBROUTINES[data.rule]
    n = len(subroutines)
    truths = sorted({cell for rule, odd in cells(n).values() for cell in rule + odd}, reverse=True)
    by_cell = {
        cell: language.pool(tuple(data.templates), cell, data.number, data.held_out)
        for cell in truths
    }
    texts, places = [], {"seen": {}, "held out": {}}
    for cell, both in by_cell.items():
        for name, some in zip(places, both):
            distinct = list(dict.fromkeys(some)) if data.splits == "disjoint" else list(some)
            places[name][cell] = np.arange(len(texts), len(texts) + len(distinct))
            texts += distinct
    rng = np.random.default_rng(data.seed)
    wanted = sizes(config, n)
    rows = (_disjoint if data.splits == "disjoint" else _published)(rng, places["seen"], wanted, n)
    if data.held_out != "nothing":
        pools = {cell: Pool(rng, own) for cell, own in places["held out"].items()}
        rows["test"]["held_out"] = draw(rng, pools, *cells(n)["compositional"], data.n_eval)
    return _used(subroutines, texts, rows, encode)


def _used(subroutines, texts, rows, encode) -> Sets:
    """The table holds the sentences that some problem shows, and no others."""
    flat = {(part, name): some for part, sets in rows.items() for name, some in sets.items()}
    used, inverse = np.unique(np.concatenate([some.ravel() for some in flat.values()]),
                              return_inverse=True)  # fmt: skip
    coded = [encode(texts[place]) for place in used]
    ids = np.zeros((len(coded), max(map(len, coded))), np.int32)
    mask = np.zeros(ids.shape, np.int32)
    for i, code in enumerate(coded):
        ids[i, : len(code)], mask[i, : len(code)] = code, 1
    ends = np.cumsum([some.size for some in flat.values()])
    new = [part.reshape(-1, N) for part in np.split(inverse.ravel().astype(np.int32), ends[:-1])]
    renamed = {part: {} for part in rows}
    for (part, name), own in zip(flat, new):
        renamed[part][name] = own
    return Sets(subroutines, {"ids": ids, "mask": mask}, renamed)


def _published(rng, places, wanted, n) -> dict:
    rows = {part: {} for part in PARTS}
    left = None
    for name, (rule, odd) in cells(n).items():
        if name.startswith("test"):  # of what the compositional set has left
            pools = {cell: Pool(rng, left[cell] if len(left[cell]) else own)
                     for cell, own in places.items()}  # fmt: skip
        else:
            pools = {cell: Pool(rng, own) for cell, own in places.items()}
        for part in PARTS:
            rows[part][name] = draw(rng, pools, rule, odd, wanted[name][part])
        if name == "compositional":
            left = {cell: pool.places[pool.next :] for cell, pool in pools.items()}
    return rows


def _disjoint(rng, places, wanted, n) -> dict:
    needs = np.array([max(of[part] for of in wanted.values()) for part in PARTS], float)
    needs[needs == 0] = 1
    ends = np.cumsum(needs / needs.sum())
    shares = {}
    for cell, own in places.items():
        own = rng.permutation(own)
        if len(own) < 4 * len(PARTS):
            raise BadInput(f"data.templates give {len(own)} sentences of one kind: too few to "
                           "divide among training, validation and test")  # fmt: skip
        # At least four of each part, so that small parts are not empty.
        cuts = np.clip(np.round(ends[:-1] * len(own)).astype(int), [4, 8],
                       [len(own) - 8, len(own) - 4])  # fmt: skip
        shares[cell] = dict(zip(PARTS, np.split(own, cuts)))
    rows = {part: {} for part in PARTS}
    for name, (rule, odd) in cells(n).items():
        for part in PARTS:
            pools = {cell: Pool(rng, own[part]) for cell, own in shares.items()}
            rows[part][name] = draw(rng, pools, rule, odd, wanted[name][part])
    return rows
