"""BERT against the reference: whole, as a subnetwork, and with the subnetwork taken out."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import quick_key

from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.data import pretrained
from cgjax.data.wordpiece import encode, read_vocabulary
from cgjax.nets.bert import Bert
from cgjax.nets.convert import bert_from_folder, from_torch

TINY = Bert(vocab=20, hidden=16, layers=1, heads=2, intermediate=20, positions=6)


def part(arrays, prefix):
    return {k.removeprefix(prefix): arrays[k] for k in arrays.files if k.startswith(prefix)}


@pytest.fixture(scope="module")
def reference(golden):
    arrays = golden("subnetworks/bert_tiny")
    net = Bert.from_config(json.loads(str(arrays["config"])), pooler=True)
    params = from_torch(net, part(arrays, "sd/"))
    ids, mask = (jnp.asarray(arrays[name]) for name in ("input_ids", "attention_mask"))
    apply = jax.jit(lambda params, ids: net.apply({"params": params}, ids, mask))
    return params, lambda params, ids=ids: apply(params, ids), arrays


@pytest.fixture(scope="module")
def scores(golden):
    """The reference's mask parameters {our name: s}."""
    arrays = golden("subnetworks/bert_tiny")
    net = Bert.from_config(json.loads(str(arrays["config"])), pooler=True)
    zeros = {k: np.zeros_like(v) for k, v in part(arrays, "sd/").items()}
    given = part(arrays, "s/")
    found = tree.flat(from_torch(net, zeros | given))
    marked = tree.flat(from_torch(net, zeros | {k: np.ones_like(v) for k, v in given.items()}))
    return {name: found[name] for name in found if np.any(marked[name])}


def masked(params, scores, keep):
    named = {
        name: leaf * keep(scores[name]) if name in scores else leaf
        for name, leaf in tree.flat(params).items()
    }
    return tree.unflat(named, params)


def test_golden(reference):
    params, apply, arrays = reference
    outputs = apply(params)
    expected = [arrays["embedding_output"]] + [arrays[f"layer{i}_output"] for i in range(3)]
    for ours, theirs in zip(outputs.hidden, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(outputs.last, arrays["last_hidden_state"], atol=1e-5)
    np.testing.assert_allclose(outputs[0], outputs.last)
    np.testing.assert_allclose(outputs.pooled, arrays["pooler_output"], atol=1e-5)


def test_masked_golden(reference, scores):
    params, apply, arrays = reference
    start = int(arrays["mask_start_layer"])
    maps = ("query", "key", "value", "attention_out", "ffn_in", "ffn_out")
    named = {f"layer_{i}/{name}/kernel" for i in range(start, 3) for name in maps}
    assert set(scores) == named | {"pooler/kernel"}
    assert tree.size(scores) == arrays["l0_max"]
    assert sum(int(np.sum(s > 0)) for s in scores.values()) == arrays["hard_l0"]
    for name, keep in (("sub", lambda s: s > 0), ("ablate", lambda s: s <= 0)):
        found = apply(masked(params, scores, keep)).last
        np.testing.assert_allclose(found, arrays[f"masked_{name}_last_hidden_state"], atol=1e-5)


def test_cut_into_parts(reference):
    """Layers from a kept place on, and [CLS] alone, give what the whole network gives."""
    params, _, arrays = reference
    net = Bert.from_config(json.loads(str(arrays["config"])), pooler=True)
    mask, start = (jnp.asarray(arrays[name]) for name in ("attention_mask", "layer0_output"))

    @jax.jit
    def rest(params, x):
        whole = net.apply({"params": params}, x, mask, 1, method="encode")
        return whole, net.apply({"params": params}, x, mask, 1, method="first_token")

    whole, first = rest(params, start)
    np.testing.assert_allclose(whole, arrays["last_hidden_state"], atol=1e-5)
    np.testing.assert_allclose(first, arrays["last_hidden_state"][:, 0], atol=1e-5)


def test_padding_is_not_seen(reference):
    params, apply, arrays = reference
    seen, ids = arrays["attention_mask"] > 0, arrays["input_ids"]
    changed = np.where(seen, ids, (ids + 7) % 60)
    assert not seen.all()
    first, second = (np.asarray(apply(params, jnp.asarray(x)).last) for x in (ids, changed))
    np.testing.assert_array_equal(first[seen], second[seen])
    assert not np.allclose(first[~seen], second[~seen])


def test_names_of_a_checkpoint(golden):
    """With "bert." in front, older leaf names, a task's head, and a pooler that is not wanted."""
    arrays = golden("subnetworks/bert_tiny")
    state = part(arrays, "sd/")
    net = Bert.from_config(json.loads(str(arrays["config"])))
    plain = from_torch(net, state)
    assert "pooler" not in plain
    older = {
        f"bert.{name.replace('LayerNorm.weight', 'LayerNorm.gamma')}": array
        for name, array in state.items()
    } | {"cls.predictions.bias": np.zeros(60), "bert.embeddings.position_ids": np.arange(20)[None]}
    jax.tree.map(np.testing.assert_array_equal, plain, from_torch(net, older))
    with pytest.raises(ValueError, match="lacks pooler.dense.bias, pooler.dense.weight for Bert"):
        from_torch(net.clone(pooler=True), {k: v for k, v in state.items() if "pooler" not in k})
    with pytest.raises(ValueError, match="unexpected encoder.layer.2.attention.output"):
        from_torch(net.clone(layers=2), state)


def test_sizes_and_initialisation():
    ids = jnp.zeros((1, 3), int)
    small = jax.eval_shape(Bert(pooler=True).init, jax.random.key(0), ids)["params"]
    kernels = {k: v.size for k, v in tree.flat(small).items() if "kernel" in k}
    assert sum(kernels.values()) == 12_845_056
    assert sum(kernels[k] for k in kernels if k[:7] not in ("layer_0", "layer_1")) == 6_553_600
    params = jax.jit(TINY.init)(quick_key(0), ids)["params"]
    flat = {name: np.asarray(leaf) for name, leaf in tree.flat(params).items()}
    for name, leaf in flat.items():
        if "norm" not in name:
            expected = 0 if "bias" in name else 0.02
            assert abs(leaf.std() - expected) < 0.01, name
    kernels = np.concatenate([flat[name].ravel() for name in flat if "kernel" in name])
    assert kernels.std() == pytest.approx(0.02, rel=0.1)


def test_refusals():
    with pytest.raises(BadInput, match="sentences have 7 tokens, but the network has 6 positions"):
        jax.eval_shape(TINY.init, jax.random.key(0), jnp.zeros((1, 7), int))
    with pytest.raises(BadInput, match="hidden size 16 is not divisible by 3 heads"):
        jax.eval_shape(TINY.clone(heads=3).init, jax.random.key(0), jnp.zeros((1, 3), int))
    config = {"vocab_size": 3, "hidden_size": 4, "num_hidden_layers": 1, "layer_norm_eps": 1e-12}
    with pytest.raises(BadInput, match="config lacks num_attention_heads, intermediate_size, max_"):
        Bert.from_config(config)
    full = dict.fromkeys(
        ("num_attention_heads", "intermediate_size", "max_position_embeddings", "type_vocab_size"),
        1,
    )
    with pytest.raises(BadInput, match="hidden_act = 'relu': only 'gelu' is supported"):
        Bert.from_config(config | full | {"hidden_act": "relu"})


# --- MiniLM ---------------------------------------------------------------------------------------
# The pretrained MiniLM, where its package is: tokens and outputs of the reference.


@pytest.fixture(scope="module")
def folder():
    try:
        return pretrained.minilm()
    except BadInput as error:
        pytest.skip(str(error))


def test_golden_minilm(folder, golden):
    arrays = golden("subnetworks/minilm_forward")
    vocabulary = read_vocabulary(folder / "vocab.txt")
    ids, mask = encode(arrays["sentences"], vocabulary, 24)
    np.testing.assert_array_equal(ids, arrays["input_ids"])
    np.testing.assert_array_equal(mask, arrays["attention_mask"])
    net, params = bert_from_folder(folder)
    assert (len(vocabulary), net.layers, net.hidden) == (30522, 6, 384)
    found = jax.jit(net.apply)({"params": params}, ids, mask).last
    np.testing.assert_allclose(found, arrays["last_hidden_state"], atol=2e-4)
    # Four sentences are a problem: minus the sum of each one's cosines with all of them.
    first = np.asarray(found)[:, 0].reshape(4, 4, -1)
    first = first / np.linalg.norm(first, axis=-1, keepdims=True)
    logits = -np.einsum("pid,pjd->pi", first, first)
    np.testing.assert_allclose(logits, arrays["odd_one_out_logits"], atol=2e-4)
