"""Scenes of two pictures, MNIST digits or CIFAR-10 cut-outs, and supports made of pairs of them.

A picture has an identity, one of ten: a category. Its place, size and hue are continuous, in
[0, 1]. The front picture hides the back one where it is opaque. A support says which pairs of
identities the training scenes show, and which places.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.data import sources
from cgjax.experiments.sprites.compositions import COMPOSITIONS
from cgjax.experiments.sprites.support import soft

IMAGES = ("mnist", "cifar10")
N_IDS = sources.N_CLASSES
N_LATENTS = 5  # of each picture: identity, x, y, size, hue
compose = COMPOSITIONS["alpha_noclamp"]  # hard occlusion, because opacities are 0 or 1
KINDS = ["categorical", "continuous", "continuous", "continuous", ("periodic", 1.0)]
SIDE = 12  # pixels along each side of a cut-out
MARGIN = 4  # empty pixels around an MNIST digit
INK = 0.35  # of an MNIST digit's opaque pixels
DARKEST = 0.3  # opaque pixels differ from the black background
N_MADE_UP = 20  # images of `sources.synthetic`, in place of the data set


# --- cut-outs and scenes --------------------------------------------------------------------------


def cut_outs(images: str, is_made_up: bool = False) -> np.ndarray:
    """The first image of each class with its opacity: float32 [10, SIDE, SIDE, 4] in [0, 1].

    A digit is opaque where it has ink. CIFAR-10 has no outlines, so a cut-out is a disc.
    """
    loaded = sources.synthetic(images, N_MADE_UP) if is_made_up else sources.load(images, "train")
    first = [int(np.argmax(loaded["label"] == label)) for label in range(N_IDS)]
    shown = loaded["image"][first].astype(np.float32) / 255
    shape = (N_IDS, SIDE, SIDE, shown.shape[-1])
    if images == "mnist":
        shown = jax.image.resize(shown[:, MARGIN:-MARGIN, MARGIN:-MARGIN], shape, "linear")
        opacity = shown > INK
        shown = jnp.repeat(DARKEST + (1 - DARKEST) * shown, 3, axis=-1)
    else:
        shown = DARKEST + (1 - DARKEST) * jax.image.resize(shown, shape, "linear")
        across = (2 * np.arange(SIDE) + 1) / SIDE - 1
        opacity = np.broadcast_to(np.hypot(*np.meshgrid(across, across)) <= 1, shape[:3])[..., None]
    return np.asarray(jnp.concatenate([shown * opacity, opacity], axis=-1), np.float32)


def placed(cut_out: jax.Array, centre: jax.Array, side: jax.Array, size: int) -> jax.Array:
    """A cut-out [a, a, c] on an empty canvas [size, size, c], by bilinear interpolation.

    centre [2] (x, y) and side: in widths of the canvas.
    """
    pixels, n = (jnp.arange(size) + 0.5) / size, cut_out.shape[0]

    def weights(middle):
        source = ((pixels - middle) / side + 0.5) * n - 0.5
        return jax.nn.relu(1 - jnp.abs(source[:, None] - jnp.arange(n)[None, :]))

    along = weights(centre[1]), weights(centre[0])
    return jnp.einsum("ya,xb,abc->yxc", *along, cut_out, precision="highest")


def geometry(latents: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Centre [2] and side of a picture with latents [5]."""
    return 0.25 + 0.5 * latents[1:3], 0.45 + 0.2 * latents[3]


def tint(hue: jax.Array) -> jax.Array:
    """Colour [3] by which a picture is multiplied."""
    return 0.3 + 0.7 * soft.colour(hue[None])[0]


def draw_picture(cut_out: jax.Array, latents: jax.Array, size: int) -> jax.Array:
    """A cut-out [a, a, 4] at latents [5]: RGBA [size, size, 4] with opacity 0 or 1."""
    canvas = placed(cut_out, *geometry(latents), size)
    opacity = canvas[..., 3:]
    is_opaque = (opacity > 0.5).astype(canvas.dtype)
    colours = canvas[..., :3] / jnp.maximum(opacity, 0.5) * tint(latents[4])[None, None]
    return jnp.concatenate([colours * is_opaque, is_opaque], axis=-1)


def pictures(cut_outs: jax.Array, latents: jax.Array, size: int) -> jax.Array:
    """[n, size, size, 4] of latents [n, 5]."""
    ids = latents[:, 0].astype(jnp.int32)
    return jax.vmap(lambda cut_out, z: draw_picture(cut_out, z, size))(
        jnp.asarray(cut_outs)[ids], latents
    )


def scenes(cut_outs: jax.Array, latents: jax.Array, size: int) -> jax.Array:
    """RGB scenes [n, size, size, 3] of latents [n, 10], front picture first."""
    return compose([pictures(cut_outs, z, size) for z in jnp.split(latents, 2, axis=1)])


# --- supports -------------------------------------------------------------------------------------

PAIRS = np.stack(np.meshgrid(*[np.arange(N_IDS)] * 2, indexing="ij"), -1).reshape(-1, 2)
_APART = (PAIRS[:, 1] - PAIRS[:, 0]) % N_IDS
_MOST = ~np.isin(_APART, (3, 5, 7))  # every pair but thirty; each identity has seven partners
_FIXED = np.array([0, 1.0, 1.0, 0.0, 0.5])  # the picture that a plane holds still
_CORNER, _MIDDLE = (np.array([0, *place, 0.5, 0.0]) for place in ((0.0, 0.0), (0.5, 0.5)))
NEAR = 0.08  # half width of a diagonal of places
ABSENT, HIDDEN, HALVED = (3, 8), (2, 5, 9), (1, 4, 6)  # identities that a support treats apart


def _free(rng, n, allowed=_MOST):
    """Pairs uniform among the allowed ones, everything else uniform: [n, 10]."""
    latents = rng.uniform(size=(n, 2 * N_LATENTS))
    latents[:, [0, N_LATENTS]] = PAIRS[rng.choice(np.flatnonzero(allowed), n)]
    return latents


def _behind(rng, latents):
    """The same with the back picture at the front one's place, but for NEAR."""
    moved = latents.copy()
    shift = rng.uniform(-NEAR, NEAR, (len(latents), 2))
    moved[:, 6:8] = np.clip(latents[:, 1:3] + shift, 0, 1)
    return moved


def _hidden(rng, n):
    latents = _free(rng, n)
    is_hidden = np.isin(latents[:, N_LATENTS], HIDDEN)
    return np.where(is_hidden[:, None], _behind(rng, latents), latents)


def _halved(rng, n):
    latents = _free(rng, n)
    latents[:, 1] *= np.where(np.isin(latents[:, 0], HALVED), 0.4, 1.0)
    return latents


def _planes(rng, n, fronts):
    """One picture varies: the front one alone, or the back one behind one of the fixed fronts."""
    latents, which = _free(rng, n, _APART >= 0), rng.integers(1 + len(fronts), size=n)
    latents[which == 0, N_LATENTS:] = _FIXED
    for i, front in enumerate(fronts):
        latents[which == i + 1, :N_LATENTS] = front
    return latents


# name: (rng, n) -> raw latents [n, 10]
SUPPORTS = {
    "all": lambda rng, n: _free(rng, n, _APART >= 0),
    "all but some": _free,
    "half of the pairs": lambda rng, n: _free(rng, n, PAIRS.sum(1) % 2 == 0),
    "two partners": lambda rng, n: _free(rng, n, _APART < 2),
    "absent in front": lambda rng, n: _free(rng, n, _MOST & ~np.isin(PAIRS[:, 0], ABSENT)),
    "hidden behind": _hidden,
    "front on the left": _halved,
    "planes": lambda rng, n: _planes(rng, n, (_CORNER, _MIDDLE)),
    "one front": lambda rng, n: _planes(rng, n, (_MIDDLE,)),
    "diagonal": lambda rng, n: _behind(rng, _free(rng, n)),
}  # fmt: skip
EVERYTHING = "all"


def sample(support: str, n: int, seed: int) -> np.ndarray:
    """Latents [n, 10] of a support."""
    rng = np.random.default_rng([seed, list(SUPPORTS).index(support)])
    return SUPPORTS[support](rng, n).astype(np.float32)


def unseen(support: str) -> np.ndarray:
    """Which of PAIRS a support never shows, bool [100]."""
    drawn = sample(support, 20_000, 0)
    at = drawn[:, 0].astype(int) * N_IDS + drawn[:, N_LATENTS].astype(int)
    return np.bincount(at, minlength=len(PAIRS)) == 0


def of_each_pair(n: int, seed: int) -> np.ndarray:
    """n scenes of each of PAIRS with everything else uniform, [100 n, 10], pair by pair."""
    latents = _free(np.random.default_rng([seed, len(SUPPORTS)]), n * len(PAIRS))
    latents[:, [0, N_LATENTS]] = np.repeat(PAIRS, n, axis=0)
    return latents.astype(np.float32)
