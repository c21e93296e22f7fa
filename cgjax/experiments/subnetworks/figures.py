"""Figures of the subnetworks family, from saved arrays.

Parts of a row lie under "<part>/..." in the arrays; every figure has all parts that hold what it
shows, one below the other.
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
    for one in FIGURES[study]:
        one(arrays, folder)


def parts_with(arrays, name: str) -> list[str]:
    """Prefixes ("", "scratch/" ...) of the parts that hold an array."""
    known = [f"{part}/" if part else "" for part in arrays["parts"]]
    return [prefix for prefix in known if prefix + name in arrays]


def _title(prefix: str) -> str:
    """A part's name as a figure has it."""
    return prefix.rstrip("/").replace("_", " ")


def tables(arrays) -> list[tuple[str, dict, list[str]]]:
    """(title, table of runs, subroutines) of every part and every choice of masks."""
    found = []
    for kind in TABLES:
        for prefix in parts_with(arrays, f"{kind}/target"):
            start = f"{prefix}{kind}/"
            table = {name.removeprefix(start): values for name, values in arrays.items()
                     if name.startswith(start)}  # fmt: skip
            words = (_title(prefix), WORDS[kind])
            if len(table["target"]):  # none were selected where no mask is valid
                title = ", ".join(filter(None, words))
                found.append((title, table, arrays[f"{prefix}subroutines"].tolist()))
    return found


@plots.styled
def _grid(n_rows, n_columns, title, height=2.3):
    fig = plots.new_figure(2.6 * n_columns + 0.8, height * n_rows + 0.8, layout="constrained")
    axes = fig.subplots(n_rows, n_columns, squeeze=False, sharey=True)
    plots.headline(fig, title)
    return fig, axes


def _dots(ax, x, values, table, colour):
    """One dot for each run, a marker for each base; bases that do not count are grey."""
    bases = table["base"]
    width = 0.32
    for base in np.unique(bases):
        own = bases == base
        shift = width * (np.arange(own.sum()) / max(own.sum() - 1, 1) - 0.5) if own.sum() > 1 else 0
        place = x + shift + 0.02 * (base - bases.mean())
        valid = table["valid_base"][own]
        ax.scatter(np.broadcast_to(place, own.sum()), values[own], s=22, linewidths=0.4,
                   marker=MARKERS[int(base) % len(MARKERS)], edgecolors="black", alpha=0.8,
                   c=[colour if one else "#c3c8ce" for one in valid])  # fmt: skip


@plots.styled
def draw_differences(arrays, folder):
    """Figure 1: clipped target minus other, subnetworks above zero and ablations below."""
    found = tables(arrays)
    title = "Predicted: subnetworks above zero, ablations below (grey bars: removals of that size)"
    fig, axes = _grid(len(found), max(len(names) for *_, names in found), title)
    for row, (part, table, names) in zip(axes, found):
        for i, ax in enumerate(row):
            if i >= len(names):
                ax.set_visible(False)
                continue
            own = {key: values[table["target"] == i] for key, values in table.items()}
            for x, (network, colour) in enumerate(HALVES.values()):
                _dots(ax, x, own[f"{network}_diff"], own, colour)
            nulls = own["null_random"][own["valid_base"]]
            if np.isfinite(nulls).any():
                null = np.nanmean(nulls)
                ax.plot([0.75, 1.25], [null, null], color=plots.GREY, linewidth=3, alpha=0.6)
            ax.axhline(0, color=plots.GREY, linestyle="--", linewidth=0.8)
            ax.set(xlim=(-0.5, 1.5), ylim=(-1, 1), title=names[i] if not part else
                   f"{part}: {names[i]}")  # fmt: skip
            ax.set_xticks(range(2), HALVES)
        row[0].set_ylabel("target - other")
    plots.save(fig, folder / "differences.png")


@plots.styled
def draw_absolute(arrays, folder):
    """Figure 2: accuracies on the target and on the other, for subnetworks and for ablations."""
    found = tables(arrays)
    for word, (network, _) in HALVES.items():
        fig, axes = _grid(
            len(found),
            max(len(names) for *_, names in found),
            f"{word}s: accuracy on the target and on the other subroutine",
        )
        for row, (part, table, names) in zip(axes, found):
            for i, ax in enumerate(row):
                if i >= len(names):
                    ax.set_visible(False)
                    continue
                own = {key: values[table["target"] == i] for key, values in table.items()}
                for x, (test, colour) in enumerate((("target", BLUE), ("other", RED))):
                    _dots(ax, x, own[f"{network}_{test}"], own, colour)
                ax.axhline(CHANCE, color=plots.GREY, linestyle=":", linewidth=0.9)
                ax.set(xlim=(-0.5, 1.5), ylim=(0, 1.1), title=names[i] if not part else
                       f"{part}: {names[i]}")  # fmt: skip
                ax.set_xticks(range(2), ("target", "other"))
            row[0].set_ylabel("accuracy")
        plots.save(fig, folder / f"absolute_{network}.png")


@plots.styled
def draw_heat(arrays, folder):
    """Figure 3: every run as a cell; rows are mask seeds, columns subroutines and bases."""
    found = tables(arrays)
    fig = plots.new_figure(8.4, 2.2 * len(found) + 0.8, layout="constrained")
    axes = fig.subplots(len(found), 1, squeeze=False)[:, 0]
    for ax, (part, table, names) in zip(axes, found):
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
        rows = [f"{word} {i + 1}" for word in HALVES for i in range(len(seeds))]
        counts = [np.all(table["valid_base"][table["base"] == base]) for base in bases]
        marks = ["" if one else " *" for one in counts]
        columns = [f"{name} {i + 1}{mark}" for name in names for i, mark in enumerate(marks)]
        ax.set_yticks(range(len(rows)), rows)
        ax.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
        ax.set_title(part if all(counts) else f"{part} (*: base left out of all means)")
        fig.colorbar(image, ax=ax, label="target - other", fraction=0.03)
    plots.headline(fig, "Blue above, red below: the predicted pattern, run by run")
    plots.save(fig, folder / "heat.png")


@plots.styled
def draw_bases(arrays, folder):
    """Figure 4, first part: accuracies of the bases."""
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


def _from_stem_to_head(leaf: str):
    """Key of the order in which a network has its leaves."""
    return leaf.startswith("head"), not leaf.startswith("stem"), leaf


def _by_leaf(ax, leaves, label, title):
    """Axes of a share, leaf by leaf."""
    ax.set(ylim=(0, 1.02), ylabel=label, title=title)
    ax.set_xticks(range(len(leaves)), [leaf.removesuffix("/kernel") for leaf in leaves],
                  rotation=35, ha="right", fontsize=6.5)  # fmt: skip
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=7)


@plots.styled
def draw_layers(arrays, folder):
    """Share kept of every masked leaf, by subroutine: mean over masks of bases that count."""
    prefixes = parts_with(arrays, "masks/target")
    fig, axes = _rows(prefixes)
    for ax, prefix in zip(axes, prefixes):
        start = f"{prefix}kept/"
        leaves = [name.removeprefix(start) for name in arrays if name.startswith(start)]
        leaves.sort(key=_from_stem_to_head)
        counts = arrays[f"{prefix}bases/valid"][arrays[f"{prefix}masks/base"]]
        targets = np.where(counts, arrays[f"{prefix}masks/target"], -1)
        for i, name in enumerate(arrays[f"{prefix}subroutines"]):
            if i not in targets:
                continue
            kept = [arrays[start + leaf][targets == i].mean() for leaf in leaves]
            ax.plot(range(len(leaves)), kept, "o-", markersize=4, linewidth=1,
                    color=plots.COLOURS[i], label=str(name))  # fmt: skip
        words = (_title(prefix), "" if counts.any() else "no base counts")
        _by_leaf(ax, leaves, "kept", ": ".join(filter(None, words)))
    plots.headline(
        fig, "Share of weights kept, layer by layer (mean of all masks of bases that count)"
    )
    plots.save(fig, folder / "layers.png")


@plots.styled
def draw_overlap(arrays, folder):
    """Figure 4: intersection over union by leaf, beside what random masks of that size have."""
    prefixes = parts_with(arrays, "overlap/between")
    if not prefixes:
        return
    fig, axes = _rows(prefixes)
    for ax, prefix in zip(axes, prefixes):
        leaves = [str(leaf) for leaf in arrays[f"{prefix}overlap/leaves"]]
        order = sorted(range(len(leaves)), key=lambda i: _from_stem_to_head(leaves[i]))
        curves = [*arrays[f"{prefix}subroutines"].tolist(), "between"]
        for i, name in enumerate(curves):
            if f"{prefix}overlap/{name}" not in arrays:
                continue
            ax.plot(arrays[f"{prefix}overlap/{name}"][order], "o-", markersize=4, linewidth=1,
                    color=plots.COLOURS[i], label=name)  # fmt: skip
            ax.plot(arrays[f"{prefix}overlap/{name}, expected"][order], ":", linewidth=1,
                    color=plots.COLOURS[i])  # fmt: skip
        _by_leaf(ax, [leaves[i] for i in order], "IoU", _title(prefix))
    plots.headline(fig, "Overlap of masks of the first base; dotted: of random ones of that size")
    plots.save(fig, folder / "overlap.png")


@plots.styled
def draw_pattern(arrays, folder):
    """The table of runs with the full pattern."""
    lines = []
    for part, table, names in tables(arrays):
        for i, name in enumerate(names):
            own = (table["target"] == i) & table["valid_base"]
            n = int(own.sum())
            halves = [
                int((table["sub_diff"][own] > 0).sum()),
                int((table["abl_diff"][own] < 0).sum()),
            ]
            both = int(table["full_pattern"][own].sum())
            lines.append((part, name, *(f"{k} / {n}" for k in (*halves, both))))
    fig = plots.new_figure(7.6, 0.3 * len(lines) + 1.2, layout="constrained")
    ax = fig.subplots()
    ax.axis("off")
    columns = ("part", "subroutine", "sub_diff > 0", "abl_diff < 0", "both")
    ax.table(cellText=lines, colLabels=columns, loc="center", cellLoc="center", edges="horizontal")
    plots.headline(fig, "Runs with the predicted pattern, of bases that count")
    plots.save(fig, folder / "pattern.png")


@plots.styled
def draw_search(arrays, folder):
    """All configurations of a search: what counts in colour, what was selected with a ring."""
    prefixes = parts_with(arrays, "search/target")
    if not prefixes:
        return
    n = max(len(arrays[f"{prefix}subroutines"]) for prefix in prefixes)
    title = "Every configuration that was tried (grey: mask not valid, or base that does not count)"
    fig, axes = _grid(len(prefixes), n, title)
    for row, prefix in zip(axes, prefixes):
        for i, name in enumerate(arrays[f"{prefix}subroutines"]):
            own = arrays[f"{prefix}search/target"] == i
            counts = arrays[f"{prefix}search/valid_base"][own]
            valid = np.isfinite(arrays[f"{prefix}search/quality"][own]) & counts
            row[i].scatter(arrays[f"{prefix}search/sub_diff"][own],
                           arrays[f"{prefix}search/abl_diff"][own], s=14,
                           c=[RED if one else "#c3c8ce" for one in valid])  # fmt: skip
            chosen = arrays[f"{prefix}selected/target"] == i
            chosen &= arrays[f"{prefix}selected/valid_base"]
            row[i].scatter(arrays[f"{prefix}selected/sub_diff"][chosen],
                           arrays[f"{prefix}selected/abl_diff"][chosen], s=60,
                           facecolors="none", edgecolors=plots.INK)  # fmt: skip
            row[i].axhline(0, color=plots.GREY, linestyle="--", linewidth=0.8)
            row[i].set(title=str(name), xlabel="sub_diff", xlim=(-0.8, 0.8), ylim=(-0.8, 0.8))
        row[0].set_ylabel("abl_diff")
    plots.save(fig, folder / "search.png")


@plots.styled
def draw_matrices(arrays, folder):
    """Accuracy by mask (row) and test (column), where a rule has more than two parts."""
    for prefix in parts_with(arrays, "matrix/sub"):
        names = arrays[f"{prefix}subroutines"].tolist()
        fig = plots.new_figure(7.4, 3.2, layout="constrained")
        for ax, (word, (network, _)) in zip(fig.subplots(1, 2), HALVES.items()):
            cells = arrays[f"{prefix}matrix/{network}"]
            ax.imshow(cells, vmin=CHANCE, vmax=1, cmap="viridis")
            for (i, j), value in np.ndenumerate(cells):
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", color="white")
            ax.set_xticks(range(len(names)), [f"test {name}" for name in names], fontsize=7)
            ax.set_yticks(range(len(names)), names)
            ax.set_title(word)
        plots.headline(fig, "Three subroutines: masks by row, tests by column")
        plots.save(fig, folder / "matrices.png")


@plots.styled
def draw_tangent(arrays, folder):
    """How far the kernels of a mask's weights see its own subroutine, less the others."""
    for prefix in parts_with(arrays, "tangent/own"):
        table = {name: arrays[f"{prefix}tangent/{name}"] for name in ("base", "valid_base")}
        kernels, names = arrays[f"{prefix}tangent/kernels"], arrays[f"{prefix}subroutines"]
        seen = arrays[f"{prefix}tangent/own"] - arrays[f"{prefix}tangent/other"]
        fig, axes = _grid(1, len(names), "Tangent kernels: alignment with own less other", 2.6)
        for i, (ax, name) in enumerate(zip(axes[0], names)):
            own = arrays[f"{prefix}tangent/target"] == i
            for k in range(len(kernels)):
                runs = {key: values[own] for key, values in table.items()}
                _dots(ax, k, seen[k][own], runs, plots.COLOURS[k])
            ax.axhline(0, color=plots.GREY, linestyle="--", linewidth=0.8)
            ax.set_xticks(range(len(kernels)), kernels)
            ax.set_title(f"mask of {name}")
        plots.save(fig, folder / f"{prefix.replace('/', '-')}tangent.png")


@plots.styled
def draw_families(arrays, folder):
    """Accuracy on the own set and differences, by the share kept; of bases that count."""
    for prefix in parts_with(arrays, "families"):
        panels = {"sub_own": "accuracy on its own set", "abl_diff": "abl_diff",
                  "sub_diff": "sub_diff"}  # fmt: skip
        fig = plots.new_figure(9.2, 3.2, layout="constrained")
        for ax, (column, label) in zip(fig.subplots(1, 3), panels.items()):
            for i, family in enumerate(arrays[f"{prefix}families"]):
                counts = arrays[f"{prefix}{family}/valid_base"]
                kept = np.maximum(arrays[f"{prefix}{family}/kept"][counts], 1e-4)
                ax.scatter(kept, arrays[f"{prefix}{family}/{column}"][counts], s=16,
                           color=plots.COLOURS[i], alpha=0.8,
                           label=str(family).replace("_", " "))  # fmt: skip
            ax.set(xscale="log", xlabel="share of weights kept", ylabel=label)
        ax.legend(fontsize=7)
        plots.headline(fig, "Four kinds of masks: accuracy and structure by sparsity")
        plots.save(fig, folder / "families.png")


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
                left.plot(epochs, [values[at == epoch].mean() for epoch in epochs], "o-",
                          color=plots.COLOURS[i + 2], label=label)  # fmt: skip
        run_at, targets = arrays[f"{prefix}runs/base_epoch"], arrays[f"{prefix}runs/target"]
        for i, name in enumerate(arrays[f"{prefix}subroutines"]):
            for network, style in (("sub", "o-"), ("abl", "s--")):
                values = arrays[f"{prefix}runs/{network}_diff"]
                mean = [values[(run_at == epoch) & (targets == i)].mean() for epoch in epochs]
                right.plot(epochs, mean, style, color=plots.COLOURS[i], markersize=4,
                           label=f"{name}, {network}")  # fmt: skip
        right.axhline(0, color=plots.GREY, linestyle=":", linewidth=0.8)
        left.set(xlabel="epoch", ylabel="accuracy of bases", ylim=(0, 1.05), xscale="log")
        right.set(xlabel="epoch", ylabel="target - other", ylim=(-0.8, 0.8), xscale="log")
        left.legend(fontsize=7)
        right.legend(fontsize=7)
        plots.headline(fig, "Structure along base training")
        plots.save(fig, folder / "dynamics.png")


RULE = (draw_differences, draw_absolute, draw_heat, draw_bases, draw_layers, draw_overlap,
        draw_pattern, draw_search, draw_matrices)  # fmt: skip
FIGURES = {
    **dict.fromkeys(("rule", "resnet", "simclr", "sizes", "joint"), RULE),
    "tangent": (*RULE, draw_tangent),
    "vit": (draw_bases,),
    "families": (draw_bases, draw_families),
    "dynamics": (draw_dynamics, draw_differences),
}  # fmt: skip
