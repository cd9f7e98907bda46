"""``cotrunk study``: the experiments of a report, its tables, and a verdict on each claim."""

from argparse import Namespace
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cotrunk import __version__
from cotrunk.cli.report import report_writer
from cotrunk.cli.sweep import run_watched
from cotrunk.cli.terminal import studies
from cotrunk.cli.terminal.output import Document, Failed, out, say, table
from cotrunk.cli.terminal.progress import counting
from cotrunk.config.overrides import apply_changes
from cotrunk.errors import UserError, plural
from cotrunk.study.definition import SHARING, Study, read_study, titles
from cotrunk.study.plan import Choices, planned_trials, trial_counts
from cotrunk.study.results import (
    REPORT,
    RESULTS,
    refuse_other_study,
    verdict_lines,
    write_identity,
    write_results,
)
from cotrunk.study.sections import sections_of
from cotrunk.study.sharing import Recommendation, recommend, sharing_study
from cotrunk.study.study import Outcome, RunSweep, check, run, with_dev_part
from cotrunk.study.sweep.engines.engine import Engine
from cotrunk.study.sweep.estimate import Estimate, estimate, process_seconds, total_seconds
from cotrunk.study.sweep.spec import Spec
from cotrunk.study.sweep.state import DONE
from cotrunk.study.sweep.sweep import Sweep, open_engine, prepare_sweep
from cotrunk.study.sweep.trials import TrialSpec


def study(arguments: Namespace) -> Document:
    if arguments.list or arguments.name is None:
        return _list(as_json=arguments.json)
    choices = _choices(arguments)
    chosen = _study(arguments, choices)
    if arguments.out is None:
        raise UserError("study: give a folder for the runs and results, as in -o results")
    folder = Path(arguments.out)
    identity = _identity(chosen, arguments)
    refuse_other_study(folder, identity)
    with TemporaryDirectory() as scratch:  # a study that is refused leaves nothing behind
        specs = check(chosen, with_dev_part(chosen, choices, Path(scratch)))
        if arguments.dry_run:
            now = {name: spec for name, spec in specs.items() if choices.runs_now(name)}
            return _dry_run(chosen, now, folder, as_json=arguments.json)
    write_identity(folder, identity | _asked(arguments) | {"planned": trial_counts(specs)})
    choices = with_dev_part(chosen, choices, folder)
    failed: list[str] = []
    with closing(open_engine(arguments.engine, arguments.address)) as engine:
        outcome = run(chosen, choices, folder, _runner(engine, failed))
    recommended = recommend(outcome.groups) if arguments.name == SHARING else None
    document = _document(outcome, arguments, recommended)
    write_results(folder, document)
    _report(outcome, folder, recommended)
    if not arguments.json:
        studies.show(outcome)
        for sentence in recommended.sentences() if recommended else ():
            out().print(sentence)
    say(f"wrote {folder / RESULTS}")
    if failed:
        trials = plural(len(failed), "trial")
        say(f"error: {trials} failed, the first: {failed[0]}; repeat the command to retry")
        return Failed(document)
    return document


def _study(arguments: Namespace, choices: Choices) -> Study:
    if arguments.name == SHARING:
        if arguments.config is None:
            raise UserError("study sharing: give your config, as in cotrunk study sharing run.toml")
        if arguments.data is not None:
            raise UserError("--data: study sharing reads the files that its config names")
        weights = arguments.weights or (choices.changes or {}).get("encoder.weights")
        return sharing_study(Path(arguments.config), arguments.budget, weights=weights)
    found = read_study(arguments.name, arguments.budget, with_data=arguments.data is not None)
    if arguments.config is not None:
        raise UserError(f"study {arguments.name}: only `study sharing` takes a config")
    return found


def _asked(arguments: Namespace) -> dict[str, Any]:
    """What else the user asked for; it may differ the next time."""
    return {key: getattr(arguments, key) for key in ("weights", "seeds", "set")}


def _identity(chosen: Study, arguments: Namespace) -> dict[str, Any]:
    """What all runs in a folder have in common; a study file counts by its path."""
    is_file = Path(arguments.name).suffix == ".toml"
    return {
        "study": _absolute(arguments.name) if is_file else chosen.name,
        "budget": arguments.budget,
        "data": _absolute(arguments.data),
        "config": _absolute(arguments.config),
    }


def _absolute(path: str | None) -> str | None:
    return str(Path(path).resolve()) if path else None


def _choices(arguments: Namespace) -> Choices:
    changes: dict[str, Any] = {}
    for change in arguments.set:
        key = change.partition("=")[0].strip()
        nested: dict[str, Any] = {}
        apply_changes(nested, [change])
        for part in key.split("."):
            nested = nested[part]
        changes[key] = nested
    return Choices(
        data=Path(arguments.data) if arguments.data else None,
        weights=arguments.weights,
        seeds=arguments.seeds,
        threads=arguments.threads,
        changes=changes,
        only=arguments.only,
    )


def _runner(engine: Engine, failed: list[str]) -> RunSweep:
    """Runs one sweep after the other, with the display of `cotrunk sweep`."""

    def run_sweep(name: str, spec: Spec, folder: Path) -> None:
        prepared = prepare_sweep(spec, folder)
        say(f"{name}: {plural(len(planned_trials(spec)), 'trial')}")
        trials = run_watched(prepared, engine)
        failed.extend(f"{t.run}: {t.error}" for t in trials if t.state == "failed")

    return run_sweep


def _document(
    outcome: Outcome, arguments: Namespace, recommended: Recommendation | None
) -> Document:
    document = {
        **outcome.document(),
        "version": __version__,
        "budget": arguments.budget,
        "data": arguments.data,
        "weights": arguments.weights,
        "report_page": str(Path(arguments.out) / REPORT),
    }
    return document | ({"recommendation": recommended.document()} if recommended else {})


def _report(outcome: Outcome, folder: Path, recommended: Recommendation | None) -> None:
    try:
        write_report = report_writer()
    except UserError as error:  # the results do not need the packages that draw
        say(f"note: {error}")
        return
    write_report(
        outcome.records,
        outcome.broken,
        None,
        folder / REPORT,
        title=outcome.study.title,
        verdict_lines=recommended.sentences() if recommended else verdict_lines(outcome),
        first=sections_of(outcome),
    )
    say(f"wrote {folder / REPORT}")


def _dry_run(study: Study, specs: dict[str, Spec], folder: Path, *, as_json: bool) -> Document:
    document: Document = {"study": study.name, "sweeps": {}, "seconds": 0.0}
    process, bases = process_seconds(), []
    for number, (name, spec) in enumerate(specs.items(), 1):
        say(f"timing the first steps of {name} ({number} of {len(specs)})")
        prepared, trials = prepare_sweep(spec, folder / name), planned_trials(spec)
        with counting() as counter:
            found = estimate(prepared, trials, process=process, on_progress=counter)
        bases.append(found.basis)
        document["sweeps"][name] = _planned(prepared, trials, found)
        document["seconds"] = round(document["seconds"] + document["sweeps"][name]["seconds"], 1)
    if not as_json:
        studies.show_dry_run(document, bases, study.notes)
    return document


def _planned(prepared: Sweep, trials: list[TrialSpec], found: Estimate) -> dict[str, Any]:
    """A sweep in a dry run; ``seconds`` are those of the trials that are still to do."""
    states = [state.state for state in prepared.read(trials)]
    both = list(zip(trials, states, strict=True))
    left = [found.seconds[trial.name] for trial, state in both if state not in DONE]
    return {
        "trials": [
            {
                "choices": dict(trial.choices),
                "seed": trial.seed,
                "state": state,
                "steps": found.steps[trial.name],
            }
            for trial, state in both
        ],
        "finished": len(trials) - len(left),
        "steps": sorted(set(found.steps.values())),
        "seconds": round(total_seconds(left, prepared.spec.max_concurrent), 1),
    }


def _list(*, as_json: bool) -> Document:
    known = {**titles(), SHARING: "How much should the tasks of your config share?"}
    if not as_json:
        listed = table("", ["study", ""], known.items())
        listed.columns[1].justify = "left"
        out().print(listed)
    return {"studies": known}
