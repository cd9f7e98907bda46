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

from cotrunk.data.stream import Batch
from cotrunk.learn.state import Stage
from cotrunk.learn.threads import in_order
from cotrunk.model.initial import generator
from cotrunk.model.network import Shift, unmoved
from cotrunk.model.noise import Noise

TOKENS_UNCUT, TOKENS_PER_PART = 512, 1024
"""A step of no more than the first is not cut, nor worth a thread; the parts of others have about
the second.
"""


@dataclass(frozen=True)
class Portion:
    """Some rows of a batch: the ``part``-th of the ``batch``-th of a step, which has ``tokens``.

    ``share`` is what it counts for in the batch's loss.
    """

    batch: int
    part: int
    chosen: np.ndarray
    tokens: int
    share: float


def stretches_of(total: int) -> int:
    """How many even stretches a step of so many tokens has: one, two, four, six..."""
    return 2 * max(1, round(total / (2 * TOKENS_PER_PART))) if total > TOKENS_UNCUT else 1


def portions_of(tokens: Sequence[np.ndarray], *, stretches: int) -> list[Portion]:
    """A step cut into even stretches; ``tokens`` of each batch's rows.

    A stretch may end within a batch. The longest portions come first, so that at the end no thread
    has long to wait for another.
    """
    total = int(sum(batch.sum() for batch in tokens))
    portions: list[Portion] = []
    before = 0
    for number, length_R in enumerate(tokens):
        order = np.argsort(length_R, kind="stable")
        middle_R = before + np.cumsum(length_R[order]) - length_R[order] / 2
        stretch_R = (middle_R * stretches / max(total, 1)).astype(int)
        for part, stretch in enumerate(np.unique(stretch_R)):
            chosen = np.sort(order[stretch_R == stretch])
            mine = int(length_R[chosen].sum())
            portions.append(Portion(number, part, chosen, mine, len(chosen) / len(order)))
        before += int(length_R.sum())
    return sorted(portions, key=lambda portion: -portion.tokens)


def add_gradients(
    stage: Stage, batches: Sequence[Batch], step: int, weights: Mapping[str, float]
) -> Iterator[tuple[Portion, float]]:
    """Each portion and its loss, once its gradient has been added to that of the parameters."""
    parameters = list(stage.trained.values())
    tokens = [stage.forward.tokens(batch.task, batch.rows) for batch in batches]
    total = int(sum(batch.sum() for batch in tokens))
    stretches = stretches_of(total) if stage.device.type == "cpu" else 1
    portions = portions_of(tokens, stretches=stretches)

    def work(portion: Portion) -> tuple[float, list[Tensor | None]]:
        batch = batches[portion.batch]
        loss = portion_loss(stage, batch, portion, step)
        weight = portion.share * batch.share * weights[batch.task]
        grads = torch.autograd.grad(loss * weight, parameters, allow_unused=True)
        return loss.item(), _apart(grads)

    if stretches > 1:
        found = in_order(work, portions, share_idle_threads=True)
    else:
        found = (work(portion) for portion in portions)
    with closing(found):
        for portion, (loss, grads) in zip(portions, found, strict=True):
            for parameter, grad in zip(parameters, grads, strict=True):
                if grad is not None:
                    parameter.grad = grad if parameter.grad is None else parameter.grad.add_(grad)
            yield portion, loss


def portion_loss(stage: Stage, batch: Batch, portion: Portion, step: int) -> Tensor:
    """The mean loss of a portion's rows, with what the smoothing adds."""
    recipe, network, task = stage.recipe, stage.network, batch.task
    rows = batch.rows[portion.chosen]
    target_R = batch.target_R[torch.from_numpy(portion.chosen)].to(stage.device)
    part = (portion.part,) if portion.part else ()  # the first is as a batch that is not cut

    def again(repeat: int = 0, shift: Shift = unmoved) -> Tensor:
        noise = Noise(recipe.seed, step, portion.batch, repeat, *part, device=stage.device)
        return stage.forward.output(task, rows, noise, shift)

    def criterion(output_RO: Tensor) -> Tensor:
        return recipe.losses[task](output_RO, target_R).mean()

    name = " ".join(str(number) for number in (step, portion.batch, *part))
    random = generator(recipe.seed, f"smoothing {name}")
    return recipe.smoothing(network.tasks[task], again, criterion, random)


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
