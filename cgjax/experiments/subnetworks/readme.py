"""Tables and pictures of the README, from the record.

record: the recorded runs. A *cell* is a rule and one of its subroutines.
"""

import math
import pathlib

import numpy as np

from cgjax import config as configs
from cgjax import plots
from cgjax.experiments.subnetworks.figures import hatch
from cgjax.published import PUBLISHED, verdict

KNOWN = PUBLISHED["subnetworks"]
LANGUAGE = {
    "agreement": ("subject", "verb"),
    "anaphora": ("antecedent", "pronoun"),
}
NUMBERS = ("singular", "plural")
VISION = {
    "inside_contact": ("inside", "contact"),
    "inside_number": ("inside", "number"),
    "number_contact": ("number", "contact"),
}
# Singular beside plural.
SENTENCES = [
    (f"{rule}_{number}", subroutine)
    for rule, subroutines in LANGUAGE.items()
    for subroutine in subroutines
    for number in NUMBERS
]
IMAGES = [(rule, name) for rule, names in VISION.items() for name in names]
ONE_RULE = {"agreement_singular", "agreement_plural", "anaphora_singular", "anaphora_plural"}
HALVES = {"sub_diff": "the subnetwork", "abl_diff": "the network without it"}


def best_run(record: list[dict], row: str, metric: str) -> dict | None:
    """The run of a row that is nearest to the paper's: its size, splits and length of masks."""

    def rank(entry):
        config = entry["config"]
        splits = config["data"].get("splits") == "published"
        return entry["size"] == "paper", splits, config["masks"]["epochs"], entry["wall_s"]

    runs = [
        entry
        for entry in record
        if entry["row"] == row
        and entry["size"] in ("fast", "paper")
        and entry["metrics"].get(metric, {}).get("ours") is not None
    ]
    return max(runs, key=rank, default=None)


def place_of(cell: tuple, part: str, measure: str) -> tuple[str, str]:
    """(row, metric) of a cell: rows of several rules have the rule in the place of the part."""
    rule, subroutine = cell
    if part in ("wide", "simclr", "pruned"):
        return part, f"{rule}/{subroutine}: {measure}"
    return rule, f"{part}/{subroutine}: {measure}"


def ours(record, cell, part, measure) -> dict | None:
    """The recorded metric of a cell; None if it has not run."""
    row, metric = place_of(cell, part, measure)
    run = best_run(record, row, metric)
    return run["metrics"][metric] if run else None


def theirs(cell, part, measure) -> dict | None:
    row, metric = place_of(cell, part, measure)
    return KNOWN.get(row, {}).get(metric)


# --- tables ---------------------------------------------------------------------------------------


def like_for_like(record: list[dict], studies: dict) -> str:
    """One configuration for all bases: ours beside the release's, with the published selection."""
    lines = [
        "| cell | epochs of masks | sub_diff | release, fixed | abl_diff | release, fixed "
        "| difference, 95 % | paper, selected |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for cell, part in [*((cell, "scratch") for cell in SENTENCES), *_vision_cells()]:
        row, metric = place_of(cell, part, "abl_diff")
        run = best_run(record, row, metric)
        if run is None:
            continue
        values = [
            number["mean"]
            for number in (
                theirs(cell, part, "sub_diff"),
                theirs(cell, part, "abl_diff"),
                theirs(cell, part, "abl_diff, selected"),
            )
        ]
        sub, abl = (run["metrics"][place_of(cell, part, name)[1]] for name in HALVES)
        compared = verdict.of_entry(abl)
        width = f"± {compared.width:.2f}" if math.isfinite(compared.width) else "one base"
        lines.append(
            f"| {cell[0].replace('_', ' ')}, {cell[1]} | {run['config']['masks']['epochs']} "
            f"| {sub['ours']:+.2f} | {values[0]:+.2f} | {abl['ours']:+.2f} | {values[1]:+.2f} "
            f"| {compared.difference:+.2f} {width} | {values[2]:+.2f} |"
        )
    return "\n".join(lines)


def _vision_cells():
    return [(cell, "resnet50") for cell in IMAGES if theirs(cell, "resnet50", "abl_diff")]


def means(record: list[dict], studies: dict) -> str:
    """Means over the cells of the table above in which both have a number: BERT from scratch."""
    pairs = {}
    for measure in HALVES:
        both = [(ours(record, cell, "scratch", measure), theirs(cell, "scratch", measure))
                for cell in SENTENCES]  # fmt: skip
        pairs[measure] = np.array([(a["ours"], b["mean"]) for a, b in both if a])
    texts = []
    for measure, values in pairs.items():
        apart = values[:, 0] - values[:, 1]
        width = verdict.half_width(list(apart))
        texts.append(
            f"{measure} {values[:, 0].mean():+.3f} beside the release's {values[:, 1].mean():+.3f} "
            f"(difference {apart.mean():+.3f} ± {width:.3f} over {len(apart)} cells)"
        )
    return " and ".join(texts)


def selection(record: list[dict], studies: dict) -> str:
    """What the choice among 24 configurations does to abl_diff, in the release's own files."""
    lines = [
        "| abl_diff, mean over all rules | fixed | all valid configurations "
        "| best of 24, validation data | the same, test data (paper) |",
        "|---|---:|---:|---:|---:|",
    ]
    for network, name in NETWORKS.items():
        cells = [
            KNOWN["means"][f"{network}: abl_diff{end}"]["mean"]
            for end in ("", ", valid configurations", ", best of 24", ", selected")
        ]
        lines.append(f"| {name} | {' | '.join(f'{value:+.3f}' for value in cells)} |")
    return "\n".join(lines)


NETWORKS = {
    "pretrained": "BERT-small, pretrained",
    "scratch": "BERT-small, from scratch",
    "resnet50": "ResNet-50",
    "wideresnet50": "Wide ResNet-50-2",
    "simclr": "ResNet-50 after SimCLR",
}


def known_structures(record: list[dict], studies: dict) -> str:
    """The demonstration: a small BERT beside networks whose structure is known."""
    (run,) = [entry for entry in record if (entry["row"], entry["size"]) == ("demo", "default")]
    lines = [
        "| network, subroutine | sub_diff | abl_diff | abl_diff of every base "
        "| removals of the same size | kept | valid masks |",
        "|---|---:|---:|---|---:|---:|---:|",
    ]
    for part, subroutine in [
        (part, name) for part in ("bert", "modular", "template") for name in ("subject", "verb")
    ]:

        def number(measure, start=f"{part}/{subroutine}: "):
            return run["metrics"][f"{start}{measure}"]

        abl = number("abl_diff")
        null = abl["ours"] - number("abl_diff beyond random removals")["ours"]
        valid = number("valid masks")["values"]
        bases = ", ".join(f"{value:.2f}" for value in abl["values"])
        lines.append(
            f"| {part}, {subroutine} | {number('sub_diff')['ours']:+.3f} | {abl['ours']:+.3f} "
            f"| {bases} | {null:+.3f} | {number('kept')['ours']:.3f} "
            f"| {sum(valid):.0f} of {len(valid)} |"
        )
    return "\n".join(lines)


VISION_PARTS = ("resnet50", "wide", "simclr", "pruned")


def largest_vision(record: list[dict], studies: dict) -> str:
    """The largest ablation of any base of the reduced rules of vision."""
    values = [
        abs(value)
        for part in VISION_PARTS
        for cell in IMAGES
        if (metric := ours(record, cell, part, "abl_diff"))
        for value in metric["values"]
        if value is not None
    ]
    return f"{max(values):.2f}"


def largest_null(record: list[dict], studies: dict) -> str:
    """The largest mean over random removals of as many weights, of any network of vision."""
    values = []
    for part in VISION_PARTS:
        for cell in IMAGES:
            if abl := ours(record, cell, part, "abl_diff"):
                beyond = ours(record, cell, part, "abl_diff beyond random removals")
                values.append(abs(abl["ours"] - beyond["ours"]))
    return f"{max(values):.2f}"


def not_recorded(record: list[dict], studies: dict) -> str:
    """Rows without a recorded run."""
    rows = [row["name"] for row in configs.load_file("subnetworks").describe_rows()]
    recorded = {entry["row"] for entry in record}
    missing = [f"`{row}`" for row in rows if row not in recorded]
    return f"{', '.join(missing[:-1])} and {missing[-1]}"


def vision_default(record: list[dict], studies: dict) -> str:
    """The best base of vision at default size."""
    values = [
        value
        for entry in record
        if entry["size"] == "default" and entry["row"] in (*VISION, *VISION_PARTS, "vit")
        for name, metric in entry["metrics"].items()
        if name.endswith("base: test accuracy")
        for value in metric["values"]
    ]
    return f"{max(values):.2f}"


def pretrained_valid(record: list[dict], studies: dict) -> str:
    """How many masks of pretrained networks are valid, over the rules that ran."""
    shares = [
        value
        for cell in SENTENCES
        if (metric := ours(record, cell, "pretrained", "valid masks"))
        for value in metric["values"]
    ]
    return f"{np.mean(shares):.0%}"


def _number(row: str, metric: str, form: str):
    """A field that shows a published number."""
    return lambda record, studies: format(KNOWN[row][metric]["mean"], form)


def _vit(record, studies) -> str:
    rules = ("number_contact", "inside_number", "inside_contact")
    name = "base: validation accuracy"
    return ", ".join(f"{KNOWN['vit'][f'{rule}/{name}']['mean']:.3f}" for rule in rules)


def _demo_seconds(record, studies) -> str:
    (run,) = [entry for entry in record if (entry["row"], entry["size"]) == ("demo", "default")]
    return f"{run['wall_s']:.0f}"


TABLES = {
    "fixed_scratch": _number("means", "scratch: abl_diff", "+.3f"),
    "selected_scratch": _number("means", "scratch: abl_diff, selected", "+.3f"),
    "random_pronoun": _number(
        "anaphora_singular", "random_weights/pronoun: abl_diff, selected", "+.3f"
    ),
    "vit": _vit,
    "demo_seconds": _demo_seconds,
    "pretrained_valid": pretrained_valid,
    "like_for_like": like_for_like,
    "means": means,
    "selection": selection,
    "known_structures": known_structures,
    "largest_vision": largest_vision,
    "largest_null": largest_null,
    "not_recorded": not_recorded,
    "vision_default": vision_default,
}


# --- pictures -------------------------------------------------------------------------------------

# (label, part, published table or "" for ours)
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


def _matrix(record, lines, cells, measure) -> np.ndarray:
    """[lines, cells] of a measure, nan where it has not run or is not published."""
    values = np.full((len(lines), len(cells)), np.nan)
    for i, (_, part, end) in enumerate(lines):
        for j, cell in enumerate(cells):
            if end is None:
                metric = ours(record, cell, part, measure)
                number = metric and metric["ours"]
            else:
                entry = theirs(cell, part, measure + end)
                number = entry and entry["mean"]
            values[i, j] = np.nan if number is None else number
    return values


@plots.styled
def draw_rules(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Heat maps over all rules: subnetworks and ablations, ours beside the paper's two tables."""
    fig = plots.new_figure(11.6, 6.8, layout="constrained")
    heights = (len(IN_LANGUAGE), len(IN_VISION))
    axes = fig.subplots(2, 2, gridspec_kw={"height_ratios": heights}, sharey="row")
    panels = [
        (lines, cells, measure)
        for lines, cells in ((IN_LANGUAGE, SENTENCES), (IN_VISION, IMAGES))
        for measure in HALVES
    ]
    for ax, (lines, cells, measure) in zip(axes.ravel(), panels):
        values = _matrix(record, lines, cells, measure)
        image = ax.imshow(values, cmap="RdBu", vmin=-0.75, vmax=0.75, aspect="auto")
        hatch(ax)
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                colour = "white" if abs(value) > 0.45 else "black"
                ax.text(j, i, f"{value:+.2f}", ha="center", va="center", fontsize=7, color=colour)
        for i, (_, _, end) in enumerate(lines):
            if end is None:  # a line above each network
                ax.axhline(i - 0.5, color=plots.INK, linewidth=0.9)
        ax.set_yticks(range(len(lines)), [label for label, *_ in lines], fontsize=7.5)
        ax.set_xticks(range(len(cells)), [_words(cell) for cell in cells], fontsize=6.3)
        ax.tick_params(length=0)
        if lines is IN_LANGUAGE:
            ax.set_title(f"{measure}: {HALVES[measure]}", fontsize=9)
    fig.colorbar(
        image, ax=axes, label="accuracy on target less other, clipped at chance", fraction=0.02
    )
    plots.headline(fig, "Every network has subnetworks; ablations depend on how masks are selected "
                        "(hatched: not run, or not published)")  # fmt: skip
    return plots.save(fig, path)


def _words(cell) -> str:
    """A cell as a label of two lines."""
    rule, subroutine = cell
    which = rule.split("_")[-1] if rule in ONE_RULE else rule.replace("_", " and\n")
    return f"{subroutine},\n{which}"


@plots.styled
def draw_selection(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """abl_diff by the way of choosing a configuration: the release, and our small BERT."""
    ends = {
        "fixed beforehand": "",
        "mean of all valid": ", valid configurations",
        "best of 24 (validation)": ", best of 24",
        "paper (test)": ", selected",
    }
    fig = plots.new_figure(9.6, 3.4, layout="constrained")
    left, right = fig.subplots(1, 2, sharey=True)
    for colour, (network, label) in zip(plots.COLOURS, NETWORKS.items()):
        values = [KNOWN["means"][f"{network}: abl_diff{end}"]["mean"] for end in ends.values()]
        left.plot(range(len(ends)), values, "o-", color=colour, markersize=5, label=label)
    left.set_xticks(range(len(ends)), [text.replace(" ", "\n", 1) for text in ends], fontsize=8)
    left.set_title("the authors' search files and paper, mean over all rules", fontsize=9)
    left.legend(fontsize=7)
    search = [entry for entry in record if entry["row"] == "search" and entry["size"] == "fast"]
    for colour, name in zip(plots.COLOURS, ("subject", "verb")):
        metrics = search[-1]["metrics"]
        fixed, chosen = (metrics[f"{name}: abl_diff{end}"]["values"] for end in ("", ", selected"))
        median = metrics[f"{name}: abl_diff, 50 % of valid configurations"]["ours"]
        for a, b in zip(fixed, chosen):
            if a is not None:
                right.plot((0, 2), (a, b), "o-", color=colour, markersize=5, label=name)
        right.plot(1, median, "D", color=colour, markersize=6, markerfacecolor="none")
    handles = dict(zip(*right.get_legend_handles_labels()[::-1]))
    right.legend(handles.values(), handles.keys(), fontsize=7)
    words = ("fixed\nbeforehand", "median of all\nvalid (diamond)", "selected\n(test)")
    right.set_xticks(range(3), words, fontsize=8)
    right.set_title("ours: BERT of 4 x 128, agreement, each base a line", fontsize=9)
    for ax in (left, right):
        ax.axhline(0, color=plots.GREY, linestyle="--", linewidth=0.8)
    left.set(ylabel="abl_diff", ylim=(-0.55, 0.08))
    plots.headline(fig, "Choosing among 24 configurations by the ablation makes the ablation")
    return plots.save(fig, path)


PICTURES = {
    "subnetworks_rules.png": draw_rules,
    "subnetworks_selection.png": draw_selection,
}
