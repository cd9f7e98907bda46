"""What a caller adds to the kinds and places that the package has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Extensions:
    """``kinds``: more values of ``tasks.X.kind``, by name. ``places``: functions that are given the
    context of a plan and return the places to add to it.

    A run that was trained with extensions is loaded and resumed with the same ones.
    """

    kinds: Mapping[str, Any] = field(default_factory=dict)
    places: Sequence[Callable[[Any], Sequence[Any]]] = ()


NO_EXTENSIONS = Extensions()
