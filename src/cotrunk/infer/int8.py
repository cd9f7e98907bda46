"""Encoder layers in int8, for inference on the CPU.

Shapes: T tokens, D input width, O output width.
"""

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from cotrunk.errors import UserError
from cotrunk.model.encoder.layer import Layer
from cotrunk.model.sharing.network import Network

ENGINE = "fbgemm"
ZERO, STEPS = 128, 127
"""A token's values are quantised to 128 - 127 .. 128 + 127."""
WEIGHT_STEPS = 63
"""AVX2 adds two products in 16 bits: 2 x 255 x 63 fits, 2 x 255 x 127 would saturate."""


class Int8Linear(nn.Module):
    """``x W' + b`` with one scale per row of W and per token of x.

    With one scale per batch, as in torch's dynamic quantisation, a token's rounding would depend on
    the rest of the batch, and an outlier in one text would cost precision in all others.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.packed = _packed(linear.weight.detach())
        bias = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias
        self.bias_O = bias.detach()

    def forward(self, x_TD: Tensor) -> Tensor:
        # abs and amax, because aminmax and the maximum norm take ten times as long.
        unit_TD = x_TD.abs()
        most_T1 = unit_TD.amax(1, keepdim=True).clamp_(min=torch.finfo(x_TD.dtype).tiny)
        torch.div(x_TD, most_T1, out=unit_TD)
        out_TO: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            unit_TD, 1 / STEPS, ZERO, self.packed
        )
        return torch.addcmul(self.bias_O, out_TO, most_T1, out=out_TO)


def to_int8(network: Network) -> None:
    """Replace the linear layers of the encoder, in place and irreversibly.

    Afterwards the network cannot be trained or saved.
    """
    refuse_where_int8_cannot_run(network)
    for layer, read_first in _encoder_layers(network):
        # Where only first tokens are read, attention uses the float weights: that is even faster.
        if not read_first:
            layer.attention.add_module("qkv", Int8Linear(layer.attention.qkv))
        layer.attention.add_module("out", Int8Linear(layer.attention.out))
        layer.add_module("up", Int8Linear(layer.up))
        layer.add_module("down", Int8Linear(layer.down))


def _encoder_layers(network: Network) -> Iterator[tuple[Layer, bool]]:
    """Every copy of every layer, and whether some task uses only its first tokens."""
    for place in network.plan.acting("layer"):
        owned = network.owned[place.name]
        for name, copy in owned.items():
            assert isinstance(copy, Layer)
            yield copy, any(network.reads_first(place, {task}) for task in owned.owners[name])


def _packed(weight_OD: Tensor) -> torch.ScriptObject:
    step_O = weight_OD.abs().amax(1).clamp(min=torch.finfo(weight_OD.dtype).tiny) / WEIGHT_STEPS
    zero_O = torch.zeros(len(step_O), dtype=torch.int64)
    with warnings.catch_warnings():
        # torch will remove quantised tensors, but its kernels accept weights in no other form.
        warnings.filterwarnings("ignore", "torch.quantize_per_tensor, torch.quantize_per_channel")
        quantised = torch.quantize_per_channel(weight_OD, step_O, zero_O, 0, torch.qint8)
    usual = torch.backends.quantized.engine
    torch.backends.quantized.engine = ENGINE  # the one that lets the caller choose scales
    try:
        return torch.ops.quantized.linear_prepack(quantised, None)
    finally:
        torch.backends.quantized.engine = usual


def refuse_where_int8_cannot_run(network: Network) -> None:
    device, engines = next(network.parameters()).device, torch.backends.quantized.supported_engines
    if ENGINE not in engines:
        raise UserError(
            f"int8 needs torch's {ENGINE} engine, which runs on x86 processors; "
            f"found {', '.join(engines)}; run without int8"
        )
    if device.type != "cpu":
        raise UserError(
            f"int8 runs only on the CPU, but the network is on {device}; load it on cpu"
        )
