"""Every network on a GPU beside a CPU: outputs, and gradients of a weighted sum of them.

Stated errors, relative to the largest output and to the largest entry of all gradients: 2e-5 with
float32 products; 32 TF32 at the default precision, whose products round their operands to a
relative error of TF32 / 2. `tests/nets` compares networks with stored outputs of the references.
"""

import dataclasses
import os
import subprocess
import sys

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


RESNETS = """
import jax, jax.numpy as jnp
from cgjax.nets.resnet import ResNet, StagedResNet

for form in ("patches", "direct", "auto"):
    nets = [(ResNet((16, 32), 1, form), 6)]
    for block, norm in (("bottleneck", "batch"), ("basic", "instance")):
        nets.append((StagedResNet((1, 1), (16, 32), block, norm=norm, head=2, form=form), 3))
    for net, channels in nets:
        x = jnp.ones((2, 32, 32, channels))
        variables = jax.eval_shape(net.init, jax.random.key(0), x)
        variables = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.1), variables)
        jax.block_until_ready(jax.jit(net.apply)(variables, x))
        jax.block_until_ready(jax.jit(jax.vmap(net.apply, (None, 0)))(variables, x[None]))
"""


def test_no_form_of_a_resnet_aborts_the_process():
    """XLA aborts where a product reads every second pixel of another as a slice (JAX 0.11.2)."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", RESNETS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
