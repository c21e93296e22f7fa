"""Sets of odd-one-out problems about sentences, drawn from one pool of sentences per cell."""

import numpy as np

from cgjax.core.errors import BadInput
from cgjax.experiments.subnetworks.language import grammar
from cgjax.experiments.subnetworks.odd_one_out import N
from cgjax.experiments.subnetworks.tasks import PARTS, Sets, cells, sizes

SPLITS = ("published", "disjoint")


class Pool:
    """Indices of a cell's inputs in the table, taken one after another in a random order."""

    def __init__(self, rng, places):
        self.places, self.next = rng.permutation(places), 0

    def take(self, n: int, rng) -> np.ndarray:
        """The next n indices; after all are used, a new round starts in a new order."""
        taken = []
        while n:
            if self.next == len(self.places):
                self.places, self.next = rng.permutation(self.places), 0
            some = self.places[self.next : self.next + n]
            taken.append(some)
            self.next, n = self.next + len(some), n - len(some)
        return np.concatenate(taken) if taken else np.zeros(0, int)


def draw(rng, pools: dict, rule: tuple, odd: tuple, n: int) -> np.ndarray:
    """n problems [n, 4]: rule inputs and odd ones drawn evenly from their cells, then shuffled."""

    def mixed(cells, count):
        shares = np.full(len(cells), count // len(cells))
        shares[: count % len(cells)] += 1
        taken = [pools[cell].take(int(share), rng) for cell, share in zip(cells, shares)]
        return rng.permutation(np.concatenate(taken))

    return np.concatenate([mixed(rule, (N - 1) * n).reshape(n, N - 1), mixed(odd, n)[:, None]], 1)


def of_language(config, encode) -> Sets:
    """The sets of a rule of language; encode: sentence -> ids.

    splits: "published" draws every set independently from all sentences, and tests from sentences
    that the compositional set does not use. "disjoint" first divides the distinct sentences among
    training, validation and test, so that no training sentence of any set is in a test.
    """
    data = config.data
    subroutines = grammar.SUBROUTINES[data.rule]
    n = len(subroutines)
    truths = sorted({cell for rule, odd in cells(n).values() for cell in rule + odd}, reverse=True)
    by_cell = {
        cell: grammar.pool(tuple(data.templates), cell, data.number, data.held_out)
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
        pools = {cell: Pool(rng, cell_places) for cell, cell_places in places["held out"].items()}
        rows["test"]["held_out"] = draw(rng, pools, *cells(n)["compositional"], data.n_eval)
    return _used(subroutines, texts, rows, encode)


def _used(subroutines, texts, rows, encode) -> Sets:
    """Builds the table from the sentences that occur in some problem."""
    flat = {(part, name): some for part, sets in rows.items() for name, some in sets.items()}
    used, inverse = np.unique(
        np.concatenate([some.ravel() for some in flat.values()]), return_inverse=True
    )
    coded = [encode(texts[place]) for place in used]
    ids = np.zeros((len(coded), max(map(len, coded))), np.int32)
    mask = np.zeros(ids.shape, np.int32)
    for i, code in enumerate(coded):
        ids[i, : len(code)], mask[i, : len(code)] = code, 1
    ends = np.cumsum([some.size for some in flat.values()])
    new = [part.reshape(-1, N) for part in np.split(inverse.ravel().astype(np.int32), ends[:-1])]
    renamed = {part: {} for part in rows}
    for (part, name), problems in zip(flat, new):
        renamed[part][name] = problems
    return Sets(subroutines, {"ids": ids, "mask": mask}, renamed)


def _published(rng, places, wanted, n) -> dict:
    rows = {part: {} for part in PARTS}
    left = None
    for name, (rule, odd) in cells(n).items():
        if name.startswith("test"):  # from sentences that the compositional set does not use
            pools = {
                cell: Pool(rng, left[cell] if len(left[cell]) else cell_places)
                for cell, cell_places in places.items()
            }
        else:
            pools = {cell: Pool(rng, cell_places) for cell, cell_places in places.items()}
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
    for cell, cell_places in places.items():
        cell_places = rng.permutation(cell_places)
        if len(cell_places) < 4 * len(PARTS):
            raise BadInput(
                f"data.templates give {len(cell_places)} sentences of one kind: too few to "
                "divide among training, validation and test; add templates"
            )
        # At least four sentences per part, so that no part is empty.
        cuts = np.clip(
            np.round(ends[:-1] * len(cell_places)).astype(int),
            [4, 8],
            [len(cell_places) - 8, len(cell_places) - 4],
        )
        shares[cell] = dict(zip(PARTS, np.split(cell_places, cuts)))
    rows = {part: {} for part in PARTS}
    for name, (rule, odd) in cells(n).items():
        for part in PARTS:
            pools = {cell: Pool(rng, cell_places[part]) for cell, cell_places in shares.items()}
            rows[part][name] = draw(rng, pools, rule, odd, wanted[name][part])
    return rows
