"""Token, position and segment vectors. Shapes: T tokens, D width."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cotrunk.data.batches.packing import Packed
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.encoder.shape import Shape


def look_up(table: Tensor, row_T: Tensor) -> Tensor:
    """Rows of a large table. On the CPU the gradient is row-sparse: a batch touches a few hundred
    of 30,000 rows, and a dense gradient per task would be mostly zeros.
    """
    return F.embedding(row_T, table, sparse=table.device.type == "cpu")


def _table(rows: int, width: int) -> nn.Embedding:
    """A table of zeros, whose values are loaded or drawn later. The initial values of
    ``nn.Embedding`` are normal numbers; drawing them on the meta device imports torch's compiler.
    """
    return nn.Embedding.from_pretrained(torch.zeros(rows, width), freeze=False)


class Embeddings(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words = _table(shape.vocabulary, shape.width)
        self.positions = _table(shape.positions, shape.width)
        self.segments = _table(shape.segments, shape.width) if shape.segments else None
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_eps)
        self.first_position = shape.first_position
        self.dropout = shape.dropout

    def forward(self, text: Packed, masks: DropoutStream) -> Tensor:
        x_TD = look_up(self.words.weight, text.token_T)
        x_TD = x_TD + self.positions(text.position_T + self.first_position)
        if self.segments is not None:
            x_TD = x_TD + F.embedding(text.segment_T, self.segments.weight)
        return masks.drop(self.norm(x_TD), self.dropout)
