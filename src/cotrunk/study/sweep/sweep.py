"""Runs a sweep: checks everything, hands the trials to an engine, returns what became of them."""

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cotrunk.build.trial import changes_since, settings_of_job
from cotrunk.errors import UserError
from cotrunk.learn.run import Interrupt
from cotrunk.runs.folder import RunFolder
from cotrunk.study.sweep.engines.engine import OnTrial, Work
from cotrunk.study.sweep.engines.local import run_locally
from cotrunk.study.sweep.engines.ray import refuse_missing_ray, refuse_unreachable, run_on_ray
from cotrunk.study.sweep.job import Job
from cotrunk.study.sweep.queue import FixedPlan, Plan, Queue, TpePlan, plan_of
from cotrunk.study.sweep.search import corners, refuse_missing_optuna
from cotrunk.study.sweep.spec import Spec
from cotrunk.study.sweep.state import Trial, read_trial
from cotrunk.study.sweep.trials import Planned, plan_points, raw_of, refuse_wrong_trials

Engine = Literal["ray", "local"]
SWEEP = "sweep"
"""sweep.json: the sweep as it was last read."""


def default_engine() -> Engine:
    return "ray" if importlib.util.find_spec("ray") else "local"


@dataclass(frozen=True)
class Sweep:
    """A checked sweep: all that is known before anything starts."""

    spec: Spec
    out: Path
    plan: Plan
    lag: int

    @property
    def trials(self) -> Sequence[Planned]:
        """Empty for a search whose points depend on results."""
        return self.plan.trials if isinstance(self.plan, FixedPlan) else ()

    def read(self, trials: Sequence[Planned] | None = None) -> list[Trial]:
        """What became of some trials, or of all."""
        trials = self.trials if trials is None else trials
        return [read_trial(self.out, trial, self.spec.asha) for trial in trials]


def prepare_sweep(spec: Spec, out: Path) -> Sweep:
    """Check every trial, and that it fits what is already in the folder; writes nothing."""
    if spec.search == "tpe":
        refuse_missing_optuna()
    if RunFolder(out).settings.exists():
        raise UserError(f"{out} is a run, not the folder of a sweep; give another folder")
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder")
    lag = _lag(out) or spec.max_concurrent
    plan = plan_of(spec, out, lag=lag)
    if isinstance(plan, FixedPlan):
        refuse_wrong_trials(spec, plan.trials)
        _refuse_other_settings(spec, out, plan.trials)
    elif isinstance(plan, TpePlan):
        _refuse_other_settings(spec, out, plan.saved_trials())
        refuse_wrong_trials(spec, plan_points(corners(spec.axes), spec.seeds[:1]))
    return Sweep(spec, out, plan, lag)


def run_sweep(
    spec: Spec,
    out: Path,
    *,
    engine: Engine | None = None,
    address: str | None = None,
    interrupt: Interrupt | None = None,
    on_trial: OnTrial = lambda _trial: None,
) -> list[Trial]:
    """Run all trials that have not ended; returns every trial that has been started, ever.

    ``engine`` None: Ray if it is installed. Setting ``interrupt.signal`` stops the sweep: running
    trials save a checkpoint, and are returned as ``stopped``.
    """
    return run_prepared(
        prepare_sweep(spec, out),
        engine=engine or default_engine(),
        address=address,
        interrupt=interrupt or Interrupt(),
        on_trial=on_trial,
    )


def run_prepared(
    sweep: Sweep, *, engine: Engine, address: str | None, interrupt: Interrupt, on_trial: OnTrial
) -> list[Trial]:
    if engine == "ray":
        refuse_missing_ray()
        if address:
            refuse_unreachable(address)
    elif address:
        raise UserError("--address needs --engine ray")
    spec, out = sweep.spec, sweep.out
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out}: cannot create the folder: {error.strerror}") from error
    folder = RunFolder(out)
    with folder.lock():
        folder.write_document(SWEEP, _document(sweep))
        queue = Queue(sweep.plan, spec, out)

        def job_of(trial: Planned) -> Job:
            return job(spec, out, trial, earlier=queue.planned[: trial.number])

        work = Work(
            queue=queue,
            job_of=job_of,
            out=out.resolve(),
            max_concurrent=spec.max_concurrent,
            threads=spec.threads,
            interrupt=interrupt,
            on_trial=on_trial,
        )
        if queue.has_next():  # else no engine needs to start
            run_locally(work) if engine == "local" else run_on_ray(work, address=address)
    return [_final(trial) for trial in map(queue.read, queue.planned) if trial.state != "waiting"]


def _final(trial: Trial) -> Trial:
    """A trial that was interrupted counts as stopped."""
    return replace(trial, state="stopped") if trial.state == "started" else trial


def job(spec: Spec, out: Path, trial: Planned, *, earlier: Sequence[Planned]) -> Job:
    """Paths are absolute, because a worker may have another working directory."""
    return Job(
        run=str(out.resolve() / trial.name),
        raw=raw_of(spec, trial),
        folder=str(spec.base.folder.resolve()),
        place=spec.place,
        number=trial.number,
        choices=dict(trial.choices),
        seed=trial.seed,
        threads=spec.threads,
        objective=spec.objective,
        asha=(spec.asha.grace, spec.asha.reduction) if spec.asha else None,
        earlier=tuple(str(out.resolve() / other.name) for other in earlier) if spec.asha else (),
    )


def _refuse_other_settings(spec: Spec, out: Path, trials: Sequence[Planned]) -> None:
    """A sweep may grow, but a run that exists must have been trained with the same settings."""
    lines = []
    for trial in trials:
        run = RunFolder(out / trial.name)
        if run.settings.exists():
            settings = settings_of_job(raw_of(spec, trial), spec.place)
            lines += [f"{run.path}: {line}" for line in changes_since(run, settings)]
    if lines:
        more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
        raise UserError(
            f"{out} has runs of this sweep with other settings; give another folder, or restore "
            f"{spec.place} or {spec.base.place}:",
            *lines[:3],
            *([f"{out}: {more.strip(' ()')}"] if more else []),
        )


def _lag(out: Path) -> int | None:
    try:
        found = RunFolder(out).read_document(SWEEP)
    except UserError:
        return None
    return found.get("lag") if isinstance(found, dict) else None


def _document(sweep: Sweep) -> dict[str, Any]:
    spec = sweep.spec
    return {
        "format": 1,
        "place": spec.place,
        "base": {"config": spec.base.raw, "folder": str(spec.base.folder.resolve())},
        "axes": [{"name": axis.name, "keys": axis.keys} for axis in spec.axes],
        "seeds": spec.seeds,
        "search": spec.search,
        "asha": asdict(spec.asha) if spec.asha else None,
        "objective": spec.objective,
        "trials": spec.trials,
        "minutes": spec.minutes,
        "max_concurrent": spec.max_concurrent,
        "threads": spec.threads,
        "lag": sweep.lag,
    }
