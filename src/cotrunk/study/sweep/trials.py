"""The trials of a sweep: a point and a seed each, and the name of their run folder."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cotrunk.build.trial import Raw, check_trial, raw_settings
from cotrunk.errors import UserError, plural
from cotrunk.study.sweep.axes import Point, digest
from cotrunk.study.sweep.spec import Spec

LONGEST_NAME = 150
LISTED = 10
"""Error lines that are shown for different trials."""


@dataclass(frozen=True)
class TrialSpec:
    """A trial that may or may not have started. Lower numbers start first."""

    number: int
    point: Point
    seed: int

    @cached_property
    def name(self) -> str:
        return name_of(self.point, self.seed)

    @property
    def choices(self) -> Mapping[str, Any]:
        return self.point.choices


def plan_points(points: Sequence[Point], seeds: Sequence[int]) -> list[TrialSpec]:
    """All points with the first seed, then all with the second...

    If time runs out, more points have been tried.
    """
    pairs = [(point, seed) for seed in seeds for point in points]
    return [TrialSpec(number, point, seed) for number, (point, seed) in enumerate(pairs)]


def name_of(point: Point, seed: int) -> str:
    """Depends on no other point; the labels of an axis are distinct already."""
    name = f"{point.label},seed={seed}".lstrip(",")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{point.label[: LONGEST_NAME - 30]}-{digest(dict(point.choices))},seed={seed}"


def raw_of(spec: Spec, trial: TrialSpec) -> Raw:
    """The config of a trial."""
    return _raw(spec, trial)[0]


def _raw(spec: Spec, trial: TrialSpec) -> tuple[Raw, set[tuple[str, ...]]]:
    point = trial.point
    return raw_settings(
        spec.base, point.changes, removed=point.removed, seed=trial.seed, threads=spec.threads
    )


def refuse_wrong_trials(spec: Spec, trials: Iterable[TrialSpec]) -> None:
    """Check the settings of every trial; a line that holds for several trials is reported once."""
    found: dict[str, list[str]] = {}
    known: dict[str, TrialSpec] = {}
    trials = list(trials)
    for trial in trials:
        try:
            raw, changed = _raw(spec, trial)
            same = known.setdefault(digest(raw, 64), trial)
            if same is not trial:
                raise UserError(_same_settings(same, trial, spec))
            if trial.seed == spec.seeds[0]:  # others differ in nothing that is checked
                check_trial(raw, spec.base, changed=changed, place=spec.place)
        except UserError as error:
            for line in error.lines:
                found.setdefault(_placed(line, spec), []).append(trial.name)
    if found:
        points = sum(trial.seed == spec.seeds[0] for trial in trials)
        lines = [line + _where(names, points) for line, names in found.items()]
        more = [f"{spec.place}: {len(lines) - LISTED} more errors"] if len(lines) > LISTED else []
        raise UserError(*lines[:LISTED], *more)


def _placed(line: str, spec: Spec) -> str:
    """Checks that need the whole config do not say where it is from."""
    is_placed = line.startswith((f"{spec.place}: ", f"{spec.base.place}: "))
    return line if is_placed else f"{spec.place}: {line}"


def _where(names: Sequence[str], points: int) -> str:
    if len(names) >= points:
        return ""
    others = f" and {plural(len(names) - 1, 'other trial')}" if len(names) > 1 else ""
    return f" (trial {names[0]}{others})"


def _same_settings(one: TrialSpec, other: TrialSpec, spec: Spec) -> str:
    return (
        f"{spec.place}: trials {one.name} and {other.name} have the same settings; "
        "remove one of the values, or zip the axes"
    )
