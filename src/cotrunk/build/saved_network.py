"""A saved network's plan, tasks and files, read without its weights and without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotrunk.build.heads import head_plans
from cotrunk.build.plan import plan_of
from cotrunk.build.saved import saved_splits
from cotrunk.build.sources import Sources, sources_of
from cotrunk.build.tasks import tasks_of
from cotrunk.config.check import check_settings
from cotrunk.data.reading.splits import Splits
from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import shape_of_saved
from cotrunk.model.sharing.plan import Plan
from cotrunk.runs.checkpoint import read_arrays, read_documents


@dataclass(frozen=True)
class SavedNetwork:
    """``reads``: the tasks whose outputs the head of a task reads, for tasks that read any."""

    plan: Plan
    tasks: Mapping[str, Task]
    sources: Sources
    reads: Mapping[str, tuple[str, ...]]


def read_saved_network(folder: Path) -> SavedNetwork:
    """``folder`` is the ``best`` or ``final`` of a run."""
    documents = read_documents(folder)
    settings = check_settings(documents["settings"], place=f"{folder}/settings.json")
    shape = shape_of_saved(documents["config"], f"{folder}/config.json")
    tasks = tasks_of(settings)
    return SavedNetwork(
        plan_of(settings, shape, tasks, head_plans(settings, tasks)),
        {task.name: task for task in tasks},
        sources_of(settings, tasks, Path(documents["base"]), _splits(folder)),
        {name: tuple(part.reads) for name, part in settings.tasks.items() if part.reads},
    )


def _splits(folder: Path) -> Splits | None:
    if not (folder / "splits.safetensors").exists():
        return None
    return saved_splits(read_arrays(folder, "splits"), folder)
