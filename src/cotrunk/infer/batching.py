"""A network's outputs for whole corpora, in batches of similar length with a token budget."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import TypeVar

import numpy as np
import torch

from cotrunk.data.batches.text import PairFormat, Template, pack_rows, tokens_of, visible_sites
from cotrunk.data.tokens.cache import CorpusRows
from cotrunk.infer.threads import in_order
from cotrunk.kinds.rows import LoadedRows, TokenIds
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.sharing.network import Network
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress

ROWS_PER_BLOCK = 1 << 16
LEAST_TOKENS, TOKENS_ON_CPU, TOKENS_ON_GPU = 128, 1024, 4096
"""Tokens per batch. On a CPU the activations of 1024 tokens stay in the cache, which takes a sixth
less time than 4096.
"""
Result = TypeVar("Result")
Load = Callable[[np.ndarray], LoadedRows]
"""Row numbers -> rows, including sites that will be truncated."""


def outputs(
    network: Network,
    load: Load,
    tokens: np.ndarray,
    pair_format: PairFormat,
    template: Template,
    tasks: Sequence[str],
    *,
    on_progress: OnProgress = ignore_progress,
) -> dict[str, np.ndarray]:
    """The evidence of each task for every row or site, in row order.

    ``tokens`` is the number of tokens of each row. Truncated sites have NaN. The tasks must be all
    row-level or all token-level.
    """
    found: dict[str, _Collected] = {task: _Collected(len(tokens)) for task in tasks}
    done, what = 0, f"answering {', '.join(tasks)}"
    device = next(network.parameters()).device

    def answer(chosen: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
        rows = load(chosen)
        kept = outputs_of_batch(network, rows, pair_format, template, tasks)
        return kept, None if rows.sites is None else rows.units_R

    with closing(by_batch(answer, tokens, device)) as batches:
        for chosen, (kept, counts) in batches:
            for task in tasks:
                found[task].add(chosen, kept[task], counts)
            done += len(chosen)
            on_progress(ProgressUpdate(what, len(chosen), done / len(tokens)))
    return {task: found[task].in_order(network.tasks[task].outputs) for task in tasks}


@torch.inference_mode()
def outputs_of_batch(
    network: Network,
    rows: LoadedRows,
    pair_format: PairFormat,
    template: Template,
    tasks: Sequence[str],
) -> dict[str, np.ndarray]:
    """The evidence of each task for rows that fit in one batch; NaN for truncated sites."""
    device = next(network.parameters()).device
    marks = None
    if rows.sites is not None:
        marks = visible_sites(template, rows, pair_format)
        rows = rows.at_sites(marks)
    text, index = pack_rows(template, rows.pieces, pair_format, rows.sites)
    out = network(text.to(device), index.to(device), tasks, NO_DROPOUT)
    target = torch.from_numpy(rows.target).to(device)
    kept = {
        task: network.tasks[task].labels.evidence(out[task].float(), target).cpu().numpy()
        for task in tasks
    }
    if marks is None:
        return kept
    return {task: _spread(kept[task], np.concatenate(marks)) for task in tasks}


def _spread(values: np.ndarray, mark_N: np.ndarray) -> np.ndarray:
    """Values where there is a mark, NaN elsewhere."""
    spread = np.full((len(mark_N), values.shape[1]), np.nan, np.float32)
    spread[mark_N] = values
    return spread


class _Collected:
    """Collects the outputs of batches in row order."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.of_rows: np.ndarray | None = None
        self.of_sites: dict[int, np.ndarray] = {}

    def add(self, chosen: np.ndarray, values: np.ndarray, counts: np.ndarray | None) -> None:
        if counts is not None:
            parts = np.split(values, np.cumsum(counts)[:-1])
            self.of_sites.update(zip(chosen.tolist(), parts, strict=True))
            return
        if self.of_rows is None:
            self.of_rows = np.empty((self.rows, values.shape[1]), np.float32)
        self.of_rows[chosen] = values

    def in_order(self, outputs: int) -> np.ndarray:
        if self.of_sites:
            return np.concatenate([self.of_sites[row] for row in range(self.rows)])
        return np.empty((0, outputs), np.float32) if self.of_rows is None else self.of_rows


def by_batch(
    work: Callable[[np.ndarray], Result], tokens: np.ndarray, device: torch.device
) -> Generator[tuple[np.ndarray, Result]]:
    """Yields row numbers and the result of ``work`` for them, until all rows are done.

    On a CPU a small input is cut in four, so that several cores have work.
    """
    if device.type != "cpu":
        yield from ((chosen, work(chosen)) for chosen in by_length(tokens, TOKENS_ON_GPU))
        return
    quarter = math.ceil(tokens.sum() / 4)
    batches = list(by_length(tokens, min(max(quarter, LEAST_TOKENS), TOKENS_ON_CPU)))
    with closing(in_order(work, batches)) as found:
        yield from zip(batches, found, strict=True)


def by_length(lengths: Sequence[int] | np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Batches of rows of similar length, up to the budget of tokens (at least one row)."""
    order = np.argsort(lengths, kind="stable")
    tokens = np.cumsum(np.asarray(lengths)[order])
    first = before = 0
    while first < len(order):
        end = max(int(np.searchsorted(tokens, before + budget, "right")), first + 1)
        yield order[first:end]
        first, before = end, int(tokens[end - 1])


def row_tokens(rows: Sequence[TokenIds], pair_format: PairFormat, template: Template) -> np.ndarray:
    """The number of tokens of each row."""
    if not isinstance(rows, CorpusRows):
        each = [
            tokens_of(template, [len(piece) for piece in pieces], pair_format) for pieces in rows
        ]
        return np.array(each, np.int64)
    found = np.empty(len(rows), np.int64)
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        lengths = rows.corpus.text_lengths(first, first + ROWS_PER_BLOCK)
        # There are many rows, but few different lengths.
        different, which = np.unique(lengths, axis=0, return_inverse=True)
        costs = np.array([tokens_of(template, some, pair_format) for some in different.tolist()])
        found[first : first + ROWS_PER_BLOCK] = costs[which.reshape(-1)]
    return found
