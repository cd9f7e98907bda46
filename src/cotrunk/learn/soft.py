"""Soft sharing: a penalty pulls the separate copies of a layer towards each other."""

from typing import Any

import torch
from torch import Tensor

from cotrunk.model.sharing.network import Network


def soft_penalty(network: Network, *, l2: float, trace: float) -> Tensor:
    """``l2`` x squared distance of the copies to their mean + ``trace`` x their trace norm.

    The first as in Duong et al. (2015); the second, over the matrix whose rows are the flattened
    copies, as in Yang & Hospedales (2017).
    """
    # requires_grad, so that backward works even if there are no copies or they are frozen.
    total = torch.zeros((), device=next(network.parameters()).device, requires_grad=True)
    for owned in network.owned.values():
        if len(owned) < 2:
            continue
        copies = [dict(copy.named_parameters()) for copy in owned.values()]
        for name in copies[0]:
            stack = torch.stack([copy[name].flatten() for copy in copies])
            if l2:
                total = total + l2 * (stack - stack.mean(0)).square().sum()
            if trace:
                total = total + trace * trace_norm(stack)
    return total


def trace_norm(rows: Tensor) -> Tensor:
    """Sum of the singular values of the rows; its gradient is U V', exact while copies are close.

    A Gramian would square the singular values, and so lose the small ones, which tell the copies
    apart. Values below float64 precision count as 0 with gradient 0, so that equal copies get a
    finite subgradient.
    """
    found: Tensor = _TraceNorm.apply(rows)  # type: ignore[no-untyped-call]
    return found


class _TraceNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        on_mps = rows.device.type == "mps"  # which has no float64
        exact = rows.cpu().double() if on_mps else rows.double()
        u, sigma, v = torch.linalg.svd(exact, full_matrices=False)
        kept = sigma > max(rows.shape) * torch.finfo(exact.dtype).eps * sigma[0]
        ctx.save_for_backward((u[:, kept] @ v[kept]).to(rows))
        return sigma[kept].sum().to(rows)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        (polar,) = ctx.saved_tensors
        return slope * polar
