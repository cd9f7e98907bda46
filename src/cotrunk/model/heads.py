"""From pooled vectors to a task's outputs. Shapes: R rows, F features, O outputs, D width."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cotrunk.kinds.task import Task
from cotrunk.model.encoder.dropout import DropoutStream
from cotrunk.model.head_plan import HeadPlan, Pair, layer_sizes


@dataclass(frozen=True)
class HeadOutput:
    """The output of a head for each row or site; ``hidden_RF`` is the input of its last layer."""

    logit_RO: Tensor
    hidden_RF: Tensor


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "tanh": torch.tanh,
}


def pair_features(pair: Pair, u_RD: Tensor, v_RD: Tensor) -> Tensor:
    """The two vectors of a pair as the features of one row."""
    if pair == "sum":
        return u_RD + v_RD
    parts = [u_RD, v_RD]
    if pair in ("hadamard", "all"):
        parts.append(u_RD * v_RD)
    if pair in ("difference", "all"):
        parts.append((u_RD - v_RD).abs())
    return torch.cat(parts, dim=1)


def scale_cosine(scaling: str, cosine_R: Tensor, span: tuple[float, float]) -> Tensor:
    """A cosine as a score: (cos + 1) / 2, sigmoid(cos) or relu(cos) of the label range."""
    low, high = span
    unit = {
        "shifted": lambda: (cosine_R + 1) / 2,
        "sigmoid": lambda: torch.sigmoid(cosine_R),
        "relu": lambda: F.relu(cosine_R),
    }[scaling]()
    return low + (high - low) * unit


def in_label_units(task: Task, logit_RO: Tensor) -> Tensor:
    """A head's outputs as those of the network."""
    zero, unit = task.labels.output_unit
    return logit_RO if (zero, unit) == (0.0, 1.0) else zero + unit * logit_RO


class Head(nn.Module):
    """A feed-forward net on a row's features, or the cosine of its two vectors.

    ``inputs``: the widths of its own features and of each of its reads.
    """

    def __init__(self, task: Task, plan: HeadPlan, width: int, inputs: Sequence[int]) -> None:
        super().__init__()
        self.task, self.plan = task, plan
        self.mix = SourceAttention(inputs, plan.width) if plan.attends else None
        self.project = nn.Linear(width, width) if plan.projection else None
        sizes = layer_sizes(task, plan, inputs)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(
        self, vectors: Sequence[Tensor], reads: Sequence[Tensor], masks: DropoutStream
    ) -> HeadOutput:
        """``vectors``: one per row, or the two of a pair encoded separately."""
        vectors = [masks.drop(v_RD, self.plan.dropout) for v_RD in vectors]
        if self.project is not None:
            vectors = [self.project(v_RD) for v_RD in vectors]
        if not len(self.layers):
            return self._cosine(*vectors)
        x_RF = vectors[0] if len(vectors) == 1 else pair_features(self.plan.pair, *vectors)
        if self.mix is not None:
            x_RF = self.mix([x_RF, *reads])
        elif reads:
            x_RF = torch.cat([x_RF, *reads], dim=1)
        activate = ACTIVATIONS[self.plan.activation]
        for layer in self.layers[:-1]:
            x_RF = masks.drop(activate(layer(x_RF)), self.plan.inner_dropout)
        logit_RO = self.layers[-1](x_RF)
        if self.plan.activate_last:
            logit_RO = activate(logit_RO)
        return HeadOutput(masks.drop(logit_RO, self.plan.output_dropout), x_RF)

    def _cosine(self, u_RD: Tensor, v_RD: Tensor) -> HeadOutput:
        cosine_R = F.cosine_similarity(u_RD, v_RD, dim=1)
        span = self.task.labels.span
        assert span is not None, "a cosine head needs the label range"
        zero, unit = self.task.labels.output_unit
        low, high = ((edge - zero) / unit for edge in span)
        score_RO = scale_cosine(self.plan.cosine, cosine_R, (low, high))[:, None]
        return HeadOutput(score_RO, torch.cat([u_RD, v_RD], dim=1))


class SourceAttention(nn.Module):
    """A learned mixture: sources are projected to one width and weighted by attention."""

    def __init__(self, widths: Sequence[int], width: int) -> None:
        super().__init__()
        self.bring = nn.ModuleList(nn.Linear(w, width) for w in widths)
        self.weigh = nn.Linear(width, 1, bias=False)  # a bias would not change the mixture

    def forward(self, sources: Sequence[Tensor]) -> Tensor:
        brought_RKF = torch.stack(
            [bring(x_RF) for bring, x_RF in zip(self.bring, sources, strict=True)], dim=1
        )
        weight_RK1 = self.weigh(torch.tanh(brought_RKF)).softmax(dim=1)
        return (weight_RK1 * brought_RKF).sum(dim=1)
