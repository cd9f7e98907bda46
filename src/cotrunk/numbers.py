"""Numbers as a user writes them."""

import re

ANY_DIGIT = re.compile("[1-9]")


def exact_float(text: str) -> float:
    """``float``, but a number that is not 0 never becomes 0."""
    value = float(text)
    if value == 0 and ANY_DIGIT.search(re.split("[eE]", text)[0]):
        raise ValueError(f"the number {text} is too small: it would be read as 0")
    return value
