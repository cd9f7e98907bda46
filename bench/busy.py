"""CPU time of a training step beside two busy processes, against the same step on an idle machine.

On a busy machine a thread that waits may be waiting for one that has no core. It must not spin.
"""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.sides import Side
from bench.timing import Result, Spent, Work, take_turns
from bench.training import several
from bench.work import Bench, Steps, stage_of

BUSY_PROCESSES = 2
STEPS = {"small": (2, 8), "large": (32, 2)}
"""Rows of each task in a step, and steps per round."""


def busy(bench: Bench) -> Iterator[Result]:
    for size, (rows, steps) in STEPS.items():
        with Side(partial(_steps, bench, rows, steps)) as side:
            yield take_turns(
                f"busy-{size}-step",
                partial(_beside_others, side),
                side.spend,
                rounds=bench.rounds(6),
                meaning="times",
            )


def _steps(bench: Bench, rows: int, steps: int) -> Work:
    return several(Steps(stage_of(bench, f"train.batch={rows}")), steps)


def _beside_others(side: Side) -> Spent:
    with others():
        return side.spend()


@contextmanager
def others(count: int = BUSY_PROCESSES) -> Iterator[None]:
    """Processes that only compute, while the block runs."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_compute, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _compute() -> None:
    number = 0
    while True:
        number += 1


FAMILY = {"busy": busy}
