"""CoNLL files: one word per line with its columns, blank lines between sentences."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from cotrunk.data.reading.cells import character_fault, encoding_fault
from cotrunk.data.reading.encodings import UTF8
from cotrunk.data.reading.formats import LONGEST_CELL, Fault, Record, Table
from cotrunk.errors import UserError, plural

SNIFFED_LINES = 1000
LONGEST_SENTENCE = 10_000
DOCUMENT_START = "-DOCSTART-"
COMMENT = "# "
BLANKS = re.compile("[ \t]+")

Split = Callable[[str], list[str]]
Numbered = tuple[int, str]
"""A line with its number, counted from 1."""


def read_conll(
    text: Iterable[str],
    place: str,
    *,
    columns: Sequence[str] = (),
    words: str | None = None,
    encoding: str = UTF8,
) -> Table:
    """One record per sentence, at the line of its first word; a cell is a list of words or tags.

    ``columns`` names the columns; the default is "tokens", "column2", ..., "tags". Columns are
    separated by tabs if the first line has one, else by blanks. ``words``: the one of ``columns``
    that a file may have alone.
    """
    lines = enumerate(text, 1)
    opening = list(islice(lines, SNIFFED_LINES))
    number, first = _first_word(opening, place)
    split = _by_tabs if "\t" in first else _by_blanks
    width = len(split(first))
    if width == 1 and words is not None and words in columns:
        columns = [words]
    if columns and len(columns) != width:
        raise UserError(f"{place}:{number}: {_other_columns(columns, width, words)}")
    names = list(columns) or _usual_names(width)

    def select(wanted: Sequence[str]) -> Iterator[Record]:
        chosen = [names.index(name) for name in wanted]
        for line, words in _sentences(chain(opening, lines), split, width, encoding):
            if isinstance(words, Fault):
                yield line, words
            else:
                yield line, tuple([word[column] for word in words] for column in chosen)

    return Table(place, names, line=0, numbered=True, select=select, word_per_line=True)


def _first_word(opening: Sequence[Numbered], place: str) -> Numbered:
    """The line that shows how columns are separated; "# O" could be a word or a comment."""
    words = [entry for entry in opening if not _is_break(entry[1])]
    certain = [entry for entry in words if not entry[1].startswith(COMMENT)]
    if not words:
        rest = f" in its first {SNIFFED_LINES:,} lines" if len(opening) == SNIFFED_LINES else ""
        raise UserError(f"{place}: the file has no sentence{rest}")
    return (certain or words)[0]


def _other_columns(columns: Sequence[str], width: int, words: str | None) -> str:
    named = f"columns lists {plural(len(columns), 'name')} ({', '.join(columns)})"
    fix = (
        f"give all of them, or {words} alone"
        if words in columns
        else "name all columns of the file"
    )
    return f"{named}, but this line has {plural(width, 'column')}; {fix}"


def _usual_names(width: int) -> list[str]:
    if width == 1:  # words to be tagged
        return ["tokens"]
    return ["tokens", *(f"column{number}" for number in range(2, width)), "tags"]


def _sentences(
    lines: Iterable[Numbered], split: Split, width: int, encoding: str
) -> Iterator[tuple[int, list[list[str]] | Fault]]:
    """A fault makes the whole sentence faulty; the record is at the line of the first fault."""
    start, words = 0, list[list[str]]()
    fault: tuple[int, Fault] | None = None
    for number, line in chain(lines, [(0, "")]):
        if _is_break(line):
            if start:
                yield fault or (start, words)
            start, words, fault = 0, [], None
            continue
        cells = split(line)
        # "#" can be a word, so a comment must be above a sentence and not have all columns.
        if not start and line.startswith(COMMENT) and len(cells) != width:
            continue
        start = start or number
        if fault is None and (wrong := _fault(line, cells, width, encoding, above=len(words))):
            fault = number, wrong
        elif fault is None:
            words.append(cells)


def _is_break(line: str) -> bool:
    return line.startswith(DOCUMENT_START) or not line.strip(" \t\r\n")


def _by_tabs(line: str) -> list[str]:
    return line.rstrip("\r\n").split("\t")


def _by_blanks(line: str) -> list[str]:
    # Not str.split(): a no-break space is part of a word.
    return BLANKS.split(line.strip(" \t\r\n"))


def _fault(
    line: str, cells: Sequence[str], width: int, encoding: str, *, above: int
) -> Fault | None:
    if len(cells) != width:
        rule = f"a line must have {plural(width, 'column')}, as the first has"
        return Fault(f"{rule}; found {len(cells):,}")
    if above == LONGEST_SENTENCE:
        hint = "is the blank line between sentences missing?"
        return Fault(f"a sentence must not exceed {LONGEST_SENTENCE:,} words ({hint})")
    if len(line) > LONGEST_CELL:
        return Fault(f"a line must not exceed {LONGEST_CELL:,} characters; found {len(line):,}")
    if reason := character_fault(line, encoding, what="line"):
        return Fault(reason, is_undecoded=encoding_fault(line, encoding) is not None)
    empty = next((column for column, cell in enumerate(cells, 1) if not cell.strip()), None)
    return Fault(f"column {empty} is empty") if empty else None
