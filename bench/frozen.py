"""Several runs with a frozen encoder: every text is encoded once for all of them."""

import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bench.peers import OneModel, PaddedSteps
from bench.timing import Result, is_busy, ratio_of, spend
from bench.work import FILES, Bench, Steps, empty_cache, stage_of

RATES = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
EPOCHS = 10


def study(bench: Bench) -> Iterator[Result]:
    """Runs at 8 learning rates, 10 epochs each; `transformers` encodes in every epoch.

    Ours is timed completely, from an empty cache; of the peer one epoch is timed, times 80.
    """
    with tempfile.TemporaryDirectory() as folder:
        few = _few(bench, Path(folder))
        epochs, studies = [], []
        for _ in range(bench.rounds(6)):
            epochs.append(spend(_Reencoding(few)))
            studies.append(spend(lambda: _study(few)))
    peer, ours = [s.cpu * EPOCHS * len(RATES) for s in epochs], [s.cpu for s in studies]
    busy = is_busy(epochs + studies)
    ratio, low, high = ratio_of(peer, ours, busy=busy)
    mine, other = statistics.median(ours), statistics.median(peer)
    yield Result("frozen-study", mine, other, ratio, low, high, rounds=len(ours), busy=busy)


def _few(bench: Bench, folder: Path) -> Bench:
    """The same work on the first rows of the course's files; the sample is small already."""
    if bench.data is None:
        return bench
    rows = 128 if bench.quick else 384
    for name in FILES.values():
        with (bench.data / name).open() as file:
            (folder / name).write_text("".join(islice(file, rows + 1)))
    return replace(bench, data=folder)


def _study(bench: Bench) -> None:
    with empty_cache():
        for rate in RATES:
            stage = stage_of(
                bench,
                "encoder.pooling=cls",
                "train.freeze=encoder",
                f"train.lr={rate}",
                f"train.epochs={EPOCHS}",
            )
            steps = Steps(stage)
            for _ in range(stage.stream.steps):
                steps()


class _Reencoding:
    """An epoch in which `transformers` encodes every batch again and trains only the heads."""

    def __init__(self, bench: Bench) -> None:
        stage = stage_of(bench, "encoder.pooling=cls")
        self.count = stage.stream.epoch_ends[0]
        encoder = OneModel(stage.network.shape).requires_grad_(False)
        self.steps = PaddedSteps(stage, encoder, "cls")
        encoder.eval()

    def __call__(self) -> None:
        for _ in range(self.count):
            self.steps()


FAMILY = {"frozen-study": study}
