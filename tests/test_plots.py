"""Drawing helpers: what lands in the file is what was given, and odd input does not stop them."""

import gc
import weakref

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.image import imread

from cgjax import plots

LABELS = ["sprite 1 x", "sprite 1 y", "sprite 1 hue"]
LIMITS = [(-0.25, 1.25)] * 3
TICKS = [[(0, "0.1"), (1, "0.9")]] * 3


def size_of(path):
    """Height, width of a PNG and whether anything is drawn in it."""
    image = imread(path)
    assert image[..., :3].min() < 0.5 < image[..., :3].max()
    return image.shape[:2]


def test_save_is_whole_or_absent(tmp_path):
    path = tmp_path / "new" / "figure.png"
    fig = plots.new_figure(2, 1)
    fig.text(0.5, 0.5, "text")
    assert plots.save(fig, path) == path
    assert size_of(path) == (plots.DPI, 2 * plots.DPI)
    before = path.read_bytes()

    broken = plots.new_figure(2, 1)
    broken.savefig = lambda file, **_: file.write_bytes(b"half") and 1 / 0
    with pytest.raises(ZeroDivisionError):
        plots.save(broken, path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["figure.png"]


def test_drawing_leaves_settings_and_global_figures_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    fig = plots.heat_maps({"a": np.eye(3)}, (0, 1, 0, 1))
    plots.save(fig, tmp_path / "a.png")
    assert dict(matplotlib.rcParams) == before
    assert not pyplot.get_fignums()
    alive = weakref.ref(fig)
    del fig
    gc.collect()
    assert alive() is None


def test_displayable_clips_scales_and_marks():
    images = np.zeros((4, 6, 8, 3))
    images[0], images[1], images[2] = -3.0, 7.0, 0.25
    images[3, 2, 2, 1] = np.nan
    shown = plots.displayable(images)
    assert shown.shape == images.shape
    assert (shown[0] == 0).all() and (shown[1] == 1).all() and (shown[2] == 0.25).all()
    assert len(np.unique(shown[3].reshape(-1, 3), axis=0)) == 2
    assert plots.displayable(np.full((1, 2, 2, 3), 51, np.uint8)) == pytest.approx(0.2)
    assert plots.displayable(np.zeros((2, 2, 1))).shape == (2, 2, 3)
    with pytest.raises(ValueError, match="images must be"):
        plots.displayable(np.zeros((4, 4, 2)))


def test_transparency_shows_a_checkerboard():
    image = np.zeros((16, 16, 4))
    image[:8] = (1, 0, 0, 1)
    shown = plots.displayable(image)
    assert (shown[:8] == (1, 0, 0)).all()
    assert np.unique(shown[8:]) == pytest.approx([0.62, 0.78])


def test_image_grid_shows_every_pixel(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
    blocks = [
        plots.Block({"a": images, "b": images[::-1]}, "first", ("x", "y", "z"), {"b": "note"}),
        plots.Block({"c": images[:2]}, "second"),
    ]
    fig = plots.image_grid(blocks, "a title " * 20, largest=21)
    places = [np.round(image.get_extent()).astype(int) for image in fig.axes[0].images]
    drawn = imread(plots.save(fig, tmp_path / "grid.png"))[..., :3]
    assert len(places) == 3
    for (left, right, bottom, top), given in zip(places, (images, images[::-1], images[:2])):
        expected = plots.tile(plots.displayable(given)[None], gap=2, scale=3)
        np.testing.assert_allclose(drawn[top:bottom, left:right], expected, atol=1 / 254)


def test_heat_maps_share_one_scale(tmp_path):
    panels = {"low": np.array([[0.0, 1.0]]), "high": np.array([[np.nan, 5.0]])}
    fig = plots.heat_maps(panels, (0, 1, 0, 1), "x", "y", "title", "error", ticks=(0, 1))
    images = [ax.images[0] for ax in fig.axes[:2]]
    assert [image.get_clim() for image in images] == [(0.0, 5.0)] * 2
    assert images[0].origin == "lower"
    height, width = size_of(plots.save(fig, tmp_path / "heat.png"))
    assert width > height > 300
    empty = plots.heat_maps({"none": np.full((2, 2), np.nan)}, (0, 1, 0, 1))
    plots.save(empty, tmp_path / "empty.png")


def test_matrices_are_lower_triangles(tmp_path):
    levels = np.linspace(0, 1, 3)
    pairs = {(1, 0): np.eye(3), (2, 0): 2 * np.eye(3), (2, 1): np.full((3, 3), np.nan)}
    lines = [(levels, levels), (levels, levels + 1), (levels, levels * np.nan)]
    fig = plots.pair_matrix(pairs, lines, LABELS, LIMITS, TICKS, "title", "error")
    maps = [ax.images[0] for ax in fig.axes if ax.images]
    assert len(maps) == 3 and {image.get_clim() for image in maps} == {(0.0, 2.0)}
    size_of(plots.save(fig, tmp_path / "pairs.png"))

    points = np.random.default_rng(0).uniform(size=(50, 3))
    fig = plots.scatter_matrix(points, LABELS, LIMITS, TICKS, most=20)
    assert len(fig.axes) == 6
    assert sorted(len(ax.lines) for ax in fig.axes) == [0, 0, 0, 1, 1, 1]
    counted = sum(bar.get_height() for ax in fig.axes for bar in ax.patches)
    assert counted == 3 * 50
    assert max(len(ax.lines[0].get_xdata()) for ax in fig.axes if ax.lines) == 20
    size_of(plots.save(fig, tmp_path / "scatter.png"))


def test_scatter_panels_balance_their_rows(tmp_path):
    points = np.random.default_rng(0).uniform(size=(9, 2))
    fig = plots.scatter_panels({f"p{i}": (points, "word " * i) for i in range(7)}, columns=5)
    visible = [ax for ax in fig.axes if ax.get_visible()]
    assert len(visible) == 7 and len(fig.axes) == 8
    assert visible[3].get_title(loc="left") == "p3"
    size_of(plots.save(fig, tmp_path / "panels.png"))


def test_learning_curves_survive_dead_replicas(tmp_path):
    x, y = np.arange(4), np.array([[1.0, 4.0], [2.0, np.nan], [3.0, np.inf], [0.0, np.nan]])
    panels = {
        "loss": {"curves": {"a": (x, y), "dead": (x, y * np.nan)}, "log": True, "floor": None},
        "r2": {"curves": {"a": (x[:1], [-90.0]), "b": (x[:1], [0.9])}, "log": False, "floor": -1},
    }
    fig = plots.learning_curves(panels, "title")
    median = fig.axes[0].lines[2].get_ydata()
    np.testing.assert_array_equal(median, [2.5, 2.0, 3.0, np.nan])
    assert fig.axes[1].get_ylim()[0] == -1
    size_of(plots.save(fig, tmp_path / "curves.png"))
