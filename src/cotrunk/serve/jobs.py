"""Requests as jobs, and a bounded queue that fills batches with their rows by tokens."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from cotrunk.data.reading.splits import Text
from cotrunk.kinds.rows import TokenIds

if TYPE_CHECKING:  # the pages of a folder of runs do without torch
    from cotrunk.serve.lanes import Lane

TURN_TOKENS = 256
"""Tokens that a job may add to a batch before it is the next job's turn."""
LETTERS_PER_TOKEN = 4
Found = list[dict[str, Any]]
"""For each input of a request, the answers by task."""


class QueueFull(Exception):
    """Too many tokens are queued; ``seconds``: when to try again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the queue is full; try again in {seconds} s")
        self.seconds = seconds


@dataclass(frozen=True)
class InputRow:
    """An input of a request, for tasks of one lane; ``input`` is its number."""

    input: int
    lane: "Lane"
    tasks: tuple[str, ...]
    texts: tuple[Text, ...]

    @property
    def estimate(self) -> int:
        """About how many tokens it has, before it is tokenised."""
        letters = sum(
            len(text) if isinstance(text, str) else len(" ".join(text)) for text in self.texts
        )
        return min(letters // LETTERS_PER_TOKEN + 1, 2 * self.lane.pair_format.max_tokens)


@dataclass(eq=False)
class Job:
    """The rows of one request; ``done`` gets the answers for its inputs.

    An input may be several rows: one for each lane among its tasks.
    """

    asked: Sequence[InputRow]
    inputs: int
    done: Future[Found] = field(default_factory=Future)
    rows: deque["JobRow"] = field(default_factory=deque)
    """Rows that are tokenised, but not in a batch yet."""
    tokens: int = 0
    """Tokens of all rows that are not in a batch yet; an estimate until they are tokenised."""

    def __post_init__(self) -> None:
        self.tokens = sum(one.estimate for one in self.asked)
        self._found: Found = [{} for _ in range(self.inputs)]
        self._left, self._lock = len(self.asked), Lock()

    def tokenised(self, rows: Sequence["JobRow"]) -> None:
        self.rows.extend(rows)
        self.tokens = sum(row.tokens for row in rows)

    def take(self, room: int) -> list["JobRow"]:
        """The next rows that fit, at least one."""
        taken: list[JobRow] = []
        while self.rows and (not taken or self.rows[0].tokens <= room):
            taken.append(self.rows.popleft())
            room -= taken[-1].tokens
        self.tokens -= sum(row.tokens for row in taken)
        return taken

    def finish(self, row: "JobRow", found: dict[str, Any]) -> None:
        with self._lock:  # another thread may finish another row
            self._found[row.asked.input] |= found
            self._left -= 1
            is_last = not self._left
        if is_last:
            with suppress(InvalidStateError):  # the client has gone
                self.done.set_result(self._found)

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.done.set_exception(error)


@dataclass(frozen=True, eq=False)
class JobRow:
    """A row of a job, as token ids."""

    job: Job
    asked: InputRow
    pieces: TokenIds
    sites: np.ndarray | None
    tokens: int


Tokenise = Callable[[Sequence[Job]], None]
"""Tokenises the rows of jobs."""


class TokenQueue:
    """A queue bounded by tokens; a job above ``max_tokens`` is accepted if the queue is empty.

    Jobs take turns: a small request does not wait for all rows of a large one before it.
    """

    def __init__(self, *, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.tokens = 0
        self._idle = 0
        self._new: deque[Job] = deque()
        self._jobs: deque[Job] = deque()
        self._changed = Condition()
        self._is_closed = False
        self._pace = _Pace()

    def refuse_if_full(self, more: int = 1) -> None:
        if self.tokens and self.tokens + more > self.max_tokens:
            raise QueueFull(self._pace.seconds(self.tokens))

    def offer(self, job: Job) -> bool:
        """False if the queue was closed; raises ``QueueFull``."""
        with self._changed:
            if self._is_closed:
                return False
            self.refuse_if_full(job.tokens)
            self.tokens += job.tokens
            self._new.append(job)
            self._changed.notify()
            return True

    def forget(self, job: Job) -> None:
        """Drop a job whose client has gone."""
        with self._changed:
            for jobs in (self._new, self._jobs):
                if job in jobs:
                    jobs.remove(job)
                    self.tokens -= job.tokens

    def take(self, tokenise: Tokenise, *, least: int, most: int) -> list[JobRow]:
        """Wait for rows, and take this worker's share of them; none if the queue was closed.

        New jobs are tokenised here, all at once, without holding the lock.
        """
        while True:
            with self._changed:
                new = self._wait_for_jobs()
                if new is None:
                    return []
                estimate = sum(job.tokens for job in new)
            if new:
                tokenise(new)
            with self._changed:
                self._jobs += [job for job in new if job.rows]
                self.tokens += sum(job.tokens for job in new if job.rows) - estimate
                share = -(-self.tokens // (1 + self._idle))
                if taken := self._take(min(max(share, least), most)):
                    if self._jobs:
                        self._changed.notify()
                    return taken

    def _wait_for_jobs(self) -> deque[Job] | None:
        """The new jobs, maybe none if others wait; None if the queue is closed and empty."""
        while not (self._new or self._jobs):
            if self._is_closed:
                return None
            self._idle += 1
            self._changed.wait()
            self._idle -= 1
        new, self._new = self._new, deque()
        return new

    def _take(self, room: int) -> list[JobRow]:
        taken: list[JobRow] = []
        while self._jobs and room > 0:
            job = self._jobs.popleft()
            if job.done.done():  # failed or cancelled
                self.tokens -= job.tokens
                continue
            rows = job.take(min(room, TURN_TOKENS))
            used = sum(row.tokens for row in rows)
            room, self.tokens = room - used, self.tokens - used
            taken += rows
            if job.rows:
                self._jobs.append(job)
        return taken

    def answered(self, tokens: int) -> None:
        """Record the tokens of a finished batch, for Retry-After."""
        self._pace.add(tokens)

    def abandon(self, error: Exception) -> None:
        """Fail all queued jobs."""
        with self._changed:
            for job in (*self._new, *self._jobs):
                self.tokens -= job.tokens
                job.fail(error)
            self._new.clear()
            self._jobs.clear()

    def close(self) -> None:
        """Accept no more jobs; workers exit when the queue is empty."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class _Pace:
    """Tokens per second of the last batches."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, int]] = deque(maxlen=64)

    def add(self, tokens: int) -> None:
        self._recent.append((time.monotonic(), tokens))

    def seconds(self, tokens: int) -> int:
        """How long this many tokens will take, from 1 to 60 s; 1 if nothing was measured yet."""
        recent = tuple(self._recent)
        if len(recent) < 2 or recent[-1][0] <= recent[0][0]:
            return 1
        pace = sum(count for _, count in recent[1:]) / (recent[-1][0] - recent[0][0])
        return int(min(max(tokens / pace, 1), 60))
