"""MLflow, in a SQLite file."""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotrunk.runs.events import Event, Finished
from cotrunk.track.tracker import Tracked, numbers_of

EXPERIMENT = "cotrunk"
FOLDER_TAG = "cotrunk.run"
LONGEST_VALUE, MOST_PARAMETERS = 500, 100
"""MLflow's limits: characters of a parameter's value, parameters of one call."""


class Mlflow:
    def __init__(self, tracked: Tracked) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # training needs no network
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic"):  # they would announce each table of the database
            logging.getLogger(name).setLevel(logging.WARNING)

        self.metric = Metric
        tracked.folder.mkdir(parents=True, exist_ok=True)
        folder = tracked.folder.resolve()
        with _one_at_a_time(folder):  # trials of a sweep may start together
            self.client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
            experiment = self._experiment(str(folder / "files"))
        place = str(tracked.run.resolve())
        self.run = self._earlier(experiment, place) if tracked.step else None
        self.step = tracked.step
        self.known: dict[str, int] = {}
        if self.run is None:
            tags = {FOLDER_TAG: place}
            made = self.client.create_run(experiment, run_name=tracked.run.name, tags=tags)
            self.run = made.info.run_id
            params = [Param(key, value[:LONGEST_VALUE]) for key, value in tracked.settings.items()]
            for start in range(0, len(params), MOST_PARAMETERS):
                self.client.log_batch(self.run, params=params[start : start + MOST_PARAMETERS])
        else:
            self.client.update_run(self.run, status="RUNNING")
            self.known = self._last_steps()
        self.ended = "KILLED"

    def _experiment(self, files: str) -> str:
        """The first query creates the database."""
        known = self.client.get_experiment_by_name(EXPERIMENT)
        if known:
            return known.experiment_id
        return self.client.create_experiment(EXPERIMENT, artifact_location=files)

    def _earlier(self, experiment: str, place: str) -> str | None:
        """The MLflow run of this run folder, to continue it."""
        quote = '"' if "'" in place else "'"  # a filter cannot escape quotes
        found = self.client.search_runs(
            [experiment], f"tags.`{FOLDER_TAG}` = {quote}{place}{quote}"
        )
        return found[0].info.run_id if found else None

    def _last_steps(self) -> dict[str, int]:
        """Last recorded step by metric: a resumed run repeats the steps after its checkpoint."""
        names = self.client.get_run(self.run).data.metrics
        history = self.client.get_metric_history
        return {name: max(one.step for one in history(self.run, name)) for name in names}

    def write(self, event: Event) -> None:
        self.step = getattr(event, "step", self.step)
        now = int(time.time() * 1000)
        numbers = numbers_of(event).items()
        metrics = [
            self.metric(name, value, now, self.step)
            for name, value in numbers
            if self.step > self.known.get(name, -1)
        ]
        if metrics:
            self.client.log_batch(self.run, metrics=metrics)
        if isinstance(event, Finished):
            self.ended = "FINISHED"

    def close(self) -> None:
        self.client.set_terminated(self.run, self.ended)


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Waits for other processes; the kernel releases the lock even if its holder crashes."""
    with (folder / ".mlflow.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
