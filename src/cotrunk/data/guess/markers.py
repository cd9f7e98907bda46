"""Markers of missing values, such as NA or an infinite number, which are not labels."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import compress
from typing import Any

from cotrunk.numbers import number_of

WORDS = frozenset(["NA", "N/A", "n/a", "#N/A", "null", "NULL", "nan", "NaN"])
SYMBOLS = frozenset("?-")
"""Markers unless they may be classes: beside + or !, or beside a single other value."""


def without_markers(cells: Sequence[Any]) -> tuple[list[Any], Counter[str]]:
    """The other cells, and how often each marker occurs."""
    markers = _markers({_spelled(cell) for cell in cells if not isinstance(cell, list | dict)})
    marked = [(bool(markers) and _spelled(cell) in markers) or _is_infinite(cell) for cell in cells]
    others = [cell for cell, is_marker in zip(cells, marked, strict=True) if not is_marker]
    return others, Counter(map(_spelled, compress(cells, marked)))


def _markers(values: set[str]) -> set[str]:
    symbols = {value for value in values if len(value) == 1 and not value.isalnum()}
    has_classes = len(values - WORDS - SYMBOLS) > 1
    return (values & WORDS) | (symbols if symbols <= SYMBOLS and has_classes else set())


def _spelled(cell: object) -> str:
    return str(cell).strip()


def _is_infinite(cell: object) -> bool:
    """Also a number that is too large for a float, such as 1e999."""
    number = number_of(cell)
    return number is not None and math.isinf(number)
