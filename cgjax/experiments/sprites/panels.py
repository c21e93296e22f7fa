"""The arrays behind the figures: what each panel shows, computed once, stored in arrays.npz."""

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import rng
from cgjax.data import supports
from cgjax.experiments.sprites import audits, scenes, sets

N_VALUES = 24  # values of z_k* behind each verdict in the figure of supports
N_PARTNERS = 48


class Panel(NamedTuple):
    """Scenes to show: keys of their target images and of a model's images ({} is its kind)."""

    target: str
    model: str
    raw: jax.Array  # [n, 5 K] raw latents
    shape: tuple  # leading axes of the stored images


def of_support(config) -> dict:
    """Target images, latents of the support, the theory's verdict on every support."""
    data = config.data
    key = rng.stream(jax.random.key(data.seed), "eval")
    arrays = {"support/latents": np.asarray(sets.sample(data, key, 500))}
    panels = _panels(config)
    for panel, images in _split(panels, _targets(data, _latents(panels))):
        arrays[panel.target] = images
    arrays["grid/latents"] = np.asarray(_grid(config))
    return arrays | _supports(config)


def of_model(config, model, params, kind: str) -> dict:
    """The same panels as one model draws them, and its error on the grid of scenes."""
    arrays = {}
    panels = _panels(config)

    def predict(z):
        return model.predict(params, z)

    images = _map(predict, scenes.scale_latents(_latents(panels)), config.eval.batch)
    for panel, image in _split(panels, images):
        # Enough for pictures; at full precision the many traversals make a file of 100 MB.
        stored = _u8(image) if panel.target.startswith("traversal") else image.astype(np.float16)
        arrays[panel.model.format(kind)] = stored
    for where in ("random", "support"):
        (raw,) = (p.raw for p in panels if p.target == f"reconstruction/{where}/target")
        slots = jax.jit(model.slots)(params, scenes.scale_latents(raw))
        arrays[f"reconstruction/{where}/{kind}/slots"] = np.asarray(slots, np.float16)
    arrays[f"grid/{kind}/mse"] = _grid_error(config, predict)
    return arrays


def of_history(history: dict, kind: str) -> dict:
    """Learning curves."""
    arrays = {f"history/{kind}/step": history["step"], f"history/{kind}/loss": history["loss"]}
    for name, values in history["eval"].items():
        arrays[f"history/{kind}/{'eval_step' if name == 'step' else name}"] = values
    return arrays


# --- what the panels show -------------------------------------------------------------------------


def _panels(config) -> list[Panel]:
    data, g = config.data, config.eval.n_traversal
    panels = _motivation(config) if data.n_slots == 2 else []
    for where, draw in (("random", sets.sample_everywhere), ("support", sets.sample)):
        name = f"reconstruction/{where}"
        raw = draw(data, jax.random.key(5), 5)
        panels.append(Panel(f"{name}/target", name + "/{}/composed", raw, (5,)))
    # Pairs of two sprites' latents are enough; five sprites have 300 pairs.
    for a, b in itertools.combinations(range(10), 2):
        face = supports.face_grid(g, (a, b), 5 * data.n_slots)  # a varies fastest
        panels.append(Panel(f"traversal/{a}_{b}/target", f"traversal/{a}_{b}/{{}}", face, (g, g)))
    return panels


def _motivation(config) -> list[Panel]:
    """New combinations, and the two orthogonal-support scenes that share a sprite with each."""
    n = config.eval.n_columns
    raw = sets.sample_everywhere(config.data, jax.random.key(15), n)
    panels = [Panel("motivation/target", "motivation/{}/target", raw, (n,))]
    for slot, coords in ((0, scenes.PLANES["O"]), (1, scenes.PLANES["A"])):
        # The scene of the orthogonal support in which the other sprite stays the same.
        seen = raw.at[:, 5 * slot : 5 * slot + 5].set(jnp.array(coords, raw.dtype))
        name = f"support_{slot}"
        panels.append(Panel(f"motivation/{name}", "motivation/{}/" + name, seen, (n,)))
    return panels


def _latents(panels):
    return jnp.concatenate([panel.raw for panel in panels])


def _split(panels, images):
    """(panel, its images) with the panel's leading axes."""
    ends = np.cumsum([len(panel.raw) for panel in panels])[:-1]
    for panel, part in zip(panels, np.split(images, ends)):
        yield panel, part.reshape(*panel.shape, *part.shape[1:])


def _targets(data, raw) -> np.ndarray:
    rows = scenes.describe(raw, data.image_size)
    images = _map(lambda r: sets.images(r, data.composition), rows, 500)
    return _u8(images)


def _u8(images) -> np.ndarray:
    return np.round(np.clip(np.nan_to_num(images), 0, 1) * 255).astype(np.uint8)


def _map(fn, rows, batch: int) -> np.ndarray:
    """fn over chunks of at most `batch` rows; the result is a numpy array.

    All chunks have the same size, so that one program serves them; the last one is padded. Chunks
    are as few as possible.
    """
    rows = jax.tree.map(np.asarray, rows)  # slicing on the host compiles nothing
    n = len(jax.tree.leaves(rows)[0])
    batch = math.ceil(n / math.ceil(n / batch))
    fn = jax.jit(fn)
    parts = []
    for start in range(0, n, batch):
        index = np.minimum(np.arange(start, start + batch), n - 1)
        parts.append(np.asarray(fn(jax.tree.map(lambda x, i=index: x[i], rows))))
    return np.concatenate(parts)[:n]


def _grid(config):
    """Scenes whose latents take 17 values each."""
    key = jax.random.key(17)
    slots = (5,) * config.data.n_slots
    return supports.sample(key, config.eval.n_grid, "grid", slots=slots, g=17)


def _grid_error(config, predict) -> np.ndarray:
    rows = scenes.describe(_grid(config), config.data.image_size)

    def error(rows):
        difference = predict(rows["latents"]) - sets.images(rows, config.data.composition)
        return jnp.mean(difference**2, axis=(1, 2, 3))

    return _map(error, rows, config.eval.batch)


# --- the theory's verdict -------------------------------------------------------------------------


def _supports(config) -> dict:
    """Supports as points (x_0, x_1), with the share of sprites that each identifies.

    With two slots: every named support, and that of the run if it has no name. The named planes are
    for two slots, so another number of slots shows only the support of the run.
    """
    if config.data.n_slots == 2:
        named = {name: audits.support_data(config, **keys) for name, keys in sets.SUPPORTS.items()}
        if sets.definition(config.data) not in map(sets.definition, named.values()):
            named["this_run"] = config.data
    else:
        named = {config.data.support: config.data}
    arrays = {}
    for name, data in named.items():
        raw = sets.sample(data, jax.random.key(3), 400)
        arrays[f"supports/{name}"] = np.asarray(raw[:, (0, 5)])
        text = verdict(data)
        # A single panel is narrow, so its verdict has one line per sprite.
        arrays[f"supports/{name}/verdict"] = np.array(
            text if len(named) > 1 else text.replace(", ", "\n")
        )
    return arrays


def verdict(data) -> str:
    """Share of each sprite's values that the support identifies under hard occlusion.

    Hard occlusion is the deciding case. The back sprite must be visible at every pixel; for the
    others only the pixels that they cover count, because the composition ignores the rest.
    """
    names = ["front", *(f"sprite {k + 1}" for k in range(1, data.n_slots - 1)), "back"]
    shares = []
    for component in range(data.n_slots - 1, -1, -1):
        result, _ = audits.audit(
            data,
            "occlude_step",
            component,
            jax.random.fold_in(jax.random.key(11), component),
            only_covered=component < data.n_slots - 1,
            n_values=N_VALUES,
            n_partners=N_PARTNERS,
        )
        shares.append(f"{names[component]} {result.share:.0%}")
    return ", ".join(shares) + " identified"
