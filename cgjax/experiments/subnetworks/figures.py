"""Figures of the subnetworks family, drawn from saved arrays.

Names of a part's arrays start with "<part>/". A figure shows all parts that have its arrays, one
below the other, or there is a file for each part.
"""

import pathlib

import numpy as np

from cgjax import plots
from cgjax.experiments.subnetworks.odd_one_out import CHANCE

MARKERS = "o^sDvPX*<>"
BLUE, RED = plots.COLOURS[0], plots.COLOURS[1]
HALVES = {"Subnetwork": ("sub", BLUE), "Ablation": ("abl", RED)}
TABLES = ("runs", "selected", "disjoint", "oracle")
WORDS = {"runs": "", "selected": "selected", "disjoint": "disjoint", "oracle": "oracle"}


def draw(study: str, arrays, folder) -> None:
    """All figures of a row, one after another."""
    arrays, folder = dict(arrays), pathlib.Path(folder)
    for draw_figure in FIGURES[study]:
        draw_figure(arrays, folder)


def parts_with(arrays, name: str) -> list[str]:
    """Prefixes ("", "scratch/" ...) of the parts that have an array."""
    known = [f"{part}/" if part else "" for part in arrays["parts"]]
    return [prefix for prefix in known if prefix + name in arrays]


def _title(prefix: str) -> str:
    """A part's name as shown in figures."""
    return prefix.rstrip("/").replace("_", " ")


def _file(prefix: str, name: str) -> str:
    """The file of a figure of one part: "scratch-matrices.png"; without parts "matrices.png"."""
    return f"{prefix.replace('/', '-')}{name}.png"


def tables(arrays) -> list[tuple[str, dict, list[str]]]:
    """(title, table of runs, subroutines) of every part and every choice of masks."""
    entries = []
    for kind in TABLES:
        for prefix in parts_with(arrays, f"{kind}/target"):
            start = f"{prefix}{kind}/"
            table = {
                name.removeprefix(start): values
                for name, values in arrays.items()
                if name.startswith(start)
            }
            title_parts = (_title(prefix), WORDS[kind])
            if len(table["target"]):  # empty if nothing is selected because no mask is valid
                title = ", ".join(filter(None, title_parts))
                entries.append((title, table, arrays[f"{prefix}subroutines"].tolist()))
    return entries


@plots.styled
def _grid(n_rows, n_columns, title, height=2.3):
    fig = plots.new_figure(2.6 * n_columns + 0.8, height * n_rows + 0.8, layout="constrained")
    axes = fig.subplots(n_rows, n_columns, squeeze=False, sharey=True)
    plots.headline(fig, title)
    return fig, axes


def _dots(ax, x, values, table, colour):
    """One dot per run, one marker per base; invalid bases are grey."""
    bases = table["base"]
    width = 0.32
    for base in np.unique(bases):
        of_base = bases == base
        shift = (
            width * (np.arange(of_base.sum()) / max(of_base.sum() - 1, 1) - 0.5)
            if of_base.sum() > 1
            else 0
        )
        place = x + shift + 0.02 * (base - bases.mean())
        valid = table["valid_base"][of_base]
        ax.scatter(
            np.broadcast_to(place, of_base.sum()),
            values[of_base],
            s=22,
            linewidths=0.4,
            marker=MARKERS[int(base) % len(MARKERS)],
            edgecolors="black",
            alpha=0.8,
            c=[colour if one else "#c3c8ce" for one in valid],
        )


def _panels(arrays, title: str, ylabel: str, ylim: tuple, ticks) -> tuple:
    """(figure, [(axes, runs of the panel)]): a row for each table, a column for each subroutine."""
    entries, panels = tables(arrays), []
    fig, axes = _grid(len(entries), max(len(names) for *_, names in entries), title)
    for row, (part, table, names) in zip(axes, entries):
        row[0].set_ylabel(ylabel)
        for ax in row[len(names) :]:
            ax.set_visible(False)
        for i, (ax, name) in enumerate(zip(row, names)):
            ax.set(xlim=(-0.5, 1.5), ylim=ylim, title=f"{part}: {name}" if part else name)
            ax.set_xticks(range(2), ticks)
            runs = {key: values[table["target"] == i] for key, values in table.items()}
            panels.append((ax, runs))
    return fig, panels


@plots.styled
def draw_differences(arrays, folder):
    """Clipped target minus other, subnetworks above zero and ablations below."""
    title = "Predicted: subnetworks above zero, ablations below (grey bars: removals of that size)"
    fig, panels = _panels(arrays, title, "target - other", (-1, 1), HALVES)
    for ax, runs in panels:
        for x, (network, colour) in enumerate(HALVES.values()):
            _dots(ax, x, runs[f"{network}_diff"], runs, colour)
        if not runs["valid_base"].any():
            ax.text(0.5, 0.9, "no base counts", ha="center", fontsize=7, color=plots.GREY)
        nulls = runs["null_random"][runs["valid_base"]]
        if np.isfinite(nulls).any():
            null = np.nanmean(nulls)
            ax.plot([0.75, 1.25], [null, null], color=plots.GREY, linewidth=3, alpha=0.6)
        ax.axhline(0, color=plots.GREY, linestyle="--", linewidth=0.8)
    plots.save(fig, folder / "differences.png")


@plots.styled
def draw_absolute(arrays, folder):
    """Accuracies on the target and on the other, for subnetworks and for ablations."""
    for half, (network, _) in HALVES.items():
        title = f"{half}s: accuracy on the target and on the other subroutine"
        fig, panels = _panels(arrays, title, "accuracy", (0, 1.1), ("target", "other"))
        for ax, runs in panels:
            for x, (test, colour) in enumerate((("target", BLUE), ("other", RED))):
                _dots(ax, x, runs[f"{network}_{test}"], runs, colour)
            ax.axhline(CHANCE, color=plots.GREY, linestyle=":", linewidth=0.9)
        plots.save(fig, folder / f"absolute_{network}.png")


def hatch(ax):
    """Hatches the cells of a heat map that have no value."""
    ax.patch.set(hatch="////", edgecolor="#c3c8ce", facecolor="white")


@plots.styled
def draw_heat(arrays, folder):
    """Every run as a cell; rows are mask seeds, columns subroutines and bases."""
    entries = tables(arrays)
    fig = plots.new_figure(8.4, 2.2 * len(entries) + 0.8, layout="constrained")
    axes = fig.subplots(len(entries), 1, squeeze=False)[:, 0]
    for ax, (part, table, names) in zip(axes, entries):
        seeds, bases = np.unique(table["seed"]), np.unique(table["base"])
        cells = np.full((2 * len(seeds), len(names) * len(bases)), np.nan)
        for run, (target, base, seed) in enumerate(
            zip(table["target"], table["base"], table["seed"])
        ):
            column = target * len(bases) + np.searchsorted(bases, base)
            row = np.searchsorted(seeds, seed)
            cells[row, column] = table["sub_diff"][run]
            cells[len(seeds) + row, column] = table["abl_diff"][run]
        image = ax.imshow(cells, cmap="RdBu", vmin=-0.75, vmax=0.75, aspect="auto")
        hatch(ax)
        rows = [f"{word} {i + 1}" for word in HALVES for i in range(len(seeds))]
        counts = [np.all(table["valid_base"][table["base"] == base]) for base in bases]
        marks = ["" if one else " *" for one in counts]
        columns = [f"{name} {i + 1}{mark}" for name in names for i, mark in enumerate(marks)]
        ax.set_yticks(range(len(rows)), rows)
        ax.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
        notes = ["*: base left out of all means"] * (not all(counts))
        notes += ["hatched: no run, because no mask is valid"] * bool(np.isnan(cells).any())
        ax.set_title(" ".join(filter(None, (part, f"({'; '.join(notes)})" if notes else ""))))
        fig.colorbar(image, ax=ax, label="target - other", fraction=0.03)
    plots.headline(fig, "Blue above, red below: the predicted pattern, run by run")
    plots.save(fig, folder / "heat.png")


@plots.styled
def draw_bases(arrays, folder):
    """Accuracies of the bases."""
    prefixes = parts_with(arrays, "bases/compositional")
    fig, axes = _grid(1, len(prefixes), "Bases: test accuracy (grey: left out of all means)", 2.6)
    for ax, prefix in zip(axes[0], prefixes):
        values, valid = arrays[f"{prefix}bases/compositional"], arrays[f"{prefix}bases/valid"]
        colours = [BLUE if one else "#c3c8ce" for one in valid]
        ax.bar(range(len(values)), values, color=colours, width=0.7)
        ax.axhline(CHANCE, color=plots.GREY, linestyle=":", linewidth=0.9)
        ax.set(ylim=(0, 1.05), title=_title(prefix), xlabel="base")
        ax.set_xticks(range(len(values)))
    axes[0, 0].set_ylabel("accuracy")
    plots.save(fig, folder / "bases.png")


def _rows(prefixes):
    """A figure with a panel for each part, one below the other."""
    fig = plots.new_figure(7.6, 2.5 * len(prefixes) + 0.6, layout="constrained")
    return fig, fig.subplots(len(prefixes), 1, squeeze=False)[:, 0]


# Linear maps of a transformer's layer, in the order of the computation.
MAPS = ("query", "key", "value", "attention_out", "ffn_in", "ffn_out")


def network_order(leaf: str):
    """Sort key for leaves: from stem to head, layers by number, maps as they follow each other."""
    words = []
    for word in leaf.split("/"):
        name, _, number = word.rpartition("_")
        is_numbered = bool(name) and number.isdigit()
        place = MAPS.index(word) if word in MAPS else len(MAPS)
        words.append((place, name if is_numbered else word, int(number) if is_numbered else -1))
    return leaf.startswith("head"), not leaf.startswith("stem"), words


def _by_leaf(ax, leaves, label, title):
    """Axes for a share of each leaf."""
    ax.set(ylim=(0, 1.02), ylabel=label, title=title)
    ax.set_xticks(
        range(len(leaves)),
        [leaf.removesuffix("/kernel") for leaf in leaves],
        rotation=35,
        ha="right",
        fontsize=6.5,
    )
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=7)


@plots.styled
def draw_layers(arrays, folder):
    """Share of weights kept in every masked leaf, by subroutine: mean over masks of valid bases."""
    prefixes = parts_with(arrays, "masks/target")
    fig, axes = _rows(prefixes)
    for ax, prefix in zip(axes, prefixes):
        start = f"{prefix}kept/"
        leaves = [name.removeprefix(start) for name in arrays if name.startswith(start)]
        leaves.sort(key=network_order)
        counts = arrays[f"{prefix}bases/valid"][arrays[f"{prefix}masks/base"]]
        targets = np.where(counts, arrays[f"{prefix}masks/target"], -1)
        for i, name in enumerate(arrays[f"{prefix}subroutines"]):
            if i not in targets:
                continue
            shares = [arrays[start + leaf][targets == i].mean() for leaf in leaves]
            ax.plot(
                range(len(leaves)),
                shares,
                "o-",
                markersize=4,
                linewidth=1,
                color=plots.COLOURS[i],
                label=str(name),
            )
        title_parts = (_title(prefix), "" if counts.any() else "no base counts")
        _by_leaf(ax, leaves, "kept", ": ".join(filter(None, title_parts)))
    plots.headline(
        fig, "Share of weights kept, layer by layer (mean of all masks of bases that count)"
    )
    plots.save(fig, folder / "layers.png")


@plots.styled
def draw_overlap(arrays, folder):
    """Intersection over union by leaf, and the value expected of random masks."""
    prefixes = parts_with(arrays, "overlap/between")
    if not prefixes:
        return
    fig, axes = _rows(prefixes)
    for ax, prefix in zip(axes, prefixes):
        leaves = [str(leaf) for leaf in arrays[f"{prefix}overlap/leaves"]]
        order = sorted(range(len(leaves)), key=lambda i: network_order(leaves[i]))
        curves = [*arrays[f"{prefix}subroutines"].tolist(), "between"]
        for i, name in enumerate(curves):
            if f"{prefix}overlap/{name}" not in arrays:
                continue
            ax.plot(
                arrays[f"{prefix}overlap/{name}"][order],
                "o-",
                markersize=4,
                linewidth=1,
                color=plots.COLOURS[i],
                label=name,
            )
            ax.plot(
                arrays[f"{prefix}overlap/{name}, expected"][order],
                ":",
                linewidth=1,
                color=plots.COLOURS[i],
            )
        _by_leaf(ax, [leaves[i] for i in order], "IoU", _title(prefix))
    plots.headline(fig, "Overlap of masks of the first base; dotted: of random ones of that size")
    plots.save(fig, folder / "overlap.png")


@plots.styled
def draw_pattern(arrays, folder):
    """The table of runs with the full pattern."""
    lines = []
    for part, table, names in tables(arrays):
        for i, name in enumerate(names):
            is_counted = (table["target"] == i) & table["valid_base"]
            n = int(is_counted.sum())
            halves = [
                int((table["sub_diff"][is_counted] > 0).sum()),
                int((table["abl_diff"][is_counted] < 0).sum()),
            ]
            both = int(table["full_pattern"][is_counted].sum())
            lines.append((part, name, *(f"{k} / {n}" for k in (*halves, both))))
    fig = plots.new_figure(7.6, 0.3 * len(lines) + 1.2, layout="constrained")
    ax = fig.subplots()
    ax.axis("off")
    columns = ("part", "subroutine", "sub_diff > 0", "abl_diff < 0", "both")
    ax.table(cellText=lines, colLabels=columns, loc="center", cellLoc="center", edges="horizontal")
    plots.headline(fig, "Runs with the predicted pattern, of bases that count")
    plots.save(fig, folder / "pattern.png")


# Tables of masks that were trained again after a search, and their names in its figure.
MARKED = {"selected": "selected", "runs": "fixed beforehand"}


@plots.styled
def draw_search(arrays, folder):
    """All configurations of a search: valid ones in colour, selected and pre-registered marked."""
    prefixes = parts_with(arrays, "search/target")
    if not prefixes:
        return
    n = max(len(arrays[f"{prefix}subroutines"]) for prefix in prefixes)
    title = "Every configuration that was tried (grey: mask not valid, or base that does not count)"
    fig, axes = _grid(len(prefixes), n, title)
    for row, prefix in zip(axes, prefixes):
        for i, name in enumerate(arrays[f"{prefix}subroutines"]):
            of_target = arrays[f"{prefix}search/target"] == i
            counts = arrays[f"{prefix}search/valid_base"][of_target]
            valid = np.isfinite(arrays[f"{prefix}search/quality"][of_target]) & counts
            row[i].scatter(
                arrays[f"{prefix}search/sub_diff"][of_target],
                arrays[f"{prefix}search/abl_diff"][of_target],
                s=14,
                c=[RED if one else "#c3c8ce" for one in valid],
            )
            for (kind, label), marker in zip(MARKED.items(), "oD"):
                chosen = arrays[f"{prefix}{kind}/target"] == i
                chosen &= arrays[f"{prefix}{kind}/valid_base"]
                row[i].scatter(
                    arrays[f"{prefix}{kind}/sub_diff"][chosen],
                    arrays[f"{prefix}{kind}/abl_diff"][chosen],
                    s=60,
                    marker=marker,
                    facecolors="none",
                    edgecolors=plots.INK if kind == "selected" else BLUE,
                    label=label,
                )
            row[i].axhline(0, color=plots.GREY, linestyle="--", linewidth=0.8)
            row[i].set(title=str(name), xlabel="sub_diff", xlim=(-0.8, 0.8), ylim=(-0.8, 0.8))
        row[0].set_ylabel("abl_diff")
        row[0].legend(fontsize=6.5, loc="upper left")
    plots.save(fig, folder / "search.png")


@plots.styled
def draw_matrices(arrays, folder):
    """Accuracy by mask (row) and test (column), where a rule has more than two parts."""
    for prefix in parts_with(arrays, "matrix/sub"):
        names = arrays[f"{prefix}subroutines"].tolist()
        fig = plots.new_figure(7.4, 3.2, layout="constrained")
        for ax, (half, (network, _)) in zip(fig.subplots(1, 2), HALVES.items()):
            cells = arrays[f"{prefix}matrix/{network}"]
            ax.imshow(cells, vmin=CHANCE, vmax=1, cmap="viridis")
            hatch(ax)
            for (i, j), value in np.ndenumerate(cells):
                text, colour = (f"{value:.2f}", "white") if value == value else ("no base", "black")
                ax.text(j, i, text, ha="center", va="center", color=colour)
            ax.set_xticks(range(len(names)), [f"test {name}" for name in names], fontsize=7)
            ax.set_yticks(range(len(names)), names)
            ax.set_title(half)
        plots.headline(fig, "Three subroutines: masks by row, tests by column")
        plots.save(fig, folder / _file(prefix, "matrices"))


@plots.styled
def draw_tangent(arrays, folder):
    """Alignment of tangent kernels with the mask's own subroutine minus the others."""
    for prefix in parts_with(arrays, "tangent/own"):
        table = {name: arrays[f"{prefix}tangent/{name}"] for name in ("base", "valid_base")}
        kernels, names = arrays[f"{prefix}tangent/kernels"], arrays[f"{prefix}subroutines"]
        seen = arrays[f"{prefix}tangent/own"] - arrays[f"{prefix}tangent/other"]
        fig, axes = _grid(1, len(names), "Tangent kernels: alignment with own less other", 2.6)
        for i, (ax, name) in enumerate(zip(axes[0], names)):
            of_target = arrays[f"{prefix}tangent/target"] == i
            for k in range(len(kernels)):
                runs = {key: values[of_target] for key, values in table.items()}
                _dots(ax, k, seen[k][of_target], runs, plots.COLOURS[k])
            ax.axhline(0, color=plots.GREY, linestyle="--", linewidth=0.8)
            ax.set_xticks(range(len(kernels)), kernels)
            ax.set_title(f"mask of {name}")
        plots.save(fig, folder / _file(prefix, "tangent"))


@plots.styled
def draw_families(arrays, folder):
    """Accuracy on the own set and differences, by the share kept, for valid bases."""
    for prefix in parts_with(arrays, "families"):
        panels = {
            "sub_own": "accuracy on its own set",
            "abl_diff": "abl_diff",
            "sub_diff": "sub_diff",
        }
        fig = plots.new_figure(9.2, 3.2, layout="constrained")
        for ax, (column, label) in zip(fig.subplots(1, 3), panels.items()):
            for i, family in enumerate(arrays[f"{prefix}families"]):
                counts = arrays[f"{prefix}{family}/valid_base"]
                kept = np.maximum(arrays[f"{prefix}{family}/kept"][counts], 1e-4)
                ax.scatter(
                    kept,
                    arrays[f"{prefix}{family}/{column}"][counts],
                    s=16,
                    color=plots.COLOURS[i],
                    alpha=0.8,
                    label=str(family).replace("_", " "),
                )
            ax.set(xscale="log", xlabel="share of weights kept", ylabel=label)
        ax.legend(fontsize=7)
        plots.headline(fig, "Four kinds of masks: accuracy and structure by sparsity")
        plots.save(fig, folder / _file(prefix, "families"))


@plots.styled
def draw_dynamics(arrays, folder):
    """Differences and accuracies of the bases along their training."""
    for prefix in parts_with(arrays, "epochs"):
        epochs = arrays[f"{prefix}epochs"]
        at = arrays[f"{prefix}bases/base_epoch"]
        fig = plots.new_figure(7.6, 3.2, layout="constrained")
        left, right = fig.subplots(1, 2)
        for i, (key, label) in enumerate((("compositional", "test"), ("held_out", "held out"))):
            if f"{prefix}bases/{key}" in arrays:
                values = arrays[f"{prefix}bases/{key}"]
                left.plot(
                    epochs,
                    [values[at == epoch].mean() for epoch in epochs],
                    "o-",
                    color=plots.COLOURS[i + 2],
                    label=label,
                )
        run_at, targets = arrays[f"{prefix}runs/base_epoch"], arrays[f"{prefix}runs/target"]
        for i, name in enumerate(arrays[f"{prefix}subroutines"]):
            for network, style in (("sub", "o-"), ("abl", "s--")):
                values = arrays[f"{prefix}runs/{network}_diff"]
                mean = [values[(run_at == epoch) & (targets == i)].mean() for epoch in epochs]
                right.plot(
                    epochs,
                    mean,
                    style,
                    color=plots.COLOURS[i],
                    markersize=4,
                    label=f"{name}, {network}",
                )
        right.axhline(0, color=plots.GREY, linestyle=":", linewidth=0.8)
        left.set(xlabel="epoch", ylabel="accuracy of bases", ylim=(0, 1.05), xscale="log")
        right.set(xlabel="epoch", ylabel="target - other", ylim=(-0.8, 0.8), xscale="log")
        left.legend(fontsize=7)
        right.legend(fontsize=7)
        plots.headline(fig, "Structure along base training")
        plots.save(fig, folder / _file(prefix, "dynamics"))


@plots.styled
def draw_structure(arrays, folder):
    """Structure of every base beside its accuracy on held-out combinations."""
    if not (prefixes := parts_with(arrays, "bases/held_out")):
        return
    fig, axes = _grid(1, 2, "Structure (minus the mean abl_diff) and generalization of bases", 2.8)
    for ax, kind in zip(axes[0], ("runs", "selected")):
        for colour, prefix in zip(plots.COLOURS, prefixes):
            if f"{prefix}{kind}/base" not in arrays:
                continue
            accuracy = arrays[f"{prefix}bases/held_out"]
            columns = ("base", "target", "abl_diff")
            base, target, ablated = (arrays[f"{prefix}{kind}/{name}"] for name in columns)
            n = len(arrays[f"{prefix}subroutines"])
            # A selected mask may exist for some subroutines only.
            for i in [i for i in np.unique(base) if len(np.unique(target[base == i])) == n]:
                label = _title(prefix) if i == base.min() else None
                place = (-ablated[base == i].mean(), accuracy[i])
                ax.plot(*place, "o", color=colour, ms=4, alpha=0.8, label=label)
        words = {"runs": "fixed configuration", "selected": "selected configuration"}[kind]
        ax.set(xlabel="- abl_diff", title=words)
    axes[0, 0].set_ylabel("held-out accuracy")
    plots.legend_below(fig, axes[0, 0])
    plots.save(fig, folder / "structure.png")


RULE = (draw_differences, draw_absolute, draw_heat, draw_bases, draw_layers, draw_overlap,
        draw_pattern, draw_search, draw_matrices)  # fmt: skip
FIGURES = {
    **dict.fromkeys(("rule", "resnet", "simclr", "joint"), RULE),
    **dict.fromkeys(("sizes", "seeds"), (*RULE, draw_structure)),
    "tangent": (*RULE, draw_tangent),
    "vit": (draw_bases,),
    "families": (draw_bases, draw_families),
    "dynamics": (draw_dynamics, draw_differences),
}
