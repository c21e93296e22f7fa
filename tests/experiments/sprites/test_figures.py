"""The sprites study's figures and tables, from tiny arrays."""

import numpy as np
import pytest
from matplotlib.image import imread

from cgjax.experiments.sprites import figures, scenes
from cgjax.published import PUBLISHED

SIZE = 6
SCENES = ("target", "support_0", "support_1")


def images(*shape, channels=3):
    return np.random.default_rng(0).uniform(-0.3, 1.3, (*shape, SIZE, SIZE, channels))


def entry(ours, sd, values, paper=None, paper_sd=None):
    return {"ours": ours, "sd": sd, "values": values, "seeds": list(range(len(values or ())))} | {
        "paper": paper,
        "paper_sd": paper_sd,
        "where": "here",
    }


@pytest.fixture(scope="module")
def arrays():
    """Everything a run may save, at two or three points each, with bad predictions among them."""
    rng = np.random.default_rng(0)
    made = {
        "grid/latents": rng.integers(0, 3, (60, 6)) / 2,
        "support/latents": rng.uniform(size=(9, 6)),
    }
    for scene in SCENES:
        made[f"motivation/{scene}"] = (255 * images(2).clip(0, 1)).astype(np.uint8)
    for part in ("compositional", "monolithic"):
        for scene in SCENES:
            made[f"motivation/{part}/{scene}"] = images(2)
        made[f"grid/{part}/mse"] = rng.uniform(size=60)
        made[f"history/{part}/step"] = made[f"history/{part}/eval_step"] = np.arange(3)
        for metric in ("loss", "r2_id", "r2_all"):
            made[f"history/{part}/{metric}"] = rng.uniform(size=(3, 2))
        made[f"traversal/0_5/{part}"] = images(3, 3)
        for where in ("random", "support"):
            made[f"reconstruction/{where}/target"] = images(2)
            made[f"reconstruction/{where}/{part}/composed"] = images(2)
    made["reconstruction/random/compositional/slots"] = images(2, 2, channels=4)
    made["traversal/0_5/target"] = images(3, 3)
    made["traversal/0_7/target"] = made["traversal/0_7/compositional"] = images(3, 3)
    made["motivation/monolithic/target"][0] = np.nan
    made["grid/monolithic/mse"][:5] = np.inf
    made["supports/random"] = rng.uniform(size=(20, 2))
    made["supports/random/verdict"] = np.array("sufficient\nall pixels seen")
    made["supports/diagonal_narrow"] = rng.uniform(size=(20, 2))
    return made


@pytest.mark.usefixtures("whole_figures")
def test_draw_makes_every_figure(arrays, tmp_path):
    results = {"demo": {"compositional/r2_all": entry(0.9, 0.1, [0.8, 1.0], 0.95)}}
    paths = figures.draw(arrays, results, tmp_path)
    parts = ("compositional", "monolithic")
    expected = {"concept", "motivation", "supports", "heatmap", "latents", "learning_curves"}
    expected |= {
        f"{name}_{part}" for name in ("motivation", "pairs", "traversals") for part in parts
    }
    expected |= {"traversals_compositional_every_pair"}  # the other part has only a pair of WALKS
    expected |= {
        f"reconstruction_{where}_{part}" for where in ("random", "support") for part in parts
    }
    assert {path.name for path in paths} == {f"{name}.png" for name in expected} | {
        "table.md",
        "table.tex",
    }
    assert sorted(paths) == sorted(tmp_path.iterdir())
    for path in paths:
        if path.suffix == ".png":
            height, width = imread(path).shape[:2]
            assert 100 < height < 3000 and 400 < width < 3000, path.name
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert cells(table, "demo/compositional")[-3:] == ["0.9000 ± 0.1000", "0.9500", "-0.0500"]
    assert len(table.splitlines()) == 2 + 1 + 2


def test_draw_ignores_absent_keys(arrays, tmp_path):
    assert [path.name for path in figures.draw({}, {}, tmp_path)] == ["concept.png"]
    # A figure with half of its arrays is not drawn.
    halves = ("motivation/target", "motivation/compositional/target", "grid/compositional/mse")
    halves += ("history/compositional/loss", "reconstruction/random/compositional/composed")
    halves += ("traversal/0_5/compositional",)
    some = {key: arrays[key] for key in halves}
    assert [path.name for path in figures.draw(some, {}, tmp_path)] == ["concept.png"]


def test_draw_reads_a_saved_file(arrays, tmp_path):
    some = {key: arrays[key] for key in arrays if key.startswith("supports/")}
    np.savez(tmp_path / "arrays.npz", **some)
    with np.load(tmp_path / "arrays.npz") as saved:
        names = [path.name for path in figures.draw(saved, {}, tmp_path / "figures")]
    assert names == ["concept.png", "supports.png"]


def test_marginal_mean_by_hand():
    latents = np.array([[0.0, 0.5, 1.0], [0.0, 0.5, 0.0], [0.5, 1.0, 0.5], [1.0, 0.0, 0.5]])
    values = np.array([1.0, 3.0, 7.0, np.inf])
    mean = figures.marginal_mean(latents, values, (1, 0))
    expected = np.full((3, 3), np.nan)
    expected[1, 0], expected[2, 1], expected[0, 2] = 2.0, 7.0, np.inf
    np.testing.assert_array_equal(mean, expected)
    np.testing.assert_array_equal(figures.marginal_mean(latents, values, (0,)), [2.0, 7.0, np.inf])
    # A grid value that never occurs still has its place, so that axes stay evenly spaced.
    mean = figures.marginal_mean(latents[:2], values[:2], (0,), levels=(0.0, 0.5, 1.0))
    np.testing.assert_array_equal(mean, [2.0, np.nan, np.nan])


def test_heatmap_cells_and_axes(tmp_path, monkeypatch):
    # Float32 grid values, one of them not exact, must fall into one column.
    levels = np.arange(11, dtype=np.float32) / np.float32(10)
    first, second = np.meshgrid(levels, levels, indexing="ij")
    latents = np.zeros((121, 10), np.float32)
    latents[:, 0], latents[:, 5] = first.ravel(), second.ravel()
    mse = latents[:, 0] + 10 * latents[:, 5]
    seen = {}
    heat_maps = figures.plots.heat_maps

    def spy(panels, extent, *rest):
        seen.update(panels=panels, extent=extent)
        return heat_maps(panels, extent, *rest)

    monkeypatch.setattr(figures.plots, "heat_maps", spy)
    path = figures.heatmap_of({"a": (latents, mse), "b": (latents, 2 * mse)}, tmp_path / "h.png")
    assert path.exists()
    single, doubled = seen["panels"].values()
    assert single.shape == (11, 11)
    # Row: sprite 2 x, upward; column: sprite 1 x.
    np.testing.assert_allclose(single, levels[None, :] + 10 * levels[:, None], rtol=1e-6)
    np.testing.assert_allclose(doubled, 2 * single)
    assert seen["extent"] == pytest.approx((0.06, 0.94, 0.06, 0.94))


def test_latent_names():
    assert scenes.latent_name(0) == "sprite 1 x"
    assert scenes.latent_name(9) == "sprite 2 hue"
    labels, limits, ticks = figures.latent_axes(10, 0.1)
    assert labels[7] == "sprite 2 shape" and limits[0] == (-0.1, 1.1)
    assert ticks[3] == [(0.0, "0.09"), (1.0, "0.22")]


def cells(text, row):
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_table_shows_ours_paper_and_difference():
    results = {
        "orthogonal_compositional": {
            "r2_all": entry(0.9402, 0.002, [0.938, 0.9402, 0.9424], 0.9509, 0.0014),
            "mse_all": entry(1.4e-3, 1e-4, [1.3e-3, 1.4e-3, 1.5e-3]),
        },
        "orthogonal_monolithic": {"r2_all": entry(-0.52, None, [-0.52])},
        "half": {"r2_id": entry(0.5, None, [None, 0.5, None]), "r2_all": entry(None, None, [None])},
    }
    text = figures.table_markdown(results)
    head, rule, *body = text.splitlines()[:-2]
    assert len(body) == 13 and {line.count("|") for line in (head, rule, *body)} == {15}
    ours = cells(text, "orthogonal_compositional")
    assert ours[1] == "3"
    assert ours[2:5] == ["-", "0.6940 ± 0.011", "-"]
    # The published value is filled in where the results hold none.
    assert ours[5:8] == ["1.400 ± 0.10", "1.240 ± 0.041", "+0.160"]
    assert ours[11:] == ["0.9402 ± 0.0020", "0.9509 ± 0.0014", "-0.0107"]
    # One seed has no deviation.
    assert cells(text, "orthogonal_monolithic")[11:] == ["-0.5200", "-0.4996 ± 0.0670", "-0.0204"]
    assert cells(text, "random_compositional")[1:5] == ["-", "-", "1.073 ± 0.026", "-"]
    assert cells(text, "half")[1] == "1 of 3"
    assert cells(text, "half")[8:] == ["0.5000", "-", "-", "-", "-", "-"]
    assert [line.split(" | ")[0][2:] for line in body[:12]] == list(PUBLISHED["sprites"])


def test_latex_table_has_the_same_numbers(tmp_path):
    results = {"orthogonal_rgba": {"r2_all": entry(0.97, 0.01, [0.96, 0.98])}}
    text = figures.table_latex(results)
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(lines) == 2 + 12
    assert {line.count("&") for line in lines[1:]} == {13}
    assert r"orthogonal\_rgba & 2 & - & 0.2669 $\pm$ 0.0028 & -" in text
    assert r"0.9700 $\pm$ 0.0100 & 0.9792 $\pm$ 0.0001 & $-$0.0092 \\" in text
    paths = figures.write_tables(results, tmp_path)
    assert [path.name for path in paths] == ["table.md", "table.tex"]
    assert paths[1].read_text(encoding="utf-8") == text


def test_results_of_several_parts():
    results = {
        "demo": {"monolithic/r2_all": 1, "monolithic/collapsed": 2},
        "diagonal": {"r2_id": 3},
    }
    assert figures.by_part(results) == {"demo/monolithic": {"r2_all": 1}, "diagonal": {"r2_id": 3}}


def test_traversals_show_first_latent_to_the_right():
    shown = figures.face(np.arange(4.0).reshape(2, 2, 1, 1, 1) / 4)
    assert shown[::2, ::2, 0].tolist() == [[0.5, 0.75], [0.0, 0.25]]
