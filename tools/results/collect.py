"""A study's folder -> a document of tables, verdicts and scores, without paths of the machine.

The runs are read again rather than results.json, which a study that was cut short does not have.
Those of earlier folders count, too: ``kept`` says what is kept of a run.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any

from cotrunk import __version__
from cotrunk.errors import UserError
from cotrunk.files import without_nan
from cotrunk.runs.folder import RunFolder
from cotrunk.study.definition import names, read_study
from cotrunk.study.plan import Choices, planned_specs, trial_counts
from cotrunk.study.records import RunRecord
from cotrunk.study.results import IDENTITY
from cotrunk.study.study import Outcome, conclude, conclude_records
from cotrunk.study.sweep.state import read_record
from tools.results.documents import MINILM
from tools.results.kept import kept_run, packed, record_of, united, unpacked

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
    weights: str
    epochs: int
    steps: int
    best_step: int | None
    seconds: float
    cpu_seconds: float
    commit: str | None = None


def study_of(folder: Path) -> str:
    """The name of the study in a folder; refuses all but the package's own studies."""
    return str(_asked(folder)["study"])


def collect(folder: Path, old: Mapping[str, Any] | None = None) -> tuple[Document, Document]:
    """The finished runs of a study that are kept, and what they say.

    ``old``: the runs kept before, whose folders may be gone.
    """
    folder = folder.resolve()
    asked = _asked(folder)
    data = Path(asked["data"]) if asked["data"] else None
    study = read_study(asked["study"], asked["budget"], with_data=data is not None)
    choices = Choices(data=data, weights=asked.get("weights"), seeds=asked.get("seeds"))
    here = conclude(study, choices, folder)
    machine = [path for path in (folder, data, Path.cwd(), Path.home()) if path]
    runs = [
        kept_run(run, _choices(run), folder, commit=_commit(run))
        for run in here.records
        if run.state == "finished"
    ]
    if old:
        _refuse_different(old, _identity(asked))
        runs = united(unpacked(old), runs)
    kept = _clean(_identity(asked) | packed(runs), machine)
    records = [record_of(run, folder) for run in unpacked(kept)]
    outcome = conclude_records(study, choices, records, out=folder, broken=here.broken)
    found = outcome.document() | {
        "dev_rows": study.budget.dev_rows,
        "broken": [{"run": _inside(each.path, folder), "why": each.why} for each in here.broken],
        "failed": _failed(folder, outcome),
    }
    planned = asked.get("planned") or trial_counts(planned_specs(study, choices))
    trials = [trial_of(run) for run in unpacked(kept)]
    return kept, collected(found, asked, trials, planned, machine=machine)


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
    document = {
        **{key: value for key, value in found.items() if key != "runs"},
        "claims": [claim | {"n": _seeds(claim)} for claim in found["claims"]],
        **_identity(asked),
        "weights": _weights(trials) or asked.get("weights") or MINILM,
        "command": command_of(asked),
        "version": __version__,
        "commits": sorted({trial.commit for trial in trials if trial.commit}),
        "sweeps": _sweeps(found, trials, planned),
        "cpu_seconds": round(sum(trial.cpu_seconds for trial in trials), 1),
        "trials": [asdict(trial) for trial in trials],
    }
    return _clean(document, machine)


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


def trial_of(kept: Mapping[str, Any]) -> Trial:
    settings, cost = kept["settings"], kept["cost"]
    scores = {name: task["score"]["score"] for name, task in kept["tasks"].items()}
    return Trial(
        sweep=_sweep_of(kept["run"]),
        plan=settings.get("sharing", {}).get("encoder"),
        choices=kept["choices"],
        seed=kept["seed"],
        scores=scores | kept["overall"],
        parameters=kept["parameters"],
        weights=settings["encoder"]["weights"],
        epochs=_epochs(settings),
        steps=kept["steps"],
        best_step=kept["best_step"],
        seconds=round(sum(cost["seconds"].values()), 1),
        cpu_seconds=round(sum(cost["cpu_seconds"].values()), 1),
        commit=kept["commit"],
    )


def _choices(run: RunRecord) -> Mapping[str, Any]:
    found: Mapping[str, Any] = read_record(RunFolder(run.path)).get("choices", {})
    return found


def _commit(run: RunRecord) -> str | None:
    found: str | None = RunFolder(run.path).read_record()["environment"]["commit"]
    return found


def _identity(asked: Mapping[str, Any]) -> Document:
    """What runs must have in common to stand on one page."""
    return {
        "study": asked["study"],
        "budget": asked["budget"],
        "data": "course" if asked["data"] else "sample",
        "weights": asked.get("weights"),
        "set": asked.get("set") or [],
    }


def _refuse_different(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    if different := [key for key in new if old[key] != new[key]]:
        found = "; ".join(f"{key} was {old[key]} and is {new[key]}" for key in different)
        raise UserError(
            f"results/runs/{new['study']}.json: is of other runs: {found}; delete it to start over"
        )


def _clean(document: Document, machine: Sequence[Path]) -> Document:
    clean = without_nan(without_paths(document, machine))
    assert isinstance(clean, dict)
    return clean


def _epochs(settings: Mapping[str, Any]) -> int:
    """Of all stages together."""
    own = settings["train"]["epochs"]
    return sum(stage.get("epochs", own) for stage in settings["stages"] or [{}])


def _asked(folder: Path) -> Mapping[str, Any]:
    try:
        asked = json.loads((folder / IDENTITY).read_bytes())
    except (OSError, ValueError):
        asked = None
    if not isinstance(asked, dict) or not {"study", "budget", "data"} <= set(asked):
        raise UserError(f"{folder}: has no {IDENTITY}; give a folder written by `cotrunk study`")
    if asked["study"] not in names():
        raise UserError(
            f"{folder}: has runs of the study {asked['study']}; "
            f"only the package's own can be collected: {', '.join(names())}"
        )
    return asked


def _sweeps(
    found: Mapping[str, Any], trials: Sequence[Trial], planned: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """How many trials of each sweep were planned, and how they ended."""
    finished = Counter(trial.sweep for trial in trials)
    failed = Counter(_sweep_of(each["trial"]) for each in found["failed"])
    broken = Counter(_sweep_of(each["run"]) for each in found["broken"])
    return {
        name: {
            "planned": count,
            "finished": min(finished[name], count),
            "failed": failed[name],
            "broken": broken[name],
        }
        for name, count in planned.items()
    }


def _failed(folder: Path, outcome: Outcome) -> list[Document]:
    """Trials that ended with an error."""
    finished = {run.path for run in outcome.records if run.state == "finished"}
    return [
        {"trial": _inside(run, folder), "why": why}
        for run in sorted(file.parent for file in folder.glob("*/*/trial.json"))
        if run not in finished and (why := read_record(RunFolder(run)).get("error"))
    ]


def _inside(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder))


def _sweep_of(trial: str) -> str:
    """``plans`` of ``plans/sharing.encoder=S6,seed=1``."""
    return PurePath(trial).parts[0]


def _weights(trials: Sequence[Trial]) -> str:
    return ", ".join(dict.fromkeys(trial.weights for trial in trials))


def _seeds(claim: Mapping[str, Any]) -> int | None:
    """The fewest seeds on a side of a claim's comparisons; None if nothing was compared."""
    sides = [side for part in claim["evidence"]["comparisons"] for side in part["seeds"]]
    return min(sides, default=None)
