"""The files of results/ that the page is made of."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotrunk.errors import UserError
from tools.results.headline import NAME as HEADLINE

STUDIES = ("hybrid", "mops", "progressive", "pals", "mastery")
"""Those of the five reports, in the order of the page."""
ZERO_SHOT = "zero-shot"
MINILM = "minilm"


@dataclass(frozen=True)
class Progress:
    """How many trials were planned, and how they ended; ``broken`` runs cannot be read."""

    planned: int
    finished: int
    failed: int
    broken: int

    @property
    def is_complete(self) -> bool:
        return self.finished >= self.planned

    @property
    def not_run(self) -> int:
        """Trials that never came to an end."""
        return max(0, self.planned - self.finished - self.failed - self.broken)


@dataclass(frozen=True)
class Result:
    """A study as it was collected, which may be before all of its sweeps have run."""

    name: str
    document: Mapping[str, Any]

    def progress(self, sweeps: Collection[str] | None = None) -> Progress:
        """Of some sweeps; None: of all."""
        found: Mapping[str, Mapping[str, int]] = self.document["sweeps"]
        mine = [counts for name, counts in found.items() if sweeps is None or name in sweeps]
        return Progress(
            planned=sum(counts["planned"] for counts in mine),
            finished=sum(counts["finished"] for counts in mine),
            failed=sum(counts["failed"] for counts in mine),
            broken=sum(counts["broken"] for counts in mine),
        )

    def has_all_trials_of(self, claim: Mapping[str, Any]) -> bool:
        return self.progress(claim["sweeps"]).is_complete

    @property
    def claims(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.document["claims"]
        return found

    @property
    def uses_minilm(self) -> bool:
        return bool(self.document["weights"] == MINILM)

    @property
    def uses_course_data(self) -> bool:
        return bool(self.document["data"] == "course")


@dataclass(frozen=True)
class ZeroShot:
    """MiniLM before any training, on the course's data: the cosine of mean-pooled vectors.

    ``para`` is the accuracy at the best threshold on the same rows, ``sts`` Pearson's r.
    """

    para: float
    sts: float
    threshold: float


@dataclass(frozen=True)
class Results:
    """``studies`` has those that were collected; ``headline`` and ``zero_shot`` may be missing."""

    studies: Mapping[str, Result]
    headline: Result | None = None
    zero_shot: ZeroShot | None = None

    def zero_shot_beside(self, result: Result) -> ZeroShot | None:
        """Only beside scores of the same encoder on the same data."""
        return self.zero_shot if result.uses_minilm and result.uses_course_data else None


def read_results(folder: Path) -> Results:
    found = {name: read_document(folder, name) for name in (*STUDIES, HEADLINE, ZERO_SHOT)}
    results = {name: Result(name, document) for name, document in found.items() if document}
    measured = found[ZERO_SHOT]
    return Results(
        studies={name: results[name] for name in STUDIES if name in results},
        headline=results.get(HEADLINE),
        zero_shot=_zero_shot(measured) if measured else None,
    )


def _zero_shot(document: Mapping[str, Any]) -> ZeroShot:
    para, sts = document["para"], document["sts"]
    return ZeroShot(para["accuracy"], sts["pearson"], para["threshold"])


def read_document(folder: Path, name: str) -> dict[str, Any] | None:
    """The JSON of a study; None if it was never collected."""
    path = folder / f"{name}.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path}: must be JSON; {error}") from None
    if not isinstance(document, dict):
        raise UserError(f"{path}: must be a JSON object")
    return document
