"""The current model, its queue of requests, and the threads that answer them."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from threading import Thread
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
        self.is_ready = True
        self._settings = ExitStack()
        self._settings.enter_context(threads_per_operation(1))
        self._workers = _Workers(model, self.threads, queue_tokens, metrics)

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

    def abandon(self) -> None:
        """Fail all queued requests."""
        self.queue.abandon(DeadlineExceeded(self.deadline))

    def replace(self, model: TrainedModel) -> None:
        old = self._workers
        self._workers = _Workers(model, self.threads, self.queue_tokens, self.metrics)
        old.queue.close()

    def close(self) -> None:
        """Finish the queued requests and end the threads."""
        self._workers.close()
        self._settings.close()


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
        self.threads = [Thread(target=self._work, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _work(self) -> None:
        self.engine.warm_up(self.most)
        while rows := self.queue.take(self.engine.tokenise, least=LEAST_TOKENS, most=self.most):
            tokens = sum(row.tokens for row in rows)
            self.engine.answer(rows)
            self.queue.answered(tokens)
            self.metrics.batch_tokens.observe(tokens)
            self.metrics.rows.inc(len(rows))

    def close(self) -> None:
        self.queue.close()
        for thread in self.threads:
            thread.join()
