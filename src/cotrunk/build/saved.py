"""The kinds and splits of a saved network, read without loading its weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotrunk.build.tasks import tasks_of
from cotrunk.config.check import check_settings
from cotrunk.data.reading.splits import Splits, splits_of
from cotrunk.errors import UserError
from cotrunk.kinds import KINDS, Kind

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
