"""The stages of one part: its task, its bases, the search among configurations, the masks.

Folders of a part: `base`, `prune`, `search`, `masks`; folder of a row: `simclr`. Each stage resumes
separately, and a finished stage is read without compiling its program.
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
from cgjax.experiments.subnetworks import bases, language, tasks
from cgjax.experiments.subnetworks.language import tasks as language_tasks
from cgjax.experiments.subnetworks.search import ablation, training
from cgjax.experiments.subnetworks.search import table as tables
from cgjax.experiments.subnetworks.vision import simclr
from cgjax.experiments.subnetworks.vision import tasks as vision_tasks

CONFIGURATION = ("s0", "lr", "layers", "penalty")


class Part(NamedTuple):
    """The results of one part of a row."""

    task: tasks.Task
    bases: bases.Bases
    masks: training.TrainedMasks  # all masks of the last stage
    registered: dict  # table of runs of the pre-registered configuration
    selected: dict | None  # best configuration of each base and target; None: no search
    search: dict | None  # table of all configurations


def check(config) -> None:
    """Raises an error for combinations of keys that their ranges cannot exclude."""
    if is_vision(config):
        if config.model.arch != "vit" and len(config.model.blocks) != len(config.model.widths):
            raise BadInput("model.blocks and model.widths must have one number for each stage")
        return
    if config.model.start == "pretrained" and config.data.tokens != "wordpiece":
        raise BadInput("model.start=pretrained needs data.tokens=wordpiece")
    if is_built(config) and (config.data.rule == "three" or config.data.tokens != "words"):
        raise BadInput(
            f"model.arch={config.model.arch} is built for data.tokens=words and rules "
            "of two subroutines"
        )
    known = language.FAMILIES[config.data.rule]
    if odd := [name for name in config.data.templates if name not in known]:
        raise BadInput(
            f"data.templates has {odd[0]}, which is not a template of data.rule="
            f"{config.data.rule}: use {', '.join(known)}"
        )


def missing(config) -> str:
    """Why a part cannot run: pretrained weights are not installed. "" if it can run."""
    if not is_vision(config) and config.data.tokens == "wordpiece":
        try:
            pretrained.minilm()
        except BadInput as error:
            return str(error)
    return ""


def is_trained(config) -> bool:
    """Whether the part trains bases."""
    return not is_built(config) and config.model.start != "random"


def is_built(config) -> bool:
    """Whether the network is built by hand, hence never trained."""
    return config.model.arch in language_tasks.BUILT


def is_vision(config) -> bool:
    """Whether the rule is about images."""
    return config.data.rule in vision_tasks.RULES


def task_of(config, start=None) -> tasks.Task:
    """The rule and the network of a part; start: pretrained weights."""
    if is_vision(config):
        return vision_tasks.task(config, start)
    return language_tasks.task(config)


def bases_of(config, task, workdir, name: str = "") -> tuple[bases.Bases, dict]:
    """(bases, history of their training; {} without training)."""
    if not is_trained(config):
        return bases.untrained(config, task), {}
    return bases.trained(config, task, workdir / "base", name)


def pruned(config, task, base_models: bases.Bases, workdir, name: str = "") -> bases.Bases:
    """Bases pruned by a mask for the whole rule.

    A mask of all layers is trained for each first score and learning rate. For each base, the mask
    with the best validation accuracy multiplies the weights: w * 1[s > 0].
    """
    replicas = prunings(config, task, base_models)
    search = training.run(
        without_nulls(config), task, base_models, replicas, workdir / "prune", name
    )
    best = best_prunings(replicas, search.scores["sub/val/own"])
    params = baked(base_models.params, search.s, best)
    new = bases.scored(config, task, params, base_models.numbers)
    for i, place in enumerate(best):
        kept, accuracy = search.scores["kept"][place], new.scores["compositional"][i]
        seed = base_models.numbers["base_seed"][i]
        say(f"base_seed {seed}: pruned to {kept:.3f} of the weights, test accuracy {accuracy:.3f}")
    return new


def prunings(config, task, base_models: bases.Bases) -> dict:
    """Replicas of masks for the whole rule."""
    replicas = training.product(config, base_models, 1, config.masks.seeds[:1])
    some = replicas["layers"] == 0
    replicas = {key: values[some] for key, values in replicas.items()}
    # The target after the last subroutine is the whole rule.
    return replicas | {"target": np.full(some.sum(), len(task.subroutines))}


def best_prunings(replicas: dict, accuracies) -> np.ndarray:
    """Index of the replica with the best validation accuracy, for each base."""
    every = [np.flatnonzero(replicas["base"] == i) for i in range(replicas["base"].max() + 1)]
    return np.array([of_base[np.argmax(accuracies[of_base])] for of_base in every])


def baked(params, s, best):
    """Weights of every base, set to 0 where its best mask is 0."""
    hard = library.hard(jax.tree.map(lambda leaf: leaf[best], s))
    return jax.vmap(library.apply)(params, hard)


def of_family(config, family: str):
    """The config of one family of masks, for rows that compare several."""
    settings = config.copy_and_resolve_references()
    with settings.unlocked():
        settings.masks.family = family
        if family in ("hard_concrete", "magnitude"):
            settings.masks.s0s = config.masks.keeps
        if family == "magnitude":  # nothing is learned: one epoch, without penalty
            settings.masks.penalties, settings.masks.epochs = (0.0,), 1
    return settings


def without_nulls(config):
    """The config of a search for selection only: without size-matched removals."""
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
        start = simclr.run(config, place / "simclr", "simclr")
    task = task_of(config, start)
    base_models, _ = bases_of(config, task, workdir, name)
    if config.masks.prune:
        base_models = pruned(config, task, base_models, workdir, name)
    return masked(config, task, base_models, workdir, name)


def masked(config, task, base_models: bases.Bases, workdir, name: str = "") -> Part:
    """Masks of every base for every subroutine: pre-registered, and selected if there is a choice.

    If keys list several configurations, all are trained with the first mask seed. The one with the
    best validation quality is trained again with every seed. So is the pre-registered one, which
    takes the first value of each key and does not depend on results.
    """
    n, options, first = len(task.subroutines), config.masks, registered(config)
    pairs = [(base, target) for base in range(len(base_models.valid)) for target in range(n)]
    wanted = {pair: [first] for pair in pairs}
    search, chosen = None, {}
    if len(options.s0s) * len(options.lrs) * len(options.layers) * len(options.penalties) > 1:
        replicas = training.product(config, base_models, n, options.seeds[:1])
        settings = without_nulls(config)
        tried = training.run(settings, task, base_models, replicas, workdir / "search", name)
        search = tables.make(tried, base_models, n)
        for pair in pairs:
            chosen[pair] = choice(search, pair)
            if chosen[pair] and chosen[pair] != first:
                wanted[pair].append(chosen[pair])
            if not chosen[pair]:
                base, subroutine = (
                    base_models.numbers["base_seed"][pair[0]],
                    task.subroutines[pair[1]],
                )
                say(f"base_seed {base}, {subroutine}: no valid mask among all configurations")
    rows = [
        {"base": base, "target": target, **configuration, "seed": seed}
        for (base, target), several in wanted.items()
        for configuration in several
        for seed in options.seeds
    ]
    replicas = training.columns(base_models, rows)
    trained = training.run(config, task, base_models, replicas, workdir / "masks", name)
    table = tables.make(trained, base_models, n)
    is_first = np.array([all(row[key] == first[key] for key in CONFIGURATION) for row in rows])
    is_chosen = np.array(
        [
            all(
                row[key] == (chosen.get((row["base"], row["target"])) or {}).get(key)
                for key in CONFIGURATION
            )
            for row in rows
        ]
    )
    selected = tables.rows(table, is_chosen) if search else None
    return Part(task, base_models, trained, tables.rows(table, is_first), selected, search)


def registered(config) -> dict:
    """The pre-registered configuration: the first value of each key, chosen before any result."""
    options = config.masks
    first = {
        "s0": options.s0s[0],
        "lr": options.lrs[0],
        "layers": 0,
        "penalty": options.penalties[0],
    }
    return {
        key: np.float32(value).item() for key, value in first.items()
    }  # rounded to float32, like replicas


def choice(search: dict, pair: tuple[int, int]) -> dict | None:
    """The configuration with the best quality for one base and target; None if no mask is valid."""
    rows = np.flatnonzero((search["base"] == pair[0]) & (search["target"] == pair[1]))
    best = tables.chosen(search["quality"][rows])
    if best is None:
        return None
    return {key: search[key][rows[best]].item() for key in CONFIGURATION}


def oracle(config, task, base_models: bases.Bases) -> dict:
    """The table of the oracle masks of a network built by hand."""
    data = {
        "table": task.sets.table,
        "eval": ablation.problems_of(config, task, tuple(training.targets(task))),
    }
    rows = [
        {"base": base, "target": target, "seed": 0}
        for base in range(len(base_models.valid))
        for target in range(len(task.subroutines))
    ]

    @jax.jit
    def grid(data, base, masks, on, target, key):
        return ablation.grid(task, data, base, masks, on, target, key, config.masks.n_draws)

    per_row = []
    for row in rows:
        base = tree.take(base_models.params, row["base"])
        masks = language_tasks.oracle(config, base, row["target"])
        on = {name: jnp.ones(()) for name in tree.flat(masks)}
        per_row.append(grid(data, base, masks, on, row["target"], jax.random.key(row["base"])))
    scores = {name: np.array([float(one[name]) for one in per_row]) for name in per_row[0]}
    replicas = training.columns(base_models, rows)
    return tables.make(
        training.TrainedMasks(replicas, scores, {}, {}), base_models, len(task.subroutines)
    )
