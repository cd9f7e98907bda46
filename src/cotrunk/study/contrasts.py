"""Weighted sums of groups of runs, estimated with an interval: what claims are tested on."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotrunk.errors import plural
from cotrunk.kinds.intervals import t_quantile
from cotrunk.study.definition import Names, as_list
from cotrunk.study.measures import (
    EXACT,
    OVERALL,
    combined,
    is_number,
    more_is_better,
    number_of,
    score_of,
)
from cotrunk.study.records import RunRecord
from cotrunk.study.statistics.difference import seeds_and_rows

Groups = Mapping[str, Sequence[RunRecord]]
ALPHA = 0.05
ONE_SEED = "one seed per side cannot tell a difference from the noise of seeds"
NO_NOISE = "the seeds do not differ, so there is no estimate of their noise"


class NotTestable(Exception):
    """A claim cannot be tested with these runs; says why."""


@dataclass(frozen=True)
class Contrast:
    """Groups with weights, such as +1 for one and -1 for the other."""

    name: str
    weights: tuple[tuple[float, str], ...]

    @classmethod
    def of(cls, one: Names, other: Names, *, total: bool = False) -> "Contrast":
        """The mean of some groups minus the mean of others, or their totals."""
        ones, others = as_list(one), as_list(other)
        per_one, per_other = (1.0, 1.0) if total else (1 / len(ones), 1 / len(others))
        name = f"{_joined(ones, total)} - {_joined(others, total)}"
        weights = [(per_one, each) for each in ones] + [(-per_other, each) for each in others]
        return cls(name, tuple(weights))

    @classmethod
    def trend(cls, names: Sequence[str]) -> "Contrast":
        """The slope over groups in order: how much one more step gains."""
        steps = np.arange(len(names)) - (len(names) - 1) / 2
        slope = steps / (steps @ steps)
        weights = tuple((float(w), name) for w, name in zip(slope, names, strict=True) if w)
        return cls(f"slope from {names[0]} to {names[-1]}", weights)

    def minus(self, other: "Contrast") -> "Contrast":
        taken = tuple((-weight, name) for weight, name in other.weights)
        return Contrast(f"({self.name}) - ({other.name})", (*self.weights, *taken))

    def side(self, sign: int) -> list[tuple[float, str]]:
        return [(abs(weight), name) for weight, name in self.weights if weight * sign > 0]


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; ``seeds``: how many on each side.

    ``freedom``: degrees of freedom of the t distribution behind the interval; ``half_width``: half
    of the interval before its bounds were limited to ``largest``, of logarithms for a ratio.
    ``missing``: why it has no interval.
    """

    value: float
    low: float
    high: float
    p: float | None
    seeds: tuple[int, int]
    freedom: float = math.inf
    half_width: float = 0.0
    largest: float = math.inf
    missing: str = ""
    is_ratio: bool = False

    def widened(self, of: int) -> "Estimate":
        """The interval for one of several comparisons (Bonferroni); of logarithms for a ratio."""
        if self.missing or self.low == self.high:
            return self
        factor = t_quantile(1 - ALPHA / of, self.freedom) / t_quantile(1 - ALPHA, self.freedom)
        to, back = (math.log, math.exp) if self.is_ratio else (float, float)
        value, half = to(self.value), factor * self.half_width
        low, high = max(-self.largest, value - half), min(self.largest, value + half)
        return replace(self, low=back(low), high=back(high), half_width=half)

    def __str__(self) -> str:
        value, low, high = (self._spelled(x) for x in (self.value, self.low, self.high))
        if self.low == self.high:
            return value
        one, other = self.seeds
        seeds = plural(one, "seed") if one == other else f"{one} and {other} seeds"
        known = math.isfinite(self.low) and math.isfinite(self.high)
        return f"{value} [{low}, {high}] ({seeds})" if known else f"{value} ({seeds})"

    def _spelled(self, value: float) -> str:
        """Three decimals, as for scores; fewer for large numbers, more for small ones."""
        if self.is_ratio:
            return f"{value:.3g} times"
        if abs(value) >= 1000:
            return f"{value:+,.0f}"
        return f"{value:+.3f}" if abs(value) >= 1e-3 or not value else f"{value:+.1g}"


def estimate(
    contrast: Contrast,
    on: str,
    groups: Groups,
    counts: Mapping[str, int],
    *,
    as_ratio: bool = False,
) -> Estimate:
    """How much better the positive side is, or the ratio of its numbers to the other's."""
    if all(name in counts for _, name in contrast.weights):
        return _exact(
            contrast, {name: float(counts[name]) for _, name in contrast.weights}, on, as_ratio
        )
    for _, name in contrast.weights:
        if not groups.get(name):
            raise NotTestable(f"there is no finished run of {name}")
    if not is_number(on):
        return _of_scores(contrast, on, groups)
    if on in EXACT:
        values = {name: number_of(groups[name][0], on) for _, name in contrast.weights}
        return _exact(contrast, values, on, as_ratio)
    return _of_numbers(contrast, on, groups, as_ratio)


def _of_scores(contrast: Contrast, on: str, groups: Groups) -> Estimate:
    _refuse_other_rows(contrast, on, groups)
    sides = []
    for sign in (1, -1):
        per_seed = []
        for runs in _by_seed(contrast.side(sign), groups):
            parts = [(weight, score_of(run, on)) for weight, run in runs]
            if any(score is None for _, score in parts):
                raise NotTestable(f"not all of these runs have a score for {on}")
            per_seed.append(combined([(w, score) for w, score in parts if score is not None]))
        sides.append(per_seed)
    ones, others = sides
    found = seeds_and_rows(ones, others)
    single = len(ones) < 2 and len(others) < 2
    if single:  # the rows alone say nothing about another seed
        return Estimate(found.difference, math.nan, math.nan, None, (1, 1), missing=ONE_SEED)
    seeds = (len(ones), len(others))
    return Estimate(
        found.difference,
        found.low,
        found.high,
        found.p,
        seeds,
        found.freedom,
        found.half_width,
        found.largest,
    )


def _of_numbers(contrast: Contrast, on: str, groups: Groups, as_ratio: bool) -> Estimate:
    """Welch's t interval over seeds; of logarithms for a ratio."""
    from scipy.stats import ttest_ind

    def summed(sign: int) -> list[float]:
        sides = _by_seed(contrast.side(sign), groups)
        values = [sum(weight * number_of(run, on) for weight, run in runs) for runs in sides]
        if as_ratio and any(value <= 0 for value in values):
            raise NotTestable(f"{on} is not positive in all of these runs")
        return [math.log(value) for value in values] if as_ratio else values

    ones, others = summed(1), summed(-1)
    if not all(map(math.isfinite, [*ones, *others])):
        raise NotTestable(f"not all of these runs have a number for {on}")
    back = math.exp if as_ratio else _signed(on)
    value, seeds = float(np.mean(ones) - np.mean(others)), (len(ones), len(others))
    missing = ONE_SEED if min(seeds) < 2 else NO_NOISE if not np.ptp(ones) + np.ptp(others) else ""
    if missing:
        nothing = math.nan
        return Estimate(
            back(value), nothing, nothing, None, seeds, missing=missing, is_ratio=as_ratio
        )
    test = ttest_ind(ones, others, equal_var=False)
    interval = test.confidence_interval(0.95)
    half = float(interval.high - interval.low) / 2
    low, high = sorted((back(float(interval.low)), back(float(interval.high))))
    p, freedom = float(test.pvalue), float(test.df)
    return Estimate(back(value), low, high, p, seeds, freedom, half, is_ratio=as_ratio)


def _exact(contrast: Contrast, values: Mapping[str, float], on: str, as_ratio: bool) -> Estimate:
    one, other = (
        sum(weight * values[name] for weight, name in contrast.side(sign)) for sign in (1, -1)
    )
    if as_ratio and other <= 0:
        raise NotTestable(f"{on} is not positive in all of these runs")
    found = one / other if as_ratio else _signed(on)(one - other)
    return Estimate(found, found, found, None, (1, 1), is_ratio=as_ratio)


def _signed(on: str) -> Callable[[float], float]:
    """A positive difference means better, so differences of costs change their sign."""
    return (lambda value: value) if more_is_better(on) else (lambda value: -value)


def _by_seed(
    side: Sequence[tuple[float, str]], groups: Groups
) -> list[list[tuple[float, RunRecord]]]:
    """One list of weighted runs per seed that all groups of a side have."""
    by_seed = [(weight, {run.seed: run for run in groups[name]}) for weight, name in side]
    seeds = sorted(set.intersection(*(set(runs) for _, runs in by_seed)))
    if not seeds:
        names = ", ".join(name for _, name in side)
        raise NotTestable(f"no seed was finished for all of {names}")
    return [[(weight, runs[seed]) for weight, runs in by_seed] for seed in seeds]


def _refuse_other_rows(contrast: Contrast, on: str, groups: Groups) -> None:
    runs = [run for _, name in contrast.weights for run in groups[name]]
    if on in OVERALL and len({frozenset(run.tasks) for run in runs}) > 1:
        raise NotTestable("the runs have different tasks, so overall scores cannot be compared")
    tasks = {task for run in runs for task in run.tasks if on in (task, *OVERALL)}
    for task in tasks:
        if len({run.tasks[task].dev for run in runs if task in run.tasks}) > 1:
            raise NotTestable(f"the runs have different dev rows of {task}")


def _joined(names: Sequence[str], total: bool) -> str:
    if len(names) == 1:
        return names[0]
    return f"{'sum' if total else 'mean'} of {', '.join(names)}"
