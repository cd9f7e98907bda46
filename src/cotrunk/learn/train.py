"""The training loop. It only appends to the run folder, and tells its caller what happened."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cotrunk.data.cache import Corpus
from cotrunk.data.stream import Batch
from cotrunk.done import Done, Tell, untold
from cotrunk.errors import UserError
from cotrunk.learn import guards
from cotrunk.learn.forward import Forward
from cotrunk.learn.guards import Finding
from cotrunk.learn.metrics import Score, decide, overall, score
from cotrunk.learn.optimizer import clip, set_learning_rate, update_average
from cotrunk.learn.portions import add_gradients
from cotrunk.learn.soft import soft_penalty
from cotrunk.learn.state import (
    Due,
    Planned,
    Progress,
    Recipe,
    Stage,
    averaged,
    progress_of,
    restore,
    save,
    tensors_of,
)
from cotrunk.model.network import Network
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
class Surroundings:
    """What training looks at and writes to, the same in all stages.

    ``record`` is what run.json says once it goes on; ``documents`` make saved models whole.
    """

    run: RunFolder
    record: Mapping[str, object]
    documents: Mapping[str, object]
    dev: Mapping[str, Corpus]
    interrupt: Interrupt
    tell: Tell = untold

    def at_work(self, done: Done) -> None:
        """Within what takes long: stops where asked to, and tells how far it is."""
        self.interrupt.check()
        self.tell(done)

    def keep(self, network: Network, place: Path) -> None:
        model = {"model": tensors_of(network)}
        write_checkpoint(place, tensors=model, documents=self.documents)


def train(
    network: Network, stages: Sequence[Planned], around: Surroundings, start: Checkpoint | None
) -> Iterator[Event]:
    """Train through all stages, from ``start`` if given."""
    run, begun = around.run, time.monotonic()
    at = progress_of(start) if start else Progress()
    last = stages[-1].first + stages[-1].steps
    if at.step > last:
        raise UserError(
            f"the run is at step {at.step}, but these settings end at step {last}; "
            "give it more epochs, or start another run"
        )
    if start:
        network.load_state_dict(start.tensors("model"), strict=True)
    stage: Stage | None = None
    for planned in stages:
        if not planned.first <= at.step <= planned.first + planned.steps:
            continue  # over before the checkpoint, or never reached in time
        try:
            made = planned.make(around.at_work)
        except Interrupted:
            if stage:
                save(stage, run, at)
            raise
        if stage is None:
            _take_up(made, around, start, is_over=at.step == last)
        stage = made
        yield from train_stage(stage, around, at, begun=begun)
        if at.step >= stage.last or _are_done(stage, at):  # the next stage begins afresh
            if at.evaluated == at.step:
                at.evaluated = stage.last
            at.step, at.stale = stage.last, {}
    assert stage is not None
    with averaged(stage):
        around.keep(network, run.final)
        if at.best_step < 0:  # never evaluated: the last is the best there is
            around.keep(network, run.best)


def _take_up(
    stage: Stage, around: Surroundings, start: Checkpoint | None, *, is_over: bool
) -> None:
    """All that may be refused is checked before the folder is changed."""
    if start:
        try:
            restore(stage, start)
        except ValueError as error:
            raise UserError(
                f"{start.folder} does not fit these settings: {error}; go on with those it was "
                "written under, or begin another run, with train.init_from to inherit from it"
            ) from None
    around.run.truncate_metrics(start.documents["state"]["metrics_bytes"] if start else 0)
    around.run.write_document("run", around.record)
    if not is_over:  # what was final once is so no longer
        delete_checkpoint(around.run.final)


def train_stage(
    stage: Stage, around: Surroundings, at: Progress, *, begun: float
) -> Iterator[Event]:
    """``begun``: when the whole training did."""
    recipe, run = stage.recipe, around.run
    entered = time.monotonic()
    saved = at.step
    for name, parameter in stage.network.named_parameters():
        parameter.requires_grad_(name in stage.trained)
    try:
        while True:
            over = at.step >= stage.last or _is_out_of_time(recipe, begun) or _are_done(stage, at)
            if at.evaluated != at.step and _is_due(recipe.evaluate, at.step, stage, over):
                with averaged(stage):
                    yield measure(stage, around, at)
            if at.step != saved and _is_due(recipe.checkpoint, at.step, stage, over):
                save(stage, run, at)
                saved = at.step
            if over:
                break
            yield make_step(stage, run, at)
            around.interrupt.check()
    except Interrupted:
        if at.step != saved:
            save(stage, run, at)
        raise
    run.append_timing({"event": "trained", "step": at.step, "seconds": time.monotonic() - entered})


def make_step(stage: Stage, run: RunFolder, at: Progress) -> Stepped:
    """One batch of every task whose turn it is, their gradients combined, one optimizer step."""
    recipe, epoch = stage.recipe, stage.epoch(at.step)
    weights = stage.balance.weights(epoch)
    batches = [
        batch
        for batch in stage.stream.batches(at.step - stage.first)
        if not at.is_done(batch.task, recipe.patience)
    ]
    totals = [0.0] * len(batches)
    stage.optimizer.zero_grad(set_to_none=True)
    for portion, loss in add_gradients(stage, batches, at.step, weights):
        totals[portion.batch] += portion.share * loss
        if stage.surgery:
            stage.surgery.take(batches[portion.batch].task)
    losses: dict[str, list[float]] = {}
    for batch, total in zip(batches, totals, strict=True):
        losses.setdefault(batch.task, []).append(total)
    conflicts = stage.surgery.give(at.step) if stage.surgery else {}
    findings = stage.watch.look([task for task in losses if weights[task] > 0])
    if recipe.soft_l2 or recipe.soft_trace:  # after the look: it would hide a dead block
        soft_penalty(stage.network, l2=recipe.soft_l2, trace=recipe.soft_trace).backward()
    norm = clip(stage.trained.values(), recipe.clip or math.inf).item()
    mean = {task: float(np.mean(values)) for task, values in losses.items()}
    record: dict[str, Any] = {"event": "step", "step": at.step, "epoch": epoch, "loss": mean}
    broken = guards.not_finite(at.step, mean, norm, lambda task: _row_ids(stage, batches, task))
    if broken and recipe.on_nan == "stop":
        raise TrainingStopped(str(broken))
    if broken:
        at.skipped += 1
        record["skipped"] = True
        if at.skipped == 1:  # each is counted, one is told
            findings.append(replace(broken, fatal=False))
    elif batches:
        lr = recipe.lr * recipe.schedule(at.step - stage.first)
        set_learning_rate(stage.optimizer, lr)
        stage.optimizer.step()
        if recipe.ema is not None:
            update_average(stage.average, stage.trained, decay=recipe.ema)
        stage.balance.observe(mean, stage.surgery.lengths if stage.surgery else None, epoch)
        record |= {"norm": norm, "lr": lr, "weight": {task: weights[task] for task in mean}}
    if conflicts and at.step % COSINES_EVERY == 0:
        record["cosine"] = conflicts
    at.step += 1
    if at.step - stage.first in stage.stream.epoch_ends:
        stream = stage.stream
        record["batches"] = {"planned": stream.planned(epoch), "drawn": stream.drawn(epoch)}
    run.append_metrics(record)
    _note(run, at, findings)
    return Stepped(at.step, epoch, mean, findings)


def measure(stage: Stage, around: Surroundings, at: Progress) -> Evaluated:
    """Score the network on the dev rows; keep it if it is the best so far."""
    begun = time.monotonic()
    network, run, dev = stage.network, around.run, around.dev
    found = outputs_on(stage.judge, dev, tell=around.at_work)
    scores = scores_of(network, found, dev)
    kept = kept_score(scores, stage.recipe.keep)
    best = kept > at.best or at.best_step < 0
    if best:
        at.best, at.best_step = kept, at.step
        around.keep(network, run.best)
    keep_each(stage, around, at, scores)
    epoch = stage.epoch(max(at.step - 1, stage.first))
    shown = {task: {"score": s.score, "low": s.low, "high": s.high} for task, s in scores.items()}
    run.append_metrics(
        {"event": "dev", "step": at.step, "epoch": epoch, "scores": shown, **overall(scores)}
    )
    run.append_timing({"event": "dev", "step": at.step, "seconds": time.monotonic() - begun})
    findings = [
        finding
        for name, output in found.items()
        for finding in guards.on_dev(
            network.tasks[name], decide(network.tasks[name], output), np.asarray(dev[name].label)
        )
    ]
    _note(run, at, findings)
    at.evaluated = at.step
    return Evaluated(at.step, epoch, scores, best, findings)


def keep_each(
    stage: Stage, around: Surroundings, at: Progress, scores: Mapping[str, Score]
) -> None:
    """Remember when each task was at its best, and the network it was best with if asked for."""
    for task, found in scores.items():
        if not found.score > at.task_best.get(task, -math.inf):
            at.stale[task] = at.stale.get(task, 0) + 1
            continue
        at.task_best[task], at.stale[task] = found.score, 0
        if stage.recipe.keep_each:
            around.keep(stage.network, around.run.best_of(task))


def outputs_on(
    forward: Forward, corpora: Mapping[str, Corpus], *, tell: Tell = untold
) -> dict[str, np.ndarray]:
    """What every task says about its rows."""
    return {task: forward.outputs(task, tell=tell) for task in corpora}


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


def _are_done(stage: Stage, at: Progress) -> bool:
    return all(at.is_done(task, stage.recipe.patience) for task in stage.network.tasks)


def _row_ids(stage: Stage, batches: Sequence[Batch], task: str) -> list[str]:
    corpus = stage.stream.corpora[task]
    return [corpus.id(row) for b in batches if b.task == task for row in b.rows.tolist()]


def _note(run: RunFolder, at: Progress, findings: Sequence[Finding]) -> None:
    """Findings depend on what a watch has seen since it began, so they are not metrics."""
    for finding in findings:
        run.append_timing({"event": "guard", "step": at.step, **asdict(finding)})
