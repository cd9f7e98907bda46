"""What is computed from the texts of some rows, here or in another process."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from cotrunk.data.tokens.tokenise import Tokeniser

BETWEEN_TEXTS = "\0"
"""No checked text holds it."""


@dataclass(frozen=True)
class Encoded:
    """Token ids of all texts end to end, the length of each text, the fingerprint of each row."""

    token: NDArray[np.uint32]
    length: NDArray[np.int64]
    fingerprint: NDArray[np.uint64]

    def send(self, file: IO[bytes]) -> None:
        for array in (self.token, self.length, self.fingerprint):
            send(file, array.tobytes())

    @classmethod
    def receive(cls, file: IO[bytes]) -> Self:
        return cls(
            np.frombuffer(receive(file), np.uint32),
            np.frombuffer(receive(file), np.int64),
            np.frombuffer(receive(file), np.uint64),
        )


def encode(tokenise: Tokeniser, texts: Sequence[str], texts_per_row: int) -> Encoded:
    """Of rows whose texts are given one after the other."""
    ids = tokenise.flat(texts)
    rows = zip(*(texts[side::texts_per_row] for side in range(texts_per_row)), strict=True)
    return Encoded(ids.flat, ids.length, fingerprints(rows))


def fingerprints(rows: Iterable[Sequence[str]]) -> NDArray[np.uint64]:
    """A number for each row's texts, whatever their case, blanks and, of a pair, their order."""
    folded = (sorted([" ".join(text.casefold().split()) for text in row]) for row in rows)
    digests = [blake2b("\0".join(texts).encode(), digest_size=8).digest() for texts in folded]
    return np.frombuffer(b"".join(digests), np.uint64)


def send(file: IO[bytes], message: bytes) -> None:
    file.write(len(message).to_bytes(8))
    file.write(message)


def receive(file: IO[bytes]) -> bytes:
    """The next message; ``EOFError`` if the other side has gone."""
    size = file.read(8)
    message = file.read(int.from_bytes(size))
    if len(size) < 8 or len(message) < int.from_bytes(size):
        raise EOFError
    return message
