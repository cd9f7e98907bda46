"""Whether a task gains or loses by being trained with others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cotrunk.kinds.influence import OverRows
from cotrunk.study.statistics.difference import Difference, seeds_and_rows
from cotrunk.study.statistics.verdict import Verdict, verdicts

TransferWord = Literal["positive", "negative", "none", "undecided"]
WORDS: Mapping[Verdict, TransferWord] = {
    "better": "positive",
    "worse": "negative",
    "equivalent": "none",
    "undecided": "undecided",
}


@dataclass(frozen=True)
class Transfer:
    """``difference``: trained together minus alone; ``p`` is corrected for the number of tasks."""

    difference: Difference
    p: float
    word: TransferWord


def negative_transfer(
    together: Mapping[str, Sequence[OverRows]],
    alone: Mapping[str, Sequence[OverRows]],
    *,
    margin: float | None = None,
) -> dict[str, Transfer]:
    """For each task on both sides; the runs are seeds.

    The single-task runs must have the same budget (steps of that task), or the difference also
    measures the budget.
    """
    tasks = [task for task in together if task in alone]
    differences = [seeds_and_rows(together[task], alone[task]) for task in tasks]
    judged = verdicts(differences, margin=margin)
    return {
        task: Transfer(difference, p, WORDS[word])
        for task, difference, (p, word) in zip(tasks, differences, judged, strict=True)
    }
