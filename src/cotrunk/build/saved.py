"""The kinds, splits and plan of a saved network, read without loading its weights."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotrunk.build.tasks import tasks_of
from cotrunk.config.check import check_settings
from cotrunk.data.reading.splits import Splits, splits_of
from cotrunk.errors import UserError
from cotrunk.files import read_regular
from cotrunk.kinds import KINDS, Kind
from cotrunk.model.encoder.shape import shape_of_saved
from cotrunk.model.weights.locate import local_shape
from cotrunk.runs.checkpoint import MAX_DOCUMENT_BYTES
from cotrunk.runs.folder import RunFolder

if TYPE_CHECKING:
    import numpy as np


def saved_kinds(
    settings: Mapping[str, Any], *, place: str, kinds: Mapping[str, type[Kind]] = KINDS
) -> dict[str, Kind]:
    """The fitted kinds of the tasks, from the ``settings`` document of a saved network."""
    checked = check_settings(dict(settings), place=place, kinds=kinds)
    return {task.name: task.labels for task in tasks_of(checked, kinds)}


def saved_splits(arrays: "Mapping[str, np.ndarray]", folder: Path) -> Splits:
    """The texts held out of training, as chosen when the run started."""
    try:
        return splits_of(arrays)
    except ValueError as error:
        raise UserError(f"{folder}/splits.safetensors: {error}") from None


def encoder_plan(run: RunFolder, record: Mapping[str, Any]) -> str:
    """How the tasks share the layers, as in ``sharing.encoder``; by default they share all."""
    given = record["settings"]["sharing"]["encoder"]
    if given is not None:
        return str(given)
    layers = _layers(run, record)
    return f"S{layers}" if layers else "all layers shared"


def _layers(run: RunFolder, record: Mapping[str, Any]) -> int | None:
    """The layers of the saved network, else of its pretrained weights; None if neither is here."""
    for file in (run.best / "config.json", run.final / "config.json"):
        if config := _json(file):
            return shape_of_saved(config, str(file)).layers
    base = record.get("base")
    if not isinstance(base, str):
        raise UserError(f"{run.settings} was not written by `cotrunk train`: it has no base")
    try:
        shape = local_shape(record["settings"]["encoder"]["weights"], base=Path(base))
    except UserError:  # they were moved since
        return None
    return shape.layers if shape else None


def _json(file: Path) -> Any:
    """None if there is no such file yet."""
    try:
        return json.loads(read_regular(file, MAX_DOCUMENT_BYTES))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} is not JSON: {error}") from error
