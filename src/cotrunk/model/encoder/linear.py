"""The encoder's linear layers, which are 90 % of its work.

Shapes: T tokens, D input width, O output width.
"""

import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_info
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def _has_faster_products() -> bool:
    """On AMD processors numpy's OpenBLAS is 5 to 20 % faster than torch's MKL."""
    known = Path("/proc/cpuinfo")
    processor = known.read_text() if known.exists() else platform.processor()
    # An OpenMP build would start its own threads beside torch's.
    numpys = [
        library
        for library in threadpool_info()
        if library["internal_api"] == "openblas" and library["threading_layer"] == "pthreads"
    ]
    openblas = any("numpy" in library["filepath"] for library in numpys)
    return "AuthenticAMD" in processor and openblas and torch.backends.mkl.is_available()


BY_NUMPY = _has_faster_products()
FEW = 64
"""For at most this many tokens calling numpy costs more than it saves."""


class Linear(nn.Linear):
    """``x W' + b`` with the faster of two BLAS libraries, if operations have one thread.

    With more, the threads of the two libraries would wait for each other.
    """

    def forward(self, x_TD: Tensor) -> Tensor:
        if not BY_NUMPY or not _is_for_numpy(x_TD):
            return super().forward(x_TD)
        out_TO: Tensor = _Product.apply(x_TD, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return out_TO


def _is_for_numpy(x_TD: Tensor) -> bool:
    return (
        x_TD.ndim == 2
        and x_TD.device.type == "cpu"
        and x_TD.dtype == torch.float32
        and len(x_TD) > FEW
        and x_TD.is_contiguous()
        and torch.get_num_threads() == 1
        and not torch.is_autocast_enabled("cpu")
    )


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_TD: Tensor, weight_OD: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_TD, weight_OD)
        out_TO = _times(x_TD, weight_OD.T)
        return out_TO if bias_O is None else out_TO.add_(bias_O)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_TO: Tensor) -> tuple[Tensor | None, ...]:
        (x_TD, weight_OD), grad_TO = ctx.saved_tensors, grad_TO.contiguous()
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            _times(grad_TO, weight_OD) if needs_x else None,
            _times(grad_TO.T, x_TD) if needs_weight else None,
            grad_TO.sum(0) if needs_bias else None,
        )


def _times(left: Tensor, right: Tensor) -> Tensor:
    out = left.new_empty(left.shape[0], right.shape[1])
    with np.errstate(all="ignore"):  # the training loop checks for non-finite values
        np.matmul(left.detach().numpy(), right.detach().numpy(), out=out.numpy())
    return out
