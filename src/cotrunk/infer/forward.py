"""From rows to a task's outputs: through the whole network, or from cached vectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cotrunk.data.batches.packing import RowIndex
from cotrunk.data.batches.text import PairFormat, Template, pack_rows
from cotrunk.data.tokens.cache import Corpus, CorpusRows
from cotrunk.infer.batching import outputs, row_tokens
from cotrunk.infer.features import Features
from cotrunk.model.encoder.dropout import NO_DROPOUT, DropoutStream
from cotrunk.model.sharing.network import Network, Perturb, identity
from cotrunk.model.sharing.owned import States
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress

ROWS_PER_BATCH = 4096


class Forward(Protocol):
    """How a task's rows, by number, become its outputs."""

    def tokens(self, task: str, rows: np.ndarray) -> np.ndarray:
        """How many of each row go through the encoder."""
        ...

    def output(
        self, task: str, rows: np.ndarray, masks: DropoutStream, perturb: Perturb = identity
    ) -> Tensor: ...

    def outputs(self, task: str, *, on_progress: OnProgress = ignore_progress) -> np.ndarray: ...


@dataclass(frozen=True)
class Live:
    """Every row goes through the whole network."""

    network: Network
    corpora: Mapping[str, Corpus]
    pair_formats: Mapping[str, PairFormat]
    template: Template
    device: torch.device

    def tokens(self, task: str, rows: np.ndarray) -> np.ndarray:
        pieces = [self.corpora[task].pieces(row) for row in rows.tolist()]
        return row_tokens(pieces, self.pair_formats[task], self.template)

    def output(
        self, task: str, rows: np.ndarray, masks: DropoutStream, perturb: Perturb = identity
    ) -> Tensor:
        pieces = [self.corpora[task].pieces(row) for row in rows.tolist()]
        text, index = pack_rows(self.template, pieces, self.pair_formats[task])
        fast = self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=fast):
            out = self.network(text.to(self.device), index.to(self.device), [task], masks, perturb)
        return out[task].float()

    def outputs(self, task: str, *, on_progress: OnProgress = ignore_progress) -> np.ndarray:
        rows = CorpusRows(self.corpora[task])
        found = outputs(
            self.network,
            rows,
            self.pair_formats[task],
            self.template,
            [task],
            on_progress=on_progress,
        )
        return found[task]


@dataclass(frozen=True)
class Cached:
    """The encoder is frozen, so each text was encoded once; only neck and heads are computed."""

    network: Network
    features: Mapping[str, Features]
    device: torch.device

    def tokens(self, task: str, rows: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return np.zeros(len(rows), np.int64)

    def output(
        self, task: str, rows: np.ndarray, masks: DropoutStream, perturb: Perturb = identity
    ) -> Tensor:
        assert perturb is identity, "there are no embeddings to shift when vectors are cached"
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
        rows, found = self.features[task].rows, []
        for first in range(0, rows, ROWS_PER_BATCH):
            chosen = np.arange(first, min(first + ROWS_PER_BATCH, rows))
            found.append(self.output(task, chosen, NO_DROPOUT).cpu().numpy())
            on_progress(
                ProgressUpdate(f"answering {task}", len(chosen), (first + len(chosen)) / rows)
            )
        return np.concatenate(found)
