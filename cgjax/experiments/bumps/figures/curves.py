"""Scores against training step, layer, depth, width and share of data."""

import numpy as np
from matplotlib.ticker import NullFormatter

from cgjax import plots
from cgjax.analysis.stats import mean_and_interval, median_and_interval
from cgjax.experiments.bumps.figures.cells import (
    cells,
    number,
    of_how_many,
    parts,
    seeds,
    selected,
    words,
)
from cgjax.experiments.bumps.figures.pictures import bare, fitting, outline
from cgjax.experiments.bumps.studies import analyses

FEW = 8  # most curves that are labelled at their ends; above it, a legend
BLANK = {"color": plots.FAINT, "linewidth": 1, "linestyle": ":"}


def draw_training(arrays, folder) -> None:
    """ID and OOD nMSE over steps."""
    picked, panels = selected(arrays), {}
    for region, title in (("id", "ID"), ("ood", "OOD")):
        curves = {cell.label: cell.history(arrays, f"{region}_nmse") for cell in picked}
        if any(np.isfinite(values).any() for _, values in curves.values()):
            panels[f"{title} nMSE"] = {"curves": curves, "scale": "log"}
    colours = {cell.label: cell.colour for cell in picked}
    title = "Errors along training, dotted: a blank image" + of_how_many(arrays, picked)
    below = len(picked) > FEW
    fig = plots.learning_curves(panels, title, colours=colours, one_y=True, legend=below)
    for ax in fig.axes:
        ax.axhline(1, zorder=0, **BLANK)
    plots.save(fig, folder / "training.png")


# --- layers ---------------------------------------------------------------------------------------

R2_DRAWN = (-9, 0.9999)
BY_LAYER = {
    "F": ("factorization F", "linear"),
    "F_K": ("of the kernel, F_K", "linear"),
    "additive share": ("additive share", "linear"),
    "probe R2 hole": ("probe R2, held out (from −9)", "r2"),
}
RANKS = {"rank": ("rank (above 1e-3)", "log"), "components": ("components for 99 %", "log"),
         "F": BY_LAYER["F"], "probe R2": ("probe R2", "r2")}  # fmt: skip


def with_layers(arrays) -> list:
    """Cells with scores for each layer."""
    return [cell for cell in selected(arrays) if cell.key("layers", "scores") in arrays]


def draw_layers(arrays, folder, shown=BY_LAYER) -> None:
    """Scores of each layer, from the code to the image."""
    picked, panels = with_layers(arrays), {}
    for name, (title, scale) in shown.items():
        curves = {}
        for cell in picked:
            values = arrays[cell.key("layers", "scores")][:, :, analyses.SCORES.index(name)].T
            if scale == "r2":  # 1 for the code; unbounded below for a useless probe
                values = np.clip(values, *R2_DRAWN)
            if np.isfinite(values).any():
                curves[cell.label] = (np.arange(len(values)), values)
        if curves:
            panels[title] = {"curves": curves, "scale": scale}
    if not panels:
        return
    colours = {cell.label: cell.colour for cell in picked}
    title = "Layer by layer, from the code to the image" + of_how_many(arrays, picked)
    below = len(picked) > FEW
    fig = plots.learning_curves(panels, title, xlabel="layer", colours=colours, legend=below)
    plots.save(fig, folder / "layers.png")


@plots.styled
def draw_volume(arrays, folder) -> None:
    """log10 of the volume element of every layer, and the exact rank of the image's derivative."""
    picked = [cell for cell in with_layers(arrays) if cell.key("layers", "volume") in arrays]
    picked = picked[:6]  # rows that fit on a page
    if not picked:
        return
    volumes = [arrays[cell.key("layers", "volume")] for cell in picked]
    ranks = [arrays.get(cell.key("layers", "image_rank")) for cell in picked]
    columns = max(len(volume) for volume in volumes) + any(rank is not None for rank in ranks)
    fig = plots.new_figure(1.3 * columns + 0.6, 1.5 * len(picked) + 0.8, layout="constrained")
    axes = fig.subplots(len(picked), columns, squeeze=False)
    for ax in axes.flat:
        ax.set_visible(False)
    for row, cell, volume, rank in zip(axes, picked, volumes, ranks):
        n = volume.shape[-1]
        hole = cell.of(arrays, "is_ood").reshape(n, n)
        named = ["code", *(f"layer {i}" for i in range(1, len(volume) - 1)), "image"]
        for ax, name, log_volume in zip(row, named, volume):
            middle, spread = log_volume.mean(), max(3 * log_volume.std(), 1e-6)
            style = {"origin": "lower", "cmap": "viridis"}
            ax.imshow(log_volume, vmin=middle - spread, vmax=middle + spread, **style)
            _map(ax, hole, name)
        if rank is not None:
            ax = row[len(volume)]
            ax.imshow(rank.reshape(n, n), origin="lower", cmap="cividis", vmin=0, vmax=2)
            _map(ax, hole, f"rank, mean {rank.mean():.2g}")
        row[0].set_ylabel(plots.wrap(cell.label, 1.3, 8), fontsize=8)
    title = "Log volume element of each layer, mean ± 3 standard deviations"
    title += "; dashed: held out" * any(cell.of(arrays, "is_ood").any() for cell in picked)
    if any(rank is not None for rank in ranks):
        title += "; last: the rank of the image's derivative, 0 to 2"
    plots.headline(fig, title)
    plots.save(fig, folder / "volume.png")


def _map(ax, hole, name):
    ax.set_visible(True)
    outline(ax, hole)
    bare(ax)
    ax.set_title(name, fontsize=8)


@plots.styled
def draw_entangling(arrays, folder) -> None:
    """F of every hidden layer: one panel per depth and start, one line per length of training."""
    prefix = "entangling/"
    names = [name.removeprefix(prefix).split("/") for name in arrays if name.startswith(prefix)]
    every, lengths = parts(arrays), sorted({float(length) for _, length in names})
    starts = list(dict.fromkeys(part.split("_")[-1] for part in every))
    depths = list(dict.fromkeys(part.rpartition("_")[0] for part in every))
    fig = plots.new_figure(2.4 * len(depths) + 1.5, 2.2 * len(starts) + 0.8, layout="constrained")
    plots.headline(fig, "Factorization F by hidden layer, along training (every seed)")
    axes = fig.subplots(len(starts), len(depths), squeeze=False, sharey=True, sharex="col")
    colours = plots.shades(len(lengths))
    for (s, d), ax in np.ndenumerate(axes):
        part, ends = f"{depths[d]}_{starts[s]}", []
        for length, colour in zip(lengths, colours):
            values = arrays[f"{prefix}{part}/{length:g}"]  # [layers, seeds]
            layer = np.arange(1, len(values) + 1)
            ax.plot(layer, values, color=colour, lw=0.8, alpha=0.6)
            ax.plot(layer, values.mean(axis=1), "o", color=colour, ms=3.5)
            ends.append((layer[-1], values[-1].mean(), f"{length:,.0f} steps", colour))
        ax.set_title(f"{words(depths[d])}, starts at {starts[s]}", fontsize=8.5)
        ax.set_xticks(layer)
        ax.grid(axis="y", **plots.GRID)
        if d == len(depths) - 1:
            plots.label_ends(ax, ends)
    for ax in axes[-1]:
        ax.set_xlabel("hidden layer")
    for ax in axes[:, 0]:
        ax.set_ylabel("F")
    plots.save(fig, folder / "entangling.png")


# --- one number along an axis ---------------------------------------------------------------------


@plots.styled
def draw_along(arrays, path, xlabel: str, title: str) -> None:
    """ID and OOD MSE against the number at the end of part names, one colour per kind."""
    kinds = {}
    for cell in cells(arrays):
        kind, _, value = cell.part.rpartition("_")
        kinds.setdefault(kind, []).append((float(value), cell))
    fig = plots.new_figure(7.4, 3.5, layout="constrained")
    plots.headline(fig, title)
    axes = fig.subplots(1, 2, sharey=True)
    for ax, region in zip(axes, ("id", "ood")):
        ends = []
        for (kind, points), colour in zip(kinds.items(), plots.COLOURS):
            x = [value for value, _ in points]
            values = np.stack([cell.last(arrays, f"{region}_mse") for _, cell in points], axis=1)
            mean, error = mean_and_interval(np.log10(np.maximum(values, 1e-30)))
            low, high = 10 ** (mean - error), 10 ** (mean + error)
            ax.plot(x, values.T, ".", color=colour, ms=3, alpha=0.5)
            ax.plot(x, 10**mean, "o-", color=colour, ms=4, lw=1.6)
            ax.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
            ends.append((x[-1], 10 ** mean[-1], words(kind), colour))
        blank = np.mean(
            [
                cell.mean(arrays, f"{region}_mse") / cell.mean(arrays, f"{region}_nmse")
                for _, cell in points
            ]
        )
        ax.axhline(blank, **BLANK)
        ends.append((x[-1], blank, "a blank image", plots.GREY))
        ax.set(title=region.upper(), xlabel=xlabel, yscale="log")
        ticks = sorted({value for points in kinds.values() for value, _ in points})
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel("MSE")
    plots.label_ends(axes[1], ends)
    plots.save(fig, path)


def _interval(arrays, cell) -> str:
    """Text that explains lines and bands; one seed has no interval."""
    return seeds(arrays, cell, "mean of logs and 95 % interval of")


def draw_depth(arrays, folder) -> None:
    """Row B2: errors by depth."""
    first = cells(arrays)[0]
    title = f"Errors by depth ({_interval(arrays, first)})"
    draw_along(arrays, folder / "depth.png", "hidden layers", title)


def draw_code_width(arrays, folder) -> None:
    """Row B3: errors by width of the bumps in the code."""
    first = cells(arrays)[0]
    title = f"Errors by width of the code ({_interval(arrays, first)})"
    draw_along(arrays, folder / "code_width.png", "variance of the code's bumps, factor", title)


@plots.styled
def draw_by_width(arrays, folder) -> None:
    """OOD nMSE by width of the bump, one panel per region."""
    every = cells(arrays)
    if f"{every[0].prefix}sigmas" not in arrays:
        return
    regions = list(dict.fromkeys(str(cell.of(arrays, "cell/region")) for cell in every))
    fig = plots.new_figure(3.3 * len(regions) + 1.9, 3.4, layout="constrained")
    text = seeds(arrays, every[0], "median of")
    text += "; *: some seed did not learn ID" * any(cell.missed(arrays) for cell in every)
    plots.headline(fig, f"Errors in the hole, by width ({text})")
    axes = fig.subplots(1, len(regions), squeeze=False, sharey=True)[0]
    # Colours stand for decoder and stripes, which all panels share.
    kinds = list(dict.fromkeys((cell.part, int(cell.of(arrays, "cell/copies"))) for cell in every))
    colours = dict(zip(kinds, plots.COLOURS))
    for ax, region in zip(axes, regions):
        ends = []
        for cell in every:
            if str(cell.of(arrays, "cell/region")) != region:
                continue
            kind = cell.part, int(cell.of(arrays, "cell/copies"))
            sigmas = arrays[f"{cell.prefix}sigmas"]
            values = arrays[f"{cell.prefix}by_width/ood_nmse"][:, cell.place]
            ax.plot(sigmas, values.T, color=colours[kind], lw=0.7, alpha=0.4)
            median = np.median(values, axis=0)
            ax.plot(sigmas, median, "o-", color=colours[kind], lw=1.8, ms=4)
            name = f"{words(kind[0])}, {'stripes' if kind[1] else 'no stripes'}"
            name += "*" * cell.missed(arrays)
            ends.append((*plots.last_point(sigmas, median), name, colours[kind]))
        ax.axhline(1, **BLANK)
        ax.set(title=words(region), xlabel="width of the bump, sigma", yscale="log")
        ax.set_xticks(sigmas, [f"{sigma:g}" for sigma in sigmas])
        ax.set_xlim(sigmas[0] - 0.1, sigmas[-1] + 0.1)
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel("OOD nMSE")
    plots.label_ends(axes[-1], ends)
    plots.save(fig, folder / "widths.png")


# --- amount of data -------------------------------------------------------------------------------


def _stripes(copies) -> str:
    return "with stripes" if copies else "no stripes"


CRITERIA = {"position": "60 % at the right pixel", "error": "OOD nMSE below 0.5"}
CLAIMED = {"no stripes": 3, "with stripes": 1}  # powers of N


@plots.styled
def draw_needed(arrays, folder) -> None:
    """Bumps needed against the side of the image, and the claimed powers 3 and 1."""
    sides, tried = np.asarray(arrays["sides"], float), arrays["bumps"]
    fig = plots.new_figure(3.6 * len(CRITERIA) + 1.2, 3.9, layout="constrained")
    note = "open triangles: never reached (up), or by the smallest set already (down)"
    plots.headline(fig, f"Bumps needed, hole of {arrays['hole']:g} of the side; {note}")
    axes = fig.subplots(1, len(CRITERIA), squeeze=False, sharey=True)[0]
    for ax, (criterion, title) in zip(axes, CRITERIA.items()):
        ends = []
        for c, copies in enumerate(arrays["copies"]):
            values = arrays[f"needed/{criterion}"][:, :, c]  # [sizes, seeds]
            ends += _needed_by(ax, sides, values, tried, c, _stripes(copies))
        ax.set(title=title, xlabel="side of the image, N", xscale="log", yscale="log")
        ax.set_xticks(sides, [f"{side:g}" for side in sides])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel("bumps needed")
    plots.label_ends(axes[-1], ends)
    plots.save(fig, folder / "needed.png")


def _needed_by(ax, sides, values, tried, c, name) -> list:
    """Points and mean line of one kind of set, and the claimed slope; labels for their ends."""
    colour, is_known = plots.COLOURS[c], np.isfinite(values) & (values > 0)
    censored = {"^": (np.isinf(values), tried[-1]), "v": (values == 0, tried[0])}
    for side, some, known in zip(sides * (1 + 0.02 * (c - 0.5)), values, is_known):
        ax.plot(np.full(known.sum(), side), some[known], "o", color=colour, ms=4, alpha=0.6, mew=0)
    for mark, (is_censored, size) in censored.items():
        for side, count in zip(sides * (1 + 0.02 * (c - 0.5)), is_censored.sum(axis=1)):
            if count:
                ax.plot(side, size, mark, color=colour, mfc="none", ms=7)
                style = {"ha": "center", "fontsize": 6.5, "color": colour}
                text = f"{count} of {values.shape[1]}"
                ax.annotate(text, (side, size), (0, 6), textcoords="offset points", **style)
    whole = is_known.all(axis=1)
    means = np.full(len(sides), np.nan)
    means[whole] = np.exp(np.log(values[whole]).mean(axis=1))
    ax.plot(sides, means, color=colour, lw=1.6)
    end = (sides[-1], tried[-1] if np.isinf(values[-1]).any() else tried[0])
    ends = [(*(plots.last_point(sides, means) if whole[-1] else end), name, colour)]
    # The line of the claimed power starts at the first points.
    if not is_known.any():
        return ends
    line = np.median(values[is_known][:3]) * (sides / sides[0]) ** CLAIMED[name]
    ax.plot(sides, line, color=plots.FAINT, lw=1, linestyle="--", zorder=0)
    return [*ends, (sides[-1], line[-1], f"slope {CLAIMED[name]}", plots.GREY)]


@plots.styled
def draw_criteria(arrays, folder) -> None:
    """Exact positions and nMSE in the hole by number of bumps, which give the data needed."""
    sides, copies = arrays["sides"], arrays["copies"]
    fig = plots.new_figure(3.2 * len(copies) + 1.2, 5.5, layout="constrained")
    plots.headline(fig, "Scores in the hole by number of bumps (median over seeds)")
    axes = fig.subplots(len(CRITERIA), len(copies), squeeze=False, sharex=True, sharey="row")
    colours = plots.shades(len(sides))
    for row, (criterion, level) in zip(axes, {"position": 0.6, "error": 0.5}.items()):
        for c, ax in enumerate(row):
            ends = []
            for i, side in enumerate(sides):
                y = np.abs(np.median(arrays[f"needed/{criterion} score"][i, :, c], axis=0))
                ax.plot(arrays["bumps"], y, "o-", color=colours[i], ms=3, lw=1.4)
                ends.append((arrays["bumps"][-1], y[-1], f"N = {side}", colours[i]))
            ax.axhline(level, **BLANK)
            ax.set(xscale="log", yscale="log" if criterion == "error" else "linear")
            ax.set_title(_stripes(copies[c]))
            ax.grid(axis="y", **plots.GRID)
        row[0].set_ylabel("right pixel" if criterion == "position" else "OOD nMSE")
        plots.label_ends(row[-1], ends)
    for ax in axes[-1]:
        ax.set_xlabel("bumps")
    plots.save(fig, folder / "criteria.png")


@plots.styled
def draw_percolation(arrays, folder) -> None:
    """Position accuracy in the hole and the largest cluster of kept bumps, by the share kept."""
    every = parts(arrays)
    fig = plots.new_figure(3.1 * len(every) + 1.4, 3.4, layout="constrained")
    plots.headline(fig, "Placing bumps, and the clusters of those that are kept")
    axes = fig.subplots(1, len(every), squeeze=False, sharey=True)[0]
    for ax, part in zip(axes, every):
        prefix, first, second = f"{part}/" if part else "", *plots.COLOURS[:2]
        shares, accuracy = arrays[f"{prefix}shares"], arrays[f"{prefix}accuracy"]
        ratio, mean = arrays[f"{prefix}mass_ratio"], accuracy.mean(axis=0)
        ax.plot(shares, accuracy.T, color=first, lw=0.7, alpha=0.4)
        ax.plot(shares, mean, "o-", color=first, ms=4, lw=1.8)
        ax.plot(shares, ratio, "s--", color=second, ms=3.5, lw=1.5)
        ax.axhline(0.5, **BLANK)
        ax.set(title=words(part), xlabel="share of bumps kept", xscale="log", ylim=(-0.03, 1.05))
        ticks = shares[:: -(-len(shares) // 5)]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel("share")
    ends = [(shares[-1], mean[-1], "places right", first)]
    ends.append((shares[-1], ratio[-1], "largest cluster", second))
    plots.label_ends(axes[-1], ends)
    plots.save(fig, folder / "percolation.png")


# --- penalties ------------------------------------------------------------------------------------


SIDE = {"fontsize": 7, "color": plots.GREY}
# Columns beside the errors: title, score, format.
COLUMNS = (
    ("ID nMSE", "id_nmse", number),
    ("places", "ood_position_accuracy", "{:.0%}".format),
    ("rank one", "rank_one_share", "{:.2f}".format),
    ("flat", "flat_share", "{:.2f}".format),
)


@plots.styled
def draw_ablation(arrays, folder) -> None:
    """OOD nMSE of every penalty (median and its interval), rank and flatness of the fields."""
    every = cells(arrays)
    # Runs that precede the shares of energy do not have them.
    columns = [c for c in COLUMNS if f"{every[0].prefix}history/{c[1]}" in arrays]
    fig = plots.new_figure(8.2, 0.21 * len(every) + 1.3, layout="constrained")
    ax = fig.subplots()
    places, place, last = [], 0.0, every[0].part
    for cell in every:
        place += 1.5 if cell.part != last else 1.0
        last, values = cell.part, np.maximum(cell.last(arrays, "ood_nmse"), 1e-30)
        ax.plot(values, np.full(len(values), place), ".", color=cell.colour, ms=4, alpha=0.6)
        median, low, high = median_and_interval(values[np.isfinite(values)])
        ax.plot((low, high), (place, place), color=plots.INK, lw=1)
        missed = np.median(cell.last(arrays, "id_nmse")) > 0.1
        ax.plot(median, place, "o", color=plots.INK, mfc="white" if missed else plots.INK, ms=4.5)
        for i, (_, score, form) in enumerate(columns):
            at = ((1, place), (6 + 42 * i, 0), ("axes fraction", "data"), "offset points")
            text = form(np.median(cell.last(arrays, score)))
            ax.annotate(text, *at, va="center", annotation_clip=False, **SIDE)
        places.append(place)
    for i, (title, *_) in enumerate(columns):
        at = ((1, 1), (6 + 42 * i, 4), "axes fraction", "offset points")
        ax.annotate(title, *at, annotation_clip=False, **SIDE)
    ax.axvline(1, **BLANK)
    ax.set_yticks(places, [fitting(cell.label, 9) for cell in every], fontsize=7.5)
    ax.set(xscale="log", xlabel="OOD nMSE (dotted: a blank image)")
    ax.set_ylim(places[-1] + 0.8, places[0] - 0.8)
    ax.grid(axis="x", **plots.GRID)
    text = f"{seeds(arrays, every[0], 'medians of')}; open: ID nMSE above 0.1"
    plots.headline(fig, f"Which penalty composes ({text})")
    plots.save(fig, folder / "ablation.png")


# --- learned axes ---------------------------------------------------------------------------------

PARTS = {
    "angle_0": "bumps, 0°",
    "angle_22": "bumps, 22.5°",
    "angle_45": "bumps, 45°",
    "square_45": "squares, 45°",
    "disc_45": "discs, 45°",
    "permuted": "permuted pixels",
    "characters": "turned characters",
}
LEARNED_ID = 0.05  # ID nMSE below which a dot is filled


def draw_axes(arrays, folder) -> None:
    """OOD nMSE by the axes along which fields are flat: every seed."""
    errors = {}
    for name in arrays:
        if name.startswith("axes/") and name.endswith("/ood_nmse"):
            _, part, words, _ = name.split("/")
            id_errors = arrays[f"axes/{part}/{words}/id_nmse"]
            errors.setdefault(part, {})[words] = (id_errors, arrays[name])
    plots.save(axes_figure(errors), folder / "axes.png")


@plots.styled
def axes_figure(errors: dict):
    """A panel per part; errors {part: {axes: (ID, OOD) nMSE [seeds]}}."""
    shown = [part for part in PARTS if part in errors]
    columns = min(4, len(shown))
    lines = -(-len(shown) // columns)
    fig = plots.new_figure(plots.PAGE, 2.1 * lines + 1.2, layout="constrained")
    axes = fig.subplots(lines, columns, sharey=True, squeeze=False)
    kinds = list(dict.fromkeys(kind for part in shown for kind in errors[part]))
    for ax, part in zip(axes.flat, shown):
        for place, kind in enumerate(kinds):
            if kind not in errors[part]:
                continue
            colour = plots.COLOURS[kind == "learned axes"]
            for id_error, error in zip(*errors[part][kind]):
                face = colour if id_error < LEARNED_ID else "white"
                ax.plot(place, error, "o", color=colour, mfc=face, ms=4, alpha=0.7)
            ax.plot(place, np.median(errors[part][kind][1]), "_", color=plots.INK, ms=14)
        ax.axhline(1, **BLANK)
        ax.set(yscale="log", title=PARTS[part], xlim=(-0.6, len(kinds) - 0.4))
        ax.set_xticks(range(len(kinds)), kinds, rotation=60, ha="right")
        ax.grid(axis="y", **plots.GRID)
    for ax in axes.flat[len(shown) :]:
        ax.set_axis_off()
    for line in axes:
        line[0].set_ylabel("OOD nMSE")
    text = "open: ID not learned; dashes: medians; dotted: a blank image"
    plots.headline(fig, f"Flatness along learned axes (orange) and others; {text}")
    return fig
