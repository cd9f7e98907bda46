"""The same work with other libraries."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bench.work import Rows, batches
from cotrunk.learn.stage import Stage
from cotrunk.model.encoder.shape import Shape

OUTPUTS = {"sst": 5, "para": 1, "sts": 1}
Encoder = Callable[[Tensor, Tensor, Tensor], Tensor]


def bert(shape: Shape) -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.inner,
        max_position_embeddings=shape.positions,
        layer_norm_eps=shape.norm_eps,
        attn_implementation="sdpa",
    )
    return BertModel(config, add_pooling_layer=False)


class OneModel(nn.Module):
    """`transformers`: one model for all tasks."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.bert = bert(shape)

    def forward(self, task: str, ids: Tensor, mask: Tensor, segments: Tensor) -> Tensor:
        del task
        found = self.bert(input_ids=ids, attention_mask=mask, token_type_ids=segments)
        hidden: Tensor = found.last_hidden_state
        return hidden


class SharedLow(nn.Module):
    """`transformers`: one model per task, with shared embeddings and lowest layers."""

    def __init__(self, shape: Shape, shared: int) -> None:
        super().__init__()
        self.models = nn.ModuleDict({task: bert(shape) for task in OUTPUTS})
        first: Any = self.models["sst"]
        for model in self.models.values():
            for depth in range(shared):
                model.encoder.layer[depth] = first.encoder.layer[depth]  # type: ignore[union-attr, operator]
            if shared:
                model.embeddings = first.embeddings

    def forward(self, task: str, ids: Tensor, mask: Tensor, segments: Tensor) -> Tensor:
        found = self.models[task](input_ids=ids, attention_mask=mask, token_type_ids=segments)
        hidden: Tensor = found.last_hidden_state
        return hidden


class Course(nn.Module):
    """The course's BERT: three projections, explicit scores, softmax and dropout, padded."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.positions, shape.width)
        self.kinds = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_eps)
        self.layers = nn.ModuleList(CourseLayer(shape) for _ in range(shape.layers))

    def forward(self, task: str, ids: Tensor, mask: Tensor, segments: Tensor) -> Tensor:
        del task
        place = torch.arange(ids.shape[1])[None]
        x = self.norm(self.words(ids) + self.places(place) + self.kinds(segments))
        x = F.dropout(x, 0.1, self.training)
        bias = (1.0 - mask[:, None, None, :].float()) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return x


class CourseLayer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out, self.up = nn.Linear(width, width), nn.Linear(width, shape.inner)
        self.down = nn.Linear(shape.inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=shape.norm_eps) for _ in range(2))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        rows, longest, width = x.shape
        q, k, v = (
            linear(x).view(rows, longest, self.heads, -1).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )
        score = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads) + bias
        probs = F.dropout(score.softmax(-1), 0.1, self.training)
        attended = (probs @ v).transpose(1, 2).reshape(rows, longest, width)
        x = self.norms[0](x + F.dropout(self.out(attended), 0.1, self.training))
        inner = self.down(F.gelu(self.up(x)))
        return self.norms[1](x + F.dropout(inner, 0.1, self.training))


def padded(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    ids = pad_sequence(rows.ids, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows.ids])
    mask = (torch.arange(ids.shape[1])[None] < lengths[:, None]).long()
    return ids, mask, pad_sequence(rows.segments, batch_first=True)


def pooled(hidden: Tensor, mask: Tensor, pooling: str) -> Tensor:
    if pooling == "cls":
        return hidden[:, 0]
    return (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)


def loss_of(task: str, out: Tensor, target_R: Tensor) -> Tensor:
    if task == "sst":
        return F.cross_entropy(out, target_R.long())
    if task == "para":
        return F.binary_cross_entropy_with_logits(out[:, 0], target_R)
    return F.mse_loss(out[:, 0], target_R)


class PaddedSteps:
    """Three padded forward passes, summed losses, default AdamW, no clipping."""

    def __init__(self, stage: Stage, encoder: nn.Module, pooling: str) -> None:
        self.stage, self.encoder, self.pooling = stage, encoder.train(), pooling
        width = stage.network.shape.width
        self.heads = nn.ModuleDict({task: nn.Linear(width, n) for task, n in OUTPUTS.items()})
        both = [*encoder.parameters(), *self.heads.parameters()]
        self.optimizer = torch.optim.AdamW(both, lr=1e-5)
        self.step = 0

    def losses(self) -> Iterator[Tensor]:
        for rows in batches(self.stage, self.step):
            ids, mask, segments = padded(rows)
            x = pooled(self.encoder(rows.task, ids, mask, segments), mask, self.pooling)
            out = self.heads[rows.task](F.dropout(x, 0.1))
            yield loss_of(rows.task, out, rows.target_R)

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        total: Any = sum(self.losses())
        total.backward()
        self.optimizer.step()
        self.step += 1
