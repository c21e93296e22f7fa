"""How much of f each support leaves open, before any training, against scores after it.

The first-order numbers of `support.identify` for the study's sprites, edges made soft, and a soft
form of hard occlusion, at a sample of pixels. The paper's models are trained on these supports.

The components' length is the shortest of `data.lengths` that the samples resolve: as many samples
of the whole cube leave at most OPEN of f's deviation open. Scores have no part in the choice. The
rank correlation at every other length is reported beside it.

The paper's row diagonal_narrow is bimodal: three of its five seeds do not fit their training
support either. Two rank correlations are given. The first takes the published mean of all seeds, in
every row; it is the result. The second takes the seeds that fit P, because openness is about models
that do: those whose R2 on P is at most FITS below the best seed's of the row.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import stats
from cgjax.analysis.support import identification
from cgjax.analysis.support.identification import OPEN
from cgjax.core.logging import say
from cgjax.experiments.sprites import audits, scenes, sets
from cgjax.experiments.sprites.support import soft, studies
from cgjax.published import PUBLISHED

# support: row of the paper's table; first the whole cube
ROWS = {
    "random": "random_compositional",
    "diagonal_broad": "diagonal_broad",
    "orthogonal_broad": "orthogonal_broad",
    "orthogonal": "orthogonal_compositional",
    "orthogonal_normal": "orthogonal_normal",
    "diagonal": "diagonal",
    "orthogonal_gap": "orthogonal_gap",
    "orthogonal_star": "orthogonal_star",
    "diagonal_narrow": "diagonal_narrow",
}
FITS = 0.05  # of R2 on P
KINDS = ["continuous", "continuous", "categorical", "continuous", "continuous"] * 2
TRAINING_ERROR = 0.03  # relative error on P with which a squared error on Q is predicted
# Of soft occlusion: a sprite's channels sum up to 1 at least, an empty pixel's to 0.
SHARPNESS = 8.0


def occlude(slots):
    """The front sprite where it is bright, the back sprite elsewhere."""
    front, back = slots
    share = jax.nn.sigmoid(SHARPNESS * (jnp.sum(front, axis=-1, keepdims=True) - 0.5))
    return share * front + (1 - share) * back


def pixels(size: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A sample of pixels [p] of a flattened image, and the share of the image each stands for.

    n x n pixels on a grid; and 2 n of those under the sprites that the paper's planes hold still,
    because supports differ there and the grid misses most of them: a twentieth of the image.
    """
    fixed = scenes.render(scenes.scale_latents(np.array(list(scenes.PLANES.values()))), size)
    under = np.flatnonzero(np.asarray(fixed).sum((0, 3)))
    under_sample = under[np.linspace(0, len(under) - 1, 2 * n).astype(int)]
    at = ((np.arange(n) + 0.5) * size / n).astype(int)
    grid = np.setdiff1d((at[:, None] * size + at).ravel(), under)
    shares = (len(under) / size**2, 1 - len(under) / size**2)
    parts = zip((under_sample, grid), shares)
    weights = [np.full(len(part), share / len(part)) for part, share in parts]
    return np.concatenate([under_sample, grid]), np.concatenate(weights)


@functools.cache  # one function for all supports: its program is compiled once
def sprite(size: int, n: int):
    """Scaled latents [n, 5] -> RGB at the sampled `pixels` of an image, [n, 1, p, 3]."""
    at, _ = pixels(size, n)

    @jax.jit
    def draw(scaled):
        image = soft.render(jnp.asarray(scaled, jnp.float32), size).reshape(len(scaled), -1, 4)
        image = image[:, None, at]
        return image[..., :3] * image[..., 3:]

    return draw


def samples(config, definition) -> tuple[np.ndarray, np.ndarray]:
    """Scaled latents of a support [n, 10], and of the paper's evaluation set, the whole cube."""
    data = audits.support_data(config, **definition)
    p_key, q_key = jax.random.split(jax.random.key(config.data.seed))
    p = sets.sample(data, p_key, config.data.n_samples)
    q = sets.sample_everywhere(data, q_key, config.data.n_asked)
    return tuple(np.asarray(scenes.scale_latents(rows), np.float64) for rows in (p, q))


def ask(config, definition, length: float, noise: float) -> tuple[float, float]:
    """Share of f's deviation on Q that a support leaves open, and squared error on Q over P."""
    _, weights = pixels(config.data.image_size, config.data.n_pixels)
    components = [sprite(config.data.image_size, config.data.n_pixels)] * 2
    left = identification.leftover(
        occlude, components, *samples(config, definition), length, (noise,), KINDS
    )
    on_q, on_p, prior = (float(weights @ each.mean(-1).ravel()) for each in left)
    return np.sqrt(on_q / prior), on_q / on_p


def resolved_length(lengths, floor: Callable) -> float:
    """The shortest length at which samples of Q itself leave at most OPEN open, else the last.

    floor: the share that they leave open at a length.
    """
    for length in lengths:
        unknown = floor(length)
        say(f"length {length:g}: samples of the whole cube leave {unknown:.3g} open")
        if unknown <= OPEN:
            break
    return length


def published_r2(row: str) -> tuple[float, float]:
    """R2 on all combinations: mean of all seeds, and of those that fit P."""
    entry = PUBLISHED["sprites"][row]
    on_p, on_all = (np.array(entry[name]["values"]) for name in ("r2_id", "r2_all"))
    return entry["r2_all"]["mean"], float(on_all[on_p >= on_p.max() - FITS].mean())


def openness(config):
    """What each published support leaves open against its published R2, and the recorded ratios of
    errors against the amplification that is predicted."""
    r2, r2_fitted = np.transpose([published_r2(row) for row in ROWS.values()])
    metrics, sentences, by_length = {"samples": config.data.n_samples}, [], {}
    for length in config.data.lengths:
        supports = [sets.SUPPORTS[name] for name in ROWS]
        unknown = np.array([ask(config, each, length, config.data.noise)[0] for each in supports])
        by_length[length] = unknown
        tau = stats.kendall_tau_b(-unknown, r2)
        metrics[f"tau-b(unknown, published r2_all), length {length:g}"] = tau
        say(f"length {length:g}: tau-b of what stays open with the paper's R2: {tau:.2f}")
    length = resolved_length(config.data.lengths, lambda length: by_length[length][0])
    unknown = by_length[length]
    metrics["length"] = length
    for name, share in zip(ROWS, unknown):
        metrics[f"{name}: unknown"] = share
        metrics[f"{name}: times the floor"] = share / unknown[0]
        say(f"{name}: unknown {share:.3g}, {share / unknown[0]:.3g} times the floor")
    tau, fitted = (stats.kendall_tau_b(-unknown, each) for each in (r2, r2_fitted))
    metrics["tau-b(unknown, published r2_all)"] = tau
    metrics["tau-b(unknown, published r2_all of seeds that fit P)"] = fitted
    sentences.append(
        f"tau-b of what stays open with the paper's R2 on all, {len(ROWS)} supports, length "
        f"{length:g}: {tau:.2f}; with that of seeds that fit P: {fitted:.2f}"
    )
    say(sentences[-1])
    recorded, predicted = ratios(studies.check_record(config)[: config.data.n_recorded]), []
    for row, (definition, mean, _) in recorded.items():
        predicted.append(ask(config, definition, length, TRAINING_ERROR)[1])
        metrics[f"{row}: amplification"] = predicted[-1]
        metrics[f"{row}: recorded ratio"] = mean
        say(f"{row}: predicted {predicted[-1]:.3g}, recorded {mean:.3g}")
    means, spreads = np.array([each[1:] for each in recorded.values()]).T
    tau = stats.kendall_tau_b(np.array(predicted), means)
    above = int(np.sum(means > np.array(predicted) + spreads))
    metrics["tau-b(amplification, recorded ratio)"] = tau
    metrics["recorded ratios above the predicted one"] = above
    metrics["recorded supports"] = len(recorded)
    sentences.append(
        f"tau-b of the predicted amplification with the recorded ratio: {tau:.2f}, "
        f"{len(recorded)} supports; {above} recorded ratios exceed the predicted one"
    )
    say(sentences[-1])
    arrays = {"supports": np.array(list(ROWS)), "unknown": unknown, "r2": r2}
    arrays |= {"rows": np.array(list(recorded)), "ratio": means, "spread": spreads}
    return metrics, {**arrays, "amplification": np.array(predicted)}, sentences


def ratios(entries: list[dict]) -> dict[str, tuple[dict, float, float]]:
    """{row: support, mean and sd over seeds of the squared error on all over that on P}."""
    by_row = {}
    for entry in entries:
        on_all, on_p = (np.array(entry["metrics"][f"mse_{x}"]["values"]) for x in ("all", "id"))
        each = on_all / on_p
        spread = each.std(ddof=1) if len(each) > 1 else 0.0
        by_row[entry["row"]] = sets.definition(entry["config"]["data"]), each.mean(), spread
    return by_row
