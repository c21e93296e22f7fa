"""Figures of the kernels study, from saved arrays (numbered as in Lippl and Stachenfeld 2025)."""

import pathlib

import numpy as np

from cgjax import plots

LABELS = {
    "step": "step",
    "relu": "ReLU",
    "leaky_relu": "leaky ReLU",
    "rectified_quadratic": "rectified quadratic",
    "gaussian": "Gaussian",
}
LIMITS = (1 / 3, 1 / 3, 1.0)  # upper bounds of S(1..3; 3)
GRID = {"color": "#e3e6ea", "linewidth": 0.7}


@plots.styled
def draw_salience(arrays, folder: pathlib.Path) -> None:
    """F2: salience of conjunctions of one, two and three components by depth."""
    fig = plots.new_figure(9.6, 3.1, layout="constrained")
    axes = fig.subplots(1, 3)
    for k, (ax, limit) in enumerate(zip(axes, LIMITS)):
        for i, (name, label) in enumerate(LABELS.items()):
            values = arrays[f"{name}/3"][:, k]
            ax.plot(np.arange(len(values)), values, color=plots.COLOURS[i], label=label)
        ax.axhline(limit, color=plots.FAINT, linestyle=":")
        ax.set(title=f"S({k + 1};3)", xlabel="layer", ylim=(0, 1.05 * limit))
        ax.grid(axis="y", **GRID)
    axes[0].legend(fontsize=7, loc="center right")
    fig.suptitle("Deep random networks become look-up tables", x=0.01, ha="left")
    plots.save(fig, folder / "salience.png")


@plots.styled
def draw_leak(arrays, folder: pathlib.Path) -> None:
    """F3 a, b: slope by salience and anchors; what each item is worth."""
    fig = plots.new_figure(7.2, 3.2, layout="constrained")
    left, right = fig.subplots(1, 2)
    for p in range(1, 6):
        colour = plots.COLOURS[(p - 1) % len(plots.COLOURS)]
        left.plot(arrays["salience"], arrays[f"slope/{p}"], color=colour, label=f"p = {p}")
    left.set(xlabel="salience S(1;2)", ylabel="slope m", title="memorization leak")
    names = sorted((key for key in arrays if key.startswith("items/")), reverse=True)
    for i, name in enumerate(names):
        items = arrays[name]
        values = np.arange(len(items)) - len(items) // 2
        label = f"S = {float(name.split('/')[1]):.2f}"
        right.plot(values, items, "o-", markersize=3, color=plots.COLOURS[i], label=label)
    right.set(xlabel="item", ylabel="its value to the machine", title="one anchor (0)")
    for ax in (left, right):
        ax.grid(**GRID)
        ax.legend(fontsize=7)
    plots.save(fig, folder / "leak.png")


@plots.styled
def draw_partial(arrays, folder: pathlib.Path) -> None:
    """Margins of invariance and partial exposure."""
    fig = plots.new_figure(3.8, 3.2, layout="constrained")
    ax = fig.subplots()
    for i, name in enumerate(("invariance", "partial exposure")):
        ax.plot(arrays["k"], arrays[name], color=plots.COLOURS[i], label=name)
    ax.set(xlabel="kappa(1)", ylabel="margin on new inputs", title="two by two inputs")
    ax.grid(**GRID)
    ax.legend()
    plots.save(fig, folder / "partial.png")


@plots.styled
def draw_phase(arrays, folder: pathlib.Path) -> None:
    """F3 d: tasks solved by each kernel; random networks by depth; the boundary in closed form."""
    fig = plots.new_figure(9.4, 4.3, layout="constrained")
    for ax, machine, title in zip(
        fig.subplots(1, 2, sharey=True), ("svm", "regression"), ("hard margin", "ridgeless")
    ):
        solved = sum((arrays[f"cd_{k}/{machine}"] == 1).astype(int) for k in (1, 2, 3))
        shades = ("#f3d9d0", "#f7ecd0", "#d7e8f5", "#c3e2d3")
        for n, label in enumerate(("none", "CD-1", "CD-1 and CD-2", "all three")):
            at = solved == n
            ax.plot(arrays["s1"][at], arrays["s2"][at], "s", color=shades[n], label=label, ms=5)
        for i, (name, label) in enumerate(LABELS.items()):
            path = arrays[f"network/{name}"]
            ax.plot(*path.T, "o-", color=plots.COLOURS[i], markersize=2.5, lw=1, label=label)
        line = arrays[f"boundary/{machine}"]
        inside = line <= 1 / 3 - arrays["boundary/s1"]
        ax.plot(arrays["boundary/s1"][inside], line[inside], color=plots.INK, lw=1.4,
                label="CD-3, closed form")  # fmt: skip
        ax.set(title=title, xlabel="S(1;3)", xlim=(-0.01, 0.345), ylim=(-0.01, 0.345))
    fig.axes[0].set_ylabel("S(2;3)")
    fig.axes[1].legend(fontsize=7, loc="upper right")
    fig.suptitle("Which context-dependence tasks a kernel solves", x=0.01, ha="left")
    plots.save(fig, folder / "phase.png")


@plots.styled
def draw_magnitudes(arrays, folder: pathlib.Path) -> None:
    """F3 e: mean |value| by type of conjunction."""
    names = [key for key in arrays if key.startswith("rep_")]
    types = [str(word) for word in arrays["types"]]
    fig = plots.new_figure(6.4, 3.0, layout="constrained")
    ax = fig.subplots()
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        label = name.replace("_", " ").replace("/", ", ").replace("cd ", "CD-")
        place = np.arange(len(types)) + (i - (len(names) - 1) / 2) * width
        ax.bar(place, arrays[name], width, color=plots.COLOURS[i], label=label)
    ax.set_xticks(np.arange(len(types)), types)
    ax.set(ylabel="mean |value|", title="What the support-vector machine uses")
    ax.legend()
    plots.save(fig, folder / "magnitudes.png")


@plots.styled
def draw_dispersed(arrays, folder: pathlib.Path) -> None:
    """Test error by salience over many training sets, every one thin."""
    fig = plots.new_figure(4.2, 3.2, layout="constrained")
    ax = fig.subplots()
    for i, (name, label) in enumerate((("svr", "SVR, epsilon 0.1"), ("ridgeless", "ridgeless"))):
        rows = arrays[f"mse/{name}"]
        ax.plot(arrays["salience"], rows.T, color=plots.COLOURS[i], alpha=0.08, lw=0.7)
        ax.plot(arrays["salience"], rows.mean(0), color=plots.COLOURS[i], label=label)
    ax.set(xlabel="salience S(1;2)", ylabel="test MSE", title="addition, dispersed training sets")
    ax.grid(**GRID)
    ax.legend()
    plots.save(fig, folder / "dispersed.png")


@plots.styled
def draw_dense(arrays, folder: pathlib.Path) -> None:
    """Mean output on new inputs against the target, one panel per task, one colour per scale."""
    tasks, scales = arrays["tasks"], arrays["scales"]
    outputs = np.asarray(arrays["outputs"]).mean(axis=0)  # [tasks, scales, N]
    history = arrays["history/test_mse"]  # [evaluations, seeds, tasks, scales]
    fig = plots.new_figure(2.9 * len(tasks), 5.6, layout="constrained")
    axes = fig.subplots(2, len(tasks), squeeze=False)
    for i, task in enumerate(tasks):
        for j, scale in enumerate(scales):
            colour = plots.COLOURS[j % len(plots.COLOURS)]
            n = round(outputs.shape[-1] ** 0.5)
            if n * n == outputs.shape[-1]:
                items = outputs[i, j].reshape(n, n).mean(axis=1)
                axes[0, i].plot(np.arange(n), items, "o-", color=colour, ms=3, label=f"{scale:g}")
            steps, curve = arrays["history/step"], history[:, :, i, j].mean(axis=1)
            axes[1, i].plot(steps, curve, color=colour)
        axes[0, i].set(title=str(task).replace("_", " "), xlabel="item of component 1")
        axes[1, i].set(xlabel="step", yscale="log")
        for ax in axes[:, i]:
            ax.grid(**GRID)
    axes[0, 0].set_ylabel("mean output over component 2")
    axes[1, 0].set_ylabel("test MSE")
    axes[0, 0].legend(title="initial scale", fontsize=7, title_fontsize=7)
    plots.save(fig, folder / "dense.png")


FIGURES = {
    "salience": draw_salience,
    "leak": draw_leak,
    "partial": draw_partial,
    "phase": draw_phase,
    "magnitudes": draw_magnitudes,
    "dispersed": draw_dispersed,
    "dense": draw_dense,
}
