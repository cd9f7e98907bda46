"""The scores of each series: means over its seeds, with intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cotrunk.kinds.influence import OverRows
from cotrunk.kinds.intervals import interval
from cotrunk.study.records import RunRecord
from cotrunk.study.report.subject import Series, Subject
from cotrunk.study.statistics.difference import Mean, mean_over_seeds
from cotrunk.study.statistics.overall import Formula, overall_over_rows

OVERALL, PLAIN_MEAN = "overall", "plain mean"
FORMULAS: Mapping[str, Formula] = {OVERALL: "official", PLAIN_MEAN: "mean"}


@dataclass(frozen=True)
class Summary:
    """A score of a series: the mean over its runs; ``sd`` between them, NaN for a single run.

    ``low`` and ``high`` bound a 95 % interval over dev rows and, with several runs, seeds.
    """

    score: float
    sd: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Summaries:
    """By series, then by task; ``FORMULAS`` are among them if all runs have the same tasks."""

    subject: Subject

    @cached_property
    def by_series(self) -> Mapping[str, Mapping[str, Summary]]:
        return {series.name: self._of(series) for series in self.subject.series}

    def of(self, series: Series, score: str) -> Summary | None:
        return self.by_series[series.name].get(score)

    def baseline(self, task: str) -> float | None:
        """The score of always giving the same answer."""
        found = [run.tasks[task] for _, _, run in self.subject.runs if task in run.tasks]
        if not found[0].labels.can_answer:
            return None
        value = found[0].labels.baseline(found[0].target)
        return value if math.isfinite(value) else None

    def is_above(self, value: float, task: str) -> bool:
        """Whether a network is shown to have a higher score, by its own rows at 95 %.

        Other seeds do not matter here; the interval is corrected for the number of networks
        (Bonferroni), of which the luckiest would be found above.
        """
        found = [each[task] for runs in self.over_rows.values() for each in runs if task in each]
        confidence = 1 - 0.05 / len(found)
        return any(interval(score, confidence=confidence)[0] > value for score in found)

    @cached_property
    def over_rows(self) -> Mapping[str, Sequence[Mapping[str, OverRows]]]:
        """By series, of each run and task."""
        return {each.name: [_over_rows(run) for run in each.runs] for each in self.subject.series}

    def _of(self, series: Series) -> dict[str, Summary]:
        over_rows = self.over_rows[series.name]
        found = {}
        for task in series.runs[0].tasks:
            found[task] = _summary(mean_over_seeds([run[task] for run in over_rows]))
        counted = [task for task, record in series.runs[0].tasks.items() if _counts(record.score)]
        for name, formula in FORMULAS.items() if self.subject.same_tasks and counted else ():
            overall = [
                overall_over_rows({t: run[t] for t in counted}, formula) for run in over_rows
            ]
            found[name] = _summary(mean_over_seeds(overall))
        return {name: each for name, each in found.items() if math.isfinite(each.score)}


def _over_rows(run: RunRecord) -> dict[str, OverRows]:
    return {
        name: task.labels.over_rows(task.output, task.target, counts=task.counts)
        for name, task in run.tasks.items()
    }


def _counts(score: Mapping[str, object]) -> bool:
    """Whether a task counts in the overall score."""
    return score["unit"] is not None


def _summary(mean: Mean) -> Summary:
    return Summary(mean.mean, mean.sd, mean.low, mean.high)
