"""Random numbers by name: each is a hash of a key and a counter, so that draws are independent.

A problem is therefore a function of its own key only. It does not depend on the other problems of
its batch or on their number of retries.
"""

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_WORD = np.uint64(0xD1B54A32D192ED03)


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every input bit affects every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fold(keys: np.ndarray, numbers) -> np.ndarray:
    """New keys from keys and whole numbers, which broadcast against each other."""
    numbers = np.asarray(numbers).astype(np.uint64)
    with np.errstate(over="ignore"):  # numpy warns if scalars wrap around
        return _mix(keys ^ _mix((numbers + np.uint64(1)) * _WORD))


def bits(keys: np.ndarray, counters) -> np.ndarray:
    """64 random bits for each key and counter, which broadcast against each other."""
    counters = np.asarray(counters).astype(np.uint64)
    with np.errstate(over="ignore"):
        return _mix(keys + (counters + np.uint64(1)) * _GOLDEN)


def uniform(keys: np.ndarray, *shape: int) -> np.ndarray:
    """Numbers in [0, 1): float64 [*keys.shape, *shape]."""
    counters = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)
    keys = keys.reshape(keys.shape + (1,) * len(shape))
    return (bits(keys, counters) >> np.uint64(11)) * 2.0**-53


def pairs(keys: np.ndarray, counters) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers in [0, 1) of 32 bits each, from one hash."""
    both = bits(keys, counters)
    low = both & np.uint64(0xFFFFFFFF)
    return (both >> np.uint64(32)) * 2.0**-32, low * 2.0**-32


def choice(keys: np.ndarray, n) -> np.ndarray:
    """A whole number below n for each key."""
    return (uniform(keys) * n).astype(np.int64)
