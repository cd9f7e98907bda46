"""Between the encoder and the heads. Shapes: S sequences, D width."""

import torch.nn.functional as F
from torch import Tensor, nn


class NeckLayer(nn.Module):
    """A square linear layer and ReLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, x_SD: Tensor) -> Tensor:
        return F.relu(self.dense(x_SD))
