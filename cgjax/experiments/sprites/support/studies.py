"""Studies of the support theory: the table of verdicts, prediction, design, the relaxed condition.

No study trains. Each renders sprites, audits them with `analysis.support`, compares the result with
recorded numbers, and returns (metrics, arrays, verdicts), verdicts a list of sentences.
"""

import functools
import json
import pathlib

import jax
import numpy as np

from cgjax.analysis import stats
from cgjax.analysis import support as theory
from cgjax.analysis.support.design import design as design_support
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.core.workdir import read_json
from cgjax.experiments.sprites import audits, scenes, sets
from cgjax.experiments.sprites.compositions import COMPOSITIONS

RECORD = pathlib.Path(__file__).parents[3] / "report" / "record" / "sprites"

# column: composition, component, whether only pixels that the sprite covers are tested
COLUMNS = {
    "step_back": ("occlude_step", 1, False),
    "step_front_own": ("occlude_step", 0, True),
    "step_front": ("occlude_step", 0, False),
    "sigmoid_front": ("occlude_sigmoid", 0, False),
    "sigmoid_back": ("occlude_sigmoid", 1, False),
    "alpha_front": ("alpha", 0, False),
}


# --- table: every support against every composition -----------------------------------------------


def table(config):
    """Share of values that pass, by support and composition, and where hard occlusion fails."""
    metrics, arrays, verdicts = {}, {}, []
    for name in config.data.supports:
        data = audits.support_data(config, **sets.SUPPORTS[name])
        for column, (composition, component, only_covered) in COLUMNS.items():
            key = jax.random.fold_in(jax.random.key(config.data.seed), component)
            result, _ = audits.audit(
                data, composition, component, key, only_covered, **audits.sizes(config)
            )
            metrics[f"{name}/{column}"] = result.share
            arrays[f"{name}/{column}/sigma_min"] = result.sigma_min
            arrays[f"{name}/{column}/n_failing"] = result.n_failing
            if column == "step_back":
                metrics[f"{name}/{column} failing pixels"] = result.n_failing.mean()
            if column in ("step_back", "step_front_own"):
                arrays[f"{name}/{column}/where"] = result.where.mean(0)
            if column.startswith("sigmoid"):
                metrics[f"{name}/{column} sigma"] = np.median(result.sigma_min)
            verdicts.append(f"{name}, {column}: {result.verdict}")
            say(verdicts[-1])
    return metrics, arrays, verdicts


def partners(config):
    """The diagonal's verdict on the back sprite as its width and the number of partners grow."""
    metrics, arrays = {}, {}
    for delta in config.data.deltas:
        data = audits.support_data(config, support="diagonal", delta=delta)
        for n in config.data.partner_counts:
            key = jax.random.key(config.data.seed)
            result, _ = audits.audit(
                data, "occlude_step", 1, key, **(audits.sizes(config) | {"n_partners": n})
            )
            name = f"delta {delta:g}, {n} partners"
            metrics[name] = result.share
            metrics[f"{name}: failing pixels"] = result.n_failing.mean()
            arrays[f"{delta:g}/{n}/n_failing"] = result.n_failing
            say(f"{name}: {result.verdict}")
    return metrics, arrays, []


# --- predict: audits against scores after training ------------------------------------------------


def predict(config):
    """Rank correlation between audits of recorded runs' supports and their scores on all of Q."""
    entries = check_record(config)
    rows = {entry["row"]: numbers(config, entry) for entry in entries}
    names = next(iter(rows.values()))
    columns = {name: np.array([row[name] for row in rows.values()]) for name in names}
    metrics, sentences = record_numbers(entries), []
    for outcome in ("r2_all", "r2_id - r2_all"):
        # Recorded runs also differ in length, which alone predicts some of the scores.
        for name in ("values", "pixels", "own pixels", "sigma", "steps"):
            # A larger gap between ID and all is worse, so its sign is flipped.
            y = columns[outcome] * (1 if outcome == "r2_all" else -1)
            tau = stats.kendall_tau_b(columns[name], y)
            low, high = stats.bootstrap(stats.kendall_tau_b, columns[name], y)
            metrics |= {
                f"tau-b({name}, {outcome}){end}": value
                for end, value in (("", tau), (", 2.5 %", low), (", 97.5 %", high))
            }
            sentences.append(
                f"tau-b of {name} with {outcome}: {tau:+.2f}, 95 % [{low:+.2f}, {high:+.2f}], "
                f"{len(rows)} supports"
            )
            say(sentences[-1])
    arrays = {name: column for name, column in columns.items()}
    return metrics, {**arrays, "rows": np.array(list(rows))}, sentences


def record_numbers(entries: list[dict]) -> dict[str, float]:
    """What the result takes from the record: a recorded result is stale if they have changed."""
    steps = [entry["config"]["train"]["steps"] for entry in entries]
    names = ("r2_id", "r2_all")
    scores = np.array([[entry["metrics"][name]["ours"] for name in names] for entry in entries])
    means = {f"{name}, mean": mean for name, mean in zip(names, scores.mean(axis=0))}
    return {"supports": len(entries), "steps, mean": np.mean(steps), **means}


def check_record(config) -> list[dict]:
    """The recorded runs that can be predicted; BadInput if there are fewer than three."""
    folder = pathlib.Path(config.data.record or RECORD)
    try:
        entries = recorded(folder)
    except (KeyError, TypeError) as error:
        raise BadInput(f"'{folder}' holds json that is not a recorded run: no {error}") from None
    if len(entries) < 3:
        raise BadInput(
            f"'{folder}' holds {len(entries)} compositional sprites runs: prediction needs three"
        )
    return entries


def usual_runs(folder: pathlib.Path) -> list[dict]:
    """Recorded runs of the published compositional model on hard images."""
    entries = []
    for path in sorted(folder.glob("*-*.json")):
        entry = read_json(path)
        model, data = entry["config"]["model"], entry["config"]["data"]
        if (
            model["kinds"] == ["compositional"]
            and model["composition"] == "occlude_sigmoid"
            and data["composition"] == "occlude_step"
            and model.get("component") == {"hidden": 256, "channels": 32}
            and model.get("decoder", "upsample") == "upsample"
            and (data["n_slots"], data["n_train"]) == (2, 100_000)
            and not entry["label"]
        ):
            entries.append(entry)
    return entries


def support_of(entry: dict) -> str:
    """The support of a recorded run, as text."""
    return json.dumps(sets.definition(entry["config"]["data"]), sort_keys=True)


def recorded(folder: pathlib.Path) -> list[dict]:
    """One recorded run per support; of several runs on one support the longest counts."""
    best = {}
    for entry in usual_runs(folder):
        support, steps = support_of(entry), entry["config"]["train"]["steps"]
        if support not in best or best[support]["config"]["train"]["steps"] < steps:
            best[support] = entry
    return list(best.values())


def numbers(config, entry: dict) -> dict:
    """The audit's numbers for the support of one recorded run, and the run's scores."""
    data = audits.support_data(config, **sets.definition(entry["config"]["data"]))
    audited = {"values": [], "pixels": [], "own pixels": [], "sigma": []}
    for component in (0, 1):
        key = jax.random.fold_in(jax.random.key(config.data.seed), component)
        hard, points = audits.audit(
            data, "occlude_step", component, key, condition="relaxed", **audits.sizes(config)
        )
        soft, _ = audits.audit(data, "occlude_sigmoid", component, key, **audits.sizes(config))
        audited["values"].append(hard.share)
        audited["pixels"].append(1 - hard.n_failing.mean() / points.covered[0].size)
        failing = audits.own_failing(hard, points).sum() / points.covered.sum()
        audited["own pixels"].append(1 - failing)
        audited["sigma"].append(np.median(soft.sigma_mean))
    r2_all, r2_id = (entry["metrics"][name]["ours"] for name in ("r2_all", "r2_id"))
    say(f"{entry['row']}: values {np.mean(audited['values']):.2f}, r2_all {r2_all:.3f}")
    return {
        **{name: float(np.mean(values)) for name, values in audited.items()},
        "steps": float(entry["config"]["train"]["steps"]),
        "r2_all": r2_all,
        "r2_id - r2_all": r2_id - r2_all,
    }


# --- design: how many planes are needed -----------------------------------------------------------


def design(config):
    """Planes that identify each slot under hard occlusion, for scenes of two and more sprites."""
    metrics, arrays, verdicts = {}, {}, []
    for n_slots in config.data.slot_counts:
        total = 0
        for component in range(n_slots):
            result, planes = design_slot(config, n_slots, component)
            name = f"{n_slots} slots/slot {component}"
            metrics[f"{name} planes"] = len(result.chosen)
            arrays[f"{name}/sigma_min"], arrays[f"{name}/share"] = result.sigma_min, result.share
            arrays[f"{name}/n_failing"] = result.n_failing
            arrays[f"{name}/planes"] = planes[list(result.chosen)]
            total += len(result.chosen)
            verdicts.append(f"{name}: {result.verdict}")
            say(verdicts[-1])
        metrics[f"{n_slots} slots planes"] = total
    return metrics, arrays, verdicts


def design_slot(config, n_slots: int, component: int):
    """Planes for one slot; a candidate fixes the other sprites, at the smallest size."""
    data = audits.support_data(config, support="random", n_slots=n_slots)
    key = jax.random.fold_in(jax.random.key(config.data.seed), 10 * n_slots + component)
    n = config.data.n_candidates
    points = audits.points(data, component, key, config.data.n_values, n)
    raw = np.array(jax.random.uniform(key, (n, n_slots, 5)))
    raw[..., 3] = 0.0
    flat = scenes.render(scenes.scale_latents(raw.reshape(-1, 5)), data.image_size)
    candidates = np.asarray(flat).reshape(n, n_slots, *flat.shape[1:])
    # Nothing is behind the last sprite, so its empty pixels count too.
    where = points.covered if component < n_slots - 1 else None
    result = design_support(
        COMPOSITIONS["occlude_step"],
        points.images,
        component,
        candidates,
        where=where,
        exact=config.data.exact,
        most=config.data.most,
    )
    return result, np.delete(raw, component, axis=1)


# --- relaxed: parts that C ignores need not be identified -----------------------------------------


def saturated(scaled, size: int):
    """True sprites with opacities beyond the clip, -1/2 and 3/2: the image is the same."""
    images = scenes.render(scaled, size, alpha=True)
    return images.at[..., 3].set(2 * images[..., 3] - 0.5)


# case: support, composition, component, whether opacities are saturated
CASES = {
    "step, front, orthogonal": ("orthogonal", "occlude_step", 0, False),
    "step, back, orthogonal": ("orthogonal", "occlude_step", 1, False),
    "step, back, orthogonal*": ("orthogonal_star", "occlude_step", 1, False),
    "step, front, gap": ("orthogonal_gap", "occlude_step", 0, False),
    "alpha, front, random": ("random", "alpha", 0, False),
    "alpha, back, random": ("random", "alpha", 1, False),
    "alpha, front, orthogonal": ("orthogonal", "alpha", 0, False),
    "alpha, back, orthogonal": ("orthogonal", "alpha", 1, False),
    "alpha saturated, front, orthogonal": ("orthogonal", "alpha", 0, True),
    "alpha saturated, back, orthogonal": ("orthogonal", "alpha", 1, True),
    "alpha saturated, back, orthogonal*": ("orthogonal_star", "alpha", 1, True),
}


def relaxed(config):
    """The three conditions side by side, with the pixels at which each fails."""
    size = config.data.image_size
    metrics, arrays, verdicts = {}, {}, []
    for name, (support, composition, component, saturate) in CASES.items():
        data = audits.support_data(config, **sets.SUPPORTS[support])
        draw = functools.partial(saturated, size=size) if saturate else None
        key = jax.random.fold_in(jax.random.key(config.data.seed), component)
        for condition in theory.CONDITIONS:
            result, points = audits.audit(
                data,
                composition,
                component,
                key,
                condition=condition,
                draw=draw,
                **audits.sizes(config),
            )
            metrics[f"{name}: {condition}"] = result.share
            arrays[f"{name}/{condition}/n_failing"] = result.n_failing
            arrays[f"{name}/{condition}/own_failing"] = audits.own_failing(result, points)
            arrays[f"{name}/{condition}/where"] = result.where.mean(0)
            verdicts.append(f"{name}: {result.verdict}")
            say(verdicts[-1])
    return metrics, arrays, verdicts
