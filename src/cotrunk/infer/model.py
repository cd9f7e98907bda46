"""A trained network with its tokenizer and data formats."""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import Tokenizer

from cotrunk.data.batches.text import PairFormat, Template
from cotrunk.data.reading.examples import Source
from cotrunk.model.sharing.network import Network


@dataclass(frozen=True)
class Model:
    """``sources``: by split and task, the labelled files it was trained and evaluated on, which may
    no longer exist. ``unlabelled``: how each task reads a file without labels.
    """

    network: Network
    tokenizer: Tokenizer
    template: Template
    pair_formats: Mapping[str, PairFormat]
    sources: Mapping[str, Mapping[str, tuple[Source, ...]]]
    unlabelled: Mapping[str, Source]
