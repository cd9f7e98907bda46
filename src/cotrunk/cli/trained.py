"""Loads the trained run of ``evaluate``, ``predict`` and ``export``."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from cotrunk.build.load import load_model
from cotrunk.cli.damaged import with_advice
from cotrunk.cli.terminal.output import note_unfinished, say
from cotrunk.data.reading.encodings import wrong_encoding
from cotrunk.errors import UserError, did_you_mean
from cotrunk.infer.model import Model
from cotrunk.runs.checkpoint import CheckpointError


def load_run(folder: Path, arguments: Namespace, *, device: str | None = None) -> Model:
    note_unfinished(folder, arguments.which)
    device = device or ("cpu" if arguments.int8 else "auto")
    try:
        return load_model(folder, which=arguments.which, device=device)
    except CheckpointError as error:
        raise with_advice(error, folder, arguments.which) from None


def chosen_tasks(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The tasks of --task, or all."""
    unknown = [name for name in names if name not in known]
    if unknown:
        hint = did_you_mean(unknown[0], known)
        raise UserError(f"--task {unknown[0]}: must be one of {', '.join(known)}{hint}")
    return list(dict.fromkeys(names or known))


def answering_tasks(arguments: Namespace, model: Model) -> list[str]:
    """The tasks of --task, or all that make predictions."""
    tasks = model.network.tasks
    chosen = chosen_tasks(arguments.task, list(tasks))
    silent = [name for name in chosen if not tasks[name].labels.can_answer]
    if arguments.task and silent:
        raise UserError(f"--task {silent[0]}: is only for training and makes no predictions")
    for name in silent:
        say(f"note: {name} is skipped: it is only for training")
    if len(silent) == len(chosen):
        raise UserError(f"{arguments.folder}: none of the run's tasks makes predictions")
    return [name for name in chosen if name not in silent]


def refuse_encoding(name: str) -> None:
    """Check the value of --encoding."""
    if why := wrong_encoding(name):
        raise UserError(f"--encoding {name}: {why}")
