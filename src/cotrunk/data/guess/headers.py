"""Detects a table without a header, whose first row is data."""

from collections.abc import Sequence

from cotrunk.data.guess.columns import FEW_WORDS, Column, word_count
from cotrunk.data.guess.dates import is_date
from cotrunk.errors import UserError, shown
from cotrunk.numbers import has_decimal_comma, is_amount, number_of


def refuse_data_as_header(columns: Sequence[Column], *, place: str) -> None:
    """Refuse a header that looks like a row of data.

    That is one in which no cell is clearly a name, and some are labels of their columns or all look
    like data.
    """
    seen = [(column, _looks_like_data(column)) for column in columns]
    labels = [column.name for column, is_data in seen if is_data and column.role != "text"]
    has_name = any(is_data is False for _, is_data in seen)
    if not has_name and (labels or all(is_data for _, is_data in seen)):
        found = shown([*labels, columns[0].name][0])
        raise UserError(
            f"{place}: the first row looks like data, not like names of columns; found {found}; "
            "put a line with a name for each column above it, such as text,label"
        )


def _looks_like_data(column: Column) -> bool | None:
    """None: it may be either. A column called "spam" may hold spam and ham."""
    name = column.name.strip()
    if column.role == "text":
        words = word_count(name)
        return True if words > FEW_WORDS else None if words > 1 else False
    if column.role in ("number", "counter"):
        return number_of(name) is not None or None
    if column.role == "decimal commas":
        return has_decimal_comma(name) or number_of(name) is not None or None
    if column.role == "amounts":
        return is_amount(name) or number_of(name) is not None or None
    if column.role == "date":
        return is_date(name) or None
    parts = name.split(column.separator) if column.separator else [name]
    return {part.strip() for part in parts} <= set(column.values) or None
