"""Masked language modelling: predict the masked words of a text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from cotrunk import late_numpy as np
from cotrunk.kinds.influence import OverRows
from cotrunk.kinds.intervals import interval
from cotrunk.kinds.kind import Kind, mean_by_row
from cotrunk.kinds.masking import Vocabulary, mask_texts
from cotrunk.kinds.metrics import ACCURACY, Metric, Score
from cotrunk.kinds.rows import LoadedRows, TokenIds

if TYPE_CHECKING:
    from torch import Tensor

    from cotrunk.kinds.kind import Loss


@dataclass(frozen=True)
class MaskedWords(Kind):
    """A target is the original id of a masked token; every batch is masked again.

    An evaluation keeps four numbers per site: the loss, whether the prediction is correct (1 or
    0), the predicted id and the original id. All logits would be 30,000 numbers.
    """

    also_called: ClassVar[tuple[str, ...]] = (
        "masked-lm",
        "masked-language-modeling",
        "language-model",
        "lm",
    )
    level: ClassVar = "token"
    width: ClassVar[int | None] = None
    has_labels: ClassVar[bool] = False
    can_answer: ClassVar[bool] = False
    in_overall: ClassVar[bool] = False
    takes_any_text: ClassVar[bool] = True
    is_tied_to_words: ClassVar[bool] = True
    losses: ClassVar[tuple[str, ...]] = ("cross-entropy",)
    smoothed_losses: ClassVar[tuple[str, ...]] = ("cross-entropy",)

    rate: float = 0.15
    whole_words: bool = False
    first_only: bool = False
    texts_of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ValueError(f"rate = {self.rate:g}: must be between 0 and 1, as in 0.15")

    @property
    def metric(self) -> str:
        return "accuracy"

    def reading_key(self) -> list[object]:
        return [MaskedWords.__qualname__]  # a corpus has no targets: masking makes them

    def texts_read(self, texts: int) -> int:
        return 1 if self.first_only else texts

    def bound(self, vocabulary: Vocabulary) -> BoundMaskedWords:
        if vocabulary.mask is None:
            raise ValueError(
                'kind = "mlm" needs a mask token such as [MASK] or <mask>, but the tokenizer of '
                "the encoder has none; change encoder.weights"
            )
        options = {option.name: getattr(self, option.name) for option in fields(MaskedWords)}
        return BoundMaskedWords(**options, vocabulary=vocabulary)

    def make_loss(self, name: str, smoothing: float) -> Loss:  # noqa: ARG002
        from cotrunk.kinds.losses import cross_entropy

        return partial(cross_entropy, smoothing=smoothing)

    def divergence(self, a_NO: Tensor, b_NO: Tensor) -> Tensor:
        from cotrunk.kinds.losses import symmetric_divergence

        return symmetric_divergence(a_NO, b_NO)

    def probabilities(self, logit_NO: Tensor) -> Tensor:
        return logit_NO.softmax(-1)

    def evidence(self, output_NO: Tensor, target: Tensor) -> Tensor:
        import torch

        from cotrunk.kinds.losses import cross_entropy

        predicted_N = output_NO.argmax(1)
        hit_N = predicted_N == target.long()
        parts = (cross_entropy(output_NO, target), hit_N, predicted_N, target)
        return torch.stack([part.float() for part in parts], dim=1)

    def predict_labels(self, output: np.ndarray) -> np.ndarray:
        loss, predicted = output[:, 0], output[:, 2].astype(np.float64)
        return np.where(np.isfinite(loss), predicted, np.nan)

    def metrics(self) -> Mapping[str, Metric]:
        return {"accuracy": ACCURACY}

    def scores(
        self,
        output: np.ndarray,
        target: np.ndarray,
        *,
        counts: np.ndarray | None = None,
    ) -> Score:
        """Computed from the evidence alone, because a corpus has no targets.

        Sites that were truncated with a long text have no evidence and do not count. The constant
        answer is the token that was masked most often.
        """
        asked = output[~np.isnan(output[:, 1])]
        loss = asked[:, 0].astype(np.float64)
        nothing, sites = math.nan, len(asked)
        if not sites or not np.isfinite(loss).all():
            return Score(
                self.metric, nothing, nothing, nothing, sites, unit=None, masked_tokens=sites
            )
        hits = self.over_rows(output, target, counts=counts)
        mean, (low, high) = float(loss.mean()), interval(hits)
        more = {"accuracy": hits.value, "loss": mean, "perplexity": perplexity(mean)}
        return Score(
            self.metric,
            hits.value,
            low,
            high,
            sites,
            unit=None,
            more=more,
            baseline=self.baseline(asked[:, 3]),
            masked_tokens=sites,
        )

    def over_rows(
        self,
        output: np.ndarray,
        target: np.ndarray,  # noqa: ARG002
        *,
        counts: np.ndarray | None = None,
    ) -> OverRows:
        asked = ~np.isnan(output[:, 1])
        hit = output[asked, 1].astype(np.float64)
        if counts is not None:
            row = np.repeat(np.arange(len(counts)), counts)[asked]
            counts = np.bincount(row, minlength=len(counts))
        return ACCURACY.over_rows(hit, np.ones_like(hit), counts=counts)

    def errors(
        self,
        output: np.ndarray,
        target: np.ndarray,  # noqa: ARG002
        *,
        counts: np.ndarray | None = None,
    ) -> np.ndarray:
        """The mean loss of a row's sites."""
        return mean_by_row(output[:, 0].astype(np.float64), counts)

    def histogram(self, target: np.ndarray) -> dict[str, int]:  # noqa: ARG002
        return {}

    def label_name(self, label: Any) -> str:
        return f"token {int(label)}"


@dataclass(frozen=True)
class BoundMaskedWords(MaskedWords):
    """With the vocabulary of the tokenizer, which is not a config key."""

    vocabulary: Vocabulary = field(kw_only=True, repr=False, compare=False)

    @property
    def outputs(self) -> int:
        return self.vocabulary.size

    def prepared(self, rows: LoadedRows, random: np.random.Generator) -> LoadedRows:
        """Mask some tokens of each text; they become the row's sites and targets."""
        texts = [text for row in rows.pieces for text in row]
        masked = iter(
            mask_texts(texts, self.vocabulary, random, rate=self.rate, whole_words=self.whole_words)
        )
        pieces: list[TokenIds] = []
        sites, targets = [], []
        for row in rows.pieces:
            mine = [next(masked) for _ in row]
            before = np.cumsum([0, *map(len, row)])
            pieces.append(tuple(text.ids for text in mine))
            sites.append(
                np.concatenate([a + text.site for a, text in zip(before, mine, strict=False)])
            )
            targets.append(np.concatenate([text.target for text in mine]))
        return replace(rows, pieces=pieces, sites=sites, targets=targets)

    def probe_targets(self, unit: Tensor) -> Tensor:
        return (unit * self.outputs).floor()


def perplexity(loss: float) -> float:
    """``exp`` of the mean loss; infinite if that overflows."""
    return math.exp(loss) if loss < 700 else math.inf
