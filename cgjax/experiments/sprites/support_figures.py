"""Figures of the support studies, from their saved arrays."""

import pathlib

import numpy as np
from matplotlib.colors import PowerNorm

from cgjax import plots

NAMES = {
    "random": "random",
    "orthogonal": "orthogonal",
    "orthogonal_star": "orthogonal*",
    "orthogonal_broad": "orthogonal+",
    "orthogonal_gap": "gap",
    "diagonal_broad": "diagonal 0.2",
    "diagonal": "diagonal 0.1",
    "diagonal_narrow": "diagonal 0.05",
}


def _ends_with(arrays, ending: str) -> dict:
    """`{name: array}` of the keys "<name><ending>"."""
    return {key.removesuffix(ending): arrays[key] for key in arrays if key.endswith(ending)}


def draw_table(arrays, folder: pathlib.Path) -> None:
    """Where the back sprite stays unknown: share of values that fail at each pixel."""
    maps = {
        NAMES.get(name, name): where
        for name, where in _ends_with(arrays, "/step_back/where").items()
    }
    fig = image_maps(
        maps, "Share of back sprites that the support leaves unidentified at each pixel"
    )
    plots.save(fig, folder / "failing_pixels.png")


def draw_relaxed(arrays, folder: pathlib.Path) -> None:
    """The pixels at which the relaxed condition fails, case by case."""
    maps = {name.replace(", ", "\n"): m for name, m in _ends_with(arrays, "/relaxed/where").items()}
    fig = image_maps(
        maps, "Relaxed condition: share of values with a hidden direction that Q shows", columns=6
    )
    plots.save(fig, folder / "relaxed_failing_pixels.png")


def draw_predict(arrays, folder: pathlib.Path) -> None:
    """Each of the audit's numbers against the score on all of Q."""
    names = ("values", "pixels", "own pixels", "sigma")
    titles = ("values identified", "pixels identified", "own pixels identified", "median sigma_min")
    panels = dict(zip(titles, (arrays[name] for name in names)))
    fig = labelled_scatters(
        panels, arrays["r2_all"], [str(row) for row in arrays["rows"]],
        ylabel="R2 on all of Q", title="The audit before training against the score after it",
    )  # fmt: skip
    plots.save(fig, folder / "predict.png")


def draw_design(arrays, folder: pathlib.Path) -> None:
    """How the condition comes to hold as planes are added."""
    curves = {}
    for ending, title in (
        ("/share", "share of values that pass"),
        ("/n_failing", "failing pixels"),
    ):
        found = _ends_with(arrays, ending)
        curves[title] = {
            "curves": {name: (np.arange(1, len(y) + 1), y) for name, y in found.items()},
            "log": False,
            "floor": None,
        }
    fig = plots.learning_curves(curves, "Planes chosen greedily", xlabel="planes")
    plots.save(fig, folder / "design.png")


def draw_partners(arrays, folder: pathlib.Path) -> None:
    """Share of back sprites identified, by the diagonal's width and the number of partners."""
    found = _ends_with(arrays, "/n_failing")
    counts = sorted({int(name.split("/")[1]) for name in found})
    panels = {"share identified": {}, "failing pixels": {}}
    for n in counts:
        deltas = sorted(float(name.split("/")[0]) for name in found if name.endswith(f"/{n}"))
        rows = [found[f"{delta:g}/{n}"] for delta in deltas]
        panels["share identified"][f"{n} partners"] = (deltas, [np.mean(r == 0) for r in rows])
        panels["failing pixels"][f"{n} partners"] = (deltas, [np.mean(r) for r in rows])
    panels = {
        title: {"curves": curves, "log": False, "floor": None} for title, curves in panels.items()
    }
    fig = plots.learning_curves(panels, "The diagonal support, hard occlusion", xlabel="delta")
    plots.save(fig, folder / "partners.png")


# --- kinds of figures -----------------------------------------------------------------------------


@plots.styled
def image_maps(maps: dict, title: str, columns: int = 4):
    """Images [h, w] in [0, 1] under one colour scale, as they lie on the screen (row 0 on top)."""
    rows = -(-len(maps) // columns)
    fig = plots.new_figure(1.9 * columns + 0.9, 2.25 * rows + 0.5, layout="constrained")
    axes = fig.subplots(rows, columns, squeeze=False)
    for ax in axes.flat[len(maps) :]:
        ax.set_visible(False)
    for ax, (name, image) in zip(axes.flat, maps.items()):
        shown = ax.imshow(image, norm=PowerNorm(0.4, 0, 1), cmap="magma")  # a few per cent show too
        ax.set(title=name, xticks=(), yticks=())
    bar = fig.colorbar(shown, ax=axes.ravel().tolist(), fraction=0.03, pad=0.02)
    bar.outline.set_visible(False)
    fig.suptitle(plots.wrap(title, 1.9 * columns, 10.5), x=0.01, ha="left")
    return fig


@plots.styled
def labelled_scatters(panels: dict, y, labels, ylabel: str, title: str):
    """Scatters {xlabel: x [n]} of one y [n] side by side; points are numbered, with a key."""
    fig = plots.new_figure(2.7 * len(panels) + 2.2, 3.4, layout="constrained")
    axes = fig.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for ax, (name, x) in zip(axes, panels.items()):
        ax.plot(x, y, "o", color=plots.COLOURS[0], markersize=4)
        for i, at in enumerate(zip(x, y)):
            ax.annotate(str(i + 1), at, (3, 3), textcoords="offset points", fontsize=7)
        ax.set(xlabel=name)
        ax.grid(**plots.GRID)
    axes[0].set_ylabel(ylabel)
    key = "\n".join(f"{i + 1:2d}  {label}" for i, label in enumerate(labels))
    axes[-1].annotate(
        key, (1.04, 1.0), xycoords="axes fraction", va="top", fontsize=7, color=plots.GREY
    )
    fig.suptitle(plots.wrap(title, 2.7 * len(panels), 10.5), x=0.01, ha="left")
    return fig


FIGURES = {
    "demo": draw_table,
    "table": draw_table,
    "partners": draw_partners,
    "predict": draw_predict,
    "design": draw_design,
    "relaxed": draw_relaxed,
    "opacity": draw_relaxed,
}
