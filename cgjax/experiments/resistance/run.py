"""One study of the resistance family: training, analyses, tests of the paper's claims, figures.

Orderings that the paper claims, and those that we found, are tested by the rule of
`published.verdict`. Runs of one seed are pairs: the test is Student's of their differences,
otherwise Welch's. p is two-sided. The claims of one run are a family of comparisons: `p_holm` is
corrected for their number, and decides.
"""

import csv
import itertools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence, landscape
from cgjax.config import over_parts, parts, prefixes
from cgjax.config.declare import leaves
from cgjax.core import checkpoint, hosts, program, rng, train, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.core.workdir import access_to, disk_errors
from cgjax.experiments.resistance import control, models, pairs, plane, scan, training
from cgjax.experiments.resistance import figures as drawing
from cgjax.published import PUBLISHED
from cgjax.published import results as markdown
from cgjax.published import verdict as verdicts
from cgjax.published.claims import BY_ROW
from cgjax.published.results import published_keys, summary

HEADLINES = ("train accuracy", "test accuracy", "gap", "S_2", "interventional information")


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Runs the row's study: (metrics, arrays, extra), and its figures."""
    workdir = pathlib.Path(workdir)
    metrics, arrays = study(config, workdir)
    # `smoke` only tests the code path: its few steps are not compared with the paper.
    is_small = config.size == "smoke"
    prefixes = made_up(config)
    if prefixes and not is_small:
        say("SYNTHETIC DIGITS, not MNIST: the paper's claims about digits are not judged")
    judged = {name: values for name, values in metrics.items() if not name.startswith(prefixes)}
    numbers = {} if is_small else PUBLISHED["resistance"].get(config.row, {})
    published = {name: number for name, number in numbers.items() if name in judged}
    results = {
        name: summary(values, seeds, published.get(name))
        for name, (values, seeds) in metrics.items()
    }
    write_curves(arrays, workdir / "curves.csv")
    if figures:
        draw(config, arrays, workdir / "figures")
    known = () if is_small else BY_ROW["resistance"].get(config.row, ())
    extra = {"claims": judge(known, judged), "headlines": headlines(results)}
    return results, arrays, extra | {"files": ["curves.csv"], "made_up": list(prefixes)}


def write_curves(arrays: dict, path: pathlib.Path) -> None:
    """Writes every score over training as in the figures: mean, deviation, variance over seeds."""
    if not hosts.is_writer() or access_to(path.parent).reads_only:
        return
    with disk_errors(path), open(path, "w", newline="") as handle:
        out = csv.writer(handle)
        out.writerow(("part", "setting", "score", "step", "mean", "sd", "variance", "seeds"))
        for part in arrays["parts"].tolist():
            prefix = f"{part}/scores/" if part else "scores/"
            names = [name for name in arrays if name.startswith(prefix) and name != f"{prefix}step"]
            settings = arrays[f"{part}/settings" if part else "settings"].tolist()
            for name, (i, setting) in itertools.product(names, enumerate(settings)):
                for step, values in zip(arrays[f"{prefix}step"], arrays[name][:, :, i]):
                    values = values[np.isfinite(values)]
                    ddof = int(len(values) > 1)  # of a single seed the deviation is 0
                    statistics = 3 * ("",)
                    if len(values):
                        statistics = values.mean(), values.std(ddof=ddof), values.var(ddof=ddof)
                    score = name.removeprefix(prefix)
                    out.writerow((part, setting, score, f"{step:g}", *statistics, len(values)))


def headlines(results: dict) -> list[str]:
    """First metrics of the closing table: those specific to the row, otherwise the usual scores."""
    usual = [name for name in results if name.split(": ")[-1] in HEADLINES]
    pooled = [name for name in results if " less " in name and not name.endswith(", starts")]
    specific = [
        name for name in results if ": " not in name or "distance" in name or "share of" in name
    ]
    return pooled or specific or usual


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The row's figures, from its saved arrays."""
    drawing.draw(config.row, config.study, arrays, folder)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs: orderings that are claimed, and recomputed numbers."""
    lines = [
        "| row | size | claim | ours | against | claimed | p | p, Holm | verdict |",
        "|---|---|---|---:|---:|---|---:|---:|---|",
    ]
    for entry in record:
        for claim in judged(entry):
            ours, against = (_shown(claim[side], ".3f") for side in ("ours", "against"))
            p, p_holm = (_shown(claim[name], ".2g") for name in ("p", "p_holm"))
            lines.append(
                f"| {entry['row']} | {entry['size']} | {claim['claim']} | {ours} | {against} "
                f"| {claim['direction']} | {p} | {p_holm} | {claim['verdict']} |"
            )
    numbers = markdown.metric_table(list(map(renumbered, record)), reference="recomputed")
    return [("resistance: orderings", "\n".join(lines)), ("resistance: recomputed", numbers)]


def renumbered(entry: dict) -> dict:
    """A recorded run beside the numbers of `published`; it may be recorded beside earlier ones."""
    numbers = PUBLISHED["resistance"].get(entry["row"])
    if numbers is None:
        return entry
    metrics = {
        name: {key: metric[key] for key in ("ours", "sd", "values", "seeds") if key in metric}
        | published_keys(numbers.get(name))
        for name, metric in entry["metrics"].items()
    }
    return entry | {"metrics": metrics}


def judged(entry: dict) -> list[dict]:
    """The claims on a recorded run, by its values: a record may join seeds of many runs."""
    metrics = {
        name: (metric["values"], metric["seeds"]) for name, metric in entry["metrics"].items()
    }
    return judge(BY_ROW["resistance"].get(entry["row"], ()), metrics)


def judge(claims, metrics: dict) -> list[dict]:
    """Claims whose metrics the run has, with our means, p and a verdict.

    metrics: {name: (values, seeds)}.
    """
    judged, compared = [], []
    for claim in claims:
        sides = [claim["left"], claim["right"]]
        if any(isinstance(side, str) and side not in metrics for side in sides):
            continue
        left, right = (
            np.array([np.nan if value is None else value for value in metrics[side][0]], float)
            if isinstance(side, str)
            else float(side)
            for side in sides
        )
        some = bool(claim["only"])
        ordered = (left, right) if claim["direction"] == "above" else (right, left)
        options = {"paired": not some, "some": some, "comparisons": len(claims)}
        compared.append(verdicts.above(*ordered, **options))
        judged.append(
            {
                **{key: claim[key] for key in ("claim", "sentence", "where", "left", "direction")},
                "right": sides[1] if isinstance(sides[1], str) else f"{sides[1]:g}",
                "ours": _mean(left),
                "against": _mean(right),
                "p": compared[-1].p,
                "n": int(np.isfinite(left).sum()),
            }
        )
    return [
        claim | {"p_holm": verdict.p, "verdict": verdict.word}
        for claim, verdict in zip(judged, verdicts.corrected(compared))
    ]


def _mean(values) -> float | None:
    values = np.atleast_1d(values)
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None


def _shown(value, form: str) -> str:
    """The formatted value, or a dash if there is none, for example no guess of a low loss."""
    return "-" if value is None else format(value, form)


# --- studies --------------------------------------------------------------------------------------
# A study trains and scores a row's parts one after another, then compares them.
#
# Metrics are named "<part>/<setting>: <score>" and have one value per seed, after training. "early
# <score>" is the mean over evaluations up to `eval.early`, "late <score>" over the others, "mean
# <score>" over all. Evaluations have equal weights, however many steps are between them: of
# SCAN's 60 evaluations at steps 1 to 300, which count as early, 50 are in the first 50 steps.


TASKS = {"mnist": pairs, "digits": pairs, "plane": plane, "scan": scan}
MOST_SHOWN = 8  # seeds whose panels are saved
# Starts of the names of scores whose mean, early and late means are metrics, too.
MEANS = ("one step", "heads")
# Scores whose early mean is a metric; the untrained network does not count.
EARLY = ("train accuracy", "accuracy on the bare word", "accuracy on the rest")


def task_of(config, part: str):
    """The module that trains a part: that of the study, or of the first word of the part's name."""
    if config.study in TASKS:
        return TASKS[config.study]
    return TASKS[part.split("_")[0]] if config.study == "both" else plane


def tasks(config) -> list[tuple]:
    """(name, config, task) of every part."""
    return [(name, part_config, task_of(config, name)) for name, part_config in parts(config)]


def made_up(config) -> tuple[str, ...]:
    """Prefixes of the metrics of synthetic digits."""
    return prefixes(
        config,
        lambda name, part: task_of(config, name) is pairs and part.data.digits == "synthetic",
    )


def check(config) -> None:
    """Checks every part separately."""
    for name, part_config, task in tasks(config):
        try:
            task.check(part_config)
        except BadInput as error:
            raise BadInput(f"part '{name}': {error}" if name else str(error)) from None
        problem = _problem(config.study, part_config)
        if problem:
            raise BadInput(f"part '{name}': {problem}" if name else problem)
    if config.study == "crossing":
        control.check(config)


# Keys with one value in a study that compares runs by seed alone.
RUNS = ("model.scales", "optim.lrs", "reg.penalties")
SINGLE = {
    "crossing": ("data.settings", "reg.penalties"),
    "landscape": RUNS,
    "first_step": ("data.settings", *RUNS),
    "tangent": ("reg.penalties",),
}


def _problem(name: str, config) -> str:
    """What the study of this name cannot compare in a part, or an empty text."""
    flat = dict(leaves(config))
    for key in SINGLE.get(name, ()):
        if len(flat[key]) > 1:
            return f"the row compares runs at one value of {key}, got {flat[key]}"
    if name == "landscape":
        if set(config.data.settings) != {"A", "control"}:
            return f"the row compares A and control, got data.settings={config.data.settings}"
        if config.model.towers:
            return "hidden units are matched in one net: set model.towers=False"
        if not {0, config.train.epochs} <= set(config.eval.keep):
            return (
                f"the path has both ends of training: set 0 and {config.train.epochs} in eval.keep"
            )
    if name == "tangent" and config.model.heads > 1:
        return "the linearised network has one head: set model.heads=1"
    return ""


def plan(config) -> dict:
    """Size of each part's training; no data are read or drawn."""
    return {
        name: program.training_size(task.experiment(part_config, {}), task.in_steps(part_config))
        for name, part_config, task in tasks(config)
    }


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks "<part>/<setting>", one per seed."""
    choices = {
        "/".join(filter(None, (name, variant.name))): (name, part_config, task, variant.name)
        for name, part_config, task in tasks(config)
        for variant in task.settings(part_config)
    }
    name, part_config, task, setting = choices[checkpoint.choose(part, choices, workdir)]
    return task.load(part_config, pathlib.Path(workdir) / name, setting, step)


def study(config, workdir) -> tuple[dict, dict]:
    """Trains every part of the row: metrics {name: (values, seeds)}, and arrays for figures."""
    trained_parts = {}

    def train_part(name, part_config):
        task, folder = task_of(config, name), pathlib.Path(workdir) / name
        trained = task.run(part_config, folder, name)
        trained_parts[name] = (part_config, trained, folder)
        metrics, arrays = analyse(part_config, task, trained, folder)
        # The networks of interest are those in the bands of loss, not those after training.
        return ({} if config.study == "crossing" else metrics), arrays

    metrics, arrays = over_parts(config, train_part)
    afterwards = (AFTERWARDS | {"crossing": control.compare}).get(config.study)
    if afterwards:
        more = afterwards(config, trained_parts)
        metrics, arrays = metrics | more[0], arrays | more[1]
    return metrics, arrays


def analyse(config, task, trained: training.Trained, folder) -> tuple[dict, dict]:
    """Metrics {name: (values, seeds)} of one part, and arrays for figures."""
    metrics, steps = {}, trained.scores["step"]
    numbers = {name: values[-1] for name, values in trained.scores.items() if name != "step"}
    is_early = steps <= config.eval.early
    after_start = is_early & (steps > 0)
    after_start = after_start if after_start.any() else steps == steps[-1]
    for name, values in trained.scores.items():
        if name.startswith(MEANS):
            numbers[f"mean {name}"] = values.mean(axis=0)
            numbers[f"early {name}"] = values[is_early].mean(axis=0)
            if not is_early.all():
                numbers[f"late {name}"] = values[~is_early].mean(axis=0)
        if name in EARLY:
            numbers[f"early {name}"] = values[after_start].mean(axis=0)
    if task is scan:
        numbers |= scan.whole(config, trained)
    if task is pairs and config.eval.n_information:
        numbers |= information(config, trained)
    for name, values in numbers.items():
        for i, setting in enumerate(trained.settings):
            prefix = f"{setting.name}: " if setting.name else ""
            metrics[prefix + name] = (values[:, i], list(trained.seeds))
    arrays = {f"scores/{name}": values for name, values in trained.scores.items()}
    arrays |= {f"losses/{name}": values for name, values in trained.losses.items()}
    arrays["settings"] = np.array([setting.name for setting in trained.settings])
    for name in trained.settings[0].numbers:
        arrays[f"setting/{name}"] = np.array(
            [setting.numbers[name] for setting in trained.settings]
        )
    if task is plane:
        arrays |= panels(config, trained, folder)
    for i, setting in enumerate(trained.settings):
        mean = {k: numbers[k][:, i].mean() for k in ("train accuracy", "test accuracy")}
        share = f", S_2 {numbers['S_2'][:, i].mean():.3f}" if "S_2" in numbers else ""
        say(
            f"{setting.name or 'all'}: train {mean['train accuracy']:.3f}, "
            f"test {mean['test accuracy']:.3f}{share}"
        )
    return metrics, arrays


def panels(config, trained, folder) -> dict:
    """P(Y_1 = 1) on a grid at the steps of `eval.keep`, and training points [seeds, settings]."""
    n_shown = min(MOST_SHOWN, len(trained.seeds))

    def training_set(seed, control):
        return plane.draw_sets(config, plane.set_of(config, seed), control)["train"]

    draw = jax.vmap(training_set, (None, 0))
    seeds = np.asarray(trained.seeds[:n_shown])
    controls = jnp.array([setting.numbers["control"] for setting in trained.settings])
    draw = program.jitted(jax.vmap(draw, (0, None)), config)
    points = draw(jnp.asarray(seeds.astype(np.uint32)), controls)
    arrays = {"points/x": np.asarray(points.x), "points/y": np.asarray(points.y)}
    arrays["points/seed"] = seeds
    if not config.eval.keep:
        return arrays
    steps, probabilities = plane.kept(config, trained, folder, "shown")
    arrays["panels"], arrays["panel_steps"] = (
        probabilities[:, :n_shown].astype(np.float32),
        np.array(steps),
    )
    return arrays


def information(config, trained) -> dict:
    """Information about Y_2 on `eval.n_information` samples after training, with permutation tests.

    Returns {name: [seeds, settings]} of the conditional and the interventional information; p tests
    against no information.
    """
    data = jax.tree.map(jnp.asarray, pairs.digits(config))
    c = pairs.C

    def test_network(params, replica, data):
        drawn = pairs.sets(config, data, replica, config.eval.n_information)
        train_pairs, do_pairs = drawn["train"], drawn["do"]
        yhat = pairs.answers(config, params, data, {"train": train_pairs, "do": do_pairs})
        keys = jax.random.split(rng.stream(jax.random.key(replica["seed"]), "eval"))
        tested = {
            "conditional information": dependence.permutation_test(
                keys[0], train_pairs.y2, yhat["train"], train_pairs.y1, sizes=(c, c, c)
            ),
            "interventional information": dependence.permutation_test(
                keys[1], do_pairs.y2, yhat["do"], sizes=(c, c)
            ),
        }
        scores = {}
        for name, value in tested.items():
            scores |= {name: value.value, f"{name}, p": value.p, f"{name}, null": value.high}
        return scores

    test_network = program.jitted(test_network, config)
    rows = []
    for s, seed in enumerate(trained.seeds):
        for i, setting in enumerate(trained.settings):
            params = tree.take(trained.params, (s, i))
            rows.append(test_network(params, {"seed": np.uint32(seed), **setting.numbers}, data))
    shape = len(trained.seeds), len(trained.settings)
    return {name: np.array([row[name] for row in rows], float).reshape(shape) for name in rows[0]}


# --- analyses -------------------------------------------------------------------------------------
# They compare a row's networks on the plane: those of one part, or of all parts together.
#
# Each analysis maps (config, trained_parts) to metrics {name: (values, seeds)} and arrays;
# trained_parts is {part: (its config, trained, folder)}.


CURVES = ("train accuracy", "test accuracy", "S_2")
SOON = 16  # steps; after these, rounding differences can grow


def start(config):
    """Parameters before training, leaves [seeds, settings, ...]."""
    params = train.initial(plane.experiment(config), plane.in_steps(config)).params
    n = len(plane.settings(config))
    return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, n, *leaf.shape[1:]), params)


def points_of(config, control: bool):
    """All points of every seed, leaves [seeds, ...]."""
    seeds = jnp.asarray(np.asarray(config.train.seeds, np.uint32))
    return jax.jit(jax.vmap(lambda seed: plane.draw_sets(config, seed, control)))(seeds)


def _only(trained_parts) -> tuple:
    (only,) = trained_parts.values()
    return only


# --- gradients by other methods -------------------------------------------------------------------


def gradients(config, trained_parts):
    """Largest difference of each curve from reverse mode, over the first and over all steps."""
    numbers, arrays = {}, {}
    reverse = trained_parts["reverse"][1]
    seeds = list(reverse.seeds)
    soon = reverse.scores["step"] <= SOON
    for name, (_, trained, _) in trained_parts.items():
        if name == "reverse":
            continue
        for curve in CURVES:
            difference = np.abs(trained.scores[curve] - reverse.scores[curve]).max(axis=2)
            arrays[f"apart/{name}/{curve}"] = difference
            metric = f"{name}: largest difference of {curve}"
            numbers[f"{metric}, {SOON} steps"] = (difference[soon].max(axis=0), seeds)
            numbers[metric] = (difference.max(axis=0), seeds)
    return numbers, arrays


# --- figure 1 -------------------------------------------------------------------------------------


def layers(params) -> list:
    """(kernel, bias) of a dense network's layers, in order."""
    net = params["net"]
    names = [f"dense_{i}" for i in range(len(net))]
    return [(net[name]["kernel"], net[name]["bias"]) for name in names]


def from_layers(kernels_and_biases: list) -> dict:
    """Inverse of `layers`."""
    return {
        "net": {
            f"dense_{i}": {
                "kernel": jnp.asarray(k, jnp.float32),
                "bias": jnp.asarray(b, jnp.float32),
            }
            for i, (k, b) in enumerate(kernels_and_biases)
        }
    }


def distances(config, trained_parts):
    """Distances between the start, both paths and both solutions (A and control), and barriers.

    A barrier is the rise of A's loss on the line between both solutions, before and after hidden
    units are matched.
    """
    part_config, trained, folder = _only(trained_parts)
    names = [setting.name for setting in trained.settings]
    a, b = names.index("A"), names.index("control")
    initial, points, seeds = start(part_config), points_of(part_config, False), list(trained.seeds)
    steps, path = plane.kept(part_config, trained, folder, "params")  # [times, seeds, settings, P]
    final = path[-1]
    away = np.linalg.norm(path[:, :, a] - final[None, :, b], axis=-1)
    back = np.linalg.norm(path[:, :, b] - final[None, :, a], axis=-1)

    @jax.jit
    def line(from_params, to_params, points):
        def loss(params):
            return plane.whole_loss(part_config, params, points)

        return landscape.barrier(loss, from_params, to_params, part_config.eval.n_line)

    rows = {"before": [], "after": [], "apart": [], "matched": [], "A": [], "control": []}
    curves = {"before": [], "after": []}
    for s in range(len(seeds)):
        solutions = {i: tree.take(trained.params, (s, i)) for i in (a, b)}
        zero = tree.take(initial, (s, a))
        matched = from_layers(landscape.matched(layers(solutions[a]), layers(solutions[b])))
        train_points = tree.take(points["train"], s)
        for case, other in (("before", solutions[b]), ("after", matched)):
            between = line(solutions[a], other, train_points)
            rows[case].append(between.height)
            curves[case].append(between.losses)
        rows["apart"].append(landscape.distance(solutions[a], solutions[b]))
        rows["matched"].append(landscape.distance(solutions[a], matched))
        rows["A"].append(landscape.distance(zero, solutions[a]))
        rows["control"].append(landscape.distance(zero, solutions[b]))
    metric_names = {
        "A": "distance from start to A",
        "control": "distance from start to control",
        "apart": "distance between A and control",
        "matched": "distance when matched",
        "before": "barrier",
        "after": "barrier when matched",
    }
    numbers = {metric_names[key]: (np.array(values, float), seeds) for key, values in rows.items()}
    numbers["A's start nearer to control's end by"] = (away[0] - away[-1], seeds)
    arrays = {"path/step": np.array(steps), "path/A to control": away, "path/control to A": back}
    arrays |= {f"line/{case}": np.array(values, float) for case, values in curves.items()}
    return numbers, arrays


# --- the first step -------------------------------------------------------------------------------


def first_step(config, trained_parts):
    """Change of the boundary's angle in the first step if only one cell's gradient is used.

    Each update of the step uses all points at once; points of other cells have weight 0.
    """
    part_config, trained, _ = _only(trained_parts)
    initial, points, seeds = start(part_config), points_of(part_config, False), list(trained.seeds)
    n, rate = plane.per_step(part_config), part_config.optim.lrs[0]

    def moved(params, points, weights):
        def loss(params):
            losses = plane.head_losses(part_config, params, points["train"], weights)
            return jnp.sum(losses) * jnp.mean(weights)

        def angle(params):
            return plane.boundary_angle(plane.slopes(part_config, params, points["fresh"].x))

        def update(params, _):
            step = jax.grad(loss)(params)
            return jax.tree.map(lambda p, g: p - rate * g, params, step), None

        after, _ = jax.lax.scan(update, params, length=n)
        turn = angle(after) - angle(params)
        return jnp.mod(turn + 180, 360) - 180, angle(params), angle(after)

    program = jax.jit(jax.vmap(moved))
    params = jax.tree.map(lambda leaf: leaf[:, 0], initial)
    numbers, arrays = {}, {}
    for cell in (None, *plane.TRAIN_CELLS):
        weights = jnp.ones(points["train"].x.shape[:2])
        if cell is not None:
            weights = jax.vmap(lambda drawn, cell=cell: plane.in_cell(drawn, cell))(points["train"])
        turn, before, after = map(np.asarray, program(params, points, weights.astype(jnp.float32)))
        cell_name = "all cells" if cell is None else f"cell {cell}"
        numbers[f"{cell_name}: turn of the boundary"] = (turn, seeds)
        numbers[f"{cell_name}: angle after the first step"] = (after, seeds)
        numbers[f"{cell_name}: tilt after the first step"] = (plane.tilt(after), seeds)
        numbers[f"{cell_name}: change of tilt"] = (plane.tilt(after) - plane.tilt(before), seeds)
        arrays |= {f"turn/{cell_name}": turn, f"tilt/{cell_name}": plane.tilt(after)}
    arrays |= {"angle/start": before, "tilt/at the start": plane.tilt(before)}
    return numbers, arrays


# --- tangent kernels ------------------------------------------------------------------------------


def tangent(config, trained_parts):
    """S_2 after the first updates, measured and predicted by the linearised network.

    The shares of X_1 and X_2 in the initial tangent kernel, and in the first update on the training
    data, are metrics too.
    """
    part_config, trained, _ = _only(trained_parts)
    initial, seeds = start(part_config), list(trained.seeds)
    steps = trained.scores["step"] * plane.per_step(part_config)
    f, numbers, arrays = (
        plane.predictor(part_config),
        {},
        {"tangent/step": trained.scores["step"]},
    )

    @jax.jit
    def predicted(params, points, rate):
        update = jax.grad(lambda p: -plane.whole_loss(part_config, p, points["train"]))(params)
        x = points["fresh"].x[: part_config.eval.n_jacobian]
        early = dependence.early_dependence(
            f, params, update, x, plane.INPUTS, rate * steps, chunk=len(x)
        )
        return dependence.shares(early)[:, 0, 1]

    @jax.jit
    def residuals(params, points):
        def loss(logits):
            return jnp.mean(models.LOSSES[part_config.optim.loss](logits, points.y[:, 0]))

        return -jax.grad(loss)(f(params, points.x))

    for i, setting in enumerate(trained.settings):
        points = points_of(part_config, setting.numbers["control"])
        predictions, splits = [], []
        for s in range(len(seeds)):
            params = tree.take(initial, (s, i))
            points_of_seed = tree.take(points, s)
            rate = setting.numbers["lr"]
            predictions.append(np.asarray(predicted(params, points_of_seed, rate)))
            split_points = tree.take(points_of_seed["train"], slice(part_config.eval.n_split))
            kernel_split = dependence.tangent_split(f, params, split_points.x, plane.INPUTS)
            update_split = dependence.tangent_split(
                f, params, split_points.x, plane.INPUTS, residuals(params, split_points)
            )
            splits.append((*kernel_split, *update_split))
        predictions, splits = np.array(predictions), np.array(splits)  # [seeds, times], [seeds, 6]
        measured = trained.scores["S_2"][:, :, i].T
        prefix = f"{setting.name}: "
        names = [
            f"{of}: share of {part}"
            for of in ("kernel", "first update")
            for part in ("X_1", "X_2", "both")
        ]
        for name, values in zip(names, splits.T):
            numbers[prefix + name] = (values, seeds)
        change, expected = measured[:, -1] - measured[:, 0], predictions[:, -1] - predictions[:, 0]
        numbers[prefix + "change of S_2, measured"] = (change, seeds)
        numbers[prefix + "change of S_2, predicted"] = (expected, seeds)
        if len(seeds) > 2:
            correlation = np.corrcoef(change, expected)[0, 1]
            numbers[prefix + "correlation of both over seeds"] = ([correlation], [0])
        arrays |= {
            f"tangent/{setting.name}/predicted": predictions,
            f"tangent/{setting.name}/measured": measured,
        }
    return numbers, arrays


AFTERWARDS = {
    "gradients": gradients, "landscape": distances, "first_step": first_step, "tangent": tangent,
}  # fmt: skip
