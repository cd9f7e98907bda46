"""One document of a study whose sweeps were trained in several folders.

A verdict is never put together from two folders: it comes whole from the one where more of the
claim's trials have finished, because its test compares rows of runs, which documents do not have.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from cotrunk.errors import UserError

Document = dict[str, Any]
Part = Mapping[str, Any]
COMMON = ("study", "budget", "data", "weights", "set")
"""What runs must have in common to stand on one page."""
DEFINED = ("id", "claim", "test")


def merged(old: Document, new: Document) -> Document:
    """``new``, with the sweeps, rows and verdicts of ``old`` that it does not have itself."""
    _refuse_different(old, new)
    from_old = {name for name in new["sweeps"] if _finished(old, [name]) > _finished(new, [name])}
    trials = [
        trial
        for name in new["sweeps"]
        for trial in (old if name in from_old else new)["trials"]
        if trial["sweep"] == name
    ]
    return new | {
        "sweeps": {n: (old if n in from_old else new)["sweeps"][n] for n in new["sweeps"]},
        "trials": trials,
        "cpu_seconds": round(sum(trial["cpu_seconds"] for trial in trials), 1),
        "claims": [_claim(claim, old, new) for claim in new["claims"]],
        "tables": [_table(table, old["tables"]) for table in new["tables"]],
        "broken": _of_both("broken", "run", old, new, from_old),
        "failed": _of_both("failed", "trial", old, new, from_old),
    }


def _refuse_different(old: Document, new: Document) -> None:
    if different := [key for key in COMMON if old[key] != new[key]]:
        found = "; ".join(f"{key} was {old[key]} and is {new[key]}" for key in different)
        raise UserError(
            f"results/{new['study']}.json: is of other runs: {found}; delete it to begin anew"
        )


def _finished(document: Document, sweeps: Iterable[str]) -> int:
    found = document["sweeps"]
    return sum(found[name]["finished"] for name in sweeps if name in found)


def _claim(claim: Part, old: Document, new: Document) -> Part:
    same = [c for c in old["claims"] if all(c[key] == claim[key] for key in DEFINED)]
    if same and _finished(old, claim["sweeps"]) > _finished(new, claim["sweeps"]):
        return same[0]
    return claim


def _table(table: Part, olds: Sequence[Part]) -> Part:
    """Rows are found by their names; a table whose columns changed has no old rows."""
    before = {
        row["name"]: row
        for old in olds
        if (old["title"], old["columns"]) == (table["title"], table["columns"])
        for row in old["rows"]
    }
    rows = [
        old if (old := before.get(row["name"])) and old["seeds"] > row["seeds"] else row
        for row in table["rows"]
    ]
    return {**table, "rows": rows}


def _of_both(
    key: str, place: str, old: Document, new: Document, from_old: set[str]
) -> Sequence[Part]:
    """Broken runs or failed trials, each of the document that its sweep is taken from."""
    kept = [each for each in old[key] if _sweep_of(each[place]) in from_old]
    return kept + [each for each in new[key] if _sweep_of(each[place]) not in from_old]


def _sweep_of(trial: str) -> str:
    return PurePath(trial).parts[0]
