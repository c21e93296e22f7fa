"""Tables and pictures of the README, from the record.

record: the recorded runs; studies: studies of several runs together, of which this family has none.
"""

import itertools
import math
import pathlib

import numpy as np

from cgjax import plots
from cgjax.analysis import factorization
from cgjax.analysis.stats import mean_and_interval
from cgjax.experiments.bumps import scenes
from cgjax.experiments.bumps.figures import curves
from cgjax.experiments.bumps.studies.comparisons import AXES, COMPOSES
from cgjax.published.bumps import CODE_WIDTHS
from cgjax.published.results import by_row

REMEDY = "lam_entropy 0.1 + vec_variance 0.01"
CRITERION = 0.05  # ID nMSE at which a network has learned its training pairs
SUM = 0.6  # share of the variance from which images count as a sum a(x) + b(y)


def metrics_of(record: list[dict], row: str) -> dict:
    """{metric: recorded numbers} of a row at the published size; empty if it is not recorded."""
    return by_row(record, "paper").get(row, {})


def ending(metrics: dict, name: str) -> dict:
    """{beginning: our mean} of the metrics that end with `name`."""
    return {
        key.removesuffix(name): metric["ours"]
        for key, metric in metrics.items()
        if key.endswith(name)
    }


def short(value: float | None) -> str:
    """Two digits: 0.93, 3.5e-05; a dash without a number."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"


def code_widths(record: list[dict], studies: dict) -> list:
    """OOD MSE by width of the code (`B3`), ours and read off the release's figure."""
    metrics = metrics_of(record, "B3")
    ours = [f"{metrics[f'width_{width}/ood mse']['ours']:.1e}" for width in CODE_WIDTHS]
    read_off = [f"{error:.1e}" for error in CODE_WIDTHS.values()]
    return [
        ("variance of the code's bumps", *map(str, CODE_WIDTHS)),
        ("ours", *ours),
        ("release, read off, settings unknown", *read_off),
    ]


def true_sum(record: list[dict], studies: dict) -> str:
    """Share of the true images' variance in the hole that is a sum a(x) + b(y)."""
    grid = np.stack(np.meshgrid(np.arange(28), np.arange(28)), axis=-1).reshape(-1, 2)
    images = np.asarray(scenes.bump(grid, 28, 1.0)).reshape(28, 28, -1)
    hole = scenes.region("donut", 28, 6, 22)
    return f"{factorization.superposition(images, images, images, hole).additive:.0%}"


def sums(record: list[dict], studies: dict) -> str:
    """In how many cells of `table` the images in the hole are sums, or the binary kernel's."""
    metrics = metrics_of(record, "table")
    by_sum = ending(metrics, ": additive R2")
    by_kernel = [r2 for r2 in ending(metrics, ": binary kernel R2").values() if r2 > 0]
    n_sums = sum(r2 > SUM for r2 in by_sum.values())
    return (
        f"in {n_sums} of {len(by_sum)} cells a sum a(x) + b(y) explains more than {SUM} of the "
        f"images in the hole; the binary kernel explains some of them (R2 {min(by_kernel):.2f} to "
        f"{max(by_kernel):.2f}) in {len(by_kernel)} cells"
    )


def taus(record: list[dict], studies: dict) -> str:
    """Rank correlations of OOD R2 with the other scores of `table`, and their standard error."""
    start = "compositionality (OOD R2) and "
    metrics = metrics_of(record, "table")
    values = {
        name.removeprefix(start).removesuffix(": tau-b"): metric["ours"]
        for name, metric in metrics.items()
        if name.startswith(start)
    }
    n = len(ending(metrics, ": ood nmse"))
    error = math.sqrt(2 * (2 * n + 5) / (9 * n * (n - 1)))
    listed = ", ".join(f"{value:.2f} with {name}" for name, value in values.items())
    largest = max(values.values(), key=abs)
    return (
        f"Over {n} cells Kendall's tau-b of OOD R2 is {listed}. Without any relation its standard "
        f"error is {error:.2f}: the largest of the {len(values)} is {abs(largest) / error:.1f} "
        "standard errors from 0"
    )


def striped(record: list[dict], studies: dict) -> str:
    """The decoders whose median OOD nMSE stripes lower or raise (`table`, donut, no penalty)."""
    metrics, raised = metrics_of(record, "table"), []
    for net, words in DECODERS.items():
        end = f"{', no penalty' if net in ('embed', 'product') else ''}: ood nmse"
        before, after = (
            np.median(metrics[f"{net}/donut_6_22, stripes x{n}{end}"]["values"]) for n in (0, 1)
        )
        if after > before:
            raised.append(f"the {words} ({before:.2f} to {after:.2f})")
    return (
        f"lower the median OOD nMSE of {len(DECODERS) - len(raised)} of {len(DECODERS)} decoders "
        f"on the donut and raise that of {' and '.join(raised)}"
    )


def fade(record: list[dict], studies: dict) -> str:
    """Squared distance of the CNN's images (`B7`) to the truth over that to the fade."""
    metrics = metrics_of(record, "B7")
    fade_r2, true_r2 = (metrics[f"cnn/{name} r2"]["ours"] for name in ("cross-fade", "truth"))
    return f"{(1 - true_r2) / (1 - fade_r2):.1f}"


# --- flatness or rank -----------------------------------------------------------------------------

KINDS = {
    "no penalty": "none",
    "lam_entropy": "entropy of lam (low rank)",
    "vec_variance": "variance of vectors",
    REMEDY: "entropy and variance, the paper's",
    "rank_tail": "distance from rank one",
    "null_axis": "flatness along the pixels' axes",
    "factor_axis": "flatness along the factors' axes",
}
PARTS = {
    "main": "main setting",
    "angle_0": "0°",
    "angle_22": "22.5°",
    "angle_45": "45°",
    "permuted": "permuted pixels",
}


ENDS = ("", ", 2.5 %", ", 97.5 %")  # of names of medians and the ends of their intervals
EMBEDDING_CELLS = (
    "main/no penalty",
    "main/lam_entropy 0.1",
    "main/rank_tail 0.0001",
    "main/vec_variance 0.001",
    "main/null_axis 0.001",
    "main/lam_entropy 0.1 + vec_variance 0.01",
    "angle_45/no penalty",
    "angle_45/factor_axis 0.0001",
    "angle_45/null_axis 0.001",
)
BY_CONSTRUCTION = {"rank_1": "rank one by construction", "profiles": "flat by construction"}


def kind_of(penalty: str) -> str:
    """The key of KINDS of a cell's name."""
    return penalty if penalty in KINDS else penalty.split(" ")[0]


def medians(metrics: dict, name: str) -> list:
    """Median OOD nMSE of a cell and the ends of its interval; name: the cell's prefix."""
    return [metrics[f"{name}ood nmse, median{end}"]["ours"] for end in ENDS]


def penalties(metrics: dict, part: str) -> dict:
    """{kind: {penalty: (median, low, high) of OOD nMSE}} of one part."""
    by_kind = {}
    for key in ending(metrics, ": ood nmse, median"):
        if key.startswith(f"{part}/"):
            penalty = key.removeprefix(f"{part}/")
            by_kind.setdefault(kind_of(penalty), {})[penalty] = medians(metrics, f"{key}: ")
    return by_kind


def flatness_table(record: list[dict], studies: dict) -> list:
    """Product fields (`flatness`): the best weight of each kind of penalty."""
    metrics = metrics_of(record, "flatness")
    by_part = {part: penalties(metrics, part) for part in PARTS}
    rows = [("penalty", *PARTS.values())]
    for kind, words in KINDS.items():
        if kind in by_part["angle_45"]:
            rows.append((words, *(_best(metrics, part, by_part[part].get(kind)) for part in PARTS)))
    for part, words in BY_CONSTRUCTION.items():
        rows.append((words, _cell(metrics, f"{part}/"), *[""] * (len(PARTS) - 1)))
    return rows


def of_embeddings(cell: str):
    """A field: the median OOD nMSE of one cell of `flatness_embed`, with its interval."""

    def text(record: list[dict], studies: dict) -> str:
        metrics = metrics_of(record, "flatness_embed")
        middle, low, high = medians(metrics, f"{cell}: ")
        return f"{middle:.2g} ({low:.2g} to {high:.2g}{some_learn(metrics, f'{cell}: ')})"

    return text


def some_learn(metrics: dict, name: str) -> str:
    """ "; ID: 16 of 20", the seeds that learn ID, if some do not; name: the cell's prefix."""
    errors = np.array(metrics[f"{name}id nmse"]["values"])
    n = int(np.sum(errors < CRITERION))
    return f"; ID: {n} of {len(errors)}" if n < len(errors) else ""


def matched(record: list[dict], studies: dict) -> str:
    """Median OOD nMSE of three penalties (`flatness`, main setting) at ID nMSE 0.01."""
    metrics, cells = metrics_of(record, "flatness"), []
    for penalty, words in (
        ("no penalty", "without penalty"),
        ("rank_tail 1e-05", "with the rank penalty"),
        ("null_axis 0.001", "with flatness"),
    ):
        name = f"main/{penalty}: ood nmse at id nmse 0.01, median"
        middle, low, high = (metrics[name + end]["ours"] for end in ENDS)
        cells.append(f"{middle:.3f} ({low:.3f} to {high:.3f}) {words}")
    return ", ".join(cells)


def turned_rank(record: list[dict], studies: dict) -> str:
    """Share of energy in one singular component of fields that compose at 45 degrees."""
    share = metrics_of(record, "flatness")["angle_45/factor_axis 0.001: rank one share"]
    return f"{np.median(share['values']):.0%}"


def networks(record: list[dict], studies: dict) -> str:
    """All networks of `flatness` by their fields: those that learn ID, and their OOD nMSE."""
    metrics = metrics_of(record, "flatness")
    scores = ("id nmse", "ood nmse", "rank one share", "flat share")
    ends = ("/ood nmse", ": ood nmse")
    cells = [
        [metrics[name.removesuffix("ood nmse") + score]["values"] for score in scores]
        for name in metrics
        if name.endswith(ends)
    ]
    id_error, error, rank_one, flat = np.concatenate(cells, axis=1)
    learned, well, is_flat, bent = id_error < 0.05, id_error < 0.005, flat > 0.99, flat < 0.5
    thin, partly = (rank_one > 0.99) & bent, is_flat & learned & ~well
    return (
        f"Of all {len(flat):,} networks at the end of training {np.sum(learned & bent)} have "
        "learned ID (nMSE below 0.05) with fields that are not flat (share below 0.5): their OOD "
        f"nMSE is {error[learned & bent].min():.2f} or more. {np.sum(thin)} have fields of rank "
        f"one (share above 0.99) that are not flat; {np.sum(thin & learned)} of them have learned "
        f"ID, none of those of rank one by construction. {np.sum(is_flat & well)} have flat fields "
        "(share above 0.99) and ID nMSE below 0.005: their OOD nMSE is "
        f"{error[is_flat & well].max():.2f} or less. But of the {np.sum(partly)} with flat fields "
        f"and ID nMSE between these bounds {np.sum(error[partly] > 0.5)} have an OOD nMSE above "
        "0.5."
    )


def _best(metrics: dict, part: str, by_penalty: dict | None) -> str:
    """The penalty of one kind with the least median: its numbers."""
    if not by_penalty:
        return ""
    best = min(by_penalty, key=lambda penalty: by_penalty[penalty][0])
    return _cell(metrics, f"{part}/{best}: ")


def _cell(metrics: dict, name: str) -> str:
    """ "0.002 (0.001 to 0.003); 1.00, 0.99": median, interval, rank-one share, flat share.

    After these the seeds that learn ID, if some do not.
    """
    middle, low, high = map(short, medians(metrics, name))
    names = (f"{name}{score} share" for score in ("rank one", "flat"))
    shares = ", ".join(f"{np.median(metrics[score]['values']):.2f}" for score in names)
    mark = "†" if np.median(metrics[f"{name}id nmse"]["values"]) > CRITERION else ""
    return f"{middle}{mark} ({low} to {high}); {shares}{some_learn(metrics, name)}"


# --- learned axes ---------------------------------------------------------------------------------


def axes_22(record: list[dict], studies: dict) -> str:
    """Seeds of `axes` at 22.5 degrees: which learn ID, and OOD nMSE, with learned or given axes."""
    metrics, columns = by_row(record, "fast")["axes"], {}
    for kind in ("learned", "factors'"):
        name = f"angle_22/{kind} axes: "
        columns[kind] = [
            np.array(metrics[name + score]["values"])
            for score in ("ood nmse", "id nmse", "axis error")
        ]
    error, id_error, degrees = columns["learned"]
    low, n_fit = error < COMPOSES, np.sum(id_error < CRITERION)
    learned = (
        f"{n_fit or 'no'} seed with learned axes learns ID (nMSE {id_error.min():.2g} or more); "
        f"{low.sum()} of {len(error)} have an OOD nMSE of {error[low].mean():.2f} (axes off by up "
        f"to {degrees[low].max():.1f}°), the others {short(error[~low].min())} or more"
    )
    error, id_error, _ = columns["factors'"]
    fits = id_error < CRITERION
    return (
        f"{learned}. With the axes given {fits.sum()} of {len(fits)} learn ID, with an OOD nMSE of "
        f"{short(error[fits].max())}; the others have {short(error[~fits].min())} or more"
    )


def fixed_axes(record: list[dict], studies: dict) -> str:
    """How many seeds learn ID with axes that stay as drawn, at 45 degrees."""
    metrics = by_row(record, "fast")["axes"]
    return some_learn(metrics, "angle_45/random axes: ").removeprefix("; ")


def axes_embed(record: list[dict], studies: dict) -> str:
    """Median OOD nMSE (least to most) of the embedding network at 45 degrees, by its axes."""
    metrics, cells = by_row(record, "fast")["axes_embed"], []
    for kind in ("learned axes", "no penalty", "pixels' axes", "factors' axes"):
        values = metrics[f"angle_45/{kind}: ood nmse"]["values"]
        some = some_learn(metrics, f"angle_45/{kind}: ")
        cells.append(
            f"{kind} {np.median(values):.2g} ({min(values):.2g} to {max(values):.2g}{some})"
        )
    return ", ".join(cells)


def draw_axes(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """OOD nMSE by the axes along which fields are flat: every part of `axes`, every seed."""
    metrics, errors = by_row(record, "fast")["axes"], {}
    for part, kind in itertools.product(curves.PARTS, AXES.values()):
        pair = [metrics[f"{part}/{kind}: {score} nmse"]["values"] for score in ("id", "ood")]
        errors.setdefault(part, {})[kind] = pair
    return plots.save(curves.axes_figure(errors), path)


REMEDIES = ("no remedy", "stripes", "penalty", "stripes and penalty")
DECODERS = {
    "mlp": "MLP",
    "cnn": "CNN",
    "transformer": "transformer",
    "pixel_mlp": "pixel-token MLP",
    "embed": "embedding network",
    "product": "product fields",
}


@plots.styled
def draw_decoders(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """OOD nMSE of six decoders on the donut, with and without remedies: every seed."""
    metrics = metrics_of(record, "table")
    fig = plots.new_figure(plots.PAGE, 3.9, layout="constrained")
    ax = fig.subplots()
    for i, net in enumerate(DECODERS):
        for name, metric in metrics.items():
            if not name.startswith(f"{net}/donut") or not name.endswith(": ood nmse"):
                continue
            has = ("stripes x1" in name) + 2 * (REMEDY in name or "null_axis" in name)
            values, label = metric["values"], REMEDIES[has] if net == "product" else ""
            at, colour = i + 0.18 * (has - 1.5), plots.COLOURS[has]
            id_errors = metrics[name.replace(": ood nmse", ": id nmse")]["values"]
            for value, id_error in zip(values, id_errors, strict=True):
                face = colour if id_error < CRITERION else "white"
                ax.plot(at, value, "o", color=colour, mfc=face, ms=3.5, alpha=0.6)
            ax.plot(at, np.median(values), "_", color=colour, ms=16, mew=2, label=label)
    ax.axhline(1, color=plots.GREY, lw=1, linestyle=":", label="a blank image")
    ax.set_xticks(range(len(DECODERS)), [name.replace(" ", "\n") for name in DECODERS.values()])
    ax.set(yscale="log", ylabel="OOD nMSE")
    ax.grid(axis="y", **plots.GRID)
    plots.legend_below(fig, ax)
    text = "dots: seeds, open if ID is not learned; dashes: medians"
    plots.headline(fig, f"Six decoders in the hole, on one budget ({text})")
    return plots.save(fig, path)


DEPTHS = (3, 5, 7)  # hidden layers of the MLPs of `entangling`


# --- entangling -----------------------------------------------------------------------------------


def entangling_table(record: list[dict], studies: dict) -> list:
    """ID nMSE, and F of the first and last hidden layer, by start, length and depth."""
    metrics = metrics_of(record, "entangling")
    title = "MLP of 3 layers: ID nMSE; F first, last layer"
    rows = [("starts at", "steps", title, "of 5", "of 7")]
    for start, length in itertools.product(("zero", "background"), (1260, 20160)):
        cells = []
        for depth in DEPTHS:
            prefix = f"depth_{depth}_{start}/after {length} steps: "
            names = ("id nmse", "F, layer 1", f"F, layer {depth}")
            error, first, last = (metrics[prefix + name]["ours"] for name in names)
            cells.append(f"{error:.2f}; {first:.2f}, {last:.2f}")
        rows.append((start, f"{length:,}", *cells))
    return rows


def lost(start: str, length: int):
    """A function that writes F of the first minus that of the last hidden layer, by depth."""

    def text(record: list[dict], studies: dict) -> str:
        metrics = metrics_of(record, "entangling")
        cells = []
        for depth in DEPTHS:
            values = metrics[f"depth_{depth}_{start}/after {length} steps: F lost"]["values"]
            mean, half = mean_and_interval(values)
            cells.append(f"{mean:.3f} ± {half:.3f}")
        return ", ".join(cells)

    return text


TABLES = {
    "code_widths": code_widths,
    "true_sum": true_sum,
    "sums": sums,
    "taus": taus,
    "striped": striped,
    "fade": fade,
    "matched": matched,
    "turned_rank": turned_rank,
    "networks": networks,
    "flatness": flatness_table,
    **{f"embed {cell}": of_embeddings(cell) for cell in EMBEDDING_CELLS},
    "axes_22": axes_22,
    "fixed_axes": fixed_axes,
    "axes_embed": axes_embed,
    "entangling": entangling_table,
    "lost_published": lost("zero", 1260),
    "lost_trained": lost("background", 20160),
}
PICTURES = {"bumps_axes.png": draw_axes, "bumps_decoders.png": draw_decoders}
