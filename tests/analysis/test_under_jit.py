"""Analyses inside a caller's jit, on arrays that an accelerator holds.

The valid call of each function, from the table of test_nonsense, runs alone and while a jit of the
caller is traced. In a trace its arrays are constants: `checks` then sees concrete values on an
accelerator, and an operation on them gives a concrete result only if it leaves the trace. A fixture
makes `checks` treat every array of JAX as an array on an accelerator.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_nonsense import PLUMBING, SOUND, K, Y, function, public_functions

from cgjax.analysis import checks, machines

MODULES = (
    "closed_forms", "contrasts", "dependence", "geometry", "landscape", "machines", "masks", "ntk",
    "salience", "training_sets", "wide",
)  # fmt: skip
# Host functions: they return NumPy arrays, choices or Python numbers, which a traced program lacks.
HOST = {
    f"{module}.{name}"
    for module, names in {
        "dependence": "parts recombined tangent_split",
        "geometry": "effective_rank grid_tensor kernel principal_components probe ridge ridgeless "
        "volume_element",
        "landscape": "cancellation guess_and_check matched metropolis",
        "masks": "learn read save search selected",
        "ntk": "ntk_regression",
        "salience": "subsets",
        "training_sets": "any_sum best_anchors exchange greedy",
    }.items()
    for name in names.split()
}
SIZES = {f"dependence.{name}": (3, 2) for name in ("gradient_dependence", "early_dependence")}
SIZES |= {"dependence.interventional_information": (2, 2)}
SIZES |= {"dependence.permutation_test": (2, 2, 2)}


def sound_call(name):
    """The valid call on arrays of JAX; its results are arrays."""
    arguments = jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, SOUND[name]
    )
    arguments |= {"sizes": SIZES[name]} if name in SIZES else {}  # labels may be traced
    return lambda: jax.tree.map(jnp.asarray, function(name)(**arguments))


@pytest.fixture(autouse=True)
def accelerator(monkeypatch):
    """Arrays of JAX count as arrays on an accelerator."""
    monkeypatch.setattr(checks, "_home", lambda a: jnp if isinstance(a, jax.Array) else np)


NAMES = [name for name in SOUND if name.split(".")[0] in MODULES and name.count(".") == 1]
NAMES = [*sorted(set(NAMES) - HOST), "ntk.linearised.kernel_vector_product"]
NAMES += ["support.jacobian_rank"]
# Other calls of the table compile the same programs.
LONG = (
    "dependence.permutation_test", "machines.central_path", "machines.solve_svr", "machines.svc",
    "machines.svr",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in NAMES]
)
def test_inside_and_outside_a_jit(name):
    """Sound arrays give the same numbers."""
    call = sound_call(name)
    alone, inside = call(), jax.jit(call)()
    for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(inside), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_every_function_is_in_the_table():
    names = {name for name in public_functions() if name.split(".")[0] in MODULES} - PLUMBING
    names = {name for name in names if name.count(".") == 1}  # files inside hold parts of these
    assert len(names) > 80
    assert names - HOST <= set(NAMES), sorted(names - HOST - set(NAMES))
    assert names >= HOST, sorted(HOST - names)


def test_concrete_values_are_checked_inside_a_jit():
    """Constants of the caller's program have values, so what is wrong with them is named."""
    k, y = jnp.asarray(K), jnp.asarray(Y)
    asymmetric, nan = k.at[0, 1].set(9.0), y.at[2].set(jnp.nan)
    with pytest.raises(ValueError, match="k_train is not symmetric"):
        jax.jit(lambda: machines.ridgeless(asymmetric, y, k[:3]))()
    with pytest.raises(ValueError, match=r"y holds NaN or infinity in 1 of 4"):
        jax.jit(lambda: machines.ridgeless(k, nan, k[:3]))()
