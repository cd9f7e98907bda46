"""``cotrunk info``: the settings, state and scores of a run."""

from argparse import Namespace
from pathlib import Path

from cotrunk.build.saved import encoder_plan
from cotrunk.cli.damaged import with_advice
from cotrunk.cli.terminal import tables
from cotrunk.cli.terminal.output import Document
from cotrunk.config.check import check_settings
from cotrunk.config.settings import Settings
from cotrunk.errors import UserError
from cotrunk.runs.checkpoint import CheckpointError
from cotrunk.runs.cost import read_cost
from cotrunk.runs.evaluation import read_evaluation
from cotrunk.runs.folder import RunFolder
from cotrunk.runs.sizes import sizes


def info(arguments: Namespace) -> Document:
    run = RunFolder.open(Path(arguments.folder))
    settings = settings_of(run)
    steps = [entry for entry in run.read_metrics() if entry.get("event") == "step"]
    try:
        kept = read_evaluation(run.best)
    except CheckpointError as error:
        by = f"cotrunk evaluate {run.path}"
        raise with_advice(error, run.path, "best", by=by) from None
    if kept and (missing := settings.tasks.keys() - kept.scores.keys()):
        raise UserError(
            f"{run.best}/evaluation.json: has no score of {min(missing)}, a task of the run; "
            "train it again"
        )
    cost = read_cost(run)
    document: Document = {
        "run": str(run.path),
        "weights": settings.encoder.weights,
        "sharing": settings.sharing.model_dump(exclude_defaults=True),
        "tasks": {name: part.kind for name, part in settings.tasks.items()},
        "steps": len(steps),
        "finished": run.is_finished,
        "checkpoints": sorted(path.name for path in run.checkpoints.glob("step-*[0-9]")),
        "best_step": kept.step if kept else None,
        "scores": {task: kept.scores[task] for task in settings.tasks} if kept else {},
        "overall": {key: kept.overall[key] if kept else None for key in ("official", "mean")},
        **_parameters(run),
        "bytes": sizes(run),
        **cost.document(),
    }
    if not arguments.json:
        whole = cost.epochs if run.is_finished and not _may_stop(settings) else cost.followed
        record = {**run.read_record(), "settings": settings.model_dump()}
        sharing = {"encoder": encoder_plan(run, record)} | document["sharing"]
        tables.show_info(document | {"sharing": sharing}, whole)
    return document


def _may_stop(settings: Settings) -> bool:
    """Whether training may end within an epoch."""
    return any(
        train.max_steps is not None
        or train.max_seconds is not None
        or train.early_stopping is not None
        for train in settings.stages_of_training
    )


def _parameters(run: RunFolder) -> dict[str, int | None]:
    """None for runs of older versions, which do not record them."""
    found = run.read_record().get("parameters", {})
    return {"parameters": found.get("total"), "trained_parameters": found.get("trained")}


def settings_of(run: RunFolder) -> Settings:
    return check_settings(run.read_record()["settings"], place=str(run.settings))
