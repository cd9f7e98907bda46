"""The dictionary of words says just what the tokenizer says."""

import unicodedata
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from cotrunk.data.tokens import tokenise as tokens
from cotrunk.data.tokens.tokenise import Tokeniser
from cotrunk.model.weights.tokenizer import character_tokenizer

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


@pytest.mark.slow
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


def test_words_that_were_forgotten_are_learned_again():
    tokenise = Tokeniser(TOKENIZERS["uncased"], remembered_letters=8)
    texts = ["good unable", "a good !", "unables a", "good good", "é un", ""]
    expected = [TOKENIZERS["uncased"].encode(text, add_special_tokens=False).ids for text in texts]
    assert [tokenise([text])[0] for text in texts * 2] == expected * 2
    assert len(tokenise.words) < 6


def test_a_word_that_cannot_be_tokenised_does_not_spoil_later_calls():
    """A model without its unknown token raises at words that it cannot build."""
    tokenizer = Tokenizer(models.WordPiece({"good": 0, "bad": 1}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenise = Tokeniser(tokenizer)
    assert tokenise(["good"]) == [[0]]
    with pytest.raises(Exception, match="UNK"):
        tokenise(["good tea"])
    assert tokenise(["bad good"]) == [[1, 0]]


@pytest.mark.slow
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


# Each beside what some normalizer makes of it, or what it may be mistaken for.
ADDED = [
    *("[CAFÉ]", "[café]", "[cafe]", "[CAFE]", "cre\u0300me", "crème", "creme", "Ünable", "unable"),
    *("good\u00a0a", "good a", "good\ta", "good\u3000a", " a", "a ", "good-good", "GOOD"),
    *("\u017f", "\u212aa", "ka", "日本", "日", "a\u0301", "İ", "go\u200bod", "a\x7f"),
    *("!", "a!", "##a", "[SEP]"),
]


def survives(text: str) -> bool:
    """Whether a normalizer leaves something of it; the tokenizer itself panics at empty tokens."""
    return bool(text.strip("\u0301"))


ADDED_TOKENS = st.builds(
    AddedToken,
    st.sampled_from(ADDED)
    | st.text("aAéÉ\u0301!- \u00a0日", min_size=1, max_size=4).filter(survives),
    single_word=st.booleans(),
    lstrip=st.booleans(),
    rstrip=st.booleans(),
    normalized=st.booleans(),
    special=st.booleans(),
)
PLAIN_TOKENS = st.builds(
    AddedToken,
    st.sampled_from([token for token in ADDED if tokens.PLAIN.fullmatch(token.encode())])
    | st.text("aAkcfe!-[]", min_size=1, max_size=4),
    normalized=st.booleans(),
    special=st.booleans(),
)
NORMALIZERS = st.builds(
    normalizers.BertNormalizer,
    clean_text=st.booleans(),
    handle_chinese_chars=st.booleans(),
    strip_accents=st.none() | st.booleans(),
    lowercase=st.booleans(),
)


@st.composite
def texts_around(draw: st.DrawFn, added: list[AddedToken]) -> str:
    """Pieces, words and the tokens themselves in other cases, accents and blanks."""
    pieces = st.sampled_from([*(token.content for token in added), *ADDED, *PIECES, "x", "Æ", "ß"])
    disguises = [
        str,
        str.upper,
        str.lower,
        str.swapcase,
        *(partial(unicodedata.normalize, form) for form in ("NFC", "NFD", "NFKD")),
        lambda text: text.replace("e", "é").replace("E", "É").replace("a", "å"),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: "\x00".join(text),
        lambda text: "\u0301".join(text),
        lambda text: " ".join(text),
    ]
    blanks = st.sampled_from(
        ["", "", " ", " ", "  ", "\t", "\n", "\u00a0", "\u200b", "\u0301", "!"]
    )
    parts = [
        draw(st.sampled_from(disguises))(draw(pieces)) + draw(blanks)
        for _ in range(draw(st.integers(0, 5)))
    ]
    return draw(blanks) + "".join(parts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ADDED_TOKENS, PLAIN_TOKENS], ids=["any", "plain"])
@settings(max_examples=300, deadline=None)
@given(data=st.data(), normalizer=NORMALIZERS)
def test_ids_are_those_of_the_tokenizer_whatever_tokens_were_added(kind, data, normalizer):
    tokenizer = word_pieces(lowercase=True)
    tokenizer.normalizer = normalizer
    added = data.draw(st.lists(kind, max_size=3))
    tokenizer.add_tokens(added)
    texts = data.draw(st.lists(texts_around(added), max_size=4))
    tokenise = Tokeniser(tokenizer)
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert tokenise(texts) == expected
    # Ids given to the wrong word come to light only when the words meet in another order.
    words = [word for text in texts for word in text.split(" ")][::-1]
    expected = [tokenizer.encode(word, add_special_tokens=False).ids for word in words]
    assert tokenise(words) == expected


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(
    ("token", "texts"),
    [
        ("[CAFÉ]", ["a [cafe] good", "good a"]),
        ("[CAFÉ]", ["a [CAFÉ] good", "[café]", "[CAFE]!"]),
        ("crème", ["icremes good", "good a"]),
        ("good\u00a0a", ["un good a", "a good", "good\u00a0a"]),
        ("good\ta", ["un good a", "a good", "good\ta"]),
        ("ÜN", ["goodun!", "good ün", "ÜN"]),
    ],
)
def test_an_added_token_beyond_plain_ascii_is_found(token, texts, normalized):
    tokenizer = word_pieces(lowercase=True)
    tokenizer.add_tokens([AddedToken(token, normalized=normalized)])
    tokenise = Tokeniser(tokenizer)
    for text in texts:
        assert tokenise([text]) == [tokenizer.encode(text, add_special_tokens=False).ids]


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_an_added_token_that_looks_around_itself_takes_the_slow_path(flag):
    tokenizer = word_pieces(lowercase=True)
    assert Tokeniser(tokenizer).word_by_word
    tokenizer.add_tokens([AddedToken("<x>", **{flag: True})])
    assert not Tokeniser(tokenizer).word_by_word


def test_a_normalized_token_is_found_in_an_accented_word_on_the_fast_path():
    tokenizer = word_pieces(lowercase=True)
    tokenizer.add_tokens([AddedToken("[CAFE]", normalized=True)])
    cafe = tokenizer.token_to_id("[CAFE]")
    tokenise = Tokeniser(tokenizer)
    assert tokenise.word_by_word
    good, a = PIECES.index("good"), PIECES.index("a")
    assert tokenise(["good a[café] a"]) == [[good, a, cafe, a]]


@pytest.mark.parametrize("late", ["good-good", "n"])  # fewer parts than BERT has, and more
def test_words_that_are_not_split_as_expected_are_asked_for_one_by_one(late):
    tokenizer = word_pieces(lowercase=True)
    tokenise = Tokeniser(tokenizer)
    tokenizer.add_tokens([late])  # which the Tokeniser has not heard of
    texts = ["good-good unable a", "unable !"]
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert tokenise(texts) == expected


def test_no_texts_have_no_ids():
    for tokenizer in TOKENIZERS.values():
        assert Tokeniser(tokenizer)([]) == []
        assert Tokeniser(tokenizer)(["", " ", ""]) == [[], [], []]
