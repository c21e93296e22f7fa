"""The tangent kernel of a subnetwork: is it aligned with the subroutine of its mask?

At the weights of a base, gradients restricted to a mask define a kernel between inputs. The inputs
obey the rule, or break exactly one subroutine. The alignment with a subroutine is the cosine
between the kernel and the labels "breaks it, or not", both centred. *Own* is the alignment with the
subroutine of the mask, *other* the mean alignment with the others. Kernels: the subnetwork, the
weights outside it (rest), as many weights drawn at random (random), and all that can be masked
(all).
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import masks, ntk
from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.experiments.subnetworks import odd_one_out, stages, tasks
from cgjax.experiments.subnetworks.search import table as tables

KERNELS = ("subnetwork", "rest", "random", "all")


def inputs(task: tasks.Task, n: int) -> tuple[dict, np.ndarray]:
    """n inputs that obey the rule, n that break each subroutine: (inputs, labels [k, inputs])."""
    tests = [task.sets.rows["test"][f"test_{i}"] for i in range(len(task.subroutines))]
    if min(map(len, tests)) < n:
        raise BadInput(
            f"eval.n_kernel={n}: the tests have {min(map(len, tests))} problems; reduce "
            "eval.n_kernel or increase data.n_eval"
        )
    rows = np.concatenate([tests[0][:n, 0], *(one[:n, -1] for one in tests)])
    kinds = np.repeat(np.arange(len(tests) + 1), n)  # 0 obeys, i + 1 breaks subroutine i
    labels = (kinds == 1 + np.arange(len(tests))[:, None]).astype(np.float32)
    return tasks.shown(task.sets.table, rows), labels


def alignments(task: tasks.Task, base, mask, on, key, shown, labels) -> jax.Array:
    """[kernels, subroutines] of one mask of one base."""
    mask = masks.expand(mask, base)
    several = [
        mask,
        masks.invert(mask),
        masks.random_like(key, mask),
        jax.tree.map(jnp.ones_like, mask),
    ]
    # A leaf outside the layer set belongs neither to the subnetwork nor to the rest.
    several = [
        tree.unflat({name: leaf * on[name] for name, leaf in tree.flat(single).items()}, single)
        for single in several
    ]

    def units(params, shown):
        return odd_one_out.units(task.embed(params, shown))

    kernels = masks.restricted(units, base, several, shown)
    centred = kernels - kernels.mean(axis=1, keepdims=True)
    centred = centred - centred.mean(axis=2, keepdims=True)
    y = labels - labels.mean(axis=1, keepdims=True)
    align = jax.vmap(jax.vmap(ntk.target_alignment, (None, 0)), (0, None))
    return align(centred, y)


def of_masks(config, part: stages.Part) -> tuple[dict, dict]:
    """Metrics and arrays with the kernel alignments of every mask of a part."""
    task, search = part.task, part.masks
    shown, labels = inputs(task, config.eval.n_kernel)

    @jax.jit
    def aligned(base, mask, on, key, shown, labels):
        return alignments(task, base, mask, on, key, shown, labels)

    results = []
    for i, base in enumerate(search.replicas["base"]):
        on = {leaf: sets[search.replicas["layers"][i]] for leaf, sets in search.on.items()}
        mask = masks.FAMILIES[config.masks.family].hard(tree.take(search.s, i))
        key = jax.random.fold_in(jax.random.key(config.data.seed), i)
        results.append(aligned(tree.take(part.bases.params, base), mask, on, key, shown, labels))
    tests = np.moveaxis(np.asarray(results, float), -1, 0)  # [subroutines, runs, kernels]
    with_own, with_others = tables.own_and_others(
        np.moveaxis(tests, 1, -1), search.replicas["target"]
    )
    saved = {name: search.replicas[name] for name in ("base", "target")}
    saved |= {
        "own": with_own,
        "other": with_others,
        "valid_base": part.bases.valid[saved["base"]],
        "kernels": np.array(KERNELS),
    }
    return _metrics(part, with_own, with_others), {
        f"tangent/{name}": values for name, values in saved.items()
    }


def _metrics(part, with_own, with_others) -> dict:
    """For each kernel, own and own minus other, with one value per base."""
    metrics, replicas = {}, part.masks.replicas
    seeds = part.bases.numbers["base_seed"].tolist()
    valid = part.bases.valid[replicas["base"]]
    for i, subroutine in enumerate(part.task.subroutines):
        lines = []
        for k, kernel in enumerate(KERNELS):
            columns = {"own": with_own[k], "own less other": with_own[k] - with_others[k]}
            table = {"base": replicas["base"], "valid_base": valid, **columns}
            table = tables.rows(table, replicas["target"] == i)
            for column in columns:
                values = tables.by_base(table, column, len(part.bases.valid))
                metrics[f"{subroutine}: alignment with {column}, {kernel}"] = (values, seeds)
            known = values[np.isfinite(values)]
            lines.append(f"{kernel} {known.mean():+.3f}" if len(known) else f"{kernel} none")
        say(f"{subroutine}: kernels' alignment with own less other: {', '.join(lines)}")
    return metrics
