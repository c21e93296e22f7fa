"""Grammar and head against reference data; problems and their splits."""

import hashlib
import json
import pathlib

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest

from cgjax.experiments.subnetworks import language, odd_one_out
from cgjax.experiments.subnetworks.language import tasks as language_tasks

GOLDEN = pathlib.Path(__file__).parents[2] / "golden/subnetworks"


def test_head_against_reference():
    data = np.load(GOLDEN / "odd_one_out.npz")
    embeddings, labels = data["embeddings"], data["labels"]
    near = {"rtol": 1e-5, "atol": 1e-5}

    @jax.jit
    def head(embeddings, labels):
        functions = (
            odd_one_out.each_loss,
            jax.value_and_grad(odd_one_out.loss),
            odd_one_out.right,
            odd_one_out.share_right,
        )
        return odd_one_out.logits(embeddings), *(fn(embeddings, labels) for fn in functions)

    logits, each, (value, grad), right, share_right = head(embeddings, labels)
    np.testing.assert_allclose(logits, data["logits"], **near)
    np.testing.assert_allclose(each, data["loss_per_problem"], **near)
    np.testing.assert_allclose(value, data["loss_mean"], **near)
    np.testing.assert_allclose(grad, data["grad_embeddings"], **near)
    assert np.mean(right) == data["accuracy"]
    np.testing.assert_allclose(np.mean(share_right), np.mean(right))  # there are no ties


def test_every_list_of_sentences_has_its_hash():
    counts = json.loads((GOLDEN / "language_counts.json").read_text())
    assert len(counts) == 40
    for name, known in counts.items():
        sentences = language.sentences(*name.split("|"))
        distinct = sorted(set(sentences))
        text = "\n".join(distinct).encode()
        assert (len(sentences), len(distinct)) == (known["count"], known["unique"]), name
        assert hashlib.sha256(text).hexdigest() == known["sha256_sorted_unique"], name


def test_orders_are_new_each_time_and_labels_say_where():
    problems = np.arange(400).reshape(100, 4)
    shown, labels = odd_one_out.permuted(jax.random.key(0), problems)
    again, _ = odd_one_out.permuted(jax.random.key(1), problems)
    np.testing.assert_array_equal(np.sort(shown, axis=1), problems)
    np.testing.assert_array_equal(shown[np.arange(100), labels], problems[:, 3])
    assert np.any(shown != again) and set(np.asarray(labels).tolist()) == {0, 1, 2, 3}


def test_stems_spell_the_number_as_a_token():
    assert language.split("the taxi drivers admires", "stems") == [
        "the",
        "taxi",
        "driver",
        "##s",
        "admire",
        "##s",
    ]
    assert language.split("the farmer that the guard liked is old", "stems")[5:7] == ["like", "##d"]
    words = language.vocabulary("words")
    assert len(words) == 113 + 3 + 3  # special tokens, and three past forms (hated is a word)
    assert (
        max(
            len(language.encode(sentence, "words"))
            for sentence in language.sentences("obj_rel_across_inanim", "plural", "plural")
        )
        == 13
    )


@pytest.mark.parametrize("how", ["words", "combinations"])
def test_what_is_held_out_shares_no_choice_with_training(how):
    templates = ("simple_agrmt", "prep_inanim")
    seen, unseen = language.pool(templates, (True, True), "singular", how)
    assert not set(seen) & set(unseen) and len(seen) + len(unseen) == 70 + 2520
    if how == "combinations":
        assert {s.split()[1] for s in seen} == {s.split()[1] for s in unseen}
    else:
        assert "the consultant laughs" in unseen and "the author laughs" in seen


# --- problems -------------------------------------------------------------------------------------


def rule(
    splits="disjoint", rule="agreement", held_out="nothing", templates=("prep_inanim",), **sizes
):
    data = {
        "rule": rule,
        "number": "singular",
        "templates": templates,
        "held_out": held_out,
        "splits": splits,
        "seed": 0,
        "n_train": 60,
        "n_val": 10,
        "n_test": 20,
        "n_eval": 12,
    } | sizes
    words = language.vocabulary("words")
    inverse = {i: word for word, i in words.items()}
    sets = language_tasks.of_language(
        ml_collections.ConfigDict({"data": data}), lambda text: language.encode(text, "words")
    )
    text = [" ".join(inverse[i] for i in row if inverse[i][0] != "[") for row in sets.table["ids"]]
    return sets, text


def obeys(text):
    """(subject, verb) singular, read off a sentence of prep_inanim."""
    words = text.split()
    return not words[1].endswith("s"), bool({"is", "brings", "interests"} & set(words))


def test_sets_have_the_cells_of_the_paper():
    sets, text = rule()
    for part, n in (("train", 60), ("val", 10), ("test", 20)):
        for name, rows in sets.rows[part].items():
            tests = {"train": 0, "val": n, "test": 12}  # trained on by other objectives alone
            assert rows.shape == (tests[part] if name.startswith("test") else n, 4)
            found = [[obeys(text[place]) for place in row] for row in rows]
            odd = [row[-1] for row in found]
            rules = [cell for row in found for cell in row[:-1]]
            if name == "compositional":
                assert set(rules) == {(True, True)}
                assert odd.count((False, True)) == odd.count((True, False)) == len(odd) / 2
            if name == "mask_0":
                assert set(odd) == {(False, True)}
                assert rules.count((True, True)) == rules.count((True, False)) == len(rules) / 2
            if name == "test_1" and len(rows):
                assert set(odd) == {(True, False)} and set(rules) == {(True, True)}


def test_no_sentence_is_in_two_parts_where_splits_are_disjoint():
    sets, text = rule()
    of = {
        part: {text[i] for rows in own.values() for i in rows.ravel()}
        for part, own in sets.rows.items()
    }
    assert not of["train"] & of["val"] and not of["train"] & of["test"] | of["val"] & of["test"]


def test_published_splits_keep_tests_from_the_compositional_set():
    sets, text = rule("published")
    compositional = {text[i] for part in sets.rows.values() for i in part["compositional"].ravel()}
    tests = {text[i] for part in sets.rows.values() for i in part["test_0"].ravel()}
    assert not compositional & tests
    masks = {text[i] for part in sets.rows.values() for i in part["mask_0"].ravel()}
    assert compositional & masks  # drawn afresh from all sentences


@pytest.mark.parametrize("n_val", (40, 2))
def test_every_part_of_few_sentences_has_four_of_them(n_val):
    """70 sentences, of which validation has a share of 2.3 or 0.1."""
    sets, text = rule(templates=("simple_agrmt",), n_train=1000, n_val=n_val, n_test=200)
    of = {
        part: {text[i] for i in own["compositional"][:, :3].ravel()}
        for part, own in sets.rows.items()
    }
    assert len(of["val"]) >= 4 and not of["val"] & (of["train"] | of["test"])


def test_published_tests_show_many_sentences_although_all_were_used():
    """The compositional set uses all 70 sentences, 68 of them twice: 12 tests show more than 2."""
    sets, text = rule("published", templates=("simple_agrmt",), n_train=20, n_val=13, n_test=13)
    sentences = {text[i] for i in sets.rows["test"]["test_0"][:, :3].ravel()}
    assert len(sentences) >= 30


def test_three_subroutines_and_held_out_words():
    sets, text = rule(rule="three", templates=("obj_rel_across_anim",), held_out="combinations")
    assert sets.subroutines == ("subject", "verb", "tense")
    past = {"liked", "admired", "hated", "loved"}
    for row in sets.rows["test"]["test_2"]:
        assert [bool(past & set(text[i].split())) for i in row] == [False] * 3 + [True]
    odd = sets.rows["train"]["mask_2"][:, 3]
    assert all(past & set(text[i].split()) for i in odd)
    seen = {text[i] for own in sets.rows["train"].values() for i in own.ravel()}
    assert not seen & {text[i] for i in sets.rows["test"]["held_out"].ravel()}


def test_ties_have_chance_whatever_the_order():
    same = jnp.ones((4, 3))
    two = jnp.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])  # all four are alike in their sums
    one = jnp.array([[1.0, 0], [1, 0], [1, 0], [-1, 0]])
    found = odd_one_out.share_right(jnp.concatenate([same[:, :2], two, one]), jnp.array([3, 0, 3]))
    np.testing.assert_allclose(found, [0.25, 0.25, 1.0])
