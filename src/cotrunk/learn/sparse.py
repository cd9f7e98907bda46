"""Gradients of the word table: a batch touches a few hundred of its 30,000 rows.

They stay row-sparse while they are compared, combined and clipped, and become dense only for the
optimizer, whose moments decay in every row. A task that predicts words updates every row, so its
gradient is dense; sums and inner products accept both.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


def entries(grad: Tensor) -> Tensor:
    """The stored entries of a gradient."""
    return grad.values() if grad.is_sparse else grad


def coalesced(grad: Tensor) -> Tensor:
    """Each touched row once."""
    return grad.coalesce() if grad.is_sparse else grad


def add(total: Tensor, grad: Tensor, *, weight: float = 1.0) -> Tensor:
    """``total + weight * grad`` in place of one of them; do not use either afterwards.

    A dense gradient cannot be added to a row-sparse total, so there the total is added to it.
    """
    if total.is_sparse and not grad.is_sparse:
        return (grad if weight == 1 else grad.mul_(weight)).add_(total)
    return total.add_(grad, alpha=weight)


def dot(left: Tensor, right: Tensor) -> Tensor:
    """The inner product of two coalesced gradients of one parameter."""
    if left.is_sparse and right.is_sparse and left is not right:
        return (left * right).values().sum()
    if left.is_sparse != right.is_sparse:
        rows, whole = (left, right) if left.is_sparse else (right, left)
        touched = whole.index_select(0, rows.indices()[0])
        return torch.dot(rows.values().flatten(), touched.flatten())
    return torch.dot(entries(left).flatten(), entries(right).flatten())


class DenseRows:
    """Dense forms of row-sparse gradients, kept from step to step.

    Only the rows that were touched are cleared and written again.
    """

    def __init__(self) -> None:
        self.kept: dict[Tensor, tuple[Tensor, Tensor]] = {}

    @torch.no_grad()
    def fill(self, parameters: Iterable[Tensor]) -> None:
        """Replace every row-sparse gradient by its dense form."""
        for parameter in parameters:
            if parameter.grad is None or not parameter.grad.is_sparse:
                continue
            grad = parameter.grad.coalesce()
            (row,) = grad.indices()
            dense, before = self.kept.get(parameter) or (torch.zeros_like(parameter), row[:0])
            dense.index_fill_(0, before, 0).index_copy_(0, row, grad.values())
            self.kept[parameter] = dense, row
            parameter.grad = dense
