"""The arrays behind the figures: what each panel shows, computed once, stored in arrays.npz."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import parallel, program, rng, tree
from cgjax.data import supports
from cgjax.experiments.sprites import audits, models, scenes, sets

N_VALUES = 24  # values of z_k* behind each verdict in the figure of supports
N_PARTNERS = 48
# Walks along two latents, within a sprite and across sprites. All other latents are 0, so that one
# sprite is on top of the other: a walk that moves neither shows only the front one.
WALKS = ("0_1", "2_4", "3_4", "5_6", "0_5", "1_6", "0_9", "5_8")


class Panel(NamedTuple):
    """Scenes to show: keys of their target images and of a model's images ({} is its kind)."""

    target: str
    model: str
    raw: jax.Array  # [n, 5 K] raw latents
    shape: tuple  # leading axes of the stored images


def of_support(config, verdicts: dict) -> dict:
    """Latents of the support and of the grid, points of supports with their verdicts.

    verdicts: {name: text}, of all `shown_supports`.
    """
    key = rng.stream(jax.random.key(config.data.seed), "eval")
    arrays = {"support/latents": np.asarray(sets.sample(config.data, key, 500))}
    arrays["grid/latents"] = np.asarray(_grid(config))
    return arrays | _supports(config, verdicts)


class Painter:
    """What a model draws of scenes, beside their images: one program for a batch of scenes.

    Compiling it takes longer than running it. The parameters are an argument, so that all seeds and
    the next run use the same program. They are NumPy arrays: arrays on a mesh need another program.
    """

    def __init__(self, config, model):
        def paint(rows, params):
            z = rows["latents"]
            images, slots = model.predict(params, z), jnp.moveaxis(model.slots(params, z), 0, 1)
            targets = sets.images(rows, config.data.composition)
            return images, slots, targets, jnp.mean((images - targets) ** 2, axis=(1, 2, 3))

        self.config, self.batch = config, models.scenes_at_once(500)
        self.paint = program.jitted(paint, config)
        self.shapes = jax.eval_shape(model.init, jax.random.key(0))
        self.scheduled = parallel.fetch(model.scheduled(0))

    def compile(self) -> None:
        """Compiles the programs of `of_model`, before there are trained parameters."""
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self.shapes)
        _, rows = shown_scenes(self.config)
        self(tree.take(rows, slice(0, self.batch)), models.join(zeros, self.scheduled))

    def __call__(self, rows: dict, params, n_images: int | None = None) -> tuple:
        """Images [m, H, W, 3], slots [m, K, H, W, C], targets, mean squared errors [n]: numpy.

        m: n_images, by default n. Those of other scenes stay on the device.
        """
        rows = {name: np.asarray(rows[name]) for name in ("latents", "spans", "colours")}
        n = len(rows["latents"])
        m, images, errors = n if n_images is None else n_images, [], []
        for start in range(0, n, self.batch):  # the last chunk is padded
            index = np.minimum(np.arange(start, start + self.batch), n - 1)
            *drawn, error = self.paint({name: rows[name][index] for name in rows}, params)
            errors.append(error)
            if start < m:
                images.append(drawn)
        return (
            *(np.concatenate(leaves)[:m] for leaves in zip(*images)),
            np.concatenate(errors)[:n],
        )


def of_model(config, painter: Painter, params, kind: str) -> dict:
    """The panels as one model draws them, their target images, the error on the grid of scenes."""
    arrays, (panels, rows) = {}, shown_scenes(config)
    ends = np.cumsum([len(panel.raw) for panel in panels])
    images, slots, targets, errors = painter(rows, params, n_images=ends[-1])
    arrays[f"grid/{kind}/mse"] = errors[ends[-1] :]
    for panel, start, end in zip(panels, [0, *ends], ends):
        image, target = (
            x[start:end].reshape(*panel.shape, *x.shape[1:]) for x in (images, targets)
        )
        # Enough for pictures; at full precision the traversals make a large file.
        stored = _u8(image) if panel.target.startswith("traversal") else image.astype(np.float16)
        arrays[panel.model.format(kind)], arrays[panel.target] = stored, _u8(target)
        if panel.target.startswith("reconstruction"):
            name = panel.model.format(kind).replace("composed", "slots")
            arrays[name] = np.moveaxis(slots[start:end], 1, 0).astype(np.float16)
    return arrays


def shown_scenes(config) -> tuple[list[Panel], dict]:
    """The panels, and the described scenes of all of them, followed by those of the grid."""
    panels = _panels(config)
    raw = jnp.concatenate([*(panel.raw for panel in panels), _grid(config)])
    return panels, parallel.fetch(scenes.describe(raw, config.data.image_size))


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
    every_pair = itertools.combinations(range(10), 2)
    walks = every_pair if config.size == "paper" else (map(int, walk.split("_")) for walk in WALKS)
    for a, b in walks:
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


def _u8(images) -> np.ndarray:
    return np.round(np.clip(np.nan_to_num(images), 0, 1) * 255).astype(np.uint8)


def _grid(config):
    """Scenes whose latents take 17 values each."""
    key = jax.random.key(17)
    slots = (5,) * config.data.n_slots
    return supports.sample(key, config.eval.n_grid, "grid", slots=slots, g=17)


# --- the theory's verdict -------------------------------------------------------------------------


def shown_supports(config) -> dict:
    """{name: keys of a `config.data`} of the supports to show: that of the run.

    At size `paper`, with two slots: every named support, and that of the run if it has no name.
    """
    if config.size != "paper" or config.data.n_slots != 2:
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
