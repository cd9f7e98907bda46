"""Soft sharing: the copies of a depth are separate but drawn to each other."""

import torch
from torch import Tensor

from cotrunk.model.network import Network


def soft_penalty(network: Network, *, l2: float, trace: float) -> Tensor:
    """``l2`` x squared distance of the copies to their mean + ``trace`` x their trace norm.

    The first as in Duong et al. (2015); the second, over the matrix whose rows are the flattened
    copies, as in Yang & Hospedales (2017).
    """
    # It has a gradient even where nothing is copied, or what is copied is frozen.
    total = torch.zeros((), device=next(network.parameters()).device, requires_grad=True)
    for place, owned in network.owned_modules():
        if place == "heads" or len(owned) < 2:
            continue
        copies = [dict(copy.named_parameters()) for copy in owned.values()]
        for name in copies[0]:
            stack = torch.stack([copy[name].flatten() for copy in copies])
            if l2:
                total = total + l2 * (stack - stack.mean(0)).square().sum()
            if trace:
                total = total + trace * trace_norm(stack)
    return total


def trace_norm(rows: Tensor, *, floor: float = 1e-12) -> Tensor:
    """Sum of singular values, from the small Gramian; the floor keeps its slope finite at 0."""
    eigenvalues = torch.linalg.eigvalsh(rows @ rows.T)
    return eigenvalues.clamp(min=floor).sqrt().sum()
