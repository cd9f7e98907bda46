"""The head that predicts masked words (Devlin et al. 2019).

Shapes: N masked sites, D width, V words of the table.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cotrunk.model.encoder.linear import Linear
from cotrunk.model.encoder.shape import Shape


class MaskedHead(nn.Module):
    """Scores of every word for each masked site.

    The output layer is the word table of the encoder. It is passed as an argument, so that it is
    trained, shared and stored once.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dense = Linear(shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_eps)
        self.bias = nn.Parameter(torch.zeros(shape.vocabulary))

    def forward(self, x_ND: Tensor, table_VD: Tensor) -> Tensor:
        return F.linear(self.norm(F.gelu(self.dense(x_ND))), table_VD, self.bias)
