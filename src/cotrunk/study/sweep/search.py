"""Which points a sweep tries. Every answer depends only on the sweep and on observed results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from cotrunk.errors import UserError
from cotrunk.study.sweep.axes import Axis, Point, generator
from cotrunk.study.sweep.read_axes import merged

TRIES = 50
"""Draws without a new point after which all points count as tried."""


@dataclass(frozen=True)
class Observed:
    """A point that was tried: ``value`` is its score, None if it failed or has none."""

    choices: Mapping[str, Any]
    value: float | None


def grid(axes: Sequence[Axis]) -> list[Point]:
    return [merged(points) for points in product(*(axis.grid() for axis in axes))]


def random_points(axes: Sequence[Axis], count: int) -> list[Point]:
    """Different points, drawn; fewer than ``count`` if there are not as many."""
    points: list[Point] = []
    misses = number = 0
    while len(points) < count and misses < TRIES:
        point = _drawn(axes, "random", number)
        number += 1
        if any(point.choices == other.choices for other in points):
            misses += 1
            continue
        points.append(point)
        misses = 0
    return points


def size_of_grid(axes: Sequence[Axis]) -> int:
    """The default number of points of a search that draws them."""
    return prod(
        getattr(axis, "samples", None) or prod(size or 1 for size in axis.sizes) for axis in axes
    )


def corners(axes: Sequence[Axis]) -> list[Point]:
    """Points that together have every listed value and both ends of every interval."""
    middle = [[0.5 if size == 0 else 0 for size in axis.sizes] for axis in axes]
    found = []
    for number, axis in enumerate(axes):
        for place, size in enumerate(axis.sizes):
            for value in [0.0, 1.0] if size == 0 else range(size):
                moved = [list(part) for part in middle]
                moved[number][place] = value
                found.append(_at(axes, moved))
    return list({str(point.choices): point for point in found}.values())


def tpe_point(
    axes: Sequence[Axis],
    number: int,
    observed: Sequence[Observed],
    taken: Sequence[Mapping[str, Any]],
) -> Point | None:
    """The point with this number, given what is known; None if all points are ``taken``.

    A fresh sampler is asked every time, so nothing must be remembered between calls.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for attempt in range(TRIES):
        seed = int(generator("tpe", number, attempt).integers(2**32))
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed)
        )
        study.add_trials([_as_trial(axes, one) for one in observed])
        asked = study.ask(_distributions(axes))
        point = _at(axes, _grouped(axes, list(asked.params.values())))
        if point.choices not in taken:
            return point
    return next((p for p in _others(axes, number) if p.choices not in taken), None)


def _others(axes: Sequence[Axis], number: int) -> Iterator[Point]:
    for attempt in range(TRIES):
        yield _drawn(axes, "tpe", number, attempt)
    if all(size for axis in axes for size in axis.sizes):
        yield from grid(axes)


def _as_trial(axes: Sequence[Axis], one: Observed) -> Any:
    import optuna

    values = [value for axis in axes for value in axis.coordinates(one.choices)]
    names = _distributions(axes)
    state = optuna.trial.TrialState
    return optuna.trial.create_trial(
        params=dict(zip(names, values, strict=True)),
        distributions=names,
        value=one.value,
        state=state.FAIL if one.value is None else state.COMPLETE,
    )


def _distributions(axes: Sequence[Axis]) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return {
        f"{axis.name} {place}": CategoricalDistribution(list(range(size)))
        if size
        else FloatDistribution(0.0, 1.0)
        for axis in axes
        for place, size in enumerate(axis.sizes)
    }


def _drawn(axes: Sequence[Axis], *names: object) -> Point:
    sizes = [size for axis in axes for size in axis.sizes]
    drawn = generator(*names).random(len(sizes)).tolist()
    scaled = [int(u * size) if size else u for u, size in zip(drawn, sizes, strict=True)]
    return _at(axes, _grouped(axes, scaled))


def _grouped(axes: Sequence[Axis], values: Sequence[float]) -> list[list[float]]:
    rest = list(values)
    return [[rest.pop(0) for _ in axis.sizes] for axis in axes]


def _at(axes: Sequence[Axis], coordinates: Sequence[Sequence[float]]) -> Point:
    return merged([axis.at(where) for axis, where in zip(axes, coordinates, strict=True)])


def refuse_missing_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ModuleNotFoundError:
        raise UserError('search = "tpe" needs optuna; run: pip install "cotrunk[sweep]"') from None
