"""The head that predicts masked words (Devlin et al. 2019).

Shapes: N masked sites, D width, V words of the table.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cotrunk.model.encoder.linear import Linear
from cotrunk.model.encoder.shape import Shape

SITES_PER_BLOCK = 256
"""With 30,000 words, the scores of so many sites take 31 MB."""

Evidence = Callable[[Tensor, Tensor], Tensor]
"""(scores_NV, target_N) -> what an evaluation keeps of each site."""


class MaskedHead(nn.Module):
    """Scores of every word for each masked site.

    The output layer is the word table of the encoder below. It is an argument, not a parameter, so
    it is trained, shared and stored once.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dense = Linear(shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_eps)
        self.bias = nn.Parameter(torch.zeros(shape.vocabulary))

    def forward(self, x_ND: Tensor, table_VD: Tensor) -> Tensor:
        return F.linear(self.norm(F.gelu(self.dense(x_ND))), table_VD, self.bias)

    @torch.no_grad()
    def evidence(
        self, x_ND: Tensor, table_VD: Tensor, target_N: Tensor, *, keep: Evidence
    ) -> Tensor:
        """What ``keep`` keeps of each site; the scores of few sites are in memory at a time."""
        blocks = zip(x_ND.split(SITES_PER_BLOCK), target_N.split(SITES_PER_BLOCK), strict=True)
        return torch.cat([keep(self(block_ND, table_VD), target) for block_ND, target in blocks])
