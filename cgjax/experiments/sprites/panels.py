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


def of_support(config, verdicts: dict) -> dict:
    """Target images, latents of the support, points of other supports with their verdicts.

    verdicts: {name: text}, of all `shown_supports`.
    """
    data = config.data
    key = rng.stream(jax.random.key(data.seed), "eval")
    arrays = {"support/latents": np.asarray(sets.sample(data, key, 500))}
    panels = _panels(config)
    for panel, images in _split(panels, _targets(data, _latents(panels))):
        arrays[panel.target] = images
    arrays["grid/latents"] = np.asarray(_grid(config))
    return arrays | _supports(config, verdicts)


def of_model(config, model, params, kind: str) -> dict:
    """The same panels as one model draws them, and its error on the grid of scenes."""
    arrays, panels, size = {}, _panels(config), config.data.image_size
    shown, grid = (scenes.describe(raw, size) for raw in (_latents(panels), _grid(config)))

    # One program for all: compiling it takes longer than running it. The parameters are an
    # argument, so that the next run finds the program in the cache.
    @jax.jit
    def draw(rows, params):
        z = rows["latents"]
        images, slots = model.predict(params, z), jnp.moveaxis(model.slots(params, z), 0, 1)
        difference = images - sets.images(rows, config.data.composition)
        return images, slots, jnp.mean(difference**2, axis=(1, 2, 3))

    n = max(len(rows["latents"]) for rows in (shown, grid))
    batch = math.ceil(n / math.ceil(n / config.eval.batch))
    images, slots = _map(lambda rows: draw(rows, params)[:2], shown, batch)
    for panel, image in _split(panels, images):
        # Enough for pictures; at full precision the many traversals make a file of 100 MB.
        stored = _u8(image) if panel.target.startswith("traversal") else image.astype(np.float16)
        arrays[panel.model.format(kind)] = stored
    for panel, slot in _split(panels, slots):
        if panel.target.startswith("reconstruction"):
            name = panel.model.format(kind).replace("composed", "slots")
            arrays[name] = np.moveaxis(slot, 1, 0).astype(np.float16)
    arrays[f"grid/{kind}/mse"] = _map(lambda rows: draw(rows, params)[2], grid, batch)
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
    n, draw = len(raw), jax.jit(sets.images, static_argnames="composition")
    batch = math.ceil(n / math.ceil(n / 500))
    return _u8(_map(lambda rows: draw(rows, data.composition), rows, batch))


def _u8(images) -> np.ndarray:
    return np.round(np.clip(np.nan_to_num(images), 0, 1) * 255).astype(np.uint8)


def _map(fn, rows, batch: int):
    """fn over chunks of `batch` rows, the last one padded; the results as numpy arrays."""
    rows = jax.tree.map(np.asarray, rows)  # slicing on the host compiles nothing
    n = len(jax.tree.leaves(rows)[0])
    parts = []
    for start in range(0, n, batch):
        index = np.minimum(np.arange(start, start + batch), n - 1)
        parts.append(fn(jax.tree.map(lambda x, i=index: x[i], rows)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:n], *parts)


def _grid(config):
    """Scenes whose latents take 17 values each."""
    key = jax.random.key(17)
    slots = (5,) * config.data.n_slots
    return supports.sample(key, config.eval.n_grid, "grid", slots=slots, g=17)


# --- the theory's verdict -------------------------------------------------------------------------


def shown_supports(config) -> dict:
    """{name: keys of a `config.data`} of the supports to show.

    With two slots: every named support, and that of the run if it has no name. The named planes are
    for two slots, so another number of slots shows only the support of the run.
    """
    if config.data.n_slots != 2:
        return {config.data.support: config.data}
    named = {name: audits.support_data(config, **keys) for name, keys in sets.SUPPORTS.items()}
    return named | ({} if own_support(config, named) else {"this_run": config.data})


def own_support(config, supports: dict) -> str:
    """The name of the run's own support among `supports`; "" if it is not there."""
    definition = sets.definition(config.data)
    names = (name for name, data in supports.items() if sets.definition(data) == definition)
    return next(names, "")


def _supports(config, verdicts: dict) -> dict:
    """Supports as points (x_0, x_1), with the share of sprites that each identifies."""
    arrays, shown = {}, shown_supports(config)
    for name, data in shown.items():
        raw = sets.sample(data, jax.random.key(3), 400)
        arrays[f"supports/{name}"] = np.asarray(raw[:, (0, 5)])
        # A single panel is narrow, so its verdict has one line per sprite.
        arrays[f"supports/{name}/verdict"] = np.array(
            verdicts[name] if len(shown) > 1 else verdicts[name].replace(", ", "\n")
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
