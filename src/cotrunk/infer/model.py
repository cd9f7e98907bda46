"""A trained network with what it needs to read text."""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import Tokenizer

from cotrunk.data.batches.text import PairFormat, Template
from cotrunk.data.reading.examples import Source
from cotrunk.model.sharing.network import Network


@dataclass(frozen=True)
class Model:
    """``sources``: by split and task, the labelled rows it was trained and measured on, whether
    they are still there or not; a task may read several files. ``unlabelled``: how each task reads
    any file.
    """

    network: Network
    tokenizer: Tokenizer
    template: Template
    pair_formats: Mapping[str, PairFormat]
    sources: Mapping[str, Mapping[str, tuple[Source, ...]]]
    unlabelled: Mapping[str, Source]
