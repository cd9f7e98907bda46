"""Kinds and places that a caller adds to the built-in ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotrunk.kinds import KINDS, Kind
from cotrunk.model.sharing.place import AddPlaces


@dataclass(frozen=True)
class Extensions:
    """``kinds``: additional kinds of tasks, by name. ``places``: functions from a plan's context
    to the places to add to the plan.

    A run trained with extensions must be loaded and resumed with the same ones.
    """

    kinds: Mapping[str, type[Kind]] = field(default_factory=dict)
    places: Sequence[AddPlaces] = ()

    @property
    def all_kinds(self) -> dict[str, type[Kind]]:
        """The built-in kinds and these."""
        return {**KINDS, **self.kinds}


NO_EXTENSIONS = Extensions()
