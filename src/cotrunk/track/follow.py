"""Passes the events of a training run to trackers; a tracker that fails is dropped."""

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib.util import find_spec

from cotrunk.runs.events import Evaluated, Event, Finding, Finished, Started, Stepped
from cotrunk.track.mlflow import Mlflow
from cotrunk.track.tensorboard import TensorBoard
from cotrunk.track.tracker import Tracked, Tracker

TRACKERS: Mapping[str, Callable[[Tracked], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": Mlflow,
}
MODULES = {"tensorboard": ["tensorboard"], "mlflow": ["mlflow", "sqlalchemy", "alembic"]}


def missing(names: Sequence[str]) -> list[str]:
    """A line for each tracker whose packages are not installed."""
    return [
        f'track.to: {name} is not installed; run: pip install "cotrunk[{name}]"'
        for name in names
        if any(find_spec(module) is None for module in MODULES[name])
    ]


def followed(events: Generator[Event], names: Sequence[str], tracked: Tracked) -> Generator[Event]:
    """Yields the same events, after passing each to the trackers.

    A tracker that fails is reported in the findings of the next event that can have some. Trackers
    are closed before the last event is yielded. If training fails, failures of trackers become
    notes of its error.
    """
    followers = _Followers()
    with closing(events):
        try:
            followers.start(names, tracked)
            for event in events:
                followers.write(event)
                if isinstance(event, Finished):
                    followers.close()
                yield followers.with_findings(event)
        except Exception as error:
            followers.close()
            for finding in followers.findings:
                error.add_note(str(finding))
            raise
        finally:
            followers.close()


class _Followers:
    def __init__(self) -> None:
        self.trackers: dict[str, Tracker] = {}
        self.findings: list[Finding] = []

    def start(self, names: Sequence[str], tracked: Tracked) -> None:
        for name in names:
            with self._guarded(name):
                self.trackers[name] = TRACKERS[name](tracked)

    def write(self, event: Event) -> None:
        for name, tracker in list(self.trackers.items()):
            with self._guarded(name):
                tracker.write(event)

    def with_findings(self, event: Event) -> Event:
        if self.findings and isinstance(event, Started | Stepped | Evaluated | Finished):
            event = replace(event, findings=(*event.findings, *self.findings))
            self.findings = []
        return event

    def close(self) -> None:
        for name, tracker in list(self.trackers.items()):
            with self._guarded(name):
                tracker.close()
        self.trackers = {}

    @contextmanager
    def _guarded(self, name: str) -> Iterator[None]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the tracker's own packages
                yield
        except Exception as error:
            self.trackers.pop(name, None)
            why = " ".join(str(error).split()) or type(error).__name__
            self.findings.append(
                Finding(
                    "tracker", "track.to", f"{name} failed: {why}", "training continues without it"
                )
            )
