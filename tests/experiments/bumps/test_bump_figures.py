"""Every figure of the bumps family, drawn from small made-up arrays: nothing is trained."""

import itertools

import matplotlib.image
import numpy as np
import pytest
from PIL import Image

from cgjax.experiments.bumps.figures import DRAW, FIGURES, cells, curves, pictures
from cgjax.experiments.bumps.studies import analyses


def bumps(n, xy, sigma=1.0):
    """Positive images [P, n, n]."""
    u = np.arange(n)
    across, up = (np.exp(-((u - xy[:, [i]]) ** 2) / (2 * sigma**2)) for i in (0, 1))
    return up[:, :, None] * across[:, None, :]


def made_up(parts, n=8, n_seeds=2, n_steps=3, inverted=False, model="cnn", sigmas=(1.0,)):
    """Arrays of a row: parts {name: [(cell's name, {axis: value})]}; every second cell composes."""
    rng, arrays = np.random.default_rng(0), {"parts": np.array(list(parts))}
    y, x = (place.ravel() for place in np.indices((n, n)))
    xy = np.tile(np.stack([x, y], axis=1), (len(sigmas), 1))
    truth = np.concatenate([bumps(n, xy[: n * n], sigma) for sigma in sigmas])
    lb, ub = n // 4, 3 * n // 4
    hole = np.all((xy >= lb) & (xy <= ub), axis=1)
    for part, named in parts.items():
        part_arrays, size = {}, len(named)
        fails = np.arange(size) % 2 == 0
        errors = 10.0 ** -(3 + rng.random((size, len(xy)))) + 4e-3 * np.outer(fails, hole)
        painted = truth + rng.normal(0, 0.05, (size, *truth.shape))
        painted = np.where((fails[:, None] & hole)[..., None, None], 0.3 * painted, painted)
        if inverted:
            painted = 1 - painted
        whole = 1 - truth if inverted else truth
        picked = np.flatnonzero(hole)[:: max(1, hole.sum() // len(sigmas) // 4)][:4]
        part_arrays |= {"xy": xy, "errors": errors, "is_ood": np.tile(hole, (size, 1))}
        part_arrays |= {
            "inverted": np.array(inverted),
            "model": np.array(model),
            "criterion": np.array(0.05),
        }
        part_arrays["example_xy"] = np.tile(xy[picked], (size, 1, 1))
        part_arrays["example_truth"] = np.tile(whole[picked], (size, 1, 1, 1))
        part_arrays["example_painted"] = painted[:, picked]
        if len(sigmas) == 1:
            row = np.flatnonzero(xy[:, 1] == n // 2)
            part_arrays["sweep_truth"] = np.tile(whole[row], (size, 1, 1, 1))
            part_arrays["sweep_painted"] = painted[:, row]
            part_arrays["sweep_is_ood"] = np.tile(hole[row], (size, 1))
        else:
            part_arrays["sigmas"] = np.array(sigmas)
            part_arrays["by_width/ood_nmse"] = 10 ** rng.normal(-1, 1, (n_seeds, size, len(sigmas)))
        part_arrays["history/step"] = 100.0 * (1 + np.arange(n_steps))
        for region in ("id", "ood"):
            level = np.where(fails & (region == "ood"), 0.0, -1.5 - 0.1 * np.arange(size))
            curve = level - rng.random((n_steps, n_seeds, size)) * 0.3
            curve -= np.linspace(0, 1, n_steps)[:, None, None] * (level < 0)
            part_arrays[f"history/{region}_nmse"] = 10**curve
            part_arrays[f"history/{region}_mse"] = 4e-3 * 10**curve
            part_arrays[f"history/{region}_position_accuracy"] = rng.random(
                (n_steps, n_seeds, size)
            )
        part_arrays["cells"] = np.array([name for name, _ in named])
        for axis in named[0][1]:
            part_arrays[f"cell/{axis}"] = np.array([axes[axis] for _, axes in named])
        arrays |= {f"{part}/{key}" if part else key: value for key, value in part_arrays.items()}
    return arrays


def crossed(**axes):
    """Cells of all combinations, named by them."""
    return [
        (", ".join(map(str, values)), dict(zip(axes, values)))
        for values in itertools.product(*axes.values())
    ]


ONE = [("", {})]
PENALTIES = [("no penalty", {}), ("null_axis 0.001", {})]


def with_fields(arrays, *parts, n=8, kept=2):
    rng = np.random.default_rng(1)
    for part in parts:
        prefix = f"{part}/" if part else ""
        arrays[f"{prefix}fields"] = rng.normal(size=(kept, 2, n + 1, n, n))
        arrays[f"{prefix}field_cells"] = np.arange(kept)
    return arrays


def with_layers(arrays, n=8, n_layers=4, n_seeds=2):
    rng = np.random.default_rng(2)
    for cell in cells.cells(arrays):
        scores = rng.random((n_seeds, n_layers, len(analyses.SCORES)))
        arrays[cell.key("layers", "scores")] = scores
        arrays[cell.key("layers", "volume")] = rng.normal(size=(n_layers, n, n))
        arrays[cell.key("layers", "image_rank")] = rng.integers(0, 3, n * n)
    return arrays


def with_kernels(arrays, n=8):
    rng = np.random.default_rng(3)
    for cell in cells.cells(arrays):
        for kind, length in {"factorised": 2, "radial": 1, "additive": 2, "binary": 1}.items():
            key = cell.key("kernels", kind)
            arrays[f"{key}/lengths"] = np.full(length, 0.5)
            arrays[f"{key}/errors"] = rng.random(n * n) * 1e-3
            arrays[f"{key}/examples"] = rng.random((4, n, n))
        for key in ("cosine", "distance", "overlap"):
            arrays[cell.key("kernels", key)] = rng.random((n * n, n * n))
        arrays[cell.key("kernels", "shared_sum")] = rng.random((4, n, n))
        arrays[cell.key("kernels", "isolated")] = rng.random((3, 4, n, n))
        arrays[cell.key("tangent", "examples")] = rng.random((4, n, n))
        arrays[cell.key("accounts", "binary")] = rng.random((4, n, n))
    return arrays


def table(n=8, **options):
    axes = {"region": ("donut_6_22", "corner_14", "cross_11_17"), "copies": (0, 1)}
    parts = {part: crossed(**axes, penalty=(0,)) for part in ("mlp", "cnn")}
    parts |= {part: crossed(**axes, penalty=(0, 1)) for part in ("embed", "product")}
    arrays = with_fields(made_up(parts, n, **options), "embed", "product", n=n)
    rng, names = np.random.default_rng(4), ("compositionality", "factorization F", "F_K")
    arrays |= {"word_names": np.array(names), "words": rng.random((3, 12)) - 0.2}
    arrays |= {"word_cells": np.array([f"mlp/cell {i}" for i in range(12)])}
    return arrays | {"word_taus": np.corrcoef(rng.random((3, 9)))}


def needed(n=8, sides=(12, 20), n_seeds=2):
    axes = {"copies": (0, 1), "bumps": (1, 10, 100)}
    arrays = made_up({f"n_{side}": crossed(**axes) for side in sides}, n, n_seeds)
    rng = np.random.default_rng(5)
    for criterion, sign in (("position", 1), ("error", -1)):
        values = 10 * rng.uniform(0.5, 1.5, (len(sides), n_seeds, 2))
        values[-1, :, 0], values[0, 0, 1] = np.inf, 0  # never reached; by the smallest set
        arrays[f"needed/{criterion}"] = values
        scores = np.sort(rng.random((len(sides), n_seeds, 2, 3)), axis=-1)
        arrays[f"needed/{criterion} score"] = sign * scores
    axes |= {"sides": sides, "hole": 0.5}
    return arrays | {name: np.array(values) for name, values in axes.items()}


def flatness():
    arrays = with_fields(made_up({"main": PENALTIES, "rank_1": ONE}, n_seeds=6), "main")
    for part in ("main", "rank_1"):
        shape = arrays[f"{part}/history/id_nmse"].shape
        for name in ("rank_one_share", "flat_share"):
            arrays[f"{part}/history/{name}"] = np.random.default_rng(8).random(shape)
    return arrays


def axes():
    arrays, rng = (
        with_fields(made_up({"angle_45": PENALTIES}), "angle_45"),
        np.random.default_rng(8),
    )
    for part in ("angle_45", "characters"):
        for words in ("no penalty", "learned axes"):
            for score in ("id_nmse", "ood_nmse"):
                arrays[f"axes/{part}/{words}/{score}"] = rng.random(3)
    return arrays


def entangling():
    parts = [f"depth_{n}_{start}" for n in (3, 5) for start in ("zero", "background")]
    arrays, rng = made_up({part: ONE for part in parts}), np.random.default_rng(9)
    for part, length in itertools.product(parts, (1260, 20160)):
        arrays[f"entangling/{part}/{length}"] = rng.random((int(part.split("_")[1]), 2))
    return arrays


def phase(n=8, n_seeds=2):
    sides, copies = (3, 5, 7), (0, 1, 4)
    parts = {"": crossed(region=tuple(f"donut_{lb}_7" for lb in sides), copies=copies)}
    arrays, rng = made_up(parts, n, n_seeds), np.random.default_rng(6)
    for key in ("nmse", "accuracy", "F_K hole", "F_K frame", "peak"):
        arrays[f"phase/{key}"] = rng.random((n_seeds, len(sides), len(copies)))
    arrays |= {"phase/sides": np.array(sides), "phase/copies": np.array(copies)}
    return arrays | {"phase/tau hole": np.array([-0.5, -0.7, -0.3])}


def percolation(n=8, n_seeds=2):
    shares = (0.05, 0.2, 1.0)
    cell = crossed(region=("donut_2_5",), copies=(1,), share=shares)
    arrays, rng = made_up({"narrow": cell, "wide": cell}, n, n_seeds), np.random.default_rng(7)
    for part in ("narrow", "wide"):
        arrays[f"{part}/shares"] = np.array(shares)
        arrays[f"{part}/mass_ratio"] = np.sort(rng.random(3))
        arrays[f"{part}/accuracy"] = np.sort(rng.random((n_seeds, 3)))
    return arrays


def scaling(sizes=(8, 9, 10), holes=(0.2, 0.4, 0.6)):
    arrays = {"parts": np.array([f"{code}_{n}" for code in ("bump", "ramp") for n in sizes])}
    for code, n in itertools.product(("bump", "ramp"), sizes):
        arrays |= made_up({f"{code}_{n}": crossed(hole=holes)}, n) | {"parts": arrays["parts"]}
    return arrays


def three():
    axes = crossed(region=("donut_2_5", "wide_2_5"), copies=(0, 1))
    return made_up({"mlp": axes, "cnn": axes}, sigmas=(0.7, 1.4))


def without_hole():
    arrays = with_layers(made_up({"bump": ONE, "ramp": ONE}))
    for part in ("bump", "ramp"):
        arrays[f"{part}/is_ood"][:] = False
        arrays[f"{part}/history/ood_nmse"][:] = np.nan
    return arrays


# row or study: (its arrays, the figures that no row above it has)
ROWS = {
    "demo": (
        lambda: with_fields(made_up({"mlp": ONE, "product": PENALTIES}), "product"),
        "examples.png errors.png training.png fields.png sweep.gif",
    ),
    "decoders": (lambda: made_up({"": ONE}, n_seeds=1), ""),
    "B2": (lambda: made_up({f"{net}_{n}": ONE for net in ("mlp", "cnn") for n in (3, 10)}),
           "depth.png"),
    "B3": (lambda: made_up({f"width_{m}": ONE for m in (1, 3, 11)}), "code_width.png"),
    "B4": (lambda: with_layers(made_up({"depth_3": ONE, "depth_5": ONE})), "layers.png volume.png"),
    "B5": (lambda: with_kernels(made_up({"cnn": ONE, "mlp": ONE})),
           "kernels.png similarity.png kernel_examples.png"),
    "B6": (lambda: with_kernels(made_up({"bump": ONE, "ramp": ONE}, inverted=True)),
           "superposition.png"),
    "B11": (lambda: made_up({"pixel_2": ONE}), ""),
    "B11_transformer": (lambda: made_up({"depth_2": ONE}), ""),
    "B8": (lambda: with_fields(made_up({"": PENALTIES}), ""), ""),
    "table": (table, "table.png words.png"),
    "ablation": (lambda: made_up({"embed": 9 * PENALTIES, "product": PENALTIES}), "ablation.png"),
    "ranks": (without_hole, "layers.png"),
    "three": (three, "widths.png"),
    "continuous": (scaling, "examples.png scaling.png"),
    "needed": (needed, "examples.png needed.png criteria.png"),
    "flatness": (flatness, ""),
    "axes": (axes, "axes.png"),
    "entangling": (entangling, "entangling.png"),
    "phase": (phase, "examples.png phase.png"),
    "percolation": (percolation, "examples.png percolation.png"),
}  # fmt: skip
NEW = {}  # row: the functions that no row above it has, so that each is drawn once
for _row in ROWS:
    NEW[_row] = [one for one in FIGURES[_row] if not any(one in new for new in NEW.values())]


@pytest.mark.parametrize("row", [row for row, new in NEW.items() if new])
def test_figures(row, tmp_path):
    make, names = ROWS[row]
    arrays = make()
    for draw in NEW[row]:
        draw(arrays, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(names.split())
    for path in tmp_path.glob("*.png"):
        image = matplotlib.image.imread(path)
        assert min(image.shape[:2]) > 60 and image[..., :3].std() > 0.02, path.name
    for path in tmp_path.glob("*.gif"):
        with Image.open(path) as found:
            assert found.n_frames == 8 and found.info["loop"] == 0
        assert path.stat().st_size < 400_000


# Special cases of maps: nothing held out, several widths, too many cells.
@pytest.mark.parametrize("make", [without_hole, three, table])
def test_maps(make, tmp_path):
    arrays = make()
    pictures.draw_errors(arrays, tmp_path)
    assert (tmp_path / "errors.png").exists()


def test_every_draw_is_tested():
    others = {"turning", "inverse"}  # drawn where they are run, in test_bump_turning
    assert set(DRAW) - others == set(FIGURES) - others == set(ROWS)


def test_many_cells_are_chosen_from(tmp_path):
    arrays = table()
    curves.draw_training(arrays, tmp_path)  # more curves than have names at their ends
    assert (tmp_path / "training.png").exists()
    picked = cells.selected(arrays)
    assert len(cells.cells(arrays)) == 36 and len(picked) == 12
    assert all("donut 6–22" in cell.label for cell in picked)


def test_cells_have_colours_of_their_own():
    arrays = made_up({f"{kind}_{d}": ONE for kind in ("mlp", "cnn") for d in range(2, 10)})
    assert len({cell.colour for cell in cells.cells(arrays)}) == 16


@pytest.mark.parametrize(
    "name, text",
    [
        ("donut_6_22, stripes x0", "donut 6–22, no stripes"),
        ("corner_14, stripes x1", "corner 14, stripes"),
        ("stripes x4", "stripes ×4"),
        ("mlp_3", "mlp 3"),
    ],
)
def test_words(name, text):
    assert cells.words(name) == text
