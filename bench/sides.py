"""Runs each side of a comparison in its own process.

So neither is affected by what the other, or an earlier comparison, did to the allocator, threads
or caches.
"""

import logging
import multiprocessing
import signal
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

import torch

from bench.timing import Compared, Result, Spent, Work, spend, take_turns

Make = Callable[[], Work]
"""A module-level function or a ``partial`` of one; it is called in the other process."""


def compare_apart(
    name: str, ours: Make, peer: Make, *, rounds: int, meaning: Compared = "times less"
) -> Result:
    with Side(ours) as one, Side(peer) as other:
        return take_turns(name, one.spend, other.spend, rounds=rounds, meaning=meaning)


class Side:
    """A process that creates its work once and runs it on request."""

    def __init__(self, make: Make) -> None:
        context = multiprocessing.get_context("spawn")
        self.here, there = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(there, make, torch.get_num_threads()), daemon=True
        )
        self.process.start()
        there.close()

    def spend(self) -> Spent:
        self.here.send(None)
        try:
            found = self.here.recv()
        except EOFError:
            self.process.join()
            raise RuntimeError(f"a side ended with code {self.process.exitcode}") from None
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Spent)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.here.close()
        if error:
            self.process.terminate()
        self.process.join()


def _serve(pipe: Connection, make: Make, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")  # the peers' own
    logging.disable(logging.WARNING)
    work: Work | None = None
    try:
        while True:
            pipe.recv()
            try:
                work = work or make()
                pipe.send(spend(work))
            except Exception as error:  # raised again on the other end
                error.add_note(traceback.format_exc())
                pipe.send(error)
    except EOFError:  # the parent is done
        pass
