"""Runs many work items in parallel, each on its own thread.

Threads that share one operation wait for each other after each operation. With one item per thread
they do not, and the Python code between operations is parallel too.
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
"""The number of threads per operation is global to the process."""


def in_order(
    work: Callable[[Item], Result], items: Sequence[Item], *, share_idle_threads: bool = False
) -> Generator[Result]:
    """The results of ``work`` in the order of the items, on as many threads as torch may use.

    An operation has one thread, so that results do not depend on the number of threads; with
    ``share_idle_threads`` it also uses threads without an item. At most as many results are
    buffered as there are threads. A second caller waits for the first.
    """
    with _ONE_AT_A_TIME:
        threads = torch.get_num_threads()
        at_once = max(1, min(threads, len(items)))
        with threads_per_operation(threads // at_once if share_idle_threads else 1):
            if at_once == 1:
                yield from map(work, items)
            else:
                yield from _on_threads(work, items, at_once)


def one_after_another(work: Callable[[Item], Result], items: Sequence[Item]) -> Generator[Result]:
    """The results of ``work``, in this thread; an operation has one thread."""
    with _ONE_AT_A_TIME, threads_per_operation(1):
        yield from map(work, items)


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
    """torch and numpy's BLAS use ``count`` threads per operation."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with _BLAS.limit(limits=count):
            yield
    finally:
        torch.set_num_threads(before)
