"""Which trial is next. Finished ones are read from run folders, so a sweep can always resume."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from cotrunk.errors import UserError
from cotrunk.runs.folder import RunFolder
from cotrunk.study.sweep.axes import Point
from cotrunk.study.sweep.read_axes import merged
from cotrunk.study.sweep.search import Observed, grid, random_points, size_of_grid, tpe_point
from cotrunk.study.sweep.spec import Spec
from cotrunk.study.sweep.state import Trial, read_record, read_trial
from cotrunk.study.sweep.trials import TrialSpec, plan_points

MANY = 1_000_000
DRAWN = 500
"""Points of a random search with no limit but time; each is checked before the first starts."""


class TrialOrder(Protocol):
    """The trials by number; ``get`` returns None if it cannot be known yet."""

    @property
    def count(self) -> int: ...

    def get(self, number: int) -> TrialSpec | None: ...


class FixedOrder:
    """All trials are known from the start."""

    def __init__(self, trials: Sequence[TrialSpec]) -> None:
        self.trials = trials
        self.count = len(trials)

    def get(self, number: int) -> TrialSpec | None:
        return self.trials[number]


class TpeOrder:
    """Points depend on the results of earlier ones: all but the last ``lag`` trials.

    So a point does not depend on which of several running trials is the fastest.
    """

    def __init__(self, spec: Spec, out: Path, *, lag: int) -> None:
        self.spec, self.out, self.lag = spec, out, lag
        points = spec.trials or (MANY if spec.minutes else size_of_grid(spec.axes))
        self.count = points * len(spec.seeds)
        self.points: list[Point] = []
        self.finished: dict[str, Trial] = {}
        self.saved = _saved_trials(out)

    def get(self, number: int) -> TrialSpec | None:
        place, seed = divmod(number, len(self.spec.seeds))
        if place == len(self.points):
            observed = self._observed(number - self.lag)
            if observed is None:
                return None
            taken = [point.choices for point in self.points]
            point = self._saved_point(number) or tpe_point(self.spec.axes, place, observed, taken)
            if point is None:  # all points have been tried
                self.count = number
                return None
            self.points.append(point)
        return self._planned(place, seed)

    def saved_trials(self) -> list[TrialSpec]:
        """The trials that have a folder."""
        found = []
        for number, record in self.saved.items():
            seed = self.spec.seeds[number % len(self.spec.seeds)]
            if record.get("seed") != seed:
                raise UserError(
                    f"{self.out}: its trials have other seeds than {self.spec.place}, and "
                    'search = "tpe" builds on them; give another folder'
                )
            point = self._saved_point(number)
            assert point is not None
            found.append(TrialSpec(number, point, seed))
        return found

    def _planned(self, place: int, seed: int) -> TrialSpec:
        point, number = self.points[place], place * len(self.spec.seeds) + seed
        return TrialSpec(number, point, self.spec.seeds[seed])

    def _observed(self, last: int) -> list[Observed] | None:
        """The points of the trials up to ``last``, or None if one of them has not ended."""
        seeds = range(len(self.spec.seeds))
        observed = []
        for place, point in enumerate(self.points):
            trials = [
                self._read(place, seed) for seed in seeds if place * len(seeds) + seed <= last
            ]
            if not all(trial.has_ended for trial in trials):
                return None
            if len(trials) == len(seeds):
                values = [trial.objective(self.spec.objective) for trial in trials]
                known = [value for value in values if value is not None]
                whole = len(known) == len(seeds)
                observed.append(Observed(point.choices, sum(known) / len(known) if whole else None))
        return observed

    def _read(self, place: int, seed: int) -> Trial:
        planned = self._planned(place, seed)
        if planned.name not in self.finished:
            trial = read_trial(self.out, planned, self.spec.asha)
            if trial.state != "finished":
                return trial
            self.finished[planned.name] = trial
        return self.finished[planned.name]

    def _saved_point(self, number: int) -> Point | None:
        """The point that a folder says was tried under this number."""
        if number not in self.saved:
            return None
        choices = self.saved[number]["choices"]
        try:
            points = [axis.at(axis.coordinates(choices)) for axis in self.spec.axes]
        except (KeyError, StopIteration, TypeError, ValueError):
            raise UserError(
                f"{self.out}: its trials have other axes than {self.spec.place}, and "
                'search = "tpe" builds on them; give another folder'
            ) from None
        point = merged(points)
        exact = {key: choices[key] for key in point.changes if key in choices}
        return replace(point, choices=choices, changes={**point.changes, **exact})


def _saved_trials(out: Path) -> dict[int, Mapping[str, Any]]:
    records = [read_record(RunFolder(file.parent)) for file in sorted(out.glob("*/trial.json"))]
    return {record["number"]: record for record in records if "number" in record}


def known_trials(order: TrialOrder) -> list[TrialSpec]:
    """All trials that are known before anything runs."""
    found: list[TrialSpec] = []
    while len(found) < order.count and (trial := order.get(len(found))):
        found.append(trial)
    return found


def order_of(spec: Spec, out: Path, *, lag: int) -> TrialOrder:
    match spec.search:
        case "grid":
            return FixedOrder(plan_points(grid(spec.axes), spec.seeds))
        case "random":
            count = spec.trials or (DRAWN if spec.minutes else size_of_grid(spec.axes))
            return FixedOrder(plan_points(random_points(spec.axes, count), spec.seeds))
    return TpeOrder(spec, out, lag=lag)


class Queue:
    """Hands out the trials that have not ended, in their order; a failed one is tried again."""

    def __init__(self, order: TrialOrder, spec: Spec, out: Path) -> None:
        self.order, self.spec, self.out = order, spec, out
        self.planned: list[TrialSpec] = []
        self.held: TrialSpec | None = None
        self.is_closed = False
        self.ends = time.monotonic() + spec.minutes * 60 if spec.minutes else None

    @property
    def is_over(self) -> bool:
        """No trial will be handed out any more."""
        is_empty = self.held is None and len(self.planned) >= self.order.count
        return self.is_closed or self.is_late or is_empty

    @property
    def is_late(self) -> bool:
        return self.ends is not None and time.monotonic() > self.ends

    def has_next(self) -> bool:
        """Whether a trial is left to run now; it is handed out next."""
        self.held = self.held or self._advance()
        return self.held is not None

    def next(self) -> TrialSpec | None:
        """None: not now, or never again (``is_over``)."""
        if self.is_over or not self.has_next():
            return None
        trial, self.held = self.held, None
        return trial

    def _advance(self) -> TrialSpec | None:
        """The next trial that has not ended."""
        while len(self.planned) < self.order.count:
            trial = self.order.get(len(self.planned))
            if trial is None:
                return None
            self.planned.append(trial)
            if self.read(trial).state not in ("finished", "stopped"):
                return trial
        return None

    def read(self, trial: TrialSpec) -> Trial:
        return read_trial(self.out, trial, self.spec.asha)
