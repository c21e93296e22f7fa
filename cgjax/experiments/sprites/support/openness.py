"""How much of f each support leaves open, before any training, against scores after it.

`support.identify` is asked with the study's sprites, edges made soft, and a soft form of hard
occlusion, at a grid of pixels. The paper's models are trained on these supports.
"""

import json

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


def ask(config, data):
    """`identify` for the support that `data` describes."""
    n, draw = config.data.n_samples, sprite(config.data.image_size, config.data.n_pixels)
    p_key, q_key = jax.random.split(jax.random.key(config.data.seed))
    p = scenes.scale_latents(sets.sample(data, p_key, n))
    q = scenes.scale_latents(sets.sample_everywhere(data, q_key, n))
    kinds = ["continuous", "continuous", "categorical", "continuous", "continuous"] * 2
    return theory.identify(
        occlude, [draw, draw], np.asarray(p), np.asarray(q), length=config.data.length,
        noise=config.data.noise, kinds=kinds, n_points=n, n_positions=config.data.n_pixels**2,
    )  # fmt: skip


def openness(config):
    """What each published support leaves open against its published R2, and the recorded ratios of
    errors against the amplification that is predicted."""
    metrics, arrays, sentences = {}, {}, []
    unknown, r2, answers = [], [], {}

    def answer_for(definition):
        """One answer for a support of both tables."""
        name = json.dumps(definition, sort_keys=True)
        if name not in answers:
            answers[name] = ask(config, audits.support_data(config, **definition))
        return answers[name]

    for name, row in ROWS.items():
        answer = answer_for(sets.SUPPORTS[name])
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
    entries, predicted = studies.check_record(config)[: config.data.n_recorded], []
    recorded = ratios(entries)
    for entry in entries:
        definition = sets.definition(entry["config"]["data"])
        predicted.append(answer_for(definition).amplification[0])
        mean, _ = recorded[entry["row"]]
        metrics[f"{entry['row']}: amplification"] = predicted[-1]
        metrics[f"{entry['row']}: recorded ratio"] = mean
        say(f"{entry['row']}: predicted {predicted[-1]:.3g}, recorded {mean:.3g}")
    means, spreads = np.array(list(recorded.values())).T
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
    arrays |= {"supports": np.array(list(ROWS)), "unknown": np.array(unknown), "r2": np.array(r2)}
    arrays |= {"rows": np.array(list(recorded)), "ratio": means, "spread": spreads}
    return metrics, {**arrays, "amplification": np.array(predicted)}, sentences


def ratios(entries: list[dict]) -> dict[str, tuple[float, float]]:
    """{row: mean and sd over seeds} of the squared error on all combinations over that on P."""
    found = {}
    for entry in entries:
        on_all, on_p = (np.array(entry["metrics"][f"mse_{x}"]["values"]) for x in ("all", "id"))
        each = on_all / on_p
        found[entry["row"]] = (each.mean(), each.std(ddof=1) if len(each) > 1 else 0.0)
    return found
