"""What tables show and claims are about: scores of runs, and numbers such as their cost."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from cotrunk.kinds.influence import OverRows
from cotrunk.study.records import RunRecord
from cotrunk.study.statistics.overall import Formula, overall_over_rows
from cotrunk.study.statistics.stability import stability
from cotrunk.study.tm import memory_of, tm_of

OVERALL: Mapping[str, Formula] = {"official": "official", "mean": "mean"}
EXACT = ("parameters", "trained-parameters", "memory", "memory-kb")
"""Numbers that are the same for every seed."""
TM = {"tm-defined": "defined", "tm-printed": "printed"}


def spread(run: RunRecord, *tasks: str) -> float:
    """The standard deviation of the last dev scores, on average over tasks."""
    return _average(stability(run.history, task).spread for task in tasks or run.tasks)


def steps_to_converge(run: RunRecord, *tasks: str) -> float:
    """Steps until a task is near its best dev score, on average over tasks."""
    steps = [stability(run.history, task).steps_to_converge for task in tasks or run.tasks]
    return _average(math.nan if step is None else step for step in steps)


def epoch_seconds(run: RunRecord) -> float:
    return _average(run.cost.epochs)


def tm(run: RunRecord) -> float:
    """Proportional to the TM-relative score, whatever its baseline is."""
    mean = run.overall.get("mean")
    cost = run.cost.cpu_seconds["train"] * memory_of(run)
    return math.nan if mean is None or not cost else mean / cost


NUMBERS: Mapping[str, Callable[[RunRecord], float]] = {
    "parameters": lambda run: run.parameters,
    "trained-parameters": lambda run: run.trained_parameters,
    "memory": memory_of,
    "memory-kb": lambda run: memory_of(run) / 1024,
    "train-seconds": lambda run: run.cost.seconds["train"],
    "train-cpu-seconds": lambda run: run.cost.cpu_seconds["train"],
    "epoch-seconds": epoch_seconds,
    "best-step": lambda run: math.nan if run.best_step is None else run.best_step,
    "spread": spread,
    "steps-to-converge": steps_to_converge,
    "tm": tm,
}
"""One number per run; less is better, except for ``tm``."""


OF_TASKS: Mapping[str, Callable[..., float]] = {
    "spread": spread,
    "steps-to-converge": steps_to_converge,
}
"""Numbers that can also be those of one task, as in ``spread:sst``."""


def is_measured(measure: str, tasks: Iterable[str]) -> bool:
    """Whether runs with these tasks can have the measure."""
    name, colon, task = measure.partition(":")
    if colon:
        return name in OF_TASKS and task in tasks
    return measure in {*tasks, *OVERALL, *NUMBERS}


def is_number(measure: str) -> bool:
    return measure.partition(":")[0] in NUMBERS


def more_is_better(measure: str) -> bool:
    return not is_number(measure) or measure == "tm"


def number_of(run: RunRecord, measure: str) -> float:
    name, _, task = measure.partition(":")
    if not task:
        return float(NUMBERS[name](run))
    return float(OF_TASKS[name](run, task))


def score_of(run: RunRecord, measure: str) -> OverRows | None:
    """A score with the influence of each dev row; None if the run has no such score."""
    if measure in OVERALL:
        counted = {
            name: _over_rows(run, name)
            for name, task in run.tasks.items()
            if task.labels.in_overall
        }
        return overall_over_rows(counted, OVERALL[measure]) if counted else None
    return _over_rows(run, measure) if measure in run.tasks else None


def _over_rows(run: RunRecord, task: str) -> OverRows:
    record = run.tasks[task]
    return record.labels.over_rows(record.output, record.target, counts=record.counts)


def combined(parts: Sequence[tuple[float, OverRows]]) -> OverRows:
    """A weighted sum of scores on the same rows."""
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    value = sum(weight * part.value for weight, part in parts)
    influence = np.sum([weight * part.influence for weight, part in parts], axis=0)
    size = min(part.size / max(abs(weight), 1e-9) for weight, part in parts)
    return OverRows(value, influence, "contrast", size)


def shown_number(
    runs: Sequence[RunRecord], measure: str, *, baseline: Sequence[RunRecord] = ()
) -> float | None:
    """The mean over seeds; None if no run has it."""
    if measure in TM:
        return tm_of(runs, baseline)[TM[measure]]
    found = _known(runs, measure)
    return float(np.mean(found)) if found else None


def shown_spread(runs: Sequence[RunRecord], measure: str) -> float | None:
    """The standard deviation over seeds; None if fewer than two runs have the measure."""
    found = [] if measure in TM else _known(runs, measure)
    return float(np.std(found, ddof=1)) if len(found) > 1 else None


def _known(runs: Sequence[RunRecord], measure: str) -> list[float]:
    return [value for run in runs if math.isfinite(value := _plain(run, measure))]


def _plain(run: RunRecord, measure: str) -> float:
    if is_number(measure):
        return number_of(run, measure)
    if measure in OVERALL:
        overall = run.overall.get(measure)
        return math.nan if overall is None else overall
    score = run.tasks[measure].score["score"] if measure in run.tasks else None
    return math.nan if score is None else score


def _average(values: Iterable[float]) -> float:
    found = np.array(list(values), dtype=float)
    return float(found.mean()) if len(found) else math.nan
