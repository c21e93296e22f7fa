"""Figures and tables of the sprites study (Wiedemer et al. 2023), from saved arrays.

`draw` takes the flat dictionary of a run's `arrays.npz` and draws every figure whose keys it has;
each `draw_*` names the keys it reads. `<part>` is a model's name, such as "compositional".
"""

import pathlib
import re

import numpy as np
from matplotlib import patches

from cgjax import plots
from cgjax.core import hosts
from cgjax.core.workdir import write_atomic
from cgjax.experiments.sprites import beyond, scenes
from cgjax.experiments.sprites.panels import WALKS
from cgjax.experiments.sprites.scenes import latent_name
from cgjax.published import PUBLISHED

# Raw latents lie in [0, 1]; axes show the scaled values that renderer and networks take.
ENDS = [(f"{low:g}", f"{low + wide:g}") for low, wide in zip(scenes.LOWEST, scenes.WIDTH)]
ENDS[scenes.LATENTS.index("shape")] = ("tri", "circ")
SCALE = "MSE, mean over other latents"
MOST_LATENTS = 10  # in matrices over pairs of latents: more than two sprites are not readable
COLOURS = {"compositional": plots.COLOURS[0], "monolithic": plots.COLOURS[1]}
MOST = 5  # scenes of `draw_motivation`: with more of them its text is too small on a phone
SCENES = {
    "target": "new combination",
    "support_0": "sprite 2 as in training",
    "support_1": "sprite 1 as in training",
}
METRICS = {"mse_id": "1e3 MSE ID", "mse_all": "1e3 MSE all", "r2_id": "R2 ID", "r2_all": "R2 all"}
NOTE = "Mean \u00b1 sample deviation over seeds; the paper's orthogonal_rgba is 3 of its 5 seeds."


def parts_of(arrays, prefix, suffixes, needed=()):
    """Names `part` with all of `prefix/part/suffix`, where all of `prefix/needed` exist too."""
    if not all(f"{prefix}/{name}" in arrays for name in needed):
        return []
    pattern = re.compile(rf"{re.escape(prefix)}/([^/]+)/{re.escape(suffixes[0])}")
    parts = [match[1] for key in arrays if (match := pattern.fullmatch(key))]
    return [p for p in parts if all(f"{prefix}/{p}/{suffix}" in arrays for suffix in suffixes)]


def latent_axes(n, margin):
    """Labels, limits and end ticks of n raw latents, as arguments of the matrices of `plots`."""
    ticks = [list(zip((0.0, 1.0), ENDS[index % len(ENDS)])) for index in range(n)]
    return list(map(scenes.latent_name, range(n))), [(-margin, 1 + margin)] * n, ticks


def grid_levels(latents):
    """The values a grid of latents [n, d] takes in any dimension, ascending."""
    return np.unique(np.round(np.asarray(latents, float), 6))


def marginal_mean(latents, values, dims, levels=None):
    """Mean of `values` over all latents but `dims`.

    latents [n, d] on a grid, values [n], dims a tuple of columns, levels the grid values (default:
    those found in the latents). Returns [len(levels)] * len(dims), NaN where no sample fell.
    """
    levels = grid_levels(latents) if levels is None else np.asarray(levels, float)
    distance = np.abs(np.asarray(latents, float)[:, list(dims), None] - levels)
    cells = np.ravel_multi_index(distance.argmin(-1).T, (len(levels),) * len(dims))
    size = len(levels) ** len(dims)
    count = np.bincount(cells, minlength=size)
    total = np.bincount(cells, weights=np.asarray(values, float), minlength=size)
    mean = np.full(size, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean.reshape((len(levels),) * len(dims))


def error_note(target, prediction):
    """Mean squared error of images, as text; targets may be uint8."""
    target = np.asarray(target)
    scale = 255.0 if np.issubdtype(target.dtype, np.integer) else 1.0
    error = float(np.mean((target / scale - np.asarray(prediction, float)) ** 2))
    return f"MSE {error:.4f}" if np.isfinite(error) else "not finite"


def draw_motivation(arrays, folder):
    """Sprites seen apart in training, shown together: targets above the models' predictions.

    The first MOST scenes are drawn; errors are means over all scenes.
    Reads motivation/<scene> and motivation/<part>/<scene> [n, h, w, 3], scenes as in SCENES.
    """
    parts = parts_of(arrays, "motivation", tuple(SCENES), needed=SCENES)
    panels = {f"motivation_{part}": [part] for part in parts}
    if {"monolithic", "compositional"} <= set(parts):
        panels["motivation"] = ["monolithic", "compositional"]
    paths = []
    for name, members in panels.items():
        targets = {label: arrays[f"motivation/{scene}"] for scene, label in SCENES.items()}
        blocks = [plots.Block(_first(targets), "target")]
        for part in members:
            rows = {label: arrays[f"motivation/{part}/{scene}"] for scene, label in SCENES.items()}
            notes = {row: error_note(targets[row], rows[row]) for row in rows}
            blocks.append(plots.Block(_first(rows), part, notes=notes))
        title = f"Known sprites in new combinations: {' and '.join(members)} model, first seed"
        paths.append(plots.save(plots.image_grid(blocks, title), folder / f"{name}.png"))
    return paths


def _first(rows: dict) -> dict:
    return {label: images[:MOST] for label, images in rows.items()}


def draw_supports(arrays, folder):
    """Scatter of (x of sprite 1, x of sprite 2) for every support, titled with the rank verdict.

    Reads supports/<name> [m, 2] and supports/<name>/verdict.
    """
    names = [key.split("/")[1] for key in arrays if re.fullmatch(r"supports/[^/]+", key)]
    if not names:
        return []
    panels = {}
    for name in names:
        verdict = str(np.asarray(arrays.get(f"supports/{name}/verdict", "")))
        panels[name.replace("_", " ")] = (arrays[f"supports/{name}"], verdict)
    several = len(panels) > 1
    title = (
        f"{'Training supports' if several else 'The training support'}, seen in the two horizontal "
        f"positions, and the share of sprites that {'each' if several else 'it'} identifies under "
        "hard occlusion"
    )
    fig = plots.scatter_panels(panels, "sprite 1 x (raw)", "sprite 2 x (raw)", title)
    return [plots.save(fig, folder / "supports.png")]


def heatmap_of(named, path):
    """Mean error over (sprite 1 x, sprite 2 x), runs side by side under one colour scale.

    named {title: (raw grid latents [n, 10], mse [n])}; returns the path.
    """
    levels = grid_levels(np.concatenate([np.ravel(latents) for latents, _ in named.values()]))
    panels = {}
    for name, (latents, mse) in named.items():
        mean = marginal_mean(latents, mse, (5, 0), levels)
        panels[f"{name} (mean {np.mean(mse):.4f})"] = mean
    low, wide = scenes.LOWEST[0], scenes.WIDTH[0]
    half = 0.5 * wide / max(1, len(levels) - 1)
    extent, ticks = (low - half, low + wide + half) * 2, low + wide * np.linspace(0, 1, 5)
    title = "Error over the whole latent cube, by the sprites' horizontal positions (first seed)"
    fig = plots.heat_maps(
        panels, extent, scenes.latent_name(0), scenes.latent_name(5), title, SCALE, ticks
    )
    return plots.save(fig, path)


def draw_heatmap(arrays, folder):
    """One heat map per part. Reads grid/latents [n, 10] and grid/<part>/mse [n]."""
    parts = parts_of(arrays, "grid", ("mse",), needed=("latents",))
    named = {part: (arrays["grid/latents"], arrays[f"grid/{part}/mse"]) for part in parts}
    return [heatmap_of(named, folder / "heatmap.png")] if named else []


def draw_pairs(arrays, folder):
    """Mean error over every pair of latents. Reads grid/latents [n, d] and grid/<part>/mse [n]."""
    paths = []
    for part in parts_of(arrays, "grid", ("mse",), needed=("latents",)):
        latents = np.asarray(arrays["grid/latents"])[:, :MOST_LATENTS]
        mse = arrays[f"grid/{part}/mse"]
        levels, n = grid_levels(latents), latents.shape[1]
        pairs = [(i, j) for i in range(n) for j in range(i)]
        maps = {pair: marginal_mean(latents, mse, pair, levels) for pair in pairs}
        lines = [(levels, marginal_mean(latents, mse, (i,), levels)) for i in range(n)]
        axes = latent_axes(n, 0.5 / max(1, len(levels) - 1))
        title = (
            f"Error of the {part} model over pairs of latents, and over each (lines); first seed"
        )
        fig = plots.pair_matrix(maps, lines, *axes, title, SCALE)
        paths.append(plots.save(fig, folder / f"pairs_{part}.png"))
    return paths


def draw_reconstructions(arrays, folder):
    """The drawing of each slot, the image that C composes of them, and the target.

    Reads reconstruction/<where>/target [n, h, w, 3], .../<part>/slots [K, n, h, w, 3 or 4] (absent
    or K = 1 for a model without slots) and .../<part>/composed [n, h, w, 3].
    """
    paths = []
    for where, text in (("random", "the whole cube"), ("support", "the training support")):
        prefix = f"reconstruction/{where}"
        for part in parts_of(arrays, prefix, ("composed",), needed=("target",)):
            slots = list(arrays.get(f"{prefix}/{part}/slots", ()))
            rows = {f"sprite {k + 1} alone": s for k, s in enumerate(slots) if len(slots) > 1}
            composed, target = arrays[f"{prefix}/{part}/composed"], arrays[f"{prefix}/target"]
            name = "composed" if rows else "predicted"
            rows |= {name: composed, "target": target}
            block = plots.Block(rows, notes={name: error_note(target, composed)})
            title = f"What the {part} model draws: scenes from {text}, first seed"
            fig = plots.image_grid([block], title, largest=128)
            paths.append(plots.save(fig, folder / f"reconstruction_{where}_{part}.png"))
    return paths


def draw_latents(arrays, folder):
    """Scatter matrix of the training support. Reads support/latents, raw [m, d]."""
    if "support/latents" not in arrays:
        return []
    points = np.asarray(arrays["support/latents"])[:, :MOST_LATENTS]
    title = "The training support: every pair of latents, and each alone"
    fig = plots.scatter_matrix(points, *latent_axes(points.shape[1], 0.04), title)
    return [plots.save(fig, folder / "latents.png")]


def draw_history(arrays, folder):
    """Loss and R2 over training. Reads history/<part>/step, loss, eval_step, r2_id, r2_all."""
    titles = ("training loss", "R\u00b2 on the training support", "R\u00b2 on the whole cube")
    panels = {}
    for metric, title in zip(("loss", "r2_id", "r2_all"), titles):
        axis, scale = ("step", "log") if metric == "loss" else ("eval_step", "r2")
        curves = {
            part: (arrays[f"history/{part}/{axis}"], arrays[f"history/{part}/{metric}"])
            for part in parts_of(arrays, "history", (metric, axis))
        }
        if curves:
            panels[title] = {"curves": curves, "scale": scale}
    if not panels:
        return []
    fig = plots.learning_curves(panels, "Loss and R\u00b2 along training", colours=COLOURS)
    return [plots.save(fig, folder / "learning_curves.png")]


def _concept_box(ax, x, y, text, colour):
    """A rounded box with a symbol, centred at (x, y)."""
    corner, style = (x - 0.34, y - 0.26), "round,pad=0,rounding_size=0.1"
    ax.add_patch(patches.FancyBboxPatch(corner, 0.68, 0.52, style, fc=colour, ec="none"))
    ax.text(x, y, text, ha="center", va="center", fontsize=14, color="white")


def _concept_picture(ax, x, y, sprites):
    """A little black image with sprites in it, the last one in front."""
    ax.add_patch(patches.Rectangle((x - 0.42, y - 0.42), 0.84, 0.84, fc="black"))
    for sprite in sprites:
        if sprite == "circle":
            ax.add_patch(patches.Circle((x + 0.1, y + 0.06), 0.17, fc=plots.COLOURS[5]))
        else:
            corners = ((x - 0.28, y - 0.26), (x + 0.1, y - 0.26), (x - 0.09, y + 0.1))
            ax.add_patch(patches.Polygon(corners, fc=plots.COLOURS[4]))


@plots.styled
def draw_concept(folder):
    """Def. 1 as a diagram: z_k -> phi_k -> C -> x, with a picture of each part."""
    fig = plots.new_figure(7.2, 2.9)
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, 7.2), ylim=(0, 2.9), autoscale_on=False)
    ax.axis("off")

    def arrow(start, end):
        ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": plots.INK})

    for k, (y, sprite) in enumerate(((1.85, "triangle"), (0.65, "circle"))):
        ax.text(0.55, y + 0.06, f"$z_{k + 1}$", ha="center", va="center", fontsize=16)
        ax.text(0.55, y - 0.24, f"sprite {k + 1}", ha="center", va="center", fontsize=8)
        arrow((0.85, y), (1.5, y))
        _concept_box(ax, 1.85, y, rf"$\varphi_{k + 1}$", plots.COLOURS[0])
        arrow((2.2, y), (2.8, y))
        _concept_picture(ax, 3.25, y, (sprite,))
        arrow((3.7, y), (4.6, 1.25 + 0.15 * np.sign(y - 1.25)))
    _concept_box(ax, 4.95, 1.25, "$C$", plots.INK)
    arrow((5.3, 1.25), (5.9, 1.25))
    _concept_picture(ax, 6.35, 1.25, ("circle", "triangle"))
    ax.text(6.3, 0.58, r"$x = C(\varphi_1(z_1), \varphi_2(z_2))$", ha="center", fontsize=9)
    title = "One function per component, one that composes: known parts in any combination"
    ax.text(0.15, 2.62, title, va="center", **plots.HEADLINE)
    return [plots.save(fig, folder / "concept.png")]


def _number(value, metric, digits, sign=""):
    """R2 with four decimals, MSE in thousandths with `digits` significant digits; "-" for none."""
    if value is None:
        return "-"
    if metric.startswith("r2"):
        return f"{value:{sign}.4f}"
    return f"{1e3 * value:{sign}#.{digits}g}".rstrip(".")


def _seeds(results):
    """Number of seeds behind a row, as text; "2 of 3" where one has no finite score."""
    values = max((entry.get("values") or () for entry in results.values()), key=len, default=())
    alive = sum(value is not None for value in values)
    return f"{alive} of {len(values)}" if alive < len(values) else str(alive or "-")


def _cells(row, metric, entry):
    """Our mean with its deviation, the paper's mean with its deviation, the difference, as text."""
    published = PUBLISHED["sprites"].get(row, {}).get(metric, {})
    ours, paper, paper_sd = (entry.get(name) for name in ("ours", "paper", "paper_sd"))
    if paper is None:
        paper, paper_sd = published.get("mean"), published.get("sd")
    cells = []
    for mean, deviation in ((ours, entry.get("sd")), (paper, paper_sd)):
        spread = "" if None in (mean, deviation) else f" \u00b1 {_number(deviation, metric, 2)}"
        cells.append(_number(mean, metric, 4) + spread)
    difference = None if None in (ours, paper) else ours - paper
    return [*cells, _number(difference, metric, 3, "+")]


def table_rows(results_by_row, rows=None):
    """The table as text: row, seeds, then ours, paper and difference for each metric.

    results_by_row {row: {metric: {"ours", "sd", "values", "paper", "paper_sd"}}}; rows: by default
    the published ones, then any others with results.
    """
    table = []
    for row in rows or dict.fromkeys([*PUBLISHED["sprites"], *results_by_row]):
        results = results_by_row.get(row, {})
        cells = [_cells(row, metric, results.get(metric, {})) for metric in METRICS]
        table.append([row, _seeds(results), *sum(cells, [])])
    return table


def table_markdown(results_by_row, rows=None):
    """The results table in Markdown: ours beside the paper."""
    head = ["row", "seeds", *sum(([name, "paper", "diff"] for name in METRICS.values()), [])]
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [head, rule, *table_rows(results_by_row, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{NOTE}\n"


def table_latex(results_by_row, rows=None):
    """The results table in LaTeX (needs the package booktabs)."""
    spans = [rf"\multicolumn{{3}}{{c}}{{{name}}}" for name in METRICS.values()]
    head = ["row", "seeds"] + ["ours", "paper", "diff"] * len(METRICS)
    body = []
    for row, *cells in table_rows(results_by_row, rows):
        cells = [re.sub(r"([+-])(?=\d)", r"$\1$", cell) for cell in cells]
        body.append([row, *(cell.replace("\u00b1", r"$\pm$") for cell in cells)])
    lines = [" & ".join(line) + r" \\" for line in (["", "", *spans], head, *body)]
    text = [r"\begin{tabular}{lr" + "rrr" * len(METRICS) + "}", r"\toprule", *lines[:2]]
    text += [r"\midrule", *lines[2:], r"\bottomrule", r"\end{tabular}"]
    text = "\n".join(text).replace("_", r"\_").replace("1e3", "$10^3$").replace("R2", "$R^2$")
    return f"% {NOTE}\n{text}\n"


def write_tables(results_by_row, folder, rows=None):
    """Write table.md and table.tex; returns their paths."""
    paths = [pathlib.Path(folder) / name for name in ("table.md", "table.tex")]
    for path, text in zip(paths, (table_markdown, table_latex)):
        if hosts.is_writer():
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text(results_by_row, rows))
    return paths


def by_part(results):
    """{row: {"part/metric": entry}} -> {"row/part": {metric: entry}}, metrics of the table only."""
    rows = {}
    for row, metrics in results.items():
        for key, entry in metrics.items():
            part, _, metric = key.rpartition("/")
            if metric in METRICS:
                rows.setdefault(f"{row}/{part}" if part else row, {})[metric] = entry
    return rows


def draw(arrays, results, folder):
    """Draw every figure whose arrays are present, and the table of `results`; returns the paths.

    arrays: the flat content of arrays.npz. results: {row: metrics of its results.json}, metrics
    {"metric" or "part/metric": {"ours", "sd", "values", "paper", "paper_sd", ...}}; {} for none.
    """
    folder = pathlib.Path(folder)
    paths = draw_before_training(arrays, folder) + draw_parts(arrays, folder)
    return paths + draw_together(arrays, results, folder)


def draw_before_training(arrays, folder):
    """The figures that need no model."""
    return draw_concept(folder) + draw_supports(arrays, folder) + draw_latents(arrays, folder)


def draw_parts(arrays, folder):
    """The figures of single models: each can be drawn while the next model trains."""
    figures = (draw_pairs, draw_reconstructions, draw_traversals)
    return sum((figure(arrays, folder) for figure in figures), [])


def draw_together(arrays, results, folder):
    """The figures that compare models, and the table."""
    figures = (draw_motivation, draw_heatmap, draw_history, beyond.draw_curves)
    paths, rows = sum((figure(arrays, folder) for figure in figures), []), by_part(results)
    return paths + (write_tables(rows, folder, tuple(rows)) if rows else [])


# --- traversals -----------------------------------------------------------------------------------


def face(images, most=7):
    """Traversal [g, g, h, w, 3] -> one image, first axis upward; at most `most` steps a side."""
    images = np.asarray(images)
    rows, columns = (np.linspace(0, g - 1, min(g, most)).astype(int) for g in images.shape[:2])
    return plots.tile(plots.displayable(images[rows[::-1]][:, columns]), background=0.45)


def _walk_label(pair):
    """ "0_6" -> which latent grows to the right, and which upward."""
    right, up = (latent_name(int(dim)) for dim in pair.split("_"))
    return f"{right} \u2192\n{up} \u2191"


def draw_traversals(arrays, folder):
    """Two latents walked over a grid, target above prediction: the pairs of WALKS, then all pairs.

    Reads traversal/<a>_<b>/target and traversal/<a>_<b>/<part> [g, g, h, w, 3]: latent b grows
    along the first axis (shown upward), latent a along the second (to the right).
    """
    available = {tuple(key.split("/")[1:]) for key in arrays if key.startswith("traversal/")}
    paths = []
    for part in sorted({name for _, name in available} - {"target"}):
        both = {pair for pair, _ in available if {(pair, "target"), (pair, part)} <= available}
        sheets = {"": ([pair for pair in WALKS if pair in both], 5, 4)}
        if both - set(WALKS):
            sheets["_every_pair"] = (sorted(both), 3, 9)
        for name, (walks, most, per_row) in sheets.items():
            if walks:
                fig = _traversal_sheet(arrays, part, walks, most, per_row)
                paths.append(plots.save(fig, folder / f"traversals_{part}{name}.png"))
    return paths


def _traversal_sheet(arrays, part, walks, most, per_row):
    """`per_row` walks side by side, each thinned to `most` by `most` images."""
    faces = [[face(arrays[f"traversal/{p}/{n}"], most) for n in ("target", part)] for p in walks]
    blocks = []
    for start in range(0, len(walks), per_row):
        chunk = slice(start, start + per_row)
        targets, predictions = map(np.stack, zip(*faces[chunk]))
        rows = {"target": targets, part: predictions}
        blocks.append(plots.Block(rows, columns=tuple(map(_walk_label, walks[chunk]))))
    title = f"Walks along two latents at a time, the others at 0: the {part} model, first seed"
    return plots.image_grid(blocks, title, width=1800, largest=400)
