"""Counts the rows of one corpus that are also in another."""

import numpy as np
from numpy.typing import NDArray

from cotrunk.data.tokens.cache import Corpus
from cotrunk.data.tokens.store import read_note, write_note

BLOCK = 1 << 16


def shared_rows(train: Corpus, dev: Corpus) -> int:
    """How many rows of ``dev`` are in ``train``, cached for this pair of corpora."""
    pair = f"{train.key}-{dev.key}"
    known = read_note("overlaps", pair)
    if isinstance(known, int):
        return known
    shared = count_shared(train.fingerprint, dev.fingerprint)
    write_note("overlaps", pair, shared)
    return shared


def count_shared(train: NDArray[np.uint64], dev: NDArray[np.uint64]) -> int:
    """Compares fingerprints; ``train`` can be large, so it is read in blocks."""
    known, times = np.unique(dev, return_counts=True)
    seen = np.zeros(len(known), bool)
    for first in range(0, len(train) if len(known) else 0, BLOCK):
        block = np.array(train[first : first + BLOCK])
        at = np.minimum(np.searchsorted(known, block), len(known) - 1)
        seen[at[known[at] == block]] = True
    return int(times[seen].sum())
