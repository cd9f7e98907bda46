"""What a caller adds to the kinds and places that the package has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotrunk.kinds import KINDS, Kind
from cotrunk.model.sharing.place import AddPlaces


@dataclass(frozen=True)
class Extensions:
    """``kinds``: more values of ``tasks.X.kind``, by name. ``places``: functions that are given the
    context of a plan and return the places to add to it.

    A run that was trained with extensions is loaded and resumed with the same ones.
    """

    kinds: Mapping[str, type[Kind]] = field(default_factory=dict)
    places: Sequence[AddPlaces] = ()

    @property
    def all_kinds(self) -> dict[str, type[Kind]]:
        """The package's own kinds and these."""
        return {**KINDS, **self.kinds}


NO_EXTENSIONS = Extensions()
