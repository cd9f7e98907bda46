"""Texts to token ids, exactly as the tokenizer gives them, with a cache of words."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

REMEMBERED_LETTERS = 1 << 21
"""About 300,000 words or 50 MB. A full cache is cleared; frequent words are soon back."""

PLAIN = re.compile(rb"[!-~]+")  # visible ASCII
PART = re.compile(rb"[A-Za-z0-9]+|[^A-Za-z0-9]")


@dataclass(frozen=True)
class Ids:
    """The token ids of many texts, concatenated, and the number of each text."""

    flat: NDArray[np.uint32]
    length: NDArray[np.int64]


class Tokeniser:
    """A tokenizer without truncation, padding and special tokens.

    A BERT tokenizer splits each word (anything between two blanks) independently of its
    neighbours, so words are cached in a dictionary, which is six times faster. A text that
    contains a special token counts as one word. There is no cache for other tokenizers, or if an
    added token is not plain (see ``_is_plain``).
    """

    words: "_Words"
    ids: NDArray[np.uint32]
    first: NDArray[np.int64]
    length: NDArray[np.int64]

    def __init__(
        self, tokenizer: Tokenizer, *, remembered_letters: int = REMEMBERED_LETTERS
    ) -> None:
        self.tokenizer, self.remembered_letters = tokenizer, remembered_letters
        config = json.loads(tokenizer.to_str())
        self.added = tuple(token["content"].encode().lower() for token in config["added_tokens"])
        are_plain = all(map(_is_plain, config["added_tokens"]))
        self.word_by_word = _is_word_by_word(config) and are_plain
        self.lowercase = self.word_by_word and config["normalizer"]["lowercase"]
        self.lock = Lock()
        self._forget()

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        ids = self.flat(texts)
        flat, end = ids.flat.tolist(), np.cumsum(ids.length).tolist()
        return [flat[a:b] for a, b in zip([0, *end], end, strict=False)]

    def flat(self, texts: Sequence[str]) -> Ids:
        if not self.word_by_word or not texts:
            return _concatenated(self._encode(texts))
        with self.lock:  # threads that share a model share its cache
            return self._look_up(texts)

    def _look_up(self, texts: Sequence[str]) -> Ids:
        if self.words.letters > self.remembered_letters:
            self._forget()
        words, counts = self._words(texts)
        try:
            number = np.fromiter(map(self.words.__getitem__, words), np.int64, len(words))
            self._learn(self.words.fresh)
        except BaseException:  # else the words that were not learned would fail every later call
            self._forget()
            raise
        length = self.length[number]
        return Ids(self.ids[_ranges(self.first[number], length)], sums(length, counts))

    def _words(self, texts: Sequence[str]) -> tuple[list[bytes], list[int]]:
        """The words of all texts, and the number of each text."""
        joined = " ".join(texts).encode()
        if not self._holds_added(joined):
            words = (joined.lower() if self.lowercase else joined).split(b" ")
            return words, [text.count(" ") + 1 for text in texts]
        each = [self._words_of(text.encode()) for text in texts]
        return list(chain.from_iterable(each)), [len(words) for words in each]

    def _words_of(self, text: bytes) -> list[bytes]:
        if self._holds_added(text):
            return [text]
        return (text.lower() if self.lowercase else text).split(b" ")

    def _holds_added(self, text: bytes) -> bool:
        lowered = text.lower()  # of bytes, so of ASCII letters only
        return any(token in lowered for token in self.added)

    def _learn(self, fresh: list[bytes]) -> None:
        """Tokenise new words and add them to the cache; plain ones in a single call."""
        if not fresh:
            return
        is_plain = np.array([PLAIN.fullmatch(word) is not None for word in fresh])
        if self._holds_added(b" ".join(fresh)):  # rare, so checked for all words first
            is_plain &= [not self._holds_added(word) for word in fresh]
        plain = self._plain_words(list(compress(fresh, is_plain)))
        other = self._each_word(list(compress(fresh, ~is_plain)))
        length = np.empty(len(fresh), np.int64)
        length[is_plain], length[~is_plain] = plain.length, other.length
        # The ids of plain words come first, so they are not in the order of the words.
        order = np.argsort(~is_plain, kind="stable")
        first = np.empty(len(fresh), np.int64)
        first[order] = len(self.ids) + np.cumsum(length[order]) - length[order]
        self.ids = np.concatenate([self.ids, plain.flat, other.flat])
        self.first = np.concatenate([self.first, first])
        self.length = np.concatenate([self.length, length])
        fresh.clear()

    def _plain_words(self, words: list[bytes]) -> Ids:
        """Tokenise words of visible ASCII as one text; ``word_ids`` has the part of each token."""
        parts = [1 if word.isalnum() else len(PART.findall(word)) for word in words]
        joined = self.tokenizer.encode(b" ".join(words).decode(), add_special_tokens=False)
        of_part = np.bincount(np.array(joined.word_ids, np.int64))
        if len(of_part) != sum(parts):  # e.g. a token was added to the tokenizer since
            return self._each_word(words)
        return Ids(np.array(joined.ids, np.uint32), sums(of_part, parts))

    def _each_word(self, words: list[bytes]) -> Ids:
        return _concatenated(self._encode([word.decode() for word in words]))

    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        return self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)

    def _forget(self) -> None:
        self.words = _Words()
        self.ids = np.zeros(0, np.uint32)
        self.first = self.length = np.zeros(0, np.int64)


class _Words(dict[bytes, int]):
    """Numbers words in the order they occur; ``fresh`` words are not tokenised yet."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh: list[bytes] = []
        self.letters = 0

    def __missing__(self, word: bytes) -> int:
        self[word] = number = len(self)
        self.fresh.append(word)
        self.letters += len(word)
        return number


def _concatenated(encoded: Sequence[Encoding]) -> Ids:
    each = [text.ids for text in encoded]
    length = np.array([len(ids) for ids in each], np.int64)
    return Ids(np.fromiter(chain.from_iterable(each), np.uint32, length.sum()), length)


def _ranges(first: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """``first, first + 1, ...`` (``length`` numbers) of each pair, concatenated."""
    before = np.cumsum(length) - length
    return np.repeat(first - before, length) + np.arange(length.sum())


def sums(values: NDArray[np.int64], counts: Sequence[int]) -> NDArray[np.int64]:
    """The sums of the first ``counts[0]`` values, of the next ``counts[1]``, and so on."""
    so_far = np.concatenate([[0], np.cumsum(values)])
    return np.diff(so_far[np.cumsum(counts, dtype=np.int64)], prepend=0)


def _is_word_by_word(config: dict[str, object]) -> bool:
    """Whether the tokenizer is BERT's: split at blanks and punctuation, then into word pieces."""
    kinds = [
        part.get("type") if isinstance(part := config.get(name), dict) else None
        for name in ("normalizer", "pre_tokenizer", "model")
    ]
    return kinds == ["BertNormalizer", "BertPreTokenizer", "WordPiece"]


def _is_plain(added: dict[str, object]) -> bool:
    """Whether an added token can be found by comparing bytes and never extends beyond a word.

    Normalisation makes "[CAFÉ]" match "[cafe]", and a non-breaking space a blank; of visible ASCII
    it changes only the case. Other text can become such a token, as "[café]" becomes "[cafe]", but
    only within a word, and words that are not plain are tokenised one by one.
    """
    looks_around = added["lstrip"] or added["rstrip"] or added["single_word"]
    return PLAIN.fullmatch(str(added["content"]).encode()) is not None and not looks_around
