"""Tables and pictures of the README, from the record.

record: the recorded runs; studies: recorded studies of several runs, of which this family has none.
"""

import collections
import itertools
import pathlib

import numpy as np

from cgjax import plots
from cgjax.experiments.kernels.images.figures import PAPER, draw_estimates
from cgjax.published import PUBLISHED, verdict
from cgjax.published.claims import CLAIMS

ADDITION = ("extrapolation", "asymmetric", "interpolation", "both")
REGIMES = {"1": "lazy", "1e-06": "rich"}  # initial scale -> name
NEW = {"cd_1": "CD-1", "cd_2": "CD-2", "cd_3": "CD-3", "te_5_5_hubs_4": "transitive equivalence"}
THEORY = ("leak", "partial", "phase", "magnitudes", "salience")  # rows without networks
DISTANCES = (0, 20)  # of the recorded runs on MNIST
# The figure's bars of `cd_deep` over our values after training, if the figure averages over six
# networks before training, with values near 0, and over six, or five, after it.
HALVED = (6 / 12, 5 / 11)
# Labels of runs of `cd_deep` with other settings.
OTHER_SETTINGS = {
    "cross_entropy": "with the cross-entropy of the logits f and -f",
    "loss_0.01": "stopped at a loss of 0.01",
}
IMAGES = tuple(
    f"{task}_{data}"
    for task in ("addition", "cd")
    for data in ("mnist", "cifar_resnet", "cifar_vit")
)


def metrics_of(record: list[dict], row: str) -> dict:
    """The recorded metrics of a row, each from the run with most seeds; no other settings."""
    metrics = {}
    for entry in record:
        if entry["row"] != row or entry["label"] in OTHER_SETTINGS:
            continue
        for name, metric in entry["metrics"].items():
            if name not in metrics or len(metric["values"]) > len(metrics[name]["values"]):
                metrics[name] = metric
    return metrics


def differences(record: list[dict], rows: tuple, ending: str) -> dict[str, float]:
    """Ours less the paper's of the metrics that contain `ending`: {"row, metric": difference}."""
    return {
        f"{row}, {name}": metric["ours"] - metric["paper"]
        for row in rows
        for name, metric in metrics_of(record, row).items()
        if ending in name and metric["paper"] is not None
    }


def dense_table(record: list[dict], studies: dict) -> list:
    """Slopes of dense networks on new pairs: ours, predicted before training, the paper's."""
    metrics = metrics_of(record, "demo")
    rows = [("training set", "lazy: slope ± sd", "predicted", "paper", "rich: slope ± sd", "paper")]
    for name in ADDITION:
        lazy, rich = (metrics[f"addition/{name}, sigma {scale}: slope"] for scale in REGIMES)
        predicted = metrics[f"addition/{name}, sigma 1: predicted slope before"]["ours"]
        ours = [f"{metric['ours']:.3f} ± {metric['sd']:.3f}" for metric in (lazy, rich)]
        papers = [f"{metric['paper']:.3f}" for metric in (lazy, rich)]
        rows.append((name, ours[0], f"{predicted:.3f}", papers[0], ours[1], papers[1]))
    return rows


def _lazy(record: list[dict], prediction: str) -> list:
    """[training set, (predicted, measured), seed]: slopes of lazy networks on addition."""
    metrics, keys = metrics_of(record, "demo"), (prediction, "slope")
    cells = (f"addition/{name}, sigma 1" for name in ADDITION)
    return [[np.array(metrics[f"{cell}: {key}"]["values"]) for key in keys] for cell in cells]


def closed_form_error(record: list[dict], studies: dict) -> str:
    """The largest error of the closed form, of the mean slope of lazy networks."""
    pairs = _lazy(record, "predicted slope before")
    return f"{max(abs(predicted.mean() - slope.mean()) for predicted, slope in pairs):.3f}"


def prediction_sentence(record: list[dict], studies: dict) -> str:
    """How well each lazy network's slope is predicted, over seeds."""
    pairs = _lazy(record, "predicted slope, kernel")
    r = [np.corrcoef(*pair)[0, 1] for pair in pairs]
    gaps = [np.mean(predicted - slope) for predicted, slope in pairs]
    return (
        f"prediction and slope correlate by {min(r):.3f} to {max(r):.3f} over seeds, and the slope "
        f"is {min(gaps):.3f} to {max(gaps):.3f} lower in the mean"
    )


def depth_table(record: list[dict], studies: dict) -> list:
    """Steps until all networks of a depth are right on all pairs; the paper's in brackets."""
    metrics = metrics_of(record, "te_deep")
    rows = [("hidden layers", "1", "2", "3", "4")]
    for part, what in (("train", "all trained pairs right"), ("test", "all new pairs right")):
        cells = [metrics[f"depth_{d}/te_2_2: first all right, {part}"] for d in (1, 2, 3, 4)]
        spreads = ["" if cell["sd"] is None else f" ± {cell['sd']:.0f}" for cell in cells]
        texts = (f"{c['ours']:.0f}{sd} ({c['paper']:.0f})" for c, sd in zip(cells, spreads))
        rows.append((f"{what}, step", *texts))
    return rows


def groups(record: list[dict], studies: dict) -> str:
    """How many groups of six deep networks there are, by depth."""
    metrics = metrics_of(record, "te_deep")
    counts = [
        len(metrics[f"depth_{d}/te_2_2: first all right, test"]["values"]) for d in (1, 2, 3, 4)
    ]
    return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]} groups of depths 1 to 4"


def images_table(record: list[dict], studies: dict) -> list:
    """Slopes and accuracies of image networks on new combinations: ours, seeds, the paper's."""
    rows = [("task", "score", "ConvNet, digits at distance 0", "distance 20", "ResNet", "ViT")]
    columns = (("mnist", 0), ("mnist", 20), ("cifar_resnet", 0), ("cifar_vit", 0))
    cases = [("addition", name, "slope", f"addition, {name}") for name in ADDITION]
    cases += [(name[:2], name, "comp accuracy", title) for name, title in NEW.items()]
    for kind, name, score, title in cases:
        cells = []
        for data, d in columns:
            metric = metrics_of(record, f"{kind}_{data}").get(f"{name}, d={d}: {score}")
            cells.append("")
            if metric:
                seeds = len(metric["values"])
                cells[-1] = f"{metric['ours']:.3f}, {seeds} seeds ({metric['paper']:.3f})"
        rows.append((title, score.removeprefix("comp "), *cells))
    return rows


def additivity_sentence(record: list[dict], studies: dict) -> str:
    """How far the mean additivity of image networks is from the paper's."""
    gaps = differences(record, IMAGES, "mean additivity")
    far = {name: gap for name, gap in gaps.items() if abs(gap) > 0.010}
    near = max(abs(gap) for name, gap in gaps.items() if name not in far)
    texts = []
    for name in far:
        row, _, metric = name.partition(", ")
        entry = metrics_of(record, row)[metric]
        cell = metric.split(":")[0]
        texts.append(f"`{row}`, {cell}: {entry['ours']:.3f}, paper {entry['paper']:.3f}")
    return (
        f"within {near:.3f} of the paper's in {len(gaps) - len(far)} of {len(gaps)} recorded cells "
        f"(else: {'; '.join(texts)})"
    )


def additivity_of_contexts(record: list[dict], studies: dict) -> str:
    """Ours less the paper's mean additivity of ConvNets on CD-1 and CD-2: least and most."""
    gaps = differences(record, ("cd_mnist",), "mean additivity")
    gaps = [gap for name, gap in gaps.items() if not name.startswith("cd_mnist, cd_3")]
    return f"{min(gaps):.3f} to {max(gaps):.3f} in all {len(gaps)} recorded cells"


def least_additivity(record: list[dict], studies: dict) -> str:
    """The least additivity on new combinations alone, over addition and context dependence."""
    cells = {
        f"`{row}`, {name.split(':')[0]}": metric["ours"]
        for row in IMAGES
        for name, metric in metrics_of(record, row).items()
        if name.endswith(": additivity")
    }
    (first, least), (second, next_least) = sorted(cells.items(), key=lambda cell: cell[1])[:2]
    return f"{least:.2f} ({first}); the next is {next_least:.2f} ({second})"


def shares_sentence(record: list[dict], studies: dict) -> str:
    """The largest difference of the ConvNets' shares from the paper's."""
    gaps = differences(record, ("cd_mnist",), "magnitude")
    return f"{max(map(abs, gaps.values())):.3f} in {len(gaps)} shares"


def figure_3e(record: list[dict], studies: dict) -> str:
    """The largest difference of the account of labels from the paper's bars."""
    return f"{max(map(abs, differences(record, ('magnitudes',), ': ').values())):.4f}"


def formulas_in_words(record: list[dict], studies: dict) -> str:
    """How many claims in words are about rows in which nothing is trained."""
    claims = [c for c in CLAIMS.values() if (c.family, c.kind) == ("kernels", "sentence")]
    return f"{sum(c.row in THEORY for c in claims)} of the {len(claims)}"


def _cd_margins(record: list[dict]) -> np.ndarray:
    """[loss, (measured, predicted), seed] of lazy networks on CD-3."""
    metrics, keys = metrics_of(record, "cd_rich"), ("relative margin", "predicted margin")
    cells = [f"{loss}/cd_3, sigma 1" for loss in ("mse", "logistic")]
    return np.array([[metrics[f"{cell}: {key}"]["values"] for key in keys] for cell in cells])


def cd_means(record: list[dict], studies: dict) -> str:
    """Differences of mean margins from the closed form, one for each loss."""
    measured, predicted = _cd_margins(record).mean(axis=2).T
    return " and ".join(f"{abs(gap):.2f}" for gap in measured - predicted)


def cd_worst(record: list[dict], studies: dict) -> str:
    """The largest difference of one seed."""
    measured, predicted = np.moveaxis(_cd_margins(record), 1, 0)
    return f"{np.abs(measured - predicted).max():.2f}"


def cd_by_seed(record: list[dict], studies: dict) -> str:
    """Margins of lazy networks on CD-3 and their predictions, seed by seed."""
    texts = []
    for loss, margins in zip(("mse", "logistic"), _cd_margins(record)):
        measured, predicted = (", ".join(f"{v:.2f}" for v in row) for row in margins)
        texts.append(f"{loss} {measured}, predicted {predicted}")
    return "; ".join(texts)


# --- pictures -------------------------------------------------------------------------------------


@plots.styled
def draw_slopes(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Slopes of dense networks and of ConvNets, with the closed form and the paper's."""
    fig = plots.new_figure(plots.PAGE, 3.5, layout="constrained")
    left, right = fig.subplots(1, 2, width_ratios=(1.3, 1))
    metrics = metrics_of(record, "demo")
    for (i, scale), (k, name) in itertools.product(enumerate(REGIMES), enumerate(ADDITION)):
        metric = metrics[f"addition/{name}, sigma {scale}: slope"]
        place, label = k + 0.35 * i - 0.2, f"{REGIMES[scale]}, every seed" if k == 0 else None
        plots.seeds(left, place, metric["values"], plots.COLOURS[i], label, metric["paper"], 3)
    for k, name in enumerate(ADDITION):
        predicted = metrics[f"addition/{name}, sigma 1: predicted slope before"]["ours"]
        label = "closed form, initial features" if k == 0 else None
        left.plot((k - 0.35, k + 0.35), (predicted, predicted), color=plots.INK, lw=1, label=label)
    left.set_xticks(range(len(ADDITION)), ADDITION)
    left.set(ylabel="slope of new pairs", ylim=(0, 1.05), title="dense networks")
    left.plot([], [], **PAPER, color=plots.INK, label="the paper")
    left.legend(fontsize=8, loc="lower left")
    published, distances = PUBLISHED["kernels"]["addition_mnist"], (0, 5, 10, 15, 20)
    metrics = metrics_of(record, "addition_mnist")
    for k, (colour, name) in enumerate(zip(plots.COLOURS, ADDITION)):
        theirs = [published[f"{name}, d={d}: slope"]["mean"] for d in distances]
        right.plot(distances, theirs, **PAPER | {"lw": 0.7}, mec=colour, color=colour)
        for d in distances:
            if metric := metrics.get(f"{name}, d={d}: slope"):
                label = name if d == 0 else None
                plots.seeds(right, d + 0.7 + 0.4 * k, metric["values"], colour, label)
    right.set(ylim=(0, 1.05), xlabel="pixels between digits", title="ConvNets on MNIST")
    right.set_xticks(distances)
    right.plot([], [], **PAPER | {"lw": 0.7}, color=plots.INK, label="the paper")
    right.legend(fontsize=8, loc="lower right")
    for ax in (left, right):
        ax.grid(axis="y", **plots.GRID)
    plots.headline(fig, "New sums shrink; most rich networks leave the closed form")
    return plots.save(fig, path)


@plots.styled
def draw_new(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Accuracy and additivity of ConvNets on new combinations."""
    fig = plots.new_figure(plots.PAGE, 3.4, layout="constrained")
    axes = fig.subplots(1, 2)
    for ax, score in zip(axes, ("comp accuracy", "additivity")):
        for (i, d), (k, name) in itertools.product(enumerate(DISTANCES), enumerate(NEW)):
            key = f"{name}, d={d}: {score}"
            row = f"{name[:2]}_mnist"
            metric, published = metrics_of(record, row).get(key), PUBLISHED["kernels"][row].get(key)
            label = f"{d} pixels apart" if k == 0 else None
            values, paper = (metric or {}).get("values", ()), (published or {}).get("mean")
            plots.seeds(ax, k + 0.3 * i - 0.15, values, plots.COLOURS[i], label, paper)
        ax.set_xticks(range(len(NEW)), [task.replace(" ", "\n") for task in NEW.values()])
        ax.set_ylim(-0.03, 1.05)
        ax.grid(axis="y", **plots.GRID)
    axes[0].axhline(0.5, color=plots.FAINT, ls=":")
    axes[0].set(title="accuracy (dotted: chance; hollow: the paper)")
    axes[1].set(title="$R^2$ of the additive account")
    axes[0].legend(fontsize=8, loc="lower left")
    words = "CD-3 ends below chance, equivalence is solved and not additively"
    plots.headline(fig, f"ConvNets, digits 20 pixels apart: {words}")
    return plots.save(fig, path)


def draw_salience(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Slopes predicted from the salience of untrained ConvNets, by estimate."""
    metrics, trained = (metrics_of(record, row) for row in ("salience_mnist", "addition_mnist"))
    cells, slopes = {}, {}
    for d in DISTANCES:
        cell, panel = f"extrapolation, d={d}", f"{d} pixels apart"
        slopes[panel] = trained[f"{cell}: slope"]["values"]
        cells[panel] = {
            words: {
                n: metrics[f"{cell}: predicted slope, {n} images{suffix}"]["values"]
                for n in (4, 11, 30)
            }
            for words, suffix in (
                ("self-products included", ""),
                ("self-products left out", ", no self-products"),
            )
        }
    return draw_estimates(cells, slopes, path)


def heights(record: list[dict], studies: dict) -> str:
    """The figure's bars of deep networks over ours, by panel."""
    ratios = {name: _ratio(bars) for name, bars in _panels(record, "magnitudes").items()}
    usual = [ratio for ratio in ratios.values() if _nearest(HALVED, ratio) == HALVED[0]]
    others = [
        f"{ratio:.3f} (CD-{name[-1]} at depth {name[len('depth_')]})"
        for name, ratio in sorted(ratios.items())
        if ratio not in usual
    ]
    return (
        f"In {len(usual)} of {len(ratios)} panels (one task at one depth) the figure's bars are "
        f"{min(usual):.3f} to {max(usual):.3f} of ours, in the others {' and '.join(others)}"
    )


def halved_bars(record: list[dict], studies: dict) -> str:
    """How many bars match after multiplication by HALVED."""
    return _verdicts(_panels(record, "magnitudes"), HALVED)


def bars_of_other_settings(record: list[dict], studies: dict) -> str:
    """How many bars match that are not halved."""
    factors = [factor / HALVED[0] for factor in HALVED]
    return "; ".join(
        f"{words}: {_verdicts(_panels(record, label), factors)}"
        for label, words in OTHER_SETTINGS.items()
    )


def _panels(record: list[dict], label: str) -> dict:
    """{panel: [(our values, published number)]}: the bars of `cd_deep`."""
    (entry,) = [run for run in record if (run["row"], run["label"]) == ("cd_deep", label)]
    panels = collections.defaultdict(list)
    for name, number in PUBLISHED["kernels"]["cd_deep"].items():
        if "mean |value|" in name:
            values = np.array(entry["metrics"][name]["values"])
            panels[name.partition(":")[0]].append((values, number))
    return panels


def _ratio(bars: list) -> float:
    """The figure's bars of a panel over ours."""
    return sum(number["mean"] for _, number in bars) / sum(values.mean() for values, _ in bars)


def _nearest(factors, ratio: float) -> float:
    return min(factors, key=lambda factor: abs(ratio / factor - 1))


def _verdicts(panels: dict, factors) -> str:
    """Verdicts of bars, ours multiplied by the factor that is nearest in their panel."""
    words = collections.Counter(
        verdict.verdict(_nearest(factors, _ratio(bars)) * values, number).word
        for bars in panels.values()
        for values, number in bars
    )
    return (
        f"{words['match']} match, {words['underpowered']} are underpowered, "
        f"{words['no match']} do not match"
    )


TABLES = {
    "heights": heights,
    "halved bars": halved_bars,
    "bars of other settings": bars_of_other_settings,
    "groups": groups,
    "dense": dense_table,
    "closed_form_error": closed_form_error,
    "prediction": prediction_sentence,
    "depth": depth_table,
    "images": images_table,
    "additivity": additivity_sentence,
    "additivity of contexts": additivity_of_contexts,
    "least_additivity": least_additivity,
    "shares": shares_sentence,
    "figure_3e": figure_3e,
    "cd_by_seed": cd_by_seed,
    "cd_means": cd_means,
    "cd_worst": cd_worst,
    "formulas_in_words": formulas_in_words,
}
PICTURES = {
    "kernels_slopes.png": draw_slopes,
    "kernels_new.png": draw_new,
    "kernels_salience.png": draw_salience,
}
