"""The training loop: writes to the run folder and yields events."""

import time
from collections.abc import Generator
from pathlib import Path

from cotrunk.errors import UserError
from cotrunk.learn.evaluate import evaluate, keep, save_again
from cotrunk.learn.run import Interrupted, Run
from cotrunk.learn.stage import Due, Progress, Stage, averaged, progress_of, restore, save
from cotrunk.learn.step import make_step
from cotrunk.runs.checkpoint import Checkpoint, delete_checkpoint
from cotrunk.runs.cost import read_cost
from cotrunk.runs.evaluation import read_evaluation
from cotrunk.runs.events import Event, Finished, Saved
from cotrunk.runs.seal import seal_run


def train(run: Run, start: Checkpoint | None) -> Generator[Event]:
    """Train through all stages, from ``start`` if given."""
    begun = time.monotonic()
    progress = progress_of(start) if start else Progress()
    _refuse_past_the_end(run, progress)
    with run.meter.phase("prepare"):
        if start:
            run.network.load_state_dict(start.tensors("model"), strict=True)
    run.meter.start_writing()
    try:
        yield from _train_stages(run, start, progress, begun=begun)
    finally:
        run.meter.write()
    seal_run(run.folder.path, finished=True)
    yield Finished(
        run.folder.path,
        progress.step,
        run.steps,
        time.monotonic() - begun,
        run.parameters,
        read_evaluation(run.folder.best),
        read_cost(run.folder),
    )


def _train_stages(
    run: Run, start: Checkpoint | None, progress: Progress, *, begun: float
) -> Generator[Event]:
    stage: Stage | None = None
    for number, end in enumerate(run.ends):
        if not run.first_step(number) <= progress.step <= end:
            continue  # ended before the checkpoint, or not reached within max_seconds
        made = _make_stage(run, number, stage, progress)
        if stage is None:
            _begin(run, made, start, is_over=progress.step == run.steps)
            with averaged(made):
                save_again(run, made, progress)
        stage = made
        yield from train_stage(run, stage, progress, begun=begun)
        if progress.step >= stage.last or progress.are_done(stage):
            _enter_next(stage, progress)
    assert stage is not None
    with averaged(stage):
        keep(run, run.folder.final, progress.chosen, beside=[run.folder.best])
        if progress.best_step < 0:  # never evaluated: the last is also the best
            keep(run, run.folder.best, progress.chosen, beside=[run.folder.final])


def train_stage(run: Run, stage: Stage, progress: Progress, *, begun: float) -> Generator[Event]:
    """``begun``: start of the whole training, on the monotonic clock."""
    saved = progress.step
    try:
        while True:
            over = _is_over(run, stage, progress, begun)
            if progress.evaluated != progress.step and _is_due(
                stage.evaluate, stage, progress.step, over
            ):
                with averaged(stage), run.meter.phase("evaluate"):
                    evaluated = evaluate(run, stage, progress)
                yield evaluated
            if progress.step != saved and _is_due(stage.checkpoint, stage, progress.step, over):
                with run.meter.phase("save"):
                    place = _save(run, stage, progress)
                saved = progress.step
                yield Saved(progress.step, place)
            if over:
                break
            epoch = stage.epoch(progress.step)
            with run.meter.phase("train", stage=stage.first, epoch=epoch):
                stepped = make_step(stage, run.folder, progress)
            yield stepped
            run.interrupt.check()
    except Interrupted:
        if progress.step != saved:
            with run.meter.phase("save"):
                _save(run, stage, progress)
        raise


def _save(run: Run, stage: Stage, progress: Progress) -> Path:
    return save(stage, run.folder, progress, untrained=run.untrained, keep=run.keep_checkpoints)


def _refuse_past_the_end(run: Run, progress: Progress) -> None:
    if progress.step > run.steps:
        raise UserError(
            f"the run is at step {progress.step}, but these settings end at step {run.steps}; "
            "raise train.epochs or train.max_steps, or start a new run"
        )


def _make_stage(run: Run, number: int, before: Stage | None, progress: Progress) -> Stage:
    """May take long and be interrupted: then the stage ``before`` is saved."""
    try:
        with run.meter.phase("prepare"):
            return run.make_stage(run, number)
    except Interrupted:
        if before:
            _save(run, before, progress)
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
    state = start.documents["state"] if start else {}
    run.folder.begin(
        run.record,
        run.findings,
        metrics_bytes=state.get("metrics_bytes", 0),
        metrics_sha256=state.get("metrics_sha256"),
    )
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
