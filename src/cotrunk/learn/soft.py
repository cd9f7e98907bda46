"""Soft sharing: the copies of a depth are separate but drawn to each other."""

import torch
from torch import Tensor

from cotrunk.model.sharing.network import Network


def soft_penalty(network: Network, *, l2: float, trace: float) -> Tensor:
    """``l2`` x squared distance of the copies to their mean + ``trace`` x their trace norm.

    The first as in Duong et al. (2015); the second, over the matrix whose rows are the flattened
    copies, as in Yang & Hospedales (2017).
    """
    # It has a gradient even where nothing is copied, or what is copied is frozen.
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

    The Gramian squares the singular values: of copies 1e-4 apart, the squares lie 1e-8 apart, which
    float32 cannot tell from rounding. So it is formed in float64. Singular values that are rounding
    even there count as 0, with a slope of 0: equal copies get a finite subgradient.
    """
    on_mps = rows.device.type == "mps"  # which has no float64
    exact = rows.cpu().double() if on_mps else rows.double()
    eigenvalues = torch.linalg.eigvalsh(exact @ exact.T)
    rounding = 8 * len(rows) * torch.finfo(exact.dtype).eps * eigenvalues[-1].detach()
    return eigenvalues[eigenvalues > rounding].sqrt().sum().to(rows.dtype).to(rows.device)
