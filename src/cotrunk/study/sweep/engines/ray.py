"""Trials as Ray Tune trials: on this machine, or on a cluster.

Ray Tune starts trials, places them and starts them again elsewhere if a worker is lost. What is
tried next and what is stopped comes from the queue and the run folders, so that all engines run
the same trials; Ray's own state lies in a temporary folder and is never read.
"""

import importlib.util
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from cotrunk.cluster import refuse_unreachable, running_ray, scratch_folder, short_folder
from cotrunk.errors import UserError
from cotrunk.runs.folder import RunFolder
from cotrunk.study.sweep.engines.engine import Work
from cotrunk.study.sweep.job import Job, has_ended
from cotrunk.study.sweep.state import TRIAL
from cotrunk.study.sweep.trials import TrialSpec
from cotrunk.study.sweep.watched import run_job

MORE_ATTEMPTS = 2
POLL_SECONDS = 0.2
QUIET = {
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
}


def refuse_missing_ray() -> None:
    """Without importing it: Ray reads its environment only then."""
    if not importlib.util.find_spec("ray"):
        raise UserError(
            '--engine ray needs ray; run: pip install "cotrunk[sweep]", or use --engine local'
        )


class RayEngine:
    """Ray, started when trials are first to run and kept for further sweeps until it is closed.

    ``address``: a running cluster that sees the same files; None starts Ray on this machine.
    """

    def __init__(self, address: str | None = None) -> None:
        self.address = address
        self.started = ExitStack()
        self.cpus = 0
        refuse_missing_ray()
        if address:
            refuse_unreachable(address, option="--address")

    def run(self, work: Work) -> None:
        self._start(work.max_concurrent * work.threads)
        with _storage(work, self.address) as storage:
            stop = storage / "stop"
            # Ray Tune announces itself on standard output, where our results go.
            with (
                open(os.devnull, "w") as nowhere,
                redirect_stdout(nowhere),
                _forward_stop(work, stop),
            ):
                _tune(work, storage, stop)

    def _start(self, cpus: int) -> None:
        if cpus > self.cpus:
            self.started.close()
            self.started.enter_context(running_ray(self.address, cpus=cpus, environment=QUIET))
            self.cpus = cpus

    def close(self) -> None:
        self.started.close()


def _tune(work: Work, storage: Path, stop: Path) -> None:
    from ray import tune

    def trial(config: dict[str, Any]) -> None:
        run_job(Job.from_json(config["job"]), stop.exists)

    tuner = tune.Tuner(
        tune.with_resources(trial, {"cpu": work.threads}),
        tune_config=tune.TuneConfig(search_alg=_searcher(work), num_samples=-1, reuse_actors=True),
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=str(storage),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=MORE_ATTEMPTS),
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
        ),
    )
    tuner.fit()


def _searcher(work: Work) -> Any:
    from ray.tune.search import Searcher

    class FromQueue(Searcher):  # type: ignore[misc]
        """Asks the queue for the next trial whenever Ray Tune has room for one."""

        def __init__(self) -> None:
            super().__init__(metric="none", mode="max")
            self.running: dict[str, TrialSpec] = {}

        def suggest(self, trial_id: str) -> Any:
            if len(self.running) >= work.max_concurrent and not work.queue.is_over:
                return None
            trial = work.next()
            if trial is None:
                return Searcher.FINISHED if work.queue.is_over else None
            self.running[trial_id] = trial
            return {"job": work.job_of(trial).to_json()}

        def on_trial_complete(
            self,
            trial_id: str,
            result: Any = None,  # noqa: ARG002
            error: bool = False,
        ) -> None:
            trial = self.running.pop(trial_id, None)
            if trial is None:
                return
            if error:
                record_loss(RunFolder(work.out / trial.name), work.job_of(trial))
            work.ended(trial)

        def __reduce__(self) -> Any:
            """Ray Tune copies its settings to files that nobody reads: leave the queue out."""
            return str, ()

        def save(self, checkpoint_path: str) -> None:
            """Nothing: run folders are the state."""
            Path(checkpoint_path).touch()  # Ray Tune renames it

        def restore(self, checkpoint_path: str) -> None:
            """Never called: a sweep starts from its run folders."""

    return FromQueue()


def record_loss(run: RunFolder, job: Job) -> None:
    """Its worker may have been lost before it made the folder."""
    if not has_ended(run):
        error = f"its Ray worker was lost {MORE_ATTEMPTS + 1} times"
        run.path.mkdir(parents=True, exist_ok=True)
        run.write_document(TRIAL, {**job.record, "error": error})


@contextmanager
def _forward_stop(work: Work, stop: Path) -> Iterator[None]:
    """Once the sweep is to stop, a file tells all workers, wherever they are."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_SECONDS):
            if work.should_stop():
                stop.touch()
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _storage(work: Work, address: str | None) -> AbstractContextManager[Path]:
    """A temporary folder that all workers see."""
    return (
        scratch_folder(work.out, ".ray") if address else scratch_folder(short_folder(), "cotrunk")
    )
