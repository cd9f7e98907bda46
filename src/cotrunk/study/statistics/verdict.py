"""Verdicts on differences, also when many are tested at once."""

from collections.abc import Sequence
from typing import Literal

from cotrunk.study.statistics.difference import Difference

Verdict = Literal["better", "worse", "equivalent", "undecided"]
ALPHA = 0.05


def equivalent(difference: Difference, margin: float) -> bool:
    """Two one-sided tests (Schuirmann 1987): it is above ``-margin`` and below ``margin``, at 5 %.

    Noise alone cannot confirm this: a wide interval does not fit into the margin.
    """
    return -margin < difference.inner_low and difference.inner_high < margin


def holm(ps: Sequence[float]) -> list[float]:
    """p values corrected for their number (Holm 1979); NaN is not counted and stays."""
    order = sorted((p, index) for index, p in enumerate(ps) if p == p)
    corrected, most = list(ps), 0.0
    for smaller, (p, index) in enumerate(order):
        most = max(most, min(1.0, p * (len(order) - smaller)))
        corrected[index] = most
    return corrected


def verdict(
    difference: Difference, *, margin: float | None = None, p: float | None = None
) -> Verdict:
    """``margin``: differences below it do not matter, so one inside it is ``equivalent`` even if
    it is not 0. ``p``: the corrected p value, if the difference is one of several.
    """
    if margin is not None and equivalent(difference, margin):
        return "equivalent"
    if (difference.p if p is None else p) < ALPHA:
        return "better" if difference.difference > 0 else "worse"
    return "undecided"


def verdicts(
    differences: Sequence[Difference], *, margin: float | None = None
) -> list[tuple[float, Verdict]]:
    """The corrected p value and the verdict of each of several differences."""
    corrected = holm([difference.p for difference in differences])
    return [
        (p, verdict(difference, margin=margin, p=p))
        for difference, p in zip(differences, corrected, strict=True)
    ]
