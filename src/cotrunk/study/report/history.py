"""What happened while a run trained, as records for charts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cotrunk.study.records import RunRecord
from cotrunk.study.report.charts.theme import Record, shade
from cotrunk.study.report.subject import Subject

MOST_POINTS = 120
MOST_COLUMNS = 40


def losses(subject: Subject, task: str) -> list[Record]:
    """The mean loss of at most 120 segments of each run."""
    return [
        {
            "series": series,
            "shade": shade(series, subject.order),
            "run": name,
            "step": step,
            "loss": _rounded(loss),
        }
        for series, name, run in reversed(subject.runs)  # the best on top
        for step, loss in _segments(_losses_of(run, task), MOST_POINTS)
    ]


def _losses_of(run: RunRecord, task: str) -> list[tuple[int, float]]:
    steps = (entry for entry in run.history if entry.get("event") == "step")
    found = ((entry["step"] + 1, entry["loss"].get(task)) for entry in steps)
    return [(step, loss) for step, loss in found if loss is not None]


def dev_scores(subject: Subject, task: str) -> list[Record]:
    return [
        {
            "series": series,
            "shade": shade(series, subject.order),
            "run": name,
            "step": entry["step"],
            **_with_error(entry["scores"][task]),
        }
        for series, name, run in reversed(subject.runs)  # the best on top
        for entry in run.history
        if entry.get("event") == "dev" and entry["scores"].get(task, {}).get("score") is not None
    ]


def _with_error(found: Mapping[str, Any]) -> dict[str, float | None]:
    """The score, and its distance to 1, which is None where that is 0."""
    score, low, high = (found.get(key) for key in ("score", "low", "high"))
    return {
        "score": _rounded(score),
        "low": _rounded(low),
        "high": _rounded(high),
        "error": _distance(score),
        "error_low": _distance(high),
        "error_high": _distance(low),
    }


def _distance(score: float | None) -> float | None:
    return None if score is None or score >= 1 else _rounded(1 - score)


def conflicts(run: RunRecord) -> Iterator[tuple[str, str, int, int, float]]:
    """Place, pair of tasks, first and last step, mean cosine over these steps."""
    steps = [entry for entry in run.history if entry.get("cosine")]
    if not steps:
        return
    last = max(entry["step"] for entry in run.history if entry.get("event") == "step") + 1
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for entry in steps:
        for place, pairs in entry["cosine"].items():
            for pair, cosine in pairs.items():
                if cosine is not None:
                    found.setdefault((place, pair), []).append((entry["step"], cosine))
    width = max(-(-last // MOST_COLUMNS), _gap(steps))
    for (place, pair), points in found.items():
        for start, mean in _columns(points, width):
            yield place, pair, start, min(start + width, last), mean


def _gap(steps: Sequence[Mapping[str, Any]]) -> int:
    """The steps from one recorded cosine to the next."""
    numbers = sorted({entry["step"] for entry in steps})
    return numbers[1] - numbers[0] if len(numbers) > 1 else 1


def _columns(points: Sequence[tuple[int, float]], width: int) -> list[tuple[int, float]]:
    columns: dict[int, list[float]] = {}
    for step, value in points:
        columns.setdefault(step // width * width, []).append(value)
    return [(start, _rounded(float(np.mean(values)))) for start, values in columns.items()]


def batches(run: RunRecord) -> list[Mapping[str, Mapping[str, float]]]:
    """Planned and drawn batches of each task, epoch by epoch through all stages.

    The last epoch has no planned ones if it was not finished.
    """
    steps = [entry for entry in run.history if entry.get("event") == "step"]
    ends = [number for number, entry in enumerate(steps, start=1) if entry.get("batches")]
    finished = [steps[end - 1]["batches"] for end in ends]
    return [*finished, *_unfinished(run, steps[ends[-1] if ends else 0 :])]


def _unfinished(
    run: RunRecord, steps: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Mapping[str, float]]]:
    """The batches of an epoch's steps so far; unknown where a step may have several of a task.

    Also unknown with stages, because these steps may belong to two that were both cut off.
    """
    if not steps or run.settings["train"]["accumulate"] > 1 or run.settings["stages"]:
        return []
    return [{"drawn": Counter(task for entry in steps for task in entry["loss"])}]


def _segments(points: list[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    """Means over segments of equal length, if there are too many points."""
    if len(points) <= most:
        return points
    array = np.array(points, dtype=np.float64)
    parts = np.array_split(array, most)
    return [(int(part[-1, 0]), float(part[:, 1].mean())) for part in parts]


def _rounded(value: float | None) -> Any:
    """Four digits: more would only make the page larger."""
    return None if value is None else float(f"{value:.4g}")
