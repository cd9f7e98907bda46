"""The batches of a step in portions, whose gradients are found at once and added up in order.

How a step is cut depends on its rows alone, never on the number of threads; with more threads than
portions, operations have several, and may round otherwise.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cotrunk.data.batches.stream import Batch
from cotrunk.infer.threads import in_order
from cotrunk.kinds.rows import LoadedRows
from cotrunk.kinds.task import Task
from cotrunk.learn.sparse import add
from cotrunk.learn.stage import Stage
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.sharing.network import Perturb, identity
from cotrunk.model.weights.initial import generator

TOKENS_UNCUT, TOKENS_PER_PART = 512, 1024
"""A step of no more than the first is not cut, nor worth a thread; the parts of others have about
the second.
"""


@dataclass(frozen=True)
class Microbatch:
    """Some rows of a batch: the ``part``-th of the ``batch``-th of a step, which has ``tokens``.

    ``share`` is what it counts for in the batch's loss: its share of the batch's weight.
    """

    batch: int
    part: int
    chosen: np.ndarray
    tokens: int
    share: float


def cuts_of(total: int) -> int:
    """How many even stretches a step of so many tokens has: one, two, four, six..."""
    return 2 * max(1, round(total / (2 * TOKENS_PER_PART))) if total > TOKENS_UNCUT else 1


def microbatches_of(
    tokens: Sequence[np.ndarray], *, cuts: int, weights: Sequence[np.ndarray] | None = None
) -> list[Microbatch]:
    """A step cut into even stretches; ``tokens`` of each batch's rows, and what each row weighs.

    A stretch may end within a batch. The longest portions come first, so that at the end no thread
    has long to wait for another.
    """
    total = int(sum(batch.sum() for batch in tokens))
    microbatches: list[Microbatch] = []
    before = 0
    for number, length_R in enumerate(tokens):
        order = np.argsort(length_R, kind="stable")
        middle_R = before + np.cumsum(length_R[order]) - length_R[order] / 2
        cut_R = (middle_R * cuts / max(total, 1)).astype(int)
        weight_R = np.ones(len(order)) if weights is None else weights[number]
        for part, cut in enumerate(np.unique(cut_R)):
            chosen = np.sort(order[cut_R == cut])
            mine = int(length_R[chosen].sum())
            weight = weight_R[chosen].sum()
            if weight > 0:  # else none of its rows has anything to be asked about
                share = float(weight / weight_R.sum())
                microbatches.append(Microbatch(number, part, chosen, mine, share))
        before += int(length_R.sum())
    return sorted(microbatches, key=lambda microbatch: -microbatch.tokens)


def add_gradients(
    stage: Stage, batches: Sequence[Batch], step: int, weights: Mapping[str, float]
) -> Iterator[tuple[Microbatch, float]]:
    """Each portion and its loss, once its gradient has been added to that of the parameters."""
    parameters = list(stage.trained.values())
    seed = stage.seed
    loaded = [
        stage.forward.load(batch.task, batch.rows, (seed, step, number))
        for number, batch in enumerate(batches)
    ]
    tokens = [rows.tokens_R for rows in loaded]
    total = int(sum(batch.sum() for batch in tokens))
    cuts = cuts_of(total) if stage.device.type == "cpu" else 1
    each = [row_weights(stage.network.tasks[rows.task], rows) for rows in loaded]
    microbatches = microbatches_of(tokens, cuts=cuts, weights=each)

    def work(microbatch: Microbatch) -> tuple[float, list[Tensor | None]]:
        batch = batches[microbatch.batch]
        loss = microbatch_loss(stage, loaded[microbatch.batch], microbatch, step)
        weight = microbatch.share * batch.share * weights[batch.task]
        grads = torch.autograd.grad(loss * weight, parameters, allow_unused=True)
        return loss.item(), _apart(grads)

    if cuts > 1:
        found = in_order(work, microbatches, share_idle_threads=True)
    else:
        found = (work(microbatch) for microbatch in microbatches)
    with closing(found):
        for microbatch, (loss, grads) in zip(microbatches, found, strict=True):
            for parameter, grad in zip(parameters, grads, strict=True):
                if grad is not None:
                    parameter.grad = grad if parameter.grad is None else add(parameter.grad, grad)
            yield microbatch, loss


def row_weights(task: Task, rows: LoadedRows) -> np.ndarray:
    """What each row counts for in the mean loss: its units, by the weights of their labels."""
    weight_N = task.labels.unit_weights(torch.from_numpy(rows.target).double())
    if weight_N is None:
        return rows.units_R.astype(np.float64)
    row_N = np.repeat(np.arange(len(rows)), rows.units_R)
    return np.bincount(row_N, weight_N.numpy(), minlength=len(rows))


def microbatch_loss(stage: Stage, batch: LoadedRows, microbatch: Microbatch, step: int) -> Tensor:
    """The mean loss of a microbatch's rows or sites, with what the regularizer adds."""
    task = stage.network.tasks[batch.task]
    rows = batch.select(microbatch.chosen)
    target = torch.from_numpy(rows.target).to(stage.device)
    weight_N = task.labels.unit_weights(target)
    part = (microbatch.part,) if microbatch.part else ()  # the first is as a batch that is not cut

    def again(repeat: int = 0, perturb: Perturb = identity) -> Tensor:
        masks = DropoutStream(
            stage.seed, step, microbatch.batch, repeat, *part, device=stage.device
        )
        return stage.forward.output(rows, masks, perturb)

    def criterion(output_NO: Tensor) -> Tensor:
        loss_N = stage.losses[task.name](output_NO, target)
        return loss_N.mean() if weight_N is None else loss_N.sum() / weight_N.sum()

    def average(value_N: Tensor) -> Tensor:
        if weight_N is None:
            return value_N.mean()
        return (value_N * weight_N).sum() / weight_N.sum()

    name = " ".join(str(number) for number in (step, microbatch.batch, *part))
    random = generator(stage.seed, f"smoothing {name}")
    return stage.regularizer(task, again, criterion, random, average)


def _apart(grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """None in memory of another: each will be added to in place."""
    seen: set[int] = set()
    apart: list[Tensor | None] = []
    for grad in grads:
        if grad is None or grad.is_sparse:
            apart.append(grad)
            continue
        own = grad.is_contiguous() and grad.data_ptr() not in seen
        seen.add(grad.data_ptr())
        apart.append(grad if own else grad.clone(memory_format=torch.contiguous_format))
    return apart
