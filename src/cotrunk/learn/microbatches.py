"""A step's batches in microbatches: gradients computed in parallel, added up in a fixed order.

How a step is cut depends only on its rows, never on the number of threads. A step that is not cut
is computed by one thread: two would save a tenth of the time and double the CPU time. If a step has
fewer microbatches than there are threads, an operation uses several, and may round differently.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cotrunk.data.batches.stream import Batch
from cotrunk.infer.threads import in_order, one_after_another
from cotrunk.kinds.rows import LoadedRows
from cotrunk.kinds.task import Task
from cotrunk.learn.sparse import add
from cotrunk.learn.stage import Stage
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.sharing.network import Perturb, identity
from cotrunk.model.weights.initial import generator

TOKENS_UNCUT, TOKENS_PER_PART = 512, 1024
"""A step of at most TOKENS_UNCUT tokens is one microbatch; longer ones are cut into microbatches of
about TOKENS_PER_PART.
"""


@dataclass(frozen=True)
class Microbatch:
    """Some rows of a batch: part ``part`` of batch ``batch`` of a step, with ``tokens`` tokens.

    ``share``: its share of the batch's total row weight, and so of the batch's loss.
    """

    batch: int
    part: int
    chosen: np.ndarray
    tokens: int
    share: float


def cuts_of(total: int) -> int:
    """The number of equal cuts of a step with ``total`` tokens: 1, 2, 4, 6, ..."""
    return 2 * max(1, round(total / (2 * TOKENS_PER_PART))) if total > TOKENS_UNCUT else 1


def microbatches_of(
    tokens: Sequence[np.ndarray], *, cuts: int, weights: Sequence[np.ndarray] | None = None
) -> list[Microbatch]:
    """A step in cuts of equal size; ``tokens`` and ``weights`` have one entry per row of a batch.

    A cut may end within a batch. The longest microbatches come first, so that no thread waits long
    for another at the end.
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
            if weight > 0:  # else its rows have nothing to predict
                share = float(weight / weight_R.sum())
                microbatches.append(Microbatch(number, part, chosen, mine, share))
        before += int(length_R.sum())
    return sorted(microbatches, key=lambda microbatch: -microbatch.tokens)


def add_gradients(
    stage: Stage, batches: Sequence[Batch], step: int, weights: Mapping[str, float]
) -> Iterator[tuple[Microbatch, float]]:
    """Yields each microbatch with its loss, after adding its gradient to the parameters'."""
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
        return loss.item(), _unshared(grads)

    if cuts > 1:
        found = in_order(work, microbatches, share_idle_threads=True)
    else:
        found = one_after_another(work, microbatches)
    with closing(found):
        for microbatch, (loss, grads) in zip(microbatches, found, strict=True):
            for parameter, grad in zip(parameters, grads, strict=True):
                if grad is not None:
                    parameter.grad = grad if parameter.grad is None else add(parameter.grad, grad)
            yield microbatch, loss


def row_weights(task: Task, rows: LoadedRows) -> np.ndarray:
    """Weight of each row in the mean loss: its units, weighted by their labels."""
    weight_N = task.labels.unit_weights(torch.from_numpy(rows.target).double())
    if weight_N is None:
        return rows.units_R.astype(np.float64)
    row_N = np.repeat(np.arange(len(rows)), rows.units_R)
    return np.bincount(row_N, weight_N.numpy(), minlength=len(rows))


def microbatch_loss(stage: Stage, batch: LoadedRows, microbatch: Microbatch, step: int) -> Tensor:
    """The mean loss of a microbatch's rows or sites, with the regularizer's term."""
    task = stage.network.tasks[batch.task]
    rows = batch.select(microbatch.chosen)
    target = torch.from_numpy(rows.target).to(stage.device)
    weight_N = task.labels.unit_weights(target)
    part = (microbatch.part,) if microbatch.part else ()  # the first has the key of an uncut batch

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


def _unshared(grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Gradients that share no memory, because each will be added to in place."""
    seen: set[int] = set()
    unshared: list[Tensor | None] = []
    for grad in grads:
        if grad is None or grad.is_sparse:
            unshared.append(grad)
            continue
        own = grad.is_contiguous() and grad.data_ptr() not in seen
        seen.add(grad.data_ptr())
        unshared.append(grad if own else grad.clone(memory_format=torch.contiguous_format))
    return unshared
