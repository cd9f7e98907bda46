"""Runs a sweep: checks everything, hands the trials to an engine, returns their results."""

import importlib.util
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cotrunk.build.trial import changes_since, settings_of_job
from cotrunk.errors import UserError
from cotrunk.learn.run import Interrupt
from cotrunk.runs.folder import RunFolder
from cotrunk.study.sweep.engines.engine import Engine, OnTrial, Work
from cotrunk.study.sweep.engines.local import LocalEngine
from cotrunk.study.sweep.engines.ray import RayEngine
from cotrunk.study.sweep.job import Job
from cotrunk.study.sweep.queue import FixedOrder, Queue, TpeOrder, TrialOrder, order_of
from cotrunk.study.sweep.search import corners, refuse_missing_optuna
from cotrunk.study.sweep.spec import Spec
from cotrunk.study.sweep.state import Trial, read_trial
from cotrunk.study.sweep.trials import TrialSpec, plan_points, raw_of, refuse_wrong_trials

EngineName = Literal["ray", "local"]
SWEEP = "sweep"
"""sweep.json: the sweep as it was last read."""


def open_engine(name: EngineName | None, address: str | None) -> Engine:
    """To be closed in the end; None is Ray if it is installed."""
    name = name or ("ray" if importlib.util.find_spec("ray") else "local")
    if name == "ray":
        return RayEngine(address)
    if address:
        raise UserError("--address needs --engine ray")
    return LocalEngine()


@dataclass(frozen=True)
class Sweep:
    """A checked sweep: all that is known before anything starts."""

    spec: Spec
    out: Path
    order: TrialOrder
    lag: int

    @property
    def trials(self) -> Sequence[TrialSpec]:
        """Empty for a search whose points depend on results."""
        return self.order.trials if isinstance(self.order, FixedOrder) else ()

    def read(self, trials: Sequence[TrialSpec] | None = None) -> list[Trial]:
        """The results of some trials, or of all."""
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
    order = order_of(spec, out, lag=lag)
    if isinstance(order, FixedOrder):
        refuse_wrong_trials(spec, order.trials)
        _refuse_other_settings(spec, out, order.trials)
    elif isinstance(order, TpeOrder):
        _refuse_other_settings(spec, out, order.saved_trials())
        refuse_wrong_trials(spec, plan_points(corners(spec.axes), spec.seeds[:1]))
    return Sweep(spec, out, order, lag)


def run_sweep(
    spec: Spec,
    out: Path,
    *,
    engine: EngineName | None = None,
    address: str | None = None,
    interrupt: Interrupt | None = None,
    on_trial: OnTrial = lambda _trial: None,
) -> list[Trial]:
    """Run all trials that have not ended; returns every trial that was ever started.

    ``engine`` None: Ray if it is installed. Setting ``interrupt.signal`` stops the sweep: running
    trials save a checkpoint, and are returned as ``stopped``.
    """
    prepared = prepare_sweep(spec, out)
    with closing(open_engine(engine, address)) as opened:
        return run_prepared(
            prepared, engine=opened, interrupt=interrupt or Interrupt(), on_trial=on_trial
        )


def run_prepared(
    sweep: Sweep, *, engine: Engine, interrupt: Interrupt, on_trial: OnTrial
) -> list[Trial]:
    spec, out = sweep.spec, sweep.out
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out}: cannot create the folder: {error.strerror}") from error
    folder = RunFolder(out)
    with folder.lock():
        folder.write_document(SWEEP, _document(sweep))
        queue = Queue(sweep.order, spec, out)

        def job_of(trial: TrialSpec) -> Job:
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
            engine.run(work)
    return [_final(trial) for trial in map(queue.read, queue.planned) if trial.state != "waiting"]


def _final(trial: Trial) -> Trial:
    """A trial that was interrupted counts as stopped."""
    return replace(trial, state="stopped") if trial.state == "started" else trial


def job(spec: Spec, out: Path, trial: TrialSpec, *, earlier: Sequence[TrialSpec]) -> Job:
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


def _refuse_other_settings(spec: Spec, out: Path, trials: Sequence[TrialSpec]) -> None:
    """A sweep may grow, but a run that exists must have been trained with the same settings."""
    lines = []
    for trial in trials:
        run = RunFolder(out / trial.name)
        if run.settings.exists():
            settings = settings_of_job(raw_of(spec, trial), spec.place)
            lines += [f"{run.path}: {line}" for line in changes_since(run, settings)]
    if lines:
        more = [f"{out}: and {len(lines) - 3} more"] if len(lines) > 3 else []
        raise UserError(
            f"{out} has runs of this sweep with different settings; give another folder or restore "
            f"{' or '.join(dict.fromkeys((spec.place, spec.base.place)))}:",
            *lines[:3],
            *more,
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
