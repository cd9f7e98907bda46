"""Trials as Ray Tune trials: on this machine, or on a cluster.

Ray Tune starts trials, places them and starts them again elsewhere if a worker is lost. What is
tried next and what is stopped comes from the queue and the run folders, so that all engines run
the same trials; Ray's own state lies in a temporary folder and is never read.
"""

import importlib.util
import logging
import os
import re
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from cotrunk.errors import UserError
from cotrunk.runs.folder import RunFolder, is_alive
from cotrunk.study.sweep.engines.engine import Work
from cotrunk.study.sweep.job import Job, has_ended
from cotrunk.study.sweep.state import TRIAL
from cotrunk.study.sweep.trials import Planned
from cotrunk.study.sweep.watched import run_job

MORE_ATTEMPTS = 2
POLL_SECONDS = 0.2
OBJECT_STORE_BYTES = 80_000_000
"""Nearly the least that Ray takes; trials exchange nothing but files."""
LONGEST_SCRATCH = 17
"""Of the folder in which the scratch folder is made: the path of a socket has 107 characters."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else trials would not see a GPU
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""The documented switch for laptops: without it Ray listens on all interfaces, and takes an address
of this machine for its address in the network."""
LOCAL_HOSTS = ("127.", "localhost:")
CONNECT_SECONDS = 10.0


def refuse_missing_ray() -> None:
    """Without importing it: Ray reads its environment only then."""
    if not importlib.util.find_spec("ray"):
        raise UserError(
            '--engine ray needs ray; run: pip install "cotrunk[sweep]", or use --engine local'
        )


def run_on_ray(work: Work, *, address: str | None = None) -> None:
    """``address``: a running cluster that sees the same files; None starts Ray for this sweep."""
    is_local = not address or address.startswith(LOCAL_HOSTS)
    os.environ.update(QUIET | LOOPBACK if is_local else QUIET)
    with _connected(work, address) as storage:
        stop = storage / "stop"
        # Ray Tune announces itself on standard output, where our results go.
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), _forward_stop(work, stop):
            _tune(work, storage, stop)


def refuse_unreachable(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(f"--address {address}: must be HOST:PORT of a Ray cluster")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(
            f"--address {address}: no connection ({why}); start a cluster there with "
            f"`ray start --head --port={port}`, or leave out --address"
        ) from None


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
            self.running: dict[str, Planned] = {}

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
                _record_loss(work, trial)
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


def _record_loss(work: Work, trial: Planned) -> None:
    run = RunFolder(work.out / trial.name)
    if not has_ended(run):
        error = f"its Ray worker was lost {MORE_ATTEMPTS + 1} times"
        run.write_document(TRIAL, {**work.job_of(trial).record, "error": error})


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


@contextmanager
def _connected(work: Work, address: str | None) -> Iterator[Path]:
    """Ray is running; yields a temporary folder that all workers see."""
    import ray

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    folder = _scratch(work, address)
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        if address:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        else:
            ray.init(
                num_cpus=work.max_concurrent * work.threads,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=str(folder),
            )
        _set_handlers(handlers)
        yield folder
    finally:
        ray.shutdown()
        _set_handlers(handlers)
        shutil.rmtree(folder, ignore_errors=True)


def _scratch(work: Work, address: str | None) -> Path:
    """On a cluster it must be where all machines see it; here its path must fit in a socket's."""
    if address:
        return make_scratch(work.out, ".ray")
    usual = Path(tempfile.gettempdir()).resolve()
    is_long = len(str(usual)) > LONGEST_SCRATCH and Path("/tmp").is_dir()
    return make_scratch(Path("/tmp") if is_long else usual, "cotrunk")


def make_scratch(folder: Path, name: str) -> Path:
    """A temporary folder that says which process it belongs to.

    Those of processes that were killed are deleted.
    """
    for old in folder.glob(f"{name}-*-*"):
        owner = re.fullmatch(rf"{re.escape(name)}-(\d+)-\w+", old.name)
        if owner and not is_alive(int(owner[1])):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-{os.getpid()}-", dir=folder))


def _set_handlers(handlers: dict[signal.Signals, Any]) -> None:
    """Ray replaces signal handlers; ours stop trials with a checkpoint."""
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, handler)
