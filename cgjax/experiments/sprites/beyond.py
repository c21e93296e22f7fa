"""What the rows beyond the paper report: error by region of the image, by gap, along training."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import plots
from cgjax.core.errors import BadInput
from cgjax.core.logging import read_npz
from cgjax.core.workdir import read_json
from cgjax.experiments.sprites import scenes

REGIONS = ("overlap", "outline", "interior", "background")


# --- regions --------------------------------------------------------------------------------------


def regions(spans: jax.Array) -> jax.Array:
    """Which region each pixel of scenes is in: spans [n, K, size, 2] -> bool [4, n, size, size].

    The order is that of REGIONS; every pixel is in exactly one. The owner of a pixel is the
    frontmost sprite that covers it, or no sprite.
    overlap: two or more sprites cover the pixel. Of the other pixels,
    outline: one of the four neighbours has another owner. These pixels lie on both sides of every
        visible edge; a sprite that the frame cuts has no edge there.
    interior: one sprite covers the pixel. background: no sprite covers it.
    """
    lit = _covers(spans)  # [n, K, size, size]
    count = jnp.sum(lit, axis=1)
    # argmax returns the first slot that covers: the frontmost sprite. "No sprite" is slot K.
    owner = jnp.where(count > 0, jnp.argmax(lit, axis=1), lit.shape[1])
    overlap, edge = count > 1, _differs_from_a_neighbour(owner)
    outline = edge & ~overlap
    interior = (count == 1) & ~outline
    return jnp.stack([overlap, outline, interior, (count == 0) & ~outline])


@jax.jit
def _covers(spans):
    nothing = jnp.zeros((*spans.shape[:-2], 3), jnp.uint8)
    return scenes.paint(spans, nothing, alpha=True)[..., 3] > 0


def _differs_from_a_neighbour(owner):
    padded = jnp.pad(owner, ((0, 0), (1, 1), (1, 1)), mode="edge")
    up, down = padded[:, :-2, 1:-1], padded[:, 2:, 1:-1]
    left, right = padded[:, 1:-1, :-2], padded[:, 1:-1, 2:]
    return (owner != up) | (owner != down) | (owner != left) | (owner != right)


# --- sums of squared errors, to be added over batches ---------------------------------------------


def sums(target: jax.Array, prediction: jax.Array, rows: dict, by_region: bool) -> dict:
    """Squared error and pixels of each part of some scenes: `{part: (error, n_pixels)}`.

    target, prediction [n, size, size, 3]; rows as `sets.make` returns them. Parts: gap and outside
    where the rows have `in_gap`; the regions if `by_region`.
    """
    error = jnp.mean(jnp.square(prediction - target), axis=-1)  # [n, size, size]
    parts = {}
    if "in_gap" in rows:
        inside = jnp.broadcast_to(rows["in_gap"][:, None, None], error.shape)
        parts |= {"gap": inside, "outside": ~inside}
    if by_region:
        parts |= dict(zip(REGIONS, regions(rows["spans"])))
    # Pixels are counted in float32: a batch of 1000 scenes has fewer than 2^24 of them.
    return {
        name: (jnp.sum(jnp.where(part, error, 0)), jnp.sum(part.astype(jnp.float32)))
        for name, part in parts.items()
    }


def scores(parts: dict) -> dict:
    """From `sums` of batches, each leaf [batches]: `mse_<part>`; `share_<region>` of all error.

    NaN where a part has no pixels.
    """
    parts = {name: (jnp.sum(error), jnp.sum(pixels)) for name, (error, pixels) in parts.items()}
    values = {f"mse_{name}": error / pixels for name, (error, pixels) in parts.items()}
    if REGIONS[0] in parts:
        whole = sum(parts[name][0] for name in REGIONS)
        values |= {f"share_{name}": parts[name][0] / whole for name in REGIONS}
    return values


# --- what the front network draws outside its sprite ----------------------------------------------


LARGEST_LEAK = -1.28  # colour sum s at which soft occlusion leaks most, s sg(s)


def front_levels(drawn: list, rows: dict, planes: tuple = ()) -> dict:
    """Median colour sums s that the front network draws outside its sprite, one number per seed.

    drawn: for each seed, what the front network draws of the scenes `rows`, [n, size, size, 3+].
    front_background: over all pixels. Soft occlusion shows the back where s is well below zero. The
    leak s sg(s) is largest at s = -1.28; a network that stays above that point still covers part of
    the back and scores low.
    front_ghost: over the pixels of the sprites behind, on the planes where these are fixed and the
    front sprite varies. If occlusion depends on colour sums, s > 0 means that more of the front
    network's drawing shows there than of the sprites behind: a spurious sprite (ghost). With one
    such plane, the fixed sprites are in every image in which the front sprite varies, so the
    images hardly determine which network draws them. planes: as `config.data.planes`; without
    such a plane the key is absent.
    """
    size = rows["spans"].shape[-2]
    outside = ~np.asarray(_covers(np.asarray(rows["spans"])[:, :1])[:, 0])
    where = {"front_background": outside}
    if still := [coords for slot, coords in planes if slot == 0]:
        spans = scenes.describe(np.reshape(still, (-1, 5)).astype(np.float32), size)["spans"]
        where["front_ghost"] = outside & np.any(np.asarray(_covers(spans)), (0, 1))
    # Medians on the host: XLA sorts slowly on a CPU.
    levels = [np.sum(front[..., :3], axis=-1) for front in drawn]
    return {
        name: [float(np.median(level[pixels])) for level in levels]
        for name, pixels in where.items()
    }


# --- error outside the support against error inside it, along training ----------------------------


def curve_arrays(config, history: dict, workdir: pathlib.Path) -> dict:
    """`curve/<row>/step` [m], `mse_id`, `mse_all` [m, R] of this run and of similar runs.

    Similar runs: finished runs of the same size with `eval.curve` on, in sibling folders.
    """
    this_run = {name: history["eval"][name] for name in ("step", "mse_id", "mse_all")}
    curves = {f"curve/{config.row}/{name}": values for name, values in this_run.items()}
    for path in sorted(workdir.absolute().parent.glob("*/arrays.npz")):
        try:
            other = read_json(path.parent / "config.json")
            is_similar = other["size"] == config.size and other["eval"].get("curve")
            if is_similar and other["row"] != config.row:
                saved = read_npz(path)
                keys = [key for key in saved if key.startswith(f"curve/{other['row']}/")]
                curves |= {key: saved[key] for key in keys}
        except (AttributeError, BadInput, KeyError, TypeError):
            continue  # not a sprites run, or a damaged one: it must not stop this run
    return curves


def _is_error(key):
    return key.startswith("curve/") and not key.endswith("/step")


@plots.styled
def draw_curves(arrays, folder) -> list:
    """Error on the whole cube against error on the support, one curve per run, log-log.

    Reads curve/<row>/mse_id and curve/<row>/mse_all [m, R].
    """
    rows = sorted({key.split("/")[1] for key in arrays if _is_error(key)})
    if not rows:
        return []
    fig = plots.new_figure(4.8, 4.4, layout="constrained")
    ax = fig.subplots()
    for i, row in enumerate(rows):
        inside, whole = (
            np.asarray(arrays[f"curve/{row}/{name}"]) for name in ("mse_id", "mse_all")
        )
        colour = plots.COLOURS[i % len(plots.COLOURS)]
        style = {"color": colour, "linewidth": 1.2, "marker": "o", "markersize": 2.5}
        for seed, (x, y) in enumerate(zip(inside.T, whole.T)):
            ax.plot(x, y, label=None if seed else row.replace("_", " "), **style)
            ax.plot(x[-1], y[-1], "o", color=colour, markersize=7, markeredgecolor=plots.INK)
    values = np.concatenate([np.ravel(arrays[key]) for key in arrays if _is_error(key)])
    values = values[np.isfinite(values) & (values > 0)]
    ends = (0.8 * values.min(initial=1.0), 1.25 * values.max(initial=1e-6))
    ax.plot(ends, ends, ":", color=plots.FAINT, label="equal", zorder=0)
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, box_aspect=1)
    ax.set(xlabel="MSE on the training support", ylabel="MSE on the whole cube")
    ax.grid(which="both", **plots.GRID)
    ax.legend(loc="lower right")  # free space: error on the cube is rarely the smaller one
    title = (
        "New combinations against known ones: every evaluation along training, the last one large; "
        "a line for every seed"
    )
    plots.headline(fig, title)
    return [plots.save(fig, folder / "curves.png")]
