"""``cotrunk sweep``: many variants of one config, and a table of their scores."""

import signal
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from cotrunk.cli.terminal import sweeps
from cotrunk.cli.terminal.output import Document, Failed, say
from cotrunk.cli.terminal.progress import counting
from cotrunk.cli.terminal.signals import handling_signals, hangup, leave_at_once, say_at_once
from cotrunk.errors import plural
from cotrunk.learn.run import Interrupt
from cotrunk.study.sweep.engines.engine import Engine
from cotrunk.study.sweep.estimate import estimate, process_seconds, total_seconds
from cotrunk.study.sweep.queue import known_trials
from cotrunk.study.sweep.spec import read_spec
from cotrunk.study.sweep.state import Trial
from cotrunk.study.sweep.sweep import Sweep, open_engine, prepare_sweep, run_prepared


def sweep(arguments: Namespace) -> Document:
    prepared = prepare_sweep(read_spec(Path(arguments.file)), Path(arguments.out))
    if arguments.dry_run:
        return _dry_run(prepared, as_json=arguments.json)
    with closing(open_engine(arguments.engine, arguments.address)) as engine:
        trials = run_watched(prepared, engine)
    document: Document = {"trials": [document_of(trial) for trial in trials]}
    if not arguments.json:
        sweeps.show_trials(trials, prepared.spec)
    _say_what_is_left(prepared, trials)
    if failed := [trial for trial in trials if trial.state == "failed"]:
        say(
            f"error: {len(failed)} of {plural(len(trials), 'trial')} failed, the first: "
            f"{failed[0].run}: {failed[0].error}; repeat the command to retry"
        )
        return Failed(document)
    return document


def run_watched(prepared: Sweep, engine: Engine) -> list[Trial]:
    """Run the trials and show their progress; exits if a signal has stopped them."""
    interrupt = Interrupt()
    with _stopping(interrupt), sweeps.watching(prepared) as watch:
        trials = run_prepared(
            prepared,
            engine=engine,
            interrupt=interrupt,
            on_trial=watch.on_trial,
        )
    if interrupt.signal is not None:
        say("stopped; repeat the command to continue")
        raise SystemExit(128 + interrupt.signal)
    return trials


def document_of(trial: Trial) -> Mapping[str, Any]:
    return {
        "run": str(trial.run),
        "choices": dict(trial.choices),
        "seed": trial.seed,
        "state": trial.state,
        "scores": dict(trial.scores),
        "overall": {key: trial.overall.get(key) for key in ("official", "mean")},
    }


def _dry_run(prepared: Sweep, *, as_json: bool) -> Document:
    spec, trials = prepared.spec, known_trials(prepared.order)
    with counting() as counter:
        found = estimate(prepared, trials, process=process_seconds(), on_progress=counter)
    states = prepared.read(trials)
    rows = [
        {
            "run": str(prepared.out / trial.name),
            "choices": dict(trial.choices),
            "seed": trial.seed,
            "state": state.state,
            "steps": found.steps[trial.name],
            "seconds": round(found.seconds[trial.name], 1),
        }
        for trial, state in zip(trials, states, strict=True)
    ]
    waiting = [state.run.name for state in states if state.state not in ("finished", "stopped")]
    more = 0 if spec.minutes and not spec.trials else prepared.order.count - len(trials)
    mean = sum(found.seconds.values()) / len(trials)
    left = [*(found.seconds[name] for name in waiting), *[mean] * more]
    document = {
        "trials": rows,
        "more": more,
        "seconds": round(total_seconds(left, spec.max_concurrent), 1),
        "basis": found.basis,
    }
    if not as_json:
        sweeps.show_dry_run(document, spec)
    return document


def _say_what_is_left(prepared: Sweep, trials: list[Trial]) -> None:
    waiting = len(prepared.trials) - len(trials)
    if waiting > 0 and prepared.spec.minutes:
        minutes = f"{prepared.spec.minutes:g} minutes"
        late = f"{plural(waiting, 'trial')} not started within {minutes}"
        say(f"{late}; repeat the command to continue")
    mine = {trial.run.name for trial in trials} | {trial.name for trial in prepared.trials}
    others = [file.parent for file in prepared.out.glob("*/trial.json")]
    extra = sorted(path.name for path in others if path.name not in mine)
    if extra:
        runs = f"{plural(len(extra), 'run')} in {prepared.out}"
        are = "is" if len(extra) == 1 else "are"
        say(f"note: {runs} {are} not part of this sweep, such as {extra[0]}")


@contextmanager
def _stopping(interrupt: Interrupt) -> Iterator[None]:
    """A signal stops all trials with a checkpoint; a second one ends the sweep immediately."""

    def ask(number: int, _frame: object) -> None:
        if interrupt.signal is None:
            interrupt.signal = number
            say_at_once("stopping: trials are saving; interrupt again to stop immediately")
        elif number != signal.SIGHUP:
            leave_at_once(128 + number)

    with handling_signals([signal.SIGINT, signal.SIGTERM, *hangup()], ask):
        yield
