"""Networks of a run, read back: bases, and the subnetworks that masks leave of them.

After the part, where a row has several, comes what is opened of it: nothing for the bases, or a
subroutine for what its masks leave of them: leading axis bases x mask seeds, of the pre-registered
configuration. Where a study has more, so has its name:

    masks.prune  "pruned"                  bases as the mask for the whole rule has left them
    families     "<family>/<subroutine>"   bases x first scores x penalties x mask seeds
    dynamics     "epoch <n>"               bases as they were then
                 "epoch <n>/<subroutine>"
    joint        "joint/<subroutine>"      masks that share no weight
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import masks as library
from cgjax.config import parts
from cgjax.core import checkpoint, tree
from cgjax.core.errors import BadInput
from cgjax.core.replicas import names_of
from cgjax.experiments.subnetworks import bases, joint, odd_one_out, searches, stages, tasks


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """`predict(params, inputs {name: [4n, ...]})` -> logits [n, 4] of what `part` names."""
    known, workdir = dict(parts(config)), pathlib.Path(workdir)
    heads = [one for one in known if not one or part.startswith(f"{one}/")]
    name = heads[0] if heads else checkpoint.choose(part, known, workdir)
    own, rest = known[name], part.removeprefix(name).removeprefix("/")
    task, place = stages.task_of(own), workdir / name
    if not rest:
        return _opened(own, task, *_bases(own, task, place, step))
    return OPENED.get(config.study, of_rule)(own, task, place, rest, step)


# --- studies --------------------------------------------------------------------------------------


def of_rule(config, task, workdir, what: str, step) -> checkpoint.Loaded:
    """Subnetworks of one subroutine, or the bases that a mask for the whole rule has left."""
    more = ("pruned",) if config.masks.prune else ()
    chosen = checkpoint.choose(what, (*task.subroutines, *more), workdir)
    found, steps = _masked(config, task, workdir)
    if chosen == "pruned":
        return _opened(config, task, found.params, steps)
    target = task.subroutines.index(chosen)
    replicas = _registered(config, found, target)
    return _subnetworks(config, task, found, replicas, workdir / "masks", step)


def of_families(config, task, workdir, what: str, step) -> checkpoint.Loaded:
    """Subnetworks of one kind of masks, at every first score and penalty."""
    names = [f"{family}/{one}" for family in config.masks.families for one in task.subroutines]
    family, _, subroutine = checkpoint.choose(what, names, workdir).partition("/")
    found, _ = _masked(config, task, workdir)
    own = stages.of_family(config, family)
    every = searches.product(own, found, len(task.subroutines))
    chosen = every["target"] == task.subroutines.index(subroutine)
    replicas = {name: values[chosen] for name, values in every.items()}
    return _subnetworks(own, task, found, replicas, workdir / family, step)


def of_dynamics(config, task, workdir, what: str, step) -> checkpoint.Loaded:
    """Bases, or their subnetworks, as they were along training."""
    epochs = {f"epoch {n}": n for n in sorted({*config.checkpoint.keep, config.train.epochs})}
    names = [*epochs, *(f"{name}/{one}" for name in epochs for one in task.subroutines)]
    name, _, subroutine = checkpoint.choose(what, names, workdir).partition("/")
    at = epochs[name] * bases.steps_per_epoch(config, task)
    params, _, steps = checkpoint.read_trained(workdir / "base", _names(config), at)
    if not subroutine:
        return _opened(config, task, params, steps)
    then = np.full(len(config.train.seeds), epochs[name])
    found = _as_bases(config, params, base_epoch=then)
    replicas = _registered(config, found, task.subroutines.index(subroutine))
    return _subnetworks(config, task, found, replicas, workdir / "masks", step)


def of_joint(config, task, workdir, what: str, step) -> checkpoint.Loaded:
    """Subnetworks that share no weight; of masks learned one by one as `of_rule`."""
    names = [*task.subroutines, *(f"joint/{one}" for one in task.subroutines)]
    head, _, subroutine = checkpoint.choose(what, names, workdir).rpartition("/")
    if not head:
        return of_rule(config, task, workdir, what, step)
    found, _ = _masked(config, task, workdir)
    own = task.subroutines.index(subroutine)

    def hard(scores):
        return joint.hard([scores[str(i)] for i in range(len(task.subroutines))])[own]

    replicas = _registered(config, found, 0)  # one replica has the masks of all subroutines
    return _subnetworks(config, task, found, replicas, workdir / "joint", step, hard)


def of_vit(config, task, workdir, what: str, step) -> checkpoint.Loaded:
    """Refuses: no masks are learned of vision transformers."""
    raise BadInput(f"'{workdir}' holds bases alone: no masks are learned of them")


OPENED = {"families": of_families, "dynamics": of_dynamics, "joint": of_joint, "vit": of_vit}


# --- what they share ------------------------------------------------------------------------------


def _opened(config, task, params, steps) -> checkpoint.Loaded:
    def predict(params, inputs):
        return odd_one_out.logits(task.embed(params, inputs))

    return checkpoint.Loaded(predict, params, config, steps)


def _names(config) -> list[str]:
    return [f"seed {seed}" for seed in config.train.seeds]


def _bases(config, task, workdir, step=None) -> tuple[dict, np.ndarray]:
    """Weights of the best validation loss, and the updates they had; never trained: the first."""
    if not stages.is_trained(config):
        return bases.initial(config, task), np.zeros(len(config.train.seeds), int)
    leaves, _ = checkpoint.open_finished(workdir / "base", _names(config), step)
    found = tree.nested(leaves, "best")
    return found["params"], np.asarray(found["step"])


def _as_bases(config, params, **numbers) -> bases.Bases:
    numbers = {"base_seed": np.array(config.train.seeds), **numbers}
    return bases.Bases(params, numbers, {}, np.ones(len(config.train.seeds), bool))


def _masked(config, task, workdir) -> tuple[bases.Bases, np.ndarray]:
    """The bases that a part's masks are of: pruned ones where the part prunes."""
    params, steps = _bases(config, task, workdir)
    found = _as_bases(config, params)
    if not config.masks.get("prune", False):
        return found, steps
    replicas, folder = stages.prunings(config, task, found), workdir / "prune"
    names = names_of(replicas, ("seed", *found.numbers, *searches.IDENTITY))
    scores, _, _ = checkpoint.read_trained(folder, names)
    accuracies = checkpoint.last_scores(folder, names, "sub/val/own")
    best = stages.best_prunings(replicas, accuracies)
    scores = _with_gaps(scores, params)
    return found._replace(params=stages.baked(params, scores, best)), steps


def _registered(config, found: bases.Bases, target: int) -> dict:
    """Replicas of the pre-registered configuration: every base, every mask seed."""
    rows = [
        {"base": base, "target": target, **stages.registered(config), "seed": seed}
        for base in range(len(found.valid))
        for seed in config.masks.seeds
    ]
    return searches.columns(found, rows)


def _with_gaps(scores: dict, params) -> dict:
    """Scores in the form of the weights, None where nothing is masked."""
    flat = {name: jnp.asarray(leaf) for name, leaf in tree.flat(scores).items()}
    return tree.unflat({name: flat.get(name) for name in tree.flat(params)}, params)


def _subnetworks(config, task, found, replicas, folder, step, hard=None) -> checkpoint.Loaded:
    """What masks leave: weights of each replica's base, 0 where its mask is.

    hard: scores {number: tree} -> masks, where a replica has several.
    """
    names = names_of(replicas, ("seed", *found.numbers, *searches.IDENTITY))
    scores, _, steps = checkpoint.read_trained(folder, names, step)
    like = jax.tree.map(lambda leaf: leaf[0], found.params)
    sets = tasks.layer_sets(task, like, tuple(config.masks.layers))
    on = {name: each[replicas["layers"]] for name, each in sets.items()}
    if hard:
        masks = hard({i: _with_gaps(one, found.params) for i, one in scores.items()})
    else:
        masks = library.FAMILIES[config.masks.family].hard(_with_gaps(scores, found.params))
    taken = jax.tree.map(lambda leaf: jnp.asarray(leaf)[replicas["base"]], found.params)
    params = jax.vmap(library.apply)(searches.cast(taken, on, task.dtype), masks, on)
    return _opened(config, task, params, steps)
