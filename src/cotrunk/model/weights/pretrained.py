"""Loads an encoder by name, folder, or Hugging Face id."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import Shape, tensor_sizes
from cotrunk.model.weights.files import digest, read_tensors, weight_files
from cotrunk.model.weights.finite import not_finite
from cotrunk.model.weights.hub import hub_folder
from cotrunk.model.weights.locate import (
    MINILM,
    MINILM_SHA256,
    folder_shape,
    local_folder,
    place_of,
    random_shape,
)
from cotrunk.model.weights.rename import (
    from_hugging_face,
    masked_head_problem,
    to_hugging_face,
)
from cotrunk.model.weights.tokenizer import character_tokenizer, read_tokenizer, tokenizer_file

__all__ = ["Pretrained", "find", "from_hugging_face", "load_tokenizer", "to_hugging_face"]

MOST_BYTES_PER_PARAMETER, MOST_OTHER_BYTES = 32, 64 * 2**20


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A loaded encoder: its shape, its tensors under our names, and its tokenizer file.

    ``tensors`` is empty for random weights. It has no ``pooler.*`` if the files have none, and no
    ``mlm.*`` (the head for masked words) if ``masked_head_problem`` gives a reason.
    ``tokenizer`` is a tokenizer.json, vocab.txt or vocab.json; None for random weights.
    ``digest`` is the SHA-256 of the weights; empty for random weights.
    """

    name: str
    shape: Shape
    tensors: dict[str, Tensor] = field(repr=False)
    tokenizer: Path | None
    digest: str
    masked_head_problem: str | None = "the weights are random"


def find(weights: str, *, base: Path) -> Pretrained:
    """The encoder that ``weights`` names; folders are relative to ``base``."""
    if (shape := random_shape(weights)) is not None:
        return Pretrained(weights, shape, tensors={}, tokenizer=None, digest="")
    folder = local_folder(weights, base=base) or hub_folder(weights, place_of(weights))
    shape, files = folder_shape(folder), weight_files(folder)
    _refuse_oversized(files, shape)
    found = digest(files)
    if weights == MINILM and found != MINILM_SHA256:
        raise UserError(
            f"{folder}: the weights have SHA-256 {found} instead of {MINILM_SHA256}; "
            "remove them, and run: cotrunk weights minilm"
        )
    published = read_tensors(files)
    tensors = from_hugging_face(published, shape, str(folder))
    if broken := not_finite(tensors):
        raise UserError(f"{folder}: {broken}; the weights are damaged: get them again")
    return Pretrained(
        weights,
        shape,
        tensors=tensors,
        tokenizer=tokenizer_file(folder),
        digest=found,
        masked_head_problem=masked_head_problem(published, shape),
    )


def _refuse_oversized(files: Sequence[Path], shape: Shape) -> None:
    """Checked before reading: published files hold at most the encoder, a head and its copy."""
    size = sum(file.stat().st_size for file in files)
    parameters = sum(math.prod(sizes) for sizes in tensor_sizes(shape).values())
    if size > MOST_BYTES_PER_PARAMETER * parameters + MOST_OTHER_BYTES:
        raise UserError(
            f"{files[0]}: has {size:,} bytes, far too many for the {parameters:,} parameters "
            "that config.json describes"
        )


def load_tokenizer(pretrained: Pretrained) -> Tokenizer:
    """The encoder's tokenizer, without truncation and padding."""
    if pretrained.tokenizer is None:
        return character_tokenizer(pretrained.shape.family)
    return read_tokenizer(pretrained.tokenizer, vocabulary=pretrained.shape.vocabulary)
