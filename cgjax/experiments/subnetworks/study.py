"""Studies: metrics and arrays from the stages of a row's parts.

Names of metrics: "<part>/<subroutine>: <measure>", with one value per base (the mean over its
masks) in the pre-registered configuration. ", selected" marks the configuration that a search
selects, ", oracle" the masks known from a construction.
"""

import concurrent.futures
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.analysis import masks as library
from cgjax.analysis import stats
from cgjax.config import over_parts, parts
from cgjax.core import checkpoint, parallel, program, train, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.data.arrays import n_batches
from cgjax.experiments.subnetworks import bases, stages
from cgjax.experiments.subnetworks.search import joint, tangent, training
from cgjax.experiments.subnetworks.search import table as tables


def check(config) -> None:
    """Raises an error for combinations of keys that their ranges cannot exclude, in any part."""
    settings_of = dict(parts(config))
    for name, settings in settings_of.items():
        try:
            stages.check(settings)
            if other := selected_by(settings):
                _check_selection(settings, other, settings_of.get(other))
        except BadInput as error:
            raise BadInput(f"part '{name}': {error}" if name else str(error)) from None


def selected_by(settings) -> str:
    """The part whose selected configurations a part takes; "" if it has nothing to select."""
    other = settings.get("masks", {}).get("selected_by", "")
    return other if other and stages.has_choice(settings) else ""


def _check_selection(settings, other: str, trained) -> None:
    if trained is None:
        raise BadInput(
            f"masks.selected_by={other} is not among the parts of this run: run both parts, or set "
            "masks.selected_by='' for a search of its own"
        )
    if settings.masks.layers != trained.masks.layers:
        raise BadInput(f"masks.layers differs from that of masks.selected_by={other}")


def plan(config) -> dict:
    """The size of each part's base training, or why it has none."""
    sizes, note = {}, {"note": "masks of them are trained after that"} if "masks" in config else {}
    for name, settings in parts(config):
        if reason := stages.missing(settings):
            sizes[name] = f"LEFT OUT: {reason}"
            continue
        if not stages.is_trained(settings):
            sizes[name] = "weights as they are built or drawn; masks of them are trained"
            continue
        # The size of training is known without its problems: draw only a few.
        small = settings.copy_and_resolve_references()
        with small.unlocked():
            small.data.update(dict.fromkeys(("n_train", "n_val", "n_test", "n_eval"), 4))
        n = min(settings.data.n_train, settings.data.get("n_base", settings.data.n_train))
        steps = configs.in_steps(settings, n_batches(n, settings.data.batch))
        sizes[name] = (
            program.training_size(bases.experiment(small, stages.task_of(small)), steps) | note
        )
    return sizes


def study(config, workdir) -> tuple[dict, dict]:
    """Runs every part: metrics {name: (values, seeds)}, and arrays to draw."""

    workdir, settings_of = pathlib.Path(workdir), dict(parts(config))
    threads = concurrent.futures.ThreadPoolExecutor()
    ahead = _compiled_ahead(config, workdir, threads)

    def study_part(name, settings):
        if reason := stages.missing(settings):
            say(f"part '{name}' is LEFT OUT: {reason}")
            return {}, {}
        options = {}
        if other := selected_by(settings):  # the other part reads these stages later
            trained = settings_of[other]
            before = stages.before_masks(trained, workdir / other, other)
            _, options["selection"] = stages.searched(trained, *before, workdir / other, other)
        if name in ahead:
            options["ahead"] = ahead[name]
        return STUDIES[config.study](settings, workdir / name, name, **options)

    try:
        metrics, arrays = over_parts(config, study_part)
    finally:
        threads.shutdown(cancel_futures=True)
    if config.study in AFTERWARDS:
        metrics |= AFTERWARDS[config.study](config, metrics, arrays)
    return metrics, arrays


def _compiled_ahead(config, workdir: pathlib.Path, threads) -> dict:
    """{part: {stage: future of its compiled program}} of smoke runs, all compiled side by side.

    Smoke runs compile for longer than they train. The programs of larger runs, and their data,
    would take memory from the part that trains.
    """
    if config.size != "smoke" or STUDIES[config.study] is not rule:
        return {}
    programs = {
        name: stages.traced(settings)
        for name, settings in parts(config)
        if stages.masks_are_known(settings)
        and not stages.missing(settings)
        and train.compiles_ahead(workdir / name / "base")
        and train.compiles_ahead(workdir / name / "masks")
    }
    # After all are traced: tracing waits for threads that compile.
    return {
        name: {stage: threads.submit(one.compile_all) for stage, one in by_stage.items()}
        for name, by_stage in programs.items()
    }


# --- one rule -------------------------------------------------------------------------------------


def rule(config, workdir, name: str = "", selection=None, ahead=None) -> tuple[dict, dict]:
    """Bases and masks of one rule; ahead: as in `stages.masked`."""
    return results_of(config, stages.run(config, workdir, name, selection, ahead))


def results_of(config, part: stages.Part) -> tuple[dict, dict]:
    """Metrics and arrays of one part's stages."""
    names = part.task.subroutines
    metrics = base_metrics(part.bases, names)
    metrics |= tables.metrics(part.registered, part.bases, names)
    arrays = base_arrays(part.bases, names) | _columns("runs", part.registered)
    if part.selected:
        metrics |= tables.metrics(part.selected, part.bases, names, ", selected")
        arrays |= _columns("selected", part.selected)
    if part.search:
        metrics |= spread(part.search, part.bases, names)
        arrays |= _columns("search", part.search)
    if stages.is_built(config):
        known = stages.oracle(config, part.task, part.bases)
        metrics |= tables.metrics(known, part.bases, names, ", oracle")
        arrays |= _columns("oracle", known)
    if len(names) > 2:
        more = matrices(part, names)
        metrics, arrays = metrics | more[0], arrays | more[1]
    with parallel.on_host():  # its operations are many and small
        arrays |= layers(part) | overlaps(part)
    say_runs(part.registered, names)
    return metrics, arrays


def _columns(prefix, table):
    return {f"{prefix}/{name}": np.asarray(values) for name, values in table.items()}


def base_metrics(base_models: bases.Bases, subroutines) -> dict:
    """Accuracies of the bases, including invalid bases, which means exclude.

    If some are invalid, the test accuracy is given once more, of the valid bases alone.
    """
    seeds, valid = base_models.numbers["base_seed"].tolist(), base_models.valid
    labels = {"compositional": "base: test accuracy", "held_out": "base: held-out accuracy"}
    labels |= {f"test_{i}": f"base: {name} alone" for i, name in enumerate(subroutines)}
    metrics = {
        labels[name]: (values, seeds)
        for name, values in base_models.scores.items()
        if name in labels
    }
    if not all(valid):
        count = (base_models.scores["compositional"][valid], np.array(seeds)[valid].tolist())
        metrics[f"{labels['compositional']} (alive)"] = count
    return metrics | {"base: share that counts": ([valid.mean()], [])}


def base_arrays(base_models: bases.Bases, subroutines) -> dict:
    """Arrays of the bases for figures."""
    arrays = {
        f"bases/{name}": values
        for name, values in (base_models.scores | base_models.numbers).items()
    }
    return arrays | {"bases/valid": base_models.valid, "subroutines": np.array(subroutines)}


def spread(search: dict, base_models: bases.Bases, subroutines) -> dict:
    """Over all configurations of a search: share of valid masks, quantiles of their abl_diff."""
    metrics = {}
    for i, name in enumerate(subroutines):
        of_target = tables.rows(search, (search["target"] == i) & search["valid_base"])
        valid = tables.rows(of_target, np.isfinite(of_target["quality"]))
        metrics[f"{name}: valid configurations"] = (
            [len(valid["base"]) / max(len(of_target["base"]), 1)],
            [],
        )
        if len(valid["base"]):
            for share in (0, 50, 100):
                metrics[f"{name}: abl_diff, {share} % of valid configurations"] = (
                    [np.percentile(valid["abl_diff"], share)],
                    [],
                )
    return metrics


def matrices(part: stages.Part, subroutines) -> tuple[dict, dict]:
    """Accuracies of each subroutine's subnetwork and ablation on the test of every subroutine."""
    n, metrics, arrays = len(subroutines), {}, {}
    targets, valid = part.masks.replicas["target"], part.bases.valid[part.masks.replicas["base"]]
    for network in ("sub", "abl"):
        tests = np.stack([part.masks.scores[f"{network}/test/test_{j}"] for j in range(n)], axis=1)
        accuracy = np.full((n, n), np.nan)
        for i in range(n):
            if (is_counted := valid & (targets == i)).any():
                accuracy[i] = tests[is_counted].mean(axis=0)
            for j in range(n):
                label = f"{network} of {subroutines[i]} on {subroutines[j]}"
                metrics[label] = ([accuracy[i, j]], [])
        arrays[f"matrix/{network}"] = accuracy
    return metrics, arrays


def layers(part: stages.Part) -> dict:
    """Share of weights kept by leaf, "kept/<leaf>" [runs], for all masks of the last stage."""
    scores, replicas = part.masks.scores, part.masks.replicas
    shares = {name: values for name, values in scores.items() if name.startswith("kept/")}
    return shares | {f"masks/{name}": replicas[name] for name in ("base", "target", "seed")}


_hard = jax.jit(library.hard)  # of all leaves


def overlaps(part: stages.Part) -> dict:
    """Intersection over union by leaf, for the first base: between seeds, and between subroutines.

    Between subroutines, the mask of a subroutine is the intersection over its seeds.
    """
    replicas, s = part.masks.replicas, jax.tree.map(np.asarray, part.masks.s)
    names, common = list(tree.flat(s)), []
    arrays = {"overlap/leaves": np.array(names)}
    alike = np.ones(len(replicas["base"]), bool)
    for key in stages.CONFIGURATION:
        alike &= replicas[key] == replicas[key][0]
    for i, name in enumerate(part.task.subroutines):
        rows = np.flatnonzero((replicas["base"] == 0) & (replicas["target"] == i) & alike)
        several = [_hard(tree.take(s, place)) for place in rows]
        if not several:
            continue
        common.append(library.intersect(several) if len(several) > 1 else several[0])
        if len(several) > 1:
            arrays |= _iou(name, library.overlap(several), names)
    if len(common) == len(part.task.subroutines):
        arrays |= _iou("between", library.overlap(common), names)
    return arrays


def _iou(label, overlap, names):
    return {
        f"overlap/{label}": np.array([float(overlap.iou[name]) for name in names]),
        f"overlap/{label}, expected": np.array([float(overlap.expected[name]) for name in names]),
        f"overlap/{label}, in all": np.array([float(overlap.total), float(overlap.expected_total)]),
    }


def say_runs(table: dict, subroutines) -> None:
    """Prints one line for each subroutine."""
    for i, name in enumerate(subroutines):
        of_target = tables.rows(table, (table["target"] == i) & table["valid_base"])
        if not len(of_target["base"]):
            say(f"{name}: no base counts")
            continue
        n = len(of_target["base"])
        pattern = f"{of_target['full_pattern'].sum()} of {n} runs show the full pattern"
        solve = f"{of_target['valid_mask'].sum()} of {n} masks solve their own set"
        if empty := n - len(tables.tested(of_target)["base"]):
            solve += f", {empty} keep nothing or everything"
        mean = {
            key: of_target[key].mean() for key in ("sub_diff", "abl_diff", "null_random", "kept")
        }
        say(
            f"{name}: sub diff {mean['sub_diff']:+.3f}, abl diff {mean['abl_diff']:+.3f} (removals "
            f"of the same size {mean['null_random']:+.3f}), kept {mean['kept']:.3f}; {solve}, "
            f"{pattern}"
        )


# --- further studies ------------------------------------------------------------------------------


def only_bases(config, workdir, name: str = "") -> tuple[dict, dict]:
    """Base training alone."""
    task = stages.task_of(config)
    base_models, history = stages.bases_of(config, task, pathlib.Path(workdir), name)
    arrays = base_arrays(base_models, task.subroutines)
    arrays |= {f"history/{key}": history["eval"][key] for key in ("step", "val accuracy")}
    best = history["eval"]["val accuracy"].max(axis=0)
    metrics = base_metrics(base_models, task.subroutines)
    return metrics | {"base: validation accuracy": (best, list(config.train.seeds))}, arrays


def families(config, workdir, name: str = "") -> tuple[dict, dict]:
    """Every family of masks on the same bases: accuracy by sparsity, for each penalty."""
    workdir = pathlib.Path(workdir)
    task = stages.task_of(config)
    base_models, _ = stages.bases_of(config, task, workdir, name)
    metrics, arrays = (
        base_metrics(base_models, task.subroutines),
        base_arrays(base_models, task.subroutines),
    )
    arrays["families"] = np.array(config.masks.families)
    for family in config.masks.families:
        settings = stages.of_family(config, family)
        replicas = training.product(settings, base_models, len(task.subroutines))
        masks = training.run(settings, task, base_models, replicas, workdir / family, name)
        table = tables.make(masks, base_models, len(task.subroutines))
        arrays |= _columns(family, table)
        best = tables.rows(table, np.isfinite(table["quality"]))
        for i, subroutine in enumerate(task.subroutines):
            of_target = tables.rows(best, best["target"] == i)
            for column in ("abl_diff", "sub_diff", "kept"):
                metrics[f"{family}/{subroutine}: {tables.SHOWN[column]}, valid masks"] = (
                    tables.by_base(of_target, column, len(base_models.valid)),
                    base_models.numbers["base_seed"].tolist(),
                )
    return metrics, arrays


def dynamics(config, workdir, name: str = "") -> tuple[dict, dict]:
    """Masks of the bases at several epochs of their training."""
    workdir = pathlib.Path(workdir)
    task = stages.task_of(config)
    bases.trained(config, task, workdir / "base", name)
    per_epoch = bases.steps_per_epoch(config, task)
    names = [f"seed {seed}" for seed in config.train.seeds]
    epochs = sorted({*config.checkpoint.keep, config.train.epochs})
    params = [
        checkpoint.read_trained(workdir / "base", names, epoch * per_epoch)[0] for epoch in epochs
    ]
    numbers = {
        "base_seed": np.tile(np.array(config.train.seeds), len(epochs)),
        "base_epoch": np.repeat(epochs, len(names)),
    }
    params = tree.concatenate([jax.tree.map(jnp.asarray, one) for one in params])
    every = bases.scored(config, task, params, numbers)
    # All bases count as valid: most are unfinished, so their accuracy is not a criterion.
    every = every._replace(valid=np.ones(len(every.valid), bool))
    part = stages.masked(config, task, every, workdir, name)
    metrics, arrays = {}, base_arrays(every, task.subroutines) | _columns("runs", part.registered)
    arrays["epochs"] = np.array(epochs)
    table = part.registered
    for epoch in epochs:
        at_epoch = tables.rows(table, table["base_epoch"] == epoch)
        rows = np.flatnonzero(numbers["base_epoch"] == epoch)
        seeds = numbers["base_seed"][rows].tolist()
        for i, subroutine in enumerate(task.subroutines):
            for column in ("sub_diff", "abl_diff"):
                values = tables.by_base(
                    tables.rows(at_epoch, at_epoch["target"] == i), column, len(every.valid)
                )[rows]
                metric = f"epoch {epoch}/{subroutine}: {tables.SHOWN[column]}"
                metrics[metric] = (values, seeds)
        for label, key in (("base accuracy", "compositional"), ("held out", "held_out")):
            if key in every.scores:
                metrics[f"epoch {epoch}/{label}"] = (every.scores[key][rows], seeds)
    score = [tables.by_base(table, "abl_diff", len(every.valid))]
    metrics |= _related(-np.concatenate(score), every.scores, "over training")
    return metrics, arrays


def _related(structure, scores: dict, where: str) -> dict:
    """Rank correlation of a structural score [n] (higher: more modular) with accuracies [n]."""
    correlations = {}
    for label, key in (("accuracy", "compositional"), ("held-out accuracy", "held_out")):
        if key in scores and np.isfinite(structure).all() and len(structure) > 1:
            tau = stats.kendall_tau_b(structure, scores[key])
            correlations[f"tau of structure and {label} {where}"] = ([tau], [])
    return correlations


# Structural scores: their words, and the measure whose mean over subroutines they are, negated.
STRUCTURES = {
    "structure": "abl_diff",
    "structure, selected": "abl_diff, selected",
    "structure beyond random removals": "abl_diff beyond random removals",
}
MANY = 12  # bases from which a rank correlation has an interval
FEWEST = 5  # of many bases, those with valid masks that have a rank correlation
PERMUTATIONS = 1000  # of structure over the bases of a part


def over_widths(config, metrics: dict, arrays: dict) -> dict:
    """Rank correlations as in `_related`, over the bases of all parts, which differ in size.

    With MANY bases also for the other STRUCTURES, with bootstrap intervals over bases, with p from
    permutations of structure within parts, among bases that solve the rule, and with held-out
    accuracy within each of several parts, where bases differ in their seed alone.
    """
    labels = {"compositional": "base: test accuracy", "held_out": "base: held-out accuracy"}
    columns, correlations, names = {"part": []}, {}, [name for name, _ in parts(config)]
    where, rng = "over sizes" if len(names) > 1 else "over bases", np.random.default_rng(0)
    for i, name in enumerate(names):
        prefix = f"{name}/" if name else ""
        for words, measure in STRUCTURES.items():
            values = [
                metric[0]
                for key, metric in metrics.items()
                if key.startswith(prefix) and key.endswith(f": {measure}")
            ]
            if values:
                columns.setdefault(words, []).append(-np.mean(values, axis=0))
        for key, label in labels.items():
            if prefix + label in metrics:
                columns.setdefault(key, []).append(np.asarray(metrics[prefix + label][0]))
        columns["part"].append(np.full(len(columns["structure"][-1]), i))
    columns = {name: np.concatenate(values) for name, values in columns.items()}
    is_many = len(columns["part"]) >= MANY
    groups = {where: np.ones(len(columns["part"]), bool)}
    if is_many:
        groups[f"{where} that solve the rule"] = columns["compositional"] >= tables.LEAST
    for where, is_in in groups.items():
        for words in STRUCTURES if is_many else ("structure",):
            if len(columns.get(words, ())) != len(is_in):
                continue
            known = np.isfinite(columns[words]) & is_in
            some = {name: values[known] for name, values in columns.items()}
            if is_many:
                correlations[f"bases with {words}, {where}"] = ([known.sum()], [])
                if known.sum() < FEWEST:
                    continue
            for name, tau in _related(some[words], some, where).items():
                name = name.replace("structure", words, 1)
                correlations[name] = tau
                if is_many and np.isfinite(tau[0][0]):  # NaN: all bases are alike
                    key = "held_out" if "held-out" in name else "compositional"
                    correlations |= _chance(name, rng, some[words], some[key], some["part"])
            if is_many and len(names) > 1 and "held_out" in some:
                taus = [
                    stats.kendall_tau_b(
                        *(some[key][some["part"] == i] for key in (words, "held_out"))
                    )
                    for i in dict.fromkeys(some["part"])
                    if np.sum(some["part"] == i) > 1
                ]
                name = f"tau of {words} and held-out accuracy {where}".replace("over", "within", 1)
                correlations[name] = (taus, [])
    return correlations


def _chance(name: str, rng, structure, accuracy, part) -> dict:
    """The interval of tau, by bootstrap over bases, and its p from permutations within parts."""
    low, high = stats.bootstrap(stats.kendall_tau_b, structure, accuracy, n=500)
    null = [
        stats.kendall_tau_b(shuffled(rng, structure, part), accuracy) for _ in range(PERMUTATIONS)
    ]
    p = stats.null_p(stats.kendall_tau_b(structure, accuracy), null)
    return {f"{name}, {end}": ([x], []) for end, x in (("2.5 %", low), ("97.5 %", high), ("p", p))}


def shuffled(rng, values, labels):
    """Values [n] in random order within each label [n]; labels ascend."""
    return values[np.lexsort((rng.random(len(values)), labels))]


def disjoint(config, workdir, name: str = "", selection=None) -> tuple[dict, dict]:
    """Disjoint masks learned together, compared with masks learned one by one."""
    part = stages.run(config, workdir, name, selection)
    metrics, arrays = results_of(config, part)
    table = joint.run(config, part, pathlib.Path(workdir), name)
    metrics |= tables.metrics(table, part.bases, part.task.subroutines, ", disjoint")
    return metrics, arrays | _columns("disjoint", table)


def trained_or_random(config, metrics: dict, arrays: dict) -> dict:
    """Tests each part's masks against those of `<part>_random_weights`, or of `random_weights`."""
    p_values = {}
    for name, settings in parts(config):
        table = _table(arrays, name)
        control = _table(arrays, f"{name}_random_weights") or _table(arrays, "random_weights")
        if not control or not table or not stages.is_trained(settings):
            continue
        for i, subroutine in enumerate(arrays[f"{name}/subroutines"]):
            both = (tables.rows(one, one["target"] == i) for one in (table, control))
            for label, p in tables.against(*both).items():
                p_values[f"{name}/{subroutine}: {label}"] = ([p], [])
    return p_values


def _table(arrays, part: str) -> dict:
    """The columns of a part's pre-registered runs; {} if it has none."""
    start = f"{part}/runs/"
    return {
        name.removeprefix(start): values
        for name, values in arrays.items()
        if name.startswith(start)
    }


def kernels(config, workdir, name: str = "", selection=None) -> tuple[dict, dict]:
    """Bases and masks of one rule, and the tangent kernels of the subnetworks."""
    part = stages.run(config, workdir, name, selection)
    metrics, arrays = results_of(config, part)
    more = tangent.of_masks(config, part)
    return metrics | more[0], arrays | more[1]


STUDIES = {
    "rule": rule,
    "resnet": rule,
    "simclr": rule,
    "vit": only_bases,
    "families": families,
    "dynamics": dynamics,
    "sizes": rule,
    "seeds": rule,
    "joint": disjoint,
    "tangent": kernels,
}
AFTERWARDS = {
    **dict.fromkeys(("sizes", "seeds"), over_widths),
    **dict.fromkeys(("rule", "resnet"), trained_or_random),
}
