"""Token ids and fingerprints of some rows, computed here or in a worker process."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from cotrunk.data.reading.text_hash import row_hash
from cotrunk.data.tokens.tokenise import Tokeniser, sums

BETWEEN_WORDS = "\0"
BETWEEN_TEXTS = "\0\0"
"""Checked texts and words are never empty and never contain NUL."""


@dataclass(frozen=True)
class Encoded:
    """The token ids of all texts, concatenated; each text's length; each row's fingerprint.

    If texts are lists of words, ``site`` is the first token of each word within its text (-1 if it
    has none), and ``words`` is the number of words of each text.
    """

    token: NDArray[np.uint32]
    length: NDArray[np.int64]
    fingerprint: NDArray[np.uint64]
    site: NDArray[np.int32]
    words: NDArray[np.int64]

    def send(self, file: IO[bytes]) -> None:
        for array in (self.token, self.length, self.fingerprint, self.site, self.words):
            send(file, array.tobytes())

    @classmethod
    def receive(cls, file: IO[bytes]) -> Self:
        return cls(
            np.frombuffer(receive(file), np.uint32),
            np.frombuffer(receive(file), np.int64),
            np.frombuffer(receive(file), np.uint64),
            np.frombuffer(receive(file), np.int32),
            np.frombuffer(receive(file), np.int64),
        )


def encode(
    tokenise: Tokeniser, texts: Sequence[str], texts_per_row: int, *, words: bool = False
) -> Encoded:
    """``texts`` has the texts of all rows in order. ``words``: a text is words joined by NUL."""
    if words:
        return _encode_words(tokenise, texts, texts_per_row)
    ids = tokenise.flat(texts)
    none = np.zeros(0, np.int64)
    return Encoded(
        ids.flat, ids.length, _of_rows(texts, texts_per_row), none.astype(np.int32), none
    )


def _encode_words(tokenise: Tokeniser, texts: Sequence[str], texts_per_row: int) -> Encoded:
    counts = [text.count(BETWEEN_WORDS) + 1 for text in texts]
    ids = tokenise.flat(BETWEEN_WORDS.join(texts).split(BETWEEN_WORDS))
    length = sums(ids.length, counts)
    first = np.cumsum(ids.length) - ids.length - np.repeat(np.cumsum(length) - length, counts)
    site = np.where(ids.length > 0, first, -1).astype(np.int32)
    plain = [text.replace(BETWEEN_WORDS, " ") for text in texts]
    return Encoded(ids.flat, length, _of_rows(plain, texts_per_row), site, np.array(counts))


def _of_rows(texts: Sequence[str], texts_per_row: int) -> NDArray[np.uint64]:
    sides = (texts[side::texts_per_row] for side in range(texts_per_row))
    return fingerprints(zip(*sides, strict=True))


def fingerprints(rows: Iterable[Sequence[str]]) -> NDArray[np.uint64]:
    """A hash of each row's texts that ignores case, blanks and the order of a pair."""
    return np.fromiter(map(row_hash, rows), np.uint64)


def send(file: IO[bytes], message: bytes) -> None:
    file.write(len(message).to_bytes(8))
    file.write(message)


def receive(file: IO[bytes]) -> bytes:
    """The next message; ``EOFError`` if the other side has closed the pipe."""
    size = file.read(8)
    message = file.read(int.from_bytes(size))
    if len(size) < 8 or len(message) < int.from_bytes(size):
        raise EOFError
    return message
