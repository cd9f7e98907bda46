"""Rows loaded from a corpus, before they are packed for an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cotrunk import late_numpy as np

TokenIds: TypeAlias = "tuple[np.ndarray, ...]"
"""The token ids of a row's one or two texts, without special tokens."""


@dataclass(frozen=True, eq=False)
class LoadedRows:
    """Rows of one task; ``rows`` are their numbers in the corpus.

    ``tokens_R`` is the cost of each row in tokens. A row's entry in ``targets`` is empty if it has
    no label. ``sites`` (for tasks about tokens) are indices into a row's token ids, its texts
    concatenated, one per target; -1 is a word without a token.
    """

    task: str
    rows: np.ndarray
    pieces: Sequence[TokenIds]
    tokens_R: np.ndarray
    targets: Sequence[np.ndarray]
    sites: Sequence[np.ndarray] | None = None

    @classmethod
    def without_labels(
        cls, pieces: Sequence[TokenIds], sites: Sequence[np.ndarray] | None = None
    ) -> LoadedRows:
        """Rows that are not from a corpus, for prediction only; their ``tokens_R`` are 0."""
        count = len(pieces)
        none = [np.zeros(0)] * count
        return cls("", np.arange(count), pieces, np.zeros(count, np.int64), none, sites)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def units_R(self) -> np.ndarray:
        """How many units each row has: its sites, or 1."""
        if self.sites is None:
            return np.ones(len(self), np.int64)
        return np.fromiter(map(len, self.sites), np.int64, len(self))

    @property
    def target(self) -> np.ndarray:
        """The targets of all rows, concatenated."""
        flat = np.concatenate(self.targets) if len(self.targets) else np.zeros(0)
        return flat.astype(np.float32)

    def select(self, chosen: np.ndarray) -> LoadedRows:
        """Some of these rows, by index."""
        at = chosen.tolist()
        return LoadedRows(
            self.task,
            self.rows[chosen],
            [self.pieces[row] for row in at] if self.pieces else (),
            self.tokens_R[chosen],
            [self.targets[row] for row in at],
            None if self.sites is None else [self.sites[row] for row in at],
        )

    @staticmethod
    def joined(parts: Sequence[LoadedRows]) -> LoadedRows:
        """Concatenated rows of one task."""
        sites = [part.sites for part in parts if part.sites is not None]
        return LoadedRows(
            parts[0].task,
            np.concatenate([part.rows for part in parts]),
            [pieces for part in parts for pieces in part.pieces],
            np.concatenate([part.tokens_R for part in parts]),
            [target for part in parts for target in part.targets],
            [site for some in sites for site in some] if sites else None,
        )

    def at_sites(self, kept: Sequence[np.ndarray]) -> LoadedRows:
        """Only the sites that ``kept`` marks in each row, with their targets."""
        assert self.sites is not None
        sites = [site[mark] for site, mark in zip(self.sites, kept, strict=True)]
        targets = [
            target[mark] if len(target) else target
            for target, mark in zip(self.targets, kept, strict=True)
        ]
        return replace(self, sites=sites, targets=targets)
