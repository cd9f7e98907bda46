"""A step of training, and its share of what the machine's matrix product can do."""

import statistics
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn

from bench.peers import Course, OneModel, PaddedSteps, SharedLow
from bench.timing import Result, Work, compare, is_busy, ratio_of, spend
from bench.work import BERT_BASE, Bench, Steps, batches, stage_of
from cotrunk.learn.state import Stage
from cotrunk.learn.threads import in_order

PEAK_SIZE, PRODUCTS = 2048, 8
STEPS = 3
"""Of a round: batches differ in length, three of them less so."""


def several(steps: Work) -> Work:
    return lambda: [steps() for _ in range(STEPS)]


def race(name: str, stage: Stage, encoder: nn.Module, pooling: str, *, rounds: int) -> Result:
    """Our steps beside those of padded passes, on the same rows."""
    peer = PaddedSteps(stage, encoder, pooling)
    return compare(name, several(Steps(stage)), several(peer), rounds=rounds)


def minilm_cls(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=cls")
    encoder = OneModel(stage.network.shape)
    yield race("train-minilm-cls", stage, encoder, "cls", rounds=bench.rounds(15))


def minilm_mean(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=mean")
    encoder = OneModel(stage.network.shape)
    yield race("train-minilm-mean", stage, encoder, "mean", rounds=bench.rounds(15))


def minilm_course(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=cls")
    encoder = Course(stage.network.shape)
    yield race("train-minilm-course", stage, encoder, "cls", rounds=bench.rounds(6))


def bert_base(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=cls", "sharing.encoder=S12", sizes=BERT_BASE)
    peer = PaddedSteps(stage, OneModel(stage.network.shape), "cls")
    yield compare("train-bert-base", Steps(stage), peer, rounds=bench.rounds(6))


def hybrid(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=cls", "sharing.encoder=S3 I3")
    encoder = SharedLow(stage.network.shape, shared=3)
    yield race("train-hybrid", stage, encoder, "cls", rounds=bench.rounds(6))


def individual(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=cls", "sharing.encoder=I6", "sharing.embeddings=I")
    encoder = SharedLow(stage.network.shape, shared=0)
    yield race("train-individual", stage, encoder, "cls", rounds=bench.rounds(4))


def projected(bench: Bench) -> Iterator[Result]:
    """Against `transformers` without projected attention: it has none."""
    stage = stage_of(bench, "encoder.pooling=cls", "sharing.pal={size=204, heads=12}")
    encoder = OneModel(stage.network.shape)
    yield race("train-pals-against-plain", stage, encoder, "cls", rounds=bench.rounds(4))


def gemm_share(bench: Bench) -> Iterator[Result]:
    mean = "encoder.pooling=mean"
    yield from _shares("gemm-share-minilm", stage_of(bench, mean), bench.rounds(12))
    base = stage_of(bench, mean, "sharing.encoder=S12", sizes=BERT_BASE)
    yield from _shares("gemm-share-bert-base", base, bench.rounds(6))


def _shares(name: str, stage: Stage, rounds: int) -> Iterator[Result]:
    """Our operations per second of a step, beside those of large matrix products, one a thread:
    by torch, as others count it, and by numpy, the faster one where our own layers use it.
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


def operations(stage: Stage, step: int) -> float:
    """Floating-point operations of a step's matrix products, mean pooling: real tokens only."""
    shape, total = stage.network.shape, 0.0
    for rows in batches(stage, step):
        length_S = rows.text.length_S.double()
        per_token = 2 * (4 * shape.width**2 + 2 * shape.width * shape.inner)
        look = 4 * shape.width * float((length_S**2).sum())
        total += 3 * shape.layers * (per_token * float(length_S.sum()) + look)
    return total


FAMILY = {
    "train-minilm-cls": minilm_cls,
    "train-minilm-mean": minilm_mean,
    "train-minilm-course": minilm_course,
    "train-bert-base": bert_base,
    "train-hybrid": hybrid,
    "train-individual": individual,
    "train-pals": projected,
    "gemm-share": gemm_share,
}
