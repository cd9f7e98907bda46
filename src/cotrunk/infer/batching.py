"""A network's outputs on whole corpora: sorted by length, packed, a budget of tokens per batch."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import TypeVar

import numpy as np
import torch

from cotrunk.data.batches.text import PairFormat, Template, TokenIds, pack_rows, tokens_of
from cotrunk.data.tokens.cache import CorpusRows
from cotrunk.infer.threads import in_order
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.sharing.network import Network
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress

ROWS_PER_BLOCK = 1 << 16
LEAST_TOKENS, TOKENS_ON_CPU, TOKENS_ON_GPU = 128, 1024, 4096
"""Of a batch. What passes between two layers of 1024 stays in a processor's cache: a sixth less
time than with 4096.
"""
Result = TypeVar("Result")


def outputs(
    network: Network,
    rows: Sequence[TokenIds],
    pair_format: PairFormat,
    template: Template,
    tasks: Sequence[str],
    *,
    on_progress: OnProgress = ignore_progress,
) -> dict[str, np.ndarray]:
    """What each task says about every row, as [rows, outputs] in the order of ``rows``."""
    found = {task: np.empty((len(rows), network.tasks[task].outputs), np.float32) for task in tasks}
    done, what = 0, f"answering {', '.join(tasks)}"
    device = next(network.parameters()).device

    @torch.inference_mode()
    def answer(chosen: np.ndarray) -> dict[str, np.ndarray]:
        text, index = pack_rows(template, [rows[row] for row in chosen], pair_format)
        out = network(text.to(device), index.to(device), tasks, NO_DROPOUT)
        return {task: out[task].float().cpu().numpy() for task in tasks}

    with closing(by_batch(answer, row_tokens(rows, pair_format, template), device)) as batches:
        for chosen, out in batches:
            for task in tasks:
                found[task][chosen] = out[task]
            done += len(chosen)
            on_progress(ProgressUpdate(what, len(chosen), done / len(rows)))
    return found


def by_batch(
    work: Callable[[np.ndarray], Result], tokens: np.ndarray, device: torch.device
) -> Generator[tuple[np.ndarray, Result]]:
    """Which rows, and what ``work`` gives for them, until all rows have had their turn.

    On a CPU few tokens are quartered, so that several processors have something to do.
    """
    if device.type != "cpu":
        yield from ((chosen, work(chosen)) for chosen in by_length(tokens, TOKENS_ON_GPU))
        return
    quarter = math.ceil(tokens.sum() / 4)
    batches = list(by_length(tokens, min(max(quarter, LEAST_TOKENS), TOKENS_ON_CPU)))
    with closing(in_order(work, batches)) as found:
        yield from zip(batches, found, strict=True)


def by_length(lengths: Sequence[int] | np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Rows of like length together, as many as the budget of tokens holds (at least one)."""
    order = np.argsort(lengths, kind="stable")
    tokens = np.cumsum(np.asarray(lengths)[order])
    first = before = 0
    while first < len(order):
        end = max(int(np.searchsorted(tokens, before + budget, "right")), first + 1)
        yield order[first:end]
        first, before = end, int(tokens[end - 1])


def row_tokens(rows: Sequence[TokenIds], pair_format: PairFormat, template: Template) -> np.ndarray:
    """What each row costs."""
    if not isinstance(rows, CorpusRows):
        each = [
            tokens_of(template, [len(piece) for piece in pieces], pair_format) for pieces in rows
        ]
        return np.array(each, np.int64)
    found = np.empty(len(rows), np.int64)
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        lengths = rows.corpus.text_lengths(first, first + ROWS_PER_BLOCK)
        # Many rows, but few different lengths among them.
        different, which = np.unique(lengths, axis=0, return_inverse=True)
        costs = np.array([tokens_of(template, some, pair_format) for some in different.tolist()])
        found[first : first + ROWS_PER_BLOCK] = costs[which.reshape(-1)]
    return found
