"""A study's folder -> a document of tables, verdicts and scores, without paths of the machine.

The runs are read again rather than results.json, which a study that was cut short does not have.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotrunk import __version__
from cotrunk.errors import UserError
from cotrunk.files import without_nan
from cotrunk.study.definition import Study, read_study
from cotrunk.study.plan import Choices, planned_specs, planned_trials
from cotrunk.study.records import RunRecord
from cotrunk.study.results import IDENTITY
from cotrunk.study.study import Outcome, conclude

Document = dict[str, Any]
ABSOLUTE_PATH = re.compile(r"""(?<![\w.)\]/])~?(?:/[\w.+-][^\s/:;,'"()\[\]]*)+/?""")


@dataclass(frozen=True)
class Trial:
    """A finished run. ``seconds`` and ``cpu_seconds`` are those of all its phases."""

    sweep: str
    plan: str | None
    choices: Mapping[str, Any]
    seed: int
    scores: Mapping[str, float | None]
    parameters: int
    best_step: int | None
    seconds: float
    cpu_seconds: float


def collect(folder: Path) -> Document:
    """What the runs in a study's folder say so far."""
    asked = _asked(folder)
    data = Path(asked["data"]) if asked["data"] else None
    study = read_study(asked["study"], asked["budget"], with_data=data is not None)
    choices = Choices(data=data, weights=asked.get("weights"), seeds=asked.get("seeds"))
    outcome = conclude(study, choices, folder)
    planned = asked.get("planned") or _planned(study, choices)
    finished = [run for run in outcome.records if run.state == "finished"]
    trials = [trial_of(run, folder) for run in finished]
    found = outcome.document() | {
        "dev_rows": study.budget.dev_rows,
        "failed": _failed(folder, outcome),
    }
    machine = [folder, data, Path.cwd(), Path.home()]
    return collected(found, asked, trials, planned, machine=[p for p in machine if p])


def collected(
    found: Mapping[str, Any],
    asked: Mapping[str, Any],
    trials: Sequence[Trial],
    planned: Mapping[str, int],
    *,
    machine: Sequence[Path],
) -> Document:
    """``found`` is as in results.json, ``asked`` as in study.json.

    ``planned``: trials by sweep; ``machine``: folders that must not be named.
    """
    kept = {k: v for k, v in found.items() if k not in ("runs", "report_page", "data", "weights")}
    done = Counter(trial.sweep for trial in trials)
    document = {
        **kept,
        "claims": [claim | {"n": _seeds(claim)} for claim in found["claims"]],
        "budget": asked["budget"],
        "data": "course" if asked["data"] else "sample",
        "weights": asked.get("weights") or "minilm",
        "command": command_of(asked),
        "version": __version__,
        "planned": sum(planned.values()),
        "finished": sum(min(done[sweep], count) for sweep, count in planned.items()),
        "cpu_seconds": round(sum(trial.cpu_seconds for trial in trials), 1),
        "trials": [asdict(trial) for trial in trials],
    }
    clean = without_nan(without_paths(document, machine))
    assert isinstance(clean, dict)
    return clean


def command_of(asked: Mapping[str, Any]) -> str:
    """The command that trains the study again, with placeholders for folders."""
    given = ["cotrunk", "study", asked["study"], *(["--data", "DIR"] if asked["data"] else [])]
    if asked["budget"] != "quick":
        given += ["--budget", asked["budget"]]
    for option in ("weights", "seeds"):
        if asked.get(option):
            given += [f"--{option}", str(asked[option])]
    if asked.get("set"):
        given += ["--set", *asked["set"]]
    return shlex.join([*given, "-o", "OUT"])


def without_paths(value: Any, machine: Sequence[Path]) -> Any:
    """Absolute paths cut to their last part; inside a folder of ``machine``, relative to it.

    The folders of ``machine`` may have blanks in their names.
    """
    if isinstance(value, str):
        known = {form for path in machine for form in (path, path.resolve()) if form.name}
        for path in sorted(known, key=lambda path: len(path.parts), reverse=True):
            value = value.replace(f"{path}/", "").replace(str(path), path.name)
        return ABSOLUTE_PATH.sub(lambda found: Path(found[0]).name, value)
    if isinstance(value, Mapping):
        return {key: without_paths(inner, machine) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths(inner, machine) for inner in value]
    return value


def trial_of(run: RunRecord, folder: Path) -> Trial:
    scores = {name: task.score["score"] for name, task in run.tasks.items()}
    return Trial(
        sweep=_relative(run.path, folder).parts[0],
        plan=run.settings.get("sharing", {}).get("encoder"),
        choices=_trial_file(run.path).get("choices", {}),
        seed=run.seed,
        scores=scores | dict(run.overall),
        parameters=run.parameters,
        best_step=run.best_step,
        seconds=round(sum(run.cost.seconds.values()), 1),
        cpu_seconds=round(sum(run.cost.cpu_seconds.values()), 1),
    )


def _asked(folder: Path) -> Mapping[str, Any]:
    try:
        asked = json.loads((folder / IDENTITY).read_bytes())
    except (OSError, ValueError):
        asked = None
    if not isinstance(asked, dict) or not {"study", "budget", "data"} <= set(asked):
        raise UserError(f"{folder}: has no {IDENTITY}; give a folder written by `cotrunk study`")
    return asked


def _planned(study: Study, choices: Choices) -> dict[str, int]:
    """For a folder whose study.json does not say it."""
    specs = planned_specs(study, choices)
    return {name: len(planned_trials(spec)) for name, spec in specs.items()}


def _failed(folder: Path, outcome: Outcome) -> list[Document]:
    """Trials that ended with an error."""
    ended = {run.path.resolve() for run in outcome.records if run.state == "finished"}
    return [
        {"trial": str(_relative(file.parent, folder)), "why": why}
        for file in sorted(folder.glob("*/*/trial.json"))
        if file.parent.resolve() not in ended and (why := _trial_file(file.parent).get("error"))
    ]


def _trial_file(run: Path) -> Mapping[str, Any]:
    try:
        found = json.loads((run / "trial.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _relative(path: Path, folder: Path) -> Path:
    return path.resolve().relative_to(folder.resolve())


def _seeds(claim: Mapping[str, Any]) -> int | None:
    """The fewest seeds on a side of a claim's comparisons; None if nothing was compared."""
    sides = [side for part in claim["evidence"]["comparisons"] for side in part["seeds"]]
    return min(sides, default=None)
