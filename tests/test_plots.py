"""Drawing helpers: files show the given values, and unusual input raises no error."""

import gc
import os
import resource
import weakref

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.image import imread
from matplotlib.text import Text

from cgjax import plots
from cgjax.core import workdir
from cgjax.core.errors import BadInput
from cgjax.plots.lenses import _matrix

pytestmark = pytest.mark.usefixtures("whole_figures")
LABELS = ["sprite 1 x", "sprite 1 y", "sprite 1 hue"]
LIMITS = [(-0.25, 1.25)] * 3
TICKS = [[(0, "0.1"), (1, "0.9")]] * 3


def size_of(path):
    """Height, width of a PNG and whether anything is drawn in it."""
    image = imread(path)
    assert image[..., :3].min() < 0.5 < image[..., :3].max()
    return image.shape[:2]


@pytest.fixture
def small():
    """A figure with something in it."""
    fig = plots.new_figure(2, 1)
    fig.text(0.5, 0.5, "text")
    return fig


def test_save_is_whole_or_absent(tmp_path, small):
    path = tmp_path / "new" / "figure.png"
    assert plots.save(small, path) == path
    assert size_of(path) == (plots.DPI, 2 * plots.DPI)
    before = path.read_bytes()

    broken = plots.new_figure(2, 1)
    broken.canvas.print_png = lambda file: file.write(b"half") and 1 / 0
    with pytest.raises(ZeroDivisionError):
        plots.save(broken, path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["figure.png"]


def test_figures_are_counted_on_a_terminal_only(tmp_path, small, capsys, monkeypatch):
    plots.save(small, tmp_path / "first.png")
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    numbers = []
    for name in ("second.png", "third.png"):
        plots.save(small, tmp_path / name)
        words = capsys.readouterr().out.removesuffix("\x1b[K\r").split()
        assert (words[0], words[2]) == ("figure", name)
        numbers.append(int(words[1].removesuffix(":")))
    assert numbers[1] == numbers[0] + 1


def test_a_notebook_shows_a_figure_that_no_window_knows(small):
    assert small._repr_png_().startswith(b"\x89PNG")
    assert not pyplot.get_fignums()


def test_a_full_disk_is_one_line_and_leaves_the_old_figure(tmp_path, small):
    path = plots.save(small, tmp_path / "figure.png")
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(
            BadInput, match="^cannot write '.*figure.png': File too large; free"
        ) as found:
            plots.save(small, path)
        assert str(found.value).endswith("another folder, then run the same command again")
        run = tmp_path / "run"
        with workdir.locked(run), pytest.raises(BadInput, match="another --workdir, then run"):
            plots.save(small, run / "figure.png")
        with pytest.raises(BadInput, match="^cannot write '.*new.png': File too large; free"):
            plots.save(small, tmp_path / "new.png")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["figure.png"]


def test_places_where_no_figure_can_lie(tmp_path, small):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "figure.png").mkdir()
    for path, reason in (
        (tmp_path / "file" / "figure.png", "Not a directory|File exists"),
        (tmp_path / "file" / "deeper" / "figure.png", "Not a directory"),
        (tmp_path / "figure.png", "Is a directory"),
        (tmp_path / ("long" * 80) / "figure.png", "File name too long"),
        (tmp_path / ("long" * 62), "File name too long"),
    ):
        with pytest.raises(BadInput, match=f"^cannot write '{path}': ({reason}); free") as found:
            plots.save(small, path)
        assert "\n" not in str(found.value)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["figure.png", "file"]
    assert not list((tmp_path / "figure.png").iterdir())


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_signal_leaves_the_old_figure(tmp_path, small, monkeypatch, moment):
    path = plots.save(small, tmp_path / "figure.png")
    before = path.read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    small.text(0, 0, "more")
    monkeypatch.setattr(os, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        plots.save(small, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["figure.png"]


def test_drawing_leaves_settings_and_global_figures_alone(tmp_path, quick_collection):
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


def test_heat_maps_of_pairs_are_a_lower_triangle(tmp_path):
    levels = np.linspace(0, 1, 3)
    pairs = {(1, 0): np.eye(3), (2, 0): 2 * np.eye(3), (2, 1): np.full((3, 3), np.nan)}
    lines = [(levels, levels), (levels, levels + 1), (levels, levels * np.nan)]
    fig = plots.pair_matrix(pairs, lines, LABELS, LIMITS, TICKS, "title", "error")
    ax = fig.axes[0]
    assert {image.get_clim() for image in ax.images} == {(0.0, 2.0)}
    first, below, beside = (np.array(image.get_extent()) for image in ax.images)
    np.testing.assert_allclose(below - first, [0, 0, -0.95, -0.95])
    np.testing.assert_allclose(beside - below, [0.95, 0.95, 0, 0])
    (behind,) = ax.patches  # of the map without a finite value, under the map
    assert behind.get_xy() == (beside[0], beside[2]) and behind.zorder < ax.images[2].zorder
    # The line of the first variable: from its limits' share 1/6 to 5/6, above its column.
    x, y = ax.lines[0].get_data()
    np.testing.assert_allclose((x[[0, -1]] - first[0]) / (first[1] - first[0]), [1 / 6, 5 / 6])
    assert np.all(np.diff(y) > 0) and y[0] > first[3]
    size_of(plots.save(fig, tmp_path / "pairs.png"))


def test_scatters_of_pairs_are_a_lower_triangle(tmp_path):
    points = np.random.default_rng(0).uniform(size=(50, 3))
    points[0] = 2.0  # beyond the limits
    fig = plots.scatter_matrix(points, LABELS, LIMITS, TICKS)
    ax = fig.axes[0]
    assert [len(line.get_xdata()) for line in ax.lines] == [49, 49, 49]
    bars = next(group for group in ax.collections if len(group.get_paths()) == 3 * 20)
    boxes = [path.get_extents() for path in bars.get_paths()]
    heights = np.array([box.height for box in boxes]).reshape(3, 20)
    counts = np.array([np.histogram(points[:, i], 20, LIMITS[i])[0] for i in range(3)])
    np.testing.assert_allclose(
        heights / heights.max(1, keepdims=True), counts / counts.max(1)[:, None]
    )
    assert boxes[0].y0 > boxes[20].y0 > boxes[40].y0 and boxes[0].x0 < boxes[20].x0 < boxes[40].x0
    fewer = plots.scatter_matrix(points, LABELS, LIMITS, TICKS, most=20)
    assert max(len(line.get_xdata()) for line in fewer.axes[0].lines) <= 20
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
        "loss": {"curves": {"a": (x, y), "dead": (x, y * np.nan)}, "scale": "log"},
        "r2": {"curves": {"a": (x[:1], [-90.0]), "b": (x[:1], [0.9])}, "scale": "r2"},
    }
    fig = plots.learning_curves(panels, "title")
    median = fig.axes[0].lines[2].get_ydata()
    np.testing.assert_array_equal(median, [2.5, 2.0, 3.0, np.nan])
    low, high = fig.axes[1].get_ylim()
    assert low < -90 and high > 0.9
    # Each curve is named once, in the last panel that has it.
    names = [[text.get_text() for text in ax.texts] for ax in fig.axes]
    assert names == [["dead (nothing finite)"], ["a", "b"]]
    size_of(plots.save(fig, tmp_path / "curves.png"))


@pytest.mark.parametrize("scale", ["linear", "log", "r2"])
@pytest.mark.parametrize("log2_x", [False, True])
def test_a_panel_without_curves_stays_empty(scale, log2_x, tmp_path):
    curves = {"a": (np.array([1, 2, 4]), np.array([0.1, 0.5, 0.9]))}
    panels = {"none": {"curves": {}, "scale": scale}, "some": {"curves": curves, "scale": scale}}
    fig = plots.learning_curves(panels, "title", log2_x=log2_x)
    assert [len(ax.lines) for ax in fig.axes] == [0, 2]
    size_of(plots.save(fig, tmp_path / "curves.png"))


@pytest.mark.parametrize(
    "shape, words",
    [
        ((3,), "title"),
        ((3, 1), "title (one seed)"),
        ((3, 2), "title (2 seeds thin, their median thick)"),
    ],
)
def test_learning_curves_say_how_many_seeds(shape, words):
    panels = {"a": {"curves": {"b": (np.arange(3), np.ones(shape))}, "scale": "linear"}}
    fig = plots.learning_curves(panels, "title")
    assert " ".join(fig.get_suptitle().split()) == words


def test_learning_curves_say_how_many_seeds_are_drawn():
    y = np.ones((3, 4))
    y[1:, 1], y[:, 2:] = np.nan, np.nan  # seed 1 dies, seeds 2 and 3 have no number
    other = np.where(np.arange(4) == 3, 1.0, np.nan) * np.ones((3, 1))
    panels = {"a": {"curves": {"b": (np.arange(3), y), "c": (np.arange(3), other)}}}
    panels["a"]["scale"] = "linear"
    title = plots.learning_curves(panels, "title").get_suptitle()
    assert " ".join(title.split()) == "title (3 of 4 seeds thin, their median thick)"


def test_spread_moves_names_apart_and_no_further():
    np.testing.assert_allclose(plots.spread([5.0, 1.0], 2, 0, 10), [5, 1])
    np.testing.assert_allclose(plots.spread([5.0, 5.0, 5.0], 2, 0, 10), [3, 5, 7])
    np.testing.assert_allclose(plots.spread([0.0, 0.0, 10.0], 2, 0, 10), [0, 2, 10])
    np.testing.assert_allclose(plots.spread([9.0, 10.0], 4, 0, 10), [6, 10])
    np.testing.assert_allclose(plots.spread([1.0, 2.0], 4, 0, 3), [0, 4])  # no room
    assert plots.spread([], 2, 0, 10).shape == (0,)
    rng = np.random.default_rng(0)
    for _ in range(20):
        places = rng.uniform(0, 10, 5)
        moved = plots.spread(places, 1.5, 0, 10)
        assert (np.argsort(moved) == np.argsort(places)).all()
        assert np.diff(np.sort(moved)).min() > 1.5 - 1e-9
        assert moved.min() > -1e-9 and moved.max() < 10 + 1e-9


def boxes(ax):
    """Where the texts of an axes lie, in pixels."""
    ax.get_figure().draw_without_rendering()
    return [Text.get_window_extent(text) for text in ax.texts]  # without the lines to them


def test_names_of_curves_do_not_overlap():
    fig = plots.new_figure(4, 3, layout="constrained")
    ax = fig.subplots()
    ax.plot([0, 1], [[0, 0, 0.01, 1]] * 2)
    plots.label_ends(ax, [(1, y, f"curve {y}", "red") for y in (0, 0, 0.01, 1)])
    text_boxes = sorted(boxes(ax), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 for low, high in zip(text_boxes, text_boxes[1:]))
    assert all(box.x0 > ax.get_window_extent().x1 for box in text_boxes)
    assert max(box.x1 for box in text_boxes) <= fig.bbox.x1

    ax = plots.new_figure(4, 3).subplots()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    x, y = np.array([0.5, 0.5, 0.51, 0.9]), np.array([0.5, 0.5, 0.51, 0.5])
    plots.label_points(ax, x, y, list("abcd"))
    text_boxes = boxes(ax)
    assert not any(
        one.overlaps(other) for one in text_boxes for other in text_boxes if one is not other
    )


def test_any_r2_has_its_place():
    ax = plots.new_figure(2, 2).subplots()
    values = [np.array([0.999, -400.0, np.nan]), [0.0]]
    plots.r2_axis(ax, values)
    places = ax.transData.transform([(0, r2) for r2 in (-400, -99, -9, 0, 0.9, 0.99, 0.999)])[:, 1]
    box = ax.get_window_extent()
    assert box.y0 < places[0] and places[-1] < box.y1
    np.testing.assert_allclose(np.diff(places[1:]), places[2] - places[1])
    assert list(ax.get_yticks()) == pytest.approx([0.999, 0.99, 0.9, 0, -9, -99])
    assert [ax.yaxis.get_major_formatter()(tick) for tick in (0.99, -9)] == ["0.99", "−9"]


def test_headlines_fit_their_figure():
    fig = plots.new_figure(3, 2)
    plots.headline(fig, "WWW MMM many wide words " * 4)
    fig.draw_without_rendering()
    (title,) = fig.texts
    assert title.get_window_extent().x1 <= fig.bbox.x1
    assert title.get_text().count("\n") >= 2
    assert plots.wrap("one\n\ntwo", 5) == "one\n\ntwo" and plots.wrap("", 5) == ""


def test_an_unknown_share_is_not_drawn_as_a_small_one():
    ax = plots.new_figure(3, 3).subplots()
    shares = np.array([[np.nan, 0.25], [-20.0, 1.0]])
    _matrix(ax, shares, ["a", "b"], ["x", "y"], beside=shares[::-1])
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["unknown\n(< −9)", "0.25\n(1.00)", "< −9\n(unknown)", "1.00\n(0.25)"]
