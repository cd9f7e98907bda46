"""The kind of a task by the column of its labels."""

from collections.abc import Sequence
from typing import NamedTuple

from cotrunk.data.guess.columns import Column
from cotrunk.kinds.binary import PAIRS

FEW_CLASSES = 3
"""So few whole numbers are classes even if they are written like 2.0."""
SCALES = (
    *((0, 1), (0, 4), (0, 5), (0, 10), (0, 100)),
    *((1, 5), (1, 7), (1, 10)),
    *((-1, 1), (-2, 2), (-3, 3), (-5, 5)),
)
"""Usual scales of scores. Numbers that fit none have no range: later labels may lie outside."""
COVERED = 0.75
"""Numbers fit a scale if they lie in it and span so much of it."""


class LabelKind(NamedTuple):
    """Its name, what was seen, its keys and a remark; the name is "" if it is no label."""

    name: str
    why: str
    options: dict[str, object]
    remark: str = ""


def kind_of(column: Column) -> LabelKind:
    if column.role == "set" and column.separator:
        why = f"names joined by {column.separator!r}: {listed(column.values)}"
        keys: dict[str, object] = {"classes": list(column.values), "separator": column.separator}
        return LabelKind("multilabel", why, keys)
    if column.role in ("words", "set") and column.values:
        why = f"lists of names: {listed(column.values)}"
        return LabelKind("multilabel", why, {"classes": list(column.values)})
    if column.role == "category" and _means_yes_or_no(column.values):
        return LabelKind("binary", f"{' or '.join(column.values)}", {})
    if column.role == "category" and column.distinct > 1:
        why = f"{len(column.values)} different values"
        return LabelKind("classes", why, {"classes": list(column.values)})
    if column.role == "number" and column.distinct > 1:
        return _kind_of_numbers(column)
    return LabelKind("", "", {})


def _means_yes_or_no(values: Sequence[str]) -> bool:
    """Whether a column has both words of a pair that every binary task understands."""
    return {value.strip().lower() for value in values} in map(set, PAIRS)


def _kind_of_numbers(column: Column) -> LabelKind:
    if column.values == ("0", "1"):
        return LabelKind("binary", "0 or 1", {})
    if column.values and column.values == tuple(map(str, range(len(column.values)))):
        why = f"whole numbers 0..{column.high:g}"
        return LabelKind("classes", why, {"classes": len(column.values)})
    if column.values and column.is_spelled_whole:
        why = f"{len(column.values)} different whole numbers"
        return LabelKind("classes", why, {"classes": list(column.values)})
    if _are_classes_as_floats(column):
        why = f"{len(column.values)} different whole numbers, written like {column.spellings[0]}"
        return LabelKind("classes", why, {"classes": list(column.spellings)})
    why = f"numbers from {column.low:g} to {column.high:g}"
    scale = _scale_of(column.low, column.high)
    remarks = ["for classes, write these whole numbers without a decimal point"]
    remarks = remarks if column.values else []
    if scale is None:
        return LabelKind("score", why, {}, "; ".join([*remarks, "no range: any number is allowed"]))
    return LabelKind("score", why, {"range": list(scale)}, "; ".join(remarks))


def _scale_of(low: float, high: float) -> tuple[int, int] | None:
    """The narrowest usual scale that the numbers fit; of two, the one that starts nearer to them.

    The labels of a file need not reach the ends of their scale, so these are not the ends.
    """
    fitting = [
        (first, last)
        for first, last in SCALES
        if first <= low and high <= last and high - low >= COVERED * (last - first)
    ]
    return min(fitting, key=lambda scale: (scale[1] - scale[0], low - scale[0]), default=None)


def _are_classes_as_floats(column: Column) -> bool:
    """Whole numbers become 2.0 where a column with gaps is kept as floating-point numbers."""
    few = len(column.spellings) <= FEW_CLASSES
    had_gaps = column.empty > 0 and all(cell.endswith(".0") for cell in column.spellings)
    return bool(column.spellings) and (few or had_gaps)


def listed(values: Sequence[str]) -> str:
    return ", ".join(values[:8]) + (", ..." if len(values) > 8 else "")
