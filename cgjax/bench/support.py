"""Speed of the support audit: at full size, and blocks per pixel against the dense Jacobian."""

import time

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from cgjax.analysis import support as theory
from cgjax.bench.harness import fastest, ratios
from cgjax.core import parallel
from cgjax.core.logging import say
from cgjax.experiments.sprites import audits, sets
from cgjax.experiments.sprites.compositions import COMPOSITIONS

N_VALUES = 256
N_VALUES_DENSE = 4  # two partners each: eight points
SIZES = (64, 16)  # pixels: of the full-size audit, of the one against dense Jacobians


def run(batch: int = 0, steps: int = 0) -> None:
    """Prints the times and a table; batch and steps are not used."""
    say(f"jax {jax.__version__} · {parallel.describe_devices()}")
    for composition in ("occlude_step", "occlude_sigmoid"):
        seconds = full_size(composition)
        say(f"64 x 64, {N_VALUES} values of each slot, {composition}: {seconds:.1f} s")
    ratios("8 points at 16 x 16, sigmoid occlusion", "ms", against_dense())


def full_size(composition: str) -> float:
    """Seconds of one whole audit, compilation and rendering included."""
    started = time.perf_counter()
    for component in (0, 1):
        audits.audit(
            _data(SIZES[0]),
            composition,
            component,
            jax.random.key(component),
            n_values=N_VALUES,
            n_partners=1,
        )
    return time.perf_counter() - started


def against_dense() -> dict:
    """ms for the ranks of the back slot at the same points, by three methods."""
    points = audits.points(_data(SIZES[1]), 1, jax.random.key(0), N_VALUES_DENSE, 1)
    composition = COMPOSITIONS["occlude_sigmoid"]

    def audit(pixelwise):
        return lambda: theory.audit(
            composition, points.images, 1, points.partners, pixelwise=pixelwise
        )

    def whole(front, back):
        return composition([front[None], back[None]]).ravel()

    # Jacobian of every output by both slots, as plain use of automatic differentiation gives it.
    jacobian = jax.jit(jax.jacrev(whole, argnums=(0, 1)))

    def autograd():
        for i in range(N_VALUES_DENSE):
            scenes = [jnp.asarray(slot) for slot in points.partners(i)]
            jacobians = [jacobian(*point)[1] for point in zip(*scenes)]
            total = np.sum([np.asarray(j).reshape(len(j), -1) for j in jacobians], axis=0)
            np.linalg.svd(total, compute_uv=False)

    return {
        "ours, a block per pixel": 1e3 * fastest(audit(True)),
        "ours, dense": 1e3 * fastest(audit(False)),
        "dense reverse mode and numpy's SVD": 1e3 * fastest(autograd),
    }


def _data(size: int) -> ml_collections.ConfigDict:
    config = ml_collections.ConfigDict({"data": {"image_size": size}})
    return audits.support_data(config, **sets.SUPPORTS["orthogonal"])
