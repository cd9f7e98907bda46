"""Many works at once, each on threads of its own.

Threads that share out one operation wait for each other after each; those that take a work each do
not, and what is between operations runs on all of them too.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_BLAS = ThreadpoolController().select(user_api="blas")


def in_order(
    work: Callable[[Item], Result], items: Sequence[Item], *, lend: bool = False
) -> Iterator[Result]:
    """What ``work`` gives for each item, in their order, on as many threads as torch may use.

    An operation has one thread, so that it rounds the same however many there are; with ``lend``
    also those for which there is no item. No more results wait than there are threads.
    """
    threads = torch.get_num_threads()
    at_once = max(1, min(threads, len(items)))
    with threads_per_operation(threads // at_once if lend else 1):
        if at_once == 1:
            yield from map(work, items)
            return
        with ThreadPoolExecutor(at_once) as pool:
            waiting: deque[Future[Result]] = deque()
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
