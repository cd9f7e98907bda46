"""From pooled vectors to a task's outputs. Shapes: R rows, F features, O outputs, D width."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cotrunk.kinds.task import Task
from cotrunk.model.encoder.dropout import DropoutStream

Pooling = Literal["pooler", "cls", "mean", "max", "sum", "tokens"]
"""``tokens``: none; the head answers about token positions."""
Pair = Literal["joined", "concat", "hadamard", "difference", "all", "sum", "cosine"]
Gradient = Literal["stop", "frozen", "flow"]


@dataclass(frozen=True)
class Read:
    """A head reads another task's answer about the same text.

    ``gradient``: stop (nothing flows back), frozen (through the other head's weights, which stay
    as they are), flow, or a factor by which what flows back is scaled.
    """

    task: str
    what: Literal["logits", "probabilities", "hidden"] = "logits"
    gradient: Gradient | float = "stop"

    @property
    def stops(self) -> bool:
        return self.gradient in ("stop", 0)


@dataclass(frozen=True)
class HeadPlan:
    """How one task turns pooled vectors into outputs."""

    pooling: Pooling = "mean"
    pair: Pair = "joined"
    depth: int = 1
    width: int = 256
    activation: Literal["relu", "gelu", "tanh"] = "relu"
    activate_last: bool = False
    dropout: float = 0.1
    inner_dropout: float = 0.0
    output_dropout: float = 0.0
    cosine: Literal["shifted", "sigmoid", "relu"] = "shifted"
    projection: bool = False
    reads: tuple[Read, ...] = ()
    combine: Literal["concat", "attention"] = "concat"

    @property
    def separate(self) -> bool:
        """The two texts of a pair are encoded one by one."""
        return self.pair != "joined"


@dataclass(frozen=True)
class Answer:
    """What a head says about each row or site; ``hidden_RF`` is what its last layer saw."""

    logit_RO: Tensor
    hidden_RF: Tensor


PAIR_PARTS = {
    "joined": 1,
    "concat": 2,
    "hadamard": 3,
    "difference": 3,
    "all": 4,
    "sum": 1,
    "cosine": 2,
}
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


class Head(nn.Module):
    """A feed-forward net on a row's features, or the cosine of its two vectors."""

    def __init__(self, task: Task, plan: HeadPlan, width: int, read_widths: Sequence[int]) -> None:
        super().__init__()
        self.task, self.plan = task, plan
        parts = PAIR_PARTS[plan.pair] if task.texts == 2 else 1
        features = parts * width
        self.mix = SourceAttention([features, *read_widths], plan.width) if self.attends else None
        if self.attends:
            features = plan.width
        else:
            features += sum(read_widths)
        self.project = nn.Linear(width, width) if plan.projection else None
        self.layers = nn.ModuleList()
        if plan.pair != "cosine" or task.texts == 1:
            sizes = [features] + [plan.width] * (plan.depth - 1) + [task.outputs]
            self.layers.extend(nn.Linear(a, b) for a, b in pairwise(sizes))

    @property
    def attends(self) -> bool:
        return self.plan.combine == "attention" and bool(self.plan.reads)

    @property
    def hidden_width(self) -> int:
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        return last.in_features

    def forward(
        self, vectors: Sequence[Tensor], reads: Sequence[Tensor], masks: DropoutStream
    ) -> Answer:
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
        return Answer(masks.drop(logit_RO, self.plan.output_dropout), x_RF)

    def _cosine(self, u_RD: Tensor, v_RD: Tensor) -> Answer:
        cosine_R = F.cosine_similarity(u_RD, v_RD, dim=1)
        span = self.task.labels.span
        assert span is not None, "a cosine needs a range to be scaled to"
        score_RO = scale_cosine(self.plan.cosine, cosine_R, span)[:, None]
        return Answer(score_RO, torch.cat([u_RD, v_RD], dim=1))


class SourceAttention(nn.Module):
    """A learned mixture of sources: each is brought to one width, a query weighs them."""

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


def read_width(reader: HeadPlan, reader_texts: int, source: Task, head: Head, read: Read) -> int:
    """How many numbers one read adds: a one-text answer about a separate pair comes twice."""
    width = head.hidden_width if read.what == "hidden" else source.outputs
    twice = reader_texts == 2 and reader.separate and source.texts == 1
    return width * 2 if twice else width


def reading_order(plans: Mapping[str, HeadPlan]) -> list[str]:
    """Tasks so that each comes after those it reads."""
    order: list[str] = []

    def visit(task: str, path: tuple[str, ...]) -> None:
        if task in path:
            circle = " reads ".join((*path[path.index(task) :], task))
            raise ValueError(f"heads cannot read in a circle: {circle}")
        if task not in order:
            for read in plans[task].reads:
                visit(read.task, (*path, task))
            order.append(task)

    for task in plans:
        visit(task, ())
    return order
