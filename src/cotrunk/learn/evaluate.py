"""A network's outputs on whole corpora: sorted by length, packed, a budget of tokens per batch."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from cotrunk.data.text import Pieces, Template, View, lay_out, tokens_of
from cotrunk.model.network import Network
from cotrunk.model.noise import SILENCE

TOKENS_PER_BATCH = 4096
Tick = Callable[[], None]


def nothing() -> None:
    """For callers who need not be told of progress."""


@torch.inference_mode()
def outputs(
    network: Network,
    rows: Sequence[Pieces],
    view: View,
    template: Template,
    tasks: Sequence[str],
    *,
    tick: Tick = nothing,
) -> dict[str, np.ndarray]:
    """What each task says about every row, as [rows, outputs] in the order of ``rows``."""
    found = {task: np.empty((len(rows), network.tasks[task].outputs), np.float32) for task in tasks}
    device = next(network.parameters()).device
    for chosen in by_length(row_tokens(rows, view, template), TOKENS_PER_BATCH):
        text, sides = lay_out(template, [rows[row] for row in chosen], view)
        out = network(text.to(device), sides.to(device), tasks, SILENCE)
        for task in tasks:
            found[task][chosen] = out[task].float().cpu().numpy()
        tick()
    return found


def by_length(lengths: Sequence[int], budget: int) -> Iterator[np.ndarray]:
    """Rows of like length together, as many as the budget of tokens holds (at least one)."""
    order = np.argsort(lengths, kind="stable")
    batch: list[int] = []
    tokens = 0
    for row in order.tolist():
        if batch and tokens + lengths[row] > budget:
            yield np.array(batch)
            batch, tokens = [], 0
        batch.append(row)
        tokens += lengths[row]
    if batch:
        yield np.array(batch)


def row_tokens(rows: Sequence[Pieces], view: View, template: Template) -> list[int]:
    return [tokens_of(template, [len(piece) for piece in pieces], view) for pieces in rows]
