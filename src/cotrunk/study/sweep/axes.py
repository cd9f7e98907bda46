"""The axes of a sweep: which values a setting takes, and how a run is named after them."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

DIGITS = 6
"""Significant digits of drawn numbers: what is shown is exactly what is trained with."""
LONGEST_LABEL = 40
UNSAFE = re.compile(r"[^A-Za-z0-9.+_]+")


@dataclass(frozen=True)
class Point:
    """A choice on one axis, or on all.

    ``choices`` is what is reported; ``changes`` are settings by dotted key, ``removed`` are keys to
    remove; ``label`` is its part in the name of a run.
    """

    choices: Mapping[str, Any]
    changes: Mapping[str, Any]
    label: str
    removed: tuple[str, ...] = ()


class Axis(Protocol):
    """``sizes`` has an entry per coordinate: the number of values, or 0 for any in [0, 1)."""

    @property
    def name(self) -> str: ...

    @property
    def keys(self) -> tuple[str, ...]: ...

    @property
    def sizes(self) -> tuple[int, ...]: ...

    def at(self, coordinates: Sequence[float]) -> Point: ...

    def coordinates(self, choices: Mapping[str, Any]) -> tuple[float, ...]:
        """Where a point of this axis is, so that a search can learn from it."""
        ...

    def grid(self) -> list[Point]: ...


@dataclass(frozen=True)
class Listed:
    """Values that are written out; ``samples`` of them in a grid, or all."""

    name: str
    keys: tuple[str, ...]
    points: tuple[Point, ...]
    samples: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        return (len(self.points),)

    def at(self, coordinates: Sequence[float]) -> Point:
        return self.points[int(coordinates[0])]

    def coordinates(self, choices: Mapping[str, Any]) -> tuple[float, ...]:
        mine = {key: choices.get(key) for key in self.points[0].choices}
        return (next(n for n, point in enumerate(self.points) if point.choices == mine),)

    def grid(self) -> list[Point]:
        if self.samples is None:
            return list(self.points)
        order = generator(self.name).permutation(len(self.points))
        return [self.points[n] for n in sorted(order[: self.samples])]


@dataclass(frozen=True)
class Interval:
    """Any number from ``low`` to ``high``; with ``log``, its logarithm is uniform."""

    name: str
    low: float
    high: float
    log: bool = False
    samples: int | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (0,)

    def at(self, coordinates: Sequence[float]) -> Point:
        low, high = self._scaled(self.low), self._scaled(self.high)
        value = low + (high - low) * coordinates[0]
        value = rounded(math.exp(value) if self.log else value)
        choices = {self.name: min(max(value, self.low), self.high)}
        return Point(choices, choices, f"{short(self.name)}={label_of(choices[self.name])}")

    def coordinates(self, choices: Mapping[str, Any]) -> tuple[float, ...]:
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(choices[self.name]) - low) / (high - low)
        return (min(max(share, 0.0), 1.0),)

    def grid(self) -> list[Point]:
        assert self.samples is not None
        return [self.at(generator(self.name, n).random(1).tolist()) for n in range(self.samples)]

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else value


@dataclass(frozen=True)
class Simplex:
    """Positive numbers for ``keys`` that add up to ``total``; all such points are equally likely.

    A coordinate is the quantile of a key's part of what the keys before it left.
    """

    name: str
    keys: tuple[str, ...]
    total: float = 1.0
    samples: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        return (0,) * (len(self.keys) - 1)

    def at(self, coordinates: Sequence[float]) -> Point:
        values: list[float] = []
        left = self.total
        for number, quantile in enumerate(coordinates):
            others = len(self.keys) - 1 - number
            values.append(round(left * (1 - (1 - quantile) ** (1 / others)), DIGITS))
            left -= values[-1]
        values.append(round(left, DIGITS))
        choices = dict(zip(self.keys, values, strict=True))
        return Point(choices, choices, f"{short(self.name)}={label_of(values)}")

    def coordinates(self, choices: Mapping[str, Any]) -> tuple[float, ...]:
        found: list[float] = []
        left = self.total
        for number, key in enumerate(self.keys[:-1]):
            part = choices[key] / left if left > 0 else 0.0
            others = len(self.keys) - 1 - number
            found.append(min(max(1 - (1 - min(part, 1.0)) ** others, 0.0), 1.0))
            left -= choices[key]
        return tuple(found)

    def grid(self) -> list[Point]:
        assert self.samples is not None
        size = len(self.sizes)
        return [self.at(generator(self.name, n).random(size).tolist()) for n in range(self.samples)]


def generator(*names: object) -> np.random.Generator:
    """Random numbers that depend on nothing but the names."""
    seed = hashlib.sha256(json.dumps(names).encode()).digest()
    return np.random.default_rng(list(seed))


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def short(key: str) -> str:
    """The end of a dotted key that says what it is: ``lr``, but ``sst.weight``."""
    parts = key.split(".")
    return ".".join(parts[1:] if parts[0] == "tasks" and len(parts) > 2 else parts[-1:])


def label_of(value: object) -> str:
    """A value in characters that are safe in file names, shortened if it is long."""
    text = _spelled(value)
    if isinstance(value, int | float):  # keeps its sign
        return text
    safe = UNSAFE.sub("-", text).strip("-")
    if len(safe) > LONGEST_LABEL or not safe:
        return f"{safe[: LONGEST_LABEL // 2]}-{digest(value)}".lstrip("-")
    return safe


def digest(value: object, length: int = 6) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:length]


def _spelled(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.12g}".replace("e-0", "e-")
        case list():
            return "+".join(map(_spelled, value))
        case dict():
            return "+".join(f"{key}{_spelled(inner)}" for key, inner in value.items())
    return str(value)
