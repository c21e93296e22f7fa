"""Sets whose centres lie anywhere in [0, n)^2, outside a square hole in the middle."""

import numpy as np

from cgjax.core.errors import BadInput
from cgjax.experiments.bumps import scenes, sets


def check(config) -> None:
    """Raises an error unless every hole leaves points inside and outside."""
    for hole in config.data.holes:
        if not min(scenes.continuous_sizes(config.data.n, hole, config.data.n_points)):
            raise BadInput(
                f"data.holes={hole:g} of {config.data.n} pixels leaves nothing on one side: "
                f"increase data.n_points={config.data.n_points} or change the hole"
            )


def make(config) -> sets.Scenes:
    """One set per hole; each set is scored at its own points, trained and held out."""
    data, everywhere, drawn_sets = config.data, [], {}
    inverted = sets.INVERTED[data.polarity]
    shown = sets.Scenes(
        None, None, None, None, inverted, 1.0, False, {"hole": data.holes}, drawn_sets
    )
    ends = 0
    for seed, (hole,) in sets.draws(config, shown):
        rng = np.random.default_rng((max(seed, data.seed), round(hole * 1e6)))
        sizes = scenes.continuous_sizes(data.n, hole, data.n_points)
        parts = [
            scenes.continuous(rng, size, data.n, hole, held_out)
            for size, held_out in zip(sizes, (False, True))
        ]
        rows = np.split(ends + np.arange(sum(sizes)), sizes[:1])
        everywhere, ends = everywhere + parts, ends + sum(sizes)
        drawn_sets[(seed, hole)] = rows
    labels = scenes.bump_labels(np.concatenate(everywhere))
    for key, (trained, held_out) in drawn_sets.items():
        masks = [np.isin(np.arange(ends), rows) for rows in (trained, held_out)]
        drawn_sets[key] = sets.Set(trained.astype(np.int32), *masks)
    images = scenes.images(labels, data.n, data.sigma, inverted=inverted)
    codes = scenes.encode(labels.xy, data.n, data.encoding, data.sigma, data.width_multiplier)
    return shown._replace(
        images=np.asarray(images, np.float32),
        codes=np.asarray(codes, np.float32),
        labels=labels,
        points=np.arange(ends),
    )
