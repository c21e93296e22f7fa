"""Images of decoders: examples, maps of errors, fields, sums, a moving bump, other tasks."""

import pathlib

import matplotlib
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from cgjax import plots
from cgjax.experiments.bumps.figures.cells import (
    cells,
    number,
    of_how_many,
    parts,
    seeds,
    selected,
    words,
)


def shown(images) -> np.ndarray:
    """Images [..., n, n] in the layout of image grids; origin at the lower left as in the paper."""
    return np.asarray(images)[..., ::-1, :, None]


def spots(arrays, cell, images) -> np.ndarray:
    """Images with bright spots: a white background would have no visible border on a page."""
    return shown(1 - images if arrays.get(f"{cell.prefix}inverted", False) else images)


def scores(arrays, cell) -> str:
    """A cell's scores as text, ID before OOD."""
    means = [cell.mean(arrays, f"{region}_nmse") for region in ("id", "ood")]
    placed = cell.mean(arrays, "ood_position_accuracy")
    text = f"nMSE ID {number(means[0])}, OOD {number(means[1])}\n{placed:.0%} of places right"
    return text if np.isfinite(means[1]) else f"nMSE {number(means[0])}"


FAILS = 0.1  # OOD nMSE from which images are also shown at full contrast


def draw_examples(arrays, folder) -> None:
    """Truth and painted images at four places; images that fail also at full contrast.

    The faint sums of images that a decoder paints in the hole are invisible between 0 and 1.
    """
    picked, blocks = selected(arrays), {}
    for cell in picked:
        truth, at = cell.of(arrays, "example_truth"), cell.of(arrays, "example_xy")
        block = blocks.setdefault(
            truth.tobytes(), plots.Block({"truth": spots(arrays, cell, truth)}, notes={})
        )
        columns = tuple(f"({x:.3g}, {y:.3g})" for x, y in at)
        painted = spots(arrays, cell, cell.of(arrays, "example_painted"))
        block.rows[cell.label] = painted
        block.notes[cell.label] = scores(arrays, cell)
        if cell.mean(arrays, "ood_nmse") > FAILS:
            largest = np.abs(painted).max(axis=(1, 2, 3), keepdims=True)
            block.rows[f"{cell.label}, contrast"] = painted / np.where(largest, largest, 1)
            block.notes[f"{cell.label}, contrast"] = "each image divided by its maximum"
        blocks[truth.tobytes()] = block._replace(columns=columns)
    held_out = any(cell.of(arrays, "is_ood").any() for cell in picked)
    by = seeds(arrays, picked[0], "the first of")
    title = f"Painted at four {'held-out ' * held_out}places ({by}{of_how_many(arrays, picked)})"
    size = 84 if len(picked) <= 8 else 56
    plots.save(plots.image_grid(list(blocks.values()), title, 900, size), folder / "examples.png")


SIDE = 84  # pixels of an image on the page


def draw_matrix(arrays, folder, rows: dict, columns: tuple, title: str) -> None:
    """One held-out place as painted by each of many cells.

    rows {label: cells}, one cell per column; the first image is the truth of the row's last cell.
    """
    strips = {}
    for label, row in rows.items():
        painted = [cell.of(arrays, "example_painted")[0] for cell in row]
        truth = row[-1].of(arrays, "example_truth")[0]
        images = spots(arrays, row[-1], np.stack([truth, *painted]))
        # All images are enlarged to one size: rows of small images have no room for labels.
        at = np.arange(SIDE) * images.shape[1] // SIDE
        strips[label] = images[:, at][:, :, at]
    block = plots.Block(strips, columns=("truth", *columns))
    plots.save(plots.image_grid([block], title, 1100, SIDE), folder / "examples.png")


# --- maps -----------------------------------------------------------------------------------------


def outline(ax, is_ood) -> None:
    """A dashed line around the held-out points, is_ood [n, n]."""
    n = len(is_ood)
    padded = np.pad(is_ood, 1)
    edges = []
    for y, x in np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1]):
        edges.append(((x - 0.5, x + 0.5), (y - 0.5, y - 0.5)))
    for y, x in np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1]):
        edges.append(((x - 0.5, x - 0.5), (y - 0.5, y + 0.5)))
    # NaN separates the edges, so that the line does not join distant ones.
    across = [value for xs, _ in edges for value in (*xs, np.nan)]
    up = [value for _, ys in edges for value in (*ys, np.nan)]
    for colour, width, style in (("white", 1.6, "-"), (plots.INK, 1.0, (0, (2, 2)))):
        ax.plot(across, up, color=colour, lw=width, linestyle=style, clip_on=False)
    ax.set(xlim=(-0.5, n - 0.5), ylim=(-0.5, n - 0.5))


def panels(n: int, width: float, height: float, columns: int, **options):
    """A figure with n axes in rows of at most `columns`."""
    rows = -(-n // columns)
    columns = -(-n // rows)
    size = max(width * columns + 0.9, 5.2), height * rows + 0.7
    fig = plots.new_figure(*size, layout="constrained")
    axes = fig.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.flat[n:]:
        ax.set_visible(False)
    return fig, axes.flat[:n]


def fitting(label: str, width: float) -> str:
    """A panel's title in lines that fit its width in inches."""
    return plots.wrap(label, width, 8.5, "bold")


def bare(ax) -> None:
    """Removes ticks and frame."""
    ax.set(xticks=(), yticks=(), box_aspect=1)
    ax.spines[:].set_visible(False)


@plots.styled
def draw_errors(arrays, folder) -> None:
    """MSE at every point of the grid for each cell, with one colour scale."""
    picked = selected(arrays)
    sides = [cell.of(arrays, "example_truth").shape[-1] for cell in picked]
    widths = arrays.get(f"{picked[0].prefix}sigmas", (1,))
    # With several widths, the largest: it is held out wherever another width is.
    maps = [cell.of(arrays, "errors")[-n * n :].reshape(n, n) for cell, n in zip(picked, sides)]
    top = max(error_map[np.isfinite(error_map)].max(initial=0) for error_map in maps) or 1.0
    bottom = min(error_map[np.isfinite(error_map)].min(initial=top) for error_map in maps)
    scale = LogNorm(min(max(bottom, 1e-4 * top), 0.1 * top), top)
    fig, axes = panels(len(picked), 1.85, 2.35, 6 if len(picked) > 4 else 4)
    for ax, cell, error_map, n in zip(axes, picked, maps, sides):
        image = ax.imshow(
            np.maximum(error_map, scale.vmin), origin="lower", cmap="viridis", norm=scale
        )
        outline(ax, cell.of(arrays, "is_ood")[-n * n :].reshape(n, n))
        bare(ax)
        ax.set_title(fitting(cell.label, 1.6), fontsize=8.5)
        ax.set_xlabel(scores(arrays, cell), fontsize=7.5, color=plots.GREY)
    bar = fig.colorbar(image, ax=list(axes), label="MSE", shrink=0.8, pad=0.02, extend="min")
    bar.outline.set_visible(False)
    dashed = "; dashed: held out" * any(cell.of(arrays, "is_ood").any() for cell in picked)
    text = f"Errors at every place ({seeds(arrays, picked[0], 'mean of')}{dashed})"
    text += "; the widest bumps" * (len(widths) > 1) + of_how_many(arrays, picked)
    plots.headline(fig, text)
    plots.save(fig, folder / "errors.png")


# --- fields ---------------------------------------------------------------------------------------


def draw_fields(arrays, folder) -> None:
    """Fields of every value of x and of y; with several parts, those of each part's best cell."""
    every, picked = cells(arrays), []
    with_fields = [part for part in parts(arrays) if f"{part}/fields".lstrip("/") in arrays]
    for part in with_fields:
        prefix = f"{part}/" if part else ""
        field_cells = arrays.get(f"{prefix}field_cells", range(len(arrays[f"{prefix}fields"])))
        of_part = [
            (i, cell)
            for i, c in enumerate(field_cells)
            for cell in every
            if cell.prefix == prefix and cell.place == c
        ]
        of_part.sort(key=lambda pair: pair[1].mean(arrays, "ood_nmse"), reverse=True)
        picked += of_part if len(with_fields) == 1 else of_part[-1:]
    if not picked:
        return
    blocks = []
    for i, cell in picked:
        fields, n = arrays[f"{cell.prefix}fields"][i], cell.of(arrays, "example_truth").shape[-1]
        # A figure of one or two networks shows every value, a figure of more shows twelve.
        values = np.arange(n)
        if len(picked) > 2:
            values = np.unique(np.linspace(1, n - 2, 12).round().astype(int))
        rows, name = {}, f"{cell.label}\n"
        for factor, field in zip("xy", fields):
            for some in np.array_split(values, 1 if len(values) <= 16 else 2):
                rows[f"{name}{factor} = {some[0]} to {some[-1]}"] = signed(field[some])
                name = ""
        blocks.append(plots.Block(rows))
    title = "Fields of x and of y (orange below zero, purple above)"
    title += "; each part's best cell" * (len(with_fields) > 1)
    plots.save(plots.image_grid(blocks, title, 1100, 64), folder / "fields.png")


def signed(images) -> np.ndarray:
    """Signed images [m, n, n] as colours, each scaled by its largest absolute value."""
    largest = np.abs(images).max(axis=(1, 2), keepdims=True)
    share = 0.5 + 0.5 * images / np.where(largest, largest, 1)
    # Slightly darker than white, so that the border of an image is visible.
    return 0.93 * matplotlib.colormaps["PuOr"](share)[:, ::-1, :, :3]


# --- kernels --------------------------------------------------------------------------------------

KINDS = ("factorised", "radial", "additive", "binary")


def with_kernels(arrays) -> list:
    """Cells with fitted kernels."""
    return [cell for cell in cells(arrays) if cell.key("kernels", "cosine") in arrays]


@plots.styled
def draw_kernels(arrays, folder) -> None:
    """Error between fitted kernels and a network's images: everywhere, ID and OOD."""
    picked = with_kernels(arrays)
    fig = plots.new_figure(3.6 * len(picked) + 0.6, 3.7, layout="constrained")
    axes = fig.subplots(1, len(picked), squeeze=False, sharey=True)[0]
    for ax, cell in zip(axes, picked):
        is_ood = cell.of(arrays, "is_ood")
        regions = {"all": slice(None), "ID": ~is_ood, "OOD": is_ood}
        ticks = []
        for k, kind in enumerate(KINDS):
            errors = arrays[cell.key("kernels", f"{kind}/errors")]
            for r, (region, where) in enumerate(regions.items()):
                place, colour = k + 0.27 * (r - 1), (plots.FAINT, *plots.COLOURS[:2])[r]
                ax.bar(place, errors[where].mean(), 0.25, color=colour, label=region * (k == 0))
            lengths = arrays[cell.key("kernels", f"{kind}/lengths")]
            name = "k2 / k1" if kind == "binary" else "length"
            ticks.append(f"{kind}\n{name} {', '.join(f'{length:g}' for length in lengths)}")
        ax.set_xticks(range(len(KINDS)), ticks, fontsize=7)
        ax.set_title(fitting(cell.label, 3.4))
        ax.grid(axis="y", **plots.GRID)
        ax.set_axisbelow(True)
    # Kernels that interpolate the training points have a negligible ID error, hence no bar.
    top = max(ax.dataLim.ymax for ax in axes)
    axes[0].set(yscale="log", ylim=(1e-4 * top, 2 * top), ylabel="MSE, kernel against network")
    plots.legend_below(fig, axes[0])
    plots.headline(fig, "Kernels fitted to a network's own images (first seed)")
    plots.save(fig, folder / "kernels.png")


LIKENESS = {"cosine": "cosine", "distance": "distance", "overlap": "overlap of pixels"}


@plots.styled
def draw_similarity(arrays, folder) -> None:
    """Similarity of all painted images, trained places first."""
    picked = with_kernels(arrays)
    fig = plots.new_figure(8.6, 2.75 * len(picked) + 0.4, layout="constrained")
    axes = fig.subplots(len(picked), len(LIKENESS), squeeze=False)
    for row, cell in zip(axes, picked):
        n, n_ood = len(cell.of(arrays, "is_ood")), int(cell.of(arrays, "is_ood").sum())
        split = n - n_ood - 0.5
        for ax, (key, name) in zip(row, LIKENESS.items()):
            image = ax.imshow(arrays[cell.key("kernels", key)], cmap="viridis")
            ax.axhline(split, color="white", lw=1)
            ax.axvline(split, color="white", lw=1)
            bare(ax)
            middles = ((n - n_ood) / 2, n - n_ood / 2)
            ax.set_xticks(middles, ("ID", "OOD"), fontsize=7.5)
            ax.set_yticks(middles, ("ID", "OOD"), fontsize=7.5)
            ax.tick_params(length=0)
            ax.set_title(name if ax is not row[0] else f"{cell.label}: {name}", fontsize=9)
            bar = fig.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
            bar.outline.set_visible(False)
    plots.headline(fig, "Likeness of the images that a network paints, place by place")
    plots.save(fig, folder / "similarity.png")


def draw_kernel_examples(arrays, folder) -> None:
    """Images of fitted kernels, and of a network's own tangent kernel, at the four places."""
    blocks = []
    for cell in with_kernels(arrays):
        rows = {"truth": cell.of(arrays, "example_truth")}
        rows["network"] = cell.of(arrays, "example_painted")
        notes = {"network": scores(arrays, cell)}
        for kind in KINDS:
            rows[f"{kind} kernel"] = arrays[cell.key("kernels", f"{kind}/examples")]
        if cell.key("tangent", "examples") in arrays:
            rows["its tangent kernel"] = arrays[cell.key("tangent", "examples")]
        if cell.key("accounts", "binary") in arrays:
            rows["binary kernel, of the data"] = arrays[cell.key("accounts", "binary")]
        columns = tuple(f"({x:.3g}, {y:.3g})" for x, y in cell.of(arrays, "example_xy"))
        rows = {label: spots(arrays, cell, images) for label, images in rows.items()}
        blocks.append(plots.Block(rows, words(cell.label), columns, notes))
    title = "Networks and kernels at four held-out places (fitted to the network, first seed)"
    plots.save(plots.image_grid(blocks, title, 900, 64), folder / "kernel_examples.png")


def draw_superposition(arrays, folder) -> None:
    """Held-out images beside sums of training images and images of one factor alone."""
    blocks = []
    for cell in with_kernels(arrays):
        rows = {"truth": spots(arrays, cell, cell.of(arrays, "example_truth"))}
        rows["network"] = spots(arrays, cell, cell.of(arrays, "example_painted"))
        # Sums have the background removed: a sum of backgrounds is not an image.
        summed = shown(arrays[cell.key("kernels", "shared_sum")])
        rows["sum of trained images\nthat share x or y"] = summed
        if cell.key("kernels", "isolated") in arrays:
            alone = shown(arrays[cell.key("kernels", "isolated")])
            rows |= dict(zip(("network, x alone", "network, y alone", "sum of the two"), alone))
        columns = tuple(f"({x:.3g}, {y:.3g})" for x, y in cell.of(arrays, "example_xy"))
        notes = {"network": scores(arrays, cell)}
        blocks.append(plots.Block(rows, words(cell.label), columns, notes))
    title = "Images in the hole beside sums of images (spots bright, sums over their maximum)"
    plots.save(plots.image_grid(blocks, title, 900, 64), folder / "superposition.png")


# --- a moving bump --------------------------------------------------------------------------------


@plots.styled
def draw_sweep(arrays, folder) -> None:
    """A GIF of a bump that moves along one row through the hole, by the worst and best cell."""
    swept = [cell for cell in cells(arrays) if f"{cell.prefix}sweep_painted" in arrays]
    if not swept:
        return
    swept.sort(key=lambda cell: cell.mean(arrays, "ood_nmse"))
    best, worst = swept[0], swept[-1]
    rows = {"truth": (best.of(arrays, "sweep_truth"), "")}
    for cell in (worst, best) if best != worst else (best,):
        note = f"OOD nMSE {number(cell.mean(arrays, 'ood_nmse'))}"
        rows[cell.label] = (cell.of(arrays, "sweep_painted"), note)
    held_out = best.of(arrays, "sweep_is_ood")
    fig = plots.new_figure(2.05 * len(rows), 2.75, dpi=100)
    title = fig.text(0.5, 0.955, "", ha="center", va="center", **plots.HEADLINE)
    images = []
    for i, (label, (painted, note)) in enumerate(rows.items()):
        ax = fig.add_axes(((i + 0.03) / len(rows), 0.04, 0.94 / len(rows), 0.70))
        style = {"origin": "lower", "cmap": "gray", "vmin": 0, "vmax": 1}
        images.append((ax.imshow(painted[0], **style), painted))
        bare(ax)
        ax.set_title("\n".join(filter(None, (fitting(label, 1.9), note))), fontsize=8)

    def show(frame):
        title.set_text("held out" if held_out[frame] else "trained")
        title.set_color(plots.COLOURS[1] if held_out[frame] else plots.COLOURS[0])
        for image, painted in images:
            image.set_data(painted[frame])

    plots.save_frames(fig, show, len(held_out), folder / "sweep.gif")


WORDS = {
    "cnn": "CNN (the paper's)",
    "pixel_mlp": "pixel-token MLP",
    "equivariant": "equivariant (control)",
    "unnamed": "CNN, digit unnamed",
    "named": "CNN, digit named",
    "named_equivariant": "equivariant, named",
    "bump": "bump code",
    "onehot": "one-hot code",
    "ramp": "ramp",
}
# Order of parts in figures: the paper's network first, the control last.
ORDER = tuple(WORDS)


def _parts(arrays: dict) -> list[str]:
    names = [str(name) for name in arrays["parts"]]
    return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def _of(arrays: dict, part: str) -> dict:
    """The arrays of one part, without its prefix."""
    prefix = f"{part}/" if part else ""
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def _label(part: str) -> str:
    return WORDS.get(part, part or "network")


# --- the rotating digit ---------------------------------------------------------------------------


def draw_turning(arrays: dict, folder: pathlib.Path) -> None:
    """Images in the gap, errors at all angles, layers by angle."""
    parts = {name: _of(arrays, name) for name in _parts(arrays)}
    plots.save(_in_the_gap(parts), folder / "gap.png")
    plots.save(_around(parts), folder / "around.png")
    plots.save(_layers(parts), folder / "layers.png")


def _in_the_gap(parts: dict):
    """Truth and cross-fade above each network's images."""
    first = next(iter(parts.values()))
    degrees = first["shown_degrees"]
    given = {"rotation": first["shown_truth"], "cross-fade": first["shown_fade"]}
    painted = {_label(name): saved["shown_painted"] for name, saved in parts.items()}
    notes = {}
    for name, saved in parts.items():
        fade, mixture, truth = saved["accounts"].mean(axis=0)
        notes[_label(name)] = (
            f"R² of cross-fade {fade:.2f}\nof mixtures {mixture:.2f}\nof rotation {truth:.2f}"
        )
    columns = tuple(f"{angle:.0f}°" for angle in degrees)
    low, high = first["gap"]
    blocks = [
        plots.Block(_with_channel(given), "given", columns),
        plots.Block(_with_channel(painted), "painted", notes=notes),
    ]
    title = (
        f"In the gap from {low:.0f}° to {high:.0f}°, which no network was shown: rotated on, or "
        "faded from one edge to the other? (first seed; R² of all seeds)"
    )
    return plots.image_grid(blocks, title, width=1700)


def _with_channel(rows: dict) -> dict:
    return {name: np.asarray(images)[..., None] for name, images in rows.items()}


@plots.styled
def _around(parts: dict):
    """Error against angle, the gap shaded; log scale."""
    fig = plots.new_figure(7.2, 3.3, layout="constrained")
    ax = fig.subplots()
    first = next(iter(parts.values()))
    ax.axvspan(*first["gap"], color="#eef0f3", linewidth=0)
    ends = []
    for (name, saved), colour in zip(parts.items(), plots.COLOURS):
        x, y = saved["around_degrees"], np.asarray(saved["around_errors"])
        if len(y) > 1:
            ax.plot(x, y.T, color=colour, linewidth=0.6, alpha=0.4)
        middle = np.median(y, axis=0)
        ax.plot(x, middle, color=colour, linewidth=1.6)
        ends.append((x[-1], middle[-1], _label(name), colour))
    fade = np.where(first["fade_errors"] > 1e-9, first["fade_errors"], np.nan)  # 0 at the edges
    look = {"color": plots.INK, "linestyle": "--", "linewidth": 1.2}
    ax.plot(first["fade_degrees"], fade, label="cross-fade of the edges", **look)
    ax.set(yscale="log", xlim=(0, 359), xticks=range(0, 360, 45), xlabel="angle (degrees)")
    ax.set_ylabel("MSE to the true rotation")
    ax.grid(axis="y", **plots.GRID)
    ax.legend(loc="upper left", fontsize=8)
    n = len(first["around_errors"])
    seeds = " (one seed)" if n == 1 else f" ({n} seeds thin, their median thick)"
    plots.headline(fig, "Error all around; shaded, the angles that were held out" + seeds)
    plots.label_ends(ax, ends)
    return fig


@plots.styled
def _layers(parts: dict):
    """Two principal components of each layer, coloured by angle; rings are in the gap."""
    counts = {name: sum(f"layer_{i}" in saved for i in range(99)) for name, saved in parts.items()}
    columns = max(counts.values())
    fig = plots.new_figure(1.75 * columns + 2.0, 1.85 * len(parts) + 0.6, layout="constrained")
    axes = fig.subplots(len(parts), columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for row, (name, saved) in zip(axes, parts.items()):
        degrees, (low, high) = saved["layer_degrees"], saved["gap"]
        inside = (degrees >= low) & (degrees <= high)
        for i, ax in enumerate(row[: counts[name]]):
            points, shares = saved[f"layer_{i}"], saved[f"layer_{i}_shares"]
            ax.set_axis_on()
            look = {"cmap": "hsv", "vmin": 0, "vmax": 360}
            dots = ax.scatter(*points.T, c=degrees, s=9, linewidths=0, **look)
            look |= {"edgecolors": plots.INK, "linewidths": 0.6}
            ax.scatter(*points[inside].T, c=degrees[inside], s=18, **look)
            ax.set(xticks=(), yticks=(), aspect="equal", adjustable="datalim")
            layer_name = "image" if i == counts[name] - 1 else f"layer {i + 1}"
            ax.set_title(f"{layer_name}: {shares.sum():.0%}", fontsize=8, fontweight="normal")
        row[0].set_ylabel(plots.wrap(_label(name), 1.4), fontsize=9)
    bar = fig.colorbar(dots, ax=list(axes.flat), label="angle (degrees)", fraction=0.03, pad=0.02)
    bar.set_ticks(range(0, 361, 90))
    bar.outline.set_visible(False)
    title = (
        "Two principal components of each layer and their share of its variance; ringed, the gap"
    )
    plots.headline(fig, title)
    return fig


# --- the inverse task -----------------------------------------------------------------------------


def draw_inverse(arrays: dict, folder: pathlib.Path) -> None:
    """Errors over the grid, predicted positions of bumps, examples from the hole."""
    parts = {name: _of(arrays, name) for name in _parts(arrays)}
    plots.save(_error_maps(parts), folder / "errors.png")
    plots.save(_positions(parts), folder / "positions.png")
    plots.save(_examples(parts), folder / "examples.png")


def _outline(ax, is_ood):
    """A dashed line around the held-out places."""
    fine = is_ood.astype(float).repeat(16, axis=0).repeat(16, axis=1)  # contours cut corners
    place = (np.arange(len(fine)) + 0.5) / 16 - 0.5
    ax.contour(place, place, fine, levels=[0.5], colors="white", linestyles="--", linewidths=1)


@plots.styled
def _error_maps(parts: dict):
    """MSE of the code at every place, each part on its own scale."""
    fig = plots.new_figure(3.7 * len(parts), 3.7, layout="constrained")
    for ax, (name, saved) in zip(fig.subplots(1, len(parts), squeeze=False)[0], parts.items()):
        image = ax.imshow(saved["errors"], origin="lower", cmap="viridis")
        _outline(ax, saved["is_ood"])
        ax.set(title=_label(name), xlabel="x", ylabel="y")
        ax.spines[:].set_visible(False)
        bar = fig.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
        bar.formatter.set_powerlimits((-2, 3))
        bar.outline.set_visible(False)
    plots.headline(fig, "Inverse task: MSE of the code at every place (dashed: held out)")
    return fig


@plots.styled
def _positions(parts: dict):
    """Lines from each bump's true position to the one predicted by the first seed's encoder."""
    fig = plots.new_figure(3.5 * len(parts), 4.4, layout="constrained")
    axes = fig.subplots(1, len(parts), squeeze=False, sharex=True, sharey=True)[0]
    for ax, (name, saved) in zip(axes, parts.items()):
        xy, read, is_ood = saved["xy"], saved["positions"], saved["is_ood"].reshape(-1)
        for where, colour in ((~is_ood, plots.FAINT), (is_ood, plots.COLOURS[1])):
            ends = np.stack([xy[where], read[where]])
            ax.plot(*np.moveaxis(ends, -1, 0), color=colour, linewidth=0.7)
            ax.plot(*read[where].T, ".", color=colour, markersize=2.5)
        ax.set(title=_label(name), xlabel="x", box_aspect=1)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("y")
    looks = ((plots.FAINT, "trained"), (plots.COLOURS[1], "held out"))
    handles = [Line2D([], [], color=colour, marker=".", label=label) for colour, label in looks]
    fig.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    plots.headline(fig, "Where encoders say a bump is (dots), joined to where it is (first seed)")
    return fig


@plots.styled
def _examples(parts: dict):
    """Images from the hole with predicted positions, and predicted codes."""
    first = next(iter(parts.values()))
    n_shown, n = len(first["example_images"]), first["example_images"].shape[-1]
    coded = {
        name: saved for name, saved in parts.items() if saved["example_codes"].shape[1] == 2 * n
    }
    rows = 1 + len(coded)
    fig = plots.new_figure(2.1 * n_shown, 2.4 + 1.7 * len(coded), layout="constrained")
    axes = fig.subplots(rows, n_shown, squeeze=False, height_ratios=[2.1] + [1.4] * len(coded))
    for i, ax in enumerate(axes[0]):
        x, y = first["example_xy"][i]
        ax.imshow(first["example_images"][i], cmap="gray", origin="lower", vmin=0, vmax=1)
        for (name, saved), colour, marker in zip(parts.items(), plots.COLOURS[1:], "xo^"):
            place = saved["positions"][np.flatnonzero((saved["xy"] == (x, y)).all(axis=1))[0]]
            face = {"markerfacecolor": "none"} if marker != "x" else {}
            ax.plot(
                *place,
                marker,
                color=colour,
                markersize=8,
                markeredgewidth=1.5,
                label=_label(name),
                clip_on=False,
                **face,
            )
        ax.set(
            xticks=(),
            yticks=(),
            title=f"x = {x}, y = {y}",
            xlim=(-0.5, n - 0.5),
            ylim=(-0.5, n - 0.5),
        )
        ax.spines[:].set_visible(False)
    for row, (name, saved) in zip(axes[1:], coded.items()):
        for i, ax in enumerate(row):
            halves = zip(
                saved["example_codes"][i].reshape(2, n), saved["example_read"][i].reshape(2, n)
            )
            for (truth, read), colour, half in zip(halves, plots.COLOURS[::3], "xy"):
                ax.plot(truth, color=colour, linestyle=":", linewidth=1)
                ax.plot(read, color=colour, linewidth=1.5, label=f"{half} as read (dotted: right)")
            ax.set(ylim=(-0.5, 1.3), xlabel="unit", yticks=(0, 1))
            if i:
                ax.set_yticklabels([])
        row[0].set_ylabel(_label(name))
    handles = [ax.get_legend_handles_labels() for ax in axes[:, 0]]
    fig.legend(
        *(sum(group, []) for group in zip(*handles)),
        loc="outside lower center",
        ncols=4,
        fontsize=8,
    )
    plots.headline(fig, "Bumps from the hole: places and codes that encoders read (first seed)")
    return fig
