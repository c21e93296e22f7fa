"""Figures of traversals: two latents walked over a grid, target above prediction."""

import numpy as np

from cgjax import plots
from cgjax.experiments.sprites.scenes import latent_name

# The walks of the first figure: within a sprite, then across sprites. All other latents are 0, so
# that one sprite is on top of the other: a walk that moves neither shows only the front one.
WALKS = ("0_1", "2_4", "3_4", "5_6", "0_5", "1_6", "0_9", "5_8")


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
    """Two latents walked over a grid, target above prediction: the pairs of WALKS, then every pair.

    Reads traversal/<a>_<b>/target and traversal/<a>_<b>/<part> [g, g, h, w, 3]: latent b grows
    along the first axis (shown upward), latent a along the second (to the right).
    """
    available = {tuple(key.split("/")[1:]) for key in arrays if key.startswith("traversal/")}
    paths = []
    for part in sorted({name for _, name in available} - {"target"}):
        both = {pair for pair, _ in available if {(pair, "target"), (pair, part)} <= available}
        sheets = {"": ([pair for pair in WALKS if pair in both], 5, 4)}
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
