"""Run the sweeps of a study, then conclude: tables and verdicts from the run folders alone."""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cotrunk.build.presets import parameters_of, preset_text
from cotrunk.build.trial import Base, with_changes
from cotrunk.errors import Errors, UserError, complaints, did_you_mean
from cotrunk.model.weights.locate import shape_of
from cotrunk.study.claims import Judged, judge
from cotrunk.study.definition import (
    Count,
    Study,
    Table,
    as_list,
    selections_of,
    sides_of,
    used_names,
)
from cotrunk.study.dev_rows import dev_part
from cotrunk.study.layout import Filled, filled
from cotrunk.study.measures import NUMBERS, OVERALL, TM, is_measured, is_number
from cotrunk.study.plan import (
    Choices,
    planned_specs,
    planned_trials,
    refuse_missing_data,
    spec_of_sweep,
    why_skipped,
)
from cotrunk.study.records import Broken, RunRecord, find_runs, read_runs
from cotrunk.study.selection import differing, is_selected, ranked_values, selected, value_at
from cotrunk.study.sweep.spec import Spec
from cotrunk.study.sweep.trials import raw_of, refuse_wrong_trials

COUNTED = "random:bert-base"
RunSweep = Callable[[str, Spec, Path], None]
"""(name, spec, folder): runs a sweep, or continues it."""


@dataclass(frozen=True)
class Outcome:
    """``skipped``: why sweeps did not run, by name; ``groups``: finished runs by their names."""

    study: Study
    records: tuple[RunRecord, ...]
    broken: tuple[Broken, ...]
    groups: Mapping[str, Sequence[RunRecord]]
    skipped: Mapping[str, str]
    tables: tuple[Filled, ...]
    judged: tuple[Judged, ...]

    def document(self) -> dict[str, Any]:
        return {
            "study": self.study.name,
            "title": self.study.title,
            "report": self.study.report,
            "notes": self.study.notes,
            "runs": {
                name: [str(run.path) for run in runs] for name, runs in self.groups.items() if runs
            },
            "skipped": dict(self.skipped),
            "broken": [{"run": str(each.path), "why": each.why} for each in self.broken],
            "tables": [
                _table_document(*both) for both in zip(self.tables, self.study.tables, strict=True)
            ],
            "claims": [
                judged.document() | {"sweeps": _sweeps_of(self.study, sides_of(judged.claim))}
                for judged in self.judged
            ],
        }


def _table_document(made: Filled, table: Table) -> dict[str, Any]:
    """``runs``: the name of a row's runs; None if the row has printed values only."""
    document = made.document()
    rows = zip(document["rows"], table.rows, strict=True)
    return document | {"rows": [row | {"runs": given.runs} for row, given in rows]}


def _sweeps_of(study: Study, names: Sequence[str]) -> list[str]:
    """The sweeps of some names of runs; those that are only counted have none."""
    chosen = selections_of(study)
    return list(dict.fromkeys(chosen[name].sweep for name in names if name in chosen))


def with_dev_part(study: Study, choices: Choices, out: Path) -> Choices:
    """The choices with a part of the paraphrase dev rows, if the budget wants only a part."""
    refuse_missing_data(choices.data)
    if choices.data is None or study.budget.dev_rows is None:
        return choices
    return replace(choices, paraphrase_dev=dev_part(choices.data, out, study.budget.dev_rows))


def check(study: Study, choices: Choices) -> dict[str, Spec]:
    """All sweeps that will run, after checking every trial; reports all errors at once."""
    refuse_missing_data(choices.data)
    _refuse_unknown(study, choices.only)
    errors = Errors()
    specs: dict[str, Spec] = {}
    with errors.gathered():
        specs = planned_specs(study, choices)
        _refuse_nothing(study, specs, choices.data)
    errors.lines += _wrong_trials(study, specs)
    errors.lines += _wrong_selections(study, specs)
    errors.lines += _not_measured(study, specs)
    errors.refuse()
    return specs


def _wrong_trials(study: Study, specs: Mapping[str, Spec]) -> list[str]:
    """What is wrong in the trials of each sweep; what is wrong in several sweeps, once."""
    missing = _missing_encoders(specs.values())
    found: dict[str, list[str]] = {}
    for spec in specs.values():
        lines = [line for encoder, line in missing.items() if encoder in _encoders(spec)]
        lines = lines or complaints(partial(refuse_wrong_trials, spec, planned_trials(spec)))
        for line in lines:
            found.setdefault(line.removeprefix(f"{spec.place}: "), []).append(spec.place)
    return [
        f"{places[0]}: {line}"
        if len(places) == 1
        else f"study {study.name}: {line} ({len(places)} sweeps)"
        for line, places in found.items()
    ]


Encoder = tuple[str, Path]
"""The weights, and the folder that their path is relative to."""


def _missing_encoders(specs: Iterable[Spec]) -> dict[Encoder, str]:
    """Why encoders cannot be found; each is tried once, because the network may be slow."""
    encoders = dict.fromkeys(encoder for spec in specs for encoder in _encoders(spec))
    return {
        encoder: line
        for encoder in encoders
        for line in complaints(partial(shape_of, encoder[0], base=encoder[1]))
    }


def _encoders(spec: Spec) -> dict[Encoder, None]:
    found = (value_at(raw_of(spec, t), "encoder.weights") for t in planned_trials(spec))
    return {(weights, spec.base.folder): None for weights in found if isinstance(weights, str)}


def _refuse_unknown(study: Study, only: Sequence[str]) -> None:
    for name in only:
        if name not in study.sweeps:
            known = did_you_mean(name, study.sweeps) or f"; it has {', '.join(study.sweeps)}"
            raise UserError(f"--only {name}: study {study.name} has no such sweep{known}")


def _refuse_nothing(study: Study, specs: Mapping[str, Spec], data: Path | None) -> None:
    """A study of which no sweep can run would end with empty tables."""
    if specs:
        return
    whys = dict.fromkeys(why_skipped(part, data) for part in study.sweeps.values())
    raise UserError(f"study {study.name}: {'; '.join(why for why in whys if why)}")


def run(study: Study, choices: Choices, out: Path, run_sweep: RunSweep) -> Outcome:
    """The same call continues a study that was stopped."""
    for name, part in study.sweeps.items():
        if choices.runs_now(name) and not why_skipped(part, choices.data):
            run_sweep(name, spec_of_sweep(study, name, choices, _best_of(out)), out / name)
    return conclude(study, choices, out)


def conclude(study: Study, choices: Choices, out: Path) -> Outcome:
    """Tables and verdicts from the runs that are there."""
    folders = [out / name for name in study.sweeps if (out / name).is_dir()]
    records, broken = read_runs(_runs_in(folders))
    return conclude_records(study, choices, records, out=out, broken=broken)


def conclude_records(
    study: Study,
    choices: Choices,
    records: Sequence[RunRecord],
    *,
    out: Path,
    broken: Sequence[Broken] = (),
) -> Outcome:
    """``out``: the folder that has a folder of runs for each sweep, as the paths of records do."""
    skipped = {
        name: why
        for name, part in study.sweeps.items()
        if (why := why_skipped(part, choices.data)) is not None
    }
    finished = [run for run in records if run.state == "finished"]
    groups = {
        name: selected(finished, selection, out) for name, selection in selections_of(study).items()
    }
    _refuse_mixed(study, groups)
    counts = {name: _counted(count) for name, count in study.counts.items()}
    return Outcome(
        study=study,
        records=tuple(records),
        broken=tuple(broken),
        groups=groups,
        skipped=skipped,
        tables=tuple(filled(table, groups) for table in study.tables),
        judged=tuple(judge(claim, groups, counts, _whys(study, skipped)) for claim in study.claims),
    )


def _whys(study: Study, skipped: Mapping[str, str]) -> dict[str, str]:
    """By name of runs: why their sweep did not run."""
    chosen = selections_of(study)
    return {name: skipped[s.sweep] for name, s in chosen.items() if s.sweep in skipped}


def _runs_in(folders: Sequence[Path]) -> list[Path]:
    there = [folder for folder in folders if any(folder.glob("*/run.json"))]
    return find_runs(there) if there else []


def _best_of(out: Path) -> Callable[[str, str, str], list[Any]]:
    def best_of(sweep: str, key: str, by: str) -> list[Any]:
        records, _ = read_runs(_runs_in([out / sweep]))
        return ranked_values([run for run in records if run.state == "finished"], key, by)

    return best_of


def _counted(count: Count) -> int:
    text = preset_text(
        count.preset, weights=COUNTED, as_reported=count.as_reported, base=Path.cwd()
    )
    preset = Base(tomllib.loads(text), Path.cwd(), f"preset {count.preset}")
    changed = with_changes(preset, unset=[], overrides=count.overrides)
    return parameters_of(changed.raw, changed.place)


def _wrong_selections(study: Study, specs: Mapping[str, Spec]) -> list[str]:
    """Names that no planned trial answers to, or, if they are used, several different ones."""
    used, wrong = {name for _, name in used_names(study)}, []
    for name, selection in selections_of(study).items():
        if selection.sweep not in specs:
            continue
        spec = specs[selection.sweep]
        mine = [t for t in planned_trials(spec) if is_selected(raw_of(spec, t), selection)]
        if not mine:
            why = f"no trial of the sweep {selection.sweep} has these settings"
            wrong.append(f"{study.name}: runs {name!r}: {why}")
        elif name in used and selection.best is None:
            known = [trial.choices for trial in mine]
            keys = [key for key in known[0] if any(c.get(key) != known[0][key] for c in known)]
            wrong += [_mixed(study, name, keys)] if keys else []
    return wrong


def _mixed(study: Study, name: str, keys: Sequence[str]) -> str:
    return (
        f"{study.name}: runs {name!r}: settings differ in {', '.join(keys)}; "
        "under [runs], name one of them with where, or the best with best"
    )


def _refuse_mixed(study: Study, groups: Mapping[str, Sequence[RunRecord]]) -> None:
    """One run per seed is compared, so runs of other settings would be ignored silently."""
    used = dict.fromkeys(name for _, name in used_names(study))
    mixed = [(name, keys) for name in used if (keys := differing(groups.get(name, ())))]
    if mixed:
        raise UserError(*(_mixed(study, name, keys) for name, keys in mixed))


def _not_measured(study: Study, specs: Mapping[str, Spec]) -> list[str]:
    """Columns and claims about tasks or numbers that their runs do not have."""
    wrong = []
    for table in study.tables:
        tasks = _tasks_of(study, specs, [row.runs for row in table.rows if row.runs])
        wrong += [
            f"table {table.title!r}: column {_unknown(column, tasks)}"
            for column in table.columns
            if tasks and column not in TM and not is_measured(column, tasks)
        ]
    for claim in study.claims:
        tasks = _tasks_of(study, specs, sides_of(claim))
        for on in as_list(claim.on) if tasks else ():
            if not is_measured(on, tasks):
                wrong.append(f"claim {claim.id}: on {_unknown(on, tasks)}")
            elif claim.test == "ratio" and not is_number(on):
                wrong.append(f"claim {claim.id}: ratio is for costs and counts; {on} is a score")
    return [f"{study.name}: {line}" for line in wrong]


def _unknown(measure: str, tasks: Sequence[str]) -> str:
    known = [*tasks, *OVERALL, *NUMBERS]
    hint = did_you_mean(measure, known) or f"; the tasks are {', '.join(tasks)}"
    return f"{measure!r}: no such task or measure{hint}"


def _tasks_of(study: Study, specs: Mapping[str, Spec], names: Sequence[str]) -> list[str]:
    """All tasks of the trials of some names; none if a sweep is skipped, or all are counted."""
    sweeps = _sweeps_of(study, names)
    if not all(sweep in specs for sweep in sweeps):
        return []
    found = [
        raw_of(specs[sweep], trial)["tasks"]
        for sweep in sweeps
        for trial in planned_trials(specs[sweep])
    ]
    return list(dict.fromkeys(task for tasks in found for task in tasks))
