"""Trials in processes on this machine."""

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from cotrunk.study.sweep.engines.engine import Work
from cotrunk.study.sweep.trials import TrialSpec
from cotrunk.study.sweep.watched import run_job

POLL_SECONDS = 0.2


class LocalEngine:
    """Watches over each process with a thread."""

    def run(self, work: Work) -> None:
        _run(work)

    def close(self) -> None:
        """Nothing to close."""


def _run(work: Work) -> None:
    running: dict[Future[None], TrialSpec] = {}
    with ThreadPoolExecutor(work.max_concurrent) as pool:
        while True:
            while len(running) < work.max_concurrent and (trial := work.next()):
                running[pool.submit(run_job, work.job_of(trial), work.should_stop)] = trial
            if not running:
                return
            ended, _ = wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in ended:
                trial = running.pop(future)
                future.result()
                work.ended(trial)
