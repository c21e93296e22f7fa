"""Every network on a GPU beside a CPU: outputs, and gradients of a weighted sum of them.

Stated errors, relative to the largest output and to the largest entry of all gradients: 2e-5 with
float32 products; 32 TF32 at the default precision, whose products round their operands to a
relative error of TF32 / 2. `tests/nets` compares networks with stored outputs of the references.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_precision import NETWORKS

pytestmark = pytest.mark.gpu
TF32 = 2**-10
ERRORS = {"highest": 2e-5, "default": 32 * TF32}


def example(shape: jax.ShapeDtypeStruct, seed: int):
    """Values of an input; tokens are below the least number of words."""
    rng = np.random.default_rng(seed)
    if jnp.issubdtype(shape.dtype, jnp.integer):
        return rng.integers(0, 4, shape.shape, np.int32)
    return rng.normal(size=shape.shape).astype(np.float32)


def outputs_and_gradients(net):
    """Function of variables and inputs."""

    def function(variables, *inputs):
        rest = {name: value for name, value in variables.items() if name != "params"}

        def total(params):
            outputs = jax.tree.leaves(net.apply(rest | {"params": params}, *inputs))
            # Weights differ: the plain sum of normalised outputs has no gradient.
            sums = [jnp.vdot(jnp.sin(jnp.arange(leaf.size)), leaf.ravel()) for leaf in outputs]
            return sum(sums), outputs

        (_, outputs), grads = jax.value_and_grad(total, has_aux=True)(variables["params"])
        return outputs, jax.tree.leaves(grads)

    return jax.jit(function)


def largest(leaves):
    return max(float(np.abs(leaf).max()) for leaf in leaves if leaf.size)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_agree_with_a_cpu(name):
    net, *shapes = NETWORKS[name]
    inputs = [example(shape, i) for i, shape in enumerate(shapes)]
    cpu, gpu = jax.devices("cpu")[0], jax.devices()[0]
    # Only the GPU has the kernels.
    has_kernels = dataclasses.asdict(net).get("form") == "pallas"
    plain = net.clone(form="direct") if has_kernels else net
    with jax.default_device(cpu), jax.default_matmul_precision("highest"):
        variables = jax.jit(plain.init)(jax.random.key(0), *inputs)
        wanted = jax.device_get(outputs_and_gradients(plain)(variables, *inputs))
    variables, inputs = jax.device_put(jax.device_get((variables, inputs)), gpu)
    run = outputs_and_gradients(net)
    for precision, error in ERRORS.items():
        with jax.default_matmul_precision(precision):
            for ours, theirs in zip(run(variables, *inputs), wanted, strict=True):
                assert all(leaf.devices() == {gpu} for leaf in ours)
                for a, b in zip(ours, theirs, strict=True):
                    np.testing.assert_allclose(
                        np.asarray(a), b, rtol=0, atol=error * largest(theirs), err_msg=precision
                    )
