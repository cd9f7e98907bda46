"""What masking learns from tokenizers, held against the tokenizers' own word numbers."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from cotrunk.data.tokens.vocabulary import vocabulary_of
from cotrunk.model.weights.pretrained import find, load_tokenizer
from cotrunk.model.weights.tokenizer import character_tokenizer

TEXT = "An unaffable innkeeper, by the sea, naively refurbished cafeterias."


def starts_of(words):
    return [before != word for before, word in zip([None, *words], words, strict=False)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokenizer", "size"),
    [
        (lambda: character_tokenizer("bert"), 300),
        (lambda: load_tokenizer(find("minilm", base=Path("/"))), 30522),
    ],
    ids=["characters", "minilm"],
)
def test_words_of_word_pieces_are_those_of_the_tokenizer(tokenizer, size):
    encoded = tokenizer().encode(TEXT, add_special_tokens=False)
    vocabulary = vocabulary_of(tokenizer(), size=size)
    starts = ~vocabulary.continues[encoded.ids]
    assert starts.tolist() == starts_of(encoded.word_ids)
    assert len(vocabulary.continues) == len(vocabulary.is_special) == size


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_mask_and_special_tokens_are_found(family):
    tokenizer = character_tokenizer(family)
    vocabulary = vocabulary_of(tokenizer, size=300)
    assert vocabulary.mask == tokenizer.token_to_id("<mask>" if family == "roberta" else "[MASK]")
    added = [number for number, token in tokenizer.get_added_tokens_decoder().items()]
    assert set(np.flatnonzero(vocabulary.is_special[: tokenizer.get_vocab_size()])) == set(added)


def byte_pairs(mark, pre_tokenizer, decoder):
    pieces = [f"{mark}the", f"{mark}in", "n", ",", "<mask>"]
    tokenizer = Tokenizer(models.BPE({piece: n for n, piece in enumerate(pieces)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoder
    tokenizer.add_special_tokens(["<mask>"])
    return tokenizer


@pytest.mark.parametrize(
    "tokenizer",
    [
        byte_pairs("Ġ", pre_tokenizers.ByteLevel(), decoders.ByteLevel()),
        byte_pairs("▁", pre_tokenizers.Metaspace(), decoders.Metaspace()),
    ],
    ids=["byte-level", "metaspace"],
)
def test_byte_pairs_without_the_mark_of_a_blank_continue_a_word(tokenizer):
    vocabulary = vocabulary_of(tokenizer, size=5)
    assert vocabulary.continues.tolist() == [False, False, True, True, False]
    assert vocabulary.mask == 4


def test_a_tokenizer_without_a_mask_token_has_none():
    tokenizer = Tokenizer(models.WordLevel({"mask": 0, "the": 1}, unk_token="the"))
    vocabulary = vocabulary_of(tokenizer, size=2)
    assert vocabulary.mask is None
    assert not vocabulary.continues.any()
