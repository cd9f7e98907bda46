"""Runs that were never trained: outputs with a chosen accuracy, and a cost that is known."""

from pathlib import Path

import numpy as np

from cotrunk.kinds import KINDS
from cotrunk.runs.cost import PHASES, Cost
from cotrunk.study.records import RunRecord, TaskRecord

ROWS = 2000


def task_record(name: str, accuracy: float, seed: int, count: int = ROWS) -> TaskRecord:
    """A binary task on the same rows for every run; each seed gets other rows wrong."""
    target = np.random.default_rng(0).integers(0, 2, count).astype(np.float64)
    right = np.random.default_rng([seed, *name.encode()]).permutation(count) < accuracy * count
    output = np.where(right == (target == 1), 1.0, -1.0)[:, None]
    return TaskRecord(
        name=name,
        labels=KINDS["binary"](),
        output=output,
        target=target,
        counts=None,
        rows=np.arange(count),
        dev="rows",
        file="dev.csv",
        score={"metric": "accuracy", "score": float(right.mean()), "rows": count},
    )


def made_up_run(
    accuracy: dict[str, float],
    seed: int,
    *,
    path: Path = Path("run"),
    rows: int = ROWS,
    parameters: int = 100,
    seconds: float = 10.0,
    history: tuple[float, ...] = (),
    settings: dict | None = None,
) -> RunRecord:
    """``history``: the dev scores of all tasks, every 10 steps."""
    tasks = {name: task_record(name, value, seed, rows) for name, value in accuracy.items()}
    mean = float(np.mean([task.score["score"] for task in tasks.values()]))
    spent = dict.fromkeys(PHASES, seconds)
    return RunRecord(
        path=path,
        settings=settings or {"tasks": {name: {} for name in accuracy}, "train": {"seed": seed}},
        seed=seed,
        state="finished",
        tasks=tasks,
        overall={"official": mean, "mean": mean},
        parameters=parameters,
        trained_parameters=parameters,
        bytes={"weights": 4 * parameters, "checkpoint": 12 * parameters},
        cost=Cost(spent, spent, [seconds / 2] * 2, 1),
        steps=10 * len(history),
        best_step=None,
        history=[
            {
                "event": "dev",
                "step": 10 * number,
                "scores": {name: {"score": score} for name in accuracy},
            }
            for number, score in enumerate(history, start=1)
        ],
        digests={},
    )


def seeds_of(value: float, *, count: int = 3, spread: float = 0.001, **more) -> list[RunRecord]:
    """Runs of one setting: accuracies around ``value`` on two tasks."""
    moves = np.linspace(-spread, spread, count) if count > 1 else [0.0]
    return [
        made_up_run({"a": value + move, "b": value + move}, seed, **more)
        for seed, move in enumerate(moves)
    ]
