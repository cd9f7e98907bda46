"""A label as it stands in a file -> the float a task is trained on, or the reason why not."""

import math
import re
from collections.abc import Sequence

from cotrunk.errors import did_you_mean
from cotrunk.kinds.task import Task

# Narrower than float(), which also takes "1_000", "nan" and the digits of other scripts.
NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
LONGEST_NUMBER = 100
BOOLEANS = {"true": 1.0, "false": 0.0}


def read_label(task: Task, raw: object) -> float:
    """Class index, 0 or 1, or score, never rounded; a ``ValueError`` says rule and finding."""
    if task.kind == "classes":
        return _class(task.classes, raw)
    if task.kind == "binary":
        return _binary(raw)
    return _score(task, raw)


def shown(value: object, longest: int = 60) -> str:
    """What was found, on one printable line."""
    if isinstance(value, str):
        return repr(value) if len(value) <= longest else f"{value[:longest]!r}... (cut)"
    if value is None or isinstance(value, bool | int | float):
        found = "nothing" if value is None else repr(value)
        return found if len(found) <= longest else f"{found[:longest]}... (cut)"
    return f"a value of type {type(value).__name__}"


def _class(classes: Sequence[str], raw: object) -> float:
    if isinstance(raw, str) and raw in classes:
        return float(classes.index(raw))
    numbered = list(classes) == [str(index) for index in range(len(classes))]
    value = _number(raw)
    if numbered and value is not None and math.isfinite(value):
        if not value.is_integer():
            raise ValueError(
                f"a class must be a whole number, and is never rounded; found {shown(raw)}"
            )
        if 0 <= value < len(classes):
            return value
    if type(raw) is int and str(raw) in classes:
        return float(classes.index(str(raw)))
    if numbered:
        raise ValueError(f"a class must be one of 0..{len(classes) - 1}; found {shown(raw)}")
    listed = ", ".join(repr(name) for name in classes[:20]) + (", ..." if len(classes) > 20 else "")
    hint = did_you_mean(raw, classes) if isinstance(raw, str) else ""
    raise ValueError(f"a class must be one of {listed}; found {shown(raw)}{hint}")


def _binary(raw: object) -> float:
    if isinstance(raw, bool):
        return float(raw)
    if isinstance(raw, str) and raw.strip().lower() in BOOLEANS:
        return BOOLEANS[raw.strip().lower()]
    value = _number(raw)
    if value not in (0.0, 1.0):
        raise ValueError(f"a binary label must be 0, 1, true or false; found {shown(raw)}")
    assert value is not None
    return value


def _score(task: Task, raw: object) -> float:
    value = _number(raw)
    if value is None or not math.isfinite(value):
        raise ValueError(f"a score must be a finite number; found {shown(raw)}")
    if not task.low <= value <= task.high:
        raise ValueError(f"a score must lie in {task.low:g}..{task.high:g}; found {shown(raw)}")
    return value


def _number(raw: object) -> float | None:
    if isinstance(raw, str):
        return float(raw) if len(raw) <= LONGEST_NUMBER and NUMBER.fullmatch(raw) else None
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    try:
        return float(raw)
    except OverflowError:
        return math.inf
