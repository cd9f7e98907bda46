"""Sentences of the page that people wrote, in reports.toml: each is tied to verdicts.

A sentence is shown only if every verdict that it names was reached, and if all trials of these
claims have finished, so that no sentence can say what the runs do not.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from cotrunk.errors import UserError
from cotrunk.study.claims import Verdict
from cotrunk.study.definition import Study, read_study
from tools.results.documents import STUDIES, Result

FILE = Path(__file__).parent / "reports.toml"
SHARING = "sharing"
"""The section on top, about the claims of ``ABOUT``."""
ABOUT = "hybrid"


@dataclass(frozen=True)
class Advice:
    """``when``: the verdicts, by claim, under which ``text`` is true."""

    when: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class ReportTexts:
    """``tables`` and ``columns``: what the picture of a report shows, tables by their number."""

    heading: str
    advice: Sequence[Advice]
    tables: Sequence[int] = ()
    columns: Sequence[str] = ()


def read_texts(path: Path = FILE) -> dict[str, ReportTexts]:
    """The texts of the top section and of each report; reports all wrong references at once."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    found = {name: _texts(part) for name, part in raw.items()}
    missing = {SHARING, *STUDIES} - set(found)
    wrong = [f"{path.name}: there is no [{name}]" for name in sorted(missing)]
    for name, texts in found.items():
        study = read_study(ABOUT if name == SHARING else name, "quick")
        wrong += [f"{path.name}: {name}: {line}" for line in _wrong(texts, study)]
    if wrong:
        raise UserError(*wrong)
    return found


def advice_for(result: Result, texts: ReportTexts) -> list[str]:
    """The sentences that the verdicts of a study allow."""
    verdicts = {c["id"]: c["verdict"] for c in result.claims if result.has_all_trials_of(c)}
    return [
        advice.text
        for advice in texts.advice
        if all(verdicts.get(claim) == verdict for claim, verdict in advice.when.items())
    ]


def _texts(part: Mapping[str, Any]) -> ReportTexts:
    advice = [Advice(each["when"], each["text"]) for each in part.get("advice", [])]
    return ReportTexts(
        heading=part["heading"],
        advice=advice,
        tables=part.get("tables", []),
        columns=part.get("columns", []),
    )


def _wrong(texts: ReportTexts, study: Study) -> Iterator[str]:
    claims, verdicts = {claim.id for claim in study.claims}, get_args(Verdict)
    for advice in texts.advice:
        if not advice.when:
            yield f"{advice.text!r} names no verdict"
        for claim, verdict in advice.when.items():
            if claim not in claims:
                yield f"there is no claim {claim!r}"
            if verdict not in verdicts:
                yield f"{verdict!r} is not a verdict"
    for number in texts.tables:
        if number >= len(study.tables):
            yield f"there is no table {number}"
        else:
            more = set(texts.columns) - set(study.tables[number].columns)
            yield from (f"table {number} has no column {column!r}" for column in sorted(more))
