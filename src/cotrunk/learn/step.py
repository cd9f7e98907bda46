"""One optimizer step: batches, gradients, surgery, guards, update, metrics."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cotrunk.data.batches.stream import Batch
from cotrunk.learn import guards
from cotrunk.learn.microbatches import add_gradients
from cotrunk.learn.optimizer import clip, set_learning_rate, update_average
from cotrunk.learn.soft import soft_penalty
from cotrunk.learn.stage import Progress, Stage, TrainingStopped
from cotrunk.runs.events import Finding, Stepped
from cotrunk.runs.folder import RunFolder

COSINES_EVERY = 10

MOST_SKIPPED = 0.1
"""The largest share of a run's steps that ``train.on_nan = "skip"`` may skip."""


def make_step(stage: Stage, folder: RunFolder, progress: Progress) -> Stepped:
    """Compute the gradients of the step's batches, combine them, and update the parameters."""
    step, epoch = progress.step, stage.epoch(progress.step)
    batches, weights = _batches(stage, progress), stage.loss_weighting.weights(epoch)
    losses = _find_gradients(stage, batches, step, weights)
    conflicts = stage.surgery.combine(step) if stage.surgery else {}
    findings = stage.watch.look([task for task in losses if weights[task] > 0])
    _pull_copies_together(stage)  # after the watch, which would otherwise miss a zero gradient
    norm = clip(stage.trained.values(), stage.clip or math.inf).item()
    broken = guards.not_finite(step, losses, norm, lambda task: _row_ids(stage, batches, task))
    record: dict[str, Any] = {"event": "step", "step": step, "epoch": epoch, "loss": losses}
    if broken:
        findings += _skip(stage, progress, broken)
        record["skipped"] = True
    elif losses:
        lr = _update(stage, losses, step, epoch)
        record |= {"norm": norm, "lr": lr, "weight": {task: weights[task] for task in losses}}
    if conflicts and step % COSINES_EVERY == 0:
        record["cosine"] = conflicts
    progress.step += 1
    folder.append_metrics(record | _batch_counts(stage, epoch, progress.step))
    folder.append_findings(progress.step, findings)
    return Stepped(progress.step, epoch, losses, findings)


def _batches(stage: Stage, progress: Progress) -> list[Batch]:
    """The step's batches, without tasks that have stopped early."""
    return [
        batch
        for batch in stage.stream.batches(progress.step - stage.first)
        if not progress.is_done(batch.task, stage)
    ]


def _find_gradients(
    stage: Stage, batches: Sequence[Batch], step: int, weights: Mapping[str, float]
) -> dict[str, float]:
    """Compute the gradients; those of shared parameters go into the surgery if there is one.

    Returns the unweighted mean loss of each task. A batch with nothing to predict, such as texts
    without a token to mask, is skipped.
    """
    totals: dict[int, float] = {}
    stage.optimizer.zero_grad()
    for microbatch, loss in add_gradients(stage, batches, step, weights):
        totals[microbatch.batch] = totals.get(microbatch.batch, 0.0) + microbatch.share * loss
        if stage.surgery:
            stage.surgery.stash(batches[microbatch.batch].task)
    losses: dict[str, list[float]] = {}
    for number in sorted(totals):
        losses.setdefault(batches[number].task, []).append(totals[number])
    return {task: float(np.mean(values)) for task, values in losses.items()}


def _pull_copies_together(stage: Stage) -> None:
    if stage.soft_l2 or stage.soft_trace:
        soft_penalty(stage.network, l2=stage.soft_l2, trace=stage.soft_trace).backward()


def _skip(stage: Stage, progress: Progress, broken: Finding) -> list[Finding]:
    """Skip this step, or stop; only the first skipped step is reported."""
    if stage.on_nan == "stop":
        raise TrainingStopped(str(broken))
    progress.skipped += 1
    if progress.skipped > max(1, MOST_SKIPPED * stage.last):
        raise TrainingStopped(
            f"step {progress.step}: {progress.skipped} steps were skipped because the loss or "
            f"gradient was not finite, more than {MOST_SKIPPED:.0%} of {stage.last}; the last: "
            f"{broken}"
        )
    return [replace(broken, fatal=False)] if progress.skipped == 1 else []


def _update(stage: Stage, losses: Mapping[str, float], step: int, epoch: int) -> float:
    """Update parameters, moving average and loss weights; returns the learning rate."""
    lr = stage.lr * stage.schedule(step - stage.first)
    set_learning_rate(stage.optimizer, lr)
    stage.optimizer.step()
    if stage.ema is not None:
        update_average(stage.average, stage.trained, decay=stage.ema)
    stage.loss_weighting.observe(losses, stage.surgery.norms if stage.surgery else None, epoch)
    return lr


def _batch_counts(stage: Stage, epoch: int, steps: int) -> dict[str, Any]:
    """At the end of an epoch: the planned and the drawn batches per task."""
    if steps - stage.first not in stage.stream.epoch_ends:
        return {}
    stream = stage.stream
    return {"batches": {"planned": stream.planned(epoch), "drawn": stream.drawn(epoch)}}


def _row_ids(stage: Stage, batches: Sequence[Batch], task: str) -> list[str]:
    corpus = stage.stream.corpora[task]
    return [corpus.id(row) for b in batches if b.task == task for row in b.rows.tolist()]
