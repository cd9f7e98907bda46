"""The training loop: writes to the run folder and yields events."""

import time
from collections.abc import Generator
from dataclasses import asdict

from cotrunk.errors import UserError
from cotrunk.learn.evaluate import evaluate, keep
from cotrunk.learn.run import Interrupted, Run
from cotrunk.learn.stage import Due, Progress, Stage, averaged, progress_of, restore, save
from cotrunk.learn.step import make_step
from cotrunk.runs.checkpoint import Checkpoint, delete_checkpoint
from cotrunk.runs.evaluation import read_evaluation
from cotrunk.runs.events import Event, Finished, Saved


def train(run: Run, start: Checkpoint | None) -> Generator[Event]:
    """Train through all stages, from ``start`` if given."""
    begun = time.monotonic()
    progress = progress_of(start) if start else Progress()
    _refuse_past_the_end(run, progress)
    if start:
        run.network.load_state_dict(start.tensors("model"), strict=True)
    stage: Stage | None = None
    for number, end in enumerate(run.ends):
        if not run.first_step(number) <= progress.step <= end:
            continue  # ended before the checkpoint, or not reached within max_seconds
        made = _make_stage(run, number, stage, progress)
        if stage is None:
            _begin(run, made, start, is_over=progress.step == run.steps)
        stage = made
        yield from train_stage(run, stage, progress, begun=begun)
        if progress.step >= stage.last or progress.are_done(stage):
            _enter_next(stage, progress)
    assert stage is not None
    with averaged(stage):
        keep(run, run.folder.final)
        if progress.best_step < 0:  # never evaluated: the last is also the best
            keep(run, run.folder.best)
    yield Finished(
        run.folder.path,
        run.steps,
        time.monotonic() - begun,
        run.parameters,
        read_evaluation(run.folder.best),
    )


def train_stage(run: Run, stage: Stage, progress: Progress, *, begun: float) -> Generator[Event]:
    """``begun``: start of the whole training, on the monotonic clock."""
    entered, saved = time.monotonic(), progress.step
    for name, parameter in stage.network.named_parameters():
        parameter.requires_grad_(name in stage.trained)
    try:
        while True:
            over = _is_over(run, stage, progress, begun)
            if progress.evaluated != progress.step and _is_due(
                stage.evaluate, stage, progress.step, over
            ):
                with averaged(stage):
                    evaluated = evaluate(run, stage, progress)
                yield evaluated
            if progress.step != saved and _is_due(stage.checkpoint, stage, progress.step, over):
                place = save(stage, run.folder, progress)
                saved = progress.step
                yield Saved(progress.step, place)
            if over:
                break
            yield make_step(stage, run.folder, progress)
            run.interrupt.check()
    except Interrupted:
        if progress.step != saved:
            save(stage, run.folder, progress)
        raise
    seconds = time.monotonic() - entered
    run.folder.append_timing({"event": "trained", "step": progress.step, "seconds": seconds})


def _refuse_past_the_end(run: Run, progress: Progress) -> None:
    if progress.step > run.steps:
        raise UserError(
            f"the run is at step {progress.step}, but these settings end at step {run.steps}; "
            "raise train.epochs or train.max_steps, or start a new run"
        )


def _make_stage(run: Run, number: int, before: Stage | None, progress: Progress) -> Stage:
    """May take long and be interrupted: then the stage ``before`` is saved."""
    try:
        return run.make_stage(run, number)
    except Interrupted:
        if before:
            save(before, run.folder, progress)
        raise


def _begin(run: Run, stage: Stage, start: Checkpoint | None, *, is_over: bool) -> None:
    """Restore first, because it may fail; only then change the folder."""
    if start:
        try:
            restore(stage, start)
        except ValueError as error:
            raise UserError(
                f"{start.folder} does not fit these settings: {error}; use the settings it was "
                "written with, or start a new run from this one with train.init_from"
            ) from None
    run.folder.truncate_metrics(start.documents["state"]["metrics_bytes"] if start else 0)
    run.folder.write_document("run", run.record)
    run.folder.write_document("findings", [asdict(finding) for finding in run.findings])
    if not is_over:  # it is out of date now
        delete_checkpoint(run.folder.final)


def _enter_next(stage: Stage, progress: Progress) -> None:
    """A stage that stopped early ends at its last step; the next counts ``stale`` from 0."""
    if progress.evaluated == progress.step:
        progress.evaluated = stage.last
    progress.step, progress.stale = stage.last, {}


def _is_over(run: Run, stage: Stage, progress: Progress, begun: float) -> bool:
    is_late = run.max_seconds is not None and time.monotonic() - begun >= run.max_seconds
    return progress.step >= stage.last or is_late or progress.are_done(stage)


def _is_due(due: Due, stage: Stage, step: int, over: bool) -> bool:
    if due == "never" or step == stage.first:
        return False
    if due == "epoch":
        return over or step - stage.first in stage.stream.epoch_ends
    return over or step % due == 0
