"""Scores over training, of every part and setting: accuracy, dependence, information."""

import numpy as np

from cgjax import plots

# Colours of figure 3: (train, test) of A and of B.
COLOURS = {"A": ("#1f4fd8", "#19b5c9"), "B": ("#d62728", "#8c564b")}
COLOURS["control"] = COLOURS["B"]


def prefixes(arrays) -> list[tuple[str, str]]:
    """(prefix of array names, title) of every part."""
    return [(f"{p}/" if p else "", str(p).replace("_", " ")) for p in arrays["parts"].tolist()]


def colours(names: list[str]) -> list[tuple[str, str]]:
    """(dark, light) colours of every setting; the paper's colours if there are only A and B."""
    if all(name in COLOURS for name in names):
        return [COLOURS[name] for name in names]
    return [
        (dark, plots.shades(3, "#ffffff", dark)[1])
        for dark in (plots.COLOURS * len(names))[: len(names)]
    ]


def band(ax, steps, values, colour, label, style="-"):
    """Mean over seeds with a band of one standard deviation; values [m, seeds].

    Steps at which no seed has a value are left out.
    """
    is_known = np.isfinite(values).any(axis=1)
    steps, values = np.asarray(steps)[is_known], np.asarray(values)[is_known]
    n = np.isfinite(values).sum(axis=1)
    mean, variance = np.nanmean(values, axis=1), np.nanvar(values, axis=1)
    sd = np.sqrt(variance * n / np.maximum(n - 1, 1))
    ax.plot(steps, mean, style, color=colour, linewidth=1.4, label=label)
    ax.fill_between(steps, mean - sd, mean + sd, color=colour, alpha=0.18, linewidth=0)


def step_axis(ax, steps) -> None:
    """Sets the axis of training steps; long runs get a logarithmic axis."""
    if steps[-1] > 200:
        ax.set_xscale("symlog", linthresh=1)
        ticks = [0, 1, 10, 100, 1000, 10_000]
        ax.set_xticks([t for t in ticks if t <= steps[-1]])
        ax.set_xticklabels([f"{t:,}" for t in ticks if t <= steps[-1]])
    ax.set_xlabel("training step")
    ax.set_xlim(0, steps[-1])


def _lines(arrays, folder, file, title, wanted, ylabel, limits=None):
    """One panel per part; wanted: [(score, start of label, line style)]."""
    parts = [
        (prefix, part_title)
        for prefix, part_title in prefixes(arrays)
        if any(f"{prefix}scores/{score}" in arrays for score, *_ in wanted)
    ]
    if not parts:
        return
    n = len(parts)
    columns = min(n, 3)
    rows = -(-n // columns)

    @plots.styled
    def figure():
        fig = plots.new_figure(4.2 * columns + 0.4, 3.1 * rows + 1.2, layout="constrained")
        axes = fig.subplots(rows, columns, squeeze=False).ravel()
        for ax, (prefix, part_title) in zip(axes, parts):
            names = arrays[f"{prefix}settings"].tolist()
            for i, (name, pair) in enumerate(zip(names, colours(names))):
                for k, (score, label_start, style) in enumerate(wanted):
                    if f"{prefix}scores/{score}" not in arrays:
                        continue
                    values = arrays[f"{prefix}scores/{score}"][:, :, i]
                    label = " ".join(filter(None, (label_start, name)))
                    shade = pair[k % 2] if len(wanted) > 1 else pair[0]
                    band(ax, arrays[f"{prefix}scores/step"], values, shade, label, style)
            step_axis(ax, arrays[f"{prefix}scores/step"])
            ax.set(title=part_title, ylabel=ylabel)
            if limits:
                ax.set_ylim(*limits)
        for ax in axes[n:]:
            ax.set_visible(False)
        plots.headline(fig, title)
        longest = max(axes[:n], key=lambda ax: len(ax.get_legend_handles_labels()[0]))
        plots.legend_below(fig, longest)
        return fig

    plots.save(figure(), folder / f"{file}.png")


def draw_accuracy(arrays, folder):
    """Figures 3a and 3b."""
    title = "Accuracy in training and in the test (mean, band of one standard deviation)"
    wanted = [("train accuracy", "train", "-"), ("test accuracy", "test", "-")]
    _lines(arrays, folder, "accuracy", title, wanted, "accuracy", (0, 1.02))


def draw_dependence(arrays, folder):
    """S_2 over training."""
    title = "Share of X_2 in the derivative of the answer"
    _lines(arrays, folder, "dependence", title, [("S_2", "", "-")], "S_2")


def draw_information(arrays, folder):
    """Information of the answer about Y_2."""
    title = "Information of the answer about Y_2: given Y_1, and when X_2 is drawn anew (nats)"
    wanted = [
        ("conditional information", "given Y_1,", "-"),
        ("interventional information", "X_2 drawn anew,", "--"),
    ]
    _lines(arrays, folder, "information", title, wanted, "nats")


def draw_matrix(arrays, folder):
    """Off-diagonal entries of D_ij over training, as shares."""
    title = "Shares of the other component in the derivative of each output"
    two = [
        ("S_2", "X_2 in head 1,", "-"),
        ("S_1 of head 2", "X_1 in head 2,", "--"),
        ("S of action words in structure", "action words in structure,", "-"),
        ("S of structure in actions", "structure in actions,", "--"),
    ]
    _lines(arrays, folder, "matrix", title, two, "share")


def draw_heads(arrays, folder):
    """Whether heads' updates cancel."""
    title = "Updates of two heads: norm of their sum over the sum of norms, and their cosine"
    wanted = [("heads: ratio of norms", "ratio,", "-"), ("heads: cosine", "cosine,", "--")]
    _lines(arrays, folder, "heads", title, wanted, "", (-1.05, 1.05))


def draw_one_step(arrays, folder):
    """Change of D_2 by one small step."""
    title = "Change of D_2 by one small step: X_2 predicts the target, or is drawn anew"
    wanted = [
        ("one step on A: D_2", "telling,", "-"),
        ("one step on re-drawn: D_2", "drawn anew,", "--"),
    ]
    _lines(arrays, folder, "one_step", title, wanted, "change of D_2")
