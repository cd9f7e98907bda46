"""Hashes of 64 bits by which texts are compared, ignoring case and blanks."""

from collections.abc import Iterable
from hashlib import blake2b


def folded(text: str) -> str:
    """Lower case, with single blanks between words."""
    return " ".join(text.split()).casefold()


def text_hash(text: str) -> int:
    """The hash of exactly this text: fold it first to ignore case and blanks."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def row_hash(texts: Iterable[str]) -> int:
    """The hash of a row's texts, ignoring case, blanks and the order of a pair."""
    return text_hash("\0".join(sorted(map(folded, texts))))
