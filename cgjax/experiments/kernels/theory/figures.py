"""Figures of kernel models, from saved arrays (numbered as in Lippl and Stachenfeld 2025)."""

import pathlib

import numpy as np
from matplotlib.patches import Rectangle

from cgjax import plots
from cgjax.published import PUBLISHED

LABELS = {
    "step": "step",
    "relu": "ReLU",
    "leaky_relu": "leaky ReLU",
    "rectified_quadratic": "rectified quadratic",
    "gaussian": "Gaussian",
}
LIMITS = (1 / 3, 1 / 3, 1.0)  # upper bounds of S(1..3; 3)
NOTE = {"fontsize": 7.5, "color": plots.GREY}
SIGNS = {"cmap": "PuOr", "vmin": -1.8, "vmax": 1.8}  # of responses -1 and +1


def _ticks(ax, places, texts) -> None:
    ax.set_xticks(places, texts)
    ax.set_yticks(places, texts)


@plots.styled
def draw_tasks(arrays, folder: pathlib.Path) -> None:
    """Fig. 1: training sets of addition, context dependence and transitive equivalence."""
    fig = plots.new_figure(10.2, 5.2, layout="constrained")
    words = "trained combinations in the colour of their target, new ones white or boxed"
    plots.headline(fig, f"The tasks: {words}")
    axes = fig.subplots(2, 5)
    names = ("extrapolation", "asymmetric", "interpolation", "both", "dispersed_1")
    for ax, name in zip(axes[0], names):
        trained, y = (arrays[f"addition_{name}/{key}"] for key in ("is_train", "y"))
        ax.imshow(np.where(trained, y, np.nan), cmap="coolwarm", vmin=-8, vmax=8)
        title = f"addition, {name.split('_')[0]}"
        ax.set(title=f"{title}\n{trained.sum()} trained", xlabel="item 2")
        _ticks(ax, range(0, 9, 4), ("-4", "0", "4"))
    y = arrays["cd_3/y"]
    for context, ax in enumerate(axes[1, :2]):
        ax.imshow(y[context], **SIGNS)
        ax.set(title=f"context {context}: respond to\nfeature {context + 1}", xlabel="feature 2")
        for k in (1, 2, 3):
            box = {"edgecolor": plots.INK, "linewidth": 1.2, "clip_on": False, "zorder": 3}
            ax.add_patch(Rectangle((2.5, -0.5), k, k, fill=False, **box))
            ax.text(2.58 + k - 1, k - 0.62, f"CD-{k}", fontsize=6.5, color=plots.INK)
    n_te, n_to = (arrays[f"{task}/is_train"].sum() for task in ("te_3_3", "to_7"))
    axes[1, 2].set(title=f"transitive equivalence\n{n_te} trained", xlabel="item 2")
    axes[1, 2].imshow(np.where(arrays["te_3_3/is_train"], arrays["te_3_3/y"], np.nan), **SIGNS)
    _ticks(axes[1, 2], range(6), "BACEDF")
    axes[1, 3].imshow(np.where(arrays["to_7/is_train"], arrays["to_7/y"], np.nan), **SIGNS)
    axes[1, 3].set(title=f"transitive ordering\n{n_to} trained", xlabel="item 2")
    for ax in axes.flat:
        ax.tick_params(length=0)
        ax.spines[:].set_visible(True)
    for ax in (axes[0, 0], axes[1, 2]):
        ax.set_ylabel("item 1")
    axes[1, 0].set_ylabel("feature 1")
    axes[1, 4].axis("off")
    words = "colour: target\nwhite: new, tested\nboxes: held out\nin both contexts"
    axes[1, 4].text(0, 0.5, words, va="center", color=plots.GREY)
    plots.save(fig, folder / "tasks.png")


@plots.styled
def draw_salience(arrays, folder: pathlib.Path) -> None:
    """Fig. 2: salience of conjunctions of one, two and three components by depth."""
    fig = plots.new_figure(10.4, 3.2, layout="constrained")
    ends = [arrays[f"{name}/3"][-1, 2] for name in LABELS]
    depth = len(arrays["relu/3"]) - 1
    words = f"that of all three components is {min(ends):.2f} to {max(ends):.2f} at layer {depth}"
    plots.headline(fig, f"Salience in random networks: {words} (dotted: upper bounds)")
    axes = fig.subplots(1, 3)
    for k, (ax, limit) in enumerate(zip(axes, LIMITS)):
        for i, name in enumerate(LABELS):
            ax.plot(arrays[f"{name}/3"][:, k], color=plots.COLOURS[i])
        ax.axhline(limit, color=plots.FAINT, linestyle=":")
        ax.set(title=f"S({k + 1};3)", xlabel="layer", ylim=(0, 1.05 * limit))
        ax.grid(axis="y", **plots.GRID)
    _name_networks(axes[2], {name: arrays[f"{name}/3"][:, 2] for name in LABELS})
    plots.save(fig, folder / "salience.png")
    _draw_more_salience(arrays, folder)


def _name_networks(ax, curves) -> None:
    """Labels the ends of curves {name: [layers + 1]} with the names of their networks."""
    plots.label_ends(
        ax,
        [
            (len(y) - 1, y[-1], LABELS[name], plots.COLOURS[i])
            for i, (name, y) in enumerate(curves.items())
        ],
    )


def _draw_more_salience(arrays, folder):
    """Salience for four components, and for two components of unequal input share."""
    fig = plots.new_figure(10.4, 7.4, layout="constrained")
    words = "with four components, and with two of unequal share of the input"
    plots.headline(fig, f"Salience in random networks {words}")
    rows = fig.subplots(3, 4)
    shares = [key.split("_")[1] for key in arrays if key.startswith("relu/share_")]
    for i, name in enumerate(LABELS):
        style = {"color": plots.COLOURS[i]}
        for k, ax in enumerate(rows[0]):
            ax.plot(arrays[f"{name}/4"][:, k], **style)
        for share, single, both in zip(shares, rows[1], rows[2]):
            first, second, pair = arrays[f"{name}/share_{share}"].T
            single.plot(first, **style)
            single.plot(second, linestyle="--", **style)
            both.plot(pair, **style)
    for k, (ax, limit) in enumerate(zip(rows[0], (1 / 4, 1 / 6, 1 / 4, 1))):
        ax.axhline(limit, color=plots.FAINT, linestyle=":")
        ax.set(title=f"S({k + 1};4)", ylim=(0, 1.05 * limit))
    for share, single, both in zip(shares, rows[1], rows[2]):
        other = f"{1 - float(share):.1f}"
        single.set(title=f"shares {share} and {other}: single", ylim=(0, 0.95))
        both.set(title=f"shares {share} and {other}: both", ylim=(0, 1.05), xlabel="layer")
    for ax in rows.flat:
        ax.grid(axis="y", **plots.GRID)
    rows[1, 3].text(2, 0.8, "solid: the smaller share\ndashed: the larger", **NOTE)
    _name_networks(rows[0, 3], {name: arrays[f"{name}/4"][:, 3] for name in LABELS})
    _name_networks(rows[2, 3], {name: arrays[f"{name}/share_{shares[3]}"][:, 2] for name in LABELS})
    plots.save(fig, folder / "salience_more.png")


@plots.styled
def draw_leak(arrays, folder: pathlib.Path) -> None:
    """Fig. 3a, b: slope by salience and anchors; the value of each item to the machine."""
    fig = plots.new_figure(7.8, 3.5, layout="constrained")
    plots.headline(fig, "Memorization leak in closed form: how much of a sum new pairs recover")
    left, right = fig.subplots(1, 2)
    for p in range(1, 6):
        colour = plots.COLOURS[(p - 1) % len(plots.COLOURS)]
        left.plot(arrays["salience"], arrays[f"slope/{p}"], color=colour, label=f"p = {p}")
    left.set(xlabel="salience S(1;2)", ylabel="slope m", title="by number p of anchors")
    left.legend(fontsize=7, loc="upper left")
    names = sorted((key for key in arrays if key.startswith("items/")), reverse=True)
    ends = []
    for i, name in enumerate(names):
        items = arrays[name]
        values = np.arange(len(items)) - len(items) // 2
        label = f"S = {float(name.split('/')[1]):.2f}"
        right.plot(values, items, "o-", markersize=3, color=plots.COLOURS[i])
        ends.append((values[-1], items[-1], label, plots.COLOURS[i]))
    right.set(xlabel="item", ylabel="its value to the machine", title="one anchor (0)")
    for ax in (left, right):
        ax.grid(**plots.GRID)
    plots.label_ends(right, ends)
    plots.save(fig, folder / "leak.png")


@plots.styled
def draw_partial(arrays, folder: pathlib.Path) -> None:
    """Margins of invariance and partial exposure."""
    fig = plots.new_figure(4.2, 3.5, layout="constrained")
    plots.headline(fig, "Margins in closed form, two by two inputs")
    ax = fig.subplots()
    for i, name in enumerate(("invariance", "partial exposure")):
        ax.plot(arrays["k"], arrays[name], color=plots.COLOURS[i], label=name)
    ax.set(xlabel="kappa(1)", ylabel="margin on new inputs")
    ax.grid(**plots.GRID)
    ax.legend(loc="upper left")
    plots.save(fig, folder / "partial.png")


MACHINES = {"svm": "hard margin", "regression": "ridgeless regression"}


@plots.styled
def draw_phase(arrays, folder: pathlib.Path) -> None:
    """Fig. 3d: tasks solved by each kernel; random networks by depth; closed-form boundaries."""
    fig = plots.new_figure(12.6, 4.7, layout="constrained")
    words = f"each of {len(arrays['s1']):,} kernels solves, by its saliences"
    plots.headline(fig, f"Which context-dependence tasks {words}")
    axes = fig.subplots(1, 3, sharey=True)
    for ax, (machine, title) in zip(axes, MACHINES.items()):
        solved = sum((arrays[f"cd_{k}/{machine}"] == 1).astype(int) for k in (1, 2, 3))
        shades = ("#f3d9d0", "#f7ecd0", "#d7e8f5", "#c3e2d3")
        for n, label in enumerate(("none", "CD-1", "CD-1 and CD-2", "all three")):
            at = solved == n
            label = label if ax is axes[1] else None  # one legend for both panels
            ax.plot(arrays["s1"][at], arrays["s2"][at], "s", color=shades[n], label=label, ms=6.5)
        for i, (name, label) in enumerate(LABELS.items()):
            path, label = arrays[f"network/{name}"], label if ax is axes[0] else None
            ax.plot(*path.T, "o-", color=plots.COLOURS[i], markersize=2.5, lw=1, label=label)
        ax.set_title(title)
    ax, differ = axes[2], arrays["cd_3/disagree"].astype(bool)
    by_regression = (arrays["cd_3/regression"] == 1)[differ]
    solver = "regression" if by_regression.all() else "one of the two"
    ax.plot(arrays["s1"][~differ], arrays["s2"][~differ], "s", color="#eef0f2", ms=6.5)
    ax.plot(
        arrays["s1"][differ],
        arrays["s2"][differ],
        "s",
        color="#d9c2dc",
        ms=6.5,
        label=f"CD-3 solved by {solver} only",
    )
    ax.set_title(f"the two disagree on {differ.mean():.1%}")
    for ax, drawn in zip(axes, (("svm",), ("regression",), ("svm", "regression"))):
        for machine in drawn:
            line = arrays[f"boundary/{machine}"]
            inside = line <= 1 / 3 - arrays["boundary/s1"]
            style = "-" if machine == "svm" else "--"
            ax.plot(
                arrays["boundary/s1"][inside],
                line[inside],
                style,
                color=plots.INK,
                lw=1.4,
                label=f"CD-3, closed form, {MACHINES[machine]}",
            )
        ax.set(xlabel="S(1;3)", xlim=(-0.01, 0.345), ylim=(-0.01, 0.345))
    for name in ("rep_1", "rep_2"):
        axes[2].plot(*arrays[name], "*", color=plots.COLOURS[1], ms=9)
        label = name.replace("rep_", "Rep. ")
        axes[2].annotate(label, arrays[name], (5, 5), textcoords="offset points")
    axes[0].set_ylabel("S(2;3)")
    for ax, heading in zip(axes, ("networks, layer by layer", "solved", None)):
        ax.legend(fontsize=7, loc="upper right", title=heading, title_fontsize=7, alignment="left")
    plots.save(fig, folder / "phase.png")


@plots.styled
def draw_context_share(arrays, folder: pathlib.Path) -> None:
    """Margin on CD-3 by depth and by the context's share of the input."""
    fig = plots.new_figure(8.2, 3.5, layout="constrained")
    axes = fig.subplots(1, 2, sharey=True)
    share, depth = arrays["share"], arrays["depth"]
    extent = (share[0], share[-1], depth[0] - 0.5, depth[-1] + 0.5)
    for ax, (machine, title) in zip(axes, MACHINES.items()):
        shown = {"origin": "lower", "aspect": "auto", "cmap": "PuOr", "vmin": -1, "vmax": 1}
        image = ax.imshow(arrays[f"margin/{machine}"].T, extent=extent, **shown)
        ax.axvline(1 / 3, color=plots.INK, linestyle=":", lw=1)
        ax.set(title=title, xlabel="share of the context in the input")
        ax.spines[:].set_visible(False)
    axes[0].set_ylabel("layers")
    axes[0].text(1 / 3 + 0.01, depth[-1], "equal shares", fontsize=7.5, va="center")
    bar = fig.colorbar(image, ax=list(axes), label="margin on new inputs", pad=0.02)
    bar.outline.set_visible(False)
    words = "by depth and share of the context: purple is solved"
    plots.headline(fig, f"CD-3 in wide ReLU networks, {words}")
    plots.save(fig, folder / "context_share.png")


@plots.styled
def draw_magnitudes(arrays, folder: pathlib.Path) -> None:
    """Fig. 3e: mean |value| by type of conjunction, of labels and of decision values."""
    types = [str(kind) for kind in arrays["types"]]
    cells = [name for name in arrays if name.startswith("rep_") and "values" not in name]
    published = PUBLISHED["kernels"]["magnitudes"]
    fig = plots.new_figure(9.6, 3.3, layout="constrained")
    plots.headline(fig, "What the support-vector machine answers with (hollow: the paper's bars)")
    axes = fig.subplots(1, 2, sharey=True)
    width = 0.8 / len(cells)
    for ax, suffix, title in zip(axes, ("", ", decision values"), ("labels", "decision values")):
        for i, cell in enumerate(cells):
            label = cell.replace("rep_", "Rep. ")
            place = np.arange(len(types)) + (i - (len(cells) - 1) / 2) * width
            ax.bar(place, arrays[cell + suffix], width, color=plots.COLOURS[i], label=label)
            bars = [published[f"{cell}: {kind}"]["mean"] for kind in types]
            ax.plot(place, bars, "o", ms=6, mfc="none", color=plots.INK, mew=1.1)
        ax.set_xticks(np.arange(len(types)), types)
        ax.set_title(f"additive account of the {title}")
    axes[0].set_ylabel("mean |value|")
    plots.legend_below(fig, axes[0])
    plots.save(fig, folder / "magnitudes.png")


@plots.styled
def draw_dispersed(arrays, folder: pathlib.Path) -> None:
    """Test error by salience: thin lines are training sets, thick lines are means."""
    fig = plots.new_figure(4.6, 3.6, layout="constrained")
    words = f"{len(arrays['mse/svr'])} training sets thin, their mean thick"
    plots.headline(fig, f"Addition without anchors: error on new pairs, {words}")
    ax = fig.subplots()
    for i, (name, label) in enumerate((("svr", "SVR, epsilon 0.1"), ("ridgeless", "ridgeless"))):
        rows = arrays[f"mse/{name}"]
        ax.plot(arrays["salience"], rows.T, color=plots.COLOURS[i], alpha=0.08, lw=0.7)
        ax.plot(arrays["salience"], rows.mean(0), color=plots.COLOURS[i], label=label)
    ax.set(xlabel="salience S(1;2)", ylabel="test MSE")
    ax.set_ylim(bottom=0)
    ax.grid(**plots.GRID)
    ax.legend(loc="lower left")
    plots.save(fig, folder / "dispersed.png")


@plots.styled
def draw_transitive(arrays, folder: pathlib.Path) -> None:
    """A kernel's outputs on transitive equivalence; margins on equivalence and ordering."""
    fig = plots.new_figure(11.0, 3.5, layout="constrained")
    margins = {name: arrays[name] for name in arrays if name.endswith(tuple(MACHINES))}
    zero = max(np.abs(margin).max() for name, margin in margins.items() if name.startswith("te_"))
    least = min(margin.min() for name, margin in margins.items() if name.startswith("to_"))
    words = f"at most {zero:.0e} on transitive equivalence, at least {least:.2f} on ordering"
    plots.headline(fig, f"Mean margins of kernels on new pairs: {words}")
    target, answer, equivalence, ordering = fig.subplots(1, 4)
    for ax, key, title in ((target, "y", "target"), (answer, "f", "kernel, S = 0.40")):
        ax.imshow(arrays[f"te_3_3/{key}"], **SIGNS)
        _ticks(ax, range(6), "BACEDF")
        ax.set(title=f"equivalence, {title}", xlabel="item 2")
        ax.tick_params(length=0)
    target.set_ylabel("item 1")
    for i, (machine, title) in enumerate(MACHINES.items()):
        style = {"color": plots.COLOURS[i], "label": title, "markersize": 3}
        names = [key for key in arrays if key.startswith("te_") and key.endswith(machine)]
        for name in names:
            equivalence.plot(arrays["salience"], arrays[name], ".-"[i:], **style)
            style.pop("label", None)
    equivalence.set(
        title="equivalence, new pairs", ylim=(-1, 1), ylabel="mean margin", xlabel="salience S(1;2)"
    )
    equivalence.text(0.07, -0.15, "0: chance", **NOTE)
    equivalence.legend(fontsize=7, loc="upper right")
    ends = []
    for i, at in enumerate((1, 4, 7)):
        margin, colour = arrays["to_7/regression"][at], plots.COLOURS[i]
        ordering.plot(range(2, 7), margin, "o-", markersize=3, color=colour)
        ends.append((6, margin[-1], f"S = {arrays['salience'][at]:.2f}", colour))
    ordering.text(2, ordering.get_ylim()[1], "by regression", va="top", **NOTE)
    ordering.axhline(0, color=plots.FAINT, lw=0.7)
    ordering.set(title="ordering, new pairs", xlabel="distance in rank", ylabel="mean margin")
    plots.label_ends(ordering, ends)
    plots.save(fig, folder / "transitive.png")


@plots.styled
def draw_perturbed(arrays, folder: pathlib.Path) -> None:
    """Additivity and slope by the spread of similarity at equal overlap."""
    fig = plots.new_figure(7.8, 3.6, layout="constrained")
    n = arrays["width/spread"].shape[1]
    words = "what is not additive, and how far the slope is from its closed form"
    plots.headline(fig, f"Kernels not quite compositional: {words} ({n} draws, their mean large)")
    left, right = fig.subplots(1, 2, sharex=True)
    outside = 0
    for i, (kind, label) in enumerate((("width", "finite width"), ("codes", "items alike"))):
        spread, missing = arrays[f"{kind}/spread"], 1 - arrays[f"{kind}/additivity"]
        error = arrays[f"{kind}/slope"] - arrays[f"{kind}/slope predicted"]
        outside += np.sum(np.abs(error) > 0.6)
        for ax, values in ((left, missing), (right, error)):
            ax.plot(spread.ravel(), values.ravel(), ".", color=plots.COLOURS[i], ms=2, alpha=0.3)
        left.plot(spread.mean(1), missing.mean(1), "o-", color=plots.COLOURS[i], ms=4, label=label)
        right.errorbar(
            spread.mean(1),
            error.mean(1),
            error.std(1),
            color=plots.COLOURS[i],
            marker="o",
            ms=4,
            capsize=2,
        )
    left.set(yscale="log", ylabel="1 - R2 of additivity, new pairs", title="additivity")
    right.set(ylabel="slope measured - predicted", title="memorization leak", ylim=(-0.6, 0.6))
    if outside:
        right.text(0.02, 0.02, f"{outside} beyond the frame", transform=right.transAxes, **NOTE)
    right.axhline(0, color=plots.FAINT, lw=0.7)
    ticks = (0.02, 0.05, 0.1, 0.2, 0.5)
    for ax in (left, right):
        ax.set(xscale="log", xlabel="spread of similarity at one shared component")
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_xticks((), minor=True)
        ax.grid(**plots.GRID)
    left.legend(loc="upper left")
    plots.save(fig, folder / "perturbed.png")


@plots.styled
def draw_design(arrays, folder: pathlib.Path) -> None:
    """Error and slope by number of training pairs; the chosen pairs; reduced salience."""
    fig = plots.new_figure(11.0, 6.5, layout="constrained")
    names = ("anchors", "dispersed", "like values", "chosen")
    saliences = [key.split("/")[0] for key in arrays if key.endswith("/mask")]
    chosen, dispersed = (_error(arrays[f"0.3/{name}"], 18) for name in ("chosen", "dispersed"))
    words = f"{chosen:.2g} with 18 pairs of an oracle, {dispersed:.2g} with 18 dispersed ones"
    plots.headline(fig, f"Training sets for addition, S(1;2) = 0.3: test MSE {words}")
    axes = fig.subplots(2, 3)
    slopes, mask, shaped = axes[1]
    named = {}  # axes -> labels at the ends of its curves
    for ax, s, column in (*((ax, s, 1) for ax, s in zip(axes[0], saliences)), (slopes, "0.3", 2)):
        for i, name in enumerate(names):
            n, y = arrays[f"{s}/{name}"].T[[0, column]]
            ax.plot(n, y, "o-", color=plots.COLOURS[i], markersize=3)
            label = {"chosen": "oracle"}.get(name, name)
            named.setdefault(ax, []).append((n[-1], y[-1], label, plots.COLOURS[i]))
        ax.set(title=f"S(1;2) = {s}", xlabel="training pairs")
        ax.set(**({"yscale": "log", "ylim": (0.008, 12)} if column == 1 else {"ylim": (0, 1)}))
    axes[0, 0].set_ylabel("test MSE")
    slopes.set_ylabel("slope m")
    mask.imshow(arrays["0.3/mask"], cmap="Blues", vmin=0, vmax=1.4)
    _ticks(mask, range(0, 9, 4), ("-4", "0", "4"))
    title = "18 pairs of an oracle at S = 0.3:\nit knows the value of every item"
    mask.set(title=title, xlabel="value 2", ylabel="value 1")
    for i, s in enumerate(saliences):
        factor, slope, colour = arrays["factor"], arrays[f"{s}/shaped"], plots.COLOURS[i]
        shaped.plot(factor, slope, color=colour)
        named.setdefault(shaped, []).append((factor[-1], slope[-1], f"S = {s}", colour))
    shaped.axvline(1, color=plots.FAINT, linestyle=":")
    shaped.set(
        xscale="log",
        ylim=(0, 1),
        xlabel="factor on full conjunctions",
        ylabel="slope m",
        title="salience taken away (p = 1)",
    )
    shaped.text(1.1, 0.93, "as a ridge", **NOTE)
    for ax in (*axes[0], slopes, shaped):
        ax.grid(**plots.GRID)
    for ax in (axes[0, -1], slopes, shaped):
        plots.label_ends(ax, named[ax])
    plots.save(fig, folder / "design.png")


def _error(rows, n_pairs: int) -> float:
    """Test MSE with n_pairs training pairs, from rows (pairs, error, slope)."""
    n, error, _ = rows.T
    return float(error[n == n_pairs][0])


FIGURES = {
    "tasks": draw_tasks,
    "salience": draw_salience,
    "leak": draw_leak,
    "partial": draw_partial,
    "phase": draw_phase,
    "context_share": draw_context_share,
    "magnitudes": draw_magnitudes,
    "dispersed": draw_dispersed,
    "transitive": draw_transitive,
    "perturbed": draw_perturbed,
    "design": draw_design,
}
