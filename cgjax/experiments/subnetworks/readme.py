"""Tables and pictures of the README, from the record.

A *cell* is a rule and one of its subroutines. record: the recorded runs.
"""

import math
import pathlib

import numpy as np

from cgjax import plots
from cgjax.experiments.subnetworks.figures import hatch
from cgjax.published import PUBLISHED, verdict

KNOWN = PUBLISHED["subnetworks"]
# Singular beside plural.
SENTENCES = [
    (f"{rule}_{number}", subroutine)
    for rule, subroutines in (
        ("agreement", ("subject", "verb")),
        ("anaphora", ("antecedent", "pronoun")),
    )
    for subroutine in subroutines
    for number in ("singular", "plural")
]
IMAGES = [
    (rule, subroutine)
    for rule in ("inside_contact", "inside_number", "number_contact")
    for subroutine in rule.split("_")
]
ACROSS_RULES = ("wide", "simclr", "pruned")  # rows whose parts are rules
HALVES = {"sub_diff": "the subnetwork", "abl_diff": "the network without it"}
NETWORKS = {
    "pretrained": "BERT-small, pretrained",
    "scratch": "BERT-small, from scratch",
    "resnet50": "ResNet-50",
    "wideresnet50": "Wide ResNet-50-2",
    "simclr": "ResNet-50 after SimCLR",
}
# Ways of choosing a configuration, and the ends of their metrics.
CHOICES = {
    "one fixed configuration": "",
    "mean of all valid": ", valid configurations",
    "best of 24, validation data": ", best of 24",
    "the same, test data (paper)": ", selected",
}
NEW_SEEDS = ", new mask seeds, selected"  # the search has mask seed 0
MODULAR = -0.1  # `few_modular` counts abl_diff below


def place_of(cell: tuple, part: str, measure: str) -> tuple[str, str]:
    """(row, metric) of a cell."""
    rule, subroutine = cell
    if part in ACROSS_RULES:
        return part, f"{rule}/{subroutine}: {measure}"
    return rule, f"{part}/{subroutine}: {measure}"


def best_run(record: list[dict], cell, part: str) -> dict | None:
    """The run of a cell that is nearest to the paper's by size, splits and length of masks."""

    def rank(entry):
        config = entry["config"]
        splits = config["data"].get("splits") == "published"
        return entry["size"] == "paper", splits, config["masks"]["epochs"], entry["wall_s"]

    row, metric = place_of(cell, part, "abl_diff")
    runs = [
        entry
        for entry in record
        if (entry["row"], entry["size"]) in ((row, "fast"), (row, "paper"))
        and entry["metrics"].get(metric, {}).get("ours") is not None
    ]
    return max(runs, key=rank, default=None)


def ours(record, cell, part: str, measure: str) -> dict | None:
    """The recorded metric of a cell; None if it has not run."""
    run = best_run(record, cell, part)
    return run["metrics"].get(place_of(cell, part, measure)[1]) if run else None


def theirs(cell, part: str, measure: str) -> float | None:
    """The published number of a cell."""
    row, metric = place_of(cell, part, measure)
    return KNOWN.get(row, {}).get(metric, {}).get("mean")


def _of_vision(record, measure: str) -> list[dict]:
    """The recorded metrics of all cells and networks of vision."""
    cells = [(cell, part) for part in ("resnet50", *ACROSS_RULES) for cell in IMAGES]
    return [metric for cell, part in cells if (metric := ours(record, cell, part, measure))]


def _demo(record) -> dict:
    return next(run for run in record if (run["row"], run["size"]) == ("demo", "default"))


# --- tables ---------------------------------------------------------------------------------------


def like_for_like(record: list[dict], studies: dict) -> list:
    """One configuration for all bases: ours beside the release's, with the published selection."""
    pairs = [(measure, "release, fixed") for measure in HALVES]
    rows = [
        ("cell", "epochs of masks", *pairs[0], *pairs[1], "difference, 95 %", "paper, selected")
    ]
    for cell, part in _compared(record):
        epochs = best_run(record, cell, part)["config"]["masks"]["epochs"]
        numbers = [
            f"{number:+.2f}"
            for measure in HALVES
            for number in (
                ours(record, cell, part, measure)["ours"],
                theirs(cell, part, measure),
            )
        ]
        gap, width = difference(record, cell, part)
        gap = f"{gap:+.2f} " + (f"± {width:.2f}" if math.isfinite(width) else "(one base)")
        selected = f"{theirs(cell, part, 'abl_diff, selected'):+.2f}"
        rows.append(
            (" ".join(cell[0].split("_")) + f", {cell[1]}", str(epochs), *numbers, gap, selected)
        )
    return rows


def _compared(record) -> list[tuple]:
    """(cell, part) that we have and the release's fixed configuration has."""
    cells = [(cell, "scratch") for cell in SENTENCES] + [(cell, "resnet50") for cell in IMAGES]
    return [
        (cell, part)
        for cell, part in cells
        if best_run(record, cell, part) and theirs(cell, part, "abl_diff") is not None
    ]


def difference(record, cell, part: str) -> tuple[float, float]:
    """Our mean abl_diff less the release's, and half of its 95 % interval over bases of both."""
    row, metric = place_of(cell, part, "abl_diff")
    values = [v for v in ours(record, cell, part, "abl_diff")["values"] if v is not None]
    means = verdict.mean_of(values), verdict.published_mean(KNOWN[row][metric])
    return means[0].mean - means[1].mean, verdict.interval(*means)


def excluded(record: list[dict], studies: dict) -> str:
    """How many intervals of `like_for_like` exclude zero."""
    gaps = [difference(record, cell, part) for cell, part in _compared(record)]
    gaps = [(gap, width) for gap, width in gaps if math.isfinite(width)]
    n = sum(abs(gap) > width for gap, width in gaps)
    return f"{n or 'None'} of the {len(gaps)} intervals exclude{'s' if n < 2 else ''} zero."


def kept_effect(record: list[dict], studies: dict) -> str:
    """abl_diff on test data with new mask seeds, divided by that which the selection has seen."""
    shares = [
        KNOWN["means"][f"{network}: abl_diff{NEW_SEEDS}"]["mean"]
        / KNOWN["means"][f"{network}: abl_diff, best of 24"]["mean"]
        for network in NETWORKS
    ]
    return f"{min(shares):.0%} to {max(shares):.0%}"


def apart(record: list[dict], measure: str, end: str = "") -> tuple[float, float, str]:
    """Of the cells of BERT from scratch that ran: our mean, a published one, their difference."""
    metrics = [(ours(record, cell, "scratch", measure), cell) for cell in SENTENCES]
    pairs = [(m["ours"], theirs(cell, "scratch", measure + end)) for m, cell in metrics if m]
    mean, published = np.mean(pairs, axis=0)
    differences = [a - b for a, b in pairs]
    width = verdict.half_width(differences)
    return mean, published, f"{np.mean(differences):+.3f} ± {width:.3f} over {len(pairs)} cells"


def means(record: list[dict], studies: dict) -> str:
    """Means over the cells of BERT from scratch, against the paper's two tables."""
    sub, abl = apart(record, "sub_diff"), apart(record, "abl_diff")
    chosen = apart(record, "abl_diff", ", selected")[2]
    return (
        f"sub_diff {sub[0]:+.3f} beside {sub[1]:+.3f} (difference {sub[2]}), abl_diff "
        f"{abl[0]:+.3f} beside {abl[1]:+.3f} (difference {abl[2]}). The difference of ours from "
        f"the published abl_diff, of selected masks, is {chosen}"
    )


def front(record: list[dict], studies: dict) -> str:
    """What the front page says of one fixed configuration."""
    ours, release, _ = apart(record, "abl_diff")
    return f"abl_diff {release:+.3f} in the authors' files, {ours:+.3f} in our runs"


def few_modular(record: list[dict], studies: dict) -> str:
    """How many of our BERTs from scratch lose a subroutine more than the other."""
    metrics = [ours(record, cell, "scratch", "abl_diff") for cell in SENTENCES]
    values = [v for metric in metrics if metric for v in metric["values"] if v is not None]
    low = [value for value in values if value < MODULAR]
    return (
        f"abl_diff is below {MODULAR} for {len(low)} of our {len(values)} pairs of a base and a "
        f"subroutine ({', '.join(f'{value:+.2f}' for value in sorted(low))})"
    )


def selection(record: list[dict], studies: dict) -> list:
    """What the choice among 24 configurations does to abl_diff, in the release's own files."""
    rows = [("abl_diff, mean over all rules", *CHOICES, "of these, mask seeds 1 and 2")]
    for network, name in NETWORKS.items():
        ends = (*CHOICES.values(), NEW_SEEDS)
        cells = (KNOWN["means"][f"{network}: abl_diff{end}"]["mean"] for end in ends)
        rows.append((name, *(f"{cell:+.3f}" for cell in cells)))
    return rows


def known_structures(record: list[dict], studies: dict) -> list:
    """The demonstration: a small BERT beside networks whose structure is known."""
    columns = ("abl_diff of every base", "removals of the same size", "kept", "valid masks")
    rows = [("network, subroutine", *HALVES, *columns)]
    for part in ("bert", "modular", "template"):
        for subroutine in ("subject", "verb"):
            sub, abl, beyond, kept, valid = (
                _demo(record)["metrics"][f"{part}/{subroutine}: {measure}"]
                for measure in (*HALVES, "abl_diff beyond random removals", "kept", "valid masks")
            )
            bases = ", ".join(f"{value:.2f}" for value in abl["values"])
            null, counts = abl["ours"] - beyond["ours"], valid["values"]
            numbers = (f"{sub['ours']:+.3f}", f"{abl['ours']:+.3f}", bases, f"{null:+.3f}")
            numbers += (f"{kept['ours']:.3f}", f"{sum(counts):.0f} of {len(counts)}")
            rows.append((f"{part}, {subroutine}", *numbers))
    return rows


def largest_vision(record: list[dict], studies: dict) -> str:
    """The largest ablation of any base of the reduced rules of vision."""
    values = [value for metric in _of_vision(record, "abl_diff") for value in metric["values"]]
    return f"{max(abs(value) for value in values if value is not None):.2f}"


def largest_null(record: list[dict], studies: dict) -> str:
    """The largest mean over random removals of as many weights, of any network of vision."""
    both = (_of_vision(record, f"abl_diff{end}") for end in ("", " beyond random removals"))
    return f"{max(abs(abl['ours'] - beyond['ours']) for abl, beyond in zip(*both)):.2f}"


def pretrained_valid(record: list[dict], studies: dict) -> str:
    """How many masks of pretrained networks are valid, over the rules that ran."""
    metrics = [ours(record, cell, "pretrained", "valid masks") for cell in SENTENCES]
    return f"{np.mean([value for metric in metrics if metric for value in metric['values']]):.0%}"


def vision_default(record: list[dict], studies: dict) -> str:
    """The best base of vision at default size."""
    rows = {rule for rule, _ in IMAGES} | {*ACROSS_RULES, "vit"}
    values = [
        value
        for entry in record
        if entry["size"] == "default" and entry["row"] in rows
        for name, metric in entry["metrics"].items()
        if name.endswith("base: test accuracy")
        for value in metric["values"]
    ]
    return f"{max(values):.2f}"


TABLES = {
    "demo_seconds": lambda record, studies: f"{_demo(record)['wall_s']:.0f}",
    "pretrained_valid": pretrained_valid,
    "like_for_like": like_for_like,
    "excluded": excluded,
    "kept_effect": kept_effect,
    "means": means,
    "front": front,
    "few_modular": few_modular,
    "selection": selection,
    "known_structures": known_structures,
    "largest_vision": largest_vision,
    "largest_null": largest_null,
    "vision_default": vision_default,
}  # fmt: skip


# --- pictures -------------------------------------------------------------------------------------

# (label, part, end of the published metric; None: ours)
IN_LANGUAGE = (
    ("BERT-small, ours", "scratch", None),
    ("· release, fixed", "scratch", ""),
    ("· paper, selected", "scratch", ", selected"),
    ("MiniLM's shape, ours", "scratch_minilm", None),
    ("MiniLM pretrained, ours", "pretrained", None),
    ("· paper (BERT), selected", "pretrained", ", selected"),
    ("random weights, ours", "random_weights", None),
    ("· paper, selected", "random_weights", ", selected"),
)
IN_VISION = (
    ("ResNet, ours (reduced)", "resnet50", None),
    ("· release, fixed", "resnet50", ""),
    ("· paper, selected", "resnet50", ", selected"),
    ("Wide ResNet, ours (reduced)", "wide", None),
    ("· paper, selected", "wide", ", selected"),
    ("after SimCLR, ours (reduced)", "simclr", None),
    ("· paper, selected", "simclr", ", selected"),
    ("pruned, ours (reduced)", "pruned", None),
    ("· paper, selected", "pruned", ", selected"),
)


@plots.styled
def draw_rules(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Heat maps over all rules: subnetworks and ablations, ours beside the paper's two tables."""

    def value_of(cell, part, end, measure) -> float:
        metric = ours(record, cell, part, measure)
        number = (metric and metric["ours"]) if end is None else theirs(cell, part, measure + end)
        return np.nan if number is None else number

    fig = plots.new_figure(plots.PAGE, 7.6, layout="constrained")
    heights = (len(IN_LANGUAGE), len(IN_VISION))
    axes = fig.subplots(2, 2, gridspec_kw={"height_ratios": heights}, sharey="row")
    panels = [
        (lines, cells, measure)
        for lines, cells in ((IN_LANGUAGE, SENTENCES), (IN_VISION, IMAGES))
        for measure in HALVES
    ]
    for ax, (lines, cells, measure) in zip(axes.ravel(), panels):
        values = 100 * np.array(
            [[value_of(cell, part, end, measure) for cell in cells] for _, part, end in lines]
        )
        image = ax.imshow(values, cmap="RdBu", vmin=-75, vmax=75, aspect="auto")
        hatch(ax)
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                style = {"fontsize": 8, "color": "white" if abs(value) > 45 else "black"}
                ax.text(j, i, f"{round(value):+d}", ha="center", va="center", **style)
        for i, (_, _, end) in enumerate(lines):
            if end is None:  # a line above each network
                ax.axhline(i - 0.5, color=plots.INK, linewidth=0.9)
        ax.set_yticks(range(len(lines)), [label for label, *_ in lines])
        ax.set_xticks(range(len(cells)), [_words(*cell) for cell in cells], rotation=90)
        ax.tick_params(length=0)
        if lines is IN_LANGUAGE:
            ax.set_title(f"{measure}: {HALVES[measure]}", fontsize=9)
    label = "accuracy on target less other, in percent, clipped at chance"
    fig.colorbar(image, ax=axes, label=label, fraction=0.02, location="bottom")
    title = "Masks find subnetworks in all of these; ablations depend on their selection"
    plots.headline(fig, f"{title} (hatched: not run, or not published)")
    return plots.save(fig, path)


def _words(rule: str, subroutine: str) -> str:
    """A cell as a label."""
    is_language = rule.endswith(("singular", "plural"))
    if is_language:
        return f"{subroutine}, {rule.split('_')[1]}"
    (other,) = set(rule.split("_")) - {subroutine}
    return f"{subroutine}, with {other}"


@plots.styled
def draw_selection(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """abl_diff by the way of choosing a configuration: the release, and our small BERT."""
    fig = plots.new_figure(plots.PAGE, 3.6, layout="constrained")
    left, right = fig.subplots(1, 2, sharey=True)
    for colour, (network, label) in zip(plots.COLOURS, NETWORKS.items()):
        values = [KNOWN["means"][f"{network}: abl_diff{end}"]["mean"] for end in CHOICES.values()]
        left.plot(range(len(CHOICES)), values, "o-", color=colour, markersize=5, label=label)
    words = ("one\nfixed", "mean of\nall valid", "best of 24\n(validation)", "paper\n(test)")
    left.set_xticks(range(len(CHOICES)), words, fontsize=8)
    left.set_title("the authors' files: mean over all rules", fontsize=9)
    left.legend(fontsize=8, loc="lower left")
    search = next(run for run in record if (run["row"], run["size"]) == ("search", "fast"))
    for colour, name in zip(plots.COLOURS, ("subject", "verb")):
        fixed, chosen, median = (
            search["metrics"][f"{name}: abl_diff{end}"]
            for end in ("", ", selected", ", 50 % of valid configurations")
        )
        pairs = zip(fixed["seeds"], fixed["values"], chosen["values"], strict=True)
        for marker, (base, *pair) in zip("os^", pairs):
            if None not in pair:
                style = {"color": colour, "marker": marker, "markersize": 5}
                right.plot((0, 2), pair, label=f"{name}, base {base}", **style)
        right.plot(1, median["ours"], "D", color=colour, markersize=6, markerfacecolor="none")
    right.legend(fontsize=8, loc="lower left")
    words = ("fixed\nbeforehand", "median of all\nvalid (diamond)", "selected\n(test)")
    right.set_xticks(range(3), words, fontsize=8)
    right.set_title("ours: BERT of 4 x 128, agreement", fontsize=9)
    for ax in (left, right):
        ax.axhline(0, color=plots.GREY, linestyle="--", linewidth=0.8)
    right.set_xlim(-0.3, 2.2)
    left.set(ylabel="abl_diff", ylim=(-0.75, 0.08))
    title = "A configuration chosen by abl_diff has a lower one than a fixed one"
    plots.headline(fig, title)
    return plots.save(fig, path)


PICTURES = {
    "subnetworks_rules.png": draw_rules,
    "subnetworks_selection.png": draw_selection,
}
