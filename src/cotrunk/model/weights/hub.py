"""A model's files from Hugging Face: from the local cache, else downloaded."""

from collections.abc import Sequence
from pathlib import Path

from cotrunk.errors import UserError, did_you_mean
from cotrunk.model.weights.files import INDEX, WEIGHTS, conversion, weight_files
from cotrunk.model.weights.tokenizer import tokenizer_file

CONFIG = "config.json"
HUB_FILES = [
    CONFIG,
    WEIGHTS,
    "model-*-of-*.safetensors",
    INDEX,
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
]
NAMES = "give minilm, the id of a Hugging Face model (owner/name) or a folder"
SECONDS_TO_ANSWER = 5.0


def hub_folder(model: str, place: str) -> Path:
    """The folder of a model's snapshot. A cached one needs no network."""
    folder = _cached(model)
    if folder is None or not _is_complete(folder):
        folder = _downloaded(model, place)
    if not _has_weights(folder):
        target = "./" + model.rpartition("/")[2]
        raise UserError(
            f"{place}: the model has no {WEIGHTS}; convert it once with: "
            f"{conversion(model, target)}"
        )
    return folder


def hub_config(model: str, place: str) -> Path:
    """A model's config.json alone, without its weights."""
    folder = _cached(model)
    if folder is not None and (folder / CONFIG).is_file():
        return folder / CONFIG
    return _downloaded(model, place, files=[CONFIG]) / CONFIG


def _cached(model: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, allow_patterns=HUB_FILES, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def _downloaded(model: str, place: str, *, files: Sequence[str] = HUB_FILES) -> Path:
    try:
        return download(model, files=files)
    except UserError as error:
        fix = "" if "/" in model else did_you_mean(model, ["minilm"]) or f"; {NAMES}"
        raise UserError(
            f"{place}: is not a folder, and cannot be taken from Hugging Face: {error}{fix}"
        ) from error


def download(model: str, *, files: Sequence[str] = HUB_FILES) -> Path:
    """The folder of a model's newest snapshot; needs the network."""
    from huggingface_hub import HfApi, snapshot_download

    try:
        # First, because it has a timeout: an unreachable hub is found in seconds.
        commit = HfApi().model_info(model, timeout=SECONDS_TO_ANSWER).sha
        return Path(snapshot_download(model, revision=commit, allow_patterns=list(files)))
    except Exception as error:  # the hub's HTTP library and its errors have changed twice
        raise UserError(_reason(error)) from error


def _reason(error: Exception) -> str:
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    match error:
        case HFValidationError():
            return "its name must have the form owner/name"
        case GatedRepoError():
            return "it is gated: request access on its page, then run: hf auth login"
        case RepositoryNotFoundError():
            return "it does not exist or is private"
        case OfflineModeIsEnabled():
            return "it is not in the local cache, and HF_HUB_OFFLINE is set"
    said = (str(error).splitlines() or [""])[0]
    return f"it is not in the local cache and cannot be downloaded ({said})"


def _is_complete(folder: Path) -> bool:
    """Other programs may have downloaded only some of the files."""
    try:
        weight_files(folder)
        tokenizer_file(folder)
    except UserError:
        return False
    return (folder / CONFIG).is_file()


def _has_weights(folder: Path) -> bool:
    return (folder / WEIGHTS).is_file() or (folder / INDEX).is_file()
