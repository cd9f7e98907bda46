"""The training loop. It only appends to the run folder, and tells its caller what happened."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cotrunk.data.batches.stream import Batch
from cotrunk.data.tokens.cache import Corpus
from cotrunk.errors import UserError
from cotrunk.infer.forward import Forward
from cotrunk.kinds.metrics import Score, overall, predict_labels, score
from cotrunk.learn import guards
from cotrunk.learn.guards import Finding
from cotrunk.learn.microbatches import add_gradients
from cotrunk.learn.optimizer import clip, set_learning_rate, update_average
from cotrunk.learn.soft import soft_penalty
from cotrunk.learn.stage import (
    Due,
    Progress,
    Recipe,
    Stage,
    StageSpec,
    averaged,
    progress_of,
    restore,
    save,
)
from cotrunk.model.sharing.merge import merged_tensors
from cotrunk.model.sharing.network import Network
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress
from cotrunk.runs.checkpoint import Checkpoint, delete_checkpoint, write_checkpoint
from cotrunk.runs.folder import RunFolder

COSINES_EVERY = 10


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
    findings: Sequence[Finding]


@dataclass(frozen=True)
class Evaluated:
    step: int
    epoch: int
    scores: Mapping[str, Score]
    best: bool
    findings: Sequence[Finding]


Event = Stepped | Evaluated


@dataclass(frozen=True)
class RunContext:
    """What training looks at and writes to, the same in all stages.

    ``record`` is what run.json says once it goes on; ``documents`` make saved models whole.
    """

    run: RunFolder
    record: Mapping[str, object]
    documents: Mapping[str, object]
    dev: Mapping[str, Corpus]
    interrupt: Interrupt
    on_progress: OnProgress = ignore_progress

    def on_progress_or_stop(self, done: ProgressUpdate) -> None:
        """Within what takes long: stops where asked to, and tells how far it is."""
        self.interrupt.check()
        self.on_progress(done)

    def keep(self, network: Network, place: Path) -> None:
        model = {"model": merged_tensors(network)}
        write_checkpoint(place, tensors=model, documents=self.documents)


def train(
    network: Network, stages: Sequence[StageSpec], ctx: RunContext, start: Checkpoint | None
) -> Iterator[Event]:
    """Train through all stages, from ``start`` if given."""
    run, begun = ctx.run, time.monotonic()
    progress = progress_of(start) if start else Progress()
    last = stages[-1].first + stages[-1].steps
    if progress.step > last:
        raise UserError(
            f"the run is at step {progress.step}, but these settings end at step {last}; "
            "give it more epochs, or start another run"
        )
    if start:
        network.load_state_dict(start.tensors("model"), strict=True)
    stage: Stage | None = None
    for spec in stages:
        if not spec.first <= progress.step <= spec.first + spec.steps:
            continue  # over before the checkpoint, or never reached in time
        try:
            made = spec.make(ctx.on_progress_or_stop)
        except Interrupted:
            if stage:
                save(stage, run, progress)
            raise
        if stage is None:
            _take_up(made, ctx, start, is_over=progress.step == last)
        stage = made
        yield from train_stage(stage, ctx, progress, begun=begun)
        if progress.step >= stage.last or _are_done(
            stage, progress
        ):  # the next stage begins afresh
            if progress.evaluated == progress.step:
                progress.evaluated = stage.last
            progress.step, progress.stale = stage.last, {}
    assert stage is not None
    with averaged(stage):
        ctx.keep(network, run.final)
        if progress.best_step < 0:  # never evaluated: the last is the best there is
            ctx.keep(network, run.best)


def _take_up(stage: Stage, ctx: RunContext, start: Checkpoint | None, *, is_over: bool) -> None:
    """All that may be refused is checked before the folder is changed."""
    if start:
        try:
            restore(stage, start)
        except ValueError as error:
            raise UserError(
                f"{start.folder} does not fit these settings: {error}; go on with those it was "
                "written under, or begin another run, with train.init_from to inherit from it"
            ) from None
    ctx.run.truncate_metrics(start.documents["state"]["metrics_bytes"] if start else 0)
    ctx.run.write_document("run", ctx.record)
    if not is_over:  # what was final once is so no longer
        delete_checkpoint(ctx.run.final)


def train_stage(
    stage: Stage, ctx: RunContext, progress: Progress, *, begun: float
) -> Iterator[Event]:
    """``begun``: when the whole training did."""
    recipe, run = stage.recipe, ctx.run
    entered = time.monotonic()
    saved = progress.step
    for name, parameter in stage.network.named_parameters():
        parameter.requires_grad_(name in stage.trained)
    try:
        while True:
            over = (
                progress.step >= stage.last
                or _is_out_of_time(recipe, begun)
                or _are_done(stage, progress)
            )
            if progress.evaluated != progress.step and _is_due(
                recipe.evaluate, progress.step, stage, over
            ):
                with averaged(stage):
                    yield measure(stage, ctx, progress)
            if progress.step != saved and _is_due(recipe.checkpoint, progress.step, stage, over):
                save(stage, run, progress)
                saved = progress.step
            if over:
                break
            yield make_step(stage, run, progress)
            ctx.interrupt.check()
    except Interrupted:
        if progress.step != saved:
            save(stage, run, progress)
        raise
    run.append_timing(
        {"event": "trained", "step": progress.step, "seconds": time.monotonic() - entered}
    )


def make_step(stage: Stage, run: RunFolder, progress: Progress) -> Stepped:
    """One batch of every task whose turn it is, their gradients combined, one optimizer step."""
    recipe, epoch = stage.recipe, stage.epoch(progress.step)
    weights = stage.loss_weighting.weights(epoch)
    batches = [
        batch
        for batch in stage.stream.batches(progress.step - stage.first)
        if not progress.is_done(batch.task, recipe.patience)
    ]
    totals = [0.0] * len(batches)
    stage.optimizer.zero_grad(set_to_none=True)
    for microbatch, loss in add_gradients(stage, batches, progress.step, weights):
        totals[microbatch.batch] += microbatch.share * loss
        if stage.surgery:
            stage.surgery.stash(batches[microbatch.batch].task)
    losses: dict[str, list[float]] = {}
    for batch, total in zip(batches, totals, strict=True):
        losses.setdefault(batch.task, []).append(total)
    conflicts = stage.surgery.combine(progress.step) if stage.surgery else {}
    findings = stage.watch.look([task for task in losses if weights[task] > 0])
    if recipe.soft_l2 or recipe.soft_trace:  # after the look: it would hide a dead block
        soft_penalty(stage.network, l2=recipe.soft_l2, trace=recipe.soft_trace).backward()
    norm = clip(stage.trained.values(), recipe.clip or math.inf).item()
    mean = {task: float(np.mean(values)) for task, values in losses.items()}
    record: dict[str, Any] = {"event": "step", "step": progress.step, "epoch": epoch, "loss": mean}
    broken = guards.not_finite(
        progress.step, mean, norm, lambda task: _row_ids(stage, batches, task)
    )
    if broken and recipe.on_nan == "stop":
        raise TrainingStopped(str(broken))
    if broken:
        progress.skipped += 1
        record["skipped"] = True
        if progress.skipped == 1:  # each is counted, one is told
            findings.append(replace(broken, fatal=False))
    elif batches:
        lr = recipe.lr * recipe.schedule(progress.step - stage.first)
        set_learning_rate(stage.optimizer, lr)
        stage.optimizer.step()
        if recipe.ema is not None:
            update_average(stage.average, stage.trained, decay=recipe.ema)
        stage.loss_weighting.observe(mean, stage.surgery.lengths if stage.surgery else None, epoch)
        record |= {"norm": norm, "lr": lr, "weight": {task: weights[task] for task in mean}}
    if conflicts and progress.step % COSINES_EVERY == 0:
        record["cosine"] = conflicts
    progress.step += 1
    if progress.step - stage.first in stage.stream.epoch_ends:
        stream = stage.stream
        record["batches"] = {"planned": stream.planned(epoch), "drawn": stream.drawn(epoch)}
    run.append_metrics(record)
    _note(run, progress, findings)
    return Stepped(progress.step, epoch, mean, findings)


def measure(stage: Stage, ctx: RunContext, progress: Progress) -> Evaluated:
    """Score the network on the dev rows; keep it if it is the best so far."""
    begun = time.monotonic()
    network, run, dev = stage.network, ctx.run, ctx.dev
    found = outputs_on(stage.dev_forward, dev, on_progress=ctx.on_progress_or_stop)
    scores = scores_of(network, found, dev)
    kept = kept_score(scores, stage.recipe.keep)
    best = kept > progress.best or progress.best_step < 0
    if best:
        progress.best, progress.best_step = kept, progress.step
        ctx.keep(network, run.best)
    keep_each(stage, ctx, progress, scores)
    epoch = stage.epoch(max(progress.step - 1, stage.first))
    shown = {task: {"score": s.score, "low": s.low, "high": s.high} for task, s in scores.items()}
    run.append_metrics(
        {"event": "dev", "step": progress.step, "epoch": epoch, "scores": shown, **overall(scores)}
    )
    run.append_timing({"event": "dev", "step": progress.step, "seconds": time.monotonic() - begun})
    findings = [
        finding
        for name, output in found.items()
        for finding in guards.on_dev(
            network.tasks[name],
            predict_labels(network.tasks[name], output),
            np.asarray(dev[name].label),
        )
    ]
    _note(run, progress, findings)
    progress.evaluated = progress.step
    return Evaluated(progress.step, epoch, scores, best, findings)


def keep_each(
    stage: Stage, ctx: RunContext, progress: Progress, scores: Mapping[str, Score]
) -> None:
    """Remember when each task was at its best, and the network it was best with if asked for."""
    for task, found in scores.items():
        if not found.score > progress.task_best.get(task, -math.inf):
            progress.stale[task] = progress.stale.get(task, 0) + 1
            continue
        progress.task_best[task], progress.stale[task] = found.score, 0
        if stage.recipe.keep_each:
            ctx.keep(stage.network, ctx.run.best_of(task))


def outputs_on(
    forward: Forward, corpora: Mapping[str, Corpus], *, on_progress: OnProgress = ignore_progress
) -> dict[str, np.ndarray]:
    """What every task says about its rows."""
    return {task: forward.outputs(task, on_progress=on_progress) for task in corpora}


def scores_of(
    network: Network, found: Mapping[str, np.ndarray], corpora: Mapping[str, Corpus]
) -> dict[str, Score]:
    """The score of every task on its labelled rows."""
    return {
        task: score(network.tasks[task], output, np.asarray(corpora[task].label))
        for task, output in found.items()
    }


def kept_score(scores: Mapping[str, Score], keep: str) -> float:
    """The number a checkpoint is kept by: official, mean, sum, or one task's score."""
    value = scores[keep].score if keep in scores else overall(scores)[keep]
    return value if math.isfinite(value) else -math.inf


def _is_due(due: Due, step: int, stage: Stage, over: bool) -> bool:
    if due == "never" or step == stage.first:
        return False
    if due == "epoch":
        return over or step - stage.first in stage.stream.epoch_ends
    return over or step % due == 0


def _is_out_of_time(recipe: Recipe, begun: float) -> bool:
    return recipe.max_seconds is not None and time.monotonic() - begun >= recipe.max_seconds


def _are_done(stage: Stage, progress: Progress) -> bool:
    return all(progress.is_done(task, stage.recipe.patience) for task in stage.network.tasks)


def _row_ids(stage: Stage, batches: Sequence[Batch], task: str) -> list[str]:
    corpus = stage.stream.corpora[task]
    return [corpus.id(row) for b in batches if b.task == task for row in b.rows.tolist()]


def _note(run: RunFolder, progress: Progress, findings: Sequence[Finding]) -> None:
    """Findings depend on what a watch has seen since it began, so they are not metrics."""
    for finding in findings:
        run.append_timing({"event": "guard", "step": progress.step, **asdict(finding)})
