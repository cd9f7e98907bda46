"""The sweeps of a study as specs: presets at its budget, on the data at hand."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cotrunk.build.presets import preset_text
from cotrunk.build.trial import DEFAULT_SEED, Base, config_base, with_changes
from cotrunk.data.tokens.workers import cores
from cotrunk.errors import UserError
from cotrunk.study.definition import Study, SweepPart
from cotrunk.study.selection import value_at
from cotrunk.study.sweep.read_axes import read_axes
from cotrunk.study.sweep.search import grid
from cotrunk.study.sweep.spec import Spec
from cotrunk.study.sweep.trials import TrialSpec, plan_points, raw_of

VARIANT = "variant"
"""The axis of named settings."""
COURSE = ("ids-sst", "quora", "sts")
SPLITS = ("train", "dev")
BestOf = Callable[[str, str, str], list[Any]]
"""(sweep, key, score) -> the values of a setting, from the best run to the worst."""


@dataclass(frozen=True)
class Choices:
    """What the user decides about a study. ``changes`` are those of --set, by dotted key.

    ``paraphrase_dev`` is a part of the dev file in ``data`` that is used in its place; ``only``
    are the sweeps that run now, all if empty.
    """

    data: Path | None = None
    paraphrase_dev: Path | None = None
    weights: str | None = None
    seeds: int | None = None
    threads: int = 1
    changes: Mapping[str, Any] | None = None
    only: Sequence[str] = ()

    def runs_now(self, sweep: str) -> bool:
        return not self.only or sweep in self.only


def spec_of_sweep(study: Study, name: str, choices: Choices, best_of: BestOf) -> Spec:
    """A sweep as the sweep command knows it."""
    part = study.sweeps[name]
    base = _base(study, part, choices, place=f"study {study.name}, sweep {name}")
    axes = {key: _values(value, key, best_of) for key, value in part.axes.items()}
    if part.variants:
        axes[VARIANT] = {"variants": part.variants}
    own = part.seeds or (1 if part.search else study.budget.seeds)
    wanted = own if part.search else choices.seeds or own
    first = base.raw.get("train", {}).get("seed", DEFAULT_SEED)
    return Spec(
        place=base.place,
        base=base,
        axes=read_axes(axes, [], base.raw),
        seeds=tuple(first + number for number in range(wanted)),
        max_concurrent=max(1, cores() // choices.threads),
        threads=choices.threads,
    )


def planned_trials(spec: Spec) -> list[TrialSpec]:
    return plan_points(grid(spec.axes), spec.seeds)


def trial_counts(specs: Mapping[str, Spec]) -> dict[str, int]:
    """How many trials each sweep has."""
    return {name: len(planned_trials(spec)) for name, spec in specs.items()}


def planned_specs(study: Study, choices: Choices) -> dict[str, Spec]:
    """All sweeps that can run, before any has; the first values stand in for earlier results."""
    specs: dict[str, Spec] = {}

    def first(sweep: str, key: str, _by: str) -> list[Any]:
        if sweep not in specs:  # it is skipped, or its own errors are reported
            return []
        trials = planned_trials(specs[sweep])
        found = [value_at(raw_of(specs[sweep], trial), key) for trial in trials]
        return [value for n, value in enumerate(found) if value not in found[:n]]

    for name, part in study.sweeps.items():
        if not why_skipped(part, choices.data):
            specs[name] = spec_of_sweep(study, name, choices, first)
    return specs


def why_skipped(part: SweepPart, data: Path | None) -> str | None:
    """Why a sweep cannot run on the data at hand."""
    if part.skip is not None:
        return part.skip
    missing = [file for file in part.needs if data is None or not (data / file).is_file()]
    if not missing:
        return None
    where = "not part of the sample data; give --data DIR" if data is None else f"not in {data}"
    return f"{', '.join(missing)}: {where}"


def refuse_missing_data(data: Path | None) -> None:
    """The course's files, all of them, before anything starts."""
    if data is None:
        return
    files = [f"{stem}-{split}.csv" for stem in COURSE for split in SPLITS]
    missing = [file for file in files if not (data / file).is_file()]
    if not data.is_dir():
        raise UserError(f"--data {data}: there is no such folder")
    if missing:
        raise UserError(f"--data {data}: files of the course are missing: {', '.join(missing)}")


def _base(study: Study, part: SweepPart, choices: Choices, *, place: str) -> Base:
    found = replace(_unchanged(study, part, choices), place=place)
    unset = [*study.budget.unset, *part.unset]
    changes = {**study.budget.overrides, **part.overrides, **(choices.changes or {})}
    kept = {
        key: _with_files(value, part.needs, choices.data)
        for key, value in changes.items()
        if key not in unset
    }
    there = [key for key in unset if value_at(found.raw, key) is not None]
    return with_changes(found, unset=there, overrides=kept)


def _unchanged(study: Study, part: SweepPart, choices: Choices) -> Base:
    if part.base is not None:
        base = config_base(study.folder / part.base)
        weights = {"encoder.weights": choices.weights} if choices.weights else {}
        return with_changes(base, unset=[], overrides=weights)
    assert part.preset is not None
    text = preset_text(
        part.preset,
        data=None if choices.data is None else str(choices.data.resolve()),
        weights=choices.weights,
        as_reported=study.budget.as_reported,
        base=Path.cwd(),
    )
    raw = tomllib.loads(text)
    if choices.paraphrase_dev is not None:
        raw["tasks"]["para"]["dev"] = str(choices.paraphrase_dev.resolve())
    return Base(raw, Path.cwd(), f"preset {part.preset}")


def _with_files(value: Any, needs: Sequence[str], data: Path | None) -> Any:
    """Names of files that a sweep needs become paths in the folder of the data."""
    if isinstance(value, dict):
        return {key: _with_files(inner, needs, data) for key, inner in value.items()}
    if isinstance(value, str) and value in needs and data is not None:
        return str((data / value).resolve())
    return value


def _values(value: Any, key: str, best_of: BestOf) -> Any:
    """An axis whose values depend on an earlier sweep, as a list."""
    if not isinstance(value, dict) or "best_of" not in value:
        return value
    ranked = best_of(value["best_of"], key, value["by"])
    ranked = [found for found in ranked if found not in value.get("without", [])]
    if not ranked:
        raise UserError(f"axes: {key}: the sweep {value['best_of']} has no finished run to rank")
    return ranked[: value["count"]]
