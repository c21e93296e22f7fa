"""The pretrained MiniLM, where its package is: tokens and outputs of the reference."""

import jax
import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.data import pretrained
from cgjax.data.wordpiece import encode, read_vocabulary
from cgjax.nets.convert import bert_from_folder


@pytest.fixture(scope="module")
def folder():
    try:
        return pretrained.minilm()
    except BadInput as error:
        pytest.skip(str(error))


def test_golden(folder, golden):
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
