"""Names and layouts of PyTorch state dicts."""

import numpy as np
import pytest

from cgjax.nets.bert import Bert
from cgjax.nets.conv import ConvNet
from cgjax.nets.convert import LEAVES, batch_stats_from_torch, from_torch, layers_of
from cgjax.nets.decoders import DeconvMLP, UpsampleMLP
from cgjax.nets.mlp import MLP, Dense
from cgjax.nets.vit import VisionTransformer, ViT

MODULE = MLP((3,), hidden=4)


def state(**changes):
    arrays = {
        "0.weight": np.arange(8.0).reshape(4, 2), "0.bias": np.zeros(4),
        "2.weight": np.ones((3, 4)), "2.bias": np.ones(3),
    }  # fmt: skip
    arrays.update({k.replace("_", "."): v for k, v in changes.items()})
    return {k: v for k, v in arrays.items() if v is not None}


def fill(rng, shapes):
    return {k: rng.normal(size=s) for k, s in shapes.items()}


def test_layouts():
    rng = np.random.default_rng(0)
    shapes = {"0": (6, 5), "2": (16 * 2, 6)}
    heads = {f"{k}.weight": s for k, s in shapes.items()} | {
        f"{k}.bias": s[:1] for k, s in shapes.items()
    }
    convs = {"6": (2, 2), "9": (2, 2), "12": (2, 2), "15": (3, 2)}
    weights = heads | {f"{k}.weight": (*s, 2, 2) for k, s in convs.items()}
    arrays = fill(rng, weights | {f"{k}.bias": s[:1] for k, s in convs.items()})
    params = from_torch(UpsampleMLP(hidden=6, channels=2, n_layers=2), arrays)
    assert params["dense_0"]["kernel"][4, 1] == np.float32(arrays["0.weight"][1, 4])
    kernel = params["conv_3"]["kernel"]
    assert kernel.shape == (2, 2, 2, 3)
    assert kernel[1, 0, 1, 2] == np.float32(arrays["15.weight"][2, 1, 1, 0])


def test_batch_norm_names():
    # head: 0 dense, 1 elu, 2 norm, 3 dense, 4 elu, 5 dense, 6 reshape; then elu, norm, deconv.
    rng = np.random.default_rng(0)
    weights = {"0": (4, 5), "3": (4, 4), "5": (32, 4)}
    weights |= {"9": (2, 2, 4, 4), "12": (2, 2, 4, 4), "15": (2, 2, 4, 4), "17": (2, 3, 4, 4)}
    biases = {k: 3 if k == "17" else 2 if len(s) == 4 else s[0] for k, s in weights.items()}
    norms = {"2": 4, "8": 2, "11": 2, "14": 2}
    arrays = fill(rng, {f"{k}.weight": s for k, s in weights.items()})
    arrays |= fill(rng, {f"{k}.bias": (s,) for k, s in (biases | norms).items()})
    for leaf in ("weight", "running_mean", "running_var"):
        arrays |= fill(rng, {f"{k}.{leaf}": (s,) for k, s in norms.items()})
    arrays |= {f"{k}.num_batches_tracked": np.zeros(()) for k in norms}
    module = DeconvMLP(hidden=4, channels=2, n_layers=3, batch_norm=True)
    params, stats = from_torch(module, arrays), batch_stats_from_torch(module, arrays)
    np.testing.assert_allclose(params["conv_norm_2"]["scale"], arrays["14.weight"], rtol=1e-6)
    np.testing.assert_allclose(stats["dense_norm_1"]["mean"], arrays["2.running_mean"], rtol=1e-6)
    kernel, torch_kernel = params["conv_3"]["kernel"], arrays["17.weight"]
    np.testing.assert_allclose(kernel[0, 1, 1, 2], torch_kernel[1, 2, 3, 2], rtol=1e-6)


@pytest.mark.parametrize(
    "arrays, message",
    [
        (state(**{"2_bias": None}), "state_dict lacks 2.bias for MLP"),
        (state(**{"4_weight": np.ones(1)}), "state_dict has unexpected 4.weight"),
        (state(**{"2_weight": np.ones((4, 3))}), r"dense_1/kernel: expected shape \(4, 3\)"),
    ],
)
def test_bad_state(arrays, message):
    with pytest.raises(ValueError, match=message):
        from_torch(MODULE, arrays)


def test_unknown_module():
    with pytest.raises(ValueError, match="no PyTorch layout known for Dense"):
        from_torch(Dense(3), state())


# --- arrays of other networks ---------------------------------------------------------------------


def filled(module, **shapes):
    """Zeros for all names; their shapes are wrong, except those given by place in the network."""
    arrays = {}
    for layer in layers_of(module):
        if layer.kind == "array":
            arrays[str(layer.place)] = np.zeros((1, 3, 4))
            continue
        for leaf in LEAVES[layer.kind]:
            n_axes = {"dense": 2, "embedding": 2, "conv": 4, "patches": 4, "deconv": 4}
            n = n_axes.get(layer.kind, 1) if leaf == "weight" else 1
            arrays[f"{layer.place}.{leaf}"] = np.zeros((3,) * n)
    arrays.update({name.replace("__", "."): np.zeros(shape) for name, shape in shapes.items()})
    return arrays


SMALL_VIT = VisionTransformer(image=8, patch=4, hidden=3, layers=1, heads=1, intermediate=3, head=0)
PATCHES = "embeddings__patch_embeddings__projection__weight"


@pytest.mark.parametrize(
    "module, shapes",
    [
        (MODULE, {"0__weight": ()}),
        (MODULE, {"0__bias": ()}),
        (DeconvMLP(hidden=3, channels=3, n_layers=2), {"9__weight": (3, 3)}),
        (DeconvMLP(hidden=3, channels=3, n_layers=2), {"9__weight": (3, 3, 3, 3, 3)}),
        (ConvNet(channels=(3,), kernel=3, hidden=(3,)), {"5__weight": (3, 1)}),
        (ConvNet(channels=(3,), kernel=3, hidden=(3,)), {"0__weight": (3, 0, 3, 3)}),
        (ViT(dim=4, depth=1, heads=1, head_dim=1, mlp_dim=1, patch=2), {"pos_embedding": ()}),
        (SMALL_VIT, {PATCHES: (3, 0, 4, 4)}),
        (SMALL_VIT, {PATCHES: (3, 16)}),
    ],
)
def test_arrays_of_any_shape_are_refused_alike(module, shapes):
    with pytest.raises(ValueError, match="shape"):
        from_torch(module, filled(module, **shapes))


@pytest.mark.parametrize("shape", [(3, 3, 2, 8), (3, 12, 2, 2)])
def test_patches_of_another_size_are_refused(shape):
    """They have as many pixels as those of the network."""
    arrays = filled(SMALL_VIT, **{PATCHES: shape, "embeddings__cls_token": (1, 1, 3)})
    arrays["embeddings.position_embeddings"] = np.zeros((1, 5, 3))
    with pytest.raises(ValueError, match=r"projection.weight.* 4 x 4: its shape"):
        from_torch(SMALL_VIT, arrays)
    arrays[PATCHES.replace("__", ".")] = np.zeros((3, 3, 4, 4))
    assert from_torch(SMALL_VIT, arrays)["embedding"]["kernel"].shape == (48, 3)


def test_two_names_for_one_array_are_refused():
    net = Bert(vocab=5, hidden=3, layers=0, heads=1, intermediate=3, positions=3, types=3)
    arrays = filled(net, embeddings__word_embeddings__weight=(5, 3))
    assert from_torch(net, arrays)["word"]["embedding"].shape == (5, 3)
    for name in ("bert.embeddings.word_embeddings.weight", "embeddings.LayerNorm.gamma"):
        with pytest.raises(ValueError, match=r"embeddings.* twice"):
            from_torch(net, arrays | {name: np.ones((5, 3))})


def test_missing_statistics_are_named():
    module = DeconvMLP(hidden=4, channels=2, n_layers=2, batch_norm=True)
    with pytest.raises(ValueError, match="state_dict lacks 11.running_mean, .* for DeconvMLP"):
        batch_stats_from_torch(module, filled(module))
