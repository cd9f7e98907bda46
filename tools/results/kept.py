"""Finished runs of studies as JSON, for verdicts on runs whose folders are gone.

A study takes longer than one machine may be at hand, and a test between two runs needs both. A kept
run has its settings, scores, curves and cost, and replicates of its scores instead of its dev rows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from cotrunk.kinds import Kind
from cotrunk.kinds.influence import OverRows
from cotrunk.runs.cost import Cost
from cotrunk.study.records import RunRecord, TaskRecord
from tools.results.replicates import influence_of, replicates_of

Kept = dict[str, Any]
NO_ROWS = np.empty(0)


@dataclass(frozen=True)
class KeptLabels:
    """What tests ask the kind of a task: its score, and whether the overall score has it."""

    in_overall: bool
    score: OverRows

    def over_rows(
        self, _output: np.ndarray, _target: np.ndarray, *, counts: np.ndarray | None = None
    ) -> OverRows:
        del counts
        return self.score


def kept_run(
    run: RunRecord, choices: Mapping[str, Any], out: Path, *, commit: str | None = None
) -> Kept:
    """``out``: the folder of the study; ``choices``: of the trial; ``commit``: of the code."""
    return {
        "run": run.path.relative_to(out).as_posix(),
        "commit": commit,
        "choices": dict(choices),
        "seed": run.seed,
        "settings": dict(run.settings),
        "tasks": {name: _kept_task(task) for name, task in run.tasks.items()},
        "overall": dict(run.overall),
        "parameters": run.parameters,
        "trained_parameters": run.trained_parameters,
        "bytes": dict(run.bytes),
        "cost": asdict(run.cost),
        "steps": run.steps,
        "best_step": run.best_step,
        "history": [_curve(entry) for entry in run.history if entry.get("event") == "dev"],
        "digests": dict(run.digests),
    }


def record_of(kept: Mapping[str, Any], out: Path) -> RunRecord:
    return RunRecord(
        path=out / kept["run"],
        settings=kept["settings"],
        seed=kept["seed"],
        state="finished",
        tasks={name: _task_record(name, task) for name, task in kept["tasks"].items()},
        overall=kept["overall"],
        parameters=kept["parameters"],
        trained_parameters=kept["trained_parameters"],
        bytes=kept["bytes"],
        cost=Cost(**kept["cost"]),
        steps=kept["steps"],
        best_step=kept["best_step"],
        history=kept["history"],
        digests=kept["digests"],
    )


def united(old: Iterable[Kept], new: Iterable[Kept]) -> list[Kept]:
    """All runs, sorted by name; a run that was trained again counts once, as it is now."""
    found = {kept["run"]: kept for kept in (*old, *new)}
    return [found[name] for name in sorted(found)]


def packed(runs: Sequence[Kept]) -> Kept:
    """Seeds have the same settings, so each is written once."""
    settings: list[Kept] = []
    rows = []
    for run in runs:
        own = _without_seed(run["settings"])
        if own not in settings:
            settings.append(own)
        rows.append(run | {"settings": settings.index(own)})
    return {"settings": settings, "runs": rows}


def unpacked(found: Mapping[str, Any]) -> list[Kept]:
    return [
        run | {"settings": _with_seed(found["settings"][run["settings"]], run["seed"])}
        for run in found["runs"]
    ]


def _kept_task(task: TaskRecord) -> Kept:
    score = task.labels.over_rows(task.output, task.target, counts=task.counts)
    return {
        "score": {key: task.score.get(key) for key in ("metric", "score", "low", "high", "rows")},
        "in_overall": task.labels.in_overall,
        "scale": score.scale,
        "size": score.size if math.isfinite(score.size) else None,
        "has_outliers": score.has_outliers,
        "dev": task.dev,
        "file": task.file,
        "replicates": replicates_of(score, task.dev),
    }


def _task_record(name: str, task: Mapping[str, Any]) -> TaskRecord:
    value = task["score"]["score"]
    score = OverRows(
        math.nan if value is None else value,
        influence_of(task["replicates"]),
        task["scale"],
        math.inf if task["size"] is None else task["size"],
        task["has_outliers"],
    )
    return TaskRecord(
        name=name,
        labels=cast(Kind, KeptLabels(task["in_overall"], score)),
        output=NO_ROWS,
        target=NO_ROWS,
        counts=None,
        rows=NO_ROWS,
        dev=task["dev"],
        file=task["file"],
        score=task["score"],
    )


def _curve(entry: Mapping[str, Any]) -> Kept:
    scores = {name: {"score": found.get("score")} for name, found in entry["scores"].items()}
    return {"event": "dev", "step": entry["step"], "scores": scores}


def _without_seed(settings: Mapping[str, Any]) -> Kept:
    train = {key: value for key, value in settings["train"].items() if key != "seed"}
    return {**settings, "train": train}


def _with_seed(settings: Mapping[str, Any], seed: int) -> Kept:
    return {**settings, "train": {**settings["train"], "seed": seed}}
