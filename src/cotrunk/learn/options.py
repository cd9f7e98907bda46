"""Checks a method's options, which are its keyword parameters, by name and range."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from math import inf

Option = float | str
Range = tuple[float, float]


def wrong_options(
    key: str,
    name: str,
    method: Callable[..., object],
    options: Mapping[str, Option],
    *,
    ranges: Mapping[str, Range],
    words: Mapping[str, tuple[str, ...]],
) -> list[str]:
    """Error lines about options, each starting with ``key``, the setting in [train].

    An option must be a parameter of the method, and one of its words, in its range, or above 0.
    """
    parameters = signature(method).parameters.values()
    known = [option.name for option in parameters if option.kind is Parameter.KEYWORD_ONLY]
    its_options = f"its options are {', '.join(known)}" if known else "it has no options"
    wrong = []
    for option, value in options.items():
        rule = _broken_rule(option, value, ranges, words)
        if option not in known:
            wrong.append(f"{key}: {name} has no option {option!r}; {its_options}")
        elif rule:
            wrong.append(f"{key}.{option} = {value!r} must be {rule}")
    return wrong


def _broken_rule(
    option: str,
    value: Option,
    ranges: Mapping[str, Range],
    words: Mapping[str, tuple[str, ...]],
) -> str:
    if option in words:
        return "" if value in words[option] else " or ".join(words[option])
    if option in ranges:
        low, high = ranges[option]
        fits = not isinstance(value, str) and low <= value <= high
        return "" if fits else f"a number in [{low}, {high}]"
    return "" if not isinstance(value, str) and 0 < value < inf else "a number above 0"
