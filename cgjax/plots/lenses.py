"""The figure of `analysis.lenses`: one panel per lens; an empty panel gives the reason."""

import re

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cgjax.plots.style import (
    COLOURS,
    FAINT,
    GREY,
    GRID,
    INK,
    SMALL,
    headline,
    new_figure,
    styled,
    wrap,
)


@styled
def lenses(result) -> Figure:
    """Six panels of a `Lenses`: salience, held-out outputs, layers, dependence, masks, support."""
    fig = new_figure(10.4, 6.2, layout="constrained")
    headline(fig, _minus(result.headline()))
    kernel = result.kernel
    held_out = (_slopes, None if kernel.slope is None else kernel, "slope")
    if result.accuracy is not None:
        held_out = (_accuracy, result.accuracy, "accuracy")
    salience = None if kernel.salience is None else kernel
    panels = {
        "Salience of the tangent kernel": (_salience, salience, "salience"),
        "Held-out combinations": held_out,
        "Factorization by layer": (_layers, result.factorization, "factorization"),
        "Dependence on factors": (_dependence, result.dependence, "dependence"),
        "Effects without a subnetwork": (_masks, result.masks, "masks"),
        "Support of the generator": (_support, result.support, "support"),
    }
    for ax, (title, (draw, lens, name)) in zip(fig.subplots(2, 3).flat, panels.items()):
        ax.set_title(title)
        if lens is None:
            _empty(ax, result.reasons[name])
        else:
            draw(ax, lens, result.names)
    return fig


def _minus(text):
    """Text with the minus signs that matplotlib uses on axes."""
    return re.sub(r"-(?=\d)", "−", text)


def _empty(ax, reason):
    ax.set(xticks=(), yticks=())
    ax.spines[:].set_visible(False)
    ax.patch.set(facecolor="#f3f4f6")
    ax.text(
        0.5,
        0.5,
        wrap(f"Undefined: {reason}", 2.3, 8),
        ha="center",
        va="center",
        color=GREY,
        transform=ax.transAxes,
        **SMALL,
    )


def _salience(ax, kernel, names):
    values = kernel.salience_by_subset
    members = [[c for c in range(len(names)) if i >> c & 1] for i in range(1, len(values) + 1)]
    order = sorted(range(len(values)), key=lambda i: (len(members[i]), members[i]))
    labels = [" and\n".join(names[c] for c in members[i]) for i in order]
    ax.bar(range(len(values)), values[order], color=COLOURS[0], width=0.6)
    ax.axhline(0, color=FAINT, linewidth=0.7)
    ax.set_xticks(range(len(values)), labels, fontsize=8 if len(values) < 4 else 6)
    ax.set(ylim=(min(-0.02, 1.1 * values.min()), max(1.02, 1.1 * values.max())))
    ax.set_ylabel("salience, of 1")
    ax.set_axisbelow(True)
    ax.grid(axis="y", **GRID)


def _accuracy(ax, accuracy, names):
    bars = {
        "training": accuracy.train,
        "held-out": accuracy.held_out,
        "held-out,\nkernel machine": accuracy.kernel,
        "held-out,\nbest constant": accuracy.constant,
    }
    bars = {label: np.mean(values) for label, values in bars.items() if values is not None}
    drawn = ax.bar(list(bars), list(bars.values()), color=COLOURS[0], width=0.6)
    ax.bar_label(drawn, fmt="%.2f", **SMALL)
    ax.tick_params(axis="x", labelsize=7)
    ax.set(ylim=(0, 1.1), ylabel="accuracy")


def _slopes(ax, kernel, names):
    x = kernel.reference[kernel.is_judged].ravel()
    ends = np.array([x.min(), x.max()])
    lines = [("model", kernel.outputs, kernel.slope)]
    if kernel.predicted is not None:
        lines.append(("machine with its kernel", kernel.predicted, kernel.slope_kernel))
    for i, (label, values, slope) in enumerate(lines):
        y = values[kernel.is_judged].ravel()
        ax.plot(x, y, "o" if i == 0 else "x", color=COLOURS[i], markersize=3.5, alpha=0.7)
        ax.plot(
            ends,
            y.mean() + slope * (ends - x.mean()),
            color=COLOURS[i],
            linewidth=1.2,
            label=_minus(f"{label}: slope {slope:z.2f}"),
        )
    ax.plot(ends, ends, ":", color=FAINT, linewidth=1)
    ax.set(xlabel="reference", ylabel="output")
    ax.legend(fontsize=7, loc="best")


def _layers(ax, layers, names):
    rows = {"additive": "a sum", "schmidt": "a product", "metric": "right angles"}
    for i, (field, label) in enumerate(rows.items()):
        values = [getattr(layer, field) for layer in layers.values()]
        # A small offset separates equal values.
        places = np.arange(len(values)) + 0.1 * (i - 1)
        ax.plot(places, values, "o-", color=COLOURS[i], markersize=4, linewidth=1.2, label=label)
    ax.set_xticks(range(len(layers)), list(layers), rotation=20 if len(layers) > 3 else 0)
    ax.set(ylim=(-0.02, 1.05), ylabel="share", xlim=(-0.4, len(layers) - 0.6))
    ax.grid(axis="y", **GRID)
    ax.legend(fontsize=7, loc="lower left")


def _dependence(ax, dependence, names):
    rows = [f"output {i}" for i in range(len(dependence.effects))]
    _matrix(ax, dependence.effects, rows, names, dependence.gradients)
    beside = "" if dependence.gradients is None else "\n(of derivatives in its inputs)"
    ax.set_xlabel(f"share of variance when it alone changes{beside}", **SMALL)


def _masks(ax, masks, names):
    factors = [names[c] for c in masks.factors]
    _matrix(ax, masks.without, [f"without {name}'s" for name in factors], factors)
    ax.set_xlabel("R2 of the effect that is left", **SMALL)


def _matrix(ax, values, rows, columns, beside=None):
    """A heat map from 0 to 1 with its numbers; the numbers `beside` follow in brackets."""
    ax.imshow(np.clip(np.nan_to_num(values), 0, 1), cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
    for i, j in np.ndindex(values.shape):
        text = _share(values[i, j])
        text += "" if beside is None else f"\n({_share(beside[i, j])})"
        colour = "white" if values[i, j] > 0.7 else INK
        ax.text(j, i, _minus(text), ha="center", va="center", color=colour, **SMALL)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def _share(value):
    """Differences far below 0 do not matter."""
    if np.isnan(value):
        return "unknown"
    return f"{value:z.2f}" if value > -9 else "< −9"


def _support(ax, support, names):
    for k, component in enumerate(support.components):
        values = np.sort(component.sigma_min)
        ax.plot(
            np.arange(1, len(values) + 1),
            np.maximum(values, 1e-12),
            ".-",
            color=COLOURS[k % 6],
            linewidth=1,
            label=f"component {k}: {component.share:.0%} pass",
        )
    fails = f"fails: {support.assumption}" if support.assumption else "no premise fails"
    unknown = f"; not measured: {', '.join(support.unmeasured)}" if support.unmeasured else ""
    ax.set(yscale="log", ylabel="smallest singular value")
    ax.set_xlabel(f"component value, sorted\n{fails}{unknown}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(fontsize=7, loc="best")
