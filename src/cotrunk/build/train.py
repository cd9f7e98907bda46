"""Train a config: as an iterator of events, or in one call."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from warnings import warn

from cotrunk.build.checks import read_checked
from cotrunk.build.extensions import NO_EXTENSIONS, Extensions
from cotrunk.build.prepare import prepare
from cotrunk.build.resume import resumed
from cotrunk.build.trained_model import TrainedModel, load_trained
from cotrunk.config.settings import Settings
from cotrunk.errors import UserError, option
from cotrunk.learn.loop import train as train_network
from cotrunk.learn.run import Interrupt, Run
from cotrunk.progress import OnProgress, ignore_progress
from cotrunk.runs.checkpoint import Checkpoint
from cotrunk.runs.cost import Cost
from cotrunk.runs.events import Event, Finding, Finished, Started
from cotrunk.runs.folder import RunFolder
from cotrunk.runs.seal import seal_run
from cotrunk.track.follow import followed
from cotrunk.track.tracker import Tracked, parameters_of


@dataclass(frozen=True)
class TrainedRun:
    """A finished training run. ``scores`` and ``overall`` are those of the best network.

    They are empty, and ``best_step`` None, if it was never evaluated. ``seconds`` is the time of
    this call; ``cost`` is the total over all resumes.
    """

    folder: Path
    steps: int
    seconds: float
    parameters: int
    best_step: int | None
    scores: Mapping[str, Mapping[str, Any]]
    overall: Mapping[str, float | None]
    cost: Cost
    extensions: Extensions = NO_EXTENSIONS

    def load(self, *, which: str = "best") -> TrainedModel:
        """The trained network, to predict, embed and evaluate."""
        return load_trained(self.folder, which=which, extensions=self.extensions)


def train(
    config: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    overrides: Sequence[str] = (),
    extensions: Extensions = NO_EXTENSIONS,
) -> TrainedRun:
    """Train a config into a run folder without output; warnings go to ``warnings.warn``."""
    events = train_events(
        config, out, resume=resume, force=force, overrides=overrides, extensions=extensions
    )
    said: set[str] = set()
    finished: Finished | None = None
    for event in events:
        for warning in warnings_of(event):
            if warning not in said:
                said.add(warning)
                warn(warning, stacklevel=3)
        finished = event if isinstance(event, Finished) else None
    assert finished is not None
    best = finished.best
    return TrainedRun(
        finished.folder,
        finished.steps,
        finished.seconds,
        finished.parameters,
        best_step=best.step if best else None,
        scores=best.scores if best else {},
        overall=best.overall if best else {},
        cost=finished.cost,
        extensions=extensions,
    )


def train_events(
    config: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    overrides: Sequence[str] = (),
    extensions: Extensions = NO_EXTENSIONS,
    on_progress: OnProgress = ignore_progress,
    interrupt: Interrupt | None = None,
) -> Generator[Event]:
    """Train a config and yield its events; training advances as the generator is consumed.

    ``on_progress`` is called during long operations between events. Setting ``interrupt.signal``,
    from a signal handler or another thread, ends the training after the current step with a
    checkpoint, and raises ``Interrupted``.
    """
    if isinstance(overrides, str):
        raise UserError(f"overrides must be a list, as in overrides=[{overrides!r}]")
    path = Path(config)
    settings = read_checked(path, overrides, extensions=extensions)
    return train_settings(
        settings,
        path.parent,
        Path(out),
        resume=resume,
        force=force,
        extensions=extensions,
        on_progress=on_progress,
        interrupt=interrupt,
    )


def train_settings(
    settings: Settings,
    base: Path,
    out: Path,
    *,
    resume: bool = False,
    force: bool = False,
    extensions: Extensions = NO_EXTENSIONS,
    on_progress: OnProgress = ignore_progress,
    interrupt: Interrupt | None = None,
) -> Generator[Event]:
    """``train_events`` for settings already read; their paths are relative to ``base``."""
    refuse_force_alone(force=force, resume=resume)
    resumes = resume and RunFolder(out).settings.exists()
    if resumes:
        RunFolder(out).read_record()  # a foreign file is refused before any work is done
    else:
        RunFolder.refuse_taken(out)

    def ready() -> Run:
        return prepare(
            settings,
            base,
            out,
            extensions=extensions,
            on_progress=on_progress,
            interrupt=interrupt,
        )

    if resumes:
        with RunFolder(out).lock():
            RunFolder(out).create_logs()
            before = RunFolder(out).read_record()
            run, start = resumed(ready(), before, force=force)
            yield _started(run, start, _resume_note(run, start), resumed=True)
            yield from _tracked(settings, base, run, start)
        return
    run = ready()
    note = [f"nothing to resume in {out}: starting a new run"] if resume else []
    with RunFolder.create(out).lock():
        run.folder.write_document("run", run.record)
        seal_run(run.folder.path)
        yield _started(run, None, *note, resumed=False)
        yield from _tracked(settings, base, run, None)


def _tracked(
    settings: Settings, base: Path, run: Run, start: Checkpoint | None
) -> Generator[Event]:
    """The events of the training, followed by the trackers of [track]."""
    events = train_network(run, start)
    if not settings.track.to:
        return events
    place = base / settings.track.folder if settings.track.folder else run.folder.path / "track"
    parameters = parameters_of(settings.model_dump())
    tracked = Tracked(run.folder.path, _step_of(start), parameters, place)
    return followed(events, settings.track.to, tracked)


def _step_of(start: Checkpoint | None) -> int:
    return start.documents["state"]["step"] if start else 0


def refuse_force_alone(*, force: bool, resume: bool) -> None:
    if force and not resume:
        raise UserError(
            f"{option('force')} only works with {option('resume')}: "
            "it resumes a run with changed settings"
        )


def warnings_of(event: Event) -> list[str]:
    """Warnings and findings of an event."""
    findings: Sequence[Finding] = getattr(event, "findings", ())
    own = event.warnings if isinstance(event, Started) else ()
    return [*own, *map(str, findings)]


def _started(run: Run, start: Checkpoint | None, *notes: str, resumed: bool) -> Started:
    return Started(
        folder=run.folder.path,
        step=_step_of(start),
        steps=run.steps,
        resumed=resumed,
        parameters=run.parameters,
        notes=(*run.notes, *notes),
        warnings=run.warnings,
        findings=run.findings,
        max_seconds=run.max_seconds,
    )


def _resume_note(run: Run, start: Checkpoint | None) -> str:
    if start is None:
        return "no checkpoint: starting from step 0"
    step = _step_of(start)
    over = "; training is already complete" if step == run.steps else ""
    return f"resuming after step {step}{over}"
