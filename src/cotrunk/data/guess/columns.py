"""Guesses from the cells of a column, not from its name, if it has texts, labels or ids."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

from cotrunk.data.guess.dates import is_date
from cotrunk.data.guess.lists import PYTHON_LIST, json_lists
from cotrunk.data.guess.markers import without_markers
from cotrunk.data.guess.schemes import scheme_of
from cotrunk.numbers import has_decimal_comma, is_amount, number_of

MOST_CLASSES, MOST_NUMBERED = 200, 20
"""The most distinct values, and the most distinct whole numbers, that can be classes."""
MOST_SENTENCES, ROWS_PER_SENTENCE = 20, 10
"""So few distinct texts, that occur this often on average, may be classes beside another text."""
ROWS_PER_CLASS, ROWS_PER_RARE_CLASS = 2, 3
"""Values are classes only if they occur this often on average; the second if there are over 20."""
FEW_WORDS, MANY_WORDS = 2.5, 6.0
"""A text has more than FEW_WORDS on average; repeated texts of MANY_WORDS are still texts."""
SEPARATORS = "|;,"
WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
PADDED = re.compile(r"\s*[+-]?0\d+\s*", re.ASCII)
"""Whole numbers with leading zeros, such as 007, are names."""
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""Letters of scripts without blanks between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
LETTERS_PER_WORD = 2
Role = Literal[
    "text",
    "words",
    "number",
    "decimal commas",
    "amounts",
    "category",
    "set",
    "id",
    "counter",
    "date",
    "object",
    "objects",
    "numbers",
    "Python lists",
    "empty",
    "unknown",
]


@dataclass(frozen=True)
class Column:
    """``values`` are its distinct values, in order; empty if there are too many to be labels.

    ``filled`` counts the cells with content, ``blank`` the empty strings; other cells are missing.
    ``low`` and ``high`` are the range of numbers; ``is_spelled_whole``: none is written like 2.0.
    ``separator`` separates the classes of a set; ``words`` is the mean number of words in a cell.
    For lists, ``lengths`` has the length of each row, ``scheme`` is their scheme if they are tags,
    and ``misfits`` counts the rows that break it. ``markers`` such as NA stand in ``marked`` cells,
    which are not ``filled``; ``empty`` cells are blank or missing. ``rare`` are the values that may
    be classes and are in a single row. ``spellings`` are those of the numbers in ``values``, if
    they are strings and each has one. A text has ``values`` if it is a class beside another text.
    """

    name: str
    role: Role
    filled: int
    distinct: int
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_spelled_whole: bool = False
    separator: str = ""
    words: float = 0.0
    lengths: tuple[int, ...] = ()
    scheme: str = ""
    misfits: int = 0
    blank: int = 0
    markers: tuple[str, ...] = ()
    marked: int = 0
    rare: tuple[str, ...] = ()
    empty: int = 0
    spellings: tuple[str, ...] = ()

    @property
    def may_be_label(self) -> bool:
        """An empty column may have labels further down."""
        has_values = self.role in ("words", "text") and bool(self.values)
        return has_values or self.role in ("number", "category", "set", "empty")


def column_of(name: str, cells: Sequence[Any]) -> Column:
    filled = [cell for cell in cells if not is_empty(cell)]
    empty = len(cells) - len(filled)
    blank = empty - sum(cell is None for cell in cells)
    values, marked = without_markers(filled)
    markers = tuple(marker for marker, _ in marked.most_common())
    found = _described(name, cells, values)
    return replace(found, blank=blank, markers=markers, marked=marked.total(), empty=empty)


def with_repeated_texts(columns: Sequence[Column]) -> list[Column]:
    """Texts that repeat like classes are categories if there is another text."""
    texts = [column for column in columns if column.role == "text"]
    if all(column.values for column in texts):
        return list(columns)
    repeated = [column for column in texts if column.values]
    return [replace(c, role="category") if c in repeated else c for c in columns]


def _described(name: str, cells: Sequence[Any], filled: Sequence[Any]) -> Column:
    if not filled:
        return Column(name, "empty", 0, 0)
    if all(isinstance(cell, list) for cell in filled):
        lengths = tuple(0 if is_empty(cell) else len(cell) for cell in cells)
        return replace(_of_lists(name, filled), lengths=lengths)
    if all(isinstance(cell, dict) for cell in filled):
        return Column(name, "object", len(filled), 0)
    if not all(isinstance(cell, str | int | float) for cell in filled):
        return Column(name, "unknown", len(filled), 0)
    written = [_spelled(cell) for cell in filled]
    numbers = [number_of(cell) for cell in filled]
    if all(number is not None for number in numbers):
        found = _of_numbers(name, written, [number for number in numbers if number is not None])
        return replace(found, spellings=_spellings(filled) if found.values else ())
    if all(number_of(cell) is not None or is_amount(cell) for cell in filled):
        found = _of_texts(name, written)  # few different amounts are classes
        if found.role == "id":
            return Column(name, "amounts", len(written), len(set(written)))
    if all(number_of(cell) is not None or has_decimal_comma(cell) for cell in filled):
        return Column(name, "decimal commas", len(written), len(set(written)))
    if all(map(is_date, written)):
        return Column(name, "date", len(written), len(set(written)))
    if (lists := json_lists(written)) is not None:
        names = [part for cell in lists for part in cell]
        return Column(
            name, "set", len(written), len(set(written)), values=tuple(sorted(set(names)))
        )
    if all(map(PYTHON_LIST.fullmatch, written)) and len(set(written)) > 1:
        return Column(name, "Python lists", len(written), len(set(written)))
    return _of_texts(name, written)


def _spellings(cells: Sequence[Any]) -> tuple[str, ...]:
    """Each number as it is spelled, in order; none if a number is not a string, or has several."""
    spelled = {cell for cell in cells if isinstance(cell, str)}
    numbers = {number_of(cell) for cell in cells}
    if len(spelled) != len(numbers) or not all(isinstance(cell, str) for cell in cells):
        return ()
    return tuple(sorted(spelled, key=float))


def _of_numbers(name: str, written: list[str], numbers: list[float]) -> Column:
    distinct = len(set(numbers))
    is_whole = all(number.is_integer() for number in numbers)
    is_counter = is_whole and distinct == len(numbers) > 2
    is_spelled_whole = all(WHOLE.fullmatch(cell) for cell in written)
    if is_spelled_whole and not is_counter and any(map(PADDED.fullmatch, written)):
        return _of_texts(name, written)
    ordered = sorted(set(numbers)) if is_whole and distinct <= MOST_NUMBERED else []
    return Column(
        name,
        "counter" if is_counter else "number",
        len(numbers),
        distinct,
        values=tuple(str(int(number)) for number in ordered),
        low=min(numbers),
        high=max(numbers),
        is_spelled_whole=is_spelled_whole,
        rare=_rare(str(int(number)) for number in numbers) if ordered else (),
    )


def _of_texts(name: str, written: list[str]) -> Column:
    role: Role
    values: tuple[str, ...]
    distinct = set(written)
    words = sum(map(word_count, written)) / len(written)
    separator = _separator(written) if words < MANY_WORDS else ""
    names = distinct
    if separator:
        names = {part.strip() for cell in distinct for part in cell.split(separator)}
    if words < MANY_WORDS and _may_be_classes(names, len(written)):
        values, role = tuple(sorted(names)), "set" if separator else "category"
    else:
        values, role, separator = (), "text" if words > FEW_WORDS else "id", ""
        if role == "text" and _repeats(distinct, len(written)):
            values = tuple(sorted(distinct))
    parts = ({x.strip() for x in cell.split(separator)} for cell in written) if separator else ()
    rare = _rare(chain.from_iterable(parts) if separator else written) if values else ()
    return Column(
        name,
        role,
        len(written),
        len(distinct),
        values,
        separator=separator,
        words=words,
        rare=rare,
    )


def _rare(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(value for value, count in Counter(values).items() if count == 1))


def _repeats(texts: set[str], rows: int) -> bool:
    return len(texts) <= MOST_SENTENCES and ROWS_PER_SENTENCE * len(texts) <= rows


def _may_be_classes(values: set[str], rows: int) -> bool:
    needed = ROWS_PER_CLASS if len(values) <= MOST_NUMBERED else ROWS_PER_RARE_CLASS
    return len(values) <= MOST_CLASSES and needed * len(values) <= rows


def word_count(text: str) -> float:
    """Scripts without blanks between words are counted by letters."""
    letters = 0 if text.isascii() else len(UNSPACED.findall(text))
    if not letters:
        return len(text.split())
    return letters / LETTERS_PER_WORD + len(UNSPACED.sub(" ", text).split())


def _separator(written: Sequence[str]) -> str:
    """What separates the names of a set, if splitting gives fewer values; else ""."""
    for separator in SEPARATORS:
        joined = [cell for cell in written if separator in cell]
        parts = Counter(part.strip() for cell in written for part in cell.split(separator))
        gives_fewer = joined and "" not in parts and len(parts) < len(set(written))
        if gives_fewer and max(map(word_count, parts)) <= FEW_WORDS:
            return separator
    return ""


def _of_lists(name: str, cells: Sequence[list[Any]]) -> Column:
    parts = [part for cell in cells for part in cell]
    if not all(isinstance(part, str) for part in parts):
        is_number = all(isinstance(part, int | float) for part in parts)
        is_object = all(isinstance(part, dict) for part in parts)
        role: Role = "numbers" if is_number else "objects" if is_object else "unknown"
        return Column(name, role, len(cells), 0)
    distinct = set(parts)
    if len(distinct) > MOST_CLASSES:
        return Column(name, "words", len(cells), len(distinct))
    scheme, misfits = scheme_of(cells)
    values = tuple(sorted(distinct))
    rare = _rare(chain.from_iterable(map(set, cells)))
    return Column(
        name,
        "words",
        len(cells),
        len(distinct),
        values,
        scheme=scheme,
        misfits=misfits,
        rare=rare,
    )


def is_empty(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _spelled(cell: str | float) -> str:
    """Booleans as JSON writes them, because only JSON lines have any."""
    if isinstance(cell, bool):
        return json.dumps(cell)
    return cell if isinstance(cell, str) else repr(cell)
