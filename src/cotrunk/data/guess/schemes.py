"""The scheme by which tags mark entities: ``bio``, ``iob1``, an unsupported one, or none."""

import re
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from cotrunk.kinds.spans import OUTSIDE, faults, prefix_and_type

ENTITY = re.compile("[BI]-.")
AS_BIO = {"BIOES": {"S": "B", "E": "I"}, "BILOU": {"U": "B", "L": "I"}}
"""Unsupported schemes that also mark the ends of entities: extra letter -> letter in ``bio``."""


class TagScheme(NamedTuple):
    """``misfits``: the number of rows that break the scheme."""

    name: Literal["bio", "iob1", "plain"]
    misfits: int = 0


def scheme_of(rows: Sequence[Sequence[str]]) -> TagScheme:
    """In ``iob1`` an entity starts with I-, and with B- only right after one of the same type.

    Tags that fit neither are ``bio`` with mistakes, unless most rows have a mistake.
    """
    tags = {tag for row in rows for tag in row} - {OUTSIDE}
    if not tags or not all(map(ENTITY.match, tags)):
        return TagScheme("plain")
    misfits = sum(any(faults(row, "bio")) for row in rows)
    if misfits and (2 * misfits > len(rows) or not any(map(_starts_with_b, rows))):
        return TagScheme("iob1")
    return TagScheme("bio", misfits)


def other_scheme(tags: Collection[str]) -> str | None:
    """The name of a scheme that is not supported, if these are all its tags; else None."""
    for name, letters in AS_BIO.items():
        entity = re.compile(f"[BI{''.join(letters)}]-.")
        inside = [tag for tag in tags if tag != OUTSIDE]
        marks_ends = any(tag[0] in letters for tag in inside if tag)
        if OUTSIDE in tags and marks_ends and all(map(entity.match, inside)):
            return name
    return None


def _starts_with_b(tags: Sequence[str]) -> bool:
    """Whether a B- starts an entity that is not right after one of the same type."""
    pairs = zip((OUTSIDE, *tags), tags, strict=False)
    return any(tag[0] == "B" and prefix_and_type(before)[1] != tag[2:] for before, tag in pairs)
