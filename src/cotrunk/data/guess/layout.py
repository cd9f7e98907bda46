"""The layout of a text file: its delimiter, and whether it is a table, plain text or CoNLL."""

import csv
from collections.abc import Iterable, Sequence
from contextlib import suppress

from cotrunk.data.reading.conll import BLANKS, DOCUMENT_START
from cotrunk.data.reading.formats import DELIMITERS

LONGEST_LINE = 10_000
MOST_COLUMNS = 5
"""Tagged words have no more columns; with more, words that are alone in their line look alike."""
Numbered = tuple[int, str]
"""A line that is not blank, with its number."""


def is_table(lines: Sequence[str]) -> bool:
    """Whether nine of ten lines have as many cells as the first, which has several."""
    return any(_has_one_width(lines, delimiter) for delimiter in DELIMITERS)


def _has_one_width(lines: Sequence[str], delimiter: str) -> bool:
    widths = [len(next(csv.reader([line[:LONGEST_LINE]], delimiter=delimiter))) for line in lines]
    return widths[0] > 1 and widths.count(widths[0]) >= 0.9 * len(widths)


def header_of(lines: Sequence[str]) -> list[str]:
    """The header by the delimiter that gives most rows its width, which is above 1; else empty.

    If several give as many, the one with most columns is meant.
    """
    headers = [next(csv.reader(lines[:1], delimiter=delimiter)) for delimiter in DELIMITERS]
    fitting = [
        (_rows_of_width(len(header), lines[1:], delimiter), len(header))
        for header, delimiter in zip(headers, DELIMITERS, strict=True)
    ]
    rows, _ = best = max(fitting)
    return headers[fitting.index(best)] if rows else []


def _rows_of_width(width: int, lines: Sequence[str], delimiter: str) -> int:
    found = 0
    with suppress(csv.Error):  # the rows above the error are still a measure
        for row in csv.reader((f"{line}\n" for line in lines), delimiter=delimiter):
            found += len(row) == width > 1
    return found


def is_conll(lines: Iterable[Numbered]) -> bool:
    """Whether each line is a word and its tags, with blank lines between sentences."""
    words = list(lines)
    if any(line.startswith(DOCUMENT_START) for _, line in words):
        return True
    widths = {_width(line) for _, line in words}
    if len(widths) != 1 or not 2 <= min(widths) <= MOST_COLUMNS:
        return False
    above = [number - place for place, (number, _) in enumerate(words)]  # blank lines so far
    return 1 < len(set(above)) < len(words) / 2


def _width(line: str) -> int:
    """How many cells a line has that are single words; 0 if some are not."""
    cells = line.split("\t") if "\t" in line else BLANKS.split(line.strip())
    return len(cells) if all(cell.strip() and " " not in cell.strip() for cell in cells) else 0
