"""The question on top: scores against the number of shared layers, from the study ``hybrid``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from cotrunk.errors import plural
from tools.results.documents import Result
from tools.results.tables import table, with_spread

SWEEPS = ("apart", "plans")
"""Nothing shared, and one to all layers shared; both as the report trained them."""
MEASURES = ("official", "sst", "para", "sts")
TOKEN = re.compile(r"([SI])(\d*)")


@dataclass(frozen=True)
class Point:
    """A plan that shares its lowest layers; ``scores`` has one value per seed."""

    plan: str
    shared: int
    layers: int
    parameters: int
    scores: Mapping[str, Sequence[float]]

    def mean(self, measure: str) -> float:
        return fmean(self.scores[measure])

    def spread(self, measure: str) -> float | None:
        values = self.scores[measure]
        return stdev(values) if len(values) > 1 else None


def points_of(result: Result) -> list[Point]:
    """The plans that have finished runs, from nothing shared to everything.

    Empty if there is only one: it has nothing to be compared with.
    """
    by_plan: dict[str, list[Mapping[str, float]]] = {}
    parameters = {}
    for trial in result.document["trials"]:
        if trial["sweep"] in SWEEPS and all(trial["scores"].get(m) is not None for m in MEASURES):
            by_plan.setdefault(trial["plan"], []).append(trial["scores"])
            parameters[trial["plan"]] = trial["parameters"]
    points = [
        Point(
            plan,
            *depths(plan),
            parameters=parameters[plan],
            scores={measure: [scores[measure] for scores in seeds] for measure in MEASURES},
        )
        for plan, seeds in by_plan.items()
    ]
    return sorted(points, key=lambda point: point.shared) if len(points) > 1 else []


def depths(plan: str) -> tuple[int, int]:
    """How many layers all tasks share, and how many there are: ``S3 I3`` has 3 and 6."""
    counts = [(kind, int(count or 1)) for kind, count in TOKEN.findall(plan)]
    shared = sum(count for kind, count in counts if kind == "S")
    return shared, sum(count for _, count in counts)


def sharing_table(points: Sequence[Point]) -> Iterator[str]:
    rows = [
        [
            f"{point.shared} of {point.layers} (`{point.plan}`)",
            str(len(point.scores["official"])),
            *(with_spread(point.mean(m), point.spread(m), m) for m in MEASURES),
            f"{point.parameters:,}",
        ]
        for point in points
    ]
    yield from table(["layers shared", "seeds", *MEASURES, "parameters"], rows)


def summary(points: Sequence[Point]) -> str:
    """The numbers behind the answer, in two sentences; whether they differ is for the verdicts."""
    best, worst = (
        choose(points, key=lambda point: point.mean("official")) for choose in (max, min)
    )
    gap = best.mean("official") - worst.mean("official")
    least, most = points[0], points[-1]
    noise = [found for point in points if (found := point.spread("official")) is not None]
    seeds = (
        f" Seeds of one plan differ by {fmean(noise):.3f} (standard deviation)." if noise else ""
    )
    return (
        f"Of {plural(len(points), 'plan')}, sharing {plural(best.shared, 'layer')} has the highest "
        f"official score ({best.mean('official'):.3f}) and sharing {plural(worst.shared, 'layer')} "
        f"the lowest ({worst.mean('official'):.3f}): {gap:.3f} apart.{seeds} `{most.plan}` has "
        f"{most.parameters / 1e6:.1f} million parameters, `{least.plan}` "
        f"{least.parameters / 1e6:.1f} million."
    )
