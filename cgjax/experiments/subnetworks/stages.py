"""The stages of one part: its task, its bases, the search among configurations, the masks.

Folders of a part: `base`, `prune`, `search`, `masks` (and of a row: `simclr`). Each is resumed on
its own, and what is finished is read without compiling its program.
"""

import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import masks as library
from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.data import pretrained
from cgjax.experiments.subnetworks import (
    ablation,
    bases,
    controls,
    language,
    measures,
    pretraining,
    searches,
    tasks,
    vision_tasks,
)
from cgjax.experiments.subnetworks import table as tables

CONFIGURATION = ("s0", "lr", "layers", "penalty")


class Part(NamedTuple):
    """What one part of a row has found."""

    task: tasks.Task
    bases: bases.Bases
    found: searches.Found  # all masks of the last stage
    registered: dict  # table of runs of the pre-registered configuration
    selected: dict | None  # of the best configuration of each base and target; None: no search
    search: dict | None  # table of all configurations


def check(config) -> None:
    """What the keys' own ranges cannot say."""
    if is_vision(config):
        if config.model.arch != "vit" and len(config.model.blocks) != len(config.model.widths):
            raise BadInput("model.blocks and model.widths have one number for each stage")
        return
    if config.model.start == "pretrained" and config.data.tokens != "wordpiece":
        raise BadInput("model.start=pretrained reads data.tokens=wordpiece")
    if is_built(config) and (config.data.rule == "three" or config.data.tokens != "words"):
        raise BadInput(f"model.arch={config.model.arch} is built for data.tokens=words and rules "
                       "of two subroutines")  # fmt: skip
    known = language.FAMILIES[config.data.rule]
    if odd := [name for name in config.data.templates if name not in known]:
        raise BadInput(f"data.templates has {odd[0]}, which is none of data.rule="
                       f"{config.data.rule}: {', '.join(known)}")  # fmt: skip


def missing(config) -> str:
    """Why a part cannot run here: pretrained weights that are not installed. "" where it can."""
    if not is_vision(config) and config.data.tokens == "wordpiece":
        try:
            pretrained.minilm()
        except BadInput as error:
            return str(error)
    return ""


def is_trained(config) -> bool:
    """Whether the part has a base training of its own."""
    return not is_built(config) and config.model.start != "random"


def is_built(config) -> bool:
    """Whether the network is built by hand, and so never trained."""
    return config.model.arch in controls.NETS


def is_vision(config) -> bool:
    """Whether the rule is about images."""
    return config.data.rule in vision_tasks.RULES


def task_of(config, start=None) -> tasks.Task:
    """The rule and the network of a part; start: pretrained weights."""
    if is_vision(config):
        return vision_tasks.task(config, start)
    return controls.task(config) if is_built(config) else tasks.language_task(config)


def bases_of(config, task, workdir, name: str = "") -> tuple[bases.Bases, dict]:
    """(bases, history of their training; {} where there was none)."""
    if not is_trained(config):
        return bases.untrained(config, task), {}
    return bases.trained(config, task, workdir / "base", name)


def pruned(config, task, found: bases.Bases, workdir, name: str = "") -> bases.Bases:
    """Bases of which only a mask for the whole rule is left (5.3).

    One mask for each first score and rate, all layers; of each base that of the best validation
    accuracy is baked in: w * 1[s > 0].
    """
    replicas = prunings(config, task, found)
    search = searches.run(without_nulls(config), task, found, replicas, workdir / "prune", name)
    best = best_prunings(replicas, search.scores["sub/val/own"])
    params = baked(found.params, search.s, best)
    new = bases.scored(config, task, params, found.numbers)
    for i, place in enumerate(best):
        kept, accuracy = search.scores["kept"][place], new.scores["compositional"][i]
        say(f"base_seed {found.numbers['base_seed'][i]}: pruned to {kept:.3f} of the weights, "
            f"test accuracy {accuracy:.3f}")  # fmt: skip
    return new


def prunings(config, task, found: bases.Bases) -> dict:
    """Replicas of masks for the whole rule."""
    replicas = searches.product(config, found, 1, config.masks.seeds[:1])
    some = replicas["layers"] == 0
    replicas = {key: values[some] for key, values in replicas.items()}
    # The target after the last subroutine is the rule.
    return replicas | {"target": np.full(some.sum(), len(task.subroutines))}


def best_prunings(replicas: dict, accuracies) -> np.ndarray:
    """The replica of the best validation accuracy of each base."""
    every = [np.flatnonzero(replicas["base"] == i) for i in range(replicas["base"].max() + 1)]
    return np.array([own[np.argmax(accuracies[own])] for own in every])


def baked(params, s, best):
    """Weights of every base, 0 where its best mask is."""
    hard = library.hard(jax.tree.map(lambda leaf: leaf[best], s))
    return jax.vmap(library.apply)(params, hard)


def of_family(config, family: str):
    """The settings of one kind of masks where a row compares several."""
    settings = config.copy_and_resolve_references()
    with settings.unlocked():
        settings.masks.family = family
        if family in ("hard_concrete", "magnitude"):
            settings.masks.s0s = config.masks.keeps
        if family == "magnitude":  # nothing is learned: one pass, and no penalty changes it
            settings.masks.penalties, settings.masks.epochs = (0.0,), 1
    return settings


def without_nulls(config):
    """The config of a search that only chooses: no removals of the same size."""
    settings = config.copy_and_resolve_references()
    with settings.unlocked():
        settings.masks.n_draws = 0
    return settings


def run(config, workdir, name: str = "") -> Part:
    """All stages of a part."""
    workdir = pathlib.Path(workdir)
    start = None
    if config.model.start == "simclr":  # one network for all parts
        place = workdir.parent if name else workdir
        start = pretraining.run(config, place / "simclr", "simclr")
    task = task_of(config, start)
    found, _ = bases_of(config, task, workdir, name)
    if config.masks.prune:
        found = pruned(config, task, found, workdir, name)
    return masked(config, task, found, workdir, name)


def masked(config, task, found: bases.Bases, workdir, name: str = "") -> Part:
    """Masks of every base for every subroutine: pre-registered, and selected where there is choice.

    Where keys name several configurations, all are tried with the first mask seed; the one of the
    best validation quality is trained again with every seed, and so is the first one of each key,
    which no result has chosen.
    """
    n, own, first = len(task.subroutines), config.masks, registered(config)
    pairs = [(base, target) for base in range(len(found.valid)) for target in range(n)]
    wanted = {pair: [first] for pair in pairs}
    search, chosen = None, {}
    if len(own.s0s) * len(own.lrs) * len(own.layers) * len(own.penalties) > 1:
        replicas = searches.product(config, found, n, own.seeds[:1])
        settings = without_nulls(config)
        tried = searches.run(settings, task, found, replicas, workdir / "search", name)
        search = tables.make(tried, found, n)
        for pair in pairs:
            chosen[pair] = choice(search, pair)
            if chosen[pair] and chosen[pair] != first:
                wanted[pair].append(chosen[pair])
            if not chosen[pair]:
                base, subroutine = found.numbers["base_seed"][pair[0]], task.subroutines[pair[1]]
                say(f"base_seed {base}, {subroutine}: no valid mask among all configurations")
    rows = [{"base": base, "target": target, **one, "seed": seed}
            for (base, target), several in wanted.items() for one in several
            for seed in own.seeds]  # fmt: skip
    replicas = searches.columns(found, rows)
    trained = searches.run(config, task, found, replicas, workdir / "masks", name)
    table = tables.make(trained, found, n)
    is_first = np.array([all(row[key] == first[key] for key in CONFIGURATION) for row in rows])
    is_chosen = np.array([
        all(row[key] == (chosen.get((row["base"], row["target"])) or {}).get(key)
            for key in CONFIGURATION) for row in rows
    ])  # fmt: skip
    selected = tables.rows(table, is_chosen) if search else None
    return Part(task, found, trained, tables.rows(table, is_first), selected, search)


def registered(config) -> dict:
    """The configuration that no result has chosen: the first of each key."""
    own = config.masks
    first = {"s0": own.s0s[0], "lr": own.lrs[0], "layers": 0, "penalty": own.penalties[0]}
    return {key: np.float32(value).item() for key, value in first.items()}  # as replicas have it


def choice(search: dict, pair: tuple[int, int]) -> dict | None:
    """The configuration of the best quality for one base and target; None: all fail."""
    rows = np.flatnonzero((search["base"] == pair[0]) & (search["target"] == pair[1]))
    best = measures.chosen(search["quality"][rows])
    if best is None:
        return None
    return {key: search[key][rows[best]].item() for key in CONFIGURATION}


def oracle(config, task, found: bases.Bases) -> dict:
    """Scores of the masks that a network built by hand has by its construction."""
    data = {
        "table": task.sets.table,
        "eval": ablation.problems_of(config, task, tuple(searches.targets(task))),
    }
    rows = [
        {"base": base, "target": target, "seed": 0}
        for base in range(len(found.valid))
        for target in range(len(task.subroutines))
    ]

    @jax.jit
    def grid(data, base, masks, on, target, key):
        return ablation.grid(task, data, base, masks, on, target, key, config.masks.n_draws)

    each = []
    for row in rows:
        base = tree.take(found.params, row["base"])
        masks = controls.oracle(config, base, row["target"])
        on = {name: jnp.ones(()) for name in tree.flat(masks)}
        each.append(grid(data, base, masks, on, row["target"], jax.random.key(row["base"])))
    scores = {name: np.array([float(one[name]) for one in each]) for name in each[0]}
    replicas = searches.columns(found, rows)
    return tables.make(searches.Found(replicas, scores, {}, {}), found, len(task.subroutines))
