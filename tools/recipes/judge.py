"""Which recipe is good everywhere, and whether it is worse than the best one of a set."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from cotrunk.study.compare import compare
from cotrunk.study.records import RunRecord, find_runs, read_runs
from cotrunk.study.statistics.difference import Difference

Scores = Mapping[str, float]
"""The overall score (mean of the tasks' metrics) by recipe."""
FORMULA = "mean"


@dataclass(frozen=True)
class Judged:
    """The default on a set, and the best of the search there; ``lead``: the best one's, if another.

    The scores are means over fresh seeds, so the luck of the search is not in them.
    """

    default: float
    best_recipe: str
    best: float
    lead: Difference | None
    p: float

    @property
    def verdict(self) -> str:
        if self.lead is None:
            return "is the best"
        if self.p < 0.05:
            return "worse" if self.lead.difference > 0 else "better"
        return "not significantly worse" if self.lead.difference > 0 else "not worse"

    def document(self) -> dict[str, Any]:
        lead = self.lead
        return {
            "default": self.default,
            "best_recipe": self.best_recipe,
            "best": self.best,
            "lead": None if lead is None else lead.difference,
            "low": None if lead is None else lead.low,
            "high": None if lead is None else lead.high,
            "p": None if lead is None else self.p,
            "verdict": self.verdict,
        }


def trained(folder: Path) -> dict[str, list[RunRecord]]:
    """The finished runs of a sweep by recipe."""
    found: dict[str, list[RunRecord]] = {}
    for record in read_runs(find_runs([folder]))[0] if folder.is_dir() else ():
        if record.state == "finished":
            trial = json.loads((record.path / "trial.json").read_text(encoding="utf-8"))
            found.setdefault(trial["choices"]["recipe"], []).append(record)
    return found


def scores_of(folder: Path) -> Scores:
    return {
        recipe: fmean(score for run in runs if (score := run.overall[FORMULA]) is not None)
        for recipe, runs in trained(folder).items()
    }


def best_of(scores: Scores) -> str:
    return max(scores, key=lambda recipe: scores[recipe])


def ranking(sets: Sequence[Scores]) -> dict[str, tuple[float, float, float]]:
    """By recipe: mean rank, mean and largest regret over the sets; the best mean regret first."""
    found = {}
    for recipe in sets[0]:
        ranks = [1 + sum(other > scores[recipe] for other in scores.values()) for scores in sets]
        regrets = [max(scores.values()) - scores[recipe] for scores in sets]
        found[recipe] = (fmean(ranks), fmean(regrets), max(regrets))
    return dict(sorted(found.items(), key=lambda item: item[1][1]))


def judge(folder: Path, default: str) -> Judged:
    """On fresh seeds, with the test over seeds and rows together."""
    best = best_of(scores_of(folder / "search"))
    runs, scores = trained(folder / "fresh"), scores_of(folder / "fresh")
    if best == default:
        return Judged(scores[default], best, scores[best], None, 1.0)
    paths = [run.path for recipe in (default, best) for run in runs[recipe]]
    compared = compare(paths, baseline=runs[default][0].path)
    (found,) = (one for one in compared.overall_differences if one.task == FORMULA)
    return Judged(scores[default], best, scores[best], found.difference, found.p)
