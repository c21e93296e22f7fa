"""Figures of the support studies, from their saved arrays."""

import pathlib
import re

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.ticker import NullLocator

from cgjax import plots
from cgjax.analysis.stats import kendall_tau_b


def _ends_with(arrays, ending: str) -> dict:
    """`{name: array}` of the keys "<name><ending>"."""
    return {key.removesuffix(ending): arrays[key] for key in arrays if key.endswith(ending)}


def draw_table(arrays, folder: pathlib.Path) -> None:
    """Where sprites are not identified: share of values that fail at each pixel.

    A panel of the back sprite for each support, and one of the front sprite where it fails.
    """
    maps = {}
    for slot in ("back", "front_own"):
        for name, where in _ends_with(arrays, f"/step_{slot}/where").items():
            if slot == "back" or where.any():
                maps[f"{name}, {slot.removesuffix('_own')}"] = where
    title = "Share of sprites left unidentified at each pixel under hard occlusion, by support"
    fig = image_maps(maps, title)
    plots.save(fig, folder / "failing_pixels.png")


def draw_relaxed(arrays, folder: pathlib.Path) -> None:
    """The pixels at which the relaxed condition fails, case by case."""
    maps = {name.replace(", ", "\n"): m for name, m in _ends_with(arrays, "/relaxed/where").items()}
    meaning = "share of values with a hidden direction that Q shows"
    fig = image_maps(maps, f"Where the relaxed condition fails: {meaning}", columns=6)
    plots.save(fig, folder / "relaxed_failing_pixels.png")


def draw_predict(arrays, folder: pathlib.Path) -> None:
    """Each of the audit's numbers against the score on all of Q, runs numbered from the best."""
    names = {"values": "values identified", "pixels": "pixels identified"}
    names |= {"own pixels": "own pixels identified", "sigma": "median sigma_min of the mean"}
    order = np.argsort(-np.asarray(arrays["r2_all"]))
    r2 = np.asarray(arrays["r2_all"])[order]
    panels = {label: np.asarray(arrays[name])[order] for name, label in names.items()}
    title = f"Audits of {len(r2)} supports before training, against the score after it"
    fig = labelled_scatters(
        panels,
        r2,
        [str(row) for row in np.asarray(arrays["rows"])[order]],
        ylabel="R2 on all of Q, mean of a run's seeds",
        title=title,
    )
    plots.save(fig, folder / "predict.png")


def draw_openness(arrays, folder: pathlib.Path) -> None:
    """What stays open against the paper's R2; predicted amplification against recorded ratios."""
    plots.save(openness_figure(arrays), folder / "openness.png")


@plots.styled
def openness_figure(arrays):
    """The figure of `draw_openness`."""
    fig = plots.new_figure(9.6, 4.0, layout="constrained")
    left, right = fig.subplots(1, 2)
    times, r2 = arrays["unknown"] / arrays["unknown"][0], np.asarray(arrays["r2"])
    x, y = np.asarray(arrays["amplification"]), np.asarray(arrays["ratio"])
    taus = [kendall_tau_b(-times, r2), kendall_tau_b(x, y)]
    verb = "orders" if min(taus) >= 0.8 else "does not order"
    plots.headline(fig, f"Before training, openness {verb} the supports")
    for kind, colour in zip(OPENNESS_KINDS, plots.COLOURS):
        mine = [_openness_kind(name) == kind for name in arrays["supports"]]
        left.plot(times[mine], r2[mine], "o", color=colour, markersize=4, label=kind)
        mine = [_openness_kind(name) == kind for name in arrays["rows"]]
        right.errorbar(x[mine], y[mine], arrays["spread"][mine], fmt="o", color=colour, ms=4)
    plots.r2_axis(left, [r2])
    # Room for the names, which stand to the right of their points.
    left.set_xlim(right=times.max() + 0.35 * np.ptp(times))
    left.set(
        xlabel="share of f that stays open, over that of random samples",
        title=f"nine published supports, tau-b {taus[0]:.2f}",
        ylabel="R2 on all combinations (paper)",
    )
    plots.label_points(left, times, r2, [str(name) for name in arrays["supports"]])
    left.legend(loc="lower right", fontsize=8, frameon=False)
    ends = np.array([0.7 * min(x.min(), y.min()), 1.4 * max(x.max(), y.max())])
    right.plot(ends, ends, color=plots.GREY, lw=1, zorder=0, label="recorded = predicted")
    right.legend(loc="lower right", fontsize=8, frameon=False)
    right.set(
        xscale="log",
        yscale="log",
        xlim=(0.7 * x.min(), 1.4 * x.max()),
        ylim=(0.7 * y.min(), 1.4 * max(y.max(), x.min())),
        xlabel="predicted: squared error on all over that on P",
        ylabel="recorded: the same, mean and sd of seeds",
        title=f"{len(x)} recorded supports, tau-b {taus[1]:.2f}",
    )
    _plain_log_ticks(right)
    for ax in (left, right):
        ax.grid(**plots.GRID)
    return fig


def _plain_log_ticks(ax) -> None:
    """Ticks 1, 2, 5, 10 ... on both logarithmic axes: labels of every number overlap."""
    steps = [digit * 10**power for power in range(-2, 5) for digit in (1, 2, 5)]
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        ticks = [n for n in steps if low <= n <= high]
        axis.set_ticks(ticks, [f"{n:g}" for n in ticks])
        axis.set_minor_locator(NullLocator())


OPENNESS_KINDS = ("random", "diagonals", "planes", "planes with a gap")


def _openness_kind(name) -> str:
    """Which of OPENNESS_KINDS a support or a row is."""
    name = str(name)
    if "gap" in name:
        return "planes with a gap"
    if name.startswith(("diagonal", "delta")):
        return "diagonals"
    return "planes" if name.startswith("orthogonal") else "random"


@plots.styled
def draw_design(arrays, folder: pathlib.Path) -> None:
    """Share of values that pass, and failing pixels, against planes; a column per sprite count."""
    rows = {"/share": "share of values that pass", "/n_failing": "failing pixels, mean"}
    by_count = {}  # number of sprites: {slot: name of its arrays}
    for name in _ends_with(arrays, "/share"):
        count, slot = (int(digits) for digits in re.findall(r"\d+", name))
        by_count.setdefault(count, {})[slot] = name
    fig = plots.new_figure(2.7 * len(by_count) + 0.9, 5.0, layout="constrained")
    plots.headline(fig, _design_headline(arrays, by_count))
    axes = fig.subplots(2, len(by_count), squeeze=False, sharex=True, sharey="row")
    names = [name for slots in by_count.values() for name in slots.values()]
    longest = max(len(arrays[f"{name}/share"]) for name in names)
    for i, (ending, ylabel) in enumerate(rows.items()):
        starts = {}  # labels come after all curves of a row, because the curves share its axis
        for ax, (count, slots) in zip(axes[i], by_count.items()):
            starts[ax] = [_design_curve(ax, arrays[slots[k] + ending], k, count) for k in slots]
            ax.set(xlim=(0.1, max(longest, 2) + 0.2), xticks=range(1, longest + 1))
            ax.grid(axis="y", **plots.GRID)
        for ax, labels in starts.items():
            plots.label_ends(ax, labels, side="left")
        axes[i, 0].set_ylabel(ylabel)
    for ax, count in zip(axes[0], by_count):
        ax.set_title(f"{count} sprites")
    for ax in axes[1]:
        ax.set_xlabel("planes")
    plots.save(fig, folder / "design.png")


def _design_curve(ax, y, slot: int, count: int) -> tuple:
    """Draws one slot's curve; returns x and y of its start, the slot's name, its colour."""
    y, colour = np.asarray(y, float), plots.COLOURS[slot % len(plots.COLOURS)]
    ax.plot(np.arange(1, len(y) + 1), y, marker="os^Dv<>"[slot % 7], ms=4.5, lw=1.4, color=colour)
    depth = "back" if slot == count - 1 else ("front", "2nd", "3rd", "4th", "5th")[slot]
    return 1, y[0] if len(y) else np.nan, depth, colour


def _design_headline(arrays, by_count: dict) -> str:
    """The total number of chosen planes, and whether they identify every value."""
    totals, open_ = {}, False
    for count, slots in by_count.items():
        shares = [arrays[f"{name}/share"] for name in slots.values()]
        totals[count] = sum(map(len, shares))
        open_ |= any(not len(share) or share[-1] < 1 for share in shares)
    numbers = ", ".join(f"{total} for {count} sprites" for count, total in totals.items())
    outcome = "not every value is identified" if open_ else "until every value is identified"
    return f"Planes chosen, {outcome}: {numbers}"


def draw_partners(arrays, folder: pathlib.Path) -> None:
    """Share of back sprites identified, by the diagonal's width and the number of partners."""
    n_failing = _ends_with(arrays, "/n_failing")
    counts = sorted({int(name.split("/")[1]) for name in n_failing})
    panels = {"share identified": {}, "failing pixels, mean": {}}
    for n in counts:
        deltas = sorted(float(name.split("/")[0]) for name in n_failing if name.endswith(f"/{n}"))
        rows = [n_failing[f"{delta:g}/{n}"] for delta in deltas]
        panels["share identified"][f"{n} partners"] = (deltas, [np.mean(r == 0) for r in rows])
        panels["failing pixels, mean"][f"{n} partners"] = (deltas, [np.mean(r) for r in rows])
    panels = {name: {"curves": curves, "scale": "linear"} for name, curves in panels.items()}
    title = (
        "Back sprites that a diagonal support identifies under hard occlusion, by its half width"
    )
    fig = plots.learning_curves(panels, title, xlabel="delta")
    plots.save(fig, folder / "partners.png")


# --- kinds of figures -----------------------------------------------------------------------------


@plots.styled
def image_maps(maps: dict, title: str, columns: int = 4):
    """Images [h, w] in [0, 1] under one colour scale, row 0 on top."""
    columns = min(columns, len(maps))
    rows = -(-len(maps) // columns)
    lines = 1 + max(name.count("\n") for name in maps)
    height = (2.15 + 0.17 * lines) * rows + 0.5
    fig = plots.new_figure(1.9 * columns + 0.9, height, layout="constrained")
    fig.get_layout_engine().set(h_pad=0.06)
    axes = fig.subplots(rows, columns, squeeze=False)
    for ax in axes.flat[len(maps) :]:
        ax.set_visible(False)
    for ax, (name, image) in zip(axes.flat, maps.items()):
        # The power makes a few per cent visible.
        shown = ax.imshow(image, norm=PowerNorm(0.4, 0, 1), cmap="magma")
        # The sum of shares is the mean number of failing pixels per value; 0 is an all-black map.
        ax.set(title=name, xticks=(), yticks=())
        count = f"{np.sum(image):,.0f}" if np.sum(image) >= 100 else f"{np.sum(image):.3g}"
        style = {"fontsize": 7.5, "color": plots.GREY, "loc": "left"}
        ax.set_xlabel(f"{count} pixels fail per tested value", **style)
    bar = fig.colorbar(shown, ax=axes.ravel().tolist(), fraction=0.03, pad=0.02)
    bar.outline.set_visible(False)
    plots.headline(fig, title)
    return fig


@plots.styled
def labelled_scatters(panels: dict, r2, labels, ylabel: str, title: str):
    """Scatters {xlabel: x [n]} of one R2 [n] side by side; points are numbered, with a key."""
    fig = plots.new_figure(2.7 * len(panels) + 2.2, 3.9, layout="constrained")
    plots.headline(fig, title)
    axes = fig.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for ax, (name, x) in zip(axes, panels.items()):
        ax.plot(x, r2, "o", color=plots.COLOURS[0], markersize=4)
        ax.set(xlabel=name, title=f"tau-b {kendall_tau_b(x, r2):.2f}")
        ax.margins(x=0.12)
        ax.locator_params(axis="x", nbins=5)
        ax.grid(**plots.GRID)
    plots.r2_axis(axes[0], [r2])
    axes[0].set_ylabel(ylabel)
    key = "\n".join(f"{i + 1:2d}  {label}" for i, label in enumerate(labels))
    place = {"xycoords": "axes fraction", "va": "top", "fontsize": 7, "color": plots.GREY}
    axes[-1].annotate(key, (1.06, 1.0), **place)
    for ax, x in zip(axes, panels.values()):
        plots.label_points(ax, x, r2, [str(i + 1) for i in range(len(r2))])
    return fig


# --- studies that train ---------------------------------------------------------------------------

_SHOWN = {"network": "networks", "table": "tables of pictures", "monolithic": "one network"}
_PICTURES = {"mnist": "digits", "cifar10": "cut-outs"}


@plots.styled
def draw_pairs(arrays, folder: pathlib.Path) -> None:
    """Error of unseen pairs against what supports leave open of them, and scenes of the worst."""
    kinds = [kind for kind in _SHOWN if f"{kind}/ratio" in arrays]
    names, unseen = [str(name) for name in arrays["supports"]], arrays["unseen"]
    fig = plots.new_figure(10.4, 3.2 + 0.7 * (1 + len(kinds)), layout="constrained")
    scatter, scenes = fig.subfigures(2, 1, height_ratios=(3.2, 0.7 * (1 + len(kinds))))
    axes = scatter.subplots(1, len(kinds), sharex=True, sharey=True, squeeze=False)[0]
    for ax, kind in zip(axes, kinds):
        by_seed = arrays[f"{kind}/ratio"]
        ratio = by_seed.mean(0)
        for i, name in enumerate(names[1:]):
            x, y = (values[i + 1][unseen[i + 1]] for values in (arrays["open"], ratio))
            style = {"color": plots.COLOURS[i % len(plots.COLOURS)], "label": name}
            ax.plot(x, y, "o^"[i // len(plots.COLOURS)], markersize=3, mew=0, **style)
        left_open = arrays["open"][unseen]
        tau = np.mean([kendall_tau_b(left_open, each[unseen]) for each in by_seed])
        style = {"color": plots.GREY, "linewidth": 0.7, "linestyle": ":"}
        ax.axhline(2, label="below it: drawn right", **style)
        ax.set(xscale="log", yscale="log", title=f"{_SHOWN[kind]}: tau-b {tau:.2f}")
        ax.set_xticks((0.5, 1, 2, 4, 8), ("0.5", "1", "2", "4", "8"))
        ax.xaxis.set_minor_locator(NullLocator())  # labels within a decade overlap
        ax.grid(**plots.GRID)
    floor = "what as many samples of everything leave open (the floor)"
    axes[len(axes) // 2].set_xlabel(f"left open of a pair before training, over\n{floor}")
    axes[0].set_ylabel("error of an unseen pair, over that\nof a model that saw everything")
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=7.5)
    rows = {"true": arrays["true"], **{_SHOWN[kind]: arrays[f"{kind}/drawn"] for kind in kinds}}
    cells = scenes.subplots(len(rows), len(names) - 1, squeeze=False)
    for line, (label, images) in zip(cells, rows.items()):
        for ax, image in zip(line, images):
            ax.imshow(np.clip(image, 0, 1))
            ax.set(xticks=(), yticks=())
        line[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=7.5)
    for ax, name in zip(cells[0], names[1:]):
        ax.set_title(name, fontsize=7)
    pictures = _PICTURES.get(str(arrays.get("images")), "pictures")
    n_seeds = len(arrays[f"{kinds[0]}/ratio"])
    title = f"What stays open of unseen pairs of {pictures} goes with their error"
    plots.headline(fig, f"{title} (tau-b: mean of {n_seeds} seeds)")
    plots.save(fig, folder / "pairs.png")


@plots.styled
def draw_bound(arrays, folder: pathlib.Path) -> None:
    """Recorded ratios of errors against the bound, and both criteria by the noise."""
    fig = plots.new_figure(8.6, 3.4, layout="constrained")
    left, right = fig.subplots(1, 2)
    left.plot(arrays["bound"], arrays["ratio"], "o", color=plots.COLOURS[0], markersize=4)
    left.plot(arrays["low/bound"], arrays["low/ratio"], "x", color=plots.GREY, markersize=5)
    ends = np.array([1.0, 1.2 * max(arrays["bound"].max(), arrays["ratio"].max())])
    left.plot(ends, ends, color=plots.GREY, linewidth=0.8)
    left.plot(ends, ends / 5, color=plots.GREY, linewidth=0.8, linestyle=":")
    least = 0.8 * np.concatenate([arrays["bound"], arrays["low/bound"]]).min()
    left.set(xscale="log", yscale="log", xlim=(least, ends[1]), ylim=(0.9, ends[1]))
    _plain_log_ticks(left)
    left.set_xlabel("predicted amplification (the bound)")
    left.set_ylabel("error on all over error on P")
    left.set_title("crosses: low seeds; solid: the bound; dotted: a fifth of it", fontsize=8)
    for name, colour, text in (("above", 1, "above the bound"), ("tight", 0, "within a factor 5")):
        right.plot(arrays["noises"], arrays[name], color=plots.COLOURS[colour], label=text)
    right.set(xscale="log", xlabel="noise at which the bound is computed", ylabel="share of seeds")
    right.legend(frameon=False, fontsize=8)
    for ax in (left, right):
        ax.grid(**plots.GRID)
    plots.headline(fig, _bound_headline(arrays))
    plots.save(fig, folder / "bound.png")


def _bound_headline(arrays) -> str:
    """Of the noises at which no seed exceeds the bound, the one with most seeds near it."""
    holds = np.flatnonzero(arrays["above"] == 0)
    if not len(holds):
        return "At every noise some seeds exceed the bound"
    best = holds[np.argmax(arrays["tight"][holds])]
    return (
        f"At noise {arrays['noises'][best]:.2g} no seed exceeds the bound, "
        f"{arrays['tight'][best]:.0%} are within a factor 5 of it"
    )


@plots.styled
def draw_unknown_c(arrays, folder: pathlib.Path) -> None:
    """What the front component draws against the truth, by what is known at one point."""
    panels = [name for name in arrays if name.startswith("gauge/")]
    fig = plots.new_figure(1.75 * len(panels) + 0.6, 2.7, layout="constrained")
    axes = fig.subplots(1, len(panels), squeeze=False)[0]
    for ax, name in zip(axes, panels):
        _, kind, n_known = name.split("/")
        ax.plot(*arrays[name], ".", color=plots.COLOURS[kind == "learned"], markersize=1.5)
        ax.set(title=f"C {kind},\n{n_known} pixels known", xlabel="true value")
        ax.grid(**plots.GRID)
    axes[0].set_ylabel("drawn value")
    plots.headline(fig, "What the front network draws is a function of the truth, not the truth")
    plots.save(fig, folder / "unknown_c.png")


@plots.styled
def draw_step_c(arrays, folder: pathlib.Path) -> None:
    """R2 on everything of every seed, by the sharpness of the sigmoid."""
    fig = plots.new_figure(7.4, 3.0, layout="constrained")
    axes = fig.subplots(1, 2, sharey=True)
    kinds = {"straight_through": "straight through", "smoothed": "smoothed"}
    for ax, support in zip(axes, ("everything", "planes")):
        for i, (kind, text) in enumerate(kinds.items()):
            for j, sharpness in enumerate(arrays["sharpness"]):
                name = f"{kind}/{support}, {sharpness:g} sharpness: r2_all"
                if name in arrays:
                    label = text if not j else None
                    plots.seeds(ax, j + 0.3 * i - 0.15, arrays[name], plots.COLOURS[i], label)
        ax.set_xticks(range(len(arrays["sharpness"])), [f"{s:g}" for s in arrays["sharpness"]])
        ax.set(title=f"trained on {support}", xlabel="sharpness of the sigmoid")
        ax.grid(**plots.GRID)
    axes[0].set_ylabel("R2 on everything")
    axes[0].legend(frameon=False, fontsize=8)
    plots.headline(fig, "Training through a step: straight-through against smoothed")
    plots.save(fig, folder / "step_c.png")


FIGURES = {
    "digits": draw_pairs,
    "cut_outs": draw_pairs,
    "bound": draw_bound,
    "unknown_c": draw_unknown_c,
    "step_c": draw_step_c,
    "demo": draw_table,
    "table": draw_table,
    "partners": draw_partners,
    "predict": draw_predict,
    "openness": draw_openness,
    "design": draw_design,
    "relaxed": draw_relaxed,
    "opacity": draw_relaxed,
}
