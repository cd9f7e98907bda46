"""A plan is a list of places, in the order of the forward pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cotrunk.kinds.task import Task
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.head_plan import HeadPlan
from cotrunk.model.sharing.partition import Group
from cotrunk.model.sharing.place import Acts, Place
from cotrunk.model.sharing.places import head_places

SERVES_SOME = ("pool", "head")
"""Places that not every task has."""
ORDER: dict[Acts, int] = {
    "embed": 0,
    "layer": 1,
    "tokens": 1,
    "inside": 2,
    "beside": 2,
    "pool": 3,
    "vectors": 4,
    "head": 5,
}
"""The order of places, and so of their parameters."""


@dataclass(frozen=True)
class Plan:
    """Every task has exactly one owner at every place, except that heads and poolers serve some.

    Tasks with a tied head have no owner at ``vectors`` places.
    """

    tasks: tuple[str, ...]
    places: tuple[Place, ...]

    def __post_init__(self) -> None:
        for place in self.places:
            self._check_owners(place)
        names = [place.name for place in self.places]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]}: two places of a plan cannot have the same name")
        depths = [place.depth for place in self.acting("layer")]
        if depths != list(range(len(depths))):
            raise ValueError(f"layers: depths must be 0, 1, 2, ...; found {depths}")
        for place in self.acting("tokens", "inside", "beside"):
            if not place.layers or not set(place.layers) <= set(depths):
                raise ValueError(
                    f"{place.name} acts at layers {list(place.layers)}, "
                    f"but the plan has {len(depths)} layers"
                )
        acts: Acts
        for acts in ("beside", "inside"):
            at = [depth for place in self.acting(acts) for depth in place.layers]
            if len(set(at)) < len(at):
                raise ValueError(f"only one place of a plan can act {acts} a layer")

    def _check_owners(self, place: Place) -> None:
        owned = sorted(task for group in place.partition for task in group)
        some = place.acts in SERVES_SOME
        expected = set(self.tasks) - (self.tied if place.acts == "vectors" else set())
        if owned != sorted(set(owned) & expected if some else expected):
            raise ValueError(
                f"{place.name}: every task needs exactly one owner; "
                f"tasks are {sorted(expected)} but the groups cover {owned}"
            )

    @property
    def tied(self) -> Group:
        """The tasks whose head is tied to the word table."""
        return _tied(self.places)

    def acting(self, *acts: Acts) -> tuple[Place, ...]:
        return tuple(place for place in self.places if place.acts in acts)

    def beside(self, depth: int) -> Place | None:
        """The place that adds to a layer's output before its last norm."""
        return next((p for p in self.acting("beside") if depth in p.layers), None)

    def inside(self, depth: int) -> Place | None:
        """The place that adds to the linear maps of a layer."""
        return next((p for p in self.acting("inside") if depth in p.layers), None)

    def with_places(self, more: Sequence[Place]) -> "Plan":
        """The plan with ``more`` places, each after those of the same kind."""
        return Plan(self.tasks, _ordered(_used([*self.places, *more])))

    def with_saved_places(self, tensors: Sequence[str], *, more: Sequence[Place]) -> "Plan":
        """The plan with those places of ``more`` that have tensors in a trained run."""
        saved = [
            place for place in more if any(name.startswith(f"{place.name}.") for name in tensors)
        ]
        return self.with_places(saved)


def make_plan(
    trunk: Sequence[Place],
    shape: Shape,
    tasks: Sequence[Task],
    heads: Mapping[str, HeadPlan],
) -> Plan:
    """A trunk with the heads of its tasks, without poolers that no task reads."""
    pooled = {name for name, head in heads.items() if head.pooling == "pooler"}
    used = [_used_by(place, pooled) if place.acts == "pool" else place for place in trunk]
    places = [*used, *head_places(tasks, heads, shape)]
    return Plan(tuple(task.name for task in tasks), _ordered(_used(places)))


def _used_by(pooler: Place, pooled: set[str]) -> Place:
    return replace(pooler, partition=tuple(g for g in pooler.partition if g & pooled))


def _used(places: Sequence[Place]) -> list[Place]:
    """The places that have an owner; tied heads do not use ``vectors`` places."""
    tied = _tied(places)
    owned = [
        replace(place, partition=tuple(g - tied for g in place.partition if g - tied))
        if place.acts == "vectors" and tied
        else place
        for place in places
    ]
    return [place for place in owned if place.partition]


def _tied(places: Sequence[Place]) -> Group:
    return frozenset(task for p in places if p.tied for group in p.partition for task in group)


def _ordered(places: Sequence[Place]) -> tuple[Place, ...]:
    def position(place: Place) -> tuple[int, int, bool]:
        order = ORDER[place.acts]
        depth = place.depth or 0 if order == ORDER["layer"] else 0
        return order, depth, place.acts == "tokens"

    return tuple(sorted(places, key=position))
