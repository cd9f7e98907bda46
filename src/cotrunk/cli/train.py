"""``cotrunk train``: a config into a run folder, or a run that goes on."""

import signal
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from cotrunk.build.checks import refuse_wrong_options
from cotrunk.build.experiment import PreparedRun, prepare
from cotrunk.cli.terminal import progress, tables
from cotrunk.cli.terminal.output import Document, say
from cotrunk.cli.terminal.signals import handling_signals, hangup, say_at_once
from cotrunk.config.settings import Settings, read_settings
from cotrunk.data.batches.sampling import dry_run
from cotrunk.data.tokens.workers import cores
from cotrunk.errors import UserError, plural
from cotrunk.learn.loop import Interrupt, Interrupted, RunContext
from cotrunk.learn.loop import train as train_network
from cotrunk.model.sharing.network import Network
from cotrunk.runs.checkpoint import Checkpoint
from cotrunk.runs.folder import RunFolder, best_evaluation

MAY_DIFFER = ("base", "threads", "settings.train.threads")
"""Places of run.json where a resumed run need not be as it began."""


def train(arguments: Namespace) -> Document:
    path = Path(arguments.config)
    _refuse_force_alone(force=arguments.force, resume=arguments.resume)
    settings = read_settings(path, arguments.set)
    if arguments.dry_run:
        return _dry_run(settings, path.parent, arguments)
    document = train_into(
        settings,
        path.parent,
        Path(arguments.out or Path("runs") / path.stem),
        title=path.stem,
        resume=arguments.resume,
        force=arguments.force,
    )
    if document["scores"] and not arguments.json:
        tables.show_scores(
            f"{path.stem}: best on dev, after step {document['best_step']}", document
        )
    return document


def _dry_run(settings: Settings, base: Path, arguments: Namespace) -> Document:
    prepared = _prepare(settings, base)
    sampling = [
        plan
        for stream in prepared.streams
        for plan in dry_run(
            stream.sampler, stream.sizes, batch=stream.batch, seed=stream.seed, epochs=stream.epochs
        )
    ]
    document = {
        "parameters": sum(p.numel() for p in prepared.network.parameters()),
        "steps": prepared.steps,
        "sampling": sampling,
    }
    if not arguments.json:
        tables.show_dry_run(document)
    return document


def train_into(
    settings: Settings,
    base: Path,
    out: Path,
    *,
    title: str,
    resume: bool = False,
    force: bool = False,
) -> Document:
    """Train into a run folder, or go on there; the folder is locked meanwhile."""
    _refuse_force_alone(force=force, resume=resume)
    if resume and (out / "run.json").exists():
        return _go_on(settings, base, RunFolder.open(out), title=title, force=force)
    RunFolder.refuse_taken(out)
    if resume:
        say(f"note: {out} holds no run to resume, so one is begun there")
    prepared = _prepare(settings, base)
    run = RunFolder.create(out)
    with run.lock():
        run.write_document("run", prepared.record)
        return _train(prepared, run, None, title=title)


def _refuse_force_alone(*, force: bool, resume: bool) -> None:
    if force and not resume:
        raise UserError(
            "--force: it resumes a run although something has changed; give --resume too"
        )


def _go_on(settings: Settings, base: Path, run: RunFolder, *, title: str, force: bool) -> Document:
    _refuse_foreign(run)
    with run.lock():
        before = run.read_document("run")
        prepared = _prepare(settings, base)
        changes = list(_differences(before, prepared.record, ""))
        if changes and not force:
            _refuse_changes(changes)
        start, warnings = run.latest_good()
        if start:
            _refuse_another_network(prepared.network, start)
            if threads := _threads_of(before):  # as it began, however it goes on
                warnings += _other_threads(threads, prepared)
                prepared.record["threads"] = threads
        for warning in warnings:
            say(f"warning: {warning}")
        for change in changes:
            say(f"note: {change}")
        say(f"{title}: {_whence(start, prepared)}")
        return _train(prepared, run, start, title=title)


def _refuse_foreign(run: RunFolder) -> None:
    found = run.read_document("run")
    if not (isinstance(found, dict) and "settings" in found):
        raise UserError(f"{run.settings} is not of a run of ours; give another folder")


def _whence(start: Checkpoint | None, prepared: PreparedRun) -> str:
    if start is None:
        return "no checkpoint yet, so it begins anew"
    step = start.documents["state"]["step"]
    over = "; nothing is left to train" if step == prepared.steps else ""
    return f"going on after step {step}{over}"


def _threads_of(record: object) -> int | None:
    """How many a run was begun with; older folders say it only if they were told how many."""
    match record:
        case {"threads": int(count)} | {"settings": {"train": {"threads": int(count)}}}:
            return count
    return None


def _other_threads(before: int, prepared: PreparedRun) -> list[str]:
    now = prepared.record["threads"]
    if now == before or next(prepared.network.parameters()).device.type != "cpu":
        return []
    advice = f"; --set train.threads={before} goes on as it began" if before <= cores() else ""
    return [
        f"the run was trained with {plural(before, 'thread')}, now with {now}: its last digits "
        f"may round otherwise than in one go{advice}"
    ]


def _prepare(settings: Settings, base: Path) -> PreparedRun:
    refuse_wrong_options(settings)
    _take_threads(settings.train.threads)
    with terminable(), progress.counting() as counter:
        prepared = prepare(settings, base, on_progress=counter)
    for note in prepared.notes:
        say(note if note.startswith("warning: ") else f"note: {note}")
    return prepared


def _take_threads(wanted: int | None) -> None:
    if wanted is None:
        return
    torch.set_num_threads(wanted)
    if wanted > cores():
        say(
            f"warning: train.threads = {wanted}, but there {'is' if cores() == 1 else 'are'} "
            f"{plural(cores(), 'core')} here: more threads only wait for each other"
        )


def _train(
    prepared: PreparedRun, run: RunFolder, start: Checkpoint | None, *, title: str
) -> Document:
    first = start.documents["state"]["step"] if start else 0
    begun = time.monotonic()
    watching = progress.watching(title, steps=prepared.steps, start=first)
    with interruptible(run) as interrupt, watching as watch:
        ctx = RunContext(
            run,
            prepared.record,
            prepared.documents,
            prepared.dev,
            interrupt,
            on_progress=watch.counter,
        )
        progress.follow(train_network(prepared.network, prepared.stages, ctx, start), watch)
    kept = best_evaluation(run)
    say(f"{title}: the run is in {run.path}")
    return {
        "run": str(run.path),
        "steps": prepared.steps,
        "seconds": round(time.monotonic() - begun, 3),
        "parameters": sum(p.numel() for p in prepared.network.parameters()),
        "bytes": sum(file.stat().st_size for file in run.best.iterdir()),
        "best_step": kept.get("step"),
        "scores": {task: kept["scores"][task] for task in prepared.network.tasks} if kept else {},
        "overall": {key: kept.get(key) for key in ("official", "mean")},
    }


def _refuse_changes(changes: list[str]) -> None:
    raise UserError(
        "the run was started otherwise, and a resumed run goes on as it began: give the same "
        "config and every --set again (--force resumes all the same, with what is new):",
        *changes,
    )


def _refuse_another_network(network: Network, start: Checkpoint) -> None:
    """What --force cannot do."""
    now, before = (
        {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        for tensors in (network.state_dict(), start.tensors("model"))
    )
    different = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if different:
        raise UserError(
            f"{start.folder} is of another network, as {different[0]} shows, and even --force goes "
            "on with the same; begin another run, with train.init_from to inherit from this one"
        )


def _differences(before: object, now: object, place: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from _differences(before.get(key), now.get(key), f"{place}.{key}".lstrip("."))
    elif before != now and before and now and place.startswith("data."):
        _, split, task = place.split(".")
        yield f"tasks.{task}.{split}: its file has other contents now"
    elif before != now and place not in MAY_DIFFER:
        was, is_now = ("not set" if x is None else repr(x) for x in (before, now))
        yield f"{place.removeprefix('settings.')}: was {was}, is now {is_now}"


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM, or a terminal that closes, ends what is done here as Ctrl-C does: cleared away."""
    signals = [signal.SIGTERM, *hangup()]

    def end(number: int, _frame: object) -> None:
        for each in signals:  # another one would cut the clearing short
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    with handling_signals(signals, end):
        yield


@contextmanager
def interruptible(run: RunFolder) -> Iterator[Interrupt]:
    """Signals ask the training to stop after its step; a second one stops at once."""
    interrupt = Interrupt()

    def ask(number: int, _frame: object) -> None:
        if interrupt.signal is None:
            interrupt.signal = number
            say_at_once(
                "stopping: a step that was begun is ended and saved; once more to stop at once"
            )
        elif number != signal.SIGHUP:  # which comes twice: from the shell and from the kernel
            raise SystemExit(128 + number)

    with handling_signals([signal.SIGINT, signal.SIGTERM, *hangup()], ask):
        try:
            yield interrupt
        except Interrupted as stopped:
            saved = any(run.checkpoints.iterdir())
            after = "goes on from here" if saved else "begins anew, for no step was made yet"
            say(f"stopped; --resume {after}")
            raise SystemExit(128 + stopped.signal) from None
