"""Kinds that only tests know."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from cotrunk.build.extensions import Extensions
from cotrunk.kinds.classes import Classes, index_of
from cotrunk.kinds.kind import Answer, Kind, by_row, mean_by_row
from cotrunk.kinds.metrics import Metric, spearman


@dataclass(frozen=True)
class Ordinal(Kind):
    """Steps of a ladder: one output for each step but the first, the logit of being above it."""

    losses: ClassVar[tuple[str, ...]] = ("cumulative",)

    steps: int = 3
    metric: str = "spearman"

    @property
    def outputs(self):
        return self.steps - 1

    def read(self, raw):
        return (float(index_of(raw, tuple(map(str, range(self.steps))))),)

    def make_loss(self, _name, _smoothing):
        import torch
        import torch.nn.functional as F

        def cumulative(output_NO, target_N):
            above_NO = (target_N[:, None] > torch.arange(self.outputs)).to(output_NO)
            return F.binary_cross_entropy_with_logits(output_NO, above_NO, reduction="none").sum(1)

        return cumulative

    def divergence(self, a_NO, b_NO):
        return ((a_NO.sigmoid() - b_NO.sigmoid()) * (a_NO - b_NO)).sum(1)

    def probe_targets(self, unit):
        return (unit * self.steps).floor()

    def predict_labels(self, output):
        return np.where(np.isfinite(output).all(1), (output > 0).sum(1).astype(float), np.nan)

    def metrics(self) -> Mapping[str, Metric]:
        return {"spearman": Metric("spearman", spearman, is_correlation=True)}

    def errors(self, output, target, *, counts=None):  # noqa: ARG002
        return np.abs(self.predict_labels(output) - target)

    def histogram(self, target):
        return {str(step): int((target == step).sum()) for step in range(self.steps)}

    def label_name(self, label):
        return int(label)


@dataclass(frozen=True)
class WordLabels(Classes):
    """A class for each word; words that were cut off have the first class."""

    level: ClassVar = "token"
    width: ClassVar[int | None] = None
    reads_words: ClassVar[bool] = True

    def read(self, raw):
        if not isinstance(raw, list | tuple):
            raise ValueError("labels of words must be a list")
        return tuple(float(index_of(one, self.names)) for one in raw)

    def predict_labels(self, output):
        return np.where(np.isnan(output).all(1), 0.0, output.argmax(1).astype(float))

    def errors(self, output, target, *, counts=None):
        return mean_by_row(self.predict_labels(output) != target, counts)

    def label_name(self, label):
        return [self.names[int(one)] for one in label]

    def answers(self, output, *, counts=None):
        return [Answer(self.label_name(row)) for row in by_row(self.predict_labels(output), counts)]

    def to_json(self, answer):
        return {"prediction": answer.prediction}

    def columns(self, task):
        return [task]

    def to_columns(self, task, answer):
        return {task: " ".join(answer.prediction)}


MORE = Extensions(kinds={"ordinal": Ordinal, "words": WordLabels})


def write_objects(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
