"""Whether two tasks read their labels in the same way, and if not, what differs."""

from collections.abc import Mapping

from cotrunk.kinds.kind import Kind


def reading_difference(one: Kind, other: Kind) -> str:
    """The options of two kinds that read labels differently; "" if they read them alike."""
    if one.reading_key() == other.reading_key():
        return ""
    if type(one) is not type(other):
        return "they are of different kinds"
    mine, its = _options(one), _options(other)
    different = [key for key in mine if mine[key] != its.get(key)]
    shown = [f"{key} = {_short(mine[key])} against {_short(its.get(key))}" for key in different]
    return f"their labels are read differently: {', '.join(shown)}"


def _options(kind: Kind) -> Mapping[str, object]:
    _, *options = kind.reading_key()
    return {
        key: value for each in options if isinstance(each, Mapping) for key, value in each.items()
    }


def _short(value: object) -> str:
    if value is None or value == ():
        return "not set"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
