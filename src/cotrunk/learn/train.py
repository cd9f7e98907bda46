"""The training loop. It only appends to the run folder, and tells its caller what happened."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from cotrunk.data.cache import Corpus
from cotrunk.data.stream import Batch, Stream
from cotrunk.data.text import Template, View
from cotrunk.learn.evaluate import evaluate
from cotrunk.learn.gradients import Surgery
from cotrunk.learn.losses import Loss
from cotrunk.learn.metrics import Score, overall
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
    """The numbers of a training run that are not the network's or the data's."""

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
    steps: int
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
    """Where a run stands; all of it is in a checkpoint."""

    step: int = 0
    evaluated: int = -1
    best: float = -math.inf
    best_step: int = -1
    skipped: int = 0


@dataclass(frozen=True)
class Learner:
    """Everything a step changes or needs."""

    network: Network
    stream: Stream
    optimizer: torch.optim.Optimizer
    surgery: Surgery | None
    recipe: Recipe
    device: torch.device


@dataclass(frozen=True)
class Judge:
    """What the network is measured on while it learns."""

    corpora: Mapping[str, Corpus]
    views: Mapping[str, View]
    template: Template


def train(
    learner: Learner,
    judge: Judge,
    run: RunFolder,
    documents: Mapping[str, object],
    start: Checkpoint | None,
    interrupt: Interrupt,
) -> Iterator[Event]:
    """Train to the last step, from ``start`` if given. ``documents`` make saved models whole."""
    recipe, network = learner.recipe, learner.network
    at = restore(learner, start) if start else Progress()
    run.truncate_metrics(start.documents["state"]["metrics_bytes"] if start else 0)
    begun = time.monotonic()
    saved = at.step
    try:
        while True:
            over = at.step >= recipe.steps or _out_of_time(recipe, begun)
            if at.evaluated != at.step and _due(recipe.evaluate, at.step, learner.stream, over):
                yield measure(learner, judge, run, at, interrupt, documents)
            if at.step != saved and (over or _due(recipe.checkpoint, at.step, learner.stream)):
                save(learner, run, at)
                saved = at.step
            if over:
                break
            yield make_step(learner, run, at)
            interrupt.check()
    except Interrupted:
        if at.step != saved:
            save(learner, run, at)
        raise
    run.append_timing({"event": "trained", "step": at.step, "seconds": time.monotonic() - begun})
    write_checkpoint(run.final, tensors={"model": tensors_of(network)}, documents=documents)
    if at.best_step < 0:  # never evaluated: the last is the best there is
        write_checkpoint(run.best, tensors={"model": tensors_of(network)}, documents=documents)


def make_step(learner: Learner, run: RunFolder, at: Progress) -> Stepped:
    """One batch of every task whose turn it is, their gradients combined, one optimizer step."""
    recipe, step, epoch = learner.recipe, at.step, learner.stream.epoch_of(at.step)
    losses: dict[str, float] = {}
    rows: dict[str, list[int]] = {}
    learner.optimizer.zero_grad(set_to_none=True)
    for number, batch in enumerate(learner.stream.batches(step)):
        loss = batch_loss(learner, batch, Noise(recipe.seed, step, number, device=learner.device))
        rows.setdefault(batch.task, []).extend(batch.rows.tolist())
        losses[batch.task] = losses.get(batch.task, 0.0) + loss.item() / _turns(
            learner, step, batch
        )
        (loss * (batch.share * recipe.weights[batch.task])).backward()
        if learner.surgery:
            learner.surgery.take(batch.task)
    conflicts = learner.surgery.give(step) if learner.surgery else {}
    if recipe.soft_l2 or recipe.soft_trace:
        soft_penalty(learner.network, l2=recipe.soft_l2, trace=recipe.soft_trace).backward()
    norm = clip(learner.network.parameters(), recipe.clip or math.inf).item()
    finite = math.isfinite(norm) and all(map(math.isfinite, losses.values()))
    record: dict[str, Any] = {"event": "step", "step": step, "epoch": epoch, "loss": losses}
    if finite:
        lr = recipe.lr * recipe.schedule(step)
        set_learning_rate(learner.optimizer, lr)
        learner.optimizer.step()
        record |= {"norm": norm, "lr": lr}
    elif recipe.on_nan == "stop":
        raise TrainingStopped(_not_finite(learner, losses, rows, step))
    else:
        at.skipped += 1
        record["skipped"] = True
    if conflicts:
        record["cosine"] = conflicts
    run.append_metrics(record)
    at.step += 1
    return Stepped(at.step, recipe.steps, epoch, losses)


def batch_loss(learner: Learner, batch: Batch, noise: Noise) -> Tensor:
    """The mean loss of a batch's rows."""
    text, sides = batch.text.to(learner.device), batch.sides.to(learner.device)
    fast = learner.device.type == "cuda"
    with torch.autocast(learner.device.type, torch.bfloat16, enabled=fast):
        output_RO = learner.network(text, sides, [batch.task], noise)[batch.task]
    target_R = batch.target_R.to(learner.device)
    return learner.recipe.losses[batch.task](output_RO.float(), target_R).mean()


def measure(
    learner: Learner,
    judge: Judge,
    run: RunFolder,
    at: Progress,
    interrupt: Interrupt,
    documents: Mapping[str, object],
) -> Evaluated:
    """Score the network on the judge's rows; keep it if it is the best so far."""
    begun = time.monotonic()
    network, recipe = learner.network, learner.recipe
    scores = evaluate(network, judge.corpora, judge.views, judge.template, tick=interrupt.check)
    kept = kept_score(scores, recipe.keep)
    best = kept > at.best or at.best_step < 0
    if best:
        at.best, at.best_step = kept, at.step
        write_checkpoint(run.best, tensors={"model": tensors_of(network)}, documents=documents)
    epoch = learner.stream.epoch_of(max(at.step - 1, 0))
    shown = {task: {"score": s.score, "low": s.low, "high": s.high} for task, s in scores.items()}
    run.append_metrics(
        {"event": "dev", "step": at.step, "epoch": epoch, "scores": shown, **overall(scores)}
    )
    run.append_timing({"event": "dev", "step": at.step, "seconds": time.monotonic() - begun})
    at.evaluated = at.step
    return Evaluated(at.step, epoch, scores, best)


def kept_score(scores: Mapping[str, Score], keep: str) -> float:
    """The number a checkpoint is kept by: official, mean, sum, or one task's score."""
    value = scores[keep].score if keep in scores else overall(scores)[keep]
    return value if math.isfinite(value) else -math.inf


def save(learner: Learner, run: RunFolder, at: Progress) -> Path:
    """Write all that a resumed run needs to go on as if it had never stopped."""
    state = {
        "step": at.step,
        "evaluated": at.evaluated,
        "best": at.best if math.isfinite(at.best) else None,
        "best_step": at.best_step,
        "skipped": at.skipped,
        "metrics_bytes": run.metrics_bytes(),
    }
    surgery = learner.surgery.state if learner.surgery else {}
    tensors = {
        "model": tensors_of(learner.network),
        "optimizer": optimizer_state(learner.optimizer, dict(learner.network.named_parameters())),
        "surgery": {f"{unit} {key}": t for unit, s in surgery.items() for key, t in s.items()},
    }
    return run.save_step(at.step, tensors, {"state": state})


def restore(learner: Learner, checkpoint: Checkpoint) -> Progress:
    """Put a checkpoint's tensors back in place."""
    learner.network.load_state_dict(checkpoint.tensors("model"), strict=True)
    named = dict(learner.network.named_parameters())
    load_optimizer_state(learner.optimizer, named, checkpoint.tensors("optimizer"))
    if learner.surgery:
        for name, tensor in checkpoint.tensors("surgery").items():
            unit, key = name.split(" ")
            learner.surgery.state.setdefault(unit, {})[key] = tensor
    state = checkpoint.documents["state"]
    return Progress(
        step=state["step"],
        evaluated=state["evaluated"],
        best=-math.inf if state["best"] is None else state["best"],
        best_step=state["best_step"],
        skipped=state["skipped"],
    )


def tensors_of(network: Network) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu() for name, tensor in network.state_dict().items()}


def _due(due: Due, step: int, stream: Stream, over: bool = False) -> bool:
    if due == "never" or step == 0:
        return False
    return over or (step in stream.epoch_ends if due == "epoch" else step % due == 0)


def _turns(learner: Learner, step: int, batch: Batch) -> int:
    return sum(turn.task == batch.task for turn in learner.stream.turns(step))


def _out_of_time(recipe: Recipe, begun: float) -> bool:
    return recipe.max_seconds is not None and time.monotonic() - begun >= recipe.max_seconds


def _not_finite(
    learner: Learner, losses: Mapping[str, float], rows: Mapping[str, list[int]], step: int
) -> str:
    blamed = [task for task, loss in losses.items() if not math.isfinite(loss)] or list(losses)
    what = "loss" if any(not math.isfinite(losses[task]) for task in blamed) else "gradient"
    named = "; ".join(
        f"task {task}, rows {', '.join(learner.stream.corpora[task].id(row) for row in rows[task])}"
        for task in blamed
    )
    return (
        f"step {step}: the {what} is not finite ({named}); no weight was changed by this step. "
        f"Lower train.lr, look at these rows, or set train.on_nan = 'skip' to pass over such steps"
    )
