"""A step of training, and its share of what the machine's matrix product can do."""

import statistics
from collections.abc import Iterator

import torch

from bench.peers import Course, OneModel, PaddedSteps, SharedLow
from bench.timing import Result, compare, is_busy, spend, spread
from bench.work import BERT_BASE, Bench, Steps, batches, stage_of
from cotrunk.learn.state import Stage

PEAK_SIZE = 2048


def minilm_cls(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=cls")
    peer = PaddedSteps(stage, OneModel(stage.network.shape), "cls")
    yield compare("train-minilm-cls", Steps(stage), peer, rounds=bench.rounds(12))


def minilm_mean(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=mean")
    peer = PaddedSteps(stage, OneModel(stage.network.shape), "mean")
    yield compare("train-minilm-mean", Steps(stage), peer, rounds=bench.rounds(12))


def minilm_course(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=cls")
    peer = PaddedSteps(stage, Course(stage.network.shape), "cls")
    yield compare("train-minilm-course", Steps(stage), peer, rounds=bench.rounds(9))


def bert_base(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=cls", "sharing.encoder=S12", sizes=BERT_BASE)
    peer = PaddedSteps(stage, OneModel(stage.network.shape), "cls")
    yield compare("train-bert-base", Steps(stage), peer, rounds=bench.rounds(4))


def hybrid(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=cls", "sharing.encoder=S3 I3")
    peer = PaddedSteps(stage, SharedLow(stage.network.shape, shared=3), "cls")
    yield compare("train-hybrid", Steps(stage), peer, rounds=bench.rounds(9))


def individual(bench: Bench) -> Iterator[Result]:
    stage = stage_of(bench, "encoder.pooling=cls", "sharing.encoder=I6", "sharing.embeddings=I")
    peer = PaddedSteps(stage, SharedLow(stage.network.shape, shared=0), "cls")
    yield compare("train-individual", Steps(stage), peer, rounds=bench.rounds(6))


def projected(bench: Bench) -> Iterator[Result]:
    """Against `transformers` without projected attention: it has none."""
    stage = stage_of(bench, "encoder.pooling=cls", "sharing.pal={size=204, heads=12}")
    peer = PaddedSteps(stage, OneModel(stage.network.shape), "cls")
    yield compare("train-pals-against-plain", Steps(stage), peer, rounds=bench.rounds(6))


def gemm_share(bench: Bench) -> Iterator[Result]:
    yield _share("gemm-share-minilm", stage_of(bench, "encoder.pooling=mean"), bench.rounds(12))
    changes = ("encoder.pooling=mean", "sharing.encoder=S12")
    yield _share("gemm-share-bert-base", stage_of(bench, *changes, sizes=BERT_BASE), 4)


def _share(name: str, stage: Stage, rounds: int) -> Result:
    """Our operations per second of a step, and those of one large matrix product."""
    steps, a = Steps(stage), torch.randn(PEAK_SIZE, PEAK_SIZE)
    out = torch.empty_like(a)

    def peak() -> None:
        for _ in range(8):
            torch.mm(a, a, out=out)

    steps()
    peak()
    ours, peer, times = [], [], []
    for _ in range(rounds):
        work = operations(stage, steps.at.step)
        times += [spend(steps), spend(peak)]
        ours.append(work / times[-2].cpu / 1e9)
        peer.append(8 * 2 * PEAK_SIZE**3 / times[-1].cpu / 1e9)
    low, high = spread(ours, peer, busy=is_busy(times))
    mine, best = statistics.median(ours), statistics.median(peer)
    return Result(
        name, mine, best, mine / best, low, high, "share", "GFLOP per CPU s", rounds, None,
        is_busy(times),
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
