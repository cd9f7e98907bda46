"""The current model, its queue of requests, and the threads that answer them."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from threading import Event, Lock, Thread
from typing import Any

from cotrunk.build.trained_model import TrainedModel
from cotrunk.data.tokens.workers import cores
from cotrunk.infer.batching import LEAST_TOKENS, TOKENS_ON_CPU, TOKENS_ON_GPU
from cotrunk.infer.threads import threads_per_operation
from cotrunk.serve.engine import Engine
from cotrunk.serve.jobs import Found, InputRow, Job, TokenQueue
from cotrunk.serve.metrics import Metrics


class DeadlineExceeded(Exception):
    """A request was not answered in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"not answered within {seconds:g} s")


class Service:
    """Answers requests. ``replace`` swaps the model; the old one finishes its queued jobs.

    Every worker thread takes batches of its own and uses one thread per operation.
    """

    def __init__(
        self,
        model: TrainedModel,
        *,
        threads: int | None,
        queue_tokens: int,
        deadline: float,
        metrics: Metrics,
    ) -> None:
        self.deadline, self.metrics, self.queue_tokens = deadline, metrics, queue_tokens
        self.threads = threads or cores()
        self.is_stopping, self._lock = False, Lock()
        self._settings = ExitStack()
        self._settings.enter_context(threads_per_operation(1))
        self._workers = _Workers(model, self.threads, queue_tokens, metrics)
        self._all = [self._workers]
        """Also workers that are warming up, or finish their queue."""

    @property
    def is_ready(self) -> bool:
        """Requests are answered without waiting for the warm-up."""
        return not self.is_stopping and self._workers.are_warm

    @property
    def engine(self) -> Engine:
        return self._workers.engine

    @property
    def queue(self) -> TokenQueue:
        return self._workers.queue

    async def answer(self, ask: Callable[[Engine], Sequence[InputRow]], *, inputs: int) -> Found:
        """The answers for each input; raises ``QueueFull`` or ``DeadlineExceeded``."""
        while True:
            workers = self._workers
            job = Job(ask(workers.engine), inputs)
            if workers.queue.offer(job):  # else the model was replaced meanwhile
                found = await self._wait(job, workers.queue)
                return [_in_order(row, workers.engine) for row in found]

    async def _wait(self, job: Job, queue: TokenQueue) -> Found:
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job.done), self.deadline)
        except TimeoutError:
            raise DeadlineExceeded(self.deadline) from None
        finally:
            if not job.done.done() or job.done.cancelled():  # out of time, or the client has gone
                queue.forget(job)

    def wait_until_warm(self) -> None:
        self._workers.wait_until_warm()

    def stop(self) -> None:
        """No longer ready; a warm-up ends early, so that queued requests are answered."""
        with self._lock:
            self.is_stopping = True
            for workers in self._all:
                workers.stop_warming.set()

    def abandon(self) -> None:
        """Fail all queued requests."""
        for workers in tuple(self._all):
            workers.queue.abandon(DeadlineExceeded(self.deadline))

    def replace(self, model: TrainedModel) -> None:
        """Swap the model once its workers are warm; returns when the old one has finished."""
        with self._lock:
            if self.is_stopping:
                return
            new = _Workers(model, self.threads, self.queue_tokens, self.metrics)
            self._all.append(new)
        new.wait_until_warm()
        old, self._workers = self._workers, new
        old.close()
        self._all.remove(old)

    def close(self, *, seconds: float | None = None) -> bool:
        """Finish the queued requests and end the threads; whether they ended in time."""
        self.stop()
        until = None if seconds is None else time.monotonic() + seconds
        ended = [workers.close(until=until) for workers in tuple(self._all)]
        self._settings.close()
        return all(ended)


def _in_order(row: dict[str, Any], engine: Engine) -> dict[str, Any]:
    """Tasks in the order of the run: lanes may finish in any order."""
    return row if len(row) < 2 else {task: row[task] for task in engine.lanes if task in row}


class _Workers:
    """A model with its queue and threads."""

    def __init__(
        self, model: TrainedModel, threads: int, queue_tokens: int, metrics: Metrics
    ) -> None:
        device = next(model.model.network.parameters()).device
        count = threads if device.type == "cpu" else 1
        self.most = TOKENS_ON_CPU if device.type == "cpu" else TOKENS_ON_GPU
        self.engine, self.metrics = Engine(model), metrics
        self.queue = TokenQueue(max_tokens=queue_tokens)
        self.stop_warming = Event()
        self._warmed = [Event() for _ in range(count)]
        self.threads = [
            Thread(target=self._work, args=(warmed,), daemon=True) for warmed in self._warmed
        ]
        for thread in self.threads:
            thread.start()

    @property
    def are_warm(self) -> bool:
        return all(warmed.is_set() for warmed in self._warmed)

    def wait_until_warm(self) -> None:
        """Also returns if the warm-up was stopped."""
        for warmed in self._warmed:
            warmed.wait()

    def _work(self, warmed: Event) -> None:
        self.engine.warm_up(self.most, is_stopped=self.stop_warming.is_set)
        warmed.set()
        while rows := self.queue.take(self.engine.tokenise, least=LEAST_TOKENS, most=self.most):
            tokens = sum(row.tokens for row in rows)
            self.engine.answer(rows)
            self.queue.answered(tokens)
            self.metrics.batch_tokens.observe(tokens)
            self.metrics.rows.inc(len(rows))

    def close(self, *, until: float | None = None) -> bool:
        """Whether all threads ended before ``until``, in seconds of the monotonic clock."""
        self.queue.close()
        for thread in self.threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self.threads)
