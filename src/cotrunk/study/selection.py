"""Which runs of a study a name stands for: those with certain settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cotrunk.study.definition import Selection
from cotrunk.study.measures import shown_number
from cotrunk.study.records import RunRecord, group_runs


def selected(records: Sequence[RunRecord], selection: Selection, out: Path) -> list[RunRecord]:
    """The runs of a selection, one per seed, sorted by seed."""
    folder = (out / selection.sweep).resolve()
    mine = [
        run
        for run in records
        if folder in run.path.resolve().parents and is_selected(run.settings, selection)
    ]
    if selection.best is not None:
        mine = best_group(mine, selection.best)
    return sorted(mine, key=lambda run: run.seed)


def differing(runs: Sequence[RunRecord]) -> list[str]:
    """Settings, other than the seed, in which the runs of one name differ."""
    groups = group_runs(runs)
    return list(dict.fromkeys(key for group in groups for key in group.choices))


def is_selected(settings: Mapping[str, Any], selection: Selection) -> bool:
    if selection.tasks is not None and set(settings["tasks"]) != set(selection.tasks):
        return False
    return all(_matches(value_at(settings, key), value) for key, value in selection.where.items())


def value_at(settings: Mapping[str, Any], key: str) -> Any:
    """``train.lr`` of nested settings; None where there is nothing."""
    value: Any = settings
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def best_group(records: Sequence[RunRecord], by: str) -> list[RunRecord]:
    """The runs of the best settings, which may differ in their seeds."""
    scored = [(shown_number(group, by), group) for group in _groups(records)]
    known = [(score, group) for score, group in scored if score is not None]
    return max(known, key=lambda each: each[0])[1] if known else []


def _groups(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    return [list(group.runs) for group in group_runs(records)]


def ranked_values(records: Sequence[RunRecord], key: str, by: str) -> list[Any]:
    """The values of a setting, from that of the best runs to that of the worst."""
    of_value: list[tuple[Any, list[RunRecord]]] = []
    for run in records:
        value = value_at(run.settings, key)
        same = [runs for known, runs in of_value if known == value]
        if same:
            same[0].append(run)
        else:
            of_value.append((value, [run]))
    scored = [(_scores(runs, by), value) for value, runs in of_value]
    known = [(max(scores), value) for scores, value in scored if scores]
    return [value for _, value in sorted(known, key=lambda each: -each[0])]


def _scores(records: Sequence[RunRecord], by: str) -> list[float]:
    """One per group of runs that differ in their seed."""
    found = (shown_number(group, by) for group in _groups(records))
    return [score for score in found if score is not None]


def _matches(found: Any, wanted: Any) -> bool:
    """A table matches if its keys do; other keys have their defaults."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(_matches(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list | tuple):
        return len(wanted) == len(found) and all(map(_matches, found, wanted))
    return bool(found == wanted)
