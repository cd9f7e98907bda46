"""What a study leaves in its folder: study.json, results.json and report.html."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotrunk.errors import UserError, plural
from cotrunk.files import without_nan, write_whole
from cotrunk.runs.folder import RunFolder
from cotrunk.study.claims import sentence
from cotrunk.study.study import Outcome

RESULTS, REPORT, IDENTITY = "results.json", "report.html", "study.json"


def write_results(out: Path, document: Mapping[str, Any]) -> Path:
    text = json.dumps(without_nan(document), indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(out / RESULTS, text.encode())
    return out / RESULTS


def refuse_other_study(out: Path, identity: Mapping[str, str | None]) -> None:
    """A folder belongs to one study, so that its runs are not taken for another's."""
    if run := next((place for place in (out, *out.parents) if RunFolder(place).is_one), None):
        raise UserError(f"-o {out}: {run} is a run; give a folder outside it")
    try:
        before = json.loads((out / IDENTITY).read_bytes())
    except (OSError, ValueError):
        return
    if not isinstance(before, dict):
        return
    other = [f"{key} {before.get(key)}" for key in identity if before.get(key) != identity[key]]
    if other:
        raise UserError(
            f"{out}: has runs of another study ({', '.join(other)}); give another folder"
        )


def write_identity(out: Path, content: Mapping[str, Any]) -> None:
    """Written before the first trial, so that an interrupted study can still be collected.

    ``content``: identity, options, planned trials per sweep.
    """
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / IDENTITY, json.dumps(content, indent=2, ensure_ascii=False).encode())


def verdict_lines(outcome: Outcome) -> list[str]:
    """How many claims have which verdict, then a line for each that was settled."""
    if not outcome.judged:
        return []
    found = Counter(judged.verdict for judged in outcome.judged)
    counts = ", ".join(f"{number} {verdict}" for verdict, number in found.most_common())
    settled = [
        f"{judged.verdict.capitalize()}: {judged.claim.claim} ({sentence(judged)})."
        for judged in outcome.judged
        if judged.verdict in ("confirmed", "refuted")
    ]
    return [f"{plural(len(outcome.judged), 'claim')}: {counts}.", *settled]
