"""Markers of missing values, such as NA: they stand for a label, but are none."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

WORDS = frozenset(["NA", "N/A", "n/a", "#N/A", "null", "NULL", "nan", "NaN"])
SYMBOLS = frozenset("?-")
"""Markers unless they may be classes: beside + or !, or beside a single other value."""


def without_markers(cells: Sequence[Any]) -> tuple[list[Any], Counter[str]]:
    """The other cells, and how often each marker occurs."""
    markers = _markers({_spelled(cell) for cell in cells if not isinstance(cell, list | dict)})
    if not markers:
        return list(cells), Counter()
    others = [cell for cell in cells if _spelled(cell) not in markers]
    return others, Counter(found for cell in cells if (found := _spelled(cell)) in markers)


def _markers(values: set[str]) -> set[str]:
    symbols = {value for value in values if len(value) == 1 and not value.isalnum()}
    has_classes = len(values - WORDS - SYMBOLS) > 1
    return (values & WORDS) | (symbols if symbols <= SYMBOLS and has_classes else set())


def _spelled(cell: object) -> str:
    return str(cell).strip()
