"""How long a sweep takes, before it starts."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from cotrunk.build.train import train_settings
from cotrunk.build.trial import Raw, settings_of_job, steps_of_settings
from cotrunk.errors import UserError, plural
from cotrunk.progress import OnProgress, ignore_progress
from cotrunk.runs.cost import read_cost
from cotrunk.runs.events import Started, Stepped
from cotrunk.runs.folder import RunFolder
from cotrunk.study.sweep.spec import Spec
from cotrunk.study.sweep.state import read_record
from cotrunk.study.sweep.sweep import Sweep
from cotrunk.study.sweep.trials import TrialSpec, raw_of

MEASURED_STEPS = 6
MEASURED_SECONDS = 10.0
"""Large encoders are timed by fewer steps, at least two."""
IMPORTS = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); import cotrunk.build.train"


@dataclass(frozen=True)
class Estimate:
    """``seconds`` of each trial by name, from its number of ``steps``; ``basis`` says how."""

    steps: Mapping[str, int]
    seconds: Mapping[str, float]
    basis: str


def process_seconds() -> float:
    """What each trial takes to start its process and import what it needs, timed just now."""
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", IMPORTS, json.dumps(sys.path)], check=True)
    return time.monotonic() - start


def estimate(
    sweep: Sweep,
    trials: Sequence[TrialSpec],
    *,
    process: float,
    on_progress: OnProgress = ignore_progress,
) -> Estimate:
    """From the runs of the sweep that have finished, or from some steps of its first trial.

    ``process``: seconds to start the process of a trial.
    """
    spec = sweep.spec
    raws = {trial.name: raw_of(spec, trial) for trial in trials}
    steps = _steps(spec, raws)
    runs = [RunFolder(sweep.out / name) for name in raws]
    measured = [found for run in runs if run.is_finished and (found := _times(run))]
    once = 0.0
    if measured:
        start, pace = (sum(each) / len(measured) for each in zip(*measured, strict=True))
        basis = f"the mean of {plural(len(measured), 'finished trial')}"
    else:
        start, once, pace = _measure(spec, raws[trials[0].name], on_progress)
        basis = (
            f"the first steps of the first trial, timed just now, and {process:.1f} s to "
            "start each process; evaluations not included"
        )
    seconds = {name: process + start + pace * count for name, count in steps.items()}
    seconds[trials[0].name] += once
    return Estimate(steps, seconds, basis)


def _steps(spec: Spec, raws: Mapping[str, Raw]) -> dict[str, int]:
    """Plans and seeds do not change the number of steps, so most trials need not be looked at."""
    known: dict[str, int] = {}
    found = {}
    for name, raw in raws.items():
        train = {key: value for key, value in raw["train"].items() if key != "seed"}
        key = repr({**raw, "sharing": None, "train": train})
        if key not in known:
            settings = settings_of_job(dict(raw), spec.place)
            known[key] = steps_of_settings(settings, spec.base.folder)
        found[name] = known[key]
    return found


def _times(run: RunFolder) -> tuple[float, float] | None:
    """Seconds of a finished run before its first step, and per step with all that follows."""
    steps, seconds = read_record(run).get("steps"), read_cost(run).seconds
    before = seconds["prepare"] + seconds["encode"]
    after = sum(seconds.values()) - before
    return (before, after / steps) if steps and after > 0 else None


def _measure(spec: Spec, raw: Raw, on_progress: OnProgress) -> tuple[float, float, float]:
    """Seconds before the first step, more that the first one takes, and seconds per step.

    A frozen encoder fills its cache before the first step, which takes as long as the files are
    large; the trials will use it.
    """
    untracked = {**raw, "track": {}}  # these steps are no run that a tracker should show
    settings = settings_of_job(untracked, spec.place)
    times = [time.monotonic()]
    with tempfile.TemporaryDirectory() as folder:
        events = train_settings(
            settings, spec.base.folder, Path(folder) / "run", on_progress=on_progress
        )
        for event in events:
            if isinstance(event, Started | Stepped):
                times.append(time.monotonic())
            if len(times) > 2 + MEASURED_STEPS or _is_long(times[2:]):
                break
        events.close()
    if len(times) < 3:
        raise UserError(
            f"{spec.place}: the first trial makes no steps, so there is nothing to time"
        )
    return paces(times)


def paces(times: Sequence[float]) -> tuple[float, float, float]:
    """From the times at which a run was called, had started, and had made its first steps."""
    start, first, *others = (after - before for before, after in pairwise(times))
    pace = sum(others) / len(others) if others else first
    return start, max(first - pace, 0.0), pace


def _is_long(times: Sequence[float]) -> bool:
    return len(times) > 1 and times[-1] - times[0] > MEASURED_SECONDS


def total_seconds(seconds: Sequence[float], slots: int) -> float:
    """Wall time if each slot takes the next trial as soon as it is free."""
    free = [0.0] * slots
    for one in seconds:
        free[free.index(min(free))] += one
    return max(free, default=0.0)
