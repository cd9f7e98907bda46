"""Commands that train."""

import shutil
import signal
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cotrunk import presets, screen, tables
from cotrunk.data.sampling import dry_run
from cotrunk.errors import UserError
from cotrunk.experiment import Job, corpora_of, load_model, prepare
from cotrunk.learn.metrics import baseline
from cotrunk.learn.train import Interrupt, Interrupted
from cotrunk.learn.train import train as train_network
from cotrunk.runs.checkpoint import Checkpoint
from cotrunk.runs.folder import RunFolder, best_evaluation
from cotrunk.settings import Settings, read_settings

Document = dict[str, Any]
MINBERT_NAME = "{task}-output.csv"


def train(arguments: Namespace) -> Document:
    path = Path(arguments.config)
    settings = read_settings(path, arguments.set)
    out = Path(arguments.out or Path("runs") / path.stem)
    if arguments.dry_run:
        return _dry_run(settings, path.parent, arguments)
    return train_into(settings, path.parent, out, arguments, title=path.stem)


def _dry_run(settings: Settings, base: Path, arguments: Namespace) -> Document:
    with screen.counting("tokenising") as counter:
        job = prepare(settings, base, progress=counter)
    sampling = [
        plan
        for stream in job.streams
        for plan in dry_run(
            stream.law, stream.sizes, batch=stream.batch, seed=stream.seed, epochs=stream.epochs
        )
    ]
    document = {
        "parameters": sum(p.numel() for p in job.network.parameters()),
        "steps": job.steps,
        "sampling": sampling,
    }
    if not arguments.json:
        tables.show_dry_run(document)
    return document


def train_into(
    settings: Settings, base: Path, out: Path, arguments: Namespace, *, title: str
) -> Document:
    """Train into a run folder, or go on there; the folder is locked meanwhile."""
    going_on = getattr(arguments, "resume", False) and (out / "run.json").exists()
    # An existing run is looked at before the data are read: refuse early, change nothing.
    run = RunFolder.open(out) if going_on else RunFolder.create(out)
    with run.lock():
        if settings.train.threads:
            import torch

            torch.set_num_threads(settings.train.threads)
        try:
            with screen.counting("tokenising") as counter:
                job = prepare(settings, base, progress=counter)
        except BaseException:
            if not going_on:
                _remove_empty(run)
            raise
        if going_on and not getattr(arguments, "force", False):
            _refuse_changes(run.read_document("run"), job.record)
        run.write_document("run", job.record)
        for note in job.notes:
            screen.say(f"note: {note}")
        return _train(job, run, resume=going_on, title=title, quiet=arguments.json)


def _train(job: Job, run: RunFolder, *, resume: bool, title: str, quiet: bool) -> Document:
    start: Checkpoint | None = None
    if resume:
        start, warnings = run.latest_good()
        for warning in warnings:
            screen.say(f"warning: {warning}")
    first = start.documents["state"]["step"] if start else 0
    if resume:
        screen.say(f"{title}: going on after step {first}")
    begun = time.monotonic()
    with interruptible() as interrupt:
        events = train_network(
            job.network, job.stages, job.dev, run, job.documents, start, interrupt
        )
        evaluations = screen.follow(events, steps=job.steps, start=first, title=title)
    document: Document = {
        "run": str(run.path),
        "steps": job.steps,
        "seconds": round(time.monotonic() - begun, 3),
        "parameters": sum(p.numel() for p in job.network.parameters()),
        "bytes": sum(file.stat().st_size for file in run.best.iterdir()),
    }
    kept = best_evaluation(run)
    if kept:
        document |= {"best_step": kept["step"], "scores": kept["scores"]}
        document["overall"] = {key: kept[key] for key in ("official", "mean")}
    if not quiet and evaluations:
        tables.show_scores(f"{title}: best on dev, after step {kept['step']}", kept)
    screen.say(f"{title}: the run is in {run.path}")
    return document


def _remove_empty(run: RunFolder) -> None:
    """A run that could not start leaves nothing behind."""
    if not run.settings.exists() and not any(run.checkpoints.iterdir()):
        shutil.rmtree(run.path, ignore_errors=True)


def _refuse_changes(before: Document, now: Document) -> None:
    different = list(_differences(before, now, ""))
    if different:
        raise UserError(
            "the run was started otherwise, and a resumed run goes on as it began "
            "(--force resumes all the same):",
            *different,
        )


def _differences(before: object, now: object, place: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from _differences(before.get(key), now.get(key), f"{place}.{key}".lstrip("."))
    elif before != now and place != "base":
        yield f"{place.removeprefix('settings.')}: was {before!r}, is now {now!r}"


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Signals ask the training to stop after its step; a second one stops at once."""
    interrupt = Interrupt()

    def ask(number: int, _frame: object) -> None:
        if interrupt.signal is not None:
            raise SystemExit(128 + number)
        interrupt.signal = number
        screen.say("stopping after this step, with a checkpoint; once more to stop at once")

    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, ask) for number in signals}
    try:
        yield interrupt
    except Interrupted as stopped:
        raise SystemExit(128 + stopped.signal) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def demo(arguments: Namespace) -> Document:
    """The three plans of Hybrid BERT on the sample data, in one table."""
    out = Path(arguments.out)
    taken = [name for name in presets.DEMO if (out / name / "run.json").exists()]
    if taken:
        raise UserError(f"{out / taken[0]} is there already; give another folder with --out")
    document: Document = {"runs": []}
    for name in presets.DEMO:
        settings = presets.settings(name, changes=arguments.set)
        quiet = Namespace(**{**vars(arguments), "json": True})
        result = train_into(settings, Path.cwd(), out / name, quiet, title=name)
        document["runs"].append({"plan": name, "sharing": settings.sharing.encoder, **result})
    if not arguments.json:
        tables.show_demo(document["runs"], baselines=_baselines(document["runs"][0]))
    return document


def _baselines(run: Document) -> dict[str, float]:
    """What the same answer to every dev row would score."""
    model = load_model(Path(run["run"]))
    tasks = list(model.network.tasks.values())
    dev = corpora_of(
        model.settings, tasks, "dev", model.base, model.tokenizer, progress=lambda _: None
    )
    return {task.name: baseline(task, np.asarray(dev[task.name].label)) for task in tasks}
