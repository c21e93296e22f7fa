"""Four tasks whose targets are made of parts: sums, bumps, sprites, and a modular teacher.

Inputs are tokens [T, d], one for each factor with its value as a one-hot code, so that nothing
relates two values but the combinations in which they occur. All numbers of values share one shape:
unused values and factors are zeros. A *case* is (number of values, number of factors).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.experiments.bumps.scenes import bump
from cgjax.experiments.coverage import graphs
from cgjax.experiments.sprites import scenes
from cgjax.experiments.sprites.compositions import COMPOSITIONS

SIGMA = 1.0  # of bumps, in steps of their position
SIDE = 12  # of images of sprites
OCCLUSION = "occlude_step"
INPUTS, HIDDEN, OUTPUTS = 6, 8, 4  # of the teacher


class Task(NamedTuple):
    """Arrays of one task, and a function of them that a compiled program calls."""

    data: dict
    # data, case, world, combinations [B], combinations with the target [B], key
    examples: Callable  # -> tokens [B, T, d], targets [B, D]
    token_shape: tuple  # (T, d)
    n_outputs: int  # D
    repeats: int  # examples of each combination in an evaluation


def members(name: str, case: tuple) -> np.ndarray:
    """Which values each combination has: bool [combinations, nodes]."""
    return graphs.subsets(case[0]) if name == "teacher" else graphs.table(*case)


def build(name: str, cases: list[tuple], worlds: list) -> Task:
    """A task for all cases; worlds: seeds of random parts, one for each world."""
    return _teacher(cases, worlds) if name == "teacher" else _table(name, cases, worlds)


# --- tables ---------------------------------------------------------------------------------------


def _table(name, cases, worlds) -> Task:
    tables = [graphs.table(*case) for case in cases]
    n, n_factors = np.max(cases, axis=0)
    tokens = np.zeros((len(cases), max(map(len, tables)), n_factors, n), np.float32)
    for i, ((n_values, k), table) in enumerate(zip(cases, tables)):
        tokens[i, : len(table), :k, :n_values] = table.reshape(-1, k, n_values)
    digits = tokens.argmax(axis=-1)  # [cases, combinations, factors]
    targets = np.stack([TARGETS[name](digits, cases, world) for world in worlds])

    def examples(data, case, world, combinations, truth, key):
        return data["tokens"][case, combinations], data["targets"][world, case, truth]

    data = {"tokens": tokens, "targets": targets}
    return Task(data, examples, tokens.shape[2:], targets.shape[-1], 1)


def sums(digits, cases, world) -> np.ndarray:
    """The sum of all digits, scaled to variance 1 over the table: [cases, combinations, 1]."""
    n, k = np.array(cases).T[:, :, None]
    centred = digits.sum(axis=-1) - k * (n - 1) / 2
    return (centred / np.sqrt(k * (n**2 - 1) / 12)).astype(np.float32)[..., None]


def bumps(digits, cases, world) -> np.ndarray:
    """Images of a bump whose column is the first digit and whose row is the second."""
    side = max(n for n, _ in cases)
    images = bump(digits[..., :2].reshape(-1, 2).astype(np.float32), side, SIGMA, inverted=False)
    return np.asarray(images).reshape(*digits.shape[:2], -1)


def sprites(digits, cases, world) -> np.ndarray:
    """Images of a front sprite, by the first digit, over a back sprite, by the second."""
    raw = np.random.default_rng(world).random((2, max(n for n, _ in cases), 5), np.float32)
    raw[..., 3] = 0.5 + raw[..., 3] / 2  # larger sprites: images are small
    drawn = scenes.render(scenes.scale_latents(raw).reshape(-1, 5), SIDE)
    drawn = drawn.reshape(2, -1, SIDE, SIDE, 3)
    slots = [drawn[k][digits[..., k].ravel()] for k in (0, 1)]
    return np.asarray(COMPOSITIONS[OCCLUSION](slots)).reshape(*digits.shape[:2], -1)


TARGETS = {"addition": sums, "bumps": bumps, "sprites": sprites}
TASKS = (*TARGETS, "teacher")


# --- the teacher ----------------------------------------------------------------------------------


def _teacher(cases, worlds) -> Task:
    """A hypernetwork as teacher (Schug et al. 2024): modules that are switched on add weights."""
    n = max(n for n, _ in cases)
    switches = np.zeros((len(cases), 2**n - 1, n), np.float32)
    for i, (n_modules, _) in enumerate(cases):
        switches[i, : 2**n_modules - 1, :n_modules] = graphs.subsets(n_modules)
    modules, readout = zip(*(weights(n, world) for world in worlds))

    def examples(data, case, world, combinations, truth, key):
        x = jax.random.normal(key, (len(combinations), INPUTS))
        on = data["switches"][case, combinations]
        tokens = jnp.zeros((len(x), n + 1, INPUTS)).at[:, :n, 0].set(on).at[:, n].set(x)
        with_target = data["switches"][case, truth]
        return tokens, teach(data["modules"][world], data["readout"][world], with_target, x)

    data = {"switches": switches, "modules": np.stack(modules), "readout": np.stack(readout)}
    return Task(data, examples, (n + 1, INPUTS), OUTPUTS, 16)


def weights(n: int, world) -> tuple[np.ndarray, np.ndarray]:
    """The first layer's weights of each module [n, HIDDEN, INPUTS], and the readout's."""
    rng = np.random.default_rng(world)
    modules = rng.standard_normal((n, HIDDEN, INPUTS), np.float32) / np.sqrt(INPUTS)
    readout = rng.standard_normal((OUTPUTS, HIDDEN), np.float32) / np.sqrt(HIDDEN)
    return modules.astype(np.float32), readout.astype(np.float32)


def teach(modules, readout, on, x):
    """Targets [B, OUTPUTS] for inputs x [B, INPUTS] and switches `on` [B, n].

    The first layer is the sum of the modules that are on, over the root of their number, which
    keeps the scale of targets. The hidden layer is a ReLU; the readout is the same for all.
    """
    share = on / jnp.sqrt(jnp.sum(on, axis=1, keepdims=True))
    hidden = jax.nn.relu(jnp.einsum("bm,mhi,bi->bh", share, modules, x))
    return hidden @ readout.T
