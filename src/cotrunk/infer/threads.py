"""Many pieces of work at once, each on a thread of its own.

Threads that share out one operation wait for each other after each; those that take a piece each do
not, and what is between operations runs on all of them too.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import RLock
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_BLAS = ThreadpoolController().select(user_api="blas")
_ONE_AT_A_TIME = RLock()
"""How many threads an operation has is one number for the whole process."""


def in_order(
    work: Callable[[Item], Result], items: Sequence[Item], *, share_idle_threads: bool = False
) -> Generator[Result]:
    """What ``work`` gives for each item, in their order, on as many threads as torch may use.

    An operation has one thread, so that it rounds the same however many there are; where threads
    without an item may be shared, it has some of those too. No more results wait than there are
    threads. A second caller waits for the first.
    """
    with _ONE_AT_A_TIME:
        threads = torch.get_num_threads()
        at_once = max(1, min(threads, len(items)))
        with threads_per_operation(threads // at_once if share_idle_threads else 1):
            if at_once == 1:
                yield from map(work, items)
            else:
                yield from _on_threads(work, items, at_once)


def _on_threads(
    work: Callable[[Item], Result], items: Sequence[Item], at_once: int
) -> Generator[Result]:
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > at_once:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def threads_per_operation(count: int) -> Iterator[None]:
    """Torch, and the libraries numpy multiplies by, take ``count`` threads for an operation."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with _BLAS.limit(limits=count):
            yield
    finally:
        torch.set_num_threads(before)
