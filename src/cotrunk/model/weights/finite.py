"""NaN and infinity in weights."""

from collections.abc import Mapping

import torch
from torch import Tensor


def not_finite(tensors: Mapping[str, Tensor]) -> str:
    """The first tensor with values that are NaN or infinite, as text; "" if there is none."""
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            count = int((~torch.isfinite(tensor)).sum())
            return f"{name} has {count:,} of {tensor.numel():,} values that are NaN or infinite"
    return ""
