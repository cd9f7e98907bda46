"""``cotrunk train``: start a run, or resume one."""

import signal
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from cotrunk.build.checks import read_checked
from cotrunk.build.prepare import prepare
from cotrunk.build.train import refuse_force_alone, train_settings, warnings_of
from cotrunk.cli.outputs import run_folder
from cotrunk.cli.terminal import progress, tables
from cotrunk.cli.terminal.output import Document, say
from cotrunk.cli.terminal.signals import (
    ending_at_second,
    handling_signals,
    hangup,
    say_at_once,
    terminable,
)
from cotrunk.config.settings import Settings
from cotrunk.data.tokens.cache import load_or_hold_corpus
from cotrunk.learn.run import Interrupt, Interrupted, Run
from cotrunk.progress import OnProgress, ProgressUpdate
from cotrunk.runs.events import Finished, Started
from cotrunk.runs.folder import RunFolder


def train(arguments: Namespace) -> Document:
    path = Path(arguments.config)
    refuse_force_alone(force=arguments.force, resume=arguments.resume)
    settings = read_checked(path, arguments.set, unset=arguments.unset)
    out = run_folder(arguments)
    if arguments.dry_run:
        return _dry_run(settings, path.parent, out, arguments)
    document = train_into(
        settings,
        path.parent,
        out,
        title=out.name,
        resume=arguments.resume,
        force=arguments.force,
    )
    if document["scores"] and not arguments.json:
        tables.show_scores(f"{out.name}: best on dev, after step {document['best_step']}", document)
    return document


def _dry_run(settings: Settings, base: Path, out: Path, arguments: Namespace) -> Document:
    with terminable(), progress.counting() as counter:
        run = prepare(settings, base, out, load=load_or_hold_corpus, on_progress=counter)
    _say(run.notes, [*run.warnings, *map(str, run.findings)])
    document = {"parameters": run.parameters, "steps": run.steps, "sampling": _sampling(run)}
    if not arguments.json:
        tables.show_dry_run(document)
    return document


def _sampling(run: Run) -> list[Document]:
    """The epochs of all stages, as far as their steps go."""
    starts, several = (0, *run.ends), len(run.streams) > 1
    return [
        ({"stage": number + 1} if several else {}) | dict(plan)
        for number, stream in enumerate(run.streams)
        for plan in stream.plans_until(starts[number + 1] - starts[number])
    ]


def train_into(
    settings: Settings,
    base: Path,
    out: Path,
    *,
    title: str,
    resume: bool = False,
    force: bool = False,
) -> Document:
    """Train into a run folder, or resume the run there, and show the progress."""
    interrupt, display = Interrupt(), _Display()
    events = train_settings(
        settings,
        base,
        out,
        resume=resume,
        force=force,
        on_progress=display,
        interrupt=interrupt,
    )
    with closing(events):
        with terminable(), progress.counting() as display.counter:
            started = next(events)
        assert isinstance(started, Started)
        _say(started.notes, warnings_of(started))
        watching = progress.watching(
            title, steps=started.steps, start=started.step, max_seconds=started.max_seconds
        )
        with interruptible(RunFolder(out), interrupt), watching as watch:
            display.counter = watch.counter
            finished = progress.follow(events, watch)
    say(f"{title}: run saved in {out}")
    if finished.step < finished.steps:
        say(f"{title}: {_stopped(finished, started)}")
    return _document(finished)


def _stopped(finished: Finished, started: Started) -> str:
    saved = any(RunFolder(finished.folder).checkpoints.glob("step-*"))
    after = "continues from here" if saved else "starts over, because there is no checkpoint"
    return (
        f"stopped by train.max_seconds = {started.max_seconds:g} after step {finished.step} of "
        f"{finished.steps}; --resume {after}, for another {started.max_seconds:g} seconds or as "
        "set with --set train.max_seconds=N"
    )


class _Display:
    """Shows progress: with one counter before training, with another during it."""

    counter: OnProgress

    def __call__(self, update: ProgressUpdate) -> None:
        self.counter(update)


def _say(notes: Iterable[str], warnings: Iterable[str]) -> None:
    for warning in warnings:
        say(f"warning: {warning}")
    for note in notes:
        say(f"note: {note}")


def _document(finished: Finished) -> Document:
    best = finished.best
    saved = RunFolder(finished.folder).best
    return {
        "run": str(finished.folder),
        "step": finished.step,
        "steps": finished.steps,
        "seconds": round(finished.seconds, 3),
        "parameters": finished.parameters,
        "bytes": sum(file.stat().st_size for file in saved.iterdir()),
        "best_step": best.step if best else None,
        "scores": dict(best.scores) if best else {},
        "overall": {key: best.overall[key] if best else None for key in ("official", "mean")},
        "cost": finished.cost.document(),
    }


@contextmanager
def interruptible(run: RunFolder, interrupt: Interrupt) -> Iterator[None]:
    """A signal stops training after the current step; a second one stops it immediately."""

    def ask(number: int, _frame: object) -> None:
        if interrupt.signal is None:
            interrupt.signal = number
            say_at_once(
                "stopping: finishing this step and saving; interrupt again to stop immediately"
            )
        elif number != signal.SIGHUP:  # SIGHUP comes twice: from the shell and from the kernel
            raise SystemExit(128 + number)

    with handling_signals([signal.SIGINT, signal.SIGTERM, *hangup()], ask), ending_at_second():
        try:
            yield
        except Interrupted as stopped:
            for note in getattr(stopped, "__notes__", ()):
                say(f"warning: {note}")
            saved = any(run.checkpoints.glob("step-*"))
            after = "continues from here" if saved else "starts over: no step was finished"
            say(f"stopped; --resume {after}")
            raise SystemExit(128 + stopped.signal) from None
