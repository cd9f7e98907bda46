"""A sweep on the terminal: a live table, or a line for each trial in a log."""

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from cotrunk.cli.terminal.output import duration, err, out, say, table
from cotrunk.errors import plural
from cotrunk.formats import score_text
from cotrunk.runs.folder import RunFolder
from cotrunk.study.sweep.spec import Spec
from cotrunk.study.sweep.state import Trial, best_so_far, progress_of
from cotrunk.study.sweep.sweep import Sweep

REFRESH_SECONDS = 1.0
SHOWN = 20
"""Ended trials in the live table: the last ones."""


class Watch(Protocol):
    def on_trial(self, trial: Trial) -> None: ...


@contextmanager
def watching(sweep: Sweep) -> Iterator[Watch]:
    board = _Board(sweep)
    if not sys.stderr.isatty():
        yield _Plain(board)
        return
    console = Console(file=err(), markup=False, emoji=False, highlight=False)
    with Live(console=console, get_renderable=board.table, auto_refresh=False) as live:
        done = threading.Event()

        def refresh() -> None:
            while not done.wait(REFRESH_SECONDS):
                live.refresh()

        thread = threading.Thread(target=refresh, daemon=True)
        thread.start()
        try:
            yield board
        finally:
            done.set()
            thread.join()
            live.refresh()


class _Board:
    """What is known of the trials of this call, and how much time is left."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.known = {t.run.name: t for t in sweep.read() if t.state in ("finished", "stopped")}
        self.started: dict[str, float] = {}
        self.seconds: list[float] = []
        self.lock = threading.Lock()

    @property
    def total(self) -> int | None:
        """None if a search decides it as it goes."""
        return len(self.sweep.trials) or None

    @property
    def ended(self) -> int:
        return sum(trial.has_ended for trial in self.known.values())

    def on_trial(self, trial: Trial) -> None:
        with self.lock:
            self.known[trial.run.name] = trial
            if trial.has_ended:
                now = time.monotonic()
                self.seconds.append(now - self.started.pop(trial.run.name, now))
            elif trial.run.name in self.started:  # interrupted
                del self.started[trial.run.name]
            else:
                self.started[trial.run.name] = time.monotonic()

    def left(self) -> str:
        """Estimated from the trials that ended in this call, or else from the running ones."""
        if self.total is None:
            return ""
        now = time.monotonic()
        shares = {name: self.share(name) for name in self.started}
        paces = self.seconds or [
            (now - self.started[name]) / share for name, share in shares.items() if share > 0
        ]
        waiting = self.total - self.ended - len(self.started)
        if not paces:
            return ""
        work = (waiting + sum(1 - share for share in shares.values())) * sum(paces) / len(paces)
        return f"about {duration(work / self.sweep.spec.max_concurrent)} left"

    def share(self, name: str) -> float:
        step, steps = progress_of(RunFolder(self.sweep.out / name))
        return min(step / steps, 1.0) if steps else 0.0

    def table(self) -> Table:
        with self.lock:
            known, started = list(self.known.values()), dict(self.started)
            left = self.left()
        ended = [trial for trial in known if trial.has_ended]
        count = f"{len(ended)} of {self.total}" if self.total else str(len(ended))
        title = ", ".join(part for part in (f"{count} trials done", left) if part)
        rows = [_row(trial) for trial in ended[-SHOWN:]]
        for trial in (trial for trial in known if trial.run.name in started):
            step, steps = progress_of(RunFolder(trial.run))
            best = best_so_far(RunFolder(trial.run))
            now = replace(trial, scores=best.scores, overall=best.overall) if best else trial
            name, _, scores, overall = _row(now)
            rows.append([name, f"step {step}/{steps or '?'}", scores, overall])
        return table(title, ["trial", "state", "scores", "overall"], rows)


class _Plain:
    """A line when a trial starts or ends."""

    def __init__(self, board: _Board) -> None:
        self.board = board

    def on_trial(self, trial: Trial) -> None:
        self.board.on_trial(trial)
        count = f"{self.board.ended}/{self.board.total}" if self.board.total else self.board.ended
        name, left = trial.run.name, self.board.left()
        match trial.state:
            case "failed":
                say(f"[{count}] {name}: failed: {trial.error}")
            case "finished" | "stopped":
                more = f"; {left}" if left else ""
                say(f"[{count}] {name}: {trial.state}: {_scores(trial)}{more}")
            case _:
                is_new = trial.run.name in self.board.started
                say(f"[{count}] {name}: {'started' if is_new else 'interrupted'}")


def show_trials(trials: Sequence[Trial], spec: Spec) -> None:
    rows = [_row(trial) for trial in trials]
    out().print(table(f"{spec.place}: best on dev", ["trial", "state", "scores", "overall"], rows))


def show_dry_run(document: Mapping[str, Any], spec: Spec) -> None:
    rows = [
        [
            row["run"],
            row["state"],
            ", ".join(f"{key} = {value}" for key, value in row["choices"].items()),
            str(row["seed"]),
            str(row["steps"]),
            duration(row["seconds"]),
        ]
        for row in document["trials"]
    ]
    columns = ["run", "state", "choices", "seed", "steps", "time"]
    out().print(table(plural(len(rows), "trial"), columns, rows))
    if document["more"]:
        out().print(f"and {plural(document['more'], 'trial')} chosen from the results of these")
    at_once = f"{spec.max_concurrent} at a time, {plural(spec.threads, 'thread')} each"
    basis = f"estimated from {document['basis']}"
    out().print(f"about {duration(document['seconds'])} ({at_once}), {basis}")


def _row(trial: Trial) -> list[str]:
    said = trial.error or "" if trial.state == "failed" else _scores(trial)
    return [trial.run.name, trial.state, said, score_text(trial.overall.get("official"))]


def _scores(trial: Trial) -> str:
    found = [f"{task} {score_text(score['score'])}" for task, score in trial.scores.items()]
    return "  ".join(found) or "no score"
