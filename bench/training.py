"""A training step, and its speed as a share of the machine's peak matrix product."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bench.peers import Course, OneModel, PaddedSteps, SharedLow
from bench.sides import compare_apart
from bench.timing import Result, Work, is_busy, ratio_of, spend
from bench.work import BERT_BASE, Bench, Steps, batches, stage_of
from cotrunk.infer.threads import in_order
from cotrunk.learn.stage import Stage
from cotrunk.model.encoder.shape import Shape

PEAK_SIZE, PRODUCTS = 2048, 8
STEPS = 3
"""Steps per round: three, because batches differ in length."""


@dataclass(frozen=True)
class Race:
    """Our steps compared with padded passes on the same rows."""

    changes: tuple[str, ...]
    peer: Callable[[Shape], nn.Module]
    rounds: int
    pooling: Literal["cls", "mean"] = "cls"
    sizes: dict[str, Any] | None = None
    steps: int = STEPS

    def stage(self, bench: Bench) -> Stage:
        pooling = f"encoder.pooling={self.pooling}"
        return stage_of(bench, pooling, *self.changes, sizes=self.sizes)

    def run(self, name: str, bench: Bench) -> Iterator[Result]:
        ours, peer = partial(self.ours, bench), partial(self.theirs, bench)
        yield compare_apart(name, ours, peer, rounds=bench.rounds(self.rounds))

    def ours(self, bench: Bench) -> Work:
        return several(Steps(self.stage(bench)), self.steps)

    def theirs(self, bench: Bench) -> Work:
        stage = self.stage(bench)
        encoder = self.peer(stage.network.shape)
        return several(PaddedSteps(stage, encoder, self.pooling), self.steps)


def several(steps: Work, count: int = STEPS) -> Work:
    return lambda: [steps() for _ in range(count)]


RACES = {
    "train-minilm-cls": Race((), OneModel, rounds=15),
    "train-minilm-mean": Race((), OneModel, rounds=15, pooling="mean"),
    "train-minilm-course": Race((), Course, rounds=6),
    "train-bert-base": Race(("sharing.encoder=S12",), OneModel, rounds=6, sizes=BERT_BASE, steps=1),
    "train-hybrid": Race(("sharing.encoder=S3 I3",), partial(SharedLow, shared=3), rounds=6),
    "train-individual": Race(
        ("sharing.encoder=I6", "sharing.embeddings=I"), partial(SharedLow, shared=0), rounds=6
    ),
    # The peer has no PALs: `transformers` has no projected attention.
    "train-pals-against-plain": Race(("sharing.pal={size=204, heads=12}",), OneModel, rounds=6),
}


def gemm_share(bench: Bench) -> Iterator[Result]:
    mean = "encoder.pooling=mean"
    yield from _shares("gemm-share-minilm", stage_of(bench, mean), bench.rounds(9))
    base = stage_of(bench, mean, "sharing.encoder=S12", sizes=BERT_BASE)
    yield from _shares("gemm-share-bert-base", base, bench.rounds(6))


def _shares(name: str, stage: Stage, rounds: int) -> Iterator[Result]:
    """Operations per second of a step relative to large matrix products, one per thread: by torch,
    the usual reference, and by numpy, which our layers use where it is faster.
    """
    steps, a = Steps(stage), torch.randn(PEAK_SIZE, PEAK_SIZE)
    outs = [torch.zeros_like(a) for _ in range(PRODUCTS)]
    peaks: dict[str, Callable[[int], object]] = {
        name: lambda at: torch.mm(a, a, out=outs[at]),
        f"{name}-of-numpy": lambda at: np.matmul(a.numpy(), a.numpy(), out=outs[at].numpy()),
    }
    ours: list[float] = []
    found: dict[str, list[float]] = {which: [] for which in peaks}
    times = []
    steps()
    for peak in peaks.values():
        list(in_order(peak, range(PRODUCTS)))
    for _ in range(rounds):
        work_done = operations(stage, steps.at.step)
        times.append(spend(steps))
        ours.append(work_done / times[-1].cpu / 1e9)
        for which, peak in peaks.items():
            times.append(spend(lambda peak=peak: list(in_order(peak, range(PRODUCTS)))))  # type: ignore[misc]
            found[which].append(PRODUCTS * 2 * PEAK_SIZE**3 / times[-1].cpu / 1e9)
    busy, mine = is_busy(times), statistics.median(ours)
    for which, speeds in found.items():
        ratio, low, high = ratio_of(ours, speeds, busy=busy)
        yield Result(
            which, mine, statistics.median(speeds), ratio, low, high, "share", "GFLOP per CPU s",
            rounds, None, busy,
        )  # fmt: skip


def operations(stage: Stage, step: int) -> int:
    shape = stage.network.shape
    return sum(operations_of(shape, rows.text.length_S) for rows in batches(stage, step))


def operations_of(shape: Shape, length_S: Tensor) -> int:
    """Floating-point operations of the encoder's matrix products, forward and backward, for all
    tokens without padding.
    """
    per_token = 2 * (4 * shape.width**2 + 2 * shape.width * shape.inner)
    attention = 4 * shape.width * int((length_S**2).sum())
    return 3 * shape.layers * (per_token * int(length_S.sum()) + attention)


FAMILY: dict[str, Callable[[Bench], Iterator[Result]]] = {
    **{name: partial(race.run, name) for name, race in RACES.items()},
    "gemm-share": gemm_share,
}
