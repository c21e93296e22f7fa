"""Runs one study of the subnetworks family: bases, masks, measures, figures."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import masks as library
from cgjax.config import parts
from cgjax.core import checkpoint, tree
from cgjax.core.errors import BadInput
from cgjax.core.replicas import names_of
from cgjax.experiments.subnetworks import bases, odd_one_out, stages, study, tasks
from cgjax.experiments.subnetworks import figures as drawing
from cgjax.experiments.subnetworks.search import joint, training
from cgjax.published import PUBLISHED
from cgjax.published import results as markdown
from cgjax.published.results import summary

HEADLINES = (
    "sub_diff", "abl_diff", "abl_diff beyond random removals", "full pattern",
    "alignment with own less other, subnetwork", "alignment with own less other, random",
)  # fmt: skip


def check(config) -> None:
    """Raises an error for combinations of keys that their ranges cannot exclude."""
    study.check(config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Runs the row's study: (metrics, arrays, extra), and its figures."""
    workdir = pathlib.Path(workdir)
    metrics, arrays = study.study(config, workdir)
    # A smoke run is not a measurement: it only checks that the program runs.
    known = {} if config.size == "smoke" else PUBLISHED["subnetworks"].get(config.row, {})
    results = {
        name: summary(values, seeds, known.get(name.removesuffix(" (alive)")))
        for name, (values, seeds) in metrics.items()
    }
    if figures:
        draw(config, arrays, workdir / "figures")
    return results, arrays, {"headlines": headlines(results)}


def headlines(results: dict) -> list[str]:
    """Metrics at the top of the closing table: rank correlations, then HEADLINES."""
    correlations = [name for name in results if name.startswith("tau") or "/tau" in name]
    return correlations + [
        name
        for name in results
        if re.sub(", (oracle|selected)$", "", name.split(": ")[-1]) in HEADLINES
    ]


def plan(config) -> dict:
    """The size of each part's base training."""
    return study.plan(config)


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The row's figures, from its saved arrays."""
    drawing.draw(config.study, arrays, folder)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs: numbers beside the paper's, and the measures of each."""
    has_published = any(
        metric["paper"] is not None for entry in record for metric in entry["metrics"].values()
    )
    sections = [("subnetworks", markdown.metric_table(record))] if has_published else []
    if lines := [line for entry in record for line in _measures(entry)]:
        columns = ("row", "size", "network and subroutine", *SHOWN)
        head = ["| " + " | ".join(columns) + " |", "|---|---|---|" + "---:|" * len(SHOWN)]
        sections.append(("subnetworks: structure", "\n".join(head + lines)))
    return sections


SHOWN = ("sub_diff", "abl_diff", "abl_diff beyond random removals", "kept", "full pattern")


def _measures(entry: dict) -> list[str]:
    """A line for each network and subroutine of a recorded run."""
    metrics, lines = entry["metrics"], []
    for name in metrics:
        what, _, measure = name.rpartition(": ")
        if measure == SHOWN[0]:
            # Rows along training measure less.
            values = [metrics.get(f"{what}: {column}", {}).get("ours") for column in SHOWN]
            cells = ["-" if value is None else f"{value:.3f}" for value in values]
            lines.append(f"| {' | '.join([entry['row'], entry['size'], what, *cells])} |")
    return lines


# --- networks of a finished run -------------------------------------------------------------------
# Bases, and the subnetworks that masks define.
#
# A name is "<part>", "<part>/<subroutine>" or, in rows without parts, "" or "<subroutine>". Without
# a subroutine it names the bases. With one it names the subnetworks of its masks in the pre-
# registered configuration, with leading axis bases x mask seeds. Some studies have further names:
#
#     masks.prune  "pruned"                  bases pruned by the mask for the whole rule
#     families     "<family>/<subroutine>"   bases x first scores x penalties x mask seeds
#     dynamics     "epoch <n>"               bases at that epoch
#                  "epoch <n>/<subroutine>"
#     joint        "joint/<subroutine>"      disjoint masks


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks `part` names: `predict(params, inputs {name: [4n, ...]})` -> logits [n, 4]."""
    known, workdir = dict(parts(config)), pathlib.Path(workdir)
    heads = [head for head in known if not head or part.startswith(f"{head}/")]
    name = heads[0] if heads else checkpoint.choose(part, known, workdir)
    settings, rest = known[name], part.removeprefix(name).removeprefix("/")
    task, place = stages.task_of(settings), workdir / name
    if not rest:
        return _opened(settings, task, *_bases(settings, task, place, step))
    return OPENED.get(config.study, of_rule)(settings, task, place, rest, step)


# --- studies --------------------------------------------------------------------------------------


def of_rule(config, task, workdir, what: str, step) -> checkpoint.Loaded:
    """Subnetworks of one subroutine, or the bases pruned by a mask for the whole rule."""
    more = ("pruned",) if config.masks.prune else ()
    chosen = checkpoint.choose(what, (*task.subroutines, *more), workdir)
    base_models, steps = _masked(config, task, workdir)
    if chosen == "pruned":
        return _opened(config, task, base_models.params, steps)
    target = task.subroutines.index(chosen)
    replicas = _registered(config, base_models, target)
    return _subnetworks(config, task, base_models, replicas, workdir / "masks", step)


def of_families(config, task, workdir, what: str, step) -> checkpoint.Loaded:
    """Subnetworks of one family of masks, at every first score and penalty."""
    names = [f"{family}/{one}" for family in config.masks.families for one in task.subroutines]
    family, _, subroutine = checkpoint.choose(what, names, workdir).partition("/")
    base_models, _ = _masked(config, task, workdir)
    settings = stages.of_family(config, family)
    every = training.product(settings, base_models, len(task.subroutines))
    chosen = every["target"] == task.subroutines.index(subroutine)
    replicas = {name: values[chosen] for name, values in every.items()}
    return _subnetworks(settings, task, base_models, replicas, workdir / family, step)


def of_dynamics(config, task, workdir, what: str, step) -> checkpoint.Loaded:
    """Bases, or their subnetworks, at an epoch of base training."""
    epochs = {f"epoch {n}": n for n in sorted({*config.checkpoint.keep, config.train.epochs})}
    names = [*epochs, *(f"{name}/{one}" for name in epochs for one in task.subroutines)]
    name, _, subroutine = checkpoint.choose(what, names, workdir).partition("/")
    at = epochs[name] * bases.steps_per_epoch(config, task)
    params, _, steps = checkpoint.read_trained(workdir / "base", _names(config), at)
    if not subroutine:
        return _opened(config, task, params, steps)
    then = np.full(len(config.train.seeds), epochs[name])
    base_models = _as_bases(config, params, base_epoch=then)
    replicas = _registered(config, base_models, task.subroutines.index(subroutine))
    return _subnetworks(config, task, base_models, replicas, workdir / "masks", step)


def of_joint(config, task, workdir, what: str, step) -> checkpoint.Loaded:
    """Subnetworks of disjoint masks; for masks learned one by one, the same as `of_rule`."""
    names = [*task.subroutines, *(f"joint/{one}" for one in task.subroutines)]
    head, _, subroutine = checkpoint.choose(what, names, workdir).rpartition("/")
    if not head:
        return of_rule(config, task, workdir, what, step)
    base_models, _ = _masked(config, task, workdir)
    index = task.subroutines.index(subroutine)

    def hard(scores):
        return joint.hard([scores[str(i)] for i in range(len(task.subroutines))])[index]

    replicas = _registered(config, base_models, 0)  # one replica has the masks of all subroutines
    return _subnetworks(config, task, base_models, replicas, workdir / "joint", step, hard)


def of_vit(config, task, workdir, what: str, step) -> checkpoint.Loaded:
    """Raises an error: studies of vision transformers train no masks."""
    raise BadInput(f"'{workdir}' holds only bases: this study trains no masks")


OPENED = {"families": of_families, "dynamics": of_dynamics, "joint": of_joint, "vit": of_vit}


# --- shared helpers -------------------------------------------------------------------------------


def _opened(config, task, params, steps) -> checkpoint.Loaded:
    def predict(params, inputs):
        return odd_one_out.logits(task.embed(params, inputs))

    return checkpoint.Loaded(predict, params, config, steps)


def _names(config) -> list[str]:
    return [f"seed {seed}" for seed in config.train.seeds]


def _bases(config, task, workdir, step=None) -> tuple[dict, np.ndarray]:
    """Weights with the best validation loss, and their steps; initial weights if untrained."""
    if not stages.is_trained(config):
        return bases.initial(config, task), np.zeros(len(config.train.seeds), int)
    leaves, _ = checkpoint.open_finished(workdir / "base", _names(config), step)
    best = tree.nested(leaves, "best")
    return best["params"], np.asarray(best["step"])


def _as_bases(config, params, **numbers) -> bases.Bases:
    numbers = {"base_seed": np.array(config.train.seeds), **numbers}
    return bases.Bases(params, numbers, {}, np.ones(len(config.train.seeds), bool))


def _masked(config, task, workdir) -> tuple[bases.Bases, np.ndarray]:
    """The bases that a part masks: pruned bases if the part prunes."""
    params, steps = _bases(config, task, workdir)
    base_models = _as_bases(config, params)
    if not config.masks.get("prune", False):
        return base_models, steps
    replicas, folder = stages.prunings(config, task, base_models), workdir / "prune"
    names = names_of(replicas, ("seed", *base_models.numbers, *training.IDENTITY))
    scores, _, _ = checkpoint.read_trained(folder, names)
    accuracies = checkpoint.last_scores(folder, names, "sub/val/own")
    best = stages.best_prunings(replicas, accuracies)
    scores = _with_gaps(scores, params)
    return base_models._replace(params=stages.baked(params, scores, best)), steps


def _registered(config, base_models: bases.Bases, target: int) -> dict:
    """Replicas of the pre-registered configuration: every base, every mask seed."""
    rows = [
        {"base": base, "target": target, **stages.registered(config), "seed": seed}
        for base in range(len(base_models.valid))
        for seed in config.masks.seeds
    ]
    return training.columns(base_models, rows)


def _with_gaps(scores: dict, params) -> dict:
    """Scores as a tree like the weights, with None for leaves that are never masked."""
    flat = {name: jnp.asarray(leaf) for name, leaf in tree.flat(scores).items()}
    return tree.unflat({name: flat.get(name) for name in tree.flat(params)}, params)


def _subnetworks(config, task, base_models, replicas, folder, step, hard=None) -> checkpoint.Loaded:
    """Subnetworks: the weights of each replica's base, set to 0 where its mask is 0.

    hard: scores {index: tree} -> masks, for replicas that hold several masks.
    """
    names = names_of(replicas, ("seed", *base_models.numbers, *training.IDENTITY))
    scores, _, steps = checkpoint.read_trained(folder, names, step)
    like = tree.first(base_models.params)
    sets = tasks.layer_sets(task, like, tuple(config.masks.layers))
    on = {name: values[replicas["layers"]] for name, values in sets.items()}
    if hard:
        masks = hard({i: _with_gaps(one, base_models.params) for i, one in scores.items()})
    else:
        masks = library.FAMILIES[config.masks.family].hard(_with_gaps(scores, base_models.params))
    taken = jax.tree.map(lambda leaf: jnp.asarray(leaf)[replicas["base"]], base_models.params)
    params = jax.vmap(library.apply)(training.cast(taken, on, task.dtype), masks, on)
    return _opened(config, task, params, steps)
