"""Selecting places by text, as in ``"embeddings, layers 1-3, heads sst"``."""

import re
from collections.abc import Sequence

from cotrunk.errors import UserError, did_you_mean
from cotrunk.model.sharing.place import Place
from cotrunk.model.sharing.plan import Plan

ENCODER = "encoder"
"""All places that published weights include."""
NUMBERS = re.compile(r"(\d{1,4})(?:\s*-\s*(\d{1,4}))?")


def select(text: str, plan: Plan, *, place: str) -> tuple[Place, ...]:
    """The places that ``text`` names; layers are counted from 1, as in ``cotrunk plan``.

    ``place`` starts the line of an error: the setting and its text.
    """
    chosen: dict[str, Place] = {}
    for item in text.split(","):
        word, _, which = item.strip().partition(" ")
        found = _part(word, plan, place=place)
        if which.strip():
            found = _some(word, which.strip(), found, place=place)
        chosen |= {each.name: each for each in found}
    return tuple(each for each in plan.places if each.name in chosen)


def _part(word: str, plan: Plan, *, place: str) -> list[Place]:
    if word == ENCODER:
        return [each for each in plan.places if each.pretrained]
    found = [each for each in plan.places if each.part == word]
    if not found:
        parts = [ENCODER, *dict.fromkeys(each.part for each in plan.places)]
        raise UserError(
            f"{place}: {word!r} is not a part of this plan; "
            f"parts are {', '.join(parts)}{did_you_mean(word, parts)}"
        )
    return found


def _some(word: str, which: str, places: Sequence[Place], *, place: str) -> list[Place]:
    """``layers 1-3`` or ``heads sst``."""
    if all(each.acts == "head" for each in places):
        return _head(word, which, places, place=place)
    numbered = {each.depth + 1: each for each in places if each.depth is not None}
    if word == ENCODER or not numbered:
        raise UserError(f"{place}: {word!r} has no numbers; write only {word!r}")
    every = _span(min(numbered), max(numbered))
    numbers = NUMBERS.fullmatch(which)
    first, last = (int(numbers[1]), int(numbers[2] or numbers[1])) if numbers else (1, 0)
    if first > last:
        raise UserError(
            f"{place}: {which!r} is not a number or range; write for example '{word} {every}'"
        )
    absent = [number for number in range(first, last + 1) if number not in numbered]
    if absent:
        raise UserError(
            f"{place}: this plan has {word} {every}, but no number {absent[0]}; name some of these"
        )
    return [numbered[number] for number in range(first, last + 1)]


def _head(word: str, task: str, places: Sequence[Place], *, place: str) -> list[Place]:
    owners = {name: each for each in places for group in each.partition for name in group}
    if task not in owners:
        raise UserError(
            f"{place}: {task!r} is not a task with {word}; "
            f"tasks are {', '.join(owners)}{did_you_mean(task, owners)}"
        )
    return [owners[task]]


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
