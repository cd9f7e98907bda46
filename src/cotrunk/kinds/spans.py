"""Entities from the tags of words, and the checks of tags.

Entities are those of conlleval and of seqeval's default mode: an I- tag that continues nothing
starts an entity, because predictions contain such tags. So ``bio`` and ``iob1`` are read the same
way; only ``faults`` tells them apart. On valid tags, seqeval's strict mode finds the same entities.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from cotrunk.errors import shown

Scheme = Literal["bio", "iob1"]
OUTSIDE = "O"
UNTYPED = "_"
"""The type of a bare B or I, as in seqeval."""


class Span(NamedTuple):
    """An entity: the words ``start`` to ``end - 1``, counted from 0."""

    start: int
    end: int
    type: str


class TagFault(NamedTuple):
    """An invalid tag; ``word`` is counted from 0."""

    word: int
    rule: str
    found: str


@lru_cache(maxsize=10_000)
def prefix_and_type(tag: str) -> tuple[str, str]:
    """``("B", "PER")`` for B-PER, ``("O", "")`` for O, ``("", "")`` for an invalid tag."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, entity = tag.partition("-")
    if prefix not in ("B", "I") or (dash and not entity):
        return "", ""
    return prefix, entity or UNTYPED


def spans(tags: Iterable[str]) -> list[Span]:
    """Entities in order; invalid tags count as O."""
    found: list[Span] = []
    end, type_ = 0, ""
    for word, tag in enumerate(tags):
        prefix, entity = prefix_and_type(tag)
        if not entity:
            continue
        if prefix == "I" and end == word and type_ == entity:
            found[-1] = Span(found[-1].start, word + 1, entity)
        else:
            found.append(Span(word, word + 1, entity))
        end, type_ = word + 1, entity
    return found


def faults(tags: Sequence[str], scheme: Scheme) -> Iterator[TagFault]:
    """Under ``iob1`` tags may come in any order, even a B- tag that separates nothing."""
    end, type_ = 0, ""
    for word, tag in enumerate(tags):
        prefix, entity = prefix_and_type(tag)
        if not prefix:
            rule = f"under scheme {scheme} a tag must be O, B-TYPE or I-TYPE"
            yield TagFault(word, rule, shown(tag))
        if scheme == "bio" and prefix == "I" and not (end == word and type_ == entity):
            after = f"after {shown(tags[word - 1])}" if word else "at the start"
            rule = "under scheme bio an I- tag must continue an entity"
            yield TagFault(word, rule, f"{shown(tag)} {after}")
        if entity:
            end, type_ = word + 1, entity
