"""A folder of runs as rows of a table: cheap to read, so a page can poll it every few seconds."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from cotrunk.build.saved import encoder_plan
from cotrunk.errors import UserError, why_unreadable
from cotrunk.files import read_regular
from cotrunk.runs import lock
from cotrunk.runs.checkpoint import MANIFEST, MAX_DOCUMENT_BYTES
from cotrunk.runs.folder import RunFolder
from cotrunk.runs.tail import last_entry, last_step
from cotrunk.study.records import find_runs

Stamp = tuple[tuple[int, int], ...]
"""Time of change and size of the files that a row is read from."""


@dataclass(frozen=True)
class RunRow:
    """``state``: finished, running, stopped or broken; ``why`` it is broken.

    ``version`` changes whenever the run does.
    """

    name: str
    state: str
    version: str
    changed: float
    """Seconds since 1970."""
    why: str = ""
    plan: str = ""
    weights: str = ""
    seed: int | None = None
    parameters: int | None = None
    steps: int | None = None
    overall: float | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Listed:
    rows: list[RunRow]
    paths: Mapping[str, Path]
    problems: list[str]

    def document(self) -> dict[str, Any]:
        return {"runs": [asdict(row) for row in self.rows], "problems": self.problems}


class Listing:
    """Reads only run.json, the scores and the end of the metrics, and only what has changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Path, tuple[Stamp, RunRow]] = {}
        self._lock = Lock()

    def read(self) -> Listed:
        with self._lock:
            try:
                found = find_runs([self.folder])
            except UserError as error:  # the last run was deleted, or a folder cannot be read
                return Listed([], {}, list(error.lines))
            rows = [self._row(path) for path in found]
            self._known = {path: self._known[path] for path in found}
        names = [row.name for row in rows]
        return Listed(rows, dict(zip(names, found, strict=True)), [])

    def _row(self, path: Path) -> RunRow:
        run = RunFolder(path)
        stamp = tuple(
            map(_stamp, (run.settings, _scores_file(run), run.metrics, run.final, path / lock.NAME))
        )
        known = self._known.get(path)
        if known and known[0] == stamp and known[1].state in ("finished", "stopped"):
            return known[1]
        row = _read(run, path.relative_to(self.folder).as_posix(), stamp)
        self._known[path] = stamp, row
        return row


def _read(run: RunFolder, name: str, stamp: Stamp) -> RunRow:
    changed = max(nanoseconds for nanoseconds, _ in stamp) / 1e9
    state = "finished" if run.is_finished else "running" if run.is_running else "stopped"
    version = f"{state} {stamp}"
    try:
        if state == "running" and not run.settings.exists():
            return RunRow(name, state, version, changed)  # it has only just begun
        return _whole(run, name, state, version, changed)
    except UserError as error:
        why = "; ".join(error.lines)
    except OSError as error:
        why = f"{error.filename or run.path}: {error.strerror}"
    except (ValueError, RecursionError) as error:
        why = f"not JSON: {error}"
    except (KeyError, TypeError, AttributeError) as error:
        why = f"not a run of this version of cotrunk: {why_unreadable(error)}"
    return RunRow(name, "broken", version, changed, why=why)


def _whole(run: RunFolder, name: str, state: str, version: str, changed: float) -> RunRow:
    record = RunFolder.open(run.path).read_document("run")
    settings, best = record["settings"], _best(run, state)
    scores = best["scores"] if best else {}
    return RunRow(
        name,
        state,
        version,
        changed,
        plan=encoder_plan(run, record),
        weights=str(settings["encoder"]["weights"]),
        seed=int(settings["train"]["seed"]),
        parameters=int(record["parameters"]["total"]),
        steps=last_step(run.metrics),
        overall=_number(best["overall"].get("official")) if best else None,
        scores={task: _number(found["score"]) for task, found in scores.items()},
        metrics={task: str(found["metric"]) for task, found in scores.items()},
    )


def _best(run: RunFolder, state: str) -> Any:
    """The best evaluation; None if there is none yet."""
    file = _scores_file(run)
    found = _json(file)
    if found is None and state == "finished" and _was_evaluated(run):
        raise UserError(f"{file}: no such file, but the run was evaluated")
    return found


def _was_evaluated(run: RunFolder) -> bool:
    manifest = _json(run.best / MANIFEST)
    is_listed = manifest is not None and _scores_file(run).name in manifest["files"]
    return is_listed or last_entry(run.metrics, "dev") is not None


def _json(file: Path) -> Any:
    """None if there is no such file yet."""
    try:
        return json.loads(read_regular(file, MAX_DOCUMENT_BYTES))
    except FileNotFoundError:
        return None


def _scores_file(run: RunFolder) -> Path:
    return run.best / "evaluation.json"


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
