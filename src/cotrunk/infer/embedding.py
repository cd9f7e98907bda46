"""Vectors of texts, as the heads of a trained network read them."""

import numpy as np
import torch

from cotrunk.data.batches.text import PairFormat, pack_rows
from cotrunk.errors import UserError
from cotrunk.infer.batching import by_batch, row_tokens
from cotrunk.infer.model import Model
from cotrunk.kinds.rows import TokenIds
from cotrunk.model.encoder.dropout import NO_DROPOUT


def embed(model: Model, texts: list[TokenIds], task: str) -> np.ndarray:
    """One pooled vector for each text: [texts, width]."""
    network, template = model.network, model.template
    device = next(network.parameters()).device
    pair_format = PairFormat(texts=1, max_tokens=model.pair_formats[task].max_tokens)
    found = np.empty((len(texts), network.shape.width), np.float32)

    @torch.inference_mode()
    def encode(chosen: np.ndarray) -> np.ndarray:
        text, index = pack_rows(template, [texts[row] for row in chosen], pair_format)
        pooled = network.encode(text.to(device), [task], NO_DROPOUT)
        vectors = next(x_SD for group, x_SD in pooled.items() if task in group)
        return vectors[index.places[0].to(device)].float().cpu().numpy()

    for chosen, vectors in by_batch(encode, row_tokens(texts, pair_format, template), device):
        found[chosen] = vectors
    return found


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
    encoders = {(network.head_plans[name].pooling, *_copies(model, name)) for name in pooled}
    if len(encoders) > 1:
        raise UserError(
            f"the tasks {', '.join(pooled)} do not share one encoder; "
            f"choose whose vectors you want, as in task={pooled[0]!r}"
        )
    return pooled[0]


def _copies(model: Model, task: str) -> list[frozenset[str]]:
    """The groups whose copies encode a task's texts."""
    places = [place for place in model.network.plan.places if place.encodes]
    return [group for place in places for group in place.partition if task in group]
