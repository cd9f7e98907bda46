"""From rows to a task's outputs: through the whole network, or from cached vectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cotrunk.data.cache import Corpus, CorpusRows
from cotrunk.data.packing import Sides
from cotrunk.data.text import Template, View, lay_out
from cotrunk.done import Done, Tell, untold
from cotrunk.learn.evaluate import outputs, row_tokens
from cotrunk.learn.features import Features
from cotrunk.model.network import Network, Shift, unmoved
from cotrunk.model.noise import SILENCE, Noise
from cotrunk.model.owned import States

ROWS_PER_BATCH = 4096


class Forward(Protocol):
    """How a task's rows, by number, become its outputs."""

    def tokens(self, task: str, rows: np.ndarray) -> np.ndarray:
        """How many of each row go through the encoder."""
        ...

    def output(
        self, task: str, rows: np.ndarray, noise: Noise, shift: Shift = unmoved
    ) -> Tensor: ...

    def outputs(self, task: str, *, tell: Tell = untold) -> np.ndarray: ...


@dataclass(frozen=True)
class Live:
    """Every row goes through the whole network."""

    network: Network
    corpora: Mapping[str, Corpus]
    views: Mapping[str, View]
    template: Template
    device: torch.device

    def tokens(self, task: str, rows: np.ndarray) -> np.ndarray:
        pieces = [self.corpora[task].pieces(row) for row in rows.tolist()]
        return row_tokens(pieces, self.views[task], self.template)

    def output(self, task: str, rows: np.ndarray, noise: Noise, shift: Shift = unmoved) -> Tensor:
        pieces = [self.corpora[task].pieces(row) for row in rows.tolist()]
        text, sides = lay_out(self.template, pieces, self.views[task])
        fast = self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=fast):
            out = self.network(text.to(self.device), sides.to(self.device), [task], noise, shift)
        return out[task].float()

    def outputs(self, task: str, *, tell: Tell = untold) -> np.ndarray:
        rows = CorpusRows(self.corpora[task])
        found = outputs(self.network, rows, self.views[task], self.template, [task], tell=tell)
        return found[task]


@dataclass(frozen=True)
class Cached:
    """The encoder is frozen, so each text was encoded once; only neck and heads are computed."""

    network: Network
    features: Mapping[str, Features]
    device: torch.device

    def tokens(self, task: str, rows: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return np.zeros(len(rows), np.int64)

    def output(self, task: str, rows: np.ndarray, noise: Noise, shift: Shift = unmoved) -> Tensor:
        assert shift is unmoved, "there are no embeddings to shift when vectors are cached"
        kept = self.features[task]
        places = torch.arange(kept.sides * len(rows), device=self.device).split(len(rows))
        chosen = np.concatenate([side * kept.rows + rows for side in range(kept.sides)])
        pooled: States = {
            group: torch.from_numpy(vectors[chosen]).to(self.device)
            for group, vectors in kept.vectors.items()
        }
        sides = Sides(tuple(places), kept.swapped)
        return self.network.answer(pooled, sides, [task], noise)[task]

    @torch.inference_mode()
    def outputs(self, task: str, *, tell: Tell = untold) -> np.ndarray:
        rows, found = self.features[task].rows, []
        for first in range(0, rows, ROWS_PER_BATCH):
            chosen = np.arange(first, min(first + ROWS_PER_BATCH, rows))
            found.append(self.output(task, chosen, SILENCE).cpu().numpy())
            tell(Done(f"answering {task}", len(chosen), (first + len(chosen)) / rows))
        return np.concatenate(found)
