"""A training stage and its progress, saved so that a resumed run is bit-identical."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from cotrunk.data.batches.stream import Stream
from cotrunk.infer.forward import Forward
from cotrunk.kinds import Loss
from cotrunk.learn.gradient_watch import GradientWatch
from cotrunk.learn.gradients import Surgery
from cotrunk.learn.loss_weighting import LossWeighting
from cotrunk.learn.optimizer import (
    Optimizer,
    load_optimizer_state,
    optimizer_state,
    start_average,
)
from cotrunk.learn.regularize import Regularizer
from cotrunk.learn.untrained import DOCUMENT, Untrained
from cotrunk.model.sharing.network import Network
from cotrunk.model.weights.finite import not_finite
from cotrunk.runs.checkpoint import Checkpoint
from cotrunk.runs.folder import RunFolder

Due = Literal["epoch", "never"] | int
Chosen = Mapping[str, Mapping[str, Any]]
"""By task: settings of its kind, such as a threshold, that were chosen on the dev rows."""


class TrainingStopped(RuntimeError):
    """Training cannot continue; what is saved is from the last good step."""


@dataclass(frozen=True)
class Stage:
    """A part of the training with its own settings, from step ``first`` on.

    ``tasks`` are those that it trains, ``stopping`` those whose scores can end it early.
    ``trained`` are the parameters that it updates; the others are frozen. ``average`` is the moving
    average of the trained ones, empty without train.ema.
    """

    first: int
    steps: int
    tasks: tuple[str, ...]
    stopping: tuple[str, ...]
    network: Network
    device: torch.device
    seed: int
    trained: Mapping[str, torch.nn.Parameter]
    average: dict[str, Tensor]
    stream: Stream
    forward: Forward
    dev_forward: Forward
    losses: Mapping[str, Loss]
    regularizer: Regularizer
    loss_weighting: LossWeighting
    surgery: Surgery | None
    watch: GradientWatch
    optimizer: Optimizer
    lr: float
    schedule: Callable[[int], float]
    clip: float
    ema: float | None
    soft_l2: float
    soft_trace: float
    on_nan: Literal["stop", "skip"]
    evaluate: Due
    checkpoint: Due
    keep_each: bool
    patience: int | None

    @property
    def last(self) -> int:
        return self.first + self.steps

    def epoch(self, step: int) -> int:
        return self.stream.epoch_of(step - self.first)


@dataclass
class Progress:
    """Progress of a run, saved in every checkpoint. Steps count through all stages.

    ``stale`` counts the evaluations since a task's best score. ``chosen`` is of the last
    evaluation.
    """

    step: int = 0
    evaluated: int = -1
    best: float = -math.inf
    best_step: int = -1
    skipped: int = 0
    task_best: dict[str, float] = field(default_factory=dict)
    stale: dict[str, int] = field(default_factory=dict)
    chosen: Chosen = field(default_factory=dict)

    def is_done(self, task: str, stage: Stage) -> bool:
        if stage.patience is None or task not in stage.stopping:
            return False
        return self.stale.get(task, 0) >= stage.patience

    def are_done(self, stage: Stage) -> bool:
        """All tasks that can stop early have stopped."""
        return all(self.is_done(task, stage) for task in stage.stopping)


def save(
    stage: Stage, run: RunFolder, progress: Progress, *, untrained: Untrained, keep: int
) -> Path:
    """Write everything that a bit-identical resume needs; ``keep`` this many checkpoints."""
    metrics = run.metrics_entry()
    state = {
        "step": progress.step,
        "evaluated": progress.evaluated,
        "best": progress.best if math.isfinite(progress.best) else None,
        "best_step": progress.best_step,
        "skipped": progress.skipped,
        "task_best": progress.task_best,
        "stale": progress.stale,
        "chosen": progress.chosen,
        "metrics_bytes": metrics.bytes,
        "metrics_sha256": metrics.sha256,
    }
    surgery = stage.surgery.state if stage.surgery else {}
    tensors = {
        "model": untrained.remaining(tensors_of(stage.network)),
        "optimizer": optimizer_state(stage.optimizer, stage.trained),
        "surgery": {f"{unit} {key}": t for unit, s in surgery.items() for key, t in s.items()},
        "loss_weighting": stage.loss_weighting.state(),
        "average": stage.average,
    }
    documents: dict[str, object] = {"state": state}
    if untrained.names:
        documents[DOCUMENT] = untrained.document()
    return run.save_step(progress.step, tensors, documents, keep=keep)


def progress_of(checkpoint: Checkpoint) -> Progress:
    state = checkpoint.documents["state"]
    return Progress(
        step=state["step"],
        evaluated=state["evaluated"],
        best=-math.inf if state["best"] is None else state["best"],
        best_step=state["best_step"],
        skipped=state["skipped"],
        task_best=state["task_best"],
        stale=state["stale"],
        chosen=state.get("chosen", {}),
    )


def restore(stage: Stage, checkpoint: Checkpoint) -> None:
    """Load a stage's state; the network has its weights already."""
    load_optimizer_state(stage.optimizer, stage.trained, checkpoint.tensors("optimizer"))
    stage.loss_weighting.load(checkpoint.tensors("loss_weighting"))
    average = checkpoint.tensors("average")
    if average and set(average) != set(stage.average):
        raise ValueError("its moving average (train.ema) is of other parameters")
    for name, tensor in average.items():
        stage.average[name].copy_(tensor)
    if stage.surgery:
        for name, tensor in checkpoint.tensors("surgery").items():
            unit, key = name.split(" ")
            stage.surgery.state.setdefault(unit, {})[key] = tensor


@contextmanager
def averaged(stage: Stage) -> Iterator[None]:
    """Within the context the network has its averaged weights, if there are any."""
    if not stage.average:
        yield
        return
    current = start_average(stage.trained)
    _set_weights(stage, stage.average)
    try:
        yield
    finally:
        _set_weights(stage, current)


@torch.no_grad()
def _set_weights(stage: Stage, weights: Mapping[str, Tensor]) -> None:
    for name, parameter in stage.trained.items():
        parameter.copy_(weights[name])


def tensors_of(network: Network) -> dict[str, Tensor]:
    return finite({name: tensor.detach().cpu() for name, tensor in network.state_dict().items()})


def finite(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights to save, which must not be NaN or infinite."""
    if broken := not_finite(tensors):
        raise TrainingStopped(f"{broken}, so it is not saved; lower train.lr and train it again")
    return tensors
