"""Whether two tasks read their labels in the same way, and if not, what differs."""

from collections.abc import Mapping
from itertools import zip_longest

from cotrunk.kinds.kind import Kind

LONGEST = 40


def reading_difference(one: Kind, other: Kind) -> str:
    """The options of two kinds that read labels differently; "" if they read them alike."""
    if one.reading_key() == other.reading_key():
        return ""
    if type(one) is not type(other):
        return "they are of different kinds"
    mine, its = _options(one), _options(other)
    different = [key for key in mine if mine[key] != its.get(key)]
    shown = [_against(key, mine[key], its.get(key)) for key in different]
    return f"their labels are read differently: {', '.join(shown)}"


def _against(key: str, mine: object, its: object) -> str:
    """Of long lists only the first difference, which the beginning might not show."""
    is_long = max(len(_text(mine)), len(_text(its))) > LONGEST
    if is_long and isinstance(mine, list | tuple) and isinstance(its, list | tuple):
        pairs = enumerate(zip_longest(mine, its), 1)
        number, (one, other) = next((n, both) for n, both in pairs if both[0] != both[1])
        return f"{key}: number {number} is {_short(one)} against {_short(other)}"
    return f"{key} = {_short(mine)} against {_short(its)}"


def _options(kind: Kind) -> Mapping[str, object]:
    _, *options = kind.reading_key()
    return {
        key: value for each in options if isinstance(each, Mapping) for key, value in each.items()
    }


def _short(value: object) -> str:
    text = _text(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _text(value: object) -> str:
    if value is None or value == ():
        return "not set"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
