"""From the rows of a batch to a task's outputs: through the whole network, or from cached vectors.

Shapes: R rows, O outputs, D width.
"""

import hashlib
import json
import shutil
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cotrunk.data.cache import Corpus, CorpusRows, cache_folder, clear_leftovers
from cotrunk.data.packing import Sides
from cotrunk.data.text import Template, View, lay_out
from cotrunk.done import Done, Tell, untold
from cotrunk.learn.evaluate import by_batch, outputs, row_tokens
from cotrunk.model.network import Network, Shift, unmoved
from cotrunk.model.noise import SILENCE, Noise
from cotrunk.model.owned import States
from cotrunk.model.plan import Group, group_name, is_in_encoder

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
class Features:
    """The encoder's vectors of a corpus, on disk: for each group of tasks [sides x rows, D].

    Side s of row r is vector ``s * rows + r``.
    """

    vectors: Mapping[Group, np.ndarray]
    rows: int
    sides: int
    swapped: bool


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


def encoder_digest(network: Network) -> str:
    """A hash of the frozen part: cached vectors are good for it alone."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        if is_in_encoder(name):
            digest.update(name.encode())
            digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def encode_corpus(
    network: Network,
    encoder: str,
    task: str,
    corpus: Corpus,
    view: View,
    template: Template,
    *,
    tell: Tell = untold,
) -> Features:
    """Each row of a corpus through the encoder once, or from the cache if that was done before."""
    needed = network.needed_by([task])
    poolings = {name: network.head_plans[name].pooling for name in needed}
    spelled = json.dumps(
        [2, encoder, asdict(network.shape), corpus.key, asdict(view), poolings], sort_keys=True
    )
    folder = cache_folder() / "features" / hashlib.sha256(spelled.encode()).hexdigest()
    sides = 2 if view.texts == 2 and (view.swapped or not view.joined) else 1
    shape = (sides * len(corpus), network.shape.width)
    if not _is_whole(folder, shape):
        shutil.rmtree(folder, ignore_errors=True)
        _encode(network, task, corpus, view, template, folder, shape, tell)
    vectors = {
        frozenset(path.stem.split("+")): np.memmap(path, np.float32, mode="r", shape=shape)
        for path in sorted(folder.iterdir())
    }
    swapped = view.texts == 2 and view.joined and view.swapped
    return Features(vectors, len(corpus), sides, swapped)


def _is_whole(folder: Path, shape: tuple[int, int]) -> bool:
    sizes = [path.stat().st_size for path in folder.iterdir()] if folder.is_dir() else []
    return bool(sizes) and set(sizes) == {4 * shape[0] * shape[1]}


def _encode(
    network: Network,
    task: str,
    corpus: Corpus,
    view: View,
    template: Template,
    folder: Path,
    shape: tuple[int, int],
    tell: Tell,
) -> None:
    clear_leftovers(folder.parent)
    beside = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
    beside.mkdir(parents=True)
    device = next(network.parameters()).device
    rows = CorpusRows(corpus)
    files: dict[str, np.memmap] = {}
    done = 0

    @torch.inference_mode()
    def encode(chosen: np.ndarray) -> dict[str, list[np.ndarray]]:
        text, sides = lay_out(template, [rows[row] for row in chosen], view)
        pooled = network.encode(text.to(device), [task], SILENCE)
        return {
            group_name(group): [x_SD[places.to(device)].cpu().numpy() for places in sides.places]
            for group, x_SD in pooled.items()
        }

    try:
        with closing(by_batch(encode, row_tokens(rows, view, template), device)) as batches:
            for chosen, vectors in batches:
                for name, of_sides in vectors.items():
                    if name not in files:
                        place = beside / f"{name}.f32"
                        files[name] = np.memmap(place, np.float32, "w+", shape=shape)
                    for side, vector in enumerate(of_sides):
                        files[name][side * len(corpus) + chosen] = vector
                done += len(chosen)
                tell(Done(f"encoding {task}", len(chosen), done / len(corpus)))
        for file in files.values():
            file.flush()
        try:
            beside.rename(folder)
        except OSError:
            if not folder.exists():  # else another run encoded the same rows meanwhile
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
