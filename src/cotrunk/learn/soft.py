"""Soft sharing: a penalty pulls the separate copies of a layer towards each other."""

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
    """Sum of singular values, from the small Gramian of the rows.

    The Gramian squares the singular values: for copies 1e-4 apart the squares are 1e-8 apart, which
    is below float32 precision. So it is formed in float64. Singular values below its precision
    count as 0 with gradient 0, so that equal copies get a finite subgradient.
    """
    on_mps = rows.device.type == "mps"  # which has no float64
    exact = rows.cpu().double() if on_mps else rows.double()
    eigenvalues = torch.linalg.eigvalsh(exact @ exact.T)
    rounding = 8 * len(rows) * torch.finfo(exact.dtype).eps * eigenvalues[-1].detach()
    return eigenvalues[eigenvalues > rounding].sqrt().sum().to(rows.dtype).to(rows.device)
