"""Progress on standard error: a bar on a terminal, a line now and then in a log."""

import math
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from cotrunk.cli.terminal.output import err, say
from cotrunk.errors import plural, printable
from cotrunk.formats import score_with_interval
from cotrunk.kinds.metrics import Score, scored_on
from cotrunk.progress import ProgressUpdate
from cotrunk.runs.events import Evaluated, Event, Finished, Stepped

PLAIN_EVERY_SECONDS = 10.0
LIVE_EVERY_SECONDS = 0.2


@contextmanager
def counting() -> Iterator["Counter"]:
    """A progress callback that shows a bar or lines, if the work takes long enough."""
    counter = Counter(_bar() if sys.stderr.isatty() else None)
    try:
        yield counter
    finally:
        counter.close()


class Counter:
    """Rows, rows per second and time left: in a bar, or as a line now and then."""

    def __init__(self, bar: Progress | None) -> None:
        self.first, self.rows, self.share = ProgressUpdate("", 0, 0.0), 0, 0.0
        self.started = self.last_shown = time.monotonic()
        self.bar = bar
        self.bar_task: TaskID | None = None

    def __call__(self, done: ProgressUpdate) -> None:
        now = time.monotonic()
        if done.what != self.first.what or done.share < self.share or self.share == 1:
            self._clear()
            self.first, self.rows = done, 0
            self.started = self.last_shown = now
        self.rows += done.rows
        self.share = done.share
        if now - self.last_shown >= (LIVE_EVERY_SECONDS if self.bar else PLAIN_EVERY_SECONDS):
            self.last_shown = now
            self._show(now - self.started)
        if done.share == 1:
            self._clear()

    def _show(self, seconds: float) -> None:
        """``seconds`` since the first update; how long its own rows took is unknown."""
        rows, what = plural(self.rows, "row"), self.first.what
        if self.bar is None:
            pace = f"{(self.rows - self.first.rows) / seconds:,.0f} rows/s"
            done = self.share - self.first.share
            left = f", {seconds / done * (1 - self.share):.0f} s left" if done > 0 else ""
            say(f"{what}: {rows} ({self.share:.0%}), {pace}{left}")
            return
        if self.bar_task is None:
            self.bar_task = self.bar.add_task(printable(what), total=1.0, count=rows, losses="")
            self.bar.start()
        self.bar.update(self.bar_task, completed=self.share, count=rows, refresh=True)

    def _clear(self) -> None:
        if self.bar is not None and self.bar_task is not None:
            self.bar.remove_task(self.bar_task)
            self.bar_task = None

    def close(self) -> None:
        if self.bar is not None:
            self._clear()
            self.bar.stop()


class _TimeLeft(TimeRemainingColumn):
    """Time left, at most what remains of ``most_seconds`` if the bar has such a limit."""

    def render(self, task: Task) -> Text:
        rest = task.fields.get("most_seconds", math.inf) - (task.elapsed or 0.0)
        if rest < (math.inf if task.time_remaining is None else task.time_remaining):
            return Text(str(timedelta(seconds=max(0, int(rest)))), style="progress.remaining")
        return super().render(task)


def _bar() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        _TimeLeft(),
        TextColumn("{task.fields[losses]}"),
        console=Console(file=err(), markup=False, emoji=False),
    )


class Watch(Protocol):
    """Shows a training run; ``counter`` shows long operations between steps."""

    counter: Counter

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def stepped(self, event: Stepped) -> None: ...

    def evaluated(self, event: Evaluated) -> None: ...


def watching(title: str, *, steps: int, start: int, max_seconds: float | None = None) -> Watch:
    """Shows a training run that starts, or resumes, at step ``start``."""
    most = math.inf if max_seconds is None else max_seconds
    return _Live(title, steps, start, most) if sys.stderr.isatty() else _Plain(title, steps, most)


def follow(events: Iterable[Event], watch: Watch) -> Finished:
    """Run a training to its end and show its progress; each finding is printed once."""
    printed: set[tuple[str, str]] = set()
    for event in events:
        if isinstance(event, Stepped | Evaluated | Finished):
            for finding in event.findings:
                if (finding.name, finding.place) not in printed:
                    printed.add((finding.name, finding.place))
                    say(f"warning: {finding}")
        match event:
            case Stepped():
                watch.stepped(event)
            case Evaluated():
                watch.evaluated(event)
            case Finished():
                return event
    raise AssertionError("a training ends with Finished")


def _losses(event: Stepped) -> str:
    return "  ".join(f"{task} {loss:.3f}" for task, loss in event.losses.items())


def _scores(event: Evaluated) -> str:
    scores = "  ".join(_in_context(task, score) for task, score in event.scores.items())
    return f"dev after step {event.step}: {scores}{'  (best so far)' if event.best else ''}"


def _in_context(task: str, score: Score) -> str:
    """A score with its metric, what it is based on and what a constant answer would score."""
    found = score_with_interval(score.score, score.low, score.high)
    constant = "" if score.baseline is None else f"constant {score.baseline:.3f}, "
    return f"{task} {score.metric} {found} ({constant}{scored_on(score.rows, score.masked_tokens)})"


class _Live:
    """A bar with the time left and the last losses, and one for long operations in between."""

    def __init__(self, title: str, steps: int, start: int, most_seconds: float) -> None:
        self.bar, self.steps = _bar(), steps
        self.counter = Counter(self.bar)
        self.task = self.bar.add_task(
            title,
            total=steps,
            completed=start,
            count=f"{start}/{steps}",
            losses="",
            most_seconds=most_seconds,
        )

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def stepped(self, event: Stepped) -> None:
        count = f"{event.step}/{self.steps}"
        self.bar.update(self.task, completed=event.step, count=count, losses=_losses(event))

    def evaluated(self, event: Evaluated) -> None:
        self.bar.console.print(_scores(event), markup=False, highlight=False)


class _Plain:
    """A line now and then, for logs."""

    def __init__(self, title: str, steps: int, most_seconds: float) -> None:
        self.title, self.steps, self.most_seconds = title, steps, most_seconds
        self.first: tuple[int, float] | None = None
        self.counter = Counter(None)
        self.started, self.last_shown = time.monotonic(), -PLAIN_EVERY_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stepped(self, event: Stepped) -> None:
        """Time is measured from the first step, because encoding may come before it."""
        seconds = time.monotonic() - self.started
        self.first = self.first or (event.step, seconds)
        if seconds - self.last_shown < PLAIN_EVERY_SECONDS and event.step < self.steps:
            return
        self.last_shown = seconds
        steps, spent = event.step - self.first[0], seconds - self.first[1]
        rest = spent / steps * (self.steps - event.step) if steps else math.inf
        rest = min(rest, max(0.0, self.most_seconds - seconds))
        left = f"{rest:.0f} s left, " if math.isfinite(rest) else ""
        say(
            f"{self.title}: step {event.step}/{self.steps}, {seconds:.0f} s, "
            f"{left}loss {_losses(event)}"
        )

    def evaluated(self, event: Evaluated) -> None:
        say(f"{self.title}: {_scores(event)}")
