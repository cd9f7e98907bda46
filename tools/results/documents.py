"""The files of results/ that the page is made of."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotrunk.errors import UserError
from tools.results.headline import NAME as HEADLINE

STUDIES = ("hybrid", "mops", "progressive", "pals", "mastery")
"""Those of the five reports, in the order of the page."""
ZERO_SHOT = "zero-shot"


@dataclass(frozen=True)
class Result:
    """A study as it was collected."""

    name: str
    document: Mapping[str, Any]

    @property
    def planned(self) -> int:
        return int(self.document["planned"])

    @property
    def finished(self) -> int:
        return int(self.document["finished"])

    @property
    def is_complete(self) -> bool:
        return self.finished >= self.planned

    @property
    def claims(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.document["claims"]
        return found

    @property
    def verdicts(self) -> dict[str, str]:
        return {claim["id"]: claim["verdict"] for claim in self.claims}


@dataclass(frozen=True)
class ZeroShot:
    """MiniLM before any training: the cosine of mean-pooled vectors.

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


def read_results(folder: Path) -> Results:
    found = {name: _read(folder, name) for name in (*STUDIES, HEADLINE, ZERO_SHOT)}
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


def _read(folder: Path, name: str) -> Mapping[str, Any] | None:
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
