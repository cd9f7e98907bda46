"""Tokenizers of model folders beside those of transformers, and the one that needs no file."""

import json

import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st
from published import EVERYWHERE, TINY, reference
from transformers.convert_slow_tokenizer import bytes_to_unicode

from cotrunk.errors import UserError
from cotrunk.model.weights.pretrained import find, load_tokenizer

SENTENCES = [
    "The old inn, by the sea.",
    "Naïve CAFÉ [SEP] 東京 unaffable",
    "",
    "don't\tstop\u2028now",
]


def test_the_tokenizer_of_minilm_neither_cuts_nor_pads():
    tokenizer = load_tokenizer(find("minilm", base=EVERYWHERE))
    assert len(tokenizer.encode("word " * 700).ids) == 702
    assert len(tokenizer.encode("word").ids) == 3


@pytest.mark.parametrize("options", [{}, {"do_lower_case": False}, {"strip_accents": False}])
def test_a_bare_word_piece_vocabulary_gives_the_tokens_of_transformers(folder, options):
    mask = {"__type": "AddedToken", "content": "[MASK]", "lstrip": False}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "mask_token": mask} | options)
    )
    theirs = transformers.BertTokenizer.from_pretrained(folder)
    ours = load_tokenizer(find(str(folder), base=EVERYWHERE))
    assert [ours.encode(one).ids for one in SENTENCES] == theirs(SENTENCES)["input_ids"]
    # As lists: given two strings, transformers forgets a second text that is empty.
    for first in SENTENCES:
        pairs = [ours.encode(first, second) for second in SENTENCES]
        expected = theirs([first] * len(SENTENCES), SENTENCES)
        assert [pair.ids for pair in pairs] == expected["input_ids"]
        assert [pair.type_ids for pair in pairs] == expected["token_type_ids"]


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_a_bare_byte_pair_vocabulary_gives_the_tokens_of_transformers(tmp_path, add_prefix_space):
    reference("tiny-roberta").save_pretrained(tmp_path)
    alphabet = sorted(bytes_to_unicode().values())
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *alphabet, "th", "the", "Ġo", "<mask>"]
    (tmp_path / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e\nĠ o\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "RobertaTokenizer", "add_prefix_space": add_prefix_space})
    )
    theirs = transformers.RobertaTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(find(str(tmp_path), base=EVERYWHERE))
    for first in SENTENCES:
        assert ours.encode(first).ids == theirs(first)["input_ids"]
        assert ours.encode(first, "by the old").ids == theirs(first, "by the old")["input_ids"]


def test_a_tokenizer_beyond_the_word_table_is_refused(folder):
    with (folder / "vocab.txt").open("a") as vocabulary:
        vocabulary.writelines(f"word{number}\n" for number in range(300))
    with pytest.raises(UserError, match=r"but config.json has vocab_size = 300"):
        load_tokenizer(find(str(folder), base=EVERYWHERE))


@pytest.mark.parametrize("content", ["", "no\nspecial\ntokens"])
def test_a_vocabulary_without_special_tokens_is_refused(folder, content):
    (folder / "vocab.txt").write_text(content)
    with pytest.raises(UserError, match=r"vocab.txt: not a readable tokenizer .*\[CLS\]"):
        load_tokenizer(find(str(folder), base=EVERYWHERE))


def test_a_damaged_tokenizer_is_refused_by_name(folder):
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer.json: not a readable tokenizer"):
        load_tokenizer(find(str(folder), base=EVERYWHERE))


@pytest.mark.parametrize("name", TINY)
@given(first=st.text(), second=st.text())
def test_the_random_tokenizer_encodes_any_text_within_the_vocabulary(name, first, second):
    found = find(f"random:{name}", base=EVERYWHERE)
    encoding = load_tokenizer(found).encode(first, second)
    assert max(encoding.ids) < 300 <= found.shape.vocabulary
    assert (found.tensors, found.tokenizer, found.digest) == ({}, None, "")


def test_the_random_tokenizer_spells_words():
    tokenizer = load_tokenizer(find("random:tiny", base=EVERYWHERE))
    assert tokenizer.encode("Hi 2!", "日").tokens == [
        "[CLS]",
        "h",
        "##i",
        "2",
        "!",
        "[SEP]",
        "[UNK]",
        "[SEP]",
    ]


def test_the_random_roberta_tokenizer_has_the_roles_of_roberta():
    found = find("random:tiny-roberta", base=EVERYWHERE)
    tokenizer = load_tokenizer(found)
    assert tokenizer.encode("a", "b").tokens == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    assert set(tokenizer.encode("a", "b").type_ids) == {0}
    assert tokenizer.token_to_id("<pad>") == found.shape.first_position - 1
