"""The training loop. It only appends to the run folder, and tells its caller what happened."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from cotrunk.data.cache import Corpus
from cotrunk.data.stream import Batch, Stream
from cotrunk.learn.forward import Forward
from cotrunk.learn.gradients import Surgery
from cotrunk.learn.losses import Loss
from cotrunk.learn.metrics import Score, overall, score
from cotrunk.learn.optimizer import (
    clip,
    load_optimizer_state,
    optimizer_state,
    set_learning_rate,
)
from cotrunk.learn.soft import soft_penalty
from cotrunk.model.network import Network
from cotrunk.model.noise import Noise
from cotrunk.runs.checkpoint import Checkpoint, write_checkpoint
from cotrunk.runs.folder import RunFolder

Due = Literal["epoch", "never"] | int


@dataclass(frozen=True)
class Recipe:
    """The numbers of a stage of training that are not the network's or the data's."""

    steps: int
    seed: int
    weights: Mapping[str, float]
    losses: Mapping[str, Loss]
    lr: float
    schedule: Callable[[int], float]
    clip: float
    evaluate: Due
    checkpoint: Due
    keep: str
    max_seconds: float | None
    on_nan: Literal["stop", "skip"]
    soft_l2: float
    soft_trace: float


@dataclass
class Interrupt:
    """Set by a signal handler, looked at between steps and between batches of an evaluation."""

    signal: int | None = None

    def check(self) -> None:
        if self.signal is not None:
            raise Interrupted(self.signal)


class Interrupted(Exception):
    def __init__(self, signal: int) -> None:
        super().__init__(f"interrupted by signal {signal}")
        self.signal = signal


class TrainingStopped(RuntimeError):
    """Training cannot go on; nothing after the last good step was changed."""


@dataclass(frozen=True)
class Stepped:
    """An optimizer step was made."""

    step: int
    epoch: int
    losses: Mapping[str, float]


@dataclass(frozen=True)
class Evaluated:
    step: int
    epoch: int
    scores: Mapping[str, Score]
    best: bool


Event = Stepped | Evaluated


@dataclass
class Progress:
    """Where a run stands; all of it is in a checkpoint. Steps count through all stages."""

    step: int = 0
    evaluated: int = -1
    best: float = -math.inf
    best_step: int = -1
    skipped: int = 0


@dataclass(frozen=True)
class Stage:
    """A stretch of training with its own recipe: ``first`` is the step at which it begins.

    ``trained`` are the parameters that move; the others are frozen while it lasts.
    """

    first: int
    network: Network
    trained: Mapping[str, torch.nn.Parameter]
    stream: Stream
    forward: Forward
    judge: Forward
    optimizer: torch.optim.Optimizer
    surgery: Surgery | None
    recipe: Recipe
    device: torch.device

    @property
    def last(self) -> int:
        return self.first + self.recipe.steps

    def epoch(self, step: int) -> int:
        return self.stream.epoch_of(step - self.first)


@dataclass(frozen=True)
class Planned:
    """A stage that is made when it begins: it may depend on what those before it learned."""

    first: int
    steps: int
    make: Callable[[], Stage]


def train(
    network: Network,
    stages: Sequence[Planned],
    dev: Mapping[str, Corpus],
    run: RunFolder,
    documents: Mapping[str, object],
    start: Checkpoint | None,
    interrupt: Interrupt,
) -> Iterator[Event]:
    """Train through all stages, from ``start`` if given. ``documents`` make saved models whole."""
    begun = time.monotonic()
    at = progress_of(start) if start else Progress()
    run.truncate_metrics(start.documents["state"]["metrics_bytes"] if start else 0)
    if start:
        network.load_state_dict(start.tensors("model"), strict=True)
    for planned in stages:
        if not planned.first <= at.step <= planned.first + planned.steps:
            continue  # over before the checkpoint, or never reached in time
        stage = planned.make()
        if start:
            restore(stage, start)
            start = None
        yield from train_stage(stage, dev, run, documents, at, interrupt, begun)
    model = {"model": tensors_of(network)}
    write_checkpoint(run.final, tensors=model, documents=documents)
    if at.best_step < 0:  # never evaluated: the last is the best there is
        write_checkpoint(run.best, tensors=model, documents=documents)


def train_stage(
    stage: Stage,
    dev: Mapping[str, Corpus],
    run: RunFolder,
    documents: Mapping[str, object],
    at: Progress,
    interrupt: Interrupt,
    begun: float,
) -> Iterator[Event]:
    recipe = stage.recipe
    entered = time.monotonic()
    saved = at.step
    for name, parameter in stage.network.named_parameters():
        parameter.requires_grad_(name in stage.trained)
    try:
        while True:
            over = at.step >= stage.last or _out_of_time(recipe, begun)
            if at.evaluated != at.step and _due(recipe.evaluate, at.step, stage, over):
                yield measure(stage, dev, run, documents, at, interrupt)
            if at.step != saved and _due(recipe.checkpoint, at.step, stage, over):
                save(stage, run, at)
                saved = at.step
            if over:
                break
            yield make_step(stage, run, at)
            interrupt.check()
    except Interrupted:
        if at.step != saved:
            save(stage, run, at)
        raise
    run.append_timing({"event": "trained", "step": at.step, "seconds": time.monotonic() - entered})


def make_step(stage: Stage, run: RunFolder, at: Progress) -> Stepped:
    """One batch of every task whose turn it is, their gradients combined, one optimizer step."""
    recipe, epoch = stage.recipe, stage.epoch(at.step)
    losses: dict[str, list[float]] = {}
    batches = list(stage.stream.batches(at.step - stage.first))
    stage.optimizer.zero_grad(set_to_none=True)
    for number, batch in enumerate(batches):
        loss = batch_loss(stage, batch, Noise(recipe.seed, at.step, number, device=stage.device))
        losses.setdefault(batch.task, []).append(loss.item())
        (loss * (batch.share * recipe.weights[batch.task])).backward()
        if stage.surgery:
            stage.surgery.take(batch.task)
    conflicts = stage.surgery.give(at.step) if stage.surgery else {}
    if recipe.soft_l2 or recipe.soft_trace:
        soft_penalty(stage.network, l2=recipe.soft_l2, trace=recipe.soft_trace).backward()
    norm = clip(stage.trained.values(), recipe.clip or math.inf).item()
    mean = {task: float(np.mean(values)) for task, values in losses.items()}
    record: dict[str, Any] = {"event": "step", "step": at.step, "epoch": epoch, "loss": mean}
    if math.isfinite(norm) and all(map(math.isfinite, mean.values())):
        lr = recipe.lr * recipe.schedule(at.step - stage.first)
        set_learning_rate(stage.optimizer, lr)
        stage.optimizer.step()
        record |= {"norm": norm, "lr": lr}
    elif recipe.on_nan == "stop":
        raise TrainingStopped(_not_finite(stage, mean, batches, at.step))
    else:
        at.skipped += 1
        record["skipped"] = True
    if conflicts:
        record["cosine"] = conflicts
    run.append_metrics(record)
    at.step += 1
    return Stepped(at.step, epoch, mean)


def batch_loss(stage: Stage, batch: Batch, noise: Noise) -> Tensor:
    """The mean loss of a batch's rows."""
    output_RO = stage.forward.output(batch.task, batch.rows, noise)
    target_R = batch.target_R.to(stage.device)
    return stage.recipe.losses[batch.task](output_RO, target_R).mean()


def measure(
    stage: Stage,
    dev: Mapping[str, Corpus],
    run: RunFolder,
    documents: Mapping[str, object],
    at: Progress,
    interrupt: Interrupt,
) -> Evaluated:
    """Score the network on the dev rows; keep it if it is the best so far."""
    begun = time.monotonic()
    scores = scores_on(stage.judge, dev, stage.network, tick=interrupt.check)
    kept = kept_score(scores, stage.recipe.keep)
    best = kept > at.best or at.best_step < 0
    if best:
        at.best, at.best_step = kept, at.step
        model = {"model": tensors_of(stage.network)}
        write_checkpoint(run.best, tensors=model, documents=documents)
    epoch = stage.epoch(max(at.step - 1, stage.first))
    shown = {task: {"score": s.score, "low": s.low, "high": s.high} for task, s in scores.items()}
    run.append_metrics(
        {"event": "dev", "step": at.step, "epoch": epoch, "scores": shown, **overall(scores)}
    )
    run.append_timing({"event": "dev", "step": at.step, "seconds": time.monotonic() - begun})
    at.evaluated = at.step
    return Evaluated(at.step, epoch, scores, best)


def scores_on(
    forward: Forward,
    corpora: Mapping[str, Corpus],
    network: Network,
    *,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Score]:
    """The score of every task on its labelled rows."""
    return {
        task: score(network.tasks[task], forward.outputs(task, tick=tick), np.asarray(corpus.label))
        for task, corpus in corpora.items()
    }


def kept_score(scores: Mapping[str, Score], keep: str) -> float:
    """The number a checkpoint is kept by: official, mean, sum, or one task's score."""
    value = scores[keep].score if keep in scores else overall(scores)[keep]
    return value if math.isfinite(value) else -math.inf


def save(stage: Stage, run: RunFolder, at: Progress) -> Path:
    """Write all that a resumed run needs to go on as if it had never stopped."""
    state = {
        "step": at.step,
        "evaluated": at.evaluated,
        "best": at.best if math.isfinite(at.best) else None,
        "best_step": at.best_step,
        "skipped": at.skipped,
        "metrics_bytes": run.metrics_bytes(),
    }
    surgery = stage.surgery.state if stage.surgery else {}
    tensors = {
        "model": tensors_of(stage.network),
        "optimizer": optimizer_state(stage.optimizer, stage.trained),
        "surgery": {f"{unit} {key}": t for unit, s in surgery.items() for key, t in s.items()},
    }
    return run.save_step(at.step, tensors, {"state": state})


def progress_of(checkpoint: Checkpoint) -> Progress:
    state = checkpoint.documents["state"]
    return Progress(
        step=state["step"],
        evaluated=state["evaluated"],
        best=-math.inf if state["best"] is None else state["best"],
        best_step=state["best_step"],
        skipped=state["skipped"],
    )


def restore(stage: Stage, checkpoint: Checkpoint) -> None:
    """Give the optimizer and the gradient method back what they remembered."""
    load_optimizer_state(stage.optimizer, stage.trained, checkpoint.tensors("optimizer"))
    if stage.surgery:
        for name, tensor in checkpoint.tensors("surgery").items():
            unit, key = name.split(" ")
            stage.surgery.state.setdefault(unit, {})[key] = tensor


def tensors_of(network: Network) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu() for name, tensor in network.state_dict().items()}


def _due(due: Due, step: int, stage: Stage, over: bool) -> bool:
    if due == "never" or step == stage.first:
        return False
    if due == "epoch":
        return over or step - stage.first in stage.stream.epoch_ends
    return over or step % due == 0


def _out_of_time(recipe: Recipe, begun: float) -> bool:
    return recipe.max_seconds is not None and time.monotonic() - begun >= recipe.max_seconds


def _not_finite(
    stage: Stage, losses: Mapping[str, float], batches: Sequence[Batch], step: int
) -> str:
    blamed = [task for task, loss in losses.items() if not math.isfinite(loss)]
    what = "loss" if blamed else "gradient"
    named = "; ".join(
        f"task {batch.task}, rows "
        + ", ".join(stage.stream.corpora[batch.task].id(row) for row in batch.rows.tolist())
        for batch in batches
        if batch.task in blamed or not blamed
    )
    return (
        f"step {step}: the {what} is not finite ({named}); no weight was changed by this step. "
        f"Lower train.lr, look at these rows, or set train.on_nan = 'skip' to pass over such steps"
    )
