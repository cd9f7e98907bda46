"""Cached vectors of a frozen encoder: each corpus is encoded once and kept on disk.

Shapes: S sequences, D width.
"""

import hashlib
import json
import os
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from cotrunk.data.batches.text import PairFormat, Template, pack_rows
from cotrunk.data.tokens.cache import Corpus, CorpusRows
from cotrunk.data.tokens.store import cache_folder, is_intact, storing
from cotrunk.infer.batching import by_batch, row_tokens
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.partition import Group, group_name
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress

FORMAT = 4
VECTORS = ".f32"
Vectors = dict[str, list[np.ndarray]]
"""Vectors of some rows by group name: for each side [rows, D]."""


@dataclass(frozen=True)
class Features:
    """The encoder's vectors of a corpus, memory-mapped: for each group [sides x rows, D].

    Side s of row r is vector ``s * rows + r``.
    """

    vectors: Mapping[Group, np.ndarray]
    rows: int
    sides: int
    swapped: bool


@dataclass(frozen=True)
class CorpusEncoding:
    """A task's rows, and how they are encoded."""

    network: Network
    task: str
    corpus: Corpus
    pair_format: PairFormat
    template: Template

    @property
    def sides(self) -> int:
        pair_format = self.pair_format
        return (
            2 if pair_format.texts == 2 and (pair_format.swapped or not pair_format.joined) else 1
        )

    @property
    def size(self) -> tuple[int, int]:
        """Shape of a group's vectors."""
        return self.sides * len(self.corpus), self.network.shape.width

    def digest(self, encoder: str) -> str:
        """A hash of everything the vectors depend on; ``encoder`` is that of its parameters."""
        network = self.network
        needed = network.needed_by([self.task])
        poolings = {name: network.head_plans[name].pooling for name in needed}
        parts = [
            encoder,
            asdict(network.shape),
            self.corpus.key,
            asdict(self.pair_format),
            poolings,
            {p.name: p.options for p in network.plan.places if p.encodes and p.options},
        ]
        return hashlib.sha256(json.dumps([FORMAT, *parts], sort_keys=True).encode()).hexdigest()

    def batches(self) -> Generator[tuple[np.ndarray, Vectors]]:
        """Yields row numbers and their vectors."""
        rows = CorpusRows(self.corpus)
        device = next(self.network.parameters()).device

        @torch.inference_mode()
        def encode(chosen: np.ndarray) -> Vectors:
            text, sides = pack_rows(self.template, [rows[row] for row in chosen], self.pair_format)
            pooled = self.network.encode(text.to(device), [self.task], NO_DROPOUT)
            return {
                group_name(group): [x_SD[at.to(device)].cpu().numpy() for at in sides.places]
                for group, x_SD in pooled.items()
            }

        return by_batch(encode, row_tokens(rows, self.pair_format, self.template), device)


def encoder_digest(network: Network) -> str:
    """A hash of all parameters that the pooled vectors depend on."""
    digest = hashlib.sha256()
    tensors = {
        f"{place.prefix(owned.owners[name])}.{key}": tensor
        for place, owned in network.places()
        if place.encodes
        for name, copy in owned.items()
        for key, tensor in copy.state_dict().items()
    }
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def encode_corpus(
    encoding: CorpusEncoding, encoder: str, *, on_progress: OnProgress = ignore_progress
) -> Features:
    """The vectors of a corpus, from the cache if they are there."""
    folder = _folder(encoding, encoder)
    if not is_intact(folder):
        with storing(folder) as beside:
            _encode(encoding, beside, on_progress)
    vectors = {
        frozenset(path.stem.split("+")): np.memmap(path, np.float32, mode="r", shape=encoding.size)
        for path in sorted(folder.glob(f"*{VECTORS}"))
    }
    pair_format = encoding.pair_format
    swapped = pair_format.texts == 2 and pair_format.joined and pair_format.swapped
    return Features(vectors, len(encoding.corpus), encoding.sides, swapped)


def is_encoded(encoding: CorpusEncoding, encoder: str) -> bool:
    """Whether the vectors of a corpus are in the cache; they are verified when they are opened."""
    return _folder(encoding, encoder).is_dir()


def _folder(encoding: CorpusEncoding, encoder: str) -> Path:
    return cache_folder() / "features" / encoding.digest(encoder)


def _encode(encoding: CorpusEncoding, folder: Path, on_progress: OnProgress) -> None:
    files: dict[str, np.memmap] = {}
    rows, done = len(encoding.corpus), 0
    with closing(encoding.batches()) as batches:
        for chosen, vectors in batches:
            for name, of_sides in vectors.items():
                if name not in files:
                    files[name] = _create(folder / f"{name}{VECTORS}", encoding.size)
                for side, vector in enumerate(of_sides):
                    files[name][side * rows + chosen] = vector
            done += len(chosen)
            on_progress(ProgressUpdate(f"encoding {encoding.task}", len(chosen), done / rows))
    for file in files.values():
        file.flush()


def _create(path: Path, size: tuple[int, int]) -> np.memmap:
    if hasattr(os, "posix_fallocate"):
        # Without its space, a mapped file on a full disk kills the process when it is written.
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 4 * size[0] * size[1])
        return np.memmap(path, np.float32, "r+", shape=size)
    return np.memmap(path, np.float32, "w+", shape=size)
