"""Composition functions C of Wiedemer et al. 2023: slots in, one image out.

Every composition takes a sequence of slots [..., C], front first, all of one shape, and returns
[..., 3]. All act pixel by pixel, so a single pixel [C] per slot is a valid input too.
"""

import difflib
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

Slots = Sequence[jax.Array]

# --- add ------------------------------------------------------------------------------------------


def add(slots: Slots) -> jax.Array:
    """Sum over slots."""
    _check(slots, "add")
    return functools.reduce(jnp.add, slots)


# --- occlude --------------------------------------------------------------------------------------


def _step(front, back, mask, sharpness):
    return jnp.where(mask <= 0, back, front)


def _sigmoid(front, back, mask, sharpness):
    u = sharpness * mask
    return front * jax.nn.sigmoid(u) + back * jax.nn.sigmoid(-u)


def _hardsigmoid(front, back, mask, sharpness):
    u = sharpness * mask
    return front * jax.nn.hard_sigmoid(u) + back * jax.nn.hard_sigmoid(-u)


def _sum(front, back, mask, sharpness):
    return front + back


KINDS = {"step": _step, "sigmoid": _sigmoid, "hardsigmoid": _hardsigmoid, "add": _sum}

CLAMPS = {
    "none": lambda image: image,
    # clamp and relu are equal in value; at exactly 0 the clamp passes the gradient, relu stops it.
    "clamp": lambda image: jnp.where(image < 0, 0.0, image),
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
    "sigmoid": jax.nn.sigmoid,
}


def occlude(
    kind: str = "step",
    sharpness: float = 1.0,
    per_channel: bool = False,
    clamp: str = "none",
    ste: bool = False,
) -> Callable[[Slots], jax.Array]:
    """Slots stacked front to back: a slot shows where all slots in front of it are dark.

    The mask is the channel sum of the slots in front, or each channel itself (`per_channel`).
    `ste`: value of the step, gradient of `kind`. `clamp` is applied to the composed image.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown occlusion '{kind}': kinds are {', '.join(KINDS)}")
    if clamp not in CLAMPS:
        raise ValueError(f"unknown clamp '{clamp}': clamps are {', '.join(CLAMPS)}")

    def combine(front, back):
        mask = front if per_channel else jnp.sum(front, axis=-1, keepdims=True)
        out = KINDS[kind](front, back, mask, sharpness)
        if ste:
            # Adding an exact zero keeps the step's value to the last bit.
            out = jax.lax.stop_gradient(_step(front, back, mask, sharpness)) + (
                out - jax.lax.stop_gradient(out)
            )
        return out

    def composition(slots):
        _check(slots, "occlude")
        return CLAMPS[clamp](functools.reduce(combine, slots))

    return composition


# --- alpha ----------------------------------------------------------------------------------------


def _clip(alpha):
    # jnp.clip halves the gradient at exactly 0 and 1, the only alphas of a true sprite.
    return jnp.where(alpha < 0, 0.0, jnp.where(alpha > 1, 1.0, alpha))


SQUASHES = {"clip": _clip, "none": lambda alpha: alpha, "sigmoid": jax.nn.sigmoid}


def alpha(squash: str = "clip") -> Callable[[Slots], jax.Array]:
    """RGBA slots pasted, last to first, on an opaque black canvas, whose alpha stays 1.

    `squash`: "clip" clips alphas to [0, 1] (the paper), "none" leaves them, "sigmoid" always has a
    gradient. A clip whose alphas all start below 0 has zero value and zero gradient.
    """
    if squash not in SQUASHES:
        raise ValueError(f"unknown squash '{squash}': squashes are {', '.join(SQUASHES)}")

    def paste(canvas, slot):
        opacity = SQUASHES[squash](slot[..., 3:])
        return opacity * slot[..., :3] + (1 - opacity) * canvas

    def composition(slots):
        _check(slots, "alpha")
        canvas = jnp.zeros_like(slots[0][..., :3])
        return functools.reduce(paste, reversed(list(slots)), canvas)

    return composition


# --- the table ------------------------------------------------------------------------------------

COMPOSITIONS = {
    "add": add,
    "occlude_step": occlude("step"),
    "occlude_sigmoid": occlude("sigmoid"),
    "occlude_sigmoid_a10": occlude("sigmoid", sharpness=10.0),
    "occlude_hardsigmoid": occlude("hardsigmoid"),
    "occlude_add": occlude("add"),
    "occlude_sigmoid_perchannel": occlude("sigmoid", per_channel=True),
    "occlude_step_perchannel": occlude("step", per_channel=True),
    "occlude_sigmoid_ste": occlude("sigmoid", ste=True),
    "occlude_sigmoid_clampclamp": occlude("sigmoid", clamp="clamp"),
    "occlude_sigmoid_clamprelu": occlude("sigmoid", clamp="relu"),
    "occlude_sigmoid_clampsoftplus": occlude("sigmoid", clamp="softplus"),
    "occlude_sigmoid_clampsigmoid": occlude("sigmoid", clamp="sigmoid"),
    "alpha": alpha("clip"),
    "alpha_noclamp": alpha("none"),
    "alpha_sigmoid": alpha("sigmoid"),
}

CHANNELS = {name: 4 if name.startswith("alpha") else 3 for name in COMPOSITIONS}


def channels(composition: str | Callable) -> int:
    """Channels of a composition's slots, 3 or 4; composition: a name or function of the table."""
    if callable(composition):
        names = [name for name, fn in COMPOSITIONS.items() if fn is composition]
        return CHANNELS[names[0]] if names else 3
    if composition not in COMPOSITIONS:
        near = difflib.get_close_matches(composition, COMPOSITIONS, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown composition '{composition}': did you mean '{near}'?")
    return CHANNELS[composition]


def _check(slots, name):
    if len(slots) < 2:
        raise ValueError(f"{name} composes two or more slots, got {len(slots)}")
    shapes = {slot.shape for slot in slots}
    if len(shapes) > 1:
        raise ValueError(f"{name} composes slots of one shape, got {sorted(shapes)}")
    if name == "alpha" and slots[0].shape[-1] != 4:
        raise ValueError(f"alpha composes RGBA slots [..., 4], got {slots[0].shape}")
