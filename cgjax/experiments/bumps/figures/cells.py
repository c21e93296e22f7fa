"""Names and colours of a row's cells, the same in all its figures; heat maps over two axes."""

import re
from typing import NamedTuple

import numpy as np
from matplotlib.colors import LogNorm, Normalize

from cgjax import plots

MOST = 16  # most cells with a separate line or row of images


class Cell(NamedTuple):
    """One cell of one part."""

    prefix: str  # of the names of its arrays
    place: int  # index along the cell axis of these arrays
    part: str
    label: str
    colour: str

    def of(self, arrays, name: str) -> np.ndarray:
        """The cell's entry of an array [cells, ...]."""
        return arrays[self.prefix + name][self.place]

    def key(self, analysis: str, name: str) -> str:
        """The name of an array of one analysis."""
        return f"{self.prefix}{analysis}/{self.place}/{name}"

    def history(self, arrays, score: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps [m] and a score [m, seeds]."""
        steps = arrays[f"{self.prefix}history/step"]
        return steps, arrays[f"{self.prefix}history/{score}"][:, :, self.place]

    def last(self, arrays, score: str) -> np.ndarray:
        """A score after training [seeds]."""
        return self.history(arrays, score)[1][-1]

    def mean(self, arrays, score: str) -> float:
        """Mean over seeds of a score after training."""
        return float(self.last(arrays, score).mean())

    def missed(self, arrays) -> bool:
        """Whether some seed never reached the ID criterion; False without a criterion."""
        stop = float(arrays.get(f"{self.prefix}criterion", 0.0))
        return bool(stop and (self.last(arrays, "id_nmse") >= stop).any())


def words(name: str) -> str:
    """Readable names: "donut_6_22, stripes x0" is "donut 6–22, no stripes"."""
    name = re.sub(r"(?<=[a-z]_)(\d+)_(\d+)", r"\1–\2", name)
    name = name.replace("stripes x0", "no stripes").replace("stripes x1", "stripes")
    return re.sub(r"stripes x(\d)", r"stripes ×\1", name).replace("_", " ")


def natural(name: str) -> list:
    """Sort key that puts "cnn_10" after "cnn_2"."""
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d+)", str(name))]


# Order of parts by the beginning of their names: decoders as in the table, widths by size.
ORDER = ("mlp", "cnn", "pixel", "transformer", "embed", "product", "narrow", "middle", "wide")


def parts(arrays) -> list[str]:
    """The row's parts, sorted by decoder and by the numbers in their names."""

    def place(part):
        known = [i for i, name in enumerate(ORDER) if part.startswith(name)]
        return (*known, len(ORDER))[0], natural(part)

    return sorted((str(part) for part in arrays["parts"]), key=place)


def cells(arrays) -> list[Cell]:
    """Every cell of the row."""
    cell_list = []
    for part in parts(arrays):
        prefix = f"{part}/" if part else ""
        for place, name in enumerate(arrays[f"{prefix}cells"]):
            label = ", ".join(words(word) for word in (part, str(name)) if word)
            label = label or words(str(arrays.get(f"{prefix}model", "the network")))
            cell_list.append(Cell(prefix, place, part, label, ""))
    return [
        cell._replace(colour=colour) for cell, colour in zip(cell_list, _colours(arrays, cell_list))
    ]


def _colours(arrays, cell_list: list[Cell]) -> list[str]:
    """One colour per cell; with too many cells, one hue per kind of part, in shades.

    If figures show only some cells, shades are assigned within each region, so that the cells shown
    are distinguishable.
    """
    if len(cell_list) <= len(plots.COLOURS):
        return list(plots.COLOURS[: len(cell_list)])
    kinds = [cell.part.split("_")[0] for cell in cell_list]
    hues = dict(zip(dict.fromkeys(kinds), plots.COLOURS))
    if len(set(kinds)) == 1 or len(hues) < len(set(kinds)):
        return plots.shades(len(cell_list))
    groups = {}
    for i, (kind, cell) in enumerate(zip(kinds, cell_list)):
        regions = arrays.get(f"{cell.prefix}cell/region")
        region = str(regions[cell.place]) if regions is not None and len(cell_list) > MOST else ""
        groups.setdefault((kind, region), []).append(i)
    colours = [""] * len(cell_list)
    for (kind, _), places in groups.items():
        light, dark = (
            plots.shades(3, "#ffffff", hues[kind])[1],
            plots.shades(4, hues[kind], "#000")[1],
        )
        for i, colour in zip(places, plots.shades(len(places), light, dark)):
            colours[i] = colour
    return colours


def selected(arrays, most: int = MOST) -> list[Cell]:
    """All cells if there are at most `most`, otherwise a selection.

    The selection is the cells of the first and last region, or of the first region, or the best and
    worst (or only the best) cell of each part: the first of these that fits.
    """
    every = cells(arrays)
    if len(every) <= most:
        return every
    for ends in ((0, -1), (0,)):
        some = [cell for cell in every if _in_region(arrays, cell, ends)]
        if len(some) <= most:
            return some
    chosen = []
    for part in parts(arrays):
        of_part = [cell for cell in every if cell.part == part]
        of_part.sort(key=lambda cell: cell.mean(arrays, "ood_nmse"))
        picked = (of_part[0], of_part[-1]) if 2 * len(parts(arrays)) <= most else of_part[:1]
        chosen += [cell for cell in every if cell in picked]
    return chosen


def _in_region(arrays, cell: Cell, places: tuple) -> bool:
    """Whether a cell's region is among those at `places` in the part's list of regions."""
    regions = arrays.get(f"{cell.prefix}cell/region")
    return regions is None or regions[cell.place] in [regions[place] for place in places]


def of_how_many(arrays, shown: list[Cell]) -> str:
    """Text for a title if a figure does not show all cells; otherwise empty."""
    n = len(cells(arrays))
    return f"; {len(shown)} of {n} cells" if len(shown) < n else ""


def seeds(arrays, cell: Cell, several: str = "") -> str:
    """ "one seed", or with `several` as prefix: "mean of 5 seeds"."""
    n = len(cell.last(arrays, "id_nmse"))
    return "one seed" if n == 1 else f"{several} {n} seeds".strip()


def number(value: float) -> str:
    """Two digits, without zeros in the exponent: 0.93, 3e-11; a dash if not finite."""
    if not np.isfinite(value):
        return "–"
    text = f"{value:.2g}" if not 9.95 <= abs(value) < 1e4 else f"{value:,.0f}"
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", text).replace("e+", "e").replace("-", "−")


# --- grids ----------------------------------------------------------------------------------------
# Decoder table, phases, sizes of image and hole, four definitions.


def numbers(ax, values, scale, texts, cmap="viridis"):
    """A heat map with numbers in its cells, first row at the top; missing cells are hatched."""
    ax.patch.set(facecolor="#e9ebee", edgecolor="#aab1b9", hatch="/////")
    image = ax.imshow(np.ma.masked_invalid(values), norm=scale, cmap=cmap, aspect="auto")
    for (i, j), text in np.ndenumerate(texts):
        if not np.isfinite(values[i, j]):
            continue
        red, green, blue, _ = image.cmap(scale(values[i, j]))
        dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
        colour = "white" if dark else plots.INK
        ax.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return image


def log_scale(values, decades=5):
    """A log scale from the largest value down, over at most `decades` decades and at least one."""
    known = values[np.isfinite(values) & (values > 0)]
    top = known.max(initial=0) or 1.0
    bottom = known.min(initial=top)
    return LogNorm(min(max(bottom, top * 10.0**-decades), 0.1 * top), top, clip=True)


SCORES = {"ood_nmse": "OOD nMSE (1: a blank image)",
          "ood_position_accuracy": "places right where held out"}  # fmt: skip
REMEDIES = ("neither", "stripes", "penalty", "both")


@plots.styled
def draw_table(arrays, folder) -> None:
    """OOD nMSE and position accuracy of every decoder, remedy and region."""
    every = cells(arrays)
    regions = list(dict.fromkeys(str(cell.of(arrays, "cell/region")) for cell in every))
    rows = {}
    for cell in every:
        has = int(cell.of(arrays, "cell/copies") > 0) + 2 * int(cell.of(arrays, "cell/penalty") > 0)
        rows.setdefault((cell.part, has), {})[str(cell.of(arrays, "cell/region"))] = cell
    keys = sorted(rows, key=lambda key: (parts(arrays).index(key[0]), key[1]))
    fig = plots.new_figure(8.4, 0.27 * len(keys) + 1.5, layout="constrained")
    note = "*: some seed did not reach the ID criterion"
    plots.headline(fig, f"Decoders, remedies and regions on one budget ({note})")
    axes = fig.subplots(1, 2, sharey=True)
    shape = len(keys), len(regions)
    for ax, (score, title) in zip(axes, SCORES.items()):
        values, texts = np.full(shape, np.nan), np.full(shape, "", object)
        for i, j in np.ndindex(shape):
            cell = rows[keys[i]].get(regions[j])
            if cell is not None:
                values[i, j] = cell.mean(arrays, score)
                text = f"{values[i, j]:.0%}" if "accuracy" in score else number(values[i, j])
                texts[i, j] = text + " *" * cell.missed(arrays)
        scale = Normalize(0, 1) if "accuracy" in score else log_scale(values)
        numbers(ax, values, scale, texts, "viridis" if "accuracy" in score else "viridis_r")
        ax.set_xticks(range(shape[1]), [words(region) for region in regions])
        ax.set_title(title)
        for i in range(1, len(keys)):
            if keys[i][0] != keys[i - 1][0]:
                ax.axhline(i - 0.5, color="white", lw=3)
    labels = [f"{words(part)}, {REMEDIES[has]}" for part, has in keys]
    axes[0].set_yticks(range(len(keys)), labels)
    plots.save(fig, folder / "table.png")


@plots.styled
def draw_phase(arrays, folder) -> None:
    """nMSE, accuracy and F_K over side of the hole and number of stripes; F_K against nMSE."""
    sides, copies = arrays["phase/sides"], arrays["phase/copies"]
    fig = plots.new_figure(11.4, 6.3, layout="constrained")
    plots.headline(fig, "Memorise, misshape or compose: by side of the hole and copies of stripes")
    axes = fig.subplots(2, 3)
    shown = {
        "nmse": "OOD nMSE",
        "accuracy": "places right",
        "F_K hole": "F_K of images, hole",
        "peak": "height of the peak (1: right)",
    }
    for ax, (key, title) in zip(axes.flat, shown.items()):
        values = arrays[f"phase/{key}"].mean(axis=0)
        scale = log_scale(values) if key == "nmse" else Normalize(0, 1)
        if key == "peak":
            scale = Normalize(0, max(1.0, np.nanmax(values)))
        texts = np.vectorize(number if key == "nmse" else "{:.2f}".format)(values)
        numbers(ax, values, scale, texts, "viridis_r" if key == "nmse" else "viridis")
        ax.set_xticks(range(len(copies)), copies)
        ax.set_yticks(range(len(sides)), sides)
        ax.set(title=title, xlabel="copies of each stripe", ylabel="side of the hole")
    colours = plots.shades(len(sides))
    for ax, where in zip(axes.flat[4:], ("frame", "hole")):
        for i, side in enumerate(sides):
            share, error = (
                arrays[f"phase/{key}"][:, i].ravel() for key in (f"F_K {where}", "nmse")
            )
            ax.plot(
                share,
                error,
                "o",
                color=colours[i],
                ms=4,
                mew=0,
                alpha=0.8,
                label=f"hole of side {side}",
            )
        tau = arrays.get(f"phase/tau {where}")
        title = f"F_K on the {where} and nMSE"
        if tau is not None:
            interval = f" [{tau[1]:.2f}, {tau[2]:.2f}]" if np.isfinite(tau).all() else ""
            title += f"\ntau-b {tau[0]:.2f}{interval}".replace("-0", "−0")
        ax.locator_params(axis="x", nbins=4)
        ax.ticklabel_format(axis="x", useOffset=False)
        ax.axhline(1, color=plots.FAINT, lw=1, linestyle=":")
        ax.set(title=title, xlabel=f"F_K of images, {where}", ylabel="OOD nMSE", yscale="log")
        ax.grid(**plots.GRID)
    plots.legend_below(fig, axes.flat[5])
    plots.save(fig, folder / "phase.png")


@plots.styled
def draw_scaling(arrays, folder) -> None:
    """OOD MSE over side of the image and of the hole, with lines of equal error."""
    codes = {}
    for cell in cells(arrays):
        code, side = cell.part.rpartition("_")[0], cell.of(arrays, "example_truth").shape[-1]
        at = (int(side), float(cell.of(arrays, "cell/hole")))
        codes.setdefault(code, {})[at] = 1e3 * cell.mean(arrays, "ood_mse")
    fig = plots.new_figure(4.0 * len(codes) + 1.2, 3.8, layout="constrained")
    plots.headline(fig, "OOD errors by side of the image and of the hole, lines of equal error")
    axes = fig.subplots(1, len(codes), squeeze=False, sharey=True)[0]
    every = np.array([error for errors in codes.values() for error in errors.values()])
    scale = Normalize(np.nanmin(every), np.nanmax(every) + 1e-9)
    for ax, (code, errors) in zip(axes, codes.items()):
        sides, holes = (sorted({at[i] for at in errors}) for i in (0, 1))
        grid = np.array([[errors.get((side, hole), np.nan) for side in sides] for hole in holes])
        if min(grid.shape) > 2:
            # Every third level has a line: five lines.
            levels = np.linspace(scale.vmin, scale.vmax, 19)
            image = ax.contourf(sides, holes, grid, levels, norm=scale, cmap="viridis")
            lines = ax.contour(sides, holes, grid, levels[3:-3:3], colors="white", linewidths=0.8)
            ax.clabel(lines, fmt="%.2f", fontsize=7)
            ax.set(xticks=sides, yticks=holes)
        else:  # too few sizes for lines
            texts = np.vectorize(lambda value: f"{value:.2f}")(grid)
            image = numbers(ax, grid, scale, texts)
            ax.set_xticks(range(len(sides)), sides)
            ax.set_yticks(range(len(holes)), [f"{hole:g}" for hole in holes])
            ax.set_ylim(-0.5, len(holes) - 0.5)
        ax.set(title=f"{words(code)} code", xlabel="side of the image, N")
    axes[0].set_ylabel("side of the hole, share of N")
    bar = fig.colorbar(
        image, ax=list(axes), label="OOD MSE in thousandths", pad=0.02, format="%.2f"
    )
    bar.outline.set_visible(False)
    plots.save(fig, folder / "scaling.png")


def _short(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


@plots.styled
def draw_words(arrays, folder) -> None:
    """Compositionality, factorization, disentanglement and modularity of each cell."""
    if "words" not in arrays:
        return
    names = [str(name).replace(" (", "\n(") for name in arrays["word_names"]]
    values = arrays["words"].T
    labels = [words(str(name)).replace("/", ", ") for name in arrays["word_cells"]]
    wide = 0.75 * len(names)
    fig = plots.new_figure(wide + 6.8, max(0.2 * len(labels) + 1.9, 4.2), layout="constrained")
    plots.headline(fig, "Four words on the same activations, and how their orders agree")
    left, right = fig.subplots(1, 2, width_ratios=(wide + 0.4, 2.6))
    # R2 is unbounded below: colours only show that it is negative.
    texts = np.vectorize(lambda value: _short(value) if value > -10 else number(value))(values)
    numbers(left, np.clip(values, -0.25, 1), Normalize(-0.25, 1), texts)
    left.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=7.5)
    left.set_yticks(range(len(labels)), labels, fontsize=7.5)
    tau = arrays["word_taus"]
    numbers(right, tau, Normalize(-1, 1), np.vectorize(_short)(tau), "PuOr")
    right.set_yticks(range(len(names)), names, fontsize=7.5)
    right.set(
        title="rank correlation, tau-b\n(columns as rows)", xticks=(), box_aspect=1, anchor="N"
    )
    plots.save(fig, folder / "words.png")
