"""Supports: regions of a latent cube from which training points are drawn.

Raw latents lie in [0, 1]^D, D = sum(slots); slot k has `slots[k]` consecutive coordinates. Samples
outside a support are rejected and redrawn, never clipped.
"""

import difflib
import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import rng

# Smallest number of candidates per round; rounds after which sampling fails if few were accepted.
_MIN_ROUND = 1024
_TRIAL_ROUNDS = 20


def sample(
    key: jax.Array, n: int, name: str, slots: Sequence[int] = (5, 5), **parameters
) -> jax.Array:
    """n raw latents from the support `name`: float32 [n, sum(slots)], a function of the arguments.

    random; random_gap(gaps); orthogonal(planes, distribution, mean, std);
    orthogonal_gap(planes, gaps, distribution, mean, std); diagonal(delta); grid(g).
    A gap is (dim, start, stop); a plane is (slot, coords): that slot varies, the others are fixed.

    >>> sample(jax.random.key(0), 100, "diagonal", slots=(5, 5), delta=0.1).shape
    (100, 10)
    """
    if n < 1:
        raise ValueError(f"n must be at least one sample, got {n}")
    slots = tuple(int(size) for size in slots)
    if not slots or min(slots) < 1:
        raise ValueError(f"slots are the positive sizes of each slot's latents, got {slots}")
    parameters = _checked(name, slots, parameters)
    points, order = _accepted(key, n, name, slots, parameters)
    return jnp.asarray(points[np.argsort(order, kind="stable")[:n]])


def contains(points, name: str, slots: Sequence[int] = (5, 5), **parameters) -> np.ndarray:
    """Which raw latents [n, sum(slots)] lie in the support `name`: boolean [n].

    Checks the cube and the gaps as `sample` does, and the shape of the support (a plane's fixed
    coordinates, the diagonal's width, a grid's values) up to float32 rounding.
    """
    slots = tuple(int(size) for size in slots)
    parameters = _checked(name, slots, parameters)
    points = np.asarray(points, np.float32)
    inside = _is_accepted(points, parameters.pop("gaps", ()))
    return inside & _SHAPES[name](points, slots, **parameters)


def _is_accepted(points, gaps):
    """Which candidates are accepted: those inside the cube and outside every gap."""
    inside = np.all((points >= 0) & (points <= 1), axis=1)
    for dim, start, stop in gaps:
        inside &= (points[:, dim] < np.float32(start)) | (points[:, dim] > np.float32(stop))
    return inside


def _accepted(key, n, name, slots, parameters):
    """n or more points of the support, and a random number for each, the key of a shuffle."""
    rounds, n_accepted = [], 0
    for i in itertools.count(1):
        round_key = jax.random.fold_in(key, i)
        drawn = _round(round_key, max(n, _MIN_ROUND), name, slots, **parameters)
        points, inside, order = drawn
        rounds.append((points[inside], order[inside]))
        n_accepted += np.count_nonzero(inside)
        if n_accepted >= n:
            return tuple(np.concatenate(parts) for parts in zip(*rounds))
        if i == _TRIAL_ROUNDS and n_accepted * 500 < n:
            raise ValueError(
                f"support '{name}' accepts {n_accepted} of {i * len(inside):,} candidates: its "
                "parameters leave nearly nothing of the cube, narrow its gaps"
            )


def _round(key, m, name, slots, gaps=(), **parameters):
    """Candidates [m or more, D], whether each is in the support, a random number for each.

    Only the draws are compiled, and all supports share them; numpy does the rest.
    """
    draw_key, order_key = jax.random.split(key)
    points = np.asarray(SUPPORTS[name](draw_key, m, slots, **parameters))
    return (
        points,
        _is_accepted(points, gaps),
        np.asarray(rng.drawn(jax.random.bits, order_key, (len(points),), jnp.uint32)),
    )


# --- candidates: key, m, slots, parameters -> [m or more, D], before rejection --------------------


def _random(key, m, slots):
    """Uniform on the cube."""
    return rng.drawn(jax.random.uniform, key, (m, sum(slots)))


def _orthogonal(key, m, slots, planes, distribution="uniform", mean=0.5, std=1.0):
    """One slot varies, the others are fixed; m candidates per plane give planes equal weight."""
    blocks = []
    for plane_key, (slot, coords) in zip(jax.random.split(key, len(planes)), planes):
        shape = (m, slots[slot])
        if distribution == "uniform":
            varying = np.asarray(rng.drawn(jax.random.uniform, plane_key, shape))
        else:
            # Rejecting vectors of independent normals outside a cube gives independent truncated
            # normals. With std 1, rejection would accept one vector of five latents in a hundred.
            low, high = (-mean / std, (1 - mean) / std)
            normal = jax.random.truncated_normal(plane_key, low, high, shape, jnp.float32)
            varying = np.float32(mean) + np.float32(std) * np.asarray(normal)
        start = sum(slots[:slot])
        fixed = np.broadcast_to(np.array([coords], np.float32), (m, len(coords)))
        blocks.append(np.concatenate([fixed[:, :start], varying, fixed[:, start:]], axis=1))
    return np.concatenate(blocks)


def _diagonal(key, m, slots, delta):
    """A band around the diagonal z_1 = ... = z_K, independently for each latent coordinate.

    A point is a centre on the diagonal plus delta U^(1/(K-1)) times a uniform direction orthogonal
    to the diagonal.
    """
    shape = (m, 1, slots[0])
    centre_key, direction_key, radius_key = jax.random.split(key, 3)
    centre = jax.random.uniform(centre_key, shape, jnp.float32)
    direction = jax.random.normal(direction_key, (m, len(slots), slots[0]), jnp.float32)
    direction -= jnp.mean(direction, axis=1, keepdims=True)
    direction /= jnp.linalg.norm(direction, axis=1, keepdims=True)
    radius = jax.random.uniform(radius_key, shape, jnp.float32) ** (1 / (len(slots) - 1))
    return (centre + delta * radius * direction).reshape(m, -1)


def _grid(key, m, slots, g=10):
    """Each latent uniform over g values from 0 to 1."""
    index = jnp.round(_random(key, m, slots) * g - 0.5)
    return jnp.clip(index, 0, g - 1) / (g - 1)


SUPPORTS = {
    "random": _random,
    "random_gap": _random,
    "orthogonal": _orthogonal,
    "orthogonal_gap": _orthogonal,
    "diagonal": _diagonal,
    "grid": _grid,
}

# --- membership: points, slots, parameters -> [n], before gaps and the cube's borders -------------

_ROUNDING = 1e-6


def _anywhere(points, slots):
    return np.ones(len(points), bool)


def _on_planes(points, slots, planes, **_):
    """On at least one plane: all slots but one have its coordinates."""
    is_on_plane = np.zeros(len(points), bool)
    for slot, coords in planes:
        start = sum(slots[:slot])
        fixed = np.delete(points, np.s_[start : start + slots[slot]], axis=1)
        is_on_plane |= np.all(np.abs(fixed - np.array([coords], np.float32)) <= _ROUNDING, axis=1)
    return is_on_plane


def _near_diagonal(points, slots, delta):
    """In each latent, the slots' distance from their mean is delta or less."""
    by_slot = points.reshape(len(points), len(slots), -1)
    distance = np.linalg.norm(by_slot - by_slot.mean(axis=1, keepdims=True), axis=1)
    return np.all(distance <= delta + _ROUNDING, axis=1)


def _on_grid(points, slots, g=10):
    steps = points * (g - 1)
    return np.all(np.abs(steps - np.round(steps)) <= _ROUNDING * g, axis=1)


_SHAPES = {
    "random": _anywhere,
    "random_gap": _anywhere,
    "orthogonal": _on_planes,
    "orthogonal_gap": _on_planes,
    "diagonal": _near_diagonal,
    "grid": _on_grid,
}

PARAMETERS = {
    "random": (),
    "random_gap": ("gaps",),
    "orthogonal": ("planes", "distribution", "mean", "std"),
    "orthogonal_gap": ("planes", "gaps", "distribution", "mean", "std"),
    "diagonal": ("delta",),
    "grid": ("g",),
}


# --- parameters -----------------------------------------------------------------------------------


def _checked(name, slots, parameters):
    if name not in SUPPORTS:
        near = difflib.get_close_matches(name, SUPPORTS, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown support '{name}': did you mean '{near}'?")
    known = PARAMETERS[name]
    for given in parameters:
        if given not in known:
            names = ", ".join(known) or "none"
            raise ValueError(
                f"support '{name}' has no parameter '{given}'; its parameters: {names}"
            )
    for needed in ("gaps", "delta"):
        if needed in known and needed not in parameters:
            raise ValueError(f"support '{name}' needs the parameter '{needed}'")
    checked = dict(parameters)
    if "planes" in known:
        checked["planes"] = _checked_planes(slots, parameters.get("planes"))
        _check_distribution(**{"distribution": "uniform", "mean": 0.5, "std": 1.0} | parameters)
    if "gaps" in known:
        checked["gaps"] = _checked_gaps(slots, parameters["gaps"])
    if "delta" in known:
        checked["delta"] = _checked_delta(slots, parameters["delta"])
    if int(parameters.get("g", 10)) != parameters.get("g", 10):
        raise ValueError(f"g is a whole number of values per latent, got {parameters['g']}")
    if parameters.get("g", 10) < 2:
        raise ValueError(f"a grid needs two or more values per latent, got g = {parameters['g']}")
    return checked


def _check_distribution(distribution, mean, std, **_):
    if distribution not in ("uniform", "normal"):
        raise ValueError(f"unknown distribution '{distribution}': 'uniform' or 'normal'")
    if not std > 0:
        raise ValueError(f"std must be positive, got {std}")
    low, high = (math.erf((edge - mean) / (std * math.sqrt(2))) for edge in (0, 1))
    if distribution == "normal" and high - low < 1e-3:
        raise ValueError(
            f"a normal with mean {mean} and std {std} is outside [0, 1]: move it inside"
        )


def _checked_planes(slots, planes):
    if planes is None:
        planes = [(i, (0.0,) * (sum(slots) - size)) for i, size in enumerate(slots)]
    if not planes:
        raise ValueError("planes is empty: give (slot, coords) pairs")
    for slot, coords in planes:
        if not 0 <= slot < len(slots):
            raise ValueError(f"plane of slot {slot}: slots are 0 to {len(slots) - 1}")
        n_fixed = sum(slots) - slots[slot]
        if len(coords) != n_fixed:
            raise ValueError(
                f"plane of slot {slot} needs {n_fixed} coordinates for the other slots, "
                f"got {len(coords)}"
            )
        if not all(0 <= c <= 1 for c in coords):
            raise ValueError(f"plane coordinates are raw latents in [0, 1], got {tuple(coords)}")
    return planes


def _checked_gaps(slots, gaps):
    for dim, start, stop in gaps:
        if not 0 <= dim < sum(slots):
            raise ValueError(f"gap in latent {dim}: latents are 0 to {sum(slots) - 1}")
        if not start <= stop:
            raise ValueError(f"gap in latent {dim} starts at {start}, after its end {stop}")
    return gaps


def _checked_delta(slots, delta):
    if len(slots) < 2 or len(set(slots)) > 1:
        raise ValueError(f"diagonal needs two or more slots of one size, got {slots}")
    if not 0 < delta < math.sqrt(2) / 2:
        raise ValueError(f"delta must lie between 0 and sqrt(2)/2 = 0.707, got {delta}")
    return delta


# --- grids ----------------------------------------------------------------------------------------


def full_grid(g: int, n_dims: int) -> jax.Array:
    """All points of a grid with g values per latent, first latent fastest: [g^n_dims, n_dims]."""
    if g < 2:
        raise ValueError(f"a grid needs two or more values per latent, got g = {g}")
    values = np.linspace(0, 1, g, dtype=np.float32)
    axes = np.meshgrid(*[values] * n_dims, indexing="ij")
    return jnp.asarray(np.stack([axis.ravel() for axis in reversed(axes)], axis=-1))


def face_grid(g: int, dims: tuple[int, int], n_dims: int) -> jax.Array:
    """g x g points on the face of two latents, the others 0, dims[0] fastest: [g * g, n_dims]."""
    first, second = dims
    if first == second or not all(0 <= dim < n_dims for dim in dims):
        raise ValueError(f"a face needs two different latents below {n_dims}, got {dims}")
    points = np.zeros((g * g, n_dims), np.float32)
    points[:, dims] = full_grid(g, 2)
    return jnp.asarray(points)
