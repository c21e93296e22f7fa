"""The stages of one part: its task, its bases, the search among configurations, the masks.

Folders of a part: `base`, `prune`, `search`, `masks`; folder of a row: `simclr`. Each stage resumes
separately, and a finished stage is read without compiling its program.
"""

import pathlib
from typing import NamedTuple

import jax
import numpy as np

from cgjax.analysis import masks as library
from cgjax.core import parallel, program, tree
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
TEMPERED = ("continuous_sparsification", "neuron")  # families of masks with a temperature


class Part(NamedTuple):
    """The results of one part of a row."""

    task: tasks.Task
    bases: bases.Bases
    masks: training.TrainedMasks  # all masks of the last stage
    registered: dict  # table of runs of the pre-registered configuration
    selected: dict | None  # runs of each base's and target's selected one; None: nothing to select
    search: dict | None  # table of all configurations, if the part searched for its own


def check(config) -> None:
    """Raises an error for combinations of keys that their ranges cannot exclude."""
    if is_vision(config):
        if config.model.arch != "vit" and len(config.model.blocks) != len(config.model.widths):
            raise BadInput("model.blocks and model.widths must have one number for each stage")
        if config.model.arch == "vit" and config.data.image_size % config.model.patch:
            raise BadInput(
                f"model.patch={config.model.patch} must divide "
                f"data.image_size={config.data.image_size}"
            )
        if config.model.start == "simclr":
            simclr.check(config)
        if (
            config.get("masks", {}).get("head") == "constant"
            and config.masks.family not in TEMPERED
        ):
            raise BadInput(f"masks.head=constant needs masks.family={' or '.join(TEMPERED)}")
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


def bases_of(config, task, workdir, name: str = "", ahead=None) -> tuple[bases.Bases, dict]:
    """(bases, history of their training; {} without training); ahead: as in `train.fit`."""
    if not is_trained(config):
        return bases.untrained(config, task), {}
    return bases.trained(config, task, workdir / "base", name, ahead)


def pruned(config, task, base_models: bases.Bases, workdir, name: str = "") -> bases.Bases:
    """Bases pruned by a mask for the whole rule.

    A mask of all layers is trained for each first score and learning rate. For each base, the mask
    with the best validation accuracy multiplies the weights: w * 1[s > 0]. A base that failed
    before stays invalid, as in the published means, even if its mask solves the rule.
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
    return new._replace(valid=new.valid & base_models.valid)


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


def run(
    config, workdir, name: str = "", selection: dict | None = None, ahead: dict | None = None
) -> Part:
    """All stages of a part; selection: as in `masked`; ahead: futures of the programs `traced`."""
    ahead = ahead or {}
    task, base_models = before_masks(config, workdir, name, ahead.get("base"))
    return masked(config, task, base_models, workdir, name, selection, ahead.get("masks"))


def before_masks(config, workdir, name: str = "", ahead=None) -> tuple[tasks.Task, bases.Bases]:
    """The task of a part, and the bases that it masks; ahead: as in `bases_of`."""
    workdir = pathlib.Path(workdir)
    start = None
    if config.model.start == "simclr":  # one network for all parts
        place = workdir.parent if name else workdir
        start = simclr.run(config, place / "simclr", "simclr")
    task = task_of(config, start)
    base_models, _ = bases_of(config, task, workdir, name, ahead)
    if config.masks.prune:
        base_models = pruned(config, task, base_models, workdir, name)
    return task, base_models


def has_choice(config) -> bool:
    """Whether keys list several configurations of masks."""
    options = config.masks
    return len(options.s0s) * len(options.lrs) * len(options.layers) * len(options.penalties) > 1


def searched(config, task, base_models: bases.Bases, workdir, name: str = "") -> tuple[dict, dict]:
    """(table of all configurations with the first mask seed, the selected one of each pair).

    A pair is (base, target). The configuration with the best validation quality is selected; None
    if no mask is valid.
    """
    n = len(task.subroutines)
    replicas = training.product(config, base_models, n, config.masks.seeds[:1])
    settings = without_nulls(config)
    tried = training.run(settings, task, base_models, replicas, workdir / "search", name)
    search, selection = tables.make(tried, base_models, n), {}
    for base, seed in enumerate(base_models.numbers["base_seed"]):
        for target, subroutine in enumerate(task.subroutines):
            selection[base, target] = choice(search, (base, target))
            if not selection[base, target]:
                say(f"base_seed {seed}, {subroutine}: no valid mask among all configurations")
    return search, selection


def masks_are_known(config) -> bool:
    """Whether a part's masks can be listed, and their program traced, before its bases exist."""
    depend = has_choice(config) or config.masks.prune or config.model.start == "simclr"
    return library.FAMILIES[config.masks.family].learns and not depend


def traced(config) -> dict[str, program.SetUp]:
    """{stage: traced program} of a part of `masks_are_known`: shapes of its bases suffice."""
    task, seeds = task_of(config), np.array(config.train.seeds)
    shapes = jax.eval_shape(jax.vmap(task.init), jax.vmap(jax.random.key)(seeds))
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    unknown = bases.Bases(zeros, {"base_seed": seeds}, {}, np.ones(len(seeds), bool))
    replicas = training.product(config, unknown, len(task.subroutines))
    masks = training.experiment(config, task, unknown, replicas)
    programs = {"masks": program.traced(masks, training.in_steps(config, task))}
    if is_trained(config):
        base = bases.experiment(config, task)
        programs["base"] = program.traced(base, bases.in_steps(config, task))
    return programs


def masked(
    config,
    task,
    base_models: bases.Bases,
    workdir,
    name: str = "",
    selection: dict | None = None,
    ahead=None,
) -> Part:
    """Masks of every base for every subroutine: pre-registered, and selected if there is a choice.

    The pre-registered configuration has the first value of each key, whatever the results. Both are
    trained with every mask seed. selection: as `searched` returns it, of other bases; without it
    the part searches for its own. ahead: as in `train.fit`.
    """
    first, search = registered(config), None
    if has_choice(config) and selection is None:
        search, selection = searched(config, task, base_models, workdir, name)
    rows, is_first, is_chosen = [], [], []
    for base, target in np.ndindex(len(base_models.valid), len(task.subroutines)):
        chosen = (selection or {}).get((base, target))
        for configuration in [first] + [chosen] * (chosen not in (None, first)):
            for seed in config.masks.seeds:
                rows.append({"base": base, "target": target, **configuration, "seed": seed})
                is_first.append(configuration == first)
                is_chosen.append(configuration == chosen)
    replicas = training.columns(base_models, rows)
    trained = training.run(config, task, base_models, replicas, workdir / "masks", name, ahead)
    table = tables.make(trained, base_models, len(task.subroutines))
    selected = tables.rows(table, np.array(is_chosen)) if selection else None
    return Part(
        task, base_models, trained, tables.rows(table, np.array(is_first)), selected, search
    )


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

    def grid(data, base, masks, on, target, key):
        return ablation.grid(task, data, base, masks, on, target, key, config.masks.n_draws)

    grid = program.jitted(grid, config)
    per_row, params = [], parallel.fetch(base_models.params)
    for row in rows:
        base = tree.take(params, row["base"])
        masks = language_tasks.oracle(config, base, row["target"])
        on = {name: np.ones((), np.float32) for name in tree.flat(masks)}
        per_row.append(grid(data, base, masks, on, row["target"], jax.random.key(row["base"])))
    scores = {name: np.array([float(one[name]) for one in per_row]) for name in per_row[0]}
    replicas = training.columns(base_models, rows)
    return tables.make(
        training.TrainedMasks(replicas, scores, {}, {}), base_models, len(task.subroutines)
    )
