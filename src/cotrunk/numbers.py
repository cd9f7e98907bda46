"""Numbers as a user writes them."""

import math
import re

ANY_DIGIT = re.compile("[1-9]")
# Stricter than float(), which also accepts "1_000", "nan" and the digits of other scripts.
NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*", re.ASCII)
CURRENCY = "(?:[$¢£¤¥\u20a0-\u20cf]|EUR|USD|GBP|CHF|JPY|CNY|INR)"
GROUPED = "[1-9]\\d{0,2}(?:[,.'\u2019 \u00a0\u202f]\\d{3})+"
AMOUNT = re.compile(
    rf"\s*[+-]?\s*{CURRENCY}\s*[+-]?(?:{GROUPED}|\d+)(?:[.,]\d+)?\s*"
    rf"|\s*[+-]?(?:{GROUPED}|\d+)(?:[.,]\d+)?\s*{CURRENCY}\s*"
    rf"|\s*[+-]?{GROUPED}(?:[.,]\d+)?\s*",
    re.ASCII,
)
LONGEST_NUMBER = 100


def exact_float(text: str) -> float:
    """``float``, but a number that is not 0 never becomes 0."""
    value = float(text)
    if value == 0 and ANY_DIGIT.search(re.split("[eE]", text)[0]):
        raise ValueError(f"the number {text} is too small: it would be read as 0")
    return value


def number_of(raw: object) -> float | None:
    """A cell as a number, or None if it is not one."""
    if isinstance(raw, str):
        return _float_of(raw) if len(raw) <= LONGEST_NUMBER and NUMBER.fullmatch(raw) else None
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    try:
        return float(raw)
    except OverflowError:
        return math.inf


def has_decimal_comma(raw: object) -> bool:
    return isinstance(raw, str) and DECIMAL_COMMA.fullmatch(raw) is not None


def is_amount(raw: object) -> bool:
    """Whether a cell is a number with a currency or thousands separators, such as €1,234.50."""
    if not isinstance(raw, str) or len(raw) > LONGEST_NUMBER or number_of(raw) is not None:
        return False
    return AMOUNT.fullmatch(raw) is not None


def _float_of(text: str) -> float | None:
    try:
        return exact_float(text)
    except ValueError:
        return None
