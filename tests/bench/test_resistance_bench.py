"""The benchmark of the resistance study, at sizes that say nothing about speed."""

import jax
import numpy as np
import pytest
from torch_nets import quick_key

from cgjax.bench import resistance
from cgjax.experiments.resistance import scan
from cgjax.nets.rnn import PAD, previous


def test_settings_are_the_paper_s():
    config = resistance.digit_settings({}, 20, 4, "patches")
    assert config.train.seeds == tuple(range(20)) and config.data.batch == 64
    assert (config.model.form, config.train.at_once, config.model.hidden) == ("patches", 4, 64)
    small = resistance._settings("scan", resistance.SMALL_SCAN, 1)
    some = resistance.lines(small)
    assert some.commands.shape == (8, 10) and some.actions.shape == (8, 50)
    assert len({row.tobytes() for row in some.commands}) > 4  # not "jump" alone
    assert resistance._settings("scan", {}, 1).data.batch == 256


def test_throughput_is_seconds_of_one_alone_over_ours():
    row = resistance.digit_row("direct", "20 seeds, 4 at once", 0.001, 0.004, 0.002)
    assert row == ("direct: 20 seeds, 4 at once", "1.000", "4.00 x", "2.00 x")


@pytest.mark.slow
def test_tables_are_printed(capsys):
    resistance.digits(resistance.SMALL_DIGITS, 1, 2, (1, 2), forms=("patches",))
    resistance.sentences(resistance.SMALL_SCAN, 1, 2)
    out = capsys.readouterr().out
    assert "patches: 2 seeds, 1 at once" in out and "ours, 2 seeds in one program" in out
    assert "batch 4 (small)" in out and "train step of 8 lines, 87 tokens (small)" in out


def test_pytorch_s_network_is_ours():
    """The same weights give the same logits, for commands of different lengths."""
    torch = pytest.importorskip("torch", reason="torch is not installed: no comparison with it")
    config = resistance._settings("scan", resistance.SMALL_SCAN, 1)
    some = resistance.lines(config)
    before = np.asarray(previous(some.actions, scan.N_SYMBOLS))
    net = scan.network(config)
    params = jax.jit(net.init)(quick_key(0), some.commands, before)["params"]
    params = jax.tree.map(lambda leaf: np.array(leaf) * 2, params)  # far from a start's symmetry
    theirs = resistance.torch_network(config.model.embedding, config.model.encoder)

    def lstm(mine):
        return {
            "weight_ih_l0": mine["kernel"]["kernel"].T,
            "weight_hh_l0": mine["recurrent"].T,
            "bias_ih_l0": mine["bias"],
            "bias_hh_l0": 0 * mine["bias"],
        }

    state = {
        "words.weight": params["words"]["embedding"],
        "symbols.weight": params["symbols"]["embedding"],
        "attention.weight": params["attention"].T,
        "attended.weight": params["attended"]["kernel"].T,
        "readout.weight": params["readout"]["kernel"].T,
        "readout.bias": params["readout"]["bias"],
    }
    for name, own in {"ahead": "forward", "back": "backward", "decoder": "decoder"}.items():
        state |= {f"{name}.{key}": value for key, value in lstm(params[own]).items()}
    theirs.load_state_dict({k: torch.tensor(np.ascontiguousarray(v)) for k, v in state.items()})
    commands = torch.tensor(some.commands.astype(np.int64))
    lengths = (commands != PAD).sum(dim=1)
    assert len(set(lengths.tolist())) > 2
    with torch.no_grad():
        found = theirs(commands, lengths, torch.tensor(before.astype(np.int64))).numpy()
    expected = jax.jit(net.apply)({"params": params}, some.commands, before)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
