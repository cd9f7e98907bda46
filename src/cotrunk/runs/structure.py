"""What the documents of a run look like, checked right after they are read.

Hashes find damage. These checks find what somebody has written with hashes that fit.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cotrunk.errors import decapitalized, shown

Count = Annotated[int, Field(ge=0, lt=2**63)]
StepOrNone = Annotated[int, Field(ge=-1, lt=2**63)]
"""A step; -1: there was none."""
Seconds = Annotated[float, Field(ge=0)]
FolderName = Annotated[str, Field(pattern=r"^(best(-[A-Za-z0-9_-]+)?|final|checkpoints/step-\d+)$")]


class Structure(BaseModel):
    """Entries that are not declared may have any value."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Parameters(Structure):
    total: Count
    trained: Count


class RunDocument(Structure):
    """run.json."""

    settings: dict[str, Any]
    parameters: Parameters | None = None
    data: dict[str, dict[str, Any]] = {}


class CheckpointState(Structure):
    """state.json of a checkpoint. ``best`` None: no score was finite."""

    step: Count
    evaluated: StepOrNone
    best: float | None
    best_step: StepOrNone
    skipped: Count
    task_best: dict[str, float]
    stale: dict[str, Count]
    chosen: dict[str, dict[str, Any]] = {}
    metrics_bytes: Count = 0
    metrics_sha256: str | None = None


class SavedScore(Structure):
    metric: str
    score: float | None
    low: float | None
    high: float | None
    rows: Count
    unit: float | None
    more: dict[str, float | None]
    baseline: float | None = None
    thresholds: dict[str, float] = {}
    masked_tokens: Count | None = None


class Overall(Structure):
    official: float | None
    mean: float | None


class SavedEvaluation(Structure):
    """evaluation.json of a saved network."""

    step: Count
    epoch: Count
    keep: str
    value: float | None
    scores: dict[str, SavedScore]
    overall: Overall


class SealedFile(Structure):
    model_config = ConfigDict(extra="forbid")

    bytes: Count
    sha256: str


class SealDocument(Structure):
    """seal.json. Names are used as paths, so they are limited to those that training writes."""

    finished: bool
    files: dict[Literal["run.json", "findings.json", "metrics.jsonl", "timing.jsonl"], SealedFile]
    folders: dict[FolderName, str]


class StepLine(Structure):
    """A line of metrics.jsonl about a step."""

    step: Count


class DevScore(Structure):
    score: float | None


class DevLine(Structure):
    """A line of metrics.jsonl about an evaluation."""

    step: Count
    scores: dict[str, DevScore]


class CostLine(Structure):
    """A line of timing.jsonl about what a phase took."""

    phase: str
    seconds: Seconds
    cpu_seconds: Seconds
    peak_memory: Count
    stage: Count = 0
    epoch: Count = 0


LINES: dict[object, type[Structure]] = {"step": StepLine, "dev": DevLine, "cost": CostLine}
"""The structure of a line by its event; other lines may be any object."""


def misfit(structure: type[Structure], value: object) -> str:
    """The first entry of a document that is not as declared; "" if all are."""
    try:
        structure.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = shown(".".join(map(str, first["loc"])))[1:-1]
        if first["type"] == "missing":
            return f"{place} is missing"
        is_whole = first["type"] in ("model_type", "dict_type")
        rule = "must be a JSON object" if is_whole else decapitalized(first["msg"])
        finding = f"{rule}; found {shown(first['input'])}"
        return f"{place}: {finding}" if place else finding
    return ""
