"""The overall score relative to training time and memory (MOPS, figure 3)."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from cotrunk.study.records import RunRecord

FORMULA = "mean"
"""The overall score of MOPS."""
NO_TM: Mapping[str, float | None] = {"defined": None, "printed": None}


def tm_of(runs: Sequence[RunRecord], base: Sequence[RunRecord]) -> Mapping[str, float | None]:
    """TM from the means over seeds of score, CPU seconds to train and memory, as in MOPS."""
    own, other = _parts(runs), _parts(base)
    if own is None or other is None:
        return NO_TM
    (score, seconds, memory), (base_score, base_seconds, base_memory) = own, other
    if not (seconds and base_seconds and base_score):
        return NO_TM
    printed = tm_printed(
        score, seconds=seconds, memory=memory, base_seconds=base_seconds, base_memory=base_memory
    )
    return {"defined": tm_defined(printed, base_score=base_score), "printed": printed}


def _parts(runs: Sequence[RunRecord]) -> tuple[float, float, float] | None:
    """None if one of them has no score."""
    scores = [score for run in runs if (score := run.overall.get(FORMULA)) is not None]
    if not runs or len(scores) < len(runs):
        return None
    seconds = fmean(run.cost.cpu_seconds["train"] for run in runs)
    return fmean(scores), seconds, fmean(map(memory_of, runs))


def memory_of(run: RunRecord) -> float:
    return memory_bytes(run.parameters, run.trained_parameters)


def tm_printed(
    score: float, *, seconds: float, memory: float, base_seconds: float, base_memory: float
) -> float:
    """As MOPS prints it: not divided by the baseline's score, so the baseline has its own score."""
    return score * (base_seconds / seconds) * (base_memory / memory)


def tm_defined(printed: float, *, base_score: float) -> float:
    """As MOPS defines it: the baseline has 1."""
    return printed / base_score


def memory_bytes(weights: int, trained: int) -> int:
    """What training keeps: a float32 for each weight, and AdamW's two for each trained one."""
    return 4 * weights + 8 * trained
