"""Figures of the rotating digit and of the inverse task, drawn from saved arrays."""

import pathlib

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from cgjax import plots

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
