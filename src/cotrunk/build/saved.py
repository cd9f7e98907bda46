"""What a saved network says about its tasks, without loading it."""

from collections.abc import Mapping
from typing import Any

from cotrunk.build.tasks import tasks_of
from cotrunk.config.settings import check_settings
from cotrunk.kinds import KINDS, Kind


def saved_kinds(
    settings: Mapping[str, Any], *, place: str, kinds: Mapping[str, type[Kind]] = KINDS
) -> dict[str, Kind]:
    """The fitted kinds of the tasks, from the ``settings`` document of a saved network."""
    checked = check_settings(dict(settings), place=place, kinds=kinds)
    return {task.name: task.labels for task in tasks_of(checked, kinds)}
