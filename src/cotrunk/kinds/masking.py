"""Dynamic masking for masked language modelling (Devlin et al. 2019), in numpy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cotrunk import late_numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

REPLACED_BY_MASK, REPLACED_AT_RANDOM = 0.8, 0.1
"""Shares of the chosen tokens; the rest keep their id, so the encoder cannot rely on the mask."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """What masking needs to know about a tokenizer; the arrays are indexed by token id.

    ``size`` is the number of word embeddings, which may exceed that of tokens: ids without a token
    count as special and are never drawn. ``mask`` is None if the tokenizer has no mask token.
    ``continues``: the token is not the first piece of a word.
    """

    size: int
    mask: int | None
    is_special: NDArray[np.bool_]
    continues: NDArray[np.bool_]

    @cached_property
    def plain(self) -> NDArray[np.int64]:
        """The ids that may be masked, or drawn as random replacements."""
        return np.flatnonzero(~self.is_special)


def make_vocabulary(
    ids: Mapping[str, int],
    *,
    special: Collection[str],
    mask: str | None,
    size: int,
    inside: str = "",
    begin: str = "",
) -> Vocabulary:
    """All but the first piece of a word start with ``inside`` ("##"), or all first pieces start
    with ``begin`` ("Ġ"). With neither, each token is a word.
    """
    is_special, continues = np.ones(size, np.bool_), np.zeros(size, np.bool_)
    for token, number in ids.items():
        is_special[number] = token in special
        if token not in special:
            continues[number] = token.startswith(inside) if inside else not token.startswith(begin)
    return Vocabulary(size, None if mask is None else ids[mask], is_special, continues)


@dataclass(frozen=True, eq=False)
class MaskedText:
    """A text with some tokens replaced; ``target`` has the original ids at positions ``site``."""

    ids: NDArray[np.integer]
    site: NDArray[np.int64]
    target: NDArray[np.int64]


def mask_texts(
    texts: Sequence[NDArray[np.integer]],
    vocabulary: Vocabulary,
    random: np.random.Generator,
    *,
    rate: float = 0.15,
    whole_words: bool = False,
) -> list[MaskedText]:
    """Mask a share ``rate`` of each text's tokens (or of its words, with all their pieces).

    Of n, ``rate * n`` are chosen, rounded up or down at random so that the mean is exact, but at
    least one. Special tokens are neither chosen nor drawn. Texts of special tokens only have no
    site.
    """
    if not texts:
        return []
    length = np.array([len(text) for text in texts])
    text_T = np.repeat(np.arange(len(texts)), length)
    id_T = np.concatenate(texts)
    position_T = np.arange(len(id_T)) - np.repeat(np.cumsum(length) - length, length)
    is_plain_T = ~vocabulary.is_special[id_T]

    unit_T = np.arange(len(id_T))
    if whole_words:
        unit_T = _words(id_T, position_T, is_plain_T, vocabulary)
    is_chosen_T = np.zeros(len(id_T), np.bool_)
    is_chosen_T[is_plain_T] = _choose(text_T[is_plain_T], unit_T[is_plain_T], random, rate)

    (chosen,) = np.nonzero(is_chosen_T)
    masked_T = id_T.copy()
    masked_T[chosen] = _replaced(id_T[chosen], vocabulary, random)
    cut_tokens = np.cumsum(length)[:-1]
    cut_sites = np.searchsorted(text_T[chosen], np.arange(1, len(texts)))
    return [
        MaskedText(ids, site, target)
        for ids, site, target in zip(
            np.split(masked_T, cut_tokens),
            np.split(position_T[chosen], cut_sites),
            np.split(id_T[chosen].astype(np.int64), cut_sites),
            strict=True,
        )
    ]


def _words(
    id_T: NDArray[np.integer],
    position_T: NDArray[np.int64],
    is_plain_T: NDArray[np.bool_],
    vocabulary: Vocabulary,
) -> NDArray[np.int64]:
    """The word number of each token. Words end at text boundaries and special tokens."""
    after_special_T = np.concatenate([[True], ~is_plain_T[:-1]])[: len(id_T)]
    begins_T = ~vocabulary.continues[id_T] | (position_T == 0) | after_special_T | ~is_plain_T
    return np.cumsum(begins_T) - 1


def _choose(
    text_N: NDArray[np.int64],
    unit_N: NDArray[np.int64],
    random: np.random.Generator,
    rate: float,
) -> NDArray[np.bool_]:
    """Which tokens belong to a chosen unit; ``text_N`` and ``unit_N`` are sorted."""
    _, first_U, unit_N = np.unique(unit_N, return_index=True, return_inverse=True)
    text_U = text_N[first_U]
    units = np.bincount(text_U, minlength=1)
    quota = np.floor(rate * units + random.random(len(units)))
    quota = np.maximum(quota, 1)
    shuffled = np.lexsort((random.random(len(text_U)), text_U))
    rank_U = np.empty(len(text_U), np.int64)
    rank_U[shuffled] = np.arange(len(text_U)) - np.repeat(np.cumsum(units) - units, units)
    return (rank_U < quota[text_U])[unit_N]


def _replaced(
    id_N: NDArray[np.integer], vocabulary: Vocabulary, random: np.random.Generator
) -> NDArray[np.integer]:
    assert vocabulary.mask is not None, "a tokenizer without a mask token is refused earlier"
    lot_N = random.random(len(id_N))
    drawn_N = random.choice(vocabulary.plain, len(id_N)) if len(id_N) else id_N
    is_random_N = lot_N < REPLACED_BY_MASK + REPLACED_AT_RANDOM
    return np.where(lot_N < REPLACED_BY_MASK, vocabulary.mask, np.where(is_random_N, drawn_N, id_N))
