"""The expected scaling: its figures are the repository's own, its layouts those of the code."""

import importlib.util
import pathlib

import jax
import jax.numpy as jnp
import pytest

from cgjax.analysis.ntk import plan
from cgjax.core import parallel
from cgjax.nets.bert import Bert
from cgjax.nets.conv import ConvNet
from cgjax.nets.decoders import UpsampleMLP
from cgjax.nets.resnet import StagedResNet

ROOT = pathlib.Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("scaling", ROOT / "launch/scaling.py")
scaling = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scaling)


def test_measured_figures_are_those_of_the_readmes():
    texts = {
        "compositional": ("sprites", "at batch 512 takes {:.3f} ms"),
        "monolithic": ("sprites", "monolithic model takes {:.2f} ms"),
    }
    for name, (family, text) in texts.items():
        readme = (ROOT / f"cgjax/experiments/{family}/README.md").read_text()
        assert text.format(1e3 * scaling.measured(name)) in " ".join(readme.split())


def test_one_gpu_takes_the_measured_time():
    single = scaling.sprites_run(1, seeds=1)
    assert single.seconds == pytest.approx(scaling.STEPS * 0.535e-3)
    assert scaling.step_seconds(512, "monolithic") == pytest.approx(1.35e-3)
    assert scaling.ntk_flops(2000) / scaling.ntk_rate() == pytest.approx(65.9e-3)
    assert single.sent == scaling.ntk(1).sent == 0


@pytest.mark.parametrize("seeds", [1, 5, 6, 8])
def test_runs_lie_on_the_mesh_that_the_loop_makes(seeds):
    mesh = parallel.layout(seeds, scaling.BATCH).mesh
    assert f"mesh {mesh.devices.shape}:" in scaling.sprites_run(jax.device_count(), seeds).how


def test_collectives():
    sent, seconds = scaling.all_reduce(8e9, 8)
    assert sent == 14e9  # each device hands on 7 eighths, twice
    assert seconds == pytest.approx(14 / (0.7 * 450), rel=1e-3)
    assert scaling.all_gather(8e9, 8)[0] == 7e9
    # Eight cards of 50 GB/s leave a node, less than one GPU's NVLink.
    assert scaling.ring_rate(64) == pytest.approx(0.7 * 400e9)


def test_makespan():
    assert scaling.makespan([1, 2, 3, 4], 1) == 10
    assert scaling.makespan([1, 2, 3, 4], 2) == 5
    assert scaling.makespan([1, 2, 3, 4], 64) == 4


def test_the_grid_has_as_many_runs_as_published():
    assert scaling.mask_grid(8, 1e14).how.startswith("2,448 runs")
    vision = scaling.mask_run_flops(scaling.GRID["ResNet50, with and without SimCLR"])
    assert vision == pytest.approx(3e16, rel=0.05)


def test_no_job_gains_more_than_its_gpus():
    for title, at in scaling.jobs().items():
        points = scaling.scaling(at)
        assert points[0][1] == 1
        assert all(0 < share < 1 + 1e-9 for _, share in points), title
        work = [point.work for point, _ in points]
        assert (work[-1] == work[0]) == ("strong" in title)


def test_the_printed_tables_name_every_assumption(capsys):
    scaling.main()
    head, _, rest = capsys.readouterr().out.partition("assumed:")
    assert all(figure.what in head for figure in scaling.MEASURED.values())
    assert all(figure.what in rest for figure in scaling.ASSUMED.values())
    assert all(text in rest for text in scaling.ASSUMED_TOO)
    assert rest.count("expected") == len(scaling.jobs())


def facts(net, *inputs):
    """Sizes of a network at one input; the first input has its rows."""
    abstract = [jax.ShapeDtypeStruct((1, *a.shape), a.dtype) for a in inputs]
    variables = jax.eval_shape(net.init, jax.random.key(0), *abstract)
    rest = {k: jax.tree.map(jnp.zeros_like, v) for k, v in variables.items() if k != "params"}

    def f(params, x):
        out = net.apply({"params": params, **rest}, *x)
        return getattr(out, "last", out).reshape(len(x[0]), -1)

    return plan.facts(f, variables["params"], abstract)


@pytest.mark.slow
def test_sizes_are_those_of_the_networks():
    def values(*shape, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype)

    assert facts(ConvNet(), values(28, 48, 2)) == scaling.CONVNET
    decoders = {
        "compositional": (2, UpsampleMLP(form="reordered"), 5),
        "monolithic": (1, UpsampleMLP(hidden=320, channels=64, form="reordered"), 10),
        "shared, with alpha": (2, UpsampleMLP((64, 64, 4), form="reordered"), 5),
    }
    for kind, (slots, net, latents) in decoders.items():
        found = facts(net, values(latents))
        assert slots * found.flops == scaling.FORWARD[kind]
        n_networks = 2 if kind == "compositional" else 1
        assert n_networks * found.params == scaling.PARAMETERS[kind]
    bert = facts(Bert(), values(16, dtype=jnp.int32), values(16))
    bases = [facts(StagedResNet(width_factor=k), values(128, 128, 3)) for k in (1, 2)]
    bases += [bert, bert]
    for masks, found in zip(scaling.GRID.values(), bases):
        assert masks.forward == found.flops
