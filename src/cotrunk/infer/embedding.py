"""Vectors of texts, as the heads of a trained network read them."""

from collections.abc import Sequence

import numpy as np
import torch

from cotrunk.data.batches.text import PairFormat, pack_rows
from cotrunk.errors import UserError
from cotrunk.infer.batching import by_batch, row_tokens
from cotrunk.infer.model import Model
from cotrunk.kinds.rows import TokenIds
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.sharing.network import Network
from cotrunk.model.sharing.partition import Group


def embed(model: Model, texts: list[TokenIds], task: str) -> np.ndarray:
    """One pooled vector for each text: [texts, width]."""
    device = next(model.network.parameters()).device
    pair_format = format_to_embed(model, task)
    found = np.empty((len(texts), model.network.shape.width), np.float32)

    def encode(chosen: np.ndarray) -> np.ndarray:
        return vectors_of_batch(model, [texts[row] for row in chosen], task)

    for chosen, vectors in by_batch(encode, row_tokens(texts, pair_format, model.template), device):
        found[chosen] = vectors
    return found


@torch.inference_mode()
def vectors_of_batch(model: Model, texts: Sequence[TokenIds], task: str) -> np.ndarray:
    """One pooled vector for each text of a batch."""
    device = next(model.network.parameters()).device
    text, index = pack_rows(model.template, texts, format_to_embed(model, task))
    pooled = model.network.encode(text.to(device), [task], NO_DROPOUT)
    vectors = next(x_SD for group, x_SD in pooled.items() if task in group)
    found: np.ndarray = vectors[index.places[0].to(device)].float().cpu().numpy()
    return found


def format_to_embed(model: Model, task: str) -> PairFormat:
    """A text by itself, even if the task reads pairs."""
    return PairFormat(texts=1, max_tokens=model.pair_formats[task].max_tokens)


def task_to_embed(model: Model, task: str | None) -> str:
    """The task whose encoder to use; it must be named unless all tasks have the same."""
    network = model.network
    pooled = [name for name, found in network.tasks.items() if not found.is_about_tokens]
    if task is not None:
        if task in pooled:
            return task
        raise UserError(f"task {task} predicts words, which are not pooled into one vector")
    if not pooled:
        raise UserError("this run has no task about whole texts, so it pools no vectors")
    encoders = {(network.head_plans[name].pooling, *copies_of(network, name)) for name in pooled}
    if len(encoders) > 1:
        raise UserError(
            f"the tasks {', '.join(pooled)} do not share one encoder; "
            f"choose whose vectors you want, as in task={pooled[0]!r}"
        )
    return pooled[0]


def copies_of(network: Network, task: str) -> list[Group]:
    """The groups whose copies encode a task's texts."""
    places = [place for place in network.plan.places if place.encodes]
    return [group for place in places for group in place.partition if task in group]
