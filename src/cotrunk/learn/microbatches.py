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

    ``share`` is what it counts for in the batch's loss.
    """

    batch: int
    part: int
    chosen: np.ndarray
    tokens: int
    share: float


def cuts_of(total: int) -> int:
    """How many even stretches a step of so many tokens has: one, two, four, six..."""
    return 2 * max(1, round(total / (2 * TOKENS_PER_PART))) if total > TOKENS_UNCUT else 1


def microbatches_of(tokens: Sequence[np.ndarray], *, cuts: int) -> list[Microbatch]:
    """A step cut into even stretches; ``tokens`` of each batch's rows.

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
        for part, cut in enumerate(np.unique(cut_R)):
            chosen = np.sort(order[cut_R == cut])
            mine = int(length_R[chosen].sum())
            microbatches.append(Microbatch(number, part, chosen, mine, len(chosen) / len(order)))
        before += int(length_R.sum())
    return sorted(microbatches, key=lambda microbatch: -microbatch.tokens)


def add_gradients(
    stage: Stage, batches: Sequence[Batch], step: int, weights: Mapping[str, float]
) -> Iterator[tuple[Microbatch, float]]:
    """Each portion and its loss, once its gradient has been added to that of the parameters."""
    parameters = list(stage.trained.values())
    tokens = [stage.forward.tokens(batch.task, batch.rows) for batch in batches]
    total = int(sum(batch.sum() for batch in tokens))
    cuts = cuts_of(total) if stage.device.type == "cpu" else 1
    microbatches = microbatches_of(tokens, cuts=cuts)

    def work(microbatch: Microbatch) -> tuple[float, list[Tensor | None]]:
        batch = batches[microbatch.batch]
        loss = microbatch_loss(stage, batch, microbatch, step)
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


def microbatch_loss(stage: Stage, batch: Batch, microbatch: Microbatch, step: int) -> Tensor:
    """The mean loss of a portion's rows, with what the smoothing adds."""
    recipe, network, task = stage.recipe, stage.network, batch.task
    rows = batch.rows[microbatch.chosen]
    target_R = batch.target_R[torch.from_numpy(microbatch.chosen)].to(stage.device)
    part = (microbatch.part,) if microbatch.part else ()  # the first is as a batch that is not cut

    def again(repeat: int = 0, perturb: Perturb = identity) -> Tensor:
        masks = DropoutStream(
            recipe.seed, step, microbatch.batch, repeat, *part, device=stage.device
        )
        return stage.forward.output(task, rows, masks, perturb)

    def criterion(output_RO: Tensor) -> Tensor:
        return recipe.losses[task](output_RO, target_R).mean()

    name = " ".join(str(number) for number in (step, microbatch.batch, *part))
    random = generator(recipe.seed, f"smoothing {name}")
    return recipe.regularizer(network.tasks[task], again, criterion, random)


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
