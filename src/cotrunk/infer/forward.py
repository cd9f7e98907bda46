"""From rows to a task's outputs: through the whole network, or from cached vectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cotrunk.data.batches.packing import RowIndex
from cotrunk.data.batches.text import PairFormat, Template, pack_rows, visible_sites
from cotrunk.data.tokens.cache import Corpus, CorpusRows
from cotrunk.infer.batching import outputs, row_tokens
from cotrunk.infer.features import Features
from cotrunk.kinds.rows import LoadedRows
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.sharing.network import Network, Perturb, identity
from cotrunk.model.sharing.owned import States
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress

ROWS_PER_BATCH = 4096
EVALUATION = 0x6465
"""Takes the place of the seed in the random key, so that every evaluation is the same."""
RandomKey = tuple[int, ...]
"""Seeds the random choices of kinds that prepare their rows, such as masking."""


class Forward(Protocol):
    """From a task's row numbers to its outputs."""

    def load(self, task: str, rows: np.ndarray, random_key: RandomKey) -> LoadedRows:
        """Read some rows for a training step."""
        ...

    def output(
        self, rows: LoadedRows, masks: DropoutStream, perturb: Perturb = identity
    ) -> Tensor: ...

    def outputs(self, task: str, *, on_progress: OnProgress = ignore_progress) -> np.ndarray:
        """The evidence for every row or site, in row order."""
        ...


@dataclass(frozen=True)
class Live:
    """Runs every row through the whole network."""

    network: Network
    corpora: Mapping[str, Corpus]
    pair_formats: Mapping[str, PairFormat]
    template: Template
    device: torch.device

    def load(self, task: str, rows: np.ndarray, random_key: RandomKey) -> LoadedRows:
        """Without truncated sites, which have no output."""
        labels, read = self.network.tasks[task].labels, self._read(task, rows)
        return self._visible(labels.prepared(read, np.random.default_rng(random_key)))

    def _load_for_evaluation(self, task: str, rows: np.ndarray) -> LoadedRows:
        """The random choices for a row depend only on its number, not on its batch or the step.

        Sites of the corpus are kept even if truncated, because the caller expects all of them.
        """
        labels, read = self.network.tasks[task].labels, self._read(task, rows)
        if not labels.prepares_rows:
            return read
        each = [
            labels.prepared(read.select(np.array([at])), np.random.default_rng((EVALUATION, row)))
            for at, row in enumerate(rows.tolist())
        ]
        return self._visible(LoadedRows.joined(each))

    def _read(self, task: str, rows: np.ndarray) -> LoadedRows:
        corpus = self.corpora[task]
        pieces = [corpus.pieces(row) for row in rows.tolist()]
        tokens_R = row_tokens(pieces, self.pair_formats[task], self.template)
        return LoadedRows(task, rows, pieces, tokens_R, corpus.targets(rows), corpus.sites(rows))

    def _visible(self, rows: LoadedRows) -> LoadedRows:
        if rows.sites is None:
            return rows
        return rows.at_sites(visible_sites(self.template, rows, self.pair_formats[rows.task]))

    def output(self, rows: LoadedRows, masks: DropoutStream, perturb: Perturb = identity) -> Tensor:
        pair_format = self.pair_formats[rows.task]
        text, index = pack_rows(self.template, rows.pieces, pair_format, rows.sites)
        fast = self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=fast):
            out = self.network(
                text.to(self.device), index.to(self.device), [rows.task], masks, perturb
            )
        return out[rows.task].float()

    def outputs(self, task: str, *, on_progress: OnProgress = ignore_progress) -> np.ndarray:
        pair_format = self.pair_formats[task]
        found = outputs(
            self.network,
            partial(self._load_for_evaluation, task),
            row_tokens(CorpusRows(self.corpora[task]), pair_format, self.template),
            pair_format,
            self.template,
            [task],
            on_progress=on_progress,
        )
        return found[task]


@dataclass(frozen=True)
class Cached:
    """Runs only neck and heads, on cached vectors of a frozen encoder.

    Token-level tasks have no cached vectors and use ``live``.
    """

    network: Network
    features: Mapping[str, Features]
    live: Live
    device: torch.device

    def load(self, task: str, rows: np.ndarray, random_key: RandomKey) -> LoadedRows:
        if task not in self.features:
            return self.live.load(task, rows, random_key)
        targets = self.live.corpora[task].targets(rows)
        return LoadedRows(task, rows, (), np.zeros(len(rows), np.int64), targets)

    def output(self, rows: LoadedRows, masks: DropoutStream, perturb: Perturb = identity) -> Tensor:
        if rows.task not in self.features:
            return self.live.output(rows, masks, perturb)
        assert perturb is identity, "cached vectors have no embeddings to perturb"
        return self._answer(rows.task, rows.rows, masks)

    def _answer(self, task: str, rows: np.ndarray, masks: DropoutStream) -> Tensor:
        kept = self.features[task]
        places = torch.arange(kept.sides * len(rows), device=self.device).split(len(rows))
        chosen = np.concatenate([side * kept.rows + rows for side in range(kept.sides)])
        pooled: States = {
            group: torch.from_numpy(vectors[chosen]).to(self.device)
            for group, vectors in kept.vectors.items()
        }
        index = RowIndex(tuple(places), kept.swapped)
        return self.network.answer(pooled, index, [task], masks)[task]

    @torch.inference_mode()
    def outputs(self, task: str, *, on_progress: OnProgress = ignore_progress) -> np.ndarray:
        if task not in self.features:
            return self.live.outputs(task, on_progress=on_progress)
        rows, found = self.features[task].rows, []
        for first in range(0, rows, ROWS_PER_BATCH):
            chosen = np.arange(first, min(first + ROWS_PER_BATCH, rows))
            target = torch.from_numpy(self.load(task, chosen, ()).target).to(self.device)
            out = self._answer(task, chosen, NO_DROPOUT)
            found.append(self.network.tasks[task].labels.evidence(out, target).cpu().numpy())
            on_progress(
                ProgressUpdate(f"answering {task}", len(chosen), (first + len(chosen)) / rows)
            )
        return np.concatenate(found)
