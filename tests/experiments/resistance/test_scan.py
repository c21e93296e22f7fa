"""SCAN's grammar against the published files, encoding and decoding, both settings."""

import collections
import os

import jax
import numpy as np
import pytest
from torch_nets import quick_key

from cgjax.core.errors import BadInput
from cgjax.experiments.resistance import scan

RAW_DIR = os.environ.get("CGJAX_RAW_DIR")
needs_data = pytest.mark.skipif(not RAW_DIR, reason="CGJAX_RAW_DIR is not set: no real data here")


def test_counts():
    assert (len(scan.verbs()), len(scan.clauses()), len(scan.commands())) == (34, 102, 20_910)
    assert len({command for command, _ in scan.commands()}) == 20_910
    train, test = scan.jump_split()
    without = [line for line in train if "jump" not in line[0]]
    assert len(without) == len(set(without)) == 13_203
    assert train.count(("jump", "I_JUMP")) == 1_467 == len(train) - 13_203
    assert len(test) == len(set(test)) == 7_706
    no_word = [c for c, _ in train if not set(c.split()) & scan.ACTION_WORDS.keys()]
    assert len(no_word) == 666
    assert max(len(c.split()) for c, _ in scan.commands()) + 1 == scan.LONGEST_COMMAND
    assert max(len(a.split()) for _, a in scan.commands()) + 1 == scan.LONGEST_ACTIONS


def test_meanings():
    for command, actions in {
        "jump": "I_JUMP",
        "turn opposite left": "I_TURN_LEFT I_TURN_LEFT",
        "look right twice": "I_TURN_RIGHT I_LOOK I_TURN_RIGHT I_LOOK",
        "run around left": " ".join(4 * ["I_TURN_LEFT I_RUN"]),
        "jump twice after turn left": "I_TURN_LEFT I_JUMP I_JUMP",
        "jump twice and turn left": "I_JUMP I_JUMP I_TURN_LEFT",
    }.items():
        assert scan.interpret(command) == actions
    assert all(scan.interpret(command) == actions for command, actions in scan.commands()[::97])
    for wrong in ("turn", "jump before walk", "", "jump left opposite", "twice", "walk and"):
        with pytest.raises(BadInput, match="SCAN has no command"):
            scan.interpret(wrong)


@needs_data
def test_the_split_is_the_published_one():
    for part, lines in zip(("train", "test"), scan.jump_split()):
        published = scan.read("addprim_jump", part, raw_dir=RAW_DIR, download=False)
        assert collections.Counter(published) == collections.Counter(lines)


@needs_data
def test_the_simple_split_is_read():
    train, test = (
        scan.read("simple", p, raw_dir=RAW_DIR, download=False) for p in ("train", "test")
    )
    assert sorted(train + test) == sorted(scan.commands())


@needs_data
@pytest.mark.parametrize(
    "name, n_train",
    [
        ("simple_p8", 1672),
        ("addprim_complex_jump_num4_rep2", 14_668),
        ("fewshot_num16_rep1", 15_241),
    ],
)
def test_random_splits_are_read(name, n_train):
    train, test = (scan.read(name, part, raw_dir=RAW_DIR) for part in ("train", "test"))
    assert len(train) == n_train and test
    assert set(train + test) <= set(scan.commands())


def test_random_splits_stand_in_the_archive_alone(tmp_path):
    with pytest.raises(
        BadInput, match="no scan/simple_p8 here: only the published archive holds it"
    ):
        scan.read("simple_p8", "train", data_dir=tmp_path, raw_dir=tmp_path)


# --- symbols --------------------------------------------------------------------------------------

SOME = scan.commands()[::211]


def test_symbols_and_back():
    lines = scan.encode(SOME)
    assert lines.commands.shape == (len(SOME), 10) and lines.actions.shape == (len(SOME), 50)
    for row, (command, actions) in enumerate(SOME):
        assert scan.text(lines.commands[row], scan.WORDS) == command
        assert scan.text(lines.actions[row]) == actions
    assert (scan.N_WORDS, scan.N_SYMBOLS) == (15, 8)
    assert lines.commands.max() == 14 and lines.actions.max() == 7
    wider = scan.encode(SOME, 12, 60)
    np.testing.assert_array_equal(wider.commands[:, :10], lines.commands)
    assert not wider.actions[:, 50:].any()
    with pytest.raises(BadInput, match="do not fit into 4 and 50 symbols"):
        scan.encode(SOME, 4)
    with pytest.raises(BadInput, match="not what 'walk' means"):
        scan.encode([("walk", "I_RUN")])


@pytest.mark.parametrize("setting", scan.TRAINING)
def test_settings_follow_the_grammar(setting):
    lines = scan.encode(SOME)
    new = jax.jit(scan.TRAINING[setting])(quick_key(0), lines)
    for row, (command, _) in enumerate(SOME):
        found = scan.text(new.commands[row], scan.WORDS)
        assert scan.interpret(found) == scan.text(new.actions[row])
        for before, after in zip(command.split(), found.split(), strict=True):
            is_slot = before in scan.ACTION_WORDS
            assert after in scan.ACTION_WORDS if is_slot else after == before
            if setting == "A" or (setting == "replace_jump" and before != "jump"):
                assert after == before
            if setting == "replace_jump":
                assert after != "jump"


def test_words_are_uniform_and_independent():
    line = "jump left and jump twice"
    lines = scan.encode([(line, scan.interpret(line))] * 4000)
    new = jax.jit(scan.resample_slots)(quick_key(1), lines)
    pairs = np.asarray(new.commands)[:, [0, 3]] - scan.FIRST
    shares = np.bincount(pairs @ [4, 1], minlength=16) / 4000
    assert np.abs(shares - 1 / 16).max() < 0.02
    new = jax.jit(scan.replace_jump)(quick_key(1), lines)
    pairs = np.asarray(new.commands)[:, [0, 3]] - scan.FIRST
    assert np.all(pairs[:, 0] == pairs[:, 1])  # one word for each line
    shares = np.bincount(pairs[:, 0], minlength=4) / 4000
    assert np.abs(shares - np.array([1, 1, 1, 0]) / 3).max() < 0.03


def test_right_to_the_end():
    lines = scan.encode([("jump", "I_JUMP"), ("walk twice", "I_WALK I_WALK")])
    assert scan.is_right(lines.actions, lines.actions).all()
    longer = lines.actions.copy()
    longer[:, 2] = scan.FIRST
    assert not scan.is_right(longer, lines.actions)[0]
    np.testing.assert_array_equal(scan.is_bare(lines), [True, False])


def test_components():
    line = "turn left and jump right"
    outputs, inputs = scan.components(scan.encode([(line, scan.interpret(line))], 7, 5), 3)
    assert outputs.shape == (1, 5, 8) and inputs.shape == (1, 7, 3)
    np.testing.assert_array_equal(outputs[0, :, 0], [0, 0, 1, 0, -1])
    np.testing.assert_array_equal(inputs[0, :, 0], [0, 0, 0, 1, 0, 0, -1])
