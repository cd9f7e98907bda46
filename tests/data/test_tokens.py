"""The dictionary of words says just what the tokenizer says."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from cotrunk.data import tokens
from cotrunk.data.tokens import Tokeniser
from cotrunk.model.tokenizer import character_tokenizer

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "un",
    "##able",
    "##s",
    "good",
    "Good",
    "a",
    "##a",
    "!",
]


def word_pieces(*, lowercase: bool) -> Tokenizer:
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
    return tokenizer


TOKENIZERS = {
    "uncased": word_pieces(lowercase=True),
    "cased": word_pieces(lowercase=False),
    "characters": character_tokenizer("bert"),
    "roberta": character_tokenizer("roberta"),
}
LIKELY = st.sampled_from(["good", "Good!", "unable", "[SEP]", "a_b", "\t", "é", "a" * 120, "日本"])
TEXTS = st.one_of(st.text(), st.lists(LIKELY).map(" ".join), st.lists(LIKELY).map("".join))


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(TEXTS, max_size=4))
def test_ids_are_those_of_the_tokenizer(name, texts):
    tokenizer = TOKENIZERS[name]
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert Tokeniser(tokenizer)(texts) == expected


def test_a_remembered_word_is_not_asked_for_again():
    tokenise = Tokeniser(TOKENIZERS["uncased"])
    tokenise(["good unable", "unable good"])
    assert set(tokenise.words) == {b"good", b"unable"}


def test_words_that_were_forgotten_are_learned_again(monkeypatch):
    monkeypatch.setattr(tokens, "REMEMBERED_LETTERS", 8)
    tokenise = Tokeniser(TOKENIZERS["uncased"])
    texts = ["good unable", "a good !", "unables a", "good good", "é un", ""]
    expected = [TOKENIZERS["uncased"].encode(text, add_special_tokens=False).ids for text in texts]
    assert [tokenise([text])[0] for text in texts * 2] == expected * 2
    assert len(tokenise.words) < 6


def test_threads_may_share_what_is_known_of_words():
    tokenizer = TOKENIZERS["uncased"]
    words = [f"a{n:b}".replace("0", "s").replace("1", "a") for n in range(4000)]
    texts = [[f"{word} {words[-n]}" for n, word in enumerate(words[k::8])] for k in range(8)]
    expected = [[e.ids for e in tokenizer.encode_batch(t, add_special_tokens=False)] for t in texts]
    tokenise = Tokeniser(tokenizer)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenise, texts)) == expected


def test_a_token_that_was_added_is_found_across_punctuation_case_and_blanks():
    tokenizer = word_pieces(lowercase=True)
    tokenizer.add_tokens(["good-good", "<x>"])
    texts = ["a good-good a", "a GOOD-GOOD!", "un<x>able <X>", "good - good", "good", "[sep][SEP]a"]
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert Tokeniser(tokenizer)(texts) == expected
    tokenizer.add_tokens(["a good"])
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert Tokeniser(tokenizer)(texts) == expected


def test_no_texts_have_no_ids():
    for tokenizer in TOKENIZERS.values():
        assert Tokeniser(tokenizer)([]) == []
        assert Tokeniser(tokenizer)(["", " ", ""]) == [[], [], []]
