"""From a file to tokens, and epochs on a frozen encoder."""

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from bench.inference import Texts
from bench.timing import Result, compare, is_busy, spend, spread
from bench.work import Bench, settings_of
from cotrunk.blueprint import tasks_of
from cotrunk.data.text import lay_out
from cotrunk.experiment import corpora_of
from cotrunk.model.noise import SILENCE
from cotrunk.model.pretrained import find, load_tokenizer

REGIMES, EPOCHS = 8, 10


def tokenising(bench: Bench) -> Iterator[Result]:
    """Three files checked, tokenised and stored, beside tokenising their texts alone."""
    settings, base = settings_of(bench), Path.cwd()
    tasks, tokenizer = tasks_of(settings), load_tokenizer(find("minilm", base=base))
    rows = 0

    def ours() -> None:
        nonlocal rows
        before = os.environ["COTRUNK_CACHE"]
        with tempfile.TemporaryDirectory() as empty:
            os.environ["COTRUNK_CACHE"] = empty
            read = corpora_of(settings, tasks, "train", base, tokenizer, progress=lambda _: None)
            rows = sum(len(corpus) for corpus in read.values())
        os.environ["COTRUNK_CACHE"] = before

    read = corpora_of(settings, tasks, "train", base, tokenizer, progress=lambda _: None)
    texts = [
        tokenizer.decode(piece.tolist())
        for corpus in read.values()
        for row in range(len(corpus))
        for piece in corpus.pieces(row)
    ]
    result = compare(
        "read-and-tokenise",
        ours,
        lambda: tokenizer.encode_batch(texts),
        rounds=bench.rounds(6),
    )
    yield result
    speed = rows / result.ours
    yield Result(
        "rows-per-cpu-second", speed, rows / result.peer, result.ratio, result.low, result.high,
        "times less", "rows per CPU s", result.rounds, None, result.busy,
    )  # fmt: skip


def frozen(bench: Bench) -> Iterator[Result]:
    """Heads on vectors that are computed once, beside `transformers` in every epoch.

    One of the peer's 80 epochs is timed and multiplied; ours is timed whole.
    """
    texts = Texts(bench)
    target_R = torch.from_numpy(np.random.default_rng(0).integers(0, 5, len(texts.rows)))
    epochs, studies = [], []
    for _ in range(bench.rounds(6)):
        epochs.append(spend(lambda: texts.theirs(texts.torch, in_order=True)))
        studies.append(spend(lambda: _study(texts, target_R)))
    peer, ours = (
        [s.cpu * many for s in t] for t, many in [(epochs, REGIMES * EPOCHS), (studies, 1)]
    )
    busy = is_busy(epochs + studies)
    low, high = spread(peer, ours, busy=busy)
    mine, other = statistics.median(ours), statistics.median(peer)
    yield Result("frozen-study", mine, other, other / mine, low, high, rounds=len(ours), busy=busy)


def _study(texts: Texts, target_R: torch.Tensor) -> None:
    text, sides = lay_out(texts.template, texts.rows, texts.view)
    with torch.inference_mode():
        (x_SD,) = texts.network.encode(text, ["sst"], SILENCE).values()
    x_RD = x_SD[sides.places[0]].clone()
    for _ in range(REGIMES):
        head = torch.nn.Linear(x_RD.shape[1], 5)
        optimizer = torch.optim.AdamW(head.parameters(), fused=True)
        for _ in range(EPOCHS):
            for x, target in zip(x_RD.split(32), target_R.split(32), strict=True):
                optimizer.zero_grad()
                F.cross_entropy(head(F.dropout(x, 0.1)), target).backward()
                optimizer.step()


FAMILY = {"read-and-tokenise": tokenising, "frozen-study": frozen}
