"""How much of f each support leaves open, before any training, against scores after it.

`support.identify` is asked with the study's sprites, edges made soft, and a soft form of hard
occlusion, at a grid of pixels. The paper's models are trained on these supports.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import stats
from cgjax.analysis import support as theory
from cgjax.core.logging import say
from cgjax.experiments.sprites import audits, scenes, sets
from cgjax.experiments.sprites.support import soft, studies
from cgjax.published import PUBLISHED

# support: row of the paper's table
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
SHARPNESS = (
    8.0  # of soft occlusion; a sprite's channels sum up to 1 at least, an empty pixel's to 0
)


def occlude(slots):
    """The front sprite where it is bright, the back sprite elsewhere."""
    front, back = slots
    share = jax.nn.sigmoid(SHARPNESS * (jnp.sum(front, axis=-1, keepdims=True) - 0.5))
    return share * front + (1 - share) * back


def sprite(size: int, n_pixels: int):
    """Scaled latents [n, 5] -> RGB at a grid of pixels [n, n_pixels, n_pixels, 3]."""
    at = np.linspace(0.15 * size, 0.85 * size, n_pixels).astype(int)

    def draw(scaled):
        image = soft.render(jnp.asarray(scaled, jnp.float32), size)[:, at][:, :, at]
        return image[..., :3] * image[..., 3:]

    return jax.jit(draw)


def ask(config, data, seed: int):
    """`identify` for the support that `data` describes."""
    n, draw = config.data.n_samples, sprite(config.data.image_size, config.data.n_pixels)
    p_key, q_key = jax.random.split(jax.random.key(config.data.seed + seed))
    p = scenes.scale_latents(sets.sample(data, p_key, n))
    q = scenes.scale_latents(sets.sample_everywhere(data, jax.random.fold_in(q_key, 1), n))
    kinds = ["continuous", "continuous", "categorical", "continuous", "continuous"] * 2
    return theory.identify(
        occlude, [draw, draw], np.asarray(p), np.asarray(q), length=config.data.length,
        noise=config.data.noise, kinds=kinds, n_points=n, n_positions=config.data.n_pixels**2,
    )  # fmt: skip


def openness(config):
    """What each published support leaves open against its published R2, and the recorded ratios of
    errors against the amplification that is predicted."""
    metrics, arrays, sentences = {}, {}, []
    unknown, r2 = [], []
    for name, row in ROWS.items():
        answer = ask(config, audits.support_data(config, **sets.SUPPORTS[name]), 0)
        unknown.append(answer.unknown[0])
        r2.append(PUBLISHED["sprites"][row]["r2_all"]["mean"])
        metrics[f"{name}: unknown"] = unknown[-1]
        metrics[f"{name}: times the floor"] = unknown[-1] / unknown[0]
        metrics[f"{name}: open share of Q"] = answer.open_share
        say(f"{name}: unknown {unknown[-1]:.3g}, {unknown[-1] / unknown[0]:.3g} times the floor")
    tau = stats.kendall_tau_b(-np.array(unknown), np.array(r2))
    metrics["tau-b(unknown, published r2_all)"] = tau
    sentences.append(f"tau-b of what stays open with the paper's R2 on all: {tau:.2f}, 9 supports")
    say(sentences[-1])
    names, ratios, spreads, predicted = [], [], [], []
    for entry in studies.check_record(config):
        data = audits.support_data(config, **sets.definition(entry["config"]["data"]))
        each = [np.array(entry["metrics"][f"mse_{part}"]["values"]) for part in ("all", "id")]
        names.append(entry["row"])
        ratios.append(np.mean(each[0] / each[1]))
        spreads.append(np.std(each[0] / each[1], ddof=1) if len(each[0]) > 1 else np.nan)
        predicted.append(ask(config, data, 0).amplification[0])
        metrics[f"{names[-1]}: amplification"] = predicted[-1]
        metrics[f"{names[-1]}: recorded ratio"] = ratios[-1]
        say(f"{names[-1]}: predicted {predicted[-1]:.3g}, recorded {ratios[-1]:.3g}")
    tau = stats.kendall_tau_b(np.array(predicted), np.array(ratios))
    above = np.array(ratios) > np.array(predicted) + np.nan_to_num(spreads)
    metrics["tau-b(amplification, recorded ratio)"] = tau
    metrics["recorded ratios above the predicted one"] = int(above.sum())
    sentences.append(
        f"tau-b of the predicted amplification with the recorded ratio: {tau:.2f}, "
        f"{len(names)} supports; {above.sum()} recorded ratios exceed the predicted one"
    )
    say(sentences[-1])
    arrays |= {"supports": np.array(list(ROWS)), "unknown": np.array(unknown), "r2": np.array(r2)}
    arrays |= {"rows": np.array(names), "ratio": np.array(ratios), "spread": np.array(spreads)}
    return metrics, {**arrays, "amplification": np.array(predicted)}, sentences
